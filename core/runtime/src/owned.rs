//! The cached objects of one kind by name and by controller, for workloads whose objects own others
//! than pods.

use std::sync::Arc;

use ahash::RandomState;
use compact_str::CompactString;
use hashbrown::HashMap;
use podstorm_objects::{Kind, Object, ObjectMeta, ResourceVersion, Str, Uid, hash_state};

use crate::cache::StoreVersion;
use crate::primitives::{Mutex, lock};

/// What an owner may own: an object, or one with values derived from it.
pub trait Owned {
    /// The kind of the object.
    fn kind(&self) -> Kind;

    /// The metadata of the object.
    fn metadata(&self) -> &ObjectMeta;
}

impl<T: Object + ?Sized> Owned for T {
    fn kind(&self) -> Kind {
        Object::kind(self)
    }

    fn metadata(&self) -> &ObjectMeta {
        Object::metadata(self)
    }
}

/// The objects of one kind. One informer changes the store; any thread reads it. Every method but
/// [`replace`](OwnedObjects::replace) costs O(1) and the number of objects of one owner, or of
/// orphans of one namespace. One lock, held for as long.
#[derive(Debug)]
pub struct OwnedObjects<V> {
    objects: Mutex<Objects<V>>,
    version: StoreVersion,
}

#[derive(Debug)]
struct Objects<V> {
    by_name: HashMap<Str, HashMap<CompactString, Arc<V>, RandomState>, RandomState>,
    by_controller: HashMap<Uid, Vec<Arc<V>>, RandomState>,
    orphans: HashMap<Str, Vec<Arc<V>>, RandomState>,
}

/// The change that an event made: the object before, and the object now or, if it is gone, in its
/// last state.
#[derive(Debug)]
pub struct OwnedChange<V> {
    /// The object as the store had it; `None` if it was not known.
    pub old: Option<Arc<V>>,
    /// The object now or, if `deleted`, in its last state.
    pub new: Arc<V>,
    /// Whether the object is gone.
    pub deleted: bool,
}

impl<V> Default for OwnedObjects<V> {
    fn default() -> Self {
        let objects = Objects {
            by_name: HashMap::with_hasher(hash_state()),
            by_controller: HashMap::with_hasher(hash_state()),
            orphans: HashMap::with_hasher(hash_state()),
        };
        OwnedObjects {
            objects: Mutex::new(objects),
            version: StoreVersion::default(),
        }
    }
}

impl<V: Owned> OwnedObjects<V> {
    /// The object was added or changed.
    pub fn put(&self, object: Arc<V>) -> OwnedChange<V> {
        let old = lock(&self.objects).swap(object.metadata(), Some(&object));
        self.version.set(&object.metadata().resource_version);
        OwnedChange {
            old,
            new: object,
            deleted: false,
        }
    }

    /// The object is gone; this is its last state.
    pub fn remove(&self, object: Arc<V>) -> OwnedChange<V> {
        let old = lock(&self.objects).swap(object.metadata(), None);
        self.version.set(&object.metadata().resource_version);
        OwnedChange {
            old,
            new: object,
            deleted: true,
        }
    }

    /// Replaces all objects by a list. The objects that are gone come first, in name order, in the
    /// state last cached; then the listed ones. O(n log n).
    pub fn replace(&self, listed: Vec<Arc<V>>, version: &ResourceVersion) -> Vec<OwnedChange<V>> {
        self.version.before_list(version);
        let name_of = |object: &Arc<V>| {
            let meta = object.metadata();
            (meta.namespace.clone(), meta.name.clone())
        };
        let stays: std::collections::BTreeSet<_> = listed.iter().map(name_of).collect();
        let mut gone: Vec<Arc<V>> = lock(&self.objects)
            .by_name
            .values()
            .flat_map(HashMap::values)
            .filter(|object| !stays.contains(&name_of(object)))
            .cloned()
            .collect();
        gone.sort_by_cached_key(name_of);
        let gone = gone.into_iter().map(|object| self.remove(object));
        let mut changes: Vec<OwnedChange<V>> = gone.collect();
        changes.extend(listed.into_iter().map(|object| self.put(object)));
        self.version.set(version);
        changes
    }

    /// Advances the version without a change.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.version.set(version);
    }

    /// The version that the store has reached.
    pub fn version(&self) -> &StoreVersion {
        &self.version
    }

    /// The object of a name, if it is cached.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        let objects = lock(&self.objects);
        objects.by_name.get(namespace)?.get(name).cloned()
    }

    /// The objects that an owner could keep, release or adopt: those whose controller has that UID,
    /// and the orphans of its namespace, in no particular order.
    pub fn candidates(&self, namespace: &str, owner: &Uid) -> Vec<Arc<V>> {
        let objects = lock(&self.objects);
        let owned = objects.by_controller.get(owner).into_iter().flatten();
        let orphans = objects.orphans.get(namespace).into_iter().flatten();
        owned.chain(orphans).cloned().collect()
    }

    /// Calls `each` for every object whose controller has that UID.
    pub fn for_each_owned(&self, owner: &Uid, each: impl FnMut(&Arc<V>)) {
        let objects = lock(&self.objects);
        let owned = objects.by_controller.get(owner);
        owned.into_iter().flatten().for_each(each);
    }
}

impl<V: Owned> Objects<V> {
    /// Stores an object under a name, or none, and returns the one that had it.
    fn swap(&mut self, meta: &ObjectMeta, new: Option<&Arc<V>>) -> Option<Arc<V>> {
        let old = match new {
            Some(new) => {
                let names = self.by_name.entry(meta.namespace.clone());
                let names = names.or_insert_with(|| HashMap::with_hasher(hash_state()));
                names.insert(meta.name.clone(), new.clone())
            }
            None => {
                let names = self.by_name.get_mut(&meta.namespace)?;
                let old = names.remove(&meta.name);
                if names.is_empty() {
                    self.by_name.remove(&meta.namespace);
                }
                old
            }
        };
        if let Some(old) = &old {
            self.unfile(old);
        }
        if let Some(new) = new {
            match meta.controller() {
                Some(owner) => self.by_controller.entry(owner.uid.clone()).or_default(),
                None => self.orphans.entry(meta.namespace.clone()).or_default(),
            }
            .push(new.clone());
        }
        old
    }

    fn unfile(&mut self, old: &Arc<V>) {
        let meta = old.metadata();
        let left = |filed: &mut Vec<Arc<V>>| {
            filed.retain(|other| !Arc::ptr_eq(other, old));
            !filed.is_empty()
        };
        let of_owner = meta.controller().map(|owner| &owner.uid);
        match of_owner {
            Some(uid) if !self.by_controller.get_mut(uid).is_none_or(left) => {
                self.by_controller.remove(uid);
            }
            None if !self.orphans.get_mut(&meta.namespace).is_none_or(left) => {
                self.orphans.remove(&meta.namespace);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::ReplicaSet;

    use super::*;

    fn set(name: &str, owner: Option<&str>) -> Arc<ReplicaSet> {
        let mut set = ReplicaSet::default();
        set.metadata.namespace = "ns".into();
        set.metadata.name = name.into();
        if let Some(owner) = owner {
            let owner = ObjectMeta {
                name: owner.into(),
                uid: Uid::new(owner),
                ..ObjectMeta::default()
            };
            let owner = Kind::DEPLOYMENT.controller_reference(&owner);
            set.metadata.owner_references.push(Arc::new(owner));
        }
        Arc::new(set)
    }

    fn candidates(store: &OwnedObjects<ReplicaSet>, owner: &str) -> Vec<String> {
        let found = store.candidates("ns", &Uid::new(owner));
        let mut names: Vec<String> = found
            .iter()
            .map(|it| it.metadata.name.to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_owner_finds_its_own_objects_and_the_orphans_of_its_namespace() {
        let store = OwnedObjects::default();
        for (name, owner) in [("a", Some("one")), ("b", Some("two")), ("c", None)] {
            assert!(store.put(set(name, owner)).old.is_none());
        }
        assert_eq!(candidates(&store, "one"), ["a", "c"]);
        assert!(store.candidates("other", &Uid::new("three")).is_empty());
        let change = store.put(set("c", Some("one")));
        let old = change.old.expect("it was there");
        assert!(old.metadata.controller().is_none());
        assert_eq!(candidates(&store, "one"), ["a", "c"]);
        assert_eq!(candidates(&store, "two"), ["b"]);
        assert!(store.remove(set("a", None)).old.is_some());
        assert!(store.remove(set("a", None)).old.is_none());
        assert_eq!(candidates(&store, "one"), ["c"]);
        assert!(store.get("ns", "a").is_none() && store.get("ns", "b").is_some());
        let mut owned = 0;
        store.for_each_owned(&Uid::new("one"), |_| owned += 1);
        assert_eq!(owned, 1);
    }

    #[test]
    fn a_list_takes_the_place_of_all() {
        let store = OwnedObjects::default();
        for name in ["b", "a", "c"] {
            store.put(set(name, Some("one")));
        }
        let changes = store.replace(vec![set("d", None), set("c", None)], &7.into());
        let told: Vec<_> = changes
            .iter()
            .map(|it| (it.new.metadata.name.as_str(), it.deleted, it.old.is_some()))
            .collect();
        assert_eq!(
            told,
            [
                ("a", true, true),
                ("b", true, true),
                ("d", false, false),
                ("c", false, true)
            ]
        );
        assert_eq!(candidates(&store, "one"), ["c", "d"]);
        assert_eq!(store.version().get(), 7.into());
    }
}
