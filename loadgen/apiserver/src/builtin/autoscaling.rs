//! The rules of HorizontalPodAutoscalers.

use podstorm_objects::cells::{items, number, text};
use podstorm_objects::{Cause, DynamicObject, Quantity};
use serde_json::Value;

use crate::errors::{forbidden_field, invalid_value, not_supported, required};
use crate::validation::path_segment_problem;

/// The sources of metrics with the members that hold them, sorted.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

/// The broken rules of a spec.
pub(super) fn validate(scaler: &DynamicObject) -> Vec<Cause> {
    let none = Value::Null;
    let spec = scaler.fields.get("spec").unwrap_or(&none);
    let mut causes = Vec::new();
    let (least, most) = (number(spec, "/minReplicas"), number(spec, "/maxReplicas"));
    if least < 1 {
        let detail = "must be greater than or equal to 1";
        causes.push(invalid_value("spec.minReplicas", &least.into(), detail));
    }
    match most {
        0 => causes.push(required(
            "spec.maxReplicas",
            "must be set and greater than 0",
        )),
        ..0 => {
            let detail = "must be greater than or equal to 1";
            causes.push(invalid_value("spec.maxReplicas", &most.into(), detail));
        }
        _ => {}
    }
    if most < least {
        let detail = "must be greater than or equal to `minReplicas`";
        causes.push(invalid_value("spec.maxReplicas", &most.into(), detail));
    }
    check_target(&spec["scaleTargetRef"], &mut causes);
    let metrics = items(spec, "/metrics");
    for (index, metric) in metrics.enumerate() {
        check_metric(metric, &format!("spec.metrics[{index}]"), &mut causes);
    }
    let counts_outside =
        |metric: &Value| metric["type"] == "Object" || metric["type"] == "External";
    if least == 0 && !items(spec, "/metrics").any(counts_outside) {
        let detail = "must specify at least one Object or External metric to support scaling to \
                      zero replicas";
        causes.push(forbidden_field("spec.metrics", detail));
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = &spec["behavior"][direction];
        if rules.is_object() {
            check_behavior(rules, &format!("spec.behavior.{direction}"), &mut causes);
        }
    }
    causes
}

/// The broken rules of a status.
pub(super) fn validate_status(scaler: &DynamicObject) -> Vec<Cause> {
    let status = scaler.fields.get("status").cloned().unwrap_or_default();
    let mut causes = Vec::new();
    for member in ["currentReplicas", "desiredReplicas"] {
        let count = number(&status, &format!("/{member}"));
        if count < 0 {
            let field = format!("status.{member}");
            let detail = "must be greater than or equal to 0";
            causes.push(invalid_value(field, &count.into(), detail));
        }
    }
    causes
}

fn check_target(target: &Value, causes: &mut Vec<Cause>) {
    for member in ["kind", "name"] {
        let field = format!("spec.scaleTargetRef.{member}");
        let value = target[member].as_str().unwrap_or("");
        if value.is_empty() {
            causes.push(required(field, ""));
        } else if let Some(problem) = path_segment_problem(value) {
            causes.push(invalid_value(field, &value.into(), &problem));
        }
    }
    let version = target["apiVersion"].as_str().unwrap_or("");
    let is_core = target["kind"] == "ReplicationController";
    if !(version.contains('/') || is_core && version == "v1") {
        let detail = "apiVersion must specify API group";
        let field = "spec.scaleTargetRef.apiVersion";
        causes.push(invalid_value(field, &version.into(), detail));
    }
}

fn check_metric(metric: &Value, at: &str, causes: &mut Vec<Cause>) {
    let kind = metric["type"].as_str().unwrap_or("");
    let field = format!("{at}.type");
    if kind.is_empty() {
        causes.push(required(&field, "must specify a metric source type"));
    }
    let Some((_, member)) = SOURCES.iter().find(|(name, _)| *name == kind) else {
        // Sic: told twice.
        let kinds = SOURCES.map(|(name, _)| name);
        let unknown = not_supported(field, kind, &kinds);
        causes.extend([unknown.clone(), unknown]);
        return;
    };
    let of_source = &metric[*member];
    let at = format!("{at}.{member}");
    for (_, other) in SOURCES.iter().filter(|(name, _)| *name != kind) {
        if metric[*other].is_object() {
            let detail = "must populate the given metric source only";
            causes.push(forbidden_field(at.replace(member, other), detail));
        }
    }
    if !of_source.is_object() {
        let detail = "must populate information for the given metric source";
        causes.push(required(at, detail));
        return;
    }
    let is_named = |name: &Value| !name.as_str().unwrap_or("").is_empty();
    match kind {
        "Resource" | "ContainerResource" => {
            if kind == "ContainerResource" && !is_named(&of_source["container"]) {
                causes.push(required(
                    format!("{at}.container"),
                    "must specify a container",
                ));
            }
            if !is_named(&of_source["name"]) {
                causes.push(required(
                    format!("{at}.name"),
                    "must specify a resource name",
                ));
            }
        }
        _ if !is_named(&of_source["metric"]["name"]) => {
            let field = format!("{at}.metric.name");
            causes.push(required(field, "must specify a metric name"));
        }
        _ => {}
    }
    check_metric_target(kind, &of_source["target"], &format!("{at}.target"), causes);
}

fn check_metric_target(kind: &str, target: &Value, at: &str, causes: &mut Vec<Cause>) {
    let field = |member: &str| format!("{at}.{member}");
    let of = target["type"].as_str().unwrap_or("");
    if of.is_empty() {
        causes.push(required(field("type"), "must specify a metric target type"));
    }
    if !["Utilization", "Value", "AverageValue"].contains(&of) {
        let detail = "must be either Utilization, Value, or AverageValue";
        causes.push(invalid_value(field("type"), &of.into(), detail));
    }
    for member in ["value", "averageValue"] {
        let amount = Quantity::from_json(&target[member]);
        if amount.is_ok_and(|amount| amount.is_negative() || amount.is_zero()) {
            let value = &target[member];
            causes.push(invalid_value(field(member), value, "must be positive"));
        }
    }
    let percent = &target["averageUtilization"];
    if let Some(number) = percent.as_i64().filter(|number| *number < 1) {
        let detail = "must be greater than 0";
        causes.push(invalid_value(
            field("averageUtilization"),
            &number.into(),
            detail,
        ));
    }
    let has = |member: &str| !target[member].is_null();
    match kind {
        "Resource" | "ContainerResource" => {
            match (has("averageUtilization"), has("averageValue")) {
                (false, false) => causes.push(required(
                    field("averageUtilization"),
                    "must set either a target raw value or a target utilization",
                )),
                (true, true) => causes.push(forbidden_field(
                    field("averageValue"),
                    "may not set both a target raw value and a target utilization",
                )),
                _ => {}
            }
        }
        "Pods" if !has("averageValue") => {
            let detail = "must specify a positive target averageValue";
            causes.push(required(field("averageValue"), detail));
        }
        "Object" | "External" if !has("value") && !has("averageValue") => {
            let detail = "must set either a target value or averageValue";
            causes.push(required(field("averageValue"), detail));
        }
        _ => {}
    }
}

fn check_behavior(rules: &Value, at: &str, causes: &mut Vec<Cause>) {
    const WINDOW_MAX: i64 = 3600;
    const PERIOD_MAX: i64 = 1800;
    if let Some(seconds) = rules["stabilizationWindowSeconds"].as_i64() {
        let field = format!("{at}.stabilizationWindowSeconds");
        if seconds < 0 {
            let detail = "must be greater than or equal to zero";
            causes.push(invalid_value(field, &seconds.into(), detail));
        } else if seconds > WINDOW_MAX {
            let detail = format!("must be less than or equal to {WINDOW_MAX}");
            causes.push(invalid_value(field, &seconds.into(), &detail));
        }
    }
    let choices = ["Disabled", "Max", "Min"];
    if let Some(choice) = rules["selectPolicy"].as_str()
        && !choices.contains(&choice)
    {
        causes.push(not_supported(
            format!("{at}.selectPolicy"),
            choice,
            &choices,
        ));
    }
    if Quantity::from_json(&rules["tolerance"]).is_ok_and(Quantity::is_negative) {
        let field = format!("{at}.tolerance");
        let detail = "must be greater than or equal to 0";
        causes.push(invalid_value(field, &rules["tolerance"], detail));
    }
    if items(rules, "/policies").next().is_none() {
        let field = format!("{at}.policies");
        causes.push(required(field, "must specify at least one Policy"));
    }
    for (index, policy) in items(rules, "/policies").enumerate() {
        let at = format!("{at}.policies[{index}]");
        let kinds = ["Percent", "Pods"];
        let kind = text(policy, "/type");
        if !kinds.contains(&kind) {
            causes.push(not_supported(format!("{at}.type"), kind, &kinds));
        }
        for member in ["value", "periodSeconds"] {
            let amount = number(policy, &format!("/{member}"));
            let field = format!("{at}.{member}");
            if amount <= 0 {
                let detail = "must be greater than zero";
                causes.push(invalid_value(field, &amount.into(), detail));
            } else if member == "periodSeconds" && amount > PERIOD_MAX {
                let detail = format!("must be less than or equal to {PERIOD_MAX}");
                causes.push(invalid_value(field, &amount.into(), &detail));
            }
        }
    }
}

/// Sets the defaults of the behaviour, where there is one.
pub(super) fn default_behavior(behavior: &mut podstorm_objects::Map) {
    use serde_json::json;
    for (direction, policies) in [
        (
            "scaleUp",
            json!([{"type": "Pods", "value": 4, "periodSeconds": 15},
                {"type": "Percent", "value": 100, "periodSeconds": 15}]),
        ),
        (
            "scaleDown",
            json!([{"type": "Percent", "value": 100, "periodSeconds": 15}]),
        ),
    ] {
        let rules = behavior.entry(direction).or_insert_with(|| json!({}));
        if rules.is_null() {
            *rules = json!({});
        }
        let Value::Object(rules) = rules else {
            continue;
        };
        rules.entry("policies").or_insert(policies);
        rules.entry("selectPolicy").or_insert_with(|| "Max".into());
        if direction == "scaleUp" {
            rules
                .entry("stabilizationWindowSeconds")
                .or_insert_with(|| 0.into());
        }
    }
}
