//! A controller's cold start over existing pods, 50 to a ReplicaSet: initial states through the
//! embedded server's watches, cache, handlers, syncs.
//!
//! * `first-sync`: from the moment that the controller asks for its lists until its first sync has
//!   returned with the right decision; all end to end, the server's part included.
//! * `all-synced`: the same until every ReplicaSet was synced once.
//! * `server`: the server's part alone, sorting both states.
//! * `fill`: cache and handlers alone; `fill-plain` is a map of pods and one of names by owner, each
//!   pod cloned, and no handler.

use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, criterion_group, criterion_main};
use hashbrown::HashMap;
use podstorm::object::Pod;
use podstorm_bench::cold_start::{Size, Start, existing, fill, start};
use podstorm_bench::results::is_smoke_test;

type Hashed = BuildHasherDefault<std::collections::hash_map::DefaultHasher>;

/// What is measured of a start.
type Part = (&'static str, fn(&Start) -> Duration);

const PARTS: [Part; 3] = [
    ("first-sync", |start| start.first_sync),
    ("all-synced", |start| start.all_synced),
    ("server", |start| start.served),
];

/// One lock around pods by `namespace/name` and names by the owner's UID.
#[derive(Default)]
struct Plain(Mutex<Maps>);

/// The pods by name, the names by owner.
type Maps = (
    HashMap<String, Pod, Hashed>,
    HashMap<String, Vec<String>, Hashed>,
);

impl Plain {
    fn add(&self, pod: &Pod) {
        let key = format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        let mut maps = self.0.lock().expect("not poisoned");
        if let Some(owner) = pod.metadata.controller() {
            maps.1
                .entry(owner.uid.to_string())
                .or_default()
                .push(key.clone());
        }
        maps.0.insert(key, pod.clone());
    }
}

fn starts(criterion: &mut Criterion) {
    let sizes: &[usize] = if is_smoke_test() {
        &[1_000]
    } else {
        &[10_000, 100_000, 1_000_000]
    };
    let mut group = criterion.benchmark_group("cold_start");
    group.sample_size(10);
    for &pods in sizes {
        let mut size = Size::of_pods(pods);
        size.nodes = size.nodes.min(15_000);
        let cluster = existing(size);
        for (name, part) in PARTS {
            group.bench_function(BenchmarkId::new(name, pods), |bencher| {
                bencher.iter_custom(|starts| (0..starts).map(|_| part(&start(&cluster))).sum());
            });
        }
        let (listed, version) = cluster.list::<Pod>(None);
        group.bench_function(BenchmarkId::new("fill", pods), |bencher| {
            bencher.iter_custom(|calls| (0..calls).map(|_| fill(&listed, &version)).sum());
        });
        fill_plainly(&mut group, pods, &listed);
    }
    group.finish();
}

fn fill_plainly(group: &mut BenchmarkGroup<'_, WallTime>, pods: usize, listed: &[Arc<Pod>]) {
    group.bench_function(BenchmarkId::new("fill-plain", pods), |bencher| {
        bencher.iter_custom(|calls| {
            let call = |_| {
                let store = Plain::default();
                let start = WallTime.start();
                listed.iter().for_each(|pod| store.add(pod));
                WallTime.end(start)
            };
            (0..calls).map(call).sum()
        });
    });
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(2));
    targets = starts
}
criterion_main!(benches);
