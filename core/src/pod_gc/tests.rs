//! Tests of several rounds, and of the pods that a round reads. The recorded cases have the
//! decisions of one round.

use std::collections::BTreeMap;

use podstorm_objects::{AnyObject, ApiError, PodPhase, ResourceVersion, Time};
use podstorm_runtime::client::{Answer, Reason as ErrorReason, Request};
use podstorm_runtime::driver::{AsyncSync, Driver, sync_all};
use podstorm_runtime::informer::AnyInformer;

use super::*;
use crate::cache::Delta;

const SECOND_NS: i64 = 1_000_000_000;

fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * SECOND_NS,
        wall_ns: (1_800_000_000 + seconds) * SECOND_NS,
    }
}

fn node(name: &str) -> AnyObject {
    let mut node = Node::default();
    node.metadata.name = name.into();
    Arc::new(node)
}

fn pod(name: &str, phase: PodPhase, node: &str) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.namespace = "ns".into();
    pod.metadata.name = name.into();
    pod.status.phase = phase;
    pod.node_name = Some(node.into()).filter(|_| !node.is_empty());
    pod
}

fn deleting(mut pod: Pod) -> Pod {
    pod.metadata.deletion_timestamp = Time::from_unix_seconds(1);
    pod
}

/// A collector with its caches, and a server that carries out every request.
struct World {
    pods: Arc<PodCache>,
    nodes: Arc<dyn AnyInformer>,
    controller: Controller,
    driver: Driver<AsyncSync>,
    /// The requests that must fail, by verb and name.
    failing: Vec<&'static str>,
    /// The nodes that only the server has, and not the cache.
    unseen_nodes: Vec<&'static str>,
}

impl World {
    /// Creates a harness with the nodes `n1` and `n2`, and with these pods in the first list.
    fn new(threshold: i64, pods: Vec<Pod>) -> World {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(threshold, &mut informers);
        let world = World {
            pods: Arc::clone(informers.pods()),
            nodes: informers.take(Kind::NODE),
            controller,
            driver: Driver::default(),
            failing: Vec::new(),
            unseen_nodes: Vec::new(),
        };
        for name in ["n1", "n2"] {
            world.nodes.apply(Delta::Applied(node(name)), at(0));
        }
        let pods = pods.into_iter().map(Arc::new).collect();
        let listed = world.pods.replace(pods, &ResourceVersion::default());
        world.controller.pods_listed(&listed, at(0));
        world
    }

    fn apply(&self, delta: Delta<Pod>) {
        let change = self.pods.apply(delta);
        self.controller.pod_changed(&change, at(0));
    }

    /// Syncs the keys that are due. Returns the requests.
    fn sync(&mut self, seconds: i64) -> Vec<String> {
        let mut sent = Vec::new();
        let mut gone = Vec::new();
        let (failing, unseen) = (&self.failing, &self.unseen_nodes);
        let mut server = |request: &Request, _: Now| {
            let (text, name) = match request {
                Request::Get { name, .. } => (format!("get {name}"), name),
                Request::Patch { name, .. } => (format!("mark {name}"), name),
                Request::Delete { name, .. } => (format!("delete {name}"), name),
                other => panic!("unexpected request: {other:?}"),
            };
            let fails = failing.contains(&&*text);
            sent.push(text);
            let not_found = ApiError::status(404, ErrorReason::NotFound, "not found");
            match request {
                _ if fails => {
                    let error = ApiError::status(500, ErrorReason::InternalError, "boom");
                    Answer::Failed(error)
                }
                Request::Get { .. } if unseen.contains(&&**name) => Answer::Object(node(name)),
                Request::Get { .. } => Answer::Failed(not_found),
                Request::Patch { .. } => Answer::Pod(Arc::default()),
                _ => {
                    gone.push(name.clone());
                    Answer::Deleted(None)
                }
            }
        };
        let World {
            controller, driver, ..
        } = self;
        sync_all(controller, driver, &mut server, at(seconds), |_| {});
        for name in gone {
            if let Some(pod) = self.pods.get("ns", &name) {
                self.apply(Delta::Deleted(pod));
            }
        }
        sent
    }

    fn counts(&self) -> BTreeMap<&'static str, (u64, u64)> {
        let state = self.controller.0.lock();
        let counts = state.counts.iter();
        counts
            .map(|((_, reason), counts)| (reason.label(), (counts.deleted, counts.failed)))
            .collect()
    }
}

#[test]
fn pods_of_a_deleted_node_are_deleted_after_the_quarantine() {
    let lost = pod("lost", PodPhase::Running, "n1");
    let mut world = World::new(12_500, vec![lost, pod("free", PodPhase::Pending, "")]);
    assert!(world.sync(0).is_empty());
    assert_eq!(world.controller.queue().next_due(), Some(at(20).mono_ns));
    assert!(world.sync(20).is_empty());
    world.nodes.apply(Delta::Deleted(node("n1")), at(30));
    assert!(world.sync(40).is_empty());
    assert!(world.sync(60).is_empty(), "the 40 s have not passed");
    assert_eq!(world.sync(80), ["get n1", "mark lost", "delete lost"]);
    assert_eq!(world.counts(), BTreeMap::from([("orphaned", (1, 0))]));
    assert!(world.sync(100).is_empty());
    assert_eq!(world.sync(120), ["get n1"], "the node had its pod at 80 s");
    for seconds in (140..400).step_by(20) {
        assert!(world.sync(seconds).is_empty());
    }
    assert!(world.controller.quarantine().is_empty());
}

#[test]
fn a_node_on_the_server_or_in_the_cache_keeps_its_pods() {
    let kept = pod("kept", PodPhase::Running, "n1");
    let mut world = World::new(12_500, vec![kept]);
    world.nodes.apply(Delta::Deleted(node("n1")), at(0));
    world.unseen_nodes.push("n1");
    assert!(world.sync(0).is_empty());
    assert!(world.sync(20).is_empty());
    assert_eq!(world.sync(40), ["get n1"], "the server has the node");
    assert!(world.sync(60).is_empty(), "the quarantine must start again");
    world.nodes.apply(Delta::Applied(node("n1")), at(70));
    for seconds in (80..400).step_by(20) {
        assert!(world.sync(seconds).is_empty());
    }
}

#[test]
fn the_oldest_ended_pods_beyond_the_threshold_are_deleted() {
    let ended = |name, seconds| {
        let mut pod = pod(name, PodPhase::Succeeded, "n1");
        pod.metadata.creation_timestamp = Time::from_unix_seconds(seconds);
        pod
    };
    let pods = || {
        let running = pod("running", PodPhase::Running, "n1");
        vec![ended("a", 3), ended("b", 1), ended("c", 2), running]
    };
    assert!(World::new(0, pods()).sync(0).is_empty());
    let mut world = World::new(1, pods());
    world.failing.push("delete b");
    assert_eq!(world.sync(0), ["delete b", "delete c"]);
    assert_eq!(world.counts(), BTreeMap::from([("terminated", (1, 1))]));
    world.failing.clear();
    assert_eq!(world.sync(20), ["delete b"], "the next round must retry");
    assert!(world.sync(40).is_empty());
    world.apply(Delta::Applied(Arc::new(ended("d", 9))));
    assert_eq!(world.sync(60), ["delete a"]);
}

#[test]
fn a_pod_whose_mark_is_refused_stays() {
    let mut world = World::new(0, vec![deleting(pod("p", PodPhase::Pending, ""))]);
    world.failing.push("mark p");
    assert_eq!(world.sync(0), ["mark p"]);
    world.failing.clear();
    assert_eq!(world.sync(20), ["mark p", "delete p"]);
    assert_eq!(world.counts(), BTreeMap::from([("unscheduled", (1, 1))]));
    let mut text = String::new();
    for family in world.controller.families() {
        family.write_text(&mut text);
    }
    for line in [
        "pod_gc_collector_force_delete_pods_total{namespace=\"ns\",reason=\"unscheduled\"} 1",
        "pod_gc_collector_force_delete_pod_errors_total{namespace=\"ns\",reason=\"unscheduled\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{text}");
    }
}

#[test]
fn candidates_follow_pod_changes_in_lists_and_watches() {
    let bound = |name, node| pod(name, PodPhase::Running, node);
    let world = World::new(0, vec![bound("p0", "n1"), bound("p1", "n1")]);
    let state = |world: &World| {
        let state = world.controller.0.lock();
        let candidates = &state.candidates;
        let nodes: Vec<String> = candidates.nodes().map(|node| node.to_string()).collect();
        (
            candidates.terminated.len(),
            candidates.deleting.len(),
            nodes,
        )
    };
    assert_eq!(state(&world), (0, 0, vec!["n1".to_owned()]));
    world.apply(Delta::Applied(Arc::new(deleting(bound("p0", "n1")))));
    world.apply(Delta::Applied(Arc::new(pod("p2", PodPhase::Failed, "n2"))));
    assert_eq!(
        state(&world),
        (1, 1, vec!["n1".to_owned(), "n2".to_owned()])
    );
    // An ended pod is no longer a candidate once another pod has its name.
    world.apply(Delta::Applied(Arc::new(pod("p2", PodPhase::Pending, ""))));
    assert_eq!(state(&world), (0, 1, vec!["n1".to_owned()]));
    let list = vec![Arc::new(bound("p3", "n2"))];
    let listed = world.pods.replace(list, &ResourceVersion::default());
    world.controller.pods_listed(&listed, at(0));
    assert_eq!(state(&world), (0, 0, vec!["n2".to_owned()]));
    // Only the first list starts a round.
    assert_eq!(world.controller.queue().len(), 1);
}

#[test]
fn the_row_names_the_requests_and_reads_every_pod() {
    let row = PodGc::ROW;
    assert!(row.may_send("patch", Kind::POD, "status"));
    assert!(row.may_send("delete", Kind::POD, ""));
    assert!(row.may_send("get", Kind::NODE, ""));
    assert!(!row.may_send("update", Kind::POD, "status"));
    assert_eq!(row.watched().collect::<Vec<_>>(), [Kind::NODE]);
    assert!(row.served_only);
}
