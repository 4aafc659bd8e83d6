//! Scopes: which objects a quota applies to.

use podstorm_objects::cells::items;
use podstorm_objects::{Kind, Pod, Resource};
use serde_json::Value;

use crate::defaulting::qos_class;

/// Reports whether a quota with this spec applies to an object.
pub(super) fn matches(spec: &Value, kind: Kind, object: &Value) -> bool {
    let scopes = spec["scopes"].as_array().into_iter().flatten();
    let all = scopes
        .filter_map(Value::as_str)
        .all(|scope| is_in(scope, kind, object));
    let mut chosen = items(spec, "/scopeSelector/matchExpressions");
    all && chosen.all(|wanted| is_chosen(wanted, kind, object))
}

fn is_in(scope: &str, kind: Kind, object: &Value) -> bool {
    if scope == "VolumeAttributesClass" {
        return !object["spec"]["volumeAttributesClassName"].is_null();
    }
    // All other scopes apply only to pods.
    if kind != Kind::POD {
        return false;
    }
    let is_best_effort =
        || Pod::from_json(object.clone()).is_ok_and(|pod| qos_class(&pod.spec) == "BestEffort");
    let ends = object["spec"]["activeDeadlineSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds >= 0);
    match scope {
        "BestEffort" => is_best_effort(),
        "NotBestEffort" => !is_best_effort(),
        "Terminating" => ends,
        "NotTerminating" => !ends,
        "PriorityClass" => !class_of(object).is_empty(),
        "CrossNamespacePodAffinity" => crosses_namespaces(object),
        _ => false,
    }
}

fn is_chosen(wanted: &Value, kind: Kind, object: &Value) -> bool {
    let scope = wanted["scopeName"].as_str().unwrap_or("");
    if scope != "PriorityClass" {
        let is = is_in(scope, kind, object);
        return match wanted["operator"].as_str() {
            Some("DoesNotExist") => kind == Kind::POD && !is,
            _ => is,
        };
    }
    if kind != Kind::POD {
        return false;
    }
    let class = class_of(object);
    let values = wanted["values"].as_array();
    let is_listed = values.is_some_and(|values| values.iter().any(|value| value == class));
    match wanted["operator"].as_str().unwrap_or("") {
        "In" => is_listed,
        "NotIn" => !is_listed,
        "Exists" => !class.is_empty(),
        "DoesNotExist" => class.is_empty(),
        _ => false,
    }
}

fn class_of(pod: &Value) -> &str {
    pod["spec"]["priorityClassName"].as_str().unwrap_or("")
}

/// Reports whether a pod's affinity or anti-affinity refers to other namespaces.
fn crosses_namespaces(pod: &Value) -> bool {
    let is_wide = |term: &Value| {
        !term["namespaceSelector"].is_null()
            || term["namespaces"]
                .as_array()
                .is_some_and(|names| !names.is_empty())
    };
    ["podAffinity", "podAntiAffinity"].into_iter().any(|kind| {
        let affinity = &pod["spec"]["affinity"][kind];
        items(affinity, "/requiredDuringSchedulingIgnoredDuringExecution").any(is_wide)
            || items(affinity, "/preferredDuringSchedulingIgnoredDuringExecution")
                .any(|term| is_wide(&term["podAffinityTerm"]))
    })
}
