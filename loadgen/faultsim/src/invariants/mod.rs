//! The invariant checker: looks at every commit and every step of the controllers, and says which
//! invariant does not hold. Schedules and scripted hazards are checked alike.
//!
//! `tests/RELIABILITY.md` lists the invariants under the numbers used here. Here are those of every run; what
//! holds of one workload's pods is its `Oracle`'s matter, and what holds of its other objects its
//! [`Judge`](crate::simulation::Judge)'s.

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

use super::action::{Action, SubjectAction};
use super::coverage;
use super::plan::{How, PlannedCluster, Step};
use super::verdict::{Conditions, Verdict, Violation};
use metrics::Metrics;
pub(crate) use oracle::Oracle;
use others::Others;
use reach::Reach;
use repeats::Repeats;
use trace::Trace;
pub(crate) use trace::short;

/// What does not hold: the invariant and what is wrong.
pub type Checked = Result<(), (&'static str, String)>;

/// Whether a commit is the beginning of a pod's deletion.
pub(crate) fn begins_deletion(old: Option<&Pod>, new: &Pod, change: Change) -> bool {
    let was = old.is_some_and(|pod| pod.metadata.is_deleting());
    !was && (new.metadata.is_deleting() || change == Change::Deleted)
}

/// How long after the beginning of the quiet there may still be syncs for the last writes, ns.
const QUIET_SETTLES_NS: i64 = 60_000_000_000;

/// How often a key may be synced afterwards: a delayed add from before comes due.
const QUIET_SYNCS_MAX: u32 = 2;

/// Checks a run. A run's cluster and workers tell it what they do.
pub struct Checker {
    /// How many nodes there are.
    nodes: u32,
    over: AtomicBool,
    state: Mutex<State>,
}

impl std::fmt::Debug for Checker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checker").finish_non_exhaustive()
    }
}

/// Everything the checker knows.
#[derive(Default)]
struct State {
    oracle: Box<dyn Oracle>,
    metrics: Metrics,
    reach: Reach,
    repeats: Repeats,
    verdict: Verdict,
    /// The server's version as of the last commit.
    version: u64,
    /// Whether controllers ran side by side, or a watch has broken its promise: an event was lost, or an old one
    /// came again.
    is_broken: bool,
    trace: Trace,
    /// The log for a person, where one is wanted.
    log: Option<Vec<String>>,
    /// The sync behind the commits that come.
    origin: Option<Origin>,
    now: Now,
    others: Others,
    last_write_ns: i64,
    /// When a controller last asked for a write, ns.
    last_asked_ns: i64,
    /// When the present phase began, ns.
    phase_began_ns: i64,
    /// Syncs in it, but for its beginning, by controller and key.
    phase_syncs: BTreeMap<(u32, Kind, String), u32>,
}

impl Checker {
    /// The checker of a run that begins with that cluster.
    pub fn new(cluster: &PlannedCluster, how: How) -> Checker {
        Checker::with(cluster, how, Box::default())
    }

    /// The same, and it asks that oracle of a workload.
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
        self.state
            .lock()
            .expect("no thread panics while it holds this lock")
    }

    /// Whether an invariant did not hold: there is nothing more to find out.
    pub fn is_over(&self) -> bool {
        // Relaxed: a simulation runs on one thread.
        self.over.load(Ordering::Relaxed)
    }

    /// An invariant does not hold, which the caller has found.
    pub(crate) fn fail(&self, invariant: &'static str, text: impl Into<String>, now: Now) {
        self.check(now, |_| Err((invariant, text.into())));
    }

    /// When the last object but an Event was written, ns.
    pub(super) fn last_write_ns(&self) -> i64 {
        self.state().last_write_ns
    }

    /// What disturbs the quiet that began at that moment, if anything: something that was written, a
    /// write that was asked for and came to nothing, any request of another workload, or a key that is synced
    /// again and again.
    pub(super) fn restless(&self, since_ns: i64) -> Option<String> {
        let state = self.state();
        let seconds = |at_ns: i64| (at_ns - since_ns) as f64 / 1e9;
        for (what, at_ns) in [
            ("something was written", state.last_write_ns),
            ("a write was asked for", state.last_asked_ns),
            ("something was asked for", state.others.last_asked_ns),
        ] {
            if at_ns > since_ns {
                return Some(format!("{what} after {:.3} s of quiet", seconds(at_ns)));
            }
        }
        let busiest = state.phase_syncs.iter().max_by_key(|(_, syncs)| **syncs);
        busiest
            .filter(|(_, syncs)| **syncs > QUIET_SYNCS_MAX)
            .map(|((.., key), syncs)| format!("{key} was synced {syncs} times in the quiet"))
    }

    /// The last fault is over at that moment, ns.
    pub(super) fn healed(&self, at_ns: i64) {
        self.state().repeats.begin(at_ns);
    }

    /// A phase begins.
    pub(super) fn phase(&self, name: &str, now: Now) {
        let mut state = self.state();
        state.now = now;
        state.phase_began_ns = now.mono_ns;
        state.phase_syncs.clear();
        state.note(|| format!("== {name}"));
    }

    /// Something for a person only.
    pub(super) fn note(&self, text: impl FnOnce() -> String) {
        self.state().note(text);
    }

    /// A step of the schedule is about to be carried out.
    pub(super) fn acts<A: SubjectAction>(&self, step: &Step<A>, harness: &FaultHarness) {
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

    /// It has been carried out.
    pub(super) fn acted(&self, harness: &FaultHarness) {
        harness.network().set_fault_id(None);
        self.state().reach.acted();
    }

    /// The run is over: what has been noticed in it is counted.
    pub(super) fn ends(&self, harness: &FaultHarness) {
        self.state().reach.notice(harness.network().take_noticed());
    }

    /// A controller has died.
    pub(super) fn died(&self, harness: &FaultHarness) {
        let mut state = self.state();
        state.now = harness.now();
        state.verdict.crashed = true;
        state.note(|| "a controller has died".to_owned());
        state.trace.add_str("died");
        let deaths = harness.network().take_deaths();
        if state.oracle.is_busy() || state.others.are_busy() {
            state.reach.notice(deaths);
        }
        state.others.die();
        state.oracle.died(harness);
    }

    /// A controller was started whose first lists are from the past.
    pub fn stale_start(&self) {
        let mut state = self.state();
        let situation = "a controller starts over a list from the past";
        state.verdict.sometimes.insert(situation);
        state.oracle.stale_start();
    }

    /// All is as wanted and quiet: what a controller keeps must be as small as it should be.
    pub(super) fn at_rest(&self, harness: &FaultHarness) {
        self.check(harness.now(), |state| {
            state.strike_hits(harness);
            state.oracle.at_rest(harness)
        });
    }

    /// What came of it, and the log for a person.
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

    /// Checks something, and ends the run where it does not hold; whether it does.
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

    /// Counts the commit of a pod that a controller asked for.
    fn count_pod(&mut self, old: Option<&Pod>, new: &Pod, change: Change) {
        let deletes = old.is_some() && begins_deletion(old, new, change);
        self.verdict.creates += u64::from(old.is_none());
        self.verdict.deletes += u64::from(deletes);
    }

    /// Counts the sync of a key in this phase, but for the beginning of the phase.
    fn count_sync(&mut self, sync: SyncId, key: impl FnOnce() -> String, now: Now) {
        if now.mono_ns - self.phase_began_ns > QUIET_SETTLES_NS {
            let key = (sync.incarnation, sync.kind, key());
            *self.phase_syncs.entry(key).or_default() += 1;
        }
    }

    /// A fault has struck.
    fn strike(&mut self, class: FaultClass, step: Option<&'static str>) {
        let struck = self.verdict.faults.entry(class).or_default();
        struck.struck += 1;
        struck.mattered += u64::from(step.is_some() || self.oracle.is_busy());
        let step = step.unwrap_or_else(|| self.oracle.step_name());
        self.verdict.pairs.insert((class, step));
    }

    /// Counts the requests that met a fault since the last look.
    fn strike_hits(&mut self, harness: &FaultHarness) {
        for hit in harness.network().take_hits() {
            self.strike(hit.class, Some(coverage::step_of(hit.call, hit.position)));
        }
    }
}
