//! The life of a pod on its node, as played by the kubelet of Kubernetes 1.36: containers in order,
//! restarts with back-off, deadlines, ends.
//!
//! A [`PodLife`] is a state machine without I/O. It receives the stored pod ([`PodLife::see`]),
//! advances to a given time ([`PodLife::turn`]), returns the pod's status ([`PodLife::status`]) and
//! the time of the next change ([`PodLife::next_ns`]). A life is built from the stored pod and can
//! be dropped whenever nothing is pending, because another life can continue from the status. All
//! times are wall times, ns.

mod container;
#[cfg(test)]
mod event_tests;
mod events;
#[cfg(test)]
mod hook_tests;
mod hooks;
mod image;
mod instance;
#[cfg(test)]
mod play;
#[cfg(test)]
mod probe_tests;
mod probes;
mod recent;
mod report;
mod restart_all;
#[cfg(test)]
mod restart_tests;
mod restarts;
mod resume;
mod status;
#[cfg(test)]
mod tests;

pub(super) use events::{PULLED, PodEvent};
pub(super) use image::back_off_pulling;
pub(super) use recent::Recent;
pub(super) use resume::SpecRules;
pub(super) use status::Place;

use std::sync::Arc;

use podstorm::client::EventType::{Normal, Warning};
use podstorm_objects::{Pod, PodPhase, PodSpec};

use super::script::{Script, ScriptError};
use container::{Container, Ended, Role, State, Ways};
use events::{ContainerRef, Notes};
use instance::GRACE_MIN_NS;
use report::{PodReport, SpecReport};
use restart_all::RestartAll;

const SECOND_NS: i64 = 1_000_000_000;

/// The grace period of a pod whose spec has none, ns.
const GRACE_NS: i64 = 30 * SECOND_NS;

/// The kubelet's knowledge about a pod beyond the pod itself.
pub(super) struct Circumstances<'a> {
    /// The script that applies to the pod, or the error of the pod's own script.
    pub(super) script: Result<&'a Script, &'a ScriptError>,
    /// The rules of the pod's spec.
    pub(super) rules: &'a SpecRules,
    /// Whether an image can't be pulled.
    pub(super) is_unpullable: &'a dyn Fn(&str) -> bool,
    /// Whether the node has an image.
    pub(super) is_present: &'a dyn Fn(&str) -> bool,
    /// Whether [Events](PodLife::take_events) are recorded.
    pub(super) tells: bool,
    /// Whether statuses include mounts and resources, which follow from the spec.
    pub(super) is_full: bool,
    /// Whether the readiness in a container's status overrides that of its probes.
    pub(super) heeds_status: bool,
    /// The remaining time to start the pod, ns.
    pub(super) startup_ns: i64,
    /// The time that the pod's containers take to stop, unless the script specifies another time,
    /// ns.
    pub(super) stop_ns: i64,
    /// How long ago the pod's deletion began, if the kubelet saw the deletion earlier but lost its
    /// state, ns.
    pub(super) deleted_ns: i64,
    pub(super) now_ns: i64,
}

/// The end of a pod's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct End {
    phase: PodPhase,
    /// The reason and message in the status, if there are any.
    why: Option<(&'static str, &'static str)>,
}

/// The reason why the containers of a pod are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// The pod is being deleted.
    Deleted,
    /// The pod's `activeDeadlineSeconds` have passed.
    Deadline,
    /// The node lacks memory.
    Evicted,
    /// A critical pod needs the pod's resources.
    Preempted,
    /// The pod's work has completed or failed, but sidecars are still running.
    Finished,
}

#[derive(Clone, Copy, Debug)]
struct Stopping {
    why: Why,
    /// The time since which containers are stopping.
    since_ns: i64,
    /// The time at which containers that are still running are killed.
    kill_ns: i64,
}

/// The parts of a life that affect the status beyond the changes that [`PodLife::turn`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stage {
    generation: i64,
    is_up: bool,
    is_initialized: bool,
    stopping: Option<Why>,
    restarting: Option<RestartAll>,
    end: Option<End>,
    /// The number of containers whose hooks block the kubelet.
    hidden: usize,
}

const DEADLINE: (&str, &str) = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
);

const EVICTED: (&str, &str) = (
    "Evicted",
    "The node was low on resource: memory. Threshold quantity: 100Mi, available: 50Mi. ",
);

const PREEMPTED: (&str, &str) = ("Preempting", "Preempted in order to admit critical pod");

/// The life of one pod.
#[derive(Debug)]
pub(super) struct PodLife {
    generation: i64,
    /// The init containers in order, then the other containers.
    containers: Vec<Container>,
    /// The number of init containers.
    init: usize,
    /// The resources in the pod's status, if they are reported, and the spec from which they come.
    report: Option<(Arc<PodSpec>, Arc<PodReport>)>,
    /// The condition types of the pod's readiness gates.
    gates: Vec<String>,
    ways: Ways,
    /// The `startTime` of the pod.
    start_ns: i64,
    /// The time at which the pod's sandbox is ready.
    up_ns: i64,
    is_up: bool,
    is_initialized: bool,
    /// Whether the pod was initialized before all its containers were restarted.
    was_initialized: bool,
    /// Whether a rule may restart all containers.
    has_rule: bool,
    /// The progress of a restart of all containers; `None` if there is none.
    restarting: Option<RestartAll>,
    deadline_ns: Option<i64>,
    evicted_ns: Option<i64>,
    stopping: Option<Stopping>,
    /// Like [`Circumstances::deleted_ns`]; used when the deletion is first seen.
    deleted_ns: i64,
    end: Option<End>,
    /// The time up to which the life has been played.
    at_ns: i64,
    /// Whether reactions to earlier changes may follow at `at_ns`.
    follows: bool,
    notes: Notes,
}

impl PodLife {
    /// Updates the life from the stored pod: its deletion, changed images, and containers that
    /// another client has ended.
    pub(super) fn see(&mut self, live: &Pod, is_unpullable: &dyn Fn(&str) -> bool, now_ns: i64) {
        self.at_ns = self.at_ns.max(now_ns);
        self.follows = true;
        self.generation = live.metadata.generation;
        let specs = live
            .spec
            .init_containers
            .iter()
            .chain(&live.spec.containers);
        for (container, spec) in self.containers.iter_mut().zip(specs) {
            container.set_image(&spec.image, is_unpullable(&spec.image));
        }
        self.see_containers(live);
        let reported = self.report.as_ref();
        if reported.is_some_and(|(spec, _)| !Arc::ptr_eq(spec, &live.spec)) {
            let report = SpecReport::from_members(live.spec.to_map(live.token_volume));
            self.report_on(live, &report);
        }
        let meta = &live.metadata;
        if !meta.is_deleting() {
            return;
        }
        let grace = meta.deletion_grace_period_seconds.get().unwrap_or(0);
        let grace_ns = grace.max(0).saturating_mul(SECOND_NS).max(GRACE_MIN_NS);
        let since_ns = now_ns - std::mem::take(&mut self.deleted_ns);
        let kill_ns = since_ns.saturating_add(grace_ns);
        match &mut self.stopping {
            Some(stopping) => {
                if stopping.why == Why::Finished {
                    stopping.why = Why::Deleted;
                }
                if stopping.kill_ns > kill_ns {
                    stopping.kill_ns = kill_ns;
                    self.containers.iter_mut().for_each(|it| it.hasten(kill_ns));
                }
            }
            None => {
                // A status with this generation has already reported the deletion.
                let observed = live.status.rest.get("observedGeneration");
                let is_told = observed.is_some_and(|it| it.as_i64() == Some(self.generation));
                let notes = std::mem::take(&mut self.notes);
                self.notes = Notes::on(notes.is_on && !is_told);
                self.stop(Why::Deleted, since_ns, kill_ns);
                self.notes = notes.and(&mut self.notes);
            }
        }
    }

    /// Plays the life until the status changes, or until `now_ns`. Returns whether the status
    /// changed; if it did, `turn` must be called again.
    pub(super) fn turn(&mut self, now_ns: i64) -> bool {
        while self.end.is_none() {
            if std::mem::take(&mut self.follows) && self.follow() {
                self.follows = true;
                return true;
            }
            if self.follows {
                // The pod has completed, so its sidecars stop.
                continue;
            }
            let due_ns = match self.next_ns() {
                Some(due_ns) if due_ns <= now_ns && self.end.is_none() => due_ns,
                _ => break,
            };
            self.at_ns = self.at_ns.max(due_ns);
            self.follows = true;
            if self.happen() {
                return true;
            }
        }
        false
    }

    /// Returns the parts that affect the status beyond the changes that [`turn`](PodLife::turn)
    /// reports: after a turn without changes, an unchanged stage means an unchanged status.
    pub(super) fn stage(&self) -> Stage {
        Stage {
            generation: self.generation,
            is_up: self.is_up,
            is_initialized: self.is_initialized,
            stopping: self.stopping.map(|stopping| stopping.why),
            restarting: self.restarting,
            end: self.end,
            hidden: self.containers.iter().filter(|it| it.is_hidden()).count(),
        }
    }

    /// Returns the time of the next change that happens by itself; `None` if there is none.
    pub(super) fn next_ns(&self) -> Option<i64> {
        if self.end.is_some() {
            return None;
        }
        let goes_on = self.stopping.is_none();
        let up = (goes_on && !self.is_up).then_some(self.up_ns);
        let ends = [self.deadline_ns, self.evicted_ns];
        let ends = ends.into_iter().flatten().filter(|_| goes_on);
        let containers = self.containers.iter().filter_map(Container::next_ns);
        containers.chain(up).chain(ends).min()
    }

    /// Ends the pod to make room for a critical one, unless it is already ending.
    pub(super) fn preempt(&mut self, now_ns: i64) {
        if self.end.is_none() && self.is_alive() {
            self.at_ns = self.at_ns.max(now_ns);
            let (reason, message) = PREEMPTED;
            self.notes.add(None, Warning, reason, || message.to_owned());
            let kill_ns = self.at_ns.saturating_add(self.ways.grace_ns);
            self.stop(Why::Preempted, self.at_ns, kill_ns);
        }
    }

    /// Reports whether the pod's containers are being stopped.
    pub(super) fn is_stopping(&self) -> bool {
        !self.is_alive()
    }

    /// Reports whether the pod has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    /// Returns the Events since the last call, in order; none unless Events are
    /// [recorded](Circumstances::tells).
    pub(super) fn take_events(&mut self) -> Vec<PodEvent> {
        self.notes.take()
    }

    fn is_alive(&self) -> bool {
        self.stopping.is_none()
    }

    fn regular(&self) -> &[Container] {
        &self.containers[self.init..]
    }

    /// Applies the changes that are due. Returns whether they affect the status.
    fn happen(&mut self) -> bool {
        let at_ns = self.at_ns;
        let mut shows = false;
        if self.is_alive() && !self.is_up && self.up_ns <= at_ns {
            self.is_up = true;
            self.start_containers();
            shows = true;
        }
        let is_alive = self.is_alive() && self.restarting.is_none();
        for container in &mut self.containers {
            shows |= container.happen(at_ns, is_alive, &self.ways, &mut self.notes);
        }
        if self.is_alive() && self.evicted_ns.is_some_and(|due_ns| due_ns <= at_ns) {
            let (reason, message) = EVICTED;
            self.notes.add(None, Warning, reason, || message.to_owned());
            self.stop(Why::Evicted, at_ns, at_ns);
            let kill = |it: &mut Container| it.kill(at_ns);
            self.containers.iter_mut().for_each(kill);
        }
        if self.is_alive() && self.deadline_ns.is_some_and(|due_ns| due_ns <= at_ns) {
            let (reason, message) = DEADLINE;
            // In upstream, two syncs of the pod detect the deadline.
            for _ in 0..2 {
                self.notes.add(None, Normal, reason, || message.to_owned());
            }
            self.stop(
                Why::Deadline,
                at_ns,
                at_ns.saturating_add(self.ways.grace_ns),
            );
            shows = true;
        }
        self.judge();
        shows
    }

    /// Performs the reactions to earlier changes. Returns whether they affect the status.
    fn follow(&mut self) -> bool {
        let shows = match self.stopping {
            None => match self.restart_all() {
                Some(shows) => shows,
                None => self.is_up && self.start_containers(),
            },
            Some(stopping) => {
                self.stop_containers(stopping);
                false
            }
        };
        self.judge();
        shows
    }

    /// Starts the containers that may start now. Returns whether there were any.
    fn start_containers(&mut self) -> bool {
        let at_ns = self.at_ns;
        let mut started = false;
        for number in 0..self.containers.len() {
            let container = &mut self.containers[number];
            if container.starts(at_ns) {
                container.start(at_ns, &self.ways, &mut self.notes);
                started = true;
            }
            // The container's hook blocks the kubelet.
            if container.is_hidden() {
                return started;
            }
            // Init containers run in sequence only once. A restarting sidecar does not block other
            // containers.
            if number < self.init && !self.is_initialized && !container.is_done() {
                return started;
            }
        }
        self.is_initialized = true;
        started
    }

    fn stop(&mut self, why: Why, since_ns: i64, kill_ns: i64) {
        self.stopping = Some(Stopping {
            why,
            since_ns,
            kill_ns,
        });
        self.follows = true;
        self.restarting = None;
        for container in &mut self.containers {
            if container.running().is_some() {
                let name = &container.name;
                let of = Some(ContainerRef::new(name, container.role));
                let message = || format!("Stopping container {name}");
                self.notes.add(of, Normal, "Killing", message);
                container.tell_pre_stop(&mut self.notes);
            }
            container.give_up();
        }
    }

    /// Stops the containers. Sidecars stop only after all other containers have ended, one by one,
    /// from the last to the first.
    fn stop_containers(&mut self, stopping: Stopping) {
        let at_ns = self.at_ns;
        let mut waits = false;
        for container in &mut self.containers {
            if container.role != Role::Sidecar
                && let Some(running) = container.running()
            {
                waits = true;
                if !running.is_stopped {
                    container.stop(stopping.since_ns, stopping.kill_ns, &self.ways);
                }
            }
        }
        let mut sidecars = self.containers.iter_mut().rev();
        let last = sidecars.find(|it| it.role == Role::Sidecar && it.running().is_some());
        if let Some(sidecar) = last.filter(|_| !waits)
            && sidecar.running().is_some_and(|it| !it.is_stopped)
        {
            let kill_ns = stopping.kill_ns.max(at_ns.saturating_add(GRACE_MIN_NS));
            sidecar.stop(at_ns, kill_ns, &self.ways);
        }
    }

    /// Ends the pod if nothing is left to do.
    fn judge(&mut self) {
        if self.end.is_some() || self.restarting.is_some() {
            return;
        }
        let failed_init = self.has_failed_init();
        let is_over = failed_init || self.regular().iter().all(Container::is_over);
        if self.stopping.is_none() && !is_over {
            return;
        }
        if self.containers.iter().any(|it| it.running().is_some()) {
            if self.stopping.is_none() {
                let kill_ns = self.at_ns.saturating_add(self.ways.grace_ns);
                self.stop(Why::Finished, self.at_ns, kill_ns);
            }
            return;
        }
        let why = self.stopping.map(|stopping| stopping.why);
        if why.is_some_and(|why| why != Why::Finished) {
            self.lose_unknown();
        }
        let succeeded = |it: &Container| it.ended().is_some_and(|end| end.code == 0);
        let well = !failed_init && self.regular().iter().all(succeeded);
        self.end = Some(match why {
            Some(Why::Deadline) => End {
                phase: PodPhase::Failed,
                why: Some(DEADLINE),
            },
            Some(Why::Evicted) => End {
                phase: PodPhase::Failed,
                why: Some(EVICTED),
            },
            Some(Why::Preempted) => End {
                phase: PodPhase::Failed,
                why: Some(PREEMPTED),
            },
            Some(Why::Deleted | Why::Finished) | None => End {
                phase: match well {
                    true => PodPhase::Succeeded,
                    false => PodPhase::Failed,
                },
                why: None,
            },
        });
    }

    /// Reports whether an init container has permanently failed.
    fn has_failed_init(&self) -> bool {
        let mut init = self.containers[..self.init].iter();
        let failed = |it: &Container| it.ended().is_some_and(|end| end.code != 0);
        init.any(|it| it.role == Role::Init && it.is_over() && failed(it))
    }

    /// Sets an unknown end for the containers that were stopped before they ran.
    fn lose_unknown(&mut self) {
        let init = &self.containers[..self.init];
        // The number of init containers up to the last one that has run; at least one.
        let reached = init.iter().rposition(Container::has_run).unwrap_or(0) + 1;
        let is_initialized = self.init == 0 || self.is_initialized || self.was_initialized;
        for (number, container) in self.containers.iter_mut().enumerate() {
            let counts = match number < self.init {
                true => number < reached,
                false => is_initialized,
            };
            if counts && container.state == State::Waiting {
                container.state = State::Ended {
                    end: Ended::unknown(),
                    again_ns: None,
                    shown_ns: None,
                };
            }
        }
    }
}

/// Returns the names of containers in the form of a list in condition messages: `[a b]`.
fn names<'a>(containers: impl Iterator<Item = &'a Container>) -> String {
    let names: Vec<&str> = containers.map(|it| &*it.name).collect();
    format!("[{}]", names.join(" "))
}
