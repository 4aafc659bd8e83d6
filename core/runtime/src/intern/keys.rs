//! Ids for the names of objects. Ids are reused for other names later, so their number grows with
//! the number of names in use at one time, not with all names that ever existed.

use hashbrown::HashTable;
use podstorm_objects::Str;

use super::{AppendTable, DenseKey, FIXED_STATE, KeyId, ObjectKey};
use crate::primitives::{Mutex, RwLock, lock};

/// A table of ids for pairs of namespace and name. New ids are assigned in ascending order.
#[derive(Debug, Default)]
pub struct KeyTable {
    /// The name of each id. Every id in use has a name.
    names: AppendTable<Mutex<Option<ObjectKey>>>,
    index: RwLock<KeyIndex>,
}

/// The lookup part, under the table's lock: written for a new name, read by lookups.
#[derive(Debug, Default)]
struct KeyIndex {
    by_name: HashTable<(ObjectKey, KeyId)>,
    /// One shared copy of each namespace.
    namespaces: HashTable<Str>,
    /// The number of namespaces at which `share` drops the unused ones before it adds another.
    namespaces_max: usize,
}

/// The reason why a lock is never poisoned.
const NO_PANIC: &str = "no thread panics while holding this lock";

/// The number of namespaces up to which unused ones are never dropped.
const NAMESPACES_KEPT: usize = 64;

impl KeyTable {
    /// Creates an empty table.
    pub fn new() -> Self {
        KeyTable::default()
    }

    /// Returns the id of a name. A new name gets a new id. Takes the lock for reading and, for a
    /// new name, then for writing. Allocates only for a new name.
    ///
    /// # Panics
    /// Panics if there are already 2^32 names.
    pub fn intern(&self, namespace: &str, name: &str) -> KeyId {
        if let Some(known) = self.find(namespace, name) {
            return known;
        }
        let mut index = self.index.write().expect(NO_PANIC);
        if let Some(known) = index.find(namespace, name) {
            return known;
        }
        let id = KeyId::from_index(index.by_name.len());
        self.enter(&mut index, id, namespace, name);
        id
    }

    /// Returns the id of a name, or `None` if the name has no id. Takes the lock for reading;
    /// allocates nothing.
    pub fn find(&self, namespace: &str, name: &str) -> Option<KeyId> {
        self.index.read().expect(NO_PANIC).find(namespace, name)
    }

    /// Reassigns the id to another name. From then on, every copy of the id refers to the new name,
    /// so the caller must ensure that the id is no longer in use for the old one. Returns `false`
    /// and does nothing if the new name already has an id.
    ///
    /// # Panics
    /// Panics if the id does not belong to this table.
    pub fn rename(&self, id: KeyId, namespace: &str, name: &str) -> bool {
        let mut index = self.index.write().expect(NO_PANIC);
        if index.find(namespace, name).is_some() {
            return false;
        }
        index.remove(&self.key(id));
        self.enter(&mut index, id, namespace, name);
        true
    }

    /// Returns the name with this id. The result shares its strings with the table. Takes the lock
    /// of the id.
    ///
    /// # Panics
    /// Panics if the id does not belong to this table.
    pub fn key(&self, id: KeyId) -> ObjectKey {
        let name = self.names.get(id.index());
        name.and_then(|name| lock(name).clone())
            .expect("the id belongs to this table")
    }

    /// Returns the number of ids. The ids are 0 to this number minus one.
    pub fn len(&self) -> usize {
        self.index.read().expect(NO_PANIC).by_name.len()
    }

    /// Reports whether the table has no names.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn enter(&self, index: &mut KeyIndex, id: KeyId, namespace: &str, name: &str) {
        let key = ObjectKey {
            namespace: index.share(namespace),
            name: name.into(),
        };
        *lock(self.names.get_or_grow(id.index())) = Some(key.clone());
        let hash = hash_key(namespace, name);
        index.by_name.insert_unique(hash, (key, id), |(key, _)| {
            hash_key(&key.namespace, &key.name)
        });
    }
}

impl KeyIndex {
    fn find(&self, namespace: &str, name: &str) -> Option<KeyId> {
        let same =
            |(key, _): &(ObjectKey, KeyId)| *key.name == *name && *key.namespace == *namespace;
        let found = self.by_name.find(hash_key(namespace, name), same);
        found.map(|(_, id)| *id)
    }

    fn remove(&mut self, key: &ObjectKey) {
        let hash = hash_key(&key.namespace, &key.name);
        let entry = self.by_name.find_entry(hash, |(known, _)| known == key);
        if let Ok(entry) = entry {
            entry.remove();
        }
    }

    /// Returns the shared copy of a namespace. Amortized O(1): unused copies are dropped only when
    /// the number of copies has doubled since the last such cleanup.
    fn share(&mut self, namespace: &str) -> Str {
        let hash = FIXED_STATE.hash_one(namespace);
        if let Some(known) = self.namespaces.find(hash, |known| **known == *namespace) {
            return known.clone();
        }
        if self.namespaces.len() >= self.namespaces_max.max(NAMESPACES_KEPT) {
            self.namespaces
                .retain(|namespace| Str::strong_count(namespace) > Some(1));
            self.namespaces_max = 2 * self.namespaces.len();
        }
        let fresh = Str::from(namespace);
        self.namespaces
            .insert_unique(hash, fresh.clone(), |text| FIXED_STATE.hash_one(&**text));
        fresh
    }
}

fn hash_key(namespace: &str, name: &str) -> u64 {
    FIXED_STATE.hash_one((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_first_id() {
        let table = KeyTable::new();
        let ids: Vec<_> = (0..1_000)
            .map(|n| table.intern("default", &format!("web-{n}")))
            .collect();
        assert_eq!(ids, (0..1_000).map(KeyId).collect::<Vec<_>>());
        assert_eq!(table.intern("default", "web-7"), KeyId(7));
        assert_eq!(table.find("other", "web-7"), None);
        assert_eq!(table.key(KeyId(7)).to_string(), "default/web-7");
        let shared = [table.key(KeyId(1)).namespace, table.key(KeyId(2)).namespace];
        assert!(Str::ptr_eq(&shared[0], &shared[1]));
        assert_eq!(table.len(), 1_000);
    }

    #[test]
    fn namespace_and_name_are_kept_apart() {
        let table = KeyTable::new();
        assert_ne!(table.intern("ab", "c"), table.intern("a", "bc"));
        assert_eq!(table.key(table.intern("", "n1")).to_string(), "n1");
    }

    #[test]
    fn an_id_can_be_given_to_another_name() {
        let table = KeyTable::new();
        let (a, b) = (table.intern("ns", "a"), table.intern("ns", "b"));
        assert!(table.rename(a, "other", "c"));
        assert_eq!(table.find("ns", "a"), None);
        assert_eq!(table.find("other", "c"), Some(a));
        assert_eq!(table.key(a).to_string(), "other/c");
        assert!(!table.rename(b, "other", "c"), "the name has an id");
        assert_eq!(table.find("ns", "b"), Some(b));
        let third = table.intern("ns", "a");
        assert_eq!(third, KeyId(2), "all smaller ids are in use");
    }

    #[test]
    fn unused_namespaces_are_dropped() {
        let table = KeyTable::new();
        let id = table.intern("ns-0", "web");
        for n in 1..10_000 {
            assert!(table.rename(id, &format!("ns-{n}"), "web"));
        }
        assert!(table.index.read().expect(NO_PANIC).namespaces.len() <= NAMESPACES_KEPT);
        assert_eq!(table.key(id).to_string(), "ns-9999/web");
    }
}
