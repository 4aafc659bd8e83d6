//! The server's part in the deletion of a namespace: removes a namespace with its last finalizer,
//! and reports removals of objects from terminating namespaces. The namespace controller, which
//! empties these namespaces, is a client of the API. Without this controller, a namespace stays
//! `Terminating`.

mod finalize;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use podstorm_objects::{Now, ObjectMeta};

use crate::Cluster;
use crate::store::lock::Lock;

/// A report about namespaces that are being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination<'a> {
    /// The first deletion of a namespace in this cluster has begun. Reported once to each hook.
    First,
    /// An object was removed from a terminating namespace.
    Removal {
        /// The name of the namespace.
        namespace: &'a str,
        /// The time of the removal.
        now: Now,
    },
}

/// The hook that receives the reports. It is called after the commit and without a lock, on the
/// thread that made the commit.
pub type TerminationHook = Arc<dyn Fn(Termination<'_>) + Send + Sync>;

/// What a cluster knows about namespaces that are being deleted.
#[derive(Default)]
pub(crate) struct Terminations {
    /// Whether a namespace was ever deleted. If not, the removal of an object costs one check.
    seen: AtomicBool,
    hook: Lock<Option<TerminationHook>>,
}

impl fmt::Debug for Terminations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminations").finish_non_exhaustive()
    }
}

impl Terminations {
    /// Records that a namespace is being deleted.
    pub(crate) fn begun(&self) {
        // Relaxed: the hook's lock orders this before a hook that is set later. The client that
        // empties the namespace has read that it is being deleted, and the store's locks order that
        // read before later removals.
        if !self.seen.swap(true, Ordering::Relaxed) {
            self.report(Termination::First);
        }
    }

    fn report(&self, termination: Termination<'_>) {
        let hook = self.hook.lock().clone();
        if let Some(hook) = hook {
            hook(termination);
        }
    }
}

impl Cluster {
    /// Sets the hook for the reports. If a namespace was deleted before, the hook is called
    /// immediately.
    pub fn set_termination_hook(&self, hook: Option<TerminationHook>) {
        *self.terminations.hook.lock() = hook;
        // Relaxed: see `Terminations::begun`.
        if self.terminations.seen.load(Ordering::Relaxed) {
            self.terminations.report(Termination::First);
        }
    }

    /// Reports the removal of an object if its namespace is terminating.
    pub(crate) fn report_removal(&self, removed: &ObjectMeta, now: Now) {
        // Relaxed: see `Terminations::begun`.
        if !self.terminations.seen.load(Ordering::Relaxed) {
            return;
        }
        let namespace = &removed.namespace;
        let key = self.namespaces.key("", namespace);
        if self.namespaces.inspect(&key, |found| found.terminating) == Some(true) {
            self.terminations
                .report(Termination::Removal { namespace, now });
        }
    }
}

#[cfg(test)]
mod tests;
