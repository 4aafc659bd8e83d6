//! The test harness for the steps of a sync: a transport and a driver. The test decides what is
//! committed, which events the caches get, and which answers are lost.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use podstorm_objects::{
    Kind, LabelSelector, Labels, Now, Object, Pod, PodTemplate, ReplicaSet, ResourceVersion, Time,
    Uid,
};
use podstorm_runtime::client::{Answer, ApiError, OwnerPatch, Reason, Request};
use podstorm_runtime::driver::{Driver, Progress, Transport};
use podstorm_runtime::informer::AnyInformer;
use podstorm_runtime::intern::KeyId;

use super::as_replica_set;
use super::{Controller, ControllerOptions, Outcome, ReplicaSetSync};
use crate::cache::{Delta, PodCache};
use crate::policy::Behaviour;

pub(super) const LOST: Fault = Fault::Lose;

/// The injected outcome of one request.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// The request is not carried out; this is its answer.
    Refuse(ApiError),
    /// The request is carried out, but its answer is lost.
    Lose,
}

/// A controller with its caches and a driver for its syncs, over a [`Server`].
pub(super) struct Harness {
    pub(super) controller: Arc<Controller>,
    /// The informer that fills the cache of owners.
    pub(super) owners: Arc<dyn AnyInformer>,
    pub(super) cache: Arc<PodCache>,
    pub(super) driver: Driver<ReplicaSetSync>,
    pub(super) key: KeyId,
    pub(super) now: Now,
    pub(super) server: Server,
}

/// The committed state and the undelivered watch events.
pub(super) struct Server {
    pub(super) owner: Arc<ReplicaSet>,
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pod_events: VecDeque<Delta<Pod>>,
    owner_events: VecDeque<Delta<dyn Object>>,
    version: u64,
    /// The versions of the last write of a pod and of the last write of an owner.
    last: [u64; 2],
    made: u64,
    faults: BTreeMap<(&'static str, usize), Fault>,
    calls: BTreeMap<&'static str, usize>,
    /// All requests so far, each as `verb name`.
    pub(super) log: Vec<String>,
    /// Whether answers are held back until [`Harness::answer`] is called.
    held: bool,
}

impl Harness {
    /// Creates an owner `web` with this many replicas and no pods. The caches have the owner, and
    /// the hardened behaviour has read the versions it needs at its start.
    pub(super) fn new(behaviour: Behaviour, replicas: i32) -> Harness {
        let mut harness = Harness::before_first_sync(Kind::REPLICA_SET, behaviour, replicas);
        if behaviour == Behaviour::Hardened {
            harness.server.set_replicas(0);
            harness.deliver();
            assert_eq!(harness.sync(), Outcome::Ok);
            harness.deliver();
            harness.server.log.clear();
            harness.server.calls.clear();
            harness.server.set_replicas(replicas);
            harness.deliver();
        }
        harness
    }

    /// Like [`new`](Harness::new), but before the first sync.
    pub(super) fn before_first_sync(kind: Kind, behaviour: Behaviour, replicas: i32) -> Harness {
        let cache = Arc::new(PodCache::new());
        let options = ControllerOptions {
            policy: behaviour.policy(),
            ..ControllerOptions::new(kind)
        };
        let (controller, owners) = Controller::alone(options, cache.clone());
        let labels = Labels::from_pairs([("app", "web")]);
        let mut owner = ReplicaSet::default();
        owner.metadata.name = "web".into();
        owner.metadata.namespace = "ns".into();
        owner.metadata.uid = Uid::from_u128(0xa);
        owner.metadata.generation = 1;
        owner.metadata.resource_version = 10.into();
        owner.spec.replicas = Some(replicas);
        owner.spec.selector = Some(Arc::new(LabelSelector {
            match_labels: labels.clone(),
            match_expressions: Arc::new([]),
        }));
        let mut template = PodTemplate::default();
        template.metadata.labels = labels;
        owner.spec.template = Arc::new(template);
        let owner = Arc::new(owner);
        let now = Now {
            mono_ns: 1_000_000_000,
            wall_ns: 1_700_000_000_000_000_000,
        };
        cache.bookmark(&10.into());
        owners.apply(Delta::Applied(owner.clone()), now);
        Harness {
            key: controller.owners().intern("ns", "web"),
            controller,
            owners,
            cache,
            driver: Driver::default(),
            now,
            server: Server {
                owner,
                pods: BTreeMap::new(),
                pod_events: VecDeque::new(),
                owner_events: VecDeque::new(),
                version: 10,
                last: [10; 2],
                made: 0,
                faults: BTreeMap::new(),
                calls: BTreeMap::new(),
                log: Vec::new(),
                held: false,
            },
        }
    }

    /// Runs a sync from its beginning to its end.
    pub(super) fn sync(&mut self) -> Outcome {
        self.server.held = false;
        assert_eq!(self.start(), Progress::Finished);
        self.driver.sync.outcome().clone()
    }

    /// Runs a sync up to its first requests.
    pub(super) fn begin(&mut self) -> Progress {
        self.server.held = true;
        self.start()
    }

    fn start(&mut self) -> Progress {
        let (controller, server) = (&self.controller, &mut self.server);
        self.driver
            .begin(&**controller, 0, self.key, server, self.now)
    }

    /// Answers a batch and continues to the next batch, or to the end of the sync.
    pub(super) fn answer_and_resume(&mut self) -> Progress {
        self.answer();
        self.resume()
    }

    pub(super) fn answer(&mut self) {
        for (index, request) in self.driver.sync.requests().to_vec().iter().enumerate() {
            self.driver.answer(index, self.server.carry_out(request));
        }
    }

    fn resume(&mut self) -> Progress {
        let (controller, server) = (&self.controller, &mut self.server);
        self.driver.poll(&**controller, server, self.now)
    }

    /// Continues after [`answer`](Harness::answer) to the end of the sync.
    pub(super) fn resume_to_end(&mut self) {
        self.server.held = false;
        assert_eq!(self.resume(), Progress::Finished);
    }

    /// Delivers all events to the caches.
    pub(super) fn deliver(&mut self) {
        self.deliver_pods(usize::MAX);
        self.deliver_owners();
    }

    /// Delivers all events and runs a sync, which must succeed.
    pub(super) fn catch_up(&mut self) {
        self.deliver();
        assert_eq!(self.sync(), Outcome::Ok);
    }

    /// Delivers all events of owners.
    pub(super) fn deliver_owners(&mut self) {
        for delta in std::mem::take(&mut self.server.owner_events) {
            self.owners.apply(delta, self.now);
        }
    }

    /// Delivers the next `count` events of pods.
    pub(super) fn deliver_pods(&mut self, count: usize) {
        let count = count.min(self.server.pod_events.len());
        for delta in self.server.pod_events.drain(..count) {
            let change = self.cache.apply(delta);
            self.controller.pod_changed(&change, self.now);
        }
    }

    /// Takes the key from the queue. Returns whether it was due.
    pub(super) fn take(&mut self) -> bool {
        self.controller.queue().fire_due(self.now.mono_ns);
        let taken = self.controller.queue().try_take(self.now.mono_ns);
        matches!(taken, podstorm_runtime::workqueue::Take::Key(_))
    }

    /// Takes the key, which must be due, syncs it and finishes it.
    pub(super) fn process_next(&mut self) -> Outcome {
        assert!(self.take(), "the key must be due");
        let outcome = self.sync();
        self.driver.finish(&*self.controller, self.now);
        outcome
    }

    pub(super) fn advance(&mut self, ns: i64) {
        self.now.mono_ns += ns;
        self.now.wall_ns += ns;
    }

    /// Returns a pod with this name, otherwise as the cached owner would create it.
    pub(super) fn own_pod(&self, name: &str) -> Pod {
        let owner = self.controller.owners().get(self.key);
        let mut pod = Pod::clone(
            owner
                .expect("the cache must have the owner")
                .pod_from_template(),
        );
        pod.metadata.name = name.into();
        pod
    }
}

impl Transport for Server {
    fn send(&mut self, _: usize, request: &Request, _: Now) -> Option<Answer> {
        (!self.held).then(|| self.carry_out(request))
    }
}

impl Server {
    /// Sets the outcome of the call with this verb and number, counted from 0.
    pub(super) fn fault(&mut self, verb: &'static str, number: usize, fault: Fault) {
        self.faults.insert((verb, number), fault);
    }

    /// Drops the undelivered pod events.
    pub(super) fn forget_pod_events(&mut self) {
        self.pod_events.clear();
    }

    pub(super) fn set_replicas(&mut self, replicas: i32) {
        self.change_owner(|owner| {
            owner.spec.replicas = Some(replicas);
            owner.metadata.generation += 1;
        });
    }

    pub(super) fn change_owner(&mut self, change: impl FnOnce(&mut ReplicaSet)) {
        let mut owner = ReplicaSet::clone(&self.owner);
        change(&mut owner);
        owner.metadata.resource_version = self.next_version(Kind::REPLICA_SET);
        self.owner = Arc::new(owner);
        self.owner_events
            .push_back(Delta::Applied(self.owner.clone()));
    }

    /// Stores a pod that the controller did not create.
    pub(super) fn put_pod(&mut self, mut pod: Pod) -> Arc<Pod> {
        pod.metadata.namespace = "ns".into();
        pod.metadata.resource_version = self.next_version(Kind::POD);
        if pod.metadata.uid.is_empty() {
            self.made += 1;
            pod.metadata.uid = Uid::from_u128(0x1000 + u128::from(self.made));
        }
        let pod = Arc::new(pod);
        self.pods.insert(pod.metadata.name.to_string(), pod.clone());
        self.pod_events.push_back(Delta::Applied(pod.clone()));
        pod
    }

    pub(super) fn remove_pod(&mut self, name: &str) -> ResourceVersion {
        let mut pod = Pod::clone(&self.pods.remove(name).expect("the pod must exist"));
        pod.metadata.resource_version = self.next_version(Kind::POD);
        let version = pod.metadata.resource_version.clone();
        self.pod_events.push_back(Delta::Deleted(Arc::new(pod)));
        version
    }

    /// Returns the number of requests with this verb so far.
    pub(super) fn calls(&self, verb: &str) -> usize {
        self.calls.get(verb).copied().unwrap_or(0)
    }

    fn next_version(&mut self, kind: Kind) -> ResourceVersion {
        self.version += 1;
        self.last[usize::from(kind != Kind::POD)] = self.version;
        self.version.into()
    }

    fn carry_out(&mut self, request: &Request) -> Answer {
        let (verb, name) = match request {
            Request::CreatePod { name, .. } => ("create", name.as_deref().unwrap_or("")),
            Request::DeletePod { name, .. } => ("delete", name.as_str()),
            Request::PatchOwners { name, .. } => ("patch", name.as_str()),
            Request::Get { .. } => ("get", ""),
            Request::PutStatus { .. } => ("put", ""),
            Request::ReadVersion { kind } if *kind == Kind::POD => ("read", "pods"),
            Request::ReadVersion { .. } => ("read", "owners"),
            other => panic!("unexpected request of a ReplicaSet: {other:?}"),
        };
        self.log
            .push(format!("{verb} {name}").trim_end().to_owned());
        let calls = self.calls.entry(verb).or_default();
        let number = *calls;
        *calls += 1;
        match self.faults.remove(&(verb, number)) {
            Some(Fault::Refuse(error)) => Answer::Failed(error),
            Some(Fault::Lose) => {
                self.serve(request);
                Answer::Failed(ApiError::transport("connection reset"))
            }
            None => self.serve(request),
        }
    }

    fn serve(&mut self, request: &Request) -> Answer {
        match request {
            Request::CreatePod { pod, name, .. } => {
                let mut pod = Pod::clone(pod);
                pod.metadata.name = match name {
                    Some(name) => name.clone(),
                    None => format!("web-g{:04}", self.made).into(),
                };
                pod.metadata.creation_timestamp = Time::from_unix_seconds(1_700_000_000);
                if self.pods.contains_key(&*pod.metadata.name) {
                    return refused(409, Reason::AlreadyExists);
                }
                Answer::Pod(self.put_pod(pod))
            }
            Request::DeletePod { name, uid, .. } => match self.pods.get(&**name) {
                None => refused(404, Reason::NotFound),
                Some(pod) if uid.as_ref().is_some_and(|uid| pod.metadata.uid != *uid) => {
                    refused(409, Reason::Conflict)
                }
                Some(_) => Answer::Deleted(Some(self.remove_pod(name))),
            },
            Request::PatchOwners { name, patch, .. } => {
                let Some(pod) = self.pods.get(&**name) else {
                    return refused(404, Reason::NotFound);
                };
                let mut pod = Pod::clone(pod);
                match patch {
                    OwnerPatch::Adopt { owner, .. } => {
                        pod.metadata.owner_references.push(owner.clone());
                    }
                    OwnerPatch::Release { owner_uid, .. } => pod
                        .metadata
                        .owner_references
                        .retain(|owner| owner.uid != *owner_uid),
                }
                Answer::Pod(self.put_pod(pod))
            }
            Request::Get { .. } => Answer::Object(self.owner.clone()),
            Request::PutStatus { object } => {
                let object = as_replica_set(object).expect("the object has the kind under test");
                let (sent, live) = (&object.metadata, &self.owner.metadata);
                if sent.resource_version != live.resource_version || sent.uid != live.uid {
                    return refused(409, Reason::Conflict);
                }
                self.change_owner(|owner| owner.status = object.status.clone());
                Answer::Object(self.owner.clone())
            }
            Request::ReadVersion { kind } => {
                Answer::Version(self.last[usize::from(*kind != Kind::POD)].into())
            }
            _ => unreachable!("refused above"),
        }
    }
}

pub(super) fn refused(code: u16, reason: Reason) -> Answer {
    Answer::Failed(ApiError::status(code, reason, "refused"))
}
