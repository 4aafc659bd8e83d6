//! Tests of both controllers with a server that stores writes, and of the requests of each sync.

use std::collections::BTreeMap;

use podstorm_objects::{
    AnyObject, ApiError, Cause, DynamicObject, Node, Resource as _, ResourceVersion,
};
use podstorm_runtime::client::{Answer, Reason, Request};
use podstorm_runtime::driver::{AsyncSync, Driver, SyncState as _, Workload, sync_all};
use podstorm_runtime::informer::AnyInformer;
use serde_json::{Value, json};

mod slices;
mod subsets;

use super::*;
use crate::cache::Delta;
use crate::controller::{ControllerType, Setup};

const SECOND_NS: i64 = 1_000_000_000;

fn at(seconds: i64) -> Now {
    Now {
        mono_ns: seconds * SECOND_NS,
        wall_ns: (1_800_000_000 + seconds) * SECOND_NS,
    }
}

/// A server that stores the kind that a controller writes, and the controller with its caches.
pub(super) struct World<C = Controller> {
    written: Kind,
    controller: Arc<C>,
    /// The caches that the controller reads, by kind.
    read: BTreeMap<Kind, Arc<dyn AnyInformer>>,
    outputs: Arc<dyn AnyInformer>,
    pods: Arc<PodCache>,
    driver: Driver<AsyncSync>,
    stored: BTreeMap<String, AnyObject>,
    version: u64,
    /// Whether writes reach the caches without further calls.
    pub(super) is_watched: bool,
    pub(super) refusal: Option<ApiError>,
    pub(super) events: Vec<String>,
    pub(super) failures: Vec<String>,
}

impl<C: Workload<Sync = AsyncSync>> World<C> {
    pub(super) fn new<T: ControllerType<Workload = C>>(written: Kind) -> World<C> {
        let mut informers = Informers::new(Arc::default());
        let controller = T::make(&Setup::default(), &mut informers);
        let read = T::ROW.watched().chain([Kind::SERVICE]);
        let read = read.filter(|kind| *kind != written);
        let outputs = informers.take(written);
        outputs.replace(Vec::new(), &ResourceVersion::from(10), at(0));
        World {
            written,
            controller,
            read: read.map(|kind| (kind, informers.take(kind))).collect(),
            outputs,
            pods: Arc::clone(informers.pods()),
            driver: Driver::default(),
            stored: BTreeMap::new(),
            version: 10,
            is_watched: true,
            refusal: None,
            events: Vec::new(),
            failures: Vec::new(),
        }
    }

    fn add_node(&self, name: &str) {
        let labels = json!({"topology.kubernetes.io/zone": "z"});
        let node = json!({"metadata": {"name": name, "labels": labels}});
        let node: AnyObject = Arc::new(Node::from_json(node).expect("a node"));
        self.read[&Kind::NODE].apply(Delta::Applied(node), at(0));
    }

    pub(super) fn service(&self, spec: Value) {
        self.labelled_service(spec, json!({}));
    }

    fn labelled_service(&self, mut spec: Value, labels: Value) {
        if spec.get("selector").is_none() {
            spec["selector"] = json!({"app": "web"});
        }
        let service = json!({"metadata": {"namespace": "ns", "name": "web", "uid": "svc",
            "labels": labels, "creationTimestamp": "2027-01-15T08:00:00Z"}, "spec": spec});
        self.apply(Kind::SERVICE, service);
    }

    /// Adds or changes an object that the controller reads.
    pub(super) fn apply(&self, kind: Kind, object: Value) {
        let object = DynamicObject::from_json(kind, object).expect("a readable object");
        self.read[&kind].apply(Delta::Applied(Arc::new(object)), at(0));
    }

    /// Deletes an object in the namespace `ns` that the controller reads.
    pub(super) fn remove(&self, kind: Kind, name: &str) {
        let object = json!({"metadata": {"namespace": "ns", "name": name}});
        let object = DynamicObject::from_json(kind, object).expect("a readable object");
        self.read[&kind].apply(Delta::Deleted(Arc::new(object)), at(0));
    }

    /// Adds a ready pod on node `n`; `over` is merged over its JSON.
    fn pod(&self, name: &str, ip: &str, over: Value) {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2027-01-15T08:00:05Z"});
        let mut pod = json!({
            "metadata": {"namespace": "ns", "name": name, "uid": name, "labels": {"app": "web"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i",
                "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}]},
            "status": {"phase": "Running", "conditions": [ready], "podIP": ip, "podIPs": [{"ip": ip}]},
        });
        lay(&mut pod, over);
        let pod = Pod::from_json(pod).expect("a pod");
        let change = self.pods.apply(Delta::Applied(Arc::new(pod)));
        self.controller.pod_changed(&change, at(0));
    }

    fn delete_pod(&self, name: &str) {
        let pod = self
            .pods
            .get("ns", name)
            .expect("the object must be cached");
        let change = self.pods.apply(Delta::Deleted(pod));
        self.controller.pod_changed(&change, at(0));
    }

    /// Syncs the keys that are due, and those that become due. Returns the requests.
    pub(super) fn sync(&mut self, seconds: i64) -> Vec<String> {
        let mut requests = Vec::new();
        loop {
            let before = requests.len();
            let mut changed = Vec::new();
            let World {
                controller,
                driver,
                stored,
                version,
                refusal,
                events,
                failures,
                ..
            } = self;
            let mut server = |request: &Request, _: Now| {
                if let Some(error) = refusal.take() {
                    return Answer::Failed(error);
                }
                *version += 1;
                let mut put = |object: &AnyObject, verb: &str| {
                    let mut new = object.downcast_ref::<DynamicObject>().expect("it").clone();
                    if new.metadata.name.is_empty() {
                        let prefix = new.metadata.generate_name.as_deref().expect("a prefix");
                        new.metadata.name = format!("{prefix}{version}").into();
                    }
                    new.metadata.resource_version = ResourceVersion::from(*version);
                    requests.push(format!("{verb} {}", new.metadata.name));
                    let new: AnyObject = Arc::new(new);
                    stored.insert(new.metadata().name.to_string(), new.clone());
                    changed.push(Delta::Applied(new.clone()));
                    Answer::Object(new)
                };
                match request {
                    Request::Create { object } => put(object, "create"),
                    Request::Put { object } => put(object, "put"),
                    Request::Delete { name, .. } => match stored.remove(&**name) {
                        Some(old) => {
                            requests.push(format!("delete {name}"));
                            let mut gone = old.downcast_ref::<DynamicObject>().expect("it").clone();
                            gone.metadata.resource_version = ResourceVersion::from(*version);
                            changed.push(Delta::Deleted(Arc::new(gone)));
                            Answer::Object(old)
                        }
                        None => Answer::Failed(ApiError::status(404, Reason::NotFound, "gone")),
                    },
                    other => panic!("unexpected request: {other:?}"),
                }
            };
            sync_all(&**controller, driver, &mut server, at(seconds), |sync| {
                let made = sync.events().drain(..);
                events.extend(made.map(|event| format!("{} {}", event.reason, event.message)));
                failures.extend(sync.failure().map(|it| it.message.clone()));
            });
            let is_over = changed.is_empty() && requests.len() == before;
            if self.is_watched {
                for delta in changed {
                    self.outputs.apply(delta, at(seconds));
                }
            }
            if is_over || !self.is_watched {
                return requests;
            }
        }
    }

    /// Returns the stored objects, sorted by name.
    pub(super) fn all(&self) -> Vec<Value> {
        self.stored
            .values()
            .map(|object| object.to_json())
            .collect()
    }

    pub(super) fn one(&self) -> Value {
        let mut all = self.all();
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }

    /// Writes an object as another client. The event reaches the caches.
    pub(super) fn meddle(&mut self, change: impl Fn(&mut DynamicObject)) {
        let old = self
            .stored
            .values()
            .next()
            .expect("there must be an object");
        let mut new = old.downcast_ref::<DynamicObject>().expect("it").clone();
        self.version += 1;
        new.metadata.resource_version = ResourceVersion::from(self.version);
        change(&mut new);
        let new: AnyObject = Arc::new(new);
        self.stored
            .insert(new.metadata().name.to_string(), new.clone());
        self.outputs.apply(Delta::Applied(new), at(0));
    }

    /// Returns the number of endpoints in each slice.
    pub(super) fn sizes(&self) -> Vec<usize> {
        let size = |slice: Value| slice["endpoints"].as_array().map_or(0, Vec::len);
        self.all().into_iter().map(size).collect()
    }
}

impl World {
    /// Creates the harness for EndpointSlices, with a node `n` in zone `z`.
    fn of_slices() -> World {
        let world = World::new::<EndpointSlices>(Kind::ENDPOINT_SLICE);
        world.add_node("n");
        world
    }

    fn of_endpoints() -> World {
        World::new::<EndpointsOfServices>(Kind::ENDPOINTS)
    }
}

pub(super) fn lay(on: &mut Value, over: Value) {
    match (on, over) {
        (Value::Object(on), Value::Object(over)) => {
            for (name, value) in over {
                lay(on.entry(name).or_insert(Value::Null), value);
            }
        }
        (on, over) => *on = over,
    }
}

fn http() -> Value {
    json!({"clusterIP": "10.96.0.9", "ipFamilies": ["IPv4"], "ports":
        [{"name": "web", "port": 80, "targetPort": "http", "protocol": "TCP"}]})
}
