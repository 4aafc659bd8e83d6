//! The owner index: the dependents of each owner, by the owner's UID.
//!
//! The index is empty until the garbage collector first needs it. Then each store adds its objects
//! ([`KindStore::index_owners`](super::KindStore)), and every commit updates the index. A run that
//! deletes no owner does not pay for it.

use ahash::RandomState;
use compact_str::CompactString;
use hashbrown::{HashMap, HashSet};
use podstorm_objects::{Kind, OwnerReferences, Str, Uid, hash_state};

use super::{Lock, Strategy};

/// The kind and key of an object. Sorts by kind, namespace, name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ObjectKey {
    pub(crate) kind: Kind,
    pub(crate) namespace: Str,
    pub(crate) name: CompactString,
}

impl ObjectKey {
    pub(crate) fn from_object<R: Strategy>(object: &R) -> ObjectKey {
        let metadata = object.metadata();
        ObjectKey {
            kind: object.kind(),
            namespace: metadata.namespace.clone(),
            name: metadata.name.clone(),
        }
    }
}

type Dependents = HashSet<ObjectKey, RandomState>;

/// The dependents of every owner.
#[derive(Debug)]
pub(crate) struct OwnerIndex {
    /// The dependents by the owner's UID. An entry is never empty. Never iterated.
    dependents: Lock<HashMap<Uid, Dependents, RandomState>>,
}

impl OwnerIndex {
    pub(crate) fn new() -> OwnerIndex {
        OwnerIndex {
            dependents: Lock::new(HashMap::with_hasher(hash_state())),
        }
    }

    /// Updates the index after a change from `old` to `new`. The caller holds the shard's lock.
    pub(crate) fn change<R: Strategy>(&self, old: Option<&R>, new: Option<&R>) {
        let none = OwnerReferences::new();
        let before = old.map_or(&none, |object| &object.metadata().owner_references);
        let after = new.map_or(&none, |object| &object.metadata().owner_references);
        if before.is_empty() && after.is_empty() || same_owners(before, after) {
            return;
        }
        let Some(key) = new.or(old).map(ObjectKey::from_object) else {
            return;
        };
        let mut dependents = self.dependents.lock();
        for owner in before {
            if let Some(set) = dependents.get_mut(&owner.uid) {
                set.remove(&key);
                if set.is_empty() {
                    dependents.remove(&owner.uid);
                }
            }
        }
        for owner in after {
            let set = dependents
                .entry(owner.uid.clone())
                .or_insert_with(|| HashSet::with_hasher(hash_state()));
            set.insert(key.clone());
        }
    }

    /// Returns the dependents of an owner, sorted. Complete once every store is indexed.
    pub(crate) fn dependents(&self, owner: &Uid) -> Vec<ObjectKey> {
        let dependents = self.dependents.lock();
        let mut keys: Vec<ObjectKey> = dependents
            .get(owner)
            .map(|set| set.iter().cloned().collect())
            .unwrap_or_default();
        drop(dependents);
        keys.sort_unstable();
        keys
    }
}

/// Reports whether both lists have equal references, in the same order.
#[inline]
pub(crate) fn same_owners(a: &OwnerReferences, b: &OwnerReferences) -> bool {
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .all(|(a, b)| std::sync::Arc::ptr_eq(a, b) || a == b)
}
