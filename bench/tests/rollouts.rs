//! The data that is kept for deleted ReplicaSets does not grow. A controller goes through rollouts,
//! each of which adds ReplicaSets and pods with new names and removes them again. Afterwards, its
//! memory is the same as before.
//!
//! This is the only test in its process, because the counter counts every thread.

use std::sync::Arc;

use podstorm::cache::{Delta, PodCache};
use podstorm::client::{Answer, Request};
use podstorm::driver::{Driver, sync_all};
use podstorm::informer::AnyInformer;
use podstorm::object::{Kind, LabelSelector, Labels, Now, OwnerReference, Pod, ReplicaSet, Uid};
use podstorm::policy::Behaviour;
use podstorm::replicaset::{Controller, ControllerOptions, ReplicaSetSync};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The number of ReplicaSets in a rollout, and of pods per ReplicaSet.
const SETS: u128 = 5;
const PODS: usize = 4;

/// The duration of a rollout: longer than the cooldown of a key.
const ROLLOUT_NS: i64 = 400_000_000_000;

/// The test would notice a leak of this many bytes per removed ReplicaSet. It would not notice a
/// single byte: shards of the cache keep their largest size, and some reach it late.
const LEAK_BYTES: usize = 4;

/// The number of rollouts after which the tables have nearly reached their final size. Some are
/// swept only after they have grown.
const SETTLED: usize = 500;
const ROLLOUTS: usize = 2_000;

struct Harness {
    cache: Arc<PodCache>,
    controller: Arc<Controller>,
    owners: Arc<dyn AnyInformer>,
    driver: Driver<ReplicaSetSync>,
    now: Now,
    version: u64,
}

impl Harness {
    fn version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    fn set(&mut self, set: &mut ReplicaSet, replicas: i32) {
        set.spec.replicas = Some(replicas);
        set.metadata.generation += 1;
        set.metadata.resource_version = self.version().into();
        let set = Arc::new(set.clone());
        self.owners.apply(Delta::Applied(set), self.now);
    }

    fn pod(&mut self, pod: Pod, is_gone: bool) {
        let mut pod = pod;
        pod.metadata.resource_version = self.version().into();
        let pod = Arc::new(pod);
        let change = self.cache.apply(match is_gone {
            true => Delta::Deleted(pod),
            false => Delta::Applied(pod),
        });
        self.controller.pod_changed(&change, self.now);
    }

    /// Syncs all waiting keys. Returns the pods to create and the names of the pods to delete.
    fn work(&mut self) -> (Vec<Pod>, Vec<String>) {
        let (mut made, mut deleted) = (Vec::new(), Vec::new());
        let Harness {
            controller,
            driver,
            now,
            version,
            ..
        } = self;
        let mut server = |request: &Request, _: Now| {
            *version += 1;
            let version = *version;
            match request {
                Request::CreatePod {
                    namespace,
                    pod: body,
                    name,
                } => {
                    let mut pod = Pod::clone(body);
                    let chosen = name.as_deref().map(str::to_owned);
                    let name = chosen.unwrap_or_else(|| format!("pod-{version}"));
                    pod.metadata.name = name.as_str().into();
                    pod.metadata.namespace = (&**namespace).into();
                    pod.metadata.uid = Uid::from_u128(u128::from(version));
                    made.push(pod.clone());
                    pod.metadata.resource_version = version.into();
                    Answer::Pod(Arc::new(pod))
                }
                Request::DeletePod { name, .. } => {
                    deleted.push(name.to_string());
                    Answer::Deleted(Some(version.into()))
                }
                Request::ReadVersion { .. } => Answer::Version(1.into()),
                Request::PutStatus { object, .. } => {
                    let object = object.downcast_ref().expect("a ReplicaSet");
                    let mut set = ReplicaSet::clone(object);
                    set.metadata.resource_version = version.into();
                    Answer::Object(Arc::new(set))
                }
                other => panic!("unexpected request {other:?}"),
            }
        };
        sync_all(&**controller, driver, &mut server, *now, |_| {});
        (made, deleted)
    }
}

fn replica_set(number: u128) -> ReplicaSet {
    let mut set = ReplicaSet::default();
    let name = format!("web-{number}");
    let labels = Labels::from_pairs([("app", "web"), ("pod-template-hash", &*name)]);
    set.metadata.name = name.as_str().into();
    set.metadata.namespace = format!("shop-{}", number / SETS).as_str().into();
    set.metadata.uid = Uid::from_u128(u128::MAX - number);
    set.metadata.owner_references.push(Arc::new(OwnerReference {
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        name: format!("deployment-{number}").as_str().into(),
        uid: Uid::from_u128(u128::MAX / 2 - number),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }));
    set.spec.selector = Some(Arc::new(LabelSelector {
        match_labels: labels.clone(),
        match_expressions: Arc::new([]),
    }));
    let mut template = podstorm::object::PodTemplate::default();
    template.metadata.labels = labels;
    set.spec.template = Arc::new(template);
    set
}

/// Runs a rollout: every ReplicaSet is added, gets its pods, loses them, and is deleted.
fn roll_out(harness: &mut Harness, number: u128) {
    let mut sets: Vec<ReplicaSet> = (0..SETS)
        .map(|place| replica_set(number * SETS + place))
        .collect();
    for set in &mut sets {
        harness.set(set, i32::try_from(PODS).expect("small"));
    }
    let (pods, _) = harness.work();
    assert_eq!(pods.len(), PODS * sets.len());
    for pod in &pods {
        harness.pod(pod.clone(), false);
    }
    harness.now.mono_ns += 1_000_000_000;
    harness.work();
    for set in &mut sets {
        harness.set(set, 0);
    }
    let (_, deleted) = harness.work();
    assert_eq!(deleted.len(), pods.len());
    for pod in pods {
        harness.pod(pod, true);
    }
    harness.work();
    for mut set in sets {
        set.metadata.resource_version = harness.version().into();
        let gone = Delta::Deleted(Arc::new(set) as _);
        harness.owners.apply(gone, harness.now);
    }
    harness.work();
    harness.now.mono_ns += ROLLOUT_NS;
    harness.work();
}

#[test]
fn nothing_is_kept_for_deleted_replica_sets() {
    // Only the number of bytes is needed, not where they were allocated.
    let profiler = dhat::Profiler::builder().testing();
    let _profiler = profiler.trim_backtraces(Some(0)).build();
    for behaviour in Behaviour::ALL {
        let cache = Arc::new(PodCache::new());
        cache.bookmark(&1.into());
        let options = ControllerOptions {
            policy: behaviour.policy(),
            ..ControllerOptions::new(Kind::REPLICA_SET)
        };
        let (controller, owners) = Controller::alone(options, cache.clone());
        let mut harness = Harness {
            controller,
            owners,
            cache,
            driver: Driver::default(),
            now: Now::default(),
            version: 1,
        };
        let mut bytes = Vec::new();
        for number in 0..ROLLOUTS {
            roll_out(&mut harness, number as u128);
            bytes.push(dhat::HeapStats::get().curr_bytes);
        }
        assert_eq!(harness.cache.len(), 0);
        assert_eq!(harness.controller.owners().all().len(), 0);
        let settled = bytes[SETTLED - 1];
        let largest = bytes[SETTLED..].iter().max().expect("there are more");
        let gone = (ROLLOUTS - SETTLED) * usize::try_from(SETS).expect("few");
        assert!(
            largest - settled.min(*largest) < LEAK_BYTES * gone,
            "{behaviour:?}: {largest} bytes in use, up from {settled} after {SETTLED} rollouts"
        );
    }
}
