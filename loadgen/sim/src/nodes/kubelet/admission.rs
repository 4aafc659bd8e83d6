//! Kubelet admission in served clusters: a kubelet rejects a pod that was created with a node name
//! if the node has too little room or the pod does not fit it. The scheduler has checked all other
//! pods.
//!
//! A critical pod is not rejected for lack of room: other pods are [preempted](super::preemption).
//!
//! Source: `predicate.go` of Kubernetes' `pkg/kubelet/lifecycle`, 1.36.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::client::EventType;
use podstorm_objects::{ConditionType, Node, Now, Pod, Quantity};

use super::{PodAction, PodLifecycle, pending_action, preemption};
use crate::nodes::asks::{Ask, HostPort, allocatable};
use crate::nodes::change::{OUT_OF_PODS, change_status, rejected};
use crate::nodes::placement::is_driven_out;
use crate::nodes::pod_life::PodEvent;
use crate::nodes::scheduler::DEFAULT_PODS_PER_NODE;

/// The resources whose shortages are checked first.
const FIRST: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The resources whose shortage produces an Event, with the Event's reason.
const TOLD: [(&str, &str); 7] = [
    ("pods", OUT_OF_PODS),
    ("cpu", "OutOfcpu"),
    ("memory", "OutOfmemory"),
    ("ephemeral-storage", "OutOfephemeral-storage"),
    ("hugepages-2Mi", "OutOfhugepages-2Mi"),
    ("hugepages-1Gi", "OutOfhugepages-1Gi"),
    ("nvidia.com/gpu", "OutOfnvidia.com/gpu"),
];

/// The admission decision of a node for a pod.
#[derive(Debug)]
pub(super) enum Admission {
    /// The node accepts the pod, or has already accepted it.
    Takes,
    /// The node accepts the pod once these pods, and those that are already stopping, have been
    /// removed.
    After(Vec<Arc<Pod>>),
    Refuses(Refusal),
}

/// A shortage of one resource: the amounts that the pod requests, that other pods use, and that the
/// node has.
#[derive(Debug)]
pub(super) struct Lack {
    pub(super) resource: String,
    pub(super) amounts: [i128; 3],
}

/// The reason why a node rejects a pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    reason: String,
    message: String,
    /// The reason of the Event; `None` if no Event is written.
    told: Option<&'static str>,
}

impl Refusal {
    pub(super) fn new(reason: &'static str, message: String) -> Refusal {
        Refusal {
            reason: reason.to_owned(),
            message,
            told: Some(reason),
        }
    }

    /// Returns the refusal for a shortage of a resource.
    fn lack(lack: &Lack) -> Refusal {
        let (resource, [requested, used, capacity]) = (&*lack.resource, lack.amounts);
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
        Refusal::new(reason, format!("Predicate {reason} failed: {what}"))
    }
}

/// The resources that a node's accepted pods use.
#[derive(Default)]
struct Used {
    pods: u32,
    amounts: BTreeMap<String, Quantity>,
    ports: Vec<HostPort>,
}

impl Used {
    fn add(&mut self, pod: &Pod) {
        let ask = Ask::from_spec(&pod.spec);
        for (name, amount) in ask.requests {
            let sum = self.amounts.entry(name).or_default();
            *sum = sum.plus(amount);
        }
        self.ports.extend(ask.ports);
    }
}

/// Reports whether the pod was created with a node name and no kubelet has accepted or rejected it
/// yet.
pub(super) fn is_unseen(pod: &Pod) -> bool {
    let conditions = &pod.status.conditions;
    pending_action(pod) == Some(PodAction::Start)
        && conditions.first(ConditionType::PodScheduled).is_none()
}

impl PodLifecycle {
    /// Returns the admission decision for a pod. O(pods) for a pod that was created with a node
    /// name.
    pub(super) fn admission(&self, pod: &Pod) -> Admission {
        match self.plays_all && is_unseen(pod) {
            true => self.examine(pod).unwrap_or(Admission::Takes),
            false => Admission::Takes,
        }
    }

    /// Checks a pod that no kubelet has accepted or rejected yet. Returns `None` if there is
    /// nothing to check.
    fn examine(&self, pod: &Pod) -> Option<Admission> {
        let meta = &pod.metadata;
        let live = self.cluster.get::<Pod>(&meta.namespace, &meta.name).ok()?;
        let is_same = live.metadata.uid == meta.uid && is_unseen(&live);
        let node = live.node_name.clone().filter(|_| is_same)?;
        // A pod may run on a node that does not exist yet.
        let found = self.cluster.get::<Node>("", &node).ok()?;
        let ask = Ask::from_spec(&live.spec);
        let mut used = Used::default();
        let counts = !(ask.requests.is_empty() && ask.ports.is_empty());
        let is_critical = preemption::is_critical(&live);
        let mut there = Vec::new();
        self.cluster.for_each::<Pod>(|other: &Arc<Pod>| {
            let is_there = other.node_name.as_ref() == Some(&node)
                && !other.status.phase.is_terminal()
                && !is_unseen(other);
            if is_there {
                used.pods += 1;
                if counts {
                    used.add(other);
                }
                if is_critical {
                    there.push(Arc::clone(other));
                }
            }
        });
        let lacks = lacks(&found, &ask, &used);
        let misfit = || misfit(&found, &live, &ask, &used);
        if is_critical && !lacks.is_empty() {
            return Some(match misfit() {
                Some(refusal) => Admission::Refuses(refusal),
                None => self.make_room(&live, &lacks, there),
            });
        }
        let refusal = lacks.first().map(Refusal::lack).or_else(misfit);
        refusal.map(Admission::Refuses)
    }

    /// Reports in the pod's status, and in an Event, that the node rejects the pod.
    pub(super) fn reject(&mut self, pod: &Pod, refusal: &Refusal, now: Now) {
        let (reason, message) = (&refusal.reason, &refusal.message);
        let written = change_status(&self.cluster, pod, now, |live| {
            live.is_active()
                .then(|| rejected(live, reason, message, now.wall()))
        });
        if let Some(reason) = refusal.told.filter(|_| written) {
            let event = PodEvent::of_pod(EventType::Warning, reason, &refusal.message);
            self.tell(pod, vec![event], now);
        }
    }
}

/// Returns the resources of which the node has too little, in the order of the checks.
fn lacks(node: &Node, ask: &Ask, used: &Used) -> Vec<Lack> {
    let places = node.pods_allocatable.unwrap_or(DEFAULT_PODS_PER_NODE);
    let pods = (used.pods >= places).then(|| Lack {
        resource: "pods".to_owned(),
        amounts: [1, used.pods.into(), places.into()],
    });
    let allocatable = allocatable(node);
    let others = ask.requests.keys().map(String::as_str);
    let others: BTreeSet<&str> = others.filter(|name| !FIRST.contains(name)).collect();
    let names = FIRST.into_iter().chain(others);
    let amounts = names.filter_map(|name| {
        let asked = *ask.requests.get(name)?;
        // A resource that the node does not specify is sufficient or not checked.
        let all = *allocatable.get(name)?;
        let used = used.amounts.get(name).copied().unwrap_or_default();
        (asked > all.minus(used)).then(|| Lack {
            resource: name.to_owned(),
            amounts: [asked, used, all].map(|amount| in_units(name, amount)),
        })
    });
    pods.into_iter().chain(amounts).collect()
}

/// Returns an amount of a resource in the unit that messages use.
pub(super) fn in_units(resource: &str, amount: Quantity) -> i128 {
    match resource {
        "cpu" => amount.ceil_milli(),
        _ => amount.ceil(),
    }
}

/// Returns the reason, other than lack of room, why the pod does not fit the node; `None` if it
/// fits.
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
