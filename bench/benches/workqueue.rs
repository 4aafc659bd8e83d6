//! The work queue with its metrics, beside the plain way: one lock around a `VecDeque` and two sets.

use std::collections::{BTreeSet, VecDeque};
use std::hint::black_box;
use std::sync::Mutex;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use podstorm::workqueue::{ControllerLimiter, RateLimitingQueue, Take};

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

/// Keys in an order that looks random and visits each once per round.
fn rounds() -> impl FnMut() -> u32 {
    let mut key = 0;
    move || {
        key = (key + 2_503) % KEYS;
        key
    }
}

/// Time that passes: 100 ns from call to call.
fn clock() -> impl FnMut() -> i64 {
    let mut now_ns = 0;
    move || {
        now_ns += 100;
        now_ns
    }
}

fn take(queue: &RateLimitingQueue<u32>, now_ns: i64) -> Option<u32> {
    match queue.try_take(now_ns) {
        Take::Key(key) => Some(key),
        Take::Empty | Take::ShutDown => None,
    }
}

/// Adds a key, takes it, is done with it.
fn cycle(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    let (queue, mut next, mut now) = (RateLimitingQueue::<u32>::new(), rounds(), clock());
    group.bench_function(BenchmarkId::new("cycle-podstorm", KEYS), |bencher| {
        bencher.iter(|| {
            queue.add(next(), now());
            let key = take(&queue, now());
            key.inspect(|&key| queue.done(key, now()))
        });
    });
    let (queue, mut next) = (Plain::default(), rounds());
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
    let (queue, mut next, mut now) = (RateLimitingQueue::<u32>::new(), rounds(), clock());
    group.bench_function(BenchmarkId::new("backlog-podstorm", KEYS), |bencher| {
        bencher.iter(|| {
            (0..KEYS).for_each(|_| assert!(queue.add(next(), now())));
            while let Some(key) = take(&queue, now()) {
                queue.done(key, now());
            }
        });
    });
    let (queue, mut next) = (Plain::default(), rounds());
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
fn add_again(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    let queue = RateLimitingQueue::<u32>::new();
    queue.add(7, 0);
    group.bench_function(BenchmarkId::new("add-again-podstorm", 1), |bencher| {
        bencher.iter(|| queue.add(black_box(7), 0));
    });
    let queue = Plain::default();
    queue.add(7);
    group.bench_function(BenchmarkId::new("add-again-plain", 1), |bencher| {
        bencher.iter(|| queue.add(black_box(7)));
    });
    group.finish();
}

/// Counts a failure and forgets it.
fn limiter(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    let (limiter, mut next, mut now) = (ControllerLimiter::<u32>::new(), rounds(), clock());
    group.bench_function(BenchmarkId::new("failure-forget", KEYS), |bencher| {
        bencher.iter(|| {
            let key = next();
            let delay_ns = limiter.when(key, now());
            limiter.forget(key);
            delay_ns
        });
    });
    group.finish();
}

/// Adds all keys later, each at another time.
fn delayed(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("workqueue");
    group.throughput(Throughput::Elements(u64::from(KEYS)));
    let (queue, mut next) = (RateLimitingQueue::<u32>::new(), rounds());
    let mut random = fastrand::Rng::with_seed(7);
    let mut now_ns = 0;
    group.bench_function(BenchmarkId::new("delayed-add", KEYS), |bencher| {
        let setup = || {
            // What waits is fired, so that every round begins with nothing waiting.
            now_ns += 1 << 31;
            queue.fire_due(now_ns);
            while let Some(key) = take(&queue, now_ns) {
                queue.done(key, now_ns);
            }
            let delays: Vec<i64> = (0..KEYS).map(|_| random.i64(1..1 << 30)).collect();
            (now_ns, delays)
        };
        let add_all = |(now_ns, delays): (i64, Vec<i64>)| {
            for &delay_ns in &delays {
                queue.add_after(next(), delay_ns, now_ns);
            }
            delays
        };
        bencher.iter_batched(setup, add_all, BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = cycle, backlog, add_again, limiter, delayed
}
criterion_main!(benches);
