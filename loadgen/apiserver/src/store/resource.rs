//! What the server needs to know of each kind besides its row: how it is read, what its writes may change.

use podstorm_objects::{Cause, DecodeError, Kind, Object, Resource};
use serde_json::Value;

use super::KindStore;
use crate::Cluster;

/// The server's strategy for a kind: how objects are read, what their writes may change, what they must be.
/// The methods change or judge a private copy and take no lock.
///
/// Source: the strategies in Kubernetes' `pkg/registry`.
pub trait Strategy: Object + Clone + PartialEq {
    /// Reads an object of that kind, which is the type's own where it has one.
    ///
    /// # Errors
    /// A field of a wrong type or an unreadable value, with its path.
    fn read(kind: Kind, value: Value) -> Result<Self, DecodeError>;

    /// Fills in defaults. What is shared with the stored object has them already.
    fn set_defaults(&mut self, _old: Option<&Self>) {}

    /// Puts the status into its first state.
    fn prepare_for_create(&mut self) {}

    /// Undoes what a write to the object itself may not change: its status.
    fn prepare_for_update(&mut self, _old: &Self) {}

    /// Undoes what a write to `/status` may not change: everything but status and metadata.
    fn prepare_for_status_update(&mut self, _old: &Self) {}

    /// Whether the spec differs from the stored one: what generation counts.
    fn spec_differs(&self, _old: &Self) -> bool {
        false
    }

    /// Whether what is written most shows at a glance that the object is not the stored one; no
    /// says nothing.
    fn obviously_differs(&self, _old: &Self) -> bool {
        false
    }

    /// The rules a new object breaks, its metadata included.
    fn validate_create(&self) -> Vec<Cause>;

    /// The rules a changed object breaks.
    fn validate_update(&self, old: &Self) -> Vec<Cause>;

    /// The rules an object with a changed status breaks.
    fn validate_status_update(&self, old: &Self) -> Vec<Cause>;

    /// The seconds that a first deletion with this request value takes; `None` for kinds that
    /// know no graceful deletion.
    fn grace_period_seconds(&self, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Whether it stays until everything in it is gone.
    fn keeps_until_empty(&self) -> bool {
        false
    }

    /// Puts it into the state of one whose contents are being deleted; false for what holds none.
    fn begin_termination(&mut self) -> bool {
        false
    }

    /// Whether the object is one of those that a [quota](Cluster::set_quota) of its kind limits.
    fn counts_for_quota(&self) -> bool {
        true
    }

    /// Takes the stored object's shared parts in the place of equal copies.
    fn share_with(&mut self, _old: &Self) {}

    /// Whether the object holds a controller's pod that is ready: what a status write makes of it
    /// is counted.
    fn is_ready_pod(&self) -> bool {
        false
    }
}

/// A kind with a type of its own that every cluster stores.
pub trait ClusterResource: Strategy + Resource {
    /// Where it is stored.
    fn store(cluster: &Cluster) -> &KindStore<Self>;
}
