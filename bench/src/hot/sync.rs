//! Syncs from the key to the last request, with every request answered immediately. After each
//! sync, its expectations are dropped, because the caches never show its pods.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::driver::{Driver, Progress};
use podstorm::object::{Now, Pod};
use podstorm::replicaset::{ReplicaSetSync, Step};

use crate::clusters::{Cluster, NOW, Plan};

/// The number of pods of the ReplicaSet that is scaled down, and the number of pods deleted.
const SCALED_DOWN: usize = 1_000;
const DELETED: usize = 500;

/// Returns a plan of one ReplicaSet with nothing to do. Its pods are available after being ready
/// for 30 seconds.
pub fn settled_min_ready(pods: usize) -> Plan {
    Plan {
        min_ready_seconds: 30,
        ..Plan::new(1, pods)
    }
}

/// Returns a sync with nothing to do, of one ReplicaSet after the other.
pub fn idle(plan: Plan) -> impl FnMut() -> u64 {
    let (cluster, mut sync, mut turn) = (plan.build(), ReplicaSetSync::default(), 0);
    move || {
        // The step is coprime to the count: a seemingly random order with each ReplicaSet once per
        // round.
        turn = (turn + 37) % cluster.keys.len();
        let key = black_box(cluster.keys[turn]);
        let step = cluster.controller.begin(key, &mut sync, NOW);
        assert!(step == Step::Finished);
        u64::from(sync.requests_made())
    }
}

/// Returns a sync that creates `count` pods. The created pods are prepared in advance, which
/// replaces a server.
pub fn create(count: usize) -> impl FnMut() -> u64 {
    let cluster = creating(count).build();
    let pods = created_by_the_server(count, &cluster);
    let mut driver = Driver::<ReplicaSetSync>::default();
    move || {
        let key = black_box(cluster.keys[0]);
        let mut created = 0;
        let mut server = |_: &Request, _: Now| {
            created += 1;
            Answer::Pod(pods[created - 1].clone())
        };
        let progress = driver.begin(&*cluster.controller, 0, key, &mut server, NOW);
        assert_eq!((progress, created), (Progress::Finished, pods.len()));
        forget(&cluster, &mut driver.sync)
    }
}

/// Returns a plan of one ReplicaSet that wants `count` pods and has none.
pub fn creating(count: usize) -> Plan {
    Plan {
        wanted: Some(i32::try_from(count).expect("a burst is small")),
        ..Plan::new(1, 0)
    }
}

/// Returns a plan of ReplicaSets that have 1,000 pods and want 500, with `namespace_pods` pods in
/// the namespace. Every ReplicaSet belongs to a Deployment of its own, which has ten old revisions.
pub fn deleting(namespace_pods: usize) -> Plan {
    Plan {
        old_revisions: 10,
        wanted: Some(i32::try_from(SCALED_DOWN - DELETED).expect("some hundred")),
        ..Plan::new(namespace_pods / SCALED_DOWN, SCALED_DOWN)
    }
}

/// Returns the same plan, except that all ReplicaSets belong to one Deployment, so that all pods
/// count as co-located.
pub fn deleting_among_siblings(namespace_pods: usize) -> Plan {
    Plan {
        old_revisions: 0,
        one_deployment: true,
        ..deleting(namespace_pods)
    }
}

/// Returns a sync that deletes 500 of the 1,000 pods of a ReplicaSet.
pub fn scale_down(plan: Plan) -> impl FnMut() -> u64 {
    let (cluster, mut driver) = (plan.build(), Driver::<ReplicaSetSync>::default());
    move || {
        let key = black_box(cluster.keys[0]);
        let mut deleted = 0;
        let mut server = |_: &Request, _: Now| {
            deleted += 1;
            Answer::Deleted(None)
        };
        let progress = driver.begin(&*cluster.controller, 0, key, &mut server, NOW);
        assert_eq!((progress, deleted), (Progress::Finished, DELETED));
        forget(&cluster, &mut driver.sync)
    }
}

/// Returns the pods with which a server would answer this many creates.
fn created_by_the_server(count: usize, cluster: &Cluster) -> Vec<Arc<Pod>> {
    let owner = cluster.controller.owners().get(cluster.keys[0]);
    let owner = owner.expect("the ReplicaSet is cached");
    let version = 1_000_000u64;
    // By the next sync, the cache must have seen the pods, or that sync would wait for them.
    cluster.controller.pods().bookmark(&(version).into());
    (0..count)
        .map(|number| {
            let mut pod = Pod::clone(owner.pod_from_template());
            pod.metadata.namespace = owner.object.metadata.namespace.clone();
            pod.metadata.name = format!("{}-{number:05}", owner.object.metadata.name).into();
            pod.metadata.resource_version = version.into();
            Arc::new(pod)
        })
        .collect()
}

/// Takes the Events, and drops the expectations.
fn forget(cluster: &Cluster, sync: &mut ReplicaSetSync) -> u64 {
    let events = sync.take_events().count();
    cluster.controller.expectations().delete(cluster.keys[0]);
    events as u64
}
