//! The Job controller: pods that run to completion, each counted exactly once.
//!
//! A pod of a Job has the tracking finalizer, which keeps the pod until the Job has counted it. A
//! sync writes the UIDs of ended pods into the status, then removes their finalizers, then moves
//! the UIDs into the counters. If a sync fails in between, the next one continues. The controller
//! makes the requests of Kubernetes' own controller, in the same order and with the same oddities.
//! The files:
//!
//! * `cache`: the Jobs and the values derived from them; `handlers`: the events that wake a
//!   Job.
//! * `sync`: the steps of one sync, in order; `manage`: the choice of pods to create and delete;
//!   `pods`: the requests to create and delete them; `tracking`: the counting of ended pods; `end`:
//!   the conditions that finish the Job.
//! * `orphans`: the second queue, for pods that no Job will count.
//! * `course`: a Job's progress, as clients see it; `decisions`: the decisions of a sync about
//!   given pods, for explanations; `metrics`: the controller's metrics.
//! * `indexes`: sets of completion indexes; `backoff`: the delay after failures; `policies`:
//!   `podFailurePolicy` and `successPolicy`. `pod`: the properties of a pod that a sync reads;
//!   `status`: the status of a Job.
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
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::expectations::{Expectations, ExpectedCounts};
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

/// The index of the queue of Jobs in the controller's row.
pub const JOBS: usize = 0;

/// The index of the queue of orphans in the controller's row.
pub const ORPHANS: usize = 1;

/// Configuration of a [`Controller`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControllerOptions {
    /// The gate `StaleControllerConsistencyJob`: a sync waits until the caches show its last
    /// writes.
    pub waits_for_caches: bool,
    /// The gate `MutableSchedulingDirectivesForSuspendedJobs`: suspending a Job clears its start
    /// time.
    pub suspending_clears_start_time: bool,
    /// How long changes of pods and of a Job's status are collected before a sync, in ns.
    pub batch_ns: i64,
    /// The policy row of this name: a pod that is gone before its finalizer is removed counts once.
    pub count_gone_pods_once: bool,
    /// The policy row of this name: the removal of orphaned pods' finalizers is retried, and
    /// happens also after a Job was recreated unseen.
    pub retry_orphans: bool,
    /// The policy row of this name: the first outcome of an index or a pod, success or failure,
    /// stays.
    pub keep_first_outcome: bool,
    /// The policy row of this name: the status of a Job that waits after a failure reports the true
    /// number of active pods.
    pub tell_active_in_backoff: bool,
    /// The maximum number of ended pods that one sync counts.
    pub uncounted_max: usize,
    /// The maximum number of pods that one sync creates, and the maximum number that it deletes to
    /// reach the parallelism.
    pub burst: usize,
}

impl Default for ControllerOptions {
    /// Returns the defaults of Kubernetes 1.36.
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

/// The Job controller. Other controllers may share its informers. A clone is a handle to the same
/// controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    options: ControllerOptions,
    jobs: Arc<Store<CachedJob>>,
    pods: Arc<PodCache>,
    queues: [RateLimitingQueue<KeyId>; 2],
    orphan_keys: OrphanKeys,
    /// The numbers of expected creations and deletions of pods, without names.
    expectations: Expectations<KeyId, String>,
    states: KeyStates<Remembered>,
    written: ConsistencyStore<KeyId, 2>,
    metrics: Metrics,
    /// The Jobs with an empty selector, which matches every pod, by namespace. The server creates
    /// no such Jobs.
    select_all: Mutex<BTreeMap<Str, BTreeSet<KeyId>>>,
}

/// Controller state of one Job that is not in the caches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Remembered {
    /// The pods whose tracking finalizer was removed and whose change the cache has not shown yet;
    /// `None` if there never was one. These pods are counted. The entries have no time-out.
    pub released: Option<BTreeSet<Uid>>,
    /// The failure record; `None` before the first status write.
    pub failures: Option<Failures>,
    /// The UIDs of the Jobs of this name whose end was written but has not reached the cache.
    pub finished: BTreeSet<Uid>,
}

impl Remembered {
    /// Forgets a released pod, because the cache now has its change.
    fn forget_released(&mut self, pod: &Uid) {
        if let Some(released) = &mut self.released {
            released.remove(pod);
        }
    }
}

impl Controller {
    /// Creates a controller that reads Jobs and pods from `informers`.
    pub fn new(options: ControllerOptions, informers: &mut Informers) -> Controller {
        let queue = |at: usize| RateLimitingQueue::from_row(Jobs::ROW.queues[at]);
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

    /// Returns the controller's options.
    pub fn options(&self) -> &ControllerOptions {
        &self.0.options
    }

    /// Returns the key of a name. A new name gets a new key.
    pub fn key(&self, namespace: &str, name: &str) -> KeyId {
        self.0.jobs.intern(namespace, name)
    }

    /// Returns the key of a name in the queue of orphans, as a new addition. The caller must then
    /// add the key to the queue once.
    pub fn orphan_key(&self, name: OrphanKey) -> KeyId {
        self.0.orphan_keys.add(name)
    }

    /// Returns the name of a key in the queue of orphans; `None` if the key is free.
    pub fn orphans_of(&self, key: KeyId) -> Option<OrphanKey> {
        self.0.orphan_keys.get(key).map(|(name, _)| name)
    }

    /// Returns the numbers of expected creations and deletions; `None` if nothing was ever expected
    /// for the key.
    pub fn expected(&self, key: KeyId) -> Option<ExpectedCounts> {
        self.0.expectations.counts(key)
    }

    /// Sets the numbers of expected creations and deletions.
    pub fn expect(&self, key: KeyId, creations: i64, deletions: i64, since_ns: i64) {
        let expectations = &self.0.expectations;
        expectations.set_expectations(key, creations, deletions, since_ns);
    }

    /// Reports whether the expectations of a key are satisfied or have expired.
    pub fn is_settled(&self, key: KeyId, now_ns: i64) -> bool {
        self.0.expectations.satisfied(key, now_ns)
    }

    /// Returns the input of a sync of this key: the cached Job, and the cached pods that it owns or
    /// could adopt, in no particular order. `None` if the Job is not cached. For code that checks
    /// the controller's work.
    pub fn cached(&self, key: KeyId) -> Option<(Arc<DynamicObject>, Vec<Arc<Pod>>)> {
        let job = self.0.jobs.get(key)?;
        let pods = self.0.candidates(&job);
        Some((job.object.clone(), pods))
    }

    /// Returns the controller's state of the Job with this key, apart from the caches.
    pub fn remembered(&self, key: KeyId) -> Remembered {
        self.0.states.with(key, |state| state.clone())
    }

    /// Changes the controller's state of the Job with this key, apart from the caches.
    pub fn remember(&self, key: KeyId, change: impl FnOnce(&mut Remembered)) {
        self.0.states.with(key, change);
    }

    /// Returns the record of written versions, which the caches must reach before a key's next
    /// sync.
    pub fn written(&self) -> &ConsistencyStore<KeyId, 2> {
        &self.0.written
    }
}

impl Shared {
    /// Returns the cached Job to which the controller reference resolves by name and UID, if any.
    fn resolve(&self, meta: &ObjectMeta) -> Option<(KeyId, Arc<CachedJob>)> {
        let owner = meta.controller()?;
        let is_job = *owner.kind == *Kind::JOB.name();
        is_job.then(|| self.jobs.resolve(&meta.namespace, owner))?
    }

    /// Returns the pods that the Job controls, then the orphans of its namespace. O(these pods).
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

impl AsyncWorkload for Controller {
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

    fn steps(&self, queue: usize, key: KeyId, calls: Calls) -> impl Steps {
        let shared = Arc::clone(&self.0);
        async move {
            match queue {
                JOBS => sync::run(shared, key, calls).await,
                _ => orphans::run(shared, key, calls).await,
            }
        }
    }

    fn families(&self) -> Vec<Family> {
        self.0.metrics.families()
    }
}
