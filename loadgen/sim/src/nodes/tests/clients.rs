//! Tests of pods on nodes in a cluster with arbitrary clients.

use podstorm_apiserver::Patch;

use super::*;

/// Returns a cluster with arbitrary clients.
pub(super) fn for_clients() -> NodeHarness {
    let rules = ClientRules {
        unpullable_images: vec!["broken:*".into()],
        ..ClientRules::default()
    };
    with_rules(rules)
}

pub(super) fn with_rules(rules: ClientRules) -> NodeHarness {
    let control = NodeControl::for_clients(NodeTimes::default(), rules);
    NodeHarness::controlled(1, control)
}

impl NodeHarness {
    /// Merges a patch into an object, or into its status.
    pub(super) fn patch(&self, kind: Kind, name: &str, patch: Value) {
        let namespace = if kind == Kind::NODE { "" } else { "n" };
        let api = self.cluster.api(kind);
        let Value::Object(patch) = patch else {
            panic!("{patch} is a JSON object");
        };
        let status = patch.contains_key("status");
        let patch = Patch::Merge(patch);
        let patched = match status {
            true => api.patch_status(namespace, name, &patch, self.now),
            false => api.patch(namespace, name, &patch, self.now),
        };
        patched.unwrap();
    }

    pub(super) fn condition(&self, name: &str, kind: &str) -> String {
        let pod = self.pod(name).to_json();
        let conditions = pod["status"]["conditions"].as_array().unwrap();
        let found = conditions.iter().find(|it| it["type"] == kind).unwrap();
        let of = |member: &str| found[member].to_string().replace('"', "");
        ["status", "reason", "message"].map(of).join(" ")
    }
}

#[test]
fn taints_selectors_and_cordons_decide_the_node() {
    let mut harness = for_clients();
    let taint = json!([{"key": "gpu", "effect": "NoSchedule"}]);
    harness.patch(Kind::NODE, "a", json!({"spec": {"taints": taint}}));
    harness.pass(0);
    let tolerations = json!([{"key": "gpu", "operator": "Exists"}]);
    harness.create_with("picky", json!({"nodeSelector": {"disk": "ssd"}}));
    for name in ["p1", "p2", "p3", "p4", "p5"] {
        harness.create(name);
    }
    harness.create_with("tolerant", json!({"tolerations": tolerations}));
    harness.pass(5);
    let all = [
        "p1 b R",
        "p2 b R",
        "p3 b R",
        "p4 b R",
        "p5 - P",
        "picky - P",
        "tolerant a R",
    ];
    assert_eq!(harness.states(), all);
    let told = "False Unschedulable 0/2 nodes are available: \
        1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s). \
        preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(harness.condition("picky", "PodScheduled"), told);
    let told = "False Unschedulable 0/2 nodes are available: \
        1 Too many pods, 1 node(s) had untolerated taint(s). preemption: 0/2 nodes are available: \
        1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling.";
    assert_eq!(harness.condition("p5", "PodScheduled"), told);
    assert!(harness.is_quiet());

    // A pod that ends makes room for exactly one waiting pod.
    harness.delete("p1");
    harness.pass(5);
    assert_eq!(harness.states()[3..5], ["p5 b R", "picky - P"]);
    let labels = json!({"disk": "ssd"});
    harness.patch(Kind::NODE, "b", json!({"metadata": {"labels": labels}}));
    harness.pass(5);
    assert_eq!(harness.states()[4], "picky - P", "the node is full");
    harness.delete("p2");
    harness.pass(5);
    assert_eq!(harness.states()[3], "picky b R");
    assert_eq!(harness.condition("picky", "PodScheduled"), "True null null");
}

#[test]
fn a_no_execute_taint_evicts_pods_that_do_not_tolerate_it() {
    let mut harness = for_clients();
    harness.create("p1");
    harness.create("p2");
    let tolerations = json!([{"operator": "Exists"}]);
    harness.create_with("t", json!({"nodeName": "a", "tolerations": tolerations}));
    harness.pass(5);
    let before = harness.states();
    let taint = json!([{"key": "k", "effect": "NoExecute"}]);
    harness.patch(Kind::NODE, "a", json!({"spec": {"taints": taint}}));
    harness.pass(0);
    let driven = before
        .iter()
        .find(|it| it.contains(" a ") && !it.starts_with('t'));
    let name = &driven.unwrap()[..2];
    let told = "True DeletionByTaintManager Taint manager: deleting due to NoExecute taint";
    assert_eq!(harness.condition(name, "DisruptionTarget"), told);
    harness.pass(5);
    assert_eq!(harness.states().len(), 2);
    assert_eq!(harness.states()[1], "t a R");
}

#[test]
fn an_annotated_node_is_silent_until_the_annotation_is_removed() {
    let mut harness = for_clients();
    harness.create_with("p", json!({"nodeName": "a"}));
    harness.pass(5);
    let annotate = |value: Value| json!({"metadata": {"annotations": {"podstorm/kubelet": value}}});
    harness.patch(Kind::NODE, "a", annotate(json!("silent")));
    harness.pass(49);
    assert_eq!(harness.states(), ["p a R"]);
    harness.pass(2);
    assert_eq!(harness.states(), ["p a n"]);
    let taints = &harness.node("a")["spec"]["taints"];
    assert_eq!(taints[1]["effect"], "NoExecute");
    harness.patch(Kind::NODE, "a", annotate(Value::Null));
    harness.pass(2);
    assert_eq!(harness.states(), ["p a R"]);
    harness.patch(Kind::NODE, "a", annotate(json!("silent")));
    harness.pass(351);
    assert_eq!(harness.states(), ["p a nx"]);
}

#[test]
fn a_pod_with_a_missing_image_waits_for_another_image() {
    let mut harness = for_clients();
    let image = |image: &str| json!({"containers": [{"name": "c", "image": image}]});
    harness.create_with("p", image("broken:1"));
    harness.pass(5);
    let pod = harness.pod("p").to_json();
    let waiting = &pod["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "ImagePullBackOff");
    let told = "Back-off pulling image \"broken:1\": ErrImagePull: failed to pull image \"broken:1\": not found";
    assert_eq!(waiting["message"], told);
    assert_eq!(pod["status"]["phase"], "Pending");
    let told = "False ContainersNotReady containers with unready status: [c]";
    assert_eq!(harness.condition("p", "Ready"), told);
    harness.patch(Kind::POD, "p", json!({"spec": image("sound:1")}));
    harness.pass(0);
    assert_eq!(harness.count("R"), 1);
    harness.pass(60);
    assert!(harness.is_quiet());
}

#[test]
fn the_policy_decides_whether_an_ended_container_restarts() {
    for (policy, code, state, restarts) in [
        ("Always", 0, "R", 1),
        ("Always", 1, "R", 1),
        ("OnFailure", 1, "R", 1),
        ("OnFailure", 0, "S", 0),
        ("Never", 0, "S", 0),
        ("Never", 2, "F", 0),
    ] {
        let mut harness = for_clients();
        harness.create_with("p", json!({"restartPolicy": policy}));
        harness.pass(5);
        let mut containers = harness.pod("p").to_json()["status"]["containerStatuses"].clone();
        containers[0]["state"] = json!({"terminated": {"exitCode": code}});
        let status = json!({"containerStatuses": containers});
        harness.patch(Kind::POD, "p", json!({"status": status}));
        harness.pass(5);
        assert_eq!(harness.count(state), 1, "{policy} {code}");
        let status = &harness.pod("p").to_json()["status"]["containerStatuses"][0];
        assert_eq!(status["restartCount"], restarts, "{policy} {code}");
        if restarts == 1 {
            assert_eq!(status["lastState"]["terminated"]["exitCode"], code);
            assert!(status["lastState"]["terminated"]["finishedAt"].is_string());
            assert!(status["state"]["running"].is_object());
        }
        assert!(harness.is_quiet());
    }
}

#[test]
fn rules_decide_nodes_statuses_and_ends_of_pods() {
    let mut harness = with_rules(ClientRules {
        node_choice: NodeChoice::First,
        finishing: Some(Finishing {
            endless_commands: vec!["sleep".into()],
            ..Finishing::default()
        }),
        pod_network: PodNetwork::parse("192.0.2.0/24"),
        container_id: "c://1".into(),
        image_id: "sha256:0".into(),
        ..ClientRules::default()
    });
    let addresses = json!([{"type": "InternalIP", "address": "192.0.2.200"}]);
    harness.patch(Kind::NODE, "a", json!({"status": {"addresses": addresses}}));
    let command = json!([{"name": "c", "image": "x:1", "command": ["sleep", "9"]}]);
    harness.create_with("ends", json!({"restartPolicy": "Never"}));
    let goes_on = json!({"restartPolicy": "Never", "containers": command});
    harness.create_with("goes-on", goes_on);
    for name in ["p1", "p2", "p3", "p4"] {
        harness.create(name);
    }
    harness.pass(5);
    let all = ["ends a S", "goes-on a R", "p1 a R", "p2 a R"];
    assert_eq!(harness.states()[..4], all);
    let status = harness.pod("p1").to_json()["status"].clone();
    assert_eq!(status["podIP"], "192.0.2.3");
    assert_eq!(status["hostIP"], "192.0.2.200");
    let container = &status["containerStatuses"][0];
    assert_eq!(container["containerID"], "c://1");
    assert_eq!(container["imageID"], "sha256:0");
    let ended = harness.pod("ends").to_json()["status"]["containerStatuses"][0].clone();
    assert_eq!(ended["state"]["terminated"]["reason"], "Completed");
}

/// Returns the Events about a pod in the order of their names, in the form of `core/v1`.
fn events(harness: &NodeHarness, pod: &str) -> Vec<Value> {
    let (events, _) = harness.cluster.list::<Event>(None);
    let all = events.iter().map(|event| event.to_json());
    all.filter(|it| it["involvedObject"]["name"] == pod)
        .collect()
}

/// Returns the type, reason, count and message of each Event about a pod.
pub(super) fn told(harness: &NodeHarness, pod: &str) -> Vec<String> {
    let of = |event: Value| {
        let text = |member: &str| event[member].as_str().unwrap_or("-").to_owned();
        let count = event["series"]["count"]
            .as_i64()
            .or(event["count"].as_i64());
        let count = count.map_or(String::new(), |count| format!(" x{count}"));
        format!(
            "{} {}{count}: {}",
            text("type"),
            text("reason"),
            text("message")
        )
    };
    events(harness, pod).into_iter().map(of).collect()
}

pub(super) fn with_events() -> NodeHarness {
    with_rules(ClientRules {
        unpullable_images: vec!["broken:*".into()],
        pod_events: true,
        ..ClientRules::default()
    })
}

#[test]
fn a_running_pod_has_events_of_scheduler_and_kubelet() {
    let mut harness = with_events();
    harness.create_with("p", json!({"nodeName": null}));
    harness.pass(5);
    let node = harness.pod("p").node_name.clone().unwrap();
    assert_eq!(
        told(&harness, "p"),
        [
            &*format!("Normal Scheduled: Successfully assigned n/p to {node}"),
            "Normal Pulling x1: Pulling image \"x:1\"",
            "Normal Pulled x1: Successfully pulled image \"x:1\" in 2s (2s including waiting). \
             Image size: 10485760 bytes.",
            "Normal Created x1: Container created",
            "Normal Started x1: Container started",
        ]
    );
    let events = events(&harness, "p");
    let meta = harness.pod("p").metadata.clone();
    let scheduled = &events[0];
    assert_eq!(scheduled["source"], json!({}));
    assert_eq!(scheduled["firstTimestamp"], Value::Null);
    assert_eq!(scheduled["eventTime"], "2027-01-15T08:00:00.000000Z");
    assert_eq!(scheduled["action"], "Binding");
    assert_eq!(scheduled["reportingComponent"], "default-scheduler");
    assert_eq!(scheduled["reportingInstance"], "default-scheduler-podstorm");
    assert_eq!(scheduled["involvedObject"]["uid"], meta.uid.to_string());
    let pulled = &events[2];
    assert_eq!(
        pulled["source"],
        json!({"component": "kubelet", "host": &*node})
    );
    assert_eq!(pulled["reportingComponent"], "kubelet");
    assert_eq!(pulled["reportingInstance"], &*node);
    assert_eq!(pulled["eventTime"], Value::Null);
    assert_eq!(pulled["firstTimestamp"], "2027-01-15T08:00:02Z");
    assert_eq!(pulled["lastTimestamp"], pulled["firstTimestamp"]);
    assert_eq!(pulled["involvedObject"]["fieldPath"], "spec.containers{c}");
    assert_eq!(pulled["involvedObject"]["kind"], "Pod");

    // The next pod on the node finds the image present.
    harness.create_with("q", json!({"nodeName": &*node}));
    harness.pass(5);
    let present = "Normal Pulled x1: Container image \"x:1\" already present on machine and can be accessed by the pod";
    assert_eq!(told(&harness, "q")[0], present);
    harness.delete("p");
    harness.pass(5);
    assert_eq!(
        told(&harness, "p")[5],
        "Normal Killing x1: Stopping container c"
    );
}

#[test]
fn a_crash_loop_and_a_missing_image_count_repeated_events() {
    let mut harness = with_events();
    let script = json!({"podstorm/script": "run=1s exit=1"});
    harness.create("crashes");
    harness.patch(
        Kind::POD,
        "crashes",
        json!({"metadata": {"annotations": script}}),
    );
    harness.create_with(
        "misses",
        json!({"containers": [{"name": "c", "image": "broken:1"}]}),
    );
    harness.pass(60);
    let uid = harness.pod("crashes").metadata.uid.clone();
    assert_eq!(
        told(&harness, "crashes")[1..],
        [
            "Normal Pulling x1: Pulling image \"x:1\"",
            "Normal Pulled x1: Successfully pulled image \"x:1\" in 2s (2s including waiting). \
             Image size: 10485760 bytes.",
            "Normal Created x4: Container created",
            "Normal Started x4: Container started",
            "Normal Pulled x3: Container image \"x:1\" already present on machine and can be accessed by the pod",
            &format!(
                "Warning BackOff x3: Back-off restarting failed container c in pod crashes_n({uid})"
            ),
        ]
    );
    assert_eq!(
        told(&harness, "misses")[1..],
        [
            "Normal Pulling x3: Pulling image \"broken:1\"",
            "Warning Failed x3: Failed to pull image \"broken:1\": failed to pull image \"broken:1\": not found",
            "Warning Failed x3: Error: ErrImagePull",
            "Normal BackOff x3: Back-off pulling image \"broken:1\"",
            "Warning Failed x3: Error: ImagePullBackOff",
        ]
    );
}

#[test]
fn an_unschedulable_pod_reports_the_reason_and_its_count() {
    let mut harness = with_events();
    let node = || json!({"spec": {"unschedulable": true}});
    harness.patch(Kind::NODE, "a", node());
    harness.pass(0);
    harness.create_with("p", json!({"nodeSelector": {"disk": "ssd"}}));
    harness.pass(1);
    let why = "0/2 nodes are available: 1 node(s) didn't match Pod's node affinity/selector, \
        1 node(s) were unschedulable. preemption: 0/2 nodes are available: \
        2 Preemption is not helpful for scheduling.";
    let condition = format!("False Unschedulable {why}");
    assert_eq!(harness.condition("p", "PodScheduled"), condition);
    let once = format!("Warning FailedScheduling: {why}");
    assert_eq!(told(&harness, "p"), [&*once]);
    // The retried pod already has the condition; the second Event starts a series.
    harness.pass(300);
    assert_eq!(told(&harness, "p"), [&*once, &once]);
    harness.pass(300);
    let twice = format!("Warning FailedScheduling x2: {why}");
    assert_eq!(told(&harness, "p"), [&*once, &twice]);
    let series = events(&harness, "p")[1]["series"].clone();
    assert_eq!(series["lastObservedTime"], "2027-01-15T08:10:00.000000Z");
    // The count is written every half hour.
    harness.pass(1200);
    assert_eq!(told(&harness, "p"), [&*once, &twice]);
    harness.pass(720);
    assert_eq!(
        told(&harness, "p")[1],
        format!("Warning FailedScheduling x8: {why}")
    );
    harness.patch(
        Kind::NODE,
        "b",
        json!({"metadata": {"labels": {"disk": "ssd"}}}),
    );
    harness.pass(0);
    assert_eq!(
        told(&harness, "p")[2],
        "Normal Scheduled: Successfully assigned n/p to b"
    );
    harness.pass(3600);
    assert!(harness.is_quiet());
}

#[test]
fn a_pod_bound_or_deleted_by_a_client_is_not_retried() {
    let mut harness = with_events();
    let picky = json!({"nodeSelector": {"disk": "ssd"}});
    harness.create_with("bound", picky.clone());
    harness.create_with("deleted", picky);
    let finalizers = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    harness.patch(Kind::POD, "deleted", finalizers);
    harness.pass(0);
    let cluster = &harness.cluster;
    cluster
        .bind("n", "bound", &"a".into(), harness.now)
        .unwrap();
    harness.delete("deleted");
    harness.pass(600);
    assert_eq!(harness.states(), ["bound a R", "deleted - Px"]);
    let told = told(&harness, "deleted");
    assert_eq!(
        told[1..],
        ["Warning FailedScheduling: skip schedule deleting pod: n/deleted"]
    );
    harness.pass(3600);
    assert!(harness.is_quiet());
    // The pod takes one of the four places of its node.
    for number in 0..8 {
        harness.create(&format!("p{number}"));
    }
    harness.pass(5);
    assert_eq!((harness.count("R"), harness.count("P")), (8, 1));
}

#[test]
fn a_pod_of_higher_priority_preempts_another() {
    let mut harness = with_events();
    for node in ["a", "b"] {
        for number in 0..4 {
            harness.create_with(&format!("{node}{number}"), json!({"priority": 1}));
        }
    }
    harness.pass(5);
    assert_eq!(harness.count("R"), 8);
    harness.create_with("high", json!({"priority": 10}));
    harness.create_with("never", json!({"priority": 9, "preemptionPolicy": "Never"}));
    harness.pass(0);
    let status = |pod: &str| harness.pod(pod).to_json()["status"].clone();
    assert_eq!(status("high")["nominatedNodeName"], "a");
    let full = "0/2 nodes are available: 2 Too many pods.";
    let failed = format!("Warning FailedScheduling: {full}");
    assert_eq!(told(&harness, "high"), [failed.as_str()]);
    let why = "not eligible due to preemptionPolicy=Never.";
    assert_eq!(
        told(&harness, "never"),
        [format!("{failed} preemption: {why}")]
    );
    let all = harness.cluster.list::<Pod>(None).0;
    let victims = all.iter().filter(|pod| pod.metadata.is_deleting());
    let victims: Vec<&Arc<Pod>> = victims.collect();
    let [victim] = victims[..] else {
        panic!("one victim: {victims:?}");
    };
    let name = victim.metadata.name.clone();
    let conditions = status(&name)["conditions"].clone();
    let mut conditions = conditions.as_array().unwrap().iter();
    let condition = conditions.find(|it| it["type"] == "DisruptionTarget");
    let condition = condition.unwrap();
    for (member, text) in [
        ("status", "True"),
        ("reason", "PreemptionByScheduler"),
        (
            "message",
            "default-scheduler: preempting to accommodate a higher priority pod",
        ),
    ] {
        assert_eq!(condition[member], text, "{condition}");
    }
    let uid = harness.pod("high").metadata.uid.clone();
    let event = format!("Normal Preempted: Preempted by pod {uid} on node a");
    assert!(
        told(&harness, &name).contains(&event),
        "{:?}",
        told(&harness, &name)
    );
    let event = events(&harness, &name);
    let event = event.iter().find(|event| event["reason"] == "Preempted");
    assert_eq!(event.unwrap()["related"]["name"], "high");
    // The pod gets the room of its victim.
    harness.pass(5);
    let pod = harness.pod("high").to_json();
    assert_eq!(pod["spec"]["nodeName"], "a");
    assert_eq!(pod["status"].get("nominatedNodeName"), None);
    assert_eq!(harness.pod("never").node_name, None);
}
