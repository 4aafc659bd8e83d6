//! The read-your-writes check: an owner is synced again only once the caches have caught up with
//! the writes of the owner's last sync.
//!
//! [`wrote_at`](ConsistencyStore::wrote_at) records the version that a write returned.
//! [`ensure_ready`](ConsistencyStore::ensure_ready) compares the recorded version with the versions
//! that the caches have reached. Owners are spread over shards with one short lock each. No lock is
//! held across a call out of this module, and no two locks are held together.

mod fences;
mod guard;
#[cfg(test)]
mod guard_tests;

use std::cmp::Ordering;
use std::hash::Hash;

pub use fences::{Fences, Kinds};
pub use guard::{Checked, Guard, GuardRules};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use podstorm_objects::{Kind, ResourceVersion, Uid};

use crate::primitives::{CachePadded, Mutex, MutexGuard, lock};

/// The number of shards: 64 locks for at most a few dozen workers, so two owners rarely share one.
const SHARDS: usize = 64;

/// The writes of each owner's last sync, by owner key `K` (a dense key id in the controllers). An
/// owner has at most one record. Writes of `N` kinds are recorded separately. In most controllers
/// these are pods and the owners themselves.
///
/// Every method takes one shard lock and costs O(N).
#[derive(Debug)]
pub struct ConsistencyStore<K, const N: usize = 2> {
    kinds: [Kind; N],
    shards: Box<[Shard<K, N>]>,
    hasher: ahash::RandomState,
}

/// The records of one shard, searched with the hash that selected the shard.
type Records<K, const N: usize> = HashTable<(K, Record<N>)>;

type Shard<K, const N: usize> = CachePadded<Mutex<Records<K, N>>>;

/// The recorded writes for one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<const N: usize = 2> {
    /// The UID of the owner for which the writes were made.
    pub uid: Uid,
    /// The newest written version of each kind, in the order of the store's kinds; `None` if no
    /// object of the kind was written.
    pub written: [Option<ResourceVersion>; N],
}

/// The error for a cache that has not seen a write yet. The message is upstream's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "read version: {store} is not as new as written version: {wrote} for group resource {}",
    kind.group_resource()
)]
pub struct Stale {
    /// The kind of the written object.
    pub kind: Kind,
    /// The version that was written.
    pub wrote: ResourceVersion,
    /// The version that the cache has reached.
    pub store: ResourceVersion,
}

impl<K: Hash + Eq, const N: usize> ConsistencyStore<K, N> {
    /// Creates an empty store for writes of these kinds.
    pub fn new(kinds: [Kind; N]) -> Self {
        // Fixed seeds: the order of the records is never visible, but runs are repeatable down to
        // their allocations.
        let hasher = ahash::RandomState::with_seeds(0x636f, 0x6e73, 0x6973, 0x7431);
        let shard = || CachePadded::new(Mutex::new(Records::new()));
        ConsistencyStore {
            kinds,
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher,
        }
    }

    /// Records that a write of an object of this kind, for the owner with this UID, returned
    /// `version`. Replaces a record for another UID. Keeps the newer of two comparable versions; if
    /// the versions can't be compared, `version` replaces the recorded one.
    ///
    /// # Panics
    /// Panics if the store does not track the kind.
    pub fn wrote_at(&self, owner: K, uid: &Uid, kind: Kind, version: &ResourceVersion) {
        let place = place_of(kind, &self.kinds);
        let hash = self.hash(&owner);
        let mut records = self.records(hash);
        let rehash = |(owner, _): &(K, Record<N>)| self.hash(owner);
        let record = match records.entry(hash, |(other, _)| *other == owner, rehash) {
            Entry::Occupied(known) => &mut known.into_mut().1,
            Entry::Vacant(free) => &mut free.insert((owner, Record::new(uid))).into_mut().1,
        };
        if record.uid != *uid {
            *record = Record::new(uid);
        }
        let noted = &mut record.written[place];
        let newer = noted
            .as_ref()
            .is_some_and(|n| n.compare(version) == Some(Ordering::Greater));
        if !newer {
            *noted = Some(version.clone());
        }
    }

    /// Records several writes, in any order. Records only the newest of numeric versions.
    #[inline]
    pub fn wrote_all<'a>(
        &self,
        owner: K,
        uid: &Uid,
        kind: Kind,
        versions: impl Iterator<Item = &'a ResourceVersion>,
    ) where
        K: Clone,
    {
        let mut newest = 0;
        for version in versions {
            match version.number() {
                Some(number) => newest = newest.max(number),
                None => self.wrote_at(owner.clone(), uid, kind, version),
            }
        }
        if newest > 0 {
            self.wrote_at(owner, uid, kind, &newest.into());
        }
    }

    /// Drops the owner's record; with `uid`, only if the record has this UID.
    pub fn clear(&self, owner: &K, uid: Option<&Uid>) {
        let hash = self.hash(owner);
        let mut records = self.records(hash);
        if let Ok(known) = records.find_entry(hash, |(other, record)| {
            other == owner && uid.is_none_or(|uid| record.uid == *uid)
        }) {
            known.remove();
        }
    }

    /// Checks whether the caches show all writes for the owner. `stores` has the versions that
    /// the caches have reached, in the order of the store's kinds. On success, drops the record. A
    /// version in `stores` that is unset, or can't be compared with the written one, counts as new
    /// enough.
    ///
    /// # Errors
    /// Returns the first kind whose cache is behind. The record remains, and the caller should try
    /// again later.
    pub fn ensure_ready(&self, owner: &K, stores: &[ResourceVersion; N]) -> Result<(), Stale> {
        let hash = self.hash(owner);
        let mut records = self.records(hash);
        let Ok(known) = records.find_entry(hash, |(other, _)| other == owner) else {
            return Ok(());
        };
        for (place, (wrote, store)) in known.get().1.written.iter().zip(stores).enumerate() {
            if let Some(wrote) = wrote
                && wrote.compare(store) == Some(Ordering::Greater)
            {
                return Err(Stale {
                    kind: self.kinds[place],
                    wrote: wrote.clone(),
                    store: store.clone(),
                });
            }
        }
        known.remove();
        Ok(())
    }

    /// Returns a copy of the owner's record; `None` if it has none.
    pub fn record(&self, owner: &K) -> Option<Record<N>> {
        let hash = self.hash(owner);
        let records = self.records(hash);
        let known = records.find(hash, |(other, _)| other == owner);
        known.map(|(_, record)| record.clone())
    }

    /// Returns the number of owners with a record. Takes all locks, one after the other.
    pub fn len(&self) -> usize {
        self.shards.iter().map(|shard| lock(shard).len()).sum()
    }

    /// Reports whether no owner has a record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn hash(&self, owner: &K) -> u64 {
        self.hasher.hash_one(owner)
    }

    /// Returns the records of the shard that this hash selects.
    fn records(&self, hash: u64) -> MutexGuard<'_, Records<K, N>> {
        // The middle bits: a shard's table uses the lowest bits for the bucket and the highest for
        // the tag.
        lock(&self.shards[(hash >> 32) as usize % SHARDS])
    }
}

/// Returns the index of a kind among the kinds that the store tracks.
#[inline]
fn place_of<const N: usize>(kind: Kind, kinds: &[Kind; N]) -> usize {
    let place = kinds.iter().position(|known| *known == kind);
    place.unwrap_or_else(|| untracked(kind))
}

#[cold]
fn untracked(kind: Kind) -> ! {
    panic!("writes of a {} are not tracked", kind.name())
}

impl<const N: usize> Record<N> {
    fn new(uid: &Uid) -> Self {
        Record {
            uid: uid.clone(),
            written: std::array::from_fn(|_| None),
        }
    }
}
