//! What upstream's admission plugins fill into new objects before they are stored.
//!
//! Source: the plugins that kube-apiserver 1.36 has on by default, as far as they concern the kinds
//! served here: Priority, RuntimeClass, DefaultTolerationSeconds, TaintNodesByCondition.

use std::collections::BTreeSet;

use podstorm_apiserver::{Cluster, errors, kind_named};
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value, json};

/// Seconds that a pod stays on a node that is not ready or not reachable.
const TOLERATED_SECONDS: i64 = 300;

/// Fills in what is missing in the document of a new object; returns the members of its spec that it
/// added, which nobody owns.
///
/// # Errors
/// 403 for a pod of a class of priority that does not exist.
pub(crate) fn admit(
    cluster: &Cluster,
    kind: Kind,
    document: &mut Map<String, Value>,
) -> Result<Vec<String>, ApiError> {
    let names = |document: &Map<String, Value>| {
        let spec = document.get("spec").and_then(Value::as_object);
        spec.map(|spec| spec.keys().cloned().collect::<BTreeSet<_>>())
            .unwrap_or_default()
    };
    let before = names(document);
    if kind == Kind::POD {
        let name = document.get("metadata").and_then(|of| of["name"].as_str());
        let name = name.unwrap_or("").to_owned();
        if let Some(Value::Object(spec)) = document.get_mut("spec") {
            admit_pod(cluster, &name, spec)?;
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
    Ok(names(document).difference(&before).cloned().collect())
}

/// The priority of a class, and whether its pods preempt others.
///
/// # Errors
/// 403 where there is no class of that name.
fn priority(cluster: &Cluster, pod: &str, class: &str) -> Result<(Value, Value), ApiError> {
    const POLICY: &str = "PreemptLowerPriority";
    match class {
        "" => return Ok((0.into(), POLICY.into())),
        "system-cluster-critical" => return Ok((2_000_000_000.into(), POLICY.into())),
        "system-node-critical" => return Ok((2_000_001_000.into(), POLICY.into())),
        _ => {}
    }
    let kind = kind_named("PriorityClass").ok_or_else(errors::unknown_resource)?;
    let Ok(found) = cluster.api(kind).get("", class) else {
        let why = format!("no PriorityClass with name {class} was found");
        return Err(errors::forbidden(Kind::POD, pod, &why));
    };
    let found = found.to_json();
    Ok((found["value"].clone(), found["preemptionPolicy"].clone()))
}

fn admit_pod(cluster: &Cluster, name: &str, spec: &mut Map<String, Value>) -> Result<(), ApiError> {
    check_runtime_class(name, spec)?;
    let class = spec.get("priorityClassName").and_then(Value::as_str);
    let (value, policy) = priority(cluster, name, class.unwrap_or(""))?;
    spec.entry("priority").or_insert(value);
    spec.entry("preemptionPolicy").or_insert(policy);
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
    Ok(())
}

/// # Errors
/// 403 for a pod with an overhead, which runtime classes alone give. Which classes there are is not known
/// here, so a pod of any is let through.
fn check_runtime_class(pod: &str, spec: &Map<String, Value>) -> Result<(), ApiError> {
    let overhead = spec.get("overhead").and_then(Value::as_object);
    let has_class = spec.get("runtimeClassName").is_some_and(Value::is_string);
    if has_class || overhead.is_none_or(Map::is_empty) {
        return Ok(());
    }
    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    Err(errors::forbidden(Kind::POD, pod, why))
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
