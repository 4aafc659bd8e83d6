//! Upstream's behaviour and the hardened behaviour, row by row. Only this file states where and why
//! they differ.
//!
//! A [`Policy`] has one field per row. The comment of a field describes what upstream does, what
//! the hardened behaviour does, and what that costs. With [`Behaviour::Upstream`] every row is as
//! in upstream.
//!
//! `record_every_write`, `fence_unknown_outcomes` and `fence_at_start` are rules of the runtime's
//! [`Guard`](podstorm_runtime::consistency::Guard), `retry_max_ns` is a member of a
//! [`QueueRow`](podstorm_runtime::workqueue::QueueRow), and `watch_retry_max_ns` belongs to the
//! reflector, so any controller can have them. Of the other rows, four belong to the Job
//! controller, `replace_broken_pods` and `complete_when_available` to the StatefulSet controller,
//! and the rest to the ReplicaSet controller. `docs/reference/behaviours.md` has the rows as a table.
//!
//! Both behaviours have these in common:
//!
//! * The status that a sync writes after creating pods shows the counts from before. The cache
//!   showed those counts, and the events of the new pods bring the next status.
//! * A pod that can't be adopted or released stops the rest of the sync, because the number of pods
//!   would be a guess.
//! * A pod that fails immediately is replaced immediately. Upstream has no back-off for this case;
//!   the user decides when to give up.
//! * A pod is deleted even if another client changed its owner reference after the cache saw it. To
//!   exclude such a pod, a delete would need the version as a precondition, and would then fail
//!   after every change of the pod's status.
//! * Status requests outlive a shutdown.

use podstorm_runtime::limits::{HARDENED_RETRY_MAX_NS, HARDENED_WATCH_RETRY_MAX_NS};

/// The behaviour of a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Behaviour {
    /// The behaviour of Kubernetes 1.36, oddities included.
    #[default]
    Upstream,
    /// Upstream's behaviour, except for the rows of [`Policy`].
    Hardened,
}

impl Behaviour {
    /// Both behaviours.
    pub const ALL: [Behaviour; 2] = [Behaviour::Upstream, Behaviour::Hardened];

    /// Returns the name used in flags and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Behaviour::Upstream => "upstream",
            Behaviour::Hardened => "hardened",
        }
    }

    /// Returns the behaviour with this name.
    pub fn from_name(name: &str) -> Option<Behaviour> {
        Behaviour::ALL
            .into_iter()
            .find(|known| known.as_str() == name)
    }

    /// Returns the rows of this behaviour.
    pub const fn policy(self) -> Policy {
        let hardened = matches!(self, Behaviour::Hardened);
        Policy {
            record_every_write: hardened,
            fence_unknown_outcomes: hardened,
            fence_at_start: hardened,
            clear_stale_expectations: hardened,
            choose_pod_names: hardened,
            delete_by_uid: hardened,
            retry_max_ns: if hardened {
                Some(HARDENED_RETRY_MAX_NS)
            } else {
                None
            },
            verify_uid_on_status_write: hardened,
            recheck_owner_between_batches: hardened,
            rank_without_owner: hardened,
            terminating_namespace_is_a_failure: hardened,
            wake_previous_owners: hardened,
            bound_availability_checks: hardened,
            count_gone_pods_once: hardened,
            retry_orphans: hardened,
            keep_first_outcome: hardened,
            tell_active_in_backoff: hardened,
            replace_broken_pods: hardened,
            complete_when_available: hardened,
            watch_retry_max_ns: if hardened {
                Some(HARDENED_WATCH_RETRY_MAX_NS)
            } else {
                None
            },
        }
    }
}

/// The rows in which the two behaviours differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// **Read-your-writes.** Upstream records the versions of pods it created or adopted and of
    /// statuses it wrote, for ReplicaSets only and behind a feature gate. The next sync waits until
    /// the caches show these versions. Deletes and releases are not recorded. Hardened: every
    /// committed write of the controller is recorded, for ReplicationControllers too and regardless
    /// of the gate. A sync also waits for a cache that went back to an older version (a list from a
    /// lagging server). Cost: one record per key between a write and its event, and some more syncs
    /// that are postponed without a request.
    pub record_every_write: bool,
    /// **Fence.** Upstream counts a write whose answer was lost as failed, though it may have been
    /// committed. The pod is then created twice. Hardened: the sync ends with a consistent read of
    /// the resource's version, and the next sync waits until the cache has reached that version. If
    /// this read fails too, the next sync starts with it. The same happens after a create whose
    /// chosen name was taken, and after a delete, an adoption or a release whose pod was gone. All
    /// of these show that the cache lags, so the key is synced again. After such an adoption or
    /// release the sync neither creates nor deletes anything more. Cost: one read of one object per
    /// such sync. If a server's list version covers more than that resource, the key may wait for
    /// the watch's next bookmark.
    pub fence_unknown_outcomes: bool,
    /// **Start.** Upstream counts what its first list showed. That list may be older than the last
    /// writes of the controller's previous incarnation (kubernetes#59848). Hardened: the versions
    /// of both resources are read before the first sync, and no pods are counted until the caches
    /// have reached them. Cost: at most two reads per worker, once.
    pub fence_at_start: bool,
    /// **Expectations.** Upstream neither creates nor deletes for a key until it has seen every
    /// expected pod, or until five minutes have passed and something else wakes the key. Then it
    /// acts on a cache that may still be stale (kubernetes#129795). Hardened: once the
    /// read-your-writes check and the fence have passed, the cache shows everything done, so the
    /// remaining expectations are cleared. A key also wakes by itself after
    /// [`RETRY_MAX`](HARDENED_RETRY_MAX_NS) if its sync left an expectation, adopted or released a
    /// pod, or was refused an adoption or release as invalid. Expectations then matter only where
    /// versions can't be compared. Cost: one sync without a request per burst.
    pub clear_stale_expectations: bool,
    /// **Names.** Upstream lets the server name pods, so a create that is sent again makes a second
    /// pod. Hardened: the controller derives a pod's name from a slot number and the owner's UID:
    /// five characters after the prefix, like the server's own names. It takes the lowest slots
    /// whose names are not in the cache. A create that is sent again, even by the next incarnation,
    /// finds its name taken. A taken name is not reported as a failure: no Event and no condition.
    /// A name whose create has an unknown outcome is tried first, because its pod may still be
    /// created. While a pod that does not count (terminating, ended or foreign) has such a name, no
    /// other pod is created in its place, for as long as a server may work on a request (30 s): the
    /// late create may still succeed. Cost: O(own pods) look-ups in a sync that creates, and the
    /// wait for such a name.
    pub choose_pod_names: bool,
    /// **Deletes.** Upstream deletes by name, whichever pod has the name now. Hardened: the delete
    /// has the UID as a precondition. A conflict means the same as "not found". After either answer
    /// the key is synced again behind the fence, in case the answer was wrong. Cost: some bytes per
    /// request, and one sync after such an answer.
    pub delete_by_uid: bool,
    /// **Retries.** Upstream waits up to 1,000 s after repeated failures, and longer if all keys
    /// fail (the token bucket). Each sync that an event causes in between counts as one more
    /// failure. Hardened: the delay is at most this number of ns; `None` is upstream. While a retry
    /// is due, another failure neither counts nor changes the time of the retry. A postponed sync
    /// has sent no request, so it takes no token from the bucket; it is retried after at most
    /// [`STALE_RETRY_MAX`](podstorm_runtime::limits::HARDENED_STALE_RETRY_MAX_NS). If the
    /// fence can be read again and only the caches lag, the earlier failures are forgotten. The
    /// failure of a sync that created a pod counts as the first one, so creates continue while some
    /// of them fail. Cost: more retries during a long outage (one per key and 30 s; in a stall of
    /// the watch one per key and 5 s, without a request) and while some creates fail (ten per
    /// second over all keys, by the bucket).
    pub retry_max_ns: Option<i64>,
    /// **Status.** When a status can't be written, upstream reads the object and writes the same
    /// status onto the result, even onto another generation or another object with the same name.
    /// Hardened: only onto the same UID and generation, and not if the object already has the
    /// status. Otherwise the sync fails and the next one computes the status again. Cost: one more
    /// sync after such a conflict.
    pub verify_uid_on_status_write: bool,
    /// **Bursts.** Upstream continues to create for an object that was deleted or replaced during
    /// the burst. Hardened: each batch first looks the object up in the cache, and the burst ends
    /// if the object is gone. Cost: one look-up per batch.
    pub recheck_owner_between_batches: bool,
    /// **Co-location.** Upstream ranks pods by the number of pods on their node that belong to the
    /// ReplicaSets of the same controller. It therefore ignores nodes when it scales down a
    /// ReplicaSet without a controller, or any ReplicationController. Hardened: the owner's own
    /// pods count. Cost: a walk over its pods.
    pub rank_without_owner: bool,
    /// **Terminating namespaces.** Upstream counts a create that a terminating namespace refuses as
    /// a success and then waits for a pod that never comes. Hardened: it is a failed create,
    /// retried while the object exists, without an Event or a condition. Cost: one refused create
    /// per retry.
    pub terminating_namespace_is_a_failure: bool,
    /// **Lost pods.** Upstream does not wake an owner that loses a pod in the change that also
    /// begins the pod's deletion, or between the last change that the cache has seen and the pod's
    /// end. When an orphan is adopted, it does not wake the other owners that match the orphan; one
    /// of them may have been refused the adoption and wait for a long retry. Hardened: all of these
    /// wake. Cost: one sync each.
    pub wake_previous_owners: bool,
    /// **Clock.** Upstream checks a pod's availability again `minReadySeconds` after it became
    /// ready, by the controller's wall clock. If the clock is one hour behind, the check is one
    /// hour late, even after the clock is corrected. Hardened: the check is at most
    /// `minReadySeconds` from now. Cost: one sync per `minReadySeconds` while a clock is wrong.
    pub bound_availability_checks: bool,
    /// **Gone pods of Jobs.** When a pod is gone before its tracking finalizer can be removed,
    /// upstream counts the pod and forgets that it did. If the cache still shows the pod as
    /// tracked, the next sync counts it again. Hardened: the controller remembers such a pod until
    /// it leaves the cache. Cost: one look-up per such pod.
    pub count_gone_pods_once: bool,
    /// **Orphans of Jobs.** When a Job is gone, upstream removes the tracking finalizer of each pod
    /// that the Job's selector matches, and never retries a failure. Such a pod ends but is never
    /// deleted (kubernetes#141329, fixed in 1.37). It also skips the pods of a Job that was deleted
    /// and recreated before the cache showed the deletion, and the pods that the Job owned but
    /// whose labels its selector did not match when the Job was deleted. Hardened: the sync is
    /// retried, a Job with another UID counts as deleted, and the pods that a deleted Job owns are
    /// orphans, too. Cost: the failed requests again; one sync per recreated or deleted Job.
    pub retry_orphans: bool,
    /// **Indexes and pods with two outcomes.** If two pods of one index end, one with success and
    /// one with the last failure that the index may have, upstream writes the index as completed
    /// and as failed. The server refuses such a status at every retry, so the Job counts nothing
    /// more. And a pod that is listed as failed while it terminates, and then succeeds, completes a
    /// more. Similarly, a pod that is listed as failed while it terminates, and then succeeds,
    /// completes a Job whose status never counts that success. Hardened: the outcome that was
    /// written first stays; if one sync finds both outcomes, the success wins. Cost: two walks over
    /// the intervals of the
    /// indexes per sync with failed indexes.
    pub keep_first_outcome: bool,
    /// **Active pods of a waiting Job.** While a Job waits after a failure, upstream's status
    /// reports no active pods. If a pod is ready, the server refuses the status, and the failed pod
    /// is not counted until the wait is over (kubernetes#139642, fixed in 1.36.3). Hardened: the
    /// status has the true number. Cost: none.
    pub tell_active_in_backoff: bool,
    /// **Broken pods of StatefulSets.** Upstream waits for a pod that is not ready even if the
    /// template of the pod has been replaced: a reverted rollout is stuck until someone deletes the
    /// pod (kubernetes#67250). With `MaxUnavailableStatefulSet` such pods use up the unavailable
    /// budget, and `Parallel` sets wait, too (kubernetes#137409). Hardened: a rolling update
    /// immediately replaces a pod that is neither ready nor up to date, never below the partition.
    /// Cost: a pod that is briefly not ready is updated before its turn.
    pub replace_broken_pods: bool,
    /// **Rollouts of StatefulSets.** Upstream makes the update revision the current one as soon as
    /// all pods are updated and ready, before the last of them have been ready for
    /// `minReadySeconds` (kubernetes#136831). Clients that wait for completion continue too early.
    /// Hardened: all pods must be available, too. Cost: a set with `minReadySeconds` completes that
    /// much later.
    pub complete_when_available: bool,
    /// **Watches.** After repeated failures upstream waits up to 30 s, plus up to the same again at
    /// random, before it lists or watches again. During this time the controller does not see
    /// changes by others. Hardened: at most this number of ns before the random part; `None` is
    /// upstream. Drivers pass it to their reflectors. Cost: more attempts during a long outage: one
    /// per resource and 10 s.
    pub watch_retry_max_ns: Option<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_behaviour_is_found_by_its_name() {
        for behaviour in Behaviour::ALL {
            assert_eq!(Behaviour::from_name(behaviour.as_str()), Some(behaviour));
        }
        assert_eq!(Behaviour::from_name("Hardened"), None);
        assert_eq!(Behaviour::default(), Behaviour::Upstream);
    }

    #[test]
    fn every_hardened_row_is_off_upstream() {
        let policy = Behaviour::Upstream.policy();
        let none = Policy {
            record_every_write: false,
            fence_unknown_outcomes: false,
            fence_at_start: false,
            clear_stale_expectations: false,
            choose_pod_names: false,
            delete_by_uid: false,
            retry_max_ns: None,
            verify_uid_on_status_write: false,
            recheck_owner_between_batches: false,
            rank_without_owner: false,
            terminating_namespace_is_a_failure: false,
            wake_previous_owners: false,
            bound_availability_checks: false,
            count_gone_pods_once: false,
            retry_orphans: false,
            keep_first_outcome: false,
            tell_active_in_backoff: false,
            replace_broken_pods: false,
            complete_when_available: false,
            watch_retry_max_ns: None,
        };
        assert_eq!(policy, none);
        assert_ne!(Behaviour::Hardened.policy(), none);
    }
}
