//! Creates and imports.

use std::sync::atomic::{AtomicU32, Ordering};

use podstorm_objects::{Pod, PodPhase, Uid};
use serde_json::json;

use super::super::name::IdentityGenerator;
use super::super::testing::*;
use super::super::{ClusterOptions, DeleteOptions};
use super::*;

#[test]
fn a_create_sets_what_only_the_server_may() {
    let cluster = cluster();
    let sent = replica_set(
        "a",
        json!({
            "metadata": {
                "uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9,
                "resourceVersion": "77", "deletionTimestamp": "2001-01-01T00:00:00Z",
                "deletionGracePeriodSeconds": 3},
            "status": {"replicas": 5, "observedGeneration": 3},
        }),
    );
    let stored = cluster.create(sent, at(5)).unwrap();
    let metadata = &stored.metadata;
    assert_ne!(metadata.uid, Uid::new("mine"));
    assert_eq!(metadata.creation_timestamp, at(5).wall());
    assert_eq!(metadata.generation, 1);
    assert_eq!(
        metadata.resource_version.number(),
        Some(cluster.resource_version())
    );
    assert!(!metadata.is_deleting());
    assert_eq!(metadata.deletion_grace_period_seconds.get(), None);
    assert_eq!(stored.status, Default::default());
    let sent = pod("a", json!({"status": {"phase": "Running"}}));
    let stored = cluster.create(sent, at(5)).unwrap();
    assert_eq!(
        (stored.metadata.generation, &stored.status.phase),
        (1, &PodPhase::Pending)
    );
}

#[test]
fn a_create_is_refused_for_its_namespace_or_name() {
    let cluster = cluster();
    cluster
        .create(
            pod("a", json!({"metadata": {"finalizers": ["a.b/c"]}})),
            at(0),
        )
        .unwrap();
    let in_namespace = |namespace: &str| pod("b", json!({"metadata": {"namespace": namespace}}));
    let error = cluster.create(in_namespace("none"), at(0)).unwrap_err();
    assert_eq!(
        (error.code, &*error.message),
        (404, "namespaces \"none\" not found")
    );
    assert_eq!(
        refused(cluster.create(in_namespace(""), at(0))),
        "400 BadRequest"
    );
    assert_eq!(
        fields(cluster.create(pod("", json!({})), at(0))),
        ["metadata.name"]
    );
    let error = cluster.create(pod("a", json!({})), at(0)).unwrap_err();
    assert_eq!(
        (error.code, &*error.message),
        (409, "pods \"a\" already exists")
    );
    cluster
        .delete::<Pod>("default", "a", &DeleteOptions::default(), at(0))
        .unwrap();
    let error = cluster.create(pod("a", json!({})), at(0)).unwrap_err();
    assert_eq!(
        error.message,
        "object is being deleted: pods \"a\" already exists"
    );
    // The same name elsewhere is free.
    cluster
        .create(pod("a", json!({"metadata": {"namespace": "other"}})), at(0))
        .unwrap();
}

#[test]
fn admission_is_asked_and_its_answer_is_final() {
    let asked = Arc::new(AtomicU32::new(0));
    let counter = asked.clone();
    let options = ClusterOptions {
        admission: Some(Arc::new(move |request: &AdmissionRequest<'_>| {
            counter.fetch_add(1, Ordering::Relaxed);
            let why = "exceeded quota: pods";
            if request.kind == Kind::POD {
                return Err(errors::forbidden(Kind::POD, request.name, why));
            }
            Ok(())
        })),
        ..ClusterOptions::default()
    };
    let cluster = cluster_with(options);
    let error = cluster.create(pod("a", json!({})), at(0)).unwrap_err();
    assert_eq!(
        error.message,
        "pods \"a\" is forbidden: exceeded quota: pods"
    );
    assert!(!error.has_cause("NamespaceTerminating"));
    assert_eq!(asked.load(Ordering::Relaxed), 3, "two namespaces and a pod");
}

#[test]
fn generated_names_give_up_after_eight_attempts() {
    let cluster = cluster();
    let sent = || pod("", json!({"metadata": {"generateName": "web-"}}));
    // Take all names that the next create will try.
    let draw = IdentityGenerator::new(1);
    let draws = cluster.write_counts().pods.created + 2 + 8;
    let next = (0..=draws)
        .map(|_| draw.draw())
        .last()
        .expect("at least one");
    for attempt in 0..8 {
        let name = next.name("web-", attempt);
        cluster.create(pod(&name, json!({})), at(0)).unwrap();
    }
    let error = cluster.create(sent(), at(0)).unwrap_err();
    assert_eq!((error.code, error.retry_after_seconds()), (409, Some(1)));
    assert!(
        error
            .message
            .contains("was not able to generate a unique name")
    );
    assert!(
        cluster.create(sent(), at(0)).is_ok(),
        "the next draw is another"
    );
}

#[test]
fn owners_are_checked_and_repeated_ones_dropped() {
    let cluster = cluster();
    let owner = |uid: &str, controller: bool| {
        json!({"apiVersion": "v1", "kind": "Foo", "name": "f", "uid": uid,
               "controller": controller})
    };
    let create =
        |name: &str, owners: serde_json::Value| cluster.create(owned_pod(name, owners), at(0));
    let stored = create(
        "a",
        json!([owner("1", true), owner("1", true), owner("1", false)]),
    );
    assert_eq!(stored.unwrap().metadata.owner_references.len(), 2);
    let two = create("b", json!([owner("1", true), owner("2", true)]));
    assert_eq!(fields(two), ["metadata.ownerReferences"]);
    let empty = create("b", json!([owner("", false)]));
    assert_eq!(fields(empty), ["metadata.ownerReferences.uid"]);
    // Whether the owner exists is not asked, and kinds nobody knows are never collected.
    assert_eq!(cluster.collect_garbage(10, at(0)), 0);
}

#[test]
fn an_import_keeps_identity_status_and_deletion() {
    let cluster = cluster();
    let sent = pod(
        "a",
        json!({
            "metadata": {
                "uid": "8df9bcb8-481d-4037-8798-84343b02ebd7", "generation": 4,
                "resourceVersion": "77", "creationTimestamp": "2023-01-01T00:00:00Z",
                "deletionTimestamp": "2023-01-01T00:01:00Z", "deletionGracePeriodSeconds": 30},
            "spec": {"nodeName": "n1"},
            "status": {"phase": "Running"},
        }),
    );
    let stored = cluster.import(sent.clone(), at(0)).unwrap();
    assert_eq!(stored.metadata.uid, sent.metadata.uid);
    assert_eq!(
        stored.metadata.creation_timestamp,
        sent.metadata.creation_timestamp
    );
    assert_eq!(
        stored.metadata.deletion_timestamp,
        sent.metadata.deletion_timestamp
    );
    assert_eq!(
        (stored.metadata.generation, &stored.status),
        (4, &sent.status)
    );
    assert_eq!(
        stored.metadata.resource_version.number(),
        Some(cluster.resource_version())
    );
    let bare = cluster.import(pod("b", json!({})), at(6)).unwrap();
    assert!(!bare.metadata.uid.is_empty());
    assert_eq!(bare.metadata.creation_timestamp, at(6).wall());
    assert_eq!(bare.metadata.generation, 1);
}

#[test]
fn equal_calls_give_equal_objects() {
    let run = || {
        let cluster = cluster();
        for _ in 0..20 {
            let sent = pod("", json!({"metadata": {"generateName": "web-"}}));
            cluster.create(sent, at(1)).unwrap();
        }
        let (pods, version) = cluster.list::<Pod>(None);
        (
            pods.iter().map(|pod| Pod::clone(pod)).collect::<Vec<_>>(),
            version,
        )
    };
    assert_eq!(run(), run());
}

#[test]
fn privileged_containers_are_the_clusters_choice() {
    let context = json!({"privileged": true});
    let container = json!({"name": "c", "image": "i", "securityContext": context});
    let privileged = || pod("a", json!({"spec": {"containers": [container]}}));
    cluster().create(privileged(), at(1)).unwrap();
    let strict = cluster_with(ClusterOptions {
        forbids_privileged: true,
        ..ClusterOptions::default()
    });
    let refused = strict.create(privileged(), at(1)).unwrap_err();
    assert_eq!(
        refused.message,
        "Pod \"a\" is invalid: spec.containers[0].securityContext.privileged: Forbidden: disallowed \
         by cluster policy"
    );
}
