//! The work queue with its metrics, beside the plain way: one lock around a `VecDeque` and two sets.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::hint::black_box;
use std::sync::Mutex;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use podstorm::limits::{RETRY_BURST, RETRY_QPS};
use podstorm::workqueue::TokenBucket;
use podstorm_bench::hot::workqueue::{self, DelayedAdds, rounds};

const KEYS: u32 = 5_000;

/// An order, the keys that wait and those that run, behind one lock; without metrics.
#[derive(Default)]
struct Plain(Mutex<(VecDeque<u32>, BTreeSet<u32>, BTreeSet<u32>)>);

impl Plain {
    fn add(&self, key: u32) -> bool {
        let mut state = self.0.lock().expect("not poisoned");
        let fresh = state.1.insert(key);
        if fresh && !state.2.contains(&key) {
            state.0.push_back(key);
        }
        fresh
    }

    fn take(&self) -> Option<u32> {
        let mut state = self.0.lock().expect("not poisoned");
        let key = state.0.pop_front()?;
        state.1.remove(&key);
        state.2.insert(key);
        Some(key)
    }

    fn done(&self, key: u32) {
        let mut state = self.0.lock().expect("not poisoned");
        state.2.remove(&key);
        if state.1.contains(&key) {
            state.0.push_back(key);
        }
    }
}

/// Failures and the bucket of all keys, behind one lock.
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

/// A heap of times and the time of each key, behind one lock; an entry that the map knows another
/// time of is passed over when it is due.
#[derive(Default)]
struct PlainDelays(Mutex<Delays>);

type Delays = (BinaryHeap<Reverse<(i64, u32)>>, BTreeMap<u32, i64>);

impl PlainDelays {
    fn add_after(&self, key: u32, delay_ns: i64, now_ns: i64) {
        let due_ns = now_ns + delay_ns;
        let mut state = self.0.lock().expect("not poisoned");
        let known_ns = state.1.entry(key).or_insert(i64::MAX);
        if due_ns < *known_ns {
            *known_ns = due_ns;
            state.0.push(Reverse((due_ns, key)));
        }
    }

    fn drain(&self) {
        let mut state = self.0.lock().expect("not poisoned");
        state.0.clear();
        state.1.clear();
    }
}

/// Adds a key, takes it, is done with it.
fn cycle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    group.bench_function(BenchmarkId::new("cycle", KEYS), |bencher| {
        bencher.iter(workqueue::cycle(KEYS));
    });
    let (queue, mut next) = (Plain::default(), rounds(KEYS));
    group.bench_function(BenchmarkId::new("cycle-plain", KEYS), |bencher| {
        bencher.iter(|| {
            queue.add(next());
            queue.take().inspect(|&key| queue.done(key))
        });
    });
    group.finish();
}

/// Adds all keys, then takes and finishes all.
fn backlog(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    group.throughput(Throughput::Elements(u64::from(KEYS)));
    group.bench_function(BenchmarkId::new("backlog", KEYS), |bencher| {
        bencher.iter(workqueue::backlog(KEYS));
    });
    let (queue, mut next) = (Plain::default(), rounds(KEYS));
    group.bench_function(BenchmarkId::new("backlog-plain", KEYS), |bencher| {
        bencher.iter(|| {
            (0..KEYS).for_each(|_| assert!(queue.add(next())));
            while let Some(key) = queue.take() {
                queue.done(key);
            }
        });
    });
    group.finish();
}

/// Adds a key that waits already.
fn add_queued(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    for keys in [1, KEYS] {
        group.bench_function(BenchmarkId::new("add-queued", keys), |bencher| {
            bencher.iter(workqueue::add_queued(keys));
        });
        let (queue, mut next) = (Plain::default(), rounds(keys));
        (0..keys).for_each(|key| assert!(queue.add(key)));
        group.bench_function(BenchmarkId::new("add-queued-plain", keys), |bencher| {
            bencher.iter(|| queue.add(next()));
        });
    }
    group.finish();
}

/// Counts a failure and forgets it.
fn limiter(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    group.bench_function(BenchmarkId::new("limiter", KEYS), |bencher| {
        bencher.iter(workqueue::limiter(KEYS));
    });
    let bucket = TokenBucket::new(RETRY_QPS, RETRY_BURST);
    let limiter = PlainLimiter(Mutex::new((BTreeMap::new(), bucket)));
    let (mut next, mut now_ns) = (rounds(KEYS), 0);
    group.bench_function(BenchmarkId::new("limiter-plain", KEYS), |bencher| {
        bencher.iter(|| {
            let key = next();
            now_ns += 100;
            let delay_ns = limiter.when(key, now_ns);
            limiter.forget(key);
            delay_ns
        });
    });
    group.finish();
}

/// Times so many calls of `add` in rounds of all keys, and before each round `drain`, untimed.
fn in_rounds<T>(
    calls: u64,
    state: &mut T,
    mut drain: impl FnMut(&mut T),
    mut add: impl FnMut(&mut T) -> u64,
) -> Duration {
    let (mut left, mut taken) = (calls, Duration::ZERO);
    while left > 0 {
        drain(state);
        let round = left.min(u64::from(KEYS));
        let start = WallTime.start();
        (0..round).for_each(|_| {
            black_box(add(state));
        });
        taken += WallTime.end(start);
        left -= round;
    }
    taken
}

/// Adds all keys later, each at another time.
fn delayed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    let mut adds = DelayedAdds::new(KEYS);
    group.bench_function(BenchmarkId::new("delayed-add", KEYS), |bencher| {
        bencher
            .iter_custom(|calls| in_rounds(calls, &mut adds, DelayedAdds::drain, DelayedAdds::add));
    });
    let (delays, mut next) = (PlainDelays::default(), rounds(KEYS));
    let mut random = fastrand::Rng::with_seed(7);
    group.bench_function(BenchmarkId::new("delayed-add-plain", KEYS), |bencher| {
        bencher.iter_custom(|calls| {
            in_rounds(
                calls,
                &mut random,
                |_| delays.drain(),
                |random| {
                    let delay_ns = (random.u64(..) >> 34) as i64 + 1;
                    delays.add_after(next(), delay_ns, 0);
                    0
                },
            )
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = cycle, backlog, add_queued, limiter, delayed
}
criterion_main!(benches);
