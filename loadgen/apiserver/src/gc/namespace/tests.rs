//! Deletion of namespaces.

use podstorm_objects::{Object, Pod, ReplicaSet};

use serde_json::json;

use super::*;
use crate::testing::*;

fn delete_namespace(cluster: &Cluster, name: &str) {
    let deleted = cluster.delete::<Namespace>("", name, &DeleteOptions::default(), at(1));
    assert!(!deleted.unwrap().removed);
}

fn collect(cluster: &Cluster) {
    while cluster.collect_garbage(100, at(2)) > 0 {}
}

fn end(cluster: &Cluster, name: &str) {
    let ended = cluster.delete::<Pod>("default", name, &forced(), at(3));
    ended.unwrap();
}

fn is_there(cluster: &Cluster) -> bool {
    cluster.get::<Namespace>("", "default").is_ok()
}

#[test]
fn a_deleted_namespace_is_terminating_and_takes_nothing_new() {
    let cluster = cluster();
    let mut watch = watch::<Namespace>(&cluster);
    delete_namespace(&cluster, "default");
    let found = cluster.get::<Namespace>("", "default").unwrap();
    assert!(found.terminating);
    let value = found.to_json();
    assert_eq!(value["status"]["phase"], "Terminating");
    assert_eq!(value["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(found.metadata.deletion_timestamp, at(1).wall());
    let error = cluster.create(pod("a", json!({})), at(1)).unwrap_err();
    assert!(error.has_cause("NamespaceTerminating"));
    // Again: nothing new. Nor can an update bring it back.
    delete_namespace(&cluster, "default");
    let mut back = Namespace::clone(&found);
    back.terminating = false;
    back.fields.clear();
    cluster.update(back, at(1)).unwrap();
    let version = cluster.resource_version();
    assert_eq!(drain(&mut watch), [format!("MODIFIED default {version}")]);
    collect(&cluster);
    let version = version + 1;
    assert_eq!(drain(&mut watch), [format!("DELETED default {version}")]);
    assert!(!is_there(&cluster));
    assert_eq!(cluster.garbage_queue_len(), 0);
}

#[test]
fn pods_go_first_then_the_rest_then_the_namespace() {
    let cluster = cluster();
    cluster.create(replica_set("r", json!({})), at(0)).unwrap();
    bound_pod(&cluster, "slow", json!({}));
    bound_pod(&cluster, "slower", json!({}));
    cluster.create(pod("unbound", json!({})), at(0)).unwrap();
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    cluster.create(pod("a", elsewhere), at(0)).unwrap();
    delete_namespace(&cluster, "default");
    collect(&cluster);
    let slow = cluster.get::<Pod>("default", "slow").unwrap();
    assert!(slow.metadata.is_deleting(), "gracefully");
    assert!(cluster.get::<Pod>("default", "unbound").is_err());
    end(&cluster, "slow");
    collect(&cluster);
    let set = cluster.get::<ReplicaSet>("default", "r").unwrap();
    assert!(!set.metadata.is_deleting(), "a pod is left");
    end(&cluster, "slower");
    collect(&cluster);
    assert!(cluster.get::<ReplicaSet>("default", "r").is_err());
    assert!(!is_there(&cluster));
    assert!(cluster.get::<Pod>("other", "a").is_ok());
}

#[test]
fn what_a_finalizer_keeps_keeps_the_namespace() {
    let cluster = cluster();
    let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
    let set = replica_set("r", held.clone());
    cluster.create(set, at(0)).unwrap();
    cluster.create(pod("a", held), at(0)).unwrap();
    delete_namespace(&cluster, "default");
    collect(&cluster);
    let mut pod = Pod::clone(&cluster.get("default", "a").unwrap());
    pod.metadata.finalizers = None;
    cluster.update(pod, at(2)).unwrap();
    collect(&cluster);
    let mut set = ReplicaSet::clone(&cluster.get("default", "r").unwrap());
    assert!(set.metadata.is_deleting());
    assert!(is_there(&cluster));
    set.metadata.finalizers = None;
    cluster.update(set, at(2)).unwrap();
    collect(&cluster);
    assert!(!is_there(&cluster));
}

#[test]
fn an_object_that_was_admitted_before_the_deletion_is_collected_too() {
    let cluster = cluster();
    // As a request does that is overtaken between its admission and its commit.
    let late = |name: &str| {
        let mut pod = pod(name, json!({}));
        pod.set_defaults(None);
        pod.prepare_for_create();
        cluster.store_new(&cluster.pods, pod, at(2)).unwrap();
    };
    bound_pod(&cluster, "slow", json!({}));
    delete_namespace(&cluster, "default");
    collect(&cluster);
    late("one");
    collect(&cluster);
    assert!(cluster.get::<Pod>("default", "one").is_err());
    end(&cluster, "slow");
    collect(&cluster);
    assert!(!is_there(&cluster));
    late("two");
    collect(&cluster);
    assert_eq!(cluster.count::<Pod>(), 0);
}

#[test]
fn a_large_namespace_is_emptied_in_portions() {
    let cluster = cluster();
    for number in 0..3 * PORTION {
        let pod = pod(&format!("p{number}"), json!({}));
        cluster.create(pod, at(0)).unwrap();
    }
    delete_namespace(&cluster, "default");
    assert_eq!(cluster.collect_garbage(1, at(2)), 1);
    assert_eq!(cluster.count::<Pod>(), 2 * PORTION as u64);
    collect(&cluster);
    assert!(!is_there(&cluster));
    let mut again = Namespace::default();
    again.metadata.name = "default".into();
    cluster.create(again, at(4)).unwrap();
    cluster.create(pod("a", json!({})), at(4)).unwrap();
    collect(&cluster);
    assert!(cluster.get::<Pod>("default", "a").is_ok());
}
