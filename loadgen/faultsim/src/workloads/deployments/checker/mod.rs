//! The checker of Deployments: checks every commit of the Deployment controller, in order, and
//! passes all events on to the checker of ReplicaSets, which holds the result of the run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Answer, Request};
use podstorm::deployment;
use podstorm::driver::AsyncSync;
use podstorm::intern::KeyId;
use podstorm::replicaset::{Controller, ReplicaSetSync};
use podstorm_apiserver::{Change, Cluster, Commit, CommitObserver};
use podstorm_objects::{Deployment, DeploymentCondition, Kind, Now, Pod, Reason, ReplicaSet, Uid};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Observer, Origin, Origins, SyncId};
use podstorm_sim::faults::BatchPosition;
use podstorm_sim::lock;

use super::ending;
use super::users::deployments;
use crate::invariants::{Checked, Checker};
use crate::objects::NAMESPACE;
use crate::simulation::{Simulation, Watcher};
use crate::workloads::replicasets::SetChecker;

mod checks;
mod seen;

use seen::Seen;

/// Checks the invariants of Deployments in a run.
#[derive(Debug)]
pub struct RolloutChecker {
    checker: Arc<SetChecker>,
    state: Mutex<State>,
}

/// The server's state at the last commit, and the view of each sync.
#[derive(Debug, Default)]
struct State {
    origin: Option<Origin>,
    deployments: BTreeMap<Uid, Arc<Deployment>>,
    sets: BTreeMap<Uid, Arc<ReplicaSet>>,
    /// The pods of each controller, by the controller's UID.
    pods: BTreeMap<Uid, BTreeMap<Uid, Arc<Pod>>>,
    /// The UID of the controller of each pod.
    controllers: BTreeMap<Uid, Uid>,
    /// The view of each sync. Kept after a sync has ended, because its requests may be carried out
    /// late.
    seen: BTreeMap<SyncId, Seen>,
    situations: BTreeSet<&'static str>,
    /// The controller that last began a sync.
    controller: Option<deployment::Controller>,
}

impl RolloutChecker {
    /// Returns a checker on top of the checker of ReplicaSets.
    pub fn new(checker: Arc<SetChecker>) -> RolloutChecker {
        RolloutChecker {
            checker,
            state: Mutex::default(),
        }
    }

    /// Returns the first difference between the Deployment controller's caches and the server, if
    /// there is any. While there is one, pending events may cause more work.
    pub(super) fn behind(&self, cluster: &Cluster) -> Option<String> {
        let controller = self.state().controller.clone()?;
        let (sets, _) = cluster.list::<ReplicaSet>(Some(NAMESPACE));
        deployments(cluster).iter().find_map(|deployment| {
            let meta = &deployment.metadata;
            let behind = || Some(format!("a cache is stale: {}", meta.name));
            let key = controller.key(&meta.namespace, &meta.name);
            let Some((cached, cached_sets)) = controller.cached(key) else {
                return behind();
            };
            if cached.metadata.resource_version != meta.resource_version {
                return behind();
            }
            let is_candidate = |set: &&Arc<ReplicaSet>| {
                let owner = set.metadata.controller();
                owner.is_none_or(|owner| owner.uid == meta.uid)
            };
            let version = |set: &Arc<ReplicaSet>| set.metadata.resource_version.number();
            let there: BTreeSet<_> = sets.iter().filter(is_candidate).map(version).collect();
            let known: BTreeSet<_> = cached_sets.iter().map(version).collect();
            let name = &meta.name;
            (there != known).then(|| format!("a cache is stale: ReplicaSets of {name}"))
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn check(&self, now: Now, check: impl FnOnce(&mut State) -> Checked) {
        let checked = check(&mut self.state());
        self.checker.judge(checked, now);
    }
}

impl State {
    /// Checks a commit of a sync, and records it.
    fn committed(&mut self, commit: &Commit) -> Checked {
        let is_gone = commit.change == Change::Deleted;
        let kind = commit.new.kind();
        if let Some((_, new)) = commit.downcast::<Pod>() {
            self.pod_committed(new, is_gone);
            return Ok(());
        }
        let origin = self.origin.filter(|it| it.sync.kind == Kind::DEPLOYMENT);
        let sync = origin.map(|it| it.sync);
        if kind == Kind::REPLICA_SET {
            let new: Arc<ReplicaSet> = commit
                .new
                .clone()
                .downcast()
                .expect("the object has this kind");
            let old = commit.old.clone().and_then(|old| old.downcast());
            let checked = match sync {
                Some(sync) => self.set_written(sync, old.as_ref(), &new, is_gone, commit.now),
                None => Ok(()),
            };
            let uid = new.metadata.uid.clone();
            if is_gone {
                self.sets.remove(&uid);
                self.pods.remove(&uid);
            } else {
                self.sets.insert(uid, new);
            }
            return checked;
        }
        if kind == Kind::DEPLOYMENT
            && let Some(new) = Deployment::from_object(&commit.new)
        {
            let uid = new.metadata.uid.clone();
            let checked = match (sync, self.deployments.get(&uid)) {
                (Some(sync), Some(old)) => self.deployment_written(sync, &Arc::clone(old), &new),
                _ => Ok(()),
            };
            if is_gone {
                self.deployments.remove(&uid);
            } else {
                self.deployments.insert(uid, new);
            }
            return checked;
        }
        Ok(())
    }

    /// Records that a sync could not create a ReplicaSet because the name exists.
    fn found(&mut self, sync: SyncId, name: &str) {
        let Some(seen) = self.seen.get_mut(&sync) else {
            return;
        };
        let namespace = &seen.deployment.metadata.namespace;
        let controller = self.controller.as_ref();
        if let Some(cached) = controller.and_then(|it| it.cached_set(namespace, name)) {
            seen.find(cached);
        }
    }

    fn pod_committed(&mut self, pod: &Pod, is_gone: bool) {
        let uid = &pod.metadata.uid;
        let before = self.controllers.remove(uid);
        if let Some(pods) = before.and_then(|owner| self.pods.get_mut(&owner)) {
            pods.remove(uid);
        }
        let owner = pod.metadata.controller().map(|owner| owner.uid.clone());
        // Pods of deleted owners don't count.
        let owner = owner.filter(|owner| !is_gone && self.sets.contains_key(owner));
        if let Some(owner) = owner {
            self.controllers.insert(uid.clone(), owner.clone());
            let pods = self.pods.entry(owner).or_default();
            pods.insert(uid.clone(), Arc::new(pod.clone()));
        }
    }
}

impl Watcher for RolloutChecker {
    fn checker(self: Arc<Self>) -> Arc<Checker> {
        Arc::clone(&self.checker).checker()
    }

    fn of_orphans(self: Arc<Self>) -> Arc<dyn Origins> {
        self
    }

    fn observe(self: Arc<Self>, harness: &mut FaultHarness) {
        harness.observe::<Controller>(Arc::clone(&self) as _);
        harness.observe::<deployment::Controller>(self);
    }

    fn missing(&self, simulation: &Simulation) -> Option<String> {
        ending::missing(simulation, self)
    }

    fn situations(&self) -> Vec<&'static str> {
        self.state().situations.iter().copied().collect()
    }
}

impl CommitObserver for RolloutChecker {
    fn committed(&self, commit: &Commit) {
        self.checker.committed(commit);
        self.check(commit.now, |state| state.committed(commit));
    }
}

impl Origins for RolloutChecker {
    fn carries_out(&self, origin: Option<Origin>) {
        self.state().origin = origin;
        // For the checker of ReplicaSets, the Deployment controller is a user.
        let of_sets = origin.filter(|it| it.sync.kind != Kind::DEPLOYMENT);
        self.checker.carries_out(of_sets);
    }
}

impl Observer<Controller> for RolloutChecker {
    fn sync_begins(
        &self,
        sync: SyncId,
        controller: &Controller,
        queue: usize,
        key: KeyId,
        now: Now,
    ) {
        self.checker.sync_begins(sync, controller, queue, key, now);
    }

    fn sends(
        &self,
        sync: SyncId,
        controller: &Controller,
        request: &Request,
        place: BatchPosition,
        now: Now,
    ) {
        self.checker.sends(sync, controller, request, place, now);
    }

    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now) {
        self.checker.answered(sync, request, answer, now);
    }

    fn sync_ended(&self, sync: SyncId, controller: &Controller, state: &ReplicaSetSync, now: Now) {
        self.checker.sync_ended(sync, controller, state, now);
    }
}

impl Observer<deployment::Controller> for RolloutChecker {
    fn sync_begins(
        &self,
        sync: SyncId,
        controller: &deployment::Controller,
        _: usize,
        key: KeyId,
        now: Now,
    ) {
        let Some((deployment, sets)) = controller.cached(key) else {
            return;
        };
        let name = deployment.metadata.name.clone();
        let repeats = !is_looked_at_without_end(&deployment);
        self.checker.other_sync_begins(sync, &name, repeats, now);
        let seen = Seen::new(deployment, sets);
        let mut state = self.state();
        state.controller = Some(controller.clone());
        state.seen.insert(sync, seen);
    }

    fn sends(
        &self,
        sync: SyncId,
        _: &deployment::Controller,
        request: &Request,
        _: BatchPosition,
        now: Now,
    ) {
        self.checker.other_sends(sync, request, now);
    }

    #[cfg(test)]
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        super::planted_tests::requests(request)
    }

    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now) {
        self.checker.other_answered(sync, request, answer, now);
        if let Request::PatchOwners { name, .. } = request
            && let Some(seen) = self.state().seen.get_mut(&sync)
        {
            match answer {
                Answer::Failed(_) => seen.adopt_failed(name),
                // If the ReplicaSet was adopted earlier, without the sync having seen it, it is not
                // written again.
                _ => seen.adopt(name),
            }
        }
        if let (Request::Create { object }, Answer::Failed(error)) = (request, answer)
            && error.reason == Reason::AlreadyExists
        {
            self.state().found(sync, &object.metadata().name);
        }
    }

    fn sync_ended(
        &self,
        sync: SyncId,
        controller: &deployment::Controller,
        state: &AsyncSync,
        now: Now,
    ) {
        #[cfg(test)]
        if let Some(seen) = self.state().seen.get(&sync) {
            super::planted_tests::sync_ended(controller, &seen.deployment, now);
        }
        #[cfg(not(test))]
        let _ = controller;
        let has_failed = state.failure().is_some();
        self.checker.other_sync_ended(sync);
        self.check(now, |state| state.sync_ended(sync, has_failed));
    }
}

/// Reports whether hazard H1 of the controller's specification affects the Deployment: a completed
/// rollout whose pods are no longer all available is synced every few milliseconds. A failing
/// request of such a sync is repeated as often.
fn is_looked_at_without_end(deployment: &Deployment) -> bool {
    let (status, wanted) = (&deployment.status, deployment.replicas());
    let was_over = |it: &DeploymentCondition| {
        *it.kind == *"Progressing" && *it.reason == *"NewReplicaSetAvailable"
    };
    let counts = [
        status.replicas,
        status.updated_replicas,
        status.available_replicas,
    ];
    status.conditions.iter().any(was_over)
        && (counts != [wanted; 3] || status.observed_generation < deployment.metadata.generation)
}
