//! The conditions of a Deployment: their types and reasons, and how a new one replaces an old one.
//!
//! Source: `pkg/controller/deployment/util` in Kubernetes.

use podstorm_objects::{DeploymentCondition, DeploymentSpec, DeploymentStatus, Rest, Time};

/// The type of the condition that enough pods are available.
pub(super) const AVAILABLE: &str = "Available";
/// The type of the condition that a rollout is in progress, complete, failed or paused.
pub(super) const PROGRESSING: &str = "Progressing";
/// The type of the condition that pods could not be created or deleted.
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

/// Creates a condition whose times are `now`.
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

/// Returns the condition of this type; `None` if there is none.
pub(super) fn find<'a>(
    status: &'a DeploymentStatus,
    kind: &str,
) -> Option<&'a DeploymentCondition> {
    status.conditions.iter().find(|it| *it.kind == *kind)
}

/// Reports whether the condition `Progressing` exists and has this reason.
pub(super) fn progressing_is(status: &DeploymentStatus, reason: &str) -> bool {
    find(status, PROGRESSING).is_some_and(|it| *it.reason == *reason)
}

/// Reports whether a condition of this type exists with this status and reason.
pub(super) fn is_set(status: &DeploymentStatus, kind: &str, value: &str, reason: &str) -> bool {
    find(status, kind).is_some_and(|it| *it.status == *value && *it.reason == *reason)
}

/// Sets a condition. Keeps an existing condition of the same type, status and reason. Otherwise
/// appends the new one. If the status has not changed, the new one has the old transition time.
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

/// Removes the condition of this type, if there is one.
pub(super) fn remove(status: &mut DeploymentStatus, kind: &str) {
    status.conditions.retain(|it| *it.kind != *kind);
}

/// Returns the number of seconds after which a rollout without progress has failed; `None` if it
/// never fails. `i32::MAX` in the spec also means never.
pub(super) fn progress_deadline(spec: &DeploymentSpec) -> Option<i32> {
    spec.progress_deadline_seconds
        .filter(|seconds| *seconds != i32::MAX)
}
