//! Tests of which claims are created, when, and for which pod.

use podstorm_objects::{AnyObject, ApiError, Object as _, Reason, Resource as _, ResourceVersion};
use podstorm_runtime::client::{Answer, Request};
use podstorm_runtime::driver::{AsyncSync, Driver, SyncState as _, sync_all};
use podstorm_runtime::informer::AnyInformer;
use serde_json::json;

use super::*;
use crate::cache::Delta;

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 0,
};

struct World {
    controller: Arc<PodVolumes>,
    claims: Arc<dyn AnyInformer>,
    pods: Arc<PodCache>,
    driver: Driver<AsyncSync>,
    /// Whether the next create must be refused.
    refuses: bool,
    created: Vec<Value>,
    events: Vec<String>,
    failures: Vec<String>,
}

/// Builds a pod with one volume that needs a claim, and other volumes.
fn pod(name: &str, uid: &str, volume: &str) -> Arc<Pod> {
    let template = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let volumes = json!([{"name": "e", "emptyDir": {}},
        {"name": volume, "ephemeral": {"volumeClaimTemplate": template}},
        {"name": "p", "persistentVolumeClaim": {"claimName": "other"}}]);
    let pod = json!({"metadata": {"namespace": "ns", "name": name, "uid": uid},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}});
    Arc::new(Pod::from_json(pod).expect("a pod"))
}

fn deleted(pod: &Arc<Pod>) -> Arc<Pod> {
    let mut json = pod.to_json();
    json["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z".into();
    Arc::new(Pod::from_json(json).expect("a pod"))
}

impl World {
    fn new() -> World {
        let mut informers = Informers::new(Arc::default());
        let make = EphemeralVolumes::make;
        World {
            controller: make(&Setup::default(), &mut informers),
            claims: informers.take(Kind::PERSISTENT_VOLUME_CLAIM),
            pods: Arc::clone(informers.pods()),
            driver: Driver::default(),
            refuses: false,
            created: Vec::new(),
            events: Vec::new(),
            failures: Vec::new(),
        }
    }

    fn put(&self, pod: &Arc<Pod>) {
        let change = self.pods.apply(Delta::Applied(Arc::clone(pod)));
        self.controller.pod_changed(&change, NOW);
    }

    fn remove(&self, pod: &Arc<Pod>) {
        let change = self.pods.apply(Delta::Deleted(Arc::clone(pod)));
        self.controller.pod_changed(&change, NOW);
    }

    /// Adds or removes a claim. The pod with the UID `owner` owns it, if that is given.
    fn claim(&self, name: &str, owner: Option<&str>, is_there: bool) {
        let owners: Vec<Value> = owner
            .map(|uid| json!({"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": uid, "controller": true}))
            .into_iter()
            .collect();
        let claim = json!({"metadata": {"namespace": "ns", "name": name, "uid": name,
            "ownerReferences": owners}});
        let claim = DynamicObject::from_json(Kind::PERSISTENT_VOLUME_CLAIM, claim);
        let claim: AnyObject = Arc::new(claim.expect("a claim"));
        let delta = match is_there {
            true => Delta::Applied(claim),
            false => Delta::Deleted(claim),
        };
        self.claims.apply(delta, NOW);
    }

    /// Syncs the keys that are due. Returns the names of the created claims.
    fn sync(&mut self) -> Vec<String> {
        let World {
            controller,
            driver,
            claims,
            refuses,
            created,
            events,
            failures,
            ..
        } = self;
        let mut names = Vec::new();
        let mut server = |request: &Request, _: Now| {
            let Request::Create { object } = request else {
                panic!("unexpected request: {request:?}");
            };
            if std::mem::take(refuses) {
                return Answer::Failed(ApiError::status(403, Reason::Forbidden, "exceeded quota"));
            }
            names.push(object.metadata().name.to_string());
            created.push(object.to_json());
            claims.apply(Delta::Applied(object.clone()), NOW);
            Answer::Object(object.clone())
        };
        sync_all(&**controller, driver, &mut server, NOW, |sync| {
            let made = sync.events().drain(..);
            events.extend(made.map(|event| format!("{} {}", event.reason, event.message)));
            failures.extend(sync.failure().map(|it| it.message.clone()));
        });
        names
    }
}

const FOREIGN: &str =
    "ephemeral volume v: PVC ns/web-v was not created for pod ns/web (pod is not owner)";

#[test]
fn a_pod_gets_the_claim_of_its_template() {
    let mut world = World::new();
    world.put(&pod("web", "u1", "v"));
    assert_eq!(world.sync(), ["web-v"]);
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u1",
        "controller": true, "blockOwnerDeletion": true});
    let claim = &world.created[0];
    let meta = &claim["metadata"];
    assert_eq!(
        (&meta["namespace"], &meta["name"]),
        (&json!("ns"), &json!("web-v"))
    );
    assert_eq!(
        (&meta["labels"], &meta["annotations"]),
        (&json!({"a": "b"}), &json!({"c": "d"}))
    );
    assert_eq!(meta["ownerReferences"], json!([owner]));
    let spec =
        json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    assert_eq!(claim["spec"], spec);
    assert_eq!(world.sync(), [""; 0]);
    assert_eq!(world.events, [""; 0]);
}

#[test]
fn a_claim_is_recreated_while_its_pod_lives() {
    let mut world = World::new();
    let pod = pod("web", "u1", "v");
    world.put(&pod);
    world.sync();
    world.claim("web-v", Some("u1"), false);
    assert_eq!(world.sync(), ["web-v"]);
    world.put(&deleted(&pod));
    world.claim("web-v", Some("u1"), false);
    assert_eq!(world.sync(), [""; 0]);
    world.remove(&pod);
    world.claim("web-v", Some("u1"), false);
    assert_eq!(world.sync(), [""; 0]);
}

#[test]
fn a_pod_waits_for_a_foreign_claim_of_that_name() {
    let mut world = World::new();
    world.claim("web-v", None, true);
    world.put(&pod("web", "u1", "v"));
    assert_eq!(world.sync(), [""; 0]);
    assert_eq!(world.events, [format!("FailedBinding {FOREIGN}")]);
    assert_eq!(world.failures, [format!("pod ns/web, {FOREIGN}")]);
    assert!(world.controller.queues()[0].next_due().is_some());
    world.claim("web-v", None, false);
    assert_eq!(world.sync(), ["web-v"]);
    // A claim of an earlier pod of the same name does not belong to this pod.
    let mut world = World::new();
    world.claim("web-v", Some("u0"), true);
    world.put(&pod("web", "u1", "v"));
    world.sync();
    assert_eq!(world.failures.len(), 1);
}

#[test]
fn two_pods_can_need_a_claim_of_one_name() {
    let mut world = World::new();
    world.put(&pod("a-b", "u1", "c"));
    world.put(&pod("a", "u2", "b-c"));
    assert_eq!(world.sync(), ["a-b-c"]);
    assert_eq!(
        world.created[0]["metadata"]["ownerReferences"][0]["name"],
        "a"
    );
    let event = "FailedBinding ephemeral volume c: PVC ns/a-b-c was not created for pod ns/a-b (pod is not owner)";
    assert_eq!(world.events, [event]);
    // The pod that owns the claim is deleted, and the claim with it.
    world.remove(&pod("a", "u2", "b-c"));
    world.claim("a-b-c", Some("u2"), false);
    assert_eq!(world.sync(), ["a-b-c"]);
    assert_eq!(
        world.created[1]["metadata"]["ownerReferences"][0]["name"],
        "a-b"
    );
}

#[test]
fn a_refused_claim_is_reported_and_retried() {
    let mut world = World::new();
    world.refuses = true;
    world.put(&pod("web", "u1", "v"));
    assert_eq!(world.sync(), [""; 0]);
    let event = "FailedBinding ephemeral volume v: create PVC web-v: exceeded quota";
    assert_eq!(world.events, [event]);
    assert!(world.controller.queues()[0].next_due().is_some());
}

#[test]
fn pods_listed_into_an_empty_cache_count() {
    let mut world = World::new();
    let pods = vec![pod("web", "u1", "v"), deleted(&pod("late", "u2", "v"))];
    let listed = world.pods.replace(pods, &ResourceVersion::from(3));
    world.controller.pods_listed(&listed, NOW);
    assert_eq!(world.sync(), ["web-v"]);
}
