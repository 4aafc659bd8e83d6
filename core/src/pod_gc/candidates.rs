//! The pods that a round may delete, updated with every change of a pod. A round reads no others.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_objects::{Pod, PodPhase, Str};

use crate::node::node_of;
use crate::pod_key::PodKey;

/// The pods that a round may delete, by the reason for it.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// The pods that have ended.
    pub(super) terminated: BTreeSet<PodKey>,
    /// The pods that are being deleted.
    pub(super) deleting: BTreeSet<PodKey>,
    /// The number of pods bound to each node. Has no entries that are 0.
    bound: BTreeMap<Str, usize>,
}

/// The properties of a pod that a round reads.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Facts<'a> {
    is_terminated: bool,
    is_deleting: bool,
    node: Option<&'a Str>,
}

impl<'a> Facts<'a> {
    fn from_pod(pod: &'a Pod) -> Facts<'a> {
        use PodPhase::{Pending, Running, Unknown};
        Facts {
            is_terminated: !matches!(pod.status.phase, Pending | Running | Unknown),
            is_deleting: pod.metadata.is_deleting(),
            node: node_of(pod),
        }
    }
}

/// Reports whether a change of a pod from `old` to `new` can affect a round.
pub(super) fn matters(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    old.map(Facts::from_pod) != new.map(Facts::from_pod)
}

impl Candidates {
    /// Applies a change of a pod from `old` to `new`, where `None` means that the pod does not
    /// exist. O(log n).
    pub(super) fn apply(&mut self, old: Option<&Pod>, new: Option<&Pod>) {
        let Some(pod) = new.or(old) else { return };
        let was = old.map(Facts::from_pod).unwrap_or_default();
        let is = new.map(Facts::from_pod).unwrap_or_default();
        for (set, was, is) in [
            (&mut self.terminated, was.is_terminated, is.is_terminated),
            (&mut self.deleting, was.is_deleting, is.is_deleting),
        ] {
            match (was, is) {
                (false, true) => drop(set.insert(PodKey::of(pod))),
                (true, false) => drop(set.remove(&PodKey::of(pod))),
                _ => {}
            }
        }
        if was.node == is.node {
            return;
        }
        if let Some(node) = was.node
            && let Some(count) = self.bound.get_mut(node)
        {
            *count -= 1;
            if *count == 0 {
                self.bound.remove(node);
            }
        }
        if let Some(node) = is.node {
            *self.bound.entry(node.clone()).or_default() += 1;
        }
    }

    /// Reports whether any pod is bound to the node.
    pub(super) fn has_pods_on(&self, node: &Str) -> bool {
        self.bound.contains_key(node)
    }

    /// Returns the names of the nodes with bound pods, sorted.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Str> {
        self.bound.keys()
    }
}
