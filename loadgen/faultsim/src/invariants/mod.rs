//! The invariant checker: looks at every commit and every step of the controllers, and says which
//! invariant does not hold. Schedules and scripted hazards are checked alike.
//!
//! `tests/RELIABILITY.md` lists the invariants under the numbers used here. A deviation that
//! upstream's behaviour is known for is counted and is no violation there.

mod checks;
#[cfg(test)]
mod harness;
mod metrics;
mod oracle;
mod order;
mod others;
#[cfg(test)]
mod patch_tests;
mod reach;
mod repeats;
mod sets;
mod statuses;
#[cfg(test)]
mod tests;
mod trace;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};

use podstorm::client::{Answer, Request};
use podstorm::intern::KeyId;
use podstorm::policy::Behaviour;
use podstorm::replicaset::{Controller, Outcome, Sync};
use podstorm_apiserver::{Commit, CommitObserver};
use podstorm_objects::{Kind, Now, Pod, ReplicaSet, ReplicationController};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Observer, Origin, SyncId};
use podstorm_sim::faults::{BatchPosition, Call, FaultClass};

use super::action::{Action, SubjectAction};
use super::coverage;
use super::plan::{How, PlannedCluster, Step};
use super::reference::{Lockstep, Snapshot};
use super::verdict::{Conditions, Verdict, Violation};
use checks::Checked;
use metrics::Metrics;
use oracle::OracleState;
use others::Others;
use reach::Reach;
use repeats::Repeats;
use trace::Trace;

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
    oracle: OracleState,
    metrics: Metrics,
    reach: Reach,
    repeats: Repeats,
    /// The reference model, where the schedule has no faults.
    lockstep: Option<Lockstep>,
    verdict: Verdict,
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
        Checker {
            nodes: cluster.nodes,
            over: AtomicBool::new(false),
            state: Mutex::new(State {
                oracle: OracleState::new(cluster, how.behaviour),
                log: how.told.then(Vec::new),
                ..State::default()
            }),
        }
    }

    /// The run is held against the reference model, if these steps are such that the model follows them.
    pub(super) fn follow(
        &self,
        steps: &[Step<Action>],
        cluster: &PlannedCluster,
        behaviour: Behaviour,
    ) {
        self.state().lockstep = Lockstep::of(steps, cluster, behaviour);
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
    pub(super) fn fail(&self, invariant: &'static str, text: impl Into<String>, now: Now) {
        self.check(now, |_| Err((invariant, text.into())));
    }

    /// A known bug of upstream's, which a script provokes, may make that many pods too many and delete
    /// that many too many.
    pub fn excuse(&self, creates: i64, deletes: i64) {
        let mut state = self.state();
        state.oracle.allowed += creates;
        state.oracle.allowed_deletes += deletes;
    }

    /// When the last pod or ReplicaSet was written, ns.
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
        let is_busy = !state.oracle.busy.is_empty() || state.others.are_busy();
        let nodes = self.nodes;
        let reach = &mut state.reach;
        let mark = reach.acts(step.class, on_cluster, is_busy, nodes, harness.now());
        harness.network().set_fault_id(Some(mark));
        if let Some(action) = on_cluster {
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
        self.state().oracle.stale_start();
    }

    /// Whether the reference model follows the run.
    pub(super) fn follows(&self) -> bool {
        self.state().lockstep.is_some()
    }

    /// Users have just done something: the reference model does what the controllers must do.
    pub(super) fn stepped(&self, harness: &FaultHarness) {
        if let Some(lockstep) = &mut self.state().lockstep {
            lockstep.stepped(&Snapshot::of(harness.cluster()));
        }
    }

    /// The harness rests, as wanted, or (`rests` is false) users go on before it does.
    pub(super) fn holds_against_model(&self, harness: &FaultHarness, rests: bool) {
        self.check(harness.now(), |state| {
            let Some(lockstep) = &mut state.lockstep else {
                return Ok(());
            };
            if !rests {
                lockstep.goes_on();
                return Ok(());
            }
            let snapshot = Snapshot::of(harness.cluster());
            lockstep.rests(&snapshot).map_err(|text| ("model", text))
        });
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
        state.verdict.excess_pods_created = state.oracle.excess;
        let oracle = &state.oracle;
        state.verdict.conditions = match (
            oracle.overlapped || oracle.lied_to || oracle.resent,
            oracle.crashed,
        ) {
            (true, _) => Conditions::Broken,
            (false, true) => Conditions::Crashed,
            (false, false) => Conditions::Kept,
        };
        state.verdict.ambiguous_writes = state.oracle.ambiguous;
        state.verdict.sometimes = state.oracle.sometimes.clone();
        if let Some(lockstep) = &state.lockstep {
            state.verdict.compared = lockstep.compared();
            state.verdict.sometimes.extend(lockstep.sometimes());
        }
        state.metrics.add_to(&mut state.verdict, state.now);
        state.reach.add_to(&mut state.verdict.faults);
        let log = state.log.take().unwrap_or_default();
        (state.verdict.clone(), log)
    }

    /// Checks something, and ends the run where it does not hold.
    fn check(&self, now: Now, check: impl FnOnce(&mut State) -> Checked) {
        let mut state = self.state();
        state.now = now;
        let Err((invariant, text)) = check(&mut state) else {
            return;
        };
        // Relaxed: a simulation runs on one thread.
        if !self.over.swap(true, Ordering::Relaxed) {
            let violation = Violation {
                invariant,
                text,
                at_ns: now.mono_ns,
                version: state.oracle.version,
            };
            state.note(|| format!("VIOLATION {violation}"));
            state.verdict.violation = Some(violation);
        }
    }
}

impl State {
    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(log) = &mut self.log {
            let seconds = self.now.mono_ns as f64 / 1e9;
            log.push(format!("{seconds:>10.3} s  {}", text()));
        }
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

impl CommitObserver for Checker {
    fn committed(&self, commit: &Commit) {
        self.check(commit.now, |state| {
            state.oracle.version = commit.version;
            let metadata = commit.new.metadata();
            state.trace.add(commit.version);
            state.trace.add(commit.change as u64);
            state.trace.add_str(&metadata.name);
            state.trace.add(commit.now.mono_ns as u64);
            if commit.new.kind() != Kind::EVENT {
                state.last_write_ns = commit.now.mono_ns;
                state.repeats.committed(commit.now);
                let origin = state.origin;
                state.note(|| trace::commit_text(commit, origin));
            }
            let (change, origin) = (commit.change, state.origin);
            let checked = if let Some((old, new)) = commit.of::<Pod>() {
                if origin.is_some() {
                    let deletes = old.is_some() && checks::begins_deletion(old, new, change);
                    state.verdict.creates += u64::from(old.is_none());
                    state.verdict.deletes += u64::from(deletes);
                }
                state.oracle.pod_committed(change, old, new, origin)
            } else if let Some((old, new)) = commit.of::<ReplicaSet>() {
                let kind = Kind::REPLICA_SET;
                state.oracle.set_committed(kind, change, old, new, origin)
            } else if let Some((old, new)) = commit.of::<ReplicationController>() {
                let (old, new) = (
                    old.map(ReplicationController::to_replica_set),
                    new.to_replica_set(),
                );
                let (kind, old) = (Kind::REPLICATION_CONTROLLER, old.as_ref());
                state.oracle.set_committed(kind, change, old, &new, origin)
            } else {
                Ok(())
            };
            if let (Some(lockstep), Some(_)) = (&mut state.lockstep, state.origin) {
                lockstep.committed(commit);
            }
            let verdict = &mut state.verdict;
            (state.metrics).committed(&state.oracle, commit, state.origin, verdict);
            state.reach.committed(commit, state.origin);
            checked
        });
    }
}

impl Observer for Checker {
    fn sync_begins(&self, sync: SyncId, controller: &Controller, _: usize, key: KeyId, now: Now) {
        self.check(now, |state| {
            state.verdict.syncs += 1;
            state.trace.add_str("sync");
            state.trace.add(sync.number);
            if sync.kind != Kind::REPLICA_SET {
                state.trace.add_str(sync.kind.name());
            }
            let name = || controller.owners().name(key).name.to_string();
            state.count_sync(sync, name, now);
            state.repeats.sync_begins(sync, name, now);
            state.reach.sync_begins(now);
            state.oracle.sync_begins(sync, controller, key, now)
        });
    }

    fn sends(
        &self,
        sync: SyncId,
        controller: &Controller,
        request: &Request,
        place: BatchPosition,
        now: Now,
    ) {
        self.check(now, |state| {
            state.note(|| trace::request_text(sync, request));
            if Call::of(request).is_write() {
                state.last_asked_ns = now.mono_ns;
            }
            state.oracle.sends(sync, controller, request, place, now)
        });
    }

    #[cfg(test)]
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        super::planted_tests::requests(request)
    }

    fn carries_out(&self, origin: Option<Origin>) {
        self.state().origin = origin;
    }

    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now) {
        self.check(now, |state| {
            if let Answer::Failed(error) = answer {
                state.note(|| format!("  {} is answered {}: {error}", sync.number, error.code));
            }
            state.reach.answered(answer, now);
            state.repeats.answered(sync, request, answer, now)?;
            state.oracle.answered(sync, request, answer)
        });
    }

    fn sync_ended(&self, sync: SyncId, _controller: &Controller, state: &Sync, now: Now) {
        #[cfg(test)]
        super::planted_tests::sync_ended(_controller, state.key(), now);
        let outcome = state.outcome();
        self.check(now, |state| {
            if let Outcome::Failed(error) = outcome {
                state.note(|| format!("sync {} failed: {error}", sync.number));
            }
            state.repeats.sync_ended(sync);
            state.oracle.sync_ended(sync, outcome)
        });
    }
}
