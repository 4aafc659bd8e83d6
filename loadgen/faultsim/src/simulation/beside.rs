//! A watcher of one workload that stands beside the checker of ReplicaSets: it passes every commit and every sync
//! of the workload on to that checker, and asks a [`Judge`] for what holds of the workload alone.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Answer, Request};
use podstorm::driver::Workload;
use podstorm::intern::KeyId;
use podstorm_apiserver::{Commit, CommitObserver};
use podstorm_objects::Now;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Observer, Origin, SyncId};
use podstorm_sim::faults::BatchPosition;

use super::{Simulation, Watcher};
use crate::invariants::Checker;

/// What does not hold: the invariant and what is wrong.
pub type Checked = Result<(), (&'static str, String)>;

/// The invariants of one workload. Every method but [`missing`](Judge::missing) may be left out.
pub trait Judge: Debug + Send + 'static {
    /// The workload.
    type Workload: Workload;

    /// Looks at a commit of any object; `sync` is the sync of the workload that asked for it, if one did.
    ///
    /// # Errors
    /// The invariant that the commit breaks.
    fn committed(&mut self, commit: &Commit, sync: Option<SyncId>) -> Checked {
        let _ = (commit, sync);
        Ok(())
    }

    /// A request of a sync has its answer.
    fn answered(&mut self, sync: SyncId, request: &Request, answer: &Answer) {
        let _ = (sync, request, answer);
    }

    /// What is not as it must be at rest, if anything.
    fn missing(&self, simulation: &Simulation) -> Option<String>;

    /// The situations that have been seen.
    fn situations(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The requests that a test plants in place of this one.
    #[cfg(test)]
    fn plants(request: &Request) -> Option<Vec<Request>> {
        let _ = request;
        None
    }
}

/// A judge beside the checker of ReplicaSets.
#[derive(Debug)]
pub struct Beside<J> {
    checker: Arc<Checker>,
    state: Mutex<State<J>>,
}

#[derive(Debug)]
struct State<J> {
    judge: J,
    /// The origin of the commits that follow.
    origin: Option<Origin>,
}

impl<J: Judge> Beside<J> {
    /// Puts a judge beside a checker.
    pub fn new(checker: Checker, judge: J) -> Arc<Beside<J>> {
        Arc::new(Beside {
            checker: Arc::new(checker),
            state: Mutex::new(State {
                judge,
                origin: None,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        self.state
            .lock()
            .expect("no thread panics while it holds this lock")
    }
}

impl<J: Judge> Watcher for Beside<J> {
    fn checker(self: Arc<Self>) -> Arc<Checker> {
        Arc::clone(&self.checker)
    }

    fn observe(self: Arc<Self>, harness: &mut FaultHarness) {
        harness.observe::<J::Workload>(self);
    }

    fn missing(&self, simulation: &Simulation) -> Option<String> {
        let missing = simulation.missing();
        missing.or_else(|| self.state().judge.missing(simulation))
    }

    fn situations(&self) -> Vec<&'static str> {
        self.state().judge.situations()
    }
}

impl<J: Judge> CommitObserver for Beside<J> {
    fn committed(&self, commit: &Commit) {
        self.checker.committed(commit);
        let checked = {
            let mut state = self.state();
            let sync = state.origin.map(|origin| origin.sync);
            state.judge.committed(commit, sync)
        };
        if let Err((invariant, text)) = checked {
            self.checker.fail(invariant, text, commit.now);
        }
    }
}

impl<J: Judge> Observer<J::Workload> for Beside<J> {
    fn sync_begins(
        &self,
        sync: SyncId,
        workload: &J::Workload,
        queue: usize,
        key: KeyId,
        now: Now,
    ) {
        let name = workload.name(queue, key).name.to_string();
        self.checker.other_sync_begins(sync, &name, true, now);
    }

    fn sends(&self, sync: SyncId, _: &J::Workload, request: &Request, _: BatchPosition, now: Now) {
        self.checker.other_sends(sync, request, now);
    }

    #[cfg(test)]
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        J::plants(request)
    }

    fn carries_out(&self, origin: Option<Origin>) {
        self.state().origin = origin;
    }

    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now) {
        self.checker.other_answered(sync, request, answer, now);
        self.state().judge.answered(sync, request, answer);
    }

    fn sync_ended(
        &self,
        sync: SyncId,
        _: &J::Workload,
        _: &<J::Workload as Workload>::Sync,
        _: Now,
    ) {
        self.checker.other_sync_ended(sync);
    }
}
