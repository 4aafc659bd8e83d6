//! Tests with several budgets and syncs, of the second queue, and of the pods that a sync reads.
//! The recorded cases have the decisions of one sync.

use podstorm_objects::disruption::{Budget, evicted};
use podstorm_objects::{
    ApiError, ConditionStatus, ConditionType, DynamicObject, Labels, ObjectMeta, PodPhase,
    ResourceVersion, Scale, Time, Uid,
};
use podstorm_runtime::client::{Answer, Reason, Request};
use podstorm_runtime::driver::{AsyncSync, Driver, SyncState as _, sync_all};
use podstorm_runtime::informer::AnyInformer;
use podstorm_runtime::store::Cached as _;
use serde_json::{Value, json};

use super::selected::looks;
use super::*;
use crate::cache::Delta;

const SECOND_NS: i64 = 1_000_000_000;
const EPOCH: i64 = 1_800_000_000;

fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * SECOND_NS,
        wall_ns: (EPOCH + seconds) * SECOND_NS,
    }
}

fn pod(name: &str, app: &str, is_ready: bool) -> Pod {
    let mut pod = Pod::default();
    pod.metadata.namespace = "ns".into();
    pod.metadata.name = name.into();
    pod.metadata.labels = Labels::from_pairs([("app", app)]);
    pod.status.phase = PodPhase::Running;
    let status = match is_ready {
        true => ConditionStatus::True,
        false => ConditionStatus::False,
    };
    let conditions = &mut pod.status.conditions;
    conditions.set(ConditionType::Ready, status, at(0).wall());
    pod
}

/// A controller with its caches, and a server that stores writes.
struct World {
    pods: Arc<PodCache>,
    budgets: Arc<dyn AnyInformer>,
    controller: Controller,
    driver: Driver<AsyncSync>,
    /// The error with which the next write is refused; `None` for a success.
    refusal: Option<ApiError>,
    /// The replicas in every `/scale`; `None` if no object has a `/scale`.
    scale: Option<i32>,
    requests: Vec<String>,
    events: Vec<String>,
}

impl World {
    fn new() -> World {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(&mut informers);
        World {
            pods: Arc::clone(informers.pods()),
            budgets: informers.take(Kind::POD_DISRUPTION_BUDGET),
            controller,
            driver: Driver::default(),
            refusal: None,
            scale: None,
            requests: Vec::new(),
            events: Vec::new(),
        }
    }

    fn budget(&self, name: &str, spec: &Value) {
        let object = json!({"metadata": {"namespace": "ns", "name": name, "uid": name,
            "generation": 1}, "spec": spec});
        let object = DynamicObject::from_json(Kind::POD_DISRUPTION_BUDGET, object);
        let object = Arc::new(object.expect("a readable budget"));
        self.budgets.apply(Delta::Applied(object), at(0));
    }

    fn put(&self, pod: Pod, seconds: i64) {
        let change = self.pods.apply(Delta::Applied(Arc::new(pod)));
        self.controller.pod_changed(&change, at(seconds));
    }

    fn delete(&self, name: &str, seconds: i64) {
        let pod = self
            .pods
            .get("ns", name)
            .expect("the object must be cached");
        let change = self.pods.apply(Delta::Deleted(pod));
        self.controller.pod_changed(&change, at(seconds));
    }

    /// Syncs the keys that are due; writes reach the caches. Returns the number of syncs.
    fn sync(&mut self, seconds: i64) -> usize {
        let now = at(seconds);
        let World {
            controller,
            driver,
            refusal,
            scale,
            requests,
            events,
            ..
        } = self;
        let mut written = Vec::new();
        let mut server = |request: &Request, _: Now| match request {
            Request::PutStatus { object } => {
                let name = &object.metadata().name;
                requests.push(format!("{} {name}", object.kind().name()));
                match refusal.take() {
                    Some(error) => Answer::Failed(error),
                    None => {
                        written.push(object.clone());
                        Answer::Object(object.clone())
                    }
                }
            }
            Request::GetOwnerScale { owner, .. } => {
                requests.push(format!("scale {}", owner.name));
                match scale {
                    Some(replicas) => Answer::Scale(Box::new(Scale {
                        uid: owner.uid.clone(),
                        resource_version: ResourceVersion::default(),
                        creation_timestamp: Time::UNSET,
                        replicas: *replicas,
                        status_replicas: 0,
                        selector: String::new(),
                    })),
                    None => Answer::Failed(ApiError::status(404, Reason::NotFound, "not found")),
                }
            }
            other => panic!("unexpected request: {other:?}"),
        };
        let syncs = sync_all(&*controller, driver, &mut server, now, |sync| {
            let made = sync.events().drain(..);
            events.extend(made.map(|event| format!("{} {}", event.reason, event.message)));
        });
        for object in written {
            if let Some(pod) = object.clone().downcast::<Pod>() {
                self.put(Pod::clone(&pod), seconds);
                continue;
            }
            let status = object.downcast_ref::<DynamicObject>().expect("a budget");
            let stored = self.cached(&object.metadata().name);
            let mut stored = DynamicObject::clone(&stored);
            stored
                .fields
                .insert("status".into(), status.fields["status"].clone());
            self.budgets.apply(Delta::Applied(Arc::new(stored)), now);
        }
        syncs
    }

    fn cached(&self, name: &str) -> Arc<DynamicObject> {
        let budgets = &self.controller.0.caches.budgets;
        let found = budgets
            .get_named("ns", name)
            .expect("the budget must be cached");
        Arc::clone(found.object())
    }

    fn allowed(&self, name: &str) -> i64 {
        Budget::from_object(&self.cached(name))
            .status
            .disruptions_allowed
    }
}

fn web(limit: Value) -> Value {
    let mut spec = limit;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    spec
}

#[test]
fn only_budgets_and_their_pods_wake_the_controller() {
    let mut world = World::new();
    world.put(pod("p0", "web", true), 0);
    assert_eq!(world.sync(0), 0, "there is no budget");
    world.budget("b", &web(json!({"minAvailable": 0})));
    assert_eq!(world.sync(0), 1);
    assert_eq!(world.allowed("b"), 1);
    assert_eq!(
        world.sync(0),
        1,
        "the sync's own write wakes the budget once more"
    );
    assert_eq!(world.sync(0), 0);
    world.put(pod("q", "other", true), 0);
    assert_eq!(world.sync(0), 0, "no budget selects the pod");
    world.put(pod("p1", "web", true), 0);
    assert_eq!(world.sync(0), 1);
    assert_eq!(world.allowed("b"), 2);
    world.delete("p0", 0);
    world.sync(0);
    world.sync(0);
    assert_eq!(world.allowed("b"), 1);
    // Only the current labels of a pod matter, so this change wakes no budget.
    world.put(pod("p1", "other", true), 0);
    assert_eq!(world.sync(0), 0);
    world.budget("b", &web(json!({"minAvailable": 0})));
    world.sync(0);
    assert_eq!(world.allowed("b"), 0);
}

#[test]
fn a_pod_of_two_budgets_wakes_the_first_with_a_warning() {
    let mut world = World::new();
    for name in ["b1", "b0"] {
        world.budget(name, &web(json!({"minAvailable": 0})));
    }
    while world.sync(0) > 0 {}
    world.events.clear();
    world.put(pod("p", "web", true), 0);
    assert_eq!(world.sync(0), 1);
    assert_eq!(
        world.events,
        [
            "MultiplePodDisruptionBudgets Pod \"ns\"/\"p\" matches multiple PodDisruptionBudgets.  \
          Chose \"b0\" arbitrarily."
        ]
    );
    assert_eq!((world.allowed("b0"), world.allowed("b1")), (1, 0));
    // A budget that selects other pods no longer counts.
    let others = json!({"minAvailable": 0, "selector": {"matchLabels": {"app": "db"}}});
    world.budget("b0", &others);
    while world.sync(0) > 0 {}
    world.put(pod("q", "web", true), 0);
    while world.sync(0) > 0 {}
    assert_eq!((world.allowed("b0"), world.allowed("b1")), (0, 2));
}

#[test]
fn a_selector_without_requirements_selects_pods_without_labels() {
    let mut world = World::new();
    let mut bare = pod("p", "", true);
    bare.metadata.labels = Labels::default();
    world.put(bare.clone(), 0);
    world.budget("b", &json!({"minAvailable": 0, "selector": {}}));
    while world.sync(0) > 0 {}
    assert_eq!(world.allowed("b"), 1);
    bare.metadata.name = "q".into();
    world.put(bare, 0);
    while world.sync(0) > 0 {}
    assert_eq!(world.allowed("b"), 2);
    // An absent selector selects no pods.
    world.budget("b", &json!({"minAvailable": 0}));
    while world.sync(0) > 0 {}
    assert_eq!(world.allowed("b"), 0);
}

#[test]
fn conflicts_are_retried_and_other_errors_fail_safe() {
    let mut world = World::new();
    world.put(pod("p", "web", true), 0);
    world.budget("b", &web(json!({"minAvailable": 0})));
    world.refusal = Some(ApiError::status(409, Reason::Conflict, "changed"));
    world.sync(0);
    assert_eq!(world.requests, ["PodDisruptionBudget b"]);
    assert_eq!(world.allowed("b"), 0);
    let due_ns = world.controller.queue().next_due().expect("a retry");
    assert_eq!(due_ns, 5_000_000);
    world.sync(1);
    assert_eq!(world.allowed("b"), 1);
    world.sync(1);
    world.put(pod("q", "web", true), 1);
    world.refusal = Some(ApiError::status(500, Reason::InternalError, "boom"));
    world.requests.clear();
    world.sync(1);
    assert_eq!(
        world.requests.len(),
        2,
        "the second write must be the fail-safe one"
    );
    let status = Budget::from_object(&world.cached("b")).status;
    let condition = status.condition().expect("the status must be written");
    assert_eq!(
        (&*condition.reason, &*condition.message),
        ("SyncFailed", "boom")
    );
    assert_eq!((status.disruptions_allowed, status.current_healthy), (0, 1));
}

#[test]
fn the_scale_of_an_uncached_controller_is_read_once_per_sync() {
    let mut world = World::new();
    let meta = ObjectMeta {
        name: "db".into(),
        uid: Uid::new("u"),
        ..ObjectMeta::default()
    };
    let owner = Arc::new(Kind::REPLICA_SET.controller_reference(&meta));
    for name in ["p", "q"] {
        let mut owned = pod(name, "web", true);
        owned.metadata.owner_references.push(Arc::clone(&owner));
        world.put(owned, 0);
    }
    world.budget("b", &web(json!({"maxUnavailable": 1})));
    world.sync(0);
    assert_eq!(world.requests, ["scale db", "PodDisruptionBudget b"]);
    assert_eq!(
        world.events,
        [
            "CalculateExpectedPodCountFailed Failed to calculate the number of expected pods: found \
          no controllers for pod \"p\""
        ]
    );
    world.scale = Some(2);
    world.sync(0);
    assert_eq!(world.allowed("b"), 1);
}

#[test]
fn an_undeleted_pod_loses_the_condition_after_two_minutes() {
    let mut world = World::new();
    world.put(evicted(&pod("p", "web", true), at(0)), 0);
    assert_eq!(world.controller.targets().next_due(), Some(at(120).mono_ns));
    assert_eq!(world.sync(119), 0);
    world.refusal = Some(ApiError::status(409, Reason::Conflict, "changed"));
    assert_eq!(world.sync(120), 1);
    assert_eq!(world.sync(121), 1, "a conflict is retried");
    assert_eq!(world.requests, ["Pod p", "Pod p"]);
    let spared = world.pods.get("ns", "p").unwrap();
    assert_eq!(stale_from_ns(&spared), None);
    assert_eq!(world.sync(500), 0);
}

#[test]
fn keys_are_reused_when_the_condition_is_gone() {
    let mut world = World::new();
    for number in 0..100 {
        let name = format!("p{number}");
        world.put(evicted(&pod(&name, "web", true), at(number)), number);
        world.delete(&name, number);
    }
    assert_eq!(world.controller.0.lock().targets.keys(), 1);
    // The key is due for pods that no longer exist, and the sync does nothing for them.
    assert!(world.sync(1_000) <= 1);
    assert!(world.requests.is_empty());
}

#[test]
fn a_listed_pod_counts_like_a_watched_one() {
    let mut world = World::new();
    world.budget("b", &web(json!({"minAvailable": 0})));
    let pods = vec![
        Arc::new(pod("p", "web", true)),
        Arc::new(evicted(&pod("q", "web", true), at(0))),
    ];
    let listed = world.pods.replace(pods, &ResourceVersion::default());
    assert!(!listed.runs.is_empty(), "the pods must come in runs");
    world.controller.pods_listed(&listed, at(0));
    while world.sync(0) > 0 {}
    assert_eq!(world.allowed("b"), 2);
    assert_eq!(world.controller.targets().delayed(), 1);
    let listed = world.pods.replace(Vec::new(), &ResourceVersion::default());
    world.controller.pods_listed(&listed, at(1));
    while world.sync(1) > 0 {}
    assert_eq!(world.allowed("b"), 0);
}

/// A sync reads only evicted pods, and a change of a pod reads only that pod, regardless of the
/// number of pods in the budget, its namespace and the cluster.
#[test]
fn a_sync_costs_the_changes_not_the_number_of_pods() {
    for others in [0, 5_000] {
        let mut world = World::new();
        for number in 0..others {
            let mut other = pod(&format!("o{number}"), "other", true);
            if number % 2 == 0 {
                other.metadata.namespace = "elsewhere".into();
                other.metadata.labels = Labels::from_pairs([("app", "web")]);
            }
            world.put(other, 0);
        }
        for number in 0..50 {
            world.put(pod(&format!("p{number}"), "web", true), 0);
        }
        let looked = |world: &mut World, work: &dyn Fn(&mut World)| {
            let before = looks();
            work(world);
            looks() - before
        };
        let made = looked(&mut world, &|world| {
            world.budget("b", &web(json!({"minAvailable": 0})));
        });
        assert_eq!(
            made, 50,
            "a new budget must read only its own pods, not the {others} others"
        );
        let synced = looked(&mut world, &|world| while world.sync(0) > 0 {});
        assert_eq!(synced, 0);
        let changed = looked(&mut world, &|world| {
            world.put(pod("p7", "web", false), 1);
            while world.sync(1) > 0 {}
        });
        assert_eq!(changed, 2, "the old state and the new one");
        assert_eq!(world.allowed("b"), 49);
        let other = looked(&mut world, &|world| {
            world.put(pod("o1", "other", false), 1);
            while world.sync(1) > 0 {}
        });
        assert_eq!(other, 0);
    }
}

#[test]
fn the_row_names_the_requests_and_reads_every_pod() {
    let row = Disruption::ROW;
    assert!(row.may_send("update", Kind::POD_DISRUPTION_BUDGET, "status"));
    assert!(row.may_send("update", Kind::POD, "status"));
    assert!(!row.may_send("update", Kind::POD_DISRUPTION_BUDGET, ""));
    assert_eq!(row.watched().next(), Some(Kind::POD_DISRUPTION_BUDGET));
    assert!(row.served_only);
}
