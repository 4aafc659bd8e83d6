//! The objects of one kind as controllers read them. The store keeps each object in a form that is
//! derived once, when the object arrives. Forms are found by dense key and by the other lookups
//! that the kind's controllers need.
//!
//! Locks: one for each key's slot, one for the indexes, one for the recycled keys. Only the thread
//! that applies events holds two of them together: when it looks for a key for a new name, it
//! holds the lock of the recycled keys, then takes that of a slot.

mod indexes;
mod recycled;

use std::collections::BTreeSet;
use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;

use podstorm_objects::{
    Labels, Now, Object, ObjectMeta, OwnerReference, ResourceVersion, Selector, Str, Uid,
};
use smallvec::SmallVec;

use self::indexes::Indexes;
use self::recycled::Recycled;
use crate::cache::{Delta, StoreVersion};
use crate::intern::{AppendTable, DenseKey, KeyId, KeyTable, ObjectKey};
use crate::primitives::{Mutex, MutexGuard, lock};
use crate::workqueue::RateLimitingQueue;

pub use self::recycled::KEY_COOLDOWN_NS;

/// The form in which a store keeps an object of one type.
pub trait Cached: Sized {
    /// The type of the object.
    type Object: Object + ?Sized;

    /// The context to which forms are attached, e.g. a cache of pods.
    type Context;

    /// Whether objects can be looked up by their controller with [`Store::owned`].
    const BY_CONTROLLER: bool = false;

    /// Whether objects without a controller can be looked up by namespace with [`Store::orphans`].
    const ORPHANS: bool = false;

    /// Derives the form of the object with this key. `old` is the form that the new one replaces,
    /// possibly that of another object with the same name. The new form shares unchanged data with
    /// `old`.
    fn derive(
        object: Arc<Self::Object>,
        key: KeyId,
        old: Option<&Self>,
        context: &Self::Context,
    ) -> Self;

    /// Returns the object.
    fn object(&self) -> &Arc<Self::Object>;

    /// Returns the selector by which [`Store::matching`] finds the object; `None` if it has no
    /// valid selector.
    fn selector(&self) -> Option<&Arc<Selector>> {
        None
    }

    /// Called after this form has left the store. `new` has taken its place, if it is `Some`.
    fn replaced(&self, new: Option<&Self>, context: &Self::Context) {
        let _ = (new, context);
    }
}

/// An object in its original form, without derived data.
impl<T: Object + ?Sized> Cached for Arc<T> {
    type Object = T;
    type Context = ();

    fn derive(object: Arc<T>, _: KeyId, _: Option<&Self>, _: &()) -> Self {
        object
    }

    fn object(&self) -> &Arc<T> {
        self
    }
}

/// State outside the store under the store's keys. The store later gives the keys of deleted
/// objects to other names.
pub trait Keyed {
    /// Reports whether no work on this key is waiting or in progress.
    fn is_idle(&self, key: KeyId) -> bool;

    /// Forgets all state under this key, because the key gets another name.
    fn forget(&self, key: KeyId);
}

impl Keyed for RateLimitingQueue<KeyId> {
    fn is_idle(&self, key: KeyId) -> bool {
        RateLimitingQueue::is_idle(self, key)
    }

    fn forget(&self, key: KeyId) {
        RateLimitingQueue::forget(self, key);
    }
}

/// The objects of one kind. One informer changes the store; any thread reads it. An event costs
/// O(1) and takes the lock of the indexes only if it changes them. A lookup by key takes only the
/// lock of that key.
///
/// A key can get another name once its object has been deleted for [`KEY_COOLDOWN_NS`]. State under
/// keys therefore grows only with the number of objects that exist within a few minutes.
pub struct Store<T: Cached> {
    context: T::Context,
    keys: KeyTable,
    recycled: Mutex<Recycled>,
    slots: AppendTable<Mutex<Option<Arc<T>>>>,
    indexes: Mutex<Indexes>,
    version: StoreVersion,
}

impl<T: Cached> Debug for Store<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("keys", &self.keys.len())
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

impl<T: Cached<Context: Default>> Default for Store<T> {
    fn default() -> Self {
        Store::new(T::Context::default())
    }
}

/// Keys from an index, copied so that the index is not locked while their objects are read.
type Keys = SmallVec<[KeyId; 32]>;

/// The change of the store by an event.
#[derive(Debug)]
pub struct Change<T: Cached> {
    /// The key of the object.
    pub key: KeyId,
    /// The object as the store had it; `None` if the store did not have it.
    pub old: Option<Arc<T>>,
    /// The object now; `None` if it was deleted.
    pub new: Option<Arc<T>>,
    /// The last state of the object if it was deleted; `None` if that state is unknown.
    pub last: Option<Arc<T::Object>>,
}

impl<T: Cached> Store<T> {
    /// Creates an empty store whose forms are attached to `context`.
    pub fn new(context: T::Context) -> Store<T> {
        Store {
            context,
            keys: KeyTable::new(),
            recycled: Mutex::default(),
            slots: AppendTable::new(),
            indexes: Mutex::default(),
            version: StoreVersion::default(),
        }
    }

    /// Returns the context to which forms are attached.
    pub fn context(&self) -> &T::Context {
        &self.context
    }

    /// Applies a watch event. `keyed` is the state that is stored under the store's keys.
    pub fn apply(&self, delta: Delta<T::Object>, keyed: &impl Keyed, now: Now) -> Change<T> {
        match delta {
            Delta::Applied(object) => {
                let version = object.metadata().resource_version.clone();
                let key = self.key_of(object.metadata(), keyed, now);
                let change = self.put(key, object, now);
                // Set last: a reader that sees the version finds the object.
                self.version.set(&version);
                change
            }
            Delta::Deleted(object) => {
                let meta = object.metadata();
                let key = self.intern(&meta.namespace, &meta.name);
                let version = meta.resource_version.clone();
                let change = self.remove(key, object, now);
                self.version.set(&version);
                change
            }
        }
    }

    /// Applies a tombstone: removes the object with this name. The handlers get `last_known` or, if
    /// the tombstone has no object, nothing.
    pub fn apply_tombstone(
        &self,
        namespace: &str,
        name: &str,
        last_known: Option<Arc<T::Object>>,
        now: Now,
    ) -> Option<Change<T>> {
        let key = self.intern(namespace, name);
        let old = self.swap(key, None, now);
        let last = last_known?;
        // Handlers use the name of the object that they receive.
        let key = self.intern(&last.metadata().namespace, &last.metadata().name);
        Some(Change {
            key,
            old,
            new: None,
            last: Some(last),
        })
    }

    /// Replaces the content of the store with a list. The changes start with the objects that are
    /// missing from the list, as deleted in their last cached state, in name order; then come the
    /// items in list order. O(n log n).
    ///
    /// If the list is older than the store, the version goes back first. Otherwise the version is
    /// set last: see [`StoreVersion::before_list`].
    pub fn replace(
        &self,
        items: Vec<Arc<T::Object>>,
        version: &ResourceVersion,
        keyed: &impl Keyed,
        now: Now,
    ) -> Vec<Change<T>> {
        self.version.before_list(version);
        let key = |item: &Arc<T::Object>| {
            let key = self.key_of(item.metadata(), keyed, now);
            // Reserves the key: later items must not get it.
            lock(&self.recycled).remove(key);
            key
        };
        let keys: Vec<KeyId> = items.iter().map(key).collect();
        let listed: BTreeSet<KeyId> = keys.iter().copied().collect();
        let mut gone = self.all();
        gone.retain(|(key, _)| !listed.contains(key));
        gone.sort_by_cached_key(|(key, _)| self.name(*key).to_string());
        let gone = gone.into_iter();
        let mut changes: Vec<Change<T>> = gone
            .map(|(key, form)| self.remove(key, form.object().clone(), now))
            .collect();
        let items = keys.into_iter().zip(items);
        changes.extend(items.map(|(key, item)| self.put(key, item, now)));
        self.version.set(version);
        changes
    }

    /// Returns the changes of the periodic resync: an update of every object to itself, in key
    /// order.
    pub fn resync(&self) -> Vec<Change<T>> {
        let unchanged = |(key, form): (KeyId, Arc<T>)| Change {
            key,
            old: Some(form.clone()),
            new: Some(form),
            last: None,
        };
        self.all().into_iter().map(unchanged).collect()
    }

    /// Advances the version without a change.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.version.set(version);
    }

    /// Returns the version that the store has reached.
    pub fn version(&self) -> &StoreVersion {
        &self.version
    }

    /// Returns the key of a name. A new name gets a new key.
    pub fn intern(&self, namespace: &str, name: &str) -> KeyId {
        self.keys.intern(namespace, name)
    }

    /// Returns the key of a name; `None` if it has none.
    pub fn find(&self, namespace: &str, name: &str) -> Option<KeyId> {
        self.keys.find(namespace, name)
    }

    /// Returns the name of a key.
    ///
    /// # Panics
    /// Panics if the key belongs to another store.
    pub fn name(&self, key: KeyId) -> ObjectKey {
        self.keys.key(key)
    }

    /// Returns the object with this key; `None` if it is not cached. Takes only the lock of the
    /// key.
    pub fn get(&self, key: KeyId) -> Option<Arc<T>> {
        lock(self.slots.get(key.index())?).clone()
    }

    /// Returns the object with this name; `None` if it is not cached.
    pub fn get_named(&self, namespace: &str, name: &str) -> Option<Arc<T>> {
        self.get(self.find(namespace, name)?)
    }

    /// Returns the cached object to which an owner reference of this kind resolves, by name and
    /// UID.
    pub fn resolve(&self, namespace: &str, owner: &OwnerReference) -> Option<(KeyId, Arc<T>)> {
        let key = self.find(namespace, &owner.name)?;
        let found = self.get(key)?;
        (found.object().metadata().uid == owner.uid).then_some((key, found))
    }

    /// Returns every key ever assigned, with or without an object.
    pub fn keys(&self) -> impl Iterator<Item = KeyId> {
        (0..self.keys.len()).map(KeyId::from_index)
    }

    /// Returns every cached object, in key order.
    pub fn all(&self) -> Vec<(KeyId, Arc<T>)> {
        self.with_objects(self.keys()).collect()
    }

    /// Returns the objects of a namespace whose selector is valid, not empty, and matches the
    /// labels, in name order. Returns nothing if `labels` is empty. O(labels + candidates).
    /// Allocates only for more than four objects.
    pub fn matching(&self, namespace: &Str, labels: &Labels) -> SmallVec<[(KeyId, Arc<T>); 4]> {
        let mut found = SmallVec::new();
        if labels.is_empty() {
            return found;
        }
        let mut keys: SmallVec<[KeyId; 4]> = SmallVec::new();
        let candidates = |key| keys.push(key);
        self.lock_indexes()
            .selectors
            .candidates(namespace, labels, candidates);
        for (key, object) in self.with_objects(keys) {
            if let Some(selector) = object.selector()
                && !selector.is_empty()
                && selector.matches(labels)
            {
                found.push((key, object));
            }
        }
        if found.len() > 1 {
            found.sort_by_cached_key(|(_, form)| form.object().metadata().name.clone());
        }
        found
    }

    /// Returns the objects whose controller has this UID, in key order. Allocates only for more
    /// than 32 objects. Requires [`Cached::BY_CONTROLLER`].
    pub fn owned(&self, controller: &Uid) -> impl Iterator<Item = (KeyId, Arc<T>)> {
        debug_assert!(T::BY_CONTROLLER, "the kind keeps this index");
        let indexes = self.lock_indexes();
        let keys = indexes.by_controller.get(controller);
        self.with_objects(keys.map_or(Keys::new(), |keys| Keys::from_slice(keys)))
    }

    /// Returns the objects of a namespace that have no controller, in key order. Requires
    /// [`Cached::ORPHANS`].
    pub fn orphans(&self, namespace: &str) -> impl Iterator<Item = (KeyId, Arc<T>)> {
        debug_assert!(T::ORPHANS, "the kind keeps this index");
        let indexes = self.lock_indexes();
        let keys = indexes.orphans.get(namespace);
        self.with_objects(keys.map_or(Keys::new(), |keys| keys.iter().copied().collect()))
    }

    fn with_objects(
        &self,
        keys: impl IntoIterator<Item = KeyId>,
    ) -> impl Iterator<Item = (KeyId, Arc<T>)> {
        let keys = keys.into_iter();
        keys.filter_map(|key| Some((key, self.get(key)?)))
    }

    /// Returns the key for an object that arrives. A new name gets the key of an object that was
    /// deleted long ago, if there is one.
    fn key_of(&self, meta: &ObjectMeta, keyed: &impl Keyed, now: Now) -> KeyId {
        let (namespace, name) = (&*meta.namespace, &*meta.name);
        if let Some(known) = self.find(namespace, name) {
            return known;
        }
        let is_free = |key| self.get(key).is_none() && keyed.is_idle(key);
        let free = lock(&self.recycled).take(now.mono_ns, is_free);
        if let Some(key) = free {
            keyed.forget(key);
            if self.keys.rename(key, namespace, name) {
                return key;
            }
        }
        self.intern(namespace, name)
    }

    fn put(&self, key: KeyId, object: Arc<T::Object>, now: Now) -> Change<T> {
        let old = self.get(key);
        let new = Arc::new(T::derive(object, key, old.as_deref(), &self.context));
        let old = self.swap(key, Some(new.clone()), now);
        Change {
            key,
            old,
            new: Some(new),
            last: None,
        }
    }

    fn remove(&self, key: KeyId, last: Arc<T::Object>, now: Now) -> Change<T> {
        Change {
            key,
            old: self.swap(key, None, now),
            new: None,
            last: Some(last),
        }
    }

    /// Stores or removes an object, updates keys and indexes, and returns the old object.
    fn swap(&self, key: KeyId, new: Option<Arc<T>>, now: Now) -> Option<Arc<T>> {
        let old = std::mem::replace(&mut *lock(self.slots.get_or_grow(key.index())), new.clone());
        match (&old, &new) {
            (_, None) => lock(&self.recycled).insert(key, now.mono_ns),
            (None, Some(_)) => lock(&self.recycled).remove(key),
            (Some(_), Some(_)) => {}
        }
        let (was, is) = (old.as_deref(), new.as_deref());
        if !indexes::are_same(was, is) {
            let mut indexes = self.lock_indexes();
            was.inspect(|form| indexes.remove(key, *form));
            is.inspect(|form| indexes.insert(key, *form));
        }
        if let Some(old) = &old {
            old.replaced(new.as_deref(), &self.context);
        }
        old
    }

    fn lock_indexes(&self) -> MutexGuard<'_, Indexes> {
        lock(&self.indexes)
    }
}

#[cfg(test)]
mod tests;
