//! Tests of pods on nodes that fail.

use std::sync::Arc;

use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Cluster, ClusterOptions, DeleteOptions};
use podstorm_objects::{Event, Kind, Namespace, Node, Now, Object, Pod, PodPhase, Resource};
use serde_json::{Value, json};

use super::*;
use crate::executor::{Next, Task, Waker};
use crate::options::LatencySettings;

mod clients;
mod kubelets;
mod runs;

const SECOND: i64 = 1_000_000_000;

/// A cluster with scheduler and kubelets, and a clock that jumps.
struct NodeHarness {
    cluster: Arc<Cluster>,
    control: Arc<NodeControl>,
    tasks: Vec<Box<dyn Task>>,
    now: Now,
}

impl NodeHarness {
    /// Returns a cluster with two nodes, `a` and `b`, that have room for four pods each. Pods take
    /// two seconds to start and one to end.
    fn new() -> NodeHarness {
        NodeHarness::with_kubelets(1)
    }

    fn with_kubelets(shards: usize) -> NodeHarness {
        NodeHarness::controlled(shards, NodeControl::default())
    }

    fn controlled(shards: usize, control: NodeControl) -> NodeHarness {
        let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
        let control = Arc::new(control);
        let latency = LatencySettings {
            pod_startup: Latency::Constant(2 * SECOND),
            pod_termination: Latency::Constant(SECOND),
            api: Latency::ZERO,
            watch: Latency::ZERO,
            scheduling: Latency::ZERO,
        };
        let waker: Waker = Arc::new(|| {});
        let scheduler = Scheduler::new(cluster.clone(), Latency::ZERO, 1, waker.clone());
        let scheduler = scheduler.controlled_by(&control);
        let mut tasks: Vec<Box<dyn Task>> = vec![Box::new(scheduler)];
        for shard in 0..shards {
            let (cluster, waker) = (cluster.clone(), waker.clone());
            let kubelets = Kubelets::new(cluster, &latency, 1, shard, shards, waker.clone());
            tasks.push(Box::new(kubelets.controlled_by(&control, waker)));
        }
        let now = Now {
            mono_ns: 0,
            wall_ns: 1_800_000_000 * SECOND,
        };
        let mut namespace = Namespace::default();
        namespace.metadata.name = "n".into();
        cluster.create(namespace, now).unwrap();
        for name in ["a", "b"] {
            let node =
                json!({"metadata": {"name": name}, "status": {"allocatable": {"pods": "4"}}});
            cluster.import(Node::from_json(node).unwrap(), now).unwrap();
        }
        NodeHarness {
            cluster,
            control,
            tasks,
            now,
        }
    }

    /// Advances the clock by `seconds`.
    fn pass(&mut self, seconds: i64) {
        let end_ns = self.now.mono_ns + seconds * SECOND;
        loop {
            let before = self.cluster.resource_version();
            let next = self
                .tasks
                .iter_mut()
                .fold(Next::Idle, |next, task| next.or(task.run(self.now)));
            if self.cluster.resource_version() != before || next == Next::Again {
                continue;
            }
            let to_ns = match next {
                Next::At(at_ns) if at_ns <= end_ns => at_ns,
                _ => break,
            };
            self.now = self.now.plus_ns((to_ns - self.now.mono_ns).max(0));
        }
        self.now = self.now.plus_ns(end_ns - self.now.mono_ns);
    }

    /// Reports whether no task is queued and none will run by itself.
    fn is_quiet(&mut self) -> bool {
        let tasks = self.tasks.iter_mut();
        tasks.fold(Next::Idle, |next, task| next.or(task.run(self.now))) == Next::Idle
    }

    fn create(&self, name: &str) {
        self.create_with(name, json!({}));
    }

    /// Creates a pod with additional or replaced members of its spec. A member `labels` becomes the
    /// pod's labels.
    fn create_with(&self, name: &str, spec: Value) {
        let mut value = json!({"metadata": {"name": name, "namespace": "n"},
            "spec": {"containers": [{"name": "c", "image": "x:1"}]}});
        let mut members = spec.as_object().unwrap().clone();
        if let Some(labels) = members.remove("labels") {
            value["metadata"]["labels"] = labels;
        }
        value["spec"].as_object_mut().unwrap().extend(members);
        let pod = Pod::from_json(value).unwrap();
        self.cluster.create(pod, self.now).unwrap();
    }

    fn pod(&self, name: &str) -> Arc<Pod> {
        self.cluster.get("n", name).unwrap()
    }

    fn node(&self, name: &str) -> Value {
        self.cluster.get::<Node>("", name).unwrap().to_json()
    }

    /// Returns the name and node of every pod, with a letter for its state: `P`ending, `R`unning,
    /// running but `n`ot ready, `F`ailed, `S`ucceeded; followed by `x` if it is being deleted.
    fn states(&self) -> Vec<String> {
        let (pods, _) = self.cluster.list::<Pod>(None);
        let state = |pod: &Arc<Pod>| {
            let letter = match pod.status.phase {
                PodPhase::Running if pod.is_ready() => 'R',
                PodPhase::Running => 'n',
                PodPhase::Failed => 'F',
                PodPhase::Succeeded => 'S',
                _ => 'P',
            };
            let mark = if pod.metadata.is_deleting() { "x" } else { "" };
            let node = pod.node_name.as_deref().unwrap_or("-");
            format!("{} {node} {letter}{mark}", pod.metadata.name)
        };
        pods.iter().map(state).collect()
    }

    /// Returns the number of pods in the given state, regardless of their nodes.
    fn count(&self, state: &str) -> usize {
        let ends = |one: &String| one.ends_with(&format!(" {state}"));
        self.states().into_iter().filter(ends).count()
    }

    fn delete(&self, name: &str) {
        let options = DeleteOptions::default();
        self.cluster
            .delete::<Pod>("n", name, &options, self.now)
            .unwrap();
    }

    /// Fills both nodes.
    fn fill(&mut self) {
        for name in ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"] {
            self.create(name);
        }
        self.pass(5);
        assert_eq!(self.count("R"), 8);
    }

    fn on(&self, node: &str) -> Vec<String> {
        let (pods, _) = self.cluster.list::<Pod>(None);
        pods.iter()
            .filter(|pod| pod.node_name.as_deref() == Some(node))
            .map(|pod| pod.metadata.name.to_string())
            .collect()
    }
}

#[test]
fn without_faults_a_controlled_cluster_is_like_any_other() {
    let mut harness = NodeHarness::new();
    harness.create("p");
    harness.pass(1);
    assert_eq!(harness.count("P"), 1);
    harness.pass(5);
    assert_eq!(harness.count("R"), 1);
    harness.delete("p");
    harness.pass(2);
    assert!(harness.states().is_empty());
    assert!(harness.is_quiet());
}

#[test]
fn pods_of_a_lost_node_are_evicted_and_end_when_it_is_back() {
    let mut harness = NodeHarness::new();
    harness.fill();
    let lost = harness.on("a");
    assert_eq!(lost.len(), 4);
    harness.control.lose("a");
    harness.pass(49);
    assert_eq!(harness.count("R"), 8, "not detected yet");
    harness.pass(2);
    assert_eq!((harness.count("R"), harness.count("n")), (4, 4));
    let node = harness.node("a");
    assert_eq!(node["status"]["conditions"][0]["status"], "Unknown");
    let key = &node["spec"]["taints"][0]["key"];
    assert_eq!(key, "node.kubernetes.io/unreachable");
    harness.pass(290);
    assert_eq!(harness.count("n"), 4, "still tolerated");
    harness.pass(20);
    assert_eq!((harness.count("R"), harness.count("nx")), (4, 4));
    assert!(harness.is_quiet());
    harness.pass(3600);
    assert_eq!(
        harness.count("nx"),
        4,
        "the kubelet is silent, so the pods stay"
    );
    harness.control.restore("a");
    harness.pass(2);
    assert_eq!(harness.states().len(), 4);
    let node = harness.node("a");
    assert_eq!(node["status"]["conditions"][0]["status"], "True");
    assert_eq!(node["spec"].get("taints"), None);
    assert!(harness.is_quiet());
}

#[test]
fn a_node_that_returns_in_time_keeps_its_pods() {
    for (seconds, unready) in [(20, 0), (100, 4)] {
        let mut harness = NodeHarness::new();
        harness.fill();
        harness.control.lose("a");
        harness.pass(seconds);
        assert_eq!(harness.count("n"), unready);
        harness.control.restore("a");
        harness.pass(0);
        assert_eq!(harness.count("R"), 8);
        assert!(harness.is_quiet());
    }
}

#[test]
fn a_silent_kubelet_catches_up_when_it_is_back() {
    let mut harness = NodeHarness::new();
    harness.fill();
    let (gone, node) = (harness.on("a")[0].clone(), "a");
    harness.control.lose(node);
    harness.delete(&gone);
    harness.pass(10);
    assert_eq!(harness.count("Rx"), 1);
    // A deletion was in flight when the kubelet became silent.
    harness.delete(&harness.on("b")[0]);
    harness.create("late");
    harness.pass(1);
    harness.control.lose("b");
    harness.pass(10);
    assert_eq!(harness.states()[0], "late b P");
    harness.control.heal();
    harness.pass(5);
    assert_eq!((harness.count("R"), harness.states().len()), (7, 7));
}

#[test]
fn pods_bound_to_a_lost_node_are_evicted_later() {
    let mut harness = NodeHarness::new();
    harness.control.lose("a");
    harness.control.lose("b");
    harness.create("early");
    // The node is unreachable after 50 seconds, and its pods are evicted after 350.
    harness.pass(400);
    assert_eq!(harness.count("Px"), 1);
    harness.create_with("late", json!({"nodeName": "a"}));
    // No node can take the pod.
    harness.create("waits");
    harness.pass(290);
    assert_eq!(harness.count("Px"), 1);
    harness.pass(20);
    assert_eq!(harness.count("Px"), 2);
    harness.control.restore("b");
    harness.pass(5);
    let states = harness.states();
    assert_eq!(states.last().map(String::as_str), Some("waits b R"));
}

#[test]
fn pods_of_a_deleted_node_are_removed_by_force() {
    let mut harness = NodeHarness::new();
    harness.fill();
    harness.control.lose("a");
    harness.pass(400);
    assert_eq!(harness.count("nx"), 4);
    let (options, now) = (DeleteOptions::default(), harness.now);
    let deleted = harness.cluster.delete::<Node>("", "a", &options, now);
    deleted.unwrap();
    harness.pass(55);
    assert_eq!(harness.count("nx"), 4);
    harness.pass(10);
    assert_eq!((harness.count("R"), harness.states().len()), (4, 4));
    // One more check is due, because pods have arrived in the meantime.
    harness.pass(60);
    assert!(harness.is_quiet());
}

#[test]
fn a_rejecting_node_immediately_fails_every_new_pod() {
    let mut harness = NodeHarness::new();
    harness.control.set_rejecting("a", true);
    harness.control.set_rejecting("b", true);
    for name in ["p", "q"] {
        harness.create(name);
    }
    harness.pass(0);
    assert_eq!(harness.count("F"), 2);
    let value = harness.pod("p").to_json();
    assert_eq!(value["status"]["reason"], "OutOfpods");
    let message = "Pod was rejected: Node didn't have enough resource: pods, requested: 1, used: 4, capacity: 4";
    assert_eq!(value["status"]["message"], message);
    assert_eq!(value["status"]["qosClass"], "BestEffort");
    assert!(value["status"]["startTime"].is_string());
    assert_eq!(value["status"].get("conditions"), None);
    // Failed pods use no capacity: eight pods fit.
    harness.control.heal();
    for number in 0..9 {
        harness.create(&format!("r{number}"));
    }
    harness.pass(5);
    assert_eq!((harness.count("R"), harness.count("P")), (8, 1));
    // Their removal frees no capacity either.
    harness.delete("p");
    harness.delete("q");
    harness.pass(5);
    assert_eq!((harness.count("R"), harness.count("P")), (8, 1));
}

#[test]
fn a_restarted_container_is_ready_after_the_startup_latency() {
    let mut harness = NodeHarness::new();
    harness.fill();
    harness.control.order("n", "p3", PodCommand::Restart(0));
    harness.control.order("n", "none", PodCommand::Restart(0));
    harness.pass(1);
    assert_eq!((harness.count("R"), harness.count("n")), (7, 1));
    harness.pass(2);
    let pod = harness.pod("p3");
    assert!(pod.is_ready());
    assert_eq!(pod.status.container_statuses[0].restart_count, 1);
    // A container restarted on a lost node is ready when the node is back.
    let node = pod.node_name.clone().unwrap();
    harness.control.order("n", "p3", PodCommand::Restart(0));
    harness.pass(1);
    harness.control.lose(&node);
    harness.pass(10);
    assert!(!harness.pod("p3").is_ready());
    harness.control.restore(&node);
    harness.pass(0);
    assert!(harness.pod("p3").is_ready());
}

#[test]
fn pods_end_on_command_and_free_capacity() {
    let mut harness = NodeHarness::new();
    harness.fill();
    harness.create("waits");
    harness.control.order("n", "p0", PodCommand::Fail);
    harness.control.order("n", "p1", PodCommand::Succeed);
    harness.pass(5);
    let counts = ["R", "F", "S"].map(|state| harness.count(state));
    assert_eq!(counts, [7, 1, 1]);
    assert!(harness.pod("waits").is_ready());
    // A pod that has ended is unchanged.
    harness.control.order("n", "p1", PodCommand::Fail);
    harness.pass(5);
    assert_eq!(harness.count("S"), 1);
}

#[test]
fn the_number_of_kubelet_tasks_does_not_matter() {
    let run = |shards: usize| {
        let mut harness = NodeHarness::with_kubelets(shards);
        harness.fill();
        harness.control.lose("a");
        harness.pass(400);
        harness.control.order("n", "p3", PodCommand::Restart(0));
        harness.control.restore("a");
        harness.pass(100);
        harness.states()
    };
    assert_eq!(run(1), run(3));
}

#[test]
fn pods_wait_for_room_until_they_are_bound_or_deleted() {
    let harness = NodeHarness::new();
    let cluster = &harness.cluster;
    let waker: Waker = Arc::new(|| {});
    let mut scheduler = Scheduler::new(cluster.clone(), Latency::ZERO, 1, waker);
    let mut at = |seconds: i64| {
        let now = harness.now.plus_ns(seconds * SECOND);
        while scheduler.run(now) == Next::Again {}
        let waits = scheduler.place_waits(now);
        let seconds = waits.total_ns / SECOND.unsigned_abs();
        (waits.pods, seconds, waits.most, waits.places)
    };
    for number in 0..8 {
        harness.create(&format!("first-{number}"));
    }
    assert_eq!(at(0), (0, 0, 0, 0), "every pod has room");
    for name in ["x", "y", "z"] {
        harness.create(name);
    }
    assert_eq!(at(0), (3, 0, 3, 8));
    assert_eq!(at(10), (3, 30, 3, 8));
    harness.delete("x");
    assert_eq!(at(10), (3, 30, 3, 8));
    // A new pod of the same name does not inherit the wait.
    let node = |places: &str| {
        let node = json!({"metadata": {"name": "c"}, "status": {"allocatable": {"pods": places}}});
        Node::from_json(node).unwrap()
    };
    cluster.import(node("0"), harness.now).unwrap();
    assert_eq!(at(20), (3, 50, 3, 8), "two are still waiting");
    let freed = cluster.list::<Pod>(None).0;
    let bound = freed.iter().find(|pod| pod.node_name.is_some()).unwrap();
    let options = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    for _ in 0..2 {
        let _gone = cluster.delete::<Pod>("n", &bound.metadata.name, &options, harness.now);
    }
    let (_, seconds, ..) = at(20);
    assert_eq!(seconds, 50);
    // The capacity goes to the deleted pod first, then to the first waiting pod.
    assert_eq!(at(30), (3, 60, 3, 8), "one is still waiting");
}
