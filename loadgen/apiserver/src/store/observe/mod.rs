//! Commits as an observer sees them: who wants to judge a run looks at every write as it happens.

use std::fmt;
use std::sync::Arc;

use podstorm_objects::{AnyObject, Now, Object};

use super::Lock;
use super::log::Change;

/// Looks at every committed write.
pub trait CommitObserver: Send + Sync {
    /// Called for every event that enters a log, in the order of versions over all kinds, before
    /// anybody else can see it.
    ///
    /// Locks of the cluster are held: the observer must not call the cluster, which would never
    /// return. Writers wait for each other here, on as many threads as there may be.
    fn committed(&self, commit: &Commit);
}

/// One committed write, which is one event. A deletion that is marked and carried out in one
/// request is two: `Modified`, then `Deleted`.
#[derive(Clone, Debug)]
pub struct Commit {
    /// The version it was given.
    pub version: u64,
    /// What happened to the object.
    pub change: Change,
    /// The object before; absent when it is new.
    pub old: Option<AnyObject>,
    /// The object after; of a deletion its last state, which carries the version of the deletion.
    pub new: AnyObject,
    /// When.
    pub now: Now,
}

impl Commit {
    /// The object before and after, if it is of that type.
    pub fn of<T: Object>(&self) -> Option<(Option<&T>, &T)> {
        let new = self.new.downcast_ref()?;
        let old = self.old.as_ref().and_then(|old| old.downcast_ref());
        Some((old, new))
    }
}

/// The observer of a cluster, shared by the logs of all kinds.
pub(crate) struct Observed {
    /// Held from taking a version to the end of the call: each log has a lock of its own, and
    /// the observer hears of all kinds in one order.
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
