//! `podFailurePolicy`, which handles failed pods, and `successPolicy`, which decides how many
//! successes suffice.
//!
//! Source: `pod_failure_policy.go` and `success_policy.go` of Kubernetes' `pkg/controller/job`.

use podstorm_objects::{ContainerStatus, Pod};
use serde_json::Value;

use super::indexes::Indexes;
use super::pod::terminations;

/// The `podFailurePolicy` of a Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FailurePolicy(Vec<FailureRule>);

#[derive(Clone, Debug, PartialEq)]
struct FailureRule {
    action: Option<FailureAction>,
    matches: FailureMatch,
}

#[derive(Clone, Debug, PartialEq)]
enum FailureMatch {
    ExitCodes {
        container: Option<String>,
        /// Whether the operator is `In`; `None` for an operator that Kubernetes doesn't define.
        /// Such an operator matches nothing.
        is_in: Option<bool>,
        values: Vec<i64>,
    },
    /// Pairs of condition type and status.
    Conditions(Vec<(String, String)>),
}

/// The action that a failure policy prescribes for a failed pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureAction {
    /// The failure does not count.
    Ignore,
    /// The failure counts.
    Count,
    /// The failure counts, and the index of the pod fails.
    FailIndex,
    /// The failure counts, and the Job fails.
    FailJob,
}

impl FailureAction {
    /// Returns the name of the action in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureAction::Ignore => "Ignore",
            FailureAction::Count => "Count",
            FailureAction::FailIndex => "FailIndex",
            FailureAction::FailJob => "FailJob",
        }
    }

    fn new(text: &str) -> Option<FailureAction> {
        use FailureAction::{Count, FailIndex, FailJob, Ignore};
        let all = [Ignore, Count, FailIndex, FailJob];
        all.into_iter().find(|action| action.as_str() == text)
    }
}

/// A rule of a failure policy that a failed pod matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetRule {
    /// The action of the rule.
    pub action: FailureAction,
    /// The message for the condition of a Job that the rule fails.
    pub message: String,
}

impl FailurePolicy {
    /// Reads `podFailurePolicy` from a spec; `None` if it is absent.
    pub fn read(policy: &Value) -> Option<FailurePolicy> {
        let rules = list(policy.as_object()?.get("rules").unwrap_or(&Value::Null));
        Some(FailurePolicy(rules.iter().map(FailureRule::read).collect()))
    }

    /// Returns the first rule with a known action that matches a failed pod; `None` if none does.
    pub fn met(&self, pod: &Pod) -> Option<MetRule> {
        let rules = self.0.iter().enumerate();
        rules.into_iter().find_map(|(at, rule)| {
            let action = rule.action?;
            let what = rule.matches.what(pod)?;
            let message = format!("{what} matching {} rule at index {at}", action.as_str());
            Some(MetRule { action, message })
        })
    }
}

impl FailureRule {
    fn read(rule: &Value) -> FailureRule {
        let codes = &rule["onExitCodes"];
        let matches = match codes.is_object() {
            true => FailureMatch::ExitCodes {
                container: codes["containerName"].as_str().map(str::to_owned),
                is_in: match codes["operator"].as_str() {
                    Some("In") => Some(true),
                    Some("NotIn") => Some(false),
                    _ => None,
                },
                values: list(&codes["values"])
                    .iter()
                    .filter_map(Value::as_i64)
                    .collect(),
            },
            false => FailureMatch::Conditions(
                list(&rule["onPodConditions"])
                    .iter()
                    .map(|it| (text(&it["type"]), text(&it["status"])))
                    .collect(),
            ),
        };
        FailureRule {
            action: rule["action"].as_str().and_then(FailureAction::new),
            matches,
        }
    }
}

impl FailureMatch {
    /// Describes the part of the pod that matches, for the message; `None` if the rule doesn't
    /// match.
    fn what(&self, pod: &Pod) -> Option<String> {
        let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
        match self {
            FailureMatch::ExitCodes {
                container,
                is_in,
                values,
            } => {
                let is_named =
                    |it: &&ContainerStatus| container.as_ref().is_none_or(|name| it.name == **name);
                let named = pod.status.all_statuses().filter(is_named);
                let mut failed = named.filter_map(|it| {
                    let code = terminations(it).exit_code.filter(|code| *code != 0)?;
                    Some((&it.name, code))
                });
                let is_in = (*is_in)?;
                let (container, code) = failed.find(|(_, code)| values.contains(code) == is_in)?;
                Some(format!(
                    "Container {container} for pod {namespace}/{name} failed with exit code {code}"
                ))
            }
            FailureMatch::Conditions(wanted) => pod.status.conditions.iter().find_map(|held| {
                let other = |member| held.rest.get(member).as_ref().map(text).unwrap_or_default();
                let kind = held
                    .kind
                    .as_str()
                    .map_or_else(|| other("type"), str::to_owned);
                let status = held
                    .status
                    .as_str()
                    .map_or_else(|| other("status"), str::to_owned);
                let mut wanted = wanted.iter();
                let is_wanted = wanted.any(|it| it.0 == kind && it.1 == status);
                is_wanted.then(|| format!("Pod {namespace}/{name} has condition {kind}"))
            }),
        }
    }
}

/// The `successPolicy` of a Job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SuccessPolicy(Vec<SuccessRule>);

#[derive(Clone, Debug, PartialEq)]
struct SuccessRule {
    indexes: Option<String>,
    count: Option<i64>,
}

impl SuccessPolicy {
    /// Reads `successPolicy` from a spec; `None` if it is absent.
    pub fn read(policy: &Value) -> Option<SuccessPolicy> {
        let rules = list(policy.as_object()?.get("rules").unwrap_or(&Value::Null));
        let rules = rules.iter().map(|rule| SuccessRule {
            indexes: rule["succeededIndexes"].as_str().map(str::to_owned),
            count: rule["succeededCount"].as_i64(),
        });
        Some(SuccessPolicy(rules.collect()))
    }

    /// Returns the message about the first rule that these indexes satisfy, for a Job with this
    /// number of completions; `None` if they satisfy no rule.
    pub fn met(&self, succeeded: &Indexes, completions: i64) -> Option<String> {
        let done = succeeded.count();
        if done == 0 {
            return None;
        }
        let is_met = |rule: &SuccessRule| match (&rule.indexes, rule.count) {
            (Some(indexes), count) => {
                let wanted = Indexes::parse(indexes, completions);
                // |a| + |b| counts the common indexes twice, the union counts them once.
                let both = wanted.count() + done - wanted.union(succeeded).count();
                let all = wanted.count();
                all > 0 && (both == all || count.is_some_and(|count| both >= count))
            }
            (None, Some(count)) => done >= count,
            (None, None) => false,
        };
        let at = self.0.iter().position(is_met)?;
        Some(format!("Matched rules at index {at}"))
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], |all| all)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
