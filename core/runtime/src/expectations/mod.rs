//! Expectations: the creates and deletes that a sync has requested and its cache has not shown yet.
//!
//! After a sync has requested `n` creations or deletions, the controller does not act on the key
//! again until the watch has delivered `n` of them, or until five minutes have passed. A sync calls
//! one of the `expect_*` methods before its first request. Event handlers call the `*_observed`
//! methods. The next sync calls [`satisfied`]. There is no timer: the five minutes take effect only
//! when the key is synced for another reason.
//!
//! Deletions are counted per pod, each at most once, because several sources report them. Creations
//! are only counted. Counters may go below zero, which counts as satisfied.
//!
//! Two stores share one type of entry: [`Expectations`] for dense keys and [`NamedExpectations`]
//! for textual keys. Upstream: `pkg/controller/controller_utils.go`,
//! `UIDTrackingControllerExpectations`. This port has a few atomic words per key instead of one
//! mutex for all keys.
//!
//! # Locks and races
//!
//! * Observing a creation is one atomic subtraction. Observing a deletion is one exchange of a word
//!   that covers 32 pods of the key (`pod_set.rs` describes the protocol). Neither takes a lock.
//!   Replacing a set of pods takes the key's lock, which excludes threads that list the set.
//! * Observations of a key may race with everything. The `expect_*`, `set`, `raise` and `lower`
//!   methods of one key must not race with each other or with `satisfied`. A work queue guarantees
//!   this, because it never syncs one key twice at the same time.
//! * The writes of a thread before its observation are visible to the thread that finds the key
//!   satisfied because of it. Handlers therefore update the cache before they observe, and syncs
//!   check the expectations before they list the pods.
//!
//! [`satisfied`]: ExpectationStore::satisfied

mod entry;
mod fingerprint;
mod named;
mod pod_set;

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

pub use entry::ExpectedCounts;
pub use fingerprint::{Fingerprint, PodKey};
pub use named::NamedEntries;

use crate::intern::{AppendTable, DenseKey};
use entry::Entry;

/// Expectations by dense key. `P` is the type of pod names.
pub type Expectations<K, P> = ExpectationStore<DenseEntries<K, P>>;

/// Expectations by textual key. `P` is the type of pod names.
pub type NamedExpectations<P> = ExpectationStore<NamedEntries<P>>;

/// Finds the entry of a key in a store. Sealed: only [`DenseEntries`] and [`NamedEntries`].
pub trait Entries: Default + sealed::Find {}

mod sealed {
    use super::entry::Entry;

    pub trait Find {
        type Key<'a>: Copy;
        type Pod;

        /// Calls `read` with the entry of the key; returns `None` if there is no entry.
        fn find<R>(
            &self,
            key: Self::Key<'_>,
            read: impl FnOnce(&Entry<Self::Pod>) -> R,
        ) -> Option<R>;

        /// Calls `write` with the entry of the key. Creates the entry if it does not exist.
        fn find_or_make<R>(
            &self,
            key: Self::Key<'_>,
            write: impl FnOnce(&Entry<Self::Pod>) -> R,
        ) -> R;

        /// Clears the expectations of the key.
        fn forget(&self, key: Self::Key<'_>);
    }
}

/// Entries in an array, one cache line each. The entry of a key is never freed, nor is the memory
/// for the key's largest set of deletions.
pub struct DenseEntries<K, P> {
    table: AppendTable<Entry<P>>,
    key: PhantomData<fn(K)>,
}

impl<K, P> Default for DenseEntries<K, P> {
    fn default() -> Self {
        DenseEntries {
            table: AppendTable::new(),
            key: PhantomData,
        }
    }
}

impl<K: DenseKey, P> sealed::Find for DenseEntries<K, P> {
    type Key<'a> = K;
    type Pod = P;

    // Always inlined. Otherwise the rest of the build would decide whether `satisfied` pays for a
    // call and six saved registers.
    #[inline(always)]
    fn find<R>(&self, key: K, read: impl FnOnce(&Entry<P>) -> R) -> Option<R> {
        self.table.get(key.index()).map(read)
    }

    #[inline]
    fn find_or_make<R>(&self, key: K, write: impl FnOnce(&Entry<P>) -> R) -> R {
        write(self.table.get_or_grow(key.index()))
    }

    fn forget(&self, key: K) {
        if let Some(entry) = self.table.get(key.index()) {
            entry.clear();
        }
    }
}

impl<K: DenseKey, P> Entries for DenseEntries<K, P> {}

/// The expectations of many keys. The module's documentation states which calls may race.
///
/// All methods cost O(1), plus the number of pods that they receive or return. All times are in
/// nanoseconds of the same monotonic clock.
#[derive(Default)]
pub struct ExpectationStore<E> {
    entries: E,
}

impl<E: Entries> ExpectationStore<E>
where
    E::Pod: PodKey + Clone,
{
    /// Creates an empty store, in which every key is satisfied.
    pub fn new() -> Self {
        ExpectationStore {
            entries: E::default(),
        }
    }

    /// Replaces the key's expectations with `count` creations and no deletions. If a set of pods is
    /// left over from an earlier [`expect_deletions`](Self::expect_deletions), it still counts.
    #[inline]
    pub fn expect_creations(&self, key: E::Key<'_>, count: i64, now_ns: i64) {
        self.entries
            .find_or_make(key, |entry| entry.expect_creations(count, now_ns));
    }

    /// Replaces the key's expectations with the deletion of these pods, each counted once, and no
    /// creations. Allocates only if the set is larger than all earlier sets of the key.
    pub fn expect_deletions(
        &self,
        key: E::Key<'_>,
        pods: impl IntoIterator<Item = E::Pod>,
        now_ns: i64,
    ) {
        self.entries
            .find_or_make(key, |entry| entry.expect_deletions(pods, now_ns));
    }

    /// Replaces both counters and the timestamp. Does not change the set of pods.
    pub fn set_expectations(&self, key: E::Key<'_>, add: i64, del: i64, now_ns: i64) {
        self.entries
            .find_or_make(key, |entry| entry.set(add, del, now_ns));
    }

    /// Adds to both counters. Does not change the timestamp. Does nothing if the key has no
    /// counters.
    pub fn raise(&self, key: E::Key<'_>, add: i64, del: i64) {
        self.entries.find(key, |entry| entry.raise(add, del));
    }

    /// Subtracts from both counters. Does not change the timestamp. Does nothing if the key has no
    /// counters.
    pub fn lower(&self, key: E::Key<'_>, add: i64, del: i64) {
        self.raise(key, add.wrapping_neg(), del.wrapping_neg());
    }

    /// Counts one creation as observed or as given up. Does nothing if the key has no counters.
    #[inline]
    pub fn creation_observed(&self, key: E::Key<'_>) {
        self.creations_observed(key, 1);
    }

    /// Counts `count` creations as observed or as given up. Does nothing if the key has no
    /// counters.
    #[inline]
    pub fn creations_observed(&self, key: E::Key<'_>, count: i64) {
        self.entries
            .find(key, |entry| entry.creations_observed(count));
    }

    /// Counts the deletion of this pod as observed or as given up. Returns whether the key awaited
    /// the deletion; otherwise changes nothing.
    #[inline]
    pub fn deletion_observed<Q>(&self, key: E::Key<'_>, pod: &Q) -> bool
    where
        E::Pod: Borrow<Q>,
        Q: PodKey + ?Sized,
    {
        self.entries
            .find(key, |entry| entry.deletion_observed(pod))
            .unwrap_or(false)
    }

    /// Reports whether a sync may act on the key: the key has no counters, both counters are at or
    /// below zero, or the timestamp is more than five minutes old.
    ///
    /// Always inlined: every sync calls this once, from one of two places.
    #[inline(always)]
    pub fn satisfied(&self, key: E::Key<'_>, now_ns: i64) -> bool {
        self.entries
            .find(key, |entry| entry.satisfied(now_ns))
            .unwrap_or(true)
    }

    /// Clears the counters and the set of pods of the key.
    pub fn delete(&self, key: E::Key<'_>) {
        self.entries.forget(key);
    }

    /// Returns the counters, each read by itself; `None` if the key has none.
    pub fn counts(&self, key: E::Key<'_>) -> Option<ExpectedCounts> {
        self.entries.find(key, Entry::counts).flatten()
    }

    /// Returns the pods whose deletion the key awaits, in no particular order. `None` if no set is
    /// stored, as opposed to an empty set.
    pub fn pending_deletions(&self, key: E::Key<'_>) -> Option<Vec<E::Pod>> {
        self.entries.find(key, Entry::pending_deletions).flatten()
    }
}

impl<E> fmt::Debug for ExpectationStore<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExpectationStore").finish_non_exhaustive()
    }
}

impl<K, P> fmt::Debug for DenseEntries<K, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DenseEntries").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
