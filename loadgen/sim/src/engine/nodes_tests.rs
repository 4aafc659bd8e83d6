//! Tests of the nodes of a served cluster: kubelets that keep nodes alive, and the effects of a
//! silent kubelet.

use podstorm_apiserver::{Cluster, DeleteOptions, Patch, Propagation};
use podstorm_objects::{DynamicObject, Event, Kind, Namespace, Node, Object, Pod, Resource};
use serde_json::{Value, json};

use super::Harness;
use super::services_tests::{furnished, web};
use crate::nodes::{ClientRules, NodeSize, NodeTimes, register};
use crate::options::{EngineKind, SimOptions};
use crate::rows::Rows;
use crate::services::Controllers;

const SECOND_NS: i64 = 1_000_000_000;

fn options(controllers: &[&str]) -> SimOptions {
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    options.services.controllers = Controllers::from_words(Rows::installed(), controllers).unwrap();
    options
}

/// Returns a served cluster with the registered nodes `node-1` and so on.
fn serving(options: &SimOptions, nodes: usize) -> Harness {
    serving_by(ClientRules::default(), options, nodes)
}

fn serving_by(rules: ClientRules, options: &SimOptions, nodes: usize) -> Harness {
    let harness = Harness::serving(options, NodeTimes::default(), rules).started();
    let (cluster, now) = (harness.cluster(), harness.now());
    for name in ["default", "shop", "kube-node-lease"] {
        let namespace = json!({"metadata": {"name": name}});
        let namespace = Namespace::from_json(namespace).unwrap();
        cluster.create(namespace, now).unwrap();
    }
    for number in 1..=nodes {
        let (name, size) = (format!("node-{number}"), NodeSize::default());
        register(cluster, &name, None, &size, 110, now).unwrap();
    }
    harness
}

fn pass(harness: &Harness, seconds: i64) {
    harness.advance(seconds * SECOND_NS);
}

fn node(cluster: &Cluster, name: &str) -> Value {
    cluster.get::<Node>("", name).unwrap().to_json()
}

fn condition(node: &Value, of_type: &str) -> Value {
    let conditions = node["status"]["conditions"].as_array().unwrap();
    let found = conditions.iter().find(|it| it["type"] == of_type);
    found.cloned().unwrap_or_default()
}

fn ready(harness: &Harness, name: &str) -> String {
    let ready = condition(&node(harness.cluster(), name), "Ready");
    ready["status"].as_str().unwrap_or("-").to_owned()
}

/// Returns the key and effect of each of a node's taints.
fn taints(harness: &Harness, name: &str) -> Vec<String> {
    let node = node(harness.cluster(), name);
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let text = |it: &Value| {
        let key = it["key"].as_str().unwrap().rsplit('/').next().unwrap();
        format!("{key} {}", it["effect"].as_str().unwrap())
    };
    taints.map(text).collect()
}

fn annotate(harness: &Harness, name: &str, value: Value) {
    let patch = json!({"metadata": {"annotations": {"podstorm/kubelet": value}}});
    let patch = Patch::Merge(patch.as_object().unwrap().clone());
    let api = harness.cluster().api(Kind::NODE);
    api.patch("", name, &patch, harness.now()).unwrap();
}

fn lease(cluster: &Cluster, name: &str) -> Value {
    let lease = cluster.api(Kind::LEASE).get("kube-node-lease", name);
    lease.map_or(Value::Null, |lease| lease.to_json())
}

/// Returns the source, reason, message and count of the Events about an object, in order.
fn events(cluster: &Cluster, about: &str) -> Vec<String> {
    let mut events = cluster.list::<Event>(None).0;
    events.sort_by_key(|event| event.metadata.resource_version.number());
    let events = events.iter().map(|event| event.to_json());
    let of_it = events.filter(|event| event["involvedObject"]["name"] == about);
    let text = |event: Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let source = text(&event["source"]["component"]);
        format!("{source} {} {}", text(&event["message"]), event["count"])
    };
    of_it.map(text).collect()
}

fn create_pod(harness: &Harness, name: &str, node: &str, tolerations: Value) {
    let pod = json!({"metadata": {"name": name, "namespace": "shop"},
        "spec": {"nodeName": node, "tolerations": tolerations,
            "containers": [{"name": "c", "image": "i"}]}});
    let pod = Pod::from_json(pod).unwrap();
    harness.cluster().create(pod, harness.now()).unwrap();
}

fn pod(harness: &Harness, name: &str) -> Value {
    let pod = harness.cluster().get::<Pod>("shop", name);
    pod.map_or(Value::Null, |pod| pod.to_json())
}

fn of_pod(harness: &Harness, name: &str, of_type: &str) -> Value {
    condition(&pod(harness, name), of_type)
}

/// Returns the toleration of unreachable nodes that admission adds to every pod.
fn admitted() -> Value {
    json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute",
        "tolerationSeconds": 300}])
}

#[test]
fn a_registered_node_has_a_lease_and_events_and_stays_ready() {
    let harness = serving(&options(&["*"]), 1);
    pass(&harness, 0);
    let cluster = harness.cluster();
    let lease_of = lease(cluster, "node-1");
    assert_eq!(lease_of["spec"]["holderIdentity"], "node-1");
    assert_eq!(lease_of["spec"]["leaseDurationSeconds"], 40);
    let owner = &lease_of["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["name"]),
        (&json!("Node"), &json!("node-1"))
    );
    let kubelet = |reason: &str| format!("kubelet Node node-1 status is now: {reason} 1");
    let all = [
        "kubelet Starting kubelet. 1".to_owned(),
        "kubelet Updated Node Allocatable limit across pods 1".to_owned(),
        kubelet("NodeHasSufficientMemory"),
        kubelet("NodeHasNoDiskPressure"),
        kubelet("NodeHasSufficientPID"),
        kubelet("NodeReady"),
        "node-controller Node node-1 event: Registered Node node-1 in Controller 1".to_owned(),
    ];
    assert_eq!(events(cluster, "node-1"), all);
    let first = node(cluster, "node-1");
    let mut renewals = Vec::new();
    for _ in 0..60 {
        pass(&harness, 10);
        assert_eq!(ready(&harness, "node-1"), "True");
        renewals.push(lease(cluster, "node-1")["spec"]["renewTime"].to_string());
    }
    renewals.dedup();
    assert!((56..=60).contains(&renewals.len()), "every 10.0 to 10.4 s");
    // Heartbeats come every 5 minutes, and change nothing else.
    let last = node(cluster, "node-1");
    let times = [&first, &last].map(|it| condition(it, "Ready"));
    assert_ne!(times[0]["lastHeartbeatTime"], times[1]["lastHeartbeatTime"]);
    assert_eq!(
        times[0]["lastTransitionTime"],
        times[1]["lastTransitionTime"]
    );
    assert_eq!(events(cluster, "node-1").len(), 7);
}

#[test]
fn a_lost_nodes_pods_become_unready_and_are_evicted() {
    let harness = serving(&options(&["*"]), 3);
    harness.cluster().create(web(), harness.now()).unwrap();
    create_pod(&harness, "p", "node-1", admitted());
    create_pod(&harness, "stays", "node-1", json!([{"operator": "Exists"}]));
    pass(&harness, 60);
    annotate(&harness, "node-1", "silent".into());
    pass(&harness, 39);
    assert_eq!(ready(&harness, "node-1"), "True");
    pass(&harness, 17);
    let lost = node(harness.cluster(), "node-1");
    for of_type in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        let condition = condition(&lost, of_type);
        assert_eq!(condition["status"], "Unknown", "{of_type}");
        assert_eq!(condition["reason"], "NodeStatusUnknown");
        assert_eq!(condition["message"], "Kubelet stopped posting node status.");
    }
    let both = ["unreachable NoSchedule", "unreachable NoExecute"];
    let mut found = taints(&harness, "node-1");
    found.sort_by_key(|it| it.ends_with("NoExecute"));
    assert_eq!(found, both);
    for name in ["p", "stays"] {
        assert_eq!(of_pod(&harness, name, "Ready")["status"], "False");
        assert_eq!(of_pod(&harness, name, "ContainersReady")["status"], "True");
        assert_eq!(pod(&harness, name)["status"]["phase"], "Running");
    }
    let told = events(harness.cluster(), "node-1");
    assert_eq!(
        told.last().unwrap(),
        "node-controller Node node-1 status is now: NodeNotReady 1"
    );
    let told = events(harness.cluster(), "p");
    assert!(
        told.contains(&"node-controller Node is not ready 1".to_owned()),
        "{told:?}"
    );

    pass(&harness, 290);
    assert!(
        pod(&harness, "p")["metadata"]
            .get("deletionTimestamp")
            .is_none()
    );
    pass(&harness, 15);
    let target = of_pod(&harness, "p", "DisruptionTarget");
    assert_eq!(target["status"], "True");
    assert_eq!(target["reason"], "DeletionByTaintManager");
    assert_eq!(
        target["message"],
        "Taint manager: deleting due to NoExecute taint"
    );
    assert!(pod(&harness, "p")["metadata"]["deletionTimestamp"].is_string());
    let told = events(harness.cluster(), "p");
    let marked = "taint-eviction-controller Marking for deletion Pod shop/p 1";
    assert_eq!(told.last().unwrap(), marked);
    pass(&harness, 3600);
    assert_eq!(
        pod(&harness, "p")["status"]["phase"],
        "Running",
        "the kubelet is silent, so the pod stays"
    );

    // The kubelet is back.
    annotate(&harness, "node-1", Value::Null);
    pass(&harness, 6);
    assert_eq!(ready(&harness, "node-1"), "True");
    assert!(taints(&harness, "node-1").is_empty());
    assert_eq!(pod(&harness, "p"), Value::Null);
    assert_eq!(of_pod(&harness, "stays", "Ready")["status"], "True");
    let told = events(harness.cluster(), "node-1");
    assert!(
        told.contains(&"kubelet Node node-1 status is now: NodeReady 1".to_owned()),
        "{told:?}"
    );
}

#[test]
fn a_short_silence_is_not_detected() {
    let harness = serving(&options(&["*"]), 2);
    create_pod(&harness, "p", "node-1", admitted());
    pass(&harness, 30);
    annotate(&harness, "node-1", "silent".into());
    pass(&harness, 38);
    annotate(&harness, "node-1", Value::Null);
    pass(&harness, 600);
    assert_eq!(events(harness.cluster(), "node-1").len(), 7);
    assert_eq!(of_pod(&harness, "p", "Ready")["status"], "True");
    // A kubelet that returns before the toleration ends cancels the evictions.
    annotate(&harness, "node-1", "silent".into());
    pass(&harness, 200);
    annotate(&harness, "node-1", Value::Null);
    pass(&harness, 600);
    assert!(
        pod(&harness, "p")["metadata"]
            .get("deletionTimestamp")
            .is_none()
    );
    let told = events(harness.cluster(), "p");
    let cancelled = "taint-eviction-controller Cancelling deletion of Pod shop/p 1";
    assert_eq!(told.last().unwrap(), cancelled);
}

#[test]
fn the_only_node_never_evicts_its_pods() {
    let harness = serving(&options(&["*"]), 1);
    create_pod(&harness, "p", "node-1", admitted());
    pass(&harness, 30);
    annotate(&harness, "node-1", "silent".into());
    pass(&harness, 3600);
    assert_eq!(ready(&harness, "node-1"), "Unknown");
    assert_eq!(taints(&harness, "node-1"), ["unreachable NoSchedule"]);
    assert_eq!(of_pod(&harness, "p", "Ready")["status"], "False");
    assert!(
        pod(&harness, "p")["metadata"]
            .get("deletionTimestamp")
            .is_none()
    );
}

#[test]
fn without_the_controllers_a_silent_node_changes_nothing() {
    let off = [
        "*",
        "-node-lifecycle-controller",
        "-taint-eviction-controller",
    ];
    let harness = serving(&options(&off), 2);
    create_pod(&harness, "p", "node-1", json!([]));
    pass(&harness, 30);
    annotate(&harness, "node-1", "silent".into());
    let patch = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    let patch = Patch::Merge(patch.as_object().unwrap().clone());
    let api = harness.cluster().api(Kind::NODE);
    api.patch("", "node-1", &patch, harness.now()).unwrap();
    pass(&harness, 3600);
    assert_eq!(ready(&harness, "node-1"), "True");
    assert_eq!(of_pod(&harness, "p", "Ready")["status"], "True");
}

#[test]
fn a_node_created_by_a_client_gets_a_kubelet() {
    let harness = serving(&options(&["*"]), 1);
    pass(&harness, 7);
    let made = json!({"metadata": {"name": "own", "labels": {"kubernetes.io/os": "plan9"}},
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}});
    let (cluster, now) = (harness.cluster(), harness.now());
    cluster.create(Node::from_json(made).unwrap(), now).unwrap();
    pass(&harness, 1);
    let own = node(cluster, "own");
    assert_eq!(own["metadata"]["labels"]["beta.kubernetes.io/os"], "plan9");
    assert_eq!(own["metadata"]["labels"]["kubernetes.io/hostname"], "own");
    assert_eq!(own["status"]["allocatable"]["pods"], "110");
    assert_eq!(ready(&harness, "own"), "True");
    assert!(taints(&harness, "own").is_empty());
    assert_eq!(lease(cluster, "own")["spec"]["holderIdentity"], "own");
    pass(&harness, 10);
    assert_eq!(events(cluster, "own").len(), 7);
    // A deleted Lease is recreated.
    let options = DeleteOptions::default();
    let leases = cluster.api(Kind::LEASE);
    leases
        .delete("kube-node-lease", "own", &options, harness.now())
        .unwrap();
    pass(&harness, 11);
    assert!(lease(cluster, "own").is_object());
    // A deleted node loses its kubelet and its Lease.
    cluster
        .delete::<Node>("", "own", &options, harness.now())
        .unwrap();
    pass(&harness, 30);
    assert_eq!(lease(cluster, "own"), Value::Null);
    let told = events(cluster, "own");
    let removed = "node-controller Node own event: Removing Node own from Controller 1";
    assert_eq!(told.last().unwrap(), removed);
}

#[test]
fn the_lease_namespace_is_recreated() {
    let harness = serving(&options(&["*"]), 1);
    pass(&harness, 7);
    let options = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    let (cluster, now) = (harness.cluster(), harness.now());
    cluster
        .delete::<Namespace>("", "kube-node-lease", &options, now)
        .unwrap();
    pass(&harness, 60);
    let lease = cluster.api(Kind::LEASE).get("kube-node-lease", "node-1");
    assert!(lease.unwrap().downcast_ref::<DynamicObject>().is_some());
    assert_eq!(ready(&harness, "node-1"), "True");
}

#[test]
fn conditions_written_by_a_client_stay_and_cause_taints() {
    let harness = serving(&options(&["*"]), 3);
    create_pod(&harness, "p", "node-1", json!([]));
    pass(&harness, 30);
    let set = |status: &str| {
        let mut node = node(harness.cluster(), "node-1");
        for condition in node["status"]["conditions"].as_array_mut().unwrap() {
            if condition["type"] == "Ready" {
                condition["status"] = status.into();
            }
        }
        let node = Node::from_json(node).unwrap();
        harness
            .cluster()
            .update_status(node, harness.now())
            .unwrap();
    };
    set("False");
    pass(&harness, 700);
    assert_eq!(
        ready(&harness, "node-1"),
        "False",
        "the kubelet keeps the foreign condition"
    );
    let mut found = taints(&harness, "node-1");
    found.sort();
    assert_eq!(found, ["not-ready NoExecute", "not-ready NoSchedule"]);
    set("True");
    pass(&harness, 6);
    assert!(taints(&harness, "node-1").is_empty());
}

#[test]
fn a_fork_renews_leases_like_the_original() {
    let options = options(&["*"]);
    let harness = serving(&options, 3);
    pass(&harness, 33);
    let state = harness.state().unwrap();
    let (times, rules) = (NodeTimes::default(), ClientRules::default());
    let fork = Harness::resuming(&options, times, rules, &state)
        .unwrap()
        .started();
    pass(&fork, 0);
    let versions = [&harness, &fork].map(|it| it.cluster().resource_version());
    assert_eq!(versions[0], versions[1], "the fork itself writes nothing");
    for _ in 0..30 {
        for name in ["node-1", "node-2", "node-3"] {
            let renewals = [&harness, &fork].map(|it| lease(it.cluster(), name)["spec"].clone());
            assert_eq!(renewals[0], renewals[1], "{name}");
        }
        pass(&harness, 7);
        pass(&fork, 7);
    }
}

#[test]
fn a_cluster_that_only_renews_leases_is_at_rest() {
    let mut harness = furnished(&options(&["replicaset"]));
    assert!(harness.settle(3600 * SECOND_NS));
    harness.cluster().create(web(), harness.now()).unwrap();
    assert!(harness.settle(3600 * SECOND_NS));
    let (pods, _) = harness.cluster().list::<Pod>(None);
    assert!(pods.len() == 2 && pods.iter().all(|pod| pod.is_ready()));
    let before = lease(harness.cluster(), "n1")["spec"].clone();
    pass(&harness, 11);
    assert_ne!(lease(harness.cluster(), "n1")["spec"], before);
}

#[test]
fn a_short_grace_period_makes_lease_renewals_more_frequent() {
    let mut options = options(&["*"]);
    let numbers = &mut options.services.numbers;
    numbers.insert("node-monitor-grace-period", SECOND_NS);
    numbers.insert("node-monitor-period", SECOND_NS / 2);
    let harness = serving(&options, 2);
    pass(&harness, 60);
    assert_eq!(
        events(harness.cluster(), "node-1").len(),
        7,
        "the node was never marked as silent"
    );
    annotate(&harness, "node-1", "silent".into());
    pass(&harness, 3);
    assert_eq!(ready(&harness, "node-1"), "Unknown");
    assert_eq!(ready(&harness, "node-2"), "True");
}

#[test]
fn simultaneous_events_of_one_pod_have_different_names() {
    let rules = ClientRules {
        pod_events: true,
        ..ClientRules::default()
    };
    let harness = serving_by(rules, &options(&["*"]), 1);
    create_pod(&harness, "p", "node-1", json!([]));
    pass(&harness, 5);
    let taint = json!({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}});
    let patch = Patch::Merge(taint.as_object().unwrap().clone());
    let api = harness.cluster().api(Kind::NODE);
    api.patch("", "node-1", &patch, harness.now()).unwrap();
    harness.advance(0);
    // One Event is the controller's, and one the kubelet's.
    let told = events(harness.cluster(), "p");
    for text in ["Marking for deletion", "Stopping container c"] {
        assert!(told.iter().any(|it| it.contains(text)), "{text}: {told:?}");
    }
}
