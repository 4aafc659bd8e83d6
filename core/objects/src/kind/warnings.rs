//! What a server warns clients of.

use std::fmt;

use serde_json::{Map, Value};

/// Returns the warnings about a new object as it was sent.
pub type OfSent = fn(&Map<String, Value>) -> Vec<String>;

/// The warnings of a kind.
#[derive(Clone, Copy, Debug)]
pub struct Warnings {
    /// The warning about each request; empty unless the kind is deprecated.
    pub deprecation: &'static str,
    /// The warning about a deletion that does not state what happens to the dependents; may be
    /// empty.
    pub undecided_deletion: &'static str,
    /// Returns the warnings about the name of a new object.
    pub name: fn(&str) -> Vec<String>,
    /// Returns the warnings about a new object as it was sent, which costs less than
    /// [`written`](Warnings::written).
    pub sent: Option<OfSent>,
    /// Returns the warnings about an object after a write.
    pub written: fn(&Written<'_>) -> Vec<String>,
}

/// An object after a write.
pub struct Written<'a> {
    /// The name.
    pub name: &'a str,
    /// Returns the object's JSON.
    pub json: &'a dyn Fn() -> Value,
    /// Whether the object is new.
    pub is_new: bool,
    /// Whether the spec has changed.
    pub is_changed: bool,
}

impl fmt::Debug for Written<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut of = f.debug_struct("Written");
        of.field("name", &self.name).field("is_new", &self.is_new);
        of.field("is_changed", &self.is_changed).finish()
    }
}

impl Warnings {
    /// No warnings.
    pub const NONE: Warnings = Warnings {
        deprecation: "",
        undecided_deletion: "",
        name: |_| Vec::new(),
        sent: None,
        written: |_| Vec::new(),
    };
}
