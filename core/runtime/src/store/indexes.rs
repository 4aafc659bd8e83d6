//! The indexes of a store: objects by controller, by selector, and orphans by namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;
use podstorm_objects::{Object, Str, Uid, hash_state};

use super::Cached;
use crate::cache::SelectorIndex;
use crate::intern::KeyId;

/// The indexes of a store. Those that its kind does not need stay empty.
#[derive(Debug)]
pub(super) struct Indexes {
    pub(super) selectors: SelectorIndex,
    /// Sorted vectors, because a controller has few objects and a new object usually has the
    /// highest key.
    pub(super) by_controller: HashMap<Uid, Vec<KeyId>, RandomState>,
    /// Trees, because a namespace may have very many orphans.
    pub(super) orphans: HashMap<Str, BTreeSet<KeyId>, RandomState>,
}

impl Default for Indexes {
    fn default() -> Self {
        Indexes {
            selectors: SelectorIndex::default(),
            by_controller: HashMap::with_hasher(hash_state()),
            orphans: HashMap::with_hasher(hash_state()),
        }
    }
}

/// Reports whether the indexes have the same entries for `a` as for `b`.
pub(super) fn are_same<T: Cached>(a: Option<&T>, b: Option<&T>) -> bool {
    let (Some(a), Some(b)) = (a, b) else {
        return a.is_none() && b.is_none();
    };
    let same_selector = match (a.selector(), b.selector()) {
        (Some(a), Some(b)) => Arc::ptr_eq(a, b),
        (None, None) => true,
        _ => false,
    };
    let is_filed = T::BY_CONTROLLER || T::ORPHANS;
    same_selector && (!is_filed || controller_of(a) == controller_of(b))
}

fn controller_of<T: Cached>(form: &T) -> Option<&Uid> {
    let controller = form.object().metadata().controller();
    controller.map(|controller| &controller.uid)
}

impl Indexes {
    pub(super) fn insert<T: Cached>(&mut self, key: KeyId, form: &T) {
        let meta = form.object().metadata();
        if let Some(selector) = form.selector() {
            self.selectors.insert(&meta.namespace, selector, key);
        }
        match meta.controller() {
            Some(controller) if T::BY_CONTROLLER => {
                let keys = self.by_controller.entry(controller.uid.clone());
                let keys = keys.or_default();
                if let Err(place) = keys.binary_search(&key) {
                    keys.insert(place, key);
                }
            }
            None if T::ORPHANS => {
                let keys = self.orphans.entry(meta.namespace.clone());
                keys.or_default().insert(key);
            }
            _ => {}
        }
    }

    pub(super) fn remove<T: Cached>(&mut self, key: KeyId, form: &T) {
        let meta = form.object().metadata();
        if let Some(selector) = form.selector() {
            self.selectors.remove(&meta.namespace, selector, key);
        }
        match meta.controller() {
            Some(controller) if T::BY_CONTROLLER => {
                if let Some(keys) = self.by_controller.get_mut(&controller.uid) {
                    if let Ok(place) = keys.binary_search(&key) {
                        keys.remove(place);
                    }
                    if keys.is_empty() {
                        self.by_controller.remove(&controller.uid);
                    }
                }
            }
            None if T::ORPHANS => {
                if let Some(keys) = self.orphans.get_mut(&meta.namespace) {
                    keys.remove(&key);
                    if keys.is_empty() {
                        self.orphans.remove(&meta.namespace);
                    }
                }
            }
            _ => {}
        }
    }
}
