//! The expectations of one key: two counters, a time stamp, and the set of pods to be deleted.

use std::borrow::Borrow;
use std::hash::Hash;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;

use crate::intern::FIXED_STATE;
use crate::limits::EXPECTATIONS_TIMEOUT_NS;
use crate::primitives::{AtomicI64, AtomicUsize, Mutex, OnceLock, Ordering, lock};

/// The time stamp of an entry without counters.
const ABSENT: i64 = i64::MIN;

/// The counters of a key at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Creations still to be seen; below zero when more were seen.
    pub add: i64,
    /// Deletions still to be seen; below zero when more were seen.
    pub del: i64,
    /// When the counters were last replaced.
    pub timestamp_ns: i64,
}

/// One key's expectations, alone on its cache line.
#[repr(align(64))]
#[derive(Debug)]
pub struct Entry<P> {
    /// Replaced by the sync of the key, lowered by any thread.
    add: AtomicI64,
    /// Written under the lock of `sets` only, but for the zero it already holds.
    del: AtomicI64,
    /// `ABSENT` when there are no counters. Replaced by the sync of the key.
    timestamp_ns: AtomicI64,
    /// 0: no set is stored; otherwise 1 + the pods in it. Written under the lock of `sets`.
    waiting: AtomicUsize,
    /// Made at the first use that needs it: most keys never delete.
    sets: OnceLock<Box<Mutex<Sets<P>>>>,
}

/// Two sets take turns, so that a set is built outside the lock in storage that is there already.
#[derive(Debug)]
struct Sets<P> {
    live: HashTable<P>,
    spare: HashTable<P>,
}

impl<P> Default for Entry<P> {
    fn default() -> Self {
        Entry {
            add: AtomicI64::new(0),
            del: AtomicI64::new(0),
            timestamp_ns: AtomicI64::new(ABSENT),
            waiting: AtomicUsize::new(0),
            sets: OnceLock::new(),
        }
    }
}

impl<P> Entry<P> {
    fn sets(&self) -> &Mutex<Sets<P>> {
        self.sets.get_or_init(|| {
            Box::new(Mutex::new(Sets {
                live: HashTable::new(),
                spare: HashTable::new(),
            }))
        })
    }

    /// Whether there are counters.
    #[inline]
    fn is_present(&self) -> bool {
        // Relaxed: who must see the counters is told of them by the answer to a request that was
        // made after they were stored.
        self.timestamp_ns.load(Ordering::Relaxed) != ABSENT
    }

    /// Forgets everything but the storage.
    pub(super) fn clear(&self) {
        let mut sets = self.sets.get().map(|sets| lock(sets));
        // Relaxed, all four: the lock or the caller's own order stands for them; a reader that sees
        // some of them early sees a satisfied key, which this is about to be.
        self.timestamp_ns.store(ABSENT, Ordering::Relaxed);
        self.add.store(0, Ordering::Relaxed);
        self.del.store(0, Ordering::Relaxed);
        self.waiting.store(0, Ordering::Relaxed);
        if let Some(sets) = &mut sets {
            sets.live.clear();
        }
    }

    /// The time stamp goes first and the counters publish it: a reader that sees a new counter never
    /// judges it by an old time.
    #[inline]
    pub(super) fn expect_creations(&self, count: i64, now_ns: i64) {
        // Relaxed: published by the store of `add` below.
        self.timestamp_ns.store(now_ns, Ordering::Relaxed);
        // Relaxed: a racing deletion lowers it after this call, or is forgotten by the zero.
        if self.del.load(Ordering::Relaxed) != 0 {
            let _sets = lock(self.sets());
            // Relaxed: published by the store of `add` below.
            self.del.store(0, Ordering::Relaxed);
        }
        // Release: pairs with the Acquire of `satisfied`.
        self.add.store(count, Ordering::Release);
    }

    pub(super) fn set(&self, add: i64, del: i64, now_ns: i64) {
        let _sets = lock(self.sets());
        // Relaxed: published by the stores of the counters below.
        self.timestamp_ns.store(now_ns, Ordering::Relaxed);
        // Release, both: pair with the Acquire of `satisfied`.
        self.del.store(del, Ordering::Release);
        self.add.store(add, Ordering::Release);
    }

    pub(super) fn raise(&self, add: i64, del: i64) {
        let _sets = lock(self.sets());
        if self.is_present() {
            // Release, both: pair with the Acquire of `satisfied`. Relaxed load: under the lock.
            self.add.fetch_add(add, Ordering::Release);
            self.del.store(
                self.del.load(Ordering::Relaxed).wrapping_add(del),
                Ordering::Release,
            );
        }
    }

    #[inline]
    pub(super) fn creations_observed(&self, count: i64) {
        if self.is_present() {
            // Release: what the handler did to the cache is seen by the sync that is satisfied by
            // it; pairs with the Acquire of `satisfied`.
            self.add.fetch_sub(count, Ordering::Release);
        }
    }

    #[inline]
    pub(super) fn satisfied(&self, now_ns: i64) -> bool {
        // Acquire, both: pair with the Release of whoever lowered or replaced the counters.
        let add = self.add.load(Ordering::Acquire);
        let del = self.del.load(Ordering::Acquire);
        if add <= 0 && del <= 0 {
            return true;
        }
        // Relaxed: stored before the counters that were read above.
        let timestamp_ns = self.timestamp_ns.load(Ordering::Relaxed);
        timestamp_ns == ABSENT || now_ns.saturating_sub(timestamp_ns) > EXPECTATIONS_TIMEOUT_NS
    }

    pub(super) fn counts(&self) -> Option<Counts> {
        // Acquire, both, and Relaxed: as in `satisfied`.
        let add = self.add.load(Ordering::Acquire);
        let del = self.del.load(Ordering::Acquire);
        let timestamp_ns = self.timestamp_ns.load(Ordering::Relaxed);
        (timestamp_ns != ABSENT).then_some(Counts {
            add,
            del,
            timestamp_ns,
        })
    }
}

impl<P: Eq + Hash + Clone> Entry<P> {
    pub(super) fn expect_deletions(&self, pods: impl IntoIterator<Item = P>, now_ns: i64) {
        let mut fresh = std::mem::take(&mut lock(self.sets()).spare);
        let pods = pods.into_iter();
        fresh.reserve(pods.size_hint().0, hash);
        for pod in pods {
            if let Slot::Vacant(slot) = fresh.entry(hash(&pod), |other| *other == pod, hash) {
                slot.insert(pod);
            }
        }
        let count = fresh.len();
        let mut old = {
            let mut sets = lock(self.sets());
            let old = std::mem::replace(&mut sets.live, fresh);
            // Release: pairs with the Acquire of `deletion_observed`.
            self.waiting.store(count + 1, Ordering::Release);
            // Relaxed: published by the stores of the counters below.
            self.timestamp_ns.store(now_ns, Ordering::Relaxed);
            // Release, both: pair with the Acquire of `satisfied`.
            self.add.store(0, Ordering::Release);
            self.del.store(
                i64::try_from(count).expect("fits in memory"),
                Ordering::Release,
            );
            old
        };
        old.clear();
        lock(self.sets()).spare = old;
    }

    #[inline]
    pub(super) fn deletion_observed<Q>(&self, pod: &Q) -> bool
    where
        P: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        // Acquire: pairs with the Release that published the set. No set and an empty one alike
        // cannot hold the pod.
        if self.waiting.load(Ordering::Acquire) <= 1 {
            return false;
        }
        let hash = FIXED_STATE.hash_one(pod);
        let Some(sets) = self.sets.get() else {
            return false;
        };
        let mut sets = lock(sets);
        let Ok(slot) = sets.live.find_entry(hash, |other| other.borrow() == pod) else {
            return false;
        };
        let (removed, _) = slot.remove();
        // Release: a reader that skips the lock still sees what came before; see `satisfied`.
        self.waiting.store(sets.live.len() + 1, Ordering::Release);
        if self.is_present() {
            // Release: as in `creations_observed`. Relaxed load: written under this lock only.
            self.del.store(
                self.del.load(Ordering::Relaxed).wrapping_sub(1),
                Ordering::Release,
            );
        }
        drop(sets);
        drop(removed);
        true
    }

    pub(super) fn pending_deletions(&self) -> Option<Vec<P>> {
        let sets = lock(self.sets.get()?);
        // Relaxed: written under this lock only.
        let stored = self.waiting.load(Ordering::Relaxed) > 0;
        stored.then(|| sets.live.iter().cloned().collect())
    }
}

#[inline]
fn hash<P: Hash>(pod: &P) -> u64 {
    FIXED_STATE.hash_one(pod)
}

const _: () = assert!(size_of::<Entry<u64>>() == 64);
