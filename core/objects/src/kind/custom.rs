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

/// A schema that lives as long as a reference from [`hold`](CustomSchema::hold) does. Rows are never freed; schemas
/// are large and change, so rows must not keep them alive.
#[derive(Debug, Default)]
pub struct CustomSchema(RwLock<Weak<Value>>);

impl CustomSchema {
    /// The schema, or one that accepts any object after the last reference is gone. Locks while it clones an `Arc`.
    pub fn get(&self) -> Arc<Value> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().unwrap_or_else(|| {
            let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            Arc::new(any)
        })
    }

    /// Returns a reference that keeps the schema alive. `make` builds the schema if no reference
    /// exists; it must always build the same one.
    pub fn hold(&self, make: impl FnOnce() -> Value) -> Arc<Value> {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().unwrap_or_else(|| {
            let made = Arc::new(make());
            *held = Arc::downgrade(&made);
            made
        })
    }

    /// Returns a reference that keeps the schema alive; `None` after the last one is gone.
    pub fn held(&self) -> Option<Arc<Value>> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.upgrade()
    }
}
