//! Syncs from the key to the last request, every request answered at once. Between two syncs what
//! the last one expected is forgotten, because the pods it asked for never come.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::driver::{Driver, Progress};
use podstorm::object::{Now, Pod};
use podstorm::replicaset::{Step, Sync};

use crate::clusters::{Cluster, NOW, Plan};

/// Pods of the ReplicaSet that is scaled down, and how many of them go.
const SCALED_DOWN: usize = 1_000;
const DELETED: usize = 500;

/// One ReplicaSet with nothing to do, whose pods must be ready for 30 seconds to be available.
pub fn settled_min_ready(pods: usize) -> Plan {
    Plan {
        min_ready_seconds: 30,
        ..Plan::new(1, pods)
    }
}

/// Returns a sync with nothing to do, of each ReplicaSet in turn.
pub fn idle(plan: Plan) -> impl FnMut() -> u64 {
    let (cluster, mut sync, mut turn) = (plan.build(), Sync::default(), 0);
    move || {
        // Coprime to the count: an order that looks random and visits each once a round.
        turn = (turn + 37) % cluster.keys.len();
        let key = black_box(cluster.keys[turn]);
        let step = cluster.controller.begin(key, &mut sync, NOW);
        assert!(step == Step::Finished);
        u64::from(sync.requests_made())
    }
}

/// Returns a sync that creates `count` pods. The pods are made before, as a server does.
pub fn create(count: usize) -> impl FnMut() -> u64 {
    let cluster = creating(count).build();
    let pods = created_by_the_server(count, &cluster);
    let mut driver = Driver::<Sync>::default();
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

/// Returns a ReplicaSet that wants `count` pods and has none.
pub fn creating(count: usize) -> Plan {
    Plan {
        wanted: Some(i32::try_from(count).expect("a burst is small")),
        ..Plan::new(1, 0)
    }
}

/// ReplicaSets that have 1,000 pods and want 500, `namespace_pods` pods in the namespace, every ReplicaSet of
/// a Deployment of its own with ten old revisions.
pub fn deleting(namespace_pods: usize) -> Plan {
    Plan {
        old_revisions: 10,
        wanted: Some(i32::try_from(SCALED_DOWN - DELETED).expect("some hundred")),
        ..Plan::new(namespace_pods / SCALED_DOWN, SCALED_DOWN)
    }
}

/// The same, but all ReplicaSets belong to one Deployment, so that all pods count for co-location.
pub fn deleting_among_siblings(namespace_pods: usize) -> Plan {
    Plan {
        old_revisions: 0,
        one_deployment: true,
        ..deleting(namespace_pods)
    }
}

/// Returns a sync that deletes 500 of 1,000 pods.
pub fn scale_down(plan: Plan) -> impl FnMut() -> u64 {
    let (cluster, mut driver) = (plan.build(), Driver::<Sync>::default());
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

/// What a server answers to as many creates.
fn created_by_the_server(count: usize, cluster: &Cluster) -> Vec<Arc<Pod>> {
    let owner = cluster.controller.owners().get(cluster.keys[0]);
    let owner = owner.expect("the ReplicaSet is cached");
    let version = 1_000_000u64;
    // The cache has seen them by the next sync, or that would wait for them.
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

/// Takes the Events, and forgets what is expected.
fn forget(cluster: &Cluster, sync: &mut Sync) -> u64 {
    let events = sync.take_events().count();
    cluster.controller.expectations().delete(cluster.keys[0]);
    events as u64
}
