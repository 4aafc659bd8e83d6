//! Restarts of a container that has ended: whether and when.

use podstorm_objects::RestartPolicy;
use serde_json::Value;

use super::SECOND_NS;
use super::container::{Container, Ended, Role, Ways};
use super::restart_all;

/// The back-off before the second restart; it doubles with each restart.
pub(super) const BACKOFF_MIN_NS: i64 = 10 * SECOND_NS;
/// The maximum back-off before a restart or a pull.
pub(super) const BACKOFF_MAX_NS: i64 = 300 * SECOND_NS;
/// The running time after which a container's back-off starts from the minimum again.
const BACKOFF_RESET_NS: i64 = 600 * SECOND_NS;

/// A container's restart policy and rules; missing parts default to the pod's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    pub(super) policy: Option<RestartPolicy>,
    rules: Vec<Rule>,
}

/// Exit codes that restart the container regardless of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Whether the rule matches codes in the list or codes outside it.
    is_in: bool,
    codes: Vec<i64>,
    /// Whether the rule restarts the other containers too.
    restarts_all: bool,
}

/// The back-off before the next restart, and the time of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackOff {
    pause_ns: i64,
    since_ns: i64,
}

impl Restarts {
    /// Returns the restart rules of a container in a spec.
    pub(super) fn from_container(container: &Value) -> Restarts {
        let policy = container["restartPolicy"].as_str();
        let rules = container["restartPolicyRules"].as_array();
        let rules = rules.into_iter().flatten().filter_map(|rule| {
            let codes = &rule["exitCodes"];
            let is_in = match codes["operator"].as_str()? {
                "In" => true,
                "NotIn" => false,
                _ => return None,
            };
            let values = codes["values"].as_array()?;
            Some(Rule {
                is_in,
                codes: values.iter().filter_map(Value::as_i64).collect(),
                restarts_all: rule["action"] == "RestartAllContainers",
            })
        });
        Restarts {
            policy: policy.and_then(RestartPolicy::new),
            rules: rules.collect(),
        }
    }

    /// Returns the first rule for an exit code.
    fn rule(&self, code: i32) -> Option<&Rule> {
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.codes.contains(&code.into()) == rule.is_in)
    }

    /// Whether any exit code restarts all containers.
    pub(super) fn may_restart_all(&self) -> bool {
        self.rules.iter().any(|rule| rule.restarts_all)
    }

    fn restarts(&self, code: i32, of_pod: RestartPolicy) -> bool {
        self.rule(code).is_some()
            || match self.policy.unwrap_or(of_pod) {
                RestartPolicy::Always => true,
                RestartPolicy::OnFailure => code != 0,
                RestartPolicy::Never => false,
            }
    }
}

impl Container {
    /// Ends its instance. `is_alive` is whether its pod continues.
    pub(super) fn finish(&mut self, end: Ended, at_ns: i64, is_alive: bool, ways: &Ways) {
        let rule = self.policy.rule(end.code);
        self.restarts_all = is_alive && rule.is_some_and(|rule| rule.restarts_all);
        let restarts = is_alive && self.may_restart(end.code, ways);
        self.end(end, at_ns, restarts);
    }

    /// Whether it restarts after an end with this exit code.
    fn may_restart(&self, code: i32, ways: &Ways) -> bool {
        let of_pod = match (self.role, ways.policy) {
            (Role::Sidecar, _) => return true,
            // An init container that succeeded is done.
            (Role::Init, RestartPolicy::Always) => RestartPolicy::OnFailure,
            (_, policy) => policy,
        };
        let is_done = self.role == Role::Init && code == 0;
        !is_done && self.policy.restarts(code, of_pod)
    }

    /// Whether it restarts after a probe has ended it, which depends on no exit code and no rule.
    pub(super) fn outlives_probes(&self, ways: &Ways) -> bool {
        let policy = self.policy.policy.unwrap_or(ways.policy);
        self.role == Role::Sidecar || policy != RestartPolicy::Never
    }

    /// Returns the start time of the next instance.
    pub(super) fn next_start(&mut self, ended_ns: i64) -> i64 {
        let known = self.backoff;
        let known = known.filter(|it| ended_ns - it.since_ns <= BACKOFF_RESET_NS);
        let (pause_ns, next_ns) = match known {
            None => (0, BACKOFF_MIN_NS),
            Some(it) => (it.pause_ns, (2 * it.pause_ns).min(BACKOFF_MAX_NS)),
        };
        let since_ns = ended_ns.saturating_add(pause_ns);
        self.pause_ns = pause_ns;
        self.backoff = Some(BackOff {
            pause_ns: next_ns,
            since_ns,
        });
        since_ns
    }

    /// Restores the back-off of a container with this number of restarts, the last one at
    /// `since_ns`.
    pub(super) fn assume_restarts(&mut self, restarts: i32, since_ns: i64) {
        self.restarts = restarts;
        // Six doublings reach the maximum.
        let doublings = (restarts - 1).clamp(0, 6);
        // A removed container starts without a back-off.
        let last = self.last.as_ref();
        let was_removed = last.is_some_and(|last| last.reason == restart_all::REASON);
        self.backoff = (restarts > 0 && !was_removed).then(|| BackOff {
            pause_ns: (BACKOFF_MIN_NS << doublings).min(BACKOFF_MAX_NS),
            since_ns,
        });
    }
}
