//! The informer cache of pods: pods by owner with running totals, by name, and by labels.
//!
//! [`PodCache::apply`] takes a delta and returns a change. The handlers of a workload turn the
//! change into observations and keys. The store is updated before the change is returned, so a
//! reader that acts on a change finds the store at least as new.
//!
//! Locks, in the order in which they may be held together:
//! 1. A shard of `PodCache::index`: pods by name. Threads that apply events take one shard each;
//!    other threads look up a pod in it.
//! 2. A shard of `PodCache::by_controller`: owned pods by controller. Taken by itself for a
//!    lookup, and before the next lock to drop an entry that has neither pods nor an owner. A
//!    dropped entry is closed, so a thread that was about to add a pod to it repeats the lookup.
//! 3. `OwnedPods::members`: the pods of one owner. Taken only by that owner's events and syncs.
//! 4. `PodCache::namespaces`: which owners have pods with which label sets. Taken when a label set
//!    is added to an owner or removed from it, and by a scale-down that ranks by co-location.
//!
//! No lock is held across a call into another module of the crate, except for pure functions.
//!
//! Several threads may apply events concurrently if the events of each pod stay in order
//! ([`PodCache::apply_out_of_order`]). Threads that handle pods of different controllers share no
//! cache line, except by chance. When all threads are done, one of them advances the version.
//! Outside its list of owned pods, a pod is identified by a handle, which does not change when
//! other pods move.

mod by_controller;
mod columns;
mod index;
mod label_set;
mod listed;
mod namespaces;
mod owned_pods;
mod pods;
mod ready_times;
mod selector_index;
#[cfg(test)]
mod tests;
mod version;

use std::sync::Arc;

pub use columns::PodFields;
pub use label_set::{LabelSet, Totals};
pub use listed::{Listed, PodRun};
pub use namespaces::NamespacedSelector;
pub use owned_pods::{Member, Members, MembersGuard, OwnedPods};
pub use pods::{PodCache, PodChange};
pub use selector_index::SelectorIndex;
pub use version::StoreVersion;

/// An object event of a watch.
#[derive(Debug)]
pub enum Delta<T: ?Sized> {
    /// The object was added or modified. The cache knows which.
    Applied(Arc<T>),
    /// The object was deleted. This is its last state.
    Deleted(Arc<T>),
}

impl<T: ?Sized> Delta<T> {
    /// Replaces the object with the result of `read`. Returns `None` if `read` returns `None`.
    pub fn filter_map<U: ?Sized>(
        self,
        read: impl FnOnce(Arc<T>) -> Option<Arc<U>>,
    ) -> Option<Delta<U>> {
        match self {
            Delta::Applied(object) => read(object).map(Delta::Applied),
            Delta::Deleted(object) => read(object).map(Delta::Deleted),
        }
    }
}

impl<T: ?Sized> Clone for Delta<T> {
    fn clone(&self) -> Self {
        match self {
            Delta::Applied(object) => Delta::Applied(object.clone()),
            Delta::Deleted(object) => Delta::Deleted(object.clone()),
        }
    }
}
