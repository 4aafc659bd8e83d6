//! The rules that Deployments have besides those of ReplicaSets: how they roll out.

use podstorm_objects::Cause;
use serde_json::{Value, json};

use super::policy::{NO_PERCENT, percent};
use crate::errors::{forbidden_field, invalid_value};

const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Adds the broken rules of a spec with defaults to those that it shares with a ReplicaSet's, in upstream's order.
pub(super) fn check(spec: &Value, causes: &mut Vec<Cause>) {
    let is_of_readiness = |cause: &mut Cause| cause.field == "spec.minReadySeconds";
    let of_readiness: Vec<Cause> = causes.extract_if(.., is_of_readiness).collect();
    check_strategy(&spec["strategy"], causes);
    causes.extend(of_readiness);
    for member in ["revisionHistoryLimit", "progressDeadlineSeconds"] {
        not_negative(&format!("spec.{member}"), &spec[member], causes);
    }
    let deadline = &spec["progressDeadlineSeconds"];
    let min_ready = spec["minReadySeconds"].as_i64().unwrap_or(0);
    if deadline
        .as_i64()
        .is_some_and(|deadline| deadline <= min_ready)
    {
        let detail = "must be greater than minReadySeconds";
        causes.push(invalid_value(
            "spec.progressDeadlineSeconds",
            deadline,
            detail,
        ));
    }
}

fn not_negative(field: &str, value: &Value, causes: &mut Vec<Cause>) {
    if value.as_i64().is_some_and(|number| number < 0) {
        causes.push(invalid_value(field, value, NOT_NEGATIVE));
    }
}

fn check_strategy(strategy: &Value, causes: &mut Vec<Cause>) {
    let rolling = &strategy["rollingUpdate"];
    match strategy["type"].as_str().unwrap_or("") {
        "Recreate" if !rolling.is_null() => causes.push(forbidden_field(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        )),
        "Recreate" => {}
        "RollingUpdate" => check_rolling(rolling, causes),
        kind => {
            // As Go writes its structure.
            let rolling = match rolling {
                Value::Null => Value::Null,
                of => json!({"MaxUnavailable": of["maxUnavailable"], "MaxSurge": of["maxSurge"]}),
            };
            let kind = Value::from(kind);
            causes.push(Cause {
                reason: "FieldValueNotSupported".to_owned(),
                message: format!(
                    "Unsupported value: {{\"Type\":{kind},\"RollingUpdate\":{rolling}}}: supported \
                     values: \"Recreate\", \"RollingUpdate\""
                ),
                field: "spec.strategy".to_owned(),
            });
        }
    }
}

fn check_rolling(rolling: &Value, causes: &mut Vec<Cause>) {
    let field = |member: &str| format!("spec.strategy.rollingUpdate.{member}");
    for member in ["maxUnavailable", "maxSurge"] {
        let value = &rolling[member];
        match value.as_str() {
            Some(text) if percent(text).is_none() => {
                causes.push(invalid_value(field(member), value, NO_PERCENT));
            }
            Some(_) => {}
            None => not_negative(&field(member), value, causes),
        }
    }
    // The written numbers: what can't be read is none.
    let number = |member: &str| match &rolling[member] {
        Value::String(text) => percent(text).map_or(0, i64::from),
        value => value.as_i64().unwrap_or(0),
    };
    let unavailable = &rolling["maxUnavailable"];
    let detail = match (number("maxUnavailable"), number("maxSurge")) {
        (0, 0) => "may not be 0 when `maxSurge` is 0",
        (share, _) if share > 100 && unavailable.is_string() => "must not be greater than 100%",
        _ => return,
    };
    causes.push(invalid_value(field("maxUnavailable"), unavailable, detail));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields and messages of what is wrong with a spec.
    fn wrong(spec: &Value) -> Vec<String> {
        let mut causes = Vec::new();
        check(spec, &mut causes);
        let told = causes.iter();
        told.map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    #[test]
    fn strategies_that_cannot_roll_out_are_refused() {
        let of = "spec.strategy.rollingUpdate";
        let rolling = |unavailable: Value, surge: Value| {
            let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
            wrong(&json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}))
        };
        let none = Vec::<String>::new();
        assert_eq!(rolling(json!("25%"), json!("25%")), none);
        assert_eq!(rolling(json!(0), json!("200%")), none);
        assert_eq!(
            rolling(json!("1%"), json!(0)),
            none,
            "which may come to nothing"
        );
        let both = |value: &str| {
            [format!(
                "{of}.maxUnavailable: Invalid value: {value}: may not be 0 when `maxSurge` is 0"
            )]
        };
        assert_eq!(rolling(json!(0), json!(0)), both("0"));
        assert_eq!(rolling(json!("0%"), json!("0%")), both("\"0%\""));
        assert_eq!(
            rolling(json!("101%"), json!(1)),
            [format!(
                "{of}.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%"
            )]
        );
        assert_eq!(
            rolling(json!(-1), json!("x")),
            [
                format!("{of}.maxUnavailable: Invalid value: -1: {NOT_NEGATIVE}"),
                format!("{of}.maxSurge: Invalid value: \"x\": {NO_PERCENT}"),
            ]
        );
        let strategy = |strategy: Value| wrong(&json!({"strategy": strategy}));
        assert_eq!(strategy(json!({"type": "Recreate"})), none);
        assert_eq!(
            strategy(json!({"type": "Recreate", "rollingUpdate": {}})),
            [format!(
                "{of}: Forbidden: may not be specified when strategy `type` is 'Recreate'"
            )]
        );
        assert_eq!(
            strategy(json!({"type": "Foo"})),
            [
                "spec.strategy: Unsupported value: {\"Type\":\"Foo\",\"RollingUpdate\":null}: supported values: \
              \"Recreate\", \"RollingUpdate\""
            ]
        );
    }

    #[test]
    fn the_deadline_is_longer_than_a_pod_must_be_ready() {
        let of = |deadline: i64, min_ready: i64| {
            wrong(
                &json!({"strategy": {"type": "Recreate"}, "revisionHistoryLimit": 0,
                "progressDeadlineSeconds": deadline, "minReadySeconds": min_ready}),
            )
        };
        assert_eq!(of(6, 5), [""; 0]);
        let field = "spec.progressDeadlineSeconds: Invalid value";
        let longer =
            |deadline: i64| format!("{field}: {deadline}: must be greater than minReadySeconds");
        assert_eq!(of(5, 5), [longer(5)]);
        assert_eq!(
            of(-1, 0),
            [format!("{field}: -1: {NOT_NEGATIVE}"), longer(-1)]
        );
    }
}
