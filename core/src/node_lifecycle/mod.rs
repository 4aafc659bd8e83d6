//! The node lifecycle controller: it finds silent nodes, marks them and their pods, and taints
//! nodes by their conditions.
//!
//! `health`: whether a node reports; `zones`: the number of nodes in a zone that are not ready, and
//! the rate of `NoExecute` taints; `monitor`: the round over all nodes, every 5 s; `taints`:
//! `NoSchedule` taints and labels of a node, and `NoExecute` taints at the rate of the zone;
//! `pods`: the condition `Ready` of pods on nodes that are not ready. The first queue has nodes,
//! the second one rounds.
//!
//! One lock guards the state of nodes. It is not held across a call, and the locks of the pod cache
//! are not taken while it is held.
//!
//! The controller deletes no pods; [`taint_eviction`](crate::taint_eviction) does.
//!
//! Source: Kubernetes' `pkg/controller/nodelifecycle`.

mod health;
mod monitor;
mod pods;
mod row;
mod taints;
mod zones;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{AnyObject, Kind, Node, Now, Pod, Str};
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, MutexGuard, lock};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::RateLimitingQueue;

use crate::cache::{PodCache, PodChange};
use crate::controller::ControllerType as _;
use crate::node::node_of;
use crate::pod_key::PodKey;
use health::{Health, Ready};
use zones::{Zone, ZoneName};

pub use row::{
    LARGE_CLUSTER_SIZE_THRESHOLD, NODE_EVICTION_RATE, NODE_MONITOR_GRACE_PERIOD,
    NODE_MONITOR_PERIOD, NODE_STARTUP_GRACE_PERIOD, NodeLifecycle, SECONDARY_NODE_EVICTION_RATE,
    UNHEALTHY_ZONE_THRESHOLD,
};

/// The namespace that contains the Leases of nodes.
const LEASES: &str = "kube-node-lease";

/// The index of the queue of nodes.
const NODES: usize = 0;

/// The index of the queue of rounds.
const ROUNDS: usize = 1;

/// The key, in the queue of rounds, for the round over all nodes.
const MONITOR: KeyId = KeyId(0);

/// The key, in the queue of rounds, for setting `NoExecute` taints.
const TAINTING: KeyId = KeyId(1);

/// Configuration of a [`Controller`]. The default is upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The time between rounds over all nodes, in ns, above 0.
    pub period_ns: i64,
    /// The time in ns for which a node may be silent.
    pub grace_ns: i64,
    /// The time in ns for which a node without a condition `Ready` may be silent.
    pub startup_grace_ns: i64,
    /// The maximum rate of `NoExecute` taints in a zone, in millionths of a node per second.
    pub rate: i64,
    /// The rate for a large zone with many nodes that are not ready, in the same unit.
    pub secondary_rate: i64,
    /// The share of a zone's nodes, in millionths, that counts as many.
    pub unhealthy_share: i64,
    /// The number of nodes above which a zone is large.
    pub large_zone: i64,
    /// Whether a predecessor has already reported the nodes of the first round.
    pub goes_on: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            period_ns: NODE_MONITOR_PERIOD.default,
            grace_ns: NODE_MONITOR_GRACE_PERIOD.default,
            startup_grace_ns: NODE_STARTUP_GRACE_PERIOD.default,
            rate: NODE_EVICTION_RATE.default,
            secondary_rate: SECONDARY_NODE_EVICTION_RATE.default,
            unhealthy_share: UNHEALTHY_ZONE_THRESHOLD.default,
            large_zone: LARGE_CLUSTER_SIZE_THRESHOLD.default,
            goes_on: false,
        }
    }
}

/// The node lifecycle controller. Other controllers may share its informers. A clone is a handle to
/// the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    options: Options,
    nodes: Arc<Store<Arc<Node>>>,
    leases: Arc<Store<AnyObject>>,
    pods: Arc<PodCache>,
    queues: [RateLimitingQueue<KeyId>; 2],
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Whether the first round has been queued.
    is_started: bool,
    /// Whether a round has recorded the nodes that exist.
    has_known: bool,
    /// The nodes of the last round, by name. Events need their UIDs.
    known: BTreeMap<CompactString, Arc<Node>>,
    /// The observations about each node, by name.
    health: BTreeMap<CompactString, Health>,
    zones: BTreeMap<ZoneName, Zone>,
    /// The nodes that are not ready and have pods that could not be marked yet.
    unmarked: BTreeSet<CompactString>,
    /// The pods that were bound to a node while it was not ready, by the node's key.
    late: BTreeMap<KeyId, Vec<PodKey>>,
}

impl Controller {
    /// Creates a controller that reads nodes, Leases and pods from `informers`.
    pub fn new(options: Options, informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            options,
            nodes: informers.store(Kind::NODE, || ()),
            leases: informers.store(Kind::LEASE, || ()),
            pods: Arc::clone(informers.pods()),
            queues: [NODES, ROUNDS]
                .map(|at| RateLimitingQueue::from_row(NodeLifecycle::ROW.queues[at])),
            state: Mutex::default(),
        });
        informers.add_handler::<Arc<Node>>(Kind::NODE, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Returns the queue of rounds.
    pub fn rounds(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queues[ROUNDS]
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Queues the first round when the first node arrives. Keys are processed only after all caches
    /// are filled.
    fn start(&self, now: Now) {
        if !std::mem::replace(&mut self.lock().is_started, true) {
            self.queues[ROUNDS].add(MONITOR, now.mono_ns);
        }
    }

    /// Handles a newly bound pod. If its node is not ready, the pod must be marked.
    fn bound(&self, pod: &Pod, now: Now) {
        let Some(node) = node_of(pod) else { return };
        let mut state = self.lock();
        let health = state.health.get(&**node);
        let status = health.and_then(|health| health.ready);
        if status.is_none_or(|(status, _)| status == Ready::True) {
            return;
        }
        // A node that is not in the cache has been deleted.
        let Some(key) = self.nodes.find("", node) else {
            return;
        };
        state.late.entry(key).or_default().push(PodKey::of(pod));
        drop(state);
        self.queues[NODES].add(key, now.mono_ns);
    }
}

/// Wakes a node that was added, changed or listed, to update its taints and labels. The next round
/// notices a deleted node.
impl Handler<Arc<Node>> for Shared {
    fn handle(&self, change: &Change<Arc<Node>>, now: Now) {
        if change.new.is_some() {
            self.queues[NODES].add(change.key, now.mono_ns);
            self.start(now);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queues[NODES])
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, queue: usize, key: KeyId) -> ObjectKey {
        match (queue, key) {
            (NODES, _) => self.0.nodes.name(key),
            (_, key) => ObjectKey {
                namespace: Str::default(),
                name: match key {
                    MONITOR => "monitor".into(),
                    _ => "tainting".into(),
                },
            },
        }
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        &self.0.queues
    }

    /// Takes the lock only for newly bound pods.
    fn pod_changed(&self, change: &PodChange, now: Now) {
        let before = change.old.as_deref().and_then(node_of);
        if !change.deleted && node_of(&change.new) != before {
            self.0.bound(&change.new, now);
        }
    }

    fn steps(&self, queue: usize, key: KeyId, calls: Calls) -> impl Steps {
        let shared = Arc::clone(&self.0);
        async move {
            match (queue, key) {
                (NODES, _) => taints::run(shared, key, calls).await,
                (_, MONITOR) => monitor::run(shared, calls).await,
                _ => taints::execute(shared, calls).await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
