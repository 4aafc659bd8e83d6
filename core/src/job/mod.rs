//! The controller of Jobs: pods that run to their end, counted exactly once.
//!
//! A pod of a Job carries a finalizer, the tracking finalizer, so that it stays until the Job has counted it. A sync
//! writes the UIDs of ended pods into the status, then removes their finalizers, then moves the UIDs into the
//! counters: whatever is lost on the way is seen by the next sync. What the controller does is Kubernetes' own
//! controller's, request by request, its oddities included. Each file is one part of it:
//!
//! * `cache`: the Jobs, with what is derived from them; `handlers`: what
//!   wakes one.
//! * `sync`: the steps of one sync, in their order; `manage`: which pods it creates and deletes; `pods`: the requests
//!   for that; `tracking`: how ended pods are counted; `end`: whether the Job has finished.
//! * `orphans`: the second queue, of pods that no Job will count.
//! * `course`: how far a Job is, for clients; `decisions`: what a sync would decide about given pods, for explanations;
//!   `metrics`: what is counted.
//! * `indexes`, `backoff`, `policies`: sets of completion indexes, the wait after failures, `podFailurePolicy` and
//!   `successPolicy`. `pod`, `status`: what a sync reads of a pod, and writes of a Job.
//!
//! Source: Kubernetes' `pkg/controller/job`.

pub mod backoff;
mod cache;
pub mod course;
pub mod decisions;
mod end;
mod handlers;
pub mod indexes;
mod manage;
mod metrics;
mod orphans;
pub mod pod;
mod pods;
pub mod policies;
mod row;
mod status;
mod sync;
#[cfg(test)]
mod tests;
mod tracking;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_objects::{DynamicObject, Kind, Now, ObjectMeta, Pod, Str, Uid};
use podstorm_runtime::consistency::ConsistencyStore;
use podstorm_runtime::driver::{AsyncSync, Step, Workload};
use podstorm_runtime::expectations::{Counts, Expectations};
use podstorm_runtime::informer::Informers;
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::key_states::KeyStates;
use podstorm_runtime::metrics::Family;
use podstorm_runtime::primitives::Mutex;
use podstorm_runtime::store::Store;
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::cache::{Listed, PodCache, PodChange};
use crate::controller::ControllerType as _;
use backoff::Failures;
use cache::CachedJob;
use metrics::Metrics;
use orphans::OrphanKeys;

pub use orphans::OrphanKey;
pub use row::Jobs;

const SECOND_NS: i64 = 1_000_000_000;

/// The number of the queue of Jobs.
pub const JOBS: usize = 0;

/// The number of the queue of orphans.
pub const ORPHANS: usize = 1;

/// The options of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// The gate `StaleControllerConsistencyJob`: a sync waits until the caches have its last writes.
    pub waits_for_caches: bool,
    /// The gate `MutableSchedulingDirectivesForSuspendedJobs`: a Job that is suspended loses its start time.
    pub suspending_clears_start_time: bool,
    /// How long the changes of pods, and of a Job's status, are gathered, ns.
    pub batch_ns: i64,
    /// The policy's row of that name: a pod that is gone before its finalizer is removed is counted once.
    pub count_gone_pods_once: bool,
    /// The policy's row of that name: finalizers of the pods of a Job that is gone, or was recreated unseen, are removed
    /// until that works.
    pub retry_orphans: bool,
    /// The policy's row of that name: an index, or a pod, doesn't fail once it has succeeded, nor the other way
    /// round.
    pub keep_first_outcome: bool,
    /// The policy's row of that name: a Job that waits after a failure says how many pods are active.
    pub tell_active_in_backoff: bool,
    /// The most ended pods that one sync counts.
    pub uncounted_max: usize,
    /// The most pods that one sync creates, and the most that it deletes to reach the parallelism.
    pub burst: usize,
}

impl Default for ControllerOptions {
    /// As in Kubernetes 1.36.
    fn default() -> Self {
        ControllerOptions {
            waits_for_caches: true,
            suspending_clears_start_time: true,
            batch_ns: SECOND_NS,
            count_gone_pods_once: false,
            retry_orphans: false,
            keep_first_outcome: false,
            tell_active_in_backoff: false,
            uncounted_max: 500,
            burst: 500,
        }
    }
}

/// The controller, over informers that it shares with others. A clone is the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// What syncs, which outlive a borrow, share with the controller.
#[derive(Debug)]
struct Shared {
    options: ControllerOptions,
    jobs: Arc<Store<CachedJob>>,
    pods: Arc<PodCache>,
    queues: [RateLimitingQueue<KeyId>; 2],
    orphan_keys: OrphanKeys,
    /// Counters alone: pods to come and pods to go.
    expectations: Expectations<KeyId, String>,
    states: KeyStates<Remembered>,
    written: ConsistencyStore<KeyId, 2>,
    metrics: Metrics,
    /// The Jobs with an empty selector, which matches every pod, by namespace. The server makes none.
    select_all: Mutex<BTreeMap<Str, BTreeSet<KeyId>>>,
}

/// What the controller remembers of a Job beside its caches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remembered {
    /// The pods whose tracking finalizer was removed, and whose change the cache has not shown; `None` if none ever was.
    /// They are counted. There is no time-out.
    pub released: Option<BTreeSet<Uid>>,
    /// The failures; `None` before the first status write.
    pub failures: Option<Failures>,
    /// The Jobs of this name whose end was written, and not seen in the cache.
    pub finished: BTreeSet<Uid>,
}

impl Remembered {
    /// Forgets a released pod: the cache has its change.
    fn forget_released(&mut self, pod: &Uid) {
        if let Some(released) = &mut self.released {
            released.remove(pod);
        }
    }
}

impl Controller {
    /// A controller that reads Jobs and pods from these informers.
    pub fn new(options: ControllerOptions, informers: &mut Informers) -> Controller {
        let queue = |at: usize| RateLimitingQueue::of(Jobs::ROW.queues[at]);
        informers.pods().keep::<pod::PodFacts>(Kind::JOB);
        let shared = Arc::new(Shared {
            options,
            jobs: informers.store(Kind::JOB, || ()),
            pods: Arc::clone(informers.pods()),
            queues: [queue(JOBS), queue(ORPHANS)],
            orphan_keys: OrphanKeys::default(),
            expectations: Expectations::new(),
            states: KeyStates::default(),
            written: ConsistencyStore::new([Kind::POD, Kind::JOB]),
            metrics: Metrics::default(),
            select_all: Mutex::default(),
        });
        informers.add_handler::<CachedJob>(Kind::JOB, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Its options.
    pub fn options(&self) -> &ControllerOptions {
        &self.0.options
    }

    /// The key of a name; a new name gets a new key.
    pub fn key(&self, namespace: &str, name: &str) -> KeyId {
        self.0.jobs.intern(namespace, name)
    }

    /// The key of a name in the queue of orphans, to be added to it once.
    pub fn orphan_key(&self, name: OrphanKey) -> KeyId {
        self.0.orphan_keys.add(name)
    }

    /// What a key in the queue of orphans means; `None` for a key without meaning.
    pub fn orphans_of(&self, key: KeyId) -> Option<OrphanKey> {
        self.0.orphan_keys.get(key).map(|(name, _)| name)
    }

    /// The counters of awaited creations and deletions; `None` if nothing was ever awaited.
    pub fn expected(&self, key: KeyId) -> Option<Counts> {
        self.0.expectations.counts(key)
    }

    /// Sets the counters of awaited creations and deletions.
    pub fn expect(&self, key: KeyId, creations: i64, deletions: i64, since_ns: i64) {
        let expectations = &self.0.expectations;
        expectations.set_expectations(key, creations, deletions, since_ns);
    }

    /// Whether nothing is awaited for a key, or no longer.
    pub fn is_settled(&self, key: KeyId, now_ns: i64) -> bool {
        self.0.expectations.satisfied(key, now_ns)
    }

    /// What a sync of that key would begin with: the cached Job, and the cached pods that it owns or could adopt, in
    /// no order. For code that checks the controller's work.
    pub fn cached(&self, key: KeyId) -> Option<(Arc<DynamicObject>, Vec<Arc<Pod>>)> {
        let job = self.0.jobs.get(key)?;
        let pods = self.0.candidates(&job);
        Some((job.object.clone(), pods))
    }

    /// What is remembered of a key.
    pub fn remembered(&self, key: KeyId) -> Remembered {
        self.0.states.with(key, |state| state.clone())
    }

    /// Changes what is remembered of a key.
    pub fn remember(&self, key: KeyId, change: impl FnOnce(&mut Remembered)) {
        self.0.states.with(key, change);
    }

    /// The versions that were written for a key, which the caches must reach before its next sync.
    pub fn written(&self) -> &ConsistencyStore<KeyId, 2> {
        &self.0.written
    }
}

impl Shared {
    /// The Job to which a controller reference resolves: by name, of the same UID.
    fn resolve(&self, meta: &ObjectMeta) -> Option<(KeyId, Arc<CachedJob>)> {
        let owner = meta.controller()?;
        let is_job = *owner.kind == *Kind::JOB.name();
        is_job.then(|| self.jobs.resolve(&meta.namespace, owner))?
    }

    /// The pods with the Job as their controller, then the orphans of its namespace. O(these).
    fn candidates(&self, job: &CachedJob) -> Vec<Arc<Pod>> {
        let namespace = &job.object.metadata.namespace;
        let owned = self.pods.owned_by(namespace, &job.controller_ref);
        let mut pods = Vec::new();
        for list in owned.into_iter().chain([self.pods.orphans(namespace)]) {
            let members = list.lock();
            pods.extend(members.iter().map(|(pod, _)| Arc::clone(pod)));
        }
        pods
    }
}

impl Workload for Controller {
    type Sync = AsyncSync;

    fn name(&self, queue: usize, key: KeyId) -> ObjectKey {
        if queue == JOBS {
            return self.0.jobs.name(key);
        }
        let (namespace, name) = match self.orphans_of(key) {
            Some(OrphanKey::Name(namespace, name)) => (namespace, name.as_str().into()),
            Some(OrphanKey::Selector(namespace, text, _)) => (namespace, text.as_str().into()),
            None => Default::default(),
        };
        ObjectKey { namespace, name }
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        &self.0.queues
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

    fn begin(&self, queue: usize, key: KeyId, sync: &mut AsyncSync, now: Now) -> Step {
        let shared = Arc::clone(&self.0);
        match queue {
            JOBS => sync.begin(key, now, |calls| sync::run(shared, key, calls)),
            _ => sync.begin(key, now, |calls| orphans::run(shared, key, calls)),
        }
    }

    fn resume(&self, sync: &mut AsyncSync, now: Now) -> Step {
        sync.resume(now)
    }

    fn families(&self) -> Vec<Family> {
        self.0.metrics.families()
    }
}
