//! Which owners could adopt a pod with these labels: a look-up by a label pair that the selector
//! requires, instead of a walk over every owner of the namespace.

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm_objects::{Labels, Selector, Str};

use crate::intern::{FIXED_STATE, KeyId};

/// The owners of every namespace by one pair that their selector requires.
#[derive(Debug)]
pub struct SelectorIndex {
    by_namespace: HashMap<Str, NamespaceSelectors, RandomState>,
}

#[derive(Debug)]
struct NamespaceSelectors {
    by_pair: HashMap<(Str, Str), Vec<KeyId>, RandomState>,
    /// Owners whose selector requires no single pair: looked at for every pod.
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
    /// Adds an owner under that pair of those its selector requires which the fewest others are
    /// filed under: a label that all have in common would be looked up to find all of them.
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
        // It is under one of them.
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

    /// Calls `candidate` for every owner whose selector might match. O(labels + candidates).
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
