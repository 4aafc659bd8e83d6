//! The informer cache: pods grouped by the owner that controls them, parents (ReplicaSets or
//! ReplicationControllers) with their selectors, and the indexes between the two.
//!
//! A delta goes in ([`PodCache::apply`], [`ParentStore::apply`]) and a change comes out, which the
//! controller's handlers turn into observations and keys. The store is changed before the change
//! is returned, so whoever acts on a change finds the store at least as new.
//!
//! Locks, in the order in which they may be held together:
//! 1. A shard of `PodCache::index`: names to pods. Appliers alone take them, one shard each.
//! 2. A shard of `PodCache::groups`: owners to groups; for a look-up or to drop a group.
//! 3. `Group::members`: the pods of one owner. Taken by that owner's events and its syncs alone.
//! 4. `PodCache::namespaces`: which groups hold which label sets. Taken when a label set comes to
//!    or leaves a group, and by a scale-down that ranks by co-location.
//!
//! No lock is held across a call into another module of the crate, but for pure functions.

mod group;
mod groups;
mod index;
mod label_set;
mod listed;
mod maturing;
#[cfg(test)]
mod model_tests;
mod namespaces;
mod parents;
mod pods;
mod selector_index;
mod version;

use std::sync::Arc;

pub(crate) use group::Members;
pub use group::{Group, Member};
pub use label_set::Totals;
pub use listed::{Listed, PodRun};
pub(crate) use namespaces::RelatedSelector;
pub use parents::{Parent, ParentChange, ParentStore};
pub use pods::{PodCache, PodChange};
pub use version::StoreVersion;

/// What a watch says happened to an object.
#[derive(Clone, Debug)]
pub enum Delta<T> {
    /// It was added or modified; the cache tells which.
    Applied(Arc<T>),
    /// It is gone; this is its last state.
    Deleted(Arc<T>),
}
