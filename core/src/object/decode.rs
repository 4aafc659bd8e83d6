//! Reading objects from JSON: typed access to members, with errors that name the field.

use std::fmt;

/// A place in an object, e.g. `spec.template.spec.containers[0].image`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldPath(pub String);

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "the object" } else { &self.0 })
    }
}

/// A member that can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct DecodeError {
    /// Where.
    pub path: FieldPath,
    /// What is wrong and what is expected, e.g. `expected an integer, found the string "three"`.
    pub problem: String,
}
