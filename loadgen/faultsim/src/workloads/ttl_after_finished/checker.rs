//! The checks of the invariants for commits of the TTL-after-finished controller.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::ttl_after_finished::Controller;
use podstorm_apiserver::{Change, Commit};
use podstorm_objects::{DynamicObject, Kind};
use podstorm_sim::engine::observer::SyncId;

use super::users::{expiry_ns, is_over, jobs};
use crate::simulation::{Checked, Judge, Simulation};

/// Checks the invariants T1 and T2 in a run.
#[derive(Debug)]
pub struct JobJudge {
    /// The maximum time by which the controller's clock is ahead, ns.
    ahead_ns: i64,
    /// The Job that each sync has read. Kept after the sync has ended, because the sync's deletion
    /// may be carried out late.
    read: BTreeMap<SyncId, Arc<DynamicObject>>,
    situations: BTreeSet<&'static str>,
}

impl JobJudge {
    /// Returns the judge of a run in which clocks are ahead by at most `ahead_ns`.
    pub(super) fn new(ahead_ns: i64) -> JobJudge {
        JobJudge {
            ahead_ns,
            read: BTreeMap::new(),
            situations: BTreeSet::new(),
        }
    }
}

impl Judge for JobJudge {
    type Workload = Controller;

    fn committed(&mut self, commit: &Commit, sync: Option<SyncId>) -> Checked {
        let job = commit.new.clone().downcast::<DynamicObject>();
        let job = job.filter(|_| commit.new.kind() == Kind::JOB);
        let (Some(job), Some(sync)) = (job, sync) else {
            return Ok(());
        };
        let name = &job.metadata.name;
        let is_deletion = commit.change == Change::Deleted || job.metadata.is_deleting();
        if !is_deletion {
            return Err(("T1", format!("{name} was written instead of deleted")));
        }
        let Some(read) = self.read.get(&sync) else {
            return Err(("T1", format!("{name} was deleted without being read")));
        };
        if read.metadata.uid != job.metadata.uid {
            return Err(("T1", format!("another {name} was deleted than was read")));
        }
        let latest_ns = commit.now.wall_ns.saturating_add(self.ahead_ns);
        if !is_over(read, latest_ns) {
            let expiry_ns = expiry_ns(read);
            let text =
                format!("{name} was deleted at {latest_ns} ns, but its TTL ends at {expiry_ns:?}");
            return Err(("T2", text));
        }
        self.situations.insert("a Job is deleted after its TTL");
        let old = commit.old.clone();
        let old = old.and_then(|old| old.downcast::<DynamicObject>());
        if old.is_some_and(|old| !old.metadata.is_deleting() && !is_over(&old, latest_ns)) {
            let raised = "a TTL is raised between read and deletion";
            self.situations.insert(raised);
        }
        Ok(())
    }

    fn answered(&mut self, sync: SyncId, _: &Request, answer: &Answer) {
        if let Answer::Object(object) = answer
            && let Some(job) = object.clone().downcast::<DynamicObject>()
        {
            self.read.insert(sync, job);
        }
    }

    fn missing(&self, simulation: &Simulation) -> Option<String> {
        let wall_ns = simulation.harness.now().wall_ns;
        let all = jobs(simulation.harness.cluster());
        all.iter().find_map(|job| {
            let name = &job.metadata.name;
            if job.metadata.is_deleting() {
                return Some(format!("{name} is still being deleted"));
            }
            is_over(job, wall_ns).then(|| format!("{name} still exists after its TTL"))
        })
    }

    fn situations(&self) -> Vec<&'static str> {
        self.situations.iter().copied().collect()
    }

    #[cfg(test)]
    fn plants(request: &Request) -> Option<Vec<Request>> {
        super::tests::requests(request)
    }
}
