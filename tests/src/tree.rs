//! The files of this workspace, for tests that look at the code itself.

use std::path::{Path, PathBuf};

/// The root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A source file.
#[derive(Debug)]
pub struct Source {
    /// Its path from the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The Rust files below a folder, sorted by their paths.
///
/// # Panics
/// When one can't be read.
pub fn sources(folder: &str) -> Vec<Source> {
    texts(folder, &["rs"])
}

/// The files below a folder whose names end so, sorted by their paths.
///
/// # Panics
/// When one can't be read.
pub fn texts(folder: &str, extensions: &[&str]) -> Vec<Source> {
    let mut files = Vec::new();
    collect(&root().join(folder), folder, extensions, &mut files);
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

fn collect(folder: &Path, shown: &str, extensions: &[&str], files: &mut Vec<Source>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("it can be read").path();
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
            let text = std::fs::read_to_string(&path).expect("sources are texts");
            files.push(Source { path: shown, text });
        }
    }
}
