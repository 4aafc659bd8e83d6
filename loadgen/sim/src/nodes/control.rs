//! A handle on the nodes from outside: what goes wrong on them, and when it is over.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use podstorm_objects::Str;

use crate::executor::Waker;

const SECOND: i64 = 1_000_000_000;

/// How long the cluster waits over a node that is in trouble; the default is upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeTimes {
    /// Until a node whose kubelet is silent counts as unreachable: its pods are then not ready and
    /// it gets no new ones.
    pub grace_ns: i64,
    /// From then until its pods are evicted, which is to say deleted: they stay terminating.
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

/// Something for a kubelet to do to one of its pods. A pod that has ended, is being deleted or
/// whose node is lost is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodCommand {
    /// The container of that number restarts, if the pod runs: it counts one more restart and is
    /// not ready until the start-up latency is over.
    Restart(usize),
    /// The pod ends with failure.
    Fail,
    /// The pod ends with success.
    Succeed,
}

/// What the parts that play the nodes are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NodeEvent {
    /// The node's kubelet fell silent.
    Lost(Str),
    /// It is back.
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
    event: VecDeque<NodeEvent>,
    waker: Waker,
}

#[derive(Default)]
struct ControlState {
    /// Nodes in trouble of any kind.
    nodes: BTreeMap<Str, NodeFault>,
    inboxes: Vec<Inbox>,
}

/// The handle. Shared by whoever injects faults and by the parts that play the nodes; may be used
/// from any thread. What it is told takes effect when those parts run next, at the same moment of
/// a virtual run.
#[derive(Default)]
pub struct NodeControl {
    times: NodeTimes,
    state: Mutex<ControlState>,
    /// Nodes in trouble, and news ever told: written under the lock, so that whoever finds neither
    /// need not take it.
    troubled: AtomicUsize,
    published: AtomicU64,
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
    /// All is well.
    pub fn new(times: NodeTimes) -> NodeControl {
        NodeControl {
            times,
            ..NodeControl::default()
        }
    }

    /// How long the cluster waits.
    pub fn times(&self) -> NodeTimes {
        self.times
    }

    /// The node's kubelet falls silent: its pods are neither started nor ended any more.
    pub fn lose(&self, node: &str) {
        self.set(node, Some(NodeEvent::Lost(node.into())), |fault| {
            !std::mem::replace(&mut fault.lost, true)
        });
    }

    /// The kubelet is back: what is to be started or ended on it is, and pods that ran are ready.
    pub fn restore(&self, node: &str) {
        self.set(node, Some(NodeEvent::Back(node.into())), |fault| {
            std::mem::replace(&mut fault.lost, false)
        });
    }

    /// Whether the node's kubelet is silent.
    pub fn is_lost(&self, node: &str) -> bool {
        self.fault(node).lost
    }

    /// Lets the node's kubelet refuse pods that it has not started yet, which makes each of them
    /// `Failed` at once, or take them again.
    pub fn set_rejecting(&self, node: &str, rejects: bool) {
        self.set(node, None, |fault| {
            std::mem::replace(&mut fault.rejects, rejects) != rejects
        });
    }

    /// Whether the node's kubelet refuses pods.
    pub fn is_rejecting(&self, node: &str) -> bool {
        self.fault(node).rejects
    }

    /// Has something done to a pod by its kubelet.
    pub fn order(&self, namespace: &str, name: &str, order: PodCommand) {
        let event = NodeEvent::Order {
            namespace: namespace.into(),
            name: name.into(),
            order,
        };
        self.publish(self.state(), event);
    }

    /// The nodes whose kubelet is silent or refuses pods, sorted.
    pub fn troubled(&self) -> Vec<Str> {
        self.state().nodes.keys().cloned().collect()
    }

    /// Everything is well again: every node is restored and takes pods.
    pub fn heal(&self) {
        for node in self.troubled() {
            self.set_rejecting(&node, false);
            self.restore(&node);
        }
    }

    /// A place for news for one part, which is woken by `waker`.
    pub(super) fn open_inbox(&self, waker: Waker) -> usize {
        let mut state = self.state();
        state.inboxes.push(Inbox {
            event: VecDeque::new(),
            waker,
        });
        state.inboxes.len() - 1
    }

    /// Takes the oldest piece of news. `seen` is the caller's, 0 at first.
    pub(super) fn next_event(&self, inbox: usize, seen: &mut u64) -> Option<NodeEvent> {
        // Acquire: whoever told then called the waker; a change missed here is met at that call.
        let published = self.published.load(Ordering::Acquire);
        if published == *seen {
            return None;
        }
        let event = self.state().inboxes[inbox].event.pop_front();
        if event.is_none() {
            *seen = published;
        }
        event
    }

    fn state(&self) -> MutexGuard<'_, ControlState> {
        // Nothing under this lock can leave it half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fault(&self, node: &str) -> NodeFault {
        // Relaxed: who reads an older state acts as if it had looked a moment ago.
        if self.troubled.load(Ordering::Relaxed) == 0 {
            return NodeFault::default();
        }
        self.state().nodes.get(node).copied().unwrap_or_default()
    }

    /// Changes a node; what `change` says was new is told.
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

    fn publish(&self, mut state: MutexGuard<'_, ControlState>, event: NodeEvent) {
        for inbox in &mut state.inboxes {
            inbox.event.push_back(event.clone());
        }
        let wakers: Vec<Waker> = state.inboxes.iter().map(|it| it.waker.clone()).collect();
        // Release: pairs with the load in `next_news`.
        self.published.fetch_add(1, Ordering::Release);
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
    fn every_part_is_told_once_and_in_order() {
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
            let mut seen = 0;
            let mut all = Vec::new();
            while let Some(event) = control.next_event(inbox, &mut seen) {
                all.push(event);
            }
            let order = NodeEvent::Order {
                namespace: "n".into(),
                name: "p".into(),
                order: PodCommand::Fail,
            };
            assert_eq!(
                all,
                [
                    NodeEvent::Lost("a".into()),
                    order,
                    NodeEvent::Back("a".into())
                ]
            );
            assert_eq!(control.next_event(inbox, &mut seen), None);
        }
    }

    #[test]
    fn healing_ends_every_trouble() {
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
