//! Bytes per cached pod, counted exactly. Needs dhat as the program's global allocator, a running
//! dhat profiler, and no other thread that allocates.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::object::{Object, Pod, Resource as _};
use serde_json::Value;

use crate::clusters::{Plan, Sharing};
use crate::hot::cache::ranking_cache;

/// The number of pods per ReplicaSet.
const EACH: usize = 50;

/// Returns the heap bytes per cached pod, including index entries and the totals of owned pods, for
/// `pods` realistic pods (each with its own container id, start time and addresses), 50 per
/// ReplicaSet.
///
/// # Panics
/// Panics if dhat does not count.
pub fn bytes_per_pod(sharing: Sharing, pods: usize) -> f64 {
    let mut sharer = podstorm::object::Sharer::default();
    bytes_each(sharing, pods, ranking_cache, move |cache, mut pod| {
        pod.strip_for_cache();
        sharer.share_pod(&mut pod);
        cache.apply(Delta::Applied(Arc::new(pod)));
        cache.len()
    })
}

/// Returns the heap bytes per pod for the plain way: every pod as it was parsed, in a map by name.
///
/// # Panics
/// Panics if dhat does not count.
pub fn plain_bytes_per_pod(sharing: Sharing, pods: usize) -> f64 {
    bytes_each(sharing, pods, BTreeMap::new, |map, pod| {
        map.insert(pod.metadata.name.to_string(), pod);
        map.len()
    })
}

/// Returns the heap bytes per pod in a store. `add` puts a pod into the store and returns the
/// number of pods in it.
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
    // Only the JSON of the drawn pods is kept, so that only parts found to be equal are shared.
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
