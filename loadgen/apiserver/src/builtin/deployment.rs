//! The rules that Deployments have besides those of ReplicaSets: how they roll out.

use podstorm_objects::Cause;
use serde_json::{Value, json};

use super::policy::{NO_PERCENT, percent};
use crate::errors::not_supported_value;
use crate::validation::Field;

/// Adds the broken rules of a spec with defaults to those that it shares with a ReplicaSet's, in upstream's order.
pub(super) fn check(spec: &Field<'_>, shared: Vec<Cause>) {
    let is_of_readiness = |cause: &Cause| cause.field == "spec.minReadySeconds";
    let (of_readiness, others) = shared.into_iter().partition(is_of_readiness);
    spec.checks.extend(others);
    check_strategy(&spec.at("strategy"));
    spec.checks.extend(of_readiness);
    let deadline = spec.at("progressDeadlineSeconds");
    spec.at("revisionHistoryLimit").not_negative();
    deadline.not_negative();
    let min_ready = spec.at("minReadySeconds").number();
    let is_short = |deadline| deadline <= min_ready;
    if deadline.value.as_i64().is_some_and(is_short) {
        deadline.invalid("must be greater than minReadySeconds");
    }
}

fn check_strategy(strategy: &Field<'_>) {
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "Recreate" if !rolling.is_null() => {
            rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => check_rolling(&rolling),
        kind => {
            // As Go writes its structure.
            let rolling = match rolling.value {
                Value::Null => Value::Null,
                of => json!({"MaxUnavailable": of["maxUnavailable"], "MaxSurge": of["maxSurge"]}),
            };
            let kind = Value::from(kind);
            let shown = format!("{{\"Type\":{kind},\"RollingUpdate\":{rolling}}}");
            let kinds = ["Recreate", "RollingUpdate"];
            let cause = not_supported_value(strategy.path.as_str(), shown, &kinds);
            strategy.checks.push(cause);
        }
    }
}

fn check_rolling(rolling: &Field<'_>) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    for share in [&unavailable, &surge] {
        match share.value.as_str() {
            Some(text) if percent(text).is_none() => share.invalid(NO_PERCENT),
            Some(_) => {}
            None => share.not_negative(),
        }
    }
    // The written numbers: what can't be read is none.
    let number = |share: &Field<'_>| match share.value {
        Value::String(text) => percent(text).map_or(0, i64::from),
        value => value.as_i64().unwrap_or(0),
    };
    match (number(&unavailable), number(&surge)) {
        (0, 0) => unavailable.invalid("may not be 0 when `maxSurge` is 0"),
        (share, _) if share > 100 && unavailable.value.is_string() => {
            unavailable.invalid("must not be greater than 100%");
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::validation::{Checks, MUST_NOT_BE_NEGATIVE};

    /// The fields and messages of what is wrong with a spec.
    fn wrong(spec: &Value) -> Vec<String> {
        let checks = Checks::default();
        check(&checks.value("spec", spec), Vec::new());
        (checks.found().iter())
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    #[test]
    fn strategies_that_cannot_roll_out_are_refused() {
        let of = "spec.strategy.rollingUpdate";
        let rolling = |unavailable: Value, surge: Value| {
            let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
            wrong(&json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}))
        };
        assert_eq!(rolling(json!("25%"), json!("25%")), [""; 0]);
        assert_eq!(rolling(json!(0), json!("200%")), [""; 0]);
        // It may come to nothing.
        assert_eq!(rolling(json!("1%"), json!(0)), [""; 0]);
        let invalid = |field: &str, value: &str, why: &str| {
            format!("{of}.{field}: Invalid value: {value}: {why}")
        };
        let unavailable = |value: &str, why: &str| invalid("maxUnavailable", value, why);
        let both = "may not be 0 when `maxSurge` is 0";
        let found = rolling(json!(0), json!(0));
        assert_eq!(found, [unavailable("0", both)]);
        let found = rolling(json!("0%"), json!("0%"));
        assert_eq!(found, [unavailable("\"0%\"", both)]);
        let found = rolling(json!("101%"), json!(1));
        let all = "must not be greater than 100%";
        assert_eq!(found, [unavailable("\"101%\"", all)]);
        let found = rolling(json!(-1), json!("x"));
        let surge = invalid("maxSurge", "\"x\"", NO_PERCENT);
        assert_eq!(found, [unavailable("-1", MUST_NOT_BE_NEGATIVE), surge]);
        let strategy = |strategy: Value| wrong(&json!({"strategy": strategy}));
        assert_eq!(strategy(json!({"type": "Recreate"})), [""; 0]);
        let found = strategy(json!({"type": "Recreate", "rollingUpdate": {}}));
        let why = "may not be specified when strategy `type` is 'Recreate'";
        assert_eq!(found, [format!("{of}: Forbidden: {why}")]);
        let unsupported = "spec.strategy: Unsupported value: \
            {\"Type\":\"Foo\",\"RollingUpdate\":null}: \
            supported values: \"Recreate\", \"RollingUpdate\"";
        assert_eq!(strategy(json!({"type": "Foo"})), [unsupported]);
    }

    #[test]
    fn the_deadline_is_longer_than_a_pod_must_be_ready() {
        let of = |deadline: i64, min_ready: i64| {
            let spec = json!({"strategy": {"type": "Recreate"}, "revisionHistoryLimit": 0,
                "progressDeadlineSeconds": deadline, "minReadySeconds": min_ready});
            wrong(&spec)
        };
        assert_eq!(of(6, 5), [""; 0]);
        let field = "spec.progressDeadlineSeconds: Invalid value";
        let longer =
            |deadline: i64| format!("{field}: {deadline}: must be greater than minReadySeconds");
        assert_eq!(of(5, 5), [longer(5)]);
        assert_eq!(
            of(-1, 0),
            [format!("{field}: -1: {MUST_NOT_BE_NEGATIVE}"), longer(-1)]
        );
    }
}
