//! Which owners of a namespace have pods with which labels. A scale-down uses it to find the pods
//! that a sibling's selector matches, of any owner, without walking over the namespace.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use podstorm_objects::{Labels, Selector, Str, hash_state};

use super::label_set::LabelSetChange;
use super::owned_pods::OwnedPods;

/// Per namespace, the owned pods by label set.
#[derive(Debug)]
pub(crate) struct Namespaces {
    by_name: HashMap<Str, LabelSets, RandomState>,
}

/// An owner's selector that counts for co-location, with the owner's namespace.
pub type NamespacedSelector = (Str, Arc<Selector>);

/// The label sets of one namespace.
#[derive(Debug)]
struct LabelSets {
    holders: HashMap<Labels, Vec<Arc<OwnedPods>>, RandomState>,
    /// The label sets by each pair in them.
    by_pair: HashMap<(Str, Str), HashSet<Labels, RandomState>, RandomState>,
}

impl Namespaces {
    pub(crate) fn new() -> Namespaces {
        Namespaces {
            by_name: HashMap::with_hasher(hash_state()),
        }
    }

    /// Records how a change of owned pods changed their label sets.
    pub(crate) fn note(&mut self, owned_pods: &Arc<OwnedPods>, change: LabelSetChange) {
        if let Some(labels) = change.added {
            let sets = self
                .by_name
                .entry(owned_pods.namespace().clone())
                .or_insert_with(LabelSets::new);
            sets.insert(labels, owned_pods);
        }
        if let Some(labels) = change.removed
            && let Some(sets) = self.by_name.get_mut(owned_pods.namespace())
        {
            sets.remove(&labels, owned_pods);
            // Namespaces come and go, each with a new name.
            if sets.holders.is_empty() {
                self.by_name.remove(owned_pods.namespace());
            }
        }
    }

    /// Fills `found` with the label sets that any of the selectors matches, each with owned pods
    /// that have it. A pair of labels and owned pods occurs once, in no particular order.
    ///
    /// O(label sets that share the rarest pair that the selector requires), for each selector.
    pub(crate) fn matching(
        &self,
        selectors: &[NamespacedSelector],
        found: &mut Vec<(Labels, Arc<OwnedPods>)>,
    ) {
        found.clear();
        for (at, (namespace, selector)) in selectors.iter().enumerate() {
            let Some(sets) = self.by_name.get(namespace) else {
                continue;
            };
            let is_known = |labels: &Labels| {
                let before = selectors[..at].iter();
                before
                    .filter(|(other, _)| other == namespace)
                    .any(|(_, selector)| selector.matches(labels))
            };
            sets.candidates(selector, |labels, holders| {
                if selector.matches(labels) && !is_known(labels) {
                    found.extend(
                        holders
                            .iter()
                            .map(|owned_pods| (labels.clone(), owned_pods.clone())),
                    );
                }
            });
        }
    }
}

impl LabelSets {
    fn new() -> LabelSets {
        LabelSets {
            holders: HashMap::with_hasher(hash_state()),
            by_pair: HashMap::with_hasher(hash_state()),
        }
    }

    fn insert(&mut self, labels: Labels, owned_pods: &Arc<OwnedPods>) {
        let holders = self.holders.entry(labels.clone()).or_default();
        if holders.is_empty() {
            for pair in labels.pairs() {
                let sets = self.by_pair.entry(pair.clone());
                sets.or_insert_with(|| HashSet::with_hasher(hash_state()))
                    .insert(labels.clone());
            }
        }
        holders.push(owned_pods.clone());
    }

    fn remove(&mut self, labels: &Labels, owned_pods: &Arc<OwnedPods>) {
        let Some(holders) = self.holders.get_mut(labels) else {
            return;
        };
        holders.retain(|held| !Arc::ptr_eq(held, owned_pods));
        if !holders.is_empty() {
            return;
        }
        self.holders.remove(labels);
        for pair in labels.pairs() {
            if let Some(sets) = self.by_pair.get_mut(pair) {
                sets.remove(labels);
                if sets.is_empty() {
                    self.by_pair.remove(pair);
                }
            }
        }
    }

    /// Calls `candidate` for every label set that the selector may match.
    fn candidates(
        &self,
        selector: &Selector,
        mut candidate: impl FnMut(&Labels, &[Arc<OwnedPods>]),
    ) {
        let pairs = selector.required_pairs();
        if pairs.is_empty() {
            let sets = self.holders.iter();
            return sets.for_each(|(labels, holders)| candidate(labels, holders));
        }
        let mut rarest: Option<&HashSet<Labels, RandomState>> = None;
        for pair in pairs {
            // A pair without a label set has no match.
            let Some(sets) = self.by_pair.get(pair) else {
                return;
            };
            if rarest.is_none_or(|rarest| sets.len() < rarest.len()) {
                rarest = Some(sets);
            }
        }
        for labels in rarest.into_iter().flatten() {
            if let Some(holders) = self.holders.get(labels) {
                candidate(labels, holders);
            }
        }
    }
}
