//! The owners that could adopt a pod with given labels. The index finds them by a label pair that
//! the selector requires, instead of visiting every owner of the namespace.

use std::hash::{BuildHasher, Hash, Hasher};

use ahash::RandomState;
use hashbrown::{HashMap, HashTable};
use podstorm_objects::{Labels, Selector, Str, hash_state};

use crate::intern::{FIXED_STATE, KeyId};

/// The owners of every namespace, by one pair that their selector requires.
#[derive(Debug)]
pub struct SelectorIndex {
    by_namespace: HashMap<Str, NamespaceSelectors, RandomState>,
}

#[derive(Debug)]
struct NamespaceSelectors {
    /// A raw table, because its lookup is inlined at each call: every label of every orphan is
    /// looked up here.
    by_pair: HashTable<Filed>,
    /// The owners whose selector requires no pair. They are candidates for every pod.
    others: Vec<KeyId>,
}

/// A label pair and the owners filed under it.
#[derive(Debug)]
struct Filed {
    pair: (Str, Str),
    keys: Vec<KeyId>,
}

/// Inlined at each call, for the same reason as the lookup.
#[inline(always)]
#[expect(clippy::manual_hash_one, reason = "`hash_one` is not inlined")]
fn hash_of(pair: &(Str, Str)) -> u64 {
    let mut hasher = FIXED_STATE.build_hasher();
    pair.hash(&mut hasher);
    hasher.finish()
}

impl NamespaceSelectors {
    #[inline(always)]
    fn find(&self, pair: &(Str, Str)) -> &[KeyId] {
        let filed = self
            .by_pair
            .find(hash_of(pair), |filed| filed.pair == *pair);
        filed.map_or(&[], |filed| &filed.keys)
    }
}

impl Default for SelectorIndex {
    fn default() -> Self {
        SelectorIndex {
            by_namespace: HashMap::with_hasher(hash_state()),
        }
    }
}

impl SelectorIndex {
    /// Files an owner under one of the pairs that its selector requires: the pair with the fewest
    /// other owners. A lookup by a pair that all owners share would return all of them.
    pub fn insert(&mut self, namespace: &Str, selector: &Selector, key: KeyId) {
        let selectors = self
            .by_namespace
            .entry(namespace.clone())
            .or_insert_with(|| NamespaceSelectors {
                by_pair: HashTable::new(),
                others: Vec::new(),
            });
        let pairs = selector.required_pairs().iter();
        match pairs.min_by_key(|pair| selectors.find(pair).len()) {
            Some(pair) => {
                let is_it = |filed: &Filed| filed.pair == *pair;
                let hash = |filed: &Filed| hash_of(&filed.pair);
                let entry = selectors.by_pair.entry(hash_of(pair), is_it, hash);
                let filed = entry.or_insert_with(|| Filed {
                    pair: pair.clone(),
                    keys: Vec::new(),
                });
                filed.into_mut().keys.push(key);
            }
            None => selectors.others.push(key),
        }
    }

    /// Removes what `insert` added for the same arguments.
    pub fn remove(&mut self, namespace: &Str, selector: &Selector, key: KeyId) {
        let Some(selectors) = self.by_namespace.get_mut(namespace) else {
            return;
        };
        if selector.required_pairs().is_empty() {
            selectors.others.retain(|held| *held != key);
        }
        // The owner is filed under one of the required pairs.
        for pair in selector.required_pairs() {
            let is_it = |filed: &Filed| filed.pair == *pair;
            let Ok(mut entry) = selectors.by_pair.find_entry(hash_of(pair), is_it) else {
                continue;
            };
            let keys = &mut entry.get_mut().keys;
            if let Some(at) = keys.iter().position(|held| *held == key) {
                keys.remove(at);
                if keys.is_empty() {
                    entry.remove();
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
            let keys = selectors.find(pair).iter();
            keys.copied().for_each(&mut candidate);
        }
        selectors.others.iter().copied().for_each(candidate);
    }
}
