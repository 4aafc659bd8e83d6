//! The subjects of the scaling measurement, and their plain rivals, which do the same work behind
//! one lock.

use std::hint::black_box;
use std::sync::{Arc, Mutex};

use crossbeam_utils::CachePadded;
use hashbrown::HashMap;
use podstorm::cache::Delta;
use podstorm::expectations::Expectations;
use podstorm::intern::FIXED_STATE;
use podstorm::object::Pod;
use podstorm::primitives::{AtomicU64, Ordering};
use podstorm::workqueue::{RateLimitingQueue, Take};

use super::{Subject, Worker};
use crate::clusters::{NOW, Plan};
use crate::hot::cache::unready;
use crate::plain::PlainQueue;

/// The number of keys of each thread if keys are distinct.
const KEYS_EACH: u32 = 1_000;
/// The number of keys that are added before the first of them is taken.
const BURST: u32 = 100;
/// The number of ReplicaSets of each thread if owners are distinct, and the number of pods of each.
const OWNERS_EACH: usize = 50;
const PODS_EACH: usize = 20;

/// Returns all subjects.
pub fn all() -> Vec<Subject> {
    vec![
        Subject {
            name: "expectations",
            keys: "distinct",
            event: "expect 1 creation, observe it, check satisfied",
            transfers: 0.0,
            events: 50_000,
            ours: expectations,
            plain: plain_expectations,
        },
        Subject {
            name: "expectations",
            keys: "shared",
            event: "observe a creation, all threads for one key",
            transfers: 1.0,
            events: 50_000,
            ours: observations,
            plain: plain_observations,
        },
        Subject {
            name: "workqueue",
            keys: "distinct",
            event: "add an own key, take the oldest, finish it",
            // The push moves the ring's tail, the pop its head.
            transfers: 1.0,
            events: 10_000,
            ours: |threads| queue::<1>(threads, KEYS_EACH, ring_queue(threads)),
            plain: |threads| queue::<1>(threads, KEYS_EACH, PlainQueue::default()),
        },
        Subject {
            name: "workqueue-bursts",
            keys: "distinct",
            event: "add 100 own keys, then take the 100 oldest and finish each (one event per key)",
            transfers: 1.0,
            events: 10_000,
            ours: |threads| queue::<BURST>(threads, KEYS_EACH, ring_queue(threads)),
            plain: |threads| queue::<BURST>(threads, KEYS_EACH, PlainQueue::default()),
        },
        Subject {
            name: "workqueue-handover",
            keys: "distinct",
            event: "half of the threads add own keys, the other half take the oldest and finish it (each is one event)",
            // Half of the events move the tail, half move the head.
            transfers: 0.5,
            events: 10_000,
            ours: |threads| handover(threads, ring_queue(threads)),
            plain: |threads| handover(threads, PlainQueue::default()),
        },
        Subject {
            name: "workqueue",
            keys: "shared",
            event: "add one key shared by all threads, take the oldest if there is one, finish it",
            // The key's word is moved at most by the add, the take and the end of the work.
            transfers: 3.0,
            events: 10_000,
            ours: |threads| queue::<1>(threads, 0, RateLimitingQueue::with_capacity(1)),
            plain: |threads| queue::<1>(threads, 0, PlainQueue::default()),
        },
        Subject {
            name: "handlers",
            keys: "distinct",
            event: "update of a pod: cache, handler, key that is already waiting; own ReplicaSets",
            // No data that all threads read is written, because the keys are already waiting.
            transfers: 0.0,
            events: 2_000,
            ours: |threads| handlers(threads, true, false),
            plain: |threads| handlers(threads, true, true),
        },
        Subject {
            name: "handlers",
            keys: "shared",
            event: "update of a pod: cache, handler, key that is already waiting; one ReplicaSet",
            // The shard's lock, the group's lock and totals, and the key's word: each once or
            // twice.
            transfers: 4.0,
            events: 2_000,
            ours: |threads| handlers(threads, false, false),
            plain: |threads| handlers(threads, false, true),
        },
    ]
}

/// Returns workers that take turns writing one word: with several threads, their time is that of
/// moving a cache line.
pub fn one_line(threads: usize) -> Vec<Worker> {
    // The type is `primitives::AtomicU64`, as in the measured code.
    let word = Arc::new(AtomicU64::new(0));
    each(threads, |thread| {
        let (word, mut turn) = (word.clone(), thread as u64);
        move |events| {
            for _ in 0..events {
                // Relaxed, both: only the time matters.
                while word.load(Ordering::Relaxed) != turn {
                    std::hint::spin_loop();
                }
                word.store(turn + 1, Ordering::Relaxed);
                turn += threads as u64;
            }
        }
    })
}

fn each<W: FnMut(u32) + Send + 'static>(
    threads: usize,
    worker: impl Fn(usize) -> W,
) -> Vec<Worker> {
    let boxed = |thread| {
        // Padded, because the workers' own data, such as the next key, would otherwise share cache
        // lines.
        let mut own = CachePadded::new(worker(thread));
        Box::new(move |events| (*own)(events)) as Worker
    };
    (0..threads).map(boxed).collect()
}

/// Returns the keys of a thread, in a cycle; if `own` is 0, a single key for all threads.
fn keys(thread: usize, own: u32) -> impl FnMut() -> u32 {
    let first = thread as u32 * own;
    let mut next = 0;
    move || {
        next = if next + 1 >= own { 0 } else { next + 1 };
        first + next
    }
}

fn expectations(threads: usize) -> Vec<Worker> {
    let store = Arc::new(Expectations::<u32, u64>::new());
    each(threads, |thread| {
        let (store, mut key) = (store.clone(), keys(thread, KEYS_EACH));
        move |events| {
            for _ in 0..events {
                let key = black_box(key());
                store.expect_creations(key, 1, 0);
                store.creation_observed(key);
                black_box(store.satisfied(key, 1));
            }
        }
    })
}

fn observations(threads: usize) -> Vec<Worker> {
    let store = Arc::new(Expectations::<u32, u64>::new());
    store.expect_creations(0, 1 << 40, 0);
    each(threads, |_| {
        let store = store.clone();
        move |events| (0..events).for_each(|_| store.creation_observed(black_box(0)))
    })
}

/// The number of expected creations and the time of the expectation, by key.
type PlainExpectations = Mutex<HashMap<u32, (i64, i64), ahash::RandomState>>;

fn plain_expectations(threads: usize) -> Vec<Worker> {
    let store = Arc::new(PlainExpectations::new(HashMap::with_hasher(FIXED_STATE)));
    each(threads, |thread| {
        let (store, mut key) = (store.clone(), keys(thread, KEYS_EACH));
        move |events| {
            for _ in 0..events {
                let key = black_box(key());
                store.lock().expect("not poisoned").insert(key, (1, 0));
                if let Some(counts) = store.lock().expect("not poisoned").get_mut(&key) {
                    counts.0 -= 1;
                }
                let known = store.lock().expect("not poisoned");
                black_box(known.get(&key).is_none_or(|counts| counts.0 <= 0));
            }
        }
    })
}

fn plain_observations(threads: usize) -> Vec<Worker> {
    let store = Arc::new(PlainExpectations::new(HashMap::with_hasher(FIXED_STATE)));
    each(threads, |_| {
        let store = store.clone();
        move |events| {
            for _ in 0..events {
                let mut store = store.lock().expect("not poisoned");
                store.entry(black_box(0)).or_insert((1 << 40, 0)).0 -= 1;
            }
        }
    })
}

/// Adds the keys of a burst, then takes and finishes as many keys.
fn queue<const BURST: u32>(threads: usize, own: u32, queue: impl Queue) -> Vec<Worker> {
    let queue = Arc::new(queue);
    each(threads, |thread| {
        let (queue, mut key) = (queue.clone(), keys(thread, own));
        let mut now_ns = 0;
        move |events| {
            for _ in 0..events / BURST {
                for _ in 0..BURST {
                    now_ns += 100;
                    queue.add(black_box(key()), now_ns);
                }
                for _ in 0..BURST {
                    queue.take_and_finish(now_ns);
                }
            }
        }
    })
}

fn ring_queue(threads: usize) -> RateLimitingQueue<u32> {
    RateLimitingQueue::with_capacity(threads * KEYS_EACH as usize)
}

/// A queue that several threads use: ours or the plain rival.
trait Queue: Send + Sync + 'static {
    /// Adds a key. Returns whether that had an effect.
    fn add(&self, key: u32, now_ns: i64) -> bool;
    /// Takes and finishes a key. Returns whether a key was waiting.
    fn take_and_finish(&self, now_ns: i64) -> bool;
}

impl Queue for RateLimitingQueue<u32> {
    fn add(&self, key: u32, now_ns: i64) -> bool {
        RateLimitingQueue::add(self, key, now_ns)
    }

    fn take_and_finish(&self, now_ns: i64) -> bool {
        let Take::Key(key) = self.try_take(now_ns + 30) else {
            return false;
        };
        self.done(key, now_ns + 60);
        true
    }
}

impl Queue for PlainQueue<u32> {
    fn add(&self, key: u32, _now_ns: i64) -> bool {
        PlainQueue::add(self, key)
    }

    fn take_and_finish(&self, _now_ns: i64) -> bool {
        let taken = self.take();
        taken.inspect(|key| self.done(*key)).is_some()
    }
}

/// Returns workers for pairs of threads: one thread adds keys, the other takes them. A thread
/// without a partner alternates. Each key is taken in the round in which it was added, by any
/// thread.
fn handover(threads: usize, queue: impl Queue) -> Vec<Worker> {
    let queue = Arc::new(queue);
    each(threads, |thread| {
        let (queue, mut key) = (queue.clone(), keys(thread, KEYS_EACH));
        let is_left_over = thread + 1 == threads && threads % 2 == 1;
        let mut now_ns = 0;
        move |events| {
            let (mut adds, mut takes) = match (is_left_over, thread % 2) {
                (true, _) => (events / 2, events / 2),
                (false, 0) => (events, 0),
                (false, _) => (0, events),
            };
            while adds + takes > 0 {
                let before = adds + takes;
                for _ in 0..BURST.min(adds) {
                    now_ns += 100;
                    adds -= u32::from(queue.add(black_box(key()), now_ns));
                }
                for _ in 0..BURST.min(takes) {
                    takes -= u32::from(queue.take_and_finish(now_ns));
                }
                if adds + takes == before {
                    // Yield, because the other thread may need this core.
                    std::thread::yield_now();
                }
            }
        }
    })
}

/// Updates pods to unready and back. Each thread updates pods of its own ReplicaSets if `distinct`,
/// otherwise all threads update different pods of a single one. With `one_lock`, one event at a
/// time is handled.
fn handlers(threads: usize, distinct: bool, one_lock: bool) -> Vec<Worker> {
    let (owners, pods) = if distinct {
        (OWNERS_EACH * threads, PODS_EACH)
    } else {
        (1, PODS_EACH * threads)
    };
    let cluster = Plan::new(owners, pods).build();
    let cluster = Arc::new((Mutex::new(()), cluster));
    each(threads, |thread| {
        let cluster = cluster.clone();
        let own = if distinct {
            let first = OWNERS_EACH * thread;
            cluster.1.pods[first..first + OWNERS_EACH].concat()
        } else {
            cluster.1.pods[0][PODS_EACH * thread..][..PODS_EACH].to_vec()
        };
        let rounds: [Vec<Arc<Pod>>; 2] = [unready(&own), own];
        let (mut round, mut next) = (0, 0);
        move |events| {
            for _ in 0..events {
                let pod = rounds[round][next].clone();
                next += 1;
                if next == rounds[round].len() {
                    (round, next) = (1 - round, 0);
                }
                let _one = one_lock.then(|| cluster.0.lock().expect("not poisoned"));
                let controller = &cluster.1.controller;
                let change = controller
                    .pods()
                    .apply_out_of_order(Delta::Applied(black_box(pod)));
                controller.pod_changed(&change, NOW);
            }
        }
    })
}
