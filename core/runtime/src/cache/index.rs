//! Pods by name, in shards with one lock each, so that threads that apply events of different pods
//! rarely wait for each other.
//!
//! A hash of the namespace and of the name without its last few characters selects the shard. Pods
//! whose names were generated for one controller are therefore in one shard, and a thread that
//! applies the events of that controller's pods finds the shard's lock and table in its CPU cache.

use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use hashbrown::HashTable;
use podstorm_objects::Pod;

use super::owned_pods::OwnedPods;
use crate::intern::FIXED_STATE;
use crate::primitives::{CachePadded, Mutex, MutexGuard, lock};

/// The number of shards: four times the threads of a large controller, so that two threads rarely
/// need the same shard.
pub(super) const SHARDS: usize = 64;

/// The shift that leaves the highest bits of a hash, which select the shard.
const SHARD_SHIFT: u32 = u64::BITS - SHARDS.ilog2();

/// The number of characters at the end of a name that do not affect the shard: a dash and the five
/// characters that the API server generates for a controller's pod.
const SUFFIX: usize = 6;

/// The hash of a pod's namespace and name: the shard, and the hash within the shard's table.
#[derive(Clone, Copy, Debug)]
pub(super) struct NameHash {
    pub(super) shard: u32,
    pub(super) hash: u32,
}

impl NameHash {
    pub(super) fn new(namespace: &str, name: &str) -> NameHash {
        let (family, suffix) = match name.as_bytes().split_last_chunk::<SUFFIX>() {
            Some((family, &[a, b, c, d, e, f])) => {
                (family, u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
            }
            None => (name.as_bytes(), 0),
        };
        let mut hasher = FIXED_STATE.build_hasher();
        hasher.write(namespace.as_bytes());
        hasher.write(family);
        let shard = (hasher.finish() >> SHARD_SHIFT) as u32;
        hasher.write_u64(suffix);
        let hash = (hasher.finish() >> u32::BITS) as u32;
        NameHash { shard, hash }
    }
}

/// Returns the 64 bits that a table needs, from the 32 that are stored. Spreads the bits, because
/// the table uses the highest for tags and the lowest for buckets.
fn spread(hash: u32) -> u64 {
    u64::from(hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// All shards of the index.
#[derive(Debug)]
pub(super) struct Index(Box<[CachePadded<Mutex<Shard>>]>);

/// The most slots that an empty shard keeps. A shard with more frees them all when it becomes
/// empty.
const KEPT: usize = 64;

/// The pods of one shard.
#[derive(Debug)]
pub(super) struct Shard {
    /// The index into `slots` by namespace and name.
    by_name: HashTable<u32>,
    slots: Vec<Option<PodSlot>>,
    free: Vec<u32>,
}

/// One pod in the index.
#[derive(Debug)]
pub(super) struct PodSlot {
    pub(super) pod: Arc<Pod>,
    pub(super) owned_pods: Arc<OwnedPods>,
    /// The pod's handle in `owned_pods`.
    pub(super) handle: u32,
    /// The hash of the name, stored so that growing the table reads no names.
    pub(super) hash: u32,
}

impl Default for Index {
    fn default() -> Self {
        Index((0..SHARDS).map(|_| CachePadded::default()).collect())
    }
}

impl Default for Shard {
    fn default() -> Self {
        Shard {
            by_name: HashTable::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl Index {
    #[inline]
    pub(super) fn lock(&self, shard: u32) -> MutexGuard<'_, Shard> {
        lock(&self.0[shard as usize])
    }

    /// Iterates over the shards in order. Locks each shard when the iterator reaches it.
    pub(super) fn iter(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.0.iter().map(|shard| lock(shard))
    }

    pub(super) fn len(&self) -> usize {
        self.iter().map(|shard| shard.by_name.len()).sum()
    }
}

impl Shard {
    #[inline]
    pub(super) fn find(&self, hash: u32, namespace: &str, name: &str) -> Option<u32> {
        let is_it = |&number: &u32| {
            let slot = self.slot(number);
            let meta = &slot.pod.metadata;
            slot.hash == hash && *meta.name == *name && *meta.namespace == *namespace
        };
        self.by_name.find(spread(hash), is_it).copied()
    }

    /// Fills an empty shard with pods of different names.
    pub(super) fn fill(&mut self, filled: Vec<PodSlot>) {
        assert!(self.by_name.is_empty());
        let Shard {
            by_name,
            slots,
            free,
        } = self;
        free.clear();
        *slots = filled.into_iter().map(Some).collect();
        by_name.reserve(slots.len(), |_| 0);
        for number in 0..u32::try_from(slots.len()).expect("the number of pods fits into 32 bits") {
            let hash_of = |&number: &u32| spread(hash_of(slots, number));
            by_name.insert_unique(hash_of(&number), number, hash_of);
        }
    }

    /// Adds a pod whose name is not in the shard.
    pub(super) fn insert(&mut self, slot: PodSlot) {
        let hash = slot.hash;
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = Some(slot);
                number
            }
            None => {
                self.slots.push(Some(slot));
                u32::try_from(self.slots.len() - 1).expect("the number of pods fits into 32 bits")
            }
        };
        let Shard { by_name, slots, .. } = self;
        by_name.insert_unique(spread(hash), number, |&number| {
            spread(hash_of(slots, number))
        });
    }

    /// Removes the pod in the slot with this number, which `find` returned.
    pub(super) fn remove(&mut self, number: u32) -> PodSlot {
        let slot = self.slots[number as usize]
            .take()
            .expect("a found slot holds a pod");
        self.by_name
            .find_entry(spread(slot.hash), |&at| at == number)
            .expect("the index has every slot that holds a pod")
            .remove();
        self.free.push(number);
        if self.by_name.is_empty() && self.slots.len() > KEPT {
            *self = Shard::default();
        }
        slot
    }

    #[inline]
    pub(super) fn slot(&self, number: u32) -> &PodSlot {
        self.slots[number as usize]
            .as_ref()
            .expect("an indexed slot holds a pod")
    }

    pub(super) fn slot_mut(&mut self, number: u32) -> &mut PodSlot {
        self.slots[number as usize]
            .as_mut()
            .expect("an indexed slot holds a pod")
    }

    /// Returns the pods, in no particular order.
    pub(super) fn slots(&self) -> impl Iterator<Item = &PodSlot> {
        self.slots.iter().flatten()
    }
}

fn hash_of(slots: &[Option<PodSlot>], number: u32) -> u32 {
    slots[number as usize]
        .as_ref()
        .expect("an indexed slot holds a pod")
        .hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_of_one_controller_share_a_shard_and_controllers_spread() {
        let shard = |name: &str| NameHash::new("ns", name).shard;
        assert_eq!(shard("web-5d9c-abcde"), shard("web-5d9c-vwxyz"));
        let mut counts = [0; SHARDS];
        for set in 0..6_400 {
            counts[shard(&format!("web-{set}-abcde")) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (50..200).contains(count)));
        assert_ne!(NameHash::new("a", "x").hash, NameHash::new("b", "x").hash);
        assert_ne!(NameHash::new("a", "").hash, NameHash::new("", "a").hash);
    }
}
