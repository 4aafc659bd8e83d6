//! Pods that are collected, and those that stay.

use std::sync::Arc;

use podstorm_objects::{Object, PodPhase};
use serde_json::json;

use super::*;
use crate::testing::*;

fn node(name: &str, patch: serde_json::Value) -> Node {
    read(merged(json!({"metadata": {"name": name}}), patch))
}

/// A cluster with nodes `n1` and `n2`.
fn with_nodes() -> Cluster {
    let cluster = cluster();
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    for name in ["n1", "n2"] {
        cluster.import(node(name, ready.clone()), at(0)).unwrap();
    }
    cluster
}

fn pods(cluster: &Cluster) -> Vec<String> {
    let (pods, _) = cluster.list::<Pod>(None);
    let names = pods.iter().map(|pod| pod.metadata.name.to_string());
    names.collect()
}

fn delete_node(cluster: &Cluster, seconds: i64) -> Arc<Node> {
    let options = DeleteOptions::default();
    let deleted = cluster.delete::<Node>("", "n1", &options, at(seconds));
    deleted.unwrap().object
}

/// A round every 20 s from `from` on to `to`; what they did together.
fn rounds(collector: &mut PodCollector, cluster: &Cluster, from: i64, to: i64) -> RoundCounts {
    let mut all = RoundCounts::default();
    for seconds in (from..=to).step_by(20) {
        let counts = collector.round(cluster, at(seconds));
        all.deleted += counts.deleted;
        all.failed += counts.failed;
    }
    all
}

#[test]
fn pods_of_a_deleted_node_go_after_the_quarantine() {
    let cluster = with_nodes();
    bound_pod(&cluster, "lost", json!({}));
    cluster.create(pod("free", json!({})), at(0)).unwrap();
    let mut collector = PodCollector::new(12_500);
    let nothing = RoundCounts::default();
    assert_eq!(rounds(&mut collector, &cluster, 0, 20), nothing);
    delete_node(&cluster, 30);
    let mut pods_seen = watch::<Pod>(&cluster);
    assert_eq!(rounds(&mut collector, &cluster, 40, 60), nothing);
    assert_eq!(pods(&cluster), ["free", "lost"], "40 s are not over");
    assert_eq!(rounds(&mut collector, &cluster, 80, 80).deleted, 1);
    assert_eq!(pods(&cluster), ["free"]);
    let events = events(&mut pods_seen);
    let podstorm_objects::WatchEvent::Modified(marked) = &events[0] else {
        panic!("the pod is marked first: {events:?}");
    };
    assert_eq!(marked.status.phase, PodPhase::Failed);
    let stored = marked.to_json();
    let conditions = stored["status"]["conditions"].as_array().unwrap();
    let last = conditions.last().unwrap();
    assert_eq!(last["reason"], "DeletionByPodGC", "beside the others");
}

#[test]
fn a_node_that_comes_back_keeps_its_pods() {
    let cluster = with_nodes();
    bound_pod(&cluster, "kept", json!({}));
    let gone = delete_node(&cluster, 0);
    let mut collector = PodCollector::new(12_500);
    rounds(&mut collector, &cluster, 0, 20);
    cluster.import(Node::clone(&gone), at(30)).unwrap();
    let late = rounds(&mut collector, &cluster, 40, 400);
    assert_eq!(late, RoundCounts::default());
    assert_eq!(pods(&cluster), ["kept"]);
}

#[test]
fn ended_pods_beyond_the_threshold_go_the_oldest_first() {
    let cluster = with_nodes();
    for name in ["a", "b", "c"] {
        let ended = bound_pod(&cluster, name, json!({}));
        set_phase(&cluster, &ended, PodPhase::Succeeded);
    }
    bound_pod(&cluster, "running", json!({}));
    assert_eq!(PodCollector::new(0).round(&cluster, at(0)).deleted, 0);
    assert_eq!(PodCollector::new(2).round(&cluster, at(0)).deleted, 1);
    assert_eq!(pods(&cluster), ["b", "c", "running"]);
}

#[test]
fn an_unbound_pod_that_a_finalizer_keeps_is_only_marked() {
    let cluster = with_nodes();
    let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
    cluster.create(pod("held", held), at(0)).unwrap();
    let options = DeleteOptions::default();
    let deleted = cluster.delete::<Pod>("default", "held", &options, at(0));
    deleted.unwrap();
    assert_eq!(PodCollector::new(1).round(&cluster, at(0)).deleted, 1);
    let held = cluster.get::<Pod>("default", "held").unwrap();
    assert_eq!(held.status.phase, PodPhase::Failed);
}
