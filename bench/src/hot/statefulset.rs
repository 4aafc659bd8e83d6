//! StatefulSets: syncs with nothing to do, and whole sets on the virtual engine, which are created,
//! rolled out and scaled in.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, Request};
use podstorm::driver::{AsyncSync, Driver, Progress, SyncState as _};
use podstorm::informer::Informers;
use podstorm::object::{AnyObject, DynamicObject, Kind, Object as _, Pod, Resource as _};
use podstorm::statefulset::{Controller, ControllerOptions};
use podstorm_sim::engine::Harness;
use serde_json::{Value, json};

use super::job::cluster;
use crate::clusters::NOW;

const SECOND_NS: i64 = 1_000_000_000;

/// A StatefulSet controller over caches that show each write immediately.
struct Cached {
    informers: Informers,
    controller: Controller,
    driver: Driver<AsyncSync>,
    version: u64,
    /// The StatefulSet as it was last stored.
    set: Option<AnyObject>,
}

impl Cached {
    fn new() -> Cached {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(ControllerOptions::default(), &mut informers);
        Cached {
            informers,
            controller,
            driver: Driver::default(),
            version: 0,
            set: None,
        }
    }

    /// Stores an object and shows it to the controller. Pods become running and ready immediately.
    fn put(&mut self, kind: Kind, mut object: Value) -> AnyObject {
        self.version += 1;
        let meta = &mut object["metadata"];
        meta["namespace"] = "shop".into();
        meta["resourceVersion"] = self.version.to_string().into();
        meta["uid"] = format!("{}/{}", kind.name(), meta["name"]).into();
        if kind == Kind::POD {
            object["status"] = json!({"phase": "Running",
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-01T00:00:00Z"}]});
            let pod = Arc::new(Pod::from_json(object).expect("a readable pod"));
            self.informers
                .pods()
                .apply(Delta::Applied(Arc::clone(&pod)));
            return pod;
        }
        let object = DynamicObject::from_json(kind, object).expect("a readable object");
        let object: AnyObject = Arc::new(object);
        let store = self.informers.take(kind);
        store.apply(Delta::Applied(Arc::clone(&object)), NOW);
        if kind == Kind::STATEFUL_SET {
            self.set = Some(Arc::clone(&object));
        }
        object
    }

    /// Runs a sync whose writes succeed. Returns the number of writes.
    fn sync(&mut self) -> u64 {
        let mut driver = std::mem::take(&mut self.driver);
        let controller = self.controller.clone();
        let key = black_box(controller.key("shop", "web"));
        let mut writes = 0;
        let mut server = |request: &Request, _| {
            writes += 1;
            match request {
                Request::CreatePod { pod, .. } => {
                    let stored = self.put(Kind::POD, pod.to_json());
                    Answer::Pod(stored.downcast().expect("a pod"))
                }
                Request::Create { object } | Request::PutStatus { object } => {
                    Answer::Object(self.put(object.kind(), object.to_json()))
                }
                other => panic!("unexpected request {other:?}"),
            }
        };
        let progress = driver.begin(&controller, 0, key, &mut server, NOW);
        assert!(progress == Progress::Finished);
        assert_eq!(driver.sync.outcome_label(), "ok");
        self.driver = driver;
        writes
    }
}

/// Returns a settled set of this many pods with its caches. The set is ordered, and each pod has
/// `claims` claims.
fn settled(replicas: usize, claims: usize) -> Cached {
    let mut cached = Cached::new();
    let mut set = set("web", replicas, claims);
    // Without an order, a few syncs are sufficient to create all pods.
    set["spec"]["podManagementPolicy"] = "Parallel".into();
    cached.put(Kind::STATEFUL_SET, set);
    while cached.sync() > 0 {}
    let mut ordered = cached.set.as_ref().expect("the set is stored").to_json();
    ordered["spec"]["podManagementPolicy"] = "OrderedReady".into();
    cached.put(Kind::STATEFUL_SET, ordered);
    cached.sync();
    cached
}

/// Returns `count` running pods of a set.
pub fn pods(count: usize) -> Vec<Pod> {
    let cached = settled(count, 0);
    let pod = |ordinal: usize| {
        let pods = cached.informers.pods();
        let pod = pods.get("shop", &format!("web-{ordinal}"));
        Pod::clone(&pod.expect("the pod exists"))
    };
    (0..count).map(pod).collect()
}

/// Returns a sync, with nothing to do, of an ordered set whose pods are all running.
pub fn idle(replicas: usize, claims: usize) -> impl FnMut() -> u64 {
    let mut cached = settled(replicas, claims);
    move || {
        let writes = cached.sync();
        assert_eq!(writes, 0, "there is nothing to do");
        writes
    }
}

/// Runs `sets` sets of `replicas` pods each on the virtual engine: the sets are created, get a new
/// image, and are scaled in to one pod.
pub fn life(sets: usize, replicas: usize) -> impl FnMut() -> u64 {
    move || {
        let harness = cluster("statefulset-controller");
        let api = harness.cluster().api(Kind::STATEFUL_SET);
        let name = |number: usize| format!("web-{number}");
        for number in 0..sets {
            let set = DynamicObject::from_json(Kind::STATEFUL_SET, set(&name(number), replicas, 0));
            let set = Arc::new(set.expect("a readable set"));
            api.create(set, harness.now()).expect("a valid set");
        }
        let mut seconds = until(&harness, sets, replicas);
        let change = |change: &dyn Fn(&mut Value)| {
            for number in 0..sets {
                let stored = api.get("shop", &name(number)).expect("the set exists");
                let mut set = stored.to_json();
                change(&mut set["spec"]);
                let set = DynamicObject::from_json(Kind::STATEFUL_SET, set);
                let set = Arc::new(set.expect("a readable set"));
                api.update(set, harness.now()).expect("a valid change");
            }
        };
        change(&|spec| spec["template"]["spec"]["containers"][0]["image"] = "work:2".into());
        seconds += until(&harness, sets, replicas);
        change(&|spec| spec["replicas"] = 1.into());
        seconds + until(&harness, sets, 1)
    }
}

/// Creates an unordered set of this many pods on the virtual engine, and waits until the pods are
/// ready.
pub fn parallel(replicas: usize) -> impl FnMut() -> u64 {
    move || {
        let harness = cluster("statefulset-controller");
        let mut set = set("web-0", replicas, 0);
        set["spec"]["podManagementPolicy"] = "Parallel".into();
        let set = DynamicObject::from_json(Kind::STATEFUL_SET, set).expect("a readable set");
        let api = harness.cluster().api(Kind::STATEFUL_SET);
        api.create(Arc::new(set), harness.now())
            .expect("a valid set");
        until(&harness, 1, replicas)
    }
}

/// Advances the time until each set has this many ready pods, all of them of its newest revision.
/// Returns the number of seconds.
fn until(harness: &Harness, sets: usize, replicas: usize) -> u64 {
    let api = harness.cluster().api(Kind::STATEFUL_SET);
    let is_done = |number: usize| {
        let set = api
            .get("shop", &format!("web-{number}"))
            .expect("the set exists");
        let set = set
            .downcast_ref::<DynamicObject>()
            .expect("the set is untyped");
        let status = &set.fields["status"];
        let counts = ["replicas", "readyReplicas", "updatedReplicas"];
        status["observedGeneration"] == set.metadata.generation
            && counts.iter().all(|count| status[*count] == replicas)
    };
    let mut seconds = 0;
    while !(0..sets).all(is_done) {
        assert!(seconds < 36_000, "the sets never reach the desired state");
        harness.advance(SECOND_NS);
        seconds += 1;
    }
    seconds
}

fn set(name: &str, replicas: usize, claims: usize) -> Value {
    let labels = json!({"app": name});
    let template = |number: usize| {
        json!({"metadata": {"name": format!("data-{number}")},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let claims: Vec<Value> = (0..claims).map(template).collect();
    json!({
        "metadata": {"name": name, "namespace": "shop", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "serviceName": "",
            "podManagementPolicy": "OrderedReady", "revisionHistoryLimit": 10,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "volumeClaimTemplates": claims,
            "template": {"metadata": {"labels": labels},
                "spec": {"containers": [{"name": "c", "image": "work:1"}]}}},
    })
}
