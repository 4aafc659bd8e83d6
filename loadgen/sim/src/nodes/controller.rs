//! What the cluster does about nodes in trouble: the node controller, which gives up on silent
//! nodes and evicts their pods, and the pod collector, which removes the pods of nodes that are no
//! more.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_apiserver::{Cluster, DeleteOptions};
use podstorm_objects::{Map, Node, Now, Pod, PodPhase, Str, Time};
use serde_json::{Value, json};

use super::change::{change_status, ended, out_of_touch};
use super::control::NodeTimes;
use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Waker};

/// The taint of a node that is given up on.
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

/// Whether the node is given up on, so that it gets no new pods.
pub(super) fn is_unreachable(node: &Node) -> bool {
    let taints = node.spec.get("taints").and_then(Value::as_array);
    taints.is_some_and(|taints| taints.iter().any(|taint| taint["key"] == UNREACHABLE))
}

/// How far a silent node has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Its silence goes unnoticed until then.
    Silent(i64),
    /// It is given up on; its pods are evicted then.
    Unreachable(i64),
    /// They were; those that came to it later are evicted then.
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

/// Node controller and pod collector.
#[derive(Debug)]
pub(super) struct NodeController {
    cluster: Arc<Cluster>,
    times: NodeTimes,
    nodes: ObjectStream<Node>,
    /// Nodes that exist.
    known: BTreeSet<Str>,
    /// Nodes whose kubelet is silent.
    silent: BTreeMap<Str, Stage>,
    /// Nodes that pods are on and that don't exist, and when those pods are removed.
    missing: BTreeMap<Str, i64>,
}

impl NodeController {
    pub(super) fn new(cluster: Arc<Cluster>, times: NodeTimes, waker: Waker) -> NodeController {
        NodeController {
            nodes: ObjectStream::new(Arc::clone(&cluster), waker),
            cluster,
            times,
            known: BTreeSet::new(),
            silent: BTreeMap::new(),
            missing: BTreeMap::new(),
        }
    }

    /// Takes note of the nodes there are.
    pub(super) fn see_nodes(&mut self, now: Now) -> Next {
        let (known, missing) = (&mut self.known, &mut self.missing);
        let quarantined_ns = now.mono_ns.saturating_add(self.times.quarantine_ns);
        self.nodes.poll(now, |item| match item {
            ObjectEvent::Reset => known.clear(),
            ObjectEvent::Added(node) | ObjectEvent::Modified(node) => {
                let name = node.metadata.name.as_str();
                missing.remove(name);
                if !known.contains(name) {
                    known.insert(name.into());
                }
            }
            ObjectEvent::Deleted(node) => {
                let name = node.metadata.name.as_str();
                known.remove(name);
                missing.insert(name.into(), quarantined_ns);
            }
        })
    }

    /// Takes note of a pod that came or changed.
    pub(super) fn see_pod(&mut self, pod: &Pod, now: Now) {
        let Some(node) = pod.node_name.as_ref().filter(|node| !node.is_empty()) else {
            return;
        };
        if !self.known.contains(node) && !self.missing.contains_key(node) {
            let due_ns = now.mono_ns.saturating_add(self.times.quarantine_ns);
            self.missing.insert(node.clone(), due_ns);
        }
        if pod.metadata.is_deleting() {
            return;
        }
        if let Some(Stage::Evicted(due_ns @ None)) = self.silent.get_mut(node) {
            *due_ns = Some(now.mono_ns.saturating_add(self.times.toleration_ns));
        }
    }

    /// A kubelet fell silent.
    pub(super) fn lost(&mut self, node: Str, now: Now) {
        let due_ns = now.mono_ns.saturating_add(self.times.grace_ns);
        self.silent.insert(node, Stage::Silent(due_ns));
    }

    /// A kubelet is back.
    pub(super) fn back(&mut self, node: &str, now: Now) {
        match self.silent.remove(node) {
            None | Some(Stage::Silent(_)) => {}
            Some(_) => self.mark(node, true, now),
        }
    }

    /// Does what is due.
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
                    self.give_up(&node, now);
                    Stage::Unreachable(now.mono_ns.saturating_add(self.times.toleration_ns))
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

    /// Gives up on a node: nothing is known of its pods any more.
    fn give_up(&self, node: &str, now: Now) {
        self.mark(node, false, now);
        for pod in pods_on(&self.cluster, node) {
            let meta = &pod.metadata;
            let at = (&*meta.namespace, meta.name.as_str(), &meta.uid);
            change_status(&self.cluster, at, now, |live| {
                let known = live.is_ready() && !live.status.phase.is_terminal();
                known.then(|| out_of_touch(&live.status, now.wall()))
            });
        }
    }

    fn evict(&self, node: &str, now: Now) {
        for pod in pods_on(&self.cluster, node) {
            if !pod.metadata.is_deleting() {
                delete(&self.cluster, &pod, None, now);
            }
        }
    }

    /// Removes the pods of a node that is no more, by force.
    fn remove_pods(&self, node: &str, now: Now) {
        for pod in pods_on(&self.cluster, node) {
            let meta = &pod.metadata;
            let at = (&*meta.namespace, meta.name.as_str(), &meta.uid);
            change_status(&self.cluster, at, now, |live| {
                let running = !live.status.phase.is_terminal();
                running.then(|| ended(&live.status, PodPhase::Failed, None, now.wall()))
            });
            delete(&self.cluster, &pod, Some(0), now);
        }
    }

    /// Writes down whether the node is reachable, if it exists.
    fn mark(&self, name: &str, reachable: bool, now: Now) {
        let change = |change: &dyn Fn(&mut Node), status: bool| {
            // Without a version in it a write applies to whatever is stored.
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

/// Every pod on a node, sorted by namespace and name. O(pods).
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
    // A refusal means that the pod is gone already, or is another one by now.
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
