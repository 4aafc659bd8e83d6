//! What each package is kept for, beside doing without it or with another: rayon, ahash, crossbeam's
//! queue and mimalloc, each in the role that it has here. The verdicts are in `results/packages.md`.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::hint::black_box;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use crossbeam_queue::ArrayQueue;
use hashbrown::HashTable;
use podstorm::intern::FIXED_STATE;
use podstorm::object::{Pod, Uid};
use podstorm::ranking::{RankOptions, Ranker};
use podstorm_bench::asked::{Asked, is_smoke_test};
use podstorm_bench::cold_start::{Size, existing, fill};
use podstorm_bench::hot::{ByItsClock, Work};
use podstorm_bench::pods::{Growth, NOW_NS, counts, drawn_pods, fields};
use podstorm_bench::results::{Unit, record_runs};
use podstorm_bench::whole::{Spent, loadgen, loadgen_with, run};

use super::Timed;

pub(crate) fn timed() -> Vec<Timed> {
    let most = |full: usize, smoke: usize| if is_smoke_test() { smoke } else { full };
    let most_ranked = most(usize::MAX, 16_000);
    let most_listed = most(usize::MAX, 10_000);
    let ranked = [4_000, 16_000, 64_000, 256_000, 1_000_000];
    let listed = [10_000, 100_000, 1_000_000];
    let ranked = ranked.into_iter().filter(|&pods| pods <= most_ranked);
    let listed = listed.into_iter().filter(|&pods| pods <= most_listed);
    let mut all = Vec::new();
    all.extend(ranked.flat_map(ranking));
    all.extend(listed.flat_map(first_lists));
    all.extend([1_000, 100_000].into_iter().flat_map(names));
    all.extend(uids());
    all.extend([1, 2].into_iter().flat_map(queues));
    all
}

/// Deletion ranking of one large ReplicaSet on several cores, and on one: where these lines cross, several cores
/// begin to pay.
fn ranking(pods: usize) -> [Timed; 2] {
    let drawn = move || {
        let fields = fields(&drawn_pods(pods, Growth::Month, 1));
        let counts = counts(&fields);
        (fields, counts, RankOptions::at(NOW_NS))
    };
    [
        Timed::new(format!("packages/rayon-choose/{pods}"), move || {
            let ((fields, counts, options), mut ranker) = (drawn(), Ranker::new().parallel_from(0));
            move || {
                let rank_of_node = |node| counts.get(node);
                let chosen = ranker.choose_among(&fields, Some, rank_of_node, &options, 500);
                chosen.len() as u64
            }
        }),
        Timed::new(format!("packages/rayon-choose-plain/{pods}"), move || {
            let ((fields, counts, options), mut ranker) = (drawn(), Ranker::new());
            move || {
                let rank_of_node = |node| counts.get(node);
                let candidates = (0u32..).zip(&fields);
                let chosen = ranker.choose(candidates, rank_of_node, &options, 500);
                chosen.len() as u64
            }
        }),
    ]
}

/// The first list of a controller's pods taken into its cache, on all cores and on one.
fn first_lists(pods: usize) -> [Timed; 2] {
    let cluster = Rc::new(LazyCell::new(move || existing(Size::of_pods(pods))));
    let ours = cluster.clone();
    [
        Timed::slow(format!("packages/rayon-cold-start/{pods}"), move || {
            let (listed, version) = ours.list::<Pod>(None);
            ByItsClock(move || fill(&listed, &version))
        }),
        Timed::slow(
            format!("packages/rayon-cold-start-plain/{pods}"),
            move || {
                let (listed, version) = cluster.list::<Pod>(None);
                let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
                let one = one.expect("a thread can be started");
                ByItsClock(move || one.install(|| fill(&listed, &version)))
            },
        ),
    ]
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
fn names(pods: usize) -> [Timed; 4] {
    [
        find_names("hash-name", pods, || FIXED_STATE),
        find_names("hash-name-plain", pods, Sip::default),
        find_names("hash-name-foldhash", pods, foldhash),
        find_names("hash-name-rustc", pods, || rustc_hash::FxBuildHasher),
    ]
}

fn foldhash() -> foldhash::fast::FixedState {
    foldhash::fast::FixedState::with_seed(7)
}

fn find_names<S: BuildHasher + 'static>(variant: &str, pods: usize, hasher: fn() -> S) -> Timed {
    Timed::new(format!("packages/{variant}/{pods}"), move || {
        let drawn = drawn_pods(pods, Growth::Burst, 3).into_iter().enumerate();
        let name = |(at, pod): (usize, Pod)| {
            (
                format!("load-{:03}", at % 100),
                pod.metadata.name.to_string(),
            )
        };
        let names: Vec<(String, String)> = drawn.map(name).collect();
        let index = NameIndex::of(&names, hasher());
        let mut at = 0;
        move || {
            at = (at + 2_503) % names.len();
            let (namespace, name) = &names[at];
            let found = index.find(&names, black_box(namespace), black_box(name));
            found.unwrap_or(0).into()
        }
    })
}

/// UIDs to numbers, as the cache finds the owned pods of an owner.
fn uids() -> [Timed; 4] {
    [
        find_uids("hash-uid", || FIXED_STATE),
        find_uids("hash-uid-plain", Sip::default),
        find_uids("hash-uid-foldhash", foldhash),
        find_uids("hash-uid-rustc", || rustc_hash::FxBuildHasher),
    ]
}

fn find_uids<S: BuildHasher + 'static>(variant: &str, hasher: fn() -> S) -> Timed {
    const COUNT: usize = 2_000;
    Timed::new(format!("packages/{variant}/{COUNT}"), move || {
        let (mut random, hasher) = (fastrand::Rng::with_seed(5), hasher());
        let uids: Vec<Uid> = (0..COUNT)
            .map(|_| Uid::from_u128(random.u128(..)))
            .collect();
        let mut numbers = HashTable::new();
        for (number, uid) in (0u32..).zip(&uids) {
            let hash = |&at: &u32| hasher.hash_one(&uids[at as usize]);
            numbers.insert_unique(hasher.hash_one(uid), number, hash);
        }
        let mut at = 0;
        move || {
            at = (at + 997) % COUNT;
            let uid = black_box(&uids[at]);
            let same = |&other: &u32| uids[other as usize] == *uid;
            let found = numbers.find(hasher.hash_one(uid), same);
            found.copied().unwrap_or(0).into()
        }
    })
}

/// The ring under the work queue: a push and a pop, by several threads at once.
fn queues(threads: u32) -> [Timed; 2] {
    const WAITING: u32 = 1_000;
    [
        Timed::new(format!("packages/queue/{threads}"), move || {
            let ring = ArrayQueue::new(8_192);
            (0..WAITING).for_each(|key| ring.push(key).expect("the ring has space"));
            Together(threads, move || {
                let key = ring.pop().expect("others hold fewer keys than wait");
                ring.push(black_box(key)).expect("the ring has space");
            })
        }),
        Timed::new(format!("packages/queue-plain/{threads}"), move || {
            let locked = Mutex::new(VecDeque::with_capacity(8_192));
            locked.lock().expect("not poisoned").extend(0..WAITING);
            Together(threads, move || {
                let key = locked.lock().expect("not poisoned").pop_front();
                let key = key.expect("others hold fewer keys than wait");
                let mut locked = locked.lock().expect("not poisoned");
                locked.push_back(black_box(key));
            })
        }),
    ]
}

/// A cycle that several threads do at once.
struct Together<F>(u32, F);

impl<F: Fn() + Sync> Work for Together<F> {
    fn work(&mut self) -> u64 {
        (self.1)();
        0
    }

    fn time(&mut self, calls: u64) -> Duration {
        together(self.0, calls, &self.1)
    }
}

/// The time in which each thread does its share of `cycles`, all begun together.
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

/// Whole runs with mimalloc and with the system's allocator, in turn, nothing else being different. This part
/// builds `loadgen` once more.
pub(crate) fn allocators(asked: &Asked) -> anyhow::Result<()> {
    if asked.is_smoke_test || !asked.wants("packages/allocator") {
        return Ok(());
    }
    let quick = asked.is_quick();
    let system = with_system_allocator()?;
    let binaries = [("allocator", loadgen()?), ("allocator-plain", system)];
    for (size, pods, replica_sets, runs) in [
        (100_000, "100k", "2k", if quick { 3 } else { 9 }),
        (1_000_000, "1m", "20k", if quick { 1 } else { 3 }),
    ] {
        let size_flags = format!("--pods {pods} --replicasets {replica_sets}");
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

/// The release binary of `loadgen` with the system's allocator. It is kept under a name of its own, as both are built
/// into one place, where all they are made of is shared.
fn with_system_allocator() -> anyhow::Result<PathBuf> {
    let built = loadgen_with(&["--no-default-features"])?;
    let kept = built.with_file_name("loadgen-system-allocator");
    std::fs::copy(&built, &kept)?;
    Ok(kept)
}
