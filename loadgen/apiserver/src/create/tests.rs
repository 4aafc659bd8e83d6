//! Tests of creates and imports.

use std::sync::atomic::{AtomicU32, Ordering};

use podstorm_objects::{AnyObject, Pod, PodPhase, Uid};
use serde_json::{Value, json};

use super::super::name::IdentityGenerator;
use super::super::testing::*;
use super::super::{ClusterOptions, DeleteOptions};
use super::*;

#[test]
fn a_create_sets_the_fields_that_only_the_server_may_set() {
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
    let version = metadata.resource_version.number();
    assert_eq!(version, Some(cluster.resource_version()));
    assert!(!metadata.is_deleting());
    assert_eq!(metadata.deletion_grace_period_seconds.get(), None);
    assert_eq!(stored.status, Default::default());
    let sent = pod("a", json!({"status": {"phase": "Running"}}));
    let stored = cluster.create(sent, at(5)).unwrap();
    assert_eq!(stored.metadata.generation, 1);
    assert_eq!(stored.status.phase, PodPhase::Pending);
}

#[test]
fn a_create_is_refused_for_a_bad_namespace_or_a_taken_name() {
    let cluster = cluster();
    let create = |name: &str, metadata: serde_json::Value| {
        cluster.create(pod(name, json!({"metadata": metadata})), at(0))
    };
    create("a", json!({"finalizers": ["a.b/c"]})).unwrap();
    let error = create("b", json!({"namespace": "none"})).unwrap_err();
    assert_eq!(error.code, 404);
    assert_eq!(error.message, "namespaces \"none\" not found");
    let nowhere = create("b", json!({"namespace": ""}));
    assert_eq!(refused(nowhere), "400 BadRequest");
    assert_eq!(fields(create("", json!({}))), ["metadata.name"]);
    let error = create("a", json!({})).unwrap_err();
    assert_eq!(error.code, 409);
    assert_eq!(error.message, "pods \"a\" already exists");
    let deleted = cluster.delete::<Pod>("default", "a", &DeleteOptions::default(), at(0));
    deleted.unwrap();
    let text = create("a", json!({})).unwrap_err().message;
    assert_eq!(text, "object is being deleted: pods \"a\" already exists");
    // The name is free in another namespace.
    create("a", json!({"namespace": "other"})).unwrap();
}

#[test]
fn the_admission_hook_is_called_and_its_refusal_is_final() {
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
    let text = "pods \"a\" is forbidden: exceeded quota: pods";
    assert_eq!(error.message, text);
    assert!(!error.has_cause("NamespaceTerminating"));
    assert_eq!(
        asked.load(Ordering::Relaxed),
        3,
        "the hook saw two namespaces and a pod"
    );
}

#[test]
fn generated_names_give_up_after_eight_attempts() {
    let cluster = cluster();
    let sent = || pod("", json!({"metadata": {"generateName": "web-"}}));
    // Takes all names that the next create will try.
    let draw = IdentityGenerator::new(1);
    let draws = cluster.write_counts().pods.created + 2 + 8;
    let next = (0..=draws).map(|_| draw.draw()).last().unwrap();
    for attempt in 0..8 {
        let name = next.name("web-", attempt);
        cluster.create(pod(&name, json!({})), at(0)).unwrap();
    }
    let error = cluster.create(sent(), at(0)).unwrap_err();
    assert_eq!((error.code, error.retry_after_seconds()), (409, Some(1)));
    let text = "was not able to generate a unique name";
    assert!(error.message.contains(text));
    let next = cluster.create(sent(), at(0));
    assert!(next.is_ok(), "the next draw gives another name");
}

#[test]
fn owner_references_are_checked_and_duplicates_dropped() {
    let cluster = cluster();
    let owner = |uid: &str, controller: bool| {
        json!({"apiVersion": "v1", "kind": "Foo", "name": "f", "uid": uid,
               "controller": controller})
    };
    let create = |owners: serde_json::Value| cluster.create(owned_pod("a", owners), at(0));
    let two = create(json!([owner("1", true), owner("2", true)]));
    assert_eq!(fields(two), ["metadata.ownerReferences"]);
    let empty = create(json!([owner("", false)]));
    assert_eq!(fields(empty), ["metadata.ownerReferences.uid"]);
    let thrice = json!([owner("1", true), owner("1", true), owner("1", false)]);
    let stored = create(thrice).unwrap();
    assert_eq!(stored.metadata.owner_references.len(), 2);
    // Nothing checks that the owner exists, and objects of unknown kinds are never collected.
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
    let (new, old) = (&stored.metadata, &sent.metadata);
    assert_eq!(new.uid, old.uid);
    assert_eq!(new.creation_timestamp, old.creation_timestamp);
    assert_eq!(new.deletion_timestamp, old.deletion_timestamp);
    assert_eq!(new.generation, 4);
    assert_eq!(stored.status, sent.status);
    let version = new.resource_version.number();
    assert_eq!(version, Some(cluster.resource_version()));
    let bare = cluster.import(pod("b", json!({})), at(6)).unwrap();
    assert!(!bare.metadata.uid.is_empty());
    assert_eq!(bare.metadata.creation_timestamp, at(6).wall());
    assert_eq!(bare.metadata.generation, 1);
}

/// Creates an object of a kind without a Rust type in the namespace `default`.
fn untyped(cluster: &Cluster, kind: &str, metadata: Value, spec: Value) -> AnyObject {
    let metadata = merged(json!({"name": "a", "namespace": "default"}), metadata);
    let kind = crate::kind_named(kind).unwrap();
    let read = cluster
        .api(kind)
        .read(json!({"metadata": metadata, "spec": spec}));
    read.unwrap().unwrap()
}

const UID: &str = "8df9bcb8-481d-4037-8798-84343b02ebd7";

fn job(cluster: &Cluster, metadata: Value, labels: Value, selector: Value) -> AnyObject {
    let template = json!({"metadata": {"labels": labels}, "spec": {"restartPolicy": "Never",
        "containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": selector, "template": template});
    untyped(cluster, "Job", metadata, spec)
}

#[test]
fn an_object_from_a_file_gets_what_creation_generates() {
    let cluster = cluster();
    let load = |object: AnyObject| {
        let loaded = cluster.api(object.kind()).load(object, at(0));
        loaded.map(|loaded| loaded.to_json())
    };
    for metadata in [json!({}), json!({"name": "b", "uid": UID})] {
        let made = load(job(&cluster, metadata, json!(null), json!(null))).unwrap();
        let own =
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": made["metadata"]["uid"]}});
        assert_eq!(made["spec"]["selector"], own);
        let labels = &made["spec"]["template"]["metadata"]["labels"];
        let name = &labels["batch.kubernetes.io/job-name"];
        assert_eq!(*name, made["metadata"]["name"]);
    }
    // These are the labels since Kubernetes 1.26.
    let labels = json!({"controller-uid": UID, "job-name": "c"});
    let selector = json!({"matchLabels": {"controller-uid": UID}});
    let metadata = json!({"name": "c", "uid": UID});
    let kept = load(job(&cluster, metadata, labels.clone(), selector.clone())).unwrap();
    assert_eq!(kept["spec"]["selector"], selector);
    assert_eq!(kept["spec"]["template"]["metadata"]["labels"], labels);
    let foreign = json!({"matchLabels": {"controller-uid": "other"}});
    let metadata = json!({"name": "d", "uid": UID});
    let refused = load(job(&cluster, metadata, json!({}), foreign)).unwrap_err();
    let text = "`selector` not auto-generated";
    assert!(refused.message.contains(text), "{}", refused.message);

    let service = |metadata, address: Value| {
        let spec = json!({"ports": [{"port": 80}], "clusterIP": address});
        load(untyped(&cluster, "Service", metadata, spec))
    };
    // Another cluster allocates other addresses.
    let foreign = json!("172.20.0.1");
    let refused = service(json!({}), foreign.clone()).unwrap_err().message;
    assert!(refused.contains("failed to allocate IP"), "{refused}");
    let kept = service(json!({"uid": UID}), foreign.clone()).unwrap();
    assert_eq!(kept["spec"]["clusterIPs"], json!([foreign]));
    assert_eq!(kept["spec"]["ipFamilies"], json!(["IPv4"]));
    let given = service(json!({"name": "b", "uid": UID}), Value::Null).unwrap();
    let address = given["spec"]["clusterIP"].as_str().unwrap_or("");
    assert!(address.starts_with("10.96."), "{given}");

    let mut volume = untyped(&cluster, "PersistentVolume", json!({"uid": UID}), json!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}))
    .to_json();
    let moment = json!("2001-01-01T00:00:00Z");
    volume["status"] = json!({"phase": "Bound", "lastPhaseTransitionTime": moment});
    let api = cluster.api(crate::kind_named("PersistentVolume").unwrap());
    let kept = load(api.read(volume).unwrap().unwrap()).unwrap();
    assert_eq!(kept["status"]["lastPhaseTransitionTime"], moment);
    assert_eq!(kept["metadata"].get("namespace"), None);
}

#[test]
fn equal_calls_give_equal_objects() {
    let run = || {
        let cluster = cluster();
        for _ in 0..20 {
            let sent = pod("", json!({"metadata": {"generateName": "web-"}}));
            cluster.create(sent, at(1)).unwrap();
        }
        cluster.list::<Pod>(None)
    };
    assert_eq!(run(), run());
}

#[test]
fn privileged_containers_are_an_option_of_the_cluster() {
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
