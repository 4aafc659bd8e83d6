//! Tests of the binder with a server that stores writes. Each write reaches the caches.

use std::collections::BTreeMap;

use podstorm_objects::{AnyObject, ApiError, ResourceVersion};
use podstorm_runtime::client::{Answer, Reason, Request};
use podstorm_runtime::driver::{AsyncSync, Driver, SyncState as _, sync_all};
use podstorm_runtime::informer::AnyInformer;
use serde_json::{Value, json};

use super::*;
use crate::cache::Delta;
use crate::controller::Setup;

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 1_800_000_000_000_000_000,
};

struct World {
    binder: Arc<Binder>,
    informers: BTreeMap<&'static str, Arc<dyn AnyInformer>>,
    driver: Driver<AsyncSync>,
    stored: BTreeMap<(&'static str, String), AnyObject>,
    version: u64,
    events: Vec<String>,
}

impl World {
    fn new() -> World {
        let mut informers = Informers::new(Arc::default());
        let binder = PersistentVolumeBinder::make(&Setup::default(), &mut informers);
        let kinds = [
            Kind::PERSISTENT_VOLUME_CLAIM,
            Kind::PERSISTENT_VOLUME,
            Kind::STORAGE_CLASS,
        ];
        World {
            binder,
            informers: kinds.map(|kind| (kind.name(), informers.take(kind))).into(),
            driver: Driver::default(),
            stored: BTreeMap::new(),
            version: 10,
            events: Vec::new(),
        }
    }

    /// Writes an object as a client, and runs the syncs that follow.
    fn put(&mut self, kind: Kind, json: Value) {
        self.version += 1;
        let mut object = DynamicObject::from_json(kind, json).expect("a readable object");
        object.metadata.resource_version = ResourceVersion::from(self.version);
        self.store(Arc::new(object));
        self.settle();
    }

    fn store(&mut self, object: AnyObject) {
        let key = (object.kind().name(), object.metadata().name.to_string());
        self.stored.insert(key.clone(), object.clone());
        self.informers[key.0].apply(Delta::Applied(object), NOW);
    }

    fn delete(&mut self, kind: Kind, name: &str) {
        let gone = self.stored.remove(&(kind.name(), name.to_owned()));
        let gone = gone.expect("the object must exist");
        self.informers[kind.name()].apply(Delta::Deleted(gone), NOW);
        self.settle();
    }

    fn settle(&mut self) {
        for _ in 0..20 {
            let mut written: Vec<AnyObject> = Vec::new();
            let World {
                binder,
                driver,
                stored,
                version,
                events,
                ..
            } = self;
            let mut server = |request: &Request, _: Now| match request {
                Request::Put { object } | Request::PutStatus { object } => {
                    let name = object.metadata().name.to_string();
                    let key = (object.kind().name(), name);
                    let Some(known) = stored.get(&key) else {
                        return Answer::Failed(ApiError::status(404, Reason::NotFound, "gone"));
                    };
                    let newest = &known.metadata().resource_version;
                    if *newest != object.metadata().resource_version {
                        return Answer::Failed(ApiError::status(409, Reason::Conflict, "stale"));
                    }
                    *version += 1;
                    let new = object
                        .downcast_ref::<DynamicObject>()
                        .expect("the object is dynamic");
                    let mut new = new.clone();
                    let part = match request {
                        Request::Put { .. } => "status",
                        _ => "spec",
                    };
                    // A write of the status keeps the rest of the object, and the reverse.
                    let known = known
                        .downcast_ref::<DynamicObject>()
                        .expect("the object is dynamic");
                    match known.fields.get(part) {
                        Some(kept) => drop(new.fields.insert(part.to_owned(), kept.clone())),
                        None => drop(new.fields.remove(part)),
                    }
                    new.metadata.resource_version = ResourceVersion::from(*version);
                    let new: AnyObject = Arc::new(new);
                    stored.insert(key, new.clone());
                    written.push(new.clone());
                    Answer::Object(new)
                }
                Request::Get { kind, name, .. } => {
                    match stored.get(&(kind.name(), name.to_string())) {
                        Some(object) => Answer::Object(object.clone()),
                        None => Answer::Failed(ApiError::status(404, Reason::NotFound, "gone")),
                    }
                }
                other => panic!("unexpected request: {other:?}"),
            };
            let syncs = sync_all(&**binder, driver, &mut server, NOW, |sync| {
                let made = sync.events().drain(..);
                events.extend(made.map(|event| format!("{} {}", event.reason, event.message)));
            });
            if syncs == 0 {
                return;
            }
            for object in written {
                self.informers[object.kind().name()].apply(Delta::Applied(object), NOW);
            }
        }
        panic!("the binder does not settle");
    }

    fn get(&self, kind: Kind, name: &str) -> Value {
        self.stored[&(kind.name(), name.to_owned())].to_json()
    }

    fn phase(&self, kind: Kind, name: &str) -> String {
        let phase = self.get(kind, name)["status"]["phase"].clone();
        phase.as_str().unwrap_or("").to_owned()
    }

    fn class(&mut self, name: &str, over: Value) {
        let mut class = json!({"metadata": {"name": name}, "provisioner": "disks.example",
            "volumeBindingMode": "Immediate"});
        lay(&mut class, over);
        self.put(Kind::STORAGE_CLASS, class);
    }

    fn claim(&mut self, name: &str, over: Value) {
        let mut claim = json!({"metadata": {"namespace": "ns", "name": name, "uid": format!("{name}-1")},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "2Gi"}},
                "storageClassName": "manual"}, "status": {"phase": "Pending"}});
        lay(&mut claim, over);
        self.put(Kind::PERSISTENT_VOLUME_CLAIM, claim);
    }

    fn volume(&mut self, name: &str, size: &str, over: Value) {
        let mut volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "storageClassName": "manual",
            "persistentVolumeReclaimPolicy": "Retain"}, "status": {"phase": "Pending"}});
        lay(&mut volume, over);
        self.put(Kind::PERSISTENT_VOLUME, volume);
    }
}

fn lay(on: &mut Value, over: Value) {
    match (on, over) {
        (Value::Object(on), Value::Object(over)) => {
            for (name, value) in over {
                lay(on.entry(name).or_insert(Value::Null), value);
            }
        }
        (on, over) => *on = over,
    }
}

const CLAIM: Kind = Kind::PERSISTENT_VOLUME_CLAIM;
const VOLUME: Kind = Kind::PERSISTENT_VOLUME;

#[test]
fn a_claim_gets_the_smallest_suitable_volume_in_any_order() {
    let mut world = World::new();
    world.volume("large", "9Gi", json!({}));
    world.volume("small", "1Gi", json!({}));
    world.volume("fits", "3Gi", json!({}));
    world.volume(
        "other",
        "2Gi",
        json!({"spec": {"storageClassName": "fast"}}),
    );
    assert_eq!(world.phase(VOLUME, "fits"), "Available");
    world.claim("a", json!({}));
    let (claim, volume) = (world.get(CLAIM, "a"), world.get(VOLUME, "fits"));
    assert_eq!(claim["spec"]["volumeName"], "fits");
    assert_eq!(
        claim["metadata"]["annotations"],
        json!({"pv.kubernetes.io/bind-completed": "yes", "pv.kubernetes.io/bound-by-controller": "yes"})
    );
    assert_eq!(
        claim["status"],
        json!({"phase": "Bound", "capacity": {"storage": "3Gi"},
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"]})
    );
    let reference = &volume["spec"]["claimRef"];
    assert_eq!(
        (&reference["name"], &reference["uid"]),
        (&json!("a"), &json!("a-1"))
    );
    assert_eq!(volume["status"]["phase"], "Bound");
    // The next claim waits for a volume.
    world.claim(
        "b",
        json!({"spec": {"resources": {"requests": {"storage": "10Gi"}}}}),
    );
    assert_eq!(world.phase(CLAIM, "b"), "Pending");
    world.volume("huge", "20Gi", json!({}));
    assert_eq!(world.get(CLAIM, "b")["spec"]["volumeName"], "huge");
    assert_eq!(world.phase(VOLUME, "huge"), "Bound");
}

#[test]
fn a_volume_must_meet_every_requirement() {
    for (over, suits) in [
        (json!({}), true),
        (json!({"accessModes": ["ReadWriteMany"]}), false),
        (json!({"accessModes": ["ReadOnlyMany"]}), true),
        (json!({"volumeMode": "Block"}), false),
        (json!({"selector": {"matchLabels": {"tier": "gold"}}}), true),
        (
            json!({"selector": {"matchLabels": {"tier": "lead"}}}),
            false,
        ),
        (
            json!({"selector": {"matchExpressions": [{"key": "tier", "operator": "Huh"}]}}),
            false,
        ),
    ] {
        let mut world = World::new();
        world.volume(
            "v",
            "3Gi",
            json!({"metadata": {"labels": {"tier": "gold"}}}),
        );
        world.claim("a", json!({"spec": over}));
        assert_eq!(world.phase(CLAIM, "a") == "Bound", suits, "{over}");
    }
}

#[test]
fn unsuitable_volumes_are_skipped_for_larger_ones() {
    let mut world = World::new();
    let gold = json!({"metadata": {"labels": {"tier": "gold"}}});
    world.volume("a-plain", "2Gi", json!({}));
    world.volume("largest", "5Gi", gold.clone());
    world.volume("second", "3Gi", gold.clone());
    world.volume("first", "3Gi", gold);
    world.volume("block", "2Gi", json!({"spec": {"volumeMode": "Block"}}));
    let wish = json!({"spec": {"selector": {"matchLabels": {"tier": "gold"}}}});
    for (claim, volume) in [("a", "first"), ("b", "second"), ("c", "largest")] {
        world.claim(claim, wish.clone());
        assert_eq!(world.get(CLAIM, claim)["spec"]["volumeName"], volume);
    }
    world.claim("d", wish);
    assert_eq!(world.phase(CLAIM, "d"), "Pending");
    world.claim("e", json!({}));
    assert_eq!(world.get(CLAIM, "e")["spec"]["volumeName"], "a-plain");
}

#[test]
fn a_reserved_volume_waits_only_for_its_claim() {
    let mut world = World::new();
    let reference = json!({"spec": {"claimRef": {"namespace": "ns", "name": "mine"}}});
    world.volume("kept", "3Gi", reference);
    assert_eq!(world.phase(VOLUME, "kept"), "Available");
    world.claim("other", json!({}));
    assert_eq!(world.phase(CLAIM, "other"), "Pending");
    world.volume("tight", "2Gi", json!({}));
    assert_eq!(world.get(CLAIM, "other")["spec"]["volumeName"], "tight");
    world.claim("mine", json!({}));
    assert_eq!(world.get(CLAIM, "mine")["spec"]["volumeName"], "kept");
    let annotations = world.get(VOLUME, "kept")["metadata"]["annotations"].clone();
    assert_eq!(annotations, Value::Null, "a user has reserved the volume");
}

#[test]
fn a_claim_that_names_a_volume_gets_only_that_one() {
    let mut world = World::new();
    world.volume("v", "1Gi", json!({}));
    world.volume("w", "3Gi", json!({}));
    world.claim("a", json!({"spec": {"volumeName": "v"}}));
    assert_eq!(world.phase(CLAIM, "a"), "Pending");
    let told = "VolumeMismatch Cannot bind to requested volume \"v\": requested PV is too small";
    assert!(
        world.events.contains(&told.to_owned()),
        "{:?}",
        world.events
    );
    world.claim("b", json!({"spec": {"volumeName": "w"}}));
    assert_eq!(world.phase(CLAIM, "b"), "Bound");
    let annotations = world.get(CLAIM, "b")["metadata"]["annotations"].clone();
    assert_eq!(
        annotations,
        json!({"pv.kubernetes.io/bind-completed": "yes"})
    );
    world.claim("c", json!({"spec": {"volumeName": "w"}}));
    assert_eq!(world.phase(CLAIM, "c"), "Pending");
    let told = "FailedBinding volume \"w\" already bound to a different claim.";
    assert!(
        world.events.contains(&told.to_owned()),
        "{:?}",
        world.events
    );
    world.claim("d", json!({"spec": {"volumeName": "x"}}));
    assert_eq!(world.phase(CLAIM, "d"), "Pending");
    world.volume(
        "x",
        "2Gi",
        json!({"spec": {"claimRef": {"namespace": "ns", "name": "d"}}}),
    );
    assert_eq!(world.phase(CLAIM, "d"), "Bound");
}

#[test]
fn a_class_decides_who_creates_volumes_and_when() {
    let mut world = World::new();
    world.claim("a", json!({"spec": {"storageClassName": "fast"}}));
    let told = "ProvisioningFailed storageclass.storage.k8s.io \"fast\" not found";
    assert_eq!(world.events, [told]);
    world.class("fast", json!({}));
    let asked = |world: &World, claim: &str| {
        let annotations = &world.get(CLAIM, claim)["metadata"]["annotations"];
        annotations["volume.kubernetes.io/storage-provisioner"].clone()
    };
    assert_eq!(asked(&world, "a"), "disks.example");
    assert!(world.events[1].starts_with("ExternalProvisioning Waiting for a volume to be created"));
    // The provisioner creates the volume.
    world.volume(
        "pvc-a",
        "2Gi",
        json!({"spec": {"storageClassName": "fast",
        "claimRef": {"namespace": "ns", "name": "a", "uid": "a-1"}}}),
    );
    assert_eq!(world.get(CLAIM, "a")["spec"]["volumeName"], "pvc-a");
    assert_eq!(world.phase(VOLUME, "pvc-a"), "Bound");

    world.class("late", json!({"volumeBindingMode": "WaitForFirstConsumer"}));
    world.volume("free", "3Gi", json!({"spec": {"storageClassName": "late"}}));
    world.claim("b", json!({"spec": {"storageClassName": "late"}}));
    assert_eq!(
        (world.phase(CLAIM, "b"), asked(&world, "b")),
        ("Pending".into(), Value::Null)
    );
    let told = "WaitForFirstConsumer waiting for first consumer to be created before binding";
    assert_eq!(world.events.last().map(String::as_str), Some(told));
    let selected = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "n"}},
        "spec": {"storageClassName": "late"}});
    world.claim("c", selected);
    assert_eq!(asked(&world, "c"), "disks.example");
    assert_eq!(
        world.phase(VOLUME, "free"),
        "Available",
        "the scheduler assigns the volumes of a class that waits"
    );
    let reserved = json!({"spec": {"storageClassName": "late",
        "claimRef": {"namespace": "ns", "name": "b", "uid": "b-1"}}});
    world.volume("free", "3Gi", reserved);
    assert_eq!(world.get(CLAIM, "b")["spec"]["volumeName"], "free");

    world.class(
        "hand",
        json!({"provisioner": "kubernetes.io/no-provisioner"}),
    );
    world.claim("d", json!({"spec": {"storageClassName": "hand"}}));
    assert_eq!(asked(&world, "d"), Value::Null);
}

#[test]
fn a_claim_without_a_class_gets_the_default_one() {
    let mut world = World::new();
    world.claim("a", json!({"spec": {"storageClassName": null}}));
    world.claim("none", json!({"spec": {"storageClassName": ""}}));
    let why =
        "FailedBinding no persistent volumes available for this claim and no storage class is set";
    assert_eq!(world.events, [why, why]);
    let default = |at: &str| {
        json!({"metadata": {"creationTimestamp": at,
            "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
    };
    world.class("old", default("2027-01-01T00:00:00Z"));
    let class =
        |world: &World, claim: &str| world.get(CLAIM, claim)["spec"]["storageClassName"].clone();
    assert_eq!(class(&world, "a"), "old");
    assert_eq!(class(&world, "none"), "", "the claim wants no class");
    world.class("new", default("2027-01-02T00:00:00Z"));
    world.claim("b", json!({"spec": {"storageClassName": null}}));
    assert_eq!(class(&world, "b"), "new");
}

#[test]
fn losing_one_side_releases_a_volume_or_loses_a_claim() {
    let mut world = World::new();
    world.volume("v", "3Gi", json!({}));
    world.claim("a", json!({}));
    world.delete(CLAIM, "a");
    assert_eq!(world.phase(VOLUME, "v"), "Released");
    // A new claim of the same name is a different claim.
    world.claim("a", json!({"metadata": {"uid": "a-2"}}));
    assert_eq!(world.phase(CLAIM, "a"), "Pending");
    assert_eq!(world.phase(VOLUME, "v"), "Released");
    // If a user removes the `claimRef` of a volume, the volume is bound to the waiting claim.
    let mut freed = world.get(VOLUME, "v");
    freed["spec"]["claimRef"] = Value::Null;
    world.put(VOLUME, freed);
    assert_eq!(world.phase(CLAIM, "a"), "Bound");
    world.delete(VOLUME, "v");
    assert_eq!(world.phase(CLAIM, "a"), "Lost");
    let told = "ClaimLost Bound claim has lost its PersistentVolume. Data on the volume is lost!";
    assert_eq!(world.events.last().map(String::as_str), Some(told));
}

#[test]
fn one_of_two_volumes_for_a_claim_is_released() {
    for (over, phase) in [
        (json!({}), "Available"),
        (
            json!({"metadata": {"annotations": {"pv.kubernetes.io/provisioned-by": "disks.example"}},
            "spec": {"persistentVolumeReclaimPolicy": "Delete"}}),
            "Released",
        ),
    ] {
        let mut world = World::new();
        world.volume("v", "3Gi", json!({}));
        world.claim("a", json!({}));
        let mut late = json!({"metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": {"namespace": "ns", "name": "a", "uid": "a-1"}}});
        lay(&mut late, over);
        world.volume("late", "3Gi", late);
        assert_eq!(world.phase(VOLUME, "late"), phase);
        assert_eq!(world.phase(VOLUME, "v"), "Bound");
        assert_eq!(world.get(CLAIM, "a")["spec"]["volumeName"], "v");
    }
}

#[test]
fn two_claims_of_one_volume_are_distinguished() {
    let mut world = World::new();
    world.volume("v", "3Gi", json!({}));
    world.claim("a", json!({}));
    let completed =
        json!({"metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}});
    let mut second = completed.clone();
    second["spec"]["volumeName"] = "v".into();
    world.claim("b", second);
    assert_eq!(world.phase(CLAIM, "b"), "Lost");
    assert!(
        world
            .events
            .last()
            .expect("one")
            .starts_with("ClaimMisbound ")
    );
    world.claim("c", completed);
    assert_eq!(world.phase(CLAIM, "c"), "Lost");
}
