//! Syncs of namespaces on a cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use podstorm_objects::{Namespace, Object, Pod, ReplicaSet};
use serde_json::{Value, json};

use super::*;
use crate::testing::*;
use crate::{Cluster, DeleteOptions};

/// A cluster with `default` being deleted.
fn deleting(fill: impl FnOnce(&Cluster)) -> Cluster {
    let cluster = cluster();
    fill(&cluster);
    let options = DeleteOptions::default();
    let deleted = cluster.delete::<Namespace>("", "default", &options, at(0));
    deleted.unwrap();
    while cluster.collect_garbage(100, at(0)) > 0 {}
    cluster
}

fn sync_at(cluster: &Cluster, seconds: i64) -> Result<Outcome, Stopped> {
    let now = at(seconds);
    let mut api = StoreApi {
        cluster,
        name: "default",
        now,
    };
    sync(&mut api, now)
}

fn is_there(cluster: &Cluster) -> bool {
    cluster.get::<Namespace>("", "default").is_ok()
}

fn condition(cluster: &Cluster, kind: &str) -> (String, String) {
    let namespace = cluster.get::<Namespace>("", "default").unwrap().to_json();
    let conditions = &namespace["status"]["conditions"];
    let mut all = conditions.as_array().unwrap().iter();
    let found = all.find(|condition| condition["type"] == kind).unwrap();
    let text = |member: &str| found[member].as_str().unwrap().to_owned();
    (text("status"), text("message"))
}

#[test]
fn an_empty_namespace_goes_with_its_finalizer() {
    let cluster = deleting(|_| {});
    assert!(is_there(&cluster), "nobody else ends it");
    assert_eq!(sync_at(&cluster, 5), Ok(Outcome::Done));
    assert!(!is_there(&cluster));
    assert_eq!(sync_at(&cluster, 5), Ok(Outcome::Done), "it is gone");
}

#[test]
fn a_deleted_namespace_is_terminating_and_takes_nothing_new() {
    let cluster = deleting(|_| {});
    let mut watch = watch::<Namespace>(&cluster);
    let found = cluster.get::<Namespace>("", "default").unwrap();
    assert!(found.terminating);
    let value = found.to_json();
    assert_eq!(value["status"]["phase"], "Terminating");
    assert_eq!(value["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(found.metadata.deletion_timestamp, at(0).wall());
    let error = cluster.create(pod("a", json!({})), at(1)).unwrap_err();
    assert!(error.has_cause("NamespaceTerminating"));
    // Again: nothing new. Nor can an update bring it back.
    let again = cluster.delete::<Namespace>("", "default", &DeleteOptions::default(), at(1));
    assert!(!again.unwrap().removed);
    let mut back = Namespace::clone(&found);
    back.terminating = false;
    back.fields.clear();
    cluster.update(back, at(1)).unwrap();
    assert_eq!(drain(&mut watch), [""; 0]);
}

#[test]
fn a_waker_is_called_when_a_namespace_that_was_looked_at_loses_something() {
    let cluster = deleting(|cluster| {
        bound_pod(cluster, "slow", json!({}));
        bound_pod(cluster, "slower", json!({}));
    });
    let calls = Arc::new(AtomicU32::new(0));
    let counter = calls.clone();
    cluster.set_namespaces_waker(Some(Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    })));
    sync_at(&cluster, 5).unwrap();
    let called = || calls.load(Ordering::Relaxed);
    let remove = |namespace: &str, name: &str| {
        let removed = cluster.delete::<Pod>(namespace, name, &forced(), at(6));
        removed.unwrap();
    };
    assert_eq!(called(), 0, "both are on their way out");
    remove("default", "slow");
    assert_eq!(called(), 1);
    let elsewhere = json!({"metadata": {"namespace": "other"}});
    cluster.create(pod("a", elsewhere), at(6)).unwrap();
    remove("other", "a");
    assert_eq!(called(), 1, "it is another namespace's");
    cluster.set_namespaces_waker(None);
    remove("default", "slower");
    assert_eq!(called(), 1);
}

#[test]
fn pods_go_first_and_are_given_half_their_grace() {
    let cluster = deleting(|cluster| {
        bound_pod(cluster, "slow", json!({}));
        cluster.create(replica_set("r", json!({})), at(0)).unwrap();
    });
    let outcome = sync_at(&cluster, 5).unwrap();
    assert_eq!(outcome, Outcome::Remaining(30));
    assert_eq!(outcome.again_after_seconds(), Some(16));
    assert!(cluster.get::<ReplicaSet>("default", "r").is_ok());
    let (status, _) = condition(&cluster, "NamespaceContentRemaining");
    assert_eq!(status, "False", "upstream counts no pods here");
    let ended = cluster.delete::<Pod>("default", "slow", &forced(), at(6));
    ended.unwrap();
    assert_eq!(sync_at(&cluster, 21), Ok(Outcome::Done));
    assert!(!is_there(&cluster));
}

#[test]
fn a_pod_beyond_its_grace_is_an_error() {
    let cluster = deleting(|cluster| drop(bound_pod(cluster, "stuck", json!({}))));
    sync_at(&cluster, 5).unwrap();
    let stopped = sync_at(&cluster, 31).unwrap_err();
    let text = "for gvr: /v1, Resource=pods";
    assert!(stopped.0[0].ends_with(text), "{stopped:?}");
    let (status, message) = condition(&cluster, "NamespaceDeletionContentFailure");
    assert_eq!(status, "True");
    assert!(message.starts_with("Failed to delete all resource types, 1 remaining"));
}

#[test]
fn what_a_finalizer_keeps_is_counted() {
    let cluster = deleting(|cluster| {
        let held = json!({"metadata": {"finalizers": ["x.io/a"]}});
        cluster.create(replica_set("r", held), at(0)).unwrap();
    });
    assert_eq!(sync_at(&cluster, 5), Ok(Outcome::Remaining(15)));
    let (_, message) = condition(&cluster, "NamespaceContentRemaining");
    let text = "Some resources are remaining: replicasets.apps has 1 resource instances";
    assert_eq!(message, text);
    let before = cluster.resource_version();
    assert_eq!(sync_at(&cluster, 13), Ok(Outcome::Remaining(15)));
    let after = cluster.resource_version();
    assert_eq!(after, before, "the conditions are as they were");
}

#[test]
fn another_finalizer_keeps_the_namespace_until_it_is_finalized() {
    let cluster = deleting(|cluster| {
        let mut namespace = Namespace::clone(&cluster.get("", "default").unwrap());
        let finalizers = json!({"finalizers": ["x.io/b", "kubernetes"]});
        namespace.fields.insert("spec".into(), finalizers);
        cluster.finalize(namespace, false, at(0)).unwrap();
    });
    assert_eq!(sync_at(&cluster, 5), Ok(Outcome::Done));
    let kept = cluster.get::<Namespace>("", "default").unwrap();
    assert_eq!(kept.fields["spec"]["finalizers"], json!(["x.io/b"]));
    let mut freed = Namespace::clone(&kept);
    freed.fields.insert("spec".into(), json!({}));
    assert!(cluster.finalize(freed.clone(), true, at(6)).is_ok());
    assert!(is_there(&cluster), "a dry run");
    freed.metadata.resource_version = 1.into();
    let stale = cluster.finalize(freed.clone(), false, at(6));
    assert_eq!(refused(stale), "409 Conflict");
    freed.metadata.resource_version = kept.metadata.resource_version.clone();
    cluster.finalize(freed, false, at(6)).unwrap();
    assert!(!is_there(&cluster));
}

#[test]
fn a_status_has_a_known_phase_and_keeps_the_finalizers() {
    let cluster = cluster();
    let with = |part: &str, value: Value| {
        let mut namespace = Namespace::clone(&cluster.get("", "default").unwrap());
        namespace.fields.insert(part.into(), value);
        namespace
    };
    let error = cluster.update_status(with("status", json!({"phase": "Odd"})), at(1));
    assert_eq!(error.unwrap_err().code, 422);
    let kept = cluster.update_status(with("spec", json!({})), at(1));
    let kept = kept.unwrap();
    assert_eq!(kept.fields["spec"]["finalizers"], json!(["kubernetes"]));
}
