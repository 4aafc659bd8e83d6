//! The strategy of a kind: the server's code for the kind, in addition to the kind's row.

use compact_str::CompactString;
use podstorm_objects::{ApiError, Cause, DecodeError, Kind, Object, Resource, Time, Uid};
use serde_json::Value;

use super::KindStore;
use super::bytes::Footprint;
use super::part::PodPart;
use crate::Cluster;

/// A kind's strategy in the server: reading, defaulting, validation, and the fields that writes may
/// change. The methods work on a private copy and take no lock.
///
/// Source: the strategies in Kubernetes' `pkg/registry`.
pub trait Strategy: Object + Footprint + Clone + PartialEq {
    /// Reads an object of the given kind, which is `R::KIND` for typed kinds.
    ///
    /// # Errors
    /// Fails for a member of a wrong type or with an unreadable value. The error has its path.
    fn read(kind: Kind, value: Value) -> Result<Self, DecodeError>;

    /// Returns the object with the row of its store's kind, which has the rules.
    #[must_use]
    fn of_kind(self, _kind: Kind) -> Self {
        self
    }

    /// Sets defaults. Parts that are shared with the stored object already have them.
    fn set_defaults(&mut self, _old: Option<&Self>) {}

    /// Returns the size of the pod spec that the object contains as text, which defaults can
    /// enlarge; 0 for kinds that [check their size](crate::limits) during validation.
    fn pod_spec_bytes(&self) -> usize {
        0
    }

    /// Adds the finalizers that keep an object until it is empty. No field manager owns them.
    fn add_finalizers(&mut self) {}

    /// Fills in what admission plugins add to an object that a client changes.
    ///
    /// # Errors
    /// Fails if a plugin refuses the change.
    fn admit_change(&mut self, _cluster: &Cluster, _old: &Self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Applies the LimitRanges of the object's namespace.
    fn apply_ranges(&mut self, _cluster: &Cluster) {}

    /// Fills in what admission adds to a new object after its defaults.
    fn admit(&mut self, _cluster: &Cluster) {}

    /// Fills in or drops fields that depend on feature gates. `_old` is the stored object if this
    /// is an update.
    fn apply_gates(&mut self, _cluster: &Cluster, _old: Option<&Self>) {}

    /// Sets the status of a new object.
    fn prepare_for_create(&mut self) {}

    /// Returns the new object with the given identity, for validation; `None` if its rules don't
    /// depend on the identity.
    fn identified(&self, _uid: &Uid, _name: &dyn Fn() -> CompactString) -> Option<Self> {
        None
    }

    /// Sets the fields that depend on the name and UID of a new object. `number` returns a number
    /// that no other object gets.
    fn complete(&mut self, _number: &dyn Fn() -> u64) {}

    /// Like [`complete`](Strategy::complete), for the fields that an object from elsewhere lacks.
    fn complete_existing(&mut self, _number: &dyn Fn() -> u64) {}

    /// Restores what a write to the main resource must not change: the status.
    fn prepare_for_update(&mut self, _old: &Self) {}

    /// Restores what a write to `/status` must not change: everything but status and metadata.
    fn prepare_for_status_update(&mut self, _old: &Self) {}

    /// Restores what a write to a part must not change: everything else. Only pods have parts.
    fn prepare_for_part_update(&mut self, _old: &Self, _part: PodPart) {}

    /// Returns the rules that a changed part breaks.
    fn validate_part_update(&self, _old: &Self, _part: PodPart) -> Vec<Cause> {
        Vec::new()
    }

    /// Reports whether the spec differs from the stored one, which increments the generation.
    fn spec_differs(&self, _old: &Self) -> bool {
        false
    }

    /// Quickly compares the fields that change most often. True means that the object differs from
    /// the stored one; false means that it may or may not differ.
    fn obviously_differs(&self, _old: &Self) -> bool {
        false
    }

    /// Returns the rules that a new object breaks, including those of its metadata.
    fn validate_create(&self) -> Vec<Cause>;

    /// Returns the rules that a changed object breaks.
    fn validate_update(&self, _old: &Self) -> Vec<Cause> {
        self.validate_create()
    }

    /// Returns the rules that an object with a changed status breaks.
    fn validate_status_update(&self, _old: &Self) -> Vec<Cause> {
        self.validate_create()
    }

    /// Returns the grace period, in seconds, of a first deletion that requests `_requested`; `None`
    /// for kinds without graceful deletion.
    fn grace_period_seconds(&self, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Reports whether a deleted object stays until it is empty, like a namespace.
    fn keeps_until_empty(&self) -> bool {
        false
    }

    /// Marks the object as terminating. Returns false for kinds whose objects have no contents.
    fn begin_termination(&mut self, _now: Time) -> bool {
        false
    }

    /// Reports whether quotas charge the object for more than the number of objects: true except
    /// for pods that have ended.
    fn counts_for_quota(&self) -> bool {
        true
    }

    /// Replaces equal copies with the stored object's shared parts.
    fn share_with(&mut self, _old: &Self) {}

    /// Tells the server's own services about a commit, with the state after it. No lock is held.
    fn committed(_cluster: &Cluster, _new: Option<&Self>) {}

    /// Reports whether the object is a pod that is active and ready. Every commit counts such pods.
    #[inline]
    fn is_ready_pod(&self) -> bool {
        false
    }
}

/// A kind with a Rust type, which every cluster stores.
pub trait ClusterResource: Strategy + Resource {
    /// Returns the store of the kind.
    fn store(cluster: &Cluster) -> &KindStore<Self>;
}
