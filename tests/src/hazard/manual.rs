//! A controller driven by hand: the test decides when the caches and the handlers see an event, and
//! how a request is answered. For hazards within a single step of an engine.

use std::sync::Arc;

use podstorm::cache::{Listed, PodCache};
use podstorm::client::{Answer, EventIntent, Request};
use podstorm::driver::{Driver, Progress};
use podstorm::informer::AnyInformer;
use podstorm::object::{AnyObject, Kind, Namespace, Now, Pod, ReplicaSet, Resource};
use podstorm::replicaset::{Controller, ControllerOptions, Outcome, ReplicaSetSync};
use podstorm::workqueue::Take;
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_sim::engine::client::{ApiCalls, Client};
use podstorm_sim::faults::Call;
use serde_json::Value;

use podstorm_faultsim::objects::{NAMESPACE, named};

/// A cluster, and a controller that sees changes only when the test says so.
#[derive(Debug)]
pub struct ManualController {
    /// The API server.
    pub cluster: Arc<Cluster>,
    /// The controller.
    pub controller: Arc<Controller>,
    /// The informer for the ReplicaSets of the controller.
    pub owners: Arc<dyn AnyInformer>,
    /// The current time.
    pub now: Now,
}

/// The result of a finished sync.
#[derive(Debug)]
pub struct Done {
    /// The requests that the sync has sent.
    pub calls: Vec<Call>,
    /// The outcome of the sync.
    pub outcome: Outcome,
    /// The Events that the sync wants to record.
    pub events: Vec<EventIntent>,
}

impl Done {
    /// Returns the number of requests of one kind that the sync has sent.
    pub fn sent(&self, call: Call) -> usize {
        self.calls.iter().filter(|other| **other == call).count()
    }
}

impl Default for ManualController {
    fn default() -> Self {
        ManualController::new()
    }
}

impl ManualController {
    /// Creates a cluster that contains only its namespace, and a controller with every feature gate
    /// on.
    ///
    /// # Panics
    /// Never panics, because no other namespace has the name.
    pub fn new() -> ManualController {
        let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
        let namespace = Namespace {
            metadata: named(NAMESPACE),
            ..Namespace::default()
        };
        let now = Now {
            mono_ns: 0,
            wall_ns: 1_767_225_600_000_000_000,
        };
        cluster.create(namespace, now).expect("the name is free");
        ManualController::at(cluster, now)
    }

    /// Creates a controller for an existing cluster. It has not seen anything yet.
    pub fn at(cluster: Arc<Cluster>, now: Now) -> ManualController {
        let options = ControllerOptions::new(Kind::REPLICA_SET);
        let (controller, owners) = Controller::alone(options, Arc::new(PodCache::new()));
        ManualController {
            controller,
            owners,
            cluster,
            now,
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, for_ns: i64) {
        self.now = self.now.plus_ns(for_ns);
    }

    /// Creates a ReplicaSet.
    ///
    /// # Panics
    /// Panics if the ReplicaSet is unreadable or if the server rejects it.
    pub fn create_set(&self, object: Value) -> Arc<ReplicaSet> {
        let object = ReplicaSet::from_json(object).expect("the test's ReplicaSet is readable");
        self.cluster
            .create(object, self.now)
            .expect("the server accepts the ReplicaSet")
    }

    /// Creates a pod.
    ///
    /// # Panics
    /// Panics if the pod is unreadable or if the server rejects it.
    pub fn create_pod(&self, object: Value) -> Arc<Pod> {
        let object = Pod::from_json(object).expect("the test's pod is readable");
        self.cluster
            .create(object, self.now)
            .expect("the server accepts the pod")
    }

    /// Replaces the ReplicaSets that the controller sees by the current ones of the server.
    pub fn list_sets(&self) {
        let (sets, version) = self.cluster.list::<ReplicaSet>(None);
        let sets = sets.into_iter().map(|set| set as AnyObject);
        self.owners.replace(sets.collect(), &version, self.now);
    }

    /// Fills the pod cache with the current pods of the server. Calls no handler.
    pub fn list_pods(&self) -> Listed {
        let (pods, version) = self.cluster.list::<Pod>(None);
        self.controller.pods().replace(pods, &version)
    }

    /// Returns the numbers of expected creations and deletions of a ReplicaSet; `None` if it has no
    /// expectations.
    pub fn expected(&self, name: &str) -> Option<(i64, i64)> {
        let key = self.controller.owners().intern(NAMESPACE, name);
        let counts = self.controller.expectations().counts(key)?;
        Some((counts.add, counts.del))
    }

    /// Syncs the next key in the queue. The server answers the requests for which `intercept`
    /// returns `None`. Returns `None` if no key is waiting.
    pub fn sync_next(&self, mut intercept: impl FnMut(&Request) -> Option<Answer>) -> Option<Done> {
        let key = match self.controller.queue().try_take(self.now.mono_ns) {
            Take::Key(key) => key,
            Take::Empty | Take::ShutDown => return None,
        };
        let mut driver = Driver::<ReplicaSetSync>::default();
        let mut calls = Vec::new();
        let client = Client::new(Arc::clone(&self.cluster), None);
        let mut counted = ApiCalls::default();
        let mut server = |request: &Request, now: Now| {
            calls.push(Call::from_request(request));
            intercept(request).unwrap_or_else(|| client.carry_out(request, &mut counted, now))
        };
        let progress = driver.begin(&*self.controller, 0, key, &mut server, self.now);
        assert_eq!(
            progress,
            Progress::Finished,
            "the server answers immediately"
        );
        let sync = &mut driver.sync;
        let done = Done {
            calls,
            outcome: sync.outcome().clone(),
            events: sync.take_events().collect(),
        };
        driver.finish(&*self.controller, self.now);
        Some(done)
    }

    /// Syncs the next key in the queue. The server answers all requests.
    ///
    /// # Panics
    /// Panics if no key is waiting.
    pub fn sync(&self) -> Done {
        self.sync_next(|_| None).expect("a key waits")
    }
}
