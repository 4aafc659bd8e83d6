//! The label sets of each namespace and the owners that have pods with them. A scale-down uses them
//! to find the pods of any owner that a sibling's selector matches, without visiting every pod of
//! the namespace.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashTable};
use podstorm_objects::{Labels, Selector, Str, hash_state};
use smallvec::SmallVec;

use super::label_set::LabelSetChange;
use super::owned_pods::OwnedPods;

/// The label sets of every namespace, with the lists of owned pods that have them.
#[derive(Debug)]
pub(crate) struct Namespaces {
    by_name: HashMap<Str, LabelSets, RandomState>,
}

/// A selector of pods in one namespace.
#[derive(Clone, Debug)]
pub struct NamespacedSelector {
    /// The namespace.
    pub namespace: Str,
    /// The selector.
    pub selector: Arc<Selector>,
}

impl NamespacedSelector {
    /// Creates a selector of the pods in a namespace. O(1).
    #[inline]
    pub fn new(namespace: &Str, selector: &Arc<Selector>) -> NamespacedSelector {
        NamespacedSelector {
            namespace: Str::clone(namespace),
            selector: Arc::clone(selector),
        }
    }
}

/// The label sets of one namespace.
#[derive(Debug)]
struct LabelSets {
    /// The label sets by number. A number without holders is free.
    sets: Vec<LabelSet>,
    free: Vec<u32>,
    by_labels: HashTable<u32>,
    hasher: RandomState,
    /// The label sets by each of their pairs. Built only when a second selector is looked up: each
    /// pod of an indexed Job has its own label set, and the pods are looked up at most once, when
    /// the Job is over.
    by_pair: Option<PairIndex>,
    /// Whether a selector has been looked up.
    is_asked: bool,
}

/// The numbers of label sets by each of their pairs. Numbers hash faster than labels.
type PairIndex = HashMap<(Str, Str), HashTable<u32>, RandomState>;

#[derive(Debug)]
struct LabelSet {
    labels: Labels,
    /// The hash of the labels, stored because labels are long.
    hash: u64,
    holders: Holders,
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
            // Drop the entry: namespaces come and go, each with a new name.
            if sets.by_labels.is_empty() {
                self.by_name.remove(owned_pods.namespace());
            }
        }
    }

    /// Fills `found` with the label sets that any of the selectors matches, each with the owned
    /// pods that have it. Each pair of label set and owned pods occurs once. The order is
    /// undefined.
    ///
    /// For each selector, O(label sets that have its rarest required pair). O(label sets) at the
    /// first two calls for a namespace.
    pub(crate) fn matching(
        &mut self,
        selectors: &[NamespacedSelector],
        found: &mut Vec<(Labels, Arc<OwnedPods>)>,
    ) {
        found.clear();
        for (at, one) in selectors.iter().enumerate() {
            let (namespace, selector) = (&one.namespace, &one.selector);
            let Some(sets) = self.by_name.get_mut(namespace) else {
                continue;
            };
            let is_known = |labels: &Labels| {
                let before = selectors[..at].iter();
                before
                    .filter(|other| other.namespace == *namespace)
                    .any(|other| other.selector.matches(labels))
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
            by_labels: HashTable::new(),
            hasher: hash_state(),
            by_pair: None,
            is_asked: false,
        }
    }

    fn insert(&mut self, labels: Labels, owned_pods: &Arc<OwnedPods>) {
        let hash = self.hasher.hash_one(&labels);
        let sets = &mut self.sets;
        let is_it = |number: &u32| sets[*number as usize].labels == labels;
        if let Some(number) = self.by_labels.find(hash, is_it) {
            return sets[*number as usize].holders.push(owned_pods.clone());
        }
        if let Some(by_pair) = &mut self.by_pair {
            let number = self.free.last().copied();
            index_pairs(by_pair, &labels, number.unwrap_or(number_of(sets.len())));
        }
        let set = LabelSet {
            labels,
            hash,
            holders: Holders::from_iter([owned_pods.clone()]),
        };
        let number = match self.free.pop() {
            Some(free) => {
                sets[free as usize] = set;
                free
            }
            None => {
                sets.push(set);
                number_of(sets.len() - 1)
            }
        };
        let hash_of = |number: &u32| sets[*number as usize].hash;
        self.by_labels.insert_unique(hash, number, hash_of);
    }

    fn remove(&mut self, labels: &Labels, owned_pods: &Arc<OwnedPods>) {
        let hash = self.hasher.hash_one(labels);
        let sets = &mut self.sets;
        let is_it = |number: &u32| sets[*number as usize].labels == *labels;
        let Ok(known) = self.by_labels.find_entry(hash, is_it) else {
            return;
        };
        let number = *known.get();
        let set = &mut sets[number as usize];
        set.holders.retain(|held| !Arc::ptr_eq(held, owned_pods));
        if !set.holders.is_empty() {
            return;
        }
        known.remove();
        set.labels = Labels::ABSENT;
        self.free.push(number);
        let Some(by_pair) = &mut self.by_pair else {
            return;
        };
        for pair in labels.pairs() {
            let Some(sets) = by_pair.get_mut(pair) else {
                continue;
            };
            if let Ok(set) = sets.find_entry(hash_of(&number), |other| *other == number) {
                set.remove();
            }
            if sets.is_empty() {
                by_pair.remove(pair);
            }
        }
    }

    /// Calls `candidate` for every label set that the selector may match.
    fn candidates(
        &mut self,
        selector: &Selector,
        mut candidate: impl FnMut(&Labels, &[Arc<OwnedPods>]),
    ) {
        let pairs = selector.required_pairs();
        let used = |set: &&LabelSet| !set.holders.is_empty();
        let is_first = !std::mem::replace(&mut self.is_asked, true);
        if pairs.is_empty() || is_first {
            let used = self.sets.iter().filter(used);
            return used.for_each(|set| candidate(&set.labels, &set.holders));
        }
        let by_pair = self.by_pair.get_or_insert_with(|| {
            let mut by_pair = HashMap::with_hasher(hash_state());
            for (number, set) in (0..).zip(&self.sets).filter(|(_, set)| used(set)) {
                index_pairs(&mut by_pair, &set.labels, number);
            }
            by_pair
        });
        let mut rarest: Option<&HashTable<u32>> = None;
        for pair in pairs {
            // If no label set has one of the required pairs, the selector matches nothing.
            let Some(sets) = by_pair.get(pair) else {
                return;
            };
            if rarest.is_none_or(|rarest| sets.len() < rarest.len()) {
                rarest = Some(sets);
            }
        }
        for number in rarest.into_iter().flatten() {
            let set = &self.sets[*number as usize];
            candidate(&set.labels, &set.holders);
        }
    }
}

fn number_of(place: usize) -> u32 {
    u32::try_from(place).expect("the number of label sets fits into 32 bits")
}

/// Records a label set under each of its pairs.
fn index_pairs(by_pair: &mut PairIndex, labels: &Labels, number: u32) {
    for pair in labels.pairs() {
        let sets = by_pair.entry(pair.clone()).or_default();
        sets.insert_unique(hash_of(&number), number, hash_of);
    }
}

/// Hashes the number of a label set, so that neighboring numbers differ in all bits.
fn hash_of(number: &u32) -> u64 {
    u64::from(*number).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
