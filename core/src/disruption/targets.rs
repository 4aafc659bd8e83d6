//! The pods with a condition `DisruptionTarget` that may become stale: the keys of these pods, and
//! the sync that removes the condition.

use std::collections::BTreeMap;
use std::sync::Arc;

use podstorm_objects::Pod;
use podstorm_objects::disruption::{spared, stale_from_ns};
use podstorm_runtime::driver::{Calls, SyncFailure, unless_gone};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::End;

use super::Shared;
use crate::pod_key::{PodKey, PodKeyIds};

/// The keys of the cached pods whose condition is stale or may become stale. A key is reused as
/// soon as its pod has no such condition. A sync that is left over for the earlier pod does
/// nothing.
#[derive(Debug, Default)]
pub(super) struct Targets {
    by_pod: BTreeMap<PodKey, KeyId>,
    keys: PodKeyIds,
}

impl Targets {
    /// Returns the key of a pod. A new pod gets a free key.
    pub(super) fn key(&mut self, pod: &Pod) -> KeyId {
        let pod = PodKey::of(pod);
        if let Some(known) = self.by_pod.get(&pod) {
            return *known;
        }
        let key = self.keys.assign(pod.clone());
        self.by_pod.insert(pod, key);
        key
    }

    /// Frees the key of a pod, if it has one.
    pub(super) fn free(&mut self, pod: &Pod) {
        if let Some(key) = self.by_pod.remove(&PodKey::of(pod)) {
            self.keys.free(key);
        }
    }

    /// Returns the name of the pod of a key; `None` if the key is free.
    pub(super) fn pod(&self, key: KeyId) -> Option<&PodKey> {
        self.keys.pod(key)
    }

    /// Returns the number of keys, free ones included.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.keys.len()
    }
}

/// Removes the condition from a pod whose deletion has not begun in time.
///
/// Source: `syncStalePodDisruption` of Kubernetes' `pkg/controller/disruption`, which also updates
/// the status at the version of the cached pod.
pub(super) async fn spare(
    shared: Arc<Shared>,
    key: KeyId,
    calls: Calls,
) -> Result<End, SyncFailure> {
    let pod = shared.lock().targets.pod(key).cloned();
    let pod = pod.and_then(|pod| shared.pods.get(&pod.namespace, &pod.name));
    let Some((pod, stale_ns)) = pod.and_then(|pod| {
        let stale_ns = stale_from_ns(&pod)?;
        Some((pod, stale_ns))
    }) else {
        return Ok(End::Forget);
    };
    let now = calls.now();
    let left_ns = stale_ns.saturating_sub(now.wall_ns);
    if left_ns > 0 {
        return Ok(End::After(left_ns));
    }
    let written = unless_gone(calls.put_status(spared(&pod, now)).await);
    written.map_err(SyncFailure::at("status failed"))?;
    Ok(End::Forget)
}
