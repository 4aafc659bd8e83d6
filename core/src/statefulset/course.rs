//! A StatefulSet's progress, as clients see it in the spec and status, and the output of `kubectl
//! rollout status`.

use std::ops::Range;

use podstorm_objects::{DynamicObject, Kind, Object};
use serde_json::Value;

use super::spec::Strategy;
use super::status::Status;
use crate::revisions::{RevisionData, revision_hash, revision_name};

/// A StatefulSet's progress.
#[derive(Clone, Debug, PartialEq)]
pub struct Course {
    /// `metadata.generation`.
    pub generation: i64,
    /// `spec.replicas` or its default.
    pub replicas: i64,
    /// Whether `spec.replicas` is present. It always is on a server.
    pub has_replicas: bool,
    /// `spec.ordinals.start`: the ordinal of the first pod.
    pub start: i64,
    /// `spec.updateStrategy`.
    pub strategy: Strategy,
    /// `spec.updateStrategy.rollingUpdate.partition`.
    pub partition: Option<i64>,
    /// `status.observedGeneration`.
    pub observed_generation: i64,
    /// `status.replicas`.
    pub pods: i64,
    /// `status.readyReplicas`.
    pub ready: i64,
    /// `status.availableReplicas`.
    pub available: i64,
    /// `status.currentReplicas`.
    pub current: i64,
    /// `status.updatedReplicas`.
    pub updated: i64,
    /// `status.currentRevision`.
    pub current_revision: String,
    /// `status.updateRevision`.
    pub update_revision: String,
}

/// The output of `kubectl rollout status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RolloutStatus {
    /// The sentence that kubectl prints, without a line break.
    pub message: String,
    /// Whether the rollout is complete.
    pub done: bool,
}

/// The error of `kubectl rollout status` for an update strategy other than `RollingUpdate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("rollout status is only available for RollingUpdate strategy type")]
pub struct NotRolling;

impl Course {
    /// Returns the progress of a StatefulSet; `None` for other objects. O(members of the status).
    pub fn from_object(object: &dyn Object) -> Option<Course> {
        let set = object.downcast_ref::<DynamicObject>()?;
        if object.kind() != Kind::STATEFUL_SET {
            return None;
        }
        let spec = set.fields.get("spec").unwrap_or(&Value::Null);
        let strategy = &spec["updateStrategy"];
        let status = Status::read(set);
        Some(Course {
            generation: set.metadata.generation,
            replicas: spec["replicas"].as_i64().unwrap_or(1),
            has_replicas: spec["replicas"].is_i64(),
            start: spec["ordinals"]["start"].as_i64().unwrap_or(0),
            partition: strategy["rollingUpdate"]["partition"].as_i64(),
            strategy: Strategy::read(strategy),
            observed_generation: status.observed_generation,
            pods: status.replicas,
            ready: status.ready,
            available: status.available,
            current: status.current,
            updated: status.updated,
            current_revision: status.current_revision,
            update_revision: status.update_revision,
        })
    }

    /// Returns the ordinals of the wanted pods.
    pub fn ordinals(&self) -> Range<i64> {
        self.start..self.start.saturating_add(self.replicas)
    }

    /// Reports whether the status is of the current generation of the spec.
    pub fn is_observed(&self) -> bool {
        self.observed_generation != 0 && self.observed_generation >= self.generation
    }

    /// Returns the output of `kubectl rollout status`.
    ///
    /// # Errors
    /// Fails if the update strategy is not `RollingUpdate`.
    ///
    /// Source: `StatefulSetStatusViewer` of Kubernetes' `kubectl/pkg/polymorphichelpers`.
    pub fn rollout_status(&self) -> Result<RolloutStatus, NotRolling> {
        if !self.strategy.is_rolling {
            return Err(NotRolling);
        }
        let says = |done, message: String| Ok(RolloutStatus { message, done });
        if !self.is_observed() {
            let message = "Waiting for statefulset spec update to be observed...";
            return says(false, message.to_owned());
        }
        let missing = self.replicas - self.ready;
        // Like upstream: counts nothing without a number of replicas or without a partition.
        if missing > 0 && self.has_replicas {
            return says(false, format!("Waiting for {missing} pods to be ready..."));
        }
        let (updated, revision) = (self.updated, &self.update_revision);
        if self.strategy.rolling_update.is_some() {
            let partition = self.partition.filter(|_| self.has_replicas);
            let wanted = partition.map(|first| self.replicas - first);
            return match wanted {
                Some(wanted) if updated < wanted => says(
                    false,
                    format!(
                        "Waiting for partitioned roll out to finish: {updated} out of {wanted} new pods have been updated..."
                    ),
                ),
                _ => says(
                    true,
                    format!(
                        "partitioned roll out complete: {updated} new pods have been updated..."
                    ),
                ),
            };
        }
        match *revision == self.current_revision {
            false => says(
                false,
                format!(
                    "waiting for statefulset rolling update to complete {updated} pods at revision {revision}..."
                ),
            ),
            true => says(
                true,
                format!(
                    "statefulset rolling update complete {} pods at revision {}...",
                    self.current, self.current_revision
                ),
            ),
        }
    }
}

/// Returns the final status of a settled set, in which every pod exists, is available and has the
/// current template.
///
/// # Errors
/// Fails if the template has a value of the wrong type.
pub fn settled_status(set: &DynamicObject) -> Result<Value, String> {
    let course = Course::from_object(set).ok_or("not a StatefulSet")?;
    let revision = revision_of_today(set)?;
    let replicas = course.replicas;
    let status = Status {
        observed_generation: set.metadata.generation,
        replicas,
        ready: replicas,
        available: replicas,
        current: replicas,
        updated: replicas,
        current_revision: revision.clone(),
        update_revision: revision,
        collision_count: Status::read(set).collision_count,
    };
    Ok(status.to_json())
}

/// Returns the name that the revision for the current template gets if no other revision has it.
///
/// # Errors
/// Fails if the template has a value of the wrong type.
fn revision_of_today(set: &DynamicObject) -> Result<String, String> {
    let spec = set.fields.get("spec").unwrap_or(&Value::Null);
    let data = RevisionData::of_template(&spec["template"]);
    let data = data.map_err(|error| error.to_string())?;
    let collisions = Status::read(set).collision_count;
    let hash = revision_hash(&data.text(), Some(collisions));
    Ok(revision_name(&set.metadata.name, &hash))
}
