//! The EndpointSlice mirroring controller: it writes EndpointSlices for the Endpoints that clients
//! write for Services without a selector.
//!
//! A key is the name of an Endpoints object. Its Service and its mirrored slices have the same key.
//! If it must not be mirrored, or is deleted, its slices are deleted. `plan` decides what to write.
//! write.
//!
//! One lock guards the map from Endpoints to their mirrored slices. It is not held across a call.
//!
//! Source: Kubernetes' `pkg/controller/endpointslicemirroring`.

mod plan;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_objects::{AnyObject, DynamicObject, Kind, Now, Object};
use podstorm_runtime::client::EventType;
use podstorm_runtime::consistency::ConsistencyStore;
use podstorm_runtime::driver::{AsyncWorkload, Calls, Steps, SyncFailure, unless_gone};
use podstorm_runtime::informer::{Handler, Informers};
use podstorm_runtime::intern::{KeyId, ObjectKey};
use podstorm_runtime::primitives::{Mutex, lock};
use podstorm_runtime::row::{ControllerRow, Write};
use podstorm_runtime::store::{Cached as _, Change, Keyed, Store};
use podstorm_runtime::workqueue::{End, QueueRow, RateLimitingQueue, RetryDelay, Workers};

use super::cache::{CachedService, CachedSlice};
use super::row::{RETRIES_MAX, WORKERS};
use super::write::write;
use crate::controller::{ControllerType, Setup};

/// The label that marks Endpoints that must not be mirrored.
const SKIP: &str = "endpointslice.kubernetes.io/skip-mirror";

/// The annotation of Endpoints that serve as the lock of a leader election.
const LEADER: &str = "control-plane.alpha.kubernetes.io/leader";

/// The EndpointSlice mirroring controller, as a [`ControllerType`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointSliceMirroring;

impl ControllerType for EndpointSliceMirroring {
    type Workload = Mirroring;

    const ROW: &'static ControllerRow = &ControllerRow {
        name: "endpointslice-mirroring-controller",
        alias: "endpointslicemirroring",
        component: "endpoint-slice-mirroring-controller",
        purpose: "EndpointSlices of Endpoints that clients write",
        kind: Some(Kind::ENDPOINTS),
        reads: &[Kind::ENDPOINT_SLICE, Kind::SERVICE],
        writes: &[Write::new(
            Kind::ENDPOINT_SLICE,
            &["create", "delete", "update"],
        )],
        queues: &[QueueRow {
            delay: RetryDelay::Exponential {
                base_ns: 1_000_000_000,
                max_ns: 100_000_000_000,
                bucket: true,
            },
            retries_max: Some(RETRIES_MAX),
            workers: Workers::Number(WORKERS),
            ..QueueRow::new("endpoint_slice_mirroring")
        }],
        served_only: true,
        ..ControllerRow::DEFAULT
    };

    fn make(_: &Setup, informers: &mut Informers) -> Arc<Mirroring> {
        let shared = Arc::new(Shared {
            endpoints: informers.store(Kind::ENDPOINTS, || ()),
            services: informers.store(Kind::SERVICE, || ()),
            slices: informers.store(Kind::ENDPOINT_SLICE, || ()),
            queue: RateLimitingQueue::from_row(Self::ROW.queues[0]),
            mirrored: Mutex::default(),
            written: ConsistencyStore::new([Kind::ENDPOINT_SLICE]),
        });
        informers.add_handler::<AnyObject>(Kind::ENDPOINTS, Arc::clone(&shared) as _);
        informers.add_handler::<CachedService>(Kind::SERVICE, Arc::clone(&shared) as _);
        informers.add_handler::<CachedSlice>(Kind::ENDPOINT_SLICE, Arc::clone(&shared) as _);
        Arc::new(Mirroring(shared))
    }
}

/// The mirroring controller. Other controllers may share its informers. A clone is a handle to the
/// same controller.
#[derive(Clone, Debug)]
pub struct Mirroring(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    endpoints: Arc<Store<AnyObject>>,
    services: Arc<Store<CachedService>>,
    slices: Arc<Store<CachedSlice>>,
    queue: RateLimitingQueue<KeyId>,
    /// The cached slices that mirror each Endpoints object. Written by the handler of slices. Has
    /// no empty sets.
    mirrored: Mutex<BTreeMap<KeyId, BTreeSet<KeyId>>>,
    /// The versions that syncs have written. If the cache did not show the slices of the last sync
    /// yet, a sync would create them again.
    written: ConsistencyStore<KeyId, 1>,
}

/// Reports whether Endpoints are mirrored, provided that their Service allows it.
fn is_mirrored(endpoints: &dyn Object) -> bool {
    let meta = endpoints.metadata();
    meta.labels.get(SKIP).is_none_or(|value| **value != *"true")
        && meta.annotations.get(LEADER).is_none()
}

impl Handler<AnyObject> for Shared {
    fn handle(&self, change: &Change<AnyObject>, now: Now) {
        let mut forms = [&change.old, &change.new].into_iter().flatten();
        if forms.any(|form| is_mirrored(&***form)) {
            self.queue.add(change.key, now.mono_ns);
        }
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

/// Wakes the Endpoints of a Service that has no selector and is created or deleted, or of a Service
/// that gains or loses its selector.
impl Handler<CachedService> for Shared {
    fn handle(&self, change: &Change<CachedService>, now: Now) {
        let is_bare = |service: &Arc<CachedService>| service.selector().is_none();
        let [old, new] = [&change.old, &change.new].map(Option::as_ref);
        let wakes = match (old.map(is_bare), new.map(is_bare)) {
            (Some(before), Some(after)) => before != after,
            (before, after) => before.or(after) == Some(true),
        };
        if let Some(service) = new.or(old).filter(|_| wakes) {
            let meta = service.meta();
            let key = self.endpoints.intern(&meta.namespace, &meta.name);
            self.queue.add(key, now.mono_ns);
        }
    }
}

/// Wakes the Endpoints of a changed or deleted mirrored slice. The writes of a sync do this, too;
/// the next sync then has nothing to do.
impl Handler<CachedSlice> for Shared {
    fn handle(&self, change: &Change<CachedSlice>, now: Now) {
        let of = |slice: &Arc<CachedSlice>| {
            let name = slice.mirrors()?;
            Some(self.endpoints.intern(slice.namespace(), name))
        };
        let old = change.old.as_ref().and_then(of);
        let new = change.new.as_ref().and_then(of);
        let mut mirrored = lock(&self.mirrored);
        if let Some(key) = old.filter(|_| old != new)
            && let Some(slices) = mirrored.get_mut(&key)
        {
            slices.remove(&change.key);
            if slices.is_empty() {
                mirrored.remove(&key);
            }
        }
        if let Some(key) = new {
            mirrored.entry(key).or_default().insert(change.key);
        }
        drop(mirrored);
        for key in [old, new].into_iter().flatten() {
            self.queue.add(key, now.mono_ns);
        }
    }
}

impl Keyed for Shared {
    fn is_idle(&self, key: KeyId) -> bool {
        // If Endpoints are deleted, their slices must still be deleted under this key.
        self.queue.is_idle(key) && !lock(&self.mirrored).contains_key(&key)
    }

    fn forget(&self, key: KeyId) {
        self.queue.forget(key);
        self.written.clear(&key, None);
    }
}

impl AsyncWorkload for Mirroring {
    fn name(&self, _: usize, key: KeyId) -> ObjectKey {
        self.0.endpoints.name(key)
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        std::slice::from_ref(&self.0.queue)
    }

    fn steps(&self, _: usize, key: KeyId, calls: Calls) -> impl Steps {
        run(Arc::clone(&self.0), key, calls)
    }
}

/// Mirrors one Endpoints object, or deletes its slices.
async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let ObjectKey { namespace, name } = shared.endpoints.name(key);
    let endpoints = shared.endpoints.get(key).filter(|it| is_mirrored(&***it));
    let service = shared.services.get_named(&namespace, &name);
    let is_bare = service.is_some_and(|service| service.selector().is_none());
    let existing = shared.slices_of(key);
    let endpoints = endpoints.as_ref().filter(|_| is_bare);
    let Some(endpoints) = endpoints.and_then(|it| it.downcast_ref::<DynamicObject>()) else {
        shared.written.clear(&key, None);
        for slice in existing {
            delete(&slice, &calls).await?;
        }
        return Ok(End::Forget);
    };
    let seen = shared
        .written
        .ensure_ready(&key, &[shared.slices.version().get()]);
    seen.map_err(|stale| SyncFailure::new("stale cache", stale.to_string()))?;
    let mirror = plan::mirror(endpoints, &existing);
    for (reason, text) in mirror.events() {
        calls.report(endpoints, EventType::Warning, reason, text);
    }
    let written = write(mirror.plan, key, endpoints, &shared.written, &calls).await;
    written.map_err(|problem| SyncFailure::new("write failed", problem))?;
    Ok(End::Forget)
}

async fn delete(slice: &DynamicObject, calls: &Calls) -> Result<(), SyncFailure> {
    let deleted = calls
        .delete(Kind::ENDPOINT_SLICE, &slice.metadata, None)
        .await;
    unless_gone(deleted).map_err(SyncFailure::at("delete failed"))?;
    Ok(())
}

impl Shared {
    /// Returns the cached slices that mirror one Endpoints object, sorted by name.
    fn slices_of(&self, key: KeyId) -> Vec<Arc<DynamicObject>> {
        let keys = lock(&self.mirrored).get(&key).cloned().unwrap_or_default();
        let cached = keys.into_iter().filter_map(|key| self.slices.get(key));
        let mut slices: Vec<_> = cached.map(|slice| Arc::clone(slice.object())).collect();
        slices.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        slices
    }
}
