//! What the caches must show before a key's pods are counted, in the hardened behaviour: the
//! controller's own writes (the read-your-writes check), the versions read after a write of unknown
//! outcome (the fence) or before the first sync, and everything that the caches have shown before.
//! See [`crate::policy`].
//!
//! ```text
//! begin ─▶ fence wanted? ─yes─▶ ReadVersion ─▶ caches there? ─no─▶ put off, retried
//!                └──────────no──────────────────▲    └─yes─▶ the sync ─▶ outcome unknown?
//!                                                            yes: ReadVersion, at its end
//! ```

use podstorm_objects::{Kind, Now, ResourceVersion, Uid};
use podstorm_runtime::client::{Answer, ApiError, Request};
use podstorm_runtime::consistency::Kinds;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::limits::{EXPECTATIONS_TIMEOUT_NS, HARDENED_RETRY_MAX_NS};
use podstorm_runtime::slow_start::SlowStart;

use super::super::sync::{Outcome, Sync, SyncErrorClass, SyncStage};
use super::super::{Controller, Step};

impl Controller {
    /// Stops a sync at its begin, unless the caches have passed the read-your-writes check and the
    /// fence.
    #[inline(never)]
    pub(in super::super) fn stop_at_fence(&self, sync: &mut Sync) -> Option<Step> {
        // Clears the last sync's successes, because its end depends on those of this one.
        sync.slow_start = SlowStart::new(0, 1);
        let mut unread = self.hardened.fences.wanted(&sync.key);
        if self.hardened.policy.fence_at_start && !self.hardened.fences.is_started() {
            unread = self.hardened.fences.kinds();
        }
        if unread.is_empty() {
            return self.stop_if_caches_lag(sync);
        }
        Some(self.read_versions(SyncStage::ReadingFence, unread, sync))
    }

    /// Handles the versions that were read at the beginning of the sync. Stops the sync if they
    /// could not be read, or if the caches have not reached them.
    pub(in super::super) fn fence_read(&self, sync: &mut Sync) -> Option<Step> {
        let key = sync.key;
        let owner = self.owners.get(key);
        let uid = owner.as_ref().map(|owner| &owner.object.metadata.uid);
        let wanted = !self.hardened.fences.wanted(&key).is_empty();
        // If another worker was first, the caches must still reach the versions that this sync has
        // read.
        let starting = !self.hardened.fences.is_started();
        let unread = take_versions(sync, |kind, version| {
            if starting {
                self.hardened.fences.raise(kind, version);
            }
            if let (true, Some(uid)) = (wanted, uid) {
                self.consistency.wrote_at(key, uid, kind, version);
            }
        });
        if let Some((_, error)) = unread {
            return Some(sync.fail(SyncErrorClass::Fence, error.message));
        }
        if wanted {
            self.hardened.fences.forget(&key);
        }
        if starting {
            self.hardened.fences.start();
        }
        let stopped = self.stop_if_caches_lag(sync);
        if stopped.is_some() {
            // The server answers again. The caches lag by milliseconds, so the long delay of the
            // earlier failures no longer fits.
            self.queue.forget(key);
        }
        stopped
    }

    fn stop_if_caches_lag(&self, sync: &mut Sync) -> Option<Step> {
        let key = sync.key;
        // Read before the versions.
        sync.rewinds = self.rewinds();
        // Read before any pod: the cache then holds everything up to these versions.
        let stores = [self.pods().version().get(), self.owners.version().get()];
        if let Err(stale) = self.hardened.fences.check(&stores) {
            return Some(self.postpone(&stale, sync));
        }
        // A list from a server that lags may take a cache back behind this version, and the record
        // is dropped once it has been seen.
        self.hardened.fences.raise_all(&stores);
        if let Err(stale) = self.consistency.ensure_ready(&key, &stores) {
            return Some(self.postpone(&stale, sync));
        }
        let [pods, _] = &stores;
        if self.hardened.policy.clear_stale_expectations && pods.number().is_some() {
            self.clear_expectations(key);
        }
        None
    }

    /// How often the caches went back to an older list.
    pub(super) fn rewinds(&self) -> u64 {
        self.pods().version().rewinds() + self.owners.version().rewinds()
    }

    /// Fails a sync during which a cache went back to an older list: the counted pods may be older
    /// than the versions that were checked.
    #[cold]
    pub(super) fn stop_rewound(&self, sync: &mut Sync) -> Step {
        self.metrics.stale_sync_skips_pods.increment();
        sync.claim = None;
        let message = "a cache went back to an older list while it was read".to_owned();
        sync.fail(SyncErrorClass::Consistency(Kind::POD), message)
    }

    /// Clears what the key still expects. The cache shows all that was done for the key, so no
    /// event for it will come.
    fn clear_expectations(&self, key: KeyId) {
        if self.outstanding(key).is_some() {
            self.metrics.expectations_settled.increment();
        }
        self.expectations.delete(key);
    }

    /// When the key's open expectations were set, ns; `None` if it expects nothing.
    fn outstanding(&self, key: KeyId) -> Option<i64> {
        let counts = self.expectations.counts(key)?;
        (counts.add > 0 || counts.del > 0).then_some(counts.timestamp_ns)
    }

    /// Ends a sync. If the outcome of a write is unknown, the versions are read first.
    #[inline(never)]
    pub(super) fn end_sync(&self, sync: &mut Sync, now: Now) -> Step {
        let unknown = std::mem::take(&mut sync.unknown);
        if self.hardened.policy.fence_unknown_outcomes && !unknown.is_empty() {
            return self.read_versions(SyncStage::ReadingLastFence, unknown, sync);
        }
        if self.hardened.policy.clear_stale_expectations && sync.outcome == Outcome::Ok {
            self.requeue_for_expectations(sync.key, now);
        }
        Step::Finished
    }

    /// Adds the key with a delay if it expects something. The expected events wake it earlier if
    /// they come.
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

    /// Adds the key with a delay, for a case in which no event may wake it.
    #[inline(never)]
    pub(super) fn requeue_later(&self, key: KeyId, now: Now) {
        self.queue
            .add_after(key, HARDENED_RETRY_MAX_NS, now.mono_ns);
    }

    /// Handles the versions that were read at the end of the sync: the next sync waits for them. A
    /// version that could not be read is read at the beginning of the next sync.
    pub(in super::super) fn last_fence_read(&self, uid: &Uid, sync: &mut Sync) -> Step {
        let key = sync.key;
        let unread = take_versions(sync, |kind, version| {
            self.consistency.wrote_at(key, uid, kind, version);
        });
        if let Some((kinds, error)) = unread {
            self.hardened.fences.want(key, kinds);
            if sync.outcome == Outcome::Ok {
                return sync.fail(SyncErrorClass::Fence, error.message);
            }
        }
        sync.finish()
    }

    fn read_versions(&self, stage: SyncStage, kinds: Kinds, sync: &mut Sync) -> Step {
        self.metrics.fences.increment();
        let requests = kinds.iter().map(|kind| Request::ReadVersion { kind });
        sync.request(stage, requests)
    }
}

/// Calls `read` with every version that was read. Returns the kinds without a version, with an
/// error.
fn take_versions(
    sync: &mut Sync,
    mut read: impl FnMut(Kind, &ResourceVersion),
) -> Option<(Kinds, ApiError)> {
    sync.require_answers();
    let mut unread = Kinds::default();
    let mut first_error = None;
    for (request, answer) in sync.requests.iter().zip(&mut sync.answers) {
        let Request::ReadVersion { kind } = *request else {
            panic!("expected a read of a version, not {request:?}");
        };
        match answer.take() {
            Some(Answer::Version(version)) => read(kind, &version),
            Some(Answer::Failed(error)) => {
                unread.insert(kind);
                first_error.get_or_insert(error);
            }
            other => panic!("a read of a version can't be answered by {other:?}"),
        }
    }
    first_error.map(|error| (unread, error))
}

#[cfg(test)]
mod tests;
