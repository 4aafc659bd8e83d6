//! Where the hardened behaviour does otherwise than upstream. Each place of a handler, a sync or a retry
//! where the two may part asks a question of this folder, and nothing else knows which of them it is; the
//! rows and their reasons are in [`crate::policy`].

mod fence;
#[cfg(test)]
mod fence_tests;
mod names;
mod open_names;
#[cfg(test)]
mod tests;

use std::sync::Arc;

#[cfg(test)]
use podstorm_objects::Uid;
use podstorm_objects::{Kind, Now, Pod, ReplicaSet};
use podstorm_runtime::client::{Answer, ApiError, Reason};
use podstorm_runtime::consistency::Fences;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::limits::HARDENED_STALE_RETRY_MAX_NS;

use super::parents::Parent;
use super::sync::{Outcome, Sync, SyncErrorClass};
use super::{Controller, Step};
use crate::cache::PodChange;
use crate::policy::Policy;
#[cfg(test)]
use open_names::Holder;
pub(super) use open_names::Open;
use open_names::OpenNames;

/// The rows of a controller's behaviour, and what the hardened one remembers.
#[derive(Debug)]
pub(super) struct Hardened {
    policy: Policy,
    fences: Fences<KeyId>,
    open_names: OpenNames,
}

/// What a create that was refused comes to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CreateFailure {
    /// It counts as made: whatever else happens in that namespace comes from its deletion.
    Made,
    /// It failed, without Event or condition.
    Quiet,
    /// The same; and the pod was made before, by this one or another, or is somebody else's: the cache
    /// must show.
    Taken,
    /// It failed, as everybody is told.
    Loud,
}

impl Hardened {
    /// Of a controller with these rows, whose caches hold these kinds.
    pub(super) fn new(policy: Policy, kinds: [Kind; 2]) -> Hardened {
        Hardened {
            policy,
            fences: Fences::new(kinds),
            open_names: OpenNames::default(),
        }
    }

    /// Whether every own write must be in the caches before a key is synced again, whoever made it for
    /// the key; else those alone that the read-your-writes gate of upstream records.
    #[inline]
    pub(super) fn records_every_write(&self) -> bool {
        self.policy.record_every_write
    }

    /// Whether creates name their pods; else the server does.
    #[inline]
    pub(super) fn names_pods(&self) -> bool {
        self.policy.choose_pod_names
    }

    /// Whether a delete is of the pod that was chosen; else of whichever has its name.
    #[inline]
    pub(super) fn deletes_by_uid(&self) -> bool {
        self.policy.delete_by_uid
    }

    /// Whether own pods on a node count in ranking where no owner has others.
    pub(super) fn ranks_without_owner(&self) -> bool {
        self.policy.rank_without_owner
    }

    /// Forgets what is remembered of a key.
    pub(super) fn forget(&self, key: KeyId) {
        if self.policy.fence_unknown_outcomes {
            self.fences.forget(&key);
            self.open_names.forget(key);
        }
    }

    /// After how long a key is looked at again for its pods' availability: `delay_ns` says the wall clock,
    /// which may be wrong; `longest_ns` is the parent's `minReadySeconds`.
    pub(super) fn availability_check(&self, delay_ns: i64, longest_ns: i64) -> i64 {
        if delay_ns == i64::MAX || self.policy.bound_availability_checks {
            delay_ns.min(longest_ns)
        } else {
            delay_ns
        }
    }

    /// What becomes of a create that was refused.
    #[cold]
    pub(super) fn create_failure(&self, error: &ApiError) -> CreateFailure {
        if error.has_cause("NamespaceTerminating") {
            match self.policy.terminating_namespace_is_a_failure {
                true => CreateFailure::Quiet,
                false => CreateFailure::Made,
            }
        } else if self.names_pods() && error.reason == Reason::AlreadyExists {
            CreateFailure::Taken
        } else {
            CreateFailure::Loud
        }
    }

    /// Whether a delete was refused because the pod is gone: another has its name, or none. Should the
    /// conflict have been about something else, or the pod be there after all, the next sync deletes it.
    pub(super) fn is_gone(&self, error: &ApiError) -> bool {
        self.deletes_by_uid() && (error.reason == Reason::Conflict || error.is_not_found())
    }
}

#[cfg(test)]
impl Hardened {
    /// As a sync of that owner's leaves it that could not find out what became of a create.
    pub(super) fn remember_something(&self, key: KeyId, owner: &Uid) {
        self.fences.want(key, self.fences.kinds());
        self.open_names.note(key, owner, &"old-x".into(), false, 0);
    }

    pub(super) fn remembers_nothing(&self, key: KeyId, owner: &Uid) -> bool {
        let open = self.open_names.of(key, owner, 1, |_| Holder::Nobody);
        self.fences.wanted(&key).is_empty() && open.free.is_empty()
    }
}

impl Controller {
    /// Before the pods are counted.
    #[inline(always)]
    pub(super) fn before_count(&self, parent: &Parent, sync: &mut Sync, now: Now) {
        if self.hardened.policy.choose_pod_names {
            self.load_open_names(parent, sync, now);
        }
    }

    /// After the pods were counted: stops the sync where the cache went back meanwhile.
    #[inline(always)]
    pub(super) fn after_count(&self, sync: &mut Sync) -> Option<Step> {
        let rewound = self.hardened.policy.record_every_write && self.rewinds() != sync.rewinds;
        rewound.then(|| self.stop_rewound(sync))
    }

    /// At the end of a sync: what is to be asked for before it is over.
    #[inline(always)]
    pub(super) fn before_end(&self, sync: &mut Sync, now: Now) -> Step {
        let policy = &self.hardened.policy;
        if policy.fence_unknown_outcomes || policy.settle_expectations {
            return self.close(sync, now);
        }
        Step::Finished
    }

    /// A pod was adopted or released.
    pub(super) fn patched(&self, parent: &Parent, pod: &Pod, key: KeyId, now: Now) {
        if self.hardened.policy.record_every_write {
            let (uid, version) = (&parent.owner.uid, &pod.metadata.resource_version);
            self.consistency.wrote_at(key, uid, Kind::POD, version);
            // No expectation waits for its event. Should that never come, and the pod change again
            // before a list shows it, nothing else wakes the key.
            if self.hardened.policy.settle_expectations {
                self.look_again_later(key, now);
            }
        } else if self.keeps_records {
            self.record_pod_write(&pod.metadata);
        }
    }

    /// An adoption or a release was refused.
    pub(super) fn patch_refused(&self, error: &ApiError, sync: &mut Sync, now: Now) {
        if error.is_not_found() && self.hardened.policy.fence_unknown_outcomes {
            // Gone, says the server, perhaps to a layer below that asked twice, and the first time it was
            // adopted: the cache must show what became of it, and then the key is counted.
            sync.unknown.insert(Kind::POD);
            sync.may_scale = false;
            let quiet = || (SyncErrorClass::Claim, error.message.clone());
            sync.quiet_error.get_or_insert_with(quiet);
        }
        // A release that is refused as invalid counts as done by somebody else; should it have been
        // refused for another reason, no event comes.
        if error.is_invalid() && self.hardened.policy.settle_expectations {
            self.look_again_later(sync.key, now);
        }
    }

    /// How many of the missing pods may be created now.
    pub(super) fn creatable(&self, missing: i64, sync: &Sync, now: Now) -> i64 {
        if !self.hardened.policy.choose_pod_names {
            return missing;
        }
        let waits = self.held_back(sync, now);
        missing.saturating_sub_unsigned(waits as u64).max(0)
    }

    /// Whether a burst ends before its next batch, because its object is gone: the handler that saw it
    /// go has added the key; what was made is collected with it.
    pub(super) fn burst_ends(&self, parent: &Parent) -> bool {
        let is_current = || {
            self.parents.get(parent.key).is_some_and(|cached| {
                let meta = &cached.object.metadata;
                meta.uid == parent.object.metadata.uid && !meta.is_deleting()
            })
        };
        self.hardened.policy.recheck_parent_between_batches && !is_current()
    }

    /// The deletes of a batch are answered.
    pub(super) fn deletes_answered(&self, parent: &Parent, sync: &mut Sync) {
        // It is not known when those were committed that came back without a version.
        let versioned = |answer: &Option<Answer>| {
            matches!(answer, Some(Answer::Failed(_) | Answer::Deleted(Some(_))))
        };
        let policy = &self.hardened.policy;
        if policy.fence_unknown_outcomes && !sync.answers.iter().all(versioned) {
            sync.unknown.insert(Kind::POD);
        }
        if policy.record_every_write {
            let versions = sync.answers.iter().filter_map(|answer| match answer {
                Some(Answer::Deleted(version)) => version.as_ref(),
                _ => None,
            });
            let uid = &parent.owner.uid;
            self.consistency
                .wrote_all(sync.key, uid, Kind::POD, versions);
        }
    }

    /// A status could not be written, and `live` is what the server has: stops the sync where that is
    /// another object or generation, or ends it where the status is there already.
    pub(super) fn keeps_status(
        &self,
        parent: &Arc<Parent>,
        live: &ReplicaSet,
        sync: &mut Sync,
        now: Now,
    ) -> Option<Step> {
        if !self.hardened.policy.keep_status_with_its_object {
            return None;
        }
        // Whatever became of the first attempt, this shows it.
        let kind = self.options.kind;
        sync.unknown.remove(kind);
        let (ours, theirs) = (&parent.object.metadata, &live.metadata);
        if ours.uid != theirs.uid || ours.generation != theirs.generation {
            let version = &theirs.resource_version;
            self.consistency
                .wrote_at(sync.key, &ours.uid, kind, version);
            let (class, message) = sync.manage_error.take().unwrap_or_else(|| {
                let message = "the object has changed since its status was computed";
                (SyncErrorClass::Status, message.to_owned())
            });
            return Some(sync.fail(class, message));
        }
        let written = sync.new_status.as_deref() == Some(&live.status);
        written.then(|| self.status_written(parent, sync, live, now))
    }

    /// A pod goes whose owner is another than the cache had. That one has lost a pod too, and so have those
    /// that matched an orphan; where the event that told so was lost, nothing else wakes them.
    #[inline(always)]
    pub(super) fn wake_losers(&self, change: &PodChange, now: Now) {
        if self.hardened.policy.wake_whoever_lost_a_pod {
            self.wake_those_who_lost(change, now);
        }
    }

    #[inline(never)]
    fn wake_those_who_lost(&self, change: &PodChange, now: Now) {
        let Some(old) = &change.old else {
            return;
        };
        if old.metadata.controller() == change.new.metadata.controller() {
            return;
        }
        if old.metadata.controller().is_none() {
            self.enqueue_matching(old, now);
        } else if let Some(key) = self.resolve(change.old_group.as_deref()) {
            self.queue.add(key, now.mono_ns);
        }
    }

    /// An orphan was adopted: those that matched it too are woken.
    pub(super) fn adopted_by_one(&self, orphan: &Pod, now: Now) {
        if self.hardened.policy.wake_whoever_lost_a_pod {
            self.enqueue_matching(orphan, now);
        }
    }

    /// Decides when the key of a finished sync is synced again: its failures are forgotten when it went
    /// well, else it comes back after a growing delay.
    pub(super) fn retry(&self, sync: &Sync, now: Now) {
        let key = sync.key();
        match (sync.outcome(), self.hardened.policy.retry_max_ns) {
            (Outcome::Ok, None) => self.queue.forget(key),
            (Outcome::Ok, Some(_)) => self.queue.forget_retries(key),
            (Outcome::Failed(_), None) => {
                self.queue.add_rate_limited(key, now.mono_ns);
            }
            (Outcome::Failed(error), Some(max_ns)) => {
                if sync.slow_start.successes() > 0 {
                    // It got on: this is no failure after failures.
                    self.queue.forget_retries(key);
                }
                // Put off before it asked for anything.
                let asked = !matches!(error.class, SyncErrorClass::Consistency(_));
                let max_ns = if asked {
                    max_ns
                } else {
                    max_ns.min(HARDENED_STALE_RETRY_MAX_NS)
                };
                self.queue.retry_within(key, max_ns, asked, now.mono_ns);
            }
        }
    }
}
