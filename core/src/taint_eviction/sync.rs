//! The eviction of one pod: it records an Event, sets the condition `DisruptionTarget`, and deletes
//! the pod.
//!
//! Source: `deletePodHandler` and `addConditionAndDeletePod` of Kubernetes' `pkg/controller/tainteviction`.

use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, Map, Pod};
use podstorm_runtime::driver::{Calls, SyncFailure};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::End;

use super::{Shared, event};
use crate::disruption_target::{Disruption, mark, patch_of_status};
use crate::pod_key::PodKey;

/// The maximum number of attempts to delete a pod, the same as upstream's.
const ATTEMPTS: usize = 5;

const TAINTED: Disruption = Disruption {
    reason: "DeletionByTaintManager",
    message: "Taint manager: deleting due to NoExecute taint",
};

/// Records the pending Events, and evicts the pod of the key if the eviction is due.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let waiting = std::mem::take(&mut shared.lock().events);
    waiting.into_iter().for_each(|event| calls.event(event));
    let scheduled = shared.lock().evictions.scheduled(key);
    let Some((pod, due_ns)) = scheduled else {
        return Ok(End::Forget);
    };
    let left_ns = due_ns.saturating_sub(calls.now().mono_ns);
    if left_ns > 0 {
        return Ok(End::After(left_ns));
    }
    let text = format!("Marking for deletion Pod {pod}");
    calls.event(event(&pod, text));
    let mut outcome = evict(&calls, &pod).await;
    for _ in 1..ATTEMPTS {
        // Upstream also retries if the pod no longer exists. Such a pod can't return under this
        // eviction.
        match &outcome {
            Err(error) if !error.is_not_found() => outcome = evict(&calls, &pod).await,
            _ => break,
        }
    }
    shared.lock().evictions.finish(key, &pod, outcome.is_ok());
    match outcome {
        Err(error) if !error.is_not_found() => Err(SyncFailure {
            label: "eviction failed",
            message: error.message,
            // A retry would not help: the next change of the pod or the node decides.
            is_final: true,
        }),
        _ => Ok(End::Forget),
    }
}

async fn evict(calls: &Calls, pod: &PodKey) -> Result<(), ApiError> {
    let pod: Arc<Pod> = calls.get(Kind::POD, &pod.namespace, &pod.name).await?;
    let mut status = Map::new();
    mark(&mut status, &pod, TAINTED, calls.now().wall());
    if !status.is_empty() {
        let patch = patch_of_status(&pod, status);
        calls.patch(Kind::POD, &pod.metadata, patch, true).await?;
    }
    calls.delete(Kind::POD, &pod.metadata, None).await
}
