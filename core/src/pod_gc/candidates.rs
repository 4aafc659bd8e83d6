//! The pods that a round may delete, kept up to date by pod changes. A round reads no other pods.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::CompactString;
use podstorm_objects::{Pod, PodPhase, Str};

/// The namespace and name of a pod.
pub(super) type PodName = (Str, CompactString);

/// The candidates, by reason of deletion.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// The pods that have ended.
    pub(super) terminated: BTreeSet<PodName>,
    /// The pods that are being deleted.
    pub(super) deleting: BTreeSet<PodName>,
    /// The number of pods bound to each node; never 0.
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

/// Returns the node to which a pod is bound.
pub(super) fn node_of(pod: &Pod) -> Option<&Str> {
    pod.node_name.as_ref().filter(|name| !name.is_empty())
}

/// Reports whether a change of a pod from `old` to `new` can affect a round.
pub(super) fn matters(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    old.map(Facts::from_pod) != new.map(Facts::from_pod)
}

impl Candidates {
    /// Applies a change of a pod from `old` to `new`; `None` means that the pod does not exist.
    /// O(log n).
    pub(super) fn apply(&mut self, old: Option<&Pod>, new: Option<&Pod>) {
        let Some(pod) = new.or(old) else { return };
        let name = || (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        let was = old.map(Facts::from_pod).unwrap_or_default();
        let is = new.map(Facts::from_pod).unwrap_or_default();
        for (set, was, is) in [
            (&mut self.terminated, was.is_terminated, is.is_terminated),
            (&mut self.deleting, was.is_deleting, is.is_deleting),
        ] {
            match (was, is) {
                (false, true) => drop(set.insert(name())),
                (true, false) => drop(set.remove(&name())),
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

    /// Reports whether a pod is bound to the node.
    pub(super) fn has_pods_on(&self, node: &Str) -> bool {
        self.bound.contains_key(node)
    }

    /// Returns the nodes with bound pods, by name.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Str> {
        self.bound.keys()
    }
}
