//! The reasons and requests for deleting a pod.

use podstorm_objects::{DeleteOptions, Kind, Map, Object, Pod, Time};
use podstorm_runtime::client::{Patch, Request};
use serde_json::{Value, json};

use crate::disruption_target::add_condition;

/// The reason and message of the condition of a pod whose node is gone.
const ORPHANED: (&str, &str) = ("DeletionByPodGC", "PodGC: node no longer exists");

/// The reason for deleting a pod.
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

/// Returns the request that marks a pod as failed before its deletion; `None` for a pod that has
/// ended.
pub(super) fn mark(pod: &Pod, reason: Reason, now: Time) -> Option<Request> {
    if pod.status.phase.is_terminal() {
        return None;
    }
    let generation = pod.metadata.generation;
    let mut status = Map::new();
    if reason == Reason::Orphaned {
        let stored = pod.to_json();
        add_condition(&mut status, &stored["status"], generation, ORPHANED, now);
    }
    status.insert("phase".into(), "Failed".into());
    let observed = pod.status.rest.get("observedGeneration");
    if observed.and_then(|observed| observed.as_i64()).unwrap_or(0) != generation {
        status.insert("observedGeneration".into(), generation.into());
    }
    let mut patch = Map::new();
    let metadata = json!({"uid": pod.metadata.uid.to_string()});
    patch.insert("metadata".into(), metadata);
    patch.insert("status".into(), Value::Object(status));
    Some(Request::Patch {
        kind: Kind::POD,
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        patch: Box::new(Patch::Strategic(patch)),
        of_status: true,
    })
}

/// Returns the request that deletes a pod immediately.
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
