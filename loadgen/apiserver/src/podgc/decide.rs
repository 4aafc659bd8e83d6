//! What one round of pod garbage collection does: which nodes it reads, and which pods it deletes.
//!
//! Source: `gc` and its steps in Kubernetes' `pkg/controller/podgc`.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::{Map, Node, Object, Pod, PodPhase, Str, Time};
use serde_json::{Value, json};

/// The taint of a node that an operator has declared dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The condition of a pod that is deleted for another reason than its owner's.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// Why a pod is deleted, in upstream's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemovalReason {
    /// More pods have ended than the threshold allows.
    Terminated,
    /// The pod is being deleted, and its node is out of service.
    OutOfService,
    /// The pod's node no longer exists.
    Orphaned,
    /// The pod is being deleted and was never bound.
    Unscheduled,
}

/// A pod to delete.
#[derive(Clone, Debug)]
pub struct Removal {
    /// The pod as the cache has it.
    pub pod: Arc<Pod>,
    /// Why.
    pub reason: RemovalReason,
}

/// One round: what the caches of nodes and pods say. A pod may be in two lists, and is then
/// deleted twice.
#[derive(Debug)]
pub struct Round {
    threshold: i64,
    /// By name: whether the node is out of service.
    nodes: BTreeMap<String, bool>,
    terminated: Vec<Arc<Pod>>,
    out_of_service: Vec<Arc<Pod>>,
    /// By the name of the node that is missing; no entry is empty.
    on_missing: BTreeMap<Str, Vec<Arc<Pod>>>,
    unscheduled: Vec<Arc<Pod>>,
}

impl Round {
    /// A round over these nodes; pods are [noted](Round::note) next. More ended pods than
    /// `threshold` are too many; none are when it is not positive.
    pub fn new<'n>(threshold: i64, nodes: impl IntoIterator<Item = &'n Arc<Node>>) -> Round {
        let node = |node: &Arc<Node>| (node.metadata.name.to_string(), is_out_of_service(node));
        Round {
            threshold,
            nodes: nodes.into_iter().map(node).collect(),
            terminated: Vec::new(),
            out_of_service: Vec::new(),
            on_missing: BTreeMap::new(),
            unscheduled: Vec::new(),
        }
    }

    /// Takes a pod of the cache into account.
    pub fn note(&mut self, pod: &Arc<Pod>) {
        use PodPhase::{Pending, Running, Unknown};
        if self.threshold > 0 && !matches!(pod.status.phase, Pending | Running | Unknown) {
            self.terminated.push(pod.clone());
        }
        let deleting = pod.metadata.is_deleting();
        match pod.node_name.as_ref().filter(|name| !name.is_empty()) {
            None if deleting => self.unscheduled.push(pod.clone()),
            None => {}
            Some(name) => match self.nodes.get(name.as_str()) {
                Some(true) if deleting => self.out_of_service.push(pod.clone()),
                Some(_) => {}
                None => match self.on_missing.get_mut(name) {
                    Some(pods) => pods.push(pod.clone()),
                    None => drop(self.on_missing.insert(name.clone(), vec![pod.clone()])),
                },
            },
        }
    }

    /// The nodes to put into quarantine: pods are bound to them, and they are missing. Sorted.
    pub fn missing_nodes(&self) -> impl Iterator<Item = &Str> {
        self.on_missing.keys()
    }

    /// Whether to read a node whose quarantine is over: it is still missing.
    pub fn is_missing(&self, name: &str) -> bool {
        !self.nodes.contains_key(name)
    }

    /// The pods to delete, in order; `gone` are the nodes that were read and do not exist.
    pub fn removals(mut self, gone: &[Str]) -> Vec<Removal> {
        let surplus = usize::try_from(self.threshold).unwrap_or(0);
        let surplus = self.terminated.len().saturating_sub(surplus);
        self.terminated.sort_by(|a, b| {
            let key = |pod: &Pod| (!is_evicted(pod), pod.metadata.creation_timestamp);
            let by_name = || a.metadata.name.cmp(&b.metadata.name);
            let by_namespace = || a.metadata.namespace.cmp(&b.metadata.namespace);
            key(a)
                .cmp(&key(b))
                .then_with(by_name)
                .then_with(by_namespace)
        });
        self.terminated.truncate(surplus);
        let gone = gone.iter();
        let mut orphaned: Vec<Arc<Pod>> = gone
            .filter_map(|name| self.on_missing.remove(name))
            .flatten()
            .collect();
        // The caches have no order.
        for pods in [
            &mut self.out_of_service,
            &mut orphaned,
            &mut self.unscheduled,
        ] {
            pods.sort_by(|a, b| {
                let by_name = || a.metadata.name.cmp(&b.metadata.name);
                a.metadata
                    .namespace
                    .cmp(&b.metadata.namespace)
                    .then_with(by_name)
            });
        }
        let of = |reason, pods: Vec<Arc<Pod>>| {
            let removal = move |pod| Removal { pod, reason };
            pods.into_iter().map(removal)
        };
        of(RemovalReason::Terminated, self.terminated)
            .chain(of(RemovalReason::OutOfService, self.out_of_service))
            .chain(of(RemovalReason::Orphaned, orphaned))
            .chain(of(RemovalReason::Unscheduled, self.unscheduled))
            .collect()
    }
}

impl Removal {
    /// The strategic merge patch of the pod's status that comes before its deletion; `None` for a
    /// pod that has ended. When the patch fails, the pod is not deleted.
    pub fn status_patch(&self, now: Time) -> Option<Map> {
        let pod = &self.pod;
        if pod.status.phase.is_terminal() {
            return None;
        }
        let generation = pod.metadata.generation;
        let mut status = Map::new();
        if self.reason == RemovalReason::Orphaned {
            let stored = pod.to_json();
            add_condition(&mut status, &stored["status"], generation, now);
        }
        status.insert("phase".into(), "Failed".into());
        let observed = pod.status.rest.get("observedGeneration");
        if observed.and_then(|observed| observed.as_i64()).unwrap_or(0) != generation {
            status.insert("observedGeneration".into(), generation.into());
        }
        let mut patch = Map::new();
        let metadata = json!({"uid": pod.metadata.uid.to_string()});
        patch.insert("metadata".into(), metadata);
        patch.insert("status".into(), Value::Object(status));
        Some(patch)
    }
}

/// Adds what sets the condition `DisruptionTarget` to the patch of a status.
fn add_condition(patch: &mut Map, stored: &Value, generation: i64, now: Time) {
    let mut wanted = json!({"type": DISRUPTION_TARGET, "status": "True",
        "reason": "DeletionByPodGC", "message": "PodGC: node no longer exists",
        "observedGeneration": generation, "lastProbeTime": null,
        "lastTransitionTime": now.to_string()});
    let none = Vec::new();
    let conditions = stored["conditions"].as_array().unwrap_or(&none);
    let of_type = |condition: &&Value| condition["type"] == DISRUPTION_TARGET;
    let members = wanted.as_object_mut().expect("it is written as one");
    let found = conditions.iter().find(of_type);
    if let Some(found) = found {
        if found["status"] == "True" {
            members.remove("lastTransitionTime");
        }
        // The key stays, and else what differs.
        members.retain(|member, value| member == "type" || found[member.as_str()] != *value);
        if members.len() == 1 {
            return;
        }
    }
    if !conditions.is_empty() {
        let types = conditions.iter().map(|condition| &condition["type"]);
        let mut order: Vec<Value> = types.map(|of| json!({"type": of})).collect();
        if found.is_none() {
            order.push(json!({"type": DISRUPTION_TARGET}));
        }
        patch.insert("$setElementOrder/conditions".into(), order.into());
    }
    patch.insert("conditions".into(), Value::Array(vec![wanted]));
}

fn is_evicted(pod: &Pod) -> bool {
    let reason = || pod.status.rest.get("reason");
    pod.status.phase == PodPhase::Failed && reason().is_some_and(|reason| reason == "Evicted")
}

fn is_out_of_service(node: &Node) -> bool {
    let list = |of: &Map, member: &str| match of.get(member) {
        Some(Value::Array(entries)) => entries.clone(),
        _ => Vec::new(),
    };
    let taints = list(&node.spec, "taints");
    let mut conditions = list(&node.status, "conditions").into_iter();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    taints.iter().any(|taint| taint["key"] == OUT_OF_SERVICE)
        && ready.is_none_or(|ready| ready["status"] != "True")
}
