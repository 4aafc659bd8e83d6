//! The reasons for which pods are deleted, and the requests that delete a pod.

use podstorm_objects::{DeleteOptions, Kind, Map, Pod, Time};
use podstorm_runtime::client::Request;

use crate::disruption_target::{self, Disruption, patch_of_status};

const ORPHANED: Disruption = Disruption {
    reason: "DeletionByPodGC",
    message: "PodGC: node no longer exists",
};

/// The reason for which a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// More pods have ended than the threshold allows.
    Terminated,
    /// The pod is being deleted, and its node is out of service.
    OutOfService,
    /// The pod's node no longer exists.
    Orphaned,
    /// The pod is being deleted and was never bound.
    Unscheduled,
}

impl Reason {
    /// Returns the value of the metric label `reason`.
    pub(super) fn label(self) -> &'static str {
        match self {
            Reason::Terminated => "terminated",
            Reason::OutOfService => "out-of-service",
            Reason::Orphaned => "orphaned",
            Reason::Unscheduled => "unscheduled",
        }
    }
}

/// Returns the request that marks a pod as failed before its deletion; `None` if the pod has
/// ended.
pub(super) fn mark(pod: &Pod, reason: Reason, now: Time) -> Option<Request> {
    if pod.status.phase.is_terminal() {
        return None;
    }
    let generation = pod.metadata.generation;
    let mut status = Map::new();
    if reason == Reason::Orphaned {
        disruption_target::mark(&mut status, pod, ORPHANED, now);
    }
    status.insert("phase".into(), "Failed".into());
    let observed = pod.status.rest.get("observedGeneration");
    if observed.and_then(|observed| observed.as_i64()).unwrap_or(0) != generation {
        status.insert("observedGeneration".into(), generation.into());
    }
    Some(Request::Patch {
        kind: Kind::POD,
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        patch: Box::new(patch_of_status(pod, status)),
        of_status: true,
    })
}

/// Returns the request that deletes a pod without a grace period.
pub(super) fn delete(pod: &Pod) -> Request {
    Request::Delete {
        kind: Kind::POD,
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        options: Some(Box::new(DeleteOptions {
            grace_period_seconds: Some(0),
            ..DeleteOptions::default()
        })),
    }
}
