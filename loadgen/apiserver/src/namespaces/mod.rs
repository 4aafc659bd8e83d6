//! The namespace controller: one sync of a namespace that is being deleted, request by request as
//! upstream's.
//!
//! [`sync`] decides, and asks a [`NamespaceApi`] for every request. [`StoreApi`] answers from a
//! cluster. When a namespace is due is the caller's: [`FIRST_AFTER_NS`] after its deletion begins, and
//! then as [`Outcome`] says; a [waker](Cluster::set_namespaces_waker) tells of objects that went meanwhile.
//! In a cluster without this controller a namespace stays `Terminating`.
//!
//! Source: Kubernetes' `pkg/controller/namespace/deletion`.

mod conditions;
mod finalize;
mod store;
mod sync;

pub use store::StoreApi;
pub use sync::{Content, ContentType, Discovery, NamespaceApi, Outcome, Stopped, sync};

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

use podstorm_objects::ObjectMeta;

use crate::store::lock::Lock;
use crate::{Cluster, Waker};

/// From the notification that a namespace is being deleted to its sync, ns: other servers may still
/// admit objects to it.
pub const FIRST_AFTER_NS: i64 = 5_000_000_000;

/// What the cluster knows of namespaces that are being deleted.
#[derive(Default)]
pub(crate) struct Terminations {
    /// Whether there ever was a sync; otherwise removals cost one test.
    seen: AtomicBool,
    waker: Lock<Option<Waker>>,
}

impl fmt::Debug for Terminations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Terminations").finish_non_exhaustive()
    }
}

impl Cluster {
    /// Sets the waker that is called when an object of a namespace that is being deleted was removed.
    pub fn set_namespaces_waker(&self, waker: Option<Waker>) {
        *self.terminations.waker.lock() = waker;
    }

    /// Tells of an object that was removed.
    pub(crate) fn notify_namespaces(&self, removed: &ObjectMeta) {
        // Relaxed: set before a sync lists what is left, and the locks of the store order the lists before
        // later removals.
        if !self.terminations.seen.load(Ordering::Relaxed) {
            return;
        }
        let key = self.namespaces.key("", &removed.namespace);
        if self.namespaces.inspect(&key, |found| found.terminating) == Some(true)
            && let Some(waker) = self.terminations.waker.lock().clone()
        {
            waker();
        }
    }
}

#[cfg(test)]
mod tests;
