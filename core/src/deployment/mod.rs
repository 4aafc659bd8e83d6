//! The Deployment controller: it maintains one ReplicaSet for each template that the Deployment has
//! had. A rollout moves pods from the old ReplicaSets to the new one in steps.
//!
//! The controller makes the requests of Kubernetes' own controller, in the same order and with the
//! same oddities; see `docs/guide/deployments.md`. The files:
//!
//! * `cache`: the cached Deployments and ReplicaSets; `handlers`: the events that wake a
//!   Deployment.
//! * `sync`: the steps of one sync, in order. It ends in `rolling`, `recreate`, `scaling` or
//!   `rollback`; `clean_up` deletes ReplicaSets beyond the history limit.
//! * `find_new`: the search for the ReplicaSet with the Deployment's template. `new_set`: its
//!   revision, or its creation. [`crate::template`]: equality of templates, and the hash that names
//!   a ReplicaSet.
//! * `proportions`, `sizes`: the number of pods of each ReplicaSet. `status`, `conditions`: the
//!   status of a Deployment with the progress of its rollout.
//! * `limits`: the limits of retries and of the revision history.
//! * `rollout`: the output and decisions of `kubectl rollout`.
//!
//! A sync is one `async fn` that the driver polls: it requests an API call and continues with the
//! answer.

pub mod annotations;
mod cache;
mod clean_up;
mod conditions;
pub mod find_new;
mod handlers;
mod limits;
mod new_set;
mod proportions;
mod recreate;
mod revisions;
mod rollback;
mod rolling;
pub mod rollout;
mod row;
mod scaling;
pub mod sizes;
mod status;
mod sync;

use std::sync::Arc;

use podstorm_objects::{Deployment, Kind, Now, ReplicaSet};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::Informers;
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::cache::PodChange;
use crate::controller::ControllerType as _;
use crate::replicaset::Owner;
use cache::Caches;

pub(crate) use cache::CachedDeployment;

pub use proportions::{ScaleMode, ScalePlan, scale_plan};
pub use revisions::set_annotations;
pub use row::Deployments;
pub use sync::SyncStep;

/// Configuration of a [`Controller`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// The gate `DeploymentReplicaSetTerminatingReplicas`: `status.terminatingReplicas` is
    /// maintained.
    pub terminating_replicas: bool,
}

impl Default for ControllerOptions {
    /// Returns the defaults of Kubernetes 1.36: the gate is on.
    fn default() -> Self {
        ControllerOptions {
            terminating_replicas: true,
        }
    }
}

/// The Deployment controller. Other controllers may share its informers. A clone is a handle to the
/// same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    options: ControllerOptions,
    caches: Caches,
    queue: RateLimitingQueue<KeyId>,
}

impl Controller {
    /// Creates a controller that reads Deployments, ReplicaSets and pods from `informers`.
    pub fn new(options: ControllerOptions, informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            options,
            caches: Caches::new(informers),
            queue: RateLimitingQueue::from_row(Deployments::ROW.queues[0]),
        });
        informers.add_handler::<CachedDeployment>(Kind::DEPLOYMENT, Arc::clone(&shared) as _);
        informers.add_handler::<Owner>(Kind::REPLICA_SET, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Returns the key of a name. A new name gets a new key.
    pub fn key(&self, namespace: &str, name: &str) -> KeyId {
        self.0.caches.deployments.intern(namespace, name)
    }

    /// Returns the work queue.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queue
    }

    /// Returns the input of a sync of this key: the cached Deployment, and the cached ReplicaSets
    /// that it controls or could adopt, in no particular order. `None` if the Deployment is not
    /// cached. For code that checks the controller's work.
    pub fn cached(&self, key: KeyId) -> Option<(Arc<Deployment>, Vec<Arc<ReplicaSet>>)> {
        let caches = &self.0.caches;
        let deployment = caches.deployments.get(key)?.object.clone();
        let meta = &deployment.metadata;
        let sets = caches.candidates(&meta.namespace, &meta.uid);
        let sets = sets.iter().map(|set| set.object.clone()).collect();
        Some((deployment, sets))
    }

    /// Returns the cached ReplicaSet with this name, whether or not it has a controller. A sync
    /// whose create is refused because the name is taken continues with this ReplicaSet. For code
    /// that checks the controller's work. O(1).
    pub fn cached_set(&self, namespace: &str, name: &str) -> Option<Arc<ReplicaSet>> {
        let found = self.0.caches.sets.get_named(namespace, name);
        found.map(|set| set.object.clone())
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.caches.deployments.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        if change.deleted {
            self.0.pod_deleted(&change.new, now);
        }
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        sync::run(Arc::clone(&self.0), key, calls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Delta;
    use podstorm_objects::{AnyObject, DynamicObject, Uid};
    use podstorm_runtime::workqueue::Take;

    #[test]
    fn keys_scale_with_the_deployments_alive_within_minutes() {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(ControllerOptions::default(), &mut informers);
        let deployments = informers.take(Kind::DEPLOYMENT);
        for number in 0..1_000_i64 {
            let now = Now {
                mono_ns: number * 10_000_000_000,
                ..Now::default()
            };
            let mut deployment = DynamicObject::new(Kind::DEPLOYMENT);
            deployment.metadata.namespace = "ns".into();
            deployment.metadata.name = format!("web-{number}").into();
            deployment.metadata.uid = Uid::from_u128(number as u128 + 1);
            let deployment: AnyObject = Arc::new(deployment);
            deployments.apply(Delta::Applied(deployment.clone()), now);
            deployments.apply(Delta::Deleted(deployment), now);
            let queue = controller.queue();
            while let Take::Key(key) = queue.try_take(now.mono_ns) {
                assert_eq!(*controller.name(0, key).name, *format!("web-{number}"));
                queue.done(key, now.mono_ns);
            }
        }
        assert!(controller.key("ns", "one more").0 < 40);
    }
}
