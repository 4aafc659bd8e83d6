//! Namespaces.

use podstorm_objects::{Cause, DecodeError, Kind, Namespace, Resource, Time};
use serde_json::{Value, json};

use crate::{Cluster, Strategy, finalizer, validation};

/// The label of every namespace with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

impl Strategy for Namespace {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn add_finalizers(&mut self) {
        finalizer::add(self);
    }

    fn set_defaults(&mut self, _old: Option<&Self>) {
        // Namespace selectors use this label to select a namespace by name.
        let name = self.metadata.name.clone();
        if !name.is_empty()
            && self.metadata.labels.get(NAME_LABEL).map(|label| &**label) != Some(name.as_str())
        {
            self.metadata.labels = self.metadata.labels.with(NAME_LABEL, &name);
        }
    }

    fn complete(&mut self, _number: &dyn Fn() -> u64) {
        // The name may have been generated after defaulting.
        self.set_defaults(None);
    }

    fn prepare_for_create(&mut self) {
        self.terminating = false;
        let status = json!({"phase": "Active"});
        self.fields.insert("status".to_owned(), status);
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.terminating = old.terminating;
        for member in ["spec", "status"] {
            match old.fields.get(member) {
                Some(stored) => drop(self.fields.insert(member.to_owned(), stored.clone())),
                None => drop(self.fields.remove(member)),
            }
        }
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        match old.fields.get("spec") {
            Some(stored) => drop(self.fields.insert("spec".to_owned(), stored.clone())),
            None => drop(self.fields.remove("spec")),
        }
        if finalizer::phase(self).is_empty() {
            self.set_phase("Active");
        }
    }

    fn begin_termination(&mut self, _now: Time) -> bool {
        self.terminating = true;
        self.set_phase("Terminating");
        finalizer::is_held(self)
    }

    fn keeps_until_empty(&self) -> bool {
        finalizer::is_held(self)
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_namespace(self, false)
    }

    fn validate_status_update(&self, _old: &Self) -> Vec<Cause> {
        validation::validate_namespace_status(self)
    }

    fn committed(cluster: &Cluster, new: Option<&Self>) {
        if new.is_some_and(|new| new.terminating) {
            cluster.terminations.begun();
        }
    }
}
