//! Puts a simulated cluster together: the API server with its nodes, and controller managers with
//! their caches, informers, workers and event writers, all as parts that an executor runs.

pub mod by_phase;
pub mod client;
mod connection;
pub mod event_sink;
mod garbage;
mod informer;
mod lab;
pub mod pool;
pub mod probe;
pub mod site;
mod sources;
mod strays;
pub mod worker;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use podstorm::cache::PodCache;
use podstorm::client::QpsLimiter;
use podstorm::driver::Workload;
use podstorm::ranking::RankFields;
use podstorm::reflector::ReflectorOptions;
use podstorm::replicaset::{Controller, ControllerOptions, Gates};
use podstorm_apiserver::latency::LatencySampler;
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::Kind;
use smallvec::SmallVec;

use by_phase::{PhaseTimes, Recorded};
use client::{Client, Trip};
use event_sink::{EventQueue, EventWriter};
use garbage::Garbage;
use informer::{Informer, Owners, PodHandler, Pods};
use pool::{Pool, Timer, Wire};
use probe::Unheard;
use sources::{KindSource, PodSource};
use worker::{Abandon, Worker};

pub use lab::Lab;

use crate::clock::RealClock;
use crate::executor::seed::seed_for;
use crate::executor::{Part, PartId, Parts, Switchboard, Waker};
use crate::faults::Line;
use crate::nodes::{Kubelets, NodeControl, Scheduler};
use crate::options::{EngineKind, SimOptions};

/// The workers of one workload.
type Workers<W> = SmallVec<[Arc<Mutex<Worker<W>>>; 8]>;

/// All that share the pods of a controller manager.
type Handlers = SmallVec<[Arc<dyn PodHandler>; 4]>;

/// Adds a workload to a controller manager, over its cache of pods.
type AddWorkload = Arc<
    dyn Fn(&mut Builder, &Arc<PodCache>, Option<&Arc<Line>>) -> Arc<dyn PodHandler> + Send + Sync,
>;

/// Collects the parts of a run, and adds controllers to it.
pub struct Builder {
    /// What the cluster is built from.
    pub options: SimOptions,
    /// Where nodes may fail.
    pub nodes: Option<Arc<NodeControl>>,
    /// Where time is real.
    pub clock: Option<RealClock>,
    /// Whose turn it is.
    pub switchboard: Arc<Switchboard>,
    /// Everything that acts.
    pub parts: Parts,
    /// The API server.
    pub cluster: Arc<Cluster>,
    /// Whether informers may begin.
    pub started: Arc<AtomicBool>,
    /// Watch events that informers were given.
    pub delivered: Arc<AtomicU64>,
    /// To be called once they may.
    pub informer_wakers: Vec<Waker>,
    /// The workers of the controllers of ReplicaSets and ReplicationControllers.
    pub workers: Vec<Arc<Mutex<Worker>>>,
    /// Those of all.
    abandoned: Vec<Arc<Mutex<dyn Abandon>>>,
    /// Workloads of the caller's, one set for each controller manager.
    added: Vec<AddWorkload>,
    /// The event writers of all controllers.
    pub writers: Vec<Arc<Mutex<EventWriter>>>,
    /// When the phases began.
    pub times: Arc<PhaseTimes>,
    /// What was measured in each.
    pub recorded: Arc<Mutex<Recorded>>,
    /// The parts installed so far, in that order.
    pub installed: Vec<PartId>,
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder")
            .field("options", &self.options)
            .field("workers", &self.workers.len())
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// An empty cluster in which nothing acts yet.
    fn new(options: SimOptions, clock: RealClock, server: ClusterOptions) -> Builder {
        Builder {
            nodes: None,
            clock: (options.engine == EngineKind::Threads).then_some(clock),
            switchboard: Arc::default(),
            parts: Parts::default(),
            cluster: Arc::new(Cluster::new(server)),
            started: Arc::default(),
            delivered: Arc::default(),
            informer_wakers: Vec::new(),
            workers: Vec::new(),
            abandoned: Vec::new(),
            added: Vec::new(),
            writers: Vec::new(),
            times: Arc::new(PhaseTimes::new(options.phases)),
            options,
            recorded: Arc::default(),
            installed: Vec::new(),
        }
    }

    /// Everything around the controllers: scheduler, kubelets, garbage collector.
    fn surroundings(&mut self) {
        let (options, cluster) = (self.options.clone(), Arc::clone(&self.cluster));
        let nodes = self.nodes.clone();
        self.add(|_, waker| {
            let latency = options.latency.scheduling;
            let scheduler = Scheduler::new(Arc::clone(&cluster), latency, options.seed, waker);
            match &nodes {
                Some(_) => scheduler.with_node_faults(),
                None => scheduler,
            }
        });
        let shards = match options.engine {
            EngineKind::Virtual => 1,
            EngineKind::Threads => options.threads.max(1),
        };
        for shard in 0..shards {
            self.add(|_, waker| {
                let place = (shard, shards);
                let (cluster, latency) = (Arc::clone(&cluster), &options.latency);
                let again = Arc::clone(&waker);
                let kubelets = Kubelets::new(cluster, latency, options.seed, place, waker);
                match &nodes {
                    Some(control) => kubelets.controlled_by(control, again),
                    None => kubelets,
                }
            });
        }
        self.add(|_, waker| {
            cluster.set_gc_waker(Some(waker));
            Garbage::new(Arc::clone(&cluster))
        });
    }

    /// A new part, made with its number and a waker for it.
    pub fn add<P: Part + 'static>(
        &mut self,
        make: impl FnOnce(PartId, Waker) -> P,
    ) -> Arc<Mutex<P>> {
        let id = self.switchboard.reserve();
        let part = Arc::new(Mutex::new(make(id, self.switchboard.waker(id))));
        self.install(id, Arc::clone(&part) as Arc<Mutex<dyn Part>>);
        part
    }

    fn install(&mut self, id: PartId, part: Arc<Mutex<dyn Part>>) {
        self.parts.install(id, part);
        self.installed.push(id);
    }

    /// A worker: it runs when no other part wants to.
    fn add_worker<W: Workload>(&mut self, pool: Arc<Pool<W>>, trip: Trip) -> Arc<Mutex<Worker<W>>> {
        let id = self.switchboard.reserve_late();
        let worker = Arc::new(Mutex::new(Worker::new(id, pool, trip)));
        self.install(id, Arc::clone(&worker) as Arc<Mutex<dyn Part>>);
        self.abandoned
            .push(Arc::clone(&worker) as Arc<Mutex<dyn Abandon>>);
        worker
    }

    fn seed(&self, user: &str, number: u64) -> u64 {
        seed_for(self.options.seed, user, number)
    }

    fn trip(&self, user: &str, number: u64) -> Trip {
        let latency = LatencySampler::new(self.options.latency.api, self.seed(user, number));
        let errors_seed = self.seed("errors", self.seed(user, number));
        Trip::new(latency).with_errors(self.options.api_errors, errors_seed)
    }

    /// A controller manager: its caches, its controllers with their workers, its informers, which
    /// wait for `started`. `wire` is there in a run that is disturbed or watched over. Besides the
    /// controllers, all that share the pods.
    fn manager(
        &mut self,
        with_replication_controllers: bool,
        wire: Option<&Wire>,
    ) -> (Vec<Arc<Pool>>, Handlers) {
        let cache: Arc<PodCache> = Arc::default();
        let workers = self.options.controller.concurrent_replicaset_syncs;
        let kind = Kind::REPLICA_SET;
        let rs = self.controller(kind, "replicaset-controller", workers, &cache, wire);
        self.owners(&rs, 0);
        let mut pools = vec![rs];
        // Without a ReplicationController in the run its controller would only hear of pods that
        // are none of its business.
        if with_replication_controllers {
            let workers = self.options.controller.concurrent_rc_syncs;
            let kind = Kind::REPLICATION_CONTROLLER;
            let rc = self.controller(kind, "replication-controller", workers, &cache, wire);
            self.owners(&rc, 1);
            pools.push(rc);
        }
        let of_pool = |pool: &Arc<Pool>| Arc::clone(pool) as Arc<dyn PodHandler>;
        let mut handlers: Handlers = pools.iter().map(of_pool).collect();
        let line = wire.map(|wire| &wire.line);
        for add in self.added.clone() {
            handlers.push(add(self, &cache, line));
        }
        let listener = Pods {
            cache,
            handlers: handlers.clone(),
        };
        let source = PodSource(Arc::clone(&self.cluster));
        self.informer(source, listener, 2, line);
        (pools, handlers)
    }

    /// A controller of this project with its workers, its timer and its event writer.
    fn controller(
        &mut self,
        kind: Kind,
        component: &'static str,
        workers: usize,
        cache: &Arc<PodCache>,
        wire: Option<&Wire>,
    ) -> Arc<Pool> {
        let told = &self.options.controller;
        let options = ControllerOptions {
            kind,
            burst_replicas: told.burst_replicas as usize,
            gates: Gates {
                pod_deletion_cost: told.gate("PodDeletionCost"),
                terminating_replicas: told.gate("DeploymentReplicaSetTerminatingReplicas"),
                stale_controller_consistency: told.gate("StaleControllerConsistencyReplicaSet"),
            },
            policy: self.options.policy,
        };
        let controller = Controller::new(options, Arc::clone(cache));
        let (pool, made) = self.workload(controller, component, workers, wire);
        self.workers.extend(made);
        pool
    }

    /// A workload with its workers, its timer and its event writer.
    fn workload<W: Workload>(
        &mut self,
        workload: W,
        component: &'static str,
        workers: usize,
        wire: Option<&Wire<W>>,
    ) -> (Arc<Pool<W>>, Workers<W>) {
        let told = &self.options.controller;
        let limiter = told
            .kube_api_qps
            .map(|qps| QpsLimiter::new(qps as f32, told.kube_api_burst));
        let client = Arc::new(Client::new(Arc::clone(&self.cluster), limiter));
        let sink = self.switchboard.reserve();
        let timer = self.switchboard.reserve();
        let events = Arc::new(EventQueue::new(Arc::clone(&self.switchboard), sink));
        let pool = Pool::new(
            Arc::new(workload),
            Arc::clone(&client),
            Arc::clone(&events),
            Arc::clone(&self.switchboard),
            timer,
            self.clock,
            wire.cloned(),
        );
        let pool = Arc::new(pool.recording(&self.times, &self.recorded));
        // Each controller manager of a run draws for itself.
        let first = wire.map_or(0, |wire| u64::from(wire.line.incarnation()) << 32);
        let writer = EventWriter::new(
            component,
            events,
            client,
            self.trip(component, u64::MAX - first),
            self.seed(component, u64::MAX - 1 - first),
            wire.map(|wire| Arc::clone(&wire.line)),
        );
        let writer = Arc::new(Mutex::new(writer));
        self.install(sink, Arc::clone(&writer) as Arc<Mutex<dyn Part>>);
        self.writers.push(writer);
        let timer_part = Timer::new(Arc::clone(&pool));
        self.install(timer, Arc::new(Mutex::new(timer_part)));
        let made = (0..workers.max(1)).map(|number| {
            let trip = self.trip(component, first + number as u64);
            self.add_worker(Arc::clone(&pool), trip)
        });
        let made = made.collect();
        (pool, made)
    }

    /// Has a workload of the caller's run in every controller manager that is made from now on, over
    /// the same cache of pods: `make` makes it over that cache, and it gets as many workers as there
    /// are for ReplicaSets.
    fn add_workload<W: Workload<Fields = RankFields>>(
        &mut self,
        component: &'static str,
        make: impl Fn(&Arc<PodCache>) -> W + Send + Sync + 'static,
    ) {
        let number = 3 + self.added.len() as u64;
        self.added.push(Arc::new(move |builder, cache, line| {
            let workers = builder.options.controller.concurrent_replicaset_syncs;
            let wire = line.map(|line| Wire {
                line: Arc::clone(line),
                probe: Arc::new(Unheard),
            });
            let (pool, _) = builder.workload(make(cache), component, workers, wire.as_ref());
            builder.owners(&pool, number);
            pool
        }));
    }

    /// The informer of the objects that a controller looks after.
    fn owners<W: Workload>(&mut self, pool: &Arc<Pool<W>>, number: u64) {
        let source = KindSource(Arc::clone(&self.cluster), pool.controller.kind());
        let line = pool.line().cloned();
        self.informer(source, Owners(Arc::clone(pool)), number, line.as_ref());
    }

    fn informer<L: informer::Listener + 'static>(
        &mut self,
        source: L::Source,
        listener: L,
        number: u64,
        line: Option<&Arc<Line>>,
    ) {
        let first = line.map_or(0, |line| u64::from(line.incarnation()) << 32);
        let latency = (
            self.options.latency.watch,
            self.seed("watch", first + number),
        );
        let (cluster, started) = (Arc::clone(&self.cluster), Arc::clone(&self.started));
        let delivered = Arc::clone(&self.delivered);
        let line = line.cloned();
        let (policy, usual) = (self.options.policy, ReflectorOptions::default());
        let reflector = ReflectorOptions {
            streaming: self.options.controller.gate("WatchListClient"),
            backoff_max_ns: policy.watch_retry_max_ns.unwrap_or(usual.backoff_max_ns),
            ..usual
        };
        let mut informer_waker = None;
        self.add(|_, waker| {
            informer_waker = Some(Arc::clone(&waker));
            let how = (line, reflector);
            let what = (source, listener);
            Informer::new(cluster, what, latency, waker, started, delivered, how)
        });
        self.informer_wakers.extend(informer_waker);
    }
}

/// All parts of a run but the one that drives its scenario. Informers wait for `started`.
pub fn assemble(
    options: SimOptions,
    clock: RealClock,
    with_replication_controllers: bool,
    wire: Option<&Wire>,
    nodes: Option<Arc<NodeControl>>,
) -> (Builder, Vec<Arc<Pool>>) {
    let (builder, pools, _) = assemble_with(
        options,
        clock,
        with_replication_controllers,
        wire,
        nodes,
        |_| {},
    );
    (builder, pools)
}

/// The same with more, and all that share the pods.
fn assemble_with(
    options: SimOptions,
    clock: RealClock,
    with_replication_controllers: bool,
    wire: Option<&Wire>,
    nodes: Option<Arc<NodeControl>>,
    add: impl FnOnce(&mut Builder),
) -> (Builder, Vec<Arc<Pool>>, Handlers) {
    let server = ClusterOptions {
        seed: seed_for(options.seed, "cluster", 0),
        ..ClusterOptions::default()
    };
    let mut builder = Builder::new(options, clock, server);
    builder.nodes = nodes;
    add(&mut builder);
    let (pools, handlers) = builder.manager(with_replication_controllers, wire);
    builder.surroundings();
    (builder, pools, handlers)
}
