//! One sync of one Service.
//!
//! Source: `syncService` of Kubernetes' `pkg/controller/endpointslice` and `pkg/controller/endpoint`.

use std::sync::Arc;

use podstorm_objects::{
    AnyObject, ApiError, DynamicObject, Kind, Node, ObjectMeta, ObjectReference, Pod, Reason, Str,
};
use podstorm_runtime::client::{EventIntent, EventMessage, EventType};
use podstorm_runtime::driver::{Calls, SyncFailure, unless_gone};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::primitives::lock;
use podstorm_runtime::store::{Cached as _, Store};
use podstorm_runtime::workqueue::End;

use super::cache::{CachedService, CachedSlice, MANAGED_BY, MANAGER, SERVICE_NAME};
use super::selected::{Selected, selected};
use super::{Output, Shared, slices, subsets};

/// The label of a node that names its zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Runs a sync to its end.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some(service) = shared.services.get(key) else {
        lock(&shared.triggers).remove(&key);
        return gone(&shared, key, &calls).await;
    };
    let Some(selector) = service.pods() else {
        return Ok(End::Forget);
    };
    let namespace = &service.meta().namespace;
    let mut pods = Vec::new();
    shared
        .pods
        .for_each_matching(namespace, selector, |pod| pods.push(Arc::clone(pod)));
    match &shared.output {
        Output::Slices {
            slices,
            nodes,
            written,
        } => {
            let stores = [slices.version().get()];
            let seen = written.ensure_ready(&key, &stores);
            seen.map_err(|stale| SyncFailure::new("stale cache", stale.to_string()))?;
            let pods = selected(&service, pods, true);
            let (pods, missing) = with_nodes(&service, pods, nodes);
            write_slices(&shared, (key, &service), &pods, &calls).await?;
            match missing {
                None => Ok(End::Forget),
                Some(message) => Err(SyncFailure::new("node not cached", message)),
            }
        }
        Output::Endpoints(stored) => {
            let also_deleting = service.publishes_unready();
            let pods = selected(&service, pods, also_deleting);
            let existing = stored.get_named(namespace, &service.meta().name);
            write_endpoints(&shared, (key, &service), &pods, existing.as_deref(), &calls).await
        }
    }
}

/// The Service does not exist: its Endpoints go by name, its slices with their owner.
async fn gone(shared: &Shared, key: KeyId, calls: &Calls) -> Result<End, SyncFailure> {
    let name = shared.services.name(key);
    match &shared.output {
        Output::Slices { written, .. } => written.clear(&key, None),
        // The cache may not have what the last sync has created.
        Output::Endpoints(_) => {
            let meta = ObjectMeta {
                name: (&*name.name).into(),
                namespace: name.namespace,
                ..ObjectMeta::default()
            };
            let deleted = calls.delete(Kind::ENDPOINTS, &meta, None).await;
            unless_gone(deleted).map_err(SyncFailure::at("delete failed"))?;
        }
    }
    Ok(End::Forget)
}

/// The pods whose node is cached, and the first one that is not: such a pod waits, unless the Service
/// publishes pods whatever their state.
fn with_nodes(
    service: &CachedService,
    mut pods: Vec<Selected>,
    nodes: &Store<Arc<Node>>,
) -> (Vec<Selected>, Option<String>) {
    let mut missing = None;
    if !service.publishes_unready() {
        pods.retain(|selected| {
            let Some(node) = &selected.pod.node_name else {
                return true;
            };
            let is_cached = nodes.get_named("", node).is_some();
            if !is_cached {
                let meta = &service.meta();
                missing.get_or_insert_with(|| {
                    format!(
                        "skipping Pod {} for Service {}/{}: Node {node} Not Found",
                        selected.pod.metadata.name, meta.namespace, meta.name
                    )
                });
            }
            is_cached
        });
    }
    (pods, missing)
}

fn zone(nodes: &Store<Arc<Node>>, pod: &Pod) -> Option<Str> {
    let node = nodes.get_named("", pod.node_name.as_ref()?)?;
    let zone = node.metadata.labels.get(ZONE).cloned();
    zone.filter(|zone| !zone.is_empty())
}

async fn write_slices(
    shared: &Shared,
    (key, service): (KeyId, &CachedService),
    pods: &[Selected],
    calls: &Calls,
) -> Result<(), SyncFailure> {
    let Output::Slices {
        slices,
        nodes,
        written,
    } = &shared.output
    else {
        return Ok(());
    };
    let meta = service.meta();
    let trigger = lock(&shared.triggers)
        .entry(key)
        .or_default()
        .changed(meta, pods);
    let existing = own_slices(slices, service);
    let plan = slices::plan(service, pods, &existing, |pod| zone(nodes, pod), trigger);
    let of_service = format!("EndpointSlice for Service {}/{}", meta.namespace, meta.name);
    let mut failed: Option<String> = None;
    let puts = plan.update.into_iter().map(|slice| (false, slice));
    // A Service that is going gets no new slices.
    let creates = plan.create.into_iter().filter(|_| !meta.is_deleting());
    for (is_new, slice) in creates.map(|slice| (true, slice)).chain(puts) {
        let name = slice.metadata.name.clone();
        let write = match is_new {
            true => calls.create(slice).await,
            false => calls.put(slice).await.map(|written| written as _),
        };
        match write {
            Ok(object) => {
                let version = &object.metadata().resource_version;
                written.wrote_at(key, &meta.uid, Kind::ENDPOINT_SLICE, version);
            }
            Err(error) if is_new && is_of_ending_namespace(&error) => return Ok(()),
            Err(error) => {
                let what = match is_new {
                    true => "create".to_owned(),
                    false => format!("update {name}"),
                };
                failed = Some(format!("failed to {what} {of_service}: {}", error.message));
                break;
            }
        }
    }
    if failed.is_none() {
        for slice in plan.delete {
            let deleted = calls
                .delete(Kind::ENDPOINT_SLICE, &slice.metadata, None)
                .await;
            if let Err(error) = unless_gone(deleted) {
                let (name, problem) = (&slice.metadata.name, &error.message);
                failed = Some(format!("failed to delete {name} {of_service}: {problem}"));
                break;
            }
        }
    }
    let Some(problem) = failed else {
        return Ok(());
    };
    let text = format!(
        "Error updating Endpoint Slices for Service {}/{}: {problem}",
        meta.namespace, meta.name
    );
    report(service, "FailedToUpdateEndpointSlices", text, calls);
    Err(SyncFailure::new("write failed", problem))
}

/// The slices that this controller has written for a Service.
fn own_slices(slices: &Store<CachedSlice>, service: &CachedService) -> Vec<Arc<DynamicObject>> {
    let meta = service.meta();
    let owned = slices
        .owned(&meta.uid)
        .map(|(_, slice)| Arc::clone(slice.object()));
    let mut owned: Vec<_> = owned
        .filter(|slice| {
            let labels = &slice.metadata.labels;
            labels
                .get(SERVICE_NAME)
                .is_some_and(|name| **name == *meta.name)
                && labels.get(MANAGED_BY).is_some_and(|by| **by == *MANAGER)
        })
        .collect();
    owned.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    owned
}

async fn write_endpoints(
    shared: &Shared,
    (key, service): (KeyId, &CachedService),
    pods: &[Selected],
    existing: Option<&AnyObject>,
    calls: &Calls,
) -> Result<End, SyncFailure> {
    let meta = service.meta();
    let trigger = lock(&shared.triggers)
        .entry(key)
        .or_default()
        .changed(meta, pods);
    let existing = existing.and_then(|it| it.downcast_ref::<DynamicObject>());
    let Some(new) = subsets::endpoints(service, pods, existing, trigger) else {
        return Ok(End::Forget);
    };
    let is_new = existing.is_none();
    let write = match is_new {
        true => calls.create(new).await.map(drop),
        false => calls.put(new).await.map(drop),
    };
    let Err(error) = write else {
        return Ok(End::Forget);
    };
    if is_new && is_of_ending_namespace(&error) {
        return Ok(End::Forget);
    }
    let (reason, what) = match is_new {
        true => ("FailedToCreateEndpoint", "create"),
        false => ("FailedToUpdateEndpoint", "update"),
    };
    let text = format!(
        "Failed to {what} endpoint {}/{}: {}",
        meta.namespace, meta.name, error.message
    );
    report(service, reason, text, calls);
    Err(SyncFailure::new("write failed", error.message))
}

/// Whether an object was refused because its namespace is being deleted.
pub(super) fn is_of_ending_namespace(error: &ApiError) -> bool {
    error.reason == Reason::Forbidden && error.has_cause("NamespaceTerminating")
}

fn report(service: &CachedService, reason: &'static str, text: String, calls: &Calls) {
    calls.event(EventIntent {
        regarding: Arc::new(ObjectReference::new(Kind::SERVICE, service.meta())),
        kind: EventType::Warning,
        reason,
        message: EventMessage::Text(text.into()),
    });
}
