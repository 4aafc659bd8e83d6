//! Tests of reading and writing pods.

use serde_json::json;

use super::super::testing::{refusal, round_trip, wrong_values};
use super::*;
use crate::Object;
use crate::{ConditionStatus, ConditionType, ContainerDetails, ContainerId, PodPhase, Time};

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../../../fixtures/pod.json")).unwrap()
}

#[test]
fn a_realistic_pod_round_trips() {
    let pod: Pod = round_trip(&fixture());
    assert_eq!(pod.node_name.as_deref(), Some("node-0042"));
    assert_eq!(pod.spec.get("nodeName"), None);
    assert_eq!(pod.spec.containers.len(), 1);
    assert_eq!(&*pod.spec.containers[0].name, "web");
    assert_eq!(pod.spec.termination_grace_period_seconds, Some(30));
    assert_eq!(pod.status.phase, PodPhase::Running);
    assert_eq!(pod.status.conditions.len(), 5);
    assert!(pod.is_ready() && pod.is_active());
    assert_eq!(pod.ready_time(), "2026-01-02T03:04:17Z".parse().unwrap());
    assert_eq!(pod.status.container_statuses[0].restart_count, 1);
    assert!(pod.metadata.rest.get("managedFields").is_some());
}

#[test]
fn dropping_managed_fields_leaves_the_rest() {
    let mut pod = Pod::from_json(fixture()).unwrap();
    pod.strip_for_cache();
    let mut expected = fixture();
    expected["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("managedFields");
    assert_eq!(pod, Pod::from_json(expected).unwrap());
    assert_eq!(pod.metadata.rest, Rest::NONE);
}

#[test]
fn members_nested_beyond_the_json_limit_read_back() {
    let deep = (0..190).fold(json!({}), |inner, _| json!({"a": [inner]}));
    let pod: Pod = round_trip(&json!({"metadata": {"name": "p", "managedFields": [deep]},
        "spec": {"affinity": {"nodeAffinity": {"a": deep}}}}));
    assert!(pod.spec.to_map(None).contains_key("affinity"));
    assert!(pod.metadata.rest.get("managedFields").is_some());
}

#[test]
fn sidecars_are_the_restartable_init_containers() {
    let spec = json!({"initContainers": [{"name": "a"}, {"name": "b", "restartPolicy": "Always"}],
        "containers": [{"name": "c"}, {"name": "d"}], "terminationGracePeriodSeconds": 5,
        "priority": null});
    let Value::Object(fields) = spec else {
        unreachable!("an object literal")
    };
    let spec = PodSpec::from_json(fields).unwrap();
    let init: Vec<_> = spec
        .init_containers
        .iter()
        .map(|it| (&*it.name, it.is_sidecar))
        .collect();
    assert_eq!(init, [("a", false), ("b", true)]);
    let names: Vec<&str> = spec.containers.iter().map(|it| &*it.name).collect();
    assert_eq!(names, ["c", "d"]);
    assert_eq!(spec.termination_grace_period_seconds, Some(5));
    assert_eq!(spec.get("priority"), None);
}

#[test]
fn a_pods_volume_name_is_taken_out_and_restored() {
    let name = "kube-api-access-q7w2n";
    let pod = Pod::from_json(fixture()).unwrap();
    assert_eq!(pod.token_volume, TokenVolume::new(name));
    assert!(!pod.spec.text_with(None).contains(name));
    let spec = |fields: &Map, node: &str| {
        let mut spec = fields.clone();
        spec.insert("nodeName".into(), node.into());
        Value::Object(spec)
    };
    let full = pod.spec.to_map(pod.token_volume);
    assert_eq!(spec(&full, "node-0042"), fixture()["spec"]);
    assert_eq!(
        pod.to_json()["spec"],
        fixture()["spec"],
        "every character is restored"
    );
    // Another pod of the template has an equal spec, but is a different pod.
    let text = fixture().to_string().replace(name, "kube-api-access-00000");
    let other = Pod::from_json(serde_json::from_str(&text).unwrap()).unwrap();
    assert_eq!(other.spec, pod.spec);
    assert_ne!(other, pod);
    let renamed = Pod {
        token_volume: pod.token_volume,
        ..other
    };
    assert_eq!(renamed, pod);
}

#[test]
fn odd_status_texts_are_kept() {
    let pod: Pod = round_trip(&json!({"metadata": {"name": "p"}, "status": {
        "phase": "Dreaming",
        "conditions": [
            {"type": "example.com/Gate", "status": "Maybe", "reason": "r"},
            {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-02T03:04:05Z"},
            {"type": "Ready", "status": "True"}],
        "initContainerStatuses": [{"name": "i", "restartCount": 4, "ready": true}]}}));
    assert_eq!(pod.status.phase, PodPhase::Other);
    let odd = pod.status.conditions.get(0).unwrap();
    assert_eq!(odd.kind, ConditionType::Other);
    assert_eq!(odd.status, ConditionStatus::Other);
    assert_eq!(pod.ready_time(), Time::UNSET);
    let init = pod.status.init_container_statuses.unwrap();
    assert_eq!(init[0].restart_count, 4);
}

#[test]
fn a_start_of_another_form_is_kept_unchanged() {
    let status = json!({"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.1"}],
        "podIP": "10.1.0.1", "podIPs": [{"ip": "10.1.0.1"}],
        "startTime": "2026-01-02T03:04:05Z", "qosClass": "Burstable"});
    let pod: Pod = round_trip(&json!({"status": status}));
    let started = pod.status.started.expect("of the ordinary form");
    assert_eq!(started.host_ip.to_string(), "10.0.0.1");
    assert_eq!(started.pod_ip.to_string(), "10.1.0.1");
    assert_eq!(pod.status.rest.to_map().len(), 1);
    let mut pending = status.clone();
    let members = pending.as_object_mut().unwrap();
    for member in ["podIP", "podIPs"] {
        members.remove(member);
    }
    let pod: Pod = round_trip(&json!({"status": pending}));
    let started = pod.status.started.expect("of the form without an address");
    assert!(started.pod_ip.is_empty());
    assert_eq!(pod.status.rest.to_map().len(), 1);
    pending["podIP"] = "10.1.0.1".into();
    let pod: Pod = round_trip(&json!({"status": pending}));
    assert_eq!(pod.status.started, None);
    for (member, value) in [
        ("podIPs", json!([{"ip": "10.1.0.1"}, {"ip": "fd00::1"}])),
        ("podIPs", json!([{"ip": "10.1.0.2"}])),
        ("hostIPs", json!([{"ip": "10.0.0.1", "zone": "a"}])),
        ("hostIP", json!("")),
        ("startTime", Value::Null),
    ] {
        let mut other = status.clone();
        other[member] = value;
        let pod: Pod = round_trip(&json!({"status": other}));
        assert_eq!(pod.status.started, None, "{other}");
    }
}

#[test]
fn members_of_a_single_container_are_kept_apart() {
    let id = format!("containerd://{}", "5c0b6a4e".repeat(8));
    let running = json!({"running": {"startedAt": "2026-01-02T03:04:12Z"}});
    let details = |mut status: Value| {
        for (member, value) in [("ready", json!(false)), ("restartCount", json!(0))] {
            status[member] = value;
        }
        let pod: Pod = round_trip(&json!({"status": {"containerStatuses": [status.clone()]}}));
        // Compared exactly, because the round trip ignores empty members.
        let written = pod.to_json();
        assert_eq!(written["status"]["containerStatuses"], json!([status]));
        let status = pod.status.container_statuses[0].clone();
        status
            .details
            .map(|details| ContainerDetails::clone(&details))
    };
    assert_eq!(details(json!({"name": "c"})), None);
    let all = details(json!({"image": "i", "containerID": id, "state": running})).unwrap();
    assert_eq!(all.id, Some(ContainerId::new(&id)));
    assert_eq!(
        all.running_since.get(),
        "2026-01-02T03:04:12Z".parse().unwrap()
    );
    assert_eq!(all.rest.to_map().len(), 1);
    let own = details(json!({"containerID": "", "state": running})).unwrap();
    assert_eq!((own.id, own.rest), (Some(ContainerId::new("")), Rest::NONE));
    for state in [
        json!({}),
        json!({"running": {}}),
        json!({"running": null}),
        json!({"running": {"startedAt": null}}),
        json!({"running": {"startedAt": ""}}),
        json!({"running": {"startedAt": "0001-01-01T00:00:00Z"}}),
        json!({"running": {"startedAt": "2026-01-02T03:04:12.5Z"}}),
        json!({"running": {"startedAt": "2026-01-02T05:04:12+02:00"}}),
        json!({"running": {"startedAt": "2026-01-02T03:04:12Z", "by": "x"}}),
        json!({"running": {"startedAt": "2026-01-02T03:04:12Z"}, "waiting": null}),
        json!({"terminated": {"exitCode": 1, "containerID": id}}),
        json!({"waiting": {"reason": "CrashLoopBackOff"}}),
    ] {
        let other = details(json!({"state": state})).unwrap();
        assert!(other.running_since.get().is_unset(), "{state}");
        assert_eq!(other.rest.get("state"), Some(state));
    }
}

#[test]
fn wrong_types_are_refused_with_their_path() {
    let cases = r#"
3 => the object: expected an object, found the number 3
{"kind": "Node"} => the object: expected v1 Pod, found Node without an apiVersion
{"apiVersion": "v2", "kind": "Pod"} => the object: expected v1 Pod, found v2 Pod
{"metadata": []} => metadata: expected an object, found a list
{"spec": {"containers": {}}} => spec.containers: expected a list, found an object
{"spec": {"containers": [{"name": "a"}, {"image": 3}]}} => spec.containers[1].image: expected a string, found the number 3
{"spec": {"initContainers": [{"ports": [{"containerPort": "x"}]}]}} => spec.initContainers[0].ports[0].containerPort: expected an integer, found the string "x"
{"spec": {"nodeSelector": {"zone": 1}}} => spec.nodeSelector[zone]: expected a string, found the number 1
{"spec": {"nodeName": 1}} => spec.nodeName: expected a string, found the number 1
{"status": {"containerStatuses": [{"restartCount": 2147483648}]}} => status.containerStatuses[0].restartCount: expected a 32-bit integer, found the number 2147483648
{"status": {"conditions": [{"type": 1}]}} => status.conditions[0].type: expected a string, found the number 1
{"status": {"containerStatuses": [{"containerID": 1}]}} => status.containerStatuses[0].containerID: expected a string, found the number 1
{"status": {"containerStatuses": [{"state": {"running": {"startedAt": 1}}}]}} => status.containerStatuses[0].state.running.startedAt: expected a time such as 2026-01-02T03:04:05Z, found the number 1
{"status": {"startTime": "now"}} => status.startTime: expected a time such as 2026-01-02T03:04:05Z, found the string "now"
"#;
    for (value, problem) in wrong_values(cases) {
        assert_eq!(refusal::<Pod>(value), problem);
    }
    let with_node = Map::from_iter([("nodeName".to_owned(), json!("n"))]);
    assert!(PodSpec::from_json(with_node).is_err());
    let with_name = [(
        "volumes".to_owned(),
        json!([{"name": "kube-api-access-q7w2n"}]),
    )];
    assert!(PodSpec::from_json(Map::from_iter(with_name)).is_err());
}

#[test]
fn a_particular_pod_constrains_its_node_beyond_its_requests() {
    let affinity = |kind: &str, how: &str, terms: Value| json!({"affinity": {kind: {format!("{how}DuringSchedulingIgnoredDuringExecution"): terms}}});
    let tolerates = |key: &str, effect: &str| json!({"tolerations": [{"key": key, "operator": "Exists", "effect": effect}]});
    let port = |member: &str| json!({"containers": [{"name": "c", "ports": [{member: 80}]}]});
    let spread = |when: &str| {
        json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1,
            "whenUnsatisfiable": when}]})
    };
    for (spec, is_particular) in [
        (json!({}), false),
        (json!({"nodeSelector": {}, "affinity": {}}), false),
        (json!({"nodeSelector": {"disk": "ssd"}}), true),
        (affinity("podAffinity", "required", json!([{}])), true),
        (affinity("podAntiAffinity", "required", json!([{}])), true),
        (affinity("podAntiAffinity", "required", json!([])), false),
        (affinity("podAntiAffinity", "preferred", json!([{}])), false),
        (affinity("nodeAffinity", "required", json!({})), true),
        (affinity("nodeAffinity", "preferred", json!([{}])), false),
        (
            tolerates("node.kubernetes.io/not-ready", "NoExecute"),
            false,
        ),
        (
            tolerates("node.kubernetes.io/not-ready", "NoSchedule"),
            true,
        ),
        (tolerates("node.kubernetes.io/not-ready", ""), true),
        (tolerates("gpu", "NoExecute"), true),
        (spread("DoNotSchedule"), true),
        (spread("ScheduleAnyway"), false),
        (port("containerPort"), false),
        (port("hostPort"), true),
    ] {
        let read = PodSpec::from_json(spec.as_object().unwrap().clone()).unwrap();
        assert_eq!(read.is_particular, is_particular, "{spec}");
    }
}
