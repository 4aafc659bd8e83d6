//! Fences: versions that the caches must have come to beyond the own writes of a key.
//!
//! A version enters by [`raise`](Fences::raise), for all keys; a key whose version could not be read
//! yet by [`want`](Fences::want). [`check`](Fences::check) compares the caches with what was raised.

use std::cmp::Ordering::Greater;
use std::collections::BTreeMap;

use podstorm_objects::ResourceVersion;

use super::{PARENTS, PODS, Stale};
use crate::primitives::{AtomicU64, AtomicUsize, CachePadded, Mutex, Ordering, lock};

/// A set of resources, by their index ([`PODS`], [`PARENTS`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources(u8);

impl Resources {
    /// Pods and parents.
    pub const BOTH: Resources = Resources(1 << PODS | 1 << PARENTS);

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Puts one in.
    pub fn insert(&mut self, resource: usize) {
        self.0 |= 1 << resource;
    }

    /// Takes one out.
    pub fn remove(&mut self, resource: usize) {
        self.0 &= !(1 << resource);
    }

    fn union(self, other: Resources) -> Resources {
        Resources(self.0 | other.0)
    }

    /// In the order of their indices.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        [PODS, PARENTS]
            .into_iter()
            .filter(move |resource| self.0 & 1 << resource != 0)
    }
}

/// What a controller remembers about versions beyond its records of own writes, by key `K`.
///
/// All methods cost O(1), but for those of keys that want a version: a lock, and O(log of their number).
#[derive(Debug)]
pub struct Fences<K> {
    /// What the caches must have come to whatever the key, by resource: the versions read at the
    /// start, and those at which anything was counted since. Only grow.
    floors: CachePadded<[AtomicU64; 2]>,
    /// Whether the versions were read at the start; 0 is no.
    started: AtomicU64,
    /// Keys whose next sync begins by reading versions, because the last one could not.
    wanted: Mutex<BTreeMap<K, Resources>>,
    /// Their number: most of the time none, and then the lock is not taken.
    wanted_count: AtomicUsize,
}

impl<K: Copy + Ord> Fences<K> {
    /// Nothing raised, nothing wanted, not started.
    pub fn new() -> Self {
        Fences {
            floors: CachePadded::default(),
            started: AtomicU64::new(0),
            wanted: Mutex::new(BTreeMap::new()),
            wanted_count: AtomicUsize::new(0),
        }
    }

    /// Whether the versions of the start were read and raised.
    pub fn is_started(&self) -> bool {
        // Acquire: whoever sees it sees the floors that were raised before.
        self.started.load(Ordering::Acquire) != 0
    }

    /// Says that the versions of the start are raised.
    pub fn start(&self) {
        // Release: see `is_started`.
        self.started.store(1, Ordering::Release);
    }

    /// Of which resources the version must be read before the key's next sync.
    pub fn wanted(&self, key: &K) -> Resources {
        // Acquire, with the Release below; a key's own mark was made by its last sync, which the
        // queue puts before this one.
        if self.wanted_count.load(Ordering::Acquire) == 0 {
            return Resources::default();
        }
        lock(&self.wanted).get(key).copied().unwrap_or_default()
    }

    /// Notes that these versions must be read before the key's next sync.
    pub fn want(&self, key: K, resources: Resources) {
        let mut wanted = lock(&self.wanted);
        let known = wanted.entry(key).or_default();
        *known = known.union(resources);
        // Release: see `wanted`.
        self.wanted_count.store(wanted.len(), Ordering::Release);
    }

    /// Forgets that versions are wanted for the key.
    pub fn forget(&self, key: &K) {
        // Acquire: see `wanted`.
        if self.wanted_count.load(Ordering::Acquire) != 0 {
            let mut wanted = lock(&self.wanted);
            wanted.remove(key);
            // Release: see `wanted`.
            self.wanted_count.store(wanted.len(), Ordering::Release);
        }
    }

    /// The caches must come to this version before anything is counted; nothing for one that is no
    /// number.
    pub fn raise(&self, resource: usize, version: &ResourceVersion) {
        let (Some(number), floor) = (version.number(), &self.floors[resource]) else {
            return;
        };
        // Relaxed, both: a sync that is to see it comes by the queue or by `started`.
        if floor.load(Ordering::Relaxed) < number {
            floor.fetch_max(number, Ordering::Relaxed);
        }
    }

    /// Whether the caches, at these versions, have come to the floors. Versions that can't be
    /// compared have; a cache that has none yet has not.
    ///
    /// # Errors
    /// The first resource whose cache is behind.
    pub fn check(&self, stores: &[ResourceVersion; 2]) -> Result<(), Stale> {
        for (resource, store) in stores.iter().enumerate() {
            // Relaxed: see `raise`.
            let floor = self.floors[resource].load(Ordering::Relaxed);
            let wrote = ResourceVersion::Number(floor);
            let behind = store.is_unset() || wrote.compare(store) == Some(Greater);
            if floor > 0 && behind {
                return Err(Stale {
                    resource,
                    wrote,
                    store: store.clone(),
                });
            }
        }
        Ok(())
    }
}

impl<K: Copy + Ord> Default for Fences<K> {
    fn default() -> Self {
        Fences::new()
    }
}
