//! Objects of kinds without a Rust type.

use super::Kind;
use crate::{Map, ObjectMeta};

/// An object of which only the metadata is typed.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicObject {
    kind: Kind,
    /// The metadata, such as name, labels and owners.
    pub metadata: ObjectMeta,
    /// Every member except `metadata`, `apiVersion` and `kind`.
    pub fields: Map,
    /// Whether a member that upstream stores as the text from the client has white space between
    /// its tokens. The JSON form of the object lacks this white space, and a patch removes it.
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

    /// Returns the object with its kind replaced by another version of the kind.
    #[must_use]
    pub fn with_kind(self, kind: Kind) -> DynamicObject {
        DynamicObject { kind, ..self }
    }

    /// Returns the object's kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}
