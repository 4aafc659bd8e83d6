//! Which nodes take a pod, and why the others don't: cordons, taints, node selectors and affinity, host ports,
//! what pods request, and the pods that are there already.
//!
//! Nothing of it is kept before something of it counts: [client rules](super::ClientRules) ask for it, a node says how
//! much of a resource it has, or a pod says [more of its node](PodSpec::is_particular) than what it requests.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use podstorm_apiserver::Cluster;
use podstorm_objects::{Node, Pod, PodSpec, Quantity, Str, Uid, hash_state};
use serde_json::{Value, json};

use super::asks::{Ask, HostPort, allocatable, is_for_all};
use super::capacity::Capacity;
use super::change::NOMINATED;
use super::claims::Reach;
use super::events::SchedulerEvents;
use super::neighbours::Neighbours;
use super::placed::{Placed, PlacedPod};
use super::preemption::{self, Found, Nominations, Refused};
use super::refusals::{Reasons, Refusal, everywhere};
use super::rules::NodeChoice;
use super::scheduler::Waiting;

/// How many specs are remembered with what they ask.
const ASKS_MAX: usize = 10_000;

/// What the scheduler keeps for pods that not every node takes.
#[derive(Debug)]
pub(super) struct Placement {
    pub(super) cluster: Arc<Cluster>,
    choice: NodeChoice,
    /// Whether pods that fit nowhere have nothing written to them: there are no client rules.
    pub(super) is_of_run: bool,
    /// Where the volumes of the pod that is being placed can be.
    pub(super) reach: Vec<Reach>,
    nodes: BTreeMap<Str, Place>,
    used: HashMap<Str, Used, ahash::RandomState>,
    pub(super) placed: Placed,
    /// The pods that wait for others to go.
    pub(super) nominations: Nominations,
    /// What each spec asks, by the address of the spec, which it keeps.
    asks: BTreeMap<usize, (Arc<PodSpec>, Arc<Ask>)>,
    /// Why no node takes pods of a spec, by its address, until a pod comes or goes or a node changes. Empty in a run.
    refused: BTreeMap<usize, String>,
    /// Particular pods that no node takes.
    pub(super) waiting: Vec<Waiting>,
    /// Whether one more pod may let one of them fit.
    awaits_neighbours: bool,
    /// Whether a node may take one of them now.
    pub(super) retry: bool,
    /// Present where the scheduler writes Events.
    pub(super) events: Option<SchedulerEvents>,
}

#[derive(Debug)]
struct Place {
    node: Arc<Node>,
    allocatable: BTreeMap<String, Quantity>,
}

/// What the pods of a node use.
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

    /// Of a cluster without client rules, with the pods and nodes that it has.
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

    /// Forgets all nodes.
    pub(super) fn clear_nodes(&mut self) {
        self.nodes.clear();
        self.refused.clear();
    }

    /// Forgets all pods.
    pub(super) fn clear_pods(&mut self) {
        self.used.clear();
        self.placed.clear();
        self.nominations = Nominations::default();
        self.refused.clear();
    }

    /// Takes a node as it is now, which may have come just now; returns whether it may take pods that it did not take
    /// before.
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
        // Fewer domains may let a pod be spread.
        self.retry |= self.awaits_neighbours;
    }

    /// What pods of the spec ask.
    pub(super) fn ask(&mut self, spec: &Arc<PodSpec>) -> Arc<Ask> {
        let address = Arc::as_ptr(spec).addr();
        if let Some((_, ask)) = self.asks.get(&address) {
            return Arc::clone(ask);
        }
        if self.asks.len() >= ASKS_MAX {
            // What is known of specs by their addresses goes with the specs.
            self.asks.clear();
            self.refused.clear();
        }
        let ask = Arc::new(Ask::of(spec));
        if ask.has_neighbours() {
            self.placed.group_all();
        }
        let known = (Arc::clone(spec), Arc::clone(&ask));
        self.asks.insert(address, known);
        ask
    }

    /// Whether the pod is counted.
    pub(super) fn has(&self, pod: &Pod) -> bool {
        self.placed.get(&pod.metadata.uid).is_some()
    }

    /// Counts a pod on a node, once.
    pub(super) fn add(&mut self, pod: &Arc<Pod>, node: &Str) {
        if self.placed.replace(pod, node) {
            return;
        }
        let before = self.lift(&pod.metadata.uid);
        // A pod that asks for less leaves room.
        self.retry |= before.is_some_and(|it| !Arc::ptr_eq(&it.pod.spec, &pod.spec));
        let ask = self.ask(&pod.spec);
        use_up(&mut self.used, node, &ask);
        self.refused.clear();
        self.retry |= self.awaits_neighbours;
        self.placed.insert(Arc::clone(pod), node.clone(), ask);
    }

    /// A pod is gone, has ended, or was not bound.
    pub(super) fn remove(&mut self, uid: &Uid) {
        if self.lift(uid).is_some() {
            self.nominations.going.remove(uid);
            self.refused.clear();
            self.retry = true;
        }
    }

    /// Takes a pod away to see what would be without it.
    pub(super) fn lift(&mut self, uid: &Uid) -> Option<PlacedPod> {
        let placed = self.placed.remove(uid)?;
        give_back(&mut self.used, &placed.node, &placed.ask);
        Some(placed)
    }

    /// Puts a pod back where it was.
    pub(super) fn settle(&mut self, placed: &PlacedPod) {
        let PlacedPod { pod, node, ask, .. } = placed;
        use_up(&mut self.used, node, ask);
        self.placed
            .insert(Arc::clone(pod), node.clone(), Arc::clone(ask));
    }

    /// Whether more than requests and capacity in pods decides which node a pod gets.
    fn looks_at_all(&self, pod: &Pod, ask: &Ask) -> bool {
        self.choice == NodeChoice::First
            || ask.is_particular
            || !self.reach.is_empty()
            || self.is_unwanted(pod)
    }

    /// Whether pods that are there keep this one away. O(groups of pods with anti-affinity).
    fn is_unwanted(&self, pod: &Pod) -> bool {
        let meta = &pod.metadata;
        let own = (&*meta.namespace, &meta.labels);
        self.placed.exclusive().any(|group| {
            let mut terms = group.ask.anti_affinity.iter();
            terms.any(|term| term.is_about(&self.cluster, group.namespace(), own))
        })
    }

    /// The node of a pod, with its capacity taken; where there is none, whether only the end of a pod makes a place
    /// for this one, whichever it is. O(nodes) for pods that are particular, and where much is full.
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
                let node = self.choose(pod, &ask, capacity);
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

    /// The pods that wait for a change, to be tried again.
    pub(super) fn take_waiting(&mut self) -> Vec<Waiting> {
        self.awaits_neighbours = false;
        std::mem::take(&mut self.waiting)
    }

    /// Whether pods that ask this are refused for what they ask alone, whatever their labels are.
    fn decides_alone(&self, ask: &Ask) -> bool {
        self.reach.is_empty() && !self.heeds_neighbours(ask)
    }

    /// Whether the pods that are there decide where a pod may go.
    fn heeds_neighbours(&self, ask: &Ask) -> bool {
        ask.has_neighbours() || self.placed.exclusive().next().is_some()
    }

    fn neighbours(&self, pod: &Pod, ask: &Ask) -> Option<Neighbours> {
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
        Some(Neighbours::of(cluster, (pod, ask), placed, nodes, node_of))
    }

    /// The node of the pod among those that take it.
    fn choose(&self, pod: &Pod, ask: &Ask, capacity: &Capacity) -> Option<Str> {
        let neighbours = self.neighbours(pod, ask);
        let named = ask.names.iter().flatten();
        let named = named.filter_map(|name| self.nodes.get_key_value(name.as_str()));
        let all = self.nodes.iter().filter(|_| ask.names.is_none());
        let free = named
            .chain(all)
            .map(|(name, place)| (capacity.free(name), name, place));
        let mut open = free
            .filter(|(free, name, place)| {
                let refusal = self.refusal((pod, ask), neighbours.as_ref(), (name, place), *free);
                refusal.is_none()
            })
            .map(|(free, name, _)| (free, name));
        let best = match self.choice {
            NodeChoice::First => open.next(),
            // The first of equals.
            NodeChoice::Roomiest => open
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .max_by_key(|it| it.0),
        };
        best.map(|(_, name)| name.clone())
    }

    /// Of what a node has too little for the pod, and whether it has so little in all.
    fn lacking<'a>(&'a self, node: &str, ask: &'a Ask) -> impl Iterator<Item = (&'a str, bool)> {
        let place = self.nodes.get(node);
        let used = self.used.get(node);
        ask.requests.iter().filter_map(move |(name, asked)| {
            let all = place?.allocatable.get(name).copied();
            // A node that says nothing of these has enough.
            let is_usual = ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str());
            let all = all.or((!is_usual).then_some(Quantity::default()))?;
            let used = used.and_then(|used| used.amounts.get(name).copied());
            let free = all.minus(used.unwrap_or_default());
            (*asked > free).then_some((name.as_str(), *asked > all))
        })
    }

    /// Why the node, which takes so many more pods, refuses the pod: what the first rule that it breaks says.
    ///
    /// Source: the order and the words of the plugins of Kubernetes' scheduler, 1.36.
    fn refusal(
        &self,
        (pod, ask): (&Pod, &Ask),
        neighbours: Option<&Neighbours>,
        (name, place): (&Str, &Place),
        free: u32,
    ) -> Option<Refusal> {
        let node = &*place.node;
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
        let (reason, is_hopeless) = neighbours?.refusal((pod, ask), node)?;
        Some(Refusal::one(reason, is_hopeless))
    }

    /// As [`refusal`](Placement::refusal), by the pods that are there now.
    pub(super) fn refusal_now(
        &self,
        (pod, ask): (&Pod, &Ask),
        node: &Str,
        free: i64,
    ) -> Option<Refusal> {
        let place = self.nodes.get(node)?;
        let neighbours = self.neighbours(pod, ask);
        let free = u32::try_from(free).unwrap_or(0);
        self.refusal((pod, ask), neighbours.as_ref(), (node, place), free)
    }

    /// What comes of a pod that no node takes, whose [hold](Placement::hold) is let go. O(nodes) and, where pods of lower
    /// priority have nodes, O(pods that are placed), unless a pod of the same spec was refused since the last change.
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
        // What only the spec decides is so for all pods that share it.
        if self.nominations.is_empty() && self.decides_alone(&ask) {
            self.refused.insert(address, refused.why.clone());
        }
        refused
    }

    fn search(&mut self, pod: &Arc<Pod>, ask: &Arc<Ask>, capacity: &Capacity) -> Refused {
        let neighbours = self.neighbours(pod, ask);
        let places = self.nodes.iter();
        let refusals = places.filter_map(|(name, place)| {
            let free = capacity.free(name);
            let refusal = self.refusal((pod, ask), neighbours.as_ref(), (name, place), free);
            Some((name.clone(), refusal?))
        });
        let refusals: Vec<(Str, Refusal)> = refusals.collect();
        let found = preemption::search(self, (pod, ask), &refusals, capacity);
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
        let mut refused = self.nominations.settle((pod, ask), &found);
        refused.why = match found {
            Found::NotEligible(why) => format!("{of_nodes} preemption: {why}"),
            Found::Nothing(reasons) if nodes > 0 => {
                format!("{of_nodes} preemption: {}", reasons.words(nodes))
            }
            _ => of_nodes,
        };
        refused
    }

    /// What comes of a pod that no node takes for this reason.
    pub(super) fn refuse_everywhere(&self, why: &str) -> Refused {
        Refused::because(everywhere(self.nodes.len(), why))
    }

    /// Gives a pod, and those of lower priority, no longer what they are to get on their nodes, so that this pod may
    /// take it. Returns the UIDs of all of them, for [`hold`](Placement::hold).
    pub(super) fn let_go(&mut self, pod: &Pod, capacity: &mut Capacity) -> Vec<Uid> {
        let own = &pod.metadata.uid;
        let uids = self.nominations.below(own, pod.spec.priority);
        for held in uids.iter().filter_map(|uid| self.nominations.pods.get(uid)) {
            give_back(&mut self.used, &held.node, &held.ask);
            capacity.remove_pod(&held.node);
        }
        uids
    }

    /// Keeps for a pod, and for those that it let go, what they are to get on their nodes, if they still wait for it.
    pub(super) fn hold(&mut self, pod: &Pod, others: Vec<Uid>, capacity: &mut Capacity) {
        let own = &pod.metadata.uid;
        let all = std::iter::once(own).chain(others.iter().filter(|uid| *uid != own));
        for held in all.filter_map(|uid| self.nominations.pods.get(uid)) {
            use_up(&mut self.used, &held.node, &held.ask);
            capacity.add_pod(&held.node);
        }
    }

    /// A pod is bound or gone: it waits for no others to go. Returns whether it did.
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

    /// Takes a pod whose status says that it is to get a node as one that waits for others to go from there, as in a
    /// cluster that goes on from a state.
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

/// A pod that asks this uses it on a node.
fn use_up(all: &mut HashMap<Str, Used, ahash::RandomState>, node: &Str, ask: &Ask) {
    // Looked for first: an entry would take a copy of each name.
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

/// It does no longer.
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

/// Whether the node refuses pods that are not particular.
pub(super) fn is_tainted(node: &Node) -> bool {
    taints(node).any(|taint| keeps_away(taint) && !is_for_all(taint))
}

/// Whether the pod may not stay on the node: it does not tolerate one of its `NoExecute` taints
/// other than `except`.
pub(super) fn is_driven_out(node: &Node, pod: &Pod, except: &str) -> bool {
    let mut taints = taints(node)
        .filter(|taint| taint["effect"] == "NoExecute" && taint["key"] != except)
        .peekable();
    // The spec is parsed for nothing where there is no taint.
    taints.peek().is_some() && {
        let ask = Ask::of(&pod.spec);
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
