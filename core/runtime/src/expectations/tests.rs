//! Tests of the expectations: single claims, racing threads, and a naive model.

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
fn sets_replaced_under_racing_observers_count_each_pod_once() {
    const PODS: u32 = 70;
    const ROUNDS: u32 = 60;
    let (store, round, taken) = (Store::new(), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (store, round, taken) = (&store, &round, &taken);
            scope.spawn(move || {
                // SeqCst, all: the test is about the orderings inside the store.
                while let now @ 0..=ROUNDS = round.load(Ordering::SeqCst) {
                    // Pods of this round, in a different order for each thread, and pods of the
                    // last round.
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
            // The sizes change, so the tables change, too.
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

/// A naive model: one map of counters and one of sets.
#[derive(Default)]
struct Model {
    counts: BTreeMap<u32, ExpectedCounts>,
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
        let fresh = |add, del| ExpectedCounts {
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
) -> bool {
    match op {
        Op::Creations(n) => store.expect_creations(key, *n, now),
        Op::Deletions(pods) => store.expect_deletions(key, pods.iter().copied(), now),
        Op::Set(add, del) => store.set_expectations(key, *add, *del, now),
        Op::Raise(add, del) => store.raise(key, *add, *del),
        Op::Created => store.creation_observed(key),
        Op::Deleted(pod) => return store.deletion_observed(key, pod),
        Op::Delete => store.delete(key),
        Op::Wait(_) => {}
    }
    false
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..Default::default() })]
    #[test]
    fn both_stores_agree_with_plain_maps(ops in prop::collection::vec((0..3u32, op()), 0..60)) {
        let (mut model, mut now) = (Model::default(), 0);
        let (dense, named) = (Store::new(), NamedExpectations::<u32>::new());
        for (key, op) in &ops {
            if let Op::Wait(step) = op {
                now += step;
            }
            let name = key.to_string();
            let is_taken = |pod| model.sets.get(key).is_some_and(|set| set.contains(pod));
            let counts = matches!(op, Op::Deleted(pod) if is_taken(pod));
            model.apply(*key, op, now);
            prop_assert_eq!(apply(&dense, *key, op, now), counts);
            prop_assert_eq!(apply(&named, &name, op, now), counts);
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
