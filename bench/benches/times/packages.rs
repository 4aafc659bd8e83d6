//! The benefit of each package in its role here, compared with another package or with none: rayon,
//! ahash, crossbeam's queue and mimalloc. The verdicts are in `results/packages.md`.

use std::cell::LazyCell;
use std::collections::VecDeque;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
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
use podstorm_bench::cold_start::{existing, fill};
use podstorm_bench::hot::{ByItsClock, Work};
use podstorm_bench::pods::{Growth, NOW_NS, counts, drawn_pods, fields};
use podstorm_bench::whole::{Spent, loadgen, loadgen_with, run};

use super::Timed;
use super::whole_runs::record_spent;

pub(crate) fn timed() -> Vec<Timed> {
    let (ranked, listed): (&[usize], &[usize]) = if is_smoke_test() {
        (&[4_000, 16_000], &[10_000])
    } else {
        (
            &[4_000, 16_000, 64_000, 256_000, 1_000_000],
            &[10_000, 100_000, 1_000_000],
        )
    };
    let mut all = Vec::new();
    all.extend(ranked.iter().copied().flat_map(ranking));
    all.extend(listed.iter().copied().flat_map(first_lists));
    for pods in [1_000, 100_000] {
        all.extend(finds("hash-name", pods, 2_503, names));
    }
    all.extend(finds("hash-uid", 2_000, 997, uids));
    all.extend([1, 2].into_iter().flat_map(queues));
    all
}

/// Returns benches of the deletion ranking of one large ReplicaSet, on several cores and on one.
/// Several cores pay off from the size at which their time is the shorter one.
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
                let chosen =
                    ranker.choose_among(&fields, &fields, |_| true, rank_of_node, &options, 500);
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

/// Returns benches that load a controller's first list of pods into its cache, on all cores and on
/// one.
fn first_lists(pods: usize) -> [Timed; 2] {
    let cluster = Rc::new(LazyCell::new(move || existing(pods)));
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

/// Returns benches that look keys up, with the hasher in use and with others.
fn finds<K: Hash + Eq + 'static>(
    what: &str,
    count: usize,
    step: usize,
    draw: fn(usize) -> Vec<K>,
) -> [Timed; 4] {
    let id = |hasher| format!("packages/{what}{hasher}/{count}");
    let keys = move || draw(count);
    let foldhash = || foldhash::fast::FixedState::with_seed(7);
    [
        find(id(""), keys, step, || FIXED_STATE),
        find(id("-plain"), keys, step, Sip::default),
        find(id("-foldhash"), keys, step, foldhash),
        find(id("-rustc"), keys, step, || rustc_hash::FxBuildHasher),
    ]
}

type Sip = BuildHasherDefault<DefaultHasher>;

/// Returns a bench of a table like the index of `KeyTable` and of the cache: the table holds
/// numbers, and the keys are stored elsewhere.
fn find<K: Hash + Eq + 'static, S: BuildHasher + 'static>(
    id: String,
    keys: impl Fn() -> Vec<K> + 'static,
    step: usize,
    hasher: fn() -> S,
) -> Timed {
    Timed::new(id, move || {
        let (keys, hasher) = (keys(), hasher());
        let mut numbers = HashTable::with_capacity(keys.len());
        for (number, key) in (0u32..).zip(&keys) {
            let hash = |&at: &u32| hasher.hash_one(&keys[at as usize]);
            numbers.insert_unique(hasher.hash_one(key), number, hash);
        }
        let mut at = 0;
        move || {
            at = (at + step) % keys.len();
            let key = black_box(&keys[at]);
            let same = |&other: &u32| keys[other as usize] == *key;
            let found = numbers.find(hasher.hash_one(key), same);
            found.copied().unwrap_or(0).into()
        }
    })
}

/// Returns the namespaces and names of pods.
fn names(pods: usize) -> Vec<(String, String)> {
    let drawn = drawn_pods(pods, Growth::Burst, 3).into_iter().enumerate();
    let name = |(at, pod): (usize, Pod)| {
        (
            format!("load-{:03}", at % 100),
            pod.metadata.name.to_string(),
        )
    };
    drawn.map(name).collect()
}

/// Returns UIDs, like those by which the cache finds an owner's pods.
fn uids(count: usize) -> Vec<Uid> {
    let mut random = fastrand::Rng::with_seed(5);
    (0..count)
        .map(|_| Uid::from_u128(random.u128(..)))
        .collect()
}

/// Returns benches of a push and a pop by several threads concurrently, on the former ring of the
/// work queue.
fn queues(threads: u32) -> [Timed; 2] {
    const WAITING: u32 = 1_000;
    [
        Timed::new(format!("packages/queue/{threads}"), move || {
            let ring = ArrayQueue::new(8_192);
            (0..WAITING).for_each(|key| ring.push(key).expect("the ring has space"));
            Together(threads, move || {
                let key = ring
                    .pop()
                    .expect("other threads hold fewer keys than are waiting");
                ring.push(black_box(key)).expect("the ring has space");
            })
        }),
        Timed::new(format!("packages/queue-plain/{threads}"), move || {
            let locked = Mutex::new(VecDeque::with_capacity(8_192));
            locked.lock().expect("not poisoned").extend(0..WAITING);
            Together(threads, move || {
                let key = locked.lock().expect("not poisoned").pop_front();
                let key = key.expect("other threads hold fewer keys than are waiting");
                let mut locked = locked.lock().expect("not poisoned");
                locked.push_back(black_box(key));
            })
        }),
    ]
}

/// A number of threads, and the cycle that they run concurrently.
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

/// Returns the time in which each thread runs its share of `cycles`. All threads start together.
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

/// Compares whole runs with mimalloc and with the system's allocator. The runs alternate, and there
/// is no other difference. Builds `loadgen` once more.
pub(crate) fn allocators(asked: &Asked) -> anyhow::Result<()> {
    if asked.is_smoke_test || !asked.wants("packages/allocator") {
        return Ok(());
    }
    let quick = asked.is_quick();
    let system = with_system_allocator()?;
    let binaries = [("", loadgen()?), ("-plain", system)];
    for (size, pods, replica_sets, runs) in [
        (100_000, "100k", "2k", if quick { 3 } else { 9 }),
        (1_000_000, "1m", "20k", if quick { 1 } else { 3 }),
    ] {
        let size_flags = format!("--scenario up-down --pods {pods} --replicasets {replica_sets}");
        let mut spent: [Vec<Spent>; 2] = Default::default();
        for _ in 0..runs {
            for (spent, (_, binary)) in spent.iter_mut().zip(&binaries) {
                spent.push(run(binary, &size_flags)?);
            }
        }
        for (spent, (plain, _)) in spent.iter().zip(&binaries) {
            record_spent(spent, |figure| {
                format!("packages/allocator-{figure}{plain}/{size}")
            });
        }
    }
    Ok(())
}

/// Returns the release binary of `loadgen` with the system's allocator, under a name of its own:
/// both binaries are built in the same place, where they share all other parts.
fn with_system_allocator() -> anyhow::Result<PathBuf> {
    let built = loadgen_with(&["--no-default-features"])?;
    let kept = built.with_file_name("loadgen-system-allocator");
    std::fs::copy(&built, &kept)?;
    Ok(kept)
}
