//! Objects of kinds without a Rust type.

use super::Kind;
use crate::{Map, ObjectMeta};

/// An object with typed metadata only.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicObject {
    kind: Kind,
    /// Name, labels, owners.
    pub metadata: ObjectMeta,
    /// Every member except `metadata`, `apiVersion` and `kind`.
    pub fields: Map,
    /// Whether a member that upstream keeps as the text that was sent has white space between its
    /// tokens. Writing the object as JSON removes this white space, and so does a patch.
    pub has_blanks: bool,
}

impl DynamicObject {
    /// Creates an object of this kind without a name or members.
    pub fn new(kind: Kind) -> DynamicObject {
        DynamicObject {
            kind,
            metadata: ObjectMeta::default(),
            fields: Map::new(),
            has_blanks: false,
        }
    }

    /// Returns the object as one of another version of its kind.
    #[must_use]
    pub fn with_kind(self, kind: Kind) -> DynamicObject {
        DynamicObject { kind, ..self }
    }

    /// Returns the object's kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}
