//! The pod garbage collector: it deletes pods that no other controller deletes. These are ended
//! pods beyond a threshold, pods on nodes that no longer exist or are out of service, and pods
//! whose deletion began before they were bound.
//!
//! `candidates`: the pods that a round may delete; `round`: the steps of a round, every 20 s;
//! `removal`: the requests that delete a pod. The queue has a single key, for the round. One lock
//! guards the candidates and the quarantine. It is not held across a call. It is taken before the
//! locks of the pod cache, of the name of a key, and of a queue's delays.
//!
//! As in upstream, a pod that matches two reasons in one round is deleted twice.
//!
//! Source: Kubernetes' `pkg/controller/podgc`.

mod candidates;
mod removal;
mod round;
mod row;

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{Kind, Node, Now, Pod, Str};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::Informers;
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::metrics::{self, Family, Series, Value};
use podstorm_runtime::primitives::{Mutex, MutexGuard, lock};
use podstorm_runtime::store::Store;
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::cache::{Listed, PodCache, PodChange};
use crate::controller::ControllerType as _;
use candidates::Candidates;
use removal::Reason;

pub use row::{PodGc, TERMINATED_POD_GC_THRESHOLD};

/// The time in ns from the end of one round to the start of the next.
const ROUND_EVERY_NS: i64 = 20_000_000_000;

/// The time in ns from the round that finds a node missing to the read that decides about it.
const QUARANTINE_NS: i64 = 40_000_000_000;

/// The only key of the queue, for the round.
const ROUND: KeyId = KeyId(0);

/// The pod garbage collector. Other controllers may share its informers. A clone is a handle to the
/// same collector.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The collector's state, shared with its rounds because they outlive any borrow of the collector.
#[derive(Debug)]
struct Shared {
    threshold: i64,
    pods: Arc<PodCache>,
    nodes: Arc<Store<Arc<Node>>>,
    queue: RateLimitingQueue<KeyId>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    candidates: Candidates,
    /// When the quarantine of each missing node ends, in ns of the monotonic clock, by node name.
    quarantine: BTreeMap<Str, i64>,
    /// Whether the first round has been queued.
    is_started: bool,
    /// The numbers of deletions, by the namespace of the pod and the reason.
    counts: BTreeMap<(Str, Reason), DeletionCounts>,
}

#[derive(Clone, Copy, Debug, Default)]
struct DeletionCounts {
    deleted: u64,
    failed: u64,
}

impl Controller {
    /// Creates a collector that reads nodes and pods from `informers`, and deletes ended pods
    /// beyond `threshold`; see [`TERMINATED_POD_GC_THRESHOLD`].
    pub fn new(threshold: i64, informers: &mut Informers) -> Controller {
        Controller(Arc::new(Shared {
            threshold,
            pods: Arc::clone(informers.pods()),
            nodes: informers.store(Kind::NODE, || ()),
            queue: RateLimitingQueue::from_row(PodGc::ROW.queues[0]),
            state: Mutex::default(),
        }))
    }

    /// Returns the work queue.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queue
    }

    /// Returns the names of the missing nodes in quarantine, sorted, each with the end of its
    /// quarantine in ns of the monotonic clock.
    pub fn quarantine(&self) -> Vec<(Str, i64)> {
        let state = self.0.lock();
        let quarantine = state.quarantine.iter();
        quarantine.map(|(name, end)| (name.clone(), *end)).collect()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Counts a deletion that was accepted or has failed.
    fn count(&self, pod: &Pod, reason: Reason, is_deleted: bool) {
        let mut state = self.lock();
        let key = (pod.metadata.namespace.clone(), reason);
        let counts = state.counts.entry(key).or_default();
        match is_deleted {
            true => counts.deleted += 1,
            false => counts.failed += 1,
        }
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, _: KeyId) -> ObjectKey {
        ObjectKey {
            namespace: Str::default(),
            name: "round".into(),
        }
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    /// Takes the lock only for a change that can affect a round.
    fn pod_changed(&self, change: &PodChange, _: Now) {
        let old = change.old.as_deref();
        let new = Some(&*change.new).filter(|_| !change.deleted);
        if candidates::matters(old, new) {
            self.0.lock().candidates.apply(old, new);
        }
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
        let mut state = self.0.lock();
        // A list into an empty cache comes in runs.
        if !listed.runs.is_empty() {
            let candidates = &mut state.candidates;
            self.0
                .pods
                .for_each(|pod| candidates.apply(None, Some(pod)));
        }
        if !std::mem::replace(&mut state.is_started, true) {
            self.0.queue.add(ROUND, now.mono_ns);
        }
    }

    fn steps(&self, _: usize, _: KeyId, calls: Calls) -> impl Steps {
        round::run(Arc::clone(&self.0), calls)
    }

    fn families(&self) -> Vec<Family> {
        let counts = self.0.lock().counts.clone();
        let family = |name, help, value: fn(&DeletionCounts) -> u64| {
            let series = counts
                .iter()
                .map(|((namespace, reason), counts)| Series {
                    labels: vec![
                        ("namespace", namespace.clone()),
                        ("reason", reason.label().into()),
                    ],
                    value: Value::Number(value(counts) as f64),
                })
                .collect();
            Family {
                name,
                help,
                kind: metrics::Kind::Counter,
                series,
            }
        };
        vec![
            family(
                "pod_gc_collector_force_delete_pods_total",
                "Pods that the pod garbage collector deleted.",
                |counts| counts.deleted,
            ),
            family(
                "pod_gc_collector_force_delete_pod_errors_total",
                "Pods that the pod garbage collector failed to delete.",
                |counts| counts.failed,
            ),
        ]
    }
}

#[cfg(test)]
mod tests;
