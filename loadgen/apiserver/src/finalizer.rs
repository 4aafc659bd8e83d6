//! The finalizer in a namespace's spec, which keeps the namespace until it is empty.

use podstorm_objects::Namespace;
use serde_json::{Value, json};

/// The name of that finalizer.
const KUBERNETES: &str = "kubernetes";

/// Whether the namespace has the finalizer.
pub(crate) fn is_present(namespace: &Namespace) -> bool {
    let spec = namespace.fields.get("spec");
    let finalizers = spec.and_then(|spec| spec.get("finalizers"));
    finalizers
        .and_then(Value::as_array)
        .is_some_and(|all| all.iter().any(|finalizer| finalizer == KUBERNETES))
}

/// Adds the finalizer.
pub(crate) fn add(namespace: &mut Namespace) {
    if is_present(namespace) {
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

/// Removes the finalizer.
pub(crate) fn remove(namespace: &mut Namespace) {
    let spec = namespace.fields.get_mut("spec");
    let finalizers = spec.and_then(|spec| spec.get_mut("finalizers"));
    if let Some(Value::Array(finalizers)) = finalizers {
        finalizers.retain(|finalizer| finalizer != KUBERNETES);
    }
}
