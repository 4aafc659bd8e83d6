//! Errors about files. Each states file, document, object, field, problem and expectation once.

use std::borrow::Cow;
use std::fmt;

use podstorm_located::Place;

/// An error in a file, located as precisely as possible, down to the field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestError {
    /// The file, as the user named it; `standard input` for `-`.
    pub file: String,
    /// The number of the document, counted from 1 among the non-empty ones; `None` if unknown.
    pub document: Option<u64>,
    /// Line and column in the file, counted from 1; `None` if unknown.
    pub position: Option<Place>,
    /// Kind, namespace and name of the object: `ReplicaSet default/web`; `None` if unknown.
    pub object: Option<String>,
    /// The path of the field, such as `spec.template.metadata.labels`; within a list,
    /// `items[3].spec.replicas`. `None` if the error is not about a field.
    pub path: Option<String>,
    /// The problem, and what is expected instead.
    pub problem: String,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&cut(&self.file))?;
        if let Some(document) = self.document {
            write!(f, ": document {document}")?;
        }
        if let Some(Place { line, column }) = self.position {
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
    /// Creates an error about a position in a file.
    pub(super) fn at(file: &str, position: Place, problem: &str) -> Box<ManifestError> {
        Box::new(ManifestError {
            file: file.to_owned(),
            position: Some(position),
            problem: problem.to_owned(),
            ..ManifestError::default()
        })
    }
}

/// The maximum length of a part of a message, in characters. A longer part quotes something huge.
const LONGEST: usize = 1_000;

/// How many characters of a longer part to show at its beginning and at its end.
const SHOWN: (usize, usize) = (300, 200);

/// Removes the middle of a very long string.
fn cut(text: &str) -> Cow<'_, str> {
    // A string never has more characters than bytes.
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
    /// Creates an error about a file as a whole.
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
    fn every_known_part_of_the_place_is_shown() {
        let mut error = ManifestError::of_file("web.yaml", "expected an integer");
        assert_eq!(error.to_string(), "web.yaml: expected an integer");
        error.document = Some(2);
        error.object = Some("ReplicaSet default/web".into());
        error.path = Some("spec.replicas".into());
        assert_eq!(
            error.to_string(),
            "web.yaml: document 2 (ReplicaSet default/web): spec.replicas: expected an integer"
        );
        error.position = Some(Place::new(7, 3));
        let text = error.to_string();
        assert!(text.starts_with("web.yaml: document 2, line 7 column 3 ("));
    }
}
