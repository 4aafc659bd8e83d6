//! `autoscaling/v1` of HorizontalPodAutoscalers: one percentage of the CPU. All else that version 2 has is in
//! annotations, in forms of their own.
//!
//! Source: `pkg/apis/autoscaling/v1/conversion.go` of Kubernetes.

use podstorm_apiserver::internal_text;
use serde_json::{Map, Value, json};

const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CURRENT: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const ANNOTATIONS: [&str; 4] = [BEHAVIOR, CONDITIONS, CURRENT, METRICS];

/// The members of metrics in annotations: their name there, and where they are in version 2.
type Members = &'static [(&'static str, &'static str)];

const WANTED: [(&str, Members); 5] = [
    (
        "object",
        &[
            ("target", "/describedObject"),
            ("metricName", "/metric/name"),
            ("targetValue", "/target/value"),
            ("selector", "/metric/selector"),
            ("averageValue", "/target/averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name"),
            ("targetAverageValue", "/target/averageValue"),
            ("selector", "/metric/selector"),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name"),
            ("targetAverageUtilization", "/target/averageUtilization"),
            ("targetAverageValue", "/target/averageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name"),
            ("targetAverageUtilization", "/target/averageUtilization"),
            ("targetAverageValue", "/target/averageValue"),
            ("container", "/container"),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name"),
            ("metricSelector", "/metric/selector"),
            ("targetValue", "/target/value"),
            ("targetAverageValue", "/target/averageValue"),
        ],
    ),
];

const FOUND: [(&str, Members); 5] = [
    (
        "object",
        &[
            ("target", "/describedObject"),
            ("metricName", "/metric/name"),
            ("currentValue", "/current/value"),
            ("selector", "/metric/selector"),
            ("averageValue", "/current/averageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("metricName", "/metric/name"),
            ("currentAverageValue", "/current/averageValue"),
            ("selector", "/metric/selector"),
        ],
    ),
    (
        "resource",
        &[
            ("name", "/name"),
            ("currentAverageUtilization", "/current/averageUtilization"),
            ("currentAverageValue", "/current/averageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("name", "/name"),
            ("currentAverageUtilization", "/current/averageUtilization"),
            ("currentAverageValue", "/current/averageValue"),
            ("container", "/container"),
        ],
    ),
    (
        "external",
        &[
            ("metricName", "/metric/name"),
            ("metricSelector", "/metric/selector"),
            ("currentValue", "/current/value"),
            ("currentAverageValue", "/current/averageValue"),
        ],
    ),
];

/// An object as text, its members in this order; absent ones are left out.
fn text<'v>(members: impl IntoIterator<Item = (&'v str, Option<String>)>) -> String {
    let members = members.into_iter().filter_map(|(name, value)| {
        let value = value?;
        Some(format!("\"{name}\":{value}"))
    });
    format!("{{{}}}", members.collect::<Vec<_>>().join(","))
}

fn list(texts: Vec<String>) -> Option<String> {
    (!texts.is_empty()).then(|| format!("[{}]", texts.join(",")))
}

fn metric_text(metric: &Value, kinds: &[(&'static str, Members)]) -> String {
    let parts = kinds.iter().map(|(kind, members)| {
        let of_kind = &metric[*kind];
        let members = members.iter().map(|(name, at)| {
            let value = of_kind.pointer(at).filter(|value| !value.is_null());
            (*name, value.map(Value::to_string))
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

/// The annotations with what version 1 has no members for.
fn annotations(scaler: &Map<String, Value>) -> Vec<(&'static str, String)> {
    let all = |part: &str, member: &str| {
        let entries = scaler
            .get(part)
            .and_then(|part| part.get(member)?.as_array());
        entries.cloned().unwrap_or_default()
    };
    let metrics = all("spec", "metrics");
    // The first one about the CPU has a member of its own.
    let own = metrics.iter().position(has_percentage);
    let others = (metrics.iter().enumerate())
        .filter(|(at, _)| Some(*at) != own)
        .map(|(_, metric)| metric_text(metric, &WANTED));
    let current = all("status", "currentMetrics");
    let current = current.iter().map(|metric| metric_text(metric, &FOUND));
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

/// Whether a metric is the use of the CPU in percent, which version 1 has a member for.
fn is_cpu(metric: &Value) -> bool {
    metric["type"] == "Resource" && metric["resource"]["name"] == "cpu"
}

pub(crate) fn to_v1(scaler: &mut Map<String, Value>) {
    let texts = annotations(scaler);
    if !texts.is_empty() {
        let metadata = scaler.entry("metadata").or_insert_with(|| json!({}));
        for (name, text) in texts {
            metadata["annotations"][name] = text.into();
        }
    }
    if let Some(Value::Object(spec)) = scaler.get_mut("spec") {
        let metrics = spec.remove("metrics").unwrap_or_default();
        let cpu = metrics
            .as_array()
            .and_then(|all| all.iter().find(|one| is_cpu(one)));
        let percent = cpu.map(|cpu| &cpu["resource"]["target"]["averageUtilization"]);
        if let Some(percent) = percent.filter(|percent| percent.is_number()) {
            spec.insert("targetCPUUtilizationPercentage".into(), percent.clone());
        }
        spec.remove("behavior");
    }
    if let Some(Value::Object(status)) = scaler.get_mut("status") {
        let metrics = status.remove("currentMetrics").unwrap_or_default();
        let cpu = metrics
            .as_array()
            .and_then(|all| all.iter().find(|one| is_cpu(one)));
        let percent = cpu.map(|cpu| &cpu["resource"]["current"]["averageUtilization"]);
        if let Some(percent) = percent.filter(|percent| percent.is_number()) {
            status.insert("currentCPUUtilizationPercentage".into(), percent.clone());
        }
        status.remove("conditions");
        status.entry("currentReplicas").or_insert(0.into());
        status.entry("desiredReplicas").or_insert(0.into());
    }
}

pub(crate) fn from_v1(scaler: &mut Map<String, Value>) {
    if let Some(Value::Object(metadata)) = scaler.get_mut("metadata")
        && let Some(Value::Object(annotations)) = metadata.get_mut("annotations")
    {
        annotations.retain(|name, _| !ANNOTATIONS.contains(&name.as_str()));
        if annotations.is_empty() {
            metadata.remove("annotations");
        }
    }
    if let Some(Value::Object(spec)) = scaler.get_mut("spec")
        && let Some(percent) = spec.remove("targetCPUUtilizationPercentage")
    {
        let target = json!({"type": "Utilization", "averageUtilization": percent});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
        spec.insert("metrics".to_owned(), json!([cpu]));
    }
    if let Some(Value::Object(status)) = scaler.get_mut("status")
        && let Some(percent) = status.remove("currentCPUUtilizationPercentage")
    {
        let current = json!({"averageUtilization": percent, "averageValue": "0"});
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "current": current}});
        status.insert("currentMetrics".to_owned(), json!([cpu]));
    }
}

/// Keeps what version 1 does not show: behaviour, conditions, and metrics but the CPU.
pub(crate) fn keep(scaler: &mut Map<String, Value>, stored: &Value) {
    for (part, member, list) in [
        ("spec", "behavior", "metrics"),
        ("status", "conditions", "currentMetrics"),
    ] {
        let (Some(Value::Object(new)), old) = (scaler.get_mut(part), &stored[part]) else {
            continue;
        };
        if !old[member].is_null() {
            new.insert(member.to_owned(), old[member].clone());
        }
        let kept = old[list].as_array().into_iter().flatten();
        let mut metrics: Vec<Value> = kept.filter(|metric| !is_cpu(metric)).cloned().collect();
        metrics.extend(
            new.get(list)
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
        );
        if !metrics.is_empty() {
            new.insert(list.to_owned(), metrics.into());
        }
    }
}
