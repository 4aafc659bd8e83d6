//! All objects of a cluster in one file, which `-f` reads again.

use std::io::{self, Write};

use podstorm_apiserver::{Cluster, ListOptions};
use podstorm_objects::json::Writer;

/// Writes all objects, in the form of `kubectl get -A -o json`. Each kind is as of one moment, and
/// they follow each other.
///
/// # Errors
/// Those of `file`.
pub fn write_snapshot(cluster: &Cluster, file: &mut dyn Write) -> io::Result<()> {
    file.write_all(b"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"metadata\":{},\"items\":[")?;
    let mut out = Writer::new();
    let mut between = "";
    for kind in cluster.kinds() {
        // A kind that is served has a list.
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
