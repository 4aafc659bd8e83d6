//! A watcher of one workload on top of another watcher, which is that of the workload below or only
//! a [`Checker`]. It passes every commit to the other watcher and every sync of its workload to the
//! checker. A [`Judge`] checks the invariants of its own workload.

use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Answer, Request};
use podstorm::driver::Workload;
use podstorm::intern::KeyId;
use podstorm_apiserver::{Commit, CommitObserver};
use podstorm_objects::Now;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Observer, Origin, Origins, SyncId};
use podstorm_sim::faults::BatchPosition;
use podstorm_sim::lock;

use super::{Simulation, Watcher};
use crate::invariants::{Checked, Checker};

/// The invariants of one workload. Every method except [`missing`](Judge::missing) is optional.
pub trait Judge: Debug + Send + 'static {
    /// The workload that the judge knows.
    type Workload: Workload;

    /// Called before a sync begins.
    fn begins(&mut self, sync: SyncId, workload: &Self::Workload, queue: usize, key: KeyId) {
        let _ = (sync, workload, queue, key);
    }

    /// Checks a commit of any object; `sync` is the sync of the workload that requested it, if
    /// there is one.
    ///
    /// # Errors
    /// Fails with the invariant that the commit violates.
    fn committed(&mut self, commit: &Commit, sync: Option<SyncId>) -> Checked {
        let _ = (commit, sync);
        Ok(())
    }

    /// Records the answer to a request of a sync.
    fn answered(&mut self, sync: SyncId, request: &Request, answer: &Answer) {
        let _ = (sync, request, answer);
    }

    /// Called after a sync has ended.
    ///
    /// # Errors
    /// Fails with the invariant that the sync violated.
    fn ended(&mut self, sync: SyncId) -> Checked {
        let _ = sync;
        Ok(())
    }

    /// Returns the first deviation from the required state at rest, if there is any.
    fn missing(&self, simulation: &Simulation) -> Option<String>;

    /// Returns the situations of the workload that occurred.
    fn situations(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the [figures](crate::verdict::Verdict::figures) of the workload.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// Returns the requests that a test plants in place of this request; `None` keeps it.
    #[cfg(test)]
    fn plants(request: &Request) -> Option<Vec<Request>> {
        let _ = request;
        None
    }

    /// Called when a sync begins, so that a test can corrupt the workload.
    #[cfg(test)]
    fn spoils(workload: &Self::Workload, queue: usize, key: KeyId, now: Now) {
        let _ = (workload, queue, key, now);
    }
}

/// A watcher that puts a judge on top of another watcher.
#[derive(Debug)]
pub struct Beside<J, W = Checker> {
    below: Arc<W>,
    checker: Arc<Checker>,
    state: Mutex<State<J>>,
}

#[derive(Debug)]
struct State<J> {
    judge: J,
    /// The origin of the next commits; `None` if they are not of the judge's workload.
    origin: Option<Origin>,
}

impl<J: Judge, W: Watcher> Beside<J, W> {
    /// Returns a watcher with a judge on top of the watcher of the workload below, or of only a
    /// [`Checker`].
    pub fn new(below: W, judge: J) -> Arc<Beside<J, W>> {
        let below = Arc::new(below);
        Arc::new(Beside {
            checker: Arc::clone(&below).checker(),
            below,
            state: Mutex::new(State {
                judge,
                origin: None,
            }),
        })
    }

    fn state(&self) -> MutexGuard<'_, State<J>> {
        lock(&self.state)
    }
}

impl<J: Judge, W: Watcher + Debug> Watcher for Beside<J, W> {
    fn checker(self: Arc<Self>) -> Arc<Checker> {
        Arc::clone(&self.checker)
    }

    fn of_orphans(self: Arc<Self>) -> Arc<dyn Origins> {
        Arc::clone(&self.below).of_orphans()
    }

    fn observe(self: Arc<Self>, harness: &mut FaultHarness) {
        Arc::clone(&self.below).observe(harness);
        harness.observe::<J::Workload>(self);
    }

    fn missing(&self, simulation: &Simulation) -> Option<String> {
        let missing = self.below.missing(simulation);
        missing.or_else(|| self.state().judge.missing(simulation))
    }

    fn stepped(&self, simulation: &Simulation) {
        self.below.stepped(simulation);
    }

    fn compares(&self, simulation: &Simulation) {
        self.below.compares(simulation);
    }

    fn situations(&self) -> Vec<&'static str> {
        let mut situations = self.below.situations();
        situations.extend(self.state().judge.situations());
        situations
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        let mut figures = self.below.figures();
        figures.extend(self.state().judge.figures());
        figures
    }
}

impl<J: Judge, W: Watcher> CommitObserver for Beside<J, W> {
    fn committed(&self, commit: &Commit) {
        self.below.committed(commit);
        let checked = {
            let mut state = self.state();
            let sync = state.origin.map(|origin| origin.sync);
            if sync.is_some() {
                self.checker.other_committed(commit);
            }
            state.judge.committed(commit, sync)
        };
        self.checker.judge(checked, commit.now);
    }
}

impl<J: Judge, W: Watcher + Debug> Origins for Beside<J, W> {
    fn carries_out(&self, origin: Option<Origin>) {
        self.state().origin = origin;
    }
}

impl<J: Judge, W: Watcher + Debug> Observer<J::Workload> for Beside<J, W> {
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
        self.state().judge.begins(sync, workload, queue, key);
        #[cfg(test)]
        J::spoils(workload, queue, key, now);
    }

    fn sends(&self, sync: SyncId, _: &J::Workload, request: &Request, _: BatchPosition, now: Now) {
        self.checker.other_sends(sync, request, now);
    }

    #[cfg(test)]
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        J::plants(request)
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
        now: Now,
    ) {
        self.checker.other_sync_ended(sync);
        let checked = self.state().judge.ended(sync);
        self.checker.judge(checked, now);
    }
}

#[cfg(test)]
mod tests {
    use podstorm::policy::Behaviour;
    use podstorm::replicaset::{Controller, ReplicaSets};
    use podstorm_apiserver::Change;
    use podstorm_objects::{AnyObject, Pod, Resource};
    use serde_json::json;

    use super::*;
    use crate::draw::draw;
    use crate::plan::How;
    use crate::workloads::replicasets::SetChecker;

    #[derive(Debug)]
    struct Indifferent;

    impl Judge for Indifferent {
        type Workload = Controller;

        fn missing(&self, _: &Simulation) -> Option<String> {
            None
        }
    }

    #[test]
    fn the_watcher_below_sees_each_commit_once() {
        let cluster = draw::<ReplicaSets>(0, &[]).cluster;
        let below = SetChecker::new(&cluster, How::untold(Behaviour::Upstream));
        let beside = Beside::new(below, Indifferent);
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
            "uid": "web-uid", "controller": true});
        let pod = |owners: usize| -> AnyObject {
            let owners = vec![owner.clone(); owners];
            let pod = json!({"metadata": {"name": "web-1", "ownerReferences": owners}});
            Arc::new(Pod::from_json(pod).expect("a pod"))
        };
        let commits = |change, old, new| {
            let (version, now) = (1, Now::default());
            beside.committed(&Commit {
                version,
                change,
                old,
                new,
                now,
            });
        };
        commits(Change::Added, None, pod(1));
        let (verdict, _) = Arc::clone(&beside).checker().verdict();
        assert_eq!((verdict.peak_pods, verdict.violation), (1, None));
        commits(Change::Modified, Some(pod(1)), pod(2));
        let (verdict, _) = Arc::clone(&beside).checker().verdict();
        assert_eq!(verdict.violation.map(|it| it.invariant), Some("I5"));
    }
}
