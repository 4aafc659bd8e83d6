//! Baselines: results saved under a name in a directory, for later runs to be compared with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::load::{self, Loaded};

/// The directory unless another is named.
pub const DIRECTORY: &str = ".loadgen/baselines";

/// A name that is a file's on every system: letters, digits, `-`, `_` and `.` within.
///
/// # Errors
/// Any other text.
pub fn name(text: &str) -> Result<String> {
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > 100 || text.starts_with('.') || !text.bytes().all(safe) {
        bail!("a baseline's name is letters, digits, - and _, and . after the first: main, pr-12");
    }
    Ok(text.to_owned())
}

/// The file of a baseline.
pub fn file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.json"))
}

/// Reads a baseline.
///
/// # Errors
/// There is none of that name, or its file holds no results.
pub fn read(directory: &Path, name: &str) -> Result<Vec<Loaded>> {
    let file = file(directory, name);
    if !file.exists() {
        let known = names(directory);
        let hint = match known.is_empty() {
            true => format!("save one with --save-baseline {name}"),
            false => format!("there are {}", known.join(", ")),
        };
        let directory = directory.display();
        bail!("there is no baseline {name} in {directory}; {hint}");
    }
    load::read(&file)
}

/// The names of the baselines in a directory, sorted.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| {
            let file = entry.file_name().into_string().ok()?;
            let stem = file.strip_suffix(".json")?;
            name(stem).ok()
        })
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_files_names() {
        for good in ["main", "pr-12", "v1.2_x"] {
            assert_eq!(name(good).unwrap(), good);
        }
        for bad in ["", "..", ".x", "a/b", "a b", "ä", "a\\b"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_baseline_that_is_not_there_is_told_with_those_that_are() {
        let directory = std::env::temp_dir().join(format!("baselines-{}", std::process::id()));
        let problem = read(&directory, "main").unwrap_err().to_string();
        let words = "save one with --save-baseline main";
        assert!(problem.contains(words), "{problem}");
        fs::create_dir_all(&directory).unwrap();
        fs::write(file(&directory, "other"), "{}").unwrap();
        let problem = read(&directory, "main").unwrap_err().to_string();
        assert!(problem.contains("there are other"), "{problem}");
        let problem = read(&directory, "other").unwrap_err().to_string();
        assert!(problem.contains("schema_version is missing"), "{problem}");
        fs::remove_dir_all(&directory).unwrap();
    }
}
