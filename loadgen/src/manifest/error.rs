//! What is wrong with a file, said once: file, document, object, field, and what is expected.

use std::borrow::Cow;
use std::fmt;

/// A file that can't be taken, with the place down to the field where it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestError {
    /// The file as the user named it; `standard input` for `-`.
    pub file: String,
    /// The document, counted from 1 among those that are not empty.
    pub document: Option<u64>,
    /// Line and column, counted from 1 in the file.
    pub position: Option<(u64, u64)>,
    /// Kind, namespace and name, e.g. `ReplicaSet default/web`.
    pub object: Option<String>,
    /// The field, e.g. `spec.template.metadata.labels`; within a list `items[3].spec.replicas`.
    pub path: Option<String>,
    /// What is wrong and what would do.
    pub problem: String,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cut(&self.file))?;
        if let Some(document) = self.document {
            write!(f, ": document {document}")?;
        }
        if let Some((line, column)) = self.position {
            let before = if self.document.is_some() { "," } else { ":" };
            write!(f, "{before} line {line} column {column}")?;
        }
        if let Some(object) = &self.object {
            write!(f, " ({})", cut(object))?;
        }
        if let Some(path) = &self.path {
            write!(f, ": {}", cut(path))?;
        }
        write!(f, ": {}", cut(&self.problem))
    }
}

impl ManifestError {
    /// What is wrong at a place of a file.
    pub(super) fn at(file: &str, position: (u64, u64), problem: &str) -> Box<ManifestError> {
        Box::new(ManifestError {
            file: file.to_owned(),
            position: Some(position),
            problem: problem.to_owned(),
            ..ManifestError::default()
        })
    }
}

/// Longest part of a message, characters: what is longer quotes something huge.
const LONGEST: usize = 1_000;

/// Of that, the beginning and the end of what is shown.
const SHOWN: (usize, usize) = (300, 200);

/// A text with its middle left out where it is very long.
fn cut(text: &str) -> Cow<'_, str> {
    // As many bytes may be few characters, and never the other way round.
    if text.len() <= LONGEST {
        return text.into();
    }
    let count = text.chars().count();
    if count <= LONGEST {
        return text.into();
    }
    let start: String = text.chars().take(SHOWN.0).collect();
    let end: Vec<char> = text.chars().rev().take(SHOWN.1).collect();
    let end: String = end.into_iter().rev().collect();
    let left_out = count - SHOWN.0 - SHOWN.1;
    format!("{start}… ({left_out} more characters) …{end}").into()
}

impl std::error::Error for ManifestError {}

impl ManifestError {
    /// A problem with a file as a whole.
    pub(super) fn of_file(file: &str, problem: impl Into<String>) -> Box<ManifestError> {
        Box::new(ManifestError {
            file: file.to_owned(),
            problem: problem.into(),
            ..Default::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_part_of_the_place_is_named() {
        let mut error = ManifestError::of_file("web.yaml", "expected an integer");
        assert_eq!(error.to_string(), "web.yaml: expected an integer");
        error.document = Some(2);
        error.object = Some("ReplicaSet default/web".into());
        error.path = Some("spec.replicas".into());
        assert_eq!(
            error.to_string(),
            "web.yaml: document 2 (ReplicaSet default/web): spec.replicas: expected an integer"
        );
        error.position = Some((7, 3));
        let text = error.to_string();
        assert!(text.starts_with("web.yaml: document 2, line 7 column 3 ("));
    }
}
