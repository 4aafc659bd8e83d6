//! The pods whose deletion one key awaits. The key's sync replaces the set. Any thread can remove a
//! pod from it, without a lock, and each pod is removed only once.
//!
//! # How it works
//!
//! A set is a hash table with linear probing. Each bucket is empty or has the fingerprint of a pod.
//! Each bucket also has a bit, which is set while the key awaits the pod. To take a pod, a thread
//! finds the bucket and clears the bit by one exchange. The number of set bits is the number of
//! awaited pods. There is no separate counter that could disagree with the bits.
//!
//! The word `live` names the current table and its **epoch**: the number of the set among the key's
//! sets. Sets of odd and even epochs are in different tables, so the current table does not change
//! until the next one is complete. Tables are reused and never freed. Each word has the bits of 32
//! pods, and the epoch of these bits. If a thread sleeps through two replacements, its exchange
//! therefore fails, and the thread starts again. (A false match needs 2^32 sets during its sleep.)
//!
//! A replacement has these steps, in order: **close** the unused table (set all words to the new
//! epoch without bits), empty the buckets, write the fingerprints, set the bits, and name the table
//! in `live`. A thread that reads buckets while they are rewritten finds that the words are closed
//! or that `live` has changed. It checks one of the two before it trusts the values it has read.

use std::slice;

use super::fingerprint::{Fingerprint, PodKey};
use crate::primitives::{
    AtomicU64, Mutex, OnceLock, Ordering, fence, load_to_exchange, lock, store_among_exchanges,
};

/// The number of buckets in the smallest table. Each larger size has twice as many. The model
/// checkers use small tables, because models must reach all sizes.
const FIRST_BUCKETS: usize = if cfg!(any(feature = "loom", feature = "shuttle")) {
    2
} else {
    BITS
};
/// The number of bits in a word that mark awaited pods. The upper half of the word is the epoch.
const BITS: usize = 32;
/// The number of table sizes, after the first, for which a key has a pointer from the start. The
/// largest of these tables has 1,024 buckets, enough for the largest burst of a sync.
const SMALL_SIZES: usize = 5;
/// The number of larger sizes. The largest table has 2^31 buckets.
const LARGE_SIZES: usize = 21;

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(crate::limits::BURST_REPLICAS * 2 <= FIRST_BUCKETS << SMALL_SIZES);
#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(FIRST_BUCKETS << (SMALL_SIZES + LARGE_SIZES) == 1 << 31);

/// The name of the current set. The upper half is the epoch. The lower half is 0 if no set is
/// stored, 1 for the empty set, and otherwise 2 plus the index of the table's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Live(u64);

impl Live {
    const EMPTY: u64 = 1;
    const FIRST_SIZE: u64 = 2;

    /// Loads the name of the set. Acquire: pairs with the Release that stored the name.
    #[inline]
    pub(super) fn load(word: &AtomicU64) -> Live {
        Live(word.load(Ordering::Acquire))
    }

    #[inline]
    pub(super) fn is_stored(self) -> bool {
        self.0 as u32 != 0
    }

    /// Reports whether the set has a table.
    #[inline]
    pub(super) fn has_table(self) -> bool {
        self.0 as u32 >= Live::FIRST_SIZE as u32
    }

    /// Returns the index of the table's size; `None` if the set has no table.
    #[inline]
    fn size(self) -> Option<usize> {
        (self.0 as u32 as usize).checked_sub(Live::FIRST_SIZE as usize)
    }

    #[inline]
    fn epoch(self) -> u64 {
        self.0 >> BITS << BITS
    }

    fn with(epoch: u64, below: u64) -> Live {
        Live(epoch | below)
    }

    /// Clears the set but keeps the epoch.
    pub(super) fn clear(word: &AtomicU64) {
        // Relaxed: like the counters that are cleared with it. An exchange ensures that the epoch
        // never goes back.
        word.fetch_and(u64::MAX << BITS, Ordering::Relaxed);
    }

    /// Marks a set without awaited pods as empty, so that its table is not searched again.
    pub(super) fn mark_empty(self, word: &AtomicU64) {
        // Relaxed, both: all bits of that table are already clear. If the set has been replaced in
        // the meantime, there is nothing to mark.
        let empty = Live::with(self.epoch(), Live::EMPTY).0;
        let _ = word.compare_exchange(self.0, empty, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// The two sets of tables of one key, and the names in its latest set.
#[derive(Debug)]
pub(super) struct PodSet<P> {
    /// The tables for even and for odd epochs.
    tables: [Tables; 2],
    /// Every pod of the latest set, once. The lock is held while the set is replaced or listed.
    names: Mutex<Vec<P>>,
}

#[derive(Debug, Default)]
struct Tables {
    /// The smallest table, inline: a lookup then follows one pointer instead of three.
    first: FirstTable,
    small: [OnceLock<Box<LargerTable>>; SMALL_SIZES],
    large: OnceLock<Box<[OnceLock<Box<LargerTable>>; LARGE_SIZES]>>,
}

impl Tables {
    #[inline]
    fn get(&self, size: usize) -> Option<Table<'_>> {
        let Some(stored) = size.checked_sub(1) else {
            return Some(self.first.table());
        };
        let stored = match self.small.get(stored) {
            Some(stored) => stored,
            None => &self.large.get()?[stored - SMALL_SIZES],
        };
        stored.get().map(|stored| stored.table())
    }

    fn get_or_make(&self, size: usize) -> Table<'_> {
        let Some(at) = size.checked_sub(1) else {
            return self.first.table();
        };
        let stored = match self.small.get(at) {
            Some(stored) => stored,
            None => &self.large.get_or_init(Box::default)[at - SMALL_SIZES],
        };
        let make = || Box::new(LargerTable::new(FIRST_BUCKETS << size));
        stored.get_or_init(make).table()
    }
}

/// The table of the first size.
#[derive(Debug, Default)]
struct FirstTable {
    word: AtomicU64,
    buckets: [Bucket; FIRST_BUCKETS],
}

impl FirstTable {
    #[inline]
    fn table(&self) -> Table<'_> {
        Table {
            buckets: &self.buckets,
            words: slice::from_ref(&self.word),
        }
    }
}

/// A table of any other size.
#[derive(Debug)]
struct LargerTable {
    buckets: Box<[Bucket]>,
    words: Box<[AtomicU64]>,
}

impl LargerTable {
    fn new(buckets: usize) -> LargerTable {
        LargerTable {
            buckets: (0..buckets).map(|_| Bucket::default()).collect(),
            words: (0..buckets.div_ceil(BITS))
                .map(|_| AtomicU64::new(0))
                .collect(),
        }
    }

    #[inline]
    fn table(&self) -> Table<'_> {
        Table {
            buckets: &self.buckets,
            words: &self.words,
        }
    }
}

/// A table, with at least twice as many buckets as pods.
#[derive(Clone, Copy)]
struct Table<'a> {
    /// Fingerprints, or zeros for empty buckets. Written only by the thread that replaces the set.
    buckets: &'a [Bucket],
    /// One word for each `BITS` buckets, with the epoch in the upper half and the bits in the
    /// lower. The thread that replaces the set closes, fills and opens the words. Any thread may
    /// clear bits, as long as the epoch is the one it knows.
    words: &'a [AtomicU64],
}

#[derive(Debug, Default)]
struct Bucket {
    spread: AtomicU64,
    rest: AtomicU64,
}

/// The error that the words of the table now belong to another set.
struct EpochChanged;

impl Table<'_> {
    /// Returns the bucket where the search for a fingerprint begins.
    #[inline]
    fn first_bucket(self, fingerprint: Fingerprint) -> usize {
        // The upper half times the number of buckets is below 2^63.
        ((fingerprint.spread >> 32) as usize * self.buckets.len()) >> 32
    }

    /// Returns the bucket with a fingerprint; `None` if there is none. The result may be wrong
    /// while the table is rewritten.
    #[inline]
    fn find(self, fingerprint: Fingerprint) -> Option<usize> {
        let mut at = self.first_bucket(fingerprint);
        // At most one full pass: while a table is rewritten, it may have no empty bucket.
        for _ in 0..self.buckets.len() {
            let bucket = &self.buckets[at];
            // Relaxed, both: `live` was loaded with Acquire before, and the fence and check that
            // follow detect a rewrite.
            let rest = bucket.rest.load(Ordering::Relaxed);
            if rest == fingerprint.rest
                && bucket.spread.load(Ordering::Relaxed) == fingerprint.spread
            {
                return Some(at);
            }
            if rest == 0 {
                return None;
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
        None
    }

    /// Clears the bit of a bucket. Returns whether it was set.
    #[inline]
    fn take(self, at: usize, epoch: u64) -> Result<bool, EpochChanged> {
        let (word, bit) = (&self.words[at / BITS], 1 << (at % BITS));
        // Acquire: if the buckets were read during a rewrite, this thread finds the words closed.
        fence(Ordering::Acquire);
        let mut seen = load_to_exchange(word);
        loop {
            if (seen ^ epoch) >> BITS != 0 {
                return Err(EpochChanged);
            }
            if seen & bit == 0 {
                return Ok(false);
            }
            // Release: the sync that this satisfies sees the handler's changes to the cache. Pairs
            // with the Acquire of `waiting`.
            let taken =
                word.compare_exchange_weak(seen, seen & !bit, Ordering::Release, Ordering::Relaxed);
            match taken {
                Ok(_) => return Ok(true),
                Err(other) => seen = other,
            }
        }
    }

    /// Fills the table with the pods of a new set. Removes duplicates from `pods`.
    fn fill<P: PodKey>(self, epoch: u64, pods: &mut Vec<P>) {
        // Release: a thread that finds a word closed, and then fences, sees that `live` names
        // another set than the one it knew.
        fence(Ordering::Release);
        // Relaxed, all: published by the fence and finally by `live`.
        for word in self.words {
            store_among_exchanges(word, epoch);
        }
        // Release: a thread that reads one of the stores below, and then fences, sees the words
        // closed.
        fence(Ordering::Release);
        for bucket in self.buckets {
            bucket.rest.store(0, Ordering::Relaxed);
        }
        pods.retain(|pod| {
            let fingerprint = pod.fingerprint();
            let mut at = self.first_bucket(fingerprint);
            loop {
                let bucket = &self.buckets[at];
                let rest = bucket.rest.load(Ordering::Relaxed);
                if rest == 0 {
                    break;
                }
                if rest == fingerprint.rest
                    && bucket.spread.load(Ordering::Relaxed) == fingerprint.spread
                {
                    return false;
                }
                at = (at + 1) & (self.buckets.len() - 1);
            }
            self.buckets[at]
                .spread
                .store(fingerprint.spread, Ordering::Relaxed);
            self.buckets[at]
                .rest
                .store(fingerprint.rest, Ordering::Relaxed);
            // A load and a store suffice: no other thread exchanges words of an epoch that is not
            // published yet.
            let word = &self.words[at / BITS];
            let bits = word.load(Ordering::Relaxed) | 1 << (at % BITS);
            store_among_exchanges(word, bits);
            true
        });
    }

    /// Returns the bits of each word; 0 for a word of another epoch.
    #[inline]
    fn bits(self, epoch: u64) -> impl Iterator<Item = u32> {
        self.words.iter().map(move |word| {
            // Acquire: pairs with the Release of `take`; a sequence of exchanges counts as a whole.
            let word = word.load(Ordering::Acquire);
            if (word ^ epoch) >> BITS == 0 {
                word as u32
            } else {
                0
            }
        })
    }
}

impl<P> PodSet<P> {
    pub(super) fn new() -> Self {
        PodSet {
            tables: [Tables::default(), Tables::default()],
            names: Mutex::new(Vec::new()),
        }
    }

    #[inline]
    fn table(&self, live: Live) -> Option<Table<'_>> {
        let size = live.size()?;
        self.tables[(live.0 >> BITS & 1) as usize].get(size)
    }

    /// Returns the number of pods that the set awaits. O(buckets of the set).
    #[inline]
    pub(super) fn waiting(&self, live: Live) -> i64 {
        let table = self.table(live);
        table.map_or(0, |table| {
            table
                .bits(live.epoch())
                .map(|bits| i64::from(bits.count_ones()))
                .sum()
        })
    }

    /// Reports whether the set awaits any pod. Cheaper than counting the pods.
    #[inline]
    pub(super) fn is_waiting(&self, live: Live) -> bool {
        let table = self.table(live);
        table.is_some_and(|table| table.bits(live.epoch()).fold(0, |all, bits| all | bits) != 0)
    }

    /// Removes a pod from the current set. Returns whether the pod was in it.
    #[inline]
    pub(super) fn take(&self, word: &AtomicU64, mut live: Live, fingerprint: Fingerprint) -> bool {
        loop {
            let Some(table) = self.table(live) else {
                return false;
            };
            match table.find(fingerprint) {
                Some(at) => {
                    if let Ok(taken) = table.take(at, live.epoch()) {
                        return taken;
                    }
                    // Acquire: pairs with the fence before the words are closed, so that this
                    // thread does not find the same closed words again.
                    fence(Ordering::Acquire);
                    live = Live::load(word);
                }
                None => {
                    // Acquire: a table is rewritten only after `live` has named the other one.
                    fence(Ordering::Acquire);
                    let now = Live::load(word);
                    if now == live {
                        return false;
                    }
                    live = now;
                }
            }
        }
    }
}

impl<P: PodKey + Clone> PodSet<P> {
    /// Builds the next set in the unused table. Calls `publish` with the value that it must store
    /// in `live` with Release.
    pub(super) fn replace(
        &self,
        live: Live,
        pods: impl IntoIterator<Item = P>,
        publish: impl FnOnce(u64),
    ) {
        let mut names = lock(&self.names);
        names.clear();
        names.extend(pods);
        let epoch = live.epoch().wrapping_add(1 << BITS);
        if names.is_empty() {
            publish(Live::with(epoch, Live::EMPTY).0);
            return;
        }
        let buckets = (2 * names.len()).next_power_of_two().max(FIRST_BUCKETS);
        let size = (buckets / FIRST_BUCKETS).ilog2();
        let next = Live::with(epoch, Live::FIRST_SIZE + u64::from(size));
        let tables = &self.tables[(epoch >> BITS & 1) as usize];
        tables.get_or_make(size as usize).fill(epoch, &mut names);
        publish(next.0);
    }

    /// Returns the awaited pods of the current set; `None` if no set is stored.
    pub(super) fn pending(&self, word: &AtomicU64) -> Option<Vec<P>> {
        let names = lock(&self.names);
        let live = Live::load(word);
        if !live.is_stored() {
            return None;
        }
        let Some(table) = self.table(live) else {
            return Some(Vec::new());
        };
        let waits = |pod: &&P| {
            table.find(pod.fingerprint()).is_some_and(|at| {
                // Relaxed: a snapshot. The set can't be replaced while this thread has the lock.
                table.words[at / BITS].load(Ordering::Relaxed) >> (at % BITS) & 1 == 1
            })
        };
        Some(names.iter().filter(waits).cloned().collect())
    }
}
