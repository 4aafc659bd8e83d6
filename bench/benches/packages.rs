//! What each package is kept for, beside doing without it or with another: rayon, ahash, crossbeam's
//! queue and mimalloc, each in the role that it has here. The verdicts are in `results/packages.md`.

use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion};
use crossbeam_queue::ArrayQueue;
use hashbrown::HashTable;
use podstorm::intern::FIXED_STATE;
use podstorm::object::{Pod, Uid};
use podstorm::ranking::{RankOptions, Ranker};
use podstorm_bench::cold_start::{Size, existing, fill};
use podstorm_bench::pods::{Growth, NOW_NS, counts, drawn_pods, fields};
use podstorm_bench::results::{Unit, is_smoke_test, record_runs, target_directory};
use podstorm_bench::whole::{Spent, build, run};

fn main() -> anyhow::Result<()> {
    let mut criterion = podstorm_bench::profiler::criterion()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .sample_size(30)
        .configure_from_args();
    ranking(&mut criterion);
    first_lists(&mut criterion);
    names(&mut criterion);
    uids(&mut criterion);
    queues(&mut criterion);
    criterion.final_summary();
    allocators()
}

/// Deletion ranking of one large ReplicaSet on several cores, and on one. From how many pods on
/// several cores pay is where these lines cross.
fn ranking(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packages");
    for count in [4_000, 16_000, 64_000, 256_000, 1_000_000] {
        if is_smoke_test() && count > 16_000 {
            continue;
        }
        let fields = fields(&drawn_pods(count, Growth::Month, 1));
        let counts = counts(&fields);
        let options = RankOptions::at(NOW_NS);
        let rank_of_node = |node| counts.get(node);
        group.bench_function(BenchmarkId::new("rayon-choose", count), |bencher| {
            let mut ranker = Ranker::new().parallel_from(0);
            bencher.iter(|| {
                ranker
                    .choose_among(&fields, Some, rank_of_node, &options, 500)
                    .len()
            });
        });
        group.bench_function(BenchmarkId::new("rayon-choose-plain", count), |bencher| {
            let mut ranker = Ranker::new();
            let candidates = (0u32..).zip(&fields);
            bencher.iter(|| {
                let chosen = ranker.choose(candidates.clone(), rank_of_node, &options, 500);
                chosen.len()
            });
        });
    }
    group.finish();
}

/// The first list of a controller's pods taken into its cache, on all cores and on one.
fn first_lists(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("packages");
    group.sample_size(10);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let one = one.expect("there is room for a thread");
    for count in [10_000, 100_000, 1_000_000] {
        if is_smoke_test() && count > 10_000 {
            continue;
        }
        let cluster = existing(Size::of_pods(count));
        let (listed, version) = cluster.list::<Pod>(None);
        let fill = || fill(&listed, &version);
        group.bench_function(BenchmarkId::new("rayon-cold-start", count), |bencher| {
            bencher.iter_custom(|calls| (0..calls).map(|_| fill()).sum());
        });
        group.bench_function(
            BenchmarkId::new("rayon-cold-start-plain", count),
            |bencher| {
                bencher.iter_custom(|calls| (0..calls).map(|_| one.install(fill)).sum());
            },
        );
    }
    group.finish();
}

/// An index from namespace and name to a number, as `KeyTable` and the cache keep it: the texts
/// lie elsewhere, the table holds numbers.
struct NameIndex<S> {
    hasher: S,
    numbers: HashTable<u32>,
}

impl<S: BuildHasher> NameIndex<S> {
    fn of(names: &[(String, String)], hasher: S) -> Self {
        let mut numbers = HashTable::with_capacity(names.len());
        for (number, name) in (0u32..).zip(names) {
            let hash = hasher.hash_one((&*name.0, &*name.1));
            numbers.insert_unique(hash, number, |&at| {
                let name = &names[at as usize];
                hasher.hash_one((&*name.0, &*name.1))
            });
        }
        NameIndex { hasher, numbers }
    }

    fn find(&self, names: &[(String, String)], namespace: &str, name: &str) -> Option<u32> {
        let same = |&at: &u32| {
            let held = &names[at as usize];
            *held.1 == *name && *held.0 == *namespace
        };
        let hash = self.hasher.hash_one((namespace, name));
        self.numbers.find(hash, same).copied()
    }
}

type Sip = BuildHasherDefault<DefaultHasher>;

/// Pod names to numbers, with the hasher that is used and with others.
fn names(criterion: &mut Criterion) {
    for count in [1_000, 100_000] {
        let pods: Vec<(String, String)> = drawn_pods(count, Growth::Burst, 3)
            .iter()
            .enumerate()
            .map(|(at, pod)| {
                (
                    format!("load-{:03}", at % 100),
                    pod.metadata.name.to_string(),
                )
            })
            .collect();
        let mut find = |variant: &str, found: &dyn Fn(&str, &str) -> Option<u32>| {
            let mut group = criterion.benchmark_group("packages");
            let mut at = 0;
            group.bench_function(BenchmarkId::new(variant, count), |bencher| {
                bencher.iter(|| {
                    at = (at + 2_503) % pods.len();
                    let (namespace, name) = &pods[at];
                    found(black_box(namespace), black_box(name))
                });
            });
        };
        let index = NameIndex::of(&pods, FIXED_STATE);
        find("hash-name", &|a, b| index.find(&pods, a, b));
        let index = NameIndex::of(&pods, Sip::default());
        find("hash-name-plain", &|a, b| index.find(&pods, a, b));
        let index = NameIndex::of(&pods, foldhash::fast::FixedState::with_seed(7));
        find("hash-name-foldhash", &|a, b| index.find(&pods, a, b));
        let index = NameIndex::of(&pods, rustc_hash::FxBuildHasher);
        find("hash-name-rustc", &|a, b| index.find(&pods, a, b));
    }
}

/// UIDs to numbers, as the cache finds the group of an owner.
fn uids(criterion: &mut Criterion) {
    let count = 2_000;
    let mut random = fastrand::Rng::with_seed(5);
    let uids: Vec<Uid> = (0..count)
        .map(|_| Uid::from_u128(random.u128(..)))
        .collect();
    let mut group = criterion.benchmark_group("packages");
    let mut bench = |variant: &str, hash: &dyn Fn(&Uid) -> u64| {
        let mut numbers = HashTable::new();
        for (number, uid) in (0u32..).zip(&uids) {
            numbers.insert_unique(hash(uid), number, |&at| hash(&uids[at as usize]));
        }
        let mut at = 0;
        group.bench_function(BenchmarkId::new(variant, count), |bencher| {
            bencher.iter(|| {
                at = (at + 997) % count;
                let uid = black_box(&uids[at]);
                let same = |&other: &u32| uids[other as usize] == *uid;
                numbers.find(hash(uid), same).copied()
            });
        });
    };
    bench("hash-uid", &|uid| FIXED_STATE.hash_one(uid));
    let sip = Sip::default();
    bench("hash-uid-plain", &|uid| sip.hash_one(uid));
    let foldhash = foldhash::fast::FixedState::with_seed(7);
    bench("hash-uid-foldhash", &|uid| foldhash.hash_one(uid));
    bench("hash-uid-rustc", &|uid| {
        rustc_hash::FxBuildHasher.hash_one(uid)
    });
}

/// The ring under the work queue: a push and a pop, by several threads at once.
fn queues(criterion: &mut Criterion) {
    const WAITING: u32 = 1_000;
    let mut group = criterion.benchmark_group("packages");
    for threads in [1, 2] {
        let ring = ArrayQueue::new(8_192);
        let locked = Mutex::new(VecDeque::with_capacity(8_192));
        for key in 0..WAITING {
            ring.push(key).expect("there is room");
            locked.lock().expect("not poisoned").push_back(key);
        }
        group.bench_function(BenchmarkId::new("queue", threads), |bencher| {
            bencher.iter_custom(|cycles| {
                together(threads, cycles, || {
                    let key = ring.pop().expect("others hold fewer keys than wait");
                    ring.push(black_box(key)).expect("there is room");
                })
            });
        });
        group.bench_function(BenchmarkId::new("queue-plain", threads), |bencher| {
            bencher.iter_custom(|cycles| {
                together(threads, cycles, || {
                    let key = locked.lock().expect("not poisoned").pop_front();
                    let key = key.expect("others hold fewer keys than wait");
                    locked
                        .lock()
                        .expect("not poisoned")
                        .push_back(black_box(key));
                })
            });
        });
    }
    group.finish();
}

/// The time in which each of the threads does its share of so many cycles, all begun together.
fn together(threads: u32, cycles: u64, cycle: impl Fn() + Sync) -> Duration {
    let share = cycles.div_ceil(u64::from(threads));
    if threads == 1 {
        let start = WallTime.start();
        (0..share).for_each(|_| cycle());
        return WallTime.end(start);
    }
    let barrier = Barrier::new(threads as usize);
    let work = || {
        barrier.wait();
        let start = WallTime.start();
        (0..share).for_each(|_| cycle());
        WallTime.end(start)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mine = work();
        let slowest = others
            .into_iter()
            .map(|thread| thread.join().expect("no thread panics"));
        slowest.fold(mine, Duration::max)
    })
}

/// Whole runs with mimalloc and with the system's allocator, in turn, nothing else being different.
/// Only in a full run: it builds `loadgen` twice more.
fn allocators() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let apart = |argument: &String| !["--bench", "--quick", "--noplot"].contains(&&**argument);
    let filtered = arguments
        .iter()
        .any(|argument| apart(argument) && argument != "packages/allocator");
    if is_smoke_test() || filtered {
        return Ok(());
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let binaries = [
        ("allocator", binary_with("mimalloc")?),
        ("allocator-plain", binary_with("")?),
    ];
    for (size, pods, replica_sets, runs) in [
        (100_000, "100k", "2k", if quick { 3 } else { 9 }),
        (1_000_000, "1m", "20k", if quick { 1 } else { 3 }),
    ] {
        let size_flags = ["--pods", pods, "--replicasets", replica_sets];
        let mut spent: [Vec<Spent>; 2] = Default::default();
        for _ in 0..runs {
            for (spent, (_, binary)) in spent.iter_mut().zip(&binaries) {
                spent.push(run(binary, &size_flags)?);
            }
        }
        for (spent, (variant, _)) in spent.iter().zip(&binaries) {
            let (name, plain) = variant
                .split_once('-')
                .map_or((*variant, ""), |(name, _)| (name, "-plain"));
            let id = |figure: &str| format!("packages/{name}-{figure}{plain}/{size}");
            let all = |figure: fn(&Spent) -> f64| spent.iter().map(figure).collect::<Vec<f64>>();
            record_runs(&id("wall"), &all(|run| run.wall_seconds), Unit::Seconds);
            record_runs(&id("cpu"), &all(|run| run.cpu_seconds), Unit::Seconds);
            record_runs(&id("peak"), &all(|run| run.peak_memory_bytes), Unit::Bytes);
        }
    }
    Ok(())
}

/// The release binary of `loadgen` with these features and no others, under a name of its own.
fn binary_with(features: &str) -> anyhow::Result<PathBuf> {
    let target = target_directory().join("allocators");
    let flags = [
        "--release",
        "-p",
        "podstorm-loadgen",
        "--no-default-features",
        "--features",
        features,
    ];
    let built = build(&target, &flags)?;
    let name = if features.is_empty() {
        "system"
    } else {
        features
    };
    let kept = target.join(format!("loadgen-{name}"));
    std::fs::copy(&built, &kept)?;
    Ok(kept)
}
