//! A custom workload that Kubernetes does not have: one pod for each ConfigMap of the class
//! `runner`, with the same name.

use std::sync::Arc;

use podstorm::cache::{Listed, PodCache, PodChange};
use podstorm::client::{Answer, EventIntent, Request};
use podstorm::controller::{ControllerType, Setup};
use podstorm::driver::{Step, SyncState, Workload};
use podstorm::informer::{Handler, Informers};
use podstorm::intern::{KeyId, ObjectKey};
use podstorm::object::{AnyObject, Kind, Now, Pod, Resource, ResourceType};
use podstorm::row::{ControllerRow, Pods, Write};
use podstorm::store::{Change, Keyed, Store};
use podstorm::workqueue::{End, QueueRow, RateLimitingQueue};
use serde_json::json;

/// The kind of its objects.
pub(crate) const CONFIG_MAP: Kind = Kind::from_row(&ResourceType {
    kind: "ConfigMap",
    resource: "configmaps",
    ..ResourceType::DEFAULT
});

/// The controller, on a cache of pods that it shares with others.
#[derive(Debug)]
pub(crate) struct OnePodEach {
    pods: Arc<PodCache>,
    maps: Arc<Store<AnyObject>>,
    queue: RateLimitingQueue<KeyId>,
}

/// A sync with at most one request.
#[derive(Debug, Default)]
pub(crate) struct OneRequest {
    requests: Vec<Request>,
    failed: bool,
    events: Vec<EventIntent>,
}

impl SyncState for OneRequest {
    fn requests(&self) -> &[Request] {
        &self.requests
    }

    fn answer(&mut self, _: usize, answer: Answer) {
        // If the pod already exists or is already deleted, the cache will show it soon.
        self.failed = matches!(answer, Answer::Failed(error) if ![404, 409].contains(&error.code));
    }

    fn events(&mut self) -> &mut Vec<EventIntent> {
        &mut self.events
    }

    fn outcome_label(&self) -> &'static str {
        if self.failed { "failed" } else { "ok" }
    }

    fn end(&self) -> End {
        if self.failed { End::Retry } else { End::Forget }
    }
}

impl ControllerType for OnePodEach {
    type Workload = OnePodEach;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "one-pod-each-controller",
        alias: "one-pod-each",
        component: "one-pod-each",
        purpose: "ConfigMaps of the class runner",
        kind: Some(CONFIG_MAP),
        pods: Pods::OwnedBy(CONFIG_MAP),
        writes: &[Write::new(Kind::POD, &["create", "delete"])],
        queues: &[QueueRow::new("one-pod-each")],
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<OnePodEach> {
        let workload = Arc::new(OnePodEach {
            pods: Arc::clone(informers.pods()),
            maps: informers.store(CONFIG_MAP, || ()),
            queue: RateLimitingQueue::from_row(Self::ROW.queues[0]),
        });
        informers.add_handler::<AnyObject>(CONFIG_MAP, Arc::clone(&workload) as _);
        workload
    }
}

impl OnePodEach {
    fn request(&self, key: KeyId) -> Option<Request> {
        let ObjectKey { namespace, name } = self.maps.name(key);
        let map = self.maps.get(key).filter(|map| is_runner(map));
        let Some(pod) = self.pods.get(&namespace, &name) else {
            let owner = CONFIG_MAP.controller_reference(map?.metadata());
            let body = json!({"spec": {"containers": [{"name": "runner", "image": "runner:1"}]}});
            let mut body = Pod::from_json(body).expect("a readable pod");
            body.metadata.owner_references.push(Arc::new(owner));
            return Some(Request::CreatePod {
                namespace,
                name: Some((&*name).into()),
                pod: Arc::new(body),
            });
        };
        let owner = pod.metadata.controller()?;
        let is_ours = &*owner.kind == CONFIG_MAP.name();
        let is_wanted = map.is_some_and(|map| map.metadata().uid == owner.uid);
        (is_ours && !is_wanted && !pod.metadata.is_deleting()).then(|| Request::DeletePod {
            namespace,
            name: (&*name).into(),
            uid: Some(pod.metadata.uid.clone()),
        })
    }
}

fn is_runner(map: &AnyObject) -> bool {
    let class = map.metadata().labels.get("class");
    class.is_some_and(|class| &**class == "runner") && !map.metadata().is_deleting()
}

impl Handler<AnyObject> for OnePodEach {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        self.queue.add(change.key, now.mono_ns);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(&self.queue)
    }
}

impl Workload for OnePodEach {
    type Sync = OneRequest;

    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.maps.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.queue)
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        let meta = &change.new.metadata;
        let key = self.maps.intern(&meta.namespace, &meta.name);
        self.queue.add(key, now.mono_ns);
    }

    fn pods_listed(&self, _: &Listed, now: Now) {
        for key in self.maps.keys() {
            self.queue.add(key, now.mono_ns);
        }
    }

    fn begin(&self, _: usize, key: KeyId, sync: &mut OneRequest, _: Now) -> Step {
        sync.failed = false;
        sync.requests.clear();
        sync.requests.extend(self.request(key));
        Step::from_requests(&sync.requests)
    }

    fn resume(&self, _: &mut OneRequest, _: Now) -> Step {
        Step::Finished
    }
}
