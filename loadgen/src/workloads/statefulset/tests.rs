//! Tests of generated StatefulSets, and of dumps of clusters with StatefulSets.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use podstorm::revisions::{HASH_LABEL, Owner, RevisionData};
use podstorm::statefulset::identity::{POD_INDEX_LABEL, POD_NAME_LABEL, REVISION_LABEL};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::Now;

use super::*;
use crate::manifest;
use crate::result::RunResult;
use crate::run;
use crate::settings::Settings;
use crate::settings::resolve::{Machine, SettingsRequest, resolve};

fn made(flags: &str) -> Value {
    let line = format!("--scenario statefulset-upgrade {flags}");
    let objects = Settings::of_flags(&line, 1).unwrap().objects();
    let part = Part {
        number: 0,
        replicas: objects.share(0),
        revision: 0,
        is_owned: false,
    };
    let cluster = Cluster::new(ClusterOptions {
        feature_gates: [("MaxUnavailableStatefulSet".to_owned(), true)].into(),
        ..ClusterOptions::default()
    });
    let now = Now::default();
    cluster.create(objects.namespace(0), now).unwrap();
    let set = StatefulSets.make(part, &objects).unwrap();
    let set = cluster.api(Kind::STATEFUL_SET).create(set, now).unwrap();
    of_kind(&*set).unwrap().fields["spec"].clone()
}

#[test]
fn generated_sets_follow_their_flags() {
    let spec = made("--statefulsets 2 --pods-per-statefulset 4");
    assert_eq!(spec["replicas"], 4);
    assert_eq!(spec["podManagementPolicy"], "OrderedReady");
    assert_eq!(
        spec["updateStrategy"]["rollingUpdate"],
        json!({"partition": 0, "maxUnavailable": 1})
    );
    let spec = made(
        "--statefulsets 2 --pods 6 --parallel-pod-management --partition 1 --statefulset-max-unavailable 2 \
         --min-ready-seconds 5s",
    );
    assert_eq!(spec["replicas"], 3);
    assert_eq!(spec["podManagementPolicy"], "Parallel");
    assert_eq!(spec["minReadySeconds"], 5);
    let rolling = json!({"partition": 1, "maxUnavailable": 2});
    assert_eq!(spec["updateStrategy"]["rollingUpdate"], rolling);
}

#[test]
fn invalid_set_flags_are_refused() {
    for (flags, words) in [
        (
            "--statefulset-max-unavailable 0",
            "no pod could be replaced",
        ),
        ("--partition -1", "a whole number from 0 to 2147483647"),
        (
            "--partition 3000000000",
            "a whole number from 0 to 2147483647",
        ),
        ("--pods-per-statefulset 0", "must be at least 1"),
        ("--replicasets 5", "generates none"),
    ] {
        let line = format!("--scenario statefulset-upgrade {flags}");
        let problem = Settings::of_flags(&line, 1).unwrap_err();
        assert!(problem.contains(words), "{flags}: {problem}");
    }
    let problem = Settings::of_flags("--scenario up-down --statefulsets 5", 1).unwrap_err();
    assert!(problem.contains("generates none"), "{problem}");
}

#[test]
fn rollouts_end_when_kubectl_stops_waiting() {
    let set = |kind: &str, status: Value| {
        let mut strategy = json!({ "type": kind });
        if kind == "RollingUpdate" {
            strategy["rollingUpdate"] = json!({"partition": 1});
        }
        let set = json!({"metadata": {"name": "web", "namespace": "n", "generation": 2},
            "spec": {"replicas": 3, "updateStrategy": strategy}, "status": status});
        DynamicObject::from_json(Kind::STATEFUL_SET, set).unwrap()
    };
    let complete = |kind: &str, generation: i64, ready: i64, updated: i64| {
        let status = json!({"observedGeneration": generation, "replicas": 3, "readyReplicas": ready,
            "updatedReplicas": updated});
        StatefulSets
            .progress(&set(kind, status))
            .unwrap()
            .is_complete
    };
    assert!(complete("RollingUpdate", 2, 3, 2));
    assert!(!complete("RollingUpdate", 2, 3, 1));
    assert!(!complete("RollingUpdate", 2, 2, 2));
    assert!(!complete("RollingUpdate", 1, 3, 2));
    // Don't wait for what the controller does not do.
    assert!(complete("OnDelete", 2, 3, 0));
    assert!(!complete("OnDelete", 1, 3, 0));
}

fn uid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Returns a set `web` with three pods, as in a real cluster: with its revision, and with the pod
/// that `pods` returns for each ordinal.
pub(super) fn dump(image: &str, pods: impl Fn(usize, &str) -> Value) -> Vec<Value> {
    let labels = json!({"app": "web"});
    let container = json!({"name": "c", "image": image, "resources": {}, "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
    let set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "web", "namespace": "shop", "uid": uid(9), "generation": 1},
        "spec": {"replicas": 3, "serviceName": "web", "selector": {"matchLabels": labels},
            "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container],
                "dnsPolicy": "ClusterFirst", "restartPolicy": "Always", "schedulerName": "default-scheduler",
                "securityContext": {}, "terminationGracePeriodSeconds": 30}}}});
    let mut object = DynamicObject::from_json(Kind::STATEFUL_SET, set).unwrap();
    let status = settled_status(&object).unwrap();
    let reference = Arc::new(Kind::STATEFUL_SET.controller_reference(&object.metadata));
    let owner = Owner {
        kind: Kind::STATEFUL_SET,
        meta: &object.metadata,
        reference: &reference,
        collision_count: 0,
    };
    let data = RevisionData::of_template(&object.fields["spec"]["template"]).unwrap();
    let mut revision = owner.new_revision(&data, &data.text(), 1, Some(0));
    revision.metadata.uid = (*uid(8)).into();
    let name = revision.metadata.name.to_string();
    assert!(revision.metadata.labels.get(HASH_LABEL).is_some());
    object.fields.insert("status".to_owned(), status);
    let mut all = vec![object.to_json(), revision.to_json()];
    all.push(
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"allocatable": {"pods": "110"}}}),
    );
    for ordinal in 0..3 {
        let pod = format!("web-{ordinal}");
        let mut labels = labels.clone();
        labels[POD_NAME_LABEL] = pod.as_str().into();
        labels[POD_INDEX_LABEL] = ordinal.to_string().into();
        labels[REVISION_LABEL] = name.as_str().into();
        let mut spec = all[0]["spec"]["template"]["spec"].clone();
        spec["nodeName"] = "n1".into();
        spec["hostname"] = pod.as_str().into();
        spec["subdomain"] = "web".into();
        all.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": pod, "namespace": "shop",
            "uid": uid(ordinal), "labels": labels, "ownerReferences": [{"apiVersion": "apps/v1", "kind": "StatefulSet",
                "name": "web", "uid": uid(9), "controller": true, "blockOwnerDeletion": true}]},
            "spec": spec, "status": pods(ordinal, &name)}));
    }
    all
}

pub(super) fn ready(_: usize, _: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
}

/// Like `ready`, but the image of the last pod can't be pulled.
pub(super) fn pulls_nothing(ordinal: usize, name: &str) -> Value {
    match ordinal {
        2 => json!({"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"name": "c", "image": "web:1", "imageID": "", "ready": false,
                "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
        _ => ready(ordinal, name),
    }
}

fn played(scenario: &str, objects: &[Value]) -> RunResult {
    let text = json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string();
    let loaded = manifest::load(&[PathBuf::from("-")], text.as_bytes()).unwrap();
    assert_eq!(loaded.warnings, [""; 0]);
    let flags = format!("--scenario {scenario} --engine virtual --time-limit 1h");
    let request = SettingsRequest::read(flags.split_whitespace()).unwrap();
    let settings = resolve(
        &request.with_input(Some(loaded.size)),
        Machine::with_cpus(2),
    )
    .unwrap();
    run::run(&settings, loaded.objects, &(), &AtomicBool::new(false))
}

#[test]
fn nothing_is_written_over_a_dump_of_healthy_sets() {
    let result = played("manifests", &dump("web:1", ready));
    assert_eq!(result.outcome.reason, "");
    assert_eq!((result.pods.created, result.pods.deleted), (0, 0));
    assert_eq!(
        result.api_calls.values().sum::<u64>(),
        0,
        "{:?}",
        result.api_calls
    );
}

#[test]
fn a_stale_status_of_a_dump_is_written_once() {
    let mut objects = dump("web:1", ready);
    objects[0]["status"]["readyReplicas"] = 2.into();
    let result = played("manifests", &objects);
    assert_eq!(result.outcome.reason, "");
    assert_eq!(result.pods.created, 0);
    assert_eq!(
        result.api_calls.values().sum::<u64>(),
        1,
        "{:?}",
        result.api_calls
    );
}

#[test]
fn a_stuck_set_of_a_dump_is_reported_without_delay() {
    let mut objects = dump("web:1", pulls_nothing);
    for count in ["readyReplicas", "availableReplicas"] {
        objects[0]["status"][count] = 2.into();
    }
    let result = played("manifests", &objects);
    assert_eq!(result.outcome.reason, "");
    assert_eq!((result.pods.created, result.pods.deleted), (0, 0));
    let rollouts = &result.incomplete_rollouts;
    assert_eq!(rollouts.count, 1, "{rollouts:?}");
    assert!(
        rollouts.shown[0].reason.contains("ImagePullBackOff"),
        "{rollouts:?}"
    );
}

#[test]
fn missing_pods_are_created_in_order_from_old_revisions() {
    let mut objects = dump("web:1", ready);
    objects.retain(|object| object["metadata"]["name"] != "web-1");
    let result = played("manifests", &objects);
    assert_eq!(result.outcome.reason, "");
    assert_eq!((result.pods.created, result.pods.deleted), (1, 0));
    let writes = |of: &str| {
        let calls = result.api_calls.iter();
        let calls = calls.filter(|(call, _)| call.contains(of));
        calls.map(|(_, count)| count).sum::<u64>()
    };
    assert_eq!(writes("controllerrevisions"), 0, "{:?}", result.api_calls);
}
