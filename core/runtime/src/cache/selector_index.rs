//! Which owners could adopt a pod with given labels: a look-up by a label pair that the selector
//! requires, instead of a walk over every owner of the namespace.

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm_objects::{Labels, Selector, Str};

use crate::intern::{FIXED_STATE, KeyId};

/// The owners of every namespace, by one pair that their selector requires.
#[derive(Debug)]
pub struct SelectorIndex {
    by_namespace: HashMap<Str, NamespaceSelectors, RandomState>,
}

#[derive(Debug)]
struct NamespaceSelectors {
    by_pair: HashMap<(Str, Str), Vec<KeyId>, RandomState>,
    /// Owners whose selector requires no pair: candidates for every pod.
    others: Vec<KeyId>,
}

impl Default for SelectorIndex {
    fn default() -> Self {
        SelectorIndex {
            by_namespace: HashMap::with_hasher(FIXED_STATE),
        }
    }
}

impl SelectorIndex {
    /// Adds an owner under one of the pairs that its selector requires: the pair with the fewest
    /// other owners. A label that all owners have in common would find all of them.
    pub fn insert(&mut self, namespace: &Str, selector: &Selector, key: KeyId) {
        let selectors = self
            .by_namespace
            .entry(namespace.clone())
            .or_insert_with(|| NamespaceSelectors {
                by_pair: HashMap::with_hasher(FIXED_STATE),
                others: Vec::new(),
            });
        let filed = |pair: &&(Str, Str)| selectors.by_pair.get(*pair).map_or(0, Vec::len);
        match selector.required_pairs().iter().min_by_key(filed) {
            Some(pair) => selectors.by_pair.entry(pair.clone()).or_default().push(key),
            None => selectors.others.push(key),
        }
    }

    /// Removes what `insert` with the same arguments added.
    pub fn remove(&mut self, namespace: &Str, selector: &Selector, key: KeyId) {
        let Some(selectors) = self.by_namespace.get_mut(namespace) else {
            return;
        };
        if selector.required_pairs().is_empty() {
            selectors.others.retain(|held| *held != key);
        }
        // It is under one of these pairs.
        for pair in selector.required_pairs() {
            let Some(keys) = selectors.by_pair.get_mut(pair) else {
                continue;
            };
            if let Some(at) = keys.iter().position(|held| *held == key) {
                keys.remove(at);
                if keys.is_empty() {
                    selectors.by_pair.remove(pair);
                }
                break;
            }
        }
        if selectors.by_pair.is_empty() && selectors.others.is_empty() {
            self.by_namespace.remove(namespace);
        }
    }

    /// Calls `candidate` for every owner whose selector may match. O(labels + candidates).
    #[inline]
    pub fn candidates(&self, namespace: &Str, labels: &Labels, mut candidate: impl FnMut(KeyId)) {
        let Some(selectors) = self.by_namespace.get(namespace) else {
            return;
        };
        for pair in labels.pairs() {
            if let Some(keys) = selectors.by_pair.get(pair) {
                keys.iter().copied().for_each(&mut candidate);
            }
        }
        selectors.others.iter().copied().for_each(candidate);
    }
}
