//! The files in a folder of recorded cases, and their subjects, which follow from their names.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

/// The folders of a corpus, each with the subjects that do not begin with the folder's name. All
/// other subjects do: the file `sync` in `deployment` has the subject `deployment_sync`.
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
    /// The path relative to the requested folder.
    pub(super) name: String,
    pub(super) subject: String,
}

/// Returns the subject of a file: its folder and the part of its name before the first dot, without
/// trailing digits, which only distinguish files with the same subject.
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

/// Returns every `*.jsonl` and `*.jsonl.gz` in a folder, at any depth, ordered by path.
///
/// # Errors
/// Fails if a folder is unreadable, or if there are no files.
pub(super) fn find(folder: &Path) -> Result<Vec<CaseFile>, String> {
    // Canonicalize the path, so that `.` has a name, too.
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
            // Do not follow links to folders: they may form cycles.
            if entry.file_type().map_err(unreadable)?.is_dir() {
                folders.push(path);
            } else if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
                files.push(path);
            }
        }
    }
    // Files in a folder come before those in its subfolders.
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

/// Returns the uncompressed text of a file.
///
/// # Errors
/// Fails if the file is unreadable.
pub(super) fn read(path: &Path) -> Result<String, String> {
    read_text(path).map_err(|error| unreadable(path, &error))
}

/// Returns the cases in a file, for uses other than running them.
///
/// # Errors
/// Fails if the file, or a line in it, is unreadable.
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
    fn a_subject_is_the_file_name_with_the_folder_if_needed() {
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
