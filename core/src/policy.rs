//! Upstream's behaviour and the hardened one, row by row: the one place that says where they
//! differ, and why.
//!
//! A [`Policy`] has one field per row. Its comment says what upstream does, what the hardened
//! behaviour does, and what that costs. With [`Behaviour::Upstream`] every row is as upstream has it.
//!
//! Left as upstream has them: the status written by a sync that creates pods still shows the counts
//! before (they are what the cache showed; the pods' own events bring the next one); a pod that can't
//! be adopted or released keeps the rest of the sync from happening (its count would be a guess); pods
//! that fail at once are replaced at once (upstream has no back-off for that, and when to give up is
//! the user's decision); a pod whose owner reference is changed by others between the cache and its
//! deletion is deleted nevertheless (to exclude it, deletes would need the version too, and fail for
//! every change of a pod's status); requests for the status outlive a shutdown.

use podstorm_runtime::limits::{HARDENED_RETRY_MAX_NS, HARDENED_WATCH_RETRY_MAX_NS};

/// Whose behaviour a controller has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Behaviour {
    /// That of Kubernetes 1.36, oddities included.
    #[default]
    Upstream,
    /// The same but for what the rows of [`Policy`] mend.
    Hardened,
}

impl Behaviour {
    /// Both.
    pub const ALL: [Behaviour; 2] = [Behaviour::Upstream, Behaviour::Hardened];

    /// Its name in flags and results.
    pub const fn as_str(self) -> &'static str {
        match self {
            Behaviour::Upstream => "upstream",
            Behaviour::Hardened => "hardened",
        }
    }

    /// The behaviour of that name.
    pub fn from_name(name: &str) -> Option<Behaviour> {
        Behaviour::ALL
            .into_iter()
            .find(|known| known.as_str() == name)
    }

    /// Its rows.
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
            keep_status_with_its_object: hardened,
            recheck_owner_between_batches: hardened,
            rank_without_owner: hardened,
            terminating_namespace_is_a_failure: hardened,
            wake_previous_owners: hardened,
            bound_availability_checks: hardened,
            watch_retry_max_ns: if hardened {
                Some(HARDENED_WATCH_RETRY_MAX_NS)
            } else {
                None
            },
        }
    }
}

/// What a controller does where the two behaviours differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// **The barrier.** Upstream remembers the versions of pods it created or adopted and of
    /// statuses it wrote, for ReplicaSets, behind a feature gate; the next sync waits until the
    /// caches have seen them. It forgets deletes and releases. Hardened: every own write that was
    /// committed is remembered, for ReplicationControllers too and whatever the gate says; and a
    /// cache that went back behind a version it had (a list from a server that lags) is waited for
    /// too. Costs a record per key between a write and its event, and some more syncs put off
    /// without a request.
    pub record_every_write: bool,
    /// **The fence.** A write whose answer was lost counts as failed upstream, though it may have
    /// been committed: the pod is then made twice. Hardened: the sync ends with a consistent read
    /// of the resource's version, and the next one waits until the cache has come to that version;
    /// if the read fails too, the next sync begins with it. The same after a create that met its
    /// chosen name taken, and after a delete, an adoption or a release whose pod was gone: all show
    /// that the cache lags, and the key looks again; after such an adoption or release the sync itself
    /// neither creates nor deletes any more. Costs one read of one object per such sync. On a server
    /// whose lists carry a version that is not of the resource alone, the key may wait for the watch's
    /// next bookmark.
    pub fence_unknown_outcomes: bool,
    /// **The start.** Upstream counts what its first list showed, which may be older than what the
    /// incarnation before did (kubernetes#59848). Hardened: before the first sync the versions of
    /// both resources are read, and nothing is counted before the caches have come to them. Costs
    /// two reads per worker at most, once.
    pub fence_at_start: bool,
    /// **Expectations.** Upstream neither creates nor deletes for a key until every pod it expects
    /// was seen, or five minutes are over and something else wakes the key; then it acts on a cache
    /// that may still be old (kubernetes#129795). Hardened: past barrier and fence the cache shows
    /// all that was done, so what is still expected is cleared; and a key whose sync left something
    /// expected, adopted a pod or released one (or was refused to, as invalid) is woken after
    /// [`RETRY_MAX`](HARDENED_RETRY_MAX_NS) by itself. Expectations decide
    /// only where versions can't be compared. Costs one sync without a request for a burst.
    pub clear_stale_expectations: bool,
    /// **Names.** Upstream lets the server name pods, so a create that is sent again makes a
    /// second pod. Hardened: the controller names them, by the number of a slot and the owner's
    /// UID: five characters after the prefix, as the server's own look. The lowest slots whose
    /// names the cache does not hold are taken; a create that is sent again, also by the next
    /// incarnation, finds its name taken. A taken name is no failure to be told: no Event, no
    /// condition. A name whose create has an unknown outcome goes first, for it may be made yet; and
    /// while it is with a pod that does not count (on its way out, ended, another's) none is made in
    /// its place, for as long as a server may work on a request (30 s): the late one may come. Costs
    /// O(own pods) look-ups in a sync that creates, and such a wait.
    pub choose_pod_names: bool,
    /// **Deletes.** Upstream deletes by name, whoever has the name now. Hardened: with the UID as a
    /// precondition; a conflict is as good as "not found", and after either the key looks again
    /// behind the fence, should the answer have been wrong. Costs some bytes per request, and a sync
    /// after such an answer.
    pub delete_by_uid: bool,
    /// **Retries.** Upstream waits up to 1,000 s after repeated failures, longer when all keys fail
    /// (the bucket), and each sync that an event causes meanwhile counts as one more failure.
    /// Hardened: at most so many ns, `None` is upstream; while a retry is due, another failure
    /// neither counts nor moves it; a sync that was only put off does not draw from the bucket, for
    /// it has asked nothing of the server, and is tried again after
    /// [`STALE_RETRY_MAX`](podstorm_runtime::limits::HARDENED_STALE_RETRY_MAX_NS) at most; where the fence could be read again and just the caches are
    /// behind, the failures before are over; and the failure of a sync that created a pod is a first
    /// one, so that creates of which a part fails go on. Costs more retries during a long outage (one
    /// per key and 30 s, in a stall of the watch one per key and 5 s, without a request) and while a part fails (ten a second of all keys together, by the bucket).
    pub retry_max_ns: Option<i64>,
    /// **Status.** When a status can't be written, upstream reads the object and writes the same
    /// status onto whatever it finds, be it of another generation or another object of the same name.
    /// Hardened: only onto the same UID and generation, and not when it is there already; else the
    /// sync fails and the next one computes it anew. Costs one more sync after such a conflict.
    pub keep_status_with_its_object: bool,
    /// **Bursts.** Upstream goes on creating for an object that was deleted or replaced during the
    /// burst. Hardened: each batch begins with a look into the cache, and the burst ends there.
    /// Costs one look-up per batch.
    pub recheck_owner_between_batches: bool,
    /// **Co-location.** Upstream ranks pods to delete by the pods of the same owner's ReplicaSets on their
    /// node, so a ReplicaSet without an owner, and every ReplicationController, is scaled down
    /// without regard to nodes. Hardened: its own pods count. Costs a walk over its pods.
    pub rank_without_owner: bool,
    /// **Terminating namespaces.** Upstream takes a create that a terminating namespace refuses for
    /// a success and then waits for a pod that never comes. Hardened: a failed create, retried while
    /// the object is there; without Event or condition. Costs one refused create per retry.
    pub terminating_namespace_is_a_failure: bool,
    /// **Lost pods.** When a pod loses its owner in the same change that begins its deletion, or
    /// between the last change that the cache has seen and its end, upstream does not wake that owner.
    /// Nor, when an orphan is adopted, the others that match it, one of which may have been refused over
    /// it and wait for a long retry. Hardened: it does. Costs one sync of each.
    pub wake_previous_owners: bool,
    /// **The clock.** Upstream looks at a pod's availability again when `minReadySeconds` will have
    /// passed since it became ready by the controller's wall clock; where that is behind by an hour,
    /// an hour later, though the clock be put right. Hardened: `minReadySeconds` from now at most.
    /// Costs a sync per `minReadySeconds` while a clock is wrong.
    pub bound_availability_checks: bool,
    /// **Watches.** Upstream waits up to 30 s, and as much again by lot, before it lists or watches
    /// again after repeated failures; for so long nothing is known of what others do. Hardened: at
    /// most so many ns before the lot, `None` is upstream. Drivers give it to their reflectors. Costs
    /// more attempts during a long outage: one per resource and 10 s.
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
    fn upstream_has_no_row_of_the_hardened_behaviour() {
        let policy = Behaviour::Upstream.policy();
        let none = Policy {
            record_every_write: false,
            fence_unknown_outcomes: false,
            fence_at_start: false,
            clear_stale_expectations: false,
            choose_pod_names: false,
            delete_by_uid: false,
            retry_max_ns: None,
            keep_status_with_its_object: false,
            recheck_owner_between_batches: false,
            rank_without_owner: false,
            terminating_namespace_is_a_failure: false,
            wake_previous_owners: false,
            bound_availability_checks: false,
            watch_retry_max_ns: None,
        };
        assert_eq!(policy, none);
        assert_ne!(Behaviour::Hardened.policy(), none);
    }
}
