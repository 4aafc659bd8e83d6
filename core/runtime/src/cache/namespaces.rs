//! Which owners of a namespace have pods with which labels. A scale-down uses it to find the pods
//! that a sibling's selector matches, of any owner, without walking over the namespace.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashTable};
use podstorm_objects::{Labels, Selector, Str, hash_state};
use smallvec::SmallVec;

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
    /// By number. A free number has no holders.
    sets: Vec<(Labels, Holders)>,
    free: Vec<u32>,
    by_labels: HashMap<Labels, u32, RandomState>,
    /// The label sets by each pair in them. The pods of an indexed Job have a set each: numbers, unlike labels, are
    /// hashed at once.
    by_pair: HashMap<(Str, Str), HashTable<u32>, RandomState>,
}

type Holders = SmallVec<[Arc<OwnedPods>; 1]>;

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
            if sets.by_labels.is_empty() {
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
            sets: Vec::new(),
            free: Vec::new(),
            by_labels: HashMap::with_hasher(hash_state()),
            by_pair: HashMap::with_hasher(hash_state()),
        }
    }

    fn insert(&mut self, labels: Labels, owned_pods: &Arc<OwnedPods>) {
        if let Some(number) = self.by_labels.get(&labels) {
            let (_, holders) = &mut self.sets[*number as usize];
            return holders.push(owned_pods.clone());
        }
        let set = (labels.clone(), Holders::from_iter([owned_pods.clone()]));
        let number = match self.free.pop() {
            Some(free) => {
                self.sets[free as usize] = set;
                free
            }
            None => {
                self.sets.push(set);
                u32::try_from(self.sets.len() - 1).expect("fewer label sets than 32 bits count")
            }
        };
        for pair in labels.pairs() {
            let sets = self.by_pair.entry(pair.clone()).or_default();
            sets.insert_unique(hash(&number), number, hash);
        }
        self.by_labels.insert(labels, number);
    }

    fn remove(&mut self, labels: &Labels, owned_pods: &Arc<OwnedPods>) {
        let Some(number) = self.by_labels.get(labels).copied() else {
            return;
        };
        let (_, holders) = &mut self.sets[number as usize];
        holders.retain(|held| !Arc::ptr_eq(held, owned_pods));
        if !holders.is_empty() {
            return;
        }
        self.sets[number as usize].0 = Labels::ABSENT;
        self.free.push(number);
        self.by_labels.remove(labels);
        for pair in labels.pairs() {
            let Some(sets) = self.by_pair.get_mut(pair) else {
                continue;
            };
            if let Ok(set) = sets.find_entry(hash(&number), |other| *other == number) {
                set.remove();
            }
            if sets.is_empty() {
                self.by_pair.remove(pair);
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
            let used = self.sets.iter().filter(|(_, holders)| !holders.is_empty());
            return used.for_each(|(labels, holders)| candidate(labels, holders));
        }
        let mut rarest: Option<&HashTable<u32>> = None;
        for pair in pairs {
            // A pair without a label set has no match.
            let Some(sets) = self.by_pair.get(pair) else {
                return;
            };
            if rarest.is_none_or(|rarest| sets.len() < rarest.len()) {
                rarest = Some(sets);
            }
        }
        for number in rarest.into_iter().flatten() {
            let (labels, holders) = &self.sets[*number as usize];
            candidate(labels, holders);
        }
    }
}

/// The hash of the number of a label set, of which neighbours differ in all bits.
fn hash(number: &u32) -> u64 {
    u64::from(*number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
