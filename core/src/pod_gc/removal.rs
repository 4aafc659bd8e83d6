//! Why and how a pod is deleted.

use podstorm_objects::{DeleteOptions, Kind, Map, Object, Pod, Time};
use podstorm_runtime::client::{Patch, Request};
use serde_json::{Value, json};

/// The condition of a pod that is deleted for another reason than its owner's.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Why a pod is deleted.
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
    /// The value of the metrics' label `reason`.
    pub(super) fn label(self) -> &'static str {
        match self {
            Reason::Terminated => "terminated",
            Reason::OutOfService => "out-of-service",
            Reason::Orphaned => "orphaned",
            Reason::Unscheduled => "unscheduled",
        }
    }
}

/// The request that marks a pod as failed before its deletion; `None` for a pod that has ended.
pub(super) fn mark(pod: &Pod, reason: Reason, now: Time) -> Option<Request> {
    if pod.status.phase.is_terminal() {
        return None;
    }
    let generation = pod.metadata.generation;
    let mut status = Map::new();
    if reason == Reason::Orphaned {
        let stored = pod.to_json();
        add_condition(&mut status, &stored["status"], generation, now);
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

/// The request that deletes a pod at once.
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

/// Adds the members that set the condition `DisruptionTarget` to the patch of a status.
fn add_condition(patch: &mut Map, stored: &Value, generation: i64, now: Time) {
    let mut wanted = json!({"type": DISRUPTION_TARGET, "status": "True",
        "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
        "observedGeneration": generation, "lastProbeTime": null,
        "lastTransitionTime": now.to_string()});
    let none = Vec::new();
    let conditions = stored["conditions"].as_array().unwrap_or(&none);
    let of_type = |condition: &&Value| condition["type"] == DISRUPTION_TARGET;
    let members = wanted.as_object_mut().expect("it is written as one");
    let found = conditions.iter().find(of_type);
    if let Some(found) = found {
        if found["status"] == "True" {
            members.remove("lastTransitionTime");
        }
        // The key stays, and the members that differ.
        members.retain(|member, value| member == "type" || found[member.as_str()] != *value);
        if members.len() == 1 {
            return;
        }
    }
    if !conditions.is_empty() {
        let types = conditions.iter().map(|condition| &condition["type"]);
        let mut order: Vec<Value> = types.map(|of| json!({"type": of})).collect();
        if found.is_none() {
            order.push(json!({"type": DISRUPTION_TARGET}));
        }
        patch.insert("$setElementOrder/conditions".into(), order.into());
    }
    patch.insert("conditions".into(), Value::Array(vec![wanted]));
}
