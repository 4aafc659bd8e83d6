//! Kinds that a CustomResourceDefinition describes.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use serde_json::{Value, json};

use super::columns::JsonPath;

/// One version of a kind that a CustomResourceDefinition describes: what its row says besides. It lives as
/// long as the process, but for the schema.
#[derive(Debug)]
pub struct CustomType {
    /// The schema of objects, as the definition has it, with `apiVersion`, `kind` and `metadata`.
    pub schema: CustomSchema,
    /// The bytes of the schema as JSON.
    pub schema_bytes: usize,
    /// The `kind` of lists.
    pub list_kind: &'static str,
    /// The name of one object in lower case.
    pub singular: &'static str,
    /// What clients of the version are warned of; empty for nothing.
    pub deprecation: &'static str,
    /// Whether it is the version that objects are stored in.
    pub is_stored: bool,
    /// Where `/scale` finds its numbers, if it is served.
    pub scale: Option<&'static ScalePaths>,
}

/// Where `/scale` finds the numbers of a custom kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePaths {
    /// `specReplicasPath`.
    pub spec_replicas: JsonPath,
    /// `statusReplicasPath`.
    pub status_replicas: JsonPath,
    /// `labelSelectorPath`, if it is given.
    pub selector: Option<JsonPath>,
}

/// A schema that is there for as long as anybody [holds](CustomSchema::hold) it: schemas are large and
/// change, and rows are never freed.
#[derive(Debug, Default)]
pub struct CustomSchema(RwLock<Weak<Value>>);

impl CustomSchema {
    /// The schema; one that takes any object where nobody holds it. A lock for the time of a clone.
    pub fn get(&self) -> Arc<Value> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().unwrap_or_else(|| {
            let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            Arc::new(any)
        })
    }

    /// A share of the schema, which `make` makes where nobody holds it; always the same.
    pub fn hold(&self, make: impl FnOnce() -> Value) -> Arc<Value> {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().unwrap_or_else(|| {
            let made = Arc::new(make());
            *held = Arc::downgrade(&made);
            made
        })
    }

    /// A share of the schema, if anybody holds it.
    pub fn held(&self) -> Option<Arc<Value>> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.upgrade()
    }
}
