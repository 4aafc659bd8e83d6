//! The probes of a container, as far as their failed runs show in Events.

use podstorm::client::EventType::{Normal, Warning};
use podstorm_objects::{RestartPolicy, Str};
use serde_json::Value;

use super::SECOND_NS;
use super::container::{Container, Role, State, Ways};
use super::events::Notes;

/// A probe of a container, as far as its failures show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    delay_ns: i64,
    period_ns: i64,
    threshold: i64,
    /// What a failure says.
    output: String,
}

/// Readiness and liveness probe of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probes {
    pub(super) readiness: Probe,
    pub(super) liveness: Probe,
}

/// The failures of a probe that are still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) next_ns: i64,
    /// How many; no end where absent.
    pub(super) left: Option<i64>,
}

impl Probes {
    /// Of a container of a spec. What the spec does not say is as the API's defaults.
    pub(super) fn of(container: &Value) -> Probes {
        Probes {
            readiness: Probe::of(&container["readinessProbe"]),
            liveness: Probe::of(&container["livenessProbe"]),
        }
    }
}

impl Probe {
    fn of(probe: &Value) -> Probe {
        let number = |member: &str, usual| probe[member].as_i64().unwrap_or(usual);
        let port = |action: &Value| action["port"].to_string().replace('"', "");
        let output = if probe["exec"].is_object() {
            // A simulated command prints nothing.
            String::new()
        } else if probe["tcpSocket"].is_object() {
            let port = port(&probe["tcpSocket"]);
            format!("dial tcp :{port}: connect: connection refused")
        } else if probe["grpc"].is_object() {
            "service unhealthy (responded with \"NOT_SERVING\")".to_owned()
        } else {
            "HTTP probe failed with statuscode: 500".to_owned()
        };
        let seconds = |seconds: i64| seconds.max(0).saturating_mul(SECOND_NS);
        Probe {
            delay_ns: seconds(number("initialDelaySeconds", 0)),
            period_ns: seconds(number("periodSeconds", 10)).max(SECOND_NS),
            threshold: number("failureThreshold", 3).max(1),
            output,
        }
    }

    /// The failures of a probe that has not passed since the container started then.
    pub(super) fn fails_since(&self, since_ns: i64, at_ns: i64) -> Failures {
        let first_ns = since_ns.saturating_add(self.delay_ns);
        let gone = (at_ns - first_ns).max(0).div_euclid(self.period_ns);
        Failures {
            next_ns: first_ns.saturating_add(gone.saturating_mul(self.period_ns)),
            left: None,
        }
    }

    /// The failures of a probe that has failed for good at that moment.
    pub(super) fn fails_by(&self, failed_ns: i64, since_ns: i64, at_ns: i64) -> Option<Failures> {
        let most = (failed_ns - since_ns.max(at_ns)).div_euclid(self.period_ns) + 1;
        let left = self.threshold.min(most);
        (failed_ns >= at_ns).then(|| Failures {
            next_ns: failed_ns - (left - 1).saturating_mul(self.period_ns),
            left: Some(left),
        })
    }

    /// Tells the failures until that moment; returns whether the last one was among them.
    pub(super) fn tell(
        &self,
        failures: &mut Failures,
        (container, at_ns): ((&Str, Role), i64),
        kind: &str,
        notes: &mut Notes,
    ) -> bool {
        while failures.next_ns <= at_ns {
            notes.add(Some(container), Warning, "Unhealthy", || {
                format!("{kind} probe failed: {}", self.output)
            });
            failures.next_ns = failures.next_ns.saturating_add(self.period_ns);
            if let Some(left) = &mut failures.left {
                *left -= 1;
                if *left <= 0 {
                    return true;
                }
            }
        }
        false
    }
}

impl Container {
    /// Tells the failures of its probes until that moment.
    pub(super) fn tell_probes(&mut self, at_ns: i64, ways: &Ways, notes: &mut Notes) {
        let (State::Running(running), Some(probes)) = (&mut self.state, &self.probes) else {
            return;
        };
        let of = (&self.name, self.role);
        if let Some(failures) = &mut running.unready {
            probes
                .readiness
                .tell(failures, (of, at_ns), "Readiness", notes);
        }
        if let Some(failures) = &mut running.unhealthy
            && probes
                .liveness
                .tell(failures, (of, at_ns), "Liveness", notes)
        {
            running.unhealthy = None;
            let policy = self.policy.policy.unwrap_or(ways.policy);
            let restarts = self.role == Role::Sidecar || policy != RestartPolicy::Never;
            notes.add(Some(of), Normal, "Killing", || {
                let what = match self.role {
                    Role::Regular => "Container",
                    Role::Init | Role::Sidecar => "Init container",
                };
                let then = match (self.role, restarts) {
                    (Role::Regular, true) => ", will be restarted",
                    _ => "",
                };
                format!("{what} {} failed liveness probe{then}", self.name)
            });
        }
    }
}
