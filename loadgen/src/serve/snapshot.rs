//! All objects of a cluster in one file, which `-f` reads again.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use podstorm_apiserver::{Cluster, ListOptions};
use podstorm_objects::json::Writer;

/// Writes all objects, in the form of `kubectl get -A -o json`. The file is whole or not there: it is
/// written under another name first. Each kind is as of one moment, and they follow each other.
///
/// # Errors
/// The file can't be written.
pub fn write_snapshot(cluster: &Cluster, path: &Path) -> Result<()> {
    let failed = || format!("--snapshot {}: can't be written", path.display());
    let mut name = path.file_name().with_context(failed)?.to_owned();
    name.push(".part");
    let part = path.with_file_name(name);
    let written = write(cluster, &part).and_then(|()| std::fs::rename(&part, path));
    if written.is_err() {
        // What is left of it helps nobody.
        let _gone = std::fs::remove_file(&part);
    }
    written.with_context(failed)
}

fn write(cluster: &Cluster, path: &Path) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(std::fs::File::create(path)?);
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
    file.write_all(b"\n]}\n")?;
    file.into_inner()?.sync_all()
}
