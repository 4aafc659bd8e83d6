//! A count, or a percentage of one.

use std::fmt;

use super::Str;

/// A number or a string, such as `25%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A string.
    Text(Str),
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            IntOrString::Int(number) => number.fmt(f),
            IntOrString::Text(text) => f.write_str(text),
        }
    }
}
