//! The objects of one kind, by namespace and name.
//!
//! A store is sharded by the hash of the key. Each shard is a table of shared objects under its own
//! lock. A write prepares its object without a lock, then [commits](KindStore::replace) under the
//! shard's lock: it checks that the stored object is still the one that was read, appends the event
//! to the kind's log, which assigns the version, and replaces the object. A reader of the log may
//! see the event a moment before the object is in the table. A `get` at that moment waits for the
//! shard, so no reader sees an older state after a newer event.
//!
//! Lock order: shards in ascending order, then the ordered names, then the log, then the owner
//! index.

mod bytes;
pub(crate) mod counts;
pub(crate) mod lock;
pub(crate) mod log;
pub(crate) mod observe;
pub(crate) mod owners;
mod pages;
mod part;
mod past;
pub(crate) mod primitives;
mod resource;

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use compact_str::CompactString;
use crossbeam_utils::CachePadded;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use podstorm_objects::{Kind, Now, ObjectMeta, hash_state};
use rayon::prelude::*;

pub use self::bytes::Footprint;
use self::counts::{WriteEffects, WriteTotals};
use self::lock::Lock;
use self::log::{Change, History, Log, Position};
use self::observe::Observed;
use self::owners::OwnerIndex;
pub use self::part::PodPart;
use self::primitives::AtomicU64;
pub use self::resource::{ClusterResource, Strategy};
use super::Waker;

/// The number of shards: more than there are threads, so that two writers seldom need the same one.
const SHARDS: usize = 32;

/// The key of an object, and its hash.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Key<'a> {
    namespace: &'a str,
    name: &'a str,
    pub(crate) hash: KeyHash,
}

/// The hash of an object's key: sufficient to find an object that the caller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyHash(u64);

struct Stored<R> {
    hash: u64,
    object: Arc<R>,
}

struct Shard<R> {
    table: HashTable<Stored<R>>,
    /// Whether the owner index includes this shard. If it does, every commit updates the index.
    indexed: bool,
    /// Whether the ordered names include this shard. If they do, creates and deletions update them.
    named: bool,
}

/// The objects of one kind and the log of their events.
pub struct KindStore<R> {
    kind: Kind,
    shards: Box<[CachePadded<Lock<Shard<R>>>]>,
    log: Arc<Log<R>>,
    /// The namespaces and names in order; empty until a page is first requested.
    names: pages::Names,
    owners: Arc<OwnerIndex>,
    /// Whether an object of this kind was ever named as an owner. If not, deletions don't look for
    /// dependents.
    has_owners: AtomicBool,
    hasher: ahash::RandomState,
}

impl<R> std::fmt::Debug for KindStore<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KindStore")
            .field("log", &self.log)
            .finish_non_exhaustive()
    }
}

/// A new object that was not stored because its name is taken.
pub(crate) struct Taken<R> {
    pub(crate) refused: Arc<R>,
    pub(crate) holder: Arc<R>,
}

/// The state that the stores of all kinds share.
#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) history: History,
    pub(crate) keeps_past: bool,
    pub(crate) version: Arc<AtomicU64>,
    pub(crate) owners: Arc<OwnerIndex>,
    pub(crate) observed: Option<Arc<Observed>>,
}

/// The outcome of a commit.
pub(crate) enum CommitOutcome<R> {
    /// The commit was made. Contains the object as stored or, after a removal, its last state.
    Done(Arc<R>),
    /// The stored object has changed and must be read again.
    Conflict,
}

/// The objects of a kind at one version, sorted by namespace and name.
pub(crate) struct Snapshot<R> {
    pub(crate) objects: Vec<Arc<R>>,
    pub(crate) version: u64,
}

impl<R: Strategy> KindStore<R> {
    pub(crate) fn new(kind: Kind, shared: &Shared) -> Self {
        let history = if kind == Kind::EVENT {
            shared.history.for_events()
        } else {
            shared.history
        };
        let (version, observed) = (shared.version.clone(), shared.observed.clone());
        let shard = || {
            Lock::new(Shard {
                table: HashTable::new(),
                indexed: false,
                named: false,
            })
        };
        KindStore {
            kind,
            shards: (0..SHARDS).map(|_| CachePadded::new(shard())).collect(),
            log: Arc::new(Log::new(version, history, shared.keeps_past, observed)),
            names: pages::Names::default(),
            owners: shared.owners.clone(),
            has_owners: AtomicBool::new(false),
            hasher: hash_state(),
        }
    }

    pub(crate) fn key<'a>(&self, namespace: &'a str, name: &'a str) -> Key<'a> {
        let hash = KeyHash(self.hasher.hash_one((namespace, name)));
        Key {
            namespace,
            name,
            hash,
        }
    }

    fn shard_of(&self, KeyHash(hash): KeyHash) -> usize {
        // The table uses the low bits for its buckets and the top seven bits for its tags.
        (hash >> 48) as usize % SHARDS
    }

    fn shard(&self, hash: KeyHash) -> &Lock<Shard<R>> {
        &self.shards[self.shard_of(hash)]
    }

    /// Returns the stored object; `None` if there is none. O(1), takes one lock.
    pub(crate) fn read(&self, key: &Key<'_>) -> Option<Arc<R>> {
        let shard = self.shard(key.hash).lock();
        shard
            .table
            .find(key.hash.0, is_at(key))
            .map(|stored| stored.object.clone())
    }

    /// Calls `read` with the stored object and returns the result; `None` if there is no such
    /// object.
    pub(crate) fn inspect<T>(&self, key: &Key<'_>, read: impl FnOnce(&R) -> T) -> Option<T> {
        let shard = self.shard(key.hash).lock();
        shard
            .table
            .find(key.hash.0, is_at(key))
            .map(|stored| read(&stored.object))
    }

    /// Stores a new object. Fails if its name is taken.
    pub(crate) fn insert(
        &self,
        object: Arc<R>,
        effects: &WriteEffects,
        now: Now,
    ) -> Result<Arc<R>, Taken<R>> {
        let metadata = object.metadata();
        let key = self.key(&metadata.namespace, &metadata.name);
        let KeyHash(hash) = key.hash;
        let bytes = self.log.bytes_of(&object);
        let mut guard = self.shard(key.hash).lock();
        let shard = &mut *guard;
        let slot = match shard.table.entry(hash, is_at(&key), |stored| stored.hash) {
            Slot::Occupied(taken) => {
                let holder = taken.get().object.clone();
                let refused = object;
                return Err(Taken { refused, holder });
            }
            Slot::Vacant(slot) => slot,
        };
        let mut append = self.log.begin();
        let object = append.push(Change::Added, None, object, bytes, effects, now);
        let after = append.finish();
        slot.insert(Stored {
            hash,
            object: object.clone(),
        });
        if shard.indexed {
            self.owners.change(None, Some(&*object));
        }
        if shard.named {
            self.names.lock().insert(pages::key_of(&*object));
        }
        drop(guard);
        after.run();
        Ok(object)
    }

    /// Fills an empty store with the objects of another store, unchanged. `version` is that of the
    /// whole state, of all kinds.
    pub(crate) fn restore(
        &self,
        objects: impl Iterator<Item = Arc<R>>,
        totals: WriteTotals,
        version: u64,
    ) {
        let mut ready = 0;
        for object in objects {
            ready += u64::from(object.is_ready_pod());
            let metadata = object.metadata();
            let key = self.key(&metadata.namespace, &metadata.name);
            let KeyHash(hash) = key.hash;
            let mut shard = self.shard(key.hash).lock();
            if shard.indexed {
                self.owners.change(None, Some(&*object));
            }
            let stored = Stored { hash, object };
            shard
                .table
                .insert_unique(hash, stored, |stored| stored.hash);
        }
        self.log
            .begin_behind(version, totals.with_live_ready(ready));
    }

    /// Replaces `current` with `new`, if `current` is still stored.
    pub(crate) fn replace(
        &self,
        key: KeyHash,
        current: &Arc<R>,
        new: Arc<R>,
        effects: &WriteEffects,
        now: Now,
    ) -> CommitOutcome<R> {
        let bytes = self.log.bytes_of(&new);
        let mut guard = self.shard(key).lock();
        let shard = &mut *guard;
        let Some(stored) = shard.table.find_mut(key.0, is_same(current)) else {
            return CommitOutcome::Conflict;
        };
        let mut append = self.log.begin();
        let new = append.push(Change::Modified, Some(current), new, bytes, effects, now);
        let after = append.finish();
        // The caller still holds `current`, so nothing is freed here.
        stored.object = new.clone();
        if shard.indexed {
            self.owners.change(Some(&**current), Some(&*new));
        }
        drop(guard);
        after.run();
        CommitOutcome::Done(new)
    }

    /// Removes `current`, if it is still stored. Appends a `Modified` event with `marked`, if
    /// given, then a `Deleted` event with `last`.
    pub(crate) fn remove(
        &self,
        key: KeyHash,
        current: &Arc<R>,
        marked: Option<Arc<R>>,
        last: Arc<R>,
        effects: &WriteEffects,
        now: Now,
    ) -> CommitOutcome<R> {
        let bytes = self.log.bytes_of(&last);
        let mut shard = self.shard(key).lock();
        let (indexed, named) = (shard.indexed, shard.named);
        let Ok(stored) = shard.table.find_entry(key.0, is_same(current)) else {
            return CommitOutcome::Conflict;
        };
        let mut append = self.log.begin();
        // Equal to the last state except for the deletion marks, so its size is the same.
        let marked = marked.map(|marked| {
            append.push(Change::Modified, Some(current), marked, bytes, effects, now)
        });
        let before = marked.as_ref().unwrap_or(current);
        let last = append.push(Change::Deleted, Some(before), last, bytes, effects, now);
        let after = append.finish();
        let (stored, _) = stored.remove();
        if indexed {
            self.owners.change(Some(&**current), None);
        }
        if named {
            self.names.lock().remove(&pages::key_of(&**current));
        }
        drop(shard);
        drop(stored);
        after.run();
        CommitOutcome::Done(last)
    }

    /// Returns all objects of the kind, or of one namespace, at one version. O(n log n). Holds the
    /// locks of all shards while it collects the objects.
    pub(crate) fn snapshot(&self, namespace: Option<&str>) -> Snapshot<R> {
        let (objects, version) = self.collect(namespace, || self.log.version());
        Snapshot {
            objects: sorted(objects),
            version,
        }
    }

    /// Calls `look` with every object at one version, in no particular order. O(n). Holds the locks
    /// of all shards.
    pub(crate) fn for_each(&self, mut look: impl FnMut(&Arc<R>)) {
        let shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        for stored in shards.iter().flat_map(|shard| &shard.table) {
            look(&stored.object);
        }
    }

    /// Returns all objects of the kind, and a watch position after them.
    pub(crate) fn snapshot_and_watch(&self, waker: Option<Waker>) -> (Snapshot<R>, Position<R>) {
        let (objects, (position, version)) = self.collect(None, || self.log.open_at_end(waker));
        (
            Snapshot {
                objects: sorted(objects),
                version,
            },
            position,
        )
    }

    pub(crate) fn collect<T>(
        &self,
        namespace: Option<&str>,
        then: impl FnOnce() -> T,
    ) -> (Vec<Arc<R>>, T) {
        let shards: Vec<_> = self.shards.iter().map(|shard| shard.lock()).collect();
        let count = shards.iter().map(|shard| shard.table.len()).sum();
        let mut objects = Vec::with_capacity(if namespace.is_none() { count } else { 0 });
        for shard in &shards {
            let all = shard.table.iter().map(|stored| &stored.object);
            match namespace {
                None => objects.extend(all.cloned()),
                Some(namespace) => objects.extend(
                    all.filter(|object| &*object.metadata().namespace == namespace)
                        .cloned(),
                ),
            }
        }
        (objects, then())
    }

    /// Adds this kind to the owner index. O(n) on the first call; later calls do nothing.
    pub(crate) fn index_owners(&self) {
        for shard in &self.shards {
            let mut shard = shard.lock();
            if !shard.indexed {
                for stored in &shard.table {
                    self.owners.change(None, Some(&*stored.object));
                }
                shard.indexed = true;
            }
        }
    }

    /// Returns the kind of the store's objects.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Records that an object of this kind was named as an owner.
    pub(crate) fn set_has_owners(&self) {
        // Relaxed: the store's locks order this relative to lookups and deletions.
        if !self.has_owners.load(Relaxed) {
            self.has_owners.store(true, Relaxed);
        }
    }

    /// Reports whether an object of this kind was ever named as an owner.
    pub(crate) fn has_owners(&self) -> bool {
        // Relaxed: as above.
        self.has_owners.load(Relaxed)
    }

    pub(crate) fn log(&self) -> &Arc<Log<R>> {
        &self.log
    }

    pub(crate) fn totals(&self) -> WriteTotals {
        self.log.totals()
    }
}

fn is_at<R: Strategy>(key: &Key<'_>) -> impl Fn(&Stored<R>) -> bool {
    move |stored| {
        let metadata = stored.object.metadata();
        stored.hash == key.hash.0
            && metadata.name == key.name
            && &*metadata.namespace == key.namespace
    }
}

fn is_same<R>(object: &Arc<R>) -> impl Fn(&Stored<R>) -> bool {
    move |stored| Arc::ptr_eq(&stored.object, object)
}

/// The number of objects from which on sorting uses rayon's threads.
const PARALLEL_SORT_MIN: usize = 1 << 16;

/// The namespace, the name, and the index of the object.
type SortKey<'a> = (&'a str, CompactString, u32);

fn sort_key(index: usize, metadata: &ObjectMeta) -> SortKey<'_> {
    let index = u32::try_from(index).expect("objects in memory are fewer than 2^32");
    (&metadata.namespace, metadata.name.clone(), index)
}

fn sort_order(a: &SortKey<'_>, b: &SortKey<'_>) -> Ordering {
    let same = std::ptr::eq(a.0, b.0);
    let namespaces = if same { Ordering::Equal } else { a.0.cmp(b.0) };
    namespaces.then_with(|| a.1.cmp(&b.1))
}

/// Sorts the keys of objects on all cores. Separate from [`sorted`], so that it is compiled only
/// once and not for every kind.
fn sorted_keys<'a>(metadata: &[&'a ObjectMeta]) -> Vec<SortKey<'a>> {
    let keys = metadata.par_iter().enumerate();
    let mut keys: Vec<_> = keys
        .map(|(index, metadata)| sort_key(index, metadata))
        .collect();
    keys.par_sort_unstable_by(sort_order);
    keys
}

/// Sorts by namespace and name. The keys are copied into one array first, because comparisons that
/// follow the pointers to the objects would miss the cache at every step. Keys are unique, so an
/// unstable sort has only one result.
pub(crate) fn sorted<R: Strategy>(objects: Vec<Arc<R>>) -> Vec<Arc<R>> {
    let metadata = objects.iter().map(|object| object.metadata());
    let keys = if objects.len() < PARALLEL_SORT_MIN {
        let keys = metadata.enumerate();
        let mut keys: Vec<_> = keys
            .map(|(index, metadata)| sort_key(index, metadata))
            .collect();
        keys.sort_unstable_by(sort_order);
        keys
    } else {
        sorted_keys(&metadata.collect::<Vec<_>>())
    };
    let order: Vec<u32> = keys.into_iter().map(|(_, _, index)| index).collect();
    let mut objects: Vec<Option<Arc<R>>> = objects.into_iter().map(Some).collect();
    let take = |index: u32| {
        objects[index as usize]
            .take()
            .expect("an index occurs once")
    };
    order.into_iter().map(take).collect()
}

#[cfg(test)]
mod tests;
