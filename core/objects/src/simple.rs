//! Namespaces.

use serde_json::{Value, json};

use super::{Map, ObjectMeta};

/// A namespace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Namespace {
    /// The metadata, such as name and labels.
    pub metadata: ObjectMeta,
    /// Whether `status.phase` is `Terminating`.
    pub terminating: bool,
    /// Every member except `metadata`, `apiVersion` and `kind`.
    pub fields: Map,
}

impl Namespace {
    /// The finalizer in the spec that the namespace controller removes from an empty namespace.
    pub const KUBERNETES: &str = "kubernetes";

    /// Returns the finalizers in the spec, in order. The namespace is not removed while it has any.
    pub fn finalizers(&self) -> Vec<&str> {
        let spec = self.fields.get("spec");
        let finalizers = spec.and_then(|spec| spec.get("finalizers"));
        let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
        finalizers.filter_map(Value::as_str).collect()
    }

    /// Sets `status.phase` and no other member. A status that is not an object does not change.
    pub fn set_phase(&mut self, phase: &str) {
        let status = self.fields.entry("status").or_insert_with(|| json!({}));
        if let Value::Object(status) = status {
            status.insert("phase".into(), phase.into());
        }
    }
}
