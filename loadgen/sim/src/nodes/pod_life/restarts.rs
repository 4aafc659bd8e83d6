//! Restarts of a container that has ended: whether and when.

use podstorm_objects::RestartPolicy;
use serde_json::Value;

use super::SECOND_NS;
use super::container::{Container, Ended, Role, Ways};
use super::restart_all;

/// The back-off before the second restart, ns; it doubles with each restart.
pub(super) const BACKOFF_MIN_NS: i64 = 10 * SECOND_NS;
/// The maximum back-off before a restart or a pull, ns.
pub(super) const BACKOFF_MAX_NS: i64 = 300 * SECOND_NS;
/// The running time after which a container's back-off is reset, ns.
const BACKOFF_RESET_NS: i64 = 600 * SECOND_NS;

/// A container's restart policy and rules. Without its own policy, the pod's policy applies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    pub(super) policy: Option<RestartPolicy>,
    rules: Vec<Rule>,
}

/// A rule: exit codes that restart the container regardless of its policy.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// Whether the rule matches the codes in `codes`; if not, it matches all other codes.
    is_in: bool,
    codes: Vec<i64>,
    /// Whether the rule also restarts all other containers of the pod.
    restarts_all: bool,
}

/// The back-off before the next restart, and the time of the last restart.
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

    /// Returns the first rule that matches an exit code; `None` if none does.
    fn rule(&self, code: i32) -> Option<&Rule> {
        let mut rules = self.rules.iter();
        rules.find(|rule| rule.codes.contains(&code.into()) == rule.is_in)
    }

    /// Reports whether an exit code can restart all containers of the pod.
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
    /// Ends the instance. `is_alive` tells whether the pod continues.
    pub(super) fn finish(&mut self, end: Ended, at_ns: i64, is_alive: bool, ways: &Ways) {
        let rule = self.policy.rule(end.code);
        self.restarts_all = is_alive && rule.is_some_and(|rule| rule.restarts_all);
        let restarts = is_alive && self.may_restart(end.code, ways);
        self.end(end, at_ns, restarts);
    }

    /// Reports whether the container restarts after an end with this exit code.
    fn may_restart(&self, code: i32, ways: &Ways) -> bool {
        let of_pod = match (self.role, ways.policy) {
            (Role::Sidecar, _) => return true,
            // An init container that succeeded is not restarted.
            (Role::Init, RestartPolicy::Always) => RestartPolicy::OnFailure,
            (_, policy) => policy,
        };
        let is_done = self.role == Role::Init && code == 0;
        !is_done && self.policy.restarts(code, of_pod)
    }

    /// Reports whether the container restarts after a probe has ended it. This does not depend on
    /// the exit code or on rules.
    pub(super) fn outlives_probes(&self, ways: &Ways) -> bool {
        let policy = self.policy.policy.unwrap_or(ways.policy);
        self.role == Role::Sidecar || policy != RestartPolicy::Never
    }

    /// Returns the start time of the next instance, and doubles the back-off.
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

    /// Restores the restart count and the back-off of a container that has restarted this many
    /// times, last at `since_ns`.
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
