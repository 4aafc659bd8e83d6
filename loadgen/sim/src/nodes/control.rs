//! Makes nodes fail and recover, from outside the simulation.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};

use podstorm::client::EventStamps;
use podstorm_objects::Str;

use super::rules::ClientRules;
use crate::executor::Waker;

const SECOND: i64 = 1_000_000_000;

/// The times after which the cluster reacts to a silent or missing node. The defaults are
/// upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTimes {
    /// The time from the moment a kubelet becomes silent until its node is unreachable, ns. The
    /// node's pods are then not ready, and it gets no new pods.
    pub grace_ns: i64,
    /// The time from the moment a node is unreachable until its pods are evicted, ns. Eviction
    /// deletes the pods, but they stay terminating. If clients write to the cluster, the
    /// tolerations of pods decide, and admission gives this time to new pods, in whole seconds.
    pub toleration_ns: i64,
    /// The time after which the pods of a node that no longer exists are removed by force, ns.
    pub quarantine_ns: i64,
}

impl Default for NodeTimes {
    fn default() -> Self {
        NodeTimes {
            grace_ns: 50 * SECOND,
            toleration_ns: 300 * SECOND,
            quarantine_ns: 60 * SECOND,
        }
    }
}

/// The annotation of a node that makes its kubelet silent if the value is `silent`.
pub(super) const KUBELET: &str = "podstorm/kubelet";

/// A command to the kubelet of a pod. It has no effect on a pod that has ended, is being deleted or
/// is on a silent node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCommand {
    /// Restarts the container with this index if the pod is running: its restart count increases by
    /// one, and it is not ready until the start-up latency has passed.
    Restart(usize),
    /// Makes the pod fail.
    Fail,
    /// Makes the pod succeed.
    Succeed,
}

/// An event for the tasks that simulate nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeEvent {
    /// The kubelet of this node has become silent.
    Lost(Str),
    /// The node's kubelet is back.
    Back(Str),
    Order {
        namespace: Str,
        name: Str,
        order: PodCommand,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct NodeFault {
    lost: bool,
    rejects: bool,
}

struct Inbox {
    events: Sender<NodeEvent>,
    waker: Waker,
}

#[derive(Default)]
struct ControlState {
    /// The nodes that have a fault.
    nodes: BTreeMap<Str, NodeFault>,
    inboxes: Vec<Inbox>,
}

/// Makes nodes fail and recover. Fault injection and the tasks that simulate the nodes share it,
/// and any thread may use it. A change takes effect when these tasks run next. On virtual time,
/// that is the same moment.
#[derive(Default)]
pub struct NodeControl {
    times: NodeTimes,
    /// The rules of a cluster to which arbitrary clients write; `None` for any other cluster.
    clients: Option<ClientRules>,
    /// Reports whether kubelets keep their nodes alive.
    keeps_alive: bool,
    /// Whether kubelets write only the results of a pod's start and end, even in a cluster with
    /// arbitrary clients.
    is_brief: bool,
    /// The number of pod addresses assigned so far.
    addresses: AtomicU64,
    /// The source of the suffixes of Event names.
    pub(crate) stamps: EventStamps,
    state: Mutex<ControlState>,
    /// The number of nodes with a fault. Written under the lock of `state`; a reader that finds 0
    /// doesn't take the lock.
    troubled: AtomicUsize,
}

impl fmt::Debug for NodeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NodeControl")
            .field("times", &self.times)
            .field("nodes", &self.state().nodes)
            .finish_non_exhaustive()
    }
}

impl NodeControl {
    /// Returns a control whose nodes have no faults.
    pub fn new(times: NodeTimes) -> NodeControl {
        NodeControl {
            times,
            ..NodeControl::default()
        }
    }

    /// Returns a control like [`new`](NodeControl::new), for a cluster with arbitrary clients.
    pub fn for_clients(times: NodeTimes, rules: ClientRules) -> NodeControl {
        NodeControl {
            clients: Some(rules),
            ..NodeControl::new(times)
        }
    }

    /// Makes kubelets [keep their nodes alive](super::Heartbeats). The cluster's controllers then
    /// handle silent nodes, and pods that do not tolerate the taints of their nodes.
    #[must_use]
    pub fn alive(self) -> NodeControl {
        NodeControl {
            keeps_alive: true,
            ..self
        }
    }

    /// Reports whether kubelets keep their nodes alive.
    pub fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    /// Makes kubelets start a pod with one write and end it with one request, even in a cluster
    /// with arbitrary clients.
    #[must_use]
    pub fn brief(self) -> NodeControl {
        NodeControl {
            is_brief: true,
            ..self
        }
    }

    /// Reports whether kubelets play every step of every pod's life.
    pub(super) fn plays_pods(&self) -> bool {
        self.clients.is_some() && !self.is_brief
    }

    /// Sets the number of pod addresses assigned so far.
    #[must_use]
    pub fn with_addresses(self, given: u64) -> NodeControl {
        // Relaxed: no other thread has access yet.
        self.addresses.store(given, Ordering::Relaxed);
        self
    }

    /// Returns the number of pod addresses assigned so far.
    pub fn addresses(&self) -> u64 {
        // Relaxed: a count that orders nothing.
        self.addresses.load(Ordering::Relaxed)
    }

    /// Returns the rules of a cluster with arbitrary clients; `None` for any other cluster.
    pub fn clients(&self) -> Option<&ClientRules> {
        self.clients.as_ref()
    }

    /// Returns the address of the next pod; `None` if pods have their nodes' addresses.
    pub(super) fn next_pod_address(&self) -> Option<Ipv4Addr> {
        let network = self.clients.as_ref()?.pod_network?;
        // Relaxed: the numbers only have to be unique.
        Some(network.address(self.addresses.fetch_add(1, Ordering::Relaxed)))
    }

    /// Returns the times after which the cluster reacts to a silent or missing node.
    pub fn times(&self) -> NodeTimes {
        self.times
    }

    /// Makes the node's kubelet silent: it no longer starts or ends pods.
    pub fn lose(&self, node: &str) {
        self.set(node, Some(NodeEvent::Lost(node.into())), |fault| {
            !std::mem::replace(&mut fault.lost, true)
        });
    }

    /// Brings the node's kubelet back: it starts and ends the pods that wait for it, and reports
    /// running pods as ready.
    pub fn restore(&self, node: &str) {
        self.set(node, Some(NodeEvent::Back(node.into())), |fault| {
            std::mem::replace(&mut fault.lost, false)
        });
    }

    /// Reports whether the node's kubelet is silent.
    pub fn is_lost(&self, node: &str) -> bool {
        self.fault(node).lost
    }

    /// Sets whether the node's kubelet rejects pods that it has not started yet. A rejected pod is
    /// `Failed`.
    pub fn set_rejecting(&self, node: &str, rejects: bool) {
        self.set(node, None, |fault| {
            std::mem::replace(&mut fault.rejects, rejects) != rejects
        });
    }

    /// Reports whether the node's kubelet rejects pods.
    pub fn is_rejecting(&self, node: &str) -> bool {
        self.fault(node).rejects
    }

    /// Sends a command to the kubelet of a pod.
    pub fn order(&self, namespace: &str, name: &str, order: PodCommand) {
        let event = NodeEvent::Order {
            namespace: namespace.into(),
            name: name.into(),
            order,
        };
        self.publish(self.state(), event);
    }

    /// Returns the nodes whose kubelet is silent or rejects pods, sorted.
    pub fn troubled(&self) -> Vec<Str> {
        self.state().nodes.keys().cloned().collect()
    }

    /// Ends all faults: every kubelet is back and accepts pods.
    pub fn heal(&self) {
        for node in self.troubled() {
            self.set_rejecting(&node, false);
            self.restore(&node);
        }
    }

    /// Opens an inbox of events for one task; each new event calls `waker`.
    pub(super) fn open_inbox(&self, waker: Waker) -> Receiver<NodeEvent> {
        let (events, inbox) = mpsc::channel();
        self.state().inboxes.push(Inbox { events, waker });
        inbox
    }

    fn state(&self) -> MutexGuard<'_, ControlState> {
        // A panic under this lock leaves the state consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, node: &str) -> NodeFault {
        // Relaxed: a thread that reads an older value acts as if it had read a moment earlier.
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return NodeFault::default();
        }
        self.state().nodes.get(node).copied().unwrap_or_default()
    }

    /// Changes the faults of a node, and publishes `event` if `change` returns true.
    fn set(
        &self,
        node: &str,
        event: Option<NodeEvent>,
        change: impl FnOnce(&mut NodeFault) -> bool,
    ) {
        let mut state = self.state();
        let mut fault = state.nodes.get(node).copied().unwrap_or_default();
        if !change(&mut fault) {
            return;
        }
        if fault == NodeFault::default() {
            state.nodes.remove(node);
        } else {
            state.nodes.insert(node.into(), fault);
        }
        self.troubled.store(state.nodes.len(), Ordering::Relaxed);
        if let Some(event) = event {
            self.publish(state, event);
        }
    }

    fn publish(&self, state: MutexGuard<'_, ControlState>, event: NodeEvent) {
        for inbox in &state.inboxes {
            // The send fails if the task has ended, which needs no events.
            let _gone = inbox.events.send(event.clone());
        }
        let wakers: Vec<Waker> = state.inboxes.iter().map(|it| it.waker.clone()).collect();
        drop(state);
        for waker in wakers {
            waker();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[test]
    fn every_task_gets_each_event_once_in_order() {
        let control = NodeControl::default();
        let woken = Arc::new(AtomicU32::new(0));
        let counter = woken.clone();
        let waker: Waker = Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        let inboxes = [control.open_inbox(waker.clone()), control.open_inbox(waker)];
        control.lose("a");
        control.lose("a");
        control.order("n", "p", PodCommand::Fail);
        control.restore("a");
        control.restore("b");
        assert_eq!(
            woken.load(Ordering::Relaxed),
            6,
            "each of the two tasks gets all events"
        );
        for inbox in inboxes {
            let all: Vec<NodeEvent> = inbox.try_iter().collect();
            let order = NodeEvent::Order {
                namespace: "n".into(),
                name: "p".into(),
                order: PodCommand::Fail,
            };
            let (lost, back) = (NodeEvent::Lost("a".into()), NodeEvent::Back("a".into()));
            assert_eq!(all, [lost, order, back]);
            assert!(inbox.try_recv().is_err());
        }
    }

    #[test]
    fn healing_ends_every_fault() {
        let control = NodeControl::default();
        control.lose("a");
        control.set_rejecting("a", true);
        control.set_rejecting("b", true);
        assert!(control.is_lost("a") && control.is_rejecting("b") && !control.is_lost("b"));
        assert_eq!(control.troubled().len(), 2);
        control.heal();
        assert!(control.troubled().is_empty());
        assert!(!control.is_lost("a") && !control.is_rejecting("a"));
    }
}
