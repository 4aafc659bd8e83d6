//! Observers of commits, such as an invariant checker that sees every write as it happens.

use std::fmt;
use std::sync::Arc;

use podstorm_objects::{AnyObject, Now, Object};

use super::Lock;
use super::log::Change;

/// An observer of every commit.
pub trait CommitObserver: Send + Sync {
    /// Called for every event of every kind, in the order of versions, before any watch can see the
    /// event.
    /// The cluster's locks are held during the call, so a call into the cluster would deadlock. The
    /// writers of all kinds wait for each other here.
    /// each other here.
    fn committed(&self, commit: &Commit);
}

/// One commit, which is one event. A request that first marks and then removes an object makes two
/// commits: `Modified`, then `Deleted`.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The version assigned to the commit.
    pub version: u64,
    /// The type of the event.
    pub change: Change,
    /// The object before the commit; absent for a new object.
    pub old: Option<AnyObject>,
    /// The object after the commit; after a deletion, its last state with the version of the
    /// deletion.
    pub new: AnyObject,
    /// The time of the request.
    pub now: Now,
}

impl Commit {
    /// Returns the previous and the new object; `None` if the object is not a `T`.
    pub fn downcast<T: Object>(&self) -> Option<(Option<&T>, &T)> {
        let new = self.new.downcast_ref()?;
        let old = self.old.as_ref().and_then(|old| old.downcast_ref());
        Some((old, new))
    }
}

/// A cluster's observer, shared by the logs of all kinds.
pub(crate) struct Observed {
    /// Held from the assignment of a version until the observer returns. Each log has its own lock;
    /// this one gives the observer the commits of all kinds in one order.
    pub(crate) turn: Lock<()>,
    pub(crate) observer: Arc<dyn CommitObserver>,
}

impl fmt::Debug for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observed").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
