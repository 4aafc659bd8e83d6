//! The finalizers in a namespace's spec, which keep the namespace until it is empty, and the phase
//! in its status.

use podstorm_objects::Namespace;
use serde_json::{Value, json};

/// Reports whether the spec of the namespace has finalizers.
pub(crate) fn is_held(namespace: &Namespace) -> bool {
    let spec = namespace.fields.get("spec");
    let finalizers = spec.and_then(|spec| spec.get("finalizers"));
    finalizers
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty())
}

/// Returns the phase in the status; empty if there is none.
pub(crate) fn phase(namespace: &Namespace) -> &str {
    let status = namespace.fields.get("status");
    let phase = status.and_then(|status| status.get("phase"));
    phase.and_then(Value::as_str).unwrap_or("")
}

/// Adds the namespace controller's finalizer to the spec.
pub(crate) fn add(namespace: &mut Namespace) {
    if namespace.finalizers().contains(&Namespace::KUBERNETES) {
        return;
    }
    let spec = namespace.fields.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec {
        let finalizers = spec.entry("finalizers").or_insert_with(|| json!([]));
        if let Value::Array(finalizers) = finalizers {
            finalizers.push(Namespace::KUBERNETES.into());
        }
    }
}
