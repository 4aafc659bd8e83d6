//! The rules of ResourceQuotas and LimitRanges.

use podstorm_objects::cells::{items, text};
use podstorm_objects::{Cause, DynamicObject, Map, Quantity, canonical_quantity};
use serde_json::Value;

use crate::defaulting::{Fill, Within};
use crate::errors::{forbidden_field, invalid_value, not_supported, required};
use crate::validation::{is_of_quota, qualified_name_problem};

/// Scopes, and whether each is about pods alone.
const SCOPES: [&str; 7] = [
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
];

/// Scopes that exclude each other.
const OPPOSITES: [(&str, &str); 2] = [
    ("BestEffort", "NotBestEffort"),
    ("Terminating", "NotTerminating"),
];

/// Resources of which a quota counts pods' own.
const OF_PODS: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "pods",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

/// Resources that are counted, not measured.
const COUNTED: [&str; 10] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
    "count/pods",
];

fn shown(value: &Value) -> String {
    let text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    canonical_quantity(&text).unwrap_or(text)
}

/// The broken rules of a ResourceQuota.
pub(super) fn validate_quota(quota: &DynamicObject) -> Vec<Cause> {
    let spec = quota.fields.get("spec").cloned().unwrap_or_default();
    let mut causes = Vec::new();
    let hard = spec["hard"].as_object().cloned().unwrap_or_default();
    for (name, value) in &hard {
        let field = format!("spec.hard[{name}]");
        let mut wrong = |value: &str, detail: &str| {
            causes.push(invalid_value(&field, &value.into(), detail));
        };
        match qualified_name_problem(name) {
            Some(problem) => wrong(name, &problem),
            None if !name.contains('/') && !is_of_quota(name) => {
                wrong(name, "must be a standard resource type or fully qualified");
                wrong(name, "must be a standard resource for quota");
            }
            None => {}
        }
        let Ok(amount) = Quantity::from_json(value) else {
            continue;
        };
        if amount.is_negative() {
            wrong(&shown(value), "must be greater than or equal to 0");
        } else if (COUNTED.contains(&name.as_str()) || name.starts_with("count/"))
            && !amount.is_whole()
        {
            wrong(&shown(value), "must be an integer");
        }
    }
    let scopes: Vec<&str> = items(&spec, "/scopes").filter_map(Value::as_str).collect();
    let mut wrong = |detail: &str| {
        causes.push(invalid_value("spec.scopes", &spec["scopes"], detail));
    };
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            wrong("unsupported scope");
        }
        let is_of_pods = *scope != "VolumeAttributesClass";
        let fits = |name: &String| match *scope {
            "BestEffort" => name == "pods",
            _ => OF_PODS.contains(&name.as_str()),
        };
        if SCOPES.contains(scope) && is_of_pods && !hard.keys().all(fits) {
            wrong("unsupported scope applied to resource");
        }
    }
    let has = |scope: &str| scopes.contains(&scope);
    if OPPOSITES.iter().any(|(one, other)| has(one) && has(other)) {
        wrong("conflicting scopes");
    }
    // Sic: without the number of the expression.
    let at = "spec.scopeSelector.matchExpressions";
    for requirement in items(&spec, "/scopeSelector/matchExpressions") {
        let scope = text(requirement, "/scopeName");
        if !SCOPES.contains(&scope) {
            let detail = "unsupported scope";
            causes.push(invalid_value(
                format!("{at}.scopeName"),
                &scope.into(),
                detail,
            ));
        }
        let count = items(requirement, "/values").count();
        let field = format!("{at}.values");
        match text(requirement, "/operator") {
            "In" | "NotIn" if count == 0 => {
                let detail = "must be at least one value when `operator` is 'In' or 'NotIn' for \
                              scope selector";
                causes.push(required(field, detail));
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if count > 0 => {
                let detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for \
                              scope selector";
                causes.push(invalid_value(field, &requirement["values"], detail));
            }
            "Exists" | "DoesNotExist" => {}
            other => {
                let operators = ["DoesNotExist", "Exists", "In", "NotIn"];
                causes.push(not_supported(format!("{at}.operator"), other, &operators));
            }
        }
    }
    causes
}

/// Sets what a range of containers leaves out: a default limit is the greatest, a default request the default
/// limit, or else the least.
pub(super) fn default_range(range: &mut DynamicObject) {
    range.fields.with("spec", |spec| {
        spec.each("limits", |limit| {
            if limit.text("type") != "Container" {
                return;
            }
            for (from, to) in [
                ("max", "default"),
                ("default", "defaultRequest"),
                ("min", "defaultRequest"),
            ] {
                let Some(Value::Object(amounts)) = limit.get(from).cloned() else {
                    continue;
                };
                limit.within(to, |target| fill(target, amounts));
            }
        });
    });
}

fn fill(target: &mut Map, amounts: Map) {
    for (name, amount) in amounts {
        target.entry(name).or_insert(amount);
    }
}

/// The broken rules of a LimitRange.
pub(super) fn validate_range(range: &DynamicObject) -> Vec<Cause> {
    let spec = range.fields.get("spec").cloned().unwrap_or_default();
    let mut causes = Vec::new();
    let mut seen: Vec<&str> = Vec::new();
    for (index, limit) in items(&spec, "/limits").enumerate() {
        let at = format!("spec.limits[{index}]");
        let kind = text(limit, "/type");
        let field = format!("{at}.type");
        if let Some(problem) = qualified_name_problem(kind) {
            causes.push(invalid_value(&field, &kind.into(), &problem));
        }
        if seen.contains(&kind) {
            causes.push(Cause {
                reason: "FieldValueDuplicate".to_owned(),
                message: format!("Duplicate value: {kind:?}"),
                field,
            });
        }
        seen.push(kind);
        if kind == "Pod" {
            for member in ["default", "defaultRequest"] {
                if limit[member].as_object().is_some_and(|it| !it.is_empty()) {
                    let detail = "may not be specified when `type` is 'Pod'";
                    causes.push(forbidden_field(format!("{at}.{member}"), detail));
                }
            }
        }
        let has_storage = |member: &str| !limit[member]["storage"].is_null();
        if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
            let detail = "either minimum or maximum storage value is required, but neither was \
                          provided";
            causes.push(required(format!("{at}.limits"), detail));
        }
        check_amounts(limit, &at, &mut causes);
    }
    causes
}

fn check_amounts(limit: &Value, at: &str, causes: &mut Vec<Cause>) {
    let amounts = |member: &str| limit[member].as_object().into_iter().flatten();
    let mut names: Vec<&String> = [
        "min",
        "max",
        "default",
        "defaultRequest",
        "maxLimitRequestRatio",
    ]
    .into_iter()
    .flat_map(|member| amounts(member).map(|(name, _)| name))
    .collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let of = |member: &str| {
            let value = limit[member].get(name)?;
            Some((Quantity::from_json(value).ok()?, shown(value)))
        };
        // The one that must not be greater, its word, the other, its word, and whose field and value are told.
        // Sic: of a default, it is the other's value.
        for ((low, low_word), (high, high_word), (field, value)) in [
            (("min", "min"), ("max", "max"), ("min", "min")),
            (
                ("min", "min"),
                ("defaultRequest", "default request"),
                ("defaultRequest", "defaultRequest"),
            ),
            (("min", "min"), ("default", "default"), ("default", "min")),
            (
                ("defaultRequest", "default request"),
                ("max", "max"),
                ("defaultRequest", "defaultRequest"),
            ),
            (
                ("defaultRequest", "default request"),
                ("default", "default limit"),
                ("defaultRequest", "defaultRequest"),
            ),
            (("default", "default"), ("max", "max"), ("default", "max")),
        ] {
            if let (Some(less), Some(more)) = (of(low), of(high))
                && less.0 > more.0
                && let Some((_, told)) = of(value)
            {
                let detail = format!(
                    "{low_word} value {} is greater than {high_word} value {}",
                    less.1, more.1
                );
                causes.push(invalid_value(
                    format!("{at}.{field}[{name}]"),
                    &told.into(),
                    &detail,
                ));
            }
        }
        if let Some((ratio, text)) = of("maxLimitRequestRatio")
            && "1".parse().is_ok_and(|one: Quantity| ratio < one)
        {
            let detail = format!("ratio {text} is less than 1");
            let field = format!("{at}.maxLimitRequestRatio[{name}]");
            causes.push(invalid_value(field, &text.into(), &detail));
        }
    }
}
