//! The files of a folder of recorded cases, and what their names say of their subjects.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// Folders of a corpus, with the subjects in them that don't bear the folder's name: others do, so that the file `sync` in
/// `deployment` has the subject `deployment_sync`.
const FOLDERS: [(&str, &[&str]); 9] = [
    ("cluster", &["eviction", "gc", "namespace", "pdb", "podgc"]),
    ("cronjob", &[]),
    ("daemon", &[]),
    ("deployment", &[]),
    ("hpa", &[]),
    ("http", &["http", "kubectl", "protobuf"]),
    ("job", &[]),
    ("statefulset", &[]),
    ("ttl", &[]),
];

/// A file of cases.
#[derive(Debug)]
pub(super) struct CaseFile {
    pub(super) path: PathBuf,
    /// Its path below the folder that was asked for.
    pub(super) name: String,
    pub(super) subject: String,
}

/// What a file's name up to the first dot says, and the folder it lies in. Digits at the end tell files of one subject
/// apart.
fn subject(path: &Path) -> String {
    let text = |name: Option<&OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    let name = text(path.file_name());
    let name = name.split('.').next().unwrap_or_default();
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let folder = text(path.parent().and_then(Path::file_name));
    match FOLDERS.iter().find(|(known, _)| *known == folder) {
        Some((folder, own)) if !own.contains(&name) => format!("{folder}_{name}"),
        _ => name.to_owned(),
    }
}

/// Every `*.jsonl` and `*.jsonl.gz` in a folder and those below, in the order of their paths.
///
/// # Errors
/// When a folder can't be read, or there are none.
pub(super) fn find(folder: &Path) -> Result<Vec<CaseFile>, String> {
    // `.` has a name too.
    let folder = &folder
        .canonicalize()
        .map_err(|error| unreadable(folder, &error))?;
    let (mut files, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(inner) = folders.pop() {
        let unreadable = |error| unreadable(&inner, &error);
        for entry in std::fs::read_dir(&inner).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let (path, name) = (entry.path(), entry.file_name());
            let name = name.to_string_lossy();
            // Links to folders are not followed: they may lead round in circles.
            if entry.file_type().map_err(unreadable)?.is_dir() {
                folders.push(path);
            } else if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
                files.push(path);
            }
        }
    }
    // Of one folder before those below it, as they have always been.
    files.sort_by_key(|path| (path.components().count(), path.clone()));
    if files.is_empty() {
        return Err(format!("no *.jsonl or *.jsonl.gz in {}", folder.display()));
    }
    let files = files.into_iter().map(|path| CaseFile {
        name: path
            .strip_prefix(folder)
            .unwrap_or(&path)
            .display()
            .to_string(),
        subject: subject(&path),
        path,
    });
    Ok(files.collect())
}

/// The text of a file, unpacked.
///
/// # Errors
/// When it can't be read.
pub(super) fn read(path: &Path) -> Result<String, String> {
    read_text(path).map_err(|error| unreadable(path, &error))
}

/// The cases of a file, to be used in another way than to be run here.
///
/// # Errors
/// When it can't be read, or a line of it.
pub fn read_cases(path: &Path) -> std::io::Result<Vec<Value>> {
    let text = read_text(path)?;
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    Ok(text)
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_is_the_name_of_the_file_and_where_needed_of_its_folder() {
        for (path, wanted) in [
            ("vectors/sync.jsonl", "sync"),
            ("vectors/rc.more.jsonl.gz", "rc"),
            ("vectors/http2.jsonl.gz", "http"),
            ("vectors/deployment_sync.jsonl.gz", "deployment_sync"),
            ("vectors/deployment/sync.jsonl.gz", "deployment_sync"),
            ("vectors/daemon/sync.jsonl.gz", "daemon_sync"),
            ("vectors/cluster/gc.jsonl.gz", "gc"),
            ("vectors/cluster/sync.jsonl.gz", "cluster_sync"),
            ("vectors/http/http2.jsonl.gz", "http"),
            ("http/kubectl.jsonl.gz", "kubectl"),
            ("mine/sync.jsonl", "sync"),
        ] {
            assert_eq!(subject(Path::new(path)), wanted, "{path}");
        }
    }
}
