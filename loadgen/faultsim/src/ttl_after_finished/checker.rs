//! Looks at every commit of the TTL-after-finished controller, and hands all commits on to the checker of
//! ReplicaSets, which keeps what came of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Answer, Request};
use podstorm::driver::{AsyncSync, Workload as _};
use podstorm::intern::KeyId;
use podstorm::ttl_after_finished::Controller;
use podstorm_apiserver::{Change, Commit, CommitObserver};
use podstorm_objects::{DynamicObject, Kind, Now};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Observer, Origin, SyncId};
use podstorm_sim::faults::BatchPosition;

use super::users::{expiry_ns, is_over, jobs};
use crate::invariants::Checker;
use crate::simulation::{Simulation, Watcher};

/// What does not hold, if anything.
type Checked = Result<(), (&'static str, String)>;

/// Checks the invariants of a run.
#[derive(Debug)]
pub struct JobChecker {
    checker: Arc<Checker>,
    /// How far ahead the controller's clock may be, ns.
    ahead_ns: i64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    origin: Option<Origin>,
    /// The Job that a sync has read. Kept after the sync has ended: its deletion may be carried out late.
    read: BTreeMap<SyncId, Arc<DynamicObject>>,
    situations: BTreeSet<&'static str>,
}

impl JobChecker {
    /// A checker beside that of ReplicaSets, of a run in which clocks are that far ahead at most, ns.
    pub(super) fn new(checker: Arc<Checker>, ahead_ns: i64) -> JobChecker {
        JobChecker {
            checker,
            ahead_ns,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no thread panics while it holds this lock")
    }
}

impl State {
    /// A commit of a Job, of the controller or of others.
    fn committed(&mut self, commit: &Commit, job: &DynamicObject, ahead_ns: i64) -> Checked {
        let Some(origin) = self.origin else {
            return Ok(());
        };
        let name = &job.metadata.name;
        let is_deletion = commit.change == Change::Deleted || job.metadata.is_deleting();
        if !is_deletion {
            return Err(("T1", format!("{name} was written, and not deleted")));
        }
        let Some(read) = self.read.get(&origin.sync) else {
            return Err(("T1", format!("{name} was deleted and never read")));
        };
        if read.metadata.uid != job.metadata.uid {
            return Err(("T1", format!("another {name} was deleted than was read")));
        }
        let latest_ns = commit.now.wall_ns.saturating_add(ahead_ns);
        if !is_over(read, latest_ns) {
            let expiry_ns = expiry_ns(read);
            return Err((
                "T2",
                format!("{name} was deleted at {latest_ns} ns, and its TTL ends at {expiry_ns:?}"),
            ));
        }
        self.situations.insert("a Job is deleted after its TTL");
        let old = commit.old.clone();
        let old = old.and_then(|old| old.downcast::<DynamicObject>());
        if old.is_some_and(|old| !old.metadata.is_deleting() && !is_over(&old, latest_ns)) {
            let raised = "a TTL is raised between the read and the deletion";
            self.situations.insert(raised);
        }
        Ok(())
    }
}

impl Watcher for JobChecker {
    fn checker(self: Arc<Self>) -> Arc<Checker> {
        Arc::clone(&self.checker)
    }

    fn observe(self: Arc<Self>, harness: &mut FaultHarness) {
        harness.observe::<Controller>(self);
    }

    fn missing(&self, simulation: &Simulation) -> Option<String> {
        let wall_ns = simulation.harness.now().wall_ns;
        let all = jobs(simulation.harness.cluster());
        let left = all.iter().find_map(|job| {
            let name = &job.metadata.name;
            if job.metadata.is_deleting() {
                return Some(format!("{name} is still being deleted"));
            }
            is_over(job, wall_ns).then(|| format!("{name} is there after its TTL"))
        });
        simulation.missing().or(left)
    }

    fn situations(&self) -> Vec<&'static str> {
        self.state().situations.iter().copied().collect()
    }
}

impl CommitObserver for JobChecker {
    fn committed(&self, commit: &Commit) {
        self.checker.committed(commit);
        if commit.new.kind() != Kind::JOB {
            return;
        }
        let Some(job) = commit.new.clone().downcast::<DynamicObject>() else {
            return;
        };
        let checked = self.state().committed(commit, &job, self.ahead_ns);
        if let Err((invariant, text)) = checked {
            self.checker.fail(invariant, text, commit.now);
        }
    }
}

impl Observer<Controller> for JobChecker {
    fn sync_begins(&self, sync: SyncId, job: &Controller, queue: usize, key: KeyId, now: Now) {
        let name = job.name(queue, key).name.to_string();
        self.checker.other_sync_begins(sync, &name, true, now);
    }

    fn sends(&self, sync: SyncId, _: &Controller, request: &Request, _: BatchPosition, now: Now) {
        self.checker.other_sends(sync, request, now);
    }

    #[cfg(test)]
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        super::tests::requests(request)
    }

    fn carries_out(&self, origin: Option<Origin>) {
        self.state().origin = origin;
    }

    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now) {
        self.checker.other_answered(sync, request, answer, now);
        if let Answer::Object(object) = answer
            && let Some(job) = object.clone().downcast::<DynamicObject>()
        {
            self.state().read.insert(sync, job);
        }
    }

    fn sync_ended(&self, sync: SyncId, _: &Controller, _: &AsyncSync, _: Now) {
        self.checker.other_sync_ended(sync);
    }
}
