//! Reading and writing nodes: conditions, taints, and the tolerations of pods.
//!
//! Source: Kubernetes' `pkg/util/taints`, `k8s.io/component-helpers/scheduling/corev1` and
//! `pkg/controller/util/node`.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{Kind, Map, Node, Pod, PodSpec, Str, Time};
use podstorm_runtime::client::{Answer, ApiError, Patch, Request};
use podstorm_runtime::driver::Calls;
use serde_json::{Value, json};

/// The maximum number of attempts to change the taints of a node, the same as upstream's.
const ATTEMPTS: usize = 5;

/// The effect of a taint that evicts running pods.
pub(crate) const NO_EXECUTE: &str = "NoExecute";

/// The effect of a taint that keeps new pods away.
pub(crate) const NO_SCHEDULE: &str = "NoSchedule";

/// The key of the taint of a node that reports that it is not ready.
pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";

/// The key of the taint of a node that has stopped reporting.
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Returns the name of the node to which a pod is bound; `None` if it is not bound.
pub(crate) fn node_of(pod: &Pod) -> Option<&Str> {
    pod.node_name.as_ref().filter(|name| !name.is_empty())
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taint {
    /// The key of the taint.
    pub(crate) key: CompactString,
    /// The value of the taint; empty if it has none.
    pub(crate) value: CompactString,
    /// The effect: `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub(crate) effect: CompactString,
    /// `timeAdded` as the node has it; empty if absent.
    pub(crate) time_added: CompactString,
}

impl Taint {
    /// Creates a taint without a value and without `timeAdded`.
    pub(crate) fn new(key: &str, effect: &str) -> Taint {
        Taint {
            key: key.into(),
            value: CompactString::default(),
            effect: effect.into(),
            time_added: CompactString::default(),
        }
    }

    /// Reports whether the keys and effects are equal. A node has at most one taint for each pair.
    pub(crate) fn is_same(&self, other: &Taint) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    fn read(value: &Value) -> Taint {
        let text = |member: &str| value[member].as_str().unwrap_or_default().into();
        Taint {
            key: text("key"),
            value: text("value"),
            effect: text("effect"),
            time_added: text("timeAdded"),
        }
    }

    fn to_json(&self) -> Value {
        let mut members = Map::new();
        for (name, text) in [
            ("effect", &self.effect),
            ("key", &self.key),
            ("timeAdded", &self.time_added),
            ("value", &self.value),
        ] {
            if !text.is_empty() {
                members.insert(name.into(), text.as_str().into());
            }
        }
        Value::Object(members)
    }
}

/// Returns the taints of a node, in the node's order.
pub(crate) fn taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.get("taints").and_then(Value::as_array);
    taints.into_iter().flatten().map(Taint::read).collect()
}

/// Reports whether the node has a taint with the same key and effect.
pub(crate) fn is_tainted(node: &Node, taint: &Taint) -> bool {
    taints(node).iter().any(|found| found.is_same(taint))
}

/// Returns the condition of this type; `None` if the node does not have it.
pub(crate) fn condition<'a>(node: &'a Node, of_type: &str) -> Option<&'a Value> {
    let conditions = node.status.get("conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.find(|condition| condition["type"] == of_type)
}

/// Returns the time in a member of a condition; unset if the member is absent or not a time.
pub(crate) fn time_in(condition: &Value, member: &str) -> Time {
    let text = condition[member].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

/// The parts of a toleration that decide about `NoExecute` taints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Toleration {
    key: CompactString,
    is_equal: bool,
    value: CompactString,
    effect: CompactString,
    /// `tolerationSeconds`; `None` means forever.
    pub(crate) seconds: Option<i64>,
}

/// Parses the tolerations of a pod. O(bytes of the spec).
pub(crate) fn tolerations(spec: &PodSpec) -> Vec<Toleration> {
    let tolerations = spec.get("tolerations").unwrap_or_default();
    let tolerations = tolerations.as_array().into_iter().flatten();
    let read = |value: &Value| {
        let text = |member: &str| CompactString::from(value[member].as_str().unwrap_or_default());
        Toleration {
            key: text("key"),
            is_equal: text("operator") != "Exists",
            value: text("value"),
            effect: text("effect"),
            seconds: value["tolerationSeconds"].as_i64(),
        }
    };
    tolerations.map(read).collect()
}

impl Toleration {
    /// Reports whether the toleration matches a taint.
    pub(crate) fn matches(&self, taint: &Taint) -> bool {
        (self.effect.is_empty() || self.effect == taint.effect)
            && (self.key.is_empty() || self.key == taint.key)
            && (!self.is_equal || self.value == taint.value)
    }
}

/// Sets taints of a node with the current time, then removes others. Each of these steps is a read
/// and a patch that fails if another client has changed the node in between. There are up to five
/// attempts. A step that changes nothing sends no patch.
///
/// `seen` is the node as the caller knows it. If it has none of the taints in `remove`, nothing is
/// removed.
///
/// # Errors
/// Returns the last error of the step that failed. The changes of an earlier step stay.
pub(crate) async fn swap_taints(
    calls: &Calls,
    seen: &Node,
    mut add: Vec<Taint>,
    remove: &[Taint],
) -> Result<(), ApiError> {
    let now = calls.now().wall();
    for taint in &mut add {
        taint.time_added = now.to_string().into();
    }
    if !add.is_empty() {
        change_taints(calls, seen, |taints| {
            for taint in &add {
                match taints.iter_mut().find(|found| found.is_same(taint)) {
                    Some(found) => *found = taint.clone(),
                    None => taints.push(taint.clone()),
                }
            }
        })
        .await?;
    }
    if remove.iter().any(|taint| is_tainted(seen, taint)) {
        change_taints(calls, seen, |taints| {
            taints.retain(|found| !remove.iter().any(|taint| taint.is_same(found)));
        })
        .await?;
    }
    Ok(())
}

async fn change_taints(
    calls: &Calls,
    seen: &Node,
    change: impl Fn(&mut Vec<Taint>),
) -> Result<(), ApiError> {
    let mut failed = None;
    for _ in 0..ATTEMPTS {
        let node = read(calls, &seen.metadata.name).await?;
        let before = taints(&node);
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(());
        }
        let taints = match after.is_empty() {
            true => Value::Null,
            false => after.iter().map(Taint::to_json).collect(),
        };
        let version = node.metadata.resource_version.to_string();
        let body = json!({"metadata": {"resourceVersion": version}, "spec": {"taints": taints}});
        match calls.request(patch(&seen.metadata.name, body)).await {
            Answer::Failed(error) if error.code == 409 => failed = Some(error),
            Answer::Failed(error) => return Err(error),
            _ => return Ok(()),
        }
    }
    Err(failed.expect("every attempt has failed"))
}

/// Builds a strategic merge patch of a node.
pub(crate) fn patch(name: &CompactString, body: Value) -> Request {
    let Value::Object(members) = body else {
        panic!("a patch is an object: {body}");
    };
    Request::Patch {
        kind: Kind::NODE,
        namespace: Str::default(),
        name: name.clone(),
        patch: Box::new(Patch::Strategic(members)),
        of_status: false,
    }
}

/// Reads a node from the server.
///
/// # Errors
/// Returns the server's error.
pub(crate) async fn read(calls: &Calls, name: &CompactString) -> Result<Arc<Node>, ApiError> {
    calls.get(Kind::NODE, &Str::default(), name).await
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource;

    use super::*;

    #[test]
    fn a_toleration_matches_by_key_value_and_effect() {
        let spec = |toleration: Value| {
            let spec = json!({"tolerations": [toleration]});
            PodSpec::from_json(spec.as_object().unwrap().clone()).unwrap()
        };
        let taint = Taint {
            value: "v".into(),
            ..Taint::new("k", NO_EXECUTE)
        };
        for (toleration, matches) in [
            (json!({"operator": "Exists"}), true),
            (json!({"key": "k", "operator": "Exists"}), true),
            (json!({"key": "k", "value": "v"}), true),
            (
                json!({"key": "k", "value": "v", "effect": "NoExecute"}),
                true,
            ),
            (json!({"key": "k"}), false),
            (json!({"key": "k", "value": "w"}), false),
            (json!({"key": "other", "operator": "Exists"}), false),
            (
                json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}),
                false,
            ),
        ] {
            let found = tolerations(&spec(toleration.clone()));
            assert_eq!(found[0].matches(&taint), matches, "{toleration}");
        }
    }

    #[test]
    fn taints_round_trip_through_json() {
        let written = json!([{"effect": "NoExecute", "key": "k", "timeAdded": "2026-01-01T00:00:00Z"},
            {"effect": "NoSchedule", "key": "l", "value": "v"}]);
        let node = Node::from_json(json!({"spec": {"taints": written}})).unwrap();
        let read = taints(&node);
        let again: Value = read.iter().map(Taint::to_json).collect();
        assert_eq!(again, written);
        assert!(is_tainted(&node, &Taint::new("l", NO_SCHEDULE)));
        assert!(!is_tainted(&node, &Taint::new("l", NO_EXECUTE)));
    }
}
