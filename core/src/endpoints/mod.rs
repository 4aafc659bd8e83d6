//! The endpoints controllers: for each Service with a selector they write the addresses of the
//! selected pods, one controller as EndpointSlices, the other as Endpoints.
//!
//! The two controllers differ only in their output. `cache` has the Services in the form that both
//! read, `selected` the pods of a Service with their addresses and ports, `endpoint` the content of
//! an endpoint. `slices` decides which EndpointSlices to write, `subsets` builds Endpoints, and
//! `sync` writes both, with `write`. The cost of a sync depends on the number of pods of its
//! Service, not on the number of pods in the namespace. JSON is built only for changes.
//!
//! Like upstream, both ignore a Service without a selector, or of type `ExternalName`, and do not
//! delete what they wrote for it before. `mirror` is a separate controller: it writes
//! EndpointSlices for the Endpoints that clients write for Services without a selector.
//!
//! Source: Kubernetes' `pkg/controller/endpointslice`, `pkg/controller/endpoint`,
//! `pkg/controller/endpointslicemirroring` and `k8s.io/endpointslice`.

mod cache;
mod endpoint;
mod mirror;
mod row;
mod selected;
mod slices;
mod subsets;
mod sync;
mod trigger;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;
use podstorm_objects::{Kind, Node, Now, Pod, hash_state};
use podstorm_runtime::consistency::ConsistencyStore;
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, lock};
use podstorm_runtime::store::{Change, Keyed, Store};
use podstorm_runtime::workqueue::{QueueRow, RateLimitingQueue};

use crate::cache::{Listed, PodCache, PodChange};
use cache::{CachedEndpoints, CachedService, CachedSlice};
use trigger::Triggers;

pub use mirror::{EndpointSliceMirroring, Mirroring};
pub use row::{EndpointSlices, EndpointsOfServices};

/// One of the two controllers. Other controllers may share its informers. A clone is a handle to
/// the same controller.
#[derive(Clone, Debug)]
pub struct Controller(Arc<Shared>);

/// The controller's state, shared with its syncs because they outlive any borrow of the controller.
#[derive(Debug)]
struct Shared {
    services: Arc<Store<CachedService>>,
    pods: Arc<PodCache>,
    queue: RateLimitingQueue<KeyId>,
    output: Output,
    triggers: Mutex<BTreeMap<KeyId, Triggers>>,
    /// The hasher for pod names, each of which is looked up in several tables.
    hasher: RandomState,
}

/// What a controller writes, with the stores that it needs for that.
#[derive(Debug)]
enum Output {
    Slices {
        slices: Arc<Store<CachedSlice>>,
        nodes: Arc<Store<Arc<Node>>>,
        /// The versions that syncs have written. If the cache did not show the slices of the last
        /// sync yet, a sync would create them again.
        written: ConsistencyStore<KeyId, 1>,
    },
    Endpoints(Arc<Store<CachedEndpoints>>),
}

impl Controller {
    /// Creates the controller that writes EndpointSlices.
    fn of_slices(queue: QueueRow, informers: &mut Informers) -> Controller {
        let output = Output::Slices {
            slices: informers.store(Kind::ENDPOINT_SLICE, || ()),
            nodes: informers.store(Kind::NODE, || ()),
            written: ConsistencyStore::new([Kind::ENDPOINT_SLICE]),
        };
        let controller = Controller::new(queue, output, informers);
        let handler = Arc::clone(&controller.0) as _;
        informers.add_handler::<CachedSlice>(Kind::ENDPOINT_SLICE, handler);
        controller
    }

    /// Creates the controller that writes Endpoints.
    fn of_endpoints(queue: QueueRow, informers: &mut Informers) -> Controller {
        let output = Output::Endpoints(informers.store(Kind::ENDPOINTS, || ()));
        let controller = Controller::new(queue, output, informers);
        let handler = Arc::clone(&controller.0) as _;
        informers.add_handler::<CachedEndpoints>(Kind::ENDPOINTS, handler);
        controller
    }

    fn new(queue: QueueRow, output: Output, informers: &mut Informers) -> Controller {
        let shared = Arc::new(Shared {
            services: informers.store(Kind::SERVICE, || ()),
            pods: Arc::clone(informers.pods()),
            queue: RateLimitingQueue::from_row(queue),
            output,
            triggers: Mutex::default(),
            hasher: hash_state(),
        });
        informers.add_handler::<CachedService>(Kind::SERVICE, Arc::clone(&shared) as _);
        Controller(shared)
    }

    /// Returns the work queue.
    pub fn queue(&self) -> &RateLimitingQueue<KeyId> {
        &self.0.queue
    }
}

impl Shared {
    /// Wakes the Services that select a pod.
    fn wake(&self, pod: &Pod, now: Now) {
        let meta = &pod.metadata;
        for (key, _) in self.services.matching(&meta.namespace, &meta.labels) {
            self.queue.add(key, now.mono_ns);
        }
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        let new = &change.new;
        let Some(old) = change.old.as_ref().filter(|_| !change.deleted) else {
            return self.wake(new, now);
        };
        let moves = old.metadata.labels != new.metadata.labels;
        if moves || selected::differ(old, new) {
            self.wake(new, now);
        }
        if moves {
            self.wake(old, now);
        }
    }
}

/// Adds a Service's key after every change of the Service.
impl Handler<CachedService> for Shared {
    fn handle(&self, change: &Change<CachedService>, now: Now) {
        self.queue.add(change.key, now.mono_ns);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

/// Wakes the Service of a changed or deleted slice; the Service's sync then corrects the slice. The
/// writes of a sync do this, too; the next sync then has nothing to do.
impl Handler<CachedSlice> for Shared {
    fn handle(&self, change: &Change<CachedSlice>, now: Now) {
        let forms = [change.old.as_ref(), change.new.as_ref()];
        let mut services: Vec<_> = forms
            .iter()
            .flatten()
            .filter_map(|it| it.service())
            .collect();
        services.dedup();
        for name in services {
            let namespace = &forms[0]
                .or(forms[1])
                .expect("one of them has the name")
                .namespace();
            self.queue
                .add(self.services.intern(namespace, name), now.mono_ns);
        }
    }
}

/// Wakes the Service of deleted Endpoints, so that they are recreated. As in upstream, a changed
/// Endpoints object waits for the next change of the Service's pods.
impl Handler<CachedEndpoints> for Shared {
    fn handle(&self, change: &Change<CachedEndpoints>, now: Now) {
        if change.new.is_none()
            && let Some(last) = &change.last
        {
            let meta = &last.metadata;
            let key = self.services.intern(&meta.namespace, &meta.name);
            self.queue.add(key, now.mono_ns);
        }
    }
}

impl Keyed for Shared {
    fn is_idle(&self, key: KeyId) -> bool {
        self.queue.is_idle(key)
    }

    fn forget(&self, key: KeyId) {
        self.queue.forget(key);
        lock(&self.triggers).remove(&key);
        if let Output::Slices { written, .. } = &self.output {
            written.clear(&key, None);
        }
    }
}

impl AsyncWorkload for Controller {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.services.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn pod_changed(&self, change: &PodChange, now: Now) {
        self.0.pod_changed(change, now);
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.0.pod_changed(change, now);
        }
        // The changes of a list into an empty cache come in runs.
        if !listed.runs.is_empty() {
            for key in self.0.services.keys() {
                self.0.queue.add(key, now.mono_ns);
            }
        }
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        sync::run(Arc::clone(&self.0), key, calls)
    }
}

#[cfg(test)]
mod tests;
