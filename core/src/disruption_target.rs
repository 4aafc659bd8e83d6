//! The condition `DisruptionTarget` of a pod that a controller deletes for a reason other than its
//! owner's, as part of a strategic merge patch.

use podstorm_objects::{Map, Object, Pod, Time};
use podstorm_runtime::client::Patch;
use serde_json::{Value, json};

/// The type of the condition.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The reason and message of the condition `DisruptionTarget`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Disruption {
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
}

/// Adds the members that set the condition to the patch of a pod's status; none if the pod already
/// has it.
pub(crate) fn mark(patch: &mut Map, pod: &Pod, disruption: Disruption, now: Time) {
    let mut wanted = json!({"type": DISRUPTION_TARGET, "status": "True",
        "reason": disruption.reason, "message": disruption.message,
        "observedGeneration": pod.metadata.generation, "lastProbeTime": null,
        "lastTransitionTime": now.to_string()});
    let stored = &pod.to_json()["status"];
    let none = Vec::new();
    let conditions = stored["conditions"].as_array().unwrap_or(&none);
    let of_type = |condition: &&Value| condition["type"] == DISRUPTION_TARGET;
    let members = wanted.as_object_mut().expect("the literal is an object");
    let found = conditions.iter().find(of_type);
    if let Some(found) = found {
        if found["status"] == "True" {
            members.remove("lastTransitionTime");
        }
        // Keep the merge key and the members that differ.
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

/// Returns the patch that sets these members of a pod's status, if the pod still has its UID.
pub(crate) fn patch_of_status(pod: &Pod, status: Map) -> Patch {
    let mut patch = Map::new();
    let metadata = json!({"uid": pod.metadata.uid.to_string()});
    patch.insert("metadata".into(), metadata);
    patch.insert("status".into(), Value::Object(status));
    Patch::Strategic(patch)
}
