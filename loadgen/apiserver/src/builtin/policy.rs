//! What limits and scales workloads: budgets of disruptions, priorities, quotas, ranges of limits,
//! and HorizontalPodAutoscalers.

use std::fmt::Write as _;

use podstorm_objects::cells::{items, text};
use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, GenerationOf, LabelSelector, MetadataChecks, NameFormat,
    Now, ResourceType, Rules, Shape,
};
use serde_json::Value;

use super::counts::Counts;
use crate::defaulting::{DefaultValue, Fill, Within};
use crate::errors::{forbidden_field, invalid_value};
use crate::validation;

pub(super) static ROWS: [ResourceType; 5] = [
    ResourceType {
        group: "policy",
        api_version: "policy/v1",
        kind: "PodDisruptionBudget",
        name_format: NameFormat::PathSegment,
        metadata_checks: MetadataChecks::NONE,
        resource: "poddisruptionbudgets",
        has_status: true,
        has_generation: true,
        needs_version: true,
        short_names: &["pdb"],
        columns: BUDGET,
        rules: Rules {
            shape: BUDGET_SHAPE,
            validate: validate_budget,
            new_status: r#"{"disruptionsAllowed":0,"currentHealthy":0,"desiredHealthy":0,"expectedPods":0}"#,
            validate_status: |new, old| OF_BUDGET.check(new, old),
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        group: "scheduling.k8s.io",
        api_version: "scheduling.k8s.io/v1",
        kind: "PriorityClass",
        generation_of: GenerationOf::Creation,
        resource: "priorityclasses",
        namespaced: false,
        has_generation: true,
        short_names: &["pc"],
        columns: PRIORITY,
        rules: Rules {
            default: |class| {
                class.fields.set_absent("value", DefaultValue::Number(0));
                class.fields.set_absent(
                    "preemptionPolicy",
                    DefaultValue::Text("PreemptLowerPriority"),
                );
            },
            validate: validate_priority,
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        kind: "ResourceQuota",
        resource: "resourcequotas",
        has_status: true,
        short_names: &["quota"],
        returns_deleted: true,
        columns: QUOTA,
        rules: Rules {
            new_status: "{}",
            validate: |quota, _| super::limits::validate_quota(quota),
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        kind: "LimitRange",
        metadata_checks: MetadataChecks::WHOLE,
        put_creates: true,
        resource: "limitranges",
        short_names: &["limits"],
        rules: Rules {
            default: super::limits::default_range,
            validate: |range, _| super::limits::validate_range(range),
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
    ResourceType {
        group: "autoscaling",
        api_version: "autoscaling/v2",
        kind: "HorizontalPodAutoscaler",
        resource: "horizontalpodautoscalers",
        has_status: true,
        short_names: &["hpa"],
        categories: &["all"],
        columns: AUTOSCALER,
        rules: Rules {
            default: default_autoscaler,
            validate: |scaler, _| super::autoscaling::validate(scaler),
            validate_status: |scaler, _| super::autoscaling::validate_status(scaler),
            new_status: r#"{"desiredReplicas":0,"currentMetrics":null}"#,
            ..Rules::NONE
        },
        ..ResourceType::DEFAULT
    },
];

/// The numbers of the status of a budget.
const OF_BUDGET: Counts = Counts {
    numbers: &[
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ],
    parts: &[],
};

const BUDGET_SHAPE: Shape = Shape::Object(&[
    (
        "spec",
        Shape::Object(&[
            ("maxUnavailable", Shape::IntOrText),
            ("minAvailable", Shape::IntOrText),
            ("selector", SELECTOR_SHAPE),
            ("unhealthyPodEvictionPolicy", Shape::Text),
        ]),
    ),
    (
        "status",
        Shape::Object(&[
            ("conditions", Shape::List(&CONDITION_SHAPE)),
            ("currentHealthy", Shape::Int32),
            ("desiredHealthy", Shape::Int32),
            ("disruptedPods", Shape::MapOf(&Shape::Time)),
            ("disruptionsAllowed", Shape::Int32),
            ("expectedPods", Shape::Int32),
            ("observedGeneration", Shape::Int64),
        ]),
    ),
]);

const SELECTOR_SHAPE: Shape = Shape::Object(&[
    (
        "matchExpressions",
        Shape::List(&Shape::Object(&[
            ("key", Shape::Text),
            ("operator", Shape::Text),
            ("values", Shape::List(&Shape::Text)),
        ])),
    ),
    ("matchLabels", Shape::MapOf(&Shape::Text)),
]);

const CONDITION_SHAPE: Shape = Shape::Object(&[
    ("lastTransitionTime", Shape::Time),
    ("message", Shape::Text),
    ("observedGeneration", Shape::Int64),
    ("reason", Shape::Text),
    ("status", Shape::Text),
    ("type", Shape::Text),
]);

fn validate_budget(new: &DynamicObject, _: Option<&DynamicObject>) -> Vec<Cause> {
    let none = Value::Null;
    let spec = new.fields.get("spec").unwrap_or(&none);
    let mut causes = Vec::new();
    let members = ["minAvailable", "maxUnavailable"];
    if members.iter().all(|member| !spec[*member].is_null()) {
        // As Go prints its structure.
        let message = format!(
            "Invalid value: {{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\
             \"UnhealthyPodEvictionPolicy\":{}}}: minAvailable and maxUnavailable cannot be both set",
            spec["minAvailable"],
            spec["selector"],
            spec["maxUnavailable"],
            spec["unhealthyPodEvictionPolicy"]
        );
        causes.push(Cause {
            reason: "FieldValueInvalid".to_owned(),
            message,
            field: "spec".to_owned(),
        });
    }
    for member in members {
        let field = format!("spec.{member}");
        let detail = match &spec[member] {
            Value::Number(number) if number.as_i64().is_some_and(|number| number < 0) => {
                "must be greater than or equal to 0"
            }
            Value::String(text) => match percent(text) {
                Some(0..=100) => continue,
                Some(_) => "must not be greater than 100%",
                None => NO_PERCENT,
            },
            _ => continue,
        };
        causes.push(invalid_value(field, &spec[member], detail));
    }
    if let Ok(selector) = LabelSelector::from_json(spec["selector"].clone()) {
        causes.extend(validation::validate_selector(&selector));
    }
    let policy = &spec["unhealthyPodEvictionPolicy"];
    if !(policy.is_null() || policy == "IfHealthyBudget" || policy == "AlwaysAllow") {
        causes.push(Cause {
            reason: "FieldValueNotSupported".to_owned(),
            message: format!(
                "Unsupported value: {policy}: supported values: \"AlwaysAllow\", \
                 \"IfHealthyBudget\""
            ),
            field: "spec.unhealthyPodEvictionPolicy".to_owned(),
        });
    }
    causes
}

/// What is wrong with a text that is no percentage.
pub(super) const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
     '93%', regex used for validation is '[0-9]+%')";

/// The number of a percentage; one beyond all bounds is more than 100.
pub(super) fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

fn validate_priority(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    const USERS_MAX: i64 = 1_000_000_000;
    let value = new.fields.get("value").and_then(Value::as_i64).unwrap_or(0);
    let mut causes = Vec::new();
    if new.metadata.name.starts_with("system-") {
        let detail = "priority class names with 'system-' prefix are reserved for system use only. error: no built-in system priority class is of that name";
        causes.push(forbidden_field("metadata.name", detail));
    } else if value > USERS_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USERS_MAX}");
        causes.push(forbidden_field("value", &detail));
    }
    let Some(old) = old else { return causes };
    for (member, detail) in [
        ("value", "may not be changed in an update."),
        ("preemptionPolicy", "field is immutable"),
    ] {
        let (after, before) = (new.fields.get(member), old.fields.get(member));
        if after == before {
            continue;
        }
        causes.push(match member {
            "value" => forbidden_field(member, detail),
            _ => invalid_value(member, &after.cloned().unwrap_or_default(), detail),
        });
    }
    causes
}

fn default_autoscaler(scaler: &mut DynamicObject) {
    scaler.fields.within("spec", |spec| {
        spec.set_absent("minReplicas", DefaultValue::Number(1));
        spec.with("behavior", super::autoscaling::default_behavior);
        if spec
            .get("metrics")
            .is_none_or(|metrics| metrics.as_array().is_none_or(Vec::is_empty))
        {
            let cpu = serde_json::json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}]);
            spec.insert("metrics".to_owned(), cpu);
        }
    });
}

/// A number or a percentage; `N/A` where there is none.
fn count(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        Value::String(text) => text.clone().into(),
        other => other.to_string().into(),
    }
}

const BUDGET: &[Column] = &[
    Column::NAME,
    Column::new(
        "Min Available",
        "The minimum number of pods that must be available.",
        Cell::Of(|budget, _| count(&budget["spec"]["minAvailable"])),
    ),
    Column::new(
        "Max Unavailable",
        "The maximum number of pods that may be unavailable.",
        Cell::Of(|budget, _| count(&budget["spec"]["maxUnavailable"])),
    ),
    Column::new(
        "Allowed Disruptions",
        "Calculated number of pods that may be disrupted at this time.",
        Cell::Number("/status/disruptionsAllowed"),
    ),
    Column::AGE,
];

const PRIORITY: &[Column] = &[
    Column::NAME,
    Column::new("Value", "value represents the integer value of this priority class. This is the actual priority that pods receive when they have the name of this class in their pod spec.", Cell::Number("/value")),
    Column::new("Global-Default", "globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do not have any priority class. Only one PriorityClass can be marked as `globalDefault`. However, if more than one PriorityClasses exists with their `globalDefault` field set to true, the smallest value of such global default PriorityClasses will be used as the default priority.", Cell::Of(|class, _| (class["globalDefault"] == true).into())).of_type("boolean"),
    Column::AGE,
    Column::new("PreemptionPolicy", "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.", Cell::TextOrEmpty("/preemptionPolicy")),
];

const QUOTA: &[Column] = &[
    Column::NAME,
    Column::new(
        "Request",
        "Request represents a minimum amount of cpu/memory that a container may consume.",
        Cell::Of(|quota, _| used(quota, false)),
    ),
    Column::new(
        "Limit",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        Cell::Of(|quota, _| used(quota, true)),
    ),
    Column::AGE,
];

/// What is used of a quota's limits, or of all but these: `pods: 3/10, requests.cpu: 1/2`.
fn used(quota: &Value, of_limits: bool) -> Value {
    let mut out = String::new();
    let hard = quota["status"]["hard"].as_object();
    let mut all: Vec<(&String, &Value)> = hard.into_iter().flatten().collect();
    all.sort_by_key(|(name, _)| *name);
    for (name, hard) in all {
        if name.starts_with("limits.") == of_limits {
            let comma = if out.is_empty() { "" } else { ", " };
            let used = &quota["status"]["used"][name];
            let shown =
                |value: &Value| value.as_str().map_or_else(|| "0".to_owned(), str::to_owned);
            let _ = write!(out, "{comma}{name}: {}/{}", shown(used), shown(hard));
        }
    }
    out.into()
}

const AUTOSCALER: &[Column] = &[
    Column::NAME,
    Column::new("Reference", "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics should be collected, as well as to actually change the replica count.", Cell::Of(|scaler, _| {
        let target = &scaler["spec"]["scaleTargetRef"];
        format!("{}/{}", text(target, "/kind"), text(target, "/name")).into()
    })),
    Column::new("Targets", "metrics contains the specifications for which to use to calculate the desired replica count (the maximum replica count across all metrics will be used).  The desired replica count is calculated multiplying the ratio between the target value and the current value by the current number of pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the individual metric source types for more information about how each type of metric must respond. If not set, the default metric will be set to 80% average CPU utilization.", Cell::Of(targets)),
    Column::new("MinPods", "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature gate HPAScaleToZero is enabled and at least one Object or External metric is configured.  Scaling is active as long as at least one metric value is available.", Cell::Of(|scaler, _| match &scaler["spec"]["minReplicas"] {
        Value::Null => "<unset>".into(),
        least => least.to_string().into(),
    })),
    Column::new("MaxPods", "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. It cannot be less that minReplicas.", Cell::Number("/spec/maxReplicas")).of_type("string"),
    Column::new("Replicas", "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by the autoscaler.", Cell::Number("/status/currentReplicas")).of_type("string"),
    Column::AGE,
];

/// The targets of the metrics with their current values: `cpu: 12%/80%`.
///
/// Source: `formatHPAMetrics` of Kubernetes' printers.
fn targets(scaler: &Value, _: Now) -> Value {
    const SHOWN: usize = 2;
    let current: Vec<&Value> = items(scaler, "/status/currentMetrics").collect();
    let all: Vec<String> = items(scaler, "/spec/metrics")
        .enumerate()
        .map(|(at, metric)| {
            let (member, prefix) = match text(metric, "/type") {
                "External" => ("external", String::new()),
                "Pods" => ("pods", String::new()),
                "Object" => ("object", String::new()),
                "ContainerResource" => (
                    "containerResource",
                    format!("{}: ", text(metric, "/containerResource/name")),
                ),
                _ => ("resource", format!("{}: ", text(metric, "/resource/name"))),
            };
            let target = &metric[member]["target"];
            let now = current.get(at).map(|current| &current[member]["current"]);
            let value = |name: &str| match now.map(|now| &now[name]) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Number(number)) => number.to_string(),
                _ => "<unknown>".to_owned(),
            };
            let suffix = if target["averageValue"].is_string()
                && (member == "external" || member == "object")
            {
                " (avg)"
            } else {
                ""
            };
            if let Some(wanted) = target["averageUtilization"].as_i64() {
                let now = value("averageUtilization");
                let percent = if now == "<unknown>" { "" } else { "%" };
                format!("{prefix}{now}{percent}/{wanted}%")
            } else if let Some(wanted) = target["averageValue"].as_str() {
                format!("{prefix}{}/{wanted}{suffix}", value("averageValue"))
            } else {
                format!("{prefix}{}/{}", value("value"), text(target, "/value"))
            }
        })
        .collect();
    match all.len() {
        0 => "<none>".into(),
        count if count > SHOWN => {
            format!("{} + {} more...", all[..SHOWN].join(", "), count - SHOWN).into()
        }
        _ => all.join(", ").into(),
    }
}
