//! Dense ids for names, and a table that is indexed by dense ids.
//!
//! [`KeyTable`] and [`StrTable`] map a name or a string to a `u32` counted from 0. All other
//! modules use this id as an index into an [`AppendTable`], whose readers take no lock. The id of a
//! string means that string for the life of its table. The id of a key means its name until the
//! owner of the table gives the id to another name, once nothing uses the id.
//!
//! Locks: a key table has one `RwLock` for its index and one lock for the name of each id. They are
//! taken in this order when a name is added or an id gets another name. A string table has one
//! `RwLock` for each shard of its index. All locks are held for a single lookup or change, and
//! never across a call out of this module. Reading a string by its id takes no lock.

mod keys;

use std::fmt;
use std::hash::Hash;

use hashbrown::HashTable;

pub use keys::KeyTable;

use podstorm_objects::Str;

use crate::limits::{TABLE_CHUNKS, TABLE_FIRST_CHUNK};
use crate::primitives::{AtomicU32, CachePadded, OnceLock, Ordering, RwLock};

/// The hasher of every table in this crate: fast, with fixed seeds so that runs are repeatable. It
/// does not resist deliberate collisions.
pub const FIXED_STATE: ahash::RandomState = ahash::RandomState::with_seeds(
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
);

/// A key that is a small integer counted from 0, so that arrays can hold the state of each key.
///
/// `from_index(key.index())` is `key`, and indices are below 2^32.
pub trait DenseKey: Copy + Eq + Ord + Hash + fmt::Debug + Send + Sync + 'static {
    /// Returns the key's index in arrays.
    fn index(self) -> usize;

    /// Returns the key with this index.
    ///
    /// # Panics
    /// Panics if the index does not fit into 32 bits.
    fn from_index(index: usize) -> Self;
}

impl DenseKey for u32 {
    #[inline]
    fn index(self) -> usize {
        self as usize
    }

    #[inline]
    fn from_index(index: usize) -> Self {
        u32::try_from(index).expect("dense keys fit into 32 bits")
    }
}

/// The id of a namespace and name in a [`KeyTable`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyId(pub u32);

impl KeyId {
    /// Returns the id's index in arrays.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

impl DenseKey for KeyId {
    #[inline]
    fn index(self) -> usize {
        self.0 as usize
    }

    #[inline]
    fn from_index(index: usize) -> Self {
        KeyId(u32::from_index(index))
    }
}

/// The namespace and name of an object, displayed as `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: Str,
    /// The name of the object.
    pub name: Str,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// A table that only grows and whose entries never move. It consists of chunks of doubling length.
/// Each chunk is allocated as a whole at first use. Entries start as `T::default()`.
///
/// Reading takes no lock and costs two dependent loads. Growing allocates one chunk. If several
/// threads need the same chunk, one of them allocates it and the others wait.
pub struct AppendTable<T> {
    chunks: [OnceLock<Box<[T]>>; TABLE_CHUNKS],
}

/// Returns the chunk that contains an index, and the offset in the chunk. Chunk `c` has the indices
/// from `FIRST * (2^c - 1)` up to but excluding `FIRST * (2^(c+1) - 1)`, so the highest bit of
/// `FIRST` plus the index identifies the chunk.
#[inline]
fn place(index: usize) -> (usize, usize) {
    let shifted = index + TABLE_FIRST_CHUNK;
    let chunk = (shifted.ilog2() - TABLE_FIRST_CHUNK.ilog2()) as usize;
    (chunk, shifted - (TABLE_FIRST_CHUNK << chunk))
}

impl<T: Default> AppendTable<T> {
    /// Creates an empty table. Allocates nothing.
    pub fn new() -> Self {
        AppendTable {
            chunks: std::array::from_fn(|_| OnceLock::new()),
        }
    }

    /// Returns the entry at an index; `None` if its chunk has not been allocated.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&T> {
        let (chunk, offset) = place(index);
        self.chunks.get(chunk)?.get()?.get(offset)
    }

    /// Returns the entry at an index. Allocates the chunk of the entry if necessary.
    ///
    /// # Panics
    /// Panics if the index does not fit into 32 bits.
    #[inline]
    pub fn get_or_grow(&self, index: usize) -> &T {
        let (chunk, offset) = place(index);
        let chunk = self.chunks[chunk].get_or_init(|| {
            (0..TABLE_FIRST_CHUNK << chunk)
                .map(|_| T::default())
                .collect()
        });
        &chunk[offset]
    }

    /// Returns all entries of the allocated chunks, with their indices, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.chunks.iter().enumerate().flat_map(|(chunk, entries)| {
            let first = (TABLE_FIRST_CHUNK << chunk) - TABLE_FIRST_CHUNK;
            let entries = entries.get().map_or(&[][..], |entries| entries);
            entries
                .iter()
                .enumerate()
                .map(move |(offset, entry)| (first + offset, entry))
        })
    }
}

impl<T: Default> Default for AppendTable<T> {
    fn default() -> Self {
        AppendTable::new()
    }
}

impl<T> fmt::Debug for AppendTable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks = self
            .chunks
            .iter()
            .filter(|chunk| chunk.get().is_some())
            .count();
        f.debug_struct("AppendTable")
            .field("chunks", &chunks)
            .finish_non_exhaustive()
    }
}

/// The number of shards of a string table's index: more than the number of threads that look up
/// strings concurrently.
const TEXT_SHARDS: usize = 32;

/// A table of ids for strings, e.g. the names of nodes. Ids are assigned in ascending order.
///
/// The index is in shards, each in separate cache lines, so that threads that look up different
/// strings don't contend for one lock.
#[derive(Debug)]
pub struct StrTable {
    texts: AppendTable<OnceLock<Str>>,
    /// The number of ids in use.
    count: AtomicU32,
    /// The ids by the hash of their strings.
    index: Box<[CachePadded<RwLock<HashTable<u32>>>]>,
}

impl Default for StrTable {
    fn default() -> Self {
        StrTable::new()
    }
}

impl StrTable {
    /// Creates an empty table.
    pub fn new() -> Self {
        StrTable {
            texts: AppendTable::new(),
            count: AtomicU32::new(0),
            index: (0..TEXT_SHARDS).map(|_| CachePadded::default()).collect(),
        }
    }

    /// Returns the id of a string. A new string gets a new id. Takes the lock of a shard for
    /// reading and, for a new string, then for writing. Allocates only for a new string.
    ///
    /// # Panics
    /// Panics if there are already 2^32 strings.
    pub fn intern(&self, text: &str) -> u32 {
        let hash = FIXED_STATE.hash_one(text);
        let shard = self.shard(hash);
        let known = shard
            .read()
            .expect("no thread panics while holding this lock")
            .find(hash, |&id| **self.text_ref(id) == *text)
            .copied();
        if let Some(known) = known {
            return known;
        }
        let mut index = shard
            .write()
            .expect("no thread panics while holding this lock");
        if let Some(&known) = index.find(hash, |&id| **self.text_ref(id) == *text) {
            return known;
        }
        // Relaxed: the counter only produces numbers. The lock makes the string visible before its
        // id.
        let id = self.count.fetch_add(1, Ordering::Relaxed);
        assert!(id < u32::MAX, "ids fit into 32 bits");
        let fresh = self.texts.get_or_grow(id as usize).set(text.into()).is_ok();
        assert!(fresh, "an id is assigned once");
        index.insert_unique(hash, id, |&other| {
            FIXED_STATE.hash_one(&**self.text_ref(other))
        });
        id
    }

    /// Returns the id of a string; `None` if it has none. Takes a lock for reading; allocates
    /// nothing.
    pub fn find(&self, text: &str) -> Option<u32> {
        let hash = FIXED_STATE.hash_one(text);
        self.shard(hash)
            .read()
            .expect("no thread panics while holding this lock")
            .find(hash, |&id| **self.text_ref(id) == *text)
            .copied()
    }

    fn shard(&self, hash: u64) -> &RwLock<HashTable<u32>> {
        // The tables use the seven highest bits for tags and the lowest bits for buckets.
        &self.index[(hash >> 40) as usize % TEXT_SHARDS]
    }

    /// Returns the string with this id as a shared handle. Takes no lock.
    ///
    /// # Panics
    /// Panics if the id does not belong to this table.
    pub fn text(&self, id: u32) -> Str {
        self.text_ref(id).clone()
    }

    /// Returns a reference to the string with this id. Takes no lock.
    ///
    /// # Panics
    /// Panics if the id does not belong to this table.
    pub fn text_ref(&self, id: u32) -> &Str {
        self.texts
            .get(id as usize)
            .and_then(OnceLock::get)
            .expect("the id belongs to this table")
    }

    /// Returns the number of strings. The ids are 0 to this number minus one.
    pub fn len(&self) -> usize {
        // Relaxed: a statistic that orders nothing.
        self.count.load(Ordering::Relaxed) as usize
    }

    /// Reports whether the table has no strings.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense_and_chunks_double() {
        let mut expected = (0, 0);
        for index in 0..100_000 {
            assert_eq!(place(index), expected, "index {index}");
            expected.1 += 1;
            if expected.1 == TABLE_FIRST_CHUNK << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place(u32::MAX as usize).0 < TABLE_CHUNKS);
    }

    #[test]
    fn entries_start_as_default_and_never_move() {
        let table = AppendTable::<OnceLock<u32>>::new();
        assert!(table.get(0).is_none());
        let first = std::ptr::from_ref(table.get_or_grow(3));
        table.get_or_grow(3).set(7).expect("unset");
        table.get_or_grow(10_000).set(8).expect("unset");
        assert_eq!(std::ptr::from_ref(table.get(3).expect("grown")), first);
        let set: Vec<_> = table
            .iter()
            .filter_map(|(at, entry)| entry.get().map(|&v| (at, v)))
            .collect();
        assert_eq!(set, [(3, 7), (10_000, 8)]);
    }

    #[test]
    fn texts_keep_their_first_id_under_races() {
        let table = StrTable::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for n in 0..500 {
                        let text = format!("node-{n}");
                        assert_eq!(&*table.text(table.intern(&text)), text);
                    }
                });
            }
        });
        assert_eq!(table.len(), 500);
        assert!(!table.is_empty());
    }
}
