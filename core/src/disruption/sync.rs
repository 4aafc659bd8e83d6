//! One sync of one budget: it counts the pods, finds the scales of their controllers, and writes
//! the status.
//!
//! Source: `DisruptionController.sync` of Kubernetes' `pkg/controller/disruption`.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::disruption::{Budget, BudgetStatus};
use podstorm_objects::{Kind, ObjectReference, OwnerReference, Str, Uid};
use podstorm_runtime::client::{Answer, EventIntent, EventMessage, EventType, Request};
use podstorm_runtime::driver::{Calls, SyncFailure};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::limits::BACKOFF_BASE_NS;
use podstorm_runtime::workqueue::End;

use super::Shared;
use super::cache::{CachedBudget, UidAndScale};
use super::decide::{self, Expected};
use super::selected::Counted;

/// The error that stops a sync.
enum Stop {
    /// The server rejected the status because the budget has changed. The sync is retried.
    Conflict(String),
    /// Any other error. A status that allows no disruptions is then written.
    Failed(String),
}

/// Runs one sync and handles its error.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    for event in shared.take_events() {
        calls.event(event);
    }
    let Some(cached) = shared.caches.budgets.get(key) else {
        return Ok(End::Forget);
    };
    let error = match sync(&shared, key, &cached, &calls).await {
        Ok(end) => return Ok(end),
        Err(Stop::Conflict(message)) => return Err(SyncFailure::new("conflict", message)),
        Err(Stop::Failed(error)) => error,
    };
    let status = decide::fail_safe(&cached.budget.status, &error, calls.now());
    match put_status(&cached.budget, status, &calls).await {
        Ok(()) => Ok(End::Forget),
        Err(Stop::Conflict(message) | Stop::Failed(message)) => {
            Err(SyncFailure::new("status failed", message))
        }
    }
}

async fn sync(
    shared: &Shared,
    key: KeyId,
    cached: &CachedBudget,
    calls: &Calls,
) -> Result<End, Stop> {
    let budget = &cached.budget;
    let event = |kind, reason, text: String| {
        calls.event(event_about(&cached.reference, kind, reason, text));
    };
    if let Err(error) = &cached.selector {
        let text = format!("Failed to get pods: {error}");
        event(EventType::Warning, "NoPods", text);
        return Err(Stop::Failed(error.to_string()));
    }
    let counted = shared
        .lock()
        .selected
        .count(key, &budget.status.disrupted_pods);
    if counted.pods == 0 {
        let text = "No matching pods found".to_owned();
        event(EventType::Normal, "NoPods", text);
    }
    let expected = expect(shared, key, budget, &counted, calls).await;
    let expected = expected.map_err(|error| {
        let text = format!("Failed to calculate the number of expected pods: {error}");
        event(EventType::Warning, "CalculateExpectedPodCountFailed", text);
        Stop::Failed(error)
    })?;
    if counted.has_unmanaged && decide::of_scales(budget).is_some() {
        let selector = decide::go_text(budget.selector.as_ref());
        let text = format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be \
             unmanaged. As a result, the status of the PDB cannot be calculated correctly, which \
             may result in undefined behavior. To account for these pods please set \
             \".spec.minAvailable\" field of the PDB to an integer value."
        );
        event(EventType::Warning, "UnmanagedPods", text);
    }
    let decision = decide::decide(budget, &counted, expected, calls.now());
    for pod in decision.not_deleted {
        let reference = Arc::new(ObjectReference::new(Kind::POD, &pod.metadata));
        // Upstream repeats the namespace, too.
        let namespace = &budget.metadata.namespace;
        let text =
            format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        calls.event(event_about(
            &reference,
            EventType::Warning,
            "NotDeleted",
            text,
        ));
    }
    if let Some(status) = decision.status {
        put_status(budget, status, calls).await?;
    }
    Ok(match decision.recheck_after_ns {
        None => End::Forget,
        // As in upstream, the rate limiter delays the key further after this time.
        Some(after_ns) => End::After(after_ns.saturating_add(BACKOFF_BASE_NS)),
    })
}

/// Returns what the budget expects: the number of pods, and how many of them must be healthy.
/// O(controllers), with a request for each controller that is not cached.
async fn expect(
    shared: &Shared,
    key: KeyId,
    budget: &Budget,
    counted: &Counted,
    calls: &Calls,
) -> Result<Expected, String> {
    if decide::of_scales(budget).is_none() {
        return Ok(decide::expected_of_pods(budget, counted.pods));
    }
    // Keyed by UID, because several ReplicaSets may belong to one Deployment.
    let mut scales: BTreeMap<Uid, i64> = BTreeMap::new();
    let mut errors: Vec<(&Uid, Option<String>)> = Vec::new();
    for reference in &counted.controllers {
        match find(shared, &budget.metadata.namespace, reference, calls).await {
            Ok(Some((uid, scale))) => drop(scales.insert(uid, scale)),
            Ok(None) => errors.push((&reference.uid, None)),
            Err(error) => errors.push((&reference.uid, Some(error))),
        }
    }
    if !errors.is_empty() {
        return Err(first_error(shared, key, errors));
    }
    decide::expected_of_scale(budget, scales.into_values().sum())
}

/// Returns the error for the first pod, in the order of names, whose controller has one.
fn first_error(shared: &Shared, key: KeyId, errors: Vec<(&Uid, Option<String>)>) -> String {
    let failed: Vec<&Uid> = errors.iter().map(|(uid, _)| *uid).collect();
    let pod = shared.lock().selected.first_pod_of(key, &failed);
    let controller = pod.as_ref().and_then(|pod| pod.metadata.controller());
    let is_its = |(uid, _): &&(&Uid, Option<String>)| {
        controller.is_some_and(|controller| controller.uid == **uid)
    };
    // The pods may have been deleted since they were counted.
    let found = errors.iter().find(is_its).or(errors.first());
    let error = found.and_then(|(_, error)| error.clone());
    error.unwrap_or_else(|| {
        let name = pod.as_ref().map_or("", |pod| &pod.metadata.name);
        format!("found no controllers for pod {name:?}")
    })
}

/// Resolves the controller reference of a pod to a UID and a scale; `None` if the controller does
/// not exist.
async fn find(
    shared: &Shared,
    namespace: &Str,
    reference: &Arc<OwnerReference>,
    calls: &Calls,
) -> Result<Option<UidAndScale>, String> {
    if let Some(found) = shared.caches.find(namespace, reference)? {
        return Ok(Some(found));
    }
    let request = Request::GetOwnerScale {
        namespace: namespace.clone(),
        owner: Arc::clone(reference),
    };
    match calls.request(request).await {
        Answer::Scale(scale) => {
            let found = (scale.uid.clone(), i64::from(scale.replicas));
            Ok(Some(found).filter(|(uid, _)| *uid == reference.uid))
        }
        Answer::Failed(error) if error.is_not_found() => Ok(None),
        Answer::Failed(error) => Err(error.message),
        other => panic!("unexpected answer to the read of a scale: {other:?}"),
    }
}

/// Writes the status of a budget. Returns [`Stop::Conflict`] if the cached version is outdated.
async fn put_status(budget: &Budget, status: BudgetStatus, calls: &Calls) -> Result<(), Stop> {
    let updated = Budget {
        status,
        ..budget.clone()
    };
    match calls.put_status(updated.status_update()).await {
        Err(error) if error.code == 409 => Err(Stop::Conflict(error.message)),
        Err(error) => Err(Stop::Failed(error.message)),
        Ok(_) => Ok(()),
    }
}

/// Builds an Event about the object to which `reference` refers.
pub(super) fn event_about(
    reference: &Arc<ObjectReference>,
    kind: EventType,
    reason: &'static str,
    text: String,
) -> EventIntent {
    EventIntent {
        regarding: Arc::clone(reference),
        kind,
        reason,
        message: EventMessage::Text(text.into()),
    }
}
