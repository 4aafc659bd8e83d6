//! Validation of a Job's failure and success policies.
//!
//! Source: `validatePodFailurePolicy` and `validateSuccessPolicy` of Kubernetes' `pkg/apis/batch/validation`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::indexes;
use crate::errors::{problem, too_long, too_many};
use crate::internal;
use crate::validation::{Field, qualified_name_problems};

/// The maximum number of rules in a policy.
const RULES_MAX: usize = 20;
pub(super) const NEEDS_INDEXES: &str = "requires indexed completion mode";

/// Checks the success policy: when an indexed Job succeeds before all of its pods do.
pub(super) fn check_success_policy(spec: &Field<'_>) {
    let policy = spec.at("successPolicy");
    if policy.is_null() {
        return;
    }
    if spec.value["completionMode"] != "Indexed" {
        let (path, value) = (policy.path, policy.value);
        let cause = internal::invalid(path, value, "SuccessPolicy", NEEDS_INDEXES);
        return spec.checks.push(cause);
    }
    let rules = policy.at("rules");
    if rules.items().next().is_none() {
        rules.required("at least one rules must be specified when the successPolicy is specified");
    }
    check_count(&rules, RULES_MAX);
    let completions = spec.at("completions").number();
    for rule in rules.items() {
        check_success_rule(&rule, completions);
    }
}

fn check_success_rule(rule: &Field<'_>, completions: i64) {
    const INDEXES_BYTES_MAX: usize = 64 << 10;
    let (indexes, count) = (rule.at("succeededIndexes"), rule.at("succeededCount"));
    let given = indexes.value.as_str();
    if given.is_none() && count.value.as_i64().is_none() {
        rule.required("at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(text) = given {
        if text.len() > INDEXES_BYTES_MAX {
            let cause = too_long(indexes.path.as_str(), INDEXES_BYTES_MAX);
            rule.checks.push(cause);
        }
        match indexes::count(text, completions) {
            Ok(count) => total = count,
            Err(problem) => {
                indexes.invalid(format!("error parsing succeededIndexes: {problem}"));
            }
        }
    }
    let Some(number) = count.value.as_i64() else {
        return;
    };
    count.not_negative();
    if number > completions {
        count.invalid(format!(
            "must be less than or equal to {completions} (the number of specified completions)"
        ));
    }
    if given.is_some() && number > total {
        count.invalid(format!(
            "must be less than or equal to {total} (the number of indexes in the specified \
             succeededIndexes field)"
        ));
    }
}

/// Checks the policy for failed pods.
pub(super) fn check_failure_policy(policy: &Field<'_>, spec: &Field<'_>) {
    let rules = policy.at("rules");
    check_count(&rules, RULES_MAX);
    for rule in rules.items() {
        check_failure_rule(&rule, spec);
    }
}

/// Checks one rule of a policy for failed pods.
fn check_failure_rule(rule: &Field<'_>, spec: &Field<'_>) {
    let lacks_limit = spec.at("backoffLimitPerIndex").is_null();
    let action = rule.at("action");
    match action.text() {
        "" => {
            action.required("valid values: \"Count\", \"FailIndex\", \"FailJob\", \"Ignore\"");
        }
        "FailIndex" if lacks_limit => {
            action.invalid("requires the backoffLimitPerIndex to be set");
        }
        _ => action.one_of(&["Count", "FailIndex", "FailJob", "Ignore"]),
    }
    let (codes, conditions) = (rule.at("onExitCodes"), rule.at("onPodConditions"));
    let (has_codes, has_conditions) =
        (codes.value.is_object(), conditions.items().next().is_some());
    if has_codes {
        check_exit_codes(&codes, &spec.at("template").at("spec"));
    }
    check_conditions(&conditions);
    // The message contains the problem in place of a value.
    let unclear = |what: &str| rule.checks.push(problem(rule.path.as_str(), what));
    match (has_codes, has_conditions) {
        (true, true) => unclear("specifying both OnExitCodes and OnPodConditions is not supported"),
        (false, false) => unclear("specifying one of OnExitCodes and OnPodConditions is required"),
        _ => {}
    }
}

fn check_exit_codes(codes: &Field<'_>, pod: &Field<'_>) {
    const CODES_MAX: usize = 255;
    let operator = codes.at("operator");
    match operator.text() {
        "" => operator.required("valid values: \"In\", \"NotIn\""),
        _ => operator.must_be_one_of(&["In", "NotIn"]),
    }
    let container = codes.at("containerName");
    let lists = ["containers", "initContainers"].map(|list| pod.at(list));
    let mut names = lists
        .iter()
        .flat_map(Field::items)
        .map(|it| it.at("name").text());
    if container.value.is_string() && !names.any(|name| name == container.text()) {
        container
            .invalid("must be one of the container or initContainer names in the pod template");
    }
    let values = codes.at("values");
    if values.items().next().is_none() {
        values.invalid_as(Vec::<Value>::new(), "at least one value is required");
    }
    check_count(&values, CODES_MAX);
    let mut seen = BTreeSet::new();
    let mut last = i64::MIN;
    let mut is_ordered = true;
    for value in values.items() {
        let code = value.number();
        if operator.text() == "In" && code == 0 {
            value.invalid("must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            value.duplicate();
        }
        is_ordered &= last <= code;
        last = code;
    }
    if !is_ordered {
        values.invalid("must be ordered");
    }
}

fn check_conditions(conditions: &Field<'_>) {
    const PATTERNS_MAX: usize = 20;
    check_count(conditions, PATTERNS_MAX);
    for pattern in conditions.items() {
        let kind = pattern.at("type");
        for problem in qualified_name_problems(kind.text()) {
            kind.invalid_as(kind.text(), problem);
        }
        pattern
            .at("status")
            .must_be_one_of(&["False", "True", "Unknown"]);
    }
}

/// Checks that a list has at most `most` entries.
fn check_count(list: &Field<'_>, most: usize) {
    let count = list.items().count();
    if count > most {
        list.checks.push(too_many(list.path.as_str(), count, most));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::tests::{causes, kind};

    /// Returns the problems with a Job whose spec has these members.
    fn problems(members: Value) -> Vec<String> {
        let container = json!([{"name": "main", "image": "i"}]);
        let template = json!({"spec": {"restartPolicy": "Never", "containers": container}});
        let mut spec = json!({"template": template});
        for (name, value) in members.as_object().expect("the spec is an object") {
            spec[name] = value.clone();
        }
        causes(kind("Job"), json!({"spec": spec}))
    }

    fn with_rule(rule: &Value) -> Value {
        json!({"podFailurePolicy": {"rules": [rule]}})
    }

    #[test]
    fn exit_codes_are_sorted_and_name_existing_containers() {
        for (codes, wanted) in [
            (json!({"operator": "In", "values": [1, 2, 255]}), vec![]),
            (
                json!({"operator": "NotIn", "values": [0, 1], "containerName": "main"}),
                vec![],
            ),
            (
                json!({"operator": "In", "values": [2, 1]}),
                vec![".values: Invalid value: [2,1]: must be ordered"],
            ),
            (
                json!({"operator": "In", "values": [1, 1]}),
                vec![".values[1]: Duplicate value: 1"],
            ),
            (
                json!({"operator": "In", "values": [1], "containerName": "other"}),
                vec![
                    ".containerName: Invalid value: \"other\": must be one of the container or \
                     initContainer names in the pod template",
                ],
            ),
            (
                json!({"values": [1]}),
                vec![".operator: Required value: valid values: \"In\", \"NotIn\""],
            ),
            (
                json!({"operator": "In", "values": (1..=256).collect::<Vec<_>>()}),
                vec![".values: Too many: 256: must have at most 255 items"],
            ),
        ] {
            let rule = json!({"action": "Count", "onExitCodes": codes});
            let path = "spec.podFailurePolicy.rules[0].onExitCodes";
            let wanted: Vec<_> = wanted.iter().map(|it| format!("{path}{it}")).collect();
            assert_eq!(problems(with_rule(&rule)), wanted, "{codes}");
        }
    }

    #[test]
    fn pod_conditions_need_a_valid_type_and_status() {
        let path = "spec.podFailurePolicy.rules[0].onPodConditions[0]";
        for (pattern, wanted) in [
            (json!({"type": "acme.io/Broken"}), vec![]),
            (
                json!({"type": "Ready", "status": "Maybe"}),
                vec![
                    ".status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
                ],
            ),
            (
                json!({"type": "/Ready"}),
                vec![".type: Invalid value: \"/Ready\": prefix part must be non-empty"],
            ),
        ] {
            let rule = json!({"action": "Count", "onPodConditions": [pattern]});
            let found = problems(with_rule(&rule));
            let wanted: Vec<_> = wanted.iter().map(|it| format!("{path}{it}")).collect();
            assert!(
                found.starts_with(&wanted) && found.is_empty() == wanted.is_empty(),
                "{found:?}"
            );
        }
        let many = vec![json!({"type": "Ready"}); 21];
        let rule = json!({"action": "Count", "onPodConditions": many});
        let list = "spec.podFailurePolicy.rules[0].onPodConditions";
        let wanted = format!("{list}: Too many: 21: must have at most 20 items");
        assert_eq!(problems(with_rule(&rule)), [wanted]);
    }

    #[test]
    fn the_status_of_an_indexed_job_stays_small() {
        let indexed = |members: Value| {
            let mut all = json!({"completionMode": "Indexed", "completions": 10, "parallelism": 1});
            for (name, value) in members.as_object().expect("the spec is an object") {
                all[name] = value.clone();
            }
            problems(all)
        };
        let many = " when completions are above 100000 and used with backoff limit per index";
        for (members, wanted) in [
            (json!({"backoffLimitPerIndex": 1, "maxFailedIndexes": 10}), vec![]),
            (
                json!({"maxFailedIndexes": 3}),
                vec!["spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified".to_owned()],
            ),
            (
                json!({"completions": 200_000, "parallelism": 200_000}),
                vec!["spec.parallelism: Invalid value: 200000: must be less than or equal to 100000 when \
                      completion mode is Indexed".to_owned()],
            ),
            (
                json!({"completions": 200_000, "backoffLimitPerIndex": 1}),
                vec!["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000".to_owned()],
            ),
            (
                json!({"completions": 200_000, "backoffLimitPerIndex": 1, "maxFailedIndexes": 20_000, "parallelism": 20_000}),
                vec![
                    format!("spec.parallelism: Invalid value: 20000: must be less than or equal to 10000{many}"),
                    format!("spec.maxFailedIndexes: Invalid value: 20000: must be less than or equal to 10000{many}"),
                ],
            ),
            (json!({"managedBy": format!("acme.io/{}", "a".repeat(55))}), vec![]),
            (
                json!({"managedBy": format!("acme.io/{}", "a".repeat(56))}),
                vec!["spec.managedBy: Too long: may not be more than 63 bytes".to_owned()],
            ),
        ] {
            assert_eq!(indexed(members.clone()), wanted, "{members}");
        }
        let plain = json!({"completions": 3, "backoffLimitPerIndex": 1, "maxFailedIndexes": 1});
        let needs = "Invalid value: 1: requires indexed completion mode";
        let wanted =
            ["backoffLimitPerIndex", "maxFailedIndexes"].map(|it| format!("spec.{it}: {needs}"));
        assert_eq!(problems(plain), wanted);
    }
}
