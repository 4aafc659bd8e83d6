//! A controller's cold start over an existing embedded cluster: list, cache, handlers and syncs, on
//! the calling thread and on the rayon pool.

use std::sync::Arc;
use std::time::Duration;

use criterion::measurement::{Measurement, WallTime};
use fastrand::Rng;
use podstorm::cache::PodCache;
use podstorm::client::{Answer, Request};
use podstorm::driver::{Driver, sync_all};
use podstorm::object::{
    AnyObject, Kind, LabelSelector, Labels, Namespace, Node, Now, ObjectMeta, Pod, ReplicaSet,
    ResourceVersion, Str, Time, Uid,
};
use podstorm::reflector::{Action, Delivery, Reflector, ReflectorOptions};
use podstorm::replicaset::{Controller, ControllerOptions, Outcome, ReplicaSetSync};
use podstorm_apiserver::{Cluster, ClusterOptions, ClusterResource, WatchFrom, WatchOptions};
use podstorm_sim::clock::RealClock;

use crate::clusters::{NOW, owner_of, replica_set_uid};
use crate::hot::cache::{ranking_cache, realistic_pod};

/// The maximum number of events taken in one poll, as by the informers of `loadgen`.
const BATCH: usize = 4000;

const NAMESPACES: usize = 100;
/// The number of pods per ReplicaSet.
const EACH: usize = 50;

/// The durations of a start, each measured from the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub struct Start {
    /// The time until the server had prepared both initial states for the controller.
    pub served: Duration,
    /// The time until the first sync had returned with the right decision.
    pub first_sync: Duration,
    /// The time until every ReplicaSet had been synced once.
    pub all_synced: Duration,
}

/// Returns a settled cluster of this many pods, 50 per ReplicaSet and 66 per node: all pods are
/// running and ready, and the statuses are exact. The order of the pods in memory is that of their
/// creation, not of their names.
///
/// # Panics
/// Panics if the cluster rejects an object. The objects created here are valid.
pub fn existing(pods: usize) -> Cluster {
    let replica_sets = pods / EACH;
    let cluster = Cluster::new(ClusterOptions::default());
    let namespaces: Vec<Str> = (0..NAMESPACES.min(replica_sets))
        .map(|number| format!("load-{number:03}").into())
        .collect();
    for name in &namespaces {
        let mut namespace = Namespace::default();
        namespace.metadata.name = (&**name).into();
        import(&cluster, namespace);
    }
    let nodes: Vec<Str> = (0..(pods * 3 / 200).max(1))
        .map(|number| format!("node-{number:05}").into())
        .collect();
    for name in &nodes {
        let mut node = Node::default();
        node.metadata.name = (&**name).into();
        import(&cluster, node);
    }
    let pod = slim(realistic_pod());
    let templates: Vec<Pod> = (0..replica_sets)
        .map(|number| {
            let namespace = &namespaces[number % namespaces.len()];
            let replica_set = import(&cluster, replica_set(number, namespace, &pod));
            let mut template = pod.clone();
            template.metadata.namespace = replica_set.metadata.namespace.clone();
            template.metadata.labels = replica_set.spec.template.metadata.labels.clone();
            template.metadata.owner_references = std::iter::once(owner_of(&replica_set)).collect();
            template.metadata.generate_name =
                Some(format!("{}-", replica_set.metadata.name).into());
            template
        })
        .collect();
    let mut rng = Rng::with_seed(36);
    for number in 0..EACH * replica_sets {
        let mut pod = templates[number % templates.len()].clone();
        let prefix = pod.metadata.generate_name.as_deref().unwrap_or("");
        // Unique within a ReplicaSet, and in no particular order: 31,607 is coprime to 2^20.
        let suffix = (number / templates.len() * 31_607) & 0xf_ffff;
        pod.metadata.name = format!("{prefix}{suffix:05x}").into();
        pod.metadata.uid = Uid::from_u128(rng.u128(..));
        pod.node_name = Some(nodes[rng.usize(0..nodes.len())].clone());
        import(&cluster, pod);
    }
    cluster
}

/// Returns the pod with only those parts of a container status that a kubelet of this cluster
/// reports, so that a million pods fit in memory.
fn slim(mut pod: Pod) -> Pod {
    pod.metadata.annotations = Labels::ABSENT;
    for status in &mut pod.status.container_statuses {
        status.details = None;
    }
    pod
}

fn import<R: ClusterResource>(cluster: &Cluster, object: R) -> Arc<R> {
    let imported = cluster.import(object, NOW);
    imported.unwrap_or_else(|error| panic!("the object is valid: {error:?}"))
}

fn replica_set(number: usize, namespace: &Str, pod: &Pod) -> ReplicaSet {
    let name = format!("rs-{number:05}");
    let labels = Labels::from_pairs([("app", name.as_str())]);
    let replicas = i32::try_from(EACH).expect("the number of pods fits into 31 bits");
    let metadata = ObjectMeta {
        name: name.as_str().into(),
        namespace: namespace.clone(),
        labels: labels.clone(),
        uid: replica_set_uid(number),
        creation_timestamp: Time::from_unix_seconds(1_767_225_600),
        generation: 1,
        ..ObjectMeta::default()
    };
    let mut object = ReplicaSet {
        metadata,
        ..ReplicaSet::default()
    };
    object.spec.replicas = Some(replicas);
    object.spec.selector = Some(Arc::new(LabelSelector {
        match_labels: labels.clone(),
        match_expressions: Arc::new([]),
    }));
    let template = Arc::make_mut(&mut object.spec.template);
    template.metadata.labels = labels;
    template.spec = pod.spec.clone();
    template.token_volume = pod.token_volume;
    let status = &mut object.status;
    status.replicas = replicas;
    status.fully_labeled_replicas = replicas;
    status.ready_replicas = replicas;
    status.available_replicas = replicas;
    status.terminating_replicas = Some(0);
    status.observed_generation = 1;
    object
}

/// Starts a controller over this cluster and tears it down again. The teardown is not timed.
///
/// # Panics
/// Panics if a sync decides to do anything, although the cluster is settled.
pub fn start(cluster: &Cluster) -> Start {
    let clock = RealClock::start();
    let now = || Duration::from_secs_f64(clock.seconds());
    let mut start = Start::default();
    let cache = Arc::new(PodCache::new());
    let options = ControllerOptions::new(Kind::REPLICA_SET);
    let (controller, owners) = Controller::alone(options, cache.clone());
    initial::<ReplicaSet>(cluster, &now, &mut start, |objects, version| {
        let objects = objects.into_iter().map(|object| object as AnyObject);
        owners.replace(objects.collect(), version, NOW);
    });
    let served = start.served;
    initial::<Pod>(cluster, &now, &mut start, |pods, version| {
        let listed = cache.replace(pods, version);
        controller.pods_listed(&listed, NOW);
    });
    start.served += served;
    let mut idle_server = |request: &Request, _: Now| -> Answer {
        panic!("there is nothing to do, but a sync requests {request:?}")
    };
    let mut driver = Driver::<ReplicaSetSync>::default();
    let mut first = None;
    let syncs = sync_all(&*controller, &mut driver, &mut idle_server, NOW, |sync| {
        assert!(matches!(sync.outcome(), Outcome::Ok));
        first.get_or_insert_with(&now);
    });
    start.first_sync = first.unwrap_or_default();
    start.all_synced = now();
    assert_eq!(syncs, controller.owners().all().len());
    start
}

/// Returns the time in which an empty cache loads a list of pods. The preparation and the freeing
/// of both are not timed.
pub fn fill(listed: &[Arc<Pod>], version: &ResourceVersion) -> Duration {
    let (cache, listed) = (ranking_cache(), listed.to_vec());
    let start = WallTime.start();
    let changes = cache.replace(listed, version);
    let taken = WallTime.end(start);
    drop(changes);
    taken
}

/// Returns the initial state of one kind from the stream of a watch, as an informer gets it.
fn initial<R: ClusterResource>(
    cluster: &Cluster,
    now: &impl Fn() -> Duration,
    start: &mut Start,
    replace: impl FnOnce(Vec<Arc<R>>, &ResourceVersion),
) {
    let mut reflector = Reflector::<R>::new(ReflectorOptions::default());
    let present: Now = NOW;
    let Action::Watch { .. } = reflector.next(present, 0.5) else {
        unreachable!("a reflector begins with a stream")
    };
    let began = now();
    let opened = cluster.watch::<R>(WatchFrom::Initial, WatchOptions::default());
    start.served = now() - began;
    reflector.on_watch(opened.as_ref().map(|_| ()), present);
    let mut watch = opened.unwrap_or_else(|error| panic!("no version is too old: {error:?}"));
    let mut events = Vec::new();
    loop {
        watch.poll(BATCH, present, &mut events);
        for event in events.drain(..) {
            if let Some(Delivery::Replace(objects, version)) = reflector.on_event(event, present) {
                return replace(objects, &version);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_finds_everything_and_has_nothing_to_do() {
        let cluster = existing(1_000);
        assert_eq!(cluster.count::<Pod>(), 1_000);
        let start = start(&cluster);
        assert!(start.served <= start.first_sync);
        assert!(start.first_sync <= start.all_synced);
    }
}
