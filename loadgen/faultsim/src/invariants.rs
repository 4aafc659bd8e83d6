//! The judge: looks at every commit and every step of the controllers, and says which invariant
//! does not hold.
//!
//! What must hold is listed in `tests/RELIABILITY.md` under the numbers used here. A deviation that
//! upstream's behaviour is known for is counted and is no violation there.

mod books;
mod checks;
#[cfg(test)]
mod court;
mod figures;
mod order;
#[cfg(test)]
mod patch_tests;
mod reach;
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
use podstorm::replicaset::{Controller, Outcome, Sync};
use podstorm_apiserver::{Commit, CommitObserver};
use podstorm_objects::{Kind, Now, Pod, ReplicaSet, ReplicationController};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Observer, Origin, SyncId};
use podstorm_sim::faults::{BatchPosition, Call, FaultClass};

use super::action::Action;
use super::coverage;
use super::reference::{Lockstep, Scene};
use super::schedule::How;
use super::schedule::{Schedule, Step};
use super::verdict::{Conditions, Verdict, Violation};
use books::Books;
use figures::Figures;
use reach::Reach;
use trace::Trace;

/// So long, ns, after the beginning of the quiet there may still be syncs for the last writes.
const QUIET_SETTLES_NS: i64 = 60_000_000_000;

/// So often may a key be synced afterwards: a delayed add from before comes due.
const QUIET_SYNCS_MAX: u32 = 2;

/// Looks at a run.
pub struct Judge {
    how: How,
    /// How many nodes there are.
    nodes: u32,
    over: AtomicBool,
    state: Mutex<State>,
}

impl std::fmt::Debug for Judge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Judge")
            .field("how", &self.how)
            .finish_non_exhaustive()
    }
}

/// Everything the judge knows.
struct State {
    books: Books,
    figures: Figures,
    reach: Reach,
    /// The reference model, where the schedule has no faults.
    lockstep: Option<Lockstep>,
    verdict: Verdict,
    trace: Trace,
    /// What is told to a person, where that is wanted.
    told: Option<Vec<String>>,
    /// Who is behind the commits that come.
    origin: Option<Origin>,
    now: Now,
    last_write_ns: i64,
    /// When a controller last asked for a write, ns.
    last_asked_ns: i64,
    /// When the present phase began, ns.
    phase_began_ns: i64,
    /// Syncs in it, but for its beginning, by controller and key.
    phase_syncs: BTreeMap<(u32, String), u32>,
}

impl Judge {
    pub(super) fn new(schedule: &Schedule, how: How) -> Judge {
        Judge {
            how,
            nodes: schedule.world.nodes,
            over: AtomicBool::new(false),
            state: Mutex::new(State {
                books: Books::new(schedule, how.behaviour),
                figures: Figures::default(),
                reach: Reach::default(),
                lockstep: Lockstep::of(schedule, how.behaviour),
                verdict: Verdict::default(),
                trace: Trace::new(),
                told: how.told.then(Vec::new),
                origin: None,
                now: Now::default(),
                last_write_ns: 0,
                last_asked_ns: 0,
                phase_began_ns: 0,
                phase_syncs: BTreeMap::new(),
            }),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no thread panics while it holds this lock")
    }

    /// Whether an invariant did not hold: there is nothing more to find out.
    pub(super) fn is_over(&self) -> bool {
        // Relaxed: a simulation runs on one thread.
        self.over.load(Ordering::Relaxed)
    }

    pub(super) fn violate(&self, violation: Violation) {
        // Relaxed: a simulation runs on one thread.
        self.over.store(true, Ordering::Relaxed);
        let mut state = self.state();
        state.tell(|| format!("VIOLATION {violation}"));
        state.verdict.violation.get_or_insert(violation);
    }

    /// Parts wake each other for ever.
    pub(super) fn livelock(&self, now: Now) {
        let version = self.state().books.version;
        self.violate(Violation {
            invariant: "I10",
            text: "parts wake each other for ever while no time passes".to_owned(),
            at_ns: now.mono_ns,
            version,
        });
    }

    /// When the last pod or ReplicaSet was written, ns.
    pub(super) fn last_write_ns(&self) -> i64 {
        self.state().last_write_ns
    }

    /// What disturbs the quiet that began at that moment, if anything: something that was written, a
    /// write that was asked for and came to nothing, or a key that is synced again and again.
    pub(super) fn restless(&self, since_ns: i64) -> Option<String> {
        let state = self.state();
        let seconds = |at_ns: i64| (at_ns - since_ns) as f64 / 1e9;
        for (what, at_ns) in [
            ("something was written", state.last_write_ns),
            ("a write was asked for", state.last_asked_ns),
        ] {
            if at_ns > since_ns {
                return Some(format!("{what} after {:.3} s of quiet", seconds(at_ns)));
            }
        }
        let busiest = state.phase_syncs.iter().max_by_key(|(_, syncs)| **syncs);
        busiest
            .filter(|(_, syncs)| **syncs > QUIET_SYNCS_MAX)
            .map(|((_, key), syncs)| format!("{key} was synced {syncs} times in the quiet"))
    }

    /// A phase begins.
    pub(super) fn phase(&self, name: &str, now: Now) {
        let mut state = self.state();
        state.now = now;
        state.phase_began_ns = now.mono_ns;
        state.phase_syncs.clear();
        state.tell(|| format!("== {name}"));
    }

    /// Something for a person only.
    pub(super) fn note(&self, text: impl FnOnce() -> String) {
        self.state().tell(text);
    }

    /// A step of the schedule is about to be carried out.
    pub(super) fn acts(&self, step: &Step, site: &FaultHarness) {
        let mut state = self.state();
        state.now = site.now();
        state.tell(|| format!("-> {}", describe(step)));
        state.trace.add_str("act");
        state.trace.add(u64::from(step.at_ms));
        state.strike_hits(site);
        if let Some(class) = step.class
            && !matches!(step.action, Action::Requests { .. })
        {
            state.strike(class, None);
        }
        let (is_busy, nodes) = (!state.books.busy.is_empty(), self.nodes);
        let mark = state.reach.acts(step, is_busy, nodes, site.now());
        site.network().set_fault_id(Some(mark));
        state.books.disturbed(&step.action, site);
    }

    /// It has been carried out.
    pub(super) fn acted(&self, site: &FaultHarness) {
        site.network().set_fault_id(None);
        self.state().reach.acted();
    }

    /// The run is over: what has been noticed in it is counted.
    pub(super) fn ends(&self, site: &FaultHarness) {
        self.state().reach.notice(site.network().take_noticed());
    }

    /// A controller has died.
    pub(super) fn died(&self, site: &FaultHarness) {
        let mut state = self.state();
        state.now = site.now();
        state.verdict.crashed = true;
        state.tell(|| "a controller has died".to_owned());
        state.trace.add_str("died");
        let deaths = site.network().take_deaths();
        if state.books.is_busy() {
            state.reach.notice(deaths);
        }
        state.books.died(site);
    }

    /// A controller was started whose first lists are from the past.
    pub(super) fn stale_start(&self) {
        self.state().books.stale_start();
    }

    /// Whether the reference model follows the run.
    pub(super) fn follows(&self) -> bool {
        self.state().lockstep.is_some()
    }

    /// Users have just done something: the reference model does what the controllers must do.
    pub(super) fn stepped(&self, site: &FaultHarness) {
        if let Some(lockstep) = &mut self.state().lockstep {
            lockstep.stepped(&Scene::of(site.cluster()));
        }
    }

    /// The site rests, as wanted, or (`rests` is false) users go on before it does.
    pub(super) fn compares(&self, site: &FaultHarness, rests: bool) {
        self.check(site.now(), |state| match &mut state.lockstep {
            Some(lockstep) if rests => lockstep
                .rests(&Scene::of(site.cluster()))
                .map_err(|text| ("model", text)),
            Some(lockstep) => {
                lockstep.goes_on();
                Ok(())
            }
            None => Ok(()),
        });
    }

    /// All is as wanted and quiet: what a controller keeps must be as small as it should be.
    pub(super) fn at_rest(&self, site: &FaultHarness) {
        let violation = {
            let mut state = self.state();
            state.now = site.now();
            state.strike_hits(site);
            let state = &mut *state;
            state.books.at_rest(site).err()
        };
        if let Some((invariant, text)) = violation {
            self.violate(Violation {
                invariant,
                text,
                at_ns: site.now().mono_ns,
                version: site.cluster().resource_version(),
            });
        }
    }

    /// What came of it, and what was told.
    pub(super) fn verdict(&self) -> (Verdict, Vec<String>) {
        let mut state = self.state();
        let state = &mut *state;
        state.verdict.trace = state.trace.hash();
        state.verdict.excess_pods_created = state.books.excess;
        let books = &state.books;
        state.verdict.conditions = match (
            books.overlapped || books.lied_to || books.resent,
            books.crashed,
        ) {
            (true, _) => Conditions::Broken,
            (false, true) => Conditions::Crashed,
            (false, false) => Conditions::Kept,
        };
        state.verdict.ambiguous_writes = state.books.ambiguous;
        state.verdict.sometimes = state.books.sometimes.clone();
        if let Some(lockstep) = &state.lockstep {
            state.verdict.compared = lockstep.compared();
            state.verdict.sometimes.extend(lockstep.sometimes());
        }
        state.figures.add_to(&mut state.verdict, state.now);
        state.reach.add_to(&mut state.verdict.faults);
        let told = state.told.take().unwrap_or_default();
        (state.verdict.clone(), told)
    }

    /// Lets the books check something, and ends the run where they say so.
    fn check(
        &self,
        now: Now,
        check: impl FnOnce(&mut State) -> Result<(), (&'static str, String)>,
    ) {
        let mut state = self.state();
        state.now = now;
        if let Err((invariant, text)) = check(&mut state) {
            let version = state.books.version;
            drop(state);
            if !self.is_over() {
                self.violate(Violation {
                    invariant,
                    text,
                    at_ns: now.mono_ns,
                    version,
                });
            }
        }
    }
}

impl State {
    fn tell(&mut self, text: impl FnOnce() -> String) {
        if let Some(told) = &mut self.told {
            let seconds = self.now.mono_ns as f64 / 1e9;
            told.push(format!("{seconds:>10.3} s  {}", text()));
        }
    }

    /// A fault has struck.
    fn strike(&mut self, class: FaultClass, step: Option<&'static str>) {
        let struck = self.verdict.faults.entry(class).or_default();
        struck.struck += 1;
        struck.mattered += u64::from(step.is_some() || self.books.is_busy());
        let step = step.unwrap_or_else(|| self.books.step_name());
        self.verdict.pairs.insert((class, step));
    }

    /// Counts the requests that met a fault since the last look.
    fn strike_hits(&mut self, site: &FaultHarness) {
        for hit in site.network().take_hits() {
            self.strike(hit.class, Some(coverage::step_of(hit.call, hit.position)));
        }
    }
}

impl CommitObserver for Judge {
    fn committed(&self, commit: &Commit) {
        self.check(commit.now, |state| {
            state.books.version = commit.version;
            let metadata = commit.new.metadata();
            state.trace.add(commit.version);
            state.trace.add(commit.change as u64);
            state.trace.add_str(&metadata.name);
            state.trace.add(commit.now.mono_ns as u64);
            if commit.new.kind() != Kind::EVENT {
                state.last_write_ns = commit.now.mono_ns;
                let origin = state.origin;
                state.tell(|| trace::commit_text(commit, origin));
            }
            let checked = if let Some((old, new)) = commit.of::<Pod>() {
                if state.origin.is_some() {
                    match old {
                        None => state.verdict.creates += 1,
                        Some(_) if checks::begins_deletion(old, new, commit.change) => {
                            state.verdict.deletes += 1;
                        }
                        Some(_) => {}
                    }
                }
                state
                    .books
                    .pod_committed(commit.change, old, new, state.origin, commit)
            } else if let Some((old, new)) = commit.of::<ReplicaSet>() {
                let (kind, origin) = (Kind::REPLICA_SET, state.origin);
                state
                    .books
                    .set_committed(kind, commit.change, old, new, origin)
            } else if let Some((old, new)) = commit.of::<ReplicationController>() {
                let old = old.map(ReplicationController::to_replica_set);
                let (old, new, origin) = (old.as_ref(), new.to_replica_set(), state.origin);
                let kind = Kind::REPLICATION_CONTROLLER;
                state
                    .books
                    .set_committed(kind, commit.change, old, &new, origin)
            } else {
                Ok(())
            };
            if let (Some(lockstep), Some(_)) = (&mut state.lockstep, state.origin) {
                lockstep.committed(commit);
            }
            state.figures.committed(&state.books, commit, state.origin);
            state.reach.committed(commit, state.origin);
            checked
        });
    }
}

impl Observer for Judge {
    fn sync_begins(&self, sync: SyncId, controller: &Controller, key: KeyId, now: Now) {
        self.check(now, |state| {
            state.verdict.syncs += 1;
            state.trace.add_str("sync");
            state.trace.add(sync.number);
            if sync.kind != Kind::REPLICA_SET {
                state.trace.add_str(sync.kind.name());
            }
            if now.mono_ns - state.phase_began_ns > QUIET_SETTLES_NS {
                let name = controller.owners().name(key).name.to_string();
                let syncs = state.phase_syncs.entry((sync.incarnation, name));
                *syncs.or_default() += 1;
            }
            state.reach.sync_begins(now);
            state.books.sync_begins(sync, controller, key, now)
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
            state.tell(|| trace::request_text(sync, request));
            if Call::of(request).is_write() {
                state.last_asked_ns = now.mono_ns;
            }
            state.books.sends(sync, controller, request, place, now)
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
                state.tell(|| format!("  {} is answered {}: {error}", sync.number, error.code));
            }
            state.reach.answered(answer, now);
            state.books.answered(sync, request, answer)
        });
    }

    fn sync_ended(&self, sync: SyncId, controller: &Controller, state: &Sync, now: Now) {
        #[cfg(test)]
        super::planted_tests::sync_ended(controller, state.key(), now);
        let outcome = state.outcome();
        self.check(now, |state| {
            if let Outcome::Failed(error) = outcome {
                state.tell(|| format!("sync {} failed: {error}", sync.number));
            }
            state.books.sync_ended(sync, controller, outcome)
        });
    }
}

fn describe(step: &Step) -> String {
    let class = step.class.map_or("user", FaultClass::name);
    format!("{class}: {:?}", step.action)
}
