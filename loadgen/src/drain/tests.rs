//! Tests of drains of one node, for each kind of pod.

use podstorm::policy::Behaviour;
use podstorm_objects::{Node, ReplicaSet, Resource as _, Time};
use serde_json::{Value, json};

use super::*;
use crate::input::InputCounts;
use crate::workloads::explain::selection::Preferred;

const NOW: &str = "2026-03-01T12:00:00Z";

fn node(name: &str) -> InputObject {
    let node = json!({"metadata": {"name": name}});
    InputObject::Node(Box::new(Node::from_json(node).expect("a node")))
}

fn pod(name: &str, on: &str, changes: Value) -> InputObject {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web",
                "controller": true}]},
        "spec": {"nodeName": on, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": "2026-03-01T11:00:00Z"}]},
    });
    json_patch(&mut pod, changes);
    InputObject::Pod(Box::new(Pod::from_json(pod).expect("a pod")))
}

/// Merges `changes` into `value`: replaces members at any depth.
fn json_patch(value: &mut Value, changes: Value) {
    match (value, changes) {
        (Value::Object(members), Value::Object(changes)) => {
            for (name, change) in changes {
                json_patch(members.entry(name).or_insert(Value::Null), change);
            }
        }
        (value, change) => *value = change,
    }
}

fn object(kind: Kind, value: Value) -> InputObject {
    InputObject::Dynamic(Box::new(
        DynamicObject::from_json(kind, value).expect("an object"),
    ))
}

fn budget(name: &str, spec: Value) -> InputObject {
    let mut spec = spec;
    json_patch(
        &mut spec,
        json!({"selector": {"matchLabels": {"app": "web"}}}),
    );
    let metadata = json!({"name": name, "namespace": "shop"});
    object(
        Kind::POD_DISRUPTION_BUDGET,
        json!({"metadata": metadata, "spec": spec}),
    )
}

/// Returns the ReplicaSet `web`, which owns the pods.
fn web(replicas: i32) -> InputObject {
    let labels = json!({"app": "web"});
    let set = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "web"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    InputObject::Owner(Box::new(ReplicaSet::from_json(set).expect("a ReplicaSet")))
}

fn asked(objects: Vec<InputObject>) -> Asked {
    let now: Time = NOW.parse().expect("a time");
    Asked {
        objects,
        counts: InputCounts::default(),
        replicas: None,
        image: None,
        preferred: Preferred::default(),
        gates: crate::gates::defaults(),
        burst_replicas: 500,
        policy: Behaviour::Upstream.policy(),
        now: Now {
            mono_ns: 0,
            wall_ns: now.unix_nanos().expect("the time is valid"),
        },
    }
}

fn drained(objects: Vec<InputObject>) -> Answer {
    let Asked { objects, now, .. } = asked(objects);
    let (harness, refused) = copied(objects, now);
    assert_eq!(refused, [""; 0]);
    drain(harness.cluster(), "n1", harness.now())
}

/// Formats the verdict on each pod: `goes a, waits b`.
fn fates(answer: &Answer) -> String {
    let fates = answer
        .pods
        .iter()
        .map(|it| format!("{} {}", table_word(it), it.name));
    fates.collect::<Vec<_>>().join(", ")
}

fn table_word(fate: &Fate) -> String {
    let word = serde_json::to_value(fate.fate).expect("a word");
    word.as_str().unwrap_or_default().to_owned()
}

#[test]
fn pods_go_until_the_budget_is_used_up() {
    let mut objects = vec![node("n1"), node("n2"), web(4)];
    objects.push(budget("b", json!({"minAvailable": 3})));
    objects.extend(["a", "b", "c"].map(|name| pod(name, "n1", json!({}))));
    objects.push(pod("d", "n2", json!({})));
    let answer = drained(objects);
    assert_eq!(fates(&answer), "goes a, waits b, waits c");
    assert!(answer.pods[1].why.contains("until a replacement is ready"));
    let [used] = &answer.budgets[..] else {
        panic!("{:?}", answer.budgets);
    };
    assert_eq!(
        (used.expected, used.healthy, used.desired, used.allowed),
        (4, 4, 3, 1)
    );
    assert_eq!((used.goes, used.waits), (1, 2));
}

#[test]
fn a_budget_that_needs_every_pod_lets_none_go() {
    let mut objects = vec![
        node("n1"),
        web(1),
        budget("all", json!({"maxUnavailable": 0})),
    ];
    objects.push(pod("a", "n1", json!({})));
    let answer = drained(objects);
    assert_eq!(fates(&answer), "stuck a");
    assert_eq!(
        answer.pods[0].why,
        "the budget all never lets one go: it wants 1 of 1 pods ready"
    );
}

#[test]
fn two_budgets_on_one_pod_refuse_it_permanently() {
    let mut objects = vec![node("n1"), web(3), budget("x", json!({"minAvailable": 0}))];
    objects.push(budget("y", json!({"minAvailable": 0})));
    objects.push(pod("a", "n1", json!({})));
    let answer = drained(objects);
    assert_eq!(fates(&answer), "stuck a");
    assert!(
        answer.pods[0]
            .why
            .contains("more than one PodDisruptionBudget"),
        "{:?}",
        answer.pods
    );
}

#[test]
fn pods_that_stay_are_named_with_the_flags_of_kubectl() {
    let daemon = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "log", "uid": "log",
        "controller": true}]);
    let objects = vec![
        node("n1"),
        pod(
            "daemon",
            "n1",
            json!({"metadata": {"labels": {"app": "log"}, "ownerReferences": daemon}}),
        ),
        pod(
            "static",
            "n1",
            json!({"metadata": {"ownerReferences": [],
            "annotations": {"kubernetes.io/config.mirror": "x"}}}),
        ),
        pod(
            "alone",
            "n1",
            json!({"metadata": {"ownerReferences": []},
            "spec": {"volumes": [{"name": "v", "emptyDir": {}}]}}),
        ),
        pod("done", "n1", json!({"status": {"phase": "Succeeded"}})),
    ];
    let answer = drained(objects);
    assert_eq!(
        fates(&answer),
        "goes alone, goes done, stays daemon, stays static"
    );
    let flags = ["--ignore-daemonsets", "--force", "--delete-emptydir-data"];
    for flag in flags {
        assert!(
            answer.notes.iter().any(|note| note.contains(flag)),
            "{flag}"
        );
    }
}

#[test]
fn a_node_must_be_among_the_objects() {
    let problem = explain("n2", asked(vec![node("n1")])).err().expect("none");
    assert!(problem.to_string().contains("no Node \"n2\""), "{problem}");
    let problem = explain("n1", asked(vec![web(1)])).err().expect("none");
    assert!(
        problem.to_string().contains("the input has no Node"),
        "{problem}"
    );
}
