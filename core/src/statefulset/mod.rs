//! The StatefulSet controller: pods with stable names, an order, and separate claims.
//!
//! A sync handles the pods in the order of their ordinals and stops at the first pod for which it
//! must wait. With the pod management policy `Parallel` it handles all pods concurrently. Revisions
//! preserve earlier templates of the set, so pods below a partition are recreated from the old
//! template. The controller makes the requests of Kubernetes' own controller, in the same order and
//! with the same oddities. The files:
//!
//! * `cache`: the sets and the values derived from them; `spec`: the parts of a spec that a sync
//!   reads; `handlers`: the events that wake a set.
//! * `identity`, `pod`, `claims`: names and labels, new pods and claims, and the owners of claims.
//! * `pods`: the pods of a set, and the fields that the cache stores for each pod.
//! * `sync`: the steps of one sync, in order; `manage`: the choice of pods to create, update and
//!   delete; `requests`: the requests that do so; `status`: the counts.
//! * `metrics`: the gauges of rolling updates.
//! * `course`, `waits`: a set's progress, and the pod for which it waits, for observers.
//!
//! Source: Kubernetes' `pkg/controller/statefulset`.

mod cache;
pub mod claims;
pub mod course;
mod handlers;
pub mod identity;
mod manage;
mod metrics;
pub mod pod;
mod pods;
mod requests;
mod row;
pub mod spec;
mod status;
mod sync;
#[cfg(test)]
mod tests;
pub mod waits;

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, Now, ObjectMeta, Pod};
use podstorm_runtime::consistency::ConsistencyStore;
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::Informers;
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::key_states::KeyStates;
use podstorm_runtime::metrics::Family;
use podstorm_runtime::store::Store;
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::cache::{Listed, PodCache, PodChange};
use crate::controller::ControllerType as _;
use crate::revisions::Revision;
use cache::CachedSet;
use metrics::Gauges;
use pods::PodFacts;

pub use row::StatefulSets;

/// Configuration of a [`Controller`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// The gate `StaleControllerConsistencyStatefulSet`: a sync waits until the caches show its
    /// last writes.
    pub waits_for_caches: bool,
    /// The gate `StatefulSetSemanticRevisionComparison`: a revision that restores the current
    /// template matches it, even if its data is spelled differently.
    pub compares_templates: bool,
    /// The gate `MaxUnavailableStatefulSet`: a rolling update may make more than one pod
    /// unavailable if the set allows it.
    pub uses_max_unavailable: bool,
    /// The policy row of this name: a rolling update does not wait for a pod that is neither ready
    /// nor up to date.
    pub replace_broken_pods: bool,
    /// The policy row of this name: a rollout is complete once all pods are available.
    pub complete_when_available: bool,
}

impl Default for ControllerOptions {
    /// Returns the defaults of Kubernetes 1.36.
    fn default() -> Self {
        ControllerOptions {
            waits_for_caches: true,
            compares_templates: true,
            uses_max_unavailable: false,
            replace_broken_pods: false,
            complete_when_available: false,
        }
    }
}

/// The StatefulSet controller. Other controllers may share its informers. A clone is a handle to
/// the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The input of a sync, from the caches.
#[derive(Clone, Debug)]
pub struct SyncInput {
    /// The StatefulSet.
    pub set: Arc<DynamicObject>,
    /// The pods that the set owns or could adopt, in no particular order.
    pub pods: Vec<Arc<Pod>>,
    /// The revisions that the set owns or could adopt, oldest first.
    pub revisions: Vec<Revision>,
}

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    options: ControllerOptions,
    sets: Arc<Store<CachedSet>>,
    claims: Arc<Store<Arc<DynamicObject>>>,
    revisions: Arc<Store<Revision>>,
    pods: Arc<PodCache>,
    queue: [RateLimitingQueue<KeyId>; 1],
    written: ConsistencyStore<KeyId, 3>,
    /// The gauges of each set that a sync with the gate `MaxUnavailableStatefulSet` has rolled.
    gauges: KeyStates<Option<Gauges>>,
}

impl Controller {
    /// Creates a controller that reads StatefulSets, pods, claims and revisions from
    /// `informers`.
    pub fn new(options: ControllerOptions, informers: &mut Informers) -> Controller {
        informers.pods().keep::<PodFacts>(Kind::STATEFUL_SET);
        let shared = Arc::new(Shared {
            options,
            sets: informers.store(Kind::STATEFUL_SET, || ()),
            claims: informers.store(Kind::PERSISTENT_VOLUME_CLAIM, || ()),
            revisions: informers.store(Kind::CONTROLLER_REVISION, || ()),
            pods: Arc::clone(informers.pods()),
            queue: [RateLimitingQueue::from_row(StatefulSets::ROW.queues[0])],
            written: ConsistencyStore::new([
                Kind::PERSISTENT_VOLUME_CLAIM,
                Kind::POD,
                Kind::STATEFUL_SET,
            ]),
            gauges: KeyStates::default(),
        });
        informers.add_handler::<CachedSet>(Kind::STATEFUL_SET, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Returns the key of a name. A new name gets a new key.
    pub fn key(&self, namespace: &str, name: &str) -> KeyId {
        self.0.sets.intern(namespace, name)
    }

    /// Returns the controller's options.
    pub fn options(&self) -> &ControllerOptions {
        &self.0.options
    }

    /// Returns the input of a sync of this key; `None` if the set is not cached. For code that
    /// checks the controller's work.
    pub fn cached(&self, key: KeyId) -> Option<SyncInput> {
        let set = self.0.sets.get(key)?;
        Some(SyncInput {
            pods: self.0.candidates(&set),
            revisions: self.0.revisions(&set),
            set: Arc::clone(&set.object),
        })
    }

    /// Returns the cached claim with this name; `None` if there is none.
    pub fn cached_claim(&self, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let claim = self.0.claims.get_named(namespace, name)?;
        Some(Arc::clone(&claim))
    }

    /// Returns the record of written versions, which the caches must reach before a key's next
    /// sync.
    pub fn written(&self) -> &ConsistencyStore<KeyId, 3> {
        &self.0.written
    }
}

impl Shared {
    /// Returns the cached set to which the controller reference resolves by name and UID, if any.
    fn resolve(&self, meta: &ObjectMeta) -> Option<(KeyId, Arc<CachedSet>)> {
        let owner = meta.controller()?;
        let is_set = *owner.kind == *Kind::STATEFUL_SET.name();
        is_set.then(|| self.sets.resolve(&meta.namespace, owner))?
    }

    /// Returns the set's revisions, and the matching ones without a controller, oldest first.
    fn revisions(&self, set: &CachedSet) -> Vec<Revision> {
        let meta = &set.object.metadata;
        let Ok(selector) = &set.spec.selector else {
            return Vec::new();
        };
        let owned = self.revisions.owned(&meta.uid);
        let all = owned.chain(self.revisions.orphans(&meta.namespace));
        let all = all.map(|(_, revision)| Revision::clone(&revision));
        let mut all: Vec<Revision> = all
            .filter(|it| selector.matches(&it.0.metadata.labels))
            .collect();
        crate::revisions::sort(&mut all);
        all
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.sets.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        &self.0.queue
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        self.0.pod_changed(change, now);
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.0.pod_changed(change, now);
        }
        for run in &listed.runs {
            self.0.pods_added(run, now);
        }
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        sync::run(Arc::clone(&self.0), key, calls)
    }

    fn families(&self) -> Vec<Family> {
        self.0.families()
    }
}
