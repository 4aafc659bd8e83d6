//! Validation of the rollout strategies of Deployments, DaemonSets and StatefulSets, with
//! upstream's order of errors.
//!
//! Source: `pkg/apis/apps/validation` of Kubernetes.

use podstorm_objects::Cause;
use serde_json::Value;

use super::policy::{NO_PERCENT, percent};
use crate::errors::not_supported_value;
use crate::internal;
use crate::validation::Field;

/// Checks a Deployment's spec after defaulting. `shared` has the causes about the fields that a
/// ReplicaSet's spec has, too.
pub(super) fn check_deployment(spec: &Field<'_>, shared: Vec<Cause>) {
    with_readiness_last(spec, shared, || {
        let strategy = spec.at("strategy");
        let rolling = strategy.at("rollingUpdate");
        match strategy.at("type").text() {
            "Recreate" if !rolling.is_null() => {
                rolling.forbidden("may not be specified when strategy `type` is 'Recreate'");
            }
            "Recreate" => {}
            "RollingUpdate" => check_rolling(&rolling),
            _ => unknown(
                &strategy,
                "DeploymentStrategy",
                ["Recreate", "RollingUpdate"],
            ),
        }
    });
    let deadline = spec.at("progressDeadlineSeconds");
    spec.at("revisionHistoryLimit").not_negative();
    deadline.not_negative();
    let min_ready = spec.at("minReadySeconds").number();
    let is_short = |deadline| deadline <= min_ready;
    if deadline.value.as_i64().is_some_and(is_short) {
        deadline.invalid("must be greater than minReadySeconds");
    }
}

/// Like [`check_deployment`], for a DaemonSet.
pub(super) fn check_daemon_set(spec: &Field<'_>, shared: Vec<Cause>) {
    with_readiness_last(spec, shared, || {});
    let strategy = spec.at("updateStrategy");
    let rolling = strategy.at("rollingUpdate");
    match strategy.at("type").text() {
        "OnDelete" => {}
        "RollingUpdate" if rolling.is_null() => rolling.required(""),
        "RollingUpdate" => {
            let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
            let shares = [&unavailable, &surge];
            shares.into_iter().for_each(check_share);
            shares.into_iter().for_each(check_at_most_all);
            match (number(&unavailable) != 0, number(&surge) != 0) {
                (true, true) => surge.invalid("may not be set when maxUnavailable is non-zero"),
                (false, false) => unavailable.required("cannot be 0 when maxSurge is 0"),
                _ => {}
            }
        }
        _ => unknown(
            &strategy,
            "DaemonSetUpdateStrategy",
            ["RollingUpdate", "OnDelete"],
        ),
    }
    spec.at("revisionHistoryLimit").not_negative();
}

/// Checks the update strategy of a StatefulSet.
pub(super) fn check_stateful_set(strategy: &Field<'_>) {
    let rolling = strategy.at("rollingUpdate");
    let invalid = |field: &Field<'_>, of: &str, detail: &str| {
        let cause = internal::invalid(field.path.as_str(), field.value, of, detail);
        field.checks.push(cause);
    };
    match strategy.at("type").text() {
        "OnDelete" if !rolling.is_null() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            invalid(&rolling, "RollingUpdateStatefulSetStrategy", detail);
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            rolling.at("partition").not_negative();
            let unavailable = rolling.at("maxUnavailable");
            if !unavailable.is_null() {
                check_share(&unavailable);
                if number(&unavailable) == 0 {
                    unavailable.invalid("cannot be 0");
                }
                check_at_most_all(&unavailable);
            }
        }
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            invalid(strategy, "StatefulSetUpdateStrategy", detail);
        }
    }
}

/// Adds the shared causes. Runs `before` ahead of the causes about `minReadySeconds`.
fn with_readiness_last(spec: &Field<'_>, shared: Vec<Cause>, before: impl FnOnce()) {
    let is_of_readiness = |cause: &Cause| cause.field == "spec.minReadySeconds";
    let (of_readiness, others) = shared.into_iter().partition(is_of_readiness);
    spec.checks.extend(others);
    before();
    spec.checks.extend(of_readiness);
}

/// Reports a strategy of an unknown type. The message prints the strategy like a Go struct.
fn unknown(strategy: &Field<'_>, of: &str, kinds: [&str; 2]) {
    let shown = internal::quoted(strategy.value, of);
    let cause = not_supported_value(strategy.path.as_str(), shown, &kinds);
    strategy.checks.push(cause);
}

/// Checks a number or percentage.
fn check_share(share: &Field<'_>) {
    match share.value.as_str() {
        Some(text) if percent(text).is_none() => share.invalid(NO_PERCENT),
        Some(_) => {}
        None => share.not_negative(),
    }
}

fn check_at_most_all(share: &Field<'_>) {
    if share.value.is_string() && number(share) > 100 {
        share.invalid("must not be greater than 100%");
    }
}

/// Returns the number, or that of the percentage; 0 if it is unreadable.
fn number(share: &Field<'_>) -> i64 {
    match share.value {
        Value::String(text) => percent(text).map_or(0, i64::from),
        value => value.as_i64().unwrap_or(0),
    }
}

fn check_rolling(rolling: &Field<'_>) {
    let (unavailable, surge) = (rolling.at("maxUnavailable"), rolling.at("maxSurge"));
    [&unavailable, &surge].into_iter().for_each(check_share);
    if number(&unavailable) == 0 && number(&surge) == 0 {
        unavailable.invalid("may not be 0 when `maxSurge` is 0");
    }
    check_at_most_all(&unavailable);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::validation::{Checks, MUST_NOT_BE_NEGATIVE};

    /// Returns the broken rules of a spec as `field: message`.
    fn wrong(spec: &Value) -> Vec<String> {
        let checks = Checks::default();
        check_deployment(&checks.value("spec", spec), Vec::new());
        (checks.found().iter())
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect()
    }

    #[test]
    fn strategies_without_progress_are_refused() {
        let of = "spec.strategy.rollingUpdate";
        let rolling = |unavailable: Value, surge: Value| {
            let rolling = json!({"maxUnavailable": unavailable, "maxSurge": surge});
            wrong(&json!({"strategy": {"type": "RollingUpdate", "rollingUpdate": rolling}}))
        };
        assert_eq!(rolling(json!("25%"), json!("25%")), [""; 0]);
        assert_eq!(rolling(json!(0), json!("200%")), [""; 0]);
        // The percentage may round to zero.
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
    fn the_progress_deadline_exceeds_min_ready_seconds() {
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
