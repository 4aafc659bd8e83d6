//! Objects of kinds without a type of their own.

use super::Kind;
use crate::{Map, ObjectMeta};

/// An object of which only the metadata has a typed place.
#[derive(Clone, Debug, PartialEq)]
pub struct DynamicObject {
    kind: Kind,
    /// Name, labels, owners.
    pub metadata: ObjectMeta,
    /// Every member but `metadata`, `apiVersion`, `kind`.
    pub fields: Map,
}

impl DynamicObject {
    /// An object of that kind without name or members.
    pub fn new(kind: Kind) -> DynamicObject {
        DynamicObject {
            kind,
            metadata: ObjectMeta::default(),
            fields: Map::new(),
        }
    }

    /// Its kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }
}
