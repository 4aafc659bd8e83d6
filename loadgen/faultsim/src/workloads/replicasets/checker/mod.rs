//! The checker of ReplicaSets and ReplicationControllers: observes all work of their controllers,
//! and reports the first violated invariant. Known deviations of upstream's behaviour are counted
//! instead of being violations.

mod checks;
#[cfg(test)]
mod harness;
mod metrics;
mod oracle;
mod order;
#[cfg(test)]
mod patch_tests;
mod sets;
mod statuses;
#[cfg(test)]
mod tests;

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Answer, Request};
use podstorm::intern::KeyId;
use podstorm::policy::Behaviour;
use podstorm::replicaset::{Controller, Outcome, ReplicaSetSync, as_replica_set};
use podstorm_apiserver::{Commit, CommitObserver};
use podstorm_objects::{AnyObject, Kind, Now};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Observer, Origin, Origins, SyncId};
use podstorm_sim::faults::BatchPosition;
use podstorm_sim::lock;

use super::reference::{Lockstep, Snapshot};
use crate::action::Action;
use crate::invariants::{Checked, Checker, Oracle, short};
use crate::plan::{How, PlannedCluster, TimedAction};
use crate::simulation::{Simulation, Watcher};
use crate::verdict::{Conditions, Verdict};
use metrics::Metrics;
use oracle::OracleState;

/// Checks a run with controllers of ReplicaSets or ReplicationControllers, including the invariants
/// of all workloads.
#[derive(Debug)]
pub struct SetChecker {
    checker: Arc<Checker>,
    known: Known,
}

/// The oracle, whose state is behind a lock. The [`Checker`] calls the oracle while it holds its
/// own lock, so the checker's lock is never taken under this one.
#[derive(Clone, Debug)]
struct Known(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    oracle: OracleState,
    metrics: Metrics,
    /// The comparison with the reference model; only for schedules without faults.
    lockstep: Option<Lockstep>,
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

impl SetChecker {
    /// Returns the checker of a run that begins with this cluster, without an oracle.
    pub fn new(cluster: &PlannedCluster, how: How) -> SetChecker {
        let known = Known(Arc::new(Mutex::new(State {
            oracle: OracleState::new(cluster, how.behaviour),
            metrics: Metrics::default(),
            lockstep: None,
        })));
        let oracle = Box::new(known.clone());
        let checker = Arc::new(Checker::with(cluster, how, oracle));
        SetChecker { checker, known }
    }

    /// Makes the checker compare the run with the reference model, if the model can follow these
    /// steps.
    pub(super) fn follow(
        &self,
        steps: &[TimedAction<Action>],
        cluster: &PlannedCluster,
        behaviour: Behaviour,
    ) {
        self.known.state().lockstep = Lockstep::new(steps, cluster, behaviour);
    }

    /// Permits excess creates and deletes for a known bug of upstream that a script triggers.
    pub fn excuse(&self, creates: i64, deletes: i64) {
        let mut state = self.known.state();
        state.oracle.allowed += creates;
        state.oracle.allowed_deletes += deletes;
    }

    /// Compares the run with the model if the harness is at rest (`rests`). If it is not, users act
    /// before it comes to rest, which is recorded.
    fn holds_against_model(&self, harness: &FaultHarness, rests: bool) {
        self.check(harness.now(), |state| {
            let Some(lockstep) = &mut state.lockstep else {
                return Ok(());
            };
            if !rests {
                lockstep.goes_on();
                return Ok(());
            }
            let snapshot = Snapshot::take(harness.cluster());
            lockstep.rests(&snapshot).map_err(|text| ("model", text))
        });
    }

    fn check(&self, now: Now, check: impl FnOnce(&mut State) -> Checked) {
        let checked = check(&mut self.known.state());
        self.checker.judge(checked, now);
    }
}

impl Deref for SetChecker {
    type Target = Checker;

    fn deref(&self) -> &Checker {
        &self.checker
    }
}

impl Oracle for Known {
    fn committed(
        &mut self,
        commit: &Commit,
        origin: Option<Origin>,
        verdict: &mut Verdict,
    ) -> Checked {
        let state = &mut *self.state();
        let checked = state.oracle.committed(commit, origin);
        if let (Some(lockstep), Some(_)) = (&mut state.lockstep, origin) {
            lockstep.committed(commit);
        }
        let (metrics, oracle) = (&mut state.metrics, &state.oracle);
        metrics.committed(oracle, commit, origin, verdict);
        checked
    }

    fn disturbed(&mut self, action: &Action, harness: &FaultHarness) {
        self.state().oracle.disturbed(action, harness);
    }

    fn stale_start(&mut self) {
        self.state().oracle.stale_start();
    }

    fn died(&mut self, harness: &FaultHarness) {
        self.state().oracle.died(harness);
    }

    fn is_syncing(&self) -> bool {
        !self.state().oracle.busy.is_empty()
    }

    fn is_busy(&self) -> bool {
        self.state().oracle.is_busy()
    }

    fn step_name(&self) -> &'static str {
        self.state().oracle.step_name()
    }

    fn at_rest(&self, harness: &FaultHarness) -> Checked {
        self.state().oracle.at_rest(harness)
    }

    fn object_words(&self, object: &AnyObject) -> Option<String> {
        let set = as_replica_set(object)?;
        let status = &set.status;
        Some(format!(
            " (uid {}, wants {}, status {}/{}/{}, generation {} of {})",
            short(&set.metadata.uid),
            set.replicas(),
            status.replicas,
            status.ready_replicas,
            status.available_replicas,
            status.observed_generation,
            set.metadata.generation
        ))
    }

    fn status_words(&self, object: &AnyObject) -> Option<String> {
        let set = as_replica_set(object)?;
        let (replicas, generation) = (set.status.replicas, set.status.observed_generation);
        Some(format!(": {replicas} replicas, generation {generation}"))
    }

    fn add_to(&self, verdict: &mut Verdict, now_ns: i64) {
        let state = self.state();
        let oracle = &state.oracle;
        verdict.excess_pods_created = oracle.excess;
        verdict.ambiguous_writes = oracle.ambiguous;
        verdict.sometimes.extend(&oracle.sometimes);
        if oracle.resent {
            verdict.conditions = Conditions::Broken;
        }
        if let Some(lockstep) = &state.lockstep {
            verdict.compared = lockstep.compared();
            verdict.sometimes.extend(lockstep.sometimes());
        }
        state.metrics.add_to(verdict, now_ns);
    }
}

impl Watcher for SetChecker {
    fn checker(self: Arc<Self>) -> Arc<Checker> {
        Arc::clone(&self.checker)
    }

    fn observe(self: Arc<Self>, harness: &mut FaultHarness) {
        harness.observe::<Controller>(self);
    }

    fn stepped(&self, simulation: &Simulation) {
        if let Some(lockstep) = &mut self.known.state().lockstep {
            lockstep.stepped(&Snapshot::take(simulation.harness.cluster()));
        }
    }

    fn compares(&self, simulation: &Simulation) {
        let follows = self.known.state().lockstep.is_some();
        if follows {
            let rests = simulation.harness.rests() && simulation.missing().is_none();
            self.holds_against_model(&simulation.harness, rests);
        }
    }
}

impl CommitObserver for SetChecker {
    fn committed(&self, commit: &Commit) {
        self.checker.committed(commit);
    }
}

impl Origins for SetChecker {
    fn carries_out(&self, origin: Option<Origin>) {
        self.checker.carries_out(origin);
    }
}

impl Observer<Controller> for SetChecker {
    fn sync_begins(&self, sync: SyncId, controller: &Controller, _: usize, key: KeyId, now: Now) {
        let name = || controller.owners().name(key).name.to_string();
        let is_traced = sync.kind != Kind::REPLICA_SET;
        self.checker.sync_begins(sync, name, is_traced, now);
        self.check(now, |state| {
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
        self.checker.sends(sync, request, now);
        self.check(now, |state| {
            state.oracle.sends(sync, controller, request, place, now)
        });
    }

    #[cfg(test)]
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        super::planted_tests::requests(request)
    }

    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now) {
        if self.checker.answered(sync, request, answer, now) {
            self.check(now, |state| state.oracle.answered(sync, request, answer));
        }
    }

    fn sync_ended(&self, sync: SyncId, _controller: &Controller, state: &ReplicaSetSync, now: Now) {
        #[cfg(test)]
        super::planted_tests::sync_ended(_controller, state.key(), now);
        let outcome = state.outcome();
        let error = match outcome {
            Outcome::Failed(error) => Some(error as _),
            _ => None,
        };
        self.checker.sync_ended(sync, error, now);
        self.check(now, |state| state.oracle.sync_ended(sync, outcome));
    }
}
