//! The pod cache with its indexes, compared with the plain way: one lock around a map of pods by
//! `namespace/name`, and maps of names by owner, by namespace and by node.

use std::hash::BuildHasherDefault;
use std::hint::black_box;
use std::sync::{Arc, Mutex};

use hashbrown::{HashMap, HashSet};
use podstorm::cache::{Delta, PodCache};
use podstorm::object::Pod;
use podstorm_bench::hot::Work;
use podstorm_bench::hot::cache::{filled, pod_name, realistic_pods, rounds, unready};

use super::Timed;

const PODS: usize = 10_000;

type Hashed = BuildHasherDefault<std::collections::hash_map::DefaultHasher>;
type Names = HashMap<String, HashSet<String, Hashed>, Hashed>;

/// A thread-safe store with indexes, as one would first write it.
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
    /// Returns the index entries of a pod: each index, with the value under which the pod is filed.
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

pub(crate) fn timed() -> Vec<Timed> {
    vec![
        Timed::new("cache/update-plain/10000", update_plain),
        Timed::new("cache/get-plain/10000", get_plain),
        Timed::new("cache/insert/10000", || Turnover::new(filled, add, remove)),
        Timed::new("cache/insert-plain/10000", || {
            Turnover::new(Plain::filled, put, take)
        }),
        Timed::new("cache/delete/10000", || {
            Turnover::new(with_more(filled, add), remove, add)
        }),
        Timed::new("cache/delete-plain/10000", || {
            Turnover::new(with_more(Plain::filled, put), take, put)
        }),
    ]
}

fn update_plain() -> impl FnMut() -> u64 {
    let pods = realistic_pods(0, PODS);
    let versions = [unready(&pods), pods];
    let (store, mut next, mut done) = (Plain::filled(&versions[1]), rounds(PODS), 0);
    move || {
        let pod = &versions[done / PODS % 2][next()];
        done += 1;
        store.put(black_box(pod).clone()).is_some().into()
    }
}

fn get_plain() -> impl FnMut() -> u64 {
    let pods = realistic_pods(0, PODS);
    let names: Vec<String> = (0..PODS).map(pod_name).collect();
    let (store, mut next) = (Plain::filled(&pods), rounds(PODS));
    let namespace = pods[0].metadata.namespace.clone();
    move || {
        let pod = store.get(&namespace, black_box(&names[next()]));
        pod.is_some().into()
    }
}

fn add(cache: &PodCache, pod: &Arc<Pod>) {
    cache.apply(Delta::Applied(black_box(pod).clone()));
}

fn remove(cache: &PodCache, pod: &Arc<Pod>) {
    cache.apply(Delta::Deleted(black_box(pod).clone()));
}

fn put(store: &Plain, pod: &Arc<Pod>) {
    drop(store.put(black_box(pod).clone()));
}

fn take(store: &Plain, pod: &Arc<Pod>) {
    drop(store.take(black_box(pod)));
}

/// Returns further pods, for adding to a full store.
fn more() -> Vec<Arc<Pod>> {
    realistic_pods(PODS, PODS / 10)
}

fn with_more<S>(
    fill: fn(&[Arc<Pod>]) -> S,
    add: fn(&S, &Arc<Pod>),
) -> impl FnOnce(&[Arc<Pod>]) -> S {
    move |pods| {
        let store = fill(pods);
        more().iter().for_each(|pod| add(&store, pod));
        store
    }
}

/// Works on the pods of [`more`] one after the other. After a round, the store is restored; the
/// restoration is not timed.
struct Turnover<S, W, U> {
    store: S,
    more: Vec<Arc<Pod>>,
    work: W,
    undo: U,
    next: usize,
}

impl<S, W: Fn(&S, &Arc<Pod>), U: Fn(&S, &Arc<Pod>)> Turnover<S, W, U> {
    fn new(fill: impl FnOnce(&[Arc<Pod>]) -> S, work: W, undo: U) -> Self {
        Turnover {
            store: fill(&realistic_pods(0, PODS)),
            more: more(),
            work,
            undo,
            next: 0,
        }
    }
}

impl<S, W: Fn(&S, &Arc<Pod>), U: Fn(&S, &Arc<Pod>)> Work for Turnover<S, W, U> {
    fn prepare(&mut self) -> u64 {
        if self.next == self.more.len() {
            self.next = 0;
            self.more
                .iter()
                .for_each(|pod| (self.undo)(&self.store, pod));
        }
        (self.more.len() - self.next) as u64
    }

    fn work(&mut self) -> u64 {
        (self.work)(&self.store, &self.more[self.next]);
        self.next += 1;
        0
    }
}
