//! The pod cache with its indexes: updating a pod, removing one and adding another, and looking one
//! up. There are 50 pods per ReplicaSet and a hundred nodes.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::object::{
    ConditionStatus, ConditionType, Kind, Labels, OwnerReference, Pod, Resource, Str, Uid,
};
use podstorm::ranking::RankFields;

/// The number of pods per ReplicaSet.
pub const PODS_PER_OWNER: usize = 50;

const NODES: usize = 100;

/// The pod that all benches use, as an API server serves it.
const FIXTURE: &str = include_str!("../../../core/fixtures/pod.json");

/// Returns a realistic pod without `managedFields`.
///
/// # Panics
/// Never panics, because the fixture is a valid pod.
pub fn realistic_pod() -> Pod {
    let value = serde_json::from_str(FIXTURE).expect("the fixture is JSON");
    let mut pod = Pod::from_json(value).expect("the fixture is a pod");
    pod.strip_for_cache();
    pod
}

/// Returns `count` realistic pods in one namespace, numbered from `first`. All are ready, and they
/// share everything that pods of one ReplicaSet share.
pub fn realistic_pods(first: usize, count: usize) -> Vec<Arc<Pod>> {
    let template = realistic_pod();
    let nodes: Vec<Str> = (0..NODES).map(|n| format!("node-{n:04}").into()).collect();
    let mut owner = None;
    let pod = |number: usize| {
        let set = number / PODS_PER_OWNER;
        let (labels, owner) = match &owner {
            Some((held, labels, owner)) if *held == set => (labels, owner),
            _ => {
                let (labels, reference) = parts_of(set, &template);
                let (_, labels, owner) = owner.insert((set, labels, reference));
                (&*labels, &*owner)
            }
        };
        let mut pod = template.clone();
        pod.metadata.name = pod_name(number).into();
        pod.metadata.uid = Uid::from_u128(number as u128 + 1);
        pod.metadata.resource_version = 7.into();
        pod.metadata.labels = labels.clone();
        pod.metadata.owner_references = std::iter::once(owner.clone()).collect();
        // Spread the pods like a scheduler, by a step that is coprime to the number of nodes.
        pod.node_name = Some(nodes[number * 37 % NODES].clone());
        Arc::new(pod)
    };
    (first..first + count).map(pod).collect()
}

/// Returns the next versions of ready pods, in which they are no longer ready. Their parts are new,
/// as in objects that a server creates.
pub fn unready(pods: &[Arc<Pod>]) -> Vec<Arc<Pod>> {
    let unready = |pod: &Arc<Pod>| {
        let mut pod = (**pod).clone();
        pod.metadata.resource_version = 8.into();
        pod.status.conditions.update(|condition| {
            if condition.kind == ConditionType::Ready {
                condition.status = ConditionStatus::False;
            }
        });
        Arc::new(pod)
    };
    pods.iter().map(unready).collect()
}

/// Returns the name of a pod: as in reality, the name of its ReplicaSet and five characters.
pub fn pod_name(number: usize) -> String {
    let set = number / PODS_PER_OWNER;
    // A bijection of 20 bits, so that the names in a ReplicaSet don't differ only at their ends.
    let suffix = (number * 0x9_e375) & 0xf_ffff;
    format!("web-{set:05}-6d4cf56db6-{suffix:05x}")
}

fn parts_of(set: usize, template: &Pod) -> (Labels, Arc<OwnerReference>) {
    let name = format!("web-{set:05}-6d4cf56db6");
    let labels = template.metadata.labels.with("app", &name);
    let controller = template.metadata.controller();
    let mut owner = (**controller.expect("the fixture has a controller")).clone();
    owner.name = name.as_str().into();
    owner.uid = Uid::from_u128((1 << 64) + set as u128);
    (labels, Arc::new(owner))
}

/// Returns an empty cache that keeps the ranking fields of a ReplicaSet controller.
pub fn ranking_cache() -> PodCache {
    let cache = PodCache::new();
    cache.keep::<RankFields>(Kind::REPLICA_SET);
    cache
}

/// Returns a cache with these pods.
pub fn filled(pods: &[Arc<Pod>]) -> PodCache {
    let cache = ranking_cache();
    for pod in pods {
        cache.apply(Delta::Applied(pod.clone()));
    }
    cache
}

/// Returns all numbers below `count` once per round, in a seemingly random order.
pub fn rounds(count: usize) -> impl FnMut() -> usize {
    let mut at = 0;
    move || {
        at = (at + 6_007) % count;
        at
    }
}

/// Updates the pods of a cache one after the other: they become unready in one round, ready in the
/// next.
pub fn update(size: usize) -> impl FnMut() -> u64 {
    let pods = realistic_pods(0, size);
    let versions = [unready(&pods), pods];
    let cache = filled(&versions[1]);
    let (mut next, mut done) = (rounds(size), 0);
    move || {
        let pod = &versions[done / size % 2][next()];
        done += 1;
        let change = cache.apply(Delta::Applied(black_box(pod).clone()));
        u64::from(change.old.is_some())
    }
}

/// Alternates between removing a pod from a cache and adding another.
pub fn turnover(size: usize) -> impl FnMut() -> u64 {
    let pods = realistic_pods(0, size);
    let cache = filled(&pods);
    let mut next = rounds(size);
    let mut away = next();
    cache.apply(Delta::Deleted(pods[away].clone()));
    move || {
        let goes = next();
        let back = std::mem::replace(&mut away, goes);
        let deleted = cache.apply(Delta::Deleted(black_box(&pods[goes]).clone()));
        let added = cache.apply(Delta::Applied(black_box(&pods[back]).clone()));
        u64::from(deleted.old.is_some()) + u64::from(added.old.is_none())
    }
}

/// Looks up the pods of a cache one after the other.
pub fn get(size: usize) -> impl FnMut() -> u64 {
    let pods = realistic_pods(0, size);
    let cache = filled(&pods);
    let names: Vec<String> = (0..size).map(pod_name).collect();
    let mut next = rounds(size);
    let namespace = pods[0].metadata.namespace.clone();
    move || {
        let found = cache.get(&namespace, black_box(&names[next()]));
        u64::from(found.is_some())
    }
}
