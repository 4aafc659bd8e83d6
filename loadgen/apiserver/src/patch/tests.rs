//! Tests of patches.

use podstorm::client::{EventIntent, EventRecorder};
use podstorm::replicaset::reconcile::pod_from_template;
use podstorm_objects::{EventWrite, ObjectReference, WatchEvent};
use podstorm_objects::{Kind, Object, OwnerReference, Pod, PodPhase, ReplicaSet, TokenVolume};
use serde_json::json;

use super::super::testing::*;
use super::*;

fn map(value: Value) -> Map {
    let Value::Object(map) = value else {
        panic!("a patch must be a map")
    };
    map
}

fn strategic(value: Value) -> Patch {
    Patch::Strategic(map(value))
}

#[test]
fn a_patch_changes_the_latest_version_and_shares_the_rest() {
    let cluster = cluster();
    let old = cluster.create(pod("a", json!({})), at(0)).unwrap();
    let patch = strategic(json!({"metadata": {"annotations": {"k": "v"}}}));
    let new = cluster.patch::<Pod>("default", "a", &patch, at(0)).unwrap();
    assert_eq!(new.metadata.annotations.get("k").map(|v| &**v), Some("v"));
    assert!(Arc::ptr_eq(&new.spec, &old.spec));
    assert!(new.metadata.labels.is_same(&old.metadata.labels));
    let version = cluster.resource_version();
    cluster.patch::<Pod>("default", "a", &patch, at(0)).unwrap();
    assert_eq!(
        cluster.resource_version(),
        version,
        "a patch without a change is not written"
    );
    let missing = cluster.patch::<Pod>("default", "none", &patch, at(0));
    assert_eq!(
        refused(missing),
        "404 NotFound",
        "a patch creates no object"
    );
}

#[test]
fn every_response_has_the_full_name_of_the_pods_token_volume() {
    let cluster = cluster();
    let name = "kube-api-access-q7w2n";
    let mounts = json!([{"name": name, "mountPath": "/t"}]);
    let spec = json!({"volumes": [{"name": name, "projected": {"sources": []}}],
        "initContainers": [{"name": "i", "image": "x:1", "volumeMounts": mounts}],
        "containers": [{"name": "c", "image": "x:1", "volumeMounts": mounts}]});
    let is_named = |pod: &Pod| {
        let json = pod.to_json();
        let names = [
            &json["spec"]["volumes"][0]["name"],
            &json["spec"]["initContainers"][0]["volumeMounts"][0]["name"],
            &json["spec"]["containers"][0]["volumeMounts"][0]["name"],
        ];
        names.into_iter().all(|found| found == name)
    };
    let mut watch = watch::<Pod>(&cluster);
    let sent = pod("a", json!({"spec": spec}));
    let old = cluster.create(sent, at(0)).unwrap();
    let bound = cluster.bind("default", "a", &"n1".into(), at(1)).unwrap();
    let running = set_phase(&cluster, &bound, PodPhase::Running);
    let annotate = strategic(json!({"metadata": {"annotations": {"k": "v"}}}));
    let patched = cluster.patch::<Pod>("default", "a", &annotate, at(2));
    let patched = patched.unwrap();
    assert!(Arc::ptr_eq(&patched.spec, &old.spec));
    assert_eq!(patched.metadata.generation, 1);
    let got = cluster.get::<Pod>("default", "a").unwrap();
    let (listed, _) = cluster.list::<Pod>(None);
    let seen = events(&mut watch);
    assert_eq!(seen.len(), 4);
    let seen = seen.iter().map(|event| match event {
        WatchEvent::Added(pod) | WatchEvent::Modified(pod) => pod,
        other => panic!("{other:?}"),
    });
    let all = [&old, &bound, &running, &patched, &got];
    let mut all = all.into_iter().chain(&listed).chain(seen);
    assert!(all.all(|pod| is_named(pod)));
    // The name belongs to the spec: no patch or update changes it, and the error shows it.
    let rename = strategic(json!({"spec": {
        "volumes": [{"name": name, "$patch": "delete"},
            {"name": "kube-api-access-00000", "projected": {"sources": []}}]}}));
    let result = cluster.patch::<Pod>("default", "a", &rename, at(3));
    assert!(fields(result).contains(&"spec".to_owned()));
    let mut sent = Pod::clone(&got);
    sent.token_volume = TokenVolume::new("kube-api-access-00000");
    let error = cluster.update(sent, at(3)).unwrap_err();
    let text = "+   \"Name\": \"kube-api-access-00000\",\n";
    assert!(error.message.contains(text), "{error:?}");
    let before = cluster.resource_version();
    cluster.update(Pod::clone(&got), at(3)).unwrap();
    assert_eq!(
        cluster.resource_version(),
        before,
        "a patch without a change is not written"
    );
}

#[test]
fn pods_from_a_template_have_the_volumes_that_it_names() {
    let cluster = cluster();
    let spec = |name: &str| {
        json!({"volumes": [{"name": name, "projected": {"sources": []}}], "containers": [
            {"name": "c", "image": "x:1",
                "volumeMounts": [{"name": name, "mountPath": "/t"}]}]})
    };
    let one = json!({"spec": {"template": {"spec": spec("kube-api-access-aaaaa")}}});
    let set = cluster.create(replica_set("a", one), at(0)).unwrap();
    let stored = &set.to_json()["spec"]["template"]["spec"];
    assert_eq!(stored["volumes"][0]["name"], "kube-api-access-aaaaa");
    let owner = Arc::new(OwnerReference {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: "a".into(),
        uid: set.metadata.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    });
    let body = Arc::new(pod_from_template(&set, &owner));
    let created = cluster.create_pod(&"default".into(), &body, None, at(0));
    let created = created.unwrap().to_json();
    for list in ["volumes", "containers"] {
        assert_eq!(created["spec"][list], stored[list]);
    }
    // The template's name is mutable, so this is a change.
    let other = strategic(json!({"spec": {"template": {"spec": {
        "volumes": [{"name": "kube-api-access-aaaaa", "$patch": "delete"},
            {"name": "kube-api-access-bbbbb", "projected": {"sources": []}}],
        "containers": [{"name": "c", "volumeMounts":
            [{"name": "kube-api-access-bbbbb", "mountPath": "/t"}]}]}}}}));
    let changed = cluster.patch::<ReplicaSet>("default", "a", &other, at(1));
    let changed = changed.unwrap();
    assert_eq!(changed.metadata.generation, 2);
    let stored = &changed.to_json()["spec"]["template"]["spec"];
    let name = "kube-api-access-bbbbb";
    assert_eq!(stored["volumes"][0]["name"], name);
    assert_eq!(stored["containers"][0]["volumeMounts"][0]["name"], name);
}

#[test]
fn a_repeated_event_equals_the_event_with_its_patch_applied() {
    let about = ObjectReference {
        kind: Kind::REPLICA_SET,
        namespace: "default".into(),
        name: "web".into(),
        uid: "u".into(),
        resource_version: 7.into(),
    };
    let about = Arc::new(about);
    let mut recorder = EventRecorder::new("replicaset-controller");
    let mut said = |seconds| {
        let intent = EventIntent::deleted_pod(&about, &"web-1".into());
        recorder.record(intent, at(seconds)).unwrap()
    };
    let (EventWrite::Create(event), EventWrite::Patch(repeated)) = (said(0), said(9)) else {
        panic!("expected a create, then a patch")
    };
    let (typed, document) = (cluster(), cluster());
    let missing = typed.repeat_event(&repeated, at(9));
    assert_eq!(refused(missing), "404 NotFound");
    let body = strategic(repeated.body());
    for _twice in 0..2 {
        let by_document = document.create(event.clone(), at(0));
        assert_eq!(typed.create(event.clone(), at(0)), by_document);
        let by_document = document.patch::<Event>("default", &repeated.name, &body, at(9));
        let counted = typed.repeat_event(&repeated, at(9)).unwrap();
        assert_eq!(counted, by_document.unwrap());
        assert_eq!((counted.count, counted.last_timestamp), (2, at(9).wall()));
        assert_eq!(typed.resource_version(), document.resource_version());
        assert!(Arc::ptr_eq(&counted.topic, &event.topic));
    }
    assert_eq!(typed.write_counts().writes, document.write_counts().writes);
}

#[test]
fn a_version_in_the_patch_is_a_precondition() {
    let cluster = cluster();
    cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let patch = |version: u64, replicas: i32| {
        let metadata = json!({"resourceVersion": version.to_string()});
        let patch = strategic(json!({"metadata": metadata, "spec": {"replicas": replicas}}));
        cluster.patch::<ReplicaSet>("default", "a", &patch, at(0))
    };
    let version = cluster.resource_version();
    assert_eq!(patch(version, 7).unwrap().metadata.generation, 2);
    assert_eq!(refused(patch(version, 8)), "409 Conflict");
}

#[test]
fn a_status_patch_keeps_the_spec_and_a_patch_the_status() {
    let cluster = cluster();
    cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let both = json!({"spec": {"replicas": 7}, "status": {"replicas": 3}});
    let patch = Patch::Merge(map(both));
    let numbers =
        |set: Arc<ReplicaSet>| (set.replicas(), set.status.replicas, set.metadata.generation);
    let set = cluster.patch_status::<ReplicaSet>("default", "a", &patch, at(0));
    assert_eq!(numbers(set.unwrap()), (2, 3, 1));
    let set = cluster.patch::<ReplicaSet>("default", "a", &patch, at(0));
    assert_eq!(numbers(set.unwrap()), (7, 3, 2));
}

#[test]
fn patches_that_yield_no_valid_object_are_refused() {
    let cluster = cluster();
    cluster.create(pod("a", json!({})), at(0)).unwrap();
    let table = [
        (json!({"metadata": {"name": "b"}}), "400 BadRequest"),
        (json!({"metadata": {"$patch": "turn"}}), "500 "),
        (json!({"metadata": {"labels": 7}}), "422 Invalid"),
    ];
    for (patch, wanted) in table {
        let result = cluster.patch::<Pod>("default", "a", &strategic(patch), at(0));
        assert_eq!(refused(result), wanted);
    }
}

/// kube-rs adds the first finalizer with such a patch.
#[test]
fn a_missing_member_passes_a_test_for_null() {
    let patch = |text: &str| Patch::json(&serde_json::from_str::<Vec<Map>>(text).unwrap()).unwrap();
    let finalizers = patch(
        r#"[{"op": "test", "path": "/finalizers", "value": null},
            {"op": "add", "path": "/finalizers", "value": ["a"]}]"#,
    );
    let mut document = json!({"name": "a"});
    finalizers.apply(Kind::POD, &mut document).unwrap();
    assert_eq!(document, json!({"name": "a", "finalizers": ["a"]}));
    // The member exists now, so the patch fails and changes nothing.
    assert!(finalizers.apply(Kind::POD, &mut document).is_err());
    let half =
        patch(r#"[{"op": "remove", "path": "/name"}, {"op": "test", "path": "/b", "value": 1}]"#);
    assert!(half.apply(Kind::POD, &mut document).is_err());
    assert_eq!(document, json!({"name": "a", "finalizers": ["a"]}));
}
