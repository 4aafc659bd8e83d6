//! The probes of a container: the times at which an instance has started, becomes ready and is
//! ended by a probe, and the failed runs that Events report. A script specifies when a probe begins
//! to pass or fail. The spec specifies when the probe runs and how many runs count. Without a probe
//! in the spec, the change happens at the time in the script.
//!
//! A probe first runs `initialDelaySeconds` after the start of the instance, and then once each
//! period.
//!
//! Source: `pkg/kubelet/prober` of Kubernetes, 1.36.

use std::borrow::Cow;

use podstorm::client::EventType::{Normal, Warning};
use serde_json::Value;

use super::SECOND_NS;
use super::container::Role;
use super::events::{ContainerRef, Notes};
use crate::nodes::script::After;

/// The kind of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Startup,
    Readiness,
    Liveness,
}

/// A probe of a container. Members that the spec omits have the API's defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Probe {
    kind: Kind,
    /// Whether the spec has the probe.
    is_said: bool,
    delay_ns: i64,
    period_ns: i64,
    /// The number of consecutive runs that count as a failure.
    failures: i64,
    /// The number of consecutive runs that count as a success.
    successes: i64,
    /// The grace period of an instance that the probe ends, ns; `None` for that of the pod.
    grace_ns: Option<i64>,
    /// The output of a failed run, as Events show it.
    output: Cow<'static, str>,
}

/// The probes of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probes {
    startup: Probe,
    readiness: Probe,
    liveness: Probe,
    /// Whether failed runs are reported in Events.
    tells: bool,
}

/// The times from which the probes of an instance pass or fail, according to the script; wall
/// times, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Said {
    pub(super) started_ns: After,
    pub(super) ready_ns: After,
    pub(super) unready_ns: After,
    /// The time at which the liveness probe reaches its failure threshold.
    pub(super) unhealthy_ns: After,
}

/// The effects of the probes on an instance; wall times, ns.
#[derive(Debug, Default)]
pub(super) struct Course {
    pub(super) started_ns: After,
    pub(super) ready_ns: After,
    pub(super) unready_ns: After,
    /// The time at which a probe ends the instance, if any, and the grace period if it differs from
    /// the pod's.
    pub(super) killed: Option<(i64, Option<i64>)>,
    pub(super) failures: Vec<Failures>,
}

/// The failed runs of a probe that are still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failures {
    pub(super) kind: Kind,
    pub(super) next_ns: i64,
    period_ns: i64,
    /// The number of failed runs that are still to come; unlimited if `None`.
    left: Option<i64>,
    /// Whether the last failed run ends the instance.
    pub(super) kills: bool,
}

impl Kind {
    const fn member(self) -> &'static str {
        match self {
            Kind::Startup => "startupProbe",
            Kind::Readiness => "readinessProbe",
            Kind::Liveness => "livenessProbe",
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Readiness => "Readiness",
            Kind::Liveness => "Liveness",
        }
    }
}

impl Failures {
    /// Skips the failed runs before `at_ns`. Returns whether any are left.
    pub(super) fn skip(&mut self, at_ns: i64) -> bool {
        let gone_ns = (at_ns - self.next_ns).max(0);
        let gone =
            gone_ns.div_euclid(self.period_ns) + i64::from(gone_ns.rem_euclid(self.period_ns) > 0);
        self.next_ns = self
            .next_ns
            .saturating_add(gone.saturating_mul(self.period_ns));
        self.left = self.left.map(|left| left - gone);
        self.left.is_none_or(|left| left > 0)
    }
}

impl Probe {
    fn from_container(container: &Value, kind: Kind) -> Probe {
        let probe = &container[kind.member()];
        let number = |member: &str, usual| probe[member].as_i64().unwrap_or(usual);
        let port = |action: &Value| action["port"].to_string().replace('"', "");
        let output = if probe["exec"].is_object() {
            // A simulated command prints nothing.
            "".into()
        } else if probe["tcpSocket"].is_object() {
            let port = port(&probe["tcpSocket"]);
            format!("dial tcp :{port}: connect: connection refused").into()
        } else if probe["grpc"].is_object() {
            "service unhealthy (responded with \"NOT_SERVING\")".into()
        } else {
            "HTTP probe failed with statuscode: 500".into()
        };
        let seconds = |seconds: i64| seconds.max(0).saturating_mul(SECOND_NS);
        Probe {
            kind,
            is_said: probe.is_object(),
            delay_ns: seconds(number("initialDelaySeconds", 0)),
            period_ns: seconds(number("periodSeconds", 10)).max(SECOND_NS),
            failures: number("failureThreshold", 3).max(1),
            successes: number("successThreshold", 1).max(1),
            grace_ns: probe["terminationGracePeriodSeconds"].as_i64().map(seconds),
            output,
        }
    }

    /// Returns the time of the run with this number, counted from 0, the run at `first_ns`.
    fn run(&self, first_ns: i64, number: i64) -> i64 {
        first_ns.saturating_add(number.saturating_mul(self.period_ns))
    }

    /// Returns the number of runs before `from_ns`.
    fn before(&self, first_ns: i64, from_ns: i64) -> i64 {
        let after_ns = (from_ns.saturating_sub(first_ns)).max(0);
        after_ns.div_euclid(self.period_ns) + i64::from(after_ns.rem_euclid(self.period_ns) > 0)
    }

    fn failing(&self, next_ns: i64, left: Option<i64>) -> Failures {
        Failures {
            kind: self.kind,
            next_ns,
            period_ns: self.period_ns,
            left,
            kills: false,
        }
    }
}

impl Probes {
    /// Returns the probes of a container in a spec.
    pub(super) fn from_container(container: &Value, tells: bool) -> Probes {
        Probes {
            startup: Probe::from_container(container, Kind::Startup),
            readiness: Probe::from_container(container, Kind::Readiness),
            liveness: Probe::from_container(container, Kind::Liveness),
            tells,
        }
    }

    /// Returns the effects of the probes on an instance that started at `since_ns`. No probe runs
    /// before `begins_ns`.
    pub(super) fn course(&self, said: &Said, since_ns: i64, begins_ns: i64) -> Course {
        let mut course = Course::default();
        self.start(&mut course, said, since_ns, begins_ns);
        // The other probes wait for the startup probe.
        if let Some(started_ns) = course.started_ns {
            let first_ns = |probe: &Probe| since_ns.saturating_add(probe.delay_ns).max(started_ns);
            let (readiness, liveness) = (&self.readiness, &self.liveness);
            self.ready(&mut course, said, first_ns(readiness));
            self.live(&mut course, said, first_ns(liveness));
        }
        course
    }

    /// Adds failed runs to the course if they are reported.
    fn fails(&self, course: &mut Course, failures: Failures) {
        if self.tells {
            course.failures.push(failures);
        }
    }

    fn start(&self, course: &mut Course, said: &Said, since_ns: i64, begins_ns: i64) {
        let probe = &self.startup;
        if !probe.is_said {
            course.started_ns = Some(begins_ns);
            return;
        }
        let first_ns = since_ns.saturating_add(probe.delay_ns).max(begins_ns);
        let failing = said
            .started_ns
            .map(|from_ns| probe.before(first_ns, from_ns));
        match failing.filter(|failing| *failing < probe.failures) {
            Some(failing) => {
                course.started_ns = Some(probe.run(first_ns, failing));
                self.fails(course, probe.failing(first_ns, Some(failing)));
            }
            None => {
                let last_ns = probe.run(first_ns, probe.failures - 1);
                course.killed = Some((last_ns, probe.grace_ns));
                self.fails(
                    course,
                    Failures {
                        kills: true,
                        ..probe.failing(first_ns, Some(probe.failures))
                    },
                );
            }
        }
    }

    fn ready(&self, course: &mut Course, said: &Said, first_ns: i64) {
        let probe = &self.readiness;
        let failing = said.ready_ns.map(|from_ns| probe.before(first_ns, from_ns));
        self.fails(course, probe.failing(first_ns, failing));
        let Some(failing) = failing else {
            return;
        };
        course.ready_ns = match probe.is_said {
            true => Some(probe.run(first_ns, failing + probe.successes - 1)),
            false => said.ready_ns.map(|ready_ns| ready_ns.max(first_ns)),
        };
        if let Some(from_ns) = said.unready_ns {
            let passed = failing + probe.successes;
            let fails = probe.before(first_ns, from_ns).max(passed);
            course.unready_ns = match probe.is_said {
                true => Some(probe.run(first_ns, fails + probe.failures - 1)),
                false => Some(from_ns.max(first_ns)),
            };
            let next_ns = probe.run(first_ns, fails);
            self.fails(course, probe.failing(next_ns, None));
        }
    }

    fn live(&self, course: &mut Course, said: &Said, first_ns: i64) {
        let probe = &self.liveness;
        let Some(failed_ns) = said.unhealthy_ns else {
            return;
        };
        let failed_ns = match probe.is_said {
            // The threshold takes at least this number of runs.
            true => failed_ns.max(probe.run(first_ns, probe.failures - 1)),
            false => failed_ns.max(first_ns),
        };
        let most = (failed_ns - first_ns).div_euclid(probe.period_ns) + 1;
        let count = probe.failures.min(most);
        course.killed = Some((failed_ns, probe.grace_ns));
        self.fails(
            course,
            Failures {
                kills: true,
                ..probe.failing(probe.run(failed_ns, 1 - count), Some(count))
            },
        );
    }

    /// Records the Events for the failed runs up to `at_ns` and, after the last one, for the end of
    /// the instance if the probe ends it. Returns whether more failed runs follow.
    pub(super) fn tell(
        &self,
        failures: &mut Failures,
        container: ContainerRef<'_>,
        at_ns: i64,
        restarts: bool,
        notes: &mut Notes,
    ) -> bool {
        let probe = match failures.kind {
            Kind::Startup => &self.startup,
            Kind::Readiness => &self.readiness,
            Kind::Liveness => &self.liveness,
        };
        let kind = probe.kind.name();
        while failures.next_ns <= at_ns && failures.left != Some(0) {
            notes.add(Some(container), Warning, "Unhealthy", || {
                format!("{kind} probe failed: {}", probe.output)
            });
            failures.next_ns = failures.next_ns.saturating_add(failures.period_ns);
            failures.left = failures.left.map(|left| left - 1);
        }
        if failures.left != Some(0) {
            return true;
        }
        if failures.kills {
            notes.add(Some(container), Normal, "Killing", || {
                let (what, then) = match (container.role, restarts) {
                    (Role::Regular, true) => ("Container", ", will be restarted"),
                    (Role::Regular, false) => ("Container", ""),
                    (Role::Init | Role::Sidecar, _) => ("Init container", ""),
                };
                let kind = kind.to_lowercase();
                format!("{what} {} failed {kind} probe{then}", container.name)
            });
        }
        false
    }
}
