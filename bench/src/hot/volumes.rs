//! The volume binder: syncs of one claim among other claims of its class.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, Request};
use podstorm::controller::{ControllerType as _, Setup};
use podstorm::driver::{AsyncSync, Driver, Progress, SyncState as _, Workload as _};
use podstorm::informer::Informers;
use podstorm::intern::KeyId;
use podstorm::object::{AnyObject, DynamicObject, Kind};
use podstorm::volumes::{Binder, PersistentVolumeBinder};
use serde_json::{Value, json};

use crate::clusters::NOW;

/// The index of the queue for claims.
const CLAIMS: usize = 0;

/// A volume binder, with a class, claims and volumes in its caches.
struct Cached {
    informers: Informers,
    binder: Arc<Binder>,
    driver: Driver<AsyncSync>,
}

impl Cached {
    fn new() -> Cached {
        let mut informers = Informers::new(Arc::default());
        let binder = PersistentVolumeBinder::make(&Setup::default(), &mut informers);
        let cached = Cached {
            informers,
            binder,
            driver: Driver::default(),
        };
        let class = json!({"metadata": {"name": "fast", "uid": "class"},
            "provisioner": "disks.example", "volumeBindingMode": "Immediate"});
        cached.add(Kind::STORAGE_CLASS, class);
        cached
    }

    fn add(&self, kind: Kind, object: Value) {
        let object = DynamicObject::from_json(kind, object).expect("a readable object");
        let object: AnyObject = Arc::new(object);
        self.informers.take(kind).apply(Delta::Applied(object), NOW);
    }

    fn key(&self, claim: &str) -> KeyId {
        let mut keys = (0..1_000_000).map(KeyId);
        let key = keys.find(|key| &*self.binder.name(CLAIMS, *key).name == claim);
        key.expect("the claim has a key")
    }

    /// Runs a sync whose writes succeed but never reach the caches. Returns the number of writes.
    fn sync(&mut self, key: KeyId) -> u64 {
        let mut count = 0;
        let mut writes = |request: &Request, _| match request {
            Request::Put { object } | Request::PutStatus { object } => {
                count += 1;
                Answer::Object(Arc::clone(object))
            }
            other => panic!("unexpected request {other:?}"),
        };
        let key = black_box(key);
        let progress = self
            .driver
            .begin(&*self.binder, CLAIMS, key, &mut writes, NOW);
        assert!(progress == Progress::Finished);
        assert_eq!(self.driver.sync.outcome_label(), "ok");
        count
    }
}

/// Returns a sync that binds a claim to the volume that was provisioned for it. `claims` claims
/// wait with such a volume.
pub fn bind(claims: usize) -> impl FnMut() -> u64 {
    let mut cached = Cached::new();
    for number in 0..claims {
        cached.add(Kind::PERSISTENT_VOLUME_CLAIM, claim(number, false));
        cached.add(Kind::PERSISTENT_VOLUME, volume(number, "Available", true));
    }
    let key = cached.key("data-0");
    move || {
        let writes = cached.sync(key);
        assert_eq!(writes, 3);
        writes
    }
}

/// Returns a sync that chooses a volume for a claim among `volumes` free volumes.
pub fn choose(volumes: usize) -> impl FnMut() -> u64 {
    let mut cached = Cached::new();
    cached.add(Kind::PERSISTENT_VOLUME_CLAIM, claim(0, false));
    for number in 0..volumes {
        cached.add(Kind::PERSISTENT_VOLUME, volume(number, "Available", false));
    }
    let key = cached.key("data-0");
    move || {
        let writes = cached.sync(key);
        assert_eq!(writes, 4);
        writes
    }
}

/// Returns a sync with nothing to do, of one of `claims` bound claims.
pub fn idle(claims: usize) -> impl FnMut() -> u64 {
    let mut cached = Cached::new();
    for number in 0..claims {
        cached.add(Kind::PERSISTENT_VOLUME_CLAIM, claim(number, true));
        cached.add(Kind::PERSISTENT_VOLUME, volume(number, "Bound", true));
    }
    let key = cached.key("data-0");
    move || {
        assert_eq!(cached.sync(key), 0);
        1
    }
}

fn claim(number: usize, is_bound: bool) -> Value {
    let mut claim = json!({
        "metadata": {"name": format!("data-{number}"), "namespace": "shop", "uid": format!("c{number}"),
            "resourceVersion": "1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"phase": "Pending"},
    });
    if is_bound {
        claim["metadata"]["annotations"] = json!({"pv.kubernetes.io/bind-completed": "yes",
            "pv.kubernetes.io/bound-by-controller": "yes"});
        claim["spec"]["volumeName"] = format!("disk-{number}").into();
        claim["status"] = json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"}});
    }
    claim
}

fn volume(number: usize, phase: &str, is_reserved: bool) -> Value {
    let mut volume = json!({
        "metadata": {"name": format!("disk-{number}"), "uid": format!("v{number}"), "resourceVersion": "1"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "fast",
            "capacity": {"storage": "1Gi"}, "persistentVolumeReclaimPolicy": "Delete"},
        "status": {"phase": phase},
    });
    if is_reserved {
        volume["spec"]["claimRef"] = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": "shop", "name": format!("data-{number}"), "uid": format!("c{number}")});
    }
    volume
}
