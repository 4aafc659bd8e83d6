//! The conditions of a Deployment: their words, and when one takes the place of another.
//!
//! Source: `pkg/controller/deployment/util` in Kubernetes.

use podstorm_objects::{DeploymentCondition, DeploymentSpec, DeploymentStatus, Rest, Time};

/// Enough pods are available.
pub(super) const AVAILABLE: &str = "Available";
/// A rollout goes on, is done, has failed, or is paused.
pub(super) const PROGRESSING: &str = "Progressing";
/// Pods could not be created or deleted.
pub(super) const REPLICA_FAILURE: &str = "ReplicaFailure";

pub(super) const MINIMUM_AVAILABLE: &str = "MinimumReplicasAvailable";
pub(super) const MINIMUM_UNAVAILABLE: &str = "MinimumReplicasUnavailable";
pub(super) const CREATED: &str = "NewReplicaSetCreated";
pub(super) const FOUND: &str = "FoundNewReplicaSet";
pub(super) const UPDATED: &str = "ReplicaSetUpdated";
pub(super) const COMPLETE: &str = "NewReplicaSetAvailable";
pub(super) const TIMED_OUT: &str = "ProgressDeadlineExceeded";
pub(super) const CREATE_FAILED: &str = "ReplicaSetCreateError";
pub(super) const PAUSED: &str = "DeploymentPaused";
pub(super) const RESUMED: &str = "DeploymentResumed";

/// A condition that is set now.
pub(super) fn condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: &str,
    now: Time,
) -> DeploymentCondition {
    DeploymentCondition {
        kind: kind.into(),
        status: status.into(),
        last_update_time: now,
        last_transition_time: now,
        reason: reason.into(),
        message: message.into(),
        rest: Rest::NONE,
    }
}

/// The condition of that type.
pub(super) fn find<'a>(
    status: &'a DeploymentStatus,
    kind: &str,
) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().find(|it| *it.kind == *kind)
}

/// Whether the condition `Progressing` has that reason.
pub(super) fn progressing_is(status: &DeploymentStatus, reason: &str) -> bool {
    find(status, PROGRESSING).is_some_and(|it| *it.reason == *reason)
}

/// Whether a condition has that status and reason.
pub(super) fn is_set(status: &DeploymentStatus, kind: &str, value: &str, reason: &str) -> bool {
    find(status, kind).is_some_and(|it| *it.status == *value && *it.reason == *reason)
}

/// Sets a condition. One of the same type, status and reason stays as it is. Otherwise the new one
/// goes to the end, with the time of the old one's last transition if the status is the same.
pub(super) fn set(status: &mut DeploymentStatus, mut new: DeploymentCondition) {
    if let Some(old) = find(status, &new.kind)
        && old.status == new.status
    {
        if old.reason == new.reason {
            return;
        }
        new.last_transition_time = old.last_transition_time;
    }
    remove(status, &new.kind.clone());
    status.conditions.push(new);
}

/// Removes the condition of that type.
pub(super) fn remove(status: &mut DeploymentStatus, kind: &str) {
    status.conditions.retain(|it| *it.kind != *kind);
}

/// The seconds after which a rollout without progress has failed; `None` where none ever does, which
/// is also what the largest number says.
pub(super) fn progress_deadline(spec: &DeploymentSpec) -> Option<i32> {
    spec.progress_deadline_seconds
        .filter(|seconds| *seconds != i32::MAX)
}
