//! Tests of what the garbage collector deletes and keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use podstorm_objects::{Pod, ReplicaSet, ReplicationController};
use serde_json::{Value, json};

use super::*;
use crate::testing::*;
use crate::{DeleteOptions, Propagation};

fn collect(cluster: &Cluster) -> usize {
    cluster.collect_garbage(1000, at(0))
}

fn pods(cluster: &Cluster) -> Vec<String> {
    let (pods, _) = cluster.list::<Pod>(None);
    let names = pods.iter().map(|pod| pod.metadata.name.to_string());
    names.collect()
}

fn owners_of(cluster: &Cluster, name: &str) -> usize {
    let pod = cluster.get::<Pod>("default", name).unwrap();
    pod.metadata.owner_references.len()
}

fn delete_set(cluster: &Cluster, propagation: Option<Propagation>) {
    let options = DeleteOptions {
        propagation,
        ..DeleteOptions::default()
    };
    let deleted = cluster.delete::<ReplicaSet>("default", "a", &options, at(0));
    deleted.unwrap();
}

fn set_is_there(cluster: &Cluster) -> bool {
    cluster.get::<ReplicaSet>("default", "a").is_ok()
}

/// Creates a pod with a finalizer.
fn held_pod(cluster: &Cluster, name: &str, owner: Value) {
    let metadata = json!({"ownerReferences": [owner], "finalizers": ["a.b/c"]});
    let held = pod(name, json!({"metadata": metadata}));
    cluster.create(held, at(0)).unwrap();
}

/// Returns a cluster with ReplicaSet `a`, its pods `p0` and `p1`, and a pod without an owner.
fn owned() -> (Cluster, Arc<ReplicaSet>) {
    let cluster = cluster();
    let set = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    for name in ["p0", "p1"] {
        let owners = json!([owned_by(&*set, true, true)]);
        cluster.create(owned_pod(name, owners), at(0)).unwrap();
    }
    cluster.create(pod("free", json!({})), at(0)).unwrap();
    assert_eq!(collect(&cluster), 0, "no object has lost an owner");
    (cluster, set)
}

#[test]
fn dependents_of_a_deleted_owner_are_deleted_in_order_of_names() {
    let (cluster, set) = owned();
    let mut watch = watch::<Pod>(&cluster);
    delete_set(&cluster, None);
    assert_eq!(
        pods(&cluster),
        ["free", "p0", "p1"],
        "dependents are not deleted immediately"
    );
    collect(&cluster);
    assert_eq!(pods(&cluster), ["free"]);
    let mut deleted = drain(&mut watch);
    deleted.retain(|event| event.starts_with("DELETED"));
    assert!(deleted[0].starts_with("DELETED p0 ") && deleted[1].starts_with("DELETED p1 "));
    // A sync in progress creates one more pod.
    let late = owned_pod("late", json!([owned_by(&*set, true, true)]));
    cluster.create(late, at(0)).unwrap();
    collect(&cluster);
    assert_eq!(pods(&cluster), ["free"]);
    assert_eq!(cluster.garbage_queue_len(), 0);
}

#[test]
fn owners_with_a_wrong_uid_or_namespace_are_absent() {
    let cluster = cluster();
    let set = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let live = owned_by(&*set, true, true);
    let unknown = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let table = [
        ("live", json!({})),
        ("uid", json!({"uid": "gone"})),
        ("unknown", unknown),
        ("group", json!({"apiVersion": "v1"})),
    ];
    for (name, change) in table {
        let owner = merged(live.clone(), change);
        let owned = owned_pod(name, json!([owner]));
        cluster.create(owned, at(0)).unwrap();
    }
    let mut elsewhere = owned_pod("elsewhere", json!([live]));
    elsewhere.metadata.namespace = "other".into();
    cluster.create(elsewhere, at(0)).unwrap();
    collect(&cluster);
    assert_eq!(pods(&cluster), ["group", "live", "unknown"]);
}

#[test]
fn a_dependent_with_another_live_owner_loses_only_the_reference() {
    for policy in [Propagation::Background, Propagation::Foreground] {
        let (cluster, set) = owned();
        let second = cluster.create(replica_set("b", json!({})), at(0)).unwrap();
        let owners = json!([owned_by(&*set, true, true), owned_by(&*second, false, true)]);
        cluster.create(owned_pod("both", owners), at(0)).unwrap();
        delete_set(&cluster, Some(policy));
        collect(&cluster);
        assert_eq!(pods(&cluster), ["both", "free"], "{policy:?}");
        assert_eq!(owners_of(&cluster, "both"), 1);
        assert!(!set_is_there(&cluster));
    }
}

#[test]
fn orphaning_strips_the_references_and_then_removes_the_owner() {
    let (cluster, _) = owned();
    let mut sets = watch::<ReplicaSet>(&cluster);
    delete_set(&cluster, Some(Propagation::Orphan));
    let version = cluster.resource_version();
    assert_eq!(
        owners_of(&cluster, "p0"),
        1,
        "the owner is not removed immediately"
    );
    collect(&cluster);
    assert_eq!(pods(&cluster), ["free", "p0", "p1"]);
    let left = ["p0", "p1"].map(|pod| owners_of(&cluster, pod));
    assert_eq!(left, [0, 0]);
    let wanted = [
        format!("MODIFIED a {version}"),
        format!("DELETED a {}", version + 3),
    ];
    assert_eq!(drain(&mut sets), wanted);
    assert_eq!(cluster.write_counts().pods.released, 2);
}

#[test]
fn a_replication_controller_leaves_its_pods_by_default() {
    type Controller = ReplicationController;
    let cluster = cluster();
    let owner: Controller = read(workload("a", json!({"app": "web"})));
    let owner = cluster.create(owner, at(0)).unwrap();
    let owners = json!([owned_by(&*owner, true, true)]);
    cluster.create(owned_pod("p", owners), at(0)).unwrap();
    let options = DeleteOptions::default();
    let deleted = cluster.delete::<Controller>("default", "a", &options, at(0));
    deleted.unwrap();
    collect(&cluster);
    assert!(cluster.get::<Controller>("default", "a").is_err());
    assert_eq!(owners_of(&cluster, "p"), 0);
}

#[test]
fn foreground_deletion_waits_for_the_dependents_that_block() {
    let (cluster, set) = owned();
    held_pod(&cluster, "held", owned_by(&*set, false, true));
    held_pod(&cluster, "loose", owned_by(&*set, false, false));
    delete_set(&cluster, Some(Propagation::Foreground));
    collect(&cluster);
    assert_eq!(pods(&cluster), ["free", "held", "loose"]);
    let waiting = cluster.get::<ReplicaSet>("default", "a").unwrap();
    assert!(waiting.metadata.is_deleting());
    let mut held = Pod::clone(&cluster.get("default", "held").unwrap());
    held.metadata.finalizers = None;
    cluster.update(held, at(0)).unwrap();
    collect(&cluster);
    assert!(!set_is_there(&cluster));
    // Dependents that do not block may be deleted later.
    assert_eq!(pods(&cluster), ["free", "loose"]);
}

#[test]
fn a_blocking_dependent_that_is_released_unblocks() {
    let (cluster, set) = owned();
    held_pod(&cluster, "held", owned_by(&*set, true, true));
    delete_set(&cluster, Some(Propagation::Foreground));
    collect(&cluster);
    assert!(set_is_there(&cluster));
    let mut held = Pod::clone(&cluster.get("default", "held").unwrap());
    held.metadata.owner_references.clear();
    cluster.update(held, at(0)).unwrap();
    collect(&cluster);
    assert!(!set_is_there(&cluster));
}

#[test]
fn foreground_deletion_without_dependents_ends_immediately() {
    let cluster = cluster();
    cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    delete_set(&cluster, Some(Propagation::Foreground));
    collect(&cluster);
    assert!(!set_is_there(&cluster));
}

#[test]
fn bound_pods_are_collected_gracefully() {
    let (cluster, _) = owned();
    cluster.bind("default", "p0", &"n1".into(), at(0)).unwrap();
    delete_set(&cluster, None);
    collect(&cluster);
    assert_eq!(pods(&cluster), ["free", "p0"]);
    let going = cluster.get::<Pod>("default", "p0").unwrap();
    assert_eq!(going.metadata.deletion_grace_period_seconds.get(), Some(30));
}

#[test]
fn the_waker_is_called_when_the_queue_fills() {
    let (cluster, _) = owned();
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    cluster.set_gc_waker(Some(Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    })));
    delete_set(&cluster, None);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(cluster.collect_garbage(1, at(0)), 1, "one item at a time");
    assert!(cluster.garbage_queue_len() > 0);
    collect(&cluster);
    assert_eq!(cluster.garbage_queue_len(), 0);
}

#[test]
fn an_item_is_in_the_queue_once() {
    let collector = GarbageCollector::new(false);
    collector.push(WorkItem::Dependents("u".into()));
    collector.push(WorkItem::Dependents("u".into()));
    assert!(collector.pop().is_some());
    assert!(collector.pop().is_none());
}

#[test]
fn an_object_that_owns_itself_is_deleted_with_any_policy() {
    for policy in [
        Propagation::Background,
        Propagation::Foreground,
        Propagation::Orphan,
    ] {
        let (cluster, set) = owned();
        let own = json!({"metadata": {"ownerReferences": [owned_by(&*set, false, true)]}});
        let mut updated = ReplicaSet::clone(&set);
        let owned = replica_set("a", own);
        updated.metadata.owner_references = owned.metadata.owner_references;
        cluster.update(updated, at(0)).unwrap();
        collect(&cluster);
        assert!(set_is_there(&cluster), "the object was not deleted yet");
        delete_set(&cluster, Some(policy));
        collect(&cluster);
        assert!(!set_is_there(&cluster), "{policy:?}");
        let wanted: &[&str] = match policy {
            Propagation::Orphan => &["free", "p0", "p1"],
            _ => &["free"],
        };
        assert_eq!(pods(&cluster), wanted, "{policy:?}");
        assert_eq!(cluster.garbage_queue_len(), 0);
    }
}
