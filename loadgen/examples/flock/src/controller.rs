//! The controller of Flocks. A Flock wants `size` pods, none older than `maxAgeSeconds`, and a ConfigMap `NAME-roster`
//! that lists them.
//!
//! A sync deletes surplus pods and those that are too old, or otherwise creates missing ones, in
//! batches of 1, 2, 4, …. Until the cache shows the result, further syncs of the Flock create and
//! delete nothing. Then the sync writes the roster and the status. It ends with a delayed sync for
//! when the oldest pod gets too old, or with a retry if a request failed.

use std::sync::Arc;

use podstorm::cache::PodChange;
use podstorm::client::{Answer, Request};
use podstorm::controller::{ControllerType, Setup};
use podstorm::driver::{AsyncWorkload, Calls, Steps, SyncFailure};
use podstorm::informer::Informers;
use podstorm::intern::{KeyId, ObjectKey};
use podstorm::object::{
    AnyObject, DynamicObject, Kind, Now, ObjectMeta, Pod, Resource, ResourceType,
};
use podstorm::owned::Owners;
use podstorm::row::{ControllerRow, Pods, Write};
use podstorm::store::Store;
use podstorm::workqueue::{End, QueueRow, RateLimitingQueue};
use serde_json::json;

pub const FLOCK: Kind = Kind::from_row(&ResourceType {
    group: "example.com",
    api_version: "example.com/v1",
    kind: "Flock",
    resource: "flocks",
    has_status: true,
    ..ResourceType::DEFAULT
});

pub const CONFIG_MAP: Kind = Kind::from_row(&ResourceType {
    kind: "ConfigMap",
    resource: "configmaps",
    ..ResourceType::DEFAULT
});

/// The row: everything that programs and their users need to know about the controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flocks;

impl ControllerType for Flocks {
    type Workload = Controller;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "flock-controller",
        alias: "flock",
        component: "flock-controller",
        purpose: "Flocks of example.com",
        kind: Some(FLOCK),
        reads: &[CONFIG_MAP],
        pods: Pods::OwnedBy(FLOCK),
        writes: &[
            Write::new(Kind::POD, &["create", "delete"]),
            Write::new(CONFIG_MAP, &["create", "update"]),
            Write::status(FLOCK),
        ],
        queues: &[QueueRow::new("flock")],
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Controller> {
        let flocks = Owners::new(FLOCK, Self::ROW.queues[0], informers);
        let rosters = flocks.owning(CONFIG_MAP, informers);
        Arc::new(Controller { flocks, rosters })
    }
}

/// The controller. Clones share its state.
#[derive(Clone, Debug)]
pub struct Controller {
    flocks: Arc<Owners<AnyObject>>,
    rosters: Arc<Store<AnyObject>>,
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.flocks.store().name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(self.flocks.queue())
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        self.flocks.pod_changed(change, now);
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        self.clone().sync(key, calls)
    }
}

impl Controller {
    async fn sync(self, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
        let cached = self.flocks.store().get(key);
        let flock = cached.and_then(|it| AnyObject::clone(&it).downcast::<DynamicObject>());
        let Some(flock) = flock.filter(|it| !it.metadata.is_deleting()) else {
            return Ok(End::Forget);
        };
        let spec = |member: &str| flock.fields.get("spec").and_then(|it| it[member].as_i64());
        let size = usize::try_from(spec("size").unwrap_or(0)).unwrap_or(0);
        let max_age_ns = spec("maxAgeSeconds").map_or(i64::MAX, |age| age * 1_000_000_000);

        let is_settled = self.flocks.is_settled(key, calls.now());
        let mut pods = self.flocks.active_pods(&flock.metadata);
        let wall_ns = calls.now().wall_ns;
        let age_ns = |pod: &Pod| {
            let created = pod.metadata.creation_timestamp.unix_seconds().unwrap_or(0);
            wall_ns - created * 1_000_000_000
        };
        // The youngest first: delete pods beyond `size`, and those that are too old.
        pods.sort_by_cached_key(|pod| (age_ns(pod), pod.metadata.name.clone()));
        if is_settled {
            let young = pods.partition_point(|pod| age_ns(pod) < max_age_ns);
            let surplus = pods.split_off(young.min(size));
            let missing = size - pods.len();
            let meta = &flock.metadata;
            if !surplus.is_empty() {
                let gone = self.flocks.delete_pods(&calls, key, &surplus).await;
                gone.map_err(|error| failure("delete failed", error.message))?;
            } else if missing > 0 {
                let made = self
                    .flocks
                    .create_pods(&calls, key, meta, pod(&meta.name), missing);
                made.await
                    .map_err(|error| failure("create failed", error.message))?;
            }
        }
        for write in [self.roster(&flock, &pods)?, status(&flock, &pods)] {
            if let Some(request) = write
                && let Answer::Failed(error) = calls.request(request).await
            {
                return Err(failure("write failed", error.message));
            }
        }
        let oldest_ns = pods.iter().map(|pod| age_ns(pod)).max();
        let oldest_ns = oldest_ns.filter(|_| max_age_ns < i64::MAX);
        // Creation times are whole seconds.
        let left_ns = oldest_ns.map(|oldest_ns| (max_age_ns - oldest_ns).max(1_000_000_000));
        Ok(left_ns.map_or(End::Forget, End::After))
    }

    /// Returns the write of the roster, unless it is up to date. A roster without a controller is
    /// adopted; for one of another controller the sync fails until it is deleted.
    fn roster(
        &self,
        flock: &DynamicObject,
        pods: &[Arc<Pod>],
    ) -> Result<Option<Request>, SyncFailure> {
        let (meta, name) = (&flock.metadata, format!("{}-roster", flock.metadata.name));
        let mut names: Vec<&str> = pods.iter().map(|pod| &*pod.metadata.name).collect();
        names.sort_unstable();
        let data = json!({"pods": names.join("\n")});
        let cached = self.rosters.get_named(&meta.namespace, &name);
        let cached = cached.and_then(|it| AnyObject::clone(&it).downcast::<DynamicObject>());
        let is_new = cached.is_none();
        let mut roster = cached.map_or_else(|| new_roster(meta, name), Arc::unwrap_or_clone);
        let controller = roster.metadata.controller();
        let is_ours = controller.is_some_and(|it| it.uid == meta.uid);
        if is_ours && roster.fields.get("data") == Some(&data) {
            return Ok(None);
        }
        if controller.is_some() && !is_ours {
            return Err(failure(
                "roster taken",
                format!("{} has another controller", roster.metadata.name),
            ));
        }
        if !is_ours {
            let owner = Arc::new(FLOCK.controller_reference(meta));
            roster.metadata.owner_references.push(owner);
        }
        roster.fields.insert("data".to_owned(), data);
        let object = Arc::new(roster);
        Ok(Some(if is_new {
            Request::Create { object }
        } else {
            Request::Put { object }
        }))
    }
}

fn new_roster(flock: &ObjectMeta, name: String) -> DynamicObject {
    let mut roster = DynamicObject::new(CONFIG_MAP);
    roster.metadata.name = name.into();
    roster.metadata.namespace = flock.namespace.clone();
    roster
}

fn pod(flock: &str) -> Pod {
    Pod::from_json(json!({
        "metadata": {"generateName": format!("{flock}-"), "labels": {"flock": flock}},
        "spec": {"containers": [{"name": "bird", "image": "bird:1"}]},
    }))
    .expect("a readable pod")
}

/// Returns the write of the status, unless it is up to date.
fn status(flock: &DynamicObject, pods: &[Arc<Pod>]) -> Option<Request> {
    let ready = pods.iter().filter(|pod| pod.is_ready()).count();
    let status = json!({"ready": ready});
    (flock.fields.get("status") != Some(&status)).then(|| {
        let mut object = flock.clone();
        object.fields.insert("status".to_owned(), status);
        Request::PutStatus {
            object: Arc::new(object),
        }
    })
}

fn failure(label: &'static str, message: String) -> SyncFailure {
    SyncFailure {
        label,
        message,
        is_final: false,
    }
}
