//! Observes the work of controllers as it happens: for the fault simulator's invariant checker and
//! for event logs.

use std::any::Any;
use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::driver::Workload;
use podstorm::intern::KeyId;
use podstorm_objects::{Kind, Now};

use crate::faults::BatchPosition;

/// A sync, by its controller and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncId {
    /// The number of the controller manager in the run.
    pub incarnation: u32,
    /// The kind of the owners that the controller syncs.
    pub kind: Kind,
    /// The number of the sync among those of the controller, from 1.
    pub number: u64,
}

/// The origin of the commits that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The sync that made the request.
    pub sync: SyncId,
    /// Whether the request is orphaned: no sync waits for its answer.
    pub orphaned: bool,
}

/// Learns where commits come from.
pub trait Origins: Send + Sync + std::fmt::Debug {
    /// Commits from now until the next call have this origin; `None`: they come from other clients
    /// than the controllers.
    fn carries_out(&self, origin: Option<Origin>);
}

/// Observes the workers of a run. Calls come in the order of the events. A callback must not call
/// the cluster.
pub trait Observer<W: Workload>: Origins {
    /// A key was taken from the controller's queue `queue`; its sync is about to begin.
    fn sync_begins(&self, sync: SyncId, controller: &W, queue: usize, key: KeyId, now: Now);

    /// A request is sent.
    fn sends(
        &self,
        sync: SyncId,
        controller: &W,
        request: &Request,
        position: BatchPosition,
        now: Now,
    );

    /// The requests that are sent in place of this one, at least one, where a test plants a fault in a
    /// controller to see that a checker notices it; `None`: the request itself.
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        let _ = request;
        None
    }

    /// A request has its final answer, which its sync gets next.
    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now);

    /// A sync has ended; its key is about to be marked as done.
    fn sync_ended(&self, sync: SyncId, controller: &W, state: &W::Sync, now: Now);
}

/// The observers of a run, one for each type of workload at most. A clone shares them.
#[derive(Clone, Debug, Default)]
pub struct Observers(Vec<Arc<dyn AnyObserver>>);

/// An `Arc<dyn Observer<W>>`.
trait AnyObserver: Any + Send + Sync + std::fmt::Debug {}

impl<W: Workload> AnyObserver for Arc<dyn Observer<W>> {}

impl Observers {
    /// Adds the observer of a type of workload, in place of the one before.
    pub fn set<W: Workload>(&mut self, observer: Arc<dyn Observer<W>>) {
        self.0.insert(0, Arc::new(observer));
    }

    /// The observer of a type of workload; one that observes nothing where none was set.
    pub fn of<W: Workload>(&self) -> Arc<dyn Observer<W>> {
        let typed = self.0.iter().find_map(|observer| {
            let observer: &dyn Any = &**observer;
            observer.downcast_ref::<Arc<dyn Observer<W>>>()
        });
        typed.map_or_else(|| Arc::new(NoopObserver) as _, Arc::clone)
    }
}

/// Observes nothing.
#[derive(Clone, Copy, Debug)]
pub struct NoopObserver;

impl Origins for NoopObserver {
    fn carries_out(&self, _: Option<Origin>) {}
}

impl<W: Workload> Observer<W> for NoopObserver {
    fn sync_begins(&self, _: SyncId, _: &W, _: usize, _: KeyId, _: Now) {}
    fn sends(&self, _: SyncId, _: &W, _: &Request, _: BatchPosition, _: Now) {}
    fn answered(&self, _: SyncId, _: &Request, _: &Answer, _: Now) {}
    fn sync_ended(&self, _: SyncId, _: &W, _: &W::Sync, _: Now) {}
}
