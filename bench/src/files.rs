//! Files and folders: read with errors that name them, written whole or not at all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use podstorm_loadgen::report::output::{Inputs, Output, OutputError};
use serde_json::Value;

/// Puts a text in the place of a file, or of none. An interruption leaves what was there before; `what` is what
/// errors call the file.
///
/// # Errors
/// A folder, or a place that can't be written.
pub fn write_whole(what: &'static str, path: &Path, text: &str) -> Result<(), OutputError> {
    Output::open(what, path, &Inputs::default())?.write(|file| file.write_all(text.as_bytes()))
}

/// Takes a folder with all that is in it away, if it is there: what an earlier run left must not be taken for
/// this one's.
///
/// # Errors
/// It can't be removed.
pub(crate) fn clear(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("{}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The files of that name below a folder, at any depth; none where there is no such folder.
///
/// # Errors
/// A folder that can't be read.
pub(crate) fn below(folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = Vec::new();
    folders.extend(folder.is_dir().then(|| folder.to_owned()));
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        for entry in entries.with_context(|| format!("{}", folder.display()))? {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if entry.file_name() == name {
                files.push(path);
            }
        }
    }
    Ok(files)
}

/// What a file of JSON holds.
///
/// # Errors
/// It can't be read, or is no JSON.
pub(crate) fn read_json(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_folder_is_found_until_it_is_cleared() {
        let folder = tempfile::tempdir().unwrap();
        let (outer, inner) = (folder.path().join("a"), folder.path().join("a/b"));
        assert!(below(&outer, "x").unwrap().is_empty());
        fs::create_dir_all(&inner).unwrap();
        write_whole("x", &outer.join("x"), "1").unwrap();
        write_whole("x", &inner.join("x"), "2").unwrap();
        write_whole("y", &inner.join("y"), "{").unwrap();
        assert_eq!(below(&outer, "x").unwrap().len(), 2);
        assert_eq!(read_json(&inner.join("x")).unwrap(), 2);
        assert!(format!("{:#}", read_json(&inner.join("y")).unwrap_err()).contains("a/b/y"));
        clear(&outer).unwrap();
        clear(&outer).unwrap();
        assert!(!outer.exists());
    }
}
