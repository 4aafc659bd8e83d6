//! What a server warns clients of.

use serde_json::{Map, Value};

use crate::Object;

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
    pub sent: Option<fn(&Map<String, Value>) -> Vec<String>>,
    /// Returns the warnings about an object after a write.
    pub written: fn(&dyn Object, Written) -> Vec<String>,
}

/// The effect of a write.
#[derive(Clone, Copy, Debug)]
pub struct Written {
    /// Whether the object is new.
    pub is_new: bool,
    /// Whether the spec has changed.
    pub is_changed: bool,
}

impl Warnings {
    /// No warnings.
    pub const NONE: Warnings = Warnings {
        deprecation: "",
        undecided_deletion: "",
        name: |_| Vec::new(),
        sent: None,
        written: |_, _| Vec::new(),
    };
}
