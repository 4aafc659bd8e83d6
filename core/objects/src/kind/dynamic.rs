//! Objects of kinds without a Rust type.

use super::Kind;
use crate::{Map, ObjectMeta};

/// An object with typed metadata only.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicObject {
    kind: Kind,
    /// Name, labels, owners.
    pub metadata: ObjectMeta,
    /// Every member but `metadata`, `apiVersion`, `kind`.
    pub fields: Map,
    /// Whether members that upstream keeps as the texts that were sent have blanks between their parts. To
    /// write the object as JSON takes these out, and so does a patch.
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

    /// The same object as one of another version of its kind.
    #[must_use]
    pub fn with_kind(self, kind: Kind) -> DynamicObject {
        DynamicObject { kind, ..self }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}
