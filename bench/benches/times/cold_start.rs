//! A controller's cold start with existing pods, 50 per ReplicaSet: the initial states through the
//! watches of the embedded server, then the cache, handlers and syncs.
//!
//! * `first-sync`: from the controller's list requests until its first sync returns with the right
//!   decision, end to end, including the server's part.
//! * `all-synced`: the same, until every ReplicaSet has been synced once.
//! * `server`: only the server's part, which sorts both states.
//! * `fill`: only the cache and the handlers; `fill-plain` fills a map of pods and a map of names
//!   by owner, clones each pod, and has no handler.

use std::cell::LazyCell;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::sync::Mutex;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use hashbrown::HashMap;
use podstorm::object::Pod;
use podstorm_bench::asked::is_smoke_test;
use podstorm_bench::cold_start::{Start, existing, fill, start};
use podstorm_bench::hot::ByItsClock;

use super::Timed;

type Hashed = BuildHasherDefault<std::collections::hash_map::DefaultHasher>;

/// A measured part of a start: its name, and its duration in a start.
type Part = (&'static str, fn(&Start) -> Duration);

const PARTS: [Part; 3] = [
    ("first-sync", |start| start.first_sync),
    ("all-synced", |start| start.all_synced),
    ("server", |start| start.served),
];

/// One lock around the pods by `namespace/name` and their names by the owner's UID.
#[derive(Default)]
struct Plain(Mutex<Maps>);

/// The pods by name, and the names by owner.
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

pub(crate) fn timed() -> Vec<Timed> {
    let sizes: &[usize] = if is_smoke_test() {
        &[1_000]
    } else {
        &[10_000, 100_000, 1_000_000]
    };
    sizes.iter().flat_map(|&pods| of_size(pods)).collect()
}

/// Returns the timed parts for a cluster of `pods` pods. The first part that needs the cluster
/// creates it.
fn of_size(pods: usize) -> Vec<Timed> {
    let cluster = Rc::new(LazyCell::new(move || existing(pods)));
    let id = |variant: &str| format!("cold_start/{variant}/{pods}");
    let mut all = Vec::new();
    for (name, part) in PARTS {
        let cluster = cluster.clone();
        all.push(Timed::slow(id(name), move || {
            let cluster = cluster.clone();
            ByItsClock(move || part(&start(&cluster)))
        }));
    }
    let ours = cluster.clone();
    all.push(Timed::slow(id("fill"), move || {
        let (listed, version) = ours.list::<Pod>(None);
        ByItsClock(move || fill(&listed, &version))
    }));
    all.push(Timed::slow(id("fill-plain"), move || {
        let (listed, _) = cluster.list::<Pod>(None);
        ByItsClock(move || {
            let store = Plain::default();
            let start = WallTime.start();
            listed.iter().for_each(|pod| store.add(pod));
            WallTime.end(start)
        })
    }));
    all
}
