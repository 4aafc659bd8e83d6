//! The strategy of a kind: what the server knows of it besides its row.

use compact_str::CompactString;
use podstorm_objects::{ApiError, Cause, DecodeError, Kind, Object, Resource, Time, Uid};
use serde_json::Value;

use super::KindStore;
use super::bytes::Footprint;
use super::part::PodPart;
use crate::Cluster;

/// The server's strategy for a kind: reading, defaulting, validation, and what writes may change.
/// The methods work on a private copy and take no lock.
///
/// Source: the strategies in Kubernetes' `pkg/registry`.
pub trait Strategy: Object + Footprint + Clone + PartialEq {
    /// Reads an object of that kind, which is `R::KIND` for typed kinds.
    ///
    /// # Errors
    /// A field of a wrong type or an unreadable value, with its path.
    fn read(kind: Kind, value: Value) -> Result<Self, DecodeError>;

    /// The object with its store's row of their common kind, which knows the rules.
    #[must_use]
    fn of_kind(self, _kind: Kind) -> Self {
        self
    }

    /// Sets defaults. Parts that are shared with the stored object have them already.
    fn set_defaults(&mut self, _old: Option<&Self>) {}

    /// The bytes of the pod spec that the object holds as a text, which defaults make grow; 0 of kinds that [check their
    /// size](crate::limits) with their rules.
    fn pod_spec_bytes(&self) -> usize {
        0
    }

    /// Adds the finalizers that keep an object until everything in it is gone. No field manager owns them.
    fn add_finalizers(&mut self) {}

    /// Fills in what plugins of admission add when a client changes the object.
    ///
    /// # Errors
    /// What they refuse.
    fn admit_change(&mut self, _cluster: &Cluster, _old: &Self) -> Result<(), ApiError> {
        Ok(())
    }

    /// Fills in what the LimitRanges of its namespace say.
    fn apply_ranges(&mut self, _cluster: &Cluster) {}

    /// What admission fills into a new object, after its defaults.
    fn admit(&mut self, _cluster: &Cluster) {}

    /// Fills in or drops members that depend on feature gates; it gets the stored object of an update.
    fn apply_gates(&mut self, _cluster: &Cluster, _old: Option<&Self>) {}

    /// Sets the status of a new object.
    fn prepare_for_create(&mut self) {}

    /// The new object, of that identity, as its rules look at it; `None` where they don't ask for it.
    fn identified(&self, _uid: &Uid, _name: &dyn Fn() -> CompactString) -> Option<Self> {
        None
    }

    /// Sets what follows from the name and the UID of a new object. `number` gives a number that no
    /// other object gets.
    fn complete(&mut self, _number: &dyn Fn() -> u64) {}

    /// Sets what [`complete`](Strategy::complete) does where an object that was made elsewhere lacks it.
    fn complete_existing(&mut self, _number: &dyn Fn() -> u64) {}

    /// Restores what a write to the object may not change: the status.
    fn prepare_for_update(&mut self, _old: &Self) {}

    /// Restores what a write to `/status` may not change: everything but status and metadata.
    fn prepare_for_status_update(&mut self, _old: &Self) {}

    /// Restores what a write of a part may not change: everything but that. Of pods alone.
    fn prepare_for_part_update(&mut self, _old: &Self, _part: PodPart) {}

    /// The rules that a changed part breaks.
    fn validate_part_update(&self, _old: &Self, _part: PodPart) -> Vec<Cause> {
        Vec::new()
    }

    /// Whether the spec differs from the stored one, which increments the generation.
    fn spec_differs(&self, _old: &Self) -> bool {
        false
    }

    /// A cheap test of the members that change most often: true means that the object differs from
    /// the stored one, false means nothing.
    fn obviously_differs(&self, _old: &Self) -> bool {
        false
    }

    /// The broken rules of a new object, its metadata included.
    fn validate_create(&self) -> Vec<Cause>;

    /// The broken rules of a changed object.
    fn validate_update(&self, _old: &Self) -> Vec<Cause> {
        self.validate_create()
    }

    /// The broken rules of an object with a changed status.
    fn validate_status_update(&self, _old: &Self) -> Vec<Cause> {
        self.validate_create()
    }

    /// The grace period of a first deletion with this request value, s; `None` for kinds without
    /// graceful deletion.
    fn grace_period_seconds(&self, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether a deleted object stays until everything in it is gone: a namespace.
    fn keeps_until_empty(&self) -> bool {
        false
    }

    /// Marks the object as one whose contents are being deleted; false for kinds without contents.
    fn begin_termination(&mut self, _now: Time) -> bool {
        false
    }

    /// Whether quotas count the object for more than its number: of pods those that have not ended.
    fn counts_for_quota(&self) -> bool {
        true
    }

    /// Replaces equal copies by the stored object's shared parts.
    fn share_with(&mut self, _old: &Self) {}

    /// Tells the services within the server of a commit: the state after it. No lock is held.
    fn committed(_cluster: &Cluster, _new: Option<&Self>) {}

    /// Whether the object is a pod that is active and ready; such pods are counted at every commit.
    #[inline]
    fn is_ready_pod(&self) -> bool {
        false
    }
}

/// A kind with a Rust type, which every cluster stores.
pub trait ClusterResource: Strategy + Resource {
    /// The store of the kind.
    fn store(cluster: &Cluster) -> &KindStore<Self>;
}
