//! `autoscaling/v1` of HorizontalPodAutoscalers: one CPU percentage. Everything else from version 2
//! is in annotations, which have formats of their own.
//!
//! Source: `pkg/apis/autoscaling/v1/conversion.go` of Kubernetes.

use std::fmt::Display;

use podstorm_objects::{Kind, ResourceType};
use serde_json::{Map, Value, json};

use super::ROWS;
use crate::builtin::version::{Decodes, OtherVersion};
use crate::internal_text;

const VERSION_2: Kind = Kind::from_row(&ROWS[0]);

pub(in crate::builtin) static VERSION_1: OtherVersion = OtherVersion {
    row: ResourceType {
        group: "autoscaling",
        api_version: "autoscaling/v1",
        kind: "HorizontalPodAutoscaler",
        resource: "horizontalpodautoscalers",
        has_status: true,
        short_names: &["hpa"],
        categories: &["all"],
        ..ResourceType::DEFAULT
    },
    stored: VERSION_2,
    to: to_version_1,
    from: from_version_1,
    checks_metadata: false,
    check: |_, _| Vec::new(),
};

const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const ANNOTATIONS: [&str; 4] = [BEHAVIOR, CONDITIONS, CURRENT, METRICS];

/// The members of a metric in the annotations: the name there, the JSON pointer in version 2, and
/// the representation of an absent member. `*` is replaced by `target`, or in a status by
/// `current`.
type Members = &'static [(&'static str, &'static str, Absent)];

/// How the annotations represent an absent member.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Absent {
    LeftOut,
    /// As zero, because the member is not a pointer in Go.
    Zero,
    /// As zero, but only in a status.
    ZeroNow,
}
use Absent::{LeftOut, Zero, ZeroNow};

impl Absent {
    fn is_zero(self, part: &str) -> bool {
        self == Zero || self == ZeroNow && part == "current"
    }
}

const METRICS_BY_TYPE: [(&str, Members); 5] = [
    (
        "object",
        &[
            ("target", "/describedObject", LeftOut),
            ("metricName", "/metric/name", LeftOut),
            ("*Value", "/*/value", Zero),
            ("selector", "/metric/selector", LeftOut),
            ("averageValue", "/*/averageValue", LeftOut),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name", LeftOut),
            ("*AverageValue", "/*/averageValue", Zero),
            ("selector", "/metric/selector", LeftOut),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name", LeftOut),
            ("*AverageUtilization", "/*/averageUtilization", LeftOut),
            ("*AverageValue", "/*/averageValue", ZeroNow),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name", LeftOut),
            ("*AverageUtilization", "/*/averageUtilization", LeftOut),
            ("*AverageValue", "/*/averageValue", ZeroNow),
            ("container", "/container", LeftOut),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name", LeftOut),
            ("metricSelector", "/metric/selector", LeftOut),
            ("*Value", "/*/value", ZeroNow),
            ("*AverageValue", "/*/averageValue", LeftOut),
        ],
    ),
];

/// Formats an object with its members in the given order. Absent members are omitted.
fn text<N: Display>(members: impl IntoIterator<Item = (N, Option<String>)>) -> String {
    let members = members.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("\"{name}\":{value}"))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn list(texts: Vec<String>) -> Option<String> {
    (!texts.is_empty()).then(|| format!("[{}]", texts.join(",")))
}

/// Formats a metric of an annotation. `part` is `target` or `current`.
fn metric_text(metric: &Value, part: &str) -> String {
    let parts = METRICS_BY_TYPE.iter().map(|(kind, members)| {
        let of_kind = &metric[*kind];
        let members = members.iter().map(|(name, at, absent)| {
            let value = of_kind.pointer(&at.replace('*', part));
            let value = value.filter(|value| !value.is_null());
            let zero = || absent.is_zero(part).then(|| "\"0\"".to_owned());
            let text = value.map(Value::to_string).or_else(zero);
            (name.replace('*', part), text)
        });
        (*kind, of_kind.is_object().then(|| text(members)))
    });
    let kind = std::iter::once(("type", Some(metric["type"].to_string())));
    text(kind.chain(parts))
}

fn condition_text(condition: &Value) -> String {
    let names = ["type", "status", "lastTransitionTime", "reason", "message"];
    text(names.map(|name| {
        let value = Some(&condition[name]).filter(|value| !value.is_null());
        (name, value.map(Value::to_string))
    }))
}

/// Returns the annotations that hold what version 1 has no members for.
fn annotations(scaler: &Map<String, Value>) -> Vec<(&'static str, String)> {
    let all = |part: &str, member: &str| {
        let entries = scaler
            .get(part)
            .and_then(|part| part.get(member)?.as_array());
        entries.cloned().unwrap_or_default()
    };
    let metrics = all("spec", "metrics");
    // The CPU metric has a member of its own.
    let others = metrics.iter().filter(|metric| !has_percentage(metric));
    let others = others.map(|metric| metric_text(metric, "target"));
    let current = all("status", "currentMetrics");
    let current = current.iter().map(|metric| metric_text(metric, "current"));
    let conditions = all("status", "conditions");
    let behavior = scaler.get("spec").map(|spec| &spec["behavior"]);
    let behavior = behavior.filter(|behavior| behavior.is_object());
    let behavior =
        behavior.map(|behavior| internal_text(behavior, "HorizontalPodAutoscalerBehavior"));
    let texts = [
        (BEHAVIOR, behavior),
        (
            CONDITIONS,
            list(conditions.iter().map(condition_text).collect()),
        ),
        (CURRENT, list(current.collect())),
        (METRICS, list(others.collect())),
    ];
    let present = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text?)));
    present.collect()
}

fn has_percentage(metric: &Value) -> bool {
    is_cpu(metric) && metric["resource"]["target"]["averageUtilization"].is_number()
}

/// Reports whether a metric is CPU utilization in percent, which version 1 has a member for.
fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

fn to_version_1(scaler: &mut Map<String, Value>) {
    let texts = annotations(scaler);
    if !texts.is_empty() {
        let metadata = scaler.entry("metadata").or_insert_with(|| json!({}));
        for (name, text) in texts {
            metadata["annotations"][name] = text.into();
        }
    }
    if let Some(Value::Object(spec)) = scaler.get_mut("spec") {
        let metrics = spec.remove("metrics").unwrap_or_default();
        if let Some(percent) = cpu_percentage(&metrics, "target") {
            spec.insert("targetCPUUtilizationPercentage".into(), percent);
        }
        spec.remove("behavior");
    }
    if let Some(Value::Object(status)) = scaler.get_mut("status") {
        let metrics = status.remove("currentMetrics").unwrap_or_default();
        if let Some(percent) = cpu_percentage(&metrics, "current") {
            status.insert("currentCPUUtilizationPercentage".into(), percent);
        }
        status.remove("conditions");
        status.entry("currentReplicas").or_insert(0.into());
        status.entry("desiredReplicas").or_insert(0.into());
    }
}

fn cpu_percentage(metrics: &Value, part: &str) -> Option<Value> {
    let cpu = metrics.as_array()?.iter().find(|one| is_cpu(one))?;
    let percent = &cpu["resource"][part]["averageUtilization"];
    percent.is_number().then(|| percent.clone())
}

fn from_version_1(scaler: &mut Map<String, Value>, decodes: Decodes) {
    let texts = take_annotations(scaler);
    // As in upstream, ignore annotations whose value does not have the member's type.
    let of = |name: &str, (part, member): (&str, &str), read: fn(Value) -> Option<Value>| {
        let (_, text) = texts.iter().find(|(known, _)| known == name)?;
        let value = read(serde_json::from_str(text).ok()?)?;
        decodes(VERSION_2, json!({part: {member: value}})).then_some(value)
    };
    let wanted = of(METRICS, ("spec", "metrics"), |it| metrics_of(&it, "target"));
    let behavior = of(BEHAVIOR, ("spec", "behavior"), |it| Some(outside_names(it)));
    let current = |it| metrics_of(&it, "current");
    let current = of(CURRENT, ("status", "currentMetrics"), current);
    let conditions = of(CONDITIONS, ("status", "conditions"), Some);
    if let Some(Value::Object(spec)) = scaler.get_mut("spec") {
        let percent = spec.remove("targetCPUUtilizationPercentage");
        let cpu = percent.map(|percent| {
            let target = json!({"type": "Utilization", "averageUtilization": percent});
            json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
        });
        let others = wanted.as_ref().and_then(Value::as_array).into_iter();
        let metrics: Vec<Value> = others.flatten().cloned().chain(cpu).collect();
        if !metrics.is_empty() {
            spec.insert("metrics".to_owned(), metrics.into());
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if current.is_some() || conditions.is_some() {
        // An apply may have removed the whole status.
        let status = scaler.entry("status").or_insert(Value::Null);
        if status.is_null() {
            *status = json!({});
        }
    }
    let Some(Value::Object(status)) = scaler.get_mut("status") else {
        return;
    };
    let percent = status.remove("currentCPUUtilizationPercentage");
    let cpu = percent.map(|percent| {
        let current = json!({"averageUtilization": percent});
        vec![json!({"type": "Resource", "resource": {"name": "cpu", "current": current}})]
    });
    // The metrics of the annotation take precedence over the CPU percentage.
    if let Some(metrics) = current.or(cpu.map(Value::from)) {
        status.insert("currentMetrics".to_owned(), metrics);
    }
    if let Some(conditions) = conditions {
        status.insert("conditions".to_owned(), conditions);
    }
}

/// Removes and returns the annotations that hold what version 1 has no members for.
fn take_annotations(scaler: &mut Map<String, Value>) -> Vec<(String, String)> {
    let mut texts = Vec::new();
    if let Some(Value::Object(metadata)) = scaler.get_mut("metadata")
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.retain(|name, text| {
            let is_ours = ANNOTATIONS.contains(&name.as_str());
            if let (true, Some(text)) = (is_ours, text.as_str()) {
                texts.push((name.clone(), text.to_owned()));
            }
            !is_ours
        });
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    texts
}

/// Converts the metrics of an annotation to version 2. `part` names the member with their values
/// there. `None` if the value is not a list of metrics.
fn metrics_of(texts: &Value, part: &str) -> Option<Value> {
    let metrics = texts.as_array()?.iter().map(|metric| {
        let mut read = json!({"type": metric.get("type")?.as_str()?});
        for (kind, members) in METRICS_BY_TYPE {
            let Some(of_kind) = metric.get(kind).filter(|it| it.is_object()) else {
                continue;
            };
            let mut parts = json!({});
            for (name, at, absent) in members {
                let (name, at) = (name.replace('*', part), at.replace('*', part));
                match (of_kind.get(&name).filter(|it| !it.is_null()), absent) {
                    (Some(value), _) => put(&mut parts, &at, value.clone()),
                    (None, absent) if absent.is_zero(part) => put(&mut parts, &at, "0".into()),
                    (None, _) => {}
                }
            }
            if part == "target" {
                parts[part]["type"] = target_type(kind, &parts[part]).into();
            }
            read[kind] = parts;
        }
        Some(read)
    });
    metrics.collect()
}

/// Returns the type of a version 2 target, which version 1 implies by the target's values.
fn target_type(kind: &str, target: &Value) -> &'static str {
    let has = |member: &str| target.get(member).is_some();
    match kind {
        "object" if !has("averageValue") => "Value",
        "external" if has("value") => "Value",
        _ if has("averageUtilization") => "Utilization",
        _ => "AverageValue",
    }
}

/// Sets the member at a JSON pointer.
fn put(object: &mut Value, at: &str, value: Value) {
    let mut place = object;
    for name in at.split('/').skip(1) {
        place = &mut place[name];
    }
    *place = value;
}

/// Renames an object's members from Go's internal names to the names of the API.
fn outside_names(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| !value.is_null());
            let members = members.map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                let name = first.into_iter().chain(letters).collect();
                (name, outside_names(value))
            });
            Value::Object(members.collect())
        }
        Value::Array(items) => items.into_iter().map(outside_names).collect(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(value: Value) -> Map<String, Value> {
        match value {
            Value::Object(members) => members,
            other => panic!("{other} is not an object"),
        }
    }

    #[test]
    fn annotations_restore_what_version_1_lacks() {
        let scaler = members(json!({
            "metadata": {"name": "h", "annotations": {"a": "b"}},
            "spec": {
                "maxReplicas": 5,
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 3, "selectPolicy": "Min",
                    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 60}]}},
                "metrics": [
                    {"type": "Object", "object": {
                        "describedObject": {"kind": "Ingress", "name": "i", "apiVersion": "v1"},
                        "metric": {"name": "hits", "selector": {"matchLabels": {"x": "y"}}},
                        "target": {"type": "Value", "value": "10"}}},
                    {"type": "External", "external": {"metric": {"name": "queue"},
                        "target": {"type": "AverageValue", "averageValue": "30"}}},
                    {"type": "Resource", "resource": {"name": "cpu",
                        "target": {"type": "Utilization", "averageUtilization": 50}}},
                ],
            },
            "status": {
                "currentReplicas": 1, "desiredReplicas": 2,
                "conditions": [{"type": "AbleToScale", "status": "True", "reason": "Ready",
                    "lastTransitionTime": "2026-01-01T00:00:00Z", "message": "fine"}],
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "current": {"averageUtilization": 40, "averageValue": "0"}}}],
            },
        }));
        let mut shown = scaler.clone();
        to_version_1(&mut shown);
        assert_eq!(shown["spec"]["targetCPUUtilizationPercentage"], 50);
        assert_eq!(
            shown["metadata"]["annotations"].as_object().unwrap().len(),
            5
        );
        from_version_1(&mut shown, |_, _| true);
        assert_eq!(Value::Object(shown), Value::Object(scaler));
    }
}
