//! The workload of the example on both engines and under injected faults, together with the
//! controllers of ReplicaSets and ReplicationControllers and on their cache of pods.

#![expect(clippy::unwrap_used, reason = "a test fails where its cluster refuses")]

#[path = "../examples/one_pod_each/workload.rs"]
mod workload;

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm::object::{
    AnyObject, DynamicObject, Kind, Namespace, Node, Now, Pod, ReplicaSet, Resource,
};
use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Cluster, ClusterOptions, DeleteOptions, kind_named};
use podstorm_sim::engine::Harness;
use podstorm_sim::engine::fault_harness::{FaultHarness, Stopped};
use podstorm_sim::engine::observer::NoopObserver;
use podstorm_sim::engine::registry::Registry;
use podstorm_sim::faults::{ApiFault, Armed, Call, CrashPoint, Effect, StreamEnd, StreamKind};
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::services::Controllers;
use serde_json::json;
use workload::OnePodEach;

const SECOND: i64 = 1_000_000_000;

fn kind() -> Kind {
    kind_named("ConfigMap").unwrap()
}

fn controllers(engine: EngineKind, seed: u64) -> (Registry, SimOptions) {
    let registry = Registry::upstream().with::<OnePodEach>();
    let mut options = SimOptions::new(engine, seed);
    options.services.controllers = Controllers::by_default(&registry.rows());
    (registry, options)
}

fn harness(engine: EngineKind) -> Harness {
    let (registry, options) = controllers(engine, 1);
    Harness::with_registry(&options, &registry)
}

fn map(name: &str, class: &str) -> AnyObject {
    let meta = json!({"name": name, "namespace": "shop", "labels": {"class": class}});
    Arc::new(DynamicObject::from_json(kind(), json!({"metadata": meta})).unwrap())
}

fn furnish(cluster: &Cluster, now: Now) {
    let namespace = json!({"metadata": {"name": "shop"}});
    let namespace = Namespace::from_json(namespace).unwrap();
    cluster.create(namespace, now).unwrap();
    let node = json!({"metadata": {"name": "n"}, "status": {
        "allocatable": {"pods": "1000"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }});
    cluster.create(Node::from_json(node).unwrap(), now).unwrap();
}

/// Returns the pods that are not terminating: by name, with the kind of the owner.
fn pods(cluster: &Cluster) -> BTreeMap<String, String> {
    let all = cluster.list::<Pod>(None).0.into_iter();
    all.filter(|pod| !pod.metadata.is_deleting())
        .map(|pod| {
            let owner = pod.metadata.controller();
            let owner = owner.map(|owner| owner.kind.to_string());
            (pod.metadata.name.to_string(), owner.unwrap_or_default())
        })
        .collect()
}

fn runners(names: &[&str]) -> BTreeMap<String, String> {
    let runner = |name: &&str| ((*name).to_owned(), "ConfigMap".to_owned());
    names.iter().map(runner).collect()
}

#[test]
fn config_maps_of_the_class_get_their_pods_on_both_engines() {
    for engine in [EngineKind::Virtual, EngineKind::Threads] {
        let mut harness = harness(engine);
        let cluster = Arc::clone(harness.cluster());
        furnish(&cluster, harness.now());
        let api = cluster.api(kind());
        for (name, class) in [("red", "runner"), ("green", "runner"), ("blue", "other")] {
            api.create(map(name, class), harness.now()).unwrap();
        }
        let come = |harness: &mut Harness, names: &[&str]| {
            let wanted = runners(names);
            let have_come = harness.until(60 * SECOND, |cluster| pods(cluster) == wanted);
            assert!(have_come, "{names:?} {engine:?}");
            assert!(harness.settle(60 * SECOND));
            assert_eq!(pods(harness.cluster()), wanted);
        };
        come(&mut harness, &["red", "green"]);
        // A deleted pod is recreated; ConfigMaps may join or leave the class, or be deleted.
        let options = DeleteOptions::default();
        cluster
            .delete::<Pod>("shop", "red", &options, harness.now())
            .unwrap();
        api.update(map("blue", "runner"), harness.now()).unwrap();
        come(&mut harness, &["red", "green", "blue"]);
        api.update(map("green", "other"), harness.now()).unwrap();
        api.delete("shop", "red", &options, harness.now()).unwrap();
        come(&mut harness, &["blue"]);
    }
}

#[test]
fn each_of_several_workloads_handles_its_own_objects() {
    let mut harness = harness(EngineKind::Virtual);
    let cluster = Arc::clone(harness.cluster());
    furnish(&cluster, harness.now());
    let set = json!({
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "x"}]},
        }},
    });
    let (set, now) = (ReplicaSet::from_json(set).unwrap(), harness.now());
    cluster.create(set, now).unwrap();
    let api = cluster.api(kind());
    api.create(map("red", "runner"), now).unwrap();
    assert!(harness.settle(600 * SECOND));
    let mut owners: Vec<String> = pods(&cluster).into_values().collect();
    owners.sort();
    let expected = ["ConfigMap", "ReplicaSet", "ReplicaSet", "ReplicaSet"];
    assert_eq!(owners, expected);
    assert_eq!(cluster.pod_totals().created, 4);
}

/// Requests fail, are executed but seem to fail, arrive late or twice; events are lost and
/// repeated, watches end; the controller manager dies and another one starts: the final state is
/// the same as without faults.
#[test]
fn faults_delay_the_workload_but_change_nothing() {
    for seed in 1..=20 {
        let (registry, mut options) = controllers(EngineKind::Virtual, seed);
        // If its ConfigMaps are stale, it creates pods for deleted owners, which are collected
        // immediately.
        options.latency.api = Latency::Constant(5_000_000);
        let mut site =
            FaultHarness::new(&options, ClusterOptions::default(), Arc::new(NoopObserver));
        site.set_registry(&registry);
        let cluster = Arc::clone(site.cluster());
        furnish(&cluster, site.now());
        site.start_manager();
        let mut random = fastrand::Rng::with_seed(seed);
        let names: Vec<String> = (0..8).map(|number| format!("map-{number}")).collect();
        let until_ns = 60 * SECOND;
        while site.now().mono_ns < until_ns {
            let (now, name) = (site.now(), random.choice(&names).unwrap());
            let api = cluster.api(kind());
            let class = if random.bool() { "runner" } else { "other" };
            match random.u32(0..4) {
                0 => drop(api.create(map(name, class), now)),
                1 => drop(api.update(map(name, class), now)),
                2 => drop(api.delete("shop", name, &DeleteOptions::default(), now)),
                _ => drop(cluster.delete::<Pod>("shop", name, &DeleteOptions::default(), now)),
            }
            let effect = match random.u32(0..5) {
                0 => Effect::Refuse(ApiFault::InternalError),
                1 => Effect::LoseAnswer(ApiFault::Timeout),
                2 => Effect::CommitLate {
                    answer: ApiFault::Timeout,
                    after_ms: 700,
                },
                3 => Effect::Twice,
                _ => Effect::Slow { by_ms: 300 },
            };
            let calls = [Call::CreatePod, Call::DeletePod];
            site.network().arm(Armed {
                until_ns,
                ..Armed::new(&calls, effect, 1)
            });
            let connection = Arc::clone(&site.alive()[0]);
            let stream = if random.bool() {
                StreamKind::from_kind(Kind::POD)
            } else {
                StreamKind::from_kind(kind())
            };
            match random.u32(0..5) {
                0 => connection.drop_events(stream, 1),
                1 => connection.duplicate_events(stream, 2),
                2 => connection.hold(stream, now.mono_ns + SECOND),
                3 => connection.end(stream, StreamEnd::Expired),
                _ => connection.crash_at(CrashPoint::AfterRequest, random.u32(0..3)),
            }
            let next_ns = now.mono_ns + SECOND / 2;
            while site.advance(next_ns, || false) == Stopped::Died {
                site.start_manager();
            }
        }
        site.network().heal();
        site.alive().iter().for_each(|connection| connection.heal());
        site.wake_controllers();
        let mut stopped = Stopped::Died;
        while stopped == Stopped::Died {
            stopped = site.advance(until_ns + 2_000 * SECOND, || false);
        }
        assert_eq!(stopped, Stopped::AtEnd);
        let page = cluster.api(kind()).list(&Default::default()).unwrap();
        let of_class = page.items.iter().filter(|map| {
            map.metadata().labels.get("class").map(|class| &**class) == Some("runner")
        });
        let names: Vec<&str> = of_class.map(|map| map.metadata().name.as_str()).collect();
        assert_eq!(pods(&cluster), runners(&names), "seed {seed}");
        assert!(site.started() > 1, "a manager has died");
    }
}
