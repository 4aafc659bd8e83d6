//! Lets nodes fail and recover, from outside of the simulation.

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

/// How long the cluster waits for a silent node. The default is upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTimes {
    /// Until a node with a silent kubelet is unreachable: its pods are then not ready, and it gets
    /// no new pods.
    pub grace_ns: i64,
    /// From then until its pods are evicted, which means deleted: they stay terminating. Where clients write to the cluster,
    /// pods say it by their tolerations, and this is what admission gives new pods, in whole seconds.
    pub toleration_ns: i64,
    /// Until the pods of a node that no longer exists are removed by force.
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

/// The annotation that makes a node's kubelet silent, with the value `silent`.
pub(super) const KUBELET: &str = "podstorm/kubelet";

/// A command to the kubelet of a pod. It has no effect on a pod that has ended, is being deleted or
/// is on a silent node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCommand {
    /// Restarts the container of that index, if the pod is running: its restart count grows by one,
    /// and it is not ready until the start-up latency is over.
    Restart(usize),
    /// Ends the pod with failure.
    Fail,
    /// Ends the pod with success.
    Succeed,
}

/// An event for the tasks that simulate the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeEvent {
    /// The node's kubelet is silent.
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
    /// Nodes with any fault.
    nodes: BTreeMap<Str, NodeFault>,
    inboxes: Vec<Inbox>,
}

/// Lets nodes fail and recover. Fault injection and the tasks that simulate the nodes share it; it
/// may be used from any thread. A change takes effect at the next run of those tasks, which on
/// virtual time is at the same moment.
#[derive(Default)]
pub struct NodeControl {
    times: NodeTimes,
    /// Present where clients of any kind write to the cluster.
    clients: Option<ClientRules>,
    /// Whether kubelets keep their nodes alive.
    keeps_alive: bool,
    /// Whether kubelets show only what comes out, although clients write to the cluster.
    is_brief: bool,
    /// How many addresses pods have got.
    addresses: AtomicU64,
    /// The numbers in the names of Events.
    pub(crate) stamps: EventStamps,
    state: Mutex<ControlState>,
    /// The number of nodes with a fault. Written under the lock; a reader that finds none need not
    /// take it.
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
    /// No node has a fault.
    pub fn new(times: NodeTimes) -> NodeControl {
        NodeControl {
            times,
            ..NodeControl::default()
        }
    }

    /// As [`new`](NodeControl::new), for a cluster that clients of any kind write to.
    pub fn for_clients(times: NodeTimes, rules: ClientRules) -> NodeControl {
        NodeControl {
            clients: Some(rules),
            ..NodeControl::new(times)
        }
    }

    /// The same nodes, whose kubelets [keep them alive](super::Heartbeats). Controllers of the cluster then see to nodes that
    /// are silent, and to pods that do not tolerate taints.
    #[must_use]
    pub fn alive(self) -> NodeControl {
        NodeControl {
            keeps_alive: true,
            ..self
        }
    }

    /// Whether kubelets keep their nodes alive.
    pub fn keeps_alive(&self) -> bool {
        self.keeps_alive
    }

    /// The same nodes, whose kubelets start a pod with one write and end it with one request.
    #[must_use]
    pub fn brief(self) -> NodeControl {
        NodeControl {
            is_brief: true,
            ..self
        }
    }

    /// Whether kubelets go through every step of every pod's life.
    pub(super) fn plays_pods(&self) -> bool {
        self.clients.is_some() && !self.is_brief
    }

    /// The same nodes, of which pods have got that many addresses already.
    #[must_use]
    pub fn with_addresses(self, given: u64) -> NodeControl {
        // Relaxed: no other thread has them yet.
        self.addresses.store(given, Ordering::Relaxed);
        self
    }

    /// How many addresses pods have got.
    pub fn addresses(&self) -> u64 {
        // Relaxed: as in `next_pod_address`.
        self.addresses.load(Ordering::Relaxed)
    }

    /// The rules of a cluster that clients of any kind write to.
    pub fn clients(&self) -> Option<&ClientRules> {
        self.clients.as_ref()
    }

    /// The address of the next pod, where pods have their own.
    pub(super) fn next_pod_address(&self) -> Option<Ipv4Addr> {
        let network = self.clients.as_ref()?.pod_network?;
        // Relaxed: nothing else hangs on who gets which.
        Some(network.address(self.addresses.fetch_add(1, Ordering::Relaxed)))
    }

    /// How long the cluster waits for a silent node.
    pub fn times(&self) -> NodeTimes {
        self.times
    }

    /// Makes the node's kubelet silent: it neither starts nor ends pods any more.
    pub fn lose(&self, node: &str) {
        self.set(node, Some(NodeEvent::Lost(node.into())), |fault| {
            !std::mem::replace(&mut fault.lost, true)
        });
    }

    /// Brings the kubelet back: it starts and ends the pods that wait for it, and running pods
    /// become ready.
    pub fn restore(&self, node: &str) {
        self.set(node, Some(NodeEvent::Back(node.into())), |fault| {
            std::mem::replace(&mut fault.lost, false)
        });
    }

    /// Whether the node's kubelet is silent.
    pub fn is_lost(&self, node: &str) -> bool {
        self.fault(node).lost
    }

    /// Sets whether the node's kubelet rejects pods that it has not started yet, which makes each
    /// of them `Failed`.
    pub fn set_rejecting(&self, node: &str, rejects: bool) {
        self.set(node, None, |fault| {
            std::mem::replace(&mut fault.rejects, rejects) != rejects
        });
    }

    /// Whether the node's kubelet rejects pods.
    pub fn is_rejecting(&self, node: &str) -> bool {
        self.fault(node).rejects
    }

    /// Gives the kubelet of a pod a command.
    pub fn order(&self, namespace: &str, name: &str, order: PodCommand) {
        let event = NodeEvent::Order {
            namespace: namespace.into(),
            name: name.into(),
            order,
        };
        self.publish(self.state(), event);
    }

    /// The nodes whose kubelet is silent or rejects pods, sorted.
    pub fn troubled(&self) -> Vec<Str> {
        self.state().nodes.keys().cloned().collect()
    }

    /// Ends all faults: every kubelet is back and takes pods.
    pub fn heal(&self) {
        for node in self.troubled() {
            self.set_rejecting(&node, false);
            self.restore(&node);
        }
    }

    /// Opens an inbox of events for one task, which `waker` wakes.
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
        // Relaxed: a reader of an older value acts as if it had read a moment ago.
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return NodeFault::default();
        }
        self.state().nodes.get(node).copied().unwrap_or_default()
    }

    /// Changes a node, and publishes the event if `change` returns that something changed.
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
            // A task that is gone needs no events.
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
    fn every_task_gets_each_event_once_and_in_order() {
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
        assert_eq!(woken.load(Ordering::Relaxed), 6, "three pieces for two");
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
