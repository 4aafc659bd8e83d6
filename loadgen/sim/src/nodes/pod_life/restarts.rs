//! Whether a container restarts when it has ended, and when.

use podstorm_objects::RestartPolicy;
use serde_json::Value;

use super::SECOND_NS;
use super::container::{Container, Ended, Role, Ways};
use super::restart_all;

/// The pause before the second restart; it doubles with each one.
pub(super) const BACKOFF_MIN_NS: i64 = 10 * SECOND_NS;
/// The longest pause before a restart or a pull.
pub(super) const BACKOFF_MAX_NS: i64 = 300 * SECOND_NS;
/// A container that ran for so long since its last restart begins with the shortest pause again.
const BACKOFF_RESET_NS: i64 = 600 * SECOND_NS;

/// What a container's policy says; absent parts leave it to the pod's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    pub(super) policy: Option<RestartPolicy>,
    rules: Vec<Rule>,
}

/// Exit codes that restart the container whatever its policy says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Whether a code must be among these.
    is_in: bool,
    codes: Vec<i64>,
    /// Whether the other containers restart too.
    restarts_all: bool,
}

/// The pause before the next restart, and when the last one was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BackOff {
    pause_ns: i64,
    since_ns: i64,
}

impl Restarts {
    /// Of a container of a spec.
    pub(super) fn of(container: &Value) -> Restarts {
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

    /// The first rule for a code.
    fn rule(&self, code: i32) -> Option<&Rule> {
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.codes.contains(&code.into()) == rule.is_in)
    }

    /// Whether an end with some code restarts all containers.
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
    /// Its instance has ended. `is_alive`: its pod goes on.
    pub(super) fn finish(&mut self, end: Ended, at_ns: i64, is_alive: bool, ways: &Ways) {
        let rule = self.policy.rule(end.code);
        self.restarts_all = is_alive && rule.is_some_and(|rule| rule.restarts_all);
        let restarts = is_alive && self.may_restart(end.code, ways);
        self.end(end, at_ns, restarts);
    }

    /// Whether it restarts after an end with that code.
    fn may_restart(&self, code: i32, ways: &Ways) -> bool {
        let of_pod = match (self.role, ways.policy) {
            (Role::Sidecar, _) => return true,
            // An init container that has ended well has done its work.
            (Role::Init, RestartPolicy::Always) => RestartPolicy::OnFailure,
            (_, policy) => policy,
        };
        let is_done = self.role == Role::Init && code == 0;
        !is_done && self.policy.restarts(code, of_pod)
    }

    /// Whether it restarts after a probe has ended it, which depends on no code and no rule.
    pub(super) fn outlives_probes(&self, ways: &Ways) -> bool {
        let policy = self.policy.policy.unwrap_or(ways.policy);
        self.role == Role::Sidecar || policy != RestartPolicy::Never
    }

    /// When the instance after the one that has ended starts.
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

    /// Assumes the back-off of a container that has restarted so often, last at that moment.
    pub(super) fn assume_restarts(&mut self, restarts: i32, since_ns: i64) {
        self.restarts = restarts;
        // Six doublings reach the longest pause.
        let doublings = (restarts - 1).clamp(0, 6);
        // A removed container starts over, without a back-off.
        let last = self.last.as_ref();
        let was_removed = last.is_some_and(|last| last.reason == restart_all::REASON);
        self.backoff = (restarts > 0 && !was_removed).then(|| BackOff {
            pause_ns: (BACKOFF_MIN_NS << doublings).min(BACKOFF_MAX_NS),
            since_ns,
        });
    }
}
