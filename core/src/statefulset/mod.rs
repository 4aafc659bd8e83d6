//! The controller of StatefulSets: pods with a name, an order and claims of their own.
//!
//! A sync looks at the pods one ordinal after the other and stops at the first that it has to wait for, or at all of them
//! at once if the set says `Parallel`. Its template is kept as a revision, so that pods below a partition come back as they
//! were. What the controller does is Kubernetes' own controller's, request by request, its oddities included. Each file is
//! one part of it:
//!
//! * `cache`: the sets, with what is derived from them; `spec`: what a sync reads of a spec; `handlers`: what wakes a set.
//! * `identity`, `pod`, `claims`: names and labels, new pods and claims, and who owns a claim.
//! * `pods`: which pods are the set's, and what the cache keeps of each.
//! * `sync`: the steps of one sync, in their order; `manage`: which pods it creates, corrects and deletes; `requests`: the
//!   requests for that; `status`: what is counted.
//! * `metrics`: the gauges of rolling updates.
//! * `course`, `waits`: how far a set is and what it waits for, for those who only look.
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
use podstorm_runtime::driver::{AsyncSync, Step, Workload};
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

/// The options of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// The gate `StaleControllerConsistencyStatefulSet`: a sync waits until the caches have its last writes.
    pub waits_for_caches: bool,
    /// The gate `StatefulSetSemanticRevisionComparison`: a revision that restores today's template is today's, however it
    /// is written.
    pub compares_templates: bool,
    /// The gate `MaxUnavailableStatefulSet`: a rolling update makes so many pods unavailable as the set says.
    pub uses_max_unavailable: bool,
    /// The policy's row of that name: a rolling update does not wait for a pod that is neither ready nor up to date.
    pub replace_broken_pods: bool,
    /// The policy's row of that name: a rollout is complete once all pods are available.
    pub complete_when_available: bool,
}

impl Default for ControllerOptions {
    /// As in Kubernetes 1.36.
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

/// The controller, over informers that it shares with others. A clone is the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// What a sync begins with.
#[derive(Clone, Debug)]
pub struct SyncInput {
    /// The set.
    pub set: Arc<DynamicObject>,
    /// The pods that it owns or could adopt, in no order.
    pub pods: Vec<Arc<Pod>>,
    /// Its revisions and those that it adopts, the oldest first.
    pub revisions: Vec<Revision>,
}

/// What syncs, which outlive a borrow, share with the controller.
#[derive(Debug)]
struct Shared {
    options: ControllerOptions,
    sets: Arc<Store<CachedSet>>,
    claims: Arc<Store<Arc<DynamicObject>>>,
    revisions: Arc<Store<Revision>>,
    pods: Arc<PodCache>,
    queue: [RateLimitingQueue<KeyId>; 1],
    written: ConsistencyStore<KeyId, 3>,
    /// The gauges of each set that a sync has rolled with the gate `MaxUnavailableStatefulSet`.
    gauges: KeyStates<Option<Gauges>>,
}

impl Controller {
    /// A controller that reads StatefulSets, pods, claims and revisions from these informers.
    pub fn new(options: ControllerOptions, informers: &mut Informers) -> Controller {
        informers.pods().keep::<PodFacts>(Kind::STATEFUL_SET);
        let shared = Arc::new(Shared {
            options,
            sets: informers.store(Kind::STATEFUL_SET, || ()),
            claims: informers.store(Kind::PERSISTENT_VOLUME_CLAIM, || ()),
            revisions: informers.store(Kind::CONTROLLER_REVISION, || ()),
            pods: Arc::clone(informers.pods()),
            queue: [RateLimitingQueue::of(StatefulSets::ROW.queues[0])],
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

    /// The key of a name; a new name gets a new key.
    pub fn key(&self, namespace: &str, name: &str) -> KeyId {
        self.0.sets.intern(namespace, name)
    }

    /// The options that it was made with.
    pub fn options(&self) -> &ControllerOptions {
        &self.0.options
    }

    /// What a sync of a key would begin with. For code that checks the controller's work.
    pub fn cached(&self, key: KeyId) -> Option<SyncInput> {
        let set = self.0.sets.get(key)?;
        Some(SyncInput {
            pods: self.0.candidates(&set),
            revisions: self.0.revisions(&set),
            set: Arc::clone(&set.object),
        })
    }

    /// The claim of that name as cached.
    pub fn cached_claim(&self, namespace: &str, name: &str) -> Option<Arc<DynamicObject>> {
        let claim = self.0.claims.get_named(namespace, name)?;
        Some(Arc::clone(&claim))
    }

    /// The versions that were written for a key, which the caches must reach before its next sync.
    pub fn written(&self) -> &ConsistencyStore<KeyId, 3> {
        &self.0.written
    }
}

impl Shared {
    /// The set to which a controller reference resolves: by name, of the same UID.
    fn resolve(&self, meta: &ObjectMeta) -> Option<(KeyId, Arc<CachedSet>)> {
        let owner = meta.controller()?;
        let is_set = *owner.kind == *Kind::STATEFUL_SET.name();
        is_set.then(|| self.sets.resolve(&meta.namespace, owner))?
    }

    /// The revisions of the set and those without a controller that match its selector, the oldest first.
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

impl Workload for Controller {
    type Sync = AsyncSync;

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

    fn begin(&self, _: usize, key: KeyId, sync: &mut AsyncSync, now: Now) -> Step {
        let shared = Arc::clone(&self.0);
        sync.begin(key, now, |calls| sync::run(shared, key, calls))
    }

    fn resume(&self, sync: &mut AsyncSync, now: Now) -> Step {
        sync.resume(now)
    }

    fn families(&self) -> Vec<Family> {
        self.0.families()
    }
}
