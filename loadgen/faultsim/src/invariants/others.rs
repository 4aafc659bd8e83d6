//! The syncs of workloads that the checker's [`Oracle`](super::Oracle) does not know. Their
//! watchers report them, and the invariants of all workloads (L2, L6) are checked.

use std::collections::BTreeSet;

use podstorm::client::{Answer, Request};
use podstorm_apiserver::Commit;
use podstorm_objects::{Now, Pod};
use podstorm_sim::engine::observer::SyncId;

use super::Checker;
use super::trace::request_words;

/// The state of the syncs of these workloads.
#[derive(Debug, Default)]
pub(super) struct Others {
    /// The syncs in progress.
    syncs: BTreeSet<SyncId>,
    /// The time of the last request, ns.
    pub(super) last_asked_ns: i64,
}

impl Others {
    /// Reports whether any of these syncs is in progress.
    pub(super) fn are_busy(&self) -> bool {
        !self.syncs.is_empty()
    }

    /// Removes all syncs in progress, because a controller manager has died.
    pub(super) fn die(&mut self) {
        self.syncs.clear();
    }
}

impl Checker {
    /// Records a commit that such a sync requested.
    pub(crate) fn other_committed(&self, commit: &Commit) {
        if let Some((old, new)) = commit.downcast::<Pod>() {
            self.state().count_pod(old, new, commit.change);
        }
    }

    /// Records the beginning of a sync. `repeats` tells whether repeated requests with equal
    /// answers are limited (L6).
    pub(crate) fn other_sync_begins(&self, sync: SyncId, key: &str, repeats: bool, now: Now) {
        let mut state = self.state();
        state.note(|| format!("sync {}.{} of {key}", sync.incarnation, sync.number));
        state.verdict.syncs += 1;
        state.others.syncs.insert(sync);
        state.count_sync(sync, || key.to_owned(), now);
        state.reach.sync_begins(now);
        if repeats {
            state.repeats.sync_begins(sync, || key.to_owned(), now);
        }
    }

    /// Records a request of the sync.
    pub(crate) fn other_sends(&self, sync: SyncId, request: &Request, now: Now) {
        let mut state = self.state();
        state.others.last_asked_ns = now.mono_ns;
        let (incarnation, number) = (sync.incarnation, sync.number);
        if state.log.is_some() {
            let words = request_words(request, &*state.oracle);
            state.note(|| format!("  {incarnation}.{number} requests: {words}"));
        }
    }

    /// Records the answer to a request of the sync.
    pub(crate) fn other_answered(
        &self,
        sync: SyncId,
        request: &Request,
        answer: &Answer,
        now: Now,
    ) {
        self.check(now, |state| {
            if let Answer::Failed(error) = answer {
                let (incarnation, number) = (sync.incarnation, sync.number);
                let code = error.code;
                state.note(|| format!("  {incarnation}.{number} gets answer {code}: {error}"));
            }
            state.reach.answered(answer, now);
            state
                .repeats
                .answered(sync, request, answer, &*state.oracle, now)
        });
    }

    /// Records the end of the sync.
    pub(crate) fn other_sync_ended(&self, sync: SyncId) {
        let mut state = self.state();
        state.others.syncs.remove(&sync);
        state.repeats.sync_ended(sync);
    }
}
