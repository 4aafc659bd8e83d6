//! The nodes that can take a pod, and the reasons why other nodes can't: cordons, taints, node
//! selectors and affinity, host ports, resource requests, and the pods that are already placed.
//!
//! No state exists until it is needed: [client rules](super::ClientRules) require it, a node
//! specifies an amount of a resource, or a pod [has requirements on its
//! node](PodSpec::is_particular) other than resource requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use podstorm_apiserver::Cluster;
use podstorm_objects::{Node, Pod, PodSpec, Quantity, Str, Uid, hash_state};
use serde_json::{Value, json};

use super::asks::{Ask, HostPort, Incoming, allocatable, is_for_all};
use super::capacity::Capacity;
use super::change::NOMINATED;
use super::claims::Reach;
use super::events::SchedulerEvents;
use super::neighbours::{Labelled, Neighbours};
use super::placed::{Placed, PlacedPod};
use super::preemption::{self, Found, Nominations, Refused};
use super::refusals::{Reasons, Refusal, everywhere};
use super::rules::NodeChoice;
use super::scheduler::Waiting;

/// The maximum number of specs whose requirements are cached.
const ASKS_MAX: usize = 10_000;

/// The scheduler's state for rules other than the capacity in pods.
#[derive(Debug)]
pub(super) struct Placement {
    pub(super) cluster: Arc<Cluster>,
    choice: NodeChoice,
    /// Whether the cluster has no client rules. The status of unschedulable pods then does not
    /// change.
    pub(super) is_of_run: bool,
    /// The nodes that can mount the volumes of the pod that is being placed.
    pub(super) reach: Vec<Reach>,
    nodes: BTreeMap<Str, Place>,
    used: HashMap<Str, Used, ahash::RandomState>,
    pub(super) placed: Placed,
    /// The pods that wait for the end of their victims.
    pub(super) nominations: Nominations,
    /// The requirements of each spec, by the memory address of the spec, which the entry keeps
    /// alive.
    asks: BTreeMap<usize, (Arc<PodSpec>, Arc<Ask>)>,
    /// The reason why no node can take the pods of a spec, by the spec's memory address. Cleared
    /// when a pod is added or removed or a node changes. The reasons are empty in a run.
    refused: BTreeMap<usize, String>,
    /// The unschedulable pods with requirements on their node.
    pub(super) waiting: Vec<Waiting>,
    /// Whether an additional pod may make a waiting pod schedulable.
    awaits_neighbours: bool,
    /// Whether a node may be able to take a waiting pod now.
    pub(super) retry: bool,
    /// The scheduler's Events; `None` if it writes none.
    pub(super) events: Option<SchedulerEvents>,
}

#[derive(Debug)]
struct Place {
    node: Arc<Node>,
    allocatable: BTreeMap<String, Quantity>,
}

/// The resources that the pods of a node use.
#[derive(Debug, Default)]
struct Used {
    amounts: BTreeMap<String, Quantity>,
    ports: Vec<HostPort>,
}

impl Placement {
    pub(super) fn new(
        cluster: Arc<Cluster>,
        choice: NodeChoice,
        events: Option<SchedulerEvents>,
    ) -> Placement {
        Placement {
            cluster,
            choice,
            is_of_run: false,
            reach: Vec::new(),
            nodes: BTreeMap::new(),
            used: HashMap::with_hasher(hash_state()),
            placed: Placed::default(),
            nominations: Nominations::default(),
            asks: BTreeMap::new(),
            refused: BTreeMap::new(),
            waiting: Vec::new(),
            awaits_neighbours: false,
            retry: false,
            events,
        }
    }

    /// Returns the placement of a cluster without client rules, filled with the cluster's current
    /// pods and nodes.
    pub(super) fn of_run(cluster: &Arc<Cluster>) -> Placement {
        let mut placement = Placement::new(Arc::clone(cluster), NodeChoice::default(), None);
        placement.is_of_run = true;
        let mut bound = Vec::new();
        cluster.for_each::<Pod>(|pod| {
            if let Some(node) = &pod.node_name
                && !pod.status.phase.is_terminal()
            {
                bound.push((pod.clone(), node.clone()));
            }
        });
        for (pod, node) in bound {
            placement.add(&pod, &node);
        }
        cluster.for_each::<Node>(|node| {
            placement.see_node(node.clone(), true);
        });
        placement
    }

    /// Removes all nodes.
    pub(super) fn clear_nodes(&mut self) {
        self.nodes.clear();
        self.refused.clear();
    }

    /// Removes all pods.
    pub(super) fn clear_pods(&mut self) {
        self.used.clear();
        self.placed.clear();
        self.nominations = Nominations::default();
        self.refused.clear();
    }

    /// Adds a node if `is_new`, or else updates it. Returns whether the node may take pods that it
    /// could not take before.
    pub(super) fn see_node(&mut self, node: Arc<Node>, is_new: bool) -> bool {
        let name = node.metadata.name.as_str();
        let allocatable = allocatable(&node);
        let is_same = !is_new
            && self.nodes.get(name).is_some_and(|known| {
                let (old, meta) = (&known.node, &known.node.metadata);
                known.allocatable == allocatable
                    && old.pods_allocatable == node.pods_allocatable
                    && old.unschedulable == node.unschedulable
                    && old.spec == node.spec
                    && meta.labels == node.metadata.labels
                    && meta.is_deleting() == node.metadata.is_deleting()
            });
        if !is_same {
            self.refused.clear();
            self.retry = true;
        }
        let name = Str::from(name);
        self.nodes.insert(name, Place { node, allocatable });
        !is_same
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.refused.clear();
        // With fewer domains, a waiting pod may satisfy its spread constraints.
        self.retry |= self.awaits_neighbours;
    }

    /// Returns the requirements of pods with this spec.
    pub(super) fn ask(&mut self, spec: &Arc<PodSpec>) -> Arc<Ask> {
        let address = Arc::as_ptr(spec).addr();
        if let Some((_, ask)) = self.asks.get(&address) {
            return Arc::clone(ask);
        }
        if self.asks.len() >= ASKS_MAX {
            // The reasons by memory address must not outlive the specs.
            self.asks.clear();
            self.refused.clear();
        }
        let ask = Arc::new(Ask::from_spec(spec));
        if ask.has_neighbours() {
            self.placed.group_all();
        }
        let known = (Arc::clone(spec), Arc::clone(&ask));
        self.asks.insert(address, known);
        ask
    }

    /// Reports whether the pod is placed on a node.
    pub(super) fn has(&self, pod: &Pod) -> bool {
        self.placed.get(&pod.metadata.uid).is_some()
    }

    /// Places a pod on a node, or updates a pod that is already placed.
    pub(super) fn add(&mut self, pod: &Arc<Pod>, node: &Str) {
        if self.placed.replace(pod, node) {
            return;
        }
        let before = self.lift(&pod.metadata.uid);
        // A pod whose requests became lower leaves room for others.
        self.retry |= before.is_some_and(|it| !Arc::ptr_eq(&it.pod.spec, &pod.spec));
        let ask = self.ask(&pod.spec);
        use_up(&mut self.used, node, &ask);
        self.refused.clear();
        self.retry |= self.awaits_neighbours;
        self.placed.insert(Arc::clone(pod), node.clone(), ask);
    }

    /// Removes a pod that was deleted, has ended or could not be bound.
    pub(super) fn remove(&mut self, uid: &Uid) {
        if self.lift(uid).is_some() {
            self.nominations.going.remove(uid);
            self.refused.clear();
            self.retry = true;
        }
    }

    /// Removes a pod temporarily, to evaluate the placement without the pod.
    pub(super) fn lift(&mut self, uid: &Uid) -> Option<PlacedPod> {
        let placed = self.placed.remove(uid)?;
        give_back(&mut self.used, &placed.node, &placed.ask);
        Some(placed)
    }

    /// Puts a temporarily removed pod back on its node.
    pub(super) fn settle(&mut self, placed: &PlacedPod) {
        let PlacedPod { pod, node, ask, .. } = placed;
        use_up(&mut self.used, node, ask);
        self.placed
            .insert(Arc::clone(pod), node.clone(), Arc::clone(ask));
    }

    /// Reports whether the choice of the node depends on more than requests and capacity in pods.
    fn looks_at_all(&self, pod: &Pod, ask: &Ask) -> bool {
        self.choice == NodeChoice::First
            || ask.is_particular
            || !self.reach.is_empty()
            || self.is_unwanted(pod)
    }

    /// Reports whether the anti-affinity of any placed pod selects this pod. O(groups of pods with
    /// anti-affinity).
    fn is_unwanted(&self, pod: &Pod) -> bool {
        let meta = &pod.metadata;
        let own = Labelled {
            namespace: &meta.namespace,
            labels: &meta.labels,
        };
        self.placed.exclusive().any(|group| {
            let mut terms = group.ask.anti_affinity.iter();
            terms.any(|term| term.is_about(&self.cluster, group.namespace(), own))
        })
    }

    /// Selects the node for a pod and takes the node's capacity. If no node fits, the error is true
    /// if the pod only needs capacity in pods, so that the end of any pod makes room for it.
    /// O(nodes) for pods with requirements on their node, and if most nodes are full.
    pub(super) fn take(&mut self, pod: &Arc<Pod>, capacity: &mut Capacity) -> Result<Str, bool> {
        let ask = self.ask(&pod.spec);
        let is_plain = !self.looks_at_all(pod, &ask);
        let has_none =
            self.reach.is_empty() && self.refused.contains_key(&Arc::as_ptr(&pod.spec).addr());
        let node = match is_plain {
            _ if has_none => None,
            true if ask.requests.is_empty() => capacity.take(),
            true => capacity.take_where(|name| self.lacking(name, &ask).next().is_none()),
            false => {
                let node = self.choose(Incoming { pod, ask: &ask }, capacity);
                node.inspect(|node| capacity.add_pod(node))
            }
        };
        let Some(node) = node else {
            self.awaits_neighbours |= ask.has_neighbours();
            return Err(is_plain && ask.requests.is_empty());
        };
        self.add(pod, &node);
        Ok(node)
    }

    /// Removes and returns the waiting pods, for a retry.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.awaits_neighbours = false;
        std::mem::take(&mut self.waiting)
    }

    /// Reports whether a refusal depends only on these requirements, and not on the pod's labels.
    fn decides_alone(&self, ask: &Ask) -> bool {
        self.reach.is_empty() && !self.heeds_neighbours(ask)
    }

    /// Reports whether placed pods affect the placement of a pod with these requirements.
    fn heeds_neighbours(&self, ask: &Ask) -> bool {
        ask.has_neighbours() || self.placed.exclusive().next().is_some()
    }

    fn neighbours(&self, incoming: Incoming<'_>) -> Option<Neighbours> {
        let ask = incoming.ask;
        if !self.heeds_neighbours(ask) {
            return None;
        }
        let tolerated =
            |node| !taints(node).any(|taint| keeps_away(taint) && !ask.tolerates(taint));
        let nodes = self
            .nodes
            .values()
            .map(|place| (&*place.node, tolerated(&place.node)));
        let node_of = |name: &str| self.nodes.get(name).map(|place| &*place.node);
        let (cluster, placed) = (&self.cluster, &self.placed);
        Some(Neighbours::new(cluster, incoming, placed, nodes, node_of))
    }

    /// Returns the node that the rule of the cluster chooses among those that can take the pod.
    fn choose(&self, incoming: Incoming<'_>, capacity: &Capacity) -> Option<Str> {
        let neighbours = self.neighbours(incoming);
        let ask = incoming.ask;
        let named = ask.names.iter().flatten();
        let named = named.filter_map(|name| self.nodes.get_key_value(name.as_str()));
        let all = self.nodes.iter().filter(|_| ask.names.is_none());
        let free = named
            .chain(all)
            .map(|(name, place)| (capacity.free(name), name, place));
        let mut open = free
            .filter(|(free, name, place)| {
                let refusal = self.refusal(incoming, neighbours.as_ref(), name, place, *free);
                refusal.is_none()
            })
            .map(|(free, name, _)| (free, name));
        let best = match self.choice {
            NodeChoice::First => open.next(),
            // Among equals, the first node is chosen.
            NodeChoice::Roomiest => open
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .max_by_key(|it| it.0),
        };
        best.map(|(_, name)| name.clone())
    }

    /// Returns the resources of which a node has too little left for the pod, each with whether
    /// even the node's total amount is too small.
    fn lacking<'a>(&'a self, node: &str, ask: &'a Ask) -> impl Iterator<Item = (&'a str, bool)> {
        let place = self.nodes.get(node);
        let used = self.used.get(node);
        ask.requests.iter().filter_map(move |(name, asked)| {
            let all = place?.allocatable.get(name).copied();
            // A node that doesn't specify one of these resources has enough of it.
            let is_usual = ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str());
            let all = all.or((!is_usual).then_some(Quantity::default()))?;
            let used = used.and_then(|used| used.amounts.get(name).copied());
            let free = all.minus(used.unwrap_or_default());
            (*asked > free).then_some((name.as_str(), *asked > all))
        })
    }

    /// Returns the reasons why the node, with room for `free` more pods, can't take the pod: those
    /// of the first rule that fails. `None` if the node can take the pod.
    ///
    /// Source: the order and the messages of the plugins of Kubernetes' scheduler, 1.36.
    fn refusal(
        &self,
        incoming: Incoming<'_>,
        neighbours: Option<&Neighbours>,
        name: &Str,
        place: &Place,
        free: u32,
    ) -> Option<Refusal> {
        let (ask, node) = (incoming.ask, &*place.node);
        let hopeless = |reason| Some(Refusal::one(reason, true));
        if ask
            .names
            .as_ref()
            .is_some_and(|names| !names.contains(&**name))
        {
            return hopeless("node(s) didn't satisfy plugin(s) [NodeAffinity]");
        }
        let cordon = || json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
        let is_cordoned = node.unschedulable && !ask.tolerates(&cordon());
        if is_cordoned || node.metadata.is_deleting() {
            return hopeless("node(s) were unschedulable");
        }
        if taints(node).any(|taint| keeps_away(taint) && !ask.tolerates(taint)) {
            return hopeless("node(s) had untolerated taint(s)");
        }
        if !ask.wants(node) {
            return hopeless("node(s) didn't match Pod's node affinity/selector");
        }
        let used = self.used.get(name);
        let mut taken = used.into_iter().flat_map(|used| &used.ports);
        if taken.any(|taken| ask.ports.iter().any(|port| port.is_against(taken))) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Some(Refusal::one(reason, false));
        }
        let mut reasons: Vec<Cow<'static, str>> = Vec::new();
        if free == 0 {
            reasons.push("Too many pods".into());
        }
        let mut is_hopeless = false;
        for (resource, is_too_much) in self.lacking(name, ask) {
            reasons.push(format!("Insufficient {resource}").into());
            is_hopeless |= is_too_much;
        }
        if !reasons.is_empty() {
            return Some(Refusal {
                reasons,
                is_hopeless,
            });
        }
        if let Some(reach) = self.reach.iter().find(|it| !it.has(node)) {
            return hopeless(reach.reason);
        }
        let (reason, is_hopeless) = neighbours?.refusal(incoming, node)?;
        Some(Refusal::one(reason, is_hopeless))
    }

    /// Returns the reasons like [`refusal`](Placement::refusal), with the effect of the pods that
    /// are placed now.
    pub(super) fn refusal_now(
        &self,
        incoming: Incoming<'_>,
        node: &Str,
        free: i64,
    ) -> Option<Refusal> {
        let place = self.nodes.get(node)?;
        let neighbours = self.neighbours(incoming);
        let free = u32::try_from(free).unwrap_or(0);
        self.refusal(incoming, neighbours.as_ref(), node, place, free)
    }

    /// Returns the result for a pod that no node can take. Its resources must have been
    /// [released](Placement::let_go). O(nodes) and, if pods of lower priority are placed, O(placed
    /// pods), unless a pod of the same spec was refused since the last change.
    pub(super) fn refuse(&mut self, pod: &Arc<Pod>, capacity: &Capacity) -> Refused {
        let address = Arc::as_ptr(&pod.spec).addr();
        if let Some(why) = self.refused.get(&address).filter(|_| self.reach.is_empty()) {
            return Refused::because(why.clone());
        }
        let ask = self.ask(&pod.spec);
        let refused = match self.is_of_run && !self.placed.has_lower(ask.priority) {
            true => Refused::default(),
            false => self.search(pod, &ask, capacity),
        };
        // A refusal that depends only on the spec applies to all pods with this spec.
        if self.nominations.is_empty() && self.decides_alone(&ask) {
            self.refused.insert(address, refused.why.clone());
        }
        refused
    }

    fn search(&mut self, pod: &Arc<Pod>, ask: &Arc<Ask>, capacity: &Capacity) -> Refused {
        let incoming = Incoming { pod, ask };
        let neighbours = self.neighbours(incoming);
        let places = self.nodes.iter();
        let refusals = places.filter_map(|(name, place)| {
            let free = capacity.free(name);
            let refusal = self.refusal(incoming, neighbours.as_ref(), name, place, free);
            Some((name.clone(), refusal?))
        });
        let refusals: Vec<(Str, Refusal)> = refusals.collect();
        let found = preemption::search(self, incoming, &refusals, capacity);
        let nodes = self.nodes.len();
        let mut reasons = Reasons::default();
        reasons.add(
            refusals
                .into_iter()
                .flat_map(|(_, refusal)| refusal.reasons),
        );
        let of_nodes = match &ask.names {
            _ if nodes == 0 => "no nodes available to schedule pods".to_owned(),
            Some(names) if names.is_empty() => {
                format!("0/{nodes} nodes are available: pod affinity terms conflict.")
            }
            _ => reasons.words(nodes),
        };
        let mut refused = self.nominations.settle(pod, ask, &found);
        refused.why = match found {
            Found::NotEligible(why) => format!("{of_nodes} preemption: {why}"),
            Found::Nothing(reasons) if nodes > 0 => {
                format!("{of_nodes} preemption: {}", reasons.words(nodes))
            }
            _ => of_nodes,
        };
        refused
    }

    /// Returns the result for a pod that no node can take for the given reason.
    pub(super) fn refuse_everywhere(&self, why: &str) -> Refused {
        Refused::because(everywhere(self.nodes.len(), why))
    }

    /// Releases the resources that are reserved for a pod and for nominated pods of lower priority,
    /// so that this pod may take them. Returns the UIDs of these pods, for
    /// [`hold`](Placement::hold).
    pub(super) fn let_go(&mut self, pod: &Pod, capacity: &mut Capacity) -> Vec<Uid> {
        let own = &pod.metadata.uid;
        let uids = self.nominations.below(own, pod.spec.priority);
        for held in uids.iter().filter_map(|uid| self.nominations.pods.get(uid)) {
            give_back(&mut self.used, &held.node, &held.ask);
            capacity.remove_pod(&held.node);
        }
        uids
    }

    /// Reserves resources for the pod and the others again, if they are still nominated.
    pub(super) fn hold(&mut self, pod: &Pod, others: Vec<Uid>, capacity: &mut Capacity) {
        let own = &pod.metadata.uid;
        let all = std::iter::once(own).chain(others.iter().filter(|uid| *uid != own));
        for held in all.filter_map(|uid| self.nominations.pods.get(uid)) {
            use_up(&mut self.used, &held.node, &held.ask);
            capacity.add_pod(&held.node);
        }
    }

    /// Ends the nomination of a pod that was bound or deleted. Returns whether the pod was
    /// nominated.
    pub(super) fn end_nomination(&mut self, uid: &Uid, capacity: &mut Capacity) -> bool {
        let Some(held) = self.nominations.pods.remove(uid) else {
            return false;
        };
        give_back(&mut self.used, &held.node, &held.ask);
        capacity.remove_pod(&held.node);
        self.refused.clear();
        self.retry = true;
        true
    }

    /// Restores the nomination of a pod from its status, as in a resumed cluster.
    pub(super) fn recall(&mut self, pod: &Arc<Pod>, capacity: &mut Capacity) {
        let rest = &pod.status.rest;
        let uid = &pod.metadata.uid;
        if !rest.as_str().contains(NOMINATED) || self.nominations.pods.contains_key(uid) {
            return;
        }
        let Some(Value::String(node)) = rest.get(NOMINATED) else {
            return;
        };
        let ask = self.ask(&pod.spec);
        let node = Str::from(node.as_str());
        let there = self.placed.pods().filter(|it| it.node == node);
        let going =
            there.filter(|it| it.ask.priority < ask.priority && it.pod.metadata.is_deleting());
        let going = going.map(|it| it.pod.metadata.uid.clone());
        self.nominations.going.extend(going);
        use_up(&mut self.used, &node, &ask);
        capacity.add_pod(&node);
        self.nominations.add(pod, node, ask);
    }
}

/// Adds a pod's requirements to the use of a node.
fn use_up(all: &mut HashMap<Str, Used, ahash::RandomState>, node: &Str, ask: &Ask) {
    // Looked up first, because `entry` would copy each name.
    let used = match all.get_mut(node) {
        Some(used) => used,
        None => all.entry(node.clone()).or_default(),
    };
    for (name, amount) in &ask.requests {
        match used.amounts.get_mut(name) {
            Some(sum) => *sum = sum.plus(*amount),
            None => drop(used.amounts.insert(name.clone(), *amount)),
        }
    }
    used.ports.extend(ask.ports.iter().cloned());
}

/// Subtracts a pod's requirements from the use of a node.
fn give_back(all: &mut HashMap<Str, Used, ahash::RandomState>, node: &Str, ask: &Ask) {
    let Some(used) = all.get_mut(node) else {
        return;
    };
    for (name, amount) in &ask.requests {
        if let Some(sum) = used.amounts.get_mut(name) {
            *sum = sum.minus(*amount);
        }
    }
    for port in &ask.ports {
        let at = used.ports.iter().position(|it| it == port);
        at.map(|at| used.ports.swap_remove(at));
    }
}

/// Reports whether the node has a taint that keeps away pods without tolerations.
pub(super) fn is_tainted(node: &Node) -> bool {
    taints(node).any(|taint| keeps_away(taint) && !is_for_all(taint))
}

/// Reports whether the pod must leave the node: it does not tolerate one of its `NoExecute` taints
/// other than `except`.
pub(super) fn is_driven_out(node: &Node, pod: &Pod, except: &str) -> bool {
    let mut taints = taints(node)
        .filter(|taint| taint["effect"] == "NoExecute" && taint["key"] != except)
        .peekable();
    // Without taints, the spec need not be parsed.
    taints.peek().is_some() && {
        let ask = Ask::from_spec(&pod.spec);
        taints.any(|taint| !ask.tolerates(taint))
    }
}

fn taints(node: &Node) -> impl Iterator<Item = &Value> {
    let taints = node.spec.get("taints").and_then(Value::as_array);
    taints.into_iter().flatten()
}

fn keeps_away(taint: &Value) -> bool {
    taint["effect"] == "NoSchedule" || taint["effect"] == "NoExecute"
}
