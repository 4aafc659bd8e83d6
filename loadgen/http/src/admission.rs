//! What upstream's admission plugins fill into new objects before they are stored.
//!
//! Source: the plugins that kube-apiserver 1.36 has on by default, as far as they concern the kinds
//! served here: Priority, DefaultTolerationSeconds, TaintNodesByCondition.

use podstorm_objects::Kind;
use serde_json::{Map, Value, json};

/// Seconds that a pod stays on a node that is not ready or not reachable.
const TOLERATED_SECONDS: i64 = 300;

/// Fills in what is missing in the document of a new object.
pub(crate) fn admit(kind: Kind, document: &mut Map<String, Value>) {
    if kind == Kind::POD {
        if let Some(Value::Object(spec)) = document.get_mut("spec") {
            admit_pod(spec);
        }
    } else if kind == Kind::NODE {
        let spec = document.entry("spec").or_insert_with(|| json!({}));
        add_to_list(
            spec,
            "taints",
            "node.kubernetes.io/not-ready",
            || json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}),
        );
    }
}

fn admit_pod(spec: &mut Map<String, Value>) {
    // There are no classes yet, so no pod has another priority than this.
    spec.entry("priority").or_insert_with(|| 0.into());
    let policy = "PreemptLowerPriority";
    spec.entry("preemptionPolicy")
        .or_insert_with(|| policy.into());
    let mut spec_value = Value::Object(std::mem::take(spec));
    for key in [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ] {
        add_to_list(&mut spec_value, "tolerations", key, || {
            json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS})
        });
    }
    if let Value::Object(filled) = spec_value {
        *spec = filled;
    }
}

/// Adds an entry to a list unless it has one with that key.
fn add_to_list(object: &mut Value, list: &str, key: &str, entry: impl FnOnce() -> Value) {
    let Some(object) = object.as_object_mut() else {
        return;
    };
    let list = object.entry(list).or_insert_with(|| json!([]));
    if list.is_null() {
        *list = json!([]);
    }
    if let Value::Array(entries) = list
        && !entries.iter().any(|present| present["key"] == key)
    {
        entries.push(entry());
    }
}
