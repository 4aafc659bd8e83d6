//! Validation of label selectors.

use podstorm_objects::decode::Path;
use podstorm_objects::{Cause, LabelSelector};

use super::metadata::check_labels;
use super::{Causes, names};

/// Returns the syntax rules that a `spec.selector` breaks.
pub(crate) fn validate_selector(selector: &LabelSelector) -> Vec<Cause> {
    validate_selector_at(selector, &Path::ROOT.member("spec").member("selector"))
}

/// Returns the syntax rules that the selector at `path` breaks.
pub(crate) fn validate_selector_at(selector: &LabelSelector, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    check(selector, path, &mut causes);
    causes.found()
}

/// Checks a selector's syntax. The caller checks whether the selector may be empty.
pub(super) fn check(selector: &LabelSelector, path: &Path<'_>, causes: &mut Causes) {
    check_labels(&selector.match_labels, &path.member("matchLabels"), causes);
    let expressions = path.member("matchExpressions");
    for (index, requirement) in selector.match_expressions.iter().enumerate() {
        let path = expressions.item(index);
        let values = path.member("values");
        match &*requirement.operator {
            "In" | "NotIn" if requirement.values.is_empty() => {
                causes.required(
                    &values,
                    "must be specified when `operator` is 'In' or 'NotIn'",
                );
            }
            "In" | "NotIn" => {}
            "Exists" | "DoesNotExist" if !requirement.values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                causes.forbidden(&values, detail);
            }
            "Exists" | "DoesNotExist" => {}
            other => causes.invalid(
                &path.member("operator"),
                other,
                "not a valid selector operator",
            ),
        }
        let problem = names::qualified_name(&requirement.key);
        causes.text(&path.member("key"), &requirement.key, problem);
        for (index, value) in requirement.values.iter().enumerate() {
            causes.text(&values.item(index), value, names::label_value(value));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::testing::{assert_starts, texts};
    use super::*;

    #[test]
    fn each_broken_rule_of_a_selector_is_reported() {
        let value = json!({
            "matchLabels": {"a": "-"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["x"]},
                {"key": "a", "operator": "Like", "values": ["x"]},
                {"key": "-", "operator": "NotIn", "values": ["x", "y z"]},
                {"key": "fine", "operator": "DoesNotExist"}]
        });
        let selector = LabelSelector::from_json(value).unwrap();
        let mut causes = Causes::default();
        check(&selector, &Path::ROOT.member("s"), &mut causes);
        let starts = [
            "s.matchLabels: Invalid value: \"-\"",
            "s.matchExpressions[0].values: Required value",
            "s.matchExpressions[1].values: Forbidden",
            "s.matchExpressions[2].operator: Invalid value: \"Like\"",
            "s.matchExpressions[3].key: Invalid value: \"-\"",
            "s.matchExpressions[3].values[1]: Invalid value: \"y z\"",
        ];
        let found = texts(&causes.found());
        assert_starts(&found, &starts, &serde_json::Value::Null);
    }
}
