//! The sync of orphans: it removes the tracking finalizer from pods that no Job will count.
//!
//! Source: `syncOrphanPod` in Kubernetes' `pkg/controller/job`.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{Kind, OwnerReference, Pod, Selector, Str};
use podstorm_runtime::cache::NamespacedSelector;
use podstorm_runtime::driver::{Calls, SyncFailure, unless_gone};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::primitives::{Mutex, lock};
use podstorm_runtime::workqueue::End;

use super::Shared;
use super::cache::CachedJob;
use super::pod::TRACKING_FINALIZER;
use super::tracking::REMOVE_FINALIZER;

/// A set of pods that may be orphans.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrphanKey {
    /// The pod with this name.
    Name(Str, CompactString),
    /// The pods of a namespace that match a selector in canonical form, and the pods of the owner.
    Selector(Str, String, Option<Arc<OwnerReference>>),
}

/// The names of the keys in the queue of orphans. The sync that completes the work of a key
/// frees it.
#[derive(Debug, Default)]
pub(super) struct OrphanKeys(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_name: BTreeMap<OrphanKey, KeyId>,
    /// The name of each key and the number of times that it was added; `None` if the key is free.
    names: Vec<Option<(OrphanKey, u64)>>,
    free: Vec<KeyId>,
}

impl OrphanKeys {
    /// Returns the key of a name. Counts the addition.
    pub(super) fn add(&self, name: OrphanKey) -> KeyId {
        let table = &mut *lock(&self.0);
        if let Some(key) = table.by_name.get(&name) {
            if let Some((_, added)) = &mut table.names[key.index()] {
                *added += 1;
            }
            return *key;
        }
        let key = table.free.pop().unwrap_or_else(|| {
            table.names.push(None);
            KeyId(u32::try_from(table.names.len() - 1).expect("the keys fit 32 bits"))
        });
        table.names[key.index()] = Some((name.clone(), 1));
        table.by_name.insert(name, key);
        key
    }

    /// Returns the name of a key and the number of times it was added; `None` if the key is free.
    pub(super) fn get(&self, key: KeyId) -> Option<(OrphanKey, u64)> {
        lock(&self.0).names.get(key.index())?.clone()
    }

    /// Frees a key unless its name was added more than `added` times.
    fn free(&self, key: KeyId, added: u64) {
        let table = &mut *lock(&self.0);
        let name = &mut table.names[key.index()];
        if let Some((name, _)) = name.take_if(|(_, now)| *now == added) {
            table.by_name.remove(&name);
            table.free.push(key);
        }
    }
}

/// Runs one sync of a key in the queue of orphans.
pub(super) async fn run(shared: Arc<Shared>, key: KeyId, calls: Calls) -> Result<End, SyncFailure> {
    let Some((name, added)) = shared.orphan_keys.get(key) else {
        return Ok(End::Forget);
    };
    match name {
        OrphanKey::Name(namespace, name) => {
            if let Some(pod) = shared.pods.get(&namespace, &name) {
                release(&shared, &pod, &calls).await?;
            }
        }
        OrphanKey::Selector(namespace, text, owner) => {
            let selector = Selector::parse(&text).map_err(|error| {
                SyncFailure::new("selector", format!("invalid label selector: {error}"))
            })?;
            let mut pods = Vec::new();
            let selector = Arc::new(selector);
            let selectors = [NamespacedSelector::new(&namespace, &selector)];
            let cache = &shared.pods;
            cache.for_each_matching(&selectors, &mut Vec::new(), |pod, _| pods.push(pod.clone()));
            let owned = owner.and_then(|owner| shared.pods.owned_by(&namespace, &owner));
            if let Some(owned) = owned {
                let owned = owned.lock();
                let others = owned.iter().map(|(pod, _)| pod);
                let others = others.filter(|pod| !selector.matches(&pod.metadata.labels));
                pods.extend(others.map(Arc::clone));
            }
            let mut failed = None;
            for pod in pods {
                let released = release(&shared, &pod, &calls).await;
                failed = failed.or(released.err());
            }
            // Upstream does not retry after this failure.
            if let Some(failure) = failed.filter(|_| shared.options.retry_orphans) {
                return Err(failure);
            }
        }
    }
    shared.orphan_keys.free(key, added);
    Ok(End::Forget)
}

/// Removes the finalizer of a pod unless a Job will count the pod.
async fn release(shared: &Shared, pod: &Pod, calls: &Calls) -> Result<(), SyncFailure> {
    let meta = &pod.metadata;
    if let Some(owner) = meta.controller() {
        if *owner.kind != *Kind::JOB.name() || *owner.api_version != *"batch/v1" {
            return Ok(());
        }
        let job = shared.jobs.resolve(&meta.namespace, owner);
        let counts = |job: &CachedJob| !job.is_finished() && !shared.has_lost(job, meta);
        if job.is_some_and(|(_, job)| job.spec.is_foreign || counts(&job)) {
            return Ok(());
        }
    }
    if !meta.has_finalizer(TRACKING_FINALIZER) {
        return Ok(());
    }
    let patched = calls.patch(Kind::POD, meta, REMOVE_FINALIZER, false).await;
    unless_gone(patched)
        .map(drop)
        .map_err(SyncFailure::at("finalizer failed"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(of: &str) -> OrphanKey {
        OrphanKey::Name("shop".into(), of.into())
    }

    #[test]
    fn a_key_is_reused_only_after_all_its_syncs() {
        let keys = OrphanKeys::default();
        let first = keys.add(name("a"));
        let (_, added) = keys.get(first).expect("the name was added");
        // An event arrives during the sync, so another sync is still pending.
        assert_eq!(keys.add(name("a")), first);
        keys.free(first, added);
        assert_eq!(keys.get(first), Some((name("a"), 2)));
        assert_ne!(keys.add(name("b")), first);
        keys.free(first, 2);
        assert_eq!(keys.get(first), None);
        assert_eq!(keys.add(name("c")), first);
        assert_eq!(lock(&keys.0).names.len(), 2);
    }
}
