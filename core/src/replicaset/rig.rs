//! A transport and a driver for tests of a sync's steps: what is committed, what the caches have heard
//! of it, and which answers get lost, each in the hands of the test.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use podstorm_objects::{
    Kind, LabelSelector, Labels, Now, Pod, PodTemplate, ReplicaSet, ResourceVersion, Time, Uid,
};
use podstorm_runtime::client::{Answer, ApiError, PodPatch, Reason, Request};
use podstorm_runtime::driver::{Driver, Progress, Transport};
use podstorm_runtime::intern::KeyId;

use super::as_replica_set;
use super::{Controller, ControllerOptions, Outcome, Sync};
use crate::cache::{Delta, PodCache};
use crate::policy::Behaviour;

pub(super) const LOST: Fault = Fault::Lose;

/// What happens to one request.
#[derive(Clone, Debug)]
pub(super) enum Fault {
    /// It is not carried out; this is the answer.
    Refuse(ApiError),
    /// It is carried out, but no answer comes.
    Lose,
}

/// A controller, its caches and a driver of its syncs over a [`Server`].
pub(super) struct Rig {
    pub(super) controller: Controller,
    pub(super) cache: Arc<PodCache>,
    pub(super) driver: Driver<Sync>,
    pub(super) key: KeyId,
    pub(super) now: Now,
    pub(super) server: Server,
}

/// What is committed, and what its watches have not delivered yet.
pub(super) struct Server {
    pub(super) parent: Arc<ReplicaSet>,
    pub(super) pods: BTreeMap<String, Arc<Pod>>,
    pod_events: VecDeque<Delta<Pod>>,
    parent_events: VecDeque<Delta<ReplicaSet>>,
    version: u64,
    /// The version of the last write, of pods and of parents.
    last: [u64; 2],
    made: u64,
    faults: BTreeMap<(&'static str, usize), Fault>,
    calls: BTreeMap<&'static str, usize>,
    /// Every request, as `verb name`.
    pub(super) log: Vec<String>,
    /// Whether answers wait for [`Rig::answer`].
    held: bool,
}

impl Rig {
    /// A parent `web` that wants so many pods and has none; the caches know it, and the versions
    /// that the hardened behaviour wants at its start have been read.
    pub(super) fn new(behaviour: Behaviour, replicas: i32) -> Rig {
        let mut rig = Rig::unstarted(Kind::REPLICA_SET, behaviour, replicas);
        if behaviour == Behaviour::Hardened {
            rig.server.set_replicas(0);
            rig.deliver();
            assert_eq!(rig.sync(), Outcome::Ok);
            rig.deliver();
            rig.server.log.clear();
            rig.server.calls.clear();
            rig.server.set_replicas(replicas);
            rig.deliver();
        }
        rig
    }

    /// The same before its first sync.
    pub(super) fn unstarted(kind: Kind, behaviour: Behaviour, replicas: i32) -> Rig {
        let cache = Arc::new(PodCache::new());
        let options = ControllerOptions {
            policy: behaviour.policy(),
            ..ControllerOptions::new(kind)
        };
        let controller = Controller::new(options, cache.clone());
        let labels = Labels::from_pairs([("app", "web")]);
        let mut parent = ReplicaSet::default();
        parent.metadata.name = "web".into();
        parent.metadata.namespace = "ns".into();
        parent.metadata.uid = Uid::from_u128(0xa);
        parent.metadata.generation = 1;
        parent.metadata.resource_version = 10.into();
        parent.spec.replicas = Some(replicas);
        parent.spec.selector = Some(Arc::new(LabelSelector {
            match_labels: labels.clone(),
            match_expressions: Arc::new([]),
        }));
        let mut template = PodTemplate::default();
        template.metadata.labels = labels;
        parent.spec.template = Arc::new(template);
        let parent = Arc::new(parent);
        let now = Now {
            mono_ns: 1_000_000_000,
            wall_ns: 1_700_000_000_000_000_000,
        };
        cache.bookmark(&10.into());
        controller.parent_delta(Delta::Applied(parent.clone()), now);
        Rig {
            key: controller.parents().intern("ns", "web"),
            controller,
            cache,
            driver: Driver::default(),
            now,
            server: Server {
                parent,
                pods: BTreeMap::new(),
                pod_events: VecDeque::new(),
                parent_events: VecDeque::new(),
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

    /// One whole sync.
    pub(super) fn sync(&mut self) -> Outcome {
        self.server.held = false;
        assert_eq!(self.start(), Progress::Finished);
        self.driver.sync.outcome().clone()
    }

    /// A sync up to its first requests.
    pub(super) fn begin(&mut self) -> Progress {
        self.server.held = true;
        self.start()
    }

    fn start(&mut self) -> Progress {
        let (controller, server) = (&self.controller, &mut self.server);
        self.driver.begin(controller, self.key, server, self.now)
    }

    /// Answers a batch and goes on to the next.
    pub(super) fn go_on(&mut self) -> Progress {
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
        self.driver.poll(controller, server, self.now)
    }

    /// Goes on after [`answer`](Rig::answer) to the sync's end.
    pub(super) fn run_on(&mut self) {
        self.server.held = false;
        assert_eq!(self.resume(), Progress::Finished);
    }

    /// Lets the caches hear all there is.
    pub(super) fn deliver(&mut self) {
        self.deliver_pods(usize::MAX);
        self.deliver_parents();
    }

    /// Once the caches have heard all there is, a sync goes well.
    pub(super) fn catch_up(&mut self) {
        self.deliver();
        assert_eq!(self.sync(), Outcome::Ok);
    }

    /// Lets the parents' cache hear all there is.
    pub(super) fn deliver_parents(&mut self) {
        for delta in std::mem::take(&mut self.server.parent_events) {
            self.controller.parent_delta(delta, self.now);
        }
    }

    /// Lets the pod cache hear the next events.
    pub(super) fn deliver_pods(&mut self, count: usize) {
        let count = count.min(self.server.pod_events.len());
        for delta in self.server.pod_events.drain(..count) {
            let change = self.cache.apply(delta);
            self.controller.pod_changed(&change, self.now);
        }
    }

    /// Whether a sync is due: takes the key from the queue if so.
    pub(super) fn take(&mut self) -> bool {
        self.controller.queue().fire_due(self.now.mono_ns);
        let taken = self.controller.queue().try_take(self.now.mono_ns);
        matches!(taken, podstorm_runtime::workqueue::Take::Key(_))
    }

    /// Takes the key, which must be due, syncs it and finishes.
    pub(super) fn turn(&mut self) -> Outcome {
        assert!(self.take(), "the key is due");
        let outcome = self.sync();
        self.controller.finish(&mut self.driver.sync, self.now);
        outcome
    }

    pub(super) fn pass(&mut self, ns: i64) {
        self.now.mono_ns += ns;
        self.now.wall_ns += ns;
    }

    /// A pod as the cached parent's creates ask for it, under that name.
    pub(super) fn own_pod(&self, name: &str) -> Pod {
        let parent = self.controller.parents().get(self.key);
        let mut pod = Pod::clone(parent.expect("the cache knows the parent").body());
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
    /// The fate of the call of that verb with that number, counted from 0.
    pub(super) fn fault(&mut self, verb: &'static str, number: usize, fault: Fault) {
        self.faults.insert((verb, number), fault);
    }

    /// The pod cache will never hear of what it has not heard yet.
    pub(super) fn forget_pod_events(&mut self) {
        self.pod_events.clear();
    }

    pub(super) fn set_replicas(&mut self, replicas: i32) {
        self.change_parent(|parent| {
            parent.spec.replicas = Some(replicas);
            parent.metadata.generation += 1;
        });
    }

    pub(super) fn change_parent(&mut self, change: impl FnOnce(&mut ReplicaSet)) {
        let mut parent = ReplicaSet::clone(&self.parent);
        change(&mut parent);
        parent.metadata.resource_version = self.next_version(Kind::REPLICA_SET);
        self.parent = Arc::new(parent);
        self.parent_events
            .push_back(Delta::Applied(self.parent.clone()));
    }

    /// A pod of the server's own making.
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
        let mut pod = Pod::clone(&self.pods.remove(name).expect("the pod is there"));
        pod.metadata.resource_version = self.next_version(Kind::POD);
        let version = pod.metadata.resource_version.clone();
        self.pod_events.push_back(Delta::Deleted(Arc::new(pod)));
        version
    }

    /// The requests of that verb so far.
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
            Request::PatchPod { name, .. } => ("patch", name.as_str()),
            Request::Get { .. } => ("get", ""),
            Request::PutStatus { .. } => ("put", ""),
            Request::ReadVersion { kind } if *kind == Kind::POD => ("read", "pods"),
            Request::ReadVersion { .. } => ("read", "parents"),
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
            Request::CreatePod { body, name, .. } => {
                let mut pod = Pod::clone(body);
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
            Request::PatchPod { name, patch, .. } => {
                let Some(pod) = self.pods.get(&**name) else {
                    return refused(404, Reason::NotFound);
                };
                let mut pod = Pod::clone(pod);
                match patch {
                    PodPatch::Adopt { owner, .. } => {
                        pod.metadata.owner_references.push(owner.clone());
                    }
                    PodPatch::Release { owner_uid, .. } => pod
                        .metadata
                        .owner_references
                        .retain(|owner| owner.uid != *owner_uid),
                }
                Answer::Pod(self.put_pod(pod))
            }
            Request::Get { .. } => Answer::Object(self.parent.clone()),
            Request::PutStatus { object } => {
                let object = as_replica_set(object).expect("of the kind under test");
                let (sent, live) = (&object.metadata, &self.parent.metadata);
                if sent.resource_version != live.resource_version || sent.uid != live.uid {
                    return refused(409, Reason::Conflict);
                }
                self.change_parent(|parent| parent.status = object.status.clone());
                Answer::Object(self.parent.clone())
            }
            Request::ReadVersion { kind } => {
                Answer::Version(self.last[usize::from(*kind != Kind::POD)].into())
            }
        }
    }
}

pub(super) fn refused(code: u16, reason: Reason) -> Answer {
    Answer::Failed(ApiError::status(code, reason, "refused"))
}
