//! The taints of nodes: `NoSchedule` taints, which follow the conditions immediately, and
//! `NoExecute` taints of nodes that are not ready, which are set at the rate of their zones.
//!
//! Source: `doNoScheduleTaintingPass`, `reconcileNodeLabels` and `doNoExecuteTaintingPass` of Kubernetes'
//! `pkg/controller/nodelifecycle`.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::Node;
use podstorm_runtime::client::ApiError;
use podstorm_runtime::driver::{Calls, SyncFailure};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::End;
use serde_json::{Map, Value, json};

use super::health::Ready;
use super::{Shared, State, TAINTING, pods};
use crate::node::{
    self, NO_EXECUTE, NO_SCHEDULE, NOT_READY, Taint, UNREACHABLE, is_tainted, node_of, swap_taints,
};

/// The minimum time in ns between two searches for nodes that get a `NoExecute` taint.
const TURNS_EVERY_NS: i64 = 100_000_000;

/// The key of the taint of an unschedulable node.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The taints that follow conditions: type and status of the condition, key of the taint.
const OF_CONDITIONS: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Pairs of a label and a deprecated label that gets the same value.
const OLDER_LABELS: [(&str, &str); 2] = [
    ("kubernetes.io/os", "beta.kubernetes.io/os"),
    ("kubernetes.io/arch", "beta.kubernetes.io/arch"),
];

/// Updates the taints and labels of a node to match its conditions. Marks the pods that were bound
/// to the node while it was not ready.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let late = shared.lock().late.remove(&key).unwrap_or_default();
    let Some(node) = shared.nodes.get(key) else {
        return Ok(End::Forget);
    };
    let (add, remove) = differences(&node);
    let changed = swap_taints(&calls, &node, add, &remove).await;
    changed.map_err(SyncFailure::at("taints failed"))?;
    if let Some(labels) = older_labels(&node) {
        let body = json!({"metadata": {"labels": labels}});
        let patch = node::patch(&node.metadata.name, body);
        let patched = calls.send(patch).await;
        patched.map_err(SyncFailure::at("labels failed"))?;
    }
    let name = &node.metadata.name;
    let is_ready = |state: &State| {
        let status = state.health.get(name).and_then(|it| it.ready);
        status.is_none_or(|(status, _)| status == Ready::True)
    };
    if late.is_empty() || is_ready(&shared.lock()) {
        return Ok(End::Forget);
    }
    let found = late
        .iter()
        .filter_map(|pod| shared.pods.get(&pod.namespace, &pod.name));
    let found: Vec<_> = found
        .filter(|pod| node_of(pod).is_some_and(|at| **at == *name.as_str()))
        .collect();
    if !pods::mark(&calls, &found).await {
        let mut state = shared.lock();
        state.late.entry(key).or_default().extend(late);
        return Err(SyncFailure::new(
            "pods failed",
            "not every pod could be marked",
        ));
    }
    Ok(End::Forget)
}

/// Returns the `NoSchedule` taints to add to a node, and those to remove. Considers only taints
/// that this controller sets.
fn differences(node: &Node) -> (Vec<Taint>, Vec<Taint>) {
    let conditions = node.status.get("conditions").and_then(Value::as_array);
    let conditions = conditions.into_iter().flatten();
    let mut wanted: Vec<Taint> = conditions
        .flat_map(|condition| {
            let rows = OF_CONDITIONS.iter().filter(|(of_type, status, _)| {
                condition["type"] == *of_type && condition["status"] == *status
            });
            rows.map(|(.., key)| Taint::new(key, NO_SCHEDULE))
        })
        .collect();
    if node.unschedulable {
        wanted.push(Taint::new(UNSCHEDULABLE, NO_SCHEDULE));
    }
    let is_ours = |taint: &Taint| {
        let keys = OF_CONDITIONS.iter().map(|(.., key)| *key);
        taint.effect == NO_SCHEDULE && keys.chain([UNSCHEDULABLE]).any(|key| taint.key == key)
    };
    let found: Vec<Taint> = node::taints(node).into_iter().filter(is_ours).collect();
    let add = wanted
        .iter()
        .filter(|it| !found.iter().any(|has| has.is_same(it)));
    let add = add.cloned().collect();
    let remove = found.into_iter();
    let remove = remove.filter(|it| !wanted.iter().any(|wants| wants.is_same(it)));
    (add, remove.collect())
}

/// Returns the deprecated labels to set on a node, with their values; `None` if all are correct.
fn older_labels(node: &Node) -> Option<Map<String, Value>> {
    let labels = &node.metadata.labels;
    let mut lacking = Map::new();
    for (label, older) in OLDER_LABELS {
        if let Some(value) = labels.get(label)
            && labels.get(older) != Some(value)
        {
            lacking.insert(older.to_owned(), (**value).into());
        }
    }
    (!lacking.is_empty()).then_some(lacking)
}

/// Sets the `NoExecute` taints of as many nodes as the rates of their zones allow.
pub(super) async fn execute(shared: Arc<Shared>, calls: Calls) -> Result<End, SyncFailure> {
    let zones: Vec<_> = shared.lock().zones.keys().cloned().collect();
    for zone in zones {
        let take = |now_ns| {
            let mut state = shared.lock();
            state.zones.get_mut(&zone)?.take(now_ns)
        };
        while let Some(name) = take(calls.now().mono_ns) {
            if !taint(&shared, &calls, &name).await
                && let Some(zone) = shared.lock().zones.get_mut(&zone)
            {
                zone.put_back(name);
            }
        }
    }
    let now_ns = calls.now().mono_ns;
    Ok(match shared.lock().next_turn_ns(now_ns) {
        Some(after_ns) => End::After(after_ns),
        None => End::Forget,
    })
}

impl State {
    /// Returns the time in ns until the next node may get its taint; `None` if no node waits.
    fn next_turn_ns(&self, now_ns: i64) -> Option<i64> {
        let next_ns = self
            .zones
            .values()
            .filter_map(|zone| zone.next_ns())
            .min()?;
        Some(next_ns.saturating_sub(now_ns).max(TURNS_EVERY_NS))
    }
}

impl Shared {
    /// Schedules the next run of `NoExecute` taints, if nodes wait for them.
    pub(super) fn queue_turns(&self, now_ns: i64) {
        let next = self.lock().next_turn_ns(now_ns);
        if let Some(after_ns) = next {
            self.queues[super::ROUNDS].add_after(TAINTING, after_ns, now_ns);
        }
    }
}

/// Sets the `NoExecute` taint of a node that is still not ready according to the cache. Returns
/// whether the node no longer has to wait.
async fn taint(shared: &Shared, calls: &Calls, name: &CompactString) -> bool {
    let Some(node) = shared.nodes.get_named("", name) else {
        return true;
    };
    let (add, opposite) = match Ready::from_node(&node) {
        Some(Ready::False) => (NOT_READY, UNREACHABLE),
        Some(Ready::Unknown) => (UNREACHABLE, NOT_READY),
        Some(Ready::True) | None => return true,
    };
    swap(calls, &node, add, opposite).await.is_ok()
}

/// Replaces a `NoExecute` taint of a node with the opposite one.
async fn swap(calls: &Calls, node: &Node, add: &str, remove: &str) -> Result<(), ApiError> {
    let [add, remove] = [add, remove].map(|key| Taint::new(key, NO_EXECUTE));
    swap_taints(calls, node, vec![add], &[remove]).await
}

/// Updates the `NoExecute` taints of a node to match its condition `Ready`, unless the node must
/// first wait for the rate of its zone. The next round retries after errors.
///
/// Source: `processTaintBaseEviction`.
pub(super) async fn settle(shared: &Shared, calls: &Calls, node: &Node, ready: Ready) {
    let [not_ready, unreachable] = [NOT_READY, UNREACHABLE].map(|key| Taint::new(key, NO_EXECUTE));
    let (wanted, opposite) = match ready {
        Ready::True => return reached(shared, calls, node).await,
        Ready::False => (not_ready, unreachable),
        Ready::Unknown => (unreachable, not_ready),
    };
    if is_tainted(node, &opposite) {
        let _left_to_the_next_round = swap(calls, node, &wanted.key, &opposite.key).await;
        return;
    }
    let mut state = shared.lock();
    if let Some(zone) = state.zones.get_mut(&super::zones::zone_of(node)) {
        // The node may have been tainted and may have lost the taint since then.
        if !is_tainted(node, &wanted) && !zone.waits(&node.metadata.name) {
            zone.remove(&node.metadata.name);
        }
        zone.add(&node.metadata.name);
    }
}

/// Removes both `NoExecute` taints of a node that is ready, or that must not have them.
///
/// Source: `markNodeAsReachable`.
pub(super) async fn reached(shared: &Shared, calls: &Calls, node: &Node) {
    for key in [UNREACHABLE, NOT_READY] {
        let taint = Taint::new(key, NO_EXECUTE);
        let _left_to_the_next_round = swap_taints(calls, node, Vec::new(), &[taint]).await;
    }
    let mut state = shared.lock();
    if let Some(zone) = state.zones.get_mut(&super::zones::zone_of(node)) {
        zone.remove(&node.metadata.name);
    }
}
