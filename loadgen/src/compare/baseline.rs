//! Baselines: results that are saved under a name in a directory, for comparison with later runs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};

use super::load::{self, Loaded};

/// The default directory of the baselines.
pub const DIRECTORY: &str = ".loadgen/baselines";

/// Checks the name of a baseline and returns it. A name must be a valid file name on every system:
/// it consists of at most 100 letters, digits, `-`, `_` and, after the first character, `.`.
///
/// # Errors
/// The string is not a valid name.
pub fn name(text: &str) -> Result<String> {
    let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if text.is_empty() || text.len() > 100 || text.starts_with('.') || !text.bytes().all(safe) {
        bail!(
            "the name of a baseline consists of letters, digits, - and _, and . after the first: main, pr-12"
        );
    }
    Ok(text.to_owned())
}

/// Returns the path of a baseline's file.
pub fn file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.json"))
}

/// Reads the results in a baseline.
///
/// # Errors
/// There is no baseline with this name, or its file contains no results.
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

/// Returns the names of all baselines in a directory, sorted; empty if the directory can't be read.
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
    fn names_are_valid_file_names() {
        for good in ["main", "pr-12", "v1.2_x"] {
            assert_eq!(name(good).unwrap(), good);
        }
        for bad in ["", "..", ".x", "a/b", "a b", "ä", "a\\b"] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_baseline_is_reported_with_existing_ones() {
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
