//! Validation of ResourceQuotas and LimitRanges.

use std::collections::BTreeSet;

use podstorm_objects::{Cause, DynamicObject, Map, Quantity, canonical_quantity};
use serde_json::Value;

use crate::Places;
use crate::defaulting::{Fill, Within};
use crate::errors::duplicate;
use crate::validation::{Checks, Field, IMMUTABLE, MUST_NOT_BE_NEGATIVE, is_of_quota, names};

/// The scopes that Kubernetes defines.
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

/// The resources that a quota may limit if its scope selects pods.
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

/// The resources that a quota counts but does not measure.
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

fn names_in<'a>(list: &Field<'a>) -> BTreeSet<&'a str> {
    list.items().map(|it| it.text()).collect()
}

/// Returns the rules that a ResourceQuota breaks.
pub(super) fn validate_quota(quota: &DynamicObject, old: Option<&DynamicObject>) -> Vec<Cause> {
    let checks = Checks::default();
    let spec = checks.field(quota, "spec");
    if let Some(old) = old {
        let before = checks.field(old, "spec").at("scopes");
        let scopes = spec.at("scopes");
        if names_in(&scopes) != names_in(&before) {
            scopes.invalid(IMMUTABLE);
        }
    }
    let hard = spec.at("hard");
    for (name, entry) in hard.entries() {
        match names::qualified_name(name) {
            Some(problem) => entry.invalid_as(name, problem),
            None if !name.contains('/') && !is_of_quota(name) => {
                let detail = "must be a standard resource type or fully qualified";
                entry.invalid_as(name, detail);
                entry.invalid_as(name, "must be a standard resource for quota");
            }
            None => {}
        }
        let Ok(amount) = Quantity::from_json(entry.value) else {
            continue;
        };
        let is_counted = COUNTED.contains(&name) || name.starts_with("count/");
        if amount.is_negative() {
            entry.invalid_as(shown(entry.value), MUST_NOT_BE_NEGATIVE);
        } else if is_counted && !amount.is_whole() {
            entry.invalid_as(shown(entry.value), "must be an integer");
        }
    }
    let listed = spec.at("scopes");
    let scopes: Vec<&str> = (listed.items())
        .filter_map(|scope| scope.value.as_str())
        .collect();
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            listed.invalid("unsupported scope");
        }
        let is_of_pods = *scope != "VolumeAttributesClass";
        let fits = |name: &str| match *scope {
            "BestEffort" => name == "pods",
            _ => OF_PODS.contains(&name),
        };
        let mut names = hard.entries().map(|(name, _)| name);
        if SCOPES.contains(scope) && is_of_pods && !names.all(fits) {
            listed.invalid("unsupported scope applied to resource");
        }
    }
    let has = |scope: &str| scopes.contains(&scope);
    if OPPOSITES.iter().any(|(one, other)| has(one) && has(other)) {
        listed.invalid("conflicting scopes");
    }
    let expressions = spec.at("scopeSelector").at("matchExpressions");
    for requirement in expressions.items() {
        // Sic: without the index of the expression.
        let requirement = checks.value(expressions.path.as_str(), requirement.value);
        let scope = requirement.at("scopeName");
        if !SCOPES.contains(&scope.text()) {
            scope.invalid_as(scope.text(), "unsupported scope");
        }
        let (operator, values) = (requirement.at("operator"), requirement.at("values"));
        match (operator.text(), values.items().count()) {
            ("In" | "NotIn", 0) => values.required(
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
            ),
            ("Exists" | "DoesNotExist", 1..) => values.invalid(
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
            ),
            _ => operator.must_be_one_of(&["DoesNotExist", "Exists", "In", "NotIn"]),
        }
    }
    checks.found()
}

/// Sets the defaults of a LimitRange for containers. The default limit is the maximum. The default
/// request is the default limit or, if there is none, the minimum.
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

/// Returns the rules that a LimitRange breaks.
pub(super) fn validate_range(range: &DynamicObject) -> Vec<Cause> {
    let checks = Checks::default();
    let mut seen: Places<&str> = Places::default();
    for limit in checks.field(range, "spec").at("limits").items() {
        let of = limit.at("type");
        let kind = of.text();
        of.fits(names::qualified_name);
        if seen.contains(&kind) {
            checks.push(duplicate(of.path, format_args!("{kind:?}")));
        }
        seen.push(kind);
        if kind == "Pod" {
            for member in ["default", "defaultRequest"] {
                let amounts = limit.at(member);
                if amounts.entries().next().is_some() {
                    amounts.forbidden("may not be specified when `type` is 'Pod'");
                }
            }
        }
        let has_storage = |member: &str| !limit.value[member]["storage"].is_null();
        if kind == "PersistentVolumeClaim" && !has_storage("min") && !has_storage("max") {
            let detail = "either minimum or maximum storage value is required, but neither was \
                          provided";
            limit.at("limits").required(detail);
        }
        check_amounts(&limit);
    }
    drop(seen);
    checks.found()
}

fn check_amounts(limit: &Field<'_>) {
    let amounts = |member: &str| limit.value[member].as_object().into_iter().flatten();
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
            let value = limit.value[member].get(name)?;
            Some((Quantity::from_json(value).ok()?, shown(value)))
        };
        let words = |member| match member {
            "defaultRequest" => "default request",
            other => other,
        };
        // The lower amount, the higher one, and the field and the value that the error shows. As in
        // upstream, an error about a default shows the value of the other amount.
        for (low, high, field, value) in [
            ("min", "max", "min", "min"),
            ("min", "defaultRequest", "defaultRequest", "defaultRequest"),
            ("min", "default", "default", "min"),
            ("defaultRequest", "max", "defaultRequest", "defaultRequest"),
            (
                "defaultRequest",
                "default",
                "defaultRequest",
                "defaultRequest",
            ),
            ("default", "max", "default", "max"),
        ] {
            if let (Some(less), Some(more)) = (of(low), of(high))
                && less.0 > more.0
                && let Some((_, told)) = of(value)
            {
                let high_words = match (low, high) {
                    ("defaultRequest", "default") => "default limit",
                    (_, high) => words(high),
                };
                limit.at(field).key(name).invalid_as(
                    told,
                    format!(
                        "{} value {} is greater than {high_words} value {}",
                        words(low),
                        less.1,
                        more.1
                    ),
                );
            }
        }
        if let Some((ratio, text)) = of("maxLimitRequestRatio")
            && "1".parse().is_ok_and(|one: Quantity| ratio < one)
        {
            let detail = format!("ratio {text} is less than 1");
            let field = limit.at("maxLimitRequestRatio").key(name);
            field.invalid_as(text, detail);
        }
    }
}
