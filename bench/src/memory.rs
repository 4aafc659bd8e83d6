//! The exact number of bytes per cached pod. Requires that dhat is the program's global allocator,
//! that a dhat profiler is running, and that no other thread allocates.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::object::{Object, Pod, Resource as _};
use serde_json::Value;

use crate::clusters::{Plan, Sharing};
use crate::hot::cache::ranking_cache;

/// The number of pods per ReplicaSet.
const EACH: usize = 50;

/// Returns the heap bytes per cached pod, including index entries and the totals of owned pods.
/// `pods` is the number of pods, 50 per ReplicaSet; each has its own container id, start time and
/// addresses.
///
/// # Panics
/// Panics if dhat is not counting.
pub fn bytes_per_pod(sharing: Sharing, pods: usize) -> f64 {
    let mut sharer = podstorm::object::Sharer::default();
    bytes_each(sharing, pods, ranking_cache, move |cache, mut pod| {
        pod.strip_for_cache();
        sharer.share_pod(&mut pod);
        cache.apply(Delta::Applied(Arc::new(pod)));
        cache.len()
    })
}

/// Returns the heap bytes per pod for the plain way: a map by name, with every pod as it was
/// parsed.
///
/// # Panics
/// Panics if dhat is not counting.
pub fn plain_bytes_per_pod(sharing: Sharing, pods: usize) -> f64 {
    bytes_each(sharing, pods, BTreeMap::new, |map, pod| {
        map.insert(pod.metadata.name.to_string(), pod);
        map.len()
    })
}

/// Returns the heap bytes per pod in a store. `add` adds a pod to the store and returns the number
/// of pods in it.
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
    // Keep only the JSON of the drawn pods, so that the store shares only the parts that it finds
    // to be equal.
    let texts: Vec<String> = drawn.iter().map(|pod| pod.to_json().to_string()).collect();
    drop(drawn);
    let before = dhat::HeapStats::get().curr_bytes;
    let mut store = new();
    let mut held = 0;
    for text in &texts {
        let value: Value = serde_json::from_str(text).expect("the text is JSON");
        held = add(
            &mut store,
            Pod::from_json(value).expect("the value is a pod"),
        );
    }
    drop(add);
    let taken = dhat::HeapStats::get().curr_bytes - before;
    assert_eq!(held, pods);
    taken as f64 / pods as f64
}
