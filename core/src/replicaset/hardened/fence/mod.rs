//! The checks of the caches before a key's pods are counted, in the hardened behaviour. The caches
//! must show the controller's own writes (the read-your-writes check), the versions that were read
//! after a write of unknown outcome (the fence) or before the first sync, and everything that they
//! have shown before. The runtime's [`Guard`](podstorm_runtime::consistency::Guard) does the
//! checks. See [`crate::policy`].

use podstorm_objects::{Kind, Now, Uid};
use podstorm_runtime::cache::StoreVersion;
use podstorm_runtime::consistency::Kinds;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::limits::{EXPECTATIONS_TIMEOUT_NS, HARDENED_RETRY_MAX_NS};
use podstorm_runtime::slow_start::SlowStart;

use super::super::sync::{Outcome, ReplicaSetSync, SyncErrorClass, SyncStage};
use super::super::{Controller, Step};

impl Controller {
    /// Stops a sync at its start unless the caches pass the read-your-writes check and the fence.
    #[inline(never)]
    pub(in super::super) fn stop_at_fence(&self, sync: &mut ReplicaSetSync) -> Option<Step> {
        // The end of this sync depends on its own successes, so clear those of the last sync.
        sync.slow_start = SlowStart::new(0, 1);
        let unread = self.guard.unread(&sync.key);
        if unread.is_empty() {
            return self.stop_if_caches_lag(sync);
        }
        Some(self.read_versions(SyncStage::ReadingFence, &unread, sync))
    }

    /// Handles the versions read at the start of the sync. Stops the sync if a read failed or the
    /// caches have not reached the versions.
    pub(in super::super) fn fence_read(&self, sync: &mut ReplicaSetSync) -> Option<Step> {
        sync.require_answers();
        let key = sync.key;
        let owner = self.owners.get(key);
        let uid = owner.as_ref().map(|owner| &owner.object.metadata.uid);
        let (requests, answers) = (&sync.requests, &mut sync.answers);
        if let Err(error) = self.guard.read_first(key, uid, requests, answers) {
            return Some(sync.fail(SyncErrorClass::Fence, error.message));
        }
        let stopped = self.stop_if_caches_lag(sync);
        if stopped.is_some() {
            // The server answers again. The caches lag by milliseconds, so the long delay after the
            // earlier failures no longer fits.
            self.queue.forget(key);
        }
        stopped
    }

    fn stop_if_caches_lag(&self, sync: &mut ReplicaSetSync) -> Option<Step> {
        let checked = match self.guard.check(&sync.key, self.stores()) {
            Ok(checked) => checked,
            Err(stale) => return Some(sync.postpone(&stale)),
        };
        let [pods, _] = &checked.versions;
        if self.hardened.policy.clear_stale_expectations && pods.number().is_some() {
            self.clear_expectations(sync.key);
        }
        sync.checked = Some(checked);
        None
    }

    /// Returns the versions of the caches, in the order of the guard's kinds.
    #[inline]
    pub(in super::super) fn stores(&self) -> [&StoreVersion; 2] {
        [self.pods().version(), self.owners.version()]
    }

    /// Reports whether a cache went back to an older list while the pods were counted.
    pub(super) fn is_rewound(&self, sync: &ReplicaSetSync) -> bool {
        let checked = sync.checked.as_ref();
        checked.is_some_and(|checked| self.guard.is_behind(checked, self.stores()))
    }

    /// Clears the key's remaining expectations. The cache shows everything that the controller did
    /// for the key, so no more events for these expectations will come.
    fn clear_expectations(&self, key: KeyId) {
        if self.outstanding(key).is_some() {
            self.guard.expectations_settled.increment();
        }
        self.expectations.delete(key);
    }

    /// Returns when the key's open expectations were set, in ns; `None` if it expects nothing.
    fn outstanding(&self, key: KeyId) -> Option<i64> {
        let counts = self.expectations.counts(key)?;
        (counts.add > 0 || counts.del > 0).then_some(counts.timestamp_ns)
    }

    /// Ends a sync. First reads the versions of the kinds with a write of unknown outcome, if any.
    #[inline(never)]
    pub(super) fn end_sync(&self, sync: &mut ReplicaSetSync, now: Now) -> Step {
        let unknown = std::mem::take(&mut sync.unknown);
        if self.hardened.policy.fence_unknown_outcomes && !unknown.is_empty() {
            return self.read_versions(SyncStage::ReadingLastFence, &unknown, sync);
        }
        if self.hardened.policy.clear_stale_expectations && sync.outcome == Outcome::Ok {
            self.requeue_for_expectations(sync.key, now);
        }
        Step::Finished
    }

    /// Adds the key with a delay if it has open expectations. The expected events wake it earlier.
    fn requeue_for_expectations(&self, key: KeyId, now: Now) {
        let Some(since_ns) = self.outstanding(key) else {
            return;
        };
        let expiry_ns = since_ns.saturating_add(EXPECTATIONS_TIMEOUT_NS + 1);
        let rest_ns = expiry_ns.saturating_sub(now.mono_ns);
        if rest_ns > 0 {
            self.queue
                .add_after(key, rest_ns.min(HARDENED_RETRY_MAX_NS), now.mono_ns);
        }
    }

    /// Adds the key with the retry delay, for a case in which perhaps no event wakes it.
    #[inline(never)]
    pub(super) fn requeue_later(&self, key: KeyId, now: Now) {
        self.queue
            .add_after(key, HARDENED_RETRY_MAX_NS, now.mono_ns);
    }

    /// Handles the versions read at the end of the sync.
    pub(in super::super) fn last_fence_read(&self, uid: &Uid, sync: &mut ReplicaSetSync) -> Step {
        sync.require_answers();
        let (requests, answers) = (&sync.requests, &mut sync.answers);
        let read = self.guard.read_last(sync.key, uid, requests, answers);
        match read {
            Err(error) if sync.outcome == Outcome::Ok => {
                sync.fail(SyncErrorClass::Fence, error.message)
            }
            _ => sync.finish(),
        }
    }

    fn read_versions(&self, stage: SyncStage, kinds: &Kinds, sync: &mut ReplicaSetSync) -> Step {
        sync.request(stage, self.guard.reads(kinds))
    }
}

/// Fails a sync during which a cache went back to an older list. The counted pods may be older than
/// the versions that were checked.
#[cold]
pub(super) fn stop_rewound(sync: &mut ReplicaSetSync) -> Step {
    sync.claim = None;
    let message = "the cache was replaced by an older list during the sync".to_owned();
    sync.fail(SyncErrorClass::Consistency(Kind::POD), message)
}

#[cfg(test)]
mod tests;
