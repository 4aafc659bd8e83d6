//! The expectations of one key: two counters, a timestamp, and the set of pods to be deleted.

use std::borrow::Borrow;

use super::fingerprint::PodKey;
use super::pod_set::{Live, PodSet};
use crate::limits::EXPECTATIONS_TIMEOUT_NS;
use crate::primitives::{AtomicI64, AtomicU64, OnceLock, Ordering};

/// The timestamp of an entry without counters.
const ABSENT: i64 = i64::MIN;

/// The counters of one key at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpectedCounts {
    /// The number of creations still to be observed; negative if more were observed than expected.
    pub add: i64,
    /// The number of deletions still to be observed; negative if more were observed than expected.
    pub del: i64,
    /// When the counters were last replaced, in ns of the monotonic clock.
    pub timestamp_ns: i64,
}

/// The expectations of one key, in a separate cache line.
///
/// The number of deletions still to be observed is `del_base` plus the number of pods in the
/// current set. The observation of a deletion therefore changes only one word, in the set.
#[repr(align(64))]
#[derive(Debug)]
pub struct Entry<P> {
    /// The number of creations. Replaced by the sync of the key, lowered by any thread.
    add: AtomicI64,
    /// See [`Entry`]. Written by the sync of the key, and by a thread that clears the key.
    del_base: AtomicI64,
    /// The time of the counters; `ABSENT` if there are none. Replaced by the sync of the key.
    timestamp_ns: AtomicI64,
    /// The name of the current set. Written like `del_base`.
    live: AtomicU64,
    /// The sets of pods. Created at first use, because most keys never delete pods.
    sets: OnceLock<Box<PodSet<P>>>,
}

impl<P> Default for Entry<P> {
    fn default() -> Self {
        Entry {
            add: AtomicI64::new(0),
            del_base: AtomicI64::new(0),
            timestamp_ns: AtomicI64::new(ABSENT),
            live: AtomicU64::new(0),
            sets: OnceLock::new(),
        }
    }
}

impl<P> Entry<P> {
    /// Reports whether the key has counters.
    #[inline]
    fn is_present(&self) -> bool {
        // Relaxed: a thread that must see the counters learns of them from the answer to a request
        // that was made after they were stored.
        self.timestamp_ns.load(Ordering::Relaxed) != ABSENT
    }

    /// Returns the number of pods in the current set.
    #[inline]
    fn waiting(&self, live: Live) -> i64 {
        self.sets.get().map_or(0, |sets| sets.waiting(live))
    }

    /// Clears everything except the storage.
    pub(super) fn clear(&self) {
        // Relaxed, all: the caller orders the stores. A reader that sees some of them early sees a
        // satisfied key, and the key is about to become satisfied.
        self.timestamp_ns.store(ABSENT, Ordering::Relaxed);
        self.add.store(0, Ordering::Relaxed);
        self.del_base.store(0, Ordering::Relaxed);
        Live::clear(&self.live);
    }

    /// Stores the timestamp first; the counters publish it. A reader that sees a new counter
    /// therefore never compares it with an old timestamp.
    #[inline]
    pub(super) fn expect_creations(&self, count: i64, now_ns: i64) {
        // Relaxed: published by the store of `add` below.
        self.timestamp_ns.store(now_ns, Ordering::Relaxed);
        let live = Live::load(&self.live);
        // Relaxed: as above. If a pod of a leftover set is observed while the pods are counted,
        // either the observation lowers the zero, or the zero overwrites it.
        let left = if live.has_table() {
            self.left_over(live)
        } else {
            0
        };
        self.del_base.store(-left, Ordering::Relaxed);
        // Release: pairs with the Acquire of `satisfied`.
        self.add.store(count, Ordering::Release);
    }

    /// Returns the number of pods in a leftover set. If there are none, marks the set as empty, so
    /// that it is not searched again.
    #[cold]
    fn left_over(&self, live: Live) -> i64 {
        let left = self.waiting(live);
        if left == 0 {
            live.mark_empty(&self.live);
        }
        left
    }

    pub(super) fn set(&self, add: i64, del: i64, now_ns: i64) {
        // Relaxed: published by the stores of the counters below.
        self.timestamp_ns.store(now_ns, Ordering::Relaxed);
        let waiting = self.waiting(Live::load(&self.live));
        // Release, both: pair with the Acquire of `satisfied`.
        self.del_base
            .store(del.wrapping_sub(waiting), Ordering::Release);
        self.add.store(add, Ordering::Release);
    }

    pub(super) fn raise(&self, add: i64, del: i64) {
        if self.is_present() {
            // Release, both: pair with the Acquire of `satisfied`. Relaxed load: written by the
            // key's own sync only.
            self.add.fetch_add(add, Ordering::Release);
            self.del_base.store(
                self.del_base.load(Ordering::Relaxed).wrapping_add(del),
                Ordering::Release,
            );
        }
    }

    #[inline]
    pub(super) fn creations_observed(&self, count: i64) {
        if self.is_present() {
            // Release: the sync that this satisfies sees the handler's changes to the cache. Pairs
            // with the Acquire of `satisfied`.
            self.add.fetch_sub(count, Ordering::Release);
        }
    }

    #[inline]
    pub(super) fn satisfied(&self, now_ns: i64) -> bool {
        // Acquire: pairs with the Release of the thread that lowered or replaced the counter.
        let add = self.add.load(Ordering::Acquire);
        if add <= 0 && self.deletions_seen() {
            return true;
        }
        // Relaxed: stored before the counters that were read above.
        let timestamp_ns = self.timestamp_ns.load(Ordering::Relaxed);
        timestamp_ns == ABSENT || now_ns.saturating_sub(timestamp_ns) > EXPECTATIONS_TIMEOUT_NS
    }

    /// Reports whether all deletions have been observed. While the set is read, pods are removed
    /// but not added, so every pod that is found was there from the start.
    #[inline]
    fn deletions_seen(&self) -> bool {
        let live = Live::load(&self.live);
        // Acquire: as in `satisfied`.
        let base = self.del_base.load(Ordering::Acquire);
        if live.has_table() && base <= 0 {
            self.set_is_seen(live, base)
        } else {
            base <= 0
        }
    }

    /// Kept out of line: most keys never delete, and the fast path of `satisfied` has no registers
    /// to spare.
    #[cold]
    fn set_is_seen(&self, live: Live, base: i64) -> bool {
        self.sets.get().is_none_or(|sets| match base {
            0 => !sets.is_waiting(live),
            _ => base.wrapping_add(sets.waiting(live)) <= 0,
        })
    }

    pub(super) fn counts(&self) -> Option<ExpectedCounts> {
        // Acquire, both, and Relaxed: as in `satisfied`.
        let add = self.add.load(Ordering::Acquire);
        let del_base = self.del_base.load(Ordering::Acquire);
        let timestamp_ns = self.timestamp_ns.load(Ordering::Relaxed);
        (timestamp_ns != ABSENT).then(|| ExpectedCounts {
            add,
            del: del_base.wrapping_add(self.waiting(Live::load(&self.live))),
            timestamp_ns,
        })
    }

    #[inline]
    pub(super) fn deletion_observed<Q>(&self, pod: &Q) -> bool
    where
        P: Borrow<Q>,
        Q: PodKey + ?Sized,
    {
        let live = Live::load(&self.live);
        if !live.has_table() {
            return false;
        }
        let sets = self.sets.get();
        sets.is_some_and(|sets| sets.take(&self.live, live, pod.fingerprint()))
    }
}

impl<P: PodKey + Clone> Entry<P> {
    pub(super) fn expect_deletions(&self, pods: impl IntoIterator<Item = P>, now_ns: i64) {
        let sets = self.sets.get_or_init(|| Box::new(PodSet::new()));
        sets.replace(Live::load(&self.live), pods, |live| {
            // Relaxed, all: published by the store of `live`. A pod of the previous set cannot
            // lower what is stored here.
            self.timestamp_ns.store(now_ns, Ordering::Relaxed);
            self.add.store(0, Ordering::Relaxed);
            self.del_base.store(0, Ordering::Relaxed);
            // Release: pairs with the Acquire of `Live::load`.
            self.live.store(live, Ordering::Release);
        });
    }

    pub(super) fn pending_deletions(&self) -> Option<Vec<P>> {
        self.sets.get()?.pending(&self.live)
    }
}

#[cfg(not(any(feature = "loom", feature = "shuttle")))]
const _: () = assert!(size_of::<Entry<u64>>() == 64);
