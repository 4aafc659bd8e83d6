//! `PUT` of a namespace's `/finalize`, with which the client that has emptied a namespace releases
//! it.

use std::sync::Arc;

use podstorm_objects::{ApiError, Namespace, Now};
use serde_json::{Value, json};

use crate::create::refuse_invalid;
use crate::store::counts::{Verb, WriteEffects};
use crate::update::{Update, check_put, prepare_and_validate};
use crate::{Cluster, validation};

impl Cluster {
    /// Sets the finalizers in a namespace's spec, like a `PUT` of its `/finalize`. A namespace that
    /// is being deleted is removed with its last finalizer.
    ///
    /// # Errors
    /// 404; 409 for a different UID or version; 422 for a broken rule; 504 when the time limit of
    /// the request is exceeded.
    pub fn finalize(
        &self,
        namespace: Namespace,
        dry_run: bool,
        now: Now,
    ) -> Result<Arc<Namespace>, ApiError> {
        let effects = WriteEffects {
            dry_run,
            ..WriteEffects::for_verb(Verb::Update)
        };
        let name = namespace.metadata.name.clone();
        self.modify(&self.namespaces, "", &name, now, |old| {
            check_put(&namespace, &**old)?;
            let mut new = namespace.clone();
            prepare_and_validate(self, &mut new, &**old, effects.verb, None)?;
            set(&mut new, &namespace);
            refuse_invalid(self, &**old, validation::validate_namespace(&new, true))?;
            Ok(Update::Write(new, effects))
        })
    }
}

/// Copies the finalizers of another namespace.
fn set(namespace: &mut Namespace, from: &Namespace) {
    let wanted: Vec<Value> = from.finalizers().into_iter().map(Value::from).collect();
    let spec = namespace.fields.entry("spec").or_insert_with(|| json!({}));
    if let Value::Object(spec) = spec {
        match wanted.is_empty() {
            true => drop(spec.remove("finalizers")),
            false => drop(spec.insert("finalizers".into(), wanted.into())),
        }
    }
}
