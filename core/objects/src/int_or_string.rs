//! An integer, or a string such as a percentage.

use std::fmt;

use super::Str;

/// An integer, or a string such as `25%`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IntOrString {
    /// An integer.
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
