//! Entries by textual key: a hash map in shards.

use std::fmt;

use hashbrown::HashMap;
use podstorm_objects::{Str, hash_state};

use super::entry::Entry;
use super::{Entries, sealed};
use crate::intern::FIXED_STATE;
use crate::limits::EXPECTATIONS_SHARDS;
use crate::primitives::{Arc, CachePadded, RwLock};

type Shard<P> = RwLock<HashMap<Str, Arc<Entry<P>>, ahash::RandomState>>;

/// Entries by textual key, in shards by the hash of the key. A shard's lock is held for a single
/// lookup or insertion. An entry is changed without the lock.
pub struct NamedEntries<P> {
    shards: Box<[CachePadded<Shard<P>>]>,
}

impl<P> NamedEntries<P> {
    fn shard(&self, key: &str) -> &Shard<P> {
        // The shard's map uses the lowest bits and the top seven. The shard uses bits in the
        // middle.
        let bits = FIXED_STATE.hash_one(key) >> 32;
        &self.shards[bits as usize & (EXPECTATIONS_SHARDS - 1)]
    }

    fn entry(&self, key: &str) -> Option<Arc<Entry<P>>> {
        let shard = self
            .shard(key)
            .read()
            .expect("no thread panics while holding this lock");
        shard.get(key).cloned()
    }
}

impl<P> Default for NamedEntries<P> {
    fn default() -> Self {
        let shard = |_| CachePadded::new(RwLock::new(HashMap::with_hasher(hash_state())));
        NamedEntries {
            shards: (0..EXPECTATIONS_SHARDS).map(shard).collect(),
        }
    }
}

impl<P> sealed::Find for NamedEntries<P> {
    type Key<'a> = &'a str;
    type Pod = P;

    fn find<R>(&self, key: &str, read: impl FnOnce(&Entry<P>) -> R) -> Option<R> {
        self.entry(key).map(|entry| read(&entry))
    }

    fn find_or_make<R>(&self, key: &str, write: impl FnOnce(&Entry<P>) -> R) -> R {
        let entry = self.entry(key).unwrap_or_else(|| {
            let mut shard = self
                .shard(key)
                .write()
                .expect("no thread panics while holding this lock");
            shard.entry(key.into()).or_default().clone()
        });
        write(&entry)
    }

    fn forget(&self, key: &str) {
        self.shard(key)
            .write()
            .expect("no thread panics while holding this lock")
            .remove(key);
    }
}

impl<P> Entries for NamedEntries<P> {}

impl<P> fmt::Debug for NamedEntries<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedEntries").finish_non_exhaustive()
    }
}
