//! Expectations: what a sync has asked for and its cache has not shown yet.
//!
//! After asking for `n` creations or deletions, a key is not acted upon again until the watch has
//! delivered as many, or five minutes have passed. A sync calls one of the `expect_*` before its
//! first request; event handlers call the `*_observed`; the next sync asks [`satisfied`]. Nothing
//! runs by itself: that the five minutes are over shows when the key is synced for another reason.
//!
//! Deletions are counted by pod, each at most once, because they are learnt from several sources;
//! creations are only counted. Counters may go below zero, which is satisfied.
//!
//! Two stores share one kind of entry: [`Expectations`] for dense keys and [`NamedExpectations`] for
//! textual ones. Upstream: `pkg/controller/controller_utils.go`, `UIDTrackingControllerExpectations`,
//! with a few atomic words per key in place of one mutex for all.
//!
//! # Locks and races
//!
//! * Observing a creation is one atomic subtraction, observing a deletion one exchange of a word that
//!   holds 32 pods of that key (`pod_set.rs` tells the protocol). Neither takes a lock. Naming the pods
//!   of a set takes the key's own, which keeps out who lists them.
//! * Observations of a key race freely with everything. The `expect_*`, `set`, `raise` and `lower` of
//!   one key must not race with each other, nor with `satisfied`: a work queue that never syncs one
//!   key twice at once sees to it.
//! * What a thread did before observing is visible to the thread that finds the key satisfied by it:
//!   so update the cache first, observe then; ask first, list the pods then.
//!
//! [`satisfied`]: ExpectationStore::satisfied

mod entry;
mod fingerprint;
mod named;
mod pod_set;

use std::borrow::Borrow;
use std::fmt;
use std::marker::PhantomData;

pub use entry::Counts;
pub use fingerprint::{Fingerprint, PodKey};
pub use named::NamedEntries;

use crate::intern::{AppendTable, DenseKey};
use entry::Entry;

/// Expectations by dense key; `P` names a pod.
pub type Expectations<K, P> = ExpectationStore<DenseEntries<K, P>>;

/// Expectations by textual key; `P` names a pod.
pub type NamedExpectations<P> = ExpectationStore<NamedEntries<P>>;

/// How a store finds the entry of a key. Sealed: [`DenseEntries`] and [`NamedEntries`].
pub trait Entries: Default + sealed::Find {}

mod sealed {
    use super::entry::Entry;

    pub trait Find {
        type Key<'a>: Copy;
        type Pod;

        /// Calls `read` with the entry, if there is one.
        fn find<R>(
            &self,
            key: Self::Key<'_>,
            read: impl FnOnce(&Entry<Self::Pod>) -> R,
        ) -> Option<R>;

        /// Calls `write` with the entry, made if need be.
        fn find_or_make<R>(
            &self,
            key: Self::Key<'_>,
            write: impl FnOnce(&Entry<Self::Pod>) -> R,
        ) -> R;

        /// Forgets what the key expects.
        fn forget(&self, key: Self::Key<'_>);
    }
}

/// Entries in an array, one cache line each. A key's entry stays for the life of the store; with it
/// the room for its largest set of deletions.
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

    #[inline]
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

/// The expectations of many keys; see the module's page for who may call what when.
///
/// All methods cost O(1) but for the number of pods they are given or return. All times are
/// nanoseconds on one monotonic line.
#[derive(Default)]
pub struct ExpectationStore<E> {
    entries: E,
}

impl<E: Entries> ExpectationStore<E>
where
    E::Pod: PodKey + Clone,
{
    /// An empty store: every key is satisfied.
    pub fn new() -> Self {
        ExpectationStore {
            entries: E::default(),
        }
    }

    /// Replaces what the key expects by `count` creations and no deletion. A set of pods left from
    /// an earlier [`expect_deletions`](Self::expect_deletions) stays, and still counts.
    #[inline]
    pub fn expect_creations(&self, key: E::Key<'_>, count: i64, now_ns: i64) {
        self.entries
            .find_or_make(key, |entry| entry.expect_creations(count, now_ns));
    }

    /// Replaces what the key expects by the deletion of these pods, each counted once, and no
    /// creation. Allocates only when the set is larger than any of that key before.
    pub fn expect_deletions(
        &self,
        key: E::Key<'_>,
        pods: impl IntoIterator<Item = E::Pod>,
        now_ns: i64,
    ) {
        self.entries
            .find_or_make(key, |entry| entry.expect_deletions(pods, now_ns));
    }

    /// Replaces both counters and the time stamp; leaves the set of pods.
    pub fn set_expectations(&self, key: E::Key<'_>, add: i64, del: i64, now_ns: i64) {
        self.entries
            .find_or_make(key, |entry| entry.set(add, del, now_ns));
    }

    /// Adds to both counters; nothing when the key has none. The time stamp stays.
    pub fn raise(&self, key: E::Key<'_>, add: i64, del: i64) {
        self.entries.find(key, |entry| entry.raise(add, del));
    }

    /// Takes from both counters; nothing when the key has none. The time stamp stays.
    pub fn lower(&self, key: E::Key<'_>, add: i64, del: i64) {
        self.raise(key, add.wrapping_neg(), del.wrapping_neg());
    }

    /// Counts one creation as seen (or as never to come). Nothing when the key has no counters.
    #[inline]
    pub fn creation_observed(&self, key: E::Key<'_>) {
        self.creations_observed(key, 1);
    }

    /// Counts that many creations as seen (or as never to come).
    #[inline]
    pub fn creations_observed(&self, key: E::Key<'_>, count: i64) {
        self.entries
            .find(key, |entry| entry.creations_observed(count));
    }

    /// Counts the deletion of that pod as seen (or as never to come). Returns whether the key waited
    /// for it; otherwise nothing changes.
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

    /// Whether the key may be acted upon: it has no counters, both are at or below zero, or they are
    /// more than five minutes old.
    ///
    /// Inlined by force: every sync asks once, from one of two places.
    #[inline(always)]
    pub fn satisfied(&self, key: E::Key<'_>, now_ns: i64) -> bool {
        self.entries
            .find(key, |entry| entry.satisfied(now_ns))
            .unwrap_or(true)
    }

    /// Forgets counters and set.
    pub fn delete(&self, key: E::Key<'_>) {
        self.entries.forget(key);
    }

    /// The counters, when the key has any. They are read one after the other.
    pub fn counts(&self, key: E::Key<'_>) -> Option<Counts> {
        self.entries.find(key, Entry::counts).flatten()
    }

    /// The pods whose deletion is waited for, in no particular order; `None` when no set is stored,
    /// as opposed to an empty one.
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
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;
    use crate::limits::EXPECTATIONS_TIMEOUT_NS;
    use crate::primitives::{AtomicU32, Ordering};

    type Store = Expectations<u32, u32>;

    fn pair(store: &Store, key: u32) -> (i64, i64) {
        let counts = store.counts(key).expect("stored");
        (counts.add, counts.del)
    }

    #[test]
    fn an_unknown_key_is_satisfied_and_ignores_observations() {
        let store = Store::new();
        store.creation_observed(3);
        assert!(!store.deletion_observed(3, &1));
        store.raise(3, 1, 1);
        assert!(store.satisfied(3, 0));
        assert_eq!(store.counts(3), None);
        assert_eq!(store.pending_deletions(3), None);
    }

    #[test]
    fn counters_go_below_zero_and_stay_satisfied() {
        let store = Store::new();
        store.set_expectations(0, 10, 30, 0);
        store.creations_observed(0, 11);
        store.lower(0, 0, 31);
        assert_eq!(pair(&store, 0), (-1, -1));
        assert!(store.satisfied(0, 0));
    }

    #[test]
    fn exactly_five_minutes_still_hold_back() {
        let store = Store::new();
        store.expect_creations(0, 1, 1_000);
        assert!(!store.satisfied(0, 1_000 + EXPECTATIONS_TIMEOUT_NS));
        assert!(store.satisfied(0, 1_001 + EXPECTATIONS_TIMEOUT_NS));
        store.raise(0, 1, 0);
        assert!(store.satisfied(0, 1_001 + EXPECTATIONS_TIMEOUT_NS));
        assert_eq!(pair(&store, 0), (2, 0));
    }

    #[test]
    fn deletion_observed_twice_counts_once() {
        let store = Store::new();
        store.expect_deletions(0, [1, 2, 2], 0);
        assert_eq!(pair(&store, 0), (0, 2));
        assert!(store.deletion_observed(0, &2));
        assert!(!store.deletion_observed(0, &2));
        assert!(!store.deletion_observed(0, &9));
        assert!(!store.satisfied(0, 0));
        assert!(store.deletion_observed(0, &1));
        assert!(store.satisfied(0, 0));
        assert_eq!(store.pending_deletions(0), Some(vec![]));
        store.delete(0);
        assert_eq!(store.pending_deletions(0), None);
        assert_eq!(store.counts(0), None);
    }

    #[test]
    fn a_set_left_over_lowers_the_counters_that_came_after_it() {
        let store = Store::new();
        store.expect_deletions(0, [1, 2], 0);
        store.expect_creations(0, 3, 5);
        assert_eq!(pair(&store, 0), (3, 0));
        assert!(store.deletion_observed(0, &1));
        assert_eq!(pair(&store, 0), (3, -1));
    }

    #[test]
    fn pods_are_found_by_what_they_borrow_as() {
        let store = Expectations::<u32, String>::new();
        store.expect_deletions(0, ["ns/a".to_owned()], 0);
        assert!(store.deletion_observed(0, "ns/a"));
        let named = NamedExpectations::<String>::new();
        named.expect_deletions("ns/rs", ["ns/a".to_owned()], 0);
        assert!(named.deletion_observed("ns/rs", "ns/a"));
        named.delete("ns/rs");
        assert_eq!(named.counts("ns/rs"), None);
    }

    #[test]
    fn observations_of_racing_threads_all_count() {
        let store = Store::new();
        store.set_expectations(0, 40_000, 0, 0);
        store.expect_deletions(1, 0..10_000, 0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for pod in 0..10_000 {
                        store.creation_observed(0);
                        store.deletion_observed(1, &pod);
                    }
                });
            }
        });
        assert_eq!(pair(&store, 0), (0, 0));
        assert_eq!(pair(&store, 1), (0, 0));
        assert_eq!(store.pending_deletions(1), Some(vec![]));
    }

    #[test]
    fn sets_that_are_replaced_while_others_look_count_each_pod_once() {
        const PODS: u32 = 70;
        const ROUNDS: u32 = 60;
        let (store, round, taken) = (Store::new(), AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (store, round, taken) = (&store, &round, &taken);
                scope.spawn(move || {
                    // SeqCst, all: the test is about the orders inside the store.
                    while let now @ 0..=ROUNDS = round.load(Ordering::SeqCst) {
                        // Pods of the round, each thread from another end, and of the one before.
                        for step in 0..PODS {
                            let pod = now * PODS + (step * 31 + thread * 23) % PODS;
                            let fresh = store.deletion_observed(0, &pod);
                            taken.fetch_add(fresh.into(), Ordering::SeqCst);
                            assert!(!store.deletion_observed(0, &pod));
                            assert!(!store.deletion_observed(0, &pod.wrapping_sub(PODS)));
                        }
                    }
                });
            }
            // In round 0 nothing is expected.
            for now in 1..=ROUNDS {
                // Sizes change, so tables do.
                let pods = if now % 5 == 0 { 9 } else { PODS };
                let first = now * PODS;
                store.expect_deletions(0, first..first + pods, 0);
                round.store(now, Ordering::SeqCst);
                while !store.satisfied(0, 0) {
                    std::thread::yield_now();
                }
                assert_eq!(pair(&store, 0), (0, 0));
                assert_eq!(store.pending_deletions(0), Some(vec![]));
            }
            round.store(ROUNDS + 1, Ordering::SeqCst);
        });
        let expected: u32 = (1..=ROUNDS)
            .map(|now| if now % 5 == 0 { 9 } else { PODS })
            .sum();
        assert_eq!(taken.into_inner(), expected);
    }

    /// The plain way: one map of counters, one of sets.
    #[derive(Default)]
    struct Model {
        counts: BTreeMap<u32, Counts>,
        sets: BTreeMap<u32, BTreeSet<u32>>,
    }

    #[derive(Clone, Debug)]
    enum Op {
        Creations(i64),
        Deletions(Vec<u32>),
        Set(i64, i64),
        Raise(i64, i64),
        Created,
        Deleted(u32),
        Delete,
        Wait(i64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (-1..4i64).prop_map(Op::Creations),
            prop::collection::vec(0..6u32, 0..5).prop_map(Op::Deletions),
            (-1..4i64, -1..4i64).prop_map(|(add, del)| Op::Set(add, del)),
            (-2..3i64, -2..3i64).prop_map(|(add, del)| Op::Raise(add, del)),
            Just(Op::Created),
            (0..6u32).prop_map(Op::Deleted),
            Just(Op::Delete),
            (0..2 * EXPECTATIONS_TIMEOUT_NS).prop_map(Op::Wait),
        ]
    }

    impl Model {
        fn apply(&mut self, key: u32, op: &Op, now_ns: i64) {
            let fresh = |add, del| Counts {
                add,
                del,
                timestamp_ns: now_ns,
            };
            match op {
                Op::Creations(n) => drop(self.counts.insert(key, fresh(*n, 0))),
                Op::Deletions(pods) => {
                    let set: BTreeSet<u32> = pods.iter().copied().collect();
                    self.counts.insert(key, fresh(0, set.len() as i64));
                    self.sets.insert(key, set);
                }
                Op::Set(add, del) => drop(self.counts.insert(key, fresh(*add, *del))),
                Op::Raise(add, del) => {
                    if let Some(counts) = self.counts.get_mut(&key) {
                        counts.add += add;
                        counts.del += del;
                    }
                }
                Op::Created => self.apply(key, &Op::Raise(-1, 0), now_ns),
                Op::Deleted(pod) => {
                    if self.sets.get_mut(&key).is_some_and(|set| set.remove(pod)) {
                        self.apply(key, &Op::Raise(0, -1), now_ns);
                    }
                }
                Op::Delete => {
                    self.counts.remove(&key);
                    self.sets.remove(&key);
                }
                Op::Wait(_) => {}
            }
        }

        fn satisfied(&self, key: u32, now_ns: i64) -> bool {
            self.counts.get(&key).is_none_or(|counts| {
                let expired = now_ns - counts.timestamp_ns > EXPECTATIONS_TIMEOUT_NS;
                counts.add <= 0 && counts.del <= 0 || expired
            })
        }
    }

    fn apply<E: Entries<Pod = u32>>(
        store: &ExpectationStore<E>,
        key: E::Key<'_>,
        op: &Op,
        now: i64,
    ) {
        match op {
            Op::Creations(n) => store.expect_creations(key, *n, now),
            Op::Deletions(pods) => store.expect_deletions(key, pods.iter().copied(), now),
            Op::Set(add, del) => store.set_expectations(key, *add, *del, now),
            Op::Raise(add, del) => store.raise(key, *add, *del),
            Op::Created => store.creation_observed(key),
            Op::Deleted(pod) => drop(store.deletion_observed(key, pod)),
            Op::Delete => store.delete(key),
            Op::Wait(_) => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
        #[test]
        fn both_stores_do_as_the_plain_maps(ops in prop::collection::vec((0..3u32, op()), 0..60)) {
            let (mut model, mut now) = (Model::default(), 0);
            let (dense, named) = (Store::new(), NamedExpectations::<u32>::new());
            for (key, op) in &ops {
                if let Op::Wait(step) = op {
                    now += step;
                }
                let name = key.to_string();
                model.apply(*key, op, now);
                apply(&dense, *key, op, now);
                apply(&named, &name, op, now);
                prop_assert_eq!(dense.counts(*key), model.counts.get(key).copied());
                prop_assert_eq!(named.counts(&name), model.counts.get(key).copied());
                prop_assert_eq!(dense.satisfied(*key, now), model.satisfied(*key, now));
                prop_assert_eq!(named.satisfied(&name, now), model.satisfied(*key, now));
                let sorted = |set: Option<Vec<u32>>| set.map(BTreeSet::from_iter);
                prop_assert_eq!(sorted(dense.pending_deletions(*key)), model.sets.get(key).cloned());
                prop_assert_eq!(sorted(named.pending_deletions(&name)), model.sets.get(key).cloned());
            }
        }
    }
}
