//! What a kubelet of a served cluster refuses: a pod that came with the name of its node, and that the node has no
//! room for or that does not fit the node. The scheduler has looked at all others.
//!
//! A critical pod is not refused for lack of room: a kubelet of Kubernetes lets other pods go for it, which none
//! does here.
//!
//! Source: `predicate.go` of Kubernetes' `pkg/kubelet/lifecycle`, 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::client::EventType;
use podstorm_objects::{ConditionType, Node, Now, Pod, Quantity};
use serde_json::Value;

use super::{PodAction, PodLifecycle, pending_action};
use crate::nodes::asks::{Ask, HostPort, allocatable};
use crate::nodes::change::{OUT_OF_PODS, change_status, rejected};
use crate::nodes::placement::is_driven_out;
use crate::nodes::pod_life::PodEvent;
use crate::nodes::scheduler::DEFAULT_PODS_PER_NODE;

/// Pods of this priority or a higher one are critical.
const CRITICAL: i64 = 2_000_000_000;

/// The resources that are looked at first.
const FIRST: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The resources whose lack an Event reports.
const TOLD: [(&str, &str); 6] = [
    ("cpu", "OutOfcpu"),
    ("memory", "OutOfmemory"),
    ("ephemeral-storage", "OutOfephemeral-storage"),
    ("hugepages-2Mi", "OutOfhugepages-2Mi"),
    ("hugepages-1Gi", "OutOfhugepages-1Gi"),
    ("nvidia.com/gpu", "OutOfnvidia.com/gpu"),
];

/// Why a node refuses a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    reason: String,
    message: String,
    /// The reason in an Event; absent where none is written.
    told: Option<&'static str>,
}

impl Refusal {
    pub(super) fn of(reason: &'static str, message: String) -> Refusal {
        Refusal {
            reason: reason.to_owned(),
            message,
            told: Some(reason),
        }
    }

    /// The node has too little of a resource.
    fn lack(resource: &str, amounts: [i128; 3]) -> Refusal {
        let [requested, used, capacity] = amounts;
        let mut told = TOLD.iter().filter(|(name, _)| *name == resource);
        Refusal {
            reason: format!("OutOf{resource}"),
            message: format!(
                "Node didn't have enough resource: {resource}, requested: {requested}, \
                 used: {used}, capacity: {capacity}"
            ),
            told: told.next().map(|(_, reason)| *reason),
        }
    }

    fn predicate(reason: &'static str, what: &str) -> Refusal {
        Refusal::of(reason, format!("Predicate {reason} failed: {what}"))
    }
}

/// What the pods of a node that it has taken use.
#[derive(Default)]
struct Used {
    pods: u32,
    amounts: BTreeMap<String, Quantity>,
    ports: Vec<HostPort>,
}

impl Used {
    fn add(&mut self, pod: &Pod) {
        let ask = Ask::of(&pod.spec);
        for (name, amount) in ask.requests {
            let sum = self.amounts.entry(name).or_default();
            *sum = sum.plus(amount);
        }
        self.ports.extend(ask.ports);
    }
}

/// Whether the pod came with the name of its node, and no kubelet has taken or refused it yet.
pub(super) fn is_unseen(pod: &Pod) -> bool {
    let conditions = &pod.status.conditions;
    pending_action(pod) == Some(PodAction::Start)
        && conditions.first(ConditionType::PodScheduled).is_none()
}

impl PodLifecycle {
    /// Why the node of a pod refuses it; `None` where it takes it, or has done so. O(pods) for a pod that
    /// came with the name of its node.
    pub(super) fn refusal(&self, pod: &Pod) -> Option<Refusal> {
        if !self.plays_all || !is_unseen(pod) {
            return None;
        }
        let meta = &pod.metadata;
        let live = self.cluster.get::<Pod>(&meta.namespace, &meta.name).ok()?;
        let is_same = live.metadata.uid == meta.uid && is_unseen(&live);
        let node = live.node_name.clone().filter(|_| is_same)?;
        // A pod whose node is not there yet may run on it.
        let found = self.cluster.get::<Node>("", &node).ok()?;
        let ask = Ask::of(&live.spec);
        let mut used = Used::default();
        let counts = !(ask.requests.is_empty() && ask.ports.is_empty());
        self.cluster.for_each::<Pod>(|other: &Arc<Pod>| {
            let is_there = other.node_name.as_ref() == Some(&node)
                && !other.status.phase.is_terminal()
                && !is_unseen(other);
            if is_there {
                used.pods += 1;
                if counts {
                    used.add(other);
                }
            }
        });
        let priority = live.spec.get("priority").as_ref().and_then(Value::as_i64);
        let is_critical = priority.is_some_and(|priority| priority >= CRITICAL);
        let lack = lacks(&found, &ask, &used).filter(|_| !is_critical);
        lack.or_else(|| misfit(&found, &live, &ask, &used))
    }

    /// Reports that the node refuses the pod.
    pub(super) fn reject(&mut self, pod: &Pod, refusal: &Refusal, now: Now) {
        let why = (&*refusal.reason, &*refusal.message);
        let written = change_status(&self.cluster, pod, now, |live| {
            live.is_active().then(|| rejected(live, why, now.wall()))
        });
        if let Some(reason) = refusal.told.filter(|_| written) {
            let event = PodEvent::of_pod(EventType::Warning, reason, &refusal.message);
            self.tell(pod, vec![event], now);
        }
    }
}

/// The first resource that the node has too little of.
fn lacks(node: &Node, ask: &Ask, used: &Used) -> Option<Refusal> {
    let places = node.pods_allocatable.unwrap_or(DEFAULT_PODS_PER_NODE);
    if used.pods >= places {
        let amounts = [1, used.pods.into(), places.into()];
        let refusal = Refusal::lack("pods", amounts);
        return Some(Refusal {
            told: Some(OUT_OF_PODS),
            ..refusal
        });
    }
    let allocatable = allocatable(node);
    let others = ask.requests.keys().map(String::as_str);
    let others: BTreeSet<&str> = others.filter(|name| !FIRST.contains(name)).collect();
    let mut names = FIRST.into_iter().chain(others);
    names.find_map(|name| {
        let asked = *ask.requests.get(name)?;
        // What a node does not name it has enough of, or it does not look.
        let all = *allocatable.get(name)?;
        let used = used.amounts.get(name).copied().unwrap_or_default();
        let amounts = [asked, used, all].map(|amount| match name {
            "cpu" => amount.ceil_milli(),
            _ => amount.ceil(),
        });
        (asked > all.minus(used)).then(|| Refusal::lack(name, amounts))
    })
}

/// Why the pod does not fit the node, whatever room that has.
fn misfit(node: &Node, pod: &Pod, ask: &Ask, used: &Used) -> Option<Refusal> {
    if !ask.wants(node) {
        let what = "node(s) didn't match Pod's node affinity/selector";
        return Some(Refusal::predicate("NodeAffinity", what));
    }
    let mut taken = used.ports.iter();
    if taken.any(|taken| ask.ports.iter().any(|port| port.is_against(taken))) {
        let what = "node(s) didn't have free ports for the requested pod ports";
        return Some(Refusal::predicate("NodePorts", what));
    }
    is_driven_out(node, pod, "").then(|| {
        let what = "node(s) had taints that the pod didn't tolerate";
        Refusal::predicate("TaintToleration", what)
    })
}
