//! The finalizers in a namespace's spec, which keep the namespace until it is empty; and its phase.

use std::sync::Arc;

use podstorm_objects::{ApiError, Namespace, Now};
use serde_json::{Value, json};

use crate::create::refuse_invalid;
use crate::store::counts::{Verb, WriteEffects};
use crate::update::{Update, check_put, prepare_and_validate};
use crate::{Cluster, validation};

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

/// Removes the namespace controller's finalizer.
pub(crate) fn remove(namespace: &mut Namespace) {
    let spec = namespace.fields.get_mut("spec");
    let finalizers = spec.and_then(|spec| spec.get_mut("finalizers"));
    if let Some(Value::Array(finalizers)) = finalizers {
        finalizers.retain(|finalizer| finalizer != KUBERNETES);
    }
}

impl Cluster {
    /// Sets the finalizers in a namespace's spec, as `PUT` of its `/finalize` does. A namespace that
    /// is being deleted is removed with its last finalizer.
    ///
    /// # Errors
    /// 404; 409 for another UID or version; 422 for a broken rule.
    pub fn finalize(
        &self,
        namespace: Namespace,
        dry_run: bool,
        now: Now,
    ) -> Result<Arc<Namespace>, ApiError> {
        let effects = WriteEffects {
            dry_run,
            ..WriteEffects::of(Verb::Update)
        };
        let name = namespace.metadata.name.clone();
        self.modify(&self.namespaces, "", &name, now, |old| {
            check_put(&namespace, &**old)?;
            let mut new = namespace.clone();
            prepare_and_validate(&mut new, &**old, effects.verb)?;
            set(&mut new, &namespace);
            refuse_invalid(&**old, validation::validate_namespace(&new))?;
            Ok(Update::Write(new, effects))
        })
    }
}

/// Gives a namespace the finalizers of another.
fn set(namespace: &mut Namespace, from: &Namespace) {
    let wanted: Vec<Value> = all(from).into_iter().map(Value::from).collect();
    let spec = namespace.fields.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec {
        match wanted.is_empty() {
            true => drop(spec.remove("finalizers")),
            false => drop(spec.insert("finalizers".into(), wanted.into())),
        }
    }
}
