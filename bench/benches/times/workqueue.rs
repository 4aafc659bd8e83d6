//! The work queue with its metrics, compared with the plain way: one lock around a `VecDeque` and
//! two sets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Mutex;

use podstorm::limits::{RETRY_BURST, RETRY_QPS};
use podstorm::workqueue::TokenBucket;
use podstorm_bench::hot::Work;
use podstorm_bench::hot::workqueue::{add_queued, rounds};
use podstorm_bench::plain::PlainQueue;

use super::Timed;

const KEYS: u32 = 5_000;

/// The failures of each key, and the bucket of all keys, behind one lock.
struct PlainLimiter(Mutex<(BTreeMap<u32, u32>, TokenBucket)>);

impl PlainLimiter {
    fn when(&self, key: u32, now_ns: i64) -> i64 {
        let mut state = self.0.lock().expect("not poisoned");
        let failures = state.0.entry(key).or_default();
        *failures += 1;
        let own_ms = 5 * 2f64.powi(*failures as i32 - 1) as i64;
        state
            .1
            .reserve(now_ns)
            .max(own_ms.min(1_000_000) * 1_000_000)
    }

    fn forget(&self, key: u32) {
        self.0.lock().expect("not poisoned").0.remove(&key);
    }
}

/// A heap of times, and a map with the time of each key, behind one lock. A due entry of the heap
/// is skipped if the map has another time for its key.
struct PlainDelays {
    queue: Mutex<Delays>,
    random: fastrand::Rng,
    next: Box<dyn FnMut() -> u32>,
    /// The number of keys added in this round.
    added: u32,
}

type Delays = (BinaryHeap<Reverse<(i64, u32)>>, BTreeMap<u32, i64>);

impl PlainDelays {
    fn new() -> PlainDelays {
        PlainDelays {
            queue: Mutex::default(),
            random: fastrand::Rng::with_seed(7),
            next: Box::new(rounds(KEYS)),
            added: 0,
        }
    }
}

impl Work for PlainDelays {
    fn prepare(&mut self) -> u64 {
        if self.added == KEYS {
            let mut state = self.queue.lock().expect("not poisoned");
            state.0.clear();
            state.1.clear();
            self.added = 0;
        }
        u64::from(KEYS - self.added)
    }

    fn work(&mut self) -> u64 {
        let due_ns = (self.random.u64(..) >> 34) as i64 + 1;
        let key = (self.next)();
        self.added += 1;
        let mut state = self.queue.lock().expect("not poisoned");
        let known_ns = state.1.entry(key).or_insert(i64::MAX);
        if due_ns < *known_ns {
            *known_ns = due_ns;
            state.0.push(Reverse((due_ns, key)));
        }
        0
    }
}

/// Returns the rivals, and the bench that adds a key that is already waiting.
pub(crate) fn timed() -> Vec<Timed> {
    vec![
        Timed::new("workqueue/cycle-plain/5000", cycle),
        Timed::new("workqueue/backlog-plain/5000", backlog),
        Timed::new("workqueue/add-queued/1", || add_queued(1)),
        Timed::new("workqueue/add-queued-plain/1", || add_queued_plain(1)),
        Timed::new("workqueue/add-queued-plain/5000", || add_queued_plain(KEYS)),
        Timed::new("workqueue/limiter-plain/5000", limiter),
        Timed::new("workqueue/delayed-add-plain/5000", PlainDelays::new),
    ]
}

fn cycle() -> impl FnMut() -> u64 {
    let (queue, mut next) = (PlainQueue::<u32>::default(), rounds(KEYS));
    move || {
        queue.add(next());
        let key = queue.take().expect("the key was added");
        queue.done(key);
        key.into()
    }
}

fn backlog() -> impl FnMut() -> u64 {
    let (queue, mut next) = (PlainQueue::<u32>::default(), rounds(KEYS));
    move || {
        (0..KEYS).for_each(|_| assert!(queue.add(next())));
        let mut count = 0;
        while let Some(key) = queue.take() {
            queue.done(key);
            count += 1;
        }
        count
    }
}

fn add_queued_plain(keys: u32) -> impl FnMut() -> u64 {
    let (queue, mut next) = (PlainQueue::<u32>::default(), rounds(keys));
    (0..keys).for_each(|key| assert!(queue.add(key)));
    move || queue.add(next()).into()
}

fn limiter() -> impl FnMut() -> u64 {
    let bucket = TokenBucket::new(RETRY_QPS, RETRY_BURST);
    let limiter = PlainLimiter(Mutex::new((BTreeMap::new(), bucket)));
    let (mut next, mut now_ns) = (rounds(KEYS), 0);
    move || {
        let key = next();
        now_ns += 100;
        let delay_ns = limiter.when(key, now_ns);
        limiter.forget(key);
        delay_ns as u64
    }
}
