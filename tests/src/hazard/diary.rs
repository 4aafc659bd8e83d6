//! What happened in a scenario: every sync with its requests, every write that the controllers had
//! committed, and whatever broke a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use podstorm::client::{Answer, PodPatch, Request};
use podstorm::intern::KeyId;
use podstorm::object::{Kind, Now, Pod, ReplicaSet};
use podstorm::replicaset::{Controller, Outcome, Sync, SyncErrorClass, as_replica_set};
use podstorm_apiserver::{Change, Commit, CommitObserver};
use podstorm_sim::engine::observer::{Observer, Origin, SyncId};
use podstorm_sim::faults::{BatchPosition, Call};

use super::rules;

/// One sync.
#[derive(Clone, Debug)]
pub struct SyncPage {
    /// Which one.
    pub id: SyncId,
    /// Name of its ReplicaSet.
    pub parent: String,
    /// When it began, ns.
    pub began_ns: i64,
    /// What it found in the cache.
    pub seen: Option<Seen>,
    /// Its requests, in the order in which they were sent.
    pub requests: Vec<Asked>,
    /// How it ended, and when; absent while it runs, and for ever where its controller died.
    pub ended: Option<(i64, Outcome)>,
}

/// What a sync found in the cache when it began.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The ReplicaSet's UID.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// Its `spec.replicas`.
    pub replicas: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Its own active pods that match its selector.
    pub own: BTreeSet<String>,
    /// Whether expectations were pending and younger than five minutes.
    pub expecting: bool,
    /// Most creates or deletes of one sync.
    pub burst: i64,
}

/// One request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// When it was sent, ns.
    pub at_ns: i64,
    /// Its kind.
    pub call: Call,
    /// Where in its sync.
    pub place: BatchPosition,
    /// The pod's name, where it has one.
    pub name: String,
    /// Whether it is to adopt a pod.
    pub adopts: bool,
    /// The generation that a status says it answers.
    pub observed_generation: Option<i64>,
    /// What came back: the code of the error, 0 for a lost connection.
    pub answer: Option<Result<(), u16>>,
}

/// What a committed write of a controller did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Did {
    /// A pod is new.
    Create,
    /// A pod is marked for deletion.
    Delete,
    /// A pod got its controller.
    Adopt,
    /// A pod lost its controller.
    Release,
    /// A status.
    Status,
}

/// A committed write of a controller.
#[derive(Clone, Debug)]
pub struct Written {
    /// What it did.
    pub did: Did,
    /// Name of the pod or of the ReplicaSet.
    pub name: String,
    /// Who asked for it.
    pub origin: Origin,
    /// When, ns.
    pub at_ns: i64,
    /// The status as written.
    pub object: Option<std::sync::Arc<ReplicaSet>>,
}

/// Writes everything down and checks it. Listens to the workers and to the server.
#[derive(Debug, Default)]
pub struct Diary {
    state: Mutex<State>,
}

/// What is written down.
#[derive(Debug, Default)]
pub(super) struct State {
    origin: Option<Origin>,
    /// Every sync, in the order in which they began.
    pub(super) syncs: Vec<SyncPage>,
    /// Where the running ones are.
    running: BTreeMap<SyncId, usize>,
    pub(super) written: Vec<Written>,
    /// Every pod that ever was: namespace and name.
    pods: BTreeSet<(String, String)>,
    /// Active pods by the UID of their controller, and the most there were.
    active: BTreeMap<String, (BTreeSet<String>, usize, usize)>,
    /// When a controller last set expectations for a ReplicaSet.
    expected_at: BTreeMap<(u32, String), i64>,
    pub(super) broken: Vec<String>,
}

impl Diary {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no thread panics while it holds this lock")
    }
}

/// The name under which a pod's controller is counted.
fn owner_of(pod: &Pod) -> Option<String> {
    pod.metadata.controller().map(|owner| owner.uid.to_string())
}

impl State {
    fn page(&mut self, sync: SyncId) -> &mut SyncPage {
        let at = self.running[&sync];
        &mut self.syncs[at]
    }

    /// What the controller's cache says about a ReplicaSet and its pods.
    fn look(&self, sync: SyncId, controller: &Controller, key: KeyId, now: Now) -> Option<Seen> {
        let parent = controller.owners().get(key)?;
        let object = &parent.object;
        let meta = &object.metadata;
        let mut own = BTreeSet::new();
        if let Ok(selector) = &parent.selector {
            let names = self.pods.iter().filter(|(ns, _)| **ns == *meta.namespace);
            own = names
                .filter_map(|(namespace, name)| controller.pods().get(namespace, name))
                .filter(|pod| {
                    let owner = pod.metadata.controller();
                    pod.is_active()
                        && owner.is_some_and(|owner| **owner == *parent.controller_ref)
                        && selector.matches(&pod.metadata.labels)
                })
                .map(|pod| pod.metadata.name.to_string())
                .collect();
        }
        let counts = controller.expectations().counts(key);
        let set_at = self
            .expected_at
            .get(&(sync.incarnation, meta.name.to_string()));
        let pending = counts.is_some_and(|counts| counts.add > 0 || counts.del > 0);
        Some(Seen {
            uid: meta.uid.to_string(),
            generation: meta.generation,
            replicas: i64::from(object.replicas()),
            deleting: meta.is_deleting(),
            own,
            expecting: pending
                && set_at.is_some_and(|at| now.mono_ns - at <= rules::EXPECTATIONS_NS),
            burst: controller.options().burst_replicas as i64,
        })
    }

    /// Counts the active pods of each owner after a commit.
    fn recount(&mut self, change: Change, old: Option<&Pod>, new: &Pod) {
        let name = new.metadata.name.to_string();
        let before = old.and_then(owner_of);
        if let Some(owner) = &before
            && let Some((names, ..)) = self.active.get_mut(owner)
        {
            names.remove(&name);
        }
        if change != Change::Deleted
            && new.is_active()
            && let Some(owner) = owner_of(new)
        {
            let (names, most, _) = self.active.entry(owner).or_default();
            names.insert(name);
            *most = (*most).max(names.len());
        }
        if let Some(owner) = &before
            && let Some((names, _, least)) = self.active.get_mut(owner)
        {
            *least = (*least).min(names.len());
        }
    }

    /// The most and the fewest active pods that the owner had since the marks were last set.
    pub(super) fn extremes(&self, uid: &str) -> (usize, usize) {
        self.active
            .get(uid)
            .map_or((0, 0), |(_, most, least)| (*most, *least))
    }

    /// The marks of all owners begin again at what they have now.
    pub(super) fn reset_extremes(&mut self) {
        for (names, most, least) in self.active.values_mut() {
            (*most, *least) = (names.len(), names.len());
        }
    }
}

impl Observer for Diary {
    fn sync_begins(&self, sync: SyncId, controller: &Controller, key: KeyId, now: Now) {
        let mut state = self.state();
        let parent = controller.owners().name(key).name.to_string();
        let twice = state.running.iter().any(|(other, at)| {
            other.incarnation == sync.incarnation && state.syncs[*at].parent == parent
        });
        if twice {
            state
                .broken
                .push(format!("I1: two syncs of {parent} at {}", now.mono_ns));
        }
        let seen = state.look(sync, controller, key, now);
        let at = state.syncs.len();
        state.running.insert(sync, at);
        state.syncs.push(SyncPage {
            id: sync,
            parent,
            began_ns: now.mono_ns,
            seen,
            requests: Vec::new(),
            ended: None,
        });
    }

    fn sends(
        &self,
        sync: SyncId,
        _: &Controller,
        request: &Request,
        place: BatchPosition,
        now: Now,
    ) {
        let mut state = self.state();
        let (name, adopts, observed_generation) = match request {
            Request::DeletePod { name, .. } => (name.to_string(), false, None),
            Request::PatchPod { name, patch, .. } => {
                let adopts = matches!(patch, PodPatch::Adopt { .. });
                (name.to_string(), adopts, None)
            }
            Request::PutStatus { object } => {
                let set = as_replica_set(object).expect("a status of its kind");
                let generation = set.status.observed_generation;
                (set.metadata.name.to_string(), false, Some(generation))
            }
            _ => (String::new(), false, None),
        };
        let asked = Asked {
            at_ns: now.mono_ns,
            call: Call::of(request),
            place,
            name,
            adopts,
            observed_generation,
            answer: None,
        };
        let page = state.page(sync);
        let broken = rules::at_request(page, &asked);
        let is_first = page.requests.iter().all(|before| before.call != asked.call);
        let scales = matches!(asked.call, Call::CreatePod | Call::DeletePod);
        let key = (sync.incarnation, page.parent.clone());
        page.requests.push(asked);
        if scales && is_first {
            state.expected_at.insert(key, now.mono_ns);
        }
        state.broken.extend(broken);
    }

    fn carries_out(&self, origin: Option<Origin>) {
        self.state().origin = origin;
    }

    fn answered(&self, sync: SyncId, request: &Request, answer: &Answer, _: Now) {
        let mut state = self.state();
        let call = Call::of(request);
        let name = match request {
            Request::DeletePod { name, .. } | Request::PatchPod { name, .. } => name.as_str(),
            _ => "",
        };
        let outcome = match answer {
            Answer::Failed(error) => Err(error.code),
            _ => Ok(()),
        };
        // Creates of a batch are all alike: any one that waits will do.
        let mut waiting = state.page(sync).requests.iter_mut().rev();
        if let Some(asked) = waiting.find(|asked| {
            asked.call == call && asked.answer.is_none() && (name.is_empty() || asked.name == name)
        }) {
            asked.answer = Some(outcome);
        }
    }

    fn sync_ended(&self, sync: SyncId, _: &Controller, state: &Sync, now: Now) {
        let outcome = state.outcome();
        let mut state = self.state();
        let page = state.page(sync);
        page.ended = Some((now.mono_ns, outcome.clone()));
        let broken = rules::at_end(page);
        state.running.remove(&sync);
        state.broken.extend(broken);
    }
}

impl CommitObserver for Diary {
    fn committed(&self, commit: &Commit) {
        let mut state = self.state();
        let (did, object) = if let Some((old, new)) = commit.of::<Pod>() {
            let meta = &new.metadata;
            let place = (meta.namespace.to_string(), meta.name.to_string());
            state.pods.insert(place);
            let owners = meta.owner_references.iter();
            if owners
                .filter(|owner| owner.controller == Some(true))
                .count()
                > 1
            {
                let name = &meta.name;
                state.broken.push(format!("I5: {name} has two controllers"));
            }
            state.recount(commit.change, old, new);
            (did_to_pod(commit.change, old, new), None)
        } else if commit.old.is_some() && commit.new.kind() == Kind::REPLICA_SET {
            (Some(Did::Status), commit.new.clone().downcast())
        } else {
            (None, None)
        };
        if let (Some(did), Some(origin)) = (did, state.origin) {
            state.written.push(Written {
                did,
                name: commit.new.metadata().name.to_string(),
                origin,
                at_ns: commit.now.mono_ns,
                object,
            });
        }
    }
}

fn did_to_pod(change: Change, old: Option<&Pod>, new: &Pod) -> Option<Did> {
    if change == Change::Added {
        return Some(Did::Create);
    }
    let old = old?;
    let (before, after) = (old.metadata.controller(), new.metadata.controller());
    match () {
        () if change == Change::Deleted => None,
        () if !old.metadata.is_deleting() && new.metadata.is_deleting() => Some(Did::Delete),
        () if before.is_none() && after.is_some() => Some(Did::Adopt),
        () if before.is_some() && after.is_none() => Some(Did::Release),
        () => None,
    }
}

impl SyncPage {
    /// How many requests of that kind it has sent.
    pub fn sent(&self, call: Call) -> usize {
        self.requests
            .iter()
            .filter(|asked| asked.call == call)
            .count()
    }

    /// The step at which it failed, if it did.
    pub fn failed_at(&self) -> Option<SyncErrorClass> {
        match &self.ended {
            Some((_, Outcome::Failed(error))) => Some(error.class),
            _ => None,
        }
    }

    /// The text of its error; empty when it went well.
    pub fn error(&self) -> &str {
        match &self.ended {
            Some((_, Outcome::Failed(error))) => &error.message,
            _ => "",
        }
    }

    /// The sizes of the batches of creates.
    pub fn create_batches(&self) -> Vec<usize> {
        let mut sizes: BTreeMap<u32, usize> = BTreeMap::new();
        for asked in &self.requests {
            if asked.call == Call::CreatePod {
                *sizes.entry(asked.place.batch).or_default() += 1;
            }
        }
        sizes.into_values().collect()
    }
}
