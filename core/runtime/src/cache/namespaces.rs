//! Which groups of a namespace hold pods of which labels: how a scale-down finds the pods that a
//! sibling's selector matches, whoever owns them, without walking the namespace.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use podstorm_objects::{Labels, Selector, Str};

use super::PodFields;
use super::group::Group;
use super::label_set::LabelSetChange;
use crate::intern::FIXED_STATE;

/// Per namespace, the groups by label set.
#[derive(Debug)]
pub(crate) struct Namespaces<F> {
    by_name: HashMap<Str, LabelSets<F>, RandomState>,
}

/// A selector of a parent that counts for co-location, with the parent's namespace.
pub type NamespacedSelector = (Str, Arc<Selector>);

/// The label sets of one namespace.
#[derive(Debug)]
struct LabelSets<F> {
    groups: HashMap<Labels, Vec<Arc<Group<F>>>, RandomState>,
    /// The label sets by each pair in them.
    by_pair: HashMap<(Str, Str), HashSet<Labels, RandomState>, RandomState>,
}

impl<F: PodFields> Namespaces<F> {
    pub(crate) fn new() -> Namespaces<F> {
        Namespaces {
            by_name: HashMap::with_hasher(FIXED_STATE),
        }
    }

    /// Notes what a group's change did to its label sets.
    pub(crate) fn note(&mut self, group: &Arc<Group<F>>, change: LabelSetChange) {
        if let Some(labels) = change.came {
            let sets = self
                .by_name
                .entry(group.namespace().clone())
                .or_insert_with(LabelSets::new);
            sets.insert(labels, group);
        }
        if let Some(labels) = change.went
            && let Some(sets) = self.by_name.get_mut(group.namespace())
        {
            sets.remove(&labels, group);
            // Namespaces come and go, each under a name of its own.
            if sets.groups.is_empty() {
                self.by_name.remove(group.namespace());
            }
        }
    }

    /// Fills `found` with the label sets that any of the selectors matches, each with a group that
    /// holds pods of it. A pair of labels and group comes once, in no particular order.
    ///
    /// O(label sets that share the rarest pair which a selector requires), for each selector.
    pub(crate) fn matching(
        &self,
        selectors: &[NamespacedSelector],
        found: &mut Vec<(Labels, Arc<Group<F>>)>,
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
            sets.candidates(selector, |labels, groups| {
                if selector.matches(labels) && !is_known(labels) {
                    found.extend(groups.iter().map(|group| (labels.clone(), group.clone())));
                }
            });
        }
    }
}

impl<F: PodFields> LabelSets<F> {
    fn new() -> LabelSets<F> {
        LabelSets {
            groups: HashMap::with_hasher(FIXED_STATE),
            by_pair: HashMap::with_hasher(FIXED_STATE),
        }
    }

    fn insert(&mut self, labels: Labels, group: &Arc<Group<F>>) {
        let groups = self.groups.entry(labels.clone()).or_default();
        if groups.is_empty() {
            for pair in labels.pairs() {
                let sets = self.by_pair.entry(pair.clone());
                sets.or_insert_with(|| HashSet::with_hasher(FIXED_STATE))
                    .insert(labels.clone());
            }
        }
        groups.push(group.clone());
    }

    fn remove(&mut self, labels: &Labels, group: &Arc<Group<F>>) {
        let Some(groups) = self.groups.get_mut(labels) else {
            return;
        };
        groups.retain(|held| !Arc::ptr_eq(held, group));
        if !groups.is_empty() {
            return;
        }
        self.groups.remove(labels);
        for pair in labels.pairs() {
            if let Some(sets) = self.by_pair.get_mut(pair) {
                sets.remove(labels);
                if sets.is_empty() {
                    self.by_pair.remove(pair);
                }
            }
        }
    }

    /// Calls `candidate` for every label set that the selector might match.
    fn candidates(
        &self,
        selector: &Selector,
        mut candidate: impl FnMut(&Labels, &[Arc<Group<F>>]),
    ) {
        let pairs = selector.required_pairs();
        if pairs.is_empty() {
            let sets = self.groups.iter();
            return sets.for_each(|(labels, groups)| candidate(labels, groups));
        }
        let mut rarest: Option<&HashSet<Labels, RandomState>> = None;
        for pair in pairs {
            // What no label set carries, no match can carry.
            let Some(sets) = self.by_pair.get(pair) else {
                return;
            };
            if rarest.is_none_or(|rarest| sets.len() < rarest.len()) {
                rarest = Some(sets);
            }
        }
        for labels in rarest.into_iter().flatten() {
            if let Some(groups) = self.groups.get(labels) {
                candidate(labels, groups);
            }
        }
    }
}
