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

/// Called with the name of a namespace that is being deleted, after an object of the namespace was removed.
pub type RemovalHook = Arc<dyn Fn(&str, Now) + Send + Sync>;

/// What the cluster knows of namespaces that are being deleted.
#[derive(Default)]
pub(crate) struct Terminations {
    /// Whether a namespace was ever deleted; otherwise removals cost one test.
    seen: AtomicBool,
    hook: Lock<Option<RemovalHook>>,
}

impl fmt::Debug for Terminations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminations").finish_non_exhaustive()
    }
}

impl Terminations {
    /// Notes that a namespace is being deleted.
    pub(crate) fn begun(&self) {
        // Relaxed: who empties the namespace has read that it is being deleted, and the locks of the store order
        // that before later removals.
        self.seen.store(true, Ordering::Relaxed);
    }
}

impl Cluster {
    /// Sets what is called when an object of a namespace that is being deleted was removed. The caller of the
    /// removal calls it, after the commit and without a lock.
    pub fn set_removal_hook(&self, hook: Option<RemovalHook>) {
        *self.terminations.hook.lock() = hook;
    }

    /// Reports an object that was removed.
    pub(crate) fn report_removal(&self, removed: &ObjectMeta, now: Now) {
        // Relaxed: see `Terminations::begun`.
        if !self.terminations.seen.load(Ordering::Relaxed) {
            return;
        }
        let namespace = &removed.namespace;
        let key = self.namespaces.key("", namespace);
        if self.namespaces.inspect(&key, |found| found.terminating) == Some(true)
            && let Some(hook) = self.terminations.hook.lock().clone()
        {
            hook(namespace, now);
        }
    }
}

#[cfg(test)]
mod tests;
