//! The life of one container: its instances, what ends them, and when the next one starts.

use std::borrow::Cow;

use podstorm::client::EventType::{Normal, Warning};
use podstorm_objects::{RestartPolicy, Str};
use serde_json::Value;

use super::SECOND_NS;
use super::events::Notes;
use super::image::{PullPolicy, back_off_pulling};
use super::probes::{Failures, Probes};
use super::report::Report;
use crate::nodes::script::{After, Exit, Part};

/// The pause before the second restart; it doubles with each one.
pub(super) const BACKOFF_MIN_NS: i64 = 10 * SECOND_NS;
/// The longest pause before a restart or a pull.
pub(super) const BACKOFF_MAX_NS: i64 = 300 * SECOND_NS;
/// A container that ran for so long since its last restart begins with the shortest pause again.
const BACKOFF_RESET_NS: i64 = 600 * SECOND_NS;
/// How long a failure shows as itself before it shows as a back-off.
pub(super) const SHOWN_NS: i64 = SECOND_NS;
/// The least time between SIGTERM and SIGKILL.
pub(super) const GRACE_MIN_NS: i64 = 2 * SECOND_NS;

/// The place of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Ends before the next one starts.
    Init,
    /// An init container that runs on.
    Sidecar,
    Regular,
}

/// What a container's policy says; absent parts leave it to the pod's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Restarts {
    pub(super) policy: Option<RestartPolicy>,
    /// Lists of exit codes, each with whether a code must be in it, that restart the container.
    rules: Vec<(bool, Vec<i64>)>,
}

/// What is the same for all containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ways {
    /// The restart policy of the pod.
    pub(super) policy: RestartPolicy,
    /// How long a container takes to end once it is asked to, unless its script says otherwise, ns.
    pub(super) stop_ns: i64,
    /// The pod's grace period, ns.
    pub(super) grace_ns: i64,
    /// Why no container of the pod can be created.
    pub(super) fault: Option<String>,
    /// `pod_namespace(uid)`, as messages name the pod.
    pub(super) identity: String,
}

/// An instance that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: Option<Cow<'static, str>>,
    /// Wall time, ns; absent where it isn't known.
    pub(super) began_ns: Option<i64>,
    pub(super) ended_ns: Option<i64>,
}

/// An instance that runs. Times are wall times, ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) since_ns: i64,
    pub(super) ready_ns: After,
    pub(super) is_ready: bool,
    /// When and how it ends.
    pub(super) end: Option<(i64, Exit)>,
    /// Whether it was asked to end.
    pub(super) is_stopped: bool,
    /// The failures of its readiness probe, while they are told.
    pub(super) unready: Option<Failures>,
    /// Those of its liveness probe.
    pub(super) unhealthy: Option<Failures>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It waits for its turn.
    Waiting,
    /// It can't start.
    Refused {
        reason: &'static str,
        message: String,
        /// When the reason shows as a back-off.
        shown_ns: Option<i64>,
        retry_ns: Option<i64>,
    },
    Running(Running),
    Ended {
        end: Ended,
        /// When the next instance starts, where one does.
        again_ns: Option<i64>,
        /// When it begins to show that it waits for that.
        shown_ns: Option<i64>,
    },
}

/// The pause before the next restart, and when the last one was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BackOff {
    pause_ns: i64,
    since_ns: i64,
}

/// A container. A regular one doesn't know whether others let it start.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) name: Str,
    pub(super) image: Str,
    pub(super) role: Role,
    pub(super) state: State,
    /// The instance before the one of the state.
    pub(super) last: Option<Ended>,
    pub(super) restarts: i32,
    /// The pause that it is in, where it is in one, ns.
    pub(super) pause_ns: i64,
    /// Whether its image can't be pulled, whatever its script says.
    pub(super) is_unpullable: bool,
    pub(super) part: Part,
    pub(super) policy: Restarts,
    backoff: Option<BackOff>,
    pub(super) failed_pulls: usize,
    pub(super) pull_policy: PullPolicy,
    /// Whether the node has its image.
    pub(super) is_present: bool,
    /// Since when its image is pulled, where that was told.
    pub(super) pulling_since_ns: Option<i64>,
    /// Its probes, where their failures are told.
    pub(super) probes: Option<Box<Probes>>,
    /// What its status says of the spec, where it does.
    pub(super) report: Option<Box<Report>>,
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
            Some((is_in, values.iter().filter_map(Value::as_i64).collect()))
        });
        Restarts {
            policy: policy.and_then(RestartPolicy::new),
            rules: rules.collect(),
        }
    }

    fn restarts(&self, code: i32, of_pod: RestartPolicy) -> bool {
        let mut rules = self.rules.iter();
        let matches = rules.any(|(is_in, codes)| codes.contains(&code.into()) == *is_in);
        matches
            || match self.policy.unwrap_or(of_pod) {
                RestartPolicy::Always => true,
                RestartPolicy::OnFailure => code != 0,
                RestartPolicy::Never => false,
            }
    }
}

impl Ended {
    /// Of a container that is lost.
    pub(super) fn unknown() -> Ended {
        Ended {
            code: 137,
            reason: "ContainerStatusUnknown".into(),
            message: Some("The container could not be located when the pod was terminated".into()),
            began_ns: None,
            ended_ns: None,
        }
    }
}

impl Container {
    pub(super) fn new(
        name: &Str,
        image: &Str,
        role: Role,
        policy: Restarts,
        part: Part,
    ) -> Container {
        Container {
            name: name.clone(),
            image: image.clone(),
            role,
            state: State::Waiting,
            last: None,
            restarts: 0,
            pause_ns: 0,
            is_unpullable: false,
            part,
            policy,
            backoff: None,
            failed_pulls: 0,
            pull_policy: PullPolicy::IfNotPresent,
            is_present: false,
            pulling_since_ns: None,
            probes: None,
            report: None,
        }
    }

    fn instance(&self) -> usize {
        usize::try_from(self.restarts).unwrap_or(0)
    }

    pub(super) fn running(&self) -> Option<&Running> {
        match &self.state {
            State::Running(running) => Some(running),
            _ => None,
        }
    }

    pub(super) fn ended(&self) -> Option<&Ended> {
        match &self.state {
            State::Ended { end, .. } => Some(end),
            _ => None,
        }
    }

    /// Whether any instance of it has run.
    pub(super) fn has_run(&self) -> bool {
        let ran = self.ended().is_some_and(|end| end.began_ns.is_some());
        ran || self.running().is_some() || self.last.is_some()
    }

    /// Whether its status says that it is ready.
    pub(super) fn is_ready(&self) -> bool {
        match self.role {
            Role::Init => self.ended().is_some_and(|end| end.code == 0),
            Role::Sidecar | Role::Regular => self.running().is_some_and(|it| it.is_ready),
        }
    }

    /// Whether the init container lets the next one start.
    pub(super) fn is_done(&self) -> bool {
        match self.role {
            Role::Init => self.is_ready(),
            Role::Sidecar => self.running().is_some(),
            Role::Regular => true,
        }
    }

    /// Whether it has ended for good.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended { again_ns: None, .. })
    }

    /// Whether it shows that it waits for its next instance.
    pub(super) fn is_in_backoff(&self) -> bool {
        // A sidecar that ended well shows that.
        matches!(&self.state, State::Ended { end, again_ns: Some(_), shown_ns: None }
            if self.pause_ns > 0 && (self.role != Role::Sidecar || end.code != 0))
    }

    /// Whether it starts as soon as it may.
    pub(super) fn starts(&self, at_ns: i64) -> bool {
        match &self.state {
            State::Waiting => true,
            State::Ended { again_ns, .. } => again_ns.is_some_and(|again| again <= at_ns),
            State::Refused { .. } | State::Running(_) => false,
        }
    }

    /// When something happens to it by itself.
    pub(super) fn next_ns(&self) -> Option<i64> {
        let (one, other) = match &self.state {
            State::Waiting => (None, None),
            State::Refused {
                shown_ns, retry_ns, ..
            } => (*shown_ns, *retry_ns),
            State::Running(it) => {
                let told = [&it.unready, &it.unhealthy].into_iter().flatten();
                let told = told.map(|failures| failures.next_ns).min();
                let ready = it.ready_ns.filter(|_| !it.is_ready);
                let end = it.end.map(|(at_ns, _)| at_ns);
                (end, ready.into_iter().chain(told).min())
            }
            State::Ended {
                again_ns, shown_ns, ..
            } => (*again_ns, *shown_ns),
        };
        one.into_iter().chain(other).min()
    }

    /// Lets happen what is due; returns whether something did. `is_alive`: its pod goes on.
    pub(super) fn happen(
        &mut self,
        at_ns: i64,
        is_alive: bool,
        ways: &Ways,
        notes: &mut Notes,
    ) -> bool {
        self.tell_probes(at_ns, ways, notes);
        let is_due = |due: &Option<i64>| due.is_some_and(|due| due <= at_ns);
        match &mut self.state {
            State::Running(running) => {
                if let Some((end_ns, exit)) = running.end
                    && end_ns <= at_ns
                {
                    let began_ns = running.since_ns;
                    let end = Ended {
                        code: exit.code(),
                        reason: exit.reason().into(),
                        message: None,
                        began_ns: Some(began_ns),
                        ended_ns: Some(end_ns.max(began_ns)),
                    };
                    self.end(end, at_ns, is_alive, ways);
                    return true;
                }
                if !running.is_ready && is_due(&running.ready_ns) {
                    (running.is_ready, running.unready) = (true, None);
                    return true;
                }
                false
            }
            State::Ended {
                again_ns, shown_ns, ..
            } => {
                if is_due(again_ns) {
                    // The restart itself follows where it is the pod's turn.
                    return false;
                }
                let shows = is_due(shown_ns);
                if shows {
                    *shown_ns = None;
                    notes.add(Some((&self.name, self.role)), Warning, "BackOff", || {
                        let (name, pod) = (&self.name, &ways.identity);
                        format!("Back-off restarting failed container {name} in pod {pod}")
                    });
                }
                shows
            }
            State::Refused {
                reason,
                message,
                shown_ns,
                retry_ns,
            } => {
                if is_due(retry_ns) {
                    self.start(at_ns, ways, notes);
                    return true;
                }
                let shows = is_due(shown_ns);
                if shows {
                    *message = back_off_pulling(&self.image);
                    (*reason, *shown_ns) = ("ImagePullBackOff", None);
                    let of = Some((&self.name, self.role));
                    let image = &self.image;
                    let told = || format!("Back-off pulling image \"{image}\"");
                    notes.add(of, Normal, "BackOff", told);
                    let error = || "Error: ImagePullBackOff".to_owned();
                    notes.add(of, Warning, "Failed", error);
                }
                shows
            }
            State::Waiting => false,
        }
    }

    /// Its instance has ended.
    pub(super) fn end(&mut self, end: Ended, at_ns: i64, is_alive: bool, ways: &Ways) {
        let restarts = is_alive && self.may_restart(end.code, ways);
        let ended_ns = end.ended_ns.unwrap_or(at_ns);
        let again_ns = restarts.then(|| self.next_start(ended_ns));
        let pauses = again_ns.is_some_and(|again| again > at_ns);
        self.state = State::Ended {
            end,
            again_ns,
            shown_ns: pauses.then_some(ended_ns.saturating_add(SHOWN_NS)),
        };
    }

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

    /// When the instance after the one that has ended starts.
    fn next_start(&mut self, ended_ns: i64) -> i64 {
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
        self.backoff = (restarts > 0).then(|| BackOff {
            pause_ns: (BACKOFF_MIN_NS << doublings).min(BACKOFF_MAX_NS),
            since_ns,
        });
    }

    /// Starts its first or next instance, or tries to.
    pub(super) fn start(&mut self, at_ns: i64, ways: &Ways, notes: &mut Notes) {
        if let State::Ended { end, .. } = std::mem::replace(&mut self.state, State::Waiting) {
            self.last = Some(end);
        }
        if let Err(refused) = self.pull(at_ns, notes) {
            self.state = refused;
            return;
        }
        let of = Some((&self.name, self.role));
        if let Some(fault) = &ways.fault {
            notes.add(of, Warning, "Failed", || format!("Error: {fault}"));
            self.state = State::Refused {
                reason: "CreateContainerConfigError",
                message: fault.clone(),
                shown_ns: None,
                retry_ns: None,
            };
            return;
        }
        notes.add(of, Normal, "Created", || "Container created".to_owned());
        notes.add(of, Normal, "Started", || "Container started".to_owned());
        if self.last.is_some() {
            self.restarts = self.restarts.saturating_add(1);
        }
        self.state = State::Running(self.instance_since(at_ns, at_ns, ways));
    }

    /// The instance that its script makes of one that runs since then, looked at later.
    pub(super) fn instance_since(&self, since_ns: i64, at_ns: i64, ways: &Ways) -> Running {
        let (part, instance) = (&self.part, self.instance());
        let after = |after: After| after.map(|after| since_ns.saturating_add(after));
        let ready_ns = after(part.ready(instance));
        let ends_ns = after(part.run(instance, self.role == Role::Init));
        let failed_ns = after(part.unhealthy(instance));
        let killed = failed_ns.map(|failed_ns| {
            let kill_ns = failed_ns.saturating_add(ways.grace_ns.max(GRACE_MIN_NS));
            self.stopped(failed_ns, kill_ns, ways)
        });
        let ends = ends_ns.map(|ends_ns| (ends_ns, part.exit(instance)));
        let end = killed
            .into_iter()
            .chain(ends)
            .min_by_key(|(ends_ns, _)| *ends_ns);
        let is_ready = ready_ns.is_some_and(|ready_ns| ready_ns <= at_ns);
        let probes = self.probes.as_deref().filter(|_| self.role != Role::Init);
        Running {
            since_ns,
            ready_ns,
            is_ready,
            unready: probes
                .filter(|_| !is_ready)
                .map(|probes| probes.readiness.fails_since(since_ns, at_ns)),
            unhealthy: probes
                .zip(failed_ns)
                .and_then(|(probes, failed)| probes.liveness.fails_by(failed, since_ns, at_ns)),
            // What is over already ends now.
            end: end.map(|(ends_ns, exit)| (ends_ns.max(at_ns), exit)),
            is_stopped: false,
        }
    }

    /// Asks the running instance to end, and kills it at `kill_ns`.
    pub(super) fn stop(&mut self, at_ns: i64, kill_ns: i64, ways: &Ways) {
        let stopped = self.stopped(at_ns, kill_ns, ways);
        if let State::Running(running) = &mut self.state {
            let natural = running.end.filter(|(ends_ns, _)| *ends_ns <= stopped.0);
            running.end = Some(natural.unwrap_or(stopped));
            (running.is_stopped, running.unhealthy) = (true, None);
        }
    }

    /// Ends the running instance now.
    pub(super) fn kill(&mut self, at_ns: i64) {
        if let State::Running(running) = &mut self.state {
            running.end = Some((at_ns, Exit::KILLED));
            running.is_stopped = true;
        }
    }

    /// When and how an instance ends that is asked to.
    fn stopped(&self, at_ns: i64, kill_ns: i64, ways: &Ways) -> (i64, Exit) {
        let usual = match ways.policy {
            // A server shuts down; work that is cut short has failed.
            RestartPolicy::Always => Exit::Code(0),
            RestartPolicy::OnFailure | RestartPolicy::Never => Exit::Signal(15),
        };
        let stop = self.part.stop(self.instance(), ways.stop_ns);
        let ends_ns = stop.map(|stop_ns| at_ns.saturating_add(stop_ns));
        match ends_ns.filter(|ends_ns| *ends_ns <= kill_ns) {
            Some(ends_ns) => (ends_ns, self.part.stop_exit(self.instance(), usual)),
            None => (kill_ns, Exit::KILLED),
        }
    }

    /// Kills the instance that was asked to end no later than at that moment.
    pub(super) fn hasten(&mut self, kill_ns: i64) {
        if let State::Running(Running {
            end: Some(end),
            is_stopped: true,
            ..
        }) = &mut self.state
            && end.0 > kill_ns
        {
            *end = (kill_ns, Exit::KILLED);
        }
    }

    /// Takes back what it waits for: it won't start any more.
    pub(super) fn give_up(&mut self) {
        match &mut self.state {
            State::Refused { .. } => {
                self.state = match self.last.take() {
                    Some(end) => State::Ended {
                        end,
                        again_ns: None,
                        shown_ns: None,
                    },
                    None => State::Waiting,
                };
            }
            State::Ended {
                again_ns, shown_ns, ..
            } => (*again_ns, *shown_ns) = (None, None),
            State::Waiting | State::Running(_) => {}
        }
    }

    /// Has another image: a pull that failed counts no more.
    pub(super) fn set_image(&mut self, image: &Str, is_unpullable: bool) {
        if self.image == *image {
            return;
        }
        self.image = image.clone();
        self.is_unpullable = is_unpullable;
        (self.failed_pulls, self.is_present) = (0, false);
        self.forget_refusal();
    }

    /// Tries to start again at once, where it could not.
    pub(super) fn forget_refusal(&mut self) {
        if matches!(self.state, State::Refused { .. }) {
            self.state = State::Waiting;
        }
    }
}
