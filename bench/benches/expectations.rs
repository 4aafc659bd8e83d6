//! Expectations: by dense key, by text, and the plain way, which is one lock around two maps.

use std::collections::{BTreeMap, BTreeSet};
use std::hint::black_box;
use std::sync::Mutex;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use podstorm::expectations::NamedExpectations;
use podstorm_bench::hot::expectations;

const KEYS: [u32; 2] = [1, 5_000];
const BURST: u64 = 500;

/// Counters (creations, deletions, time) and pods to delete by `namespace/name`, behind one lock.
#[derive(Default)]
struct Plain(Mutex<Maps>);

#[derive(Default)]
struct Maps(
    BTreeMap<String, (i64, i64, i64)>,
    BTreeMap<String, BTreeSet<u64>>,
);

impl Plain {
    fn expect_creations(&self, key: &str, count: i64, now_ns: i64) {
        let mut maps = self.0.lock().expect("not poisoned");
        maps.0.insert(key.to_owned(), (count, 0, now_ns));
    }

    fn creation_observed(&self, key: &str) {
        let mut maps = self.0.lock().expect("not poisoned");
        if let Some(counts) = maps.0.get_mut(key) {
            counts.0 -= 1;
        }
    }

    fn expect_deletions(&self, key: &str, pods: impl Iterator<Item = u64>, now_ns: i64) {
        let pods: BTreeSet<u64> = pods.collect();
        let mut maps = self.0.lock().expect("not poisoned");
        maps.0
            .insert(key.to_owned(), (0, pods.len() as i64, now_ns));
        maps.1.insert(key.to_owned(), pods);
    }

    fn deletion_observed(&self, key: &str, pod: u64) {
        let mut maps = self.0.lock().expect("not poisoned");
        let Maps(counts, pods) = &mut *maps;
        let removed = pods.get_mut(key).is_some_and(|pods| pods.remove(&pod));
        if let Some(counts) = counts.get_mut(key).filter(|_| removed) {
            counts.1 -= 1;
        }
    }

    fn satisfied(&self, key: &str) -> bool {
        let maps = self.0.lock().expect("not poisoned");
        maps.0
            .get(key)
            .is_none_or(|counts| counts.0 <= 0 && counts.1 <= 0)
    }
}

fn names(count: u32) -> Vec<String> {
    (0..count).map(|n| format!("default/web-{n}")).collect()
}

/// Keys in an order that looks random and visits each once per round.
fn rounds(count: u32) -> impl FnMut() -> u32 {
    let mut key = 0;
    move || {
        key = (key + 2_503) % count;
        key
    }
}

/// Expects one creation, observes it, asks whether the key is satisfied.
fn creations(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("expectations");
    for count in KEYS {
        let names = names(count);
        group.bench_function(BenchmarkId::new("create", count), |bencher| {
            bencher.iter(expectations::create(count));
        });
        let (mut next, store) = (rounds(count), NamedExpectations::<u64>::new());
        group.bench_function(BenchmarkId::new("create-named", count), |bencher| {
            bencher.iter(|| {
                let key = &*names[next() as usize];
                store.expect_creations(key, 1, 0);
                store.creation_observed(key);
                store.satisfied(key, 1)
            });
        });
        let (mut next, store) = (rounds(count), Plain::default());
        group.bench_function(BenchmarkId::new("create-plain", count), |bencher| {
            bencher.iter(|| {
                let key = &*names[next() as usize];
                store.expect_creations(key, 1, 0);
                store.creation_observed(key);
                store.satisfied(key)
            });
        });
    }
    group.finish();
}

/// Expects the deletion of 500 pods and observes all.
fn deletions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("expectations");
    group.bench_function(BenchmarkId::new("delete", BURST), |bencher| {
        bencher.iter(expectations::delete());
    });
    let store = NamedExpectations::<u64>::new();
    group.bench_function(BenchmarkId::new("delete-named", BURST), |bencher| {
        bencher.iter(|| {
            store.expect_deletions("default/web", black_box(0)..BURST, 0);
            for pod in 0..BURST {
                store.deletion_observed("default/web", &pod);
            }
            store.satisfied("default/web", 1)
        });
    });
    let store = Plain::default();
    group.bench_function(BenchmarkId::new("delete-plain", BURST), |bencher| {
        bencher.iter(|| {
            store.expect_deletions("default/web", black_box(0)..BURST, 0);
            for pod in 0..BURST {
                store.deletion_observed("default/web", pod);
            }
            store.satisfied("default/web")
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = creations, deletions
}
criterion_main!(benches);
