//! Tests of the choice of victims for a pod of higher priority.

use std::sync::Arc;

use podstorm_objects::{Kind, Pod};
use serde_json::{Value, json};

use super::placement_tests::{Placing, node};

/// Returns a pod with the given priority that requests this number of cores.
fn pod(priority: i32, cores: u32) -> Value {
    let requests = json!({"requests": {"cpu": cores}});
    json!({"priority": priority,
        "containers": [{"name": "c", "image": "i", "resources": requests}]})
}

fn started(minute: u32) -> Value {
    let mut pod = pod(1, 1);
    pod["startTime"] = json!(format!("2027-01-15T08:{minute:02}:00Z"));
    pod
}

fn labelled(priority: i32, app: &str) -> Value {
    let mut pod = pod(priority, 1);
    pod["labels"] = json!({"app": app});
    pod
}

/// Returns a cluster with `count` nodes, `a`, `b` and so on, that have this number of cores each.
fn nodes(count: usize, cores: u32) -> Placing {
    let all = ["a", "b", "c"].into_iter().take(count);
    let all = all.map(|name| node(name, json!({"allocatable": {"cpu": cores.to_string()}})));
    Placing::on(&all.collect::<Vec<_>>())
}

/// Puts the pods `there` on nodes, named `p1` and so on. Returns the node and the victims that are
/// selected for another pod, or the message if there are none.
fn preempts(mut placing: Placing, there: &[(&str, Value)], other: &Value) -> String {
    for (node, pod) in there {
        placing.put(node, pod);
    }
    let pod = placing.pod(other);
    let taken = placing.placement.take(&pod, &mut placing.capacity);
    assert!(taken.is_err(), "a node takes it: {taken:?}");
    let refused = placing.placement.refuse(&pod, &placing.capacity);
    match &refused.nominated {
        Some(node) => {
            assert!(!refused.why.contains("preemption"), "{}", refused.why);
            let victims = refused.victims.iter();
            let names: Vec<&str> = victims.map(|it| it.metadata.name.as_str()).collect();
            format!("{node}: {}", names.join(" "))
        }
        None => {
            let (_, of_preemption) = refused.why.split_once(" preemption: ").unwrap();
            of_preemption.to_owned()
        }
    }
}

#[test]
fn the_node_with_the_least_important_victims_is_chosen() {
    let high = pod(10, 1);
    for (there, other, expected) in [
        // The lowest maximum priority wins.
        (vec![("a", pod(5, 1)), ("b", pod(3, 1))], &high, "b: p2"),
        // The smallest sum of priorities wins.
        (
            vec![
                ("a", pod(3, 1)),
                ("a", pod(2, 1)),
                ("b", pod(3, 1)),
                ("b", pod(1, 1)),
            ],
            &pod(10, 2),
            "b: p3 p4",
        ),
        // Fewer pods win, even with a larger sum of priorities.
        (
            vec![("a", pod(3, 1)), ("a", pod(-3, 1)), ("b", pod(3, 2))],
            &pod(10, 2),
            "b: p3",
        ),
        // The latest start wins.
        (vec![("a", started(1)), ("b", started(2))], &high, "b: p2"),
        (vec![("a", started(2)), ("b", started(1))], &high, "a: p1"),
        // The first node wins.
        (vec![("a", pod(1, 1)), ("b", pod(1, 1))], &high, "a: p1"),
    ] {
        let cores = if there.len() > 2 { 2 } else { 1 };
        let found = preempts(nodes(2, cores), &there, other);
        assert_eq!(found, expected, "{there:?}");
    }
}

#[test]
fn the_fewest_and_least_important_pods_are_preempted() {
    let there = [
        ("a", pod(2, 1)),
        ("a", pod(3, 1)),
        ("a", pod(1, 1)),
        ("a", pod(10, 1)),
    ];
    assert_eq!(preempts(nodes(1, 4), &there, &pod(10, 2)), "a: p1 p3");
    let there = [("a", started(3)), ("a", started(9)), ("a", started(5))];
    assert_eq!(preempts(nodes(1, 3), &there, &pod(10, 1)), "a: p2");
    // A node without room for another pod behaves the same.
    let one = node("a", json!({"allocatable": {"pods": "1"}}));
    let there = [("a", pod(0, 0))];
    assert_eq!(preempts(Placing::on(&[one]), &there, &pod(1, 0)), "a: p1");
}

#[test]
fn pods_protected_by_budgets_are_preempted_last() {
    let with_budget = |allowed: u32, cores: u32| {
        let placing = nodes(2, cores);
        let api = placing.placement.cluster.api(Kind::POD_DISRUPTION_BUDGET);
        let budget = json!({"metadata": {"name": "b", "namespace": "n"},
            "spec": {"selector": {"matchLabels": {"app": "kept"}}},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 0, "desiredHealthy": 0,
                "expectedPods": 0}});
        let now = podstorm_objects::Now::default();
        api.import(api.read(budget).unwrap().unwrap(), now).unwrap();
        placing
    };
    let there = [("a", labelled(1, "kept")), ("b", labelled(5, "free"))];
    let high = pod(10, 1);
    assert_eq!(preempts(with_budget(0, 1), &there, &high), "b: p2");
    assert_eq!(preempts(with_budget(1, 1), &there, &high), "a: p1");
    // On one node, the least important pod stays if its budget protects it.
    let there = [
        ("a", labelled(1, "kept")),
        ("a", labelled(5, "free")),
        ("b", pod(10, 2)),
    ];
    assert_eq!(preempts(with_budget(0, 2), &there, &high), "a: p2");
    assert_eq!(preempts(with_budget(1, 2), &there, &high), "a: p1");
}

#[test]
fn the_reason_for_no_preemption_is_reported() {
    let none = |nodes: u32, what: &str| format!("0/{nodes} nodes are available: {what}.");
    let full = [("a", pod(10, 1))];
    let found = preempts(nodes(1, 1), &full, &pod(10, 1));
    assert_eq!(
        found,
        none(1, "1 No preemption victims found for incoming pod")
    );
    let found = preempts(nodes(1, 1), &full, &pod(20, 2));
    assert_eq!(found, none(1, "1 Preemption is not helpful for scheduling"));
    // Even without the possible victims, the room is too small.
    let there = [("a", pod(20, 2)), ("a", pod(1, 1)), ("b", pod(10, 3))];
    let found = preempts(nodes(2, 3), &there, &pod(10, 2));
    let what = "1 Insufficient cpu, 1 No preemption victims found for incoming pod";
    assert_eq!(found, none(2, what));
    let mut never = pod(20, 1);
    never["preemptionPolicy"] = json!("Never");
    let found = preempts(nodes(1, 1), &full, &never);
    assert_eq!(found, "not eligible due to preemptionPolicy=Never.");
}

#[test]
fn nominated_room_is_reserved_against_lower_priorities() {
    let mut placing = nodes(1, 2);
    let there = placing.put("a", &pod(1, 2));
    let waits = placing.pod(&pod(10, 1));
    let take = |placing: &mut Placing, pod: &Arc<Pod>| {
        let held = placing.placement.let_go(pod, &mut placing.capacity);
        let taken = placing.placement.take(pod, &mut placing.capacity);
        let refused = match &taken {
            Ok(_) => {
                placing.placement.nominations.pods.remove(&pod.metadata.uid);
                Default::default()
            }
            Err(_) => placing.placement.refuse(pod, &placing.capacity),
        };
        placing.placement.hold(pod, held, &mut placing.capacity);
        (taken.is_ok(), refused)
    };
    let (_, refused) = take(&mut placing, &waits);
    assert_eq!(refused.nominated.as_deref(), Some("a"));
    // The pod requests no more while its victims are ending.
    let (_, refused) = take(&mut placing, &waits);
    let why = "not eligible due to a terminating pod on the nominated node.";
    assert!(refused.why.ends_with(why), "{}", refused.why);
    placing.placement.remove(&there.metadata.uid);
    placing.capacity.remove_pod("a");
    let [small, equal, high] = [pod(1, 1), pod(10, 2), pod(11, 1)].map(|it| placing.pod(&it));
    assert!(take(&mut placing, &small).0, "the other core is free");
    placing.placement.remove(&small.metadata.uid);
    placing.capacity.remove_pod("a");
    assert!(!take(&mut placing, &equal).0);
    assert!(take(&mut placing, &high).0);
    assert!(take(&mut placing, &waits).0);
    assert!(placing.placement.nominations.is_empty());
}
