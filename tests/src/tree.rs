//! The source files of this workspace, for tests that check the code itself.

use std::path::{Path, PathBuf};

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A source file.
#[derive(Debug)]
pub struct Source {
    /// The path from the root of the workspace, with `/` as separator.
    pub path: String,
    /// The content.
    pub text: String,
}

/// Returns the Rust files in a folder, at any depth, sorted by path.
///
/// # Panics
/// Panics if a file is unreadable.
pub fn sources(folder: &str) -> Vec<Source> {
    texts(folder, &["rs"])
}

/// Returns the files in a folder with these extensions, at any depth, sorted by path.
///
/// # Panics
/// Panics if a file is unreadable.
pub fn texts(folder: &str, extensions: &[&str]) -> Vec<Source> {
    let mut files = Vec::new();
    collect(&root().join(folder), folder, extensions, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect(folder: &Path, shown: &str, extensions: &[&str], files: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the entry is readable").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let shown = format!("{shown}/{name}");
        if path.is_dir() {
            if name != "target" {
                collect(&path, &shown, extensions, files);
            }
        } else if extensions
            .iter()
            .any(|it| name.ends_with(&format!(".{it}")))
        {
            let text = std::fs::read_to_string(&path).expect("the file is UTF-8 text");
            files.push(Source { path: shown, text });
        }
    }
}
