//! A round: it checks all nodes, marks silent nodes and the pods of nodes that are not ready, and
//! evaluates the zones.
//!
//! Source: `monitorNodeHealth` of Kubernetes' `pkg/controller/nodelifecycle`.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{AnyObject, DynamicObject, Kind, Map, Node, ObjectReference, Pod, Time};
use podstorm_runtime::client::{EventIntent, EventMessage, EventType};
use podstorm_runtime::driver::{Calls, SyncFailure, join_all};
use podstorm_runtime::workqueue::End;

use super::health::{self, Look, Ready, Renewal};
use super::zones::{Change, ReadyCounts, Zone, ZoneName, judge, zone_of};
use super::{LEASES, Shared, pods, taints};
use crate::node::{self, node_of};

/// The maximum number of attempts to write the status of a silent node in one round, the same as
/// upstream's.
const ATTEMPTS: usize = 5;

/// The label that excludes nodes from the counts of their zones.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";

/// Runs one round. The next round retries whatever failed.
pub(super) async fn run(shared: Arc<Shared>, calls: Calls) -> Result<End, SyncFailure> {
    let mut nodes: Vec<Arc<Node>> = shared
        .nodes
        .all()
        .into_iter()
        .map(|(_, node)| Arc::clone(&*node))
        .collect();
    nodes.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    let added = classify(&shared, &calls, &nodes);
    join_all(
        added
            .iter()
            .map(|node| taints::reached(&shared, &calls, node)),
    )
    .await;
    let looks = join_all(nodes.iter().map(|node| look_at(&shared, &calls, node))).await;
    let mut counts: BTreeMap<ZoneName, ReadyCounts> = BTreeMap::new();
    for (node, look) in nodes.iter().zip(&looks) {
        let Some(look) = look else { continue };
        if node.metadata.labels.get(EXCLUDED).is_none() {
            let counts = counts.entry(zone_of(node)).or_default();
            match look.current {
                Some(Ready::True) => counts.ready += 1,
                _ => counts.not_ready += 1,
            }
        }
    }
    react(&shared, &calls, looks.into_iter().flatten()).await;
    let now_ns = calls.now().mono_ns;
    let change = judge(&mut shared.lock().zones, &counts, &shared.options, now_ns);
    match change {
        Change::Nothing => {}
        Change::AllDown => {
            // Read the nodes again, because this round has set taints.
            let fresh = nodes
                .iter()
                .filter_map(|node| shared.nodes.get_named("", &node.metadata.name));
            let fresh: Vec<_> = fresh.collect();
            join_all(
                fresh
                    .iter()
                    .map(|node| taints::reached(&shared, &calls, node)),
            )
            .await;
        }
        Change::Over => {
            for health in shared.lock().health.values_mut() {
                health.probe_ns = now_ns;
            }
        }
    }
    shared.queue_turns(now_ns);
    Ok(End::After(shared.options.period_ns))
}

/// Records the nodes that were added or deleted since the last round, with an Event for each.
/// Returns the added nodes.
fn classify(shared: &Shared, calls: &Calls, nodes: &[Arc<Node>]) -> Vec<Arc<Node>> {
    let mut state = shared.lock();
    let state = &mut *state;
    let is_told = std::mem::replace(&mut state.has_known, true) || !shared.options.goes_on;
    let mut added = Vec::new();
    for node in nodes {
        state
            .zones
            .entry(zone_of(node))
            .or_insert_with(|| Zone::new(&shared.options));
        let name = &node.metadata.name;
        if !state.known.contains_key(name) {
            if is_told {
                let text = format!("Node {name} event: Registered Node {name} in Controller");
                calls.event(event(node, "RegisteredNode", text));
            }
            state.known.insert(name.clone(), Arc::clone(node));
            added.push(Arc::clone(node));
        }
    }
    if state.known.len() > nodes.len() {
        let is_gone = |name: &CompactString| {
            let found = nodes.binary_search_by(|node| node.metadata.name.cmp(name));
            found.is_err()
        };
        let gone: Vec<CompactString> = state
            .known
            .keys()
            .filter(|it| is_gone(it))
            .cloned()
            .collect();
        for name in gone {
            let node = state
                .known
                .remove(&name)
                .expect("the name is one of its keys");
            let text = format!("Node {name} event: Removing Node {name} from Controller");
            calls.event(event(&node, "RemovingNode", text));
            state.health.remove(&name);
            state.unmarked.remove(&name);
            if let Some(zone) = state.zones.get_mut(&zone_of(&node)) {
                zone.remove(&name);
            }
        }
    }
    added
}

/// A node after its check, in the current version.
struct Seen {
    node: Arc<Node>,
    observed: Ready,
    current: Option<Ready>,
}

/// Checks a node and, if it is silent, writes its status. Returns `None` if a request fails, for
/// example because the node was deleted.
async fn look_at(shared: &Shared, calls: &Calls, node: &Arc<Node>) -> Option<Seen> {
    let mut node = Arc::clone(node);
    let name = node.metadata.name.clone();
    for _ in 0..ATTEMPTS {
        let lease = shared.leases.get_named(LEASES, &name);
        let lease = lease.map(|lease| renewal(&lease));
        let now = calls.now();
        let found = {
            let mut state = shared.lock();
            let mut health = state.health.remove(&name);
            let found = health::look(&mut health, &node, lease, &shared.options, now);
            if let Some(health) = health {
                state.health.insert(name.clone(), health);
            }
            found
        };
        let Look {
            observed,
            current,
            stale,
        } = found;
        let seen = |node| Seen {
            node,
            observed,
            current,
        };
        let Some(status) = stale else {
            return Some(seen(node));
        };
        match put_status(calls, &node, status).await {
            Some(written) => {
                if let Some(health) = shared.lock().health.get_mut(&name) {
                    health.written(&written, lease);
                }
                return Some(seen(written));
            }
            None => node = node::read(calls, &name).await.ok()?,
        }
    }
    None
}

async fn put_status(calls: &Calls, node: &Node, status: Map) -> Option<Arc<Node>> {
    let mut new = node.clone();
    new.status = status;
    // Returns the object that was sent, at the version that was read, because the next check
    // compares it with the cache.
    calls.put_status(new.clone()).await.ok()?;
    Some(Arc::new(new))
}

/// Handles the checked nodes: sets `NoExecute` taints, records Events and marks pods.
async fn react(shared: &Shared, calls: &Calls, seen: impl Iterator<Item = Seen>) {
    let seen: Vec<Seen> = seen.filter(|it| it.current.is_some()).collect();
    join_all(seen.iter().map(|it| {
        let current = it
            .current
            .expect("nodes without the condition were filtered out");
        taints::settle(shared, calls, &it.node, current)
    }))
    .await;
    let mut to_mark: BTreeMap<CompactString, Vec<Arc<Pod>>> = BTreeMap::new();
    {
        let mut state = shared.lock();
        for Seen {
            node,
            observed,
            current,
        } in &seen
        {
            let name = &node.metadata.name;
            let left_ready = *observed == Ready::True && *current != Some(Ready::True);
            let again = *observed != Ready::True && state.unmarked.contains(name);
            if left_ready {
                let text = format!("Node {name} status is now: NodeNotReady");
                calls.event(event(node, "NodeNotReady", text));
            }
            match left_ready || again {
                true => drop(to_mark.insert(name.clone(), Vec::new())),
                false => drop(state.unmarked.remove(name)),
            }
        }
    }
    if to_mark.is_empty() {
        return;
    }
    shared.pods.for_each(|pod| {
        if let Some(found) = node_of(pod).and_then(|node| to_mark.get_mut(&**node)) {
            found.push(Arc::clone(pod));
        }
    });
    for (node, mut found) in to_mark {
        // Sorted, because the cache is unordered.
        let name = |pod: &Arc<Pod>| (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        found.sort_by_cached_key(name);
        let marked = pods::mark(calls, &found).await;
        let mut state = shared.lock();
        match marked {
            true => drop(state.unmarked.remove(&node)),
            false => drop(state.unmarked.insert(node)),
        }
    }
}

/// Returns the renewal time of a Lease; `None` if it has none.
fn renewal(lease: &AnyObject) -> Renewal {
    let lease = lease.downcast_ref::<DynamicObject>()?;
    let time = lease.fields.get("spec")?["renewTime"].as_str()?;
    Time::read_micros(time).ok()
}

/// Builds an Event about a node. As in upstream, the reference in the Event has no version.
fn event(node: &Node, reason: &'static str, text: String) -> EventIntent {
    let reference = ObjectReference {
        resource_version: Default::default(),
        ..ObjectReference::new(Kind::NODE, &node.metadata)
    };
    EventIntent {
        regarding: Arc::new(reference),
        kind: EventType::Normal,
        reason,
        message: EventMessage::Text(text.into()),
    }
}
