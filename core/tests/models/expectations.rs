//! Expectations: a key is satisfied exactly when all events have been seen, each pod counts once,
//! and a thread that finds the key satisfied sees everything done before the observations.

use podstorm::expectations::Expectations;

use crate::checker::sync::Arc;
use crate::checker::sync::atomic::{AtomicU32, Ordering};
use crate::checker::thread;
use crate::{beside, check};

type Store = Expectations<u32, u32>;

/// Two handlers change the cache, each for its pod, and observe. The sync whose expectations they
/// satisfy finds both changes.
fn who_is_satisfied_sees_both(expect: fn(&Store), observe: fn(&Store, u32)) {
    check(3, move || {
        let store = Arc::new(Store::new());
        let cache = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        expect(&store);
        let handlers: Vec<_> = (0..2)
            .map(|pod| {
                let (store, cache) = (store.clone(), cache.clone());
                thread::spawn(move || {
                    cache[pod as usize].store(1, Ordering::Relaxed);
                    observe(&store, pod);
                })
            })
            .collect();
        if store.satisfied(0, 0) {
            let changes = cache.iter().map(|change| change.load(Ordering::Relaxed));
            assert_eq!(changes.sum::<u32>(), 2, "satisfied early");
        }
        handlers
            .into_iter()
            .for_each(|handler| handler.join().expect("no panic"));
        assert!(store.satisfied(0, 0));
    });
}

#[test]
fn a_sync_satisfied_by_creations_sees_the_pods() {
    who_is_satisfied_sees_both(
        |store| store.expect_creations(0, 2, 0),
        |store, _| store.creation_observed(0),
    );
}

/// Both pods are in one word.
#[test]
fn a_sync_satisfied_by_deletions_sees_them() {
    who_is_satisfied_sees_both(
        |store| store.expect_deletions(0, [0, 1], 0),
        |store, pod| assert!(store.deletion_observed(0, &pod)),
    );
}

/// A pod's deletion is observed from two sources and counts once; the other pod is still expected.
#[test]
fn a_deletion_counts_once() {
    check(3, || {
        let store = Arc::new(Store::new());
        store.expect_deletions(0, [1, 2], 0);
        let observe = |store: Arc<Store>| usize::from(store.deletion_observed(0, &1));
        let sources = [beside(&store, observe), beside(&store, observe)];
        assert!(!store.satisfied(0, 0), "satisfied early");
        let counted: usize = sources
            .into_iter()
            .map(|source| source.join().unwrap())
            .sum();
        assert_eq!(counted, 1);
        assert_eq!(store.counts(0).map(|counts| counts.del), Some(1));
        assert_eq!(store.pending_deletions(0), Some(vec![2]));
        assert!(store.deletion_observed(0, &2));
        assert!(store.satisfied(0, 0));
    });
}

/// A late observation takes nothing from later sets of the key: neither from the next set, which is
/// in the other table, nor from the one after it, which is in the same buckets.
#[test]
fn a_late_observation_takes_nothing_from_a_later_set() {
    check(3, || {
        let store = Arc::new(Store::new());
        store.expect_deletions(0, [1], 0);
        let late = beside(&store, |store| store.deletion_observed(0, &1));
        store.expect_deletions(0, [2], 0);
        store.expect_deletions(0, [3], 0);
        assert!(!store.satisfied(0, 0), "satisfied by a pod of an older set");
        late.join().unwrap();
        assert_eq!(store.counts(0).map(|counts| counts.del), Some(1));
        assert!(store.deletion_observed(0, &3));
        assert!(store.satisfied(0, 0));
    });
}

/// The same pod is expected again. The observation counts for one of the sets that contain it, or
/// for none if it came too late for the first and too early for the second.
#[test]
fn an_observation_of_a_pod_in_two_sets_counts_once() {
    check(3, || {
        let store = Arc::new(Store::new());
        store.expect_deletions(0, [1], 0);
        let observed = beside(&store, |store| store.deletion_observed(0, &1));
        store.expect_deletions(0, [1, 2], 0);
        observed.join().unwrap();
        let left = store.counts(0).expect("stored").del;
        assert!((1..=2).contains(&left), "{left}");
        let pending = store.pending_deletions(0).map(|pods| pods.len() as i64);
        assert_eq!(pending, Some(left));
        assert!(store.deletion_observed(0, &2));
        assert_eq!(store.deletion_observed(0, &1), left == 2);
        assert!(store.satisfied(0, 0));
    });
}

/// Creations are expected while pods of an older set are still being observed. Only the creations
/// satisfy the counters.
#[test]
fn leftover_pods_do_not_hold_back_creations() {
    check(3, || {
        let store = Arc::new(Store::new());
        store.expect_deletions(0, [1], 0);
        let late = beside(&store, |store| store.deletion_observed(0, &1));
        store.expect_creations(0, 1, 0);
        assert!(!store.satisfied(0, 0), "satisfied early");
        store.creation_observed(0);
        assert!(
            store.satisfied(0, 0),
            "held back by pods that are not expected"
        );
        late.join().unwrap();
        assert!(store.satisfied(0, 0));
    });
}

/// A key that is cleared while it is observed stays satisfied, and can expect again afterwards.
#[test]
fn a_cleared_key_can_expect_again() {
    check(3, || {
        let store = Arc::new(Store::new());
        store.expect_deletions(0, [1], 0);
        let late = beside(&store, |store| {
            store.deletion_observed(0, &1);
            store.creation_observed(0);
        });
        store.delete(0);
        assert!(store.satisfied(0, 0));
        late.join().unwrap();
        assert!(store.satisfied(0, 0));
        store.expect_deletions(0, [1], 0);
        assert_eq!(store.counts(0).map(|counts| counts.del), Some(1));
    });
}
