//! HorizontalPodAutoscalers, which are stored in `autoscaling/v2`.

mod version_1;

pub(super) use version_1::VERSION_1;

use podstorm_objects::cells::{items, text};
use podstorm_objects::{Cause, Cell, Column, DynamicObject, Now, Quantity, ResourceType, Rules};
use serde_json::{Value, json};

use super::columns::{column, first_of};
use crate::defaulting::{Fill, Within};
use crate::validation::{Checks, Field, MUST_NOT_BE_NEGATIVE, names};

pub(super) static ROWS: [ResourceType; 1] = [ResourceType {
    group: "autoscaling",
    api_version: "autoscaling/v2",
    kind: "HorizontalPodAutoscaler",
    resource: "horizontalpodautoscalers",
    has_status: true,
    short_names: &["hpa"],
    categories: &["all"],
    columns: COLUMNS,
    rules: Rules {
        default,
        validate: |scaler, _| validate(scaler),
        validate_status: |scaler, _| validate_status(scaler),
        ..Rules::NONE
    },
    ..ResourceType::DEFAULT
}];

fn default(scaler: &mut DynamicObject) {
    scaler.fields.within("spec", |spec| {
        spec.set_absent("minReplicas", 1);
        spec.with("behavior", default_behavior);
        if spec
            .get("metrics")
            .is_none_or(|metrics| metrics.as_array().is_none_or(Vec::is_empty))
        {
            let cpu = json!([{"type": "Resource", "resource": {"name": "cpu",
                "target": {"type": "Utilization", "averageUtilization": 80}}}]);
            spec.insert("metrics".to_owned(), cpu);
        }
    });
}

/// The types of metric sources and the fields that hold them, sorted.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];

/// Returns the rules that a spec breaks.
fn validate(scaler: &DynamicObject) -> Vec<Cause> {
    const AT_LEAST_ONE: &str = "must be greater than or equal to 1";
    let checks = Checks::default();
    let spec = checks.field(scaler, "spec");
    let (min, max) = (spec.at("minReplicas"), spec.at("maxReplicas"));
    let (least, most) = (min.number(), max.number());
    if least < 1 {
        min.invalid_as(least, AT_LEAST_ONE);
    }
    match most {
        0 => max.required("must be set and greater than 0"),
        ..0 => max.invalid(AT_LEAST_ONE),
        _ => {}
    }
    if most < least {
        max.invalid_as(most, "must be greater than or equal to `minReplicas`");
    }
    check_target(&spec.at("scaleTargetRef"));
    let metrics = spec.at("metrics");
    for metric in metrics.items() {
        check_metric(&metric);
    }
    let counts_outside =
        |metric: Field<'_>| matches!(metric.at("type").text(), "Object" | "External");
    if least == 0 && !metrics.items().any(counts_outside) {
        metrics.forbidden(
            "must specify at least one Object or External metric to support scaling to zero \
             replicas",
        );
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = spec.at("behavior").at(direction);
        if rules.value.is_object() {
            check_behavior(&rules);
        }
    }
    checks.found()
}

/// Returns the rules that a status breaks.
fn validate_status(scaler: &DynamicObject) -> Vec<Cause> {
    let checks = Checks::default();
    let status = checks.field(scaler, "status");
    for member in ["currentReplicas", "desiredReplicas"] {
        status.at(member).not_negative();
    }
    checks.found()
}

fn check_target(target: &Field<'_>) {
    for member in ["kind", "name"] {
        target.at(member).must_fit(names::path_segment);
    }
    let version = target.at("apiVersion");
    let is_core = target.value["kind"] == "ReplicationController";
    if !(version.text().contains('/') || is_core && version.text() == "v1") {
        version.invalid_as(version.text(), "apiVersion must specify API group");
    }
}

fn check_metric(metric: &Field<'_>) {
    let of = metric.at("type");
    let kind = of.text();
    of.needs_text("must specify a metric source type");
    let Some((_, member)) = SOURCES.iter().find(|(name, _)| *name == kind) else {
        // Sic: reported twice.
        let kinds = SOURCES.map(|(name, _)| name);
        of.must_be_one_of(&kinds);
        of.must_be_one_of(&kinds);
        return;
    };
    let source = metric.at(member);
    for (_, other) in SOURCES.iter().filter(|(name, _)| *name != kind) {
        let other = metric.at(other);
        if other.value.is_object() {
            other.forbidden("must populate the given metric source only");
        }
    }
    if !source.value.is_object() {
        source.required("must populate information for the given metric source");
        return;
    }
    match kind {
        "Resource" | "ContainerResource" => {
            if kind == "ContainerResource" {
                source
                    .at("container")
                    .needs_text("must specify a container");
            }
            source.at("name").needs_text("must specify a resource name");
        }
        _ => {
            let name = source.at("metric").at("name");
            name.needs_text("must specify a metric name");
        }
    }
    check_metric_target(kind, &source.at("target"));
}

fn check_metric_target(kind: &str, target: &Field<'_>) {
    let of = target.at("type");
    of.needs_text("must specify a metric target type");
    if !["Utilization", "Value", "AverageValue"].contains(&of.text()) {
        let detail = "must be either Utilization, Value, or AverageValue";
        of.invalid_as(of.text(), detail);
    }
    let (value, average) = (target.at("value"), target.at("averageValue"));
    for amount in [&value, &average] {
        let read = Quantity::from_json(amount.value);
        if read.is_ok_and(|read| read.is_negative() || read.is_zero()) {
            amount.invalid("must be positive");
        }
    }
    let percent = target.at("averageUtilization");
    percent.at_least(1, "must be greater than 0");
    match kind {
        "Resource" | "ContainerResource" => match (percent.is_null(), average.is_null()) {
            (true, true) => {
                percent.required("must set either a target raw value or a target utilization");
            }
            (false, false) => {
                average.forbidden("may not set both a target raw value and a target utilization");
            }
            _ => {}
        },
        "Pods" if average.is_null() => {
            average.required("must specify a positive target averageValue");
        }
        "Object" | "External" if value.is_null() && average.is_null() => {
            average.required("must set either a target value or averageValue");
        }
        _ => {}
    }
}

fn check_behavior(rules: &Field<'_>) {
    const WINDOW_MAX: i64 = 3600;
    const PERIOD_MAX: i64 = 1800;
    let window = rules.at("stabilizationWindowSeconds");
    window.at_least(0, "must be greater than or equal to zero");
    if window.number() > WINDOW_MAX {
        window.invalid(format!("must be less than or equal to {WINDOW_MAX}"));
    }
    rules.at("selectPolicy").one_of(&["Disabled", "Max", "Min"]);
    let tolerance = rules.at("tolerance");
    if Quantity::from_json(tolerance.value).is_ok_and(Quantity::is_negative) {
        tolerance.invalid(MUST_NOT_BE_NEGATIVE);
    }
    let policies = rules.at("policies");
    if policies.items().next().is_none() {
        policies.required("must specify at least one Policy");
    }
    for policy in policies.items() {
        policy.at("type").must_be_one_of(&["Percent", "Pods"]);
        for member in ["value", "periodSeconds"] {
            let field = policy.at(member);
            let amount = field.number();
            if amount <= 0 {
                field.invalid_as(amount, "must be greater than zero");
            } else if member == "periodSeconds" && amount > PERIOD_MAX {
                field.invalid(format!("must be less than or equal to {PERIOD_MAX}"));
            }
        }
    }
}

/// Sets the defaults of the behavior, if there is one.
fn default_behavior(behavior: &mut podstorm_objects::Map) {
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

const COLUMNS: &[Column] = &[
    Column::NAME,
    column(
        "Reference",
        Cell::Of(|scaler, _| {
            let target = &scaler["spec"]["scaleTargetRef"];
            format!("{}/{}", text(target, "/kind"), text(target, "/name")).into()
        }),
    ),
    column("Targets", Cell::Of(targets)),
    column(
        "MinPods",
        Cell::Of(|scaler, _| match &scaler["spec"]["minReplicas"] {
            Value::Null => "<unset>".into(),
            least => least.to_string().into(),
        }),
    ),
    column("MaxPods", Cell::Number("/spec/maxReplicas")).of_type("string"),
    column("Replicas", Cell::Number("/status/currentReplicas")).of_type("string"),
    Column::AGE,
];

/// Formats the targets of the metrics with their current values: `cpu: 12%/80%`.
///
/// Source: `formatHPAMetrics` of Kubernetes' printers.
fn targets(scaler: &Value, _: Now) -> Value {
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
    first_of(&all, 2, ", ", "<none>")
}
