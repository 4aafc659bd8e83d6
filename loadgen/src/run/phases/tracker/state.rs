//! What is known of one ReplicaSet or ReplicationController, and of one pod.

use compact_str::CompactString;
use podstorm_objects::{ObjectMeta, ReplicaSetStatus, Str};
use smallvec::SmallVec;

/// A ReplicaSet or ReplicationController.
#[derive(Debug, Default)]
pub(in crate::run::phases) struct Owner {
    pub(in crate::run::phases) namespace: Str,
    pub(in crate::run::phases) name: CompactString,
    pub(in crate::run::phases) desired: i32,
    /// Of the newest spec known here.
    pub(super) generation: i64,
    /// Active pods on the server.
    pub(in crate::run::phases) active: i32,
    /// Of those, the ones that aren't ready.
    pub(in crate::run::phases) unready: i32,
    /// Of those, the ones that can't become ready: see `Tracker::stuck`.
    pub(super) stuck: i32,
    pub(super) status: Counts,
    /// Since when it differs from what is wanted; unset while converged.
    pub(super) since_ns: Option<i64>,
    pub(super) converged: bool,
    /// Whether it was deleted.
    pub(in crate::run::phases) gone: bool,
    /// Whether its deletion has begun: nobody brings it to its pods any more.
    pub(super) deleting: bool,
    /// Whether it is a ReplicationController.
    pub(in crate::run::phases) is_rc: bool,
    /// The Deployment that it belongs to.
    pub(in crate::run::phases) deployment: Option<CompactString>,
    /// Generations and their replicas, from the newest one that the controller has reported to
    /// have seen: any of them may be what it acts on.
    pub(super) demands: SmallVec<[(i64, i32); 2]>,
}

/// The counts of a status that must be exact.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) replicas: i32,
    pub(super) ready: i32,
    pub(super) available: i32,
    pub(super) observed_generation: i64,
}

impl Counts {
    pub(super) fn of(status: &ReplicaSetStatus) -> Counts {
        Counts {
            replicas: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            observed_generation: status.observed_generation,
        }
    }
}

impl Owner {
    /// Available pods by its status; none where that is of an older spec.
    pub(in crate::run::phases) fn available(&self) -> i32 {
        self.status.available
    }

    /// Whether it has its pods and an exact status, and all of them are ready but those that can't
    /// become ready.
    pub(super) fn is_exact(&self) -> bool {
        self.is_exact_without(self.stuck)
    }

    /// The same with `unready` pods that aren't ready.
    pub(super) fn is_exact_without(&self, unready: i32) -> bool {
        let Counts {
            replicas,
            ready,
            available,
            observed_generation,
        } = self.status;
        self.gone
            || self.deleting
            || observed_generation == self.generation
                && [replicas, self.active] == [self.desired; 2]
                && [ready, available] == [self.desired - unready; 2]
    }
}

/// A number of replicas as a number of pods.
pub(super) fn pods(replicas: i32) -> u64 {
    u64::from(replicas.max(0).unsigned_abs())
}

/// What is known of one pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodState {
    pub(super) owner: u32,
    /// Its place among the pods that can be picked.
    pub(super) pick: u32,
    pub(super) created_ns: i64,
    pub(super) active: bool,
    /// On its way out, and nothing but its kubelet holds it.
    pub(super) deleting: bool,
    /// Ready now or once.
    pub(super) ready: bool,
    pub(super) ready_now: bool,
    /// Came from a file.
    pub(super) loaded: bool,
    /// See `Tracker::stuck`.
    pub(super) stuck: bool,
}

impl PodState {
    pub(super) fn is_unready(self) -> bool {
        self.active && !self.ready_now
    }
}

/// Finalizers that the garbage collector carries out.
const COLLECTORS: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Whether a finalizer that nothing in the simulation removes holds the pod, so that it stays once it is being
/// deleted.
pub(super) fn is_held(meta: &ObjectMeta) -> bool {
    let mut finalizers = meta.finalizers().iter();
    finalizers.any(|name| !COLLECTORS.contains(&&**name))
}
