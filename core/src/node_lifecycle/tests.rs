//! Tests of rounds over reporting and silent nodes, with a server that carries out every request.

use std::cell::RefCell;
use std::collections::BTreeMap;

use podstorm_objects::{ApiError, DynamicObject, Resource};
use podstorm_runtime::client::{Answer, Patch, Reason, Request};
use podstorm_runtime::driver::{AsyncSync, Driver, SyncState, sync_all};
use podstorm_runtime::informer::AnyInformer;
use serde_json::{Value, json};

use super::*;
use crate::cache::Delta;

const SECOND_NS: i64 = 1_000_000_000;

fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * SECOND_NS,
        wall_ns: (1_800_000_000 + seconds) * SECOND_NS,
    }
}

/// A controller with its caches, and a server.
struct World {
    pods: Arc<PodCache>,
    nodes: Arc<dyn AnyInformer>,
    leases: Arc<dyn AnyInformer>,
    controller: Controller,
    driver: Driver<AsyncSync>,
    /// The nodes on the server, by name.
    stored: BTreeMap<String, Value>,
    seconds: i64,
    events: Vec<String>,
    /// Whether the server rejects every write of a pod's status.
    refuses_pods: bool,
}

impl World {
    fn new(options: Options) -> World {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(options, &mut informers);
        World {
            pods: Arc::clone(informers.pods()),
            nodes: informers.take(Kind::NODE),
            leases: informers.take(Kind::LEASE),
            controller,
            driver: Driver::default(),
            stored: BTreeMap::new(),
            seconds: 0,
            events: Vec::new(),
            refuses_pods: false,
        }
    }

    /// Adds `count` ready nodes to a zone. Those of zone `a` are named `a1`, `a2`, ….
    fn add_zone(&mut self, zone: &str, count: usize) {
        for number in 1..=count {
            let name = format!("{zone}{number}");
            let node = json!({"metadata": {"name": name, "uid": format!("uid-{name}"),
                "labels": {"topology.kubernetes.io/zone": zone}},
                "status": {"conditions": [{"type": "Ready", "status": "True",
                    "lastHeartbeatTime": at(0).wall().to_string()}]}});
            self.store(&name, node);
        }
    }

    fn store(&mut self, name: &str, node: Value) {
        let object = Node::from_json(node.clone()).unwrap();
        self.stored.insert(name.to_owned(), node);
        self.nodes
            .apply(Delta::Applied(Arc::new(object)), at(self.seconds));
    }

    fn remove(&mut self, name: &str) {
        let node = Node::from_json(self.stored.remove(name).unwrap()).unwrap();
        self.nodes
            .apply(Delta::Deleted(Arc::new(node)), at(self.seconds));
    }

    /// Renews the Leases of these nodes.
    fn renew(&self, names: &[String]) {
        for name in names {
            let mut lease = DynamicObject::new(Kind::LEASE);
            lease.metadata.namespace = LEASES.into();
            lease.metadata.name = (&**name).into();
            let time = at(self.seconds).wall().to_string().replace('Z', ".000000Z");
            lease
                .fields
                .insert("spec".into(), json!({"renewTime": time}));
            self.leases
                .apply(Delta::Applied(Arc::new(lease)), at(self.seconds));
        }
    }

    fn add_pod(&self, name: &str, node: &str) {
        let pod = json!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"nodeName": node,
            "containers": []}, "status": {"phase": "Running", "conditions": [
                {"type": "Ready", "status": "True", "reason": "r"}]}});
        let pod = Arc::new(Pod::from_json(pod).unwrap());
        let change = self.pods.apply(Delta::Applied(pod));
        self.controller.pod_changed(&change, at(self.seconds));
    }

    fn is_ready(&self, pod: &str) -> bool {
        self.pods.get("ns", pod).unwrap().is_ready()
    }

    /// Returns the key and the effect of each taint of a node.
    fn taints(&self, node: &str) -> Vec<String> {
        let taints = self.stored[node]["spec"]["taints"].as_array();
        let text = |it: &Value| {
            let key = it["key"].as_str().unwrap().rsplit('/').next().unwrap();
            assert!(it["timeAdded"].is_string(), "{it}");
            format!("{key} {}", it["effect"].as_str().unwrap())
        };
        taints.into_iter().flatten().map(text).collect()
    }

    /// Returns the names of the nodes with a `NoExecute` taint.
    fn driven_out(&self) -> Vec<&str> {
        let tainted = |node: &str| self.taints(node).iter().any(|it| it.ends_with("NoExecute"));
        let names = self.stored.keys().map(String::as_str);
        names.filter(|name| tainted(name)).collect()
    }

    /// Advances the time second by second, with a sync at each second. Renews the Leases of the
    /// nodes in `alive` every 10 s.
    fn pass(&mut self, seconds: i64, alive: &[String]) {
        for _ in 0..seconds {
            self.sync();
            self.seconds += 1;
            if self.seconds % 10 == 0 {
                self.renew(alive);
            }
        }
        self.sync();
    }

    /// Syncs the keys that are due.
    fn sync(&mut self) {
        let now = at(self.seconds);
        let written: RefCell<Vec<(String, Value)>> = RefCell::default();
        let marked: RefCell<Vec<Arc<Pod>>> = RefCell::default();
        let stored = RefCell::new(&mut self.stored);
        let refuses_pods = self.refuses_pods;
        let mut server = |request: &Request, _: Now| {
            let mut stored = stored.borrow_mut();
            let missing = || Answer::Failed(ApiError::status(404, Reason::NotFound, "not found"));
            let put = |stored: &mut BTreeMap<String, Value>, name: &str, node: Value| {
                stored.insert(name.to_owned(), node.clone());
                written.borrow_mut().push((name.to_owned(), node.clone()));
                Answer::Object(Arc::new(Node::from_json(node).unwrap()))
            };
            match request {
                Request::Get { name, .. } => match stored.get(name.as_str()) {
                    Some(node) => Answer::Object(Arc::new(Node::from_json(node.clone()).unwrap())),
                    None => missing(),
                },
                Request::Patch { name, patch, .. } => {
                    let Patch::Strategic(patch) = &**patch else {
                        panic!("patches of nodes merge");
                    };
                    let Some(mut node) = stored.get(name.as_str()).cloned() else {
                        return missing();
                    };
                    if let Some(spec) = patch.get("spec") {
                        node["spec"]["taints"] = spec["taints"].clone();
                    }
                    if let Some(labels) = patch["metadata"]["labels"].as_object() {
                        for (label, value) in labels {
                            node["metadata"]["labels"][label] = value.clone();
                        }
                    }
                    put(&mut stored, name, node)
                }
                Request::PutStatus { object } => match object.clone().downcast::<Pod>() {
                    Some(_) if refuses_pods => {
                        let error = ApiError::status(500, Reason::InternalError, "boom");
                        Answer::Failed(error)
                    }
                    Some(pod) => {
                        marked.borrow_mut().push(Arc::clone(&pod));
                        Answer::Object(pod)
                    }
                    None => put(&mut stored, &object.metadata().name, object.to_json()),
                },
                other => panic!("unexpected request: {other:?}"),
            }
        };
        let events = &mut self.events;
        self.controller.queues().iter().for_each(|queue| {
            queue.fire_due(now.mono_ns);
        });
        sync_all(
            &self.controller,
            &mut self.driver,
            &mut server,
            now,
            |sync| {
                let made = sync.events().drain(..);
                events.extend(made.map(|it| format!("{} {}", it.reason, it.message)));
            },
        );
        for (_, node) in written.into_inner() {
            let node = Arc::new(Node::from_json(node).unwrap());
            self.nodes.apply(Delta::Applied(node), now);
        }
        for pod in marked.into_inner() {
            let change = self.pods.apply(Delta::Applied(pod));
            self.controller.pod_changed(&change, now);
        }
    }
}

fn names(zone: &str, numbers: std::ops::RangeInclusive<usize>) -> Vec<String> {
    numbers.map(|number| format!("{zone}{number}")).collect()
}

#[test]
fn a_silent_node_becomes_unknown_and_tainted_with_unready_pods() {
    let mut world = World::new(Options::default());
    world.add_zone("a", 3);
    world.add_pod("p", "a1");
    world.add_pod("q", "a2");
    let all = names("a", 1..=3);
    world.renew(&all);
    world.pass(20, &all);
    assert_eq!(world.events.len(), 3);
    assert_eq!(
        world.events[0],
        "RegisteredNode Node a1 event: Registered Node a1 in Controller"
    );
    world.events.clear();
    // The last renewal was seen at 20 s.
    world.pass(50, &names("a", 2..=3));
    assert!(world.taints("a1").is_empty() && world.is_ready("p"));
    world.pass(5, &names("a", 2..=3));
    let ready = &world.stored["a1"]["status"]["conditions"][0];
    assert_eq!(ready["status"], "Unknown");
    world.pass(1, &names("a", 2..=3));
    assert_eq!(
        world.taints("a1"),
        ["unreachable NoSchedule", "unreachable NoExecute"]
    );
    assert!(!world.is_ready("p") && world.is_ready("q"));
    let told = [
        "NodeNotReady Node a1 status is now: NodeNotReady",
        "NodeNotReady Node is not ready",
    ];
    assert_eq!(world.events, told);
    // A pod that is bound later is marked as not ready, too.
    world.add_pod("late", "a1");
    world.pass(0, &[]);
    assert!(!world.is_ready("late"));
    world.events.clear();

    // The node reports again.
    let mut node = world.stored["a1"].clone();
    node["status"]["conditions"][0]["status"] = "True".into();
    node["status"]["conditions"][0]["lastHeartbeatTime"] = at(80).wall().to_string().into();
    world.store("a1", node);
    world.pass(5, &all);
    assert!(world.taints("a1").is_empty(), "{:?}", world.taints("a1"));
    assert!(world.events.is_empty());

    world.remove("a1");
    world.pass(5, &names("a", 2..=3));
    assert_eq!(
        world.events,
        ["RemovingNode Node a1 event: Removing Node a1 from Controller"]
    );
}

#[test]
fn a_pod_that_cannot_be_marked_is_retried() {
    let mut world = World::new(Options::default());
    world.add_zone("a", 2);
    world.add_pod("p", "a1");
    world.refuses_pods = true;
    let alive = names("a", 2..=2);
    world.renew(&names("a", 1..=2));
    world.pass(56, &alive);
    assert!(world.is_ready("p"));
    world.refuses_pods = false;
    world.pass(5, &alive);
    assert!(!world.is_ready("p"));
    let told = world
        .events
        .iter()
        .filter(|it| it.contains("status is now"));
    assert_eq!(told.count(), 1, "the node changed once");
}

#[test]
fn no_execute_taints_follow_the_rate_of_the_zone() {
    // The number of nodes in zone `a`, how many of them are silent, the number of reporting nodes
    // in zone `b`, and the numbers of nodes with a `NoExecute` taint at 0, 11, 22 and 102 s after
    // the first taint is due.
    for (nodes, silent, others, counts) in [
        (10, 3, 1, [1, 2, 3, 3]),
        (10, 6, 1, [0, 0, 0, 0]),
        (60, 40, 1, [1, 1, 1, 2]),
        (3, 3, 1, [1, 2, 3, 3]),
        (3, 3, 0, [0, 0, 0, 0]),
        (1, 1, 0, [0, 0, 0, 0]),
    ] {
        let mut world = World::new(Options::default());
        world.add_zone("a", nodes);
        world.add_zone("b", others);
        let mut alive = names("a", silent + 1..=nodes);
        alive.extend(names("b", 1..=others));
        world.renew(&alive);
        world.renew(&names("a", 1..=silent));
        world.pass(56, &alive);
        let mut found = Vec::new();
        for seconds in [0, 11, 11, 80] {
            world.pass(seconds, &alive);
            found.push(world.driven_out().len());
        }
        assert_eq!(found, counts, "{silent} of {nodes}, {others} others");
        let marked = world.stored.keys().filter(|name| {
            let taints = world.taints(name);
            taints
                .first()
                .is_some_and(|it| it == "unreachable NoSchedule")
        });
        assert_eq!(
            marked.count(),
            silent,
            "NoSchedule taints are set immediately"
        );
    }
}

#[test]
fn no_pod_is_evicted_if_no_node_is_ready() {
    let mut world = World::new(Options::default());
    world.add_zone("a", 3);
    let all = names("a", 1..=3);
    world.renew(&all);
    world.pass(60, &names("a", 2..=3));
    assert_eq!(world.driven_out(), ["a1"]);
    world.pass(70, &[]);
    assert!(world.driven_out().is_empty(), "all are silent");
    assert_eq!(world.taints("a1"), ["unreachable NoSchedule"]);
    // When one node reports again, the timers of all nodes restart.
    let mut node = world.stored["a3"].clone();
    node["status"]["conditions"][0]["status"] = "True".into();
    node["status"]["conditions"][0]["lastHeartbeatTime"] =
        at(world.seconds).wall().to_string().into();
    world.store("a3", node);
    world.pass(10, &names("a", 3..=3));
    assert!(world.taints("a3").is_empty());
    assert!(
        world.driven_out().is_empty(),
        "the first turn comes 10 s after the recovery"
    );
    world.pass(6, &names("a", 3..=3));
    assert_eq!(world.driven_out(), ["a1"]);
    world.pass(10, &names("a", 3..=3));
    assert_eq!(world.driven_out(), ["a1", "a2"]);
}

#[test]
fn a_node_reporting_not_ready_gets_another_taint() {
    let mut world = World::new(Options::default());
    world.add_zone("a", 2);
    let all = names("a", 1..=2);
    world.renew(&all);
    world.pass(10, &all);
    let set = |world: &mut World, of_type: &str, status: &str| {
        let mut node = world.stored["a1"].clone();
        let conditions = node["status"]["conditions"].as_array_mut().unwrap();
        match conditions.iter_mut().find(|it| it["type"] == of_type) {
            Some(found) => found["status"] = status.into(),
            None => conditions.push(json!({"type": of_type, "status": status})),
        }
        world.store("a1", node);
    };
    set(&mut world, "Ready", "False");
    set(&mut world, "MemoryPressure", "True");
    world.pass(0, &all);
    assert_eq!(
        world.taints("a1"),
        ["not-ready NoSchedule", "memory-pressure NoSchedule"]
    );
    world.pass(6, &all);
    assert_eq!(world.taints("a1")[2], "not-ready NoExecute");
    // The node is silent now. Replacing its `NoExecute` taint is not rate-limited.
    world.pass(60, &names("a", 2..=2));
    // `MemoryPressure` becomes unknown, too, so its taint is removed.
    let taints = ["unreachable NoExecute", "unreachable NoSchedule"];
    assert_eq!(world.taints("a1"), taints);
    set(&mut world, "Ready", "True");
    set(&mut world, "MemoryPressure", "False");
    world.pass(6, &all);
    assert!(world.taints("a1").is_empty());
}

#[test]
fn cordon_taints_and_older_labels_are_kept_up_to_date() {
    let mut world = World::new(Options::default());
    let node = json!({"metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64", "beta.kubernetes.io/arch": "amd64"}},
        "spec": {"unschedulable": true, "taints": [{"key": "own", "effect": "NoSchedule",
            "timeAdded": "2026-01-01T00:00:00Z"}]}});
    world.store("n", node);
    world.pass(1, &[]);
    assert_eq!(
        world.taints("n"),
        ["own NoSchedule", "unschedulable NoSchedule"]
    );
    let labels = &world.stored["n"]["metadata"]["labels"];
    assert_eq!(labels["beta.kubernetes.io/os"], "linux");
    assert_eq!(labels["beta.kubernetes.io/arch"], "arm64");
    let mut node = world.stored["n"].clone();
    node["spec"]["unschedulable"] = false.into();
    world.store("n", node);
    world.pass(1, &[]);
    assert_eq!(world.taints("n"), ["own NoSchedule"]);
}
