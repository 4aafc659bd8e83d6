//! The pods with a condition `DisruptionTarget` that becomes stale: their keys, and the sync that
//! removes the condition.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::disruption::{spared, stale_from_ns};
use podstorm_objects::{Pod, Str};
use podstorm_runtime::driver::{Calls, SyncFailure, unless_gone};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::workqueue::End;

use super::Shared;

/// The namespace and name of a pod.
type PodName = (Str, CompactString);

/// The keys of the cached pods whose condition is or becomes stale. A key is reused as soon as its
/// pod has no such condition. A leftover sync for the earlier pod does nothing.
#[derive(Debug, Default)]
pub(super) struct Targets {
    by_name: BTreeMap<PodName, KeyId>,
    /// The names by key; `None` for a free key.
    names: Vec<Option<PodName>>,
    free: Vec<KeyId>,
}

impl Targets {
    /// Returns the key of a pod. A new pod gets a free key.
    pub(super) fn key(&mut self, pod: &Pod) -> KeyId {
        let name = name_of(pod);
        if let Some(known) = self.by_name.get(&name) {
            return *known;
        }
        let key = self.free.pop().unwrap_or_else(|| {
            self.names.push(None);
            KeyId(u32::try_from(self.names.len() - 1).expect("the number of pods fits 32 bits"))
        });
        self.names[key.index()] = Some(name.clone());
        self.by_name.insert(name, key);
        key
    }

    /// Frees the key of a pod, if it has one.
    pub(super) fn free(&mut self, pod: &Pod) {
        if let Some(key) = self.by_name.remove(&name_of(pod)) {
            self.names[key.index()] = None;
            self.free.push(key);
        }
    }

    /// Returns the pod of a key; `None` for a free key.
    pub(super) fn name(&self, key: KeyId) -> Option<&PodName> {
        self.names.get(key.index())?.as_ref()
    }

    /// Returns the number of keys, including free ones.
    #[cfg(test)]
    pub(super) fn keys(&self) -> usize {
        self.names.len()
    }
}

fn name_of(pod: &Pod) -> PodName {
    (pod.metadata.namespace.clone(), pod.metadata.name.clone())
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
    let name = shared.lock().targets.name(key).cloned();
    let pod = name.and_then(|(namespace, name)| shared.pods.get(&namespace, &name));
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
