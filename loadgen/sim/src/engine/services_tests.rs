//! Tests of the controllers of a served cluster, and of the effects when each one does not run.

use podstorm_apiserver::{Cluster, DeleteOptions, Propagation, WatchFrom, WatchOptions};
use podstorm_objects::{Event, Namespace, Node, Object, Pod, ReplicaSet, Resource, WatchEvent};
use serde_json::{Value, json};

use super::Harness;
use crate::nodes::{ClientRules, NodeTimes};
use crate::options::{EngineKind, SimOptions};
use crate::rows::Rows;
use crate::services::Controllers;

const SECOND_NS: i64 = 1_000_000_000;

fn read<R: Resource>(value: Value) -> R {
    R::from_json(value).unwrap()
}

/// Returns a served cluster on virtual time with these controllers, the namespace `shop` and the
/// node `n1`.
fn serving(controllers: &[&str], namespaces_wait: bool) -> Harness {
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    options.services.controllers = Controllers::from_words(Rows::installed(), controllers).unwrap();
    options.services.namespaces_wait = namespaces_wait;
    furnished(&options)
}

/// Returns a served cluster with namespaces and a node.
pub(super) fn furnished(options: &SimOptions) -> Harness {
    let harness = Harness::serving(options, NodeTimes::default(), ClientRules::default()).started();
    let (cluster, now) = (harness.cluster(), harness.now());
    for name in ["default", "shop"] {
        let namespace = json!({"metadata": {"name": name}});
        cluster.create(read::<Namespace>(namespace), now).unwrap();
    }
    // The node already has the conditions that its kubelet would report.
    let conditions = [
        ("MemoryPressure", "False"),
        ("DiskPressure", "False"),
        ("PIDPressure", "False"),
        ("Ready", "True"),
    ];
    let conditions = conditions.map(|(of_type, status)| json!({"type": of_type, "status": status}));
    let node = json!({"metadata": {"name": "n1"}, "status": {"conditions": conditions}});
    cluster.import(read::<Node>(node), now).unwrap();
    harness
}

pub(super) fn web() -> ReplicaSet {
    let labels = json!({"app": "web"});
    read(
        json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
    )
}

fn pod(patch: &Value) -> Pod {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (member, value) in patch.as_object().unwrap() {
        pod["metadata"][member] = value.clone();
    }
    read(pod)
}

fn pods(cluster: &Cluster) -> Vec<std::sync::Arc<Pod>> {
    cluster.list::<Pod>(Some("shop")).0
}

fn ready(cluster: &Cluster) -> usize {
    pods(cluster).iter().filter(|pod| pod.is_ready()).count()
}

/// Advances the cluster by ten minutes.
fn pass_time(harness: &mut Harness) {
    assert!(!harness.until(600 * SECOND_NS, |_| false));
}

fn delete<R: podstorm_apiserver::ClusterResource>(
    harness: &Harness,
    namespace: &str,
    name: &str,
    propagation: Option<Propagation>,
) {
    let options = DeleteOptions {
        propagation,
        ..DeleteOptions::default()
    };
    let (cluster, now) = (harness.cluster(), harness.now());
    cluster.delete::<R>(namespace, name, &options, now).unwrap();
}

#[test]
fn without_the_garbage_collector_nothing_cascades() {
    for (controllers, left) in [(&["*"][..], 0), (&["*", "-garbagecollector"], 2)] {
        let mut harness = serving(controllers, false);
        harness.cluster().create(web(), harness.now()).unwrap();
        assert!(harness.until(60 * SECOND_NS, |cluster| ready(cluster) == 2));
        delete::<ReplicaSet>(&harness, "shop", "web", Some(Propagation::Background));
        pass_time(&mut harness);
        assert_eq!(pods(harness.cluster()).len(), left, "{controllers:?}");
        assert_eq!(harness.cluster().garbage_queue_len(), 0);
    }
    for propagation in [Propagation::Foreground, Propagation::Orphan] {
        let mut harness = serving(&["*", "-garbagecollector"], false);
        harness.cluster().create(web(), harness.now()).unwrap();
        assert!(harness.until(60 * SECOND_NS, |cluster| ready(cluster) == 2));
        delete::<ReplicaSet>(&harness, "shop", "web", Some(propagation));
        pass_time(&mut harness);
        let held = harness.cluster().get::<ReplicaSet>("shop", "web").unwrap();
        assert_eq!(held.metadata.finalizers().len(), 1, "{propagation:?}");
        let owned = |pod: &std::sync::Arc<Pod>| !pod.metadata.owner_references.is_empty();
        assert!(pods(harness.cluster()).iter().all(owned));
    }
}

#[test]
fn without_its_controller_a_namespace_stays_terminating() {
    let mut harness = serving(&["*", "-namespace"], false);
    harness.cluster().create(web(), harness.now()).unwrap();
    assert!(harness.until(60 * SECOND_NS, |cluster| ready(cluster) == 2));
    delete::<Namespace>(&harness, "", "shop", None);
    pass_time(&mut harness);
    let held = harness.cluster().get::<Namespace>("", "shop").unwrap();
    assert!(held.terminating && !held.to_json()["status"]["conditions"].is_array());
    assert_eq!(ready(harness.cluster()), 2);
}

#[test]
fn a_namespace_ends_as_in_upstream() {
    for (waits, empty_s, full_s) in [(false, 0..1, 0..2), (true, 5..6, 10..11)] {
        let mut harness = serving(&["*"], waits);
        for (name, seconds) in [("default", empty_s), ("shop", full_s)] {
            if name == "shop" {
                harness.cluster().create(web(), harness.now()).unwrap();
                assert!(harness.until(60 * SECOND_NS, |cluster| ready(cluster) == 2));
            }
            let begun = harness.now().mono_ns;
            let from = WatchFrom::Version(harness.cluster().resource_version());
            let (cluster, options) = (harness.cluster(), WatchOptions::default());
            let mut watch = cluster.watch::<Namespace>(from, options).unwrap();
            delete::<Namespace>(&harness, "", name, None);
            assert!(harness.until(60 * SECOND_NS, |cluster| {
                cluster.get::<Namespace>("", name).is_err()
            }));
            let mut events = Vec::new();
            watch.poll(100, harness.now(), &mut events);
            let conditions = events.iter().filter_map(|event| match event {
                WatchEvent::Modified(namespace) => namespace.to_json()["status"]["conditions"]
                    .as_array()
                    .map(Vec::len),
                _ => None,
            });
            assert_eq!(conditions.max(), Some(5), "{name}");
            let took = (harness.now().mono_ns - begun) / SECOND_NS;
            assert!(seconds.contains(&took), "{name}, waits {waits}: {took} s");
        }
    }
}

#[test]
fn a_finalizer_that_keeps_a_namespace_is_in_its_conditions() {
    let mut harness = serving(&["*"], true);
    let held = pod(&json!({"finalizers": ["x.io/a"]}));
    harness.cluster().create(held, harness.now()).unwrap();
    assert!(harness.until(60 * SECOND_NS, |cluster| ready(cluster) == 1));
    delete::<Namespace>(&harness, "", "shop", None);
    pass_time(&mut harness);
    let (cluster, now) = (harness.cluster().clone(), harness.now());
    let kept = cluster.get::<Namespace>("", "shop").unwrap().to_json();
    assert_eq!(kept["status"]["phase"], "Terminating");
    let mut free = Pod::clone(&cluster.get("shop", "p").unwrap());
    free.metadata.finalizers = None;
    cluster.update(free, now).unwrap();
    assert!(harness.until(60 * SECOND_NS, |cluster| {
        cluster.get::<Namespace>("", "shop").is_err()
    }));
}

#[test]
fn pods_of_a_deleted_node_are_collected_if_podgc_runs() {
    for (controllers, left) in [(&["*"][..], 0), (&["*", "-podgc"], 1)] {
        let mut harness = serving(controllers, false);
        let alone = pod(&json!({}));
        harness.cluster().create(alone, harness.now()).unwrap();
        assert!(harness.until(60 * SECOND_NS, |cluster| ready(cluster) == 1));
        delete::<Node>(&harness, "", "n1", None);
        let begun = harness.now().mono_ns;
        let gone = harness.until(600 * SECOND_NS, |cluster| pods(cluster).is_empty());
        assert_eq!(pods(harness.cluster()).len(), left, "{controllers:?}");
        let took = (harness.now().mono_ns - begun) / SECOND_NS;
        let in_time = !gone || (40..=80).contains(&took);
        assert!(in_time, "after the quarantine: {took} s");
    }
}

#[test]
fn workload_controllers_can_be_disabled() {
    let replication_controller = json!({"metadata": {"name": "rc", "namespace": "shop"},
        "spec": {"replicas": 3, "selector": {"app": "rc"}, "template": {
            "metadata": {"labels": {"app": "rc"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    for (controllers, count) in [
        (&["*"][..], 5),
        (&["*", "-replicaset"], 3),
        (&["*", "-replicationcontroller-controller"], 2),
        (&["garbagecollector"], 0),
    ] {
        let mut harness = serving(controllers, false);
        harness.cluster().create(web(), harness.now()).unwrap();
        let rc = read::<podstorm_objects::ReplicationController>(replication_controller.clone());
        harness.cluster().create(rc, harness.now()).unwrap();
        pass_time(&mut harness);
        assert_eq!(pods(harness.cluster()).len(), count, "{controllers:?}");
    }
}

#[test]
fn an_object_with_an_owner_in_another_namespace_is_collected() {
    let mut harness = serving(&["*"], false);
    let mut owner = web();
    owner.metadata.namespace = "default".into();
    owner.spec.replicas = Some(0);
    let owner = harness.cluster().create(owner, harness.now()).unwrap();
    let uid = owner.metadata.uid.to_string();
    let reference =
        json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid}]);
    let lost = pod(&json!({"ownerReferences": reference}));
    harness.cluster().create(lost, harness.now()).unwrap();
    assert!(harness.until(60 * SECOND_NS, |cluster| pods(cluster).is_empty()));
    let (events, _) = harness.cluster().list::<Event>(Some("shop"));
    let wanted = format!(
        "ownerRef [apps/v1/ReplicaSet, namespace: shop, name: web, uid: {uid}] does not exist in \
         namespace \"shop\""
    );
    let mut events = events.iter();
    let found = events.find(|event| &*event.topic.reason == "OwnerRefInvalidNamespace");
    assert_eq!(&*found.unwrap().message, wanted);
}

#[test]
fn an_event_expires_an_hour_after_its_last_write() {
    const HOUR_NS: i64 = 3600 * SECOND_NS;
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    options.services.controllers = Controllers::from_words(Rows::installed(), &["-podgc"]).unwrap();
    options.services.event_ttl_ns = HOUR_NS;
    let mut harness = furnished(&options);
    let event = |name: String| {
        read::<Event>(
            json!({"metadata": {"name": name, "namespace": "shop"}, "message": "m",
            "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "p"}}),
        )
    };
    for number in 0..3000 {
        let made = harness
            .cluster()
            .create(event(format!("e{number}")), harness.now());
        made.unwrap();
    }
    let mut watch = harness
        .cluster()
        .watch::<Event>(
            WatchFrom::Version(harness.cluster().resource_version()),
            WatchOptions::default(),
        )
        .unwrap();
    let names = |harness: &Harness| {
        let events = harness.cluster().list::<Event>(None).0;
        let names = events.iter().map(|event| event.metadata.name.to_string());
        names.collect::<Vec<_>>()
    };
    harness.advance(HOUR_NS / 2);
    let mut again = Event::clone(&harness.cluster().get::<Event>("shop", "e7").unwrap());
    again.count = 2;
    harness.cluster().update(again, harness.now()).unwrap();
    harness.advance(HOUR_NS / 2 - 1);
    assert_eq!(names(&harness).len(), 3000);
    let state = harness.state().unwrap();
    harness.advance(1);
    assert_eq!(names(&harness), ["e7"], "the Event was rewritten");
    harness.advance(HOUR_NS / 2);
    assert!(names(&harness).is_empty());
    let mut seen = Vec::new();
    while watch.poll(4000, harness.now(), &mut seen).more {}
    let deleted = seen
        .iter()
        .filter(|it| matches!(it, WatchEvent::Deleted(_)));
    assert_eq!(deleted.count(), 3000);
    assert!(harness.settle(SECOND_NS), "no Event is due");

    // A resumed cluster deletes Events whose own timestamps are an hour old.
    let (times, rules) = (NodeTimes::default(), ClientRules::default());
    let fork = Harness::resuming(&options, times, rules, &state)
        .unwrap()
        .started();
    assert_eq!(fork.cluster().count::<Event>(), 3000);
    fork.advance(SECOND_NS);
    assert_eq!(
        fork.cluster().count::<Event>(),
        0,
        "the rewritten count has no new timestamp"
    );
}
