//! The pods that a round may delete, kept up to date by the changes of pods. A round reads these pods
//! and no others.

use std::collections::{BTreeMap, BTreeSet};

use compact_str::CompactString;
use podstorm_objects::{Pod, PodPhase, Str};

/// Namespace and name of a pod.
pub(super) type PodName = (Str, CompactString);

/// Pods by the reasons for which a round may delete them.
#[derive(Debug, Default)]
pub(super) struct Candidates {
    /// Pods that have ended.
    pub(super) terminated: BTreeSet<PodName>,
    /// Pods that are being deleted.
    pub(super) deleting: BTreeSet<PodName>,
    /// The number of pods that are bound to each node. No number is 0.
    bound: BTreeMap<Str, usize>,
}

/// What a round reads of a pod.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Facts<'a> {
    is_terminated: bool,
    is_deleting: bool,
    node: Option<&'a Str>,
}

impl<'a> Facts<'a> {
    fn of(pod: &'a Pod) -> Facts<'a> {
        use PodPhase::{Pending, Running, Unknown};
        Facts {
            is_terminated: !matches!(pod.status.phase, Pending | Running | Unknown),
            is_deleting: pod.metadata.is_deleting(),
            node: node_of(pod),
        }
    }
}

/// The node to which a pod is bound.
pub(super) fn node_of(pod: &Pod) -> Option<&Str> {
    pod.node_name.as_ref().filter(|name| !name.is_empty())
}

/// Whether a change of a pod from `old` to `new` can change what a round does.
pub(super) fn matters(old: Option<&Pod>, new: Option<&Pod>) -> bool {
    old.map(Facts::of) != new.map(Facts::of)
}

impl Candidates {
    /// Applies the change of a pod from `old` to `new`; `None` is a pod that does not exist. O(log n).
    pub(super) fn apply(&mut self, old: Option<&Pod>, new: Option<&Pod>) {
        let Some(pod) = new.or(old) else { return };
        let name = || (pod.metadata.namespace.clone(), pod.metadata.name.clone());
        let was = old.map(Facts::of).unwrap_or_default();
        let is = new.map(Facts::of).unwrap_or_default();
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

    /// Whether a pod is bound to a node.
    pub(super) fn has_pods_on(&self, node: &Str) -> bool {
        self.bound.contains_key(node)
    }

    /// The nodes to which pods are bound, by name.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &Str> {
        self.bound.keys()
    }
}
