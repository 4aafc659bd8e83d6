//! The event log of a simulation: every sync with its requests, and every write of the controllers.
//! The log forwards all observations to the invariant checker.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm::client::{Answer, Request};
use podstorm::intern::KeyId;
use podstorm::object::{Kind, Now, Pod, ReplicaSet, Uid};
use podstorm::replicaset::{Controller, Outcome, ReplicaSetSync, SyncErrorClass};
use podstorm_apiserver::{Change, Commit, CommitObserver};
use podstorm_faultsim::workloads::replicasets::SetChecker;
use podstorm_sim::engine::observer::{Observer, Origin, Origins, SyncId};
use podstorm_sim::faults::{BatchPosition, Call};

/// A record of one sync.
#[derive(Clone, Debug)]
pub struct SyncRecord {
    /// The controller, and the number of the sync in that controller.
    pub id: SyncId,
    /// The name of the ReplicaSet.
    pub owner: String,
    /// The start time in nanoseconds.
    pub began_ns: i64,
    /// The requests in the order in which they were sent.
    pub requests: Vec<RequestRecord>,
    /// The end time and the outcome; `None` while the sync runs, and if its controller has crashed.
    pub ended: Option<(i64, Outcome)>,
}

/// A record of one request.
#[derive(Clone, Debug)]
pub struct RequestRecord {
    /// The kind of request.
    pub call: Call,
    /// The number of the batch that contains the request.
    pub batch: u32,
    /// The name of the pod; empty if the request has none.
    pub name: String,
    /// The response: `Err` contains the status code of an error, or 0 for a lost connection. `None`
    /// before the response.
    pub answer: Option<Result<(), u16>>,
}

/// A kind of write that a controller commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// A pod was created.
    Create,
    /// A pod was marked for deletion.
    Delete,
    /// A pod got a controller.
    Adopt,
    /// A pod lost its controller.
    Release,
    /// A status was written.
    Status,
}

/// A committed write of a controller.
#[derive(Clone, Debug)]
pub struct WriteRecord {
    /// The kind of write.
    pub write: Write,
    /// For a status write, the ReplicaSet as it was written; otherwise `None`.
    pub object: Option<Arc<ReplicaSet>>,
}

/// A recorder of syncs and writes that observes the workers and the server.
#[derive(Debug)]
pub struct EventLog {
    checker: Arc<SetChecker>,
    state: Mutex<State>,
}

/// The recorded data of a simulation.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Whether a controller is the cause of the current commits.
    by_controller: bool,
    /// All syncs, in the order in which they started.
    pub(super) syncs: Vec<SyncRecord>,
    /// The indexes of the syncs that are running.
    running: BTreeMap<SyncId, usize>,
    pub(super) written: Vec<WriteRecord>,
    pub(super) active: BTreeMap<Uid, ActivePods>,
}

/// The active pods of an owner, and their maximum and minimum number since the last reset.
#[derive(Debug, Default)]
pub(super) struct ActivePods {
    names: BTreeSet<String>,
    pub(super) most: usize,
    pub(super) fewest: usize,
}

impl EventLog {
    pub(super) fn new(checker: Arc<SetChecker>) -> EventLog {
        EventLog {
            checker,
            state: Mutex::default(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no thread panics while it holds this lock")
    }
}

impl State {
    fn sync(&mut self, sync: SyncId) -> &mut SyncRecord {
        let at = self.running[&sync];
        &mut self.syncs[at]
    }

    /// Updates the active pods of owners after a commit.
    fn recount(&mut self, change: Change, old: Option<&Pod>, new: &Pod) {
        let owner = |pod: &Pod| Some(pod.metadata.controller()?.uid.clone());
        let after = owner(new).filter(|_| change != Change::Deleted && new.is_active());
        for uid in old.and_then(owner).into_iter().chain(after.clone()) {
            let name = new.metadata.name.to_string();
            let is_active = after.as_ref() == Some(&uid);
            let active = self.active.entry(uid).or_default();
            match is_active {
                true => active.names.insert(name),
                false => active.names.remove(&name),
            };
            active.most = active.most.max(active.names.len());
            active.fewest = active.fewest.min(active.names.len());
        }
    }

    /// Resets the maximum and minimum of all owners to the current number.
    pub(super) fn reset_extremes(&mut self) {
        for active in self.active.values_mut() {
            (active.most, active.fewest) = (active.names.len(), active.names.len());
        }
    }
}

/// Returns the name of the pod in a request; empty if there is none.
fn pod_name(request: &Request) -> &str {
    match request {
        Request::DeletePod { name, .. } | Request::PatchOwners { name, .. } => name,
        _ => "",
    }
}

impl Origins for EventLog {
    fn carries_out(&self, origin: Option<Origin>) {
        self.checker.carries_out(origin);
        self.state().by_controller = origin.is_some();
    }
}

impl Observer<Controller> for EventLog {
    fn sync_begins(
        &self,
        sync: SyncId,
        controller: &Controller,
        queue: usize,
        key: KeyId,
        now: Now,
    ) {
        self.checker.sync_begins(sync, controller, queue, key, now);
        let mut state = self.state();
        let at = state.syncs.len();
        state.running.insert(sync, at);
        state.syncs.push(SyncRecord {
            id: sync,
            owner: controller.owners().name(key).name.to_string(),
            began_ns: now.mono_ns,
            requests: Vec::new(),
            ended: None,
        });
    }

    fn sends(
        &self,
        sync: SyncId,
        controller: &Controller,
        request: &Request,
        place: BatchPosition,
        now: Now,
    ) {
        self.checker.sends(sync, controller, request, place, now);
        self.state().sync(sync).requests.push(RequestRecord {
            call: Call::from_request(request),
            batch: place.batch,
            name: pod_name(request).to_owned(),
            answer: None,
        });
    }

    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, now: Now) {
        self.checker.answered(sync, request, answer, now);
        let outcome = match answer {
            Answer::Failed(error) => Err(error.code),
            _ => Ok(()),
        };
        let (call, name) = (Call::from_request(request), pod_name(request));
        let mut state = self.state();
        // The creates in a batch are identical, so any unanswered one is suitable.
        let mut sent = state.sync(sync).requests.iter_mut().rev();
        let waits =
            |it: &&mut RequestRecord| it.call == call && it.name == name && it.answer.is_none();
        if let Some(waiting) = sent.find(waits) {
            waiting.answer = Some(outcome);
        }
    }

    fn sync_ended(&self, sync: SyncId, controller: &Controller, ended: &ReplicaSetSync, now: Now) {
        self.checker.sync_ended(sync, controller, ended, now);
        let mut state = self.state();
        state.sync(sync).ended = Some((now.mono_ns, ended.outcome().clone()));
        state.running.remove(&sync);
    }
}

impl CommitObserver for EventLog {
    fn committed(&self, commit: &Commit) {
        self.checker.committed(commit);
        let mut state = self.state();
        let (write, object) = if let Some((old, new)) = commit.downcast::<Pod>() {
            state.recount(commit.change, old, new);
            (write_of(commit.change, old, new), None)
        } else if commit.old.is_some() && commit.new.kind() == Kind::REPLICA_SET {
            (Some(Write::Status), commit.new.clone().downcast())
        } else {
            (None, None)
        };
        if let Some(write) = write.filter(|_| state.by_controller) {
            state.written.push(WriteRecord { write, object });
        }
    }
}

fn write_of(change: Change, old: Option<&Pod>, new: &Pod) -> Option<Write> {
    let Some(old) = old else {
        return Some(Write::Create);
    };
    let (before, after) = (old.metadata.controller(), new.metadata.controller());
    match () {
        () if change == Change::Deleted => None,
        () if !old.metadata.is_deleting() && new.metadata.is_deleting() => Some(Write::Delete),
        () if before.is_none() && after.is_some() => Some(Write::Adopt),
        () if before.is_some() && after.is_none() => Some(Write::Release),
        () => None,
    }
}

impl SyncRecord {
    /// Returns the number of requests of a kind that the sync has sent.
    pub fn sent(&self, call: Call) -> usize {
        self.requests.iter().filter(|it| it.call == call).count()
    }

    /// Returns the step in which the sync failed; `None` if it did not fail.
    pub fn failed_at(&self) -> Option<SyncErrorClass> {
        match &self.ended {
            Some((_, Outcome::Failed(error))) => Some(error.class),
            _ => None,
        }
    }

    /// Returns the text of the sync's error; empty if the sync has not failed.
    pub fn error(&self) -> &str {
        match &self.ended {
            Some((_, Outcome::Failed(error))) => &error.message,
            _ => "",
        }
    }

    /// Returns the number of creates in each batch that contains any.
    pub fn create_batches(&self) -> Vec<usize> {
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        for create in self.requests.iter().filter(|it| it.call == Call::CreatePod) {
            *sizes.entry(create.batch).or_default() += 1;
        }
        sizes.into_values().collect()
    }
}
