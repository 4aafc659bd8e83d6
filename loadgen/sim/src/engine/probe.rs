//! What a checker is told of a controller's work, as it happens.

use podstorm::client::{Answer, Request};
use podstorm::driver::Workload;
use podstorm::intern::KeyId;
use podstorm::replicaset::Controller;
use podstorm_objects::{Kind, Now};

use crate::faults::Place;

/// A sync, by the controller that does it and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SyncId {
    /// Which of the run's controller managers.
    pub incarnation: u32,
    /// What its controller looks after.
    pub kind: Kind,
    /// Counts the syncs of the controller, from 1.
    pub number: u64,
}

/// Who is behind the commits that follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The sync that asked for it.
    pub sync: SyncId,
    /// Whether the request has gone astray: nobody waits for its answer.
    pub stray: bool,
}

/// Listens to the workers of a run. Calls come in the order of what happens; none may call back
/// into the cluster.
pub trait Probe<W: Workload = Controller>: Send + Sync + std::fmt::Debug {
    /// A key was taken and its sync is about to begin.
    fn sync_begins(&self, sync: SyncId, controller: &W, key: KeyId, now: Now);

    /// A request is sent.
    fn sends(&self, sync: SyncId, controller: &W, request: &Request, place: Place, now: Now);

    /// What is carried out in place of a request, where a checker has a wrong controller on purpose, to
    /// see that it is noticed; `None`: the request.
    fn plants(&self, request: &Request) -> Option<Vec<Request>> {
        let _ = request;
        None
    }

    /// From now on until the next call, what is committed comes from there; absent: from others
    /// than the controllers.
    fn carries_out(&self, origin: Option<Origin>);

    /// A request has come back to its sync, for good.
    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now);

    /// A sync is over, and its key is about to be done.
    fn sync_ended(&self, sync: SyncId, controller: &W, state: &W::Sync, now: Now);
}

/// Nobody listens.
#[derive(Clone, Copy, Debug)]
pub struct Unheard;

impl<W: Workload> Probe<W> for Unheard {
    fn sync_begins(&self, _: SyncId, _: &W, _: KeyId, _: Now) {}
    fn sends(&self, _: SyncId, _: &W, _: &Request, _: Place, _: Now) {}
    fn carries_out(&self, _: Option<Origin>) {}
    fn answered(&self, _: SyncId, _: &Request, _: &Answer, _: Now) {}
    fn sync_ended(&self, _: SyncId, _: &W, _: &W::Sync, _: Now) {}
}
