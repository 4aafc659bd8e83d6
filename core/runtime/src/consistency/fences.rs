//! Fences: versions that the caches must have come to beyond the own writes of a key.
//!
//! A version enters by [`raise`](Fences::raise), for all keys; a key whose version could not be read
//! yet by [`want`](Fences::want). [`check`](Fences::check) compares the caches with what was raised.

use std::cmp::Ordering::Greater;
use std::collections::BTreeMap;

use podstorm_objects::{Kind, ResourceVersion};
use smallvec::SmallVec;

use super::{Stale, place_of};
use crate::primitives::{AtomicU64, AtomicUsize, CachePadded, Mutex, Ordering, lock};

/// A few kinds, each once, pods first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kinds(SmallVec<[Kind; 2]>);

impl Kinds {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts one in.
    pub fn insert(&mut self, kind: Kind) {
        if !self.0.contains(&kind) {
            let at = if kind == Kind::POD { 0 } else { self.0.len() };
            self.0.insert(at, kind);
        }
    }

    /// Takes one out.
    pub fn remove(&mut self, kind: Kind) {
        self.0.retain(|known| *known != kind);
    }

    /// One after the other.
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

/// What a controller remembers about versions beyond its records of own writes, by key `K`.
///
/// All methods cost O(1), but for those of keys that want a version: a lock, and O(log of their number).
#[derive(Debug)]
pub struct Fences<K> {
    kinds: [Kind; 2],
    /// What the caches must have come to whatever the key, by kind: the versions read at the
    /// start, and those at which anything was counted since. Only grow.
    floors: CachePadded<[AtomicU64; 2]>,
    /// Whether the versions were read at the start; 0 is no.
    started: AtomicU64,
    /// Keys whose next sync begins by reading versions, because the last one could not.
    wanted: Mutex<BTreeMap<K, Kinds>>,
    /// Their number: most of the time none, and then the lock is not taken.
    wanted_count: AtomicUsize,
}

impl<K: Copy + Ord> Fences<K> {
    /// Nothing raised for these kinds, nothing wanted, not started.
    pub fn new(kinds: [Kind; 2]) -> Self {
        Fences {
            kinds,
            floors: CachePadded::default(),
            started: AtomicU64::new(0),
            wanted: Mutex::new(BTreeMap::new()),
            wanted_count: AtomicUsize::new(0),
        }
    }

    /// All that there are versions of.
    pub fn kinds(&self) -> Kinds {
        self.kinds.into_iter().collect()
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

    /// Of which kinds the version must be read before the key's next sync.
    pub fn wanted(&self, key: &K) -> Kinds {
        // Acquire, with the Release below; a key's own mark was made by its last sync, which the
        // queue puts before this one.
        if self.wanted_count.load(Ordering::Acquire) == 0 {
            return Kinds::default();
        }
        lock(&self.wanted).get(key).cloned().unwrap_or_default()
    }

    /// Notes that these versions must be read before the key's next sync.
    pub fn want(&self, key: K, kinds: Kinds) {
        let mut wanted = lock(&self.wanted);
        wanted.entry(key).or_default().extend(kinds.iter());
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
    ///
    /// # Panics
    /// When the kind is none of the fences'.
    pub fn raise(&self, kind: Kind, version: &ResourceVersion) {
        raise_floor(&self.floors[place_of(kind, &self.kinds)], version);
    }

    /// The caches must stay at these versions, in the order of the kinds, whatever is counted next.
    pub fn raise_all(&self, stores: &[ResourceVersion; 2]) {
        for (floor, store) in self.floors.iter().zip(stores) {
            raise_floor(floor, store);
        }
    }

    /// Whether the caches, at these versions, have come to the floors. Versions that can't be
    /// compared have; a cache that has none yet has not.
    ///
    /// # Errors
    /// The first kind whose cache is behind.
    pub fn check(&self, stores: &[ResourceVersion; 2]) -> Result<(), Stale> {
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
    // Relaxed, both: a sync that is to see it comes by the queue or by `started`.
    if floor.load(Ordering::Relaxed) < number {
        floor.fetch_max(number, Ordering::Relaxed);
    }
}
