//! Limits of workloads: PodDisruptionBudgets, PriorityClasses, ResourceQuotas and LimitRanges.

use std::fmt::Write as _;

use podstorm_objects::{
    Cause, Cell, Column, DynamicObject, GenerationOf, Kind, LabelSelector, MetadataChecks,
    ResourceType, Rules, Shape,
};
use serde_json::Value;

use super::columns::column;
use super::counts::StatusNumbers;
use crate::defaulting::Fill;
use crate::errors::{self, forbidden_field};
use crate::validation::{self, Checks};

pub(super) static ROWS: [ResourceType; 4] = [
    ResourceType {
        columns: BUDGET,
        rules: Rules {
            shape: BUDGET_SHAPE,
            validate: validate_budget,
            validate_status: |new, old| OF_BUDGET.check(new, old),
            ..Rules::NONE
        },
        ..*Kind::POD_DISRUPTION_BUDGET.row()
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
                class.fields.set_absent("value", 0);
                class
                    .fields
                    .set_absent("preemptionPolicy", "PreemptLowerPriority");
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
            validate: super::limits::validate_quota,
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
];

/// The numbers in the status of a PodDisruptionBudget.
const OF_BUDGET: StatusNumbers = StatusNumbers {
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
    let checks = Checks::default();
    let spec = checks.field(new, "spec");
    let shares = ["minAvailable", "maxUnavailable"].map(|member| spec.at(member));
    if shares.iter().all(|share| !share.is_null()) {
        let member = |name: &str| &spec.value[name];
        // Formatted as Go prints the struct.
        let problem = format!(
            "{{\"MinAvailable\":{},\"Selector\":{},\"MaxUnavailable\":{},\
             \"UnhealthyPodEvictionPolicy\":{}}}: minAvailable and maxUnavailable cannot be both set",
            member("minAvailable"),
            member("selector"),
            member("maxUnavailable"),
            member("unhealthyPodEvictionPolicy")
        );
        checks.push(errors::problem("spec", &problem));
    }
    for share in &shares {
        match share.value {
            Value::String(text) => match percent(text) {
                Some(0..=100) => {}
                Some(_) => share.invalid("must not be greater than 100%"),
                None => share.invalid(NO_PERCENT),
            },
            _ => share.not_negative(),
        }
    }
    if let Ok(selector) = LabelSelector::from_json(spec.value["selector"].clone()) {
        checks.extend(validation::validate_selector(&selector));
    }
    let policy = spec.at("unhealthyPodEvictionPolicy");
    if !(policy.is_null() || ["IfHealthyBudget", "AlwaysAllow"].contains(&policy.text())) {
        let policies = ["AlwaysAllow", "IfHealthyBudget"];
        let cause = errors::not_supported_value(policy.path, policy.value, &policies);
        checks.push(cause);
    }
    checks.found()
}

/// The error for a string that is not a percentage.
pub(super) const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or \
     '93%', regex used for validation is '[0-9]+%')";

/// Parses a percentage; `None` for any other string. A number that is too large becomes `u32::MAX`.
pub(super) fn percent(text: &str) -> Option<u32> {
    let digits = text.strip_suffix('%')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().unwrap_or(u32::MAX))
}

/// The built-in PriorityClasses for system pods, with their values.
pub(crate) const SYSTEM_CLASSES: [(&str, i64); 2] = [
    ("system-cluster-critical", 2_000_000_000),
    ("system-node-critical", 2_000_001_000),
];

const RESERVED: &str =
    "priority class names with 'system-' prefix are reserved for system use only. error: ";

fn validate_priority(new: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    const USERS_MAX: i64 = 1_000_000_000;
    let checks = Checks::default();
    let value = checks.field(new, "value");
    let of_system = SYSTEM_CLASSES.iter();
    let mut of_system = of_system.filter(|(name, _)| new.metadata.name == *name);
    if let Some((name, expected)) = of_system.next() {
        let problem = if value.number() != *expected {
            format!("value of {name} PriorityClass must be {expected}")
        } else if checks.field(new, "globalDefault").value == &Value::Bool(true) {
            format!("globalDefault of {name} PriorityClass must be false")
        } else {
            String::new()
        };
        if !problem.is_empty() {
            let detail = format!("{RESERVED}{problem}");
            checks.push(forbidden_field("metadata.name", &detail));
        }
    } else if new.metadata.name.starts_with("system-") {
        let detail = "priority class names with 'system-' prefix are reserved for system use only. error: no built-in system priority class is of that name";
        checks.push(forbidden_field("metadata.name", detail));
    } else if value.number() > USERS_MAX {
        let detail = format!("maximum allowed value of a user defined priority is {USERS_MAX}");
        value.forbidden(detail);
    }
    if let Some(old) = old {
        if value.value != checks.field(old, "value").value {
            value.forbidden("may not be changed in an update.");
        }
        let policy = checks.field(old, "preemptionPolicy").value;
        checks.field(new, "preemptionPolicy").unchanged(policy);
    }
    checks.found()
}

/// Formats a number or a percentage; `N/A` if there is none.
fn count(value: &Value) -> Value {
    match value {
        Value::Null => "N/A".into(),
        Value::String(text) => text.clone().into(),
        other => other.to_string().into(),
    }
}

const BUDGET: &[Column] = &[
    Column::NAME,
    column(
        "Min Available",
        Cell::Of(|budget, _| count(&budget["spec"]["minAvailable"])),
    ),
    column(
        "Max Unavailable",
        Cell::Of(|budget, _| count(&budget["spec"]["maxUnavailable"])),
    ),
    column(
        "Allowed Disruptions",
        Cell::Number("/status/disruptionsAllowed"),
    ),
    Column::AGE,
];

const PRIORITY: &[Column] = &[
    Column::NAME,
    column("Value", Cell::Number("/value")),
    column(
        "Global-Default",
        Cell::Of(|class, _| (class["globalDefault"] == true).into()),
    )
    .of_type("boolean"),
    Column::AGE,
    column("PreemptionPolicy", Cell::TextOrEmpty("/preemptionPolicy")),
];

const QUOTA: &[Column] = &[
    Column::NAME,
    column("Request", Cell::Of(|quota, _| used(quota, false))),
    column("Limit", Cell::Of(|quota, _| used(quota, true))),
    Column::AGE,
];

/// Formats the usage of a quota, either of its limits or of everything else: `pods: 3/10,
/// requests.cpu: 1/2`.
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
