//! The node controller, which marks silent nodes as unreachable and evicts their pods, and the pod
//! garbage collector, which removes the pods of nodes that no longer exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_apiserver::{Cluster, DeleteOptions};
use podstorm_objects::{Map, Node, Now, Pod, PodPhase, Str, Time};
use serde_json::{Value, json};

use super::change::{change_status, disrupted, ended, unreachable};
use super::control::{KUBELET, NodeControl};
use super::placement::is_driven_out;
use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Waker};

/// The taint of an unreachable node.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// The reason and message for pods that are deleted because of a taint.
const TAINTED: (&str, &str) = (
    "DeletionByTaintManager",
    "Taint manager: deleting due to NoExecute taint",
);

/// Reports whether the node is marked as unreachable, so that it gets no new pods.
pub(super) fn is_unreachable(node: &Node) -> bool {
    let taints = node.spec.get("taints").and_then(Value::as_array);
    taints.is_some_and(|taints| taints.iter().any(|taint| taint["key"] == UNREACHABLE))
}

/// The stage of a node with a silent kubelet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The node's silence is detected at this time, ns.
    Silent(i64),
    /// The node is marked as unreachable; its pods are evicted at this time, ns.
    Unreachable(i64),
    /// The node's pods were evicted; later pods are evicted at this time, ns.
    Evicted(Option<i64>),
}

impl Stage {
    fn due_ns(self) -> Option<i64> {
        match self {
            Stage::Silent(due_ns) | Stage::Unreachable(due_ns) => Some(due_ns),
            Stage::Evicted(due_ns) => due_ns,
        }
    }
}

/// The node controller and the pod garbage collector.
#[derive(Debug)]
pub(super) struct NodeController {
    cluster: Arc<Cluster>,
    control: Arc<NodeControl>,
    nodes: ObjectStream<Node>,
    /// The nodes that exist.
    known: BTreeSet<Str>,
    /// The nodes whose kubelet is silent.
    silent: BTreeMap<Str, Stage>,
    /// The nodes that do not exist but have pods, with the time at which these pods are removed,
    /// ns.
    missing: BTreeMap<Str, i64>,
}

impl NodeController {
    pub(super) fn new(
        cluster: Arc<Cluster>,
        control: &Arc<NodeControl>,
        waker: Waker,
    ) -> NodeController {
        NodeController {
            nodes: ObjectStream::new(Arc::clone(&cluster), waker),
            cluster,
            control: Arc::clone(control),
            known: BTreeSet::new(),
            silent: BTreeMap::new(),
            missing: BTreeMap::new(),
        }
    }

    /// Handles changes of Node objects.
    pub(super) fn see_nodes(&mut self, now: Now) -> Next {
        let (known, missing) = (&mut self.known, &mut self.missing);
        let (cluster, control) = (&self.cluster, &self.control);
        let quarantined_ns = now.mono_ns.saturating_add(control.times().quarantine_ns);
        self.nodes.poll(now, |item| match item {
            ObjectEvent::Reset => known.clear(),
            ObjectEvent::Added(node) | ObjectEvent::Modified(node) => {
                let name = node.metadata.name.as_str();
                missing.remove(name);
                if !known.contains(name) {
                    known.insert(name.into());
                }
                if control.clients().is_some() {
                    obey(cluster, control, &node, now);
                }
            }
            ObjectEvent::Deleted(node) => {
                let name = node.metadata.name.as_str();
                known.remove(name);
                // In a cluster with clients, the pod garbage collector of the cluster handles the
                // pods.
                if control.clients().is_none() {
                    missing.insert(name.into(), quarantined_ns);
                }
            }
        })
    }

    /// Handles a pod that was added or changed.
    pub(super) fn see_pod(&mut self, pod: &Pod, now: Now) {
        let Some(node) = pod.node_name.as_ref().filter(|node| !node.is_empty()) else {
            return;
        };
        let times = self.control.times();
        // Clients may load pods without their nodes.
        let is_strict = self.control.clients().is_none();
        if is_strict && !self.known.contains(node) && !self.missing.contains_key(node) {
            let due_ns = now.mono_ns.saturating_add(times.quarantine_ns);
            self.missing.insert(node.clone(), due_ns);
        }
        if pod.metadata.is_deleting() {
            return;
        }
        if let Some(Stage::Evicted(due_ns @ None)) = self.silent.get_mut(node) {
            *due_ns = Some(now.mono_ns.saturating_add(times.toleration_ns));
        }
    }

    /// Handles a kubelet that became silent.
    pub(super) fn lost(&mut self, node: Str, now: Now) {
        let due_ns = now.mono_ns.saturating_add(self.control.times().grace_ns);
        self.silent.insert(node, Stage::Silent(due_ns));
    }

    /// Handles a kubelet that has come back.
    pub(super) fn back(&mut self, node: &str, now: Now) {
        match self.silent.remove(node) {
            None | Some(Stage::Silent(_)) => {}
            Some(_) => self.mark(node, true, now),
        }
    }

    /// Performs the actions that are due.
    pub(super) fn run(&mut self, now: Now) -> Next {
        let due = |due_ns: &i64| *due_ns <= now.mono_ns;
        let stages = self.silent.iter();
        let noticed: Vec<Str> = stages
            .filter(|(_, stage)| stage.due_ns().as_ref().is_some_and(due))
            .map(|(node, _)| node.clone())
            .collect();
        for node in noticed {
            let next = match self.silent.get(&node) {
                Some(Stage::Silent(_)) => {
                    self.mark_unreachable(&node, now);
                    let tolerated_ns = self.control.times().toleration_ns;
                    Stage::Unreachable(now.mono_ns.saturating_add(tolerated_ns))
                }
                _ => {
                    self.evict(&node, now);
                    Stage::Evicted(None)
                }
            };
            self.silent.insert(node, next);
        }
        let missing = self.missing.iter().filter(|(_, at)| due(at));
        let gone: Vec<Str> = missing.map(|(node, _)| node.clone()).collect();
        for node in gone {
            self.missing.remove(&node);
            if !self.known.contains(&node) {
                self.remove_pods(&node, now);
            }
        }
        let stages = self.silent.values().filter_map(|stage| stage.due_ns());
        let next = stages.chain(self.missing.values().copied()).min();
        next.map_or(Next::Idle, Next::At)
    }

    /// Marks a node as unreachable and its pods as not ready.
    fn mark_unreachable(&self, node: &str, now: Now) {
        self.mark(node, false, now);
        for pod in pods_on(&self.cluster, node) {
            change_status(&self.cluster, &pod, now, |live| {
                let known = live.is_ready() && !live.status.phase.is_terminal();
                known.then(|| unreachable(&live.status, now.wall()))
            });
        }
    }

    fn evict(&self, node: &str, now: Now) {
        for pod in pods_on(&self.cluster, node) {
            if !pod.metadata.is_deleting() {
                drive_out(&self.cluster, &self.control, &pod, now);
            }
        }
    }

    /// Removes the pods of a node that no longer exists, by force.
    fn remove_pods(&self, node: &str, now: Now) {
        for pod in pods_on(&self.cluster, node) {
            change_status(&self.cluster, &pod, now, |live| {
                let running = !live.status.phase.is_terminal();
                running.then(|| ended(&live.status, PodPhase::Failed, now.wall()))
            });
            delete(&self.cluster, &pod, Some(0), now);
        }
    }

    /// Writes to a Node object, if it exists, whether the node is reachable.
    fn mark(&self, name: &str, reachable: bool, now: Now) {
        let change = |change: &dyn Fn(&mut Node), status: bool| {
            // A write without a version applies to any stored version.
            let Ok(found) = self.cluster.get::<Node>("", name) else {
                return;
            };
            let mut node = Node::clone(&found);
            change(&mut node);
            node.metadata.resource_version = Default::default();
            let _written = if status {
                self.cluster.update_status(node, now)
            } else {
                self.cluster.update(node, now)
            };
        };
        change(
            &|node| set_ready(&mut node.status, reachable, now.wall()),
            true,
        );
        change(&|node| set_taints(&mut node.spec, reachable), false);
    }
}

/// Applies a client's changes to a node: its kubelet becomes silent or comes back, and pods that do
/// not tolerate a `NoExecute` taint are evicted. `tolerationSeconds` is ignored.
fn obey(cluster: &Cluster, control: &NodeControl, node: &Node, now: Now) {
    let name = node.metadata.name.as_str();
    let silent = node.metadata.annotations.get(KUBELET);
    match silent.is_some_and(|value| &**value == "silent") {
        true => control.lose(name),
        false => control.restore(name),
    }
    if node.spec.contains_key("taints") {
        for pod in pods_on(cluster, name) {
            if !pod.metadata.is_deleting() && is_driven_out(node, &pod, UNREACHABLE) {
                drive_out(cluster, control, &pod, now);
            }
        }
    }
}

/// Evicts a pod from its node.
fn drive_out(cluster: &Cluster, control: &NodeControl, pod: &Pod, now: Now) {
    if control.clients().is_some() {
        let (reason, message) = TAINTED;
        change_status(cluster, pod, now, |live| {
            Some(disrupted(&live.status, reason, message, now.wall()))
        });
    }
    delete(cluster, pod, None, now);
}

/// Returns every pod on a node, sorted by namespace and name. O(pods).
pub(super) fn pods_on(cluster: &Cluster, node: &str) -> Vec<Arc<Pod>> {
    let mut pods = Vec::new();
    cluster.for_each::<Pod>(|pod| {
        if pod.node_name.as_deref() == Some(node) {
            pods.push(pod.clone());
        }
    });
    pods.sort_by_cached_key(|pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone()));
    pods
}

fn delete(cluster: &Cluster, pod: &Pod, grace_period_seconds: Option<i64>, now: Now) {
    let meta = &pod.metadata;
    let options = DeleteOptions {
        grace_period_seconds,
        precondition_uid: Some(meta.uid.clone()),
        ..DeleteOptions::default()
    };
    // An error means that the pod was deleted, or replaced by another of the same name.
    let _gone = cluster.delete::<Pod>(&meta.namespace, &meta.name, &options, now);
}

/// Sets a node's condition `Ready` to `True` or `Unknown`.
fn set_ready(status: &mut Map, reachable: bool, now: Time) {
    let entry = status.entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(conditions) = entry else {
        return;
    };
    let (to, reason) = if reachable {
        ("True", "KubeletReady")
    } else {
        ("Unknown", "NodeStatusUnknown")
    };
    let new = json!({"type": "Ready", "status": to, "reason": reason,
        "lastTransitionTime": now.to_string()});
    match conditions.iter_mut().find(|one| one["type"] == "Ready") {
        Some(found) if found["status"] == to => {}
        Some(found) => *found = new,
        None => conditions.push(new),
    }
}

fn set_taints(spec: &mut Map, reachable: bool) {
    let entry = spec.entry("taints").or_insert_with(|| json!([]));
    let Value::Array(taints) = entry else {
        return;
    };
    taints.retain(|taint| taint["key"] != UNREACHABLE);
    if !reachable {
        for effect in ["NoSchedule", "NoExecute"] {
            taints.push(json!({"key": UNREACHABLE, "effect": effect}));
        }
    }
    if taints.is_empty() {
        spec.remove("taints");
    }
}
