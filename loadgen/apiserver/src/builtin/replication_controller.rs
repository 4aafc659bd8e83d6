//! ReplicationControllers.

use podstorm_objects::{
    Cause, DecodeError, Kind, ReplicaSetStatus, ReplicationController, Resource, Warnings,
};
use serde_json::Value;

use super::replica_set::validate_status;
use super::template;
use crate::defaulting::default_replication_controller;
use crate::meta::share;
use crate::{Strategy, validation};

pub(super) static WARNINGS: Warnings = template::WARNINGS_WITH_NAME;

impl Strategy for ReplicationController {
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
        self.replicas = old.replicas;
        self.min_ready_seconds = old.min_ready_seconds;
        self.selector = old.selector.clone();
        self.template = old.template.clone();
        self.spec_rest = old.spec_rest.clone();
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.replicas != old.replicas
            || self.min_ready_seconds != old.min_ready_seconds
            || self.selector != old.selector
            || self.template != old.template
            || self.spec_rest != old.spec_rest
    }

    fn share_with(&mut self, old: &Self) {
        share(&mut self.selector, &old.selector);
        share(&mut self.template, &old.template);
        share(&mut self.status, &old.status);
    }

    fn pod_spec_bytes(&self) -> usize {
        let template = self.template.as_deref();
        template.map_or(0, |template| template.spec.bytes())
    }

    fn set_defaults(&mut self, _old: Option<&Self>) {
        default_replication_controller(self);
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_replication_controller(self)
    }

    fn validate_status_update(&self, old: &Self) -> Vec<Cause> {
        validate_status(&self.metadata, &old.metadata, &self.status)
    }
}
