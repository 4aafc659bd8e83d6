//! The finalizers in a namespace's spec, which keep the namespace until it is empty; and its phase.

use podstorm_objects::Namespace;
use serde_json::{Value, json};

/// The finalizer of the namespace controller.
pub(crate) const KUBERNETES: &str = "kubernetes";

/// The finalizers, in order.
pub(crate) fn all(namespace: &Namespace) -> Vec<&str> {
    let spec = namespace.fields.get("spec");
    let finalizers = spec.and_then(|spec| spec.get("finalizers"));
    let finalizers = finalizers.and_then(Value::as_array).into_iter().flatten();
    finalizers.filter_map(Value::as_str).collect()
}

/// Whether the namespace has any.
pub(crate) fn is_held(namespace: &Namespace) -> bool {
    let spec = namespace.fields.get("spec");
    let finalizers = spec.and_then(|spec| spec.get("finalizers"));
    finalizers
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty())
}

/// The phase in the status; empty where there is none.
pub(crate) fn phase(namespace: &Namespace) -> &str {
    let status = namespace.fields.get("status");
    let phase = status.and_then(|status| status.get("phase"));
    phase.and_then(Value::as_str).unwrap_or("")
}

/// Sets the phase in the status.
pub(crate) fn set_phase(namespace: &mut Namespace, phase: &str) {
    let status = namespace
        .fields
        .entry("status")
        .or_insert_with(|| json!({}));
    if let Value::Object(status) = status {
        status.insert("phase".into(), phase.into());
    }
}

/// Adds the namespace controller's finalizer.
pub(crate) fn add(namespace: &mut Namespace) {
    if all(namespace).contains(&KUBERNETES) {
        return;
    }
    let spec = namespace.fields.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec {
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Value::Array(finalizers) = finalizers {
            finalizers.push(KUBERNETES.into());
        }
    }
}
