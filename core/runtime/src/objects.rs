//! The cached objects of one kind, by dense key, as they are or with values derived from them.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm_objects::{Object, ResourceVersion};

use crate::cache::{Delta, StoreVersion};
use crate::intern::{AppendTable, DenseKey, KeyId, KeyTable, ObjectKey};
use crate::owned::Owned;
use crate::primitives::{Mutex, lock};

/// The objects of one kind. One informer changes the store; any thread reads it. Every method
/// except [`replace`](ObjectStore::replace) costs O(1) and takes at most one lock, the object's
/// own.
#[derive(Debug)]
pub struct ObjectStore<T: ?Sized = dyn Object> {
    keys: KeyTable,
    slots: AppendTable<Mutex<Option<Arc<T>>>>,
    version: StoreVersion,
}

impl<T: ?Sized> Default for ObjectStore<T> {
    fn default() -> Self {
        ObjectStore {
            keys: KeyTable::default(),
            slots: AppendTable::default(),
            version: StoreVersion::default(),
        }
    }
}

impl<T: Owned + ?Sized> ObjectStore<T> {
    /// Applies a watch event and returns the key of its object.
    pub fn apply(&self, delta: Delta<T>) -> KeyId {
        let (object, stays) = match delta {
            Delta::Applied(object) => (object, true),
            Delta::Deleted(object) => (object, false),
        };
        let meta = object.metadata();
        let key = self.key(&meta.namespace, &meta.name);
        let version = meta.resource_version.clone();
        *lock(self.slots.get_or_grow(key.index())) = stays.then_some(object);
        self.version.set(&version);
        key
    }

    /// Replaces all objects by a list. Returns the keys of the objects that are gone, then of the
    /// listed ones. O(keys ever given).
    pub fn replace(&self, objects: Vec<Arc<T>>, version: &ResourceVersion) -> Vec<KeyId> {
        self.version.before_list(version);
        let key = |object: &Arc<T>| {
            let meta = object.metadata();
            self.key(&meta.namespace, &meta.name)
        };
        let listed: BTreeSet<KeyId> = objects.iter().map(key).collect();
        let gone = self
            .keys()
            .filter(|key| !listed.contains(key) && self.get(*key).is_some());
        let mut changed: Vec<KeyId> = gone.collect();
        for key in &changed {
            *lock(self.slots.get_or_grow(key.index())) = None;
        }
        for object in objects {
            changed.push(self.apply(Delta::Applied(object)));
        }
        self.version.set(version);
        changed
    }

    /// Advances the version without a change.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.version.set(version);
    }

    /// The version that the store has reached.
    pub fn version(&self) -> &StoreVersion {
        &self.version
    }

    /// The object of this key, if it is cached.
    pub fn get(&self, key: KeyId) -> Option<Arc<T>> {
        lock(self.slots.get(key.index())?).clone()
    }

    /// The key of a name; a new name gets a new key.
    pub fn key(&self, namespace: &str, name: &str) -> KeyId {
        self.keys.intern(namespace, name)
    }

    /// All keys ever given, with an object or without.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> {
        (0..self.keys.len()).map(KeyId::from_index)
    }

    /// The key of a name, if it has one.
    pub fn find(&self, namespace: &str, name: &str) -> Option<KeyId> {
        self.keys.find(namespace, name)
    }

    /// The name of a key.
    ///
    /// # Panics
    /// The key is of another store.
    pub fn name(&self, key: KeyId) -> ObjectKey {
        self.keys.key(key)
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{AnyObject, DynamicObject, Kind};

    use super::*;

    fn object(name: &str, version: u64) -> AnyObject {
        let mut object = DynamicObject::new(Kind::EVENT);
        object.metadata.namespace = "ns".into();
        object.metadata.name = name.into();
        object.metadata.resource_version = version.into();
        Arc::new(object)
    }

    #[test]
    fn a_store_shows_what_was_applied_last() {
        let store = ObjectStore::default();
        let key = store.apply(Delta::Applied(object("a", 1)));
        assert_eq!(store.key("ns", "a"), key);
        assert_eq!(&*store.name(key).name, "a");
        assert_eq!(store.apply(Delta::Applied(object("a", 2))), key);
        let version = |key| {
            store
                .get(key)
                .map(|it| it.metadata().resource_version.clone())
        };
        assert_eq!(version(key), Some(2.into()));
        store.apply(Delta::Deleted(object("a", 3)));
        assert_eq!((version(key), store.version().get()), (None, 3.into()));
        store.bookmark(&4.into());
        assert_eq!(store.version().get(), 4.into());
        let unknown = version(store.key("ns", "b"));
        assert_eq!(unknown, None, "a name without an object");
    }

    #[test]
    fn a_list_takes_the_place_of_all() {
        let store = ObjectStore::default();
        let [a, b] = ["a", "b"].map(|name| store.apply(Delta::Applied(object(name, 1))));
        let changed = store.replace(vec![object("c", 2), object("b", 1)], &5.into());
        let c = store.key("ns", "c");
        assert_eq!(changed, [a, c, b]);
        assert!(store.get(a).is_none() && store.get(b).is_some() && store.get(c).is_some());
        assert_eq!(store.version().get(), 5.into());
    }
}
