//! Fences: versions that the caches must reach in addition to a key's own writes.
//!
//! [`raise`](Fences::raise) raises the version that the caches must reach for all keys.
//! [`want`](Fences::want) records a key whose version could not be read yet.
//! [`check`](Fences::check) compares the caches with the raised versions.

use std::cmp::Ordering::Greater;
use std::collections::BTreeMap;

use podstorm_objects::{Kind, ResourceVersion};
use smallvec::SmallVec;

use super::{Stale, place_of};
use crate::primitives::{AtomicU64, AtomicUsize, CachePadded, Mutex, Ordering, lock};

/// A set of a few kinds, in the order of insertion, except that pods come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(SmallVec<[Kind; 2]>);

impl Kinds {
    /// Reports whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a kind.
    pub fn insert(&mut self, kind: Kind) {
        if !self.0.contains(&kind) {
            let at = if kind == Kind::POD { 0 } else { self.0.len() };
            self.0.insert(at, kind);
        }
    }

    /// Removes a kind.
    pub fn remove(&mut self, kind: Kind) {
        self.0.retain(|known| *known != kind);
    }

    /// Returns the kinds in the set's order.
    pub fn iter(&self) -> impl Iterator<Item = Kind> {
        self.0.iter().copied()
    }
}

impl Extend<Kind> for Kinds {
    fn extend<T: IntoIterator<Item = Kind>>(&mut self, kinds: T) {
        kinds.into_iter().for_each(|kind| self.insert(kind));
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<T: IntoIterator<Item = Kind>>(kinds: T) -> Kinds {
        let mut set = Kinds::default();
        set.extend(kinds);
        set
    }
}

/// The versions that the caches of a controller must show in addition to the controller's own
/// writes, by key `K`.
///
/// All methods cost O(1), except those on keys that want a version. These methods take a lock and
/// cost O(log n) in the number of such keys.
#[derive(Debug)]
pub struct Fences<K, const N: usize = 2> {
    kinds: [Kind; N],
    /// The versions that the caches must reach for every key, by kind: those that were read at
    /// startup, and those at which pods have been counted since. They only grow.
    floors: CachePadded<[AtomicU64; N]>,
    /// Whether the startup versions have been read: 0 means no, 1 means yes.
    started: AtomicU64,
    /// The keys whose next sync begins by reading versions, because the last sync could not.
    wanted: Mutex<BTreeMap<K, Kinds>>,
    /// The length of `wanted`. Usually 0, and in that case the lock is not taken.
    wanted_count: AtomicUsize,
}

impl<K: Copy + Ord, const N: usize> Fences<K, N> {
    /// Creates fences for these kinds. No version is raised or wanted, and the startup versions
    /// have not been read.
    pub fn new(kinds: [Kind; N]) -> Self {
        Fences {
            kinds,
            floors: CachePadded::new(std::array::from_fn(|_| AtomicU64::new(0))),
            started: AtomicU64::new(0),
            wanted: Mutex::new(BTreeMap::new()),
            wanted_count: AtomicUsize::new(0),
        }
    }

    /// Returns all tracked kinds.
    pub fn kinds(&self) -> Kinds {
        self.kinds.into_iter().collect()
    }

    /// Reports whether the startup versions have been read and raised.
    pub fn is_started(&self) -> bool {
        // Acquire: a thread that sees the flag also sees the floors that were raised before it.
        self.started.load(Ordering::Acquire) != 0
    }

    /// Marks the startup versions as raised.
    pub fn start(&self) {
        // Release: see `is_started`.
        self.started.store(1, Ordering::Release);
    }

    /// Returns the kinds whose versions must be read before the key's next sync.
    pub fn wanted(&self, key: &K) -> Kinds {
        // Acquire: pairs with the Release in `want`. The key's own entry was written by its last
        // sync, which the queue orders before this one.
        if self.wanted_count.load(Ordering::Acquire) == 0 {
            return Kinds::default();
        }
        lock(&self.wanted).get(key).cloned().unwrap_or_default()
    }

    /// Records that the versions of these kinds must be read before the key's next sync.
    pub fn want(&self, key: K, kinds: Kinds) {
        let mut wanted = lock(&self.wanted);
        wanted.entry(key).or_default().extend(kinds.iter());
        // Release: see `wanted`.
        self.wanted_count.store(wanted.len(), Ordering::Release);
    }

    /// Forgets which versions must be read before the key's next sync.
    pub fn forget(&self, key: &K) {
        // Acquire: see `wanted`.
        if self.wanted_count.load(Ordering::Acquire) != 0 {
            let mut wanted = lock(&self.wanted);
            wanted.remove(key);
            // Release: see `wanted`.
            self.wanted_count.store(wanted.len(), Ordering::Release);
        }
    }

    /// Raises the version that the cache of this kind must reach before pods are counted. Does
    /// nothing if the version is not a number.
    ///
    /// # Panics
    /// Panics if the kind is not tracked.
    pub fn raise(&self, kind: Kind, version: &ResourceVersion) {
        raise_floor(&self.floors[place_of(kind, &self.kinds)], version);
    }

    /// Raises the fences to these versions of the caches, in the order of the kinds. The caches
    /// must be at least as new whenever pods are counted from now on.
    pub fn raise_all(&self, stores: &[ResourceVersion; N]) {
        for (floor, store) in self.floors.iter().zip(stores) {
            raise_floor(floor, store);
        }
    }

    /// Checks whether the caches, at these versions, have reached the fences. A version that can't
    /// be compared passes; a cache without a version does not.
    ///
    /// # Errors
    /// Returns the first kind whose cache is behind.
    pub fn check(&self, stores: &[ResourceVersion; N]) -> Result<(), Stale> {
        for (place, store) in stores.iter().enumerate() {
            // Relaxed: see `raise`.
            let floor = self.floors[place].load(Ordering::Relaxed);
            let wrote = ResourceVersion::Number(floor);
            let behind = store.is_unset() || wrote.compare(store) == Some(Greater);
            if floor > 0 && behind {
                return Err(Stale {
                    kind: self.kinds[place],
                    wrote,
                    store: store.clone(),
                });
            }
        }
        Ok(())
    }
}

fn raise_floor(floor: &AtomicU64, version: &ResourceVersion) {
    let Some(number) = version.number() else {
        return;
    };
    // Relaxed, both: the queue or `started` orders this before any sync that must see it.
    if floor.load(Ordering::Relaxed) < number {
        floor.fetch_max(number, Ordering::Relaxed);
    }
}
