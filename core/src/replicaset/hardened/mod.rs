//! The differences between the hardened behaviour and upstream's. Handlers, syncs and retries call
//! a function of this folder wherever the two behaviours may differ. No other code knows which one
//! is active. [`crate::policy`] has the rows and their reasons.

mod fence;
mod names;
mod pending_creates;
#[cfg(test)]
mod tests;

use std::sync::Arc;

#[cfg(test)]
use podstorm_objects::Uid;
use podstorm_objects::{Kind, Now, ObjectMeta, Pod, ReplicaSet};
#[cfg(test)]
use podstorm_runtime::client::Request;
use podstorm_runtime::client::{Answer, ApiError, Reason};
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::owned::{Dependent, OwnedHandlers, OwnedPod};

use super::owners::Owner;
use super::sync::{ReplicaSetSync, SyncErrorClass};
use super::{Controller, Step};
use crate::policy::Policy;
use fence::stop_rewound;
#[cfg(test)]
use pending_creates::Holder;
use pending_creates::PendingCreates;
pub(super) use pending_creates::PendingNames;

type Owned<'a> = OwnedPod<'a>;

/// The policy of a controller and the state that the hardened behaviour needs.
#[derive(Debug)]
pub(super) struct Hardened {
    policy: Policy,
    pending_creates: PendingCreates,
}

/// How a sync handles a refused create.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CreateFailure {
    /// Count the pod as created. The deletion of the namespace will remove all its objects.
    CountsAsCreated,
    /// Fail without an Event or a condition.
    Silent,
    /// Fail without an Event or a condition because the name is taken: by a foreign pod, or by a
    /// pod that this or another incarnation created earlier. The cache must show which.
    NameTaken,
    /// Fail with an Event and a condition.
    Reported,
}

impl Hardened {
    /// Creates the state of a controller with this policy.
    pub(super) fn new(policy: Policy) -> Hardened {
        Hardened {
            policy,
            pending_creates: PendingCreates::default(),
        }
    }

    /// Reports whether the controller names pods. Otherwise the server does.
    #[inline]
    pub(super) fn names_pods(&self) -> bool {
        self.policy.choose_pod_names
    }

    /// Reports whether a delete carries the UID of the chosen pod. Otherwise it deletes any pod
    /// with that name.
    #[inline]
    pub(super) fn deletes_by_uid(&self) -> bool {
        self.policy.delete_by_uid
    }

    /// Reports whether an owner without a controller ranks its pods by co-location with its own
    /// pods.
    pub(super) fn ranks_without_owner(&self) -> bool {
        self.policy.rank_without_owner
    }

    /// Returns the delay after which a key is synced again for its pods' availability. `delay_ns`
    /// comes from the wall clock, which may be wrong; `longest_ns` is the owner's
    /// `minReadySeconds`.
    pub(super) fn availability_check(&self, delay_ns: i64, longest_ns: i64) -> i64 {
        if delay_ns == i64::MAX || self.policy.bound_availability_checks {
            delay_ns.min(longest_ns)
        } else {
            delay_ns
        }
    }

    /// Decides how to handle a refused create.
    #[cold]
    pub(super) fn create_failure(&self, error: &ApiError) -> CreateFailure {
        if error.has_cause("NamespaceTerminating") {
            match self.policy.terminating_namespace_is_a_failure {
                true => CreateFailure::Silent,
                false => CreateFailure::CountsAsCreated,
            }
        } else if self.names_pods() && error.reason == Reason::AlreadyExists {
            CreateFailure::NameTaken
        } else {
            CreateFailure::Reported
        }
    }

    /// Reports whether a delete was refused because the pod is gone: its name is free or belongs to
    /// another pod. If the conflict had another reason, or the pod exists after all, the next sync
    /// deletes it.
    pub(super) fn is_gone(&self, error: &ApiError) -> bool {
        self.deletes_by_uid() && (error.reason == Reason::Conflict || error.is_not_found())
    }
}

#[cfg(test)]
impl Controller {
    /// Puts the key into the state that a sync with a create of unknown outcome leaves.
    pub(super) fn remember_something(&self, key: KeyId, owner: &Uid) {
        // The versions to read before the first sync have been read.
        self.guard.read_first(key, None, &[], &mut []).unwrap();
        let read = [Request::ReadVersion { kind: Kind::POD }];
        let unread = &mut [Some(Answer::Failed(ApiError::transport("no route")))];
        self.guard.read_last(key, owner, &read, unread).unwrap_err();
        let names = &self.hardened.pending_creates;
        names.note(key, owner, &"old-x".into(), false, 0);
    }

    pub(super) fn remembers_nothing(&self, key: KeyId, owner: &Uid) -> bool {
        let names = &self.hardened.pending_creates;
        let pending = names.names_of(key, owner, 1, |_| Holder::None);
        self.guard.unread(&key).is_empty() && pending.free.is_empty()
    }
}

impl Controller {
    /// Forgets the fences and the pending creates of a key.
    pub(super) fn forget_unknown(&self, key: KeyId) {
        if self.hardened.policy.fence_unknown_outcomes {
            self.guard.forget_fences(&key);
            self.hardened.pending_creates.forget(key);
        }
    }

    /// Prepares the sync before the pods are counted.
    #[inline(always)]
    pub(super) fn before_count(&self, owner: &Owner, sync: &mut ReplicaSetSync, now: Now) {
        if self.hardened.policy.choose_pod_names {
            self.load_pending_creates(owner, sync, now);
        }
    }

    /// Checks the caches after the pods are counted. Stops the sync if a cache went back meanwhile.
    #[inline(always)]
    pub(super) fn after_count(&self, sync: &mut ReplicaSetSync) -> Option<Step> {
        let every_write = self.guard.rules.every_write;
        let rewound = every_write && self.is_rewound(sync);
        rewound.then(|| stop_rewound(sync))
    }

    /// Ends a sync. Returns [`Step::Requests`] if requests must be carried out first.
    #[inline(always)]
    pub(super) fn before_end(&self, sync: &mut ReplicaSetSync, now: Now) -> Step {
        let policy = &self.hardened.policy;
        if policy.fence_unknown_outcomes || policy.clear_stale_expectations {
            return self.end_sync(sync, now);
        }
        Step::Finished
    }

    /// Handles a successful adoption or release.
    pub(super) fn patched(&self, owner: &Owner, pod: &Pod, key: KeyId, now: Now) {
        if self.hardened.policy.record_every_write {
            let (uid, version) = (&owner.controller_ref.uid, &pod.metadata.resource_version);
            self.guard.records.wrote_at(key, uid, Kind::POD, version);
            // No expectation waits for the event of this write. If the event never comes, and the
            // pod changes again before a list shows it, nothing else wakes the key.
            if self.hardened.policy.clear_stale_expectations {
                self.requeue_later(key, now);
            }
        } else if self.guard.rules.keeps_records {
            self.record_pod_write(&pod.metadata);
        }
    }

    /// Handles a refused adoption or release.
    pub(super) fn patch_refused(&self, error: &ApiError, sync: &mut ReplicaSetSync, now: Now) {
        if error.is_not_found() && self.hardened.policy.fence_unknown_outcomes {
            // The server reports that the pod is gone. A layer below may have sent the request
            // twice, and the first attempt may have adopted the pod. The cache must show the result
            // before the key's pods are counted.
            sync.unknown.insert(Kind::POD);
            sync.may_scale = false;
            let silent = || (SyncErrorClass::Claim, error.message.clone());
            sync.silent_error.get_or_insert_with(silent);
        }
        // A release refused as invalid counts as done by another client. If it was refused for
        // another reason, no event follows.
        if error.is_invalid() && self.hardened.policy.clear_stale_expectations {
            self.requeue_later(sync.key, now);
        }
    }

    /// Returns how many of the missing pods may be created now.
    pub(super) fn creatable(&self, missing: i64, sync: &ReplicaSetSync, now: Now) -> i64 {
        if !self.hardened.policy.choose_pod_names {
            return missing;
        }
        let waits = self.held_back(sync, now);
        missing.saturating_sub_unsigned(waits as u64).max(0)
    }

    /// Reports whether a burst must end before its next batch because its owner is gone. The
    /// handler of the owner's deletion has added the key. Created pods are garbage-collected with
    /// the owner.
    pub(super) fn must_end_burst(&self, owner: &Owner) -> bool {
        let is_current = || {
            self.owners.get(owner.key).is_some_and(|cached| {
                let meta = &cached.object.metadata;
                meta.uid == owner.object.metadata.uid && !meta.is_deleting()
            })
        };
        self.hardened.policy.recheck_owner_between_batches && !is_current()
    }

    /// Handles the answers to a batch of deletes.
    pub(super) fn deletes_answered(&self, owner: &Owner, sync: &mut ReplicaSetSync) {
        // A delete answered without a version has an unknown commit time.
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
            let uid = &owner.controller_ref.uid;
            let records = &self.guard.records;
            records.wrote_all(sync.key, uid, Kind::POD, versions);
        }
    }

    /// Handles `live`, the object read after a failed status write. Stops the sync if `live` is
    /// another object or generation. Ends the sync if `live` already has the status.
    pub(super) fn keep_status(
        &self,
        owner: &Arc<Owner>,
        live: &ReplicaSet,
        sync: &mut ReplicaSetSync,
        now: Now,
    ) -> Option<Step> {
        if !self.hardened.policy.verify_uid_on_status_write {
            return None;
        }
        // The read shows the outcome of the first status write.
        let kind = self.options.kind;
        sync.unknown.remove(kind);
        let (ours, theirs) = (&owner.object.metadata, &live.metadata);
        if ours.uid != theirs.uid || ours.generation != theirs.generation {
            let version = &theirs.resource_version;
            let records = &self.guard.records;
            records.wrote_at(sync.key, &ours.uid, kind, version);
            let (class, message) = sync.manage_error.take().unwrap_or_else(|| {
                let message = "the object has changed since its status was computed";
                (SyncErrorClass::Status, message.to_owned())
            });
            return Some(sync.fail(class, message));
        }
        let written = sync.new_status.as_deref() == Some(&live.status);
        written.then(|| self.status_written(owner, sync, live, now))
    }

    /// Handles a deleted pod whose owner differs from the one in the cache. The cached owner has
    /// lost a pod, too; if the pod was an orphan, so have the owners that match it. If the event of
    /// the earlier change was lost, nothing else wakes these owners.
    #[inline(always)]
    pub(super) fn wake_previous_owners(&self, old: Owned<'_>, last: Owned<'_>, now: Now) {
        if self.hardened.policy.wake_previous_owners {
            self.enqueue_previous_owners(old, last, now);
        }
    }

    #[inline(never)]
    fn enqueue_previous_owners(&self, old: Owned<'_>, last: Owned<'_>, now: Now) {
        let (was, is) = (old.metadata(), last.metadata());
        if was.controller() == is.controller() {
            return;
        }
        if was.controller().is_none() {
            self.wake_matching(was, now);
        } else if let Some(key) = self.owner(old) {
            self.wake(key, now);
        }
    }

    /// Handles an adoption: wakes the other owners that match the orphan.
    pub(super) fn wake_other_matches(&self, orphan: &ObjectMeta, now: Now) {
        if self.hardened.policy.wake_previous_owners {
            self.wake_matching(orphan, now);
        }
    }
}
