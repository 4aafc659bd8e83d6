//! Builds a simulated cluster: the API server with its nodes, and controller managers with their
//! caches, informers, workers and event writers. All of them are tasks of an executor.
//!
//! * [`registry`]: the available controllers, each with the function that adds it to a cluster.
//! * `list_watch` over `sources`: one task per kind and manager, which fills the cache and calls
//!   the controllers.
//! * [`runner`]: one controller with its queues, idle workers and timers; [`worker`]: a task that
//!   drives one sync at a time; `worker_transport` over [`client`]: carries a worker's requests to
//!   the server; [`event_sink`]: writes a controller's Events.
//! * `garbage_collector`: the task of the controllers inside the server. `namespaces`: faster
//!   deletion of namespaces. `event_expiry`: expiry of Events.
//! * [`fault_harness`]: a cluster whose managers can be paused, killed and restarted; `orphaned`:
//!   requests that outlive their sender; [`observer`]: the callbacks that a checker implements.
//! * [`by_phase`]: durations by the phase in which they began.

pub mod by_phase;
pub mod client;
mod event_expiry;
pub mod event_sink;
pub mod fault_harness;
mod garbage_collector;
mod harness;
mod list_watch;
mod namespaces;
pub mod observer;
mod orphaned;
pub mod registry;
pub mod runner;
mod sources;
pub mod worker;
mod worker_transport;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use podstorm::cache::PodCache;
use podstorm::client::{EventSink, EventStamps};
use podstorm::controller::ControllerType as _;
use podstorm::driver::Workload;
use podstorm::informer::{AnyInformer, Informers};
use podstorm::reflector::{ReflectorOptions, WATCH_LIST};
use podstorm::row::{ControllerRow, RunsIn};
use podstorm::volumes::PersistentVolumeBinder;
use podstorm::workqueue::{TokenBucket, Workers};
use podstorm_apiserver::latency::{Latency, LatencySampler};
use podstorm_apiserver::{Cluster, ClusterOptions, WatchOptions};
use podstorm_objects::Kind;
use smallvec::SmallVec;

use by_phase::{PhaseTimes, Recorded};
use client::{CallLatency, Client};
use event_expiry::EventExpiryTask;
use event_sink::{EventQueue, EventWriter};
use list_watch::{ListWatch, Objects, Pods};
use observer::Observers;
use registry::Registry;
use runner::{AnyRunner, ControllerRunner, Hooks, Timer};
use sources::{KindSource, PodSource};
use worker::{AnyWorker, Worker};

pub use harness::{Harness, HarnessState};

use crate::clock::RealClock;
use crate::executor::seed::seed_for;
use crate::executor::{Executor, Task, TaskId, Tasks, Waker};
use crate::faults::Connection;
use crate::nodes::{Heartbeats, Kubelets, NodeControl, Scheduler, StuckPods};
use crate::options::{EngineKind, SimOptions};

pub use worker_transport::CallWaits;

/// The controllers of a controller manager, which share its pod cache.
pub type Runners = SmallVec<[Arc<dyn AnyRunner>; 4]>;

/// The caches of a manager's controllers.
#[derive(Clone, Debug)]
pub struct Caches {
    /// The cache of pods.
    pub pods: Arc<PodCache>,
    /// The informers of the other kinds that the controllers watch.
    pub informers: Vec<Arc<dyn AnyInformer>>,
}

/// The number of the pod watch, from which its randomness is seeded.
const PODS: u64 = 2;

/// Builds the tasks of a run, and adds controllers to the run.
pub struct Builder {
    /// The options of the cluster.
    pub options: SimOptions,
    /// The control over the nodes; `None` if nodes can't fail.
    pub nodes: Option<Arc<NodeControl>>,
    /// The pods of a dump that can't become ready, if there are any.
    stuck: Option<Arc<StuckPods>>,
    /// The source of real time; `None` on the virtual engine.
    pub clock: Option<RealClock>,
    /// The suffixes of Event names; unused with `nodes`, which have their own.
    stamps: EventStamps,
    /// The executor that runs the tasks.
    pub executor: Arc<Executor>,
    /// The tasks of the run.
    pub tasks: Tasks,
    /// The API server.
    pub cluster: Arc<Cluster>,
    /// Whether informers may begin.
    pub started: Arc<AtomicBool>,
    /// The number of watch events that informers have received.
    pub delivered: Arc<AtomicU64>,
    /// The wakers to call once informers may begin.
    pub informer_wakers: Vec<Waker>,
    /// The workers of all controllers.
    pub workers: Vec<Arc<Mutex<dyn AnyWorker>>>,
    /// The caches of the controller manager that was added last.
    pub caches: Option<Caches>,
    /// The controllers of the cluster's own manager.
    cluster_runners: Runners,
    /// The available controllers.
    registry: Registry,
    /// The observers of the controllers' work.
    observers: Observers,
    /// The writers of the Events of all controllers.
    pub writers: Vec<Arc<Mutex<EventWriter>>>,
    /// The scheduler; `None` until the cluster's own tasks are added.
    pub scheduler: Option<Arc<Mutex<Scheduler>>>,
    /// The task that renews node Leases, if there is one.
    heartbeats: Option<TaskId>,
    /// The times at which the phases began.
    pub times: Arc<PhaseTimes>,
    /// The durations recorded in each phase.
    pub recorded: Arc<Mutex<Recorded>>,
    /// The numbers of the tasks installed so far, in order.
    pub installed: Vec<TaskId>,
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
    /// Returns a builder of a cluster without tasks.
    fn new(options: SimOptions, clock: RealClock, cluster: Cluster) -> Builder {
        let clock = (options.engine == EngineKind::Threads).then_some(clock);
        Builder::over(options, clock, Arc::new(cluster), Arc::default())
    }

    /// Returns a builder like [`new`](Builder::new), over an executor that may also have other
    /// tasks.
    fn over(
        options: SimOptions,
        clock: Option<RealClock>,
        cluster: Arc<Cluster>,
        executor: Arc<Executor>,
    ) -> Builder {
        Builder {
            nodes: None,
            stamps: EventStamps::default(),
            stuck: None,
            clock,
            executor,
            tasks: Tasks::default(),
            cluster,
            started: Arc::default(),
            delivered: Arc::default(),
            informer_wakers: Vec::new(),
            workers: Vec::new(),
            caches: None,
            cluster_runners: Runners::new(),
            registry: Registry::installed().clone(),
            observers: Observers::default(),
            writers: Vec::new(),
            scheduler: None,
            heartbeats: None,
            times: Arc::new(PhaseTimes::new(options.phases)),
            options,
            recorded: Arc::default(),
            installed: Vec::new(),
        }
    }

    /// Adds the cluster's own tasks: scheduler, kubelets, heartbeats, the controllers inside the
    /// server and the cluster's own controller manager.
    fn add_cluster_tasks(&mut self) {
        let (options, cluster) = (self.options.clone(), Arc::clone(&self.cluster));
        let nodes = self.nodes.clone();
        let stuck = self.stuck.clone();
        let scheduler = self.add(|_, waker| {
            let latency = options.latency.scheduling;
            let scheduler = Scheduler::new(Arc::clone(&cluster), latency, options.seed, waker);
            let scheduler = scheduler.leaving(stuck.as_ref());
            let scheduler = match &nodes {
                Some(control) => scheduler.controlled_by(control),
                None => scheduler,
            };
            let binds = options
                .services
                .controllers
                .has(PersistentVolumeBinder::ROW);
            if binds {
                scheduler.heeding_claims()
            } else {
                scheduler
            }
        });
        self.scheduler = Some(scheduler);
        let shards = match options.engine {
            EngineKind::Virtual => 1,
            EngineKind::Threads => options.threads.max(1),
        };
        for shard in 0..shards {
            self.add(|_, waker| {
                let (cluster, latency) = (Arc::clone(&cluster), &options.latency);
                let (again, seed) = (Arc::clone(&waker), options.seed);
                let kubelets = Kubelets::new(cluster, latency, seed, shard, shards, waker);
                let kubelets = kubelets.leaving(stuck.as_ref());
                match &nodes {
                    Some(control) => kubelets.controlled_by(control, again),
                    None => kubelets,
                }
            });
        }
        if let Some(control) = nodes.filter(|control| control.keeps_alive()) {
            let mut heartbeats = None;
            let seed = self.seed("heartbeats", 0);
            self.add(|id, waker| {
                heartbeats = Some(id);
                Heartbeats::new(Arc::clone(&cluster), &control, seed, waker)
            });
            self.heartbeats = heartbeats;
        }
        self.add_server_tasks();
        self.add_cluster_manager();
    }

    /// Adds the cluster's own controller manager. Its requests and watches take no time and have no
    /// faults. The counters of the run exclude its work, because a run measures other controllers.
    /// Unless namespaces wait, its informers begin with the first deletion of a namespace: most
    /// runs delete none, and pay nothing.
    fn add_cluster_manager(&mut self) {
        let mut options = self.options.clone();
        (options.latency.api, options.latency.watch) = (Latency::ZERO, Latency::ZERO);
        options.api_errors = 0.0;
        options.controller.kube_api_qps = None;
        let (cluster, executor) = (Arc::clone(&self.cluster), Arc::clone(&self.executor));
        let mut own = Builder::over(options, self.clock, cluster, executor);
        own.registry = self.registry.clone();
        own.stamps = self.stamps();
        own.tasks = std::mem::take(&mut self.tasks);
        own.installed = std::mem::take(&mut self.installed);
        let (runners, _) = own.controllers(RunsIn::Cluster, None);
        (self.tasks, self.installed) = (own.tasks, own.installed);
        // None of these controllers reads pods.
        runners.iter().for_each(|runner| runner.informer_synced());
        let (started, wakers) = (own.started, own.informer_wakers);
        let start = move || {
            // Release: pairs with the Acquire load in `list_watch`; the informers see all earlier
            // commits.
            started.store(true, Ordering::Release);
            wakers.iter().for_each(|waker| waker());
        };
        match self.options.services.namespaces_wait {
            true => start(),
            false => namespaces::hasten(&self.cluster, &runners, start),
        }
        self.cluster_runners = runners;
    }

    /// Adds the selected controllers inside the server.
    fn add_server_tasks(&mut self) {
        let registry = self.registry.clone();
        for (row, add) in registry.of_server() {
            if self.options.services.controllers.has(row) {
                add(self);
            }
        }
    }

    /// Adds the tasks that only a served cluster has.
    fn add_services(&mut self) {
        let ttl_ns = self.options.services.event_ttl_ns;
        if ttl_ns > 0 {
            let cluster = Arc::clone(&self.cluster);
            self.add(|_, waker| EventExpiryTask::new(cluster, ttl_ns, waker));
        }
    }

    /// Adds the task that `make` builds from the task's number and waker.
    pub fn add<P: Task + 'static>(
        &mut self,
        make: impl FnOnce(TaskId, Waker) -> P,
    ) -> Arc<Mutex<P>> {
        let id = self.executor.reserve();
        let task = Arc::new(Mutex::new(make(id, self.executor.waker(id))));
        self.install(id, Arc::clone(&task) as Arc<Mutex<dyn Task>>);
        task
    }

    fn install(&mut self, id: TaskId, task: Arc<Mutex<dyn Task>>) {
        self.tasks.install(id, task);
        self.installed.push(id);
    }

    /// Adds a worker: a low-priority task.
    fn add_worker<W: Workload>(
        &mut self,
        runner: Arc<ControllerRunner<W>>,
        queue: usize,
        call_latency: CallLatency,
    ) {
        let id = self.executor.reserve_low_priority();
        let worker = Arc::new(Mutex::new(Worker::new(id, runner, queue, call_latency)));
        self.install(id, Arc::clone(&worker) as Arc<Mutex<dyn Task>>);
        self.workers.push(worker as Arc<Mutex<dyn AnyWorker>>);
    }

    /// Returns the source of the suffixes of all Event names in the cluster.
    fn stamps(&self) -> EventStamps {
        let nodes = self.nodes.as_ref();
        nodes.map_or(&self.stamps, |nodes| &nodes.stamps).clone()
    }

    fn seed(&self, user: &str, number: u64) -> u64 {
        seed_for(self.options.seed, user, number)
    }

    fn call_latency(&self, user: &str, number: u64) -> CallLatency {
        let latency = LatencySampler::new(self.options.latency.api, self.seed(user, number));
        let errors_seed = self.seed("errors", self.seed(user, number));
        CallLatency::new(latency, self.options.api_errors, errors_seed)
    }

    /// Adds a controller manager: its caches, its controllers with their workers, and its
    /// informers, which wait for `started`. `connection` is present with fault injection or
    /// observers. Returns the manager's controllers.
    ///
    /// # Panics
    /// Panics if a feature gate of the options is unknown or locked.
    fn manager(&mut self, connection: Option<&Arc<Connection>>) -> Runners {
        let rows = self.registry.rows();
        if let Err(problem) = rows.check_gates(&self.options.controller.feature_gates) {
            panic!("{problem}");
        }
        let (handlers, pods) = self.controllers(RunsIn::Manager, connection);
        let listener = Pods {
            cache: pods,
            readers: handlers.clone(),
        };
        let source = PodSource(Arc::clone(&self.cluster));
        self.watch(source, listener, PODS, connection);
        handlers
    }

    /// Adds the controllers of a manager, and its informers except the one for pods. Also returns
    /// the pod cache.
    fn controllers(
        &mut self,
        managers: RunsIn,
        connection: Option<&Arc<Connection>>,
    ) -> (Runners, Arc<PodCache>) {
        let mut informers = Informers::new(Arc::default());
        let (registry, observers) = (self.registry.clone(), self.observers.clone());
        let mut handlers = Runners::new();
        for (row, add) in registry.of_manager(managers) {
            if self.options.services.controllers.has(row) {
                handlers.push(add(self, &mut informers, connection, &observers));
            }
        }
        let numbers = (0..).filter(|number| *number != PODS);
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in handlers.iter().flat_map(|handler| handler.row().watched()) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        self.caches = Some(Caches {
            pods: Arc::clone(informers.pods()),
            informers: kinds.iter().map(|kind| informers.take(*kind)).collect(),
        });
        for (number, kind) in numbers.zip(kinds) {
            let reads = |it: &&Arc<dyn AnyRunner>| it.row().watched().any(|one| one == kind);
            let readers = handlers.iter().filter(reads);
            let listener = Objects {
                informer: informers.take(kind),
                readers: readers.cloned().collect(),
            };
            let source = KindSource(Arc::clone(&self.cluster), kind);
            self.watch(source, listener, number, connection);
        }
        (handlers, Arc::clone(informers.pods()))
    }

    /// Adds a workload with its timers, workers and event writer.
    pub(crate) fn workload<W: Workload>(
        &mut self,
        workload: Arc<W>,
        row: &'static ControllerRow,
        hooks: Option<&Hooks<W>>,
    ) -> Arc<dyn AnyRunner> {
        let component = row.component;
        let settings = &self.options.controller;
        let workers = settings.workers.get(row);
        let limiter = settings
            .kube_api_qps
            // Rounded to single precision, as in client-go.
            .map(|qps| TokenBucket::new((qps as f32).into(), settings.kube_api_burst));
        let client = Arc::new(Client::new(Arc::clone(&self.cluster), limiter));
        let sink = self.executor.reserve();
        let rows: Vec<_> = workload.queues().iter().map(|it| *it.row()).collect();
        let timers: Vec<_> = rows.iter().map(|_| self.executor.reserve()).collect();
        let events = Arc::new(EventQueue::new(Arc::clone(&self.executor), sink));
        let runner = Arc::new(ControllerRunner::new(
            self,
            workload,
            row,
            Arc::clone(&client),
            Arc::clone(&events),
            &timers,
            hooks.cloned(),
        ));
        // Managers differ in the upper half of the number, so each has its own randomness.
        let first = hooks.map_or(0, |hooks| u64::from(hooks.connection.incarnation()) << 32);
        let writer = EventWriter::new(
            EventSink::new(component).with_stamps(self.stamps()),
            events,
            client,
            self.call_latency(component, u64::MAX - first),
            self.seed(component, u64::MAX - 1 - first),
            hooks.map(|hooks| Arc::clone(&hooks.connection)),
        );
        let writer = Arc::new(Mutex::new(writer));
        self.install(sink, Arc::clone(&writer) as Arc<Mutex<dyn Task>>);
        self.writers.push(writer);
        for (queue, timer) in timers.into_iter().enumerate() {
            let runner = Arc::clone(&runner);
            self.install(timer, Arc::new(Mutex::new(Timer { runner, queue })));
        }
        let of_queues = rows.iter().enumerate().flat_map(|(queue, row)| {
            let workers = match row.workers {
                Workers::Flag => workers,
                Workers::Number(number) => number,
            };
            (0..workers.max(1)).map(move |_| queue)
        });
        for (number, queue) in (first..).zip(of_queues) {
            let call_latency = self.call_latency(component, number);
            self.add_worker(Arc::clone(&runner), queue, call_latency);
        }
        runner
    }

    /// Adds a list-and-watch task. Its randomness is seeded from `number`, which is unique in its
    /// manager.
    fn watch<L: list_watch::Listener + 'static>(
        &mut self,
        source: L::Source,
        listener: L,
        number: u64,
        connection: Option<&Arc<Connection>>,
    ) {
        let first = connection.map_or(0, |connection| u64::from(connection.incarnation()) << 32);
        let mut options = WatchOptions {
            latency: self.options.latency.watch,
            seed: self.seed("watch", first + number),
            ..WatchOptions::default()
        };
        let (cluster, started) = (Arc::clone(&self.cluster), Arc::clone(&self.started));
        let delivered = Arc::clone(&self.delivered);
        let connection = connection.cloned();
        let (policy, usual) = (self.options.policy, ReflectorOptions::default());
        let reflector = ReflectorOptions {
            streaming: WATCH_LIST.is_on(&self.options.controller.feature_gates),
            backoff_max_ns: policy.watch_retry_max_ns.unwrap_or(usual.backoff_max_ns),
            ..usual
        };
        let mut informer_waker = None;
        self.add(|_, waker| {
            informer_waker = Some(Arc::clone(&waker));
            options.waker = Some(waker);
            ListWatch::new(
                cluster, source, listener, options, started, delivered, reflector,
            )
            .over(connection)
        });
        self.informer_wakers.extend(informer_waker);
    }
}

/// Builds all tasks of a run except the one that drives the run's scenario. Informers wait for
/// `started`. Also returns the controllers.
///
/// # Panics
/// Panics if a feature gate of the options [is unknown or locked](crate::rows::Rows::check_gates).
pub fn assemble(
    options: SimOptions,
    clock: RealClock,
    connection: Option<&Arc<Connection>>,
    nodes: Option<Arc<NodeControl>>,
    stuck: Option<Arc<StuckPods>>,
) -> (Builder, Runners) {
    let cluster = Cluster::new(server_options(&options));
    assemble_with(options, cluster, clock, connection, nodes, |builder| {
        builder.stuck = stuck;
    })
}

/// Builds the tasks like [`assemble`]. `add` may change the builder, or add tasks before the
/// others.
fn assemble_with(
    options: SimOptions,
    cluster: Cluster,
    clock: RealClock,
    connection: Option<&Arc<Connection>>,
    nodes: Option<Arc<NodeControl>>,
    add: impl FnOnce(&mut Builder),
) -> (Builder, Runners) {
    let mut builder = Builder::new(options, clock, cluster);
    builder.nodes = nodes;
    add(&mut builder);
    let runners = builder.manager(connection);
    builder.add_cluster_tasks();
    (builder, runners)
}

/// Returns the options of a cluster's API server.
fn server_options(options: &SimOptions) -> ClusterOptions {
    ClusterOptions {
        seed: seed_for(options.seed, "cluster", 0),
        keeps_past: options.keeps_past,
        forbids_privileged: options.forbids_privileged,
        feature_gates: options.controller.feature_gates.clone(),
        ..ClusterOptions::default()
    }
}

#[cfg(test)]
mod budgets_tests;
#[cfg(test)]
mod finished_tests;
#[cfg(test)]
mod namespace_tests;
#[cfg(test)]
mod nodes_tests;
#[cfg(test)]
mod pod_lives_tests;
#[cfg(test)]
mod queues_tests;
#[cfg(test)]
mod services_tests;
#[cfg(test)]
mod surroundings_tests;
