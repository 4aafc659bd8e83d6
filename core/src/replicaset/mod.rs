//! The ReplicaSet controller, which also controls ReplicationControllers: event handlers, the work
//! queue, and the sync that a worker drives.
//!
//! ```text
//! delta ─▶ cache ─change─▶ handlers ─key─▶ queue ─key─▶ begin ─requests─▶ driver
//!                             │ observe                   ▲                 │
//!                             ▼                           └── resume ◀──answers
//!                        expectations ◀──────── expect ──────┘
//! ```
//!
//! * `owners`: the cached ReplicaSets, shared by all controllers that read them; `handlers`: the
//!   events that wake a key.
//! * `sync`: the state of a sync; `steps`: the steps that a sync takes, up to its status; `scale`:
//!   counts pods and chooses the ones to delete; `reconcile`: decisions as pure functions.
//! * `hardened`: the only code that reads the policy. Other code calls it wherever the behaviours
//!   differ.
//! * `adapter`: ReplicationControllers as ReplicaSets; `row`: the rows of both controllers;
//!   `metrics`: the controller's own metrics.
//!
//! This module does no I/O and reads no clock. A driver carries out the requests of a
//! [`ReplicaSetSync`] and passes it the answers; see [`Controller::begin`].
//!
//! # Locks
//!
//! Syncs of different keys share no lock, except when the queue grows or a new name gets its key. A
//! sync takes the lock of its owner's slot in the store, the lock of the owner's pods and, if the
//! namespace has orphans, the lock of the orphans. Ranking by co-location locks the pods of each
//! owner with matching labels, one owner after the other. Handlers take the lock of the selector
//! index for an orphan, and the lock of the owner's slot when a pod has become ready.

mod adapter;
mod handlers;
mod hardened;
#[cfg(test)]
mod harness;
mod key;
mod metrics;
pub(crate) mod owners;
pub mod reconcile;
#[cfg(test)]
mod recycled_key_tests;
mod row;
mod scale;
mod steps;
mod sync;

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{Kind, Now};
use podstorm_runtime::consistency::{ConsistencyStore, Guard, GuardRules};
use podstorm_runtime::driver::Workload;
use podstorm_runtime::expectations::Expectations;
use podstorm_runtime::informer::{AnyInformer, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::limits::BURST_REPLICAS;
use podstorm_runtime::metrics::Family;
use podstorm_runtime::workqueue::{QueueRow, RateLimitingQueue};

use crate::cache::{Listed, PodCache, PodChange};
use crate::policy::{Behaviour, Policy};
use crate::ranking::RankFields;
use hardened::Hardened;

pub use adapter::as_replica_set;
pub use key::{KeyError, parse_key};
pub use metrics::ControllerMetrics;
pub use owners::{Owner, OwnerChange, OwnerContext, OwnerStore};
pub use podstorm_runtime::driver::Step;
pub use row::{
    POD_DELETION_COST, ReplicaSets, ReplicationControllers, STALE_CONSISTENCY, TERMINATING_REPLICAS,
};
pub use scale::{DeletionOrder, Ranked};
pub use sync::{Outcome, ReplicaSetSync, SyncError, SyncErrorClass};

/// Configuration of a [`Controller`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// The kind of the owners: `ReplicaSet` or `ReplicationController`.
    pub kind: Kind,
    /// The maximum number of pods created or deleted in one sync. Upstream has a constant, 500.
    pub burst_replicas: usize,
    /// The feature gates of this controller.
    pub gates: Gates,
    /// Upstream's behaviour, the hardened behaviour, or a mix of their rows.
    pub policy: Policy,
}

/// The feature gates that change this controller's behaviour, under upstream's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gates {
    /// `PodDeletionCost`: the annotation counts in ranking.
    pub pod_deletion_cost: bool,
    /// `DeploymentReplicaSetTerminatingReplicas`: `status.terminatingReplicas` is maintained.
    pub terminating_replicas: bool,
    /// `StaleControllerConsistencyReplicaSet`: a sync waits until the caches show its last writes.
    pub stale_controller_consistency: bool,
}

impl ControllerOptions {
    /// Returns upstream's defaults for a kind.
    pub fn new(kind: Kind) -> ControllerOptions {
        ControllerOptions {
            kind,
            burst_replicas: BURST_REPLICAS,
            gates: Gates::default(),
            policy: Behaviour::Upstream.policy(),
        }
    }
}

/// The name of an expected pod, in the namespace of the key.
pub type PodName = CompactString;

/// The controller of ReplicaSets or ReplicationControllers. Controllers may share its pod cache.
#[derive(Debug)]
pub struct Controller {
    options: ControllerOptions,
    owners: Arc<OwnerStore>,
    expectations: Expectations<KeyId, PodName>,
    /// Keeps syncs from acting on stale caches of pods and owners.
    guard: Guard<KeyId>,
    hardened: Hardened,
    queue: RateLimitingQueue<KeyId>,
    metrics: ControllerMetrics,
}

impl Controller {
    /// Creates a controller that reads its owners and their pods from `informers`.
    ///
    /// # Panics
    /// Panics if the kind is neither ReplicaSet nor ReplicationController.
    pub fn new(options: ControllerOptions, informers: &mut Informers) -> Arc<Controller> {
        let row = QueueRow {
            retry_max_ns: options.policy.retry_max_ns,
            ..row::row_of(options.kind).queues[0]
        };
        let policy = options.policy;
        let rules = GuardRules {
            // Upstream keeps no records for ReplicationControllers.
            keeps_records: options.gates.stale_controller_consistency
                && options.kind == Kind::REPLICA_SET,
            every_write: policy.record_every_write,
            fence_unknown_outcomes: policy.fence_unknown_outcomes,
            fence_at_start: policy.fence_at_start,
        };
        let kind = options.kind;
        informers.pods().keep::<RankFields>(kind);
        let controller = Arc::new(Controller {
            owners: owners::store(kind, informers),
            guard: Guard::new(rules, [Kind::POD, kind]),
            hardened: Hardened::new(policy),
            options,
            expectations: Expectations::new(),
            queue: RateLimitingQueue::from_row(row),
            metrics: ControllerMetrics::new(),
        });
        informers.add_handler::<Owner>(kind, Arc::clone(&controller) as _);
        controller
    }

    /// Creates a controller with its own informers. Also returns the informer of its owners.
    ///
    /// # Panics
    /// Panics as [`new`](Controller::new) does.
    pub fn alone(
        options: ControllerOptions,
        pods: Arc<PodCache>,
    ) -> (Arc<Controller>, Arc<dyn AnyInformer>) {
        let (mut informers, kind) = (Informers::new(pods), options.kind);
        let controller = Controller::new(options, &mut informers);
        (controller, informers.take(kind))
    }

    /// Returns the controller's options.
    pub fn options(&self) -> &ControllerOptions {
        &self.options
    }

    /// Returns the store of the cached owners.
    pub fn owners(&self) -> &OwnerStore {
        &self.owners
    }

    /// Returns the pod cache.
    pub fn pods(&self) -> &Arc<PodCache> {
        &self.owners.context().pods
    }

    /// Returns the expectations.
    pub fn expectations(&self) -> &Expectations<KeyId, PodName> {
        &self.expectations
    }

    /// Returns the read-your-writes records.
    pub fn consistency(&self) -> &ConsistencyStore<KeyId> {
        &self.guard.records
    }

    /// Returns the guard that keeps syncs from acting on stale caches.
    pub fn guard(&self) -> &Guard<KeyId> {
        &self.guard
    }

    /// Returns the work queue.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.queue
    }

    /// Returns the controller's own metrics. The guard and the queue have separate metrics.
    pub fn metrics(&self) -> &ControllerMetrics {
        &self.metrics
    }
}

impl Workload for Controller {
    type Sync = ReplicaSetSync;

    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.owners.name(key)
    }

    #[inline]
    fn pod_changed(&self, change: &PodChange, now: Now) {
        Controller::pod_changed(self, change, now);
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        Controller::pods_listed(self, listed, now);
    }

    #[inline]
    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.queue)
    }

    /// Returns the controller's own metrics and those of the guard.
    fn families(&self) -> Vec<Family> {
        let mut families = self.metrics.families();
        let skips = "replicaset_controller_stale_sync_skips_total";
        families.extend(self.guard.families(skips));
        families
    }

    #[inline]
    fn begin(&self, _: usize, key: KeyId, sync: &mut ReplicaSetSync, now: Now) -> Step {
        Controller::begin(self, key, sync, now)
    }

    #[inline]
    fn resume(&self, sync: &mut ReplicaSetSync, now: Now) -> Step {
        Controller::resume(self, sync, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Delta;
    use podstorm_objects::{Pod, ReplicaSet, Uid};
    use podstorm_runtime::workqueue::Take;

    #[test]
    fn a_resync_adds_only_the_keys_of_owners() {
        let pods = Arc::new(PodCache::new());
        let options = ControllerOptions::new(Kind::REPLICA_SET);
        let (controller, owners) = Controller::alone(options, pods.clone());
        let now = Now::default();
        for name in ["a", "b"] {
            let mut owner = ReplicaSet::default();
            owner.metadata.name = name.into();
            owner.metadata.namespace = "ns".into();
            owner.metadata.uid = Uid::new(name);
            owners.apply(Delta::Applied(Arc::new(owner)), now);
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
        owners.resync(now);
        assert_eq!(controller.queue().len(), 2);
    }
}
