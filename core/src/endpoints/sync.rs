//! One sync of one Service, for both controllers.
//!
//! Source: `syncService` of Kubernetes' `pkg/controller/endpointslice` and `pkg/controller/endpoint`.

use std::sync::Arc;

use podstorm_objects::{Kind, Node, ObjectMeta, ObjectReference, Pod, Str};
use podstorm_runtime::cache::NamespacedSelector;
use podstorm_runtime::client::{EventIntent, EventMessage, EventType};
use podstorm_runtime::driver::{Calls, SyncFailure, unless_gone};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::primitives::lock;
use podstorm_runtime::store::{Cached as _, Store};
use podstorm_runtime::workqueue::End;

use super::cache::{CachedEndpoints, CachedService, CachedSlice};
use super::selected::{Selected, selected};
use super::write::{is_of_ending_namespace, write};
use super::{Output, Shared, slices, subsets};

/// The label of a node that holds the name of its zone.
const ZONE: &str = "topology.kubernetes.io/zone";

/// Runs one sync of a Service.
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
    let selectors = [NamespacedSelector::new(namespace, selector)];
    let cache = &shared.pods;
    cache.for_each_matching(&selectors, &mut Vec::new(), |pod, _| pods.push(pod.clone()));
    match &shared.output {
        Output::Slices {
            slices,
            nodes,
            written,
        } => {
            let stores = [slices.version().get()];
            let seen = written.ensure_ready(&key, &stores);
            seen.map_err(|stale| SyncFailure::new("stale cache", stale.to_string()))?;
            let pods = selected(&service, pods, true, &shared.hasher);
            let (pods, missing) = with_nodes(&service, pods, nodes);
            write_slices(&shared, key, &service, &pods, &calls).await?;
            match missing {
                None => Ok(End::Forget),
                Some(message) => Err(SyncFailure::new("node not cached", message)),
            }
        }
        Output::Endpoints(stored) => {
            let also_deleting = service.publishes_unready();
            let pods = selected(&service, pods, also_deleting, &shared.hasher);
            let existing = stored.get_named(namespace, &service.meta().name);
            let existing = existing.as_deref();
            write_endpoints(&shared, key, &service, &pods, existing, &calls).await
        }
    }
}

/// Handles a Service that does not exist. Deletes its Endpoints by name. The garbage collector
/// deletes its slices, because the Service owned them.
async fn gone(shared: &Shared, key: KeyId, calls: &Calls) -> Result<End, SyncFailure> {
    let name = shared.services.name(key);
    match &shared.output {
        Output::Slices { written, .. } => written.clear(&key, None),
        // The cache may not yet show what the last sync created.
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

/// Returns the pods whose node is cached, with the zone of the node, and an error for the first pod
/// whose node is not. Such a pod gets no endpoint, unless the Service publishes pods in any state.
fn with_nodes(
    service: &CachedService,
    mut pods: Vec<Selected>,
    nodes: &Store<Arc<Node>>,
) -> (Vec<Selected>, Option<String>) {
    let publishes_unready = service.publishes_unready();
    let mut missing: Option<Arc<Pod>> = None;
    // Whether the last pod's node is cached, and its zone: pods of one node are often consecutive.
    let mut last: Option<(Str, bool, Option<Str>)> = None;
    pods.retain_mut(|selected| {
        let pod = &selected.pod;
        let Some(name) = &pod.node_name else {
            return true;
        };
        let (_, is_cached, zone) = match last.take() {
            Some(known) if known.0 == *name => last.insert(known),
            _ => {
                let node = nodes.get_named("", name);
                let zone = node.as_ref().and_then(|it| it.metadata.labels.get(ZONE));
                let zone = zone.filter(|zone| !zone.is_empty()).cloned();
                last.insert((name.clone(), node.is_some(), zone))
            }
        };
        selected.zone.clone_from(zone);
        let waits = !*is_cached && !publishes_unready;
        let is_first = |first: &Arc<Pod>| pod.metadata.name < first.metadata.name;
        if waits && missing.as_ref().is_none_or(is_first) {
            missing = Some(Arc::clone(pod));
        }
        !waits
    });
    let missing = missing.map(|pod| {
        let (name, meta) = (&pod.metadata.name, service.meta());
        let node = pod.node_name.as_deref().unwrap_or_default();
        let service = format!("Service {}/{}", meta.namespace, meta.name);
        format!("skipping Pod {name} for {service}: Node {node} Not Found")
    });
    (pods, missing)
}

async fn write_slices(
    shared: &Shared,
    key: KeyId,
    service: &CachedService,
    pods: &[Selected],
    calls: &Calls,
) -> Result<(), SyncFailure> {
    let Output::Slices {
        slices, written, ..
    } = &shared.output
    else {
        return Ok(());
    };
    let meta = service.meta();
    let own = own_slices(slices, service);
    let (trigger, mut index) = {
        let mut triggers = lock(&shared.triggers);
        let seen = triggers.entry(key).or_default();
        (seen.changed(meta, pods), std::mem::take(&mut seen.index))
    };
    index.update(own, &shared.hasher);
    let plan = slices::plan(service, pods, &index, trigger);
    if let Some(seen) = lock(&shared.triggers).get_mut(&key) {
        seen.index = index;
    }
    let Err(problem) = write(plan, key, service.object(), written, calls).await else {
        return Ok(());
    };
    let text = format!(
        "Error updating Endpoint Slices for Service {}/{}: {problem}",
        meta.namespace, meta.name
    );
    report(service, "FailedToUpdateEndpointSlices", text, calls);
    Err(SyncFailure::new("write failed", problem))
}

/// Returns the slices that this controller has written for a Service, sorted by name.
fn own_slices(slices: &Store<CachedSlice>, service: &CachedService) -> Vec<Arc<CachedSlice>> {
    let meta = service.meta();
    let owned = slices.owned(&meta.uid).map(|(_, slice)| slice);
    let is_own = |slice: &Arc<CachedSlice>| slice.service().is_some_and(|it| **it == *meta.name);
    let mut owned: Vec<_> = owned.filter(is_own).collect();
    owned.sort_by(|a, b| a.object().metadata.name.cmp(&b.object().metadata.name));
    owned
}

async fn write_endpoints(
    shared: &Shared,
    key: KeyId,
    service: &CachedService,
    pods: &[Selected],
    existing: Option<&CachedEndpoints>,
    calls: &Calls,
) -> Result<End, SyncFailure> {
    let meta = service.meta();
    let trigger = lock(&shared.triggers)
        .entry(key)
        .or_default()
        .changed(meta, pods);
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

fn report(service: &CachedService, reason: &'static str, text: String, calls: &Calls) {
    calls.event(EventIntent {
        regarding: Arc::new(ObjectReference::new(Kind::SERVICE, service.meta())),
        kind: EventType::Warning,
        reason,
        message: EventMessage::Text(text.into()),
    });
}
