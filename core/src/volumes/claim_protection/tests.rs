//! Tests of when the protection of a claim ends.

use podstorm_objects::{AnyObject, DynamicObject, Resource as _, ResourceVersion};
use podstorm_runtime::driver::{AsyncSync, Driver, sync_all};
use podstorm_runtime::informer::AnyInformer;
use serde_json::{Value, json};

use super::*;
use crate::cache::Delta;

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 0,
};

struct World {
    controller: Arc<ClaimProtection>,
    claims: Arc<dyn AnyInformer>,
    pods: Arc<PodCache>,
    driver: Driver<AsyncSync>,
    /// The pods on the server. The cache may lack some of them.
    live: Vec<AnyObject>,
    requests: Vec<String>,
}

fn pod(name: &str, node: Option<&str>, claim: &str) -> Arc<Pod> {
    let volumes = json!([{"name": "d", "persistentVolumeClaim": {"claimName": claim}},
        {"name": "e", "emptyDir": {}}]);
    let mut pod = json!({"metadata": {"namespace": "ns", "name": name, "uid": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}});
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    Arc::new(Pod::from_json(pod).expect("a pod"))
}

impl World {
    fn new() -> World {
        let mut informers = Informers::new(Arc::default());
        let make = PersistentVolumeClaimProtection::make;
        World {
            controller: make(&Setup::default(), &mut informers),
            claims: informers.take(Kind::PERSISTENT_VOLUME_CLAIM),
            pods: Arc::clone(informers.pods()),
            driver: Driver::default(),
            live: Vec::new(),
            requests: Vec::new(),
        }
    }

    fn claim(&self, deleted: Value, finalizers: Value) {
        let claim = json!({"metadata": {"namespace": "ns", "name": "data", "uid": "u",
            "deletionTimestamp": deleted, "finalizers": finalizers}});
        let claim = DynamicObject::from_json(Kind::PERSISTENT_VOLUME_CLAIM, claim);
        self.claims
            .apply(Delta::Applied(Arc::new(claim.expect("a claim"))), NOW);
    }

    fn delete(&self) {
        self.claim(json!("2027-01-15T08:00:00Z"), json!([FINALIZER]));
    }

    fn put(&self, pod: Arc<Pod>) {
        let change = self.pods.apply(Delta::Applied(pod));
        self.controller.pod_changed(&change, NOW);
    }

    fn remove(&self, pod: Arc<Pod>) {
        let change = self.pods.apply(Delta::Deleted(pod));
        self.controller.pod_changed(&change, NOW);
    }

    /// Syncs the keys that are due. Returns the requests.
    fn sync(&mut self) -> Vec<String> {
        let World {
            controller,
            driver,
            live,
            requests,
            ..
        } = self;
        let mut server = |request: &Request, _: Now| match request {
            Request::List { .. } => {
                requests.push("list".to_owned());
                Answer::List {
                    items: live.clone(),
                    version: ResourceVersion::from(9),
                }
            }
            Request::Put { object } => {
                requests.push(format!("put {:?}", object.metadata().finalizers()));
                Answer::Object(object.clone())
            }
            other => panic!("{other:?}"),
        };
        sync_all(&**controller, driver, &mut server, NOW, |_| {});
        std::mem::take(requests)
    }
}

const LET_GO: [&str; 2] = ["list", "put []"];

#[test]
fn a_claim_is_kept_while_a_scheduled_pod_names_it() {
    let mut world = World::new();
    world.claim(Value::Null, json!([]));
    assert_eq!(world.sync(), [format!("put [{FINALIZER:?}]")]);
    world.put(pod("a", Some("n"), "data"));
    world.put(pod("b", Some("n"), "other"));
    world.delete();
    assert_eq!(world.sync(), [""; 0]);
    world.remove(pod("b", Some("n"), "other"));
    assert_eq!(world.sync(), [""; 0]);
    world.remove(pod("a", Some("n"), "data"));
    assert_eq!(world.sync(), LET_GO);
}

#[test]
fn a_pod_without_a_node_holds_no_claim() {
    let mut world = World::new();
    world.put(pod("a", None, "data"));
    world.delete();
    assert_eq!(world.sync(), LET_GO);
}

#[test]
fn a_pod_that_is_only_on_the_server_holds_its_claim() {
    let mut world = World::new();
    let unseen = pod("a", Some("n"), "data");
    world.live.push(unseen.clone());
    world.delete();
    assert_eq!(world.sync(), ["list"]);
    world.live.clear();
    world.put(unseen.clone());
    world.remove(unseen);
    assert_eq!(world.sync(), LET_GO);
}

#[test]
fn pods_listed_into_an_empty_cache_count() {
    let mut world = World::new();
    let listed = world
        .pods
        .replace(vec![pod("a", Some("n"), "data")], &ResourceVersion::from(3));
    world.controller.pods_listed(&listed, NOW);
    world.delete();
    assert_eq!(world.sync(), [""; 0]);
}
