//! The status of an owner: the counts of its pods, its only condition, and the check whether the
//! status must be written.

use podstorm_objects::{Labels, Pod, ReplicaSet, ReplicaSetCondition, ReplicaSetStatus, Str, Time};

use super::availability::is_available;

const REPLICA_FAILURE: &str = "ReplicaFailure";

/// Counts of the claimed active pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusCounts {
    /// The number of pods.
    pub replicas: i32,
    /// The number of pods with every label of the template.
    pub fully_labeled: i32,
    /// The number of ready pods.
    pub ready: i32,
    /// The number of available pods: ready for `minReadySeconds`.
    pub available: i32,
}

impl StatusCounts {
    /// Counts pods one by one. O(pods).
    pub fn count<'a>(
        pods: impl IntoIterator<Item = &'a Pod>,
        template_labels: &Labels,
        min_ready_seconds: i32,
        now_wall_ns: i64,
    ) -> StatusCounts {
        let mut counts = StatusCounts::default();
        for pod in pods {
            counts.add(pod, template_labels, min_ready_seconds, now_wall_ns);
        }
        counts
    }

    /// Adds one pod to the counts.
    pub fn add(
        &mut self,
        pod: &Pod,
        template_labels: &Labels,
        min_ready_seconds: i32,
        now_wall_ns: i64,
    ) {
        self.replicas += 1;
        self.fully_labeled += i32::from(pod.metadata.labels.contains_all(template_labels));
        if pod.is_ready() {
            self.ready += 1;
            let available = is_available(pod.ready_time(), min_ready_seconds, now_wall_ns);
            self.available += i32::from(available);
        }
    }
}

/// Computes the new status. `terminating` is `None` if the feature is off. `manage_error` is the
/// error with which this sync created or deleted pods; `None` removes the condition, even if the
/// sync tried nothing. The caller sets `observed_generation` when it writes the status.
pub fn compute_status(
    owner: &ReplicaSet,
    counts: StatusCounts,
    terminating: Option<i32>,
    manage_error: Option<&str>,
    now: Time,
) -> ReplicaSetStatus {
    let mut status = owner.status.clone();
    let failure = status
        .conditions
        .iter()
        .any(|condition| *condition.kind == *REPLICA_FAILURE);
    match manage_error {
        Some(message) if !failure => {
            let reason = match counts.replicas.cmp(&owner.replicas()) {
                std::cmp::Ordering::Less => "FailedCreate",
                std::cmp::Ordering::Greater => "FailedDelete",
                std::cmp::Ordering::Equal => "",
            };
            status.conditions.push(ReplicaSetCondition {
                kind: REPLICA_FAILURE.into(),
                status: "True".into(),
                last_transition_time: now,
                reason: reason.into(),
                message: Str::from(message),
                rest: podstorm_objects::Rest::NONE,
            });
        }
        None if failure => {
            status
                .conditions
                .retain(|condition| *condition.kind != *REPLICA_FAILURE);
        }
        _ => {}
    }
    status.replicas = counts.replicas;
    status.fully_labeled_replicas = counts.fully_labeled;
    status.ready_replicas = counts.ready;
    status.available_replicas = counts.available;
    status.terminating_replicas = terminating;
    status
}

/// Reports whether the status needs no write: `new` equals the stored status, and the stored status
/// is of the current generation.
pub fn status_is_unchanged(owner: &ReplicaSet, new: &ReplicaSetStatus) -> bool {
    let old = &owner.status;
    old.replicas == new.replicas
        && old.fully_labeled_replicas == new.fully_labeled_replicas
        && old.ready_replicas == new.ready_replicas
        && old.available_replicas == new.available_replicas
        && old.terminating_replicas == new.terminating_replicas
        && owner.metadata.generation == old.observed_generation
        && old.conditions == new.conditions
}
