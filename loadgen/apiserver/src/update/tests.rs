//! Tests of updates: preconditions, retained fields, counts.

use podstorm_objects::{OptionalSeconds, Pod, PodPhase, ReplicaSet, ReplicationController, Time};
use serde_json::json;

use super::super::DeleteOptions;
use super::super::testing::*;

#[test]
fn a_put_checks_the_uid_before_the_version_if_they_are_set() {
    let cluster = cluster();
    cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let put = |uid: &str, version: &str, replicas: i32| {
        let metadata = json!({"uid": uid, "resourceVersion": version});
        let patch = json!({"metadata": metadata, "spec": {"replicas": replicas}});
        cluster.update(replica_set("a", patch), at(0))
    };
    let uid_text = "Precondition failed: UID in precondition";
    let text = put("other", "1", 3).unwrap_err().message;
    assert!(text.contains(uid_text), "{text}");
    assert_eq!(refused(put("other", "", 3)), "409 Conflict");
    let text = put("", "1", 3).unwrap_err().message;
    assert!(text.contains("the object has been modified"), "{text}");
    assert_eq!(put("", "x", 3).unwrap_err().code, 500);
    assert_eq!(put("", "", 3).unwrap().metadata.generation, 2);
    let version = cluster.resource_version().to_string();
    assert_eq!(put("", &version, 4).unwrap().metadata.generation, 3);
    let missing = cluster.update(replica_set("none", json!({})), at(0));
    assert_eq!(refused(missing), "404 NotFound");
}

#[test]
fn writes_without_a_change_are_not_committed() {
    let cluster = cluster();
    let stored = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let before = cluster.resource_version();
    let mut watch = watch::<ReplicaSet>(&cluster);
    let version = |set: &ReplicaSet| set.metadata.resource_version.clone();
    let again = cluster.update(replica_set("a", json!({})), at(9)).unwrap();
    assert_eq!(version(&again), version(&stored));
    let again = cluster.update_status(ReplicaSet::clone(&stored), at(9));
    assert_eq!(version(&again.unwrap()), version(&stored));
    assert_eq!(cluster.resource_version(), before);
    assert!(drain(&mut watch).is_empty());
}

#[test]
fn an_update_keeps_the_status_and_server_set_fields() {
    let cluster = cluster();
    let stored = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let patch = json!({
        "metadata": {
            "generation": 50, "creationTimestamp": "2001-01-01T00:00:00Z",
            "labels": {"tier": "front"}},
        "status": {"replicas": 9},
    });
    let updated = cluster.update(replica_set("a", patch), at(9)).unwrap();
    let (new, old) = (&updated.metadata, &stored.metadata);
    assert_eq!(new.uid, old.uid);
    assert_eq!(new.creation_timestamp, old.creation_timestamp);
    assert_eq!(new.generation, 1, "the spec did not change");
    assert_eq!(updated.status.replicas, 0);
    assert_eq!(new.labels.len(), 1);
}

/// The recorded cases cover a ReplicaSet's status update.
#[test]
fn a_status_update_of_a_replication_controller_keeps_replicas() {
    let cluster = cluster();
    let stored: ReplicationController = read(workload("a", json!({"app": "web"})));
    let stored = cluster.create(stored, at(0)).unwrap();
    let mut sent = ReplicationController::clone(&stored);
    (sent.replicas, sent.status.replicas) = (Some(9), 2);
    let updated = cluster.update_status(sent, at(1)).unwrap();
    assert_eq!(updated.replicas, stored.replicas);
    assert_eq!(updated.status.replicas, 2);
}

#[test]
fn a_status_update_of_a_pod_keeps_spec_owners_and_deletion() {
    let cluster = cluster();
    let owners = json!([{"apiVersion": "v1", "kind": "Foo", "name": "f", "uid": "f"}]);
    let patch = json!({"metadata": {"ownerReferences": owners},
        "spec": {"volumes": [{"name": "kube-api-access-aaaaa"}]}});
    let stored = bound_pod(&cluster, "a", patch);
    let mut sent = Pod::clone(&stored);
    sent.node_name = Some("elsewhere".into());
    sent.spec = Default::default();
    sent.token_volume = None;
    sent.metadata.owner_references.clear();
    sent.metadata.deletion_timestamp = at(1).wall();
    sent.metadata.annotations = sent.metadata.annotations.with("a", "b");
    sent.status.phase = PodPhase::Running;
    let updated = cluster.update_status(sent, at(1)).unwrap();
    assert_eq!(updated.node_name, stored.node_name);
    assert_eq!(updated.spec, stored.spec);
    assert!(updated.token_volume.is_some());
    assert_eq!(updated.token_volume, stored.token_volume);
    let (new, old) = (&updated.metadata, &stored.metadata);
    assert_eq!(new.owner_references, old.owner_references);
    assert!(!new.is_deleting());
    assert_eq!(new.annotations.len(), 1);
    assert_eq!(updated.status.phase, PodPhase::Running);
}

#[test]
fn deletion_fields_are_kept_and_cannot_be_changed() {
    let cluster = cluster();
    let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
    let stored = bound_pod(&cluster, "a", held);
    let update = |pod: &Pod, deadline: Time, grace: OptionalSeconds| {
        let mut sent = pod.clone();
        sent.metadata.deletion_timestamp = deadline;
        sent.metadata.deletion_grace_period_seconds = grace;
        cluster.update(sent, at(1))
    };
    let (unset, none) = (Time::UNSET, OptionalSeconds::NONE);
    let grace = "metadata.deletionGracePeriodSeconds";
    let refused = update(&stored, at(7).wall(), none);
    assert_eq!(fields(refused), ["metadata.deletionTimestamp"]);
    let refused = update(&stored, unset, OptionalSeconds::new(7));
    assert_eq!(fields(refused), [grace]);

    let options = DeleteOptions {
        grace_period_seconds: Some(9),
        ..DeleteOptions::default()
    };
    let marked = cluster.delete::<Pod>("default", "a", &options, at(1));
    let marked = marked.unwrap().object;
    let before = cluster.resource_version();
    update(&marked, unset, none).unwrap();
    let after = cluster.resource_version();
    assert_eq!(after, before, "nothing changed");
    let deadline = marked.metadata.deletion_timestamp;
    let refused = update(&marked, deadline, OptionalSeconds::new(8));
    assert_eq!(fields(refused), [grace]);
}

#[test]
fn counts_of_writes_add_up_to_the_version() {
    let cluster = cluster();
    bound_pod(&cluster, "a", json!({}));
    cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    cluster
        .delete::<Pod>("default", "a", &DeleteOptions::default(), at(0))
        .unwrap();
    let counts = cluster.write_counts();
    let writes: u64 = counts.writes.values().sum();
    assert_eq!(writes, cluster.resource_version());
    assert_eq!(counts.writes["create pods/binding"], 1);
    let pods = &counts.pods;
    assert_eq!((pods.created, pods.bound, pods.peak), (1, 1, 1));
    assert_eq!(cluster.count::<Pod>(), 1);
}

#[test]
fn rules_of_updates_are_enforced() {
    let cluster = cluster();
    let set = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let template = json!({"metadata": {"labels": {"tier": "x"}}});
    let selector = json!({"matchLabels": {"tier": "x"}});
    let table = [
        (json!({"replicas": -1}), "spec.replicas"),
        (json!({"minReadySeconds": -1}), "spec.minReadySeconds"),
        (
            json!({"selector": selector, "template": template}),
            "spec.selector",
        ),
    ];
    for (spec, field) in table {
        let result = cluster.update(replica_set("a", json!({"spec": spec})), at(0));
        assert_eq!(fields(result), [field]);
    }
    let mut bad = ReplicaSet::clone(&set);
    bad.status.ready_replicas = 3;
    let refused = cluster.update_status(bad, at(0));
    assert_eq!(fields(refused), ["status.readyReplicas"]);

    let pod = bound_pod(&cluster, "p", json!({}));
    let mut moved = Pod::clone(&pod);
    moved.node_name = Some("n2".into());
    assert_eq!(fields(cluster.update(moved, at(0))), ["spec"]);
    let mut class = Pod::clone(&pod);
    let burstable: Pod = read(json!({"status": {"qosClass": "Burstable"}}));
    class.status.rest = burstable.status.rest;
    let refused = cluster.update_status(class, at(0));
    assert_eq!(fields(refused), ["status.qosClass"]);
}

#[test]
fn the_qos_class_survives_a_status_without_it() {
    let cluster = cluster();
    let pod = bound_pod(&cluster, "p", json!({}));
    let class = |pod: &Pod| {
        let class = pod.status.rest.get("qosClass").expect("the class is set");
        class.as_str().map(str::to_owned)
    };
    assert_eq!(class(&pod).as_deref(), Some("BestEffort"));
    for status in [json!({}), json!({"podIP": "10.0.0.1"})] {
        let mut bare = Pod::clone(&cluster.get("default", "p").unwrap());
        bare.status = read::<Pod>(json!({"status": status})).status;
        let written = cluster.update_status(bare, at(0)).unwrap();
        assert_eq!(class(&written).as_deref(), Some("BestEffort"));
    }
}
