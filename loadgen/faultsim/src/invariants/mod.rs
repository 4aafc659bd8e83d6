//! The invariant checker: checks every commit and every step of the controllers, and reports the
//! first violated invariant. Schedules and scripted hazards use the same checker.
//!
//! `tests/RELIABILITY.md` lists the invariants under the numbers used here. This module checks
//! those of every run. An `Oracle` checks those of the workload that owns the pods, and a
//! [`Judge`](crate::simulation::Judge) those of any other workload.

mod metrics;
mod observed;
mod oracle;
mod others;
mod reach;
mod repeats;
mod trace;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use podstorm_apiserver::Change;
use podstorm_objects::{Kind, Now, Pod};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Origin, SyncId};
use podstorm_sim::faults::FaultClass;
use podstorm_sim::lock;

use super::action::{Action, SubjectAction};
use super::coverage;
use super::plan::{How, PlannedCluster, TimedAction};
use super::verdict::{Conditions, Verdict, Violation};
use metrics::Metrics;
pub(crate) use oracle::Oracle;
use others::Others;
use reach::Reach;
use repeats::Repeats;
use trace::Trace;
pub(crate) use trace::short;

/// The result of a check. The error is the violated invariant and the problem.
pub type Checked = Result<(), (&'static str, String)>;

/// Reports whether a commit begins the deletion of a pod, or removes it immediately.
pub(crate) fn begins_deletion(old: Option<&Pod>, new: &Pod, change: Change) -> bool {
    let was = old.is_some_and(|pod| pod.metadata.is_deleting());
    !was && (new.metadata.is_deleting() || change == Change::Deleted)
}

/// The time at the beginning of the quiet phase in which syncs for the last writes are permitted,
/// ns.
const QUIET_SETTLES_NS: i64 = 60_000_000_000;

/// The maximum number of syncs of a key after that time. An add that was delayed earlier may become
/// due.
const QUIET_SYNCS_MAX: u32 = 2;

/// The checker of a run, to which the cluster and the workers of the run report.
pub struct Checker {
    /// The number of nodes of the cluster.
    nodes: u32,
    over: AtomicBool,
    state: Mutex<State>,
}

impl std::fmt::Debug for Checker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checker").finish_non_exhaustive()
    }
}

/// The state of a [`Checker`].
#[derive(Default)]
struct State {
    oracle: Box<dyn Oracle>,
    metrics: Metrics,
    reach: Reach,
    repeats: Repeats,
    verdict: Verdict,
    /// The server's version at the last commit.
    version: u64,
    /// Whether controllers ran concurrently or a watch broke its promise: an event was lost or
    /// replayed.
    is_broken: bool,
    trace: Trace,
    /// The lines of the log; `None` if the run has no log.
    log: Option<Vec<String>>,
    /// The origin of the next commits; `None` if they are not a controller's.
    origin: Option<Origin>,
    now: Now,
    others: Others,
    last_write_ns: i64,
    /// The time of the last write request by a controller, ns.
    last_asked_ns: i64,
    /// The time at which the current phase began, ns.
    phase_began_ns: i64,
    /// The number of syncs in the current phase, except in the first [`QUIET_SETTLES_NS`], by
    /// controller and key.
    phase_syncs: BTreeMap<(u32, Kind, String), u32>,
}

impl Checker {
    /// Returns the checker of a run that begins with this cluster, without an oracle.
    pub fn new(cluster: &PlannedCluster, how: How) -> Checker {
        Checker::with(cluster, how, Box::default())
    }

    /// Returns a checker like [`new`](Checker::new) that also calls the oracle of a workload.
    pub(crate) fn with(cluster: &PlannedCluster, how: How, oracle: Box<dyn Oracle>) -> Checker {
        Checker {
            nodes: cluster.nodes,
            over: AtomicBool::new(false),
            state: Mutex::new(State {
                oracle,
                log: how.told.then(Vec::new),
                ..State::default()
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Reports whether an invariant was violated, so that the run can stop.
    pub fn is_over(&self) -> bool {
        // Relaxed: a simulation runs on one thread.
        self.over.load(Ordering::Relaxed)
    }

    /// Records a violation that the caller has found.
    pub(crate) fn fail(&self, invariant: &'static str, text: impl Into<String>, now: Now) {
        self.check(now, |_| Err((invariant, text.into())));
    }

    /// Records the violation that a check has found, if any.
    pub(crate) fn judge(&self, checked: Checked, now: Now) {
        if let Err((invariant, text)) = checked {
            self.fail(invariant, text, now);
        }
    }

    /// Returns the time of the last write of an object other than an Event, ns.
    pub(super) fn last_write_ns(&self) -> i64 {
        self.state().last_write_ns
    }

    /// Returns a disturbance of the quiet phase that began at `since_ns`, if there is any: a write,
    /// a write request without effect, any request of another workload, or a key that is synced
    /// repeatedly.
    pub(super) fn restless(&self, since_ns: i64) -> Option<String> {
        let state = self.state();
        let seconds = |at_ns: i64| (at_ns - since_ns) as f64 / 1e9;
        for (what, at_ns) in [
            ("an object was written", state.last_write_ns),
            ("a write was requested", state.last_asked_ns),
            ("a request was sent", state.others.last_asked_ns),
        ] {
            if at_ns > since_ns {
                return Some(format!(
                    "{what} after {:.3} s of the quiet phase",
                    seconds(at_ns)
                ));
            }
        }
        let busiest = state.phase_syncs.iter().max_by_key(|(_, syncs)| **syncs);
        busiest
            .filter(|(_, syncs)| **syncs > QUIET_SYNCS_MAX)
            .map(|((.., key), syncs)| format!("{key} was synced {syncs} times in the quiet phase"))
    }

    /// Records the time at which the last fault is over, ns.
    pub(super) fn healed(&self, at_ns: i64) {
        self.state().repeats.begin(at_ns);
    }

    /// Records that a phase of the run begins.
    pub(super) fn phase(&self, name: &str, now: Now) {
        let mut state = self.state();
        state.now = now;
        state.phase_began_ns = now.mono_ns;
        state.phase_syncs.clear();
        state.note(|| format!("== {name}"));
    }

    /// Adds a line to the log.
    pub(super) fn note(&self, text: impl FnOnce() -> String) {
        self.state().note(text);
    }

    /// Called before a step of the schedule.
    pub(super) fn acts<A: SubjectAction>(&self, step: &TimedAction<A>, harness: &FaultHarness) {
        let on_cluster = step.action.on_cluster();
        let mut state = self.state();
        state.now = harness.now();
        state.note(|| {
            let class = step.class.map_or("user", FaultClass::name);
            format!("-> {class}: {:?}", step.action)
        });
        state.trace.add_str("act");
        state.trace.add(u64::from(step.at_ms));
        state.strike_hits(harness);
        if let Some(class) = step.class
            && !matches!(on_cluster, Some(Action::Requests { .. }))
        {
            state.strike(class, None);
        }
        let is_busy = state.oracle.is_syncing() || state.others.are_busy();
        let nodes = self.nodes;
        let reach = &mut state.reach;
        let mark = reach.acts(step.class, on_cluster, is_busy, nodes, harness.now());
        harness.network().set_fault_id(Some(mark));
        if let Some(action) = on_cluster {
            state.is_broken |= matches!(
                action,
                Action::Drop { .. } | Action::Replay { .. } | Action::Overlap { .. }
            );
            state.oracle.disturbed(action, harness);
        }
    }

    /// Called after a step of the schedule.
    pub(super) fn acted(&self, harness: &FaultHarness) {
        harness.network().set_fault_id(None);
        self.state().reach.acted();
    }

    /// Called at the end of the run: counts the faults that controllers noticed last.
    pub(super) fn ends(&self, harness: &FaultHarness) {
        self.state().reach.notice(harness.network().take_noticed());
    }

    /// Records that a controller manager died.
    pub(super) fn died(&self, harness: &FaultHarness) {
        let mut state = self.state();
        state.now = harness.now();
        state.verdict.crashed = true;
        state.note(|| "a controller manager died".to_owned());
        state.trace.add_str("died");
        let deaths = harness.network().take_deaths();
        if state.oracle.is_busy() || state.others.are_busy() {
            state.reach.notice(deaths);
        }
        state.others.die();
        state.oracle.died(harness);
    }

    /// Records that a controller manager started with stale lists.
    pub fn stale_start(&self) {
        let mut state = self.state();
        let situation = "a controller starts with a stale list";
        state.verdict.sometimes.insert(situation);
        state.oracle.stale_start();
    }

    /// Checks that the controllers' state is as small as it should be once the run has converged
    /// and is quiet.
    pub(super) fn at_rest(&self, harness: &FaultHarness) {
        self.check(harness.now(), |state| {
            state.strike_hits(harness);
            state.oracle.at_rest(harness)
        });
    }

    /// Returns the verdict and the log.
    pub fn verdict(&self) -> (Verdict, Vec<String>) {
        let mut state = self.state();
        let state = &mut *state;
        state.verdict.trace = state.trace.hash();
        state.verdict.conditions = match (state.is_broken, state.verdict.crashed) {
            (true, _) => Conditions::Broken,
            (false, true) => Conditions::Crashed,
            (false, false) => Conditions::Kept,
        };
        let now_ns = state.now.mono_ns;
        state.oracle.add_to(&mut state.verdict, now_ns);
        state.reach.add_to(&mut state.verdict.faults);
        let log = state.log.take().unwrap_or_default();
        (state.verdict.clone(), log)
    }

    /// Runs a check, and ends the run if the check fails. Returns whether it passed.
    fn check(&self, now: Now, check: impl FnOnce(&mut State) -> Checked) -> bool {
        let mut state = self.state();
        state.now = now;
        let Err((invariant, text)) = check(&mut state) else {
            return true;
        };
        // Relaxed: a simulation runs on one thread.
        if !self.over.swap(true, Ordering::Relaxed) {
            let violation = Violation {
                invariant,
                text,
                at_ns: now.mono_ns,
                version: state.version,
            };
            state.note(|| format!("VIOLATION {violation}"));
            state.verdict.violation = Some(violation);
        }
        false
    }
}

impl State {
    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            let seconds = self.now.mono_ns as f64 / 1e9;
            log.push(format!("{seconds:>10.3} s  {}", text()));
        }
    }

    /// Counts a commit of a pod that a controller requested.
    fn count_pod(&mut self, old: Option<&Pod>, new: &Pod, change: Change) {
        let deletes = old.is_some() && begins_deletion(old, new, change);
        self.verdict.creates += u64::from(old.is_none());
        self.verdict.deletes += u64::from(deletes);
    }

    /// Counts the sync of a key in this phase, except in the first [`QUIET_SETTLES_NS`].
    fn count_sync(&mut self, sync: SyncId, key: impl FnOnce() -> String, now: Now) {
        if now.mono_ns - self.phase_began_ns > QUIET_SETTLES_NS {
            let key = (sync.incarnation, sync.kind, key());
            *self.phase_syncs.entry(key).or_default() += 1;
        }
    }

    /// Records the hit of a fault on a step of a controller's work; by default, the current step.
    fn strike(&mut self, class: FaultClass, step: Option<&'static str>) {
        let struck = self.verdict.faults.entry(class).or_default();
        struck.struck += 1;
        struck.mattered += u64::from(step.is_some() || self.oracle.is_busy());
        let step = step.unwrap_or_else(|| self.oracle.step_name());
        self.verdict.pairs.insert((class, step));
    }

    /// Counts the requests that faults have hit since the last call.
    fn strike_hits(&mut self, harness: &FaultHarness) {
        for hit in harness.network().take_hits() {
            self.strike(hit.class, Some(coverage::step_of(hit.call, hit.position)));
        }
    }
}
