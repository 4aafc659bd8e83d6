//! The simulated scheduler: binds every pod without a node to the node with the most free capacity,
//! or to the first node that can take it.
//!
//! The scheduler considers the pod capacity of nodes (`status.allocatable.pods`, 110 if absent),
//! cordons and taints, and all [other requirements](super::placement) of pods and nodes, if they
//! have any. An unschedulable pod waits until a pod ends or a node changes. Pods that name another
//! scheduler are ignored.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use compact_str::CompactString;
use hashbrown::HashSet;
use podstorm_apiserver::latency::{Latency, LatencySampler};
use podstorm_apiserver::{Cluster, DeleteOptions};
use podstorm_objects::disruption::preempted;
use podstorm_objects::{Node, Now, Pod, Str, Uid, hash_state};

use super::asks::allocatable;
use super::capacity::Capacity;
use super::change::{change_status, nominated, unschedulable};
use super::claims::{ClaimKey, Claims, State};
use super::control::NodeControl;
use super::controller::is_unreachable;
use super::events::SchedulerEvents;
use super::place_waits::{PlaceWaits, Unplaced};
use super::placement::{Placement, is_tainted};
use super::preemption::Refused;
use super::stuck::StuckPods;
use crate::due_queue::DueQueue;
use crate::executor::seed::seed_for;
use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Task, Waker};

/// The pod capacity of a node without `allocatable`: the kubelet's default.
pub(super) const DEFAULT_PODS_PER_NODE: u32 = 110;

/// The maximum number of pods bound in one run.
const BATCH: usize = 4000;

/// A pod to bind.
#[derive(Debug)]
pub(super) struct Waiting {
    name: CompactString,
    namespace: Str,
    priority: i32,
}

/// The scheduler.
#[derive(Debug)]
pub struct Scheduler {
    cluster: Arc<Cluster>,
    pods: ObjectStream<Pod>,
    nodes: ObjectStream<Node>,
    capacity: Capacity,
    latency: LatencySampler,
    /// The pods whose scheduling latency has not passed.
    delayed: DueQueue<Waiting>,
    /// The pods to bind now.
    ready: VecDeque<Waiting>,
    /// The pods that don't fit on any node.
    unschedulable: VecDeque<Waiting>,
    /// The times that pods wait for room.
    unplaced: Unplaced,
    /// The pods that have ended and so use no capacity.
    ended: HashSet<Uid, ahash::RandomState>,
    /// Whether any pod has had a priority other than 0.
    has_priorities: bool,
    /// Whether nodes can fail.
    handles_faults: bool,
    /// The state for rules other than the capacity in pods; `None` until such a rule exists.
    placement: Option<Placement>,
    /// Whether pods wait for their claims.
    heeds_claims: bool,
    claims: Claims,
    /// The pods of a dump that stay without a node, if there are any.
    stuck: Option<Arc<StuckPods>>,
}

impl Scheduler {
    /// Returns a scheduler of this cluster; `waker` wakes its task.
    pub fn new(cluster: Arc<Cluster>, latency: Latency, seed: u64, waker: Waker) -> Scheduler {
        Scheduler {
            pods: ObjectStream::new(Arc::clone(&cluster), Arc::clone(&waker)),
            claims: Claims::new(Arc::clone(&cluster), Arc::clone(&waker)),
            nodes: ObjectStream::new(Arc::clone(&cluster), waker),
            cluster,
            capacity: Capacity::new(seed_for(seed, "scheduler ties", 0)),
            latency: LatencySampler::new(latency, seed_for(seed, "scheduler", 0)),
            delayed: DueQueue::default(),
            ready: VecDeque::new(),
            unschedulable: VecDeque::new(),
            unplaced: Unplaced::default(),
            ended: HashSet::with_hasher(hash_state()),
            has_priorities: false,
            handles_faults: false,
            placement: None,
            heeds_claims: false,
            stuck: None,
        }
    }

    /// Leaves pods that were stuck in the dump without a node, and new pods of their workloads,
    /// too.
    #[must_use]
    pub fn leaving(mut self, stuck: Option<&Arc<StuckPods>>) -> Scheduler {
        self.stuck = stuck.cloned();
        self
    }

    /// Makes pods wait for the claims that they name, and go to nodes that can mount their volumes.
    #[must_use]
    pub fn heeding_claims(mut self) -> Scheduler {
        self.heeds_claims = true;
        let new = || Placement::of_run(&self.cluster);
        self.placement.get_or_insert_with(new);
        self
    }

    /// Makes the scheduler handle node failures: unreachable nodes get no pods. With client rules,
    /// the scheduler also respects all requirements of pods and nodes, and writes the reason to the
    /// status of unschedulable pods.
    #[must_use]
    pub fn controlled_by(mut self, control: &Arc<NodeControl>) -> Scheduler {
        self.handles_faults = true;
        self.placement = control.clients().map(|rules| {
            let cluster = Arc::clone(&self.cluster);
            let events = rules
                .pod_events
                .then(|| SchedulerEvents::new(Arc::clone(&cluster), control));
            Placement::new(cluster, rules.node_choice, events)
        });
        self.heeds_claims |= control.plays_pods();
        self
    }

    /// Returns how long pods have waited for room on a node, up to now. O(waiting pods).
    pub fn place_waits(&self, now: Now) -> PlaceWaits {
        self.unplaced.sums(now.mono_ns)
    }

    fn see_nodes(&mut self, now: Now) -> Next {
        let (capacity, unschedulable, ready) =
            (&mut self.capacity, &mut self.unschedulable, &mut self.ready);
        let handles_faults = self.handles_faults;
        let (placement, cluster) = (&mut self.placement, &self.cluster);
        self.nodes.poll(now, |item| {
            let is_new = matches!(item, ObjectEvent::Added(_));
            match item {
                ObjectEvent::Reset => {
                    capacity.clear_nodes();
                    placement.iter_mut().for_each(Placement::clear_nodes);
                }
                ObjectEvent::Added(node) | ObjectEvent::Modified(node) => {
                    let places = node.pods_allocatable.unwrap_or(DEFAULT_PODS_PER_NODE);
                    let unreachable = handles_faults && is_unreachable(&node);
                    let open = !node.unschedulable
                        && !node.metadata.is_deleting()
                        && !unreachable
                        && !is_tainted(&node);
                    capacity.set_node(&node.metadata.name, places, open);
                    if placement.is_none() && !allocatable(&node).is_empty() {
                        *placement = Some(Placement::of_run(cluster));
                    }
                    let is_news = placement
                        .as_mut()
                        .is_none_or(|it| it.see_node(node, is_new));
                    // Waiting pods may fit now.
                    if is_news {
                        ready.append(unschedulable);
                    }
                }
                ObjectEvent::Deleted(node) => {
                    capacity.set_node(&node.metadata.name, 0, false);
                    if let Some(placement) = placement {
                        placement.remove_node(&node.metadata.name);
                    }
                }
            }
        })
    }

    fn see_pods(&mut self, now: Now) -> Next {
        let (capacity, unschedulable, ready) =
            (&mut self.capacity, &mut self.unschedulable, &mut self.ready);
        let (latency, delayed) = (&mut self.latency, &mut self.delayed);
        let (ended, unplaced) = (&mut self.ended, &mut self.unplaced);
        let (placement, cluster) = (&mut self.placement, &self.cluster);
        let has_priorities = &mut self.has_priorities;
        let stuck = &self.stuck;
        let is_stuck = |pod: &Pod| stuck.as_ref().is_some_and(|it| it.keeps_from_nodes(pod));
        self.pods.poll(now, |item| match item {
            ObjectEvent::Reset => {
                capacity.clear_pods();
                ended.clear();
                placement.iter_mut().for_each(Placement::clear_pods);
            }
            ObjectEvent::Added(pod) => {
                if pod.spec.is_particular || pod.spec.priority != 0 {
                    *has_priorities |= pod.spec.priority != 0;
                    placement.get_or_insert_with(|| Placement::of_run(cluster));
                }
                match &pod.node_name {
                    // A pod that has ended uses no capacity.
                    Some(node) if !pod.status.phase.is_terminal() => {
                        capacity.add_pod(node);
                        placement.iter_mut().for_each(|it| it.add(&pod, node));
                    }
                    Some(_) => {
                        ended.insert(pod.metadata.uid.clone());
                    }
                    None if wants_scheduling(&pod) && !is_stuck(&pod) => {
                        let due_ns = now.mono_ns.saturating_add(latency.draw_ns());
                        let waiting = Waiting {
                            name: pod.metadata.name.clone(),
                            namespace: pod.metadata.namespace.clone(),
                            priority: pod.spec.priority,
                        };
                        if due_ns > now.mono_ns {
                            delayed.push(due_ns, waiting);
                        } else {
                            ready.push_back(waiting);
                        }
                    }
                    None => {}
                }
            }
            // If no other client binds pods, the pod was counted when this scheduler bound it.
            ObjectEvent::Modified(pod) => {
                if let Some(placement) = placement {
                    match &pod.node_name {
                        _ if pod.status.phase.is_terminal() => placement.remove(&pod.metadata.uid),
                        Some(node) => {
                            // Most changes of a pod only change its status.
                            let is_placed = placement.placed.replace(&pod, node);
                            if !is_placed && !placement.is_of_run && !placement.has(&pod) {
                                capacity.add_pod(node);
                            }
                            placement.end_nomination(&pod.metadata.uid, capacity);
                            if !is_placed {
                                placement.add(&pod, node);
                            }
                        }
                        None => {}
                    }
                }
                if pod.status.phase.is_terminal()
                    && let Some(node) = &pod.node_name
                    && ended.insert(pod.metadata.uid.clone())
                    && capacity.remove_pod(node)
                    && let Some(first) = unschedulable.pop_front()
                {
                    ready.push_back(first);
                }
            }
            ObjectEvent::Deleted(pod) => {
                if let Some(placement) = placement {
                    let uid = &pod.metadata.uid;
                    placement.remove(uid);
                    if placement.end_nomination(uid, capacity) {
                        ready.extend(unschedulable.pop_front());
                    }
                }
                if pod.node_name.is_none() {
                    unplaced.end(&pod.metadata.namespace, &pod.metadata.name, now.mono_ns);
                }
                let had_ended = ended.remove(&pod.metadata.uid);
                if let Some(node) = &pod.node_name
                    && !had_ended
                    && capacity.remove_pod(node)
                    && let Some(first) = unschedulable.pop_front()
                {
                    ready.push_back(first);
                }
            }
        })
    }

    /// Selects a node for the pod and takes the node's capacity. Returns the node, and the pod if
    /// it was read.
    fn place(&mut self, waiting: &Waiting, now: Now) -> Result<(Str, Option<Arc<Pod>>), NoPlace> {
        let Some(placement) = &mut self.placement else {
            let taken = self.capacity.take().map(|node| (node, None));
            return taken.ok_or(NoPlace::Full);
        };
        let found = self.cluster.get::<Pod>(&waiting.namespace, &waiting.name);
        let pod = found.map_err(|_| NoPlace::Gone)?;
        if pod.node_name.is_some() {
            return Err(NoPlace::Gone);
        }
        if pod.metadata.is_deleting() {
            if let Some(events) = &mut placement.events {
                let (namespace, name) = (&waiting.namespace, &waiting.name);
                let why = format!("skip schedule deleting pod: {namespace}/{name}");
                events.failed(&pod, &why, now);
            }
            return Err(NoPlace::Gone);
        }
        let mut claims = match self.heeds_claims {
            true => self.claims.state(&pod, now),
            false => State::Bound(Vec::new()),
        };
        placement.reach = match &mut claims {
            State::Bound(reach) | State::Late(_, reach) => std::mem::take(reach),
            State::Refused(..) => Vec::new(),
        };
        placement.recall(&pod, &mut self.capacity);
        let held = placement.let_go(&pod, &mut self.capacity);
        let retries = placement.retry;
        let taken = match &claims {
            State::Refused(..) => Err(false),
            _ => placement.take(&pod, &mut self.capacity),
        };
        let refused = match (&taken, &claims) {
            (Ok(_), _) => {
                placement.nominations.pods.remove(&pod.metadata.uid);
                Refused::default()
            }
            (Err(_), State::Refused(why, _)) => placement.refuse_everywhere(why),
            (Err(_), _) => placement.refuse(&pod, &self.capacity),
        };
        placement.hold(&pod, held, &mut self.capacity);
        placement.reach.clear();
        let no_place = match (taken, claims) {
            (Ok(node), State::Late(claims, _)) => {
                // The pod takes capacity only once its claims are bound.
                placement.remove(&pod.metadata.uid);
                self.capacity.remove_pod(&node);
                // This removal makes no room for other pods.
                placement.retry = retries;
                self.claims.select(&claims, &node, now);
                let meta = &claims[0].metadata;
                let first = (meta.namespace.clone(), Str::from(meta.name.as_str()));
                return Err(NoPlace::Claim(first));
            }
            (Ok(node), _) => return Ok((node, Some(pod))),
            (Err(_), State::Refused(_, claim)) => NoPlace::Claim(claim),
            // Pods with another priority are retried in the order of priority whenever one may fit.
            (Err(true), _) if pod.spec.priority == 0 => NoPlace::Full,
            (Err(_), _) => NoPlace::Particular,
        };
        self.refuse(&pod, &refused, now);
        Err(no_place)
    }

    /// Reports that no node can take the pod, and deletes the victims of its preemption, if there
    /// are any.
    fn refuse(&mut self, pod: &Arc<Pod>, refused: &Refused, now: Now) {
        let Some(placement) = &mut self.placement else {
            return;
        };
        let cluster = &self.cluster;
        for victim in &refused.victims {
            let meta = &victim.metadata;
            change_status(cluster, victim, now, |live| {
                Some(preempted(live, now).status)
            });
            let options = DeleteOptions {
                precondition_uid: Some(meta.uid.clone()),
                ..DeleteOptions::default()
            };
            let deleted = cluster.delete::<Pod>(&meta.namespace, &meta.name, &options, now);
            if let (Ok(_), Some(events), Some(node)) =
                (deleted, &mut placement.events, &refused.nominated)
            {
                events.preempted(victim, pod, node, now);
            }
        }
        if placement.is_of_run {
            return;
        }
        for outdone in &refused.outdone {
            change_status(cluster, outdone, now, |live| nominated(live, None, ""));
        }
        if let Some(events) = &mut placement.events {
            events.failed(pod, &refused.why, now);
        }
        change_status(cluster, pod, now, |live| {
            let told = unschedulable(live, &refused.why, now.wall());
            match &refused.nominated {
                Some(node) => nominated(live, told, node),
                None => told,
            }
        });
    }

    /// Records that a pod found no room and waits, unless it has been deleted.
    #[cold]
    fn waits(&mut self, waiting: &Waiting, now: Now) {
        let (namespace, name) = (&waiting.namespace, &waiting.name);
        if self.cluster.get::<Pod>(namespace, name).is_err() {
            return;
        }
        let places = self.capacity.places();
        self.unplaced.begin(namespace, name, places, now.mono_ns);
    }

    /// Binds the pods that can be bound now.
    fn bind(&mut self, now: Now) -> Next {
        while let Some(waiting) = self.delayed.pop_due(now.mono_ns) {
            self.ready.push_back(waiting);
        }
        if let Some(placement) = &mut self.placement {
            let is_due = placement
                .events
                .as_mut()
                .is_some_and(|it| it.is_flush_due(now));
            let (woken, is_news) = self.claims.see(now);
            self.ready.extend(woken);
            placement.retry |= is_news;
            if std::mem::take(&mut placement.retry) || is_due {
                self.ready.extend(placement.take_waiting());
            }
            if is_due {
                self.ready.append(&mut self.unschedulable);
                self.ready.extend(self.claims.take_waiting());
            }
        }
        if self.has_priorities {
            let ready = self.ready.make_contiguous();
            ready.sort_by_key(|waiting| Reverse(waiting.priority));
        }
        for _ in 0..BATCH {
            let Some(waiting) = self.ready.pop_front() else {
                break;
            };
            let taken = self.place(&waiting, now);
            let (node, pod) = match taken {
                Ok(taken) => taken,
                Err(NoPlace::Full) => {
                    self.waits(&waiting, now);
                    self.unschedulable.push_back(waiting);
                    continue;
                }
                Err(NoPlace::Particular) => {
                    self.waits(&waiting, now);
                    if let Some(placement) = &mut self.placement {
                        placement.waiting.push(waiting);
                    }
                    continue;
                }
                Err(NoPlace::Claim(claim)) => {
                    self.waits(&waiting, now);
                    self.claims.wait(claim, waiting);
                    continue;
                }
                Err(NoPlace::Gone) => {
                    let (namespace, name) = (&waiting.namespace, &waiting.name);
                    self.unplaced.end(namespace, name, now.mono_ns);
                    continue;
                }
            };
            let (namespace, name) = (&waiting.namespace, &waiting.name);
            self.unplaced.end(namespace, name, now.mono_ns);
            let bound = self
                .cluster
                .bind(&waiting.namespace, &waiting.name, &node, now);
            if let (Ok(_), Some(pod), Some(placement)) = (&bound, &pod, &mut self.placement)
                && let Some(events) = &mut placement.events
            {
                events.scheduled(pod, &node, now);
            }
            if bound.is_err() {
                if let (Some(pod), Some(placement)) = (&pod, &mut self.placement) {
                    placement.remove(&pod.metadata.uid);
                }
                // The pod was deleted in the meantime, so another pod may use the capacity.
                if self.capacity.remove_pod(&node)
                    && let Some(first) = self.unschedulable.pop_front()
                {
                    self.ready.push_back(first);
                }
            }
        }
        let retries = |it: &Placement| it.retry && !it.waiting.is_empty();
        let retries = self.placement.as_ref().is_some_and(retries);
        if !self.ready.is_empty() || retries || self.claims.is_unseen() {
            return Next::Again;
        }
        let next = self.delayed.next_due_ns().map_or(Next::Idle, Next::At);
        let Some(placement) = &mut self.placement else {
            return next;
        };
        let waits = !placement.waiting.is_empty()
            || !self.unschedulable.is_empty()
            || self.claims.has_waiting();
        let events = placement.events.as_mut();
        next.or(events.map_or(Next::Idle, |events| events.next(waits, now)))
    }
}

/// The reason why a pod gets no node.
enum NoPlace {
    /// All open nodes are full.
    Full,
    /// No node that satisfies the pod's requirements has capacity.
    Particular,
    /// Claims of the pod are not bound; the key is that of the first one.
    Claim(ClaimKey),
    /// The pod no longer waits: it is deleted or terminating, or another client has bound it.
    Gone,
}

/// Reports whether the pod waits for this scheduler.
fn wants_scheduling(pod: &Pod) -> bool {
    let spec = &pod.spec;
    pod.is_active() && !spec.is_gated && spec.scheduler_name.is_none()
}

impl Task for Scheduler {
    fn run(&mut self, now: Now) -> Next {
        let nodes = self.see_nodes(now);
        let pods = self.see_pods(now);
        nodes.or(pods).or(self.bind(now))
    }
}
