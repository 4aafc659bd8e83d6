//! Bytes per cached pod, counted exactly. Needs dhat as the program's global allocator, a profiler
//! of it running, and no other thread that allocates.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::object::{Object, Pod, Resource as _};
use serde_json::Value;

use crate::clusters::{Plan, Sharing};
use crate::hot::cache::ranking_cache;

/// Pods to a ReplicaSet.
const EACH: usize = 50;

/// Heap bytes that a cached pod takes, index entries and owned pods' totals included: of `pods` realistic pods
/// (container id, start time and addresses of each its own), 50 to a ReplicaSet.
///
/// # Panics
/// When dhat doesn't count.
pub fn bytes_per_pod(sharing: Sharing, pods: usize) -> f64 {
    let mut sharer = podstorm::object::Sharer::default();
    bytes_each(sharing, pods, ranking_cache, move |cache, mut pod| {
        pod.strip_for_cache();
        sharer.share_pod(&mut pod);
        cache.apply(Delta::Applied(Arc::new(pod)));
        cache.len()
    })
}

/// Returns the plain way: every pod as it was parsed, in a map by name.
///
/// # Panics
/// When dhat doesn't count.
pub fn plain_bytes_per_pod(sharing: Sharing, pods: usize) -> f64 {
    bytes_each(sharing, pods, BTreeMap::new, |map, pod| {
        map.insert(pod.metadata.name.to_string(), pod);
        map.len()
    })
}

/// Heap bytes for each of these pods in a store. `add` puts a pod into the store, and returns how many it holds.
fn bytes_each<S>(
    sharing: Sharing,
    pods: usize,
    new: fn() -> S,
    mut add: impl FnMut(&mut S, Pod) -> usize,
) -> f64 {
    let plan = Plan {
        sharing,
        ..Plan::new(pods / EACH, EACH)
    };
    let drawn: Vec<Arc<Pod>> = plan.draw().into_iter().flat_map(|(_, pods)| pods).collect();
    // Of what was drawn only JSON is left, so that nothing is shared but what is found to be equal.
    let texts: Vec<String> = drawn.iter().map(|pod| pod.to_json().to_string()).collect();
    drop(drawn);
    let before = dhat::HeapStats::get().curr_bytes;
    let mut store = new();
    let mut held = 0;
    for text in &texts {
        let value: Value = serde_json::from_str(text).expect("it was JSON");
        held = add(&mut store, Pod::from_json(value).expect("it was a pod"));
    }
    drop(add);
    let taken = dhat::HeapStats::get().curr_bytes - before;
    assert_eq!(held, pods);
    taken as f64 / pods as f64
}
