//! The heartbeats of kubelets: each kubelet renews its node's Lease every 10 s, reports the node's
//! status when it changes and every 5 minutes, and records Events about the node. One task handles
//! all nodes.
//!
//! Every Node object has a kubelet, regardless of its creator. The kubelet of a node that has never
//! reported readiness starts first: it gives the node the labels and the status that
//! [registration](node_status) would have set. A [silent](super::NodeControl::lose) kubelet does
//! nothing. When it comes back, it reports immediately. The kubelet of a deleted node ends, and its
//! Lease is left to the garbage collector; a later node of the same name has a new kubelet. A
//! deleted Lease is recreated at the time of its next renewal.
//!
//! The node, its Lease and the seed determine when a kubelet acts: the kubelets of a resumed
//! cluster act when the original ones would have acted.
//!
//! Source: Kubernetes' `pkg/kubelet/kubelet_node_status.go` and
//! `k8s.io/component-helpers/apimachinery/lease`.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use podstorm_apiserver::Cluster;
use podstorm_objects::{
    ApiError, DynamicObject, Event, EventPatch, EventSource, EventTopic, Kind, Namespace, Node,
    Now, Object, ObjectReference, OwnerReference, Resource, Str, Time, Uid,
};
use serde_json::json;

use super::control::{KUBELET, NodeControl, NodeEvent};
use super::node_status::{self, has_reported, reported_at};
use super::rules::NodeSize;
use crate::due_queue::DueQueue;
use crate::executor::seed::seed_for;
use crate::executor::stream::{ObjectEvent, ObjectStream};
use crate::executor::{Next, Task, Waker};

/// The namespace of node Leases.
const LEASES: &str = "kube-node-lease";

/// The `spec.leaseDurationSeconds` of a node Lease.
const LEASE_SECONDS: i64 = 40;

/// The time between two renewals, without jitter: a quarter of the Lease duration.
const RENEW_EVERY_NS: i64 = LEASE_SECONDS * 1_000_000_000 / 4;

/// The interval at which an unchanged status is reported.
const REPORT_EVERY_NS: i64 = 300 * 1_000_000_000;

/// How far the times in Event names are ahead of the clock, ns.
const AHEAD_NS: i64 = 500_000;

/// The maximum number of attempts at one write. After a conflict, another client has written the
/// object since it was read.
const ATTEMPTS: usize = 5;

/// The task that sends the heartbeats of all nodes' kubelets.
#[derive(Debug)]
pub struct Heartbeats {
    cluster: Arc<Cluster>,
    control: Arc<NodeControl>,
    seed: u64,
    renew_every_ns: i64,
    /// The size of nodes that don't specify their size.
    size: NodeSize,
    nodes: ObjectStream<Node>,
    inbox: Receiver<NodeEvent>,
    kubelets: BTreeMap<Str, Kubelet>,
    /// The next action of each kubelet, with its entry number. An entry whose number is outdated is
    /// ignored.
    due: DueQueue<(Str, u64)>,
    /// The number of the last entry in `due`.
    number: u64,
    events: NodeEvents,
}

#[derive(Debug)]
struct Kubelet {
    node: Arc<Node>,
    /// The number of the kubelet's valid entry in `due`; 0 if it has none.
    number: u64,
    /// The monotonic time at which the kubelet reports even an unchanged status, ns.
    report_ns: i64,
    /// Whether the node was schedulable at the last heartbeat.
    was_schedulable: bool,
}

impl Heartbeats {
    /// Returns the task for the heartbeats of a cluster; `waker` wakes it. Leases are renewed every
    /// 10 s, or four times within the grace period for silent nodes if that is shorter.
    pub fn new(
        cluster: Arc<Cluster>,
        control: &Arc<NodeControl>,
        seed: u64,
        waker: Waker,
    ) -> Heartbeats {
        let grace_ns = control.times().grace_ns;
        Heartbeats {
            nodes: ObjectStream::new(Arc::clone(&cluster), Arc::clone(&waker)),
            inbox: control.open_inbox(waker),
            events: NodeEvents::new(Arc::clone(&cluster)),
            cluster,
            size: control
                .clients()
                .map_or_else(NodeSize::default, |it| it.node_size.clone()),
            control: Arc::clone(control),
            seed,
            renew_every_ns: RENEW_EVERY_NS.min((grace_ns / 4).max(1_000_000)),
            kubelets: BTreeMap::new(),
            due: DueQueue::default(),
            number: 0,
        }
    }

    /// Handles changes of Node objects.
    fn see_nodes(&mut self, now: Now) -> Next {
        let mut seen = Vec::new();
        let next = self.nodes.poll(now, |event| seen.push(event));
        for event in seen {
            match event {
                ObjectEvent::Reset => self.kubelets.clear(),
                ObjectEvent::Added(node) | ObjectEvent::Modified(node) => self.see(node, now),
                ObjectEvent::Deleted(node) => {
                    let name = node.metadata.name.as_str();
                    self.kubelets.remove(name);
                    self.events.forget(name);
                }
            }
        }
        next
    }

    fn see(&mut self, node: Arc<Node>, now: Now) {
        let name: Str = node.metadata.name.as_str().into();
        let silent = node.metadata.annotations.get(KUBELET);
        match silent.is_some_and(|value| &**value == "silent") {
            true => self.control.lose(&name),
            false => self.control.restore(&name),
        }
        if let Some(known) = self.kubelets.get_mut(&name)
            && known.node.metadata.uid == node.metadata.uid
        {
            known.node = node;
            return;
        }
        let lasting_ns = spread(
            self.seed,
            &name,
            0,
            REPORT_EVERY_NS / 2..REPORT_EVERY_NS * 3 / 2,
        );
        let reported = reported_at(&node);
        let kubelet = Kubelet {
            report_ns: lasting_ns.saturating_sub(age_ns(reported, now)) + now.mono_ns,
            number: 0,
            was_schedulable: !node.unschedulable,
            node: Arc::clone(&node),
        };
        self.kubelets.insert(name.clone(), kubelet);
        if self.control.is_lost(&name) {
            return;
        }
        if !has_reported(&node) {
            self.start(&node, now);
        }
        // An existing Lease is renewed at its regular time.
        let renewed = self.cluster.api(Kind::LEASE).get(LEASES, &name).ok();
        let renewed = renewed.and_then(|lease| renew_time(lease.downcast_ref::<DynamicObject>()?));
        match renewed {
            Some(renewed_ns) if has_reported(&node) => {
                let after_ns = self.interval_ns(&name, renewed_ns);
                let age_ns = now.wall_ns.saturating_sub(renewed_ns);
                self.schedule(&name, after_ns.saturating_sub(age_ns).max(0), now);
            }
            _ => self.schedule(&name, 0, now),
        }
    }

    /// Adds the missing labels to the node of a starting kubelet. The first report adds the status.
    fn start(&mut self, node: &Node, now: Now) {
        self.events.record_start(&node.metadata.name, now);
        for _ in 0..ATTEMPTS {
            let Ok(live) = self.cluster.get::<Node>("", &node.metadata.name) else {
                return;
            };
            let mut labelled = Node::clone(&live);
            if !node_status::label(&mut labelled) {
                return;
            }
            match self.cluster.update(labelled, now) {
                Err(error) if error.code == 409 => {}
                _ => return,
            }
        }
    }

    fn schedule(&mut self, name: &Str, after_ns: i64, now: Now) {
        self.number += 1;
        if let Some(kubelet) = self.kubelets.get_mut(name) {
            kubelet.number = self.number;
            let due_ns = now.mono_ns.saturating_add(after_ns);
            self.due.push(due_ns, (name.clone(), self.number));
        }
    }

    /// Returns the time from a renewal at `renewed_ns`, in wall time, to the next renewal, ns.
    fn interval_ns(&self, name: &str, renewed_ns: i64) -> i64 {
        let every_ns = self.renew_every_ns;
        spread(self.seed, name, renewed_ns, every_ns..every_ns / 25 * 26)
    }

    /// Renews the Lease of a node, and reports its status if it has changed or a report is due.
    fn beat(&mut self, name: &Str, now: Now) {
        let Some(kubelet) = self.kubelets.get(name) else {
            return;
        };
        let node = Arc::clone(&kubelet.node);
        let _tried_again_next_time = renew(&self.cluster, &node, now);
        let kubelet = self.kubelets.get_mut(name).expect("the kubelet exists");
        let schedulable = !node.unschedulable;
        if std::mem::replace(&mut kubelet.was_schedulable, schedulable) != schedulable {
            let reason = match schedulable {
                true => "NodeSchedulable",
                false => "NodeNotSchedulable",
            };
            self.events.record_status(name, reason, now);
        }
        let computed = node_status::compute(&node, &self.size, now.wall());
        if computed.is_changed || kubelet.report_ns <= now.mono_ns {
            kubelet.report_ns = now.mono_ns.saturating_add(REPORT_EVERY_NS);
            if self.report(&node, now) {
                for reason in computed.events {
                    self.events.record_status(name, reason, now);
                }
            }
        }
        // Computed from the rounded time in the Lease, so that a fork renews the Lease at the same
        // moment.
        let said_ns = now.wall_ns.rem_euclid(1000);
        let after_ns = self.interval_ns(name, now.wall_ns - said_ns) - said_ns;
        self.schedule(name, after_ns, now);
    }

    /// Reports the status of a node. Returns whether the status was written.
    fn report(&self, node: &Node, now: Now) -> bool {
        for _ in 0..ATTEMPTS {
            let Ok(live) = self.cluster.get::<Node>("", &node.metadata.name) else {
                return false;
            };
            if live.metadata.uid != node.metadata.uid {
                return false;
            }
            let mut new = live.to_json();
            new["status"] = node_status::compute(&live, &self.size, now.wall())
                .status
                .into();
            // Fails only if other clients have written an invalid status.
            let Ok(new) = Node::from_json(new) else {
                return false;
            };
            match self.cluster.update_status(new, now) {
                Err(error) if error.code == 409 => {}
                written => return written.is_ok(),
            }
        }
        false
    }
}

impl Task for Heartbeats {
    fn run(&mut self, now: Now) -> Next {
        let next = self.see_nodes(now);
        while let Ok(event) = self.inbox.try_recv() {
            if let NodeEvent::Back(node) = event
                && self.kubelets.contains_key(&node)
            {
                self.schedule(&node, 0, now);
            }
        }
        while let Some((name, number)) = self.due.pop_due(now.mono_ns) {
            let is_its = |kubelet: &Kubelet| kubelet.number == number;
            if self.kubelets.get(&name).is_some_and(is_its) && !self.control.is_lost(&name) {
                self.beat(&name, now);
            }
        }
        next.or(self.due.next_due_ns().map_or(Next::Idle, Next::At))
    }
}

/// Registers a node with `pods` as its capacity and an optional zone, and creates its Lease, as a
/// starting kubelet does. An existing node of this name stays unchanged.
///
/// # Errors
/// Fails if the server rejects the node.
pub fn register(
    cluster: &Arc<Cluster>,
    name: &str,
    zone: Option<&str>,
    size: &NodeSize,
    pods: u32,
    now: Now,
) -> Result<(), ApiError> {
    let (mut node, reasons) = node_status::registered(name, size, pods, now.wall());
    if let Some(zone) = zone {
        let labels = &mut node.metadata.labels;
        *labels = labels.with("topology.kubernetes.io/zone", zone);
    }
    // Unlike `create`, `import` keeps the status.
    let node = match cluster.import(node, now) {
        Err(error) if error.code == 409 => return Ok(()),
        made => made?,
    };
    let _made_by_the_first_renewal = renew(cluster, &node, now);
    let mut events = NodeEvents::new(Arc::clone(cluster));
    events.record_start(name, now);
    for reason in reasons {
        events.record_status(name, reason, now);
    }
    Ok(())
}

/// Renews or creates the Lease of a node.
fn renew(cluster: &Cluster, node: &Node, now: Now) -> Result<(), ApiError> {
    let name = &node.metadata.name;
    let api = cluster.api(Kind::LEASE);
    for _ in 0..ATTEMPTS {
        let lease = match api.get(LEASES, name) {
            Ok(lease) => lease,
            Err(error) if error.is_not_found() => return make_lease(cluster, node, now),
            Err(error) => return Err(error),
        };
        let Some(lease) = lease.downcast_ref::<DynamicObject>() else {
            return Ok(());
        };
        let mut new = lease.clone();
        let spec = new.fields.entry("spec").or_insert_with(|| json!({}));
        spec["holderIdentity"] = name.as_str().into();
        spec["leaseDurationSeconds"] = LEASE_SECONDS.into();
        spec["renewTime"] = micro_time(now).into();
        match api.update(Arc::new(new), now) {
            Err(error) if error.code == 409 => {}
            written => return written.map(drop),
        }
    }
    Ok(())
}

fn make_lease(cluster: &Cluster, node: &Node, now: Now) -> Result<(), ApiError> {
    let mut lease = DynamicObject::new(Kind::LEASE);
    lease.metadata.namespace = LEASES.into();
    lease.metadata.name = node.metadata.name.clone();
    lease
        .metadata
        .owner_references
        .push(Arc::new(OwnerReference {
            api_version: "v1".into(),
            kind: "Node".into(),
            name: node.metadata.name.as_str().into(),
            uid: node.metadata.uid.clone(),
            controller: None,
            block_owner_deletion: None,
        }));
    let spec = json!({"holderIdentity": node.metadata.name.as_str(),
        "leaseDurationSeconds": LEASE_SECONDS, "renewTime": micro_time(now)});
    lease.fields.insert("spec".into(), spec);
    let lease = Arc::new(lease);
    let made = cluster.api(Kind::LEASE).create(lease.clone(), now);
    if !made.as_ref().is_err_and(ApiError::is_not_found) {
        return made.map(drop);
    }
    // Upstream's server also recreates its own namespaces.
    let mut namespace = Namespace::default();
    namespace.metadata.name = LEASES.into();
    cluster.create(namespace, now)?;
    cluster.api(Kind::LEASE).create(lease, now).map(drop)
}

/// Formats a time as `2026-01-01T00:00:00.000000Z`.
fn micro_time(now: Now) -> String {
    let micros = now.wall_ns.rem_euclid(1_000_000_000) / 1000;
    let seconds = now.wall().to_string();
    format!("{}.{micros:06}Z", seconds.trim_end_matches('Z'))
}

/// Returns the time at which a Lease was last renewed, ns since the epoch; `None` if the Lease has
/// no such time.
fn renew_time(lease: &DynamicObject) -> Option<i64> {
    let text = lease.fields.get("spec")?["renewTime"].as_str()?;
    let (time, micros) = Time::read_micros(text).ok()?;
    Some(time.unix_nanos()?.saturating_add(i64::from(micros) * 1000))
}

/// Returns the time that has passed since `time`, ns; 0 if `time` is unset or in the future.
fn age_ns(time: Time, now: Now) -> i64 {
    let ns = time.unix_nanos();
    ns.map_or(0, |ns| now.wall_ns.saturating_sub(ns).max(0))
}

/// Returns a pseudorandom number in the range, determined by the seed, the node and the moment.
fn spread(seed: u64, node: &str, moment: i64, range: Range<i64>) -> i64 {
    let drawn = seed_for(seed, node, moment as u64);
    let width = range.end.saturating_sub(range.start).max(1) as u64;
    range.start.saturating_add((drawn % width) as i64)
}

/// Records Events about nodes, as kubelets do, and counts their repetitions.
#[derive(Debug)]
struct NodeEvents {
    cluster: Arc<Cluster>,
    /// The recorded Events by node and reason.
    recorded: BTreeMap<(Str, &'static str), EventPatch>,
    /// The number in the name of the newest Event.
    last_ns: i64,
}

impl NodeEvents {
    fn new(cluster: Arc<Cluster>) -> NodeEvents {
        NodeEvents {
            cluster,
            recorded: BTreeMap::new(),
            last_ns: 0,
        }
    }

    fn forget(&mut self, node: &str) {
        self.recorded.retain(|(of, _), _| &**of != node);
    }

    fn record_start(&mut self, node: &str, now: Now) {
        self.record(node, "Starting", "Starting kubelet.".to_owned(), now);
        let text = "Updated Node Allocatable limit across pods".to_owned();
        self.record(node, "NodeAllocatableEnforced", text, now);
    }

    fn record_status(&mut self, node: &str, reason: &'static str, now: Now) {
        let text = format!("Node {node} status is now: {reason}");
        self.record(node, reason, text, now);
    }

    /// Records an Event. An Event that the cluster rejects, for example without a namespace
    /// `default`, is dropped.
    fn record(&mut self, node: &str, reason: &'static str, message: String, now: Now) {
        let key = (Str::from(node), reason);
        if let Some(known) = self.recorded.get_mut(&key) {
            known.count = known.count.saturating_add(1);
            known.last_timestamp = now.wall();
            if self.cluster.repeat_event(known, now).is_ok() {
                return;
            }
        }
        // Names must differ even if the clock stands still, and from names that controllers give to
        // Events about the node.
        self.last_ns = now.wall_ns.saturating_add(AHEAD_NS).max(self.last_ns + 1);
        let reference = ObjectReference {
            kind: Kind::NODE,
            namespace: Str::default(),
            name: node.into(),
            uid: Uid::default(),
            resource_version: Default::default(),
        };
        let topic = EventTopic {
            kind: "Normal".into(),
            reason: reason.into(),
            component: "kubelet".into(),
            host: node.into(),
            reporting_component: "kubelet".into(),
            reporting_instance: node.into(),
        };
        let event = EventPatch {
            namespace: "default".into(),
            name: format!("{node}.{:x}", self.last_ns),
            count: 1,
            message,
            last_timestamp: now.wall(),
            source: EventSource {
                regarding: Arc::new(reference),
                topic: Arc::new(topic),
                first_timestamp: now.wall(),
            },
        };
        let made: Event = event.to_event();
        if self.cluster.create(made, now).is_ok() {
            self.recorded.insert(key, event);
        }
    }
}
