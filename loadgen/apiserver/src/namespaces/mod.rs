//! What the server itself does for the end of namespaces: it removes one with its last finalizer, and reports
//! removals from one that is being deleted. The namespace controller, which empties them, is a client of the API.
//! Without this controller a namespace stays `Terminating`.

mod finalize;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use podstorm_objects::{Now, ObjectMeta};

use crate::Cluster;
use crate::store::lock::Lock;

/// What a cluster reports of namespaces that are being deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Termination<'a> {
    /// The deletion of the cluster's first one has begun. Once.
    First,
    /// An object was removed from one.
    Removal {
        /// The name of the namespace.
        namespace: &'a str,
        /// When the object was removed.
        now: Now,
    },
}

/// Called with what a cluster reports, after the commit and without a lock, by who made the commit.
pub type TerminationHook = Arc<dyn Fn(Termination<'_>) + Send + Sync>;

/// What the cluster knows of namespaces that are being deleted.
#[derive(Default)]
pub(crate) struct Terminations {
    /// Whether a namespace was ever deleted; otherwise removals cost one test.
    seen: AtomicBool,
    hook: Lock<Option<TerminationHook>>,
}

impl fmt::Debug for Terminations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminations").finish_non_exhaustive()
    }
}

impl Terminations {
    /// Notes that a namespace is being deleted.
    pub(crate) fn begun(&self) {
        // Relaxed: the lock of the hook orders it before a hook that is set later. Who empties the namespace has
        // read that it is being deleted, and the locks of the store order that before later removals.
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
    /// Sets what hears of namespaces that are being deleted. Where there was one before, it hears so at once.
    pub fn set_termination_hook(&self, hook: Option<TerminationHook>) {
        *self.terminations.hook.lock() = hook;
        // Relaxed: see `Terminations::begun`.
        if self.terminations.seen.load(Ordering::Relaxed) {
            self.terminations.report(Termination::First);
        }
    }

    /// Reports an object that was removed.
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
