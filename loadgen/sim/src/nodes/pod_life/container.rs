//! The life of one container: its instances, their ends, and the starts of new ones.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use compact_str::CompactString;
use podstorm::client::EventType::{Normal, Warning};
use podstorm_objects::{Pod, RestartPolicy, Str, Uid};

use super::SECOND_NS;
use super::events::{ContainerRef, Notes};
use super::hooks::Hooks;
use super::image::{PullPolicy, back_off_pulling};
use super::instance::Running;
use super::probes::Probes;
use super::report::Report;
use super::restarts::{BackOff, Restarts};
use crate::nodes::script::Part;

/// The time for which a failure is shown before the status shows a back-off, ns.
pub(super) const SHOWN_NS: i64 = SECOND_NS;

/// The role of a container in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// An init container that must end before the next container starts.
    Init,
    /// An init container that keeps running.
    Sidecar,
    Regular,
}

/// The properties shared by all containers of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ways {
    /// The restart policy of the pod.
    pub(super) policy: RestartPolicy,
    /// The time that a container takes to stop, unless its script specifies one, ns.
    pub(super) stop_ns: i64,
    /// The pod's grace period, ns.
    pub(super) grace_ns: i64,
    /// The reason why no container of the pod can be created.
    pub(super) fault: Option<String>,
    pub(super) identity: Identity,
}

/// The identity of a pod, which messages show as `pod_namespace(uid)`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    name: CompactString,
    namespace: Str,
    uid: Uid,
}

impl Identity {
    pub(super) fn from_pod(pod: &Pod) -> Identity {
        let meta = &pod.metadata;
        Identity {
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
        }
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}({})", self.name, self.namespace, self.uid)
    }
}

/// An instance that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) reason: Cow<'static, str>,
    pub(super) message: Option<Cow<'static, str>>,
    /// The wall time of the instance's start, ns; `None` if it is unknown.
    pub(super) began_ns: Option<i64>,
    pub(super) ended_ns: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The container has not started yet.
    Waiting,
    /// The container can't start.
    Refused {
        reason: &'static str,
        message: String,
        /// The time at which the reason is shown as a back-off.
        shown_ns: Option<i64>,
        retry_ns: Option<i64>,
    },
    Running(Running),
    Ended {
        end: Ended,
        /// The time at which the next instance may start; `None` if there is no next one.
        again_ns: Option<i64>,
        /// The time at which the status begins to show that the container waits for its next
        /// instance.
        shown_ns: Option<i64>,
    },
}

/// A container of a pod. It doesn't know whether the other containers permit its start.
#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) name: Str,
    pub(super) image: Str,
    pub(super) role: Role,
    pub(super) state: State,
    /// The previous instance, which has ended.
    pub(super) last: Option<Ended>,
    pub(super) restarts: i32,
    /// The length of the current back-off, ns; 0 if the container is not in one.
    pub(super) pause_ns: i64,
    /// Whether the image can't be pulled, regardless of the script.
    pub(super) is_unpullable: bool,
    pub(super) part: Part,
    pub(super) policy: Restarts,
    pub(super) backoff: Option<BackOff>,
    pub(super) failed_pulls: usize,
    pub(super) pull_policy: PullPolicy,
    /// Whether the node has the container's image.
    pub(super) is_present: bool,
    /// The time at which the start of the image pull was reported; `None` if it was not.
    pub(super) pulling_since_ns: Option<i64>,
    pub(super) probes: Arc<Probes>,
    pub(super) hooks: Hooks,
    /// Whether the last instance ended because its `postStart` hook failed.
    pub(super) has_failed_hook: bool,
    /// Whether the end of the last instance restarts all containers of the pod.
    pub(super) restarts_all: bool,
    /// Whether the container was removed for a restart of all containers, and has not started
    /// since.
    pub(super) is_removed: bool,
    /// The parts of the container's status that follow from the spec, if they are reported.
    pub(super) report: Option<Arc<Report>>,
}

impl Ended {
    /// Returns the end of a container whose instance was lost.
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
        probes: Arc<Probes>,
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
            probes,
            hooks: Hooks::default(),
            has_failed_hook: false,
            restarts_all: false,
            is_removed: false,
            report: None,
        }
    }

    pub(super) fn instance(&self) -> usize {
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

    /// Reports whether any instance of the container has run.
    pub(super) fn has_run(&self) -> bool {
        let ran = self.ended().is_some_and(|end| end.began_ns.is_some());
        ran || self.running().is_some() || self.last.is_some()
    }

    /// Reports whether the container's status shows it as ready.
    pub(super) fn is_ready(&self) -> bool {
        match self.role {
            Role::Init => self.ended().is_some_and(|end| end.code == 0),
            Role::Sidecar | Role::Regular => self.running().is_some_and(|it| it.is_ready),
        }
    }

    /// Reports whether the container is running and its startup probe has passed.
    pub(super) fn is_started(&self) -> bool {
        self.running().is_some_and(|it| it.is_started)
    }

    /// Reports whether the container permits the next one to start. Only init containers and
    /// sidecars can prevent it.
    pub(super) fn is_done(&self) -> bool {
        match self.role {
            Role::Init => self.is_ready(),
            Role::Sidecar => self.is_started(),
            Role::Regular => true,
        }
    }

    /// Reports whether the container has ended permanently.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, State::Ended { again_ns: None, .. })
    }

    /// Reports whether the container's status shows a back-off.
    pub(super) fn is_in_backoff(&self) -> bool {
        // The status of a sidecar that ended successfully shows its end instead.
        matches!(&self.state, State::Ended { end, again_ns: Some(_), shown_ns: None }
            if self.pause_ns > 0 && (self.role != Role::Sidecar || end.code != 0))
    }

    /// Reports whether the container starts at `at_ns` if the other containers permit it.
    pub(super) fn starts(&self, at_ns: i64) -> bool {
        match &self.state {
            State::Waiting => true,
            State::Ended { again_ns, .. } => again_ns.is_some_and(|again| again <= at_ns),
            State::Refused { .. } | State::Running(_) => false,
        }
    }

    /// Returns the time of the next change that happens by itself; `None` if there is none.
    pub(super) fn next_ns(&self) -> Option<i64> {
        let (one, other) = match &self.state {
            State::Waiting => (None, None),
            State::Refused {
                shown_ns, retry_ns, ..
            } => (*shown_ns, *retry_ns),
            State::Running(running) => (running.next_ns(), None),
            State::Ended {
                again_ns, shown_ns, ..
            } => (*again_ns, *shown_ns),
        };
        one.into_iter().chain(other).min()
    }

    /// Applies the changes that are due. Returns whether they affect the status. `is_alive` tells
    /// whether the pod continues.
    pub(super) fn happen(
        &mut self,
        at_ns: i64,
        is_alive: bool,
        ways: &Ways,
        notes: &mut Notes,
    ) -> bool {
        self.tell_probes(at_ns, ways, notes);
        let is_past_hook = self.end_post_start(at_ns, ways, notes);
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
                    let has_failed_hook = running.hook_fails && running.hook_ns.is_none();
                    let is_probed = running.is_probed && !running.is_stopped;
                    self.has_failed_hook = has_failed_hook;
                    match is_probed {
                        true => self.end(end, at_ns, is_alive && self.outlives_probes(ways)),
                        false => self.finish(end, at_ns, is_alive, ways),
                    }
                    return true;
                }
                // Containers that start after the hook become visible in the status together with
                // this one.
                running.probe(at_ns) && !is_past_hook
            }
            State::Ended {
                again_ns, shown_ns, ..
            } => {
                if is_due(again_ns) {
                    // The restart itself happens when the pod starts containers.
                    return false;
                }
                let shows = is_due(shown_ns);
                if shows {
                    *shown_ns = None;
                    let of = ContainerRef::new(&self.name, self.role);
                    notes.add(Some(of), Warning, "BackOff", || {
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
                    let of = Some(ContainerRef::new(&self.name, self.role));
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

    /// Ends the instance, with or without a later restart.
    pub(super) fn end(&mut self, end: Ended, at_ns: i64, restarts: bool) {
        let ended_ns = end.ended_ns.unwrap_or(at_ns);
        let again_ns = restarts.then(|| self.next_start(ended_ns));
        let pauses = again_ns.is_some_and(|again| again > at_ns);
        self.state = State::Ended {
            end,
            again_ns,
            shown_ns: pauses.then_some(ended_ns.saturating_add(SHOWN_NS)),
        };
    }

    /// Starts the next instance, or attempts to.
    pub(super) fn start(&mut self, at_ns: i64, ways: &Ways, notes: &mut Notes) {
        if let State::Ended { end, .. } = std::mem::replace(&mut self.state, State::Waiting) {
            self.last = Some(end);
        }
        if let Err(refused) = self.pull(at_ns, notes) {
            self.state = refused;
            return;
        }
        let of = Some(ContainerRef::new(&self.name, self.role));
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
        if self.last.is_some() && !std::mem::take(&mut self.is_removed) {
            self.restarts = self.restarts.saturating_add(1);
        }
        self.state = State::Running(self.instance_since(at_ns, at_ns, ways));
        self.has_failed_hook = false;
        self.begin_post_start(at_ns);
    }

    /// Cancels a pending start: the container won't start again.
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

    /// Sets another image. Failed pulls of the old image no longer count.
    pub(super) fn set_image(&mut self, image: &Str, is_unpullable: bool) {
        if self.image == *image {
            return;
        }
        self.image = image.clone();
        self.is_unpullable = is_unpullable;
        (self.failed_pulls, self.is_present) = (0, false);
        self.forget_refusal();
    }

    /// Forgets a failed start, so that it is retried immediately.
    pub(super) fn forget_refusal(&mut self) {
        if matches!(self.state, State::Refused { .. }) {
            self.state = State::Waiting;
        }
    }
}
