//! Writes all objects of a cluster to one file, which `-f` can read.

use std::io::{self, Write};

use podstorm_apiserver::{Cluster, ListOptions};
use podstorm_objects::json::Writer;

/// Writes all objects, in the format of `kubectl get -A -o json`. The objects of a kind are
/// consistent with each other, but the kinds are read one after the other.
///
/// # Errors
/// Writing to `file` fails.
pub fn write_snapshot(cluster: &Cluster, file: &mut dyn Write) -> io::Result<()> {
    file.write_all(b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{},\"items\":[")?;
    let mut out = Writer::new();
    let mut between = "";
    for kind in cluster.kinds() {
        // Skips nothing: every kind that is served can be listed.
        let Ok(page) = cluster.api(kind).list(&ListOptions::default()) else {
            continue;
        };
        for item in page.items {
            out.clear();
            item.write_json(&mut out);
            write!(file, "{between}\n{}", out.as_str())?;
            between = ",";
        }
    }
    file.write_all(b"\n]}\n")
}
