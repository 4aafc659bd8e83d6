//! The controller of ReplicaSets (or, through the same code, of ReplicationControllers): event
//! handlers, the work queue, and the sync that a worker drives.
//!
//! ```text
//! delta ─▶ cache ─change─▶ handlers ─key─▶ queue ─key─▶ begin ─requests─▶ driver
//!                             │ observe                   ▲                 │
//!                             ▼                           └── resume ◀──answers
//!                        expectations ◀──────── expect ──────┘
//! ```
//!
//! Nothing here does I/O or reads a clock. A driver carries out the requests of a [`Sync`] and
//! feeds the answers; see [`Controller::begin`]. Different keys share no lock on this path but
//! those inside the queue's growth and the string border.

mod adapter;
mod deletion_order;
mod handlers;
mod hardened;
mod key;
mod listed;
mod metrics;
mod parents;
pub mod reconcile;
mod retired;
#[cfg(test)]
mod rig;
mod scale;
mod status;
#[cfg(test)]
mod status_tests;
mod steps;
mod sync;

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{AnyObject, Kind, Now, Object, ReplicaSet, ResourceVersion};
use podstorm_runtime::consistency::ConsistencyStore;
use podstorm_runtime::driver::Workload;
use podstorm_runtime::expectations::Expectations;
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::limits::BURST_REPLICAS;
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::cache::{Delta, Listed, PodCache, PodChange};
use crate::policy::{Behaviour, Policy};
use crate::ranking::RankFields;
use hardened::Hardened;
use retired::Retired;

pub use adapter::as_replica_set;
pub use deletion_order::{DeletionOrder, Ranked};
pub use key::{KeyError, parse_key};
pub use metrics::ControllerMetrics;
pub use parents::{Parent, ParentChange, ParentStore};
pub use podstorm_runtime::driver::Step;
pub use sync::{Outcome, Sync, SyncError, SyncErrorClass};

/// What a controller is told at its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// Which kind it controls: `ReplicaSet` or `ReplicationController`.
    pub kind: Kind,
    /// Most pods created or deleted in one sync; upstream compiles in 500.
    pub burst_replicas: usize,
    /// The feature gates that change behaviour.
    pub gates: Gates,
    /// The rows of upstream's behaviour, of the hardened one, or of one that a test has made.
    pub policy: Policy,
}

/// The feature gates that change this controller's behaviour, under upstream's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `PodDeletionCost`: the annotation counts in ranking.
    pub pod_deletion_cost: bool,
    /// `DeploymentReplicaSetTerminatingReplicas`: `status.terminatingReplicas` is kept.
    pub terminating_replicas: bool,
    /// `StaleControllerConsistencyReplicaSet`: a sync waits until the caches have its last writes.
    pub stale_controller_consistency: bool,
}

impl Default for Gates {
    /// As in Kubernetes 1.36: all on.
    fn default() -> Self {
        Gates {
            pod_deletion_cost: true,
            terminating_replicas: true,
            stale_controller_consistency: true,
        }
    }
}

impl ControllerOptions {
    /// Upstream's defaults for a kind.
    pub fn new(kind: Kind) -> ControllerOptions {
        ControllerOptions {
            kind,
            burst_replicas: BURST_REPLICAS,
            gates: Gates::default(),
            policy: Behaviour::Upstream.policy(),
        }
    }
}

/// The name under which a pod is waited for: its name, in the namespace of the key.
pub type PodName = CompactString;

/// A controller over a pod cache that it may share with others.
#[derive(Debug)]
pub struct Controller {
    options: ControllerOptions,
    /// Whether read-your-writes records are kept: upstream never does for ReplicationControllers.
    keeps_records: bool,
    parents: ParentStore,
    expectations: Expectations<KeyId, PodName>,
    consistency: ConsistencyStore<KeyId>,
    hardened: Hardened,
    retired: Retired,
    queue: RateLimitingQueue<KeyId>,
    metrics: ControllerMetrics,
}

impl Controller {
    /// A controller with an empty store of parents over that pod cache.
    ///
    /// # Panics
    /// When the kind is neither ReplicaSet nor ReplicationController.
    pub fn new(options: ControllerOptions, pods: Arc<PodCache>) -> Controller {
        assert!(
            [Kind::REPLICA_SET, Kind::REPLICATION_CONTROLLER].contains(&options.kind),
            "only ReplicaSets and ReplicationControllers are controlled"
        );
        let kinds = [Kind::POD, options.kind];
        let hardened = Hardened::new(options.policy, kinds);
        let of_upstream =
            options.gates.stale_controller_consistency && options.kind == Kind::REPLICA_SET;
        Controller {
            parents: ParentStore::new(options.kind, pods),
            keeps_records: hardened.records_every_write() || of_upstream,
            options,
            expectations: Expectations::new(),
            consistency: ConsistencyStore::new(kinds),
            hardened,
            retired: Retired::default(),
            queue: RateLimitingQueue::new(),
            metrics: ControllerMetrics::new(),
        }
    }

    /// What it was told.
    pub fn options(&self) -> &ControllerOptions {
        &self.options
    }

    /// The cached parents.
    pub fn parents(&self) -> &ParentStore {
        &self.parents
    }

    /// The pod cache.
    pub fn pods(&self) -> &Arc<PodCache> {
        self.parents.pods()
    }

    /// The expectations.
    pub fn expectations(&self) -> &Expectations<KeyId, PodName> {
        &self.expectations
    }

    /// The read-your-writes records.
    pub fn consistency(&self) -> &ConsistencyStore<KeyId> {
        &self.consistency
    }

    /// The work queue.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.queue
    }

    /// The controller's own metrics; the queue has its own.
    pub fn metrics(&self) -> &ControllerMetrics {
        &self.metrics
    }

    /// Applies one watch event of a parent to the store and handles the change.
    pub fn parent_delta(&self, delta: Delta<ReplicaSet>, now: Now) {
        if let Delta::Applied(object) = &delta {
            self.reuse_key(&object.metadata, now);
        }
        self.parent_changed(&self.parents.apply(delta), now);
    }

    /// Replaces the parents by a list and handles every change.
    pub fn parent_replace(&self, items: Vec<Arc<ReplicaSet>>, version: &ResourceVersion, now: Now) {
        for item in &items {
            self.reuse_key(&item.metadata, now);
        }
        for change in self.parents.replace(items, version) {
            self.parent_changed(&change, now);
        }
    }

    /// The periodic resync of the parents (upstream: every 12 to 24 hours): every key is added.
    /// The pods' resync, [`PodCache::resync`], changes nothing: pods of an equal version are ignored.
    pub fn parent_resync(&self, now: Now) {
        for change in self.parents.resync() {
            self.parent_changed(&change, now);
        }
    }

    /// Advances the version of the parents' store without a change.
    pub fn parent_bookmark(&self, version: &ResourceVersion) {
        self.parents.version().set(version);
    }

    /// Takes the key of a finished sync out of the queue's hands: forgotten when it went well,
    /// else retried after a growing delay.
    pub fn finish(&self, sync: &mut Sync, now: Now) {
        self.retry(sync, now);
        self.queue.done(sync.key(), now.mono_ns);
    }
}

impl Workload for Controller {
    type Fields = RankFields;
    type Sync = Sync;

    fn kind(&self) -> Kind {
        self.options.kind
    }

    fn name(&self, key: KeyId) -> ObjectKey {
        self.parents.name(key)
    }

    fn object_changed(&self, delta: Delta<dyn Object>, now: Now) {
        // An informer of our kind hears of no other.
        let delta = match delta {
            Delta::Applied(object) => as_replica_set(&object).map(Delta::Applied),
            Delta::Deleted(object) => as_replica_set(&object).map(Delta::Deleted),
        };
        if let Some(delta) = delta {
            self.parent_delta(delta, now);
        }
    }

    fn objects_listed(&self, objects: Vec<AnyObject>, version: &ResourceVersion, now: Now) {
        let sets = objects.iter().filter_map(as_replica_set).collect();
        self.parent_replace(sets, version, now);
    }

    fn bookmark(&self, version: &ResourceVersion) {
        self.parent_bookmark(version);
    }

    #[inline]
    fn pod_changed(&self, change: &PodChange, now: Now) {
        Controller::pod_changed(self, change, now);
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        Controller::pods_listed(self, listed, now);
    }

    #[inline]
    fn queue(&self) -> &RateLimitingQueue<KeyId> {
        Controller::queue(self)
    }

    #[inline]
    fn begin(&self, key: KeyId, sync: &mut Sync, now: Now) -> Step {
        Controller::begin(self, key, sync, now)
    }

    #[inline]
    fn resume(&self, sync: &mut Sync, now: Now) -> Step {
        Controller::resume(self, sync, now)
    }

    #[inline]
    fn finish(&self, sync: &mut Sync, now: Now) {
        Controller::finish(self, sync, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use podstorm_objects::{Pod, Uid};
    use podstorm_runtime::workqueue::Take;

    #[test]
    fn a_resync_adds_every_parent_and_no_key_for_pods() {
        let pods = Arc::new(PodCache::new());
        let controller = Controller::new(ControllerOptions::new(Kind::REPLICA_SET), pods.clone());
        let now = Now::default();
        for name in ["a", "b"] {
            let mut parent = ReplicaSet::default();
            parent.metadata.name = name.into();
            parent.metadata.namespace = "ns".into();
            parent.metadata.uid = Uid::new(name);
            controller.parent_delta(Delta::Applied(Arc::new(parent)), now);
        }
        let mut pod = Pod::default();
        pod.metadata.name = "p".into();
        pod.metadata.namespace = "ns".into();
        controller.pod_changed(&pods.apply(Delta::Applied(Arc::new(pod))), now);
        while let Take::Key(key) = controller.queue().try_take(0) {
            controller.queue().done(key, 0);
        }
        for change in pods.resync() {
            controller.pod_changed(&change, now);
        }
        assert_eq!(controller.queue().len(), 0);
        controller.parent_resync(now);
        assert_eq!(controller.queue().len(), 2);
    }
}
