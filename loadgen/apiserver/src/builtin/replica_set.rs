//! ReplicaSets.

use std::sync::Arc;

use podstorm_objects::{
    Cause, DecodeError, Kind, ObjectMeta, ReplicaSet, ReplicaSetStatus, Resource, Warnings,
};
use serde_json::Value;

use super::template;
use crate::defaulting::default_replica_set;
use crate::meta::share;
use crate::{Strategy, meta, validation};

pub(super) static WARNINGS: Warnings = template::WARNINGS_WITH_NAME;

impl Strategy for ReplicaSet {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn prepare_for_create(&mut self) {
        self.status = ReplicaSetStatus::default();
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.status = old.status.clone();
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        self.spec = old.spec.clone();
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }

    fn obviously_differs(&self, old: &Self) -> bool {
        self.status != old.status
    }

    fn share_with(&mut self, old: &Self) {
        share(&mut self.spec.selector, &old.spec.selector);
        share(&mut self.spec.template, &old.spec.template);
        share(&mut self.status, &old.status);
    }

    fn pod_spec_bytes(&self) -> usize {
        self.spec.template.spec.bytes()
    }

    fn set_defaults(&mut self, old: Option<&Self>) {
        let template = &self.spec.template;
        let shared = old.is_some_and(|old| Arc::ptr_eq(&old.spec.template, template));
        if !shared || self.spec.replicas.is_none() {
            default_replica_set(self);
        }
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_replica_set(self)
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        validation::validate_replica_set_update(self, old)
    }

    fn validate_status_update(&self, old: &Self) -> Vec<Cause> {
        validate_status(&self.metadata, &old.metadata, &self.status)
    }
}

/// Returns the broken rules of the status of a ReplicaSet or ReplicationController, and of the metadata if it has changed.
pub(super) fn validate_status(
    new: &ObjectMeta,
    old: &ObjectMeta,
    status: &ReplicaSetStatus,
) -> Vec<Cause> {
    let changed = (!meta::is_shared(new, old)).then_some(new);
    validation::validate_status(changed, status)
}
