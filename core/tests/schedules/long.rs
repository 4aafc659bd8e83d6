//! Longer models: several threads and dozens of steps.

use podstorm::cache::StoreVersion;
use podstorm::consistency::ConsistencyStore;
use podstorm::expectations::Expectations;
use podstorm::object::{Kind, ResourceVersion, Uid};
use podstorm::workqueue::{RateLimitingQueue, WorkQueue};

use crate::check;
use crate::checker::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
use crate::checker::sync::{Arc, Mutex};
use crate::checker::thread::{self, JoinHandle};

const KEYS: usize = 3;

/// One number for each key.
type Each = [AtomicUsize; KEYS];

fn each() -> Arc<Each> {
    Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)))
}

fn join<T>(threads: impl IntoIterator<Item = JoinHandle<T>>) -> Vec<T> {
    let joined = threads.into_iter().map(JoinHandle::join);
    joined.map(Result::unwrap).collect()
}

/// Three threads add, two work. No two workers have the same key, and for every key some work sees
/// everything done before its last add.
#[test]
fn every_add_is_served_and_no_key_has_two_workers() {
    check(0, || {
        let queue = Arc::new(WorkQueue::<u32>::new());
        let (asked, seen, running) = (each(), each(), each());
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                let (asked, seen, running) = (asked.clone(), seen.clone(), running.clone());
                thread::spawn(move || {
                    while let Some(key) = queue.take(&|| 0) {
                        let at = key as usize;
                        assert_eq!(
                            running[at].fetch_add(1, SeqCst),
                            0,
                            "two workers have the key"
                        );
                        seen[at].fetch_max(asked[at].load(SeqCst), SeqCst);
                        running[at].fetch_sub(1, SeqCst);
                        queue.done(key, 0);
                    }
                })
            })
            .collect();
        let adders = (0..3).map(|adder| {
            let (queue, asked) = (queue.clone(), asked.clone());
            thread::spawn(move || {
                for step in 0..4 {
                    let key = (adder + step) % KEYS;
                    asked[key].fetch_add(1, SeqCst);
                    queue.add(key as u32, 0);
                }
            })
        });
        join(adders.collect::<Vec<_>>());
        queue.shut_down_with_drain();
        join(workers);
        for key in 0..KEYS {
            assert_eq!(seen[key].load(SeqCst), asked[key].load(SeqCst), "key {key}");
        }
    });
}

/// Delayed adds at many different times, with a timer. Every key is served, and not before its
/// earliest time.
#[test]
fn delayed_adds_are_served_and_never_early() {
    check(0, || {
        let queue = Arc::new(RateLimitingQueue::<u32>::new());
        let clock = Arc::new(AtomicI64::new(0));
        let earliest: Arc<[AtomicI64; KEYS]> =
            Arc::new(std::array::from_fn(|_| AtomicI64::new(i64::MAX)));
        let adders: Vec<_> = (0..3)
            .map(|adder| {
                let (queue, clock, earliest) = (queue.clone(), clock.clone(), earliest.clone());
                thread::spawn(move || {
                    for step in 0..3 {
                        let key = (adder + step) % KEYS;
                        let (delay, now) = ((3 - step as i64) * 10, clock.load(SeqCst));
                        earliest[key].fetch_min(now + delay, SeqCst);
                        queue.add_after(key as u32, delay, now);
                    }
                })
            })
            .collect();
        let timer = {
            let (queue, clock) = (queue.clone(), clock.clone());
            thread::spawn(move || {
                for _ in 0..4 {
                    let now = clock.fetch_add(7, SeqCst) + 7;
                    queue.fire_due(now);
                }
            })
        };
        let worker = {
            let (queue, clock, earliest) = (queue.clone(), clock.clone(), earliest.clone());
            thread::spawn(move || {
                let mut served = [false; KEYS];
                while let Some(key) = queue.take(&|| 0) {
                    let (now, due) = (clock.load(SeqCst), earliest[key as usize].load(SeqCst));
                    assert!(due <= now, "key {key}, due at {due}, was served at {now}");
                    served[key as usize] = true;
                    queue.done(key, 0);
                }
                served
            })
        };
        join(adders);
        join([timer]);
        clock.store(1_000, SeqCst);
        queue.fire_due(1_000);
        assert_eq!(queue.next_due(), None);
        queue.shut_down();
        assert_eq!(join([worker]), [[true; KEYS]], "a delayed add was lost");
    });
}

/// Two rounds of creations and deletions of one key, observed by three handlers. If the key is
/// satisfied, all events of the round are in the cache.
#[test]
fn a_satisfied_key_has_seen_the_whole_round() {
    check(0, || {
        let store = Arc::new(Expectations::<u32, u32>::new());
        for round in 0..2u32 {
            let cache = Arc::new(AtomicUsize::new(0));
            if round == 0 {
                store.expect_creations(0, 3, 0);
            } else {
                store.expect_deletions(0, [0, 1, 2], 0);
            }
            let handlers: Vec<_> = (0..3)
                .map(|pod| {
                    let (store, cache) = (store.clone(), cache.clone());
                    thread::spawn(move || {
                        cache.fetch_add(1, SeqCst);
                        if round == 0 {
                            store.creation_observed(0);
                        } else {
                            store.deletion_observed(0, &pod);
                            // Observed again, from a list.
                            store.deletion_observed(0, &pod);
                        }
                    })
                })
                .collect();
            if store.satisfied(0, 0) {
                assert_eq!(cache.load(SeqCst), 3, "satisfied early in round {round}");
            }
            join(handlers);
            assert!(store.satisfied(0, 0), "never satisfied in round {round}");
        }
    });
}

/// A small controller: a server whose writes reach the cache later, through an informer, and
/// workers that sync keys after the read-your-writes check and create the missing pods.
struct Little {
    queue: WorkQueue<u32>,
    gate: ConsistencyStore<u32>,
    reached: StoreVersion,
    /// The number of pods in the cache, by key.
    cache: Each,
    /// The number of pods on the server, by key.
    made: Each,
    /// The server's history: the key of each pod.
    history: Mutex<Vec<usize>>,
}

const WANTED: usize = 2;

impl Little {
    /// Syncs the key once. Afterwards it has all its pods, or an event for it is still to come.
    fn sync(&self, key: usize) {
        let stores = [self.reached.get(), ResourceVersion::default()];
        if self.gate.ensure_ready(&(key as u32), &stores).is_err() {
            // The event of the write brings the key back.
            return;
        }
        for _ in self.cache[key].load(SeqCst)..WANTED {
            self.made[key].fetch_add(1, SeqCst);
            let version = {
                let mut history = self
                    .history
                    .lock()
                    .expect("no thread panics while it holds the lock");
                history.push(key);
                history.len() as u64
            };
            let version = ResourceVersion::Number(version);
            self.gate
                .wrote_at(key as u32, &Uid::new("a"), Kind::POD, &version);
        }
    }

    /// Applies one event to the cache, if there is one.
    fn deliver(&self, next: &mut usize) {
        let event = self
            .history
            .lock()
            .expect("no thread panics while it holds the lock")
            .get(*next)
            .copied();
        if let Some(key) = event {
            *next += 1;
            self.cache[key].fetch_add(1, SeqCst);
            self.reached.set(&ResourceVersion::Number(*next as u64));
            self.queue.add(key as u32, 0);
        }
    }
}

/// With only the read-your-writes check, without expectations, every key gets exactly the pods it
/// wants.
#[test]
fn the_gate_alone_prevents_duplicate_pods() {
    check(0, || {
        let little = Arc::new(Little {
            queue: WorkQueue::new(),
            gate: ConsistencyStore::new([Kind::POD, Kind::REPLICA_SET]),
            reached: StoreVersion::default(),
            cache: std::array::from_fn(|_| AtomicUsize::new(0)),
            made: std::array::from_fn(|_| AtomicUsize::new(0)),
            history: Mutex::new(Vec::new()),
        });
        // As after the first list: a cache without a version would pass every check.
        little.history.lock().unwrap().push(0);
        little.made[0].store(1, SeqCst);
        let mut next = 0;
        little.deliver(&mut next);
        for key in 0..KEYS {
            little.queue.add(key as u32, 0);
        }
        let workers: Vec<_> = (0..2)
            .map(|_| {
                let little = little.clone();
                thread::spawn(move || {
                    while let Some(key) = little.queue.take(&|| 0) {
                        little.sync(key as usize);
                        little.queue.done(key, 0);
                    }
                })
            })
            .collect();
        while little
            .cache
            .iter()
            .map(|pods| pods.load(SeqCst))
            .sum::<usize>()
            < KEYS * WANTED
        {
            little.deliver(&mut next);
            thread::yield_now();
        }
        little.queue.shut_down_with_drain();
        join(workers);
        for (key, made) in little.made.iter().enumerate() {
            assert_eq!(made.load(SeqCst), WANTED, "pods of key {key}");
        }
    });
}
