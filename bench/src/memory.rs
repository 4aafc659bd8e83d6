//! Bytes per cached pod, counted exactly. Needs dhat as the program's global allocator, a profiler
//! of it running, and no other thread that allocates.

use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::object::{Object, Pod, Resource as _};
use serde_json::Value;

use crate::clusters::{Plan, Sharing};

/// Pods to a ReplicaSet.
const EACH: usize = 50;

/// What pods have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Templates {
    /// The spec and the labels of a ReplicaSet's pods.
    Shared,
    /// The same but for the name of the service-account volume: admission gives each pod its own.
    Distinct,
    /// The labels alone: an environment variable has a value of its own too.
    OwnEnv,
}

/// Heap bytes that a cached pod takes, index entries and groups included: so many realistic pods
/// (container id, start time and addresses of each its own), 50 to a ReplicaSet.
///
/// # Panics
/// When dhat doesn't count.
pub fn bytes_per_pod(templates: Templates, pods: usize) -> f64 {
    let drawn = drawn(templates, pods);
    // Of what was drawn only JSON is left, so that nothing is shared but what is found to be equal.
    let texts: Vec<String> = drawn.iter().map(|pod| pod.to_json().to_string()).collect();
    drop(drawn);
    let before = dhat::HeapStats::get().curr_bytes;
    let cache = PodCache::new();
    let mut sharer = podstorm::object::Sharer::new();
    for text in &texts {
        let value: Value = serde_json::from_str(text).expect("it was JSON");
        let mut pod = Pod::from_json(value).expect("it was a pod");
        pod.strip_for_cache();
        sharer.share_pod(&mut pod);
        cache.apply(Delta::Applied(Arc::new(pod)));
    }
    drop(sharer);
    let taken = dhat::HeapStats::get().curr_bytes - before;
    assert_eq!(cache.len(), pods);
    taken as f64 / pods as f64
}

/// The plain way: every pod as it was parsed, in a map by name.
///
/// # Panics
/// When dhat doesn't count.
pub fn plain_bytes_per_pod(templates: Templates, pods: usize) -> f64 {
    let drawn = drawn(templates, pods);
    let texts: Vec<String> = drawn.iter().map(|pod| pod.to_json().to_string()).collect();
    drop(drawn);
    let before = dhat::HeapStats::get().curr_bytes;
    let mut map = std::collections::BTreeMap::new();
    for text in &texts {
        let value: Value = serde_json::from_str(text).expect("it was JSON");
        let pod = Pod::from_json(value).expect("it was a pod");
        map.insert(pod.metadata.name.to_string(), pod);
    }
    let taken = dhat::HeapStats::get().curr_bytes - before;
    assert_eq!(map.len(), pods);
    taken as f64 / pods as f64
}

fn drawn(templates: Templates, pods: usize) -> Vec<Arc<Pod>> {
    let sharing = match templates {
        Templates::Shared => Sharing::Template,
        Templates::Distinct => Sharing::Admitted,
        Templates::OwnEnv => Sharing::Nothing,
    };
    let plan = Plan {
        sharing,
        ..Plan::new(pods / EACH, EACH)
    };
    plan.draw().into_iter().flat_map(|(_, pods)| pods).collect()
}
