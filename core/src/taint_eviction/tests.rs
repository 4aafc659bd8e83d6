//! Tests of evictions by a table of taints, tolerations and times, with a server that carries out
//! every request.

use podstorm_objects::{ApiError, Resource, ResourceVersion};
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

struct World {
    pods: Arc<PodCache>,
    nodes: Arc<dyn AnyInformer>,
    controller: Controller,
    driver: Driver<AsyncSync>,
    /// The number of requests that must fail before any succeeds.
    failures: usize,
}

impl World {
    fn new() -> World {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(&mut informers);
        World {
            pods: Arc::clone(informers.pods()),
            nodes: informers.take(Kind::NODE),
            controller,
            driver: Driver::default(),
            failures: 0,
        }
    }

    fn taint(&self, taints: &Value, seconds: i64) {
        let node = json!({"metadata": {"name": "n"}, "spec": {"taints": taints}});
        let node = Arc::new(Node::from_json(node).unwrap());
        self.nodes.apply(Delta::Applied(node), at(seconds));
    }

    fn pod(&self, tolerations: &Value, seconds: i64) {
        let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"},
            "spec": {"nodeName": "n", "containers": [], "tolerations": tolerations}});
        let pod = Arc::new(Pod::from_json(pod).unwrap());
        let change = self.pods.apply(Delta::Applied(pod));
        self.controller.pod_changed(&change, at(seconds));
    }

    fn pod_is_gone(&self, seconds: i64) {
        let pod = self.pods.get("ns", "p").unwrap();
        let change = self.pods.apply(Delta::Deleted(pod));
        self.controller.pod_changed(&change, at(seconds));
    }

    /// Syncs the keys that are due. Returns the requests and Events.
    fn sync(&mut self, seconds: i64) -> Vec<String> {
        let mut sent = Vec::new();
        let mut told = Vec::new();
        let pods = &self.pods;
        let failures = &mut self.failures;
        let mut server = |request: &Request, _: Now| {
            if *failures > 0 {
                *failures -= 1;
                return Answer::Failed(ApiError::status(500, Reason::InternalError, "boom"));
            }
            match request {
                Request::Get {
                    namespace, name, ..
                } => match pods.get(namespace, name) {
                    Some(pod) => Answer::Object(pod),
                    None => Answer::Failed(ApiError::status(404, Reason::NotFound, "not found")),
                },
                Request::Patch {
                    patch,
                    of_status: true,
                    ..
                } => {
                    let Patch::Strategic(patch) = &**patch else {
                        panic!("patches of pods merge");
                    };
                    let condition = &patch["status"]["conditions"][0];
                    sent.push(format!("{} {}", condition["type"], condition["reason"]));
                    Answer::Object(Arc::new(Pod::default()))
                }
                Request::Delete {
                    name,
                    options: None,
                    ..
                } => {
                    sent.push(format!("delete {name}"));
                    Answer::Deleted(None)
                }
                other => panic!("unexpected request: {other:?}"),
            }
        };
        self.controller.queue().fire_due(at(seconds).mono_ns);
        sync_all(
            &self.controller,
            &mut self.driver,
            &mut server,
            at(seconds),
            |sync| {
                let events = sync.events().drain(..);
                told.extend(events.map(|event| {
                    assert!(event.regarding.uid.is_empty());
                    format!("{}: {}", event.reason, event.message)
                }));
            },
        );
        told.extend(sent);
        told
    }

    /// Returns when the pod is deleted, in whole seconds below 1,000; `None` if it is not.
    fn deleted_at(&mut self, from: i64) -> Option<i64> {
        (from..1000).find(|seconds| self.sync(*seconds).iter().any(|it| it == "delete p"))
    }
}

const MARKING: &str = "TaintManagerEviction: Marking for deletion Pod ns/p";
const CANCELLING: &str = "TaintManagerEviction: Cancelling deletion of Pod ns/p";

fn taint(key: &str) -> Value {
    json!({"key": key, "effect": "NoExecute"})
}

fn tolerates(key: &str, seconds: Option<i64>) -> Value {
    let mut toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute"});
    if let Some(seconds) = seconds {
        toleration["tolerationSeconds"] = seconds.into();
    }
    toleration
}

#[test]
fn tolerations_decide_when_a_pod_is_deleted() {
    let both = [taint("a"), taint("b")];
    for (name, tolerations, taints, wanted) in [
        ("none", json!([]), &both[..1], Some(0)),
        (
            "another",
            json!([tolerates("b", None)]),
            &both[..1],
            Some(0),
        ),
        ("one of two", json!([tolerates("a", None)]), &both, Some(0)),
        ("always", json!([tolerates("a", None)]), &both[..1], None),
        (
            "for a while",
            json!([tolerates("a", Some(300))]),
            &both[..1],
            Some(300),
        ),
        (
            "not for negative seconds",
            json!([tolerates("a", Some(-1))]),
            &both[..1],
            Some(0),
        ),
        (
            "not for 0 s",
            json!([tolerates("a", Some(0))]),
            &both[..1],
            Some(0),
        ),
        (
            "the shortest",
            json!([
                tolerates("a", Some(300)),
                tolerates("b", Some(20)),
                tolerates("c", Some(1))
            ]),
            &both,
            Some(20),
        ),
        (
            "one of them forever",
            json!([tolerates("a", Some(300)), tolerates("b", None)]),
            &both,
            Some(300),
        ),
        ("everything", json!([{"operator": "Exists"}]), &both, None),
    ] {
        for node_first in [false, true] {
            let mut world = World::new();
            let taints = taints.to_vec().into();
            match node_first {
                true => {
                    world.taint(&taints, 0);
                    world.pod(&tolerations, 0);
                }
                false => {
                    world.pod(&tolerations, 0);
                    world.taint(&taints, 0);
                }
            }
            assert_eq!(
                world.deleted_at(0),
                wanted,
                "{name}, node first: {node_first}"
            );
        }
    }
}

#[test]
fn an_eviction_sets_the_condition_and_deletes_once() {
    let mut world = World::new();
    world.pod(&json!([]), 0);
    world.taint(&json!([taint("a")]), 0);
    let all = [
        MARKING,
        "\"DisruptionTarget\" \"DeletionByTaintManager\"",
        "delete p",
    ];
    assert_eq!(world.sync(0), all);
    // The pod takes some time to end.
    world.pod(&json!([{"key": "x", "operator": "Exists"}]), 1);
    assert_eq!(
        world.sync(1).last().unwrap(),
        "delete p",
        "the pod's tolerations have changed"
    );
    world.pod_is_gone(2);
    assert!(world.sync(2).is_empty());
    assert_eq!(world.controller.0.lock().evictions.len(), 0);
}

#[test]
fn recovery_cancels_a_scheduled_eviction() {
    let tolerations = json!([tolerates("a", Some(100)), tolerates("b", Some(10))]);
    for (name, relief) in [
        (
            "the taint is removed",
            (|world: &World| world.taint(&json!([]), 50)) as fn(&World),
        ),
        ("the pod is deleted", |world| world.pod_is_gone(50)),
        ("the pod tolerates it forever", |world| {
            world.pod(&json!([tolerates("a", None)]), 50);
        }),
    ] {
        let mut world = World::new();
        world.pod(&tolerations, 0);
        world.taint(&json!([taint("a")]), 0);
        assert!(world.sync(0).is_empty());
        relief(&world);
        assert_eq!(world.sync(50), [CANCELLING], "{name}");
        assert_eq!(world.deleted_at(51), None, "{name}");
        assert_eq!(world.controller.0.lock().evictions.len(), 0);
    }
}

#[test]
fn a_taint_change_keeps_the_time_if_all_are_tolerated() {
    let tolerations = json!([tolerates("a", Some(100)), tolerates("b", Some(10))]);
    for (taints, deleted, cancelled) in [
        (json!([taint("a"), taint("b")]), 100, false),
        (
            json!([taint("a"), {"key": "c", "effect": "NoSchedule"}]),
            100,
            false,
        ),
        (json!([taint("c")]), 50, true),
    ] {
        let mut world = World::new();
        world.pod(&tolerations, 0);
        world.taint(&json!([taint("a")]), 0);
        world.taint(&taints, 50);
        let told = world.sync(50);
        assert_eq!(
            told.first().is_some_and(|it| it == CANCELLING),
            cancelled,
            "{taints}"
        );
        let at = match told.last() {
            Some(last) if last == "delete p" => Some(50),
            _ => world.deleted_at(51),
        };
        assert_eq!(at, Some(deleted), "{taints}");
    }
}

#[test]
fn a_failed_deletion_is_attempted_five_times() {
    for (failures, deletes) in [(4, true), (5, false)] {
        let mut world = World::new();
        world.failures = failures;
        world.pod(&json!([]), 0);
        world.taint(&json!([taint("a")]), 0);
        let told = world.sync(0);
        assert_eq!(told.last().is_some_and(|it| it == "delete p"), deletes);
        let kept = world.controller.0.lock().evictions.len();
        assert_eq!(
            kept,
            usize::from(deletes),
            "a failed eviction may be scheduled again"
        );
        world.taint(&json!([taint("b")]), 1);
        assert_eq!(world.sync(1).last().unwrap(), "delete p");
    }
}

#[test]
fn keys_are_reused_for_other_pods() {
    let mut world = World::new();
    let listed = world.pods.replace(Vec::new(), &ResourceVersion::default());
    world.controller.pods_listed(&listed, at(0));
    world.taint(&json!([taint("a")]), 0);
    world.pod(&json!([tolerates("a", Some(20))]), 0);
    world.pod_is_gone(1);
    assert_eq!(world.sync(1), [CANCELLING]);
    world.pod(&json!([tolerates("a", Some(30))]), 2);
    assert_eq!(
        world.deleted_at(2),
        Some(32),
        "the key's earlier delay must delete nothing"
    );
}
