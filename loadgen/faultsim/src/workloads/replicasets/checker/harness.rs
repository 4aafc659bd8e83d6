//! A test harness: a checker for handwritten histories.

use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{Answer, Request};
use podstorm::informer::AnyInformer;
use podstorm::intern::KeyId;
use podstorm::policy::Behaviour;
use podstorm::replicaset::{Controller, ControllerOptions, ReplicaSetSync, ReplicaSets};
use podstorm_apiserver::{Change, Commit, CommitObserver};
use podstorm_objects::{AnyObject, Kind, Now, Pod, ReplicaSet, Resource, Uid};
use podstorm_sim::engine::observer::{Observer, Origin, Origins, SyncId};
use podstorm_sim::faults::BatchPosition;
use serde_json::{Value, json};

use super::super::kinds::replica_set;
use super::SetChecker;
use crate::draw::draw;
use crate::objects::{NAMESPACE, controlled_by, pod, with};
use crate::plan::How;

pub(super) const NOW: Now = Now {
    mono_ns: 5_000_000_000,
    wall_ns: 1_700_000_000_000_000_000,
};

/// A checker, with a controller whose caches the test fills and a server whose commits the test
/// writes.
pub(super) struct CheckerHarness {
    pub(super) checker: SetChecker,
    pub(super) controller: Arc<Controller>,
    owners: Arc<dyn AnyInformer>,
    pub(super) version: u64,
    syncs: u64,
}

impl CheckerHarness {
    pub(super) fn new(behaviour: Behaviour) -> CheckerHarness {
        CheckerHarness::for_kind(Kind::REPLICA_SET, behaviour)
    }

    /// Returns a harness whose controller has begun a sync of `web`, with the given number of
    /// replicas and pods.
    pub(super) fn syncing(
        behaviour: Behaviour,
        replicas: i32,
        pods: &[&str],
    ) -> (CheckerHarness, SyncId) {
        let mut harness = CheckerHarness::new(behaviour);
        harness.seen_set(replicas);
        for name in pods {
            harness.known(name, json!({}));
        }
        let sync = harness.sync();
        (harness, sync)
    }

    /// Returns a harness with a ReplicaSet controller. `gate` turns the consistency gate on or off.
    pub(super) fn gated(behaviour: Behaviour, gate: bool) -> CheckerHarness {
        CheckerHarness::made(Kind::REPLICA_SET, behaviour, Some(gate))
    }

    /// Returns a harness with a controller of this kind.
    pub(super) fn for_kind(kind: Kind, behaviour: Behaviour) -> CheckerHarness {
        CheckerHarness::made(kind, behaviour, None)
    }

    fn made(kind: Kind, behaviour: Behaviour, gate: Option<bool>) -> CheckerHarness {
        let mut cluster = draw::<ReplicaSets>(0, &[]).cluster;
        cluster.burst_replicas = 500;
        let drawn = &mut cluster.stale_controller_consistency;
        *drawn = gate.unwrap_or(*drawn);
        let options = ControllerOptions {
            policy: behaviour.policy(),
            ..ControllerOptions::new(kind)
        };
        let (controller, owners) = Controller::alone(options, Arc::new(PodCache::new()));
        CheckerHarness {
            checker: SetChecker::new(&cluster, How::untold(behaviour)),
            controller,
            owners,
            version: 0,
            syncs: 0,
        }
    }

    /// Returns the number of the violated invariant; `None` if no invariant is violated.
    pub(super) fn verdict(&self) -> Option<&'static str> {
        self.checker.verdict().0.violation.map(|it| it.invariant)
    }

    pub(super) fn key(&self) -> KeyId {
        self.controller.owners().intern(NAMESPACE, "web")
    }

    pub(super) fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(super) fn commit(
        &self,
        change: Change,
        old: Option<AnyObject>,
        new: AnyObject,
        by: Option<Origin>,
    ) {
        self.checker.carries_out(by);
        self.checker.committed(&Commit {
            version: self.version,
            change,
            old,
            new,
            now: NOW,
        });
        self.checker.carries_out(None);
    }

    /// Writes the ReplicaSet `web`.
    pub(super) fn set(&mut self, uid: &str, replicas: i32, more: Value) -> Arc<ReplicaSet> {
        let metadata = json!({"metadata": {
            "uid": uid, "generation": 1, "resourceVersion": self.next_version(),
        }});
        let value = with(with(replica_set("web", "web", replicas), metadata), more);
        let set = Arc::new(ReplicaSet::from_json(value).unwrap());
        self.commit(Change::Added, None, set.clone(), None);
        set
    }

    /// Writes the ReplicaSet `web`, and updates the controller's cache.
    pub(super) fn seen_set(&mut self, replicas: i32) -> Arc<ReplicaSet> {
        let set = self.set("web-uid", replicas, json!({}));
        self.see_set(&set);
        set
    }

    pub(super) fn see_set(&self, set: &Arc<ReplicaSet>) {
        self.owners.apply(Delta::Applied(set.clone()), NOW);
    }

    pub(super) fn pod(&mut self, name: &str, owner: Option<&str>, more: Value) -> Arc<Pod> {
        let metadata = json!({"metadata": {
            "uid": format!("{name}-uid"), "resourceVersion": self.next_version(),
        }});
        let owner = owner.map(|uid| controlled_by(Kind::REPLICA_SET, "web", uid));
        let value = with(with(pod(name, "web"), metadata), owner.unwrap_or(json!({})));
        let value = with(value, more);
        Arc::new(Pod::from_json(value).unwrap())
    }

    /// Creates a pod on the server, as the given sync or as a user.
    pub(super) fn created(
        &mut self,
        name: &str,
        owner: Option<&str>,
        by: Option<SyncId>,
    ) -> Arc<Pod> {
        let pod = self.pod(name, owner, json!({}));
        self.commit(Change::Added, None, pod.clone(), by.map(origin));
        pod
    }

    /// Creates a pod of `web` on the server and in the cache.
    pub(super) fn known(&mut self, name: &str, more: Value) -> Arc<Pod> {
        let pod = self.pod(name, Some("web-uid"), more);
        self.commit(Change::Added, None, pod.clone(), None);
        self.controller
            .pods()
            .apply(Delta::Applied(Arc::clone(&pod)));
        pod
    }

    pub(super) fn removed(&mut self, pod: &Arc<Pod>, by: Option<SyncId>) {
        let mut last = Pod::clone(pod);
        self.version += 1;
        last.metadata.resource_version = self.version.into();
        let last = Arc::new(last);
        let old = Some(pod.clone() as AnyObject);
        self.commit(Change::Deleted, old, last, by.map(origin));
    }

    pub(super) fn changed(&mut self, old: &Arc<Pod>, new: &Arc<Pod>, by: SyncId) {
        let change = Change::Modified;
        let before = Some(old.clone() as AnyObject);
        self.commit(change, before, new.clone(), Some(origin(by)));
    }

    pub(super) fn sync(&mut self) -> SyncId {
        self.syncs += 1;
        let sync = SyncId {
            incarnation: 0,
            kind: self.controller.options().kind,
            number: self.syncs,
        };
        self.checker
            .sync_begins(sync, &self.controller, 0, self.key(), NOW);
        sync
    }

    pub(super) fn sends(&self, sync: SyncId, request: &Request, batch: u32) {
        let place = BatchPosition { batch, index: 0 };
        self.checker
            .sends(sync, &self.controller, request, place, NOW);
    }

    pub(super) fn answered(&self, sync: SyncId, request: &Request, answer: &Answer) {
        self.checker.answered(sync, request, answer, NOW);
    }

    pub(super) fn ended(&self, sync: SyncId) {
        self.checker
            .sync_ended(sync, &self.controller, &ReplicaSetSync::default(), NOW);
    }
}

pub(super) fn origin(sync: SyncId) -> Origin {
    Origin {
        sync,
        orphaned: false,
    }
}

pub(super) fn create() -> Request {
    Request::CreatePod {
        namespace: NAMESPACE.into(),
        pod: Arc::new(Pod::default()),
        name: None,
    }
}

pub(super) fn delete(name: &str, uid: Option<&str>) -> Request {
    Request::DeletePod {
        namespace: NAMESPACE.into(),
        name: name.into(),
        uid: uid.map(Uid::new),
    }
}

/// Returns the request that a sync of `web` sends before an adoption.
pub(super) fn look() -> Request {
    Request::Get {
        kind: Kind::REPLICA_SET,
        namespace: NAMESPACE.into(),
        name: "web".into(),
    }
}
