//! Observers of the controllers' work, for the fault simulator's invariant checker and for event
//! logs.

use std::any::Any;
use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::driver::Workload;
use podstorm::intern::KeyId;
use podstorm_objects::{Kind, Now};

use crate::faults::BatchPosition;

/// The identity of a sync: its controller, and its number in that controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncId {
    /// The number of the controller manager in the run, from 0.
    pub incarnation: u32,
    /// The kind of the owners that the controller syncs.
    pub kind: Kind,
    /// The number of the sync in its controller, from 1.
    pub number: u64,
}

/// The origin of commits: a request of a sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The sync that made the request.
    pub sync: SyncId,
    /// Whether no sync waits for the answer.
    pub orphaned: bool,
}

/// Receives the origin of each commit before it happens.
pub trait Origins: Send + Sync + std::fmt::Debug {
    /// Sets the origin of commits until the next call; `None` for clients other than the
    /// controllers.
    fn carries_out(&self, origin: Option<Origin>);
}

/// Observes the workers of a run. Calls come in the order of events. A callback must not call the
/// cluster.
pub trait Observer<W: Workload>: Origins {
    /// Called after a key was taken from the controller's queue `queue`, before its sync begins.
    fn sync_begins(&self, sync: SyncId, controller: &W, queue: usize, key: KeyId, now: Now);

    /// Called when a request is sent.
    fn sends(
        &self,
        sync: SyncId,
        controller: &W,
        request: &Request,
        position: BatchPosition,
        now: Now,
    );

    /// Returns the requests to carry out instead of this one, at least one; `None` keeps the
    /// request. With this, a test plants a fault in a controller, which a checker must detect.
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        let _ = request;
        None
    }

    /// Called when a request has its final answer, before the sync receives the answer.
    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now);

    /// Called after a sync has ended, before the sync's key is marked as done.
    fn sync_ended(&self, sync: SyncId, controller: &W, state: &W::Sync, now: Now);
}

/// The observers of a run, at most one for each workload type. A clone shares the observers.
#[derive(Clone, Debug, Default)]
pub struct Observers(Vec<Arc<dyn AnyObserver>>);

/// A type-erased `Arc<dyn Observer<W>>`.
trait AnyObserver: Any + Send + Sync + std::fmt::Debug {}

impl<W: Workload> AnyObserver for Arc<dyn Observer<W>> {}

impl Observers {
    /// Sets the observer of a workload type, and replaces the previous one.
    pub fn set<W: Workload>(&mut self, observer: Arc<dyn Observer<W>>) {
        self.0.insert(0, Arc::new(observer));
    }

    /// Returns the observer of a workload type, or a [`NoopObserver`] if none is set.
    pub fn get<W: Workload>(&self) -> Arc<dyn Observer<W>> {
        let typed = self.0.iter().find_map(|observer| {
            let observer: &dyn Any = &**observer;
            observer.downcast_ref::<Arc<dyn Observer<W>>>()
        });
        typed.map_or_else(|| Arc::new(NoopObserver) as _, Arc::clone)
    }
}

/// An observer that does nothing.
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
