//! Tests of the kubelets of a served cluster: the statuses that they overwrite, and the pods that
//! they reject.

use super::clients::{for_clients, told, with_events};
use super::*;

fn version(harness: &NodeHarness, pod: &str) -> Option<u64> {
    harness.pod(pod).metadata.resource_version.number()
}

#[test]
fn foreign_writes_to_a_pods_status_last_ten_seconds() {
    let mut harness = for_clients();
    harness.create_with("p", json!({"nodeName": "a"}));
    harness.pass(60);
    assert!(harness.is_quiet());
    let before = harness.pod("p").status.clone();
    let mut status = harness.pod("p").to_json()["status"].clone();
    status["containerStatuses"][0]["ready"] = json!(false);
    let conditions = status["conditions"].as_array_mut().unwrap();
    conditions.retain(|it| it["type"] != "ContainersReady");
    for condition in conditions.iter_mut().filter(|it| it["type"] == "Ready") {
        condition["status"] = json!("False");
        condition["message"] = json!("says a client");
    }
    conditions.insert(0, json!({"type": "example.com/seen", "status": "True"}));
    let status = json!({"conditions": conditions, "containerStatuses": status["containerStatuses"],
        "podIP": "203.0.113.9", "podIPs": [{"ip": "203.0.113.9"}], "hostIP": "203.0.113.1"});
    harness.patch(Kind::POD, "p", json!({"status": status}));
    harness.pass(9);
    assert_eq!(harness.states(), ["p a n"]);
    assert_eq!(harness.pod("p").to_json()["status"]["podIP"], "203.0.113.9");
    harness.pass(1);
    let addresses = |status: &podstorm_objects::PodStatus| status.started.clone().unwrap();
    assert_eq!(addresses(&harness.pod("p").status), addresses(&before));
    assert_eq!(harness.states(), ["p a R"]);
    assert_eq!(harness.condition("p", "Ready"), "True null null");
    let after = harness.pod("p").status.clone();
    assert_eq!(after.container_statuses, before.container_statuses);
    let types = |status: &podstorm_objects::PodStatus| status.conditions.len();
    assert_eq!(
        types(&after),
        types(&before) + 1,
        "conditions of other owners stay"
    );

    // Two changes cause one comparison, and a correct status causes no write.
    let label = |value: &str| json!({"metadata": {"labels": {"app": value}}});
    harness.patch(Kind::POD, "p", label("one"));
    harness.pass(5);
    harness.patch(Kind::POD, "p", label("other"));
    let labelled = version(&harness, "p");
    assert!(!harness.is_quiet());
    harness.pass(6);
    assert_eq!(version(&harness, "p"), labelled);
    assert!(harness.is_quiet());
}

#[test]
fn a_pod_that_arrived_unready_stays_unready() {
    let mut harness = for_clients();
    harness.create_with("model", json!({"nodeName": "a"}));
    harness.pass(5);
    let mut came = harness.pod("model").to_json();
    let mut others = for_clients();
    for (name, is_ready) in [("down", false), ("up", true)] {
        came["metadata"] = json!({"name": name, "namespace": "n", "uid": name});
        came["status"]["containerStatuses"][0]["ready"] = is_ready.into();
        came["status"]["conditions"][2]["status"] = if is_ready { "True" } else { "False" }.into();
        let pod = Pod::from_json(came.clone()).unwrap();
        others.cluster.import(pod, others.now).unwrap();
    }
    others.pass(60);
    assert_eq!(others.states(), ["down a n", "up a R"]);
    for name in ["down", "up"] {
        let label = json!({"metadata": {"labels": {"app": "web"}}});
        others.patch(Kind::POD, name, label);
    }
    others.pass(60);
    assert_eq!(others.states(), ["down a n", "up a R"]);
    assert!(others.is_quiet());
}

#[test]
fn a_node_rejects_preassigned_pods_that_do_not_fit() {
    let mut harness = with_events();
    let allocatable = json!({"pods": "4", "cpu": "4", "memory": "1Gi", "example.com/disk": "1"});
    harness.patch(
        Kind::NODE,
        "a",
        json!({"status": {"allocatable": allocatable}}),
    );
    let asks = |requests: Value| {
        json!([{"name": "c", "image": "x:1",
            "resources": {"requests": requests, "limits": requests},
            "ports": [{"containerPort": 80, "hostPort": 80}]}])
    };
    let first = asks(json!({"cpu": "3800m", "example.com/disk": "1"}));
    harness.create_with("first", json!({"nodeName": "a", "containers": first}));
    harness.pass(5);
    assert_eq!(harness.states(), ["first a R"]);
    let cpu = |cpu: &str| asks(json!({"cpu": cpu, "memory": "2Gi"}));
    let lack = "Node didn't have enough resource: ";
    let selector = json!({"disk": "ssd"});
    let taint = |effect: &str| json!([{"key": "k", "effect": effect}]);
    harness.patch(
        Kind::NODE,
        "a",
        json!({"spec": {"taints": taint("NoSchedule")}}),
    );
    for (name, spec, reason, message) in [
        (
            "cpu",
            json!({"containers": cpu("500m"), "nodeSelector": selector}),
            "OutOfcpu",
            format!("{lack}cpu, requested: 500, used: 3800, capacity: 4000"),
        ),
        (
            "memory",
            json!({"containers": cpu("100m")}),
            "OutOfmemory",
            format!("{lack}memory, requested: 2147483648, used: 0, capacity: 1073741824"),
        ),
        (
            "disk",
            json!({"containers": asks(json!({"example.com/disk": "1"}))}),
            "OutOfexample.com/disk",
            format!("{lack}example.com/disk, requested: 1, used: 1, capacity: 1"),
        ),
        (
            "picky",
            json!({"nodeSelector": selector, "containers": asks(json!({}))}),
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
                .to_owned(),
        ),
        (
            "ports",
            json!({"containers": asks(json!({"example.com/unknown": "1"}))}),
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
                .to_owned(),
        ),
    ] {
        let mut spec = spec;
        spec["nodeName"] = json!("a");
        harness.create_with(name, spec);
        harness.pass(5);
        let status = harness.pod(name).to_json()["status"].clone();
        assert_eq!(status["phase"], "Failed", "{name}");
        assert_eq!(status["reason"], reason);
        assert_eq!(status["message"], format!("Pod was rejected: {message}"));
        assert_eq!(status["conditions"], Value::Null);
        assert_eq!(status["containerStatuses"], Value::Null);
        let events = match name {
            "disk" => vec![],
            _ => vec![format!("Warning {reason} x1: {message}")],
        };
        assert_eq!(told(&harness, name), events);
    }
    // A `NoSchedule` taint does not count; a `NoExecute` taint does.
    harness.create_with("plain", json!({"nodeName": "a"}));
    harness.create_with("other", json!({"nodeName": "a"}));
    harness.pass(5);
    let fits = ["first a R", "other a R", "plain a R"];
    let running = |harness: &NodeHarness| -> Vec<String> {
        let all = harness.states().into_iter();
        all.filter(|state| state.ends_with('R')).collect()
    };
    assert_eq!(running(&harness), fits);
    let tolerations = json!([{"operator": "Exists"}]);
    harness.create_with("one", json!({"nodeName": "a", "tolerations": tolerations}));
    harness.create_with("more", json!({"nodeName": "a", "tolerations": tolerations}));
    harness.pass(5);
    let more = harness.pod("more").to_json()["status"].clone();
    assert_eq!(more["reason"], "OutOfpods");
    let message = "pods, requested: 1, used: 4, capacity: 4";
    assert_eq!(
        more["message"],
        format!("Pod was rejected: {lack}{message}")
    );
    harness.patch(
        Kind::NODE,
        "b",
        json!({"spec": {"taints": taint("NoExecute")}}),
    );
    harness.pass(5);
    harness.create_with("driven", json!({"nodeName": "b"}));
    harness.pass(5);
    let driven = harness.pod("driven").to_json()["status"].clone();
    assert_eq!(driven["reason"], "TaintToleration");
    let message =
        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate";
    assert_eq!(driven["message"], format!("Pod was rejected: {message}"));
    // A running pod was accepted, regardless of its status.
    let runs = json!({"metadata": {"name": "old", "namespace": "n", "uid": "old"},
        "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "x:1"}]},
        "status": {"phase": "Running"}});
    let runs = Pod::from_json(runs).unwrap();
    harness.cluster.import(runs, harness.now).unwrap();
    let label = json!({"metadata": {"labels": {"app": "web"}}});
    harness.patch(Kind::POD, "old", label);
    harness.pass(15);
    assert!(harness.states().contains(&"old a R".to_owned()));
    // A node that does not exist rejects no pods.
    harness.create_with("lonely", json!({"nodeName": "z"}));
    harness.pass(5);
    assert!(harness.states().contains(&"lonely z R".to_owned()));
    assert!(harness.is_quiet());
}

#[test]
fn pods_are_preempted_for_a_critical_pod_that_lacks_room() {
    let mut harness = with_events();
    let allocatable = json!({"pods": "10", "cpu": "4", "memory": "1Gi"});
    harness.patch(
        Kind::NODE,
        "a",
        json!({"status": {"allocatable": allocatable}}),
    );
    let pod = |cpu: &str, more: Value| {
        let mut spec = json!({"nodeName": "a", "containers": [{"name": "c", "image": "x:1"}]});
        if !cpu.is_empty() {
            spec["containers"][0]["resources"] = json!({"requests": {"cpu": cpu}});
        }
        for (member, value) in more.as_object().unwrap() {
            spec[member] = value.clone();
        }
        spec
    };
    harness.create_with("best-effort", pod("", json!({})));
    harness.create_with("small", pod("500m", json!({})));
    harness.create_with("big", pod("2", json!({})));
    let mut guaranteed = pod("1500m", json!({}));
    guaranteed["containers"][0]["resources"]["requests"]["memory"] = "1Mi".into();
    guaranteed["containers"][0]["resources"]["limits"] = json!({"cpu": "1500m", "memory": "1Mi"});
    harness.create_with("guaranteed", guaranteed);
    harness.pass(5);
    assert_eq!(harness.states().len(), 4);
    let critical = |more: Value| {
        let mut spec = pod("1", more);
        spec["priority"] = 2_000_000_000.into();
        spec
    };
    harness.create_with("critical", critical(json!({})));
    // The victims must end first.
    assert!(!harness.states().contains(&"critical a R".to_owned()));
    harness.pass(60);
    let all = [
        "best-effort a R",
        "big a F",
        "critical a R",
        "guaranteed a R",
        "small a R",
    ];
    assert_eq!(harness.states(), all, "one pod that frees enough");
    let big = harness.pod("big").to_json()["status"].clone();
    let message = "Preempted in order to admit critical pod";
    assert_eq!([&big["reason"], &big["message"]], ["Preempting", message]);
    let disrupted =
        "True TerminationByKubelet Pod was preempted by Kubelet to accommodate a critical pod.";
    assert_eq!(harness.condition("big", "DisruptionTarget"), disrupted);
    let events = told(&harness, "big");
    assert!(
        events.contains(&format!("Warning Preempting x1: {message}")),
        "{events:?}"
    );

    // A shortage that no preemption can resolve, or a reason other than room, causes a rejection.
    let mut large = critical(json!({}));
    large["containers"][0]["resources"]["requests"]["cpu"] = "5".into();
    harness.create_with("large", large);
    harness.create_with("picky", critical(json!({"nodeSelector": {"disk": "ssd"}})));
    harness.pass(5);
    let why = |name: &str| harness.pod(name).to_json()["status"]["message"].clone();
    assert_eq!(
        why("large"),
        "Pod was rejected: Unexpected error while attempting to recover from admission failure: preemption: error \
         finding a set of pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 2000), ]"
    );
    assert_eq!(
        why("picky"),
        "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    );
    assert!(harness.is_quiet());
}
