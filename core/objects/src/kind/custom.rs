//! Kinds that a CustomResourceDefinition describes.

use std::sync::{Arc, PoisonError, RwLock, Weak};

use serde_json::{Value, json};

use super::columns::JsonPath;

/// The data of one version of a custom kind that its row refers to. All of it except the schema
/// lives as long as the process.
#[derive(Debug)]
pub struct CustomType {
    /// The schema of the objects: that of the definition, with `apiVersion`, `kind` and `metadata`.
    pub schema: CustomSchema,
    /// The length of the schema as JSON, in bytes.
    pub schema_bytes: usize,
    /// The `kind` of lists of these objects.
    pub list_kind: &'static str,
    /// The singular name in lower case.
    pub singular: &'static str,
    /// Whether objects are stored in this version.
    pub is_stored: bool,
    /// The paths of the numbers that `/scale` uses, if it is served.
    pub scale: Option<&'static ScalePaths>,
}

/// The paths at which `/scale` finds the numbers of a custom kind.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalePaths {
    /// `specReplicasPath`.
    pub spec_replicas: JsonPath,
    /// `statusReplicasPath`.
    pub status_replicas: JsonPath,
    /// `labelSelectorPath`, if it is set.
    pub selector: Option<JsonPath>,
}

/// A schema that lives as long as a reference from [`hold`](CustomSchema::hold). Rows are never
/// freed, but schemas are large and change, so rows must not keep them alive.
#[derive(Debug, Default)]
pub struct CustomSchema(RwLock<Weak<Value>>);

impl CustomSchema {
    /// Returns the schema, or one that accepts any object once the last reference has been dropped.
    /// Holds a lock while it clones an `Arc`.
    pub fn get(&self) -> Arc<Value> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().unwrap_or_else(|| {
            let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            Arc::new(any)
        })
    }

    /// Returns a reference that keeps the schema alive. `make` builds the schema if there is no
    /// reference; it must always build the same one.
    pub fn hold(&self, make: impl FnOnce() -> Value) -> Arc<Value> {
        let mut held = self.0.write().unwrap_or_else(PoisonError::into_inner);
        held.upgrade().unwrap_or_else(|| {
            let made = Arc::new(make());
            *held = Arc::downgrade(&made);
            made
        })
    }

    /// Returns a reference that keeps the schema alive; `None` if all references have been dropped.
    pub fn held(&self) -> Option<Arc<Value>> {
        let held = self.0.read().unwrap_or_else(PoisonError::into_inner);
        held.upgrade()
    }
}
