//! The pod cache with its indexes, beside the plain way: one lock around a map of pods by
//! `namespace/name` and maps of names by owner, by namespace and by node.

use std::hash::BuildHasherDefault;
use std::hint::black_box;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use hashbrown::{HashMap, HashSet};
use podstorm::cache::{Delta, PodCache};
use podstorm::object::Pod;
use podstorm_bench::hot::cache::{filled, get, pod_name, realistic_pods, rounds, unready, update};

const PODS: usize = 10_000;

type Hashed = BuildHasherDefault<std::collections::hash_map::DefaultHasher>;
type Names = HashMap<String, HashSet<String, Hashed>, Hashed>;

/// A thread-safe store with indices, as one writes it first.
#[derive(Default)]
struct Plain(Mutex<Maps>);

#[derive(Default)]
struct Maps {
    pods: HashMap<String, Arc<Pod>, Hashed>,
    by_owner: Names,
    by_namespace: Names,
    by_node: Names,
}

impl Maps {
    /// The index entries of a pod: the index, and the value under which the pod is filed.
    fn entries(&mut self, pod: &Pod) -> [(&mut Names, String); 3] {
        let owner = pod.metadata.controller();
        [
            (
                &mut self.by_owner,
                owner.map_or(String::new(), |owner| owner.uid.to_string()),
            ),
            (&mut self.by_namespace, pod.metadata.namespace.to_string()),
            (
                &mut self.by_node,
                pod.node_name.as_deref().unwrap_or("").to_owned(),
            ),
        ]
    }

    fn file(&mut self, key: &str, pod: &Pod) {
        for (index, value) in self.entries(pod) {
            index.entry(value).or_default().insert(key.to_owned());
        }
    }

    fn unfile(&mut self, key: &str, pod: &Pod) {
        for (index, value) in self.entries(pod) {
            if let Some(names) = index.get_mut(&value) {
                names.remove(key);
                if names.is_empty() {
                    index.remove(&value);
                }
            }
        }
    }
}

fn key(pod: &Pod) -> String {
    format!("{}/{}", pod.metadata.namespace, pod.metadata.name)
}

impl Plain {
    fn filled(pods: &[Arc<Pod>]) -> Plain {
        let store = Plain::default();
        for pod in pods {
            store.put(pod.clone());
        }
        store
    }

    fn put(&self, pod: Arc<Pod>) -> Option<Arc<Pod>> {
        let key = key(&pod);
        let mut maps = self.0.lock().expect("not poisoned");
        let old = maps.pods.insert(key.clone(), pod.clone());
        if let Some(old) = &old {
            maps.unfile(&key, old);
        }
        maps.file(&key, &pod);
        old
    }

    fn take(&self, pod: &Pod) -> Option<Arc<Pod>> {
        let key = key(pod);
        let mut maps = self.0.lock().expect("not poisoned");
        let old = maps.pods.remove(&key)?;
        maps.unfile(&key, &old);
        Some(old)
    }

    fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let maps = self.0.lock().expect("not poisoned");
        maps.pods.get(&format!("{namespace}/{name}")).cloned()
    }
}

fn updates(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cache");
    group.bench_function(BenchmarkId::new("update", PODS), |bencher| {
        let mut update = update(PODS);
        bencher.iter(&mut update);
    });
    group.bench_function(BenchmarkId::new("update-plain", PODS), |bencher| {
        let pods = realistic_pods(0, PODS);
        let versions = [unready(&pods), pods];
        let (store, mut next, mut done) = (Plain::filled(&versions[1]), rounds(PODS), 0);
        bencher.iter(|| {
            let pod = &versions[done / PODS % 2][next()];
            done += 1;
            store.put(black_box(pod).clone()).is_some()
        });
    });
    group.finish();
}

fn look_ups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cache");
    group.bench_function(BenchmarkId::new("get", PODS), |bencher| {
        let mut get = get(PODS);
        bencher.iter(&mut get);
    });
    group.bench_function(BenchmarkId::new("get-plain", PODS), |bencher| {
        let pods = realistic_pods(0, PODS);
        let names: Vec<String> = (0..PODS).map(pod_name).collect();
        let (store, mut next) = (Plain::filled(&pods), rounds(PODS));
        let namespace = pods[0].metadata.namespace.clone();
        bencher.iter(|| store.get(&namespace, black_box(&names[next()])).is_some());
    });
    group.finish();
}

/// Times `wanted` calls of `work`, in rounds of as many as there are pods; between two rounds
/// `undo` brings the store back, off the clock.
fn in_rounds(
    wanted: u64,
    pods: &[Arc<Pod>],
    mut work: impl FnMut(&Arc<Pod>),
    mut undo: impl FnMut(&Arc<Pod>),
) -> Duration {
    let (mut left, mut taken) = (wanted, Duration::ZERO);
    while left > 0 {
        let count = usize::try_from(left).map_or(pods.len(), |left| left.min(pods.len()));
        let start = WallTime.start();
        pods[..count].iter().for_each(&mut work);
        taken += WallTime.end(start);
        pods[..count].iter().for_each(&mut undo);
        left -= count as u64;
    }
    taken
}

/// Pods that come to a full store, and pods that leave it.
fn comings_and_goings(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("cache");
    let pods = realistic_pods(0, PODS);
    let more = realistic_pods(PODS, PODS / 10);
    let add = |cache: &PodCache, pod: &Arc<Pod>| {
        cache.apply(Delta::Applied(black_box(pod).clone()));
    };
    let remove = |cache: &PodCache, pod: &Arc<Pod>| {
        cache.apply(Delta::Deleted(black_box(pod).clone()));
    };
    let cache = filled(&pods);
    let store = Plain::filled(&pods);
    let put = |pod: &Arc<Pod>| drop(store.put(black_box(pod).clone()));
    let take = |pod: &Arc<Pod>| drop(store.take(black_box(pod)));
    group.bench_function(BenchmarkId::new("insert", PODS), |bencher| {
        bencher.iter_custom(|calls| {
            in_rounds(
                calls,
                &more,
                |pod| add(&cache, pod),
                |pod| remove(&cache, pod),
            )
        });
    });
    group.bench_function(BenchmarkId::new("insert-plain", PODS), |bencher| {
        bencher.iter_custom(|calls| in_rounds(calls, &more, put, take));
    });
    more.iter().for_each(|pod| add(&cache, pod));
    more.iter().for_each(put);
    group.bench_function(BenchmarkId::new("delete", PODS), |bencher| {
        bencher.iter_custom(|calls| {
            in_rounds(
                calls,
                &more,
                |pod| remove(&cache, pod),
                |pod| add(&cache, pod),
            )
        });
    });
    group.bench_function(BenchmarkId::new("delete-plain", PODS), |bencher| {
        bencher.iter_custom(|calls| in_rounds(calls, &more, take, put));
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = updates, look_ups, comings_and_goings
}
criterion_main!(benches);
