//! Builds a simulated cluster: the API server with its nodes, and controller managers with their
//! caches, informers, workers and event writers. All are tasks of an executor.

pub mod by_phase;
pub mod client;
mod disruption;
mod event_expiry;
pub mod event_sink;
pub mod fault_harness;
mod garbage_collector;
mod harness;
mod list_watch;
mod namespaces;
pub mod observer;
mod orphaned;
mod pod_gc;
pub mod runner;
mod sources;
pub mod worker;
mod worker_transport;

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use podstorm::deployment;
use podstorm::driver::Workload;
use podstorm::informer::Informers;
use podstorm::reflector::ReflectorOptions;
use podstorm::replicaset::{Controller, ControllerOptions, Gates};
use podstorm::workqueue::{TokenBucket, Workers};
use podstorm_apiserver::latency::LatencySampler;
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::Kind;
use smallvec::SmallVec;

use by_phase::{PhaseTimes, Recorded};
use client::{CallLatency, Client};
use disruption::DisruptionTask;
use event_expiry::EventExpiryTask;
use event_sink::{EventQueue, EventWriter};
use garbage_collector::GarbageCollectorTask;
use list_watch::{ListWatch, Objects, Pods};
use namespaces::NamespaceTask;
use observer::{NoopObserver, Observer};
use pod_gc::PodGcTask;
use runner::{AnyRunner, ControllerRunner, Hooks, Timer};
use sources::{KindSource, PodSource};
use worker::{AnyWorker, Worker};

pub use harness::{Harness, HarnessState};

use crate::clock::RealClock;
use crate::executor::seed::seed_for;
use crate::executor::{Executor, Task, TaskId, Tasks, Waker};
use crate::faults::Connection;
use crate::nodes::{Kubelets, NodeControl, Scheduler, StuckPods};
use crate::options::{EngineKind, SimOptions};
use crate::services::ControllerName;

pub use worker_transport::CallWaits;

/// The controllers of a controller manager, which share its cache of pods.
pub type Runners = SmallVec<[Arc<dyn AnyRunner>; 4]>;

/// Adds a workload to a controller manager, over its informers.
type AddWorkload = Arc<
    dyn Fn(&mut Builder, &mut Informers, Option<&Arc<Connection>>) -> Arc<dyn AnyRunner>
        + Send
        + Sync,
>;

/// The number that the random numbers of the watch of pods come from.
const PODS: u64 = 2;

/// Builds the tasks of a run, and adds controllers to it.
pub struct Builder {
    /// The options of the cluster.
    pub options: SimOptions,
    /// Present where nodes may fail.
    pub nodes: Option<Arc<NodeControl>>,
    /// Pods of a dump that can't become ready, where there are any.
    stuck: Option<Arc<StuckPods>>,
    /// Present where time is real.
    pub clock: Option<RealClock>,
    /// Runs the tasks.
    pub executor: Arc<Executor>,
    /// The tasks.
    pub tasks: Tasks,
    /// The API server.
    pub cluster: Arc<Cluster>,
    /// Whether informers may begin.
    pub started: Arc<AtomicBool>,
    /// The number of watch events that informers received.
    pub delivered: Arc<AtomicU64>,
    /// To be called once informers may begin.
    pub informer_wakers: Vec<Waker>,
    /// The workers of all controllers.
    pub workers: Vec<Arc<Mutex<dyn AnyWorker>>>,
    /// The caller's workloads, made anew for each controller manager.
    added: Vec<AddWorkload>,
    /// The event writers of all controllers.
    pub writers: Vec<Arc<Mutex<EventWriter>>>,
    /// The scheduler, once the tasks around the controllers are added.
    pub scheduler: Option<Arc<Mutex<Scheduler>>>,
    /// The beginnings of the phases.
    pub times: Arc<PhaseTimes>,
    /// The durations recorded in each phase.
    pub recorded: Arc<Mutex<Recorded>>,
    /// The tasks installed so far, in order.
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
    /// A cluster without tasks.
    fn new(options: SimOptions, clock: RealClock, cluster: Cluster) -> Builder {
        Builder {
            nodes: None,
            stuck: None,
            clock: (options.engine == EngineKind::Threads).then_some(clock),
            executor: Arc::default(),
            tasks: Tasks::default(),
            cluster: Arc::new(cluster),
            started: Arc::default(),
            delivered: Arc::default(),
            informer_wakers: Vec::new(),
            workers: Vec::new(),
            added: Vec::new(),
            writers: Vec::new(),
            scheduler: None,
            times: Arc::new(PhaseTimes::new(options.phases)),
            options,
            recorded: Arc::default(),
            installed: Vec::new(),
        }
    }

    /// Adds the tasks around the controllers: scheduler, kubelets, garbage collector, namespaces.
    fn add_cluster_tasks(&mut self) {
        let (options, cluster) = (self.options.clone(), Arc::clone(&self.cluster));
        let nodes = self.nodes.clone();
        let stuck = self.stuck.clone();
        let scheduler = self.add(|_, waker| {
            let latency = options.latency.scheduling;
            let scheduler = Scheduler::new(Arc::clone(&cluster), latency, options.seed, waker);
            let scheduler = scheduler.leaving(stuck.as_ref());
            match &nodes {
                Some(control) => scheduler.controlled_by(control),
                None => scheduler,
            }
        });
        self.scheduler = Some(scheduler);
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
                let kubelets = kubelets.leaving(stuck.as_ref());
                match &nodes {
                    Some(control) => kubelets.controlled_by(control, again),
                    None => kubelets,
                }
            });
        }
        self.add(|_, waker| {
            cluster.set_gc_waker(Some(waker));
            GarbageCollectorTask(Arc::clone(&cluster))
        });
        if self.has(ControllerName::Namespace) {
            let waits = options.services.namespaces_wait;
            self.add(|_, waker| NamespaceTask::new(Arc::clone(&cluster), waits, waker));
        }
    }

    /// Whether a controller runs.
    fn has(&self, name: ControllerName) -> bool {
        self.options.services.controllers.has(name)
    }

    /// Adds the controllers that only a served cluster has.
    fn add_services(&mut self) {
        let services = self.options.services.clone();
        let cluster = Arc::clone(&self.cluster);
        if self.has(ControllerName::PodGarbageCollector) {
            let threshold = services.terminated_pod_gc_threshold;
            self.add(|_, _| PodGcTask::new(cluster, threshold));
        }
        if services.event_ttl_ns > 0 {
            let cluster = Arc::clone(&self.cluster);
            self.add(|_, waker| EventExpiryTask::new(cluster, services.event_ttl_ns, waker));
        }
        if self.has(ControllerName::Deployment) {
            self.add_deployments(Arc::new(NoopObserver));
        }
        if self.has(ControllerName::Disruption) {
            self.add_disruption();
        }
    }

    /// Adds the disruption controller and its event writer. Only the writer's calls have a latency.
    fn add_disruption(&mut self) {
        let cluster = Arc::clone(&self.cluster);
        let sink = self.executor.reserve();
        let events = Arc::new(EventQueue::new(Arc::clone(&self.executor), sink));
        let writer = EventWriter::new(
            disruption::COMPONENT,
            Arc::clone(&events),
            Arc::new(Client::new(Arc::clone(&cluster), None)),
            self.call_latency(disruption::COMPONENT, 0),
            self.seed(disruption::COMPONENT, 1),
            None,
        );
        self.install(sink, Arc::new(Mutex::new(writer)));
        self.add(|_, waker| {
            cluster.set_disruption_waker(Some(waker));
            DisruptionTask::new(cluster, events)
        });
    }

    /// Adds a task, made with its number and its waker.
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

    fn seed(&self, user: &str, number: u64) -> u64 {
        seed_for(self.options.seed, user, number)
    }

    fn call_latency(&self, user: &str, number: u64) -> CallLatency {
        let latency = LatencySampler::new(self.options.latency.api, self.seed(user, number));
        let errors_seed = self.seed("errors", self.seed(user, number));
        CallLatency::new(latency, self.options.api_errors, errors_seed)
    }

    /// Adds a controller manager: its caches, its controllers with their workers, and its
    /// informers, which wait for `started`. `hooks` is present in a run with fault injection or an
    /// observer. Returns the controllers of this project, and all controllers that share the pods.
    fn manager(
        &mut self,
        with_replication_controllers: bool,
        hooks: Option<&Hooks>,
    ) -> (Vec<Arc<ControllerRunner>>, Runners) {
        let mut informers = Informers::new(Arc::default());
        let workers = self.options.controller.concurrent_replicaset_syncs;
        let kind = Kind::REPLICA_SET;
        let mut runners = Vec::new();
        if self.has(ControllerName::ReplicaSet) {
            let rs = self.controller(
                kind,
                "replicaset-controller",
                workers,
                &mut informers,
                hooks,
            );
            runners.push(rs);
        }
        // In a run without ReplicationControllers their controller would only see pods that do not
        // concern it.
        if with_replication_controllers && self.has(ControllerName::ReplicationController) {
            let workers = self.options.controller.concurrent_rc_syncs;
            let kind = Kind::REPLICATION_CONTROLLER;
            let rc = self.controller(
                kind,
                "replication-controller",
                workers,
                &mut informers,
                hooks,
            );
            runners.push(rc);
        }
        let as_handler = |runner: &Arc<ControllerRunner>| Arc::clone(runner) as Arc<dyn AnyRunner>;
        let mut handlers: Runners = runners.iter().map(as_handler).collect();
        let connection = hooks.map(|hooks| &hooks.connection);
        for add in self.added.clone() {
            handlers.push(add(self, &mut informers, connection));
        }
        let numbers = (0..).filter(|number| *number != PODS);
        let mut kinds: Vec<Kind> = Vec::new();
        for kind in handlers.iter().flat_map(|handler| handler.kinds()) {
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        for (number, kind) in numbers.zip(kinds) {
            let readers = handlers.iter().filter(|it| it.kinds().contains(&kind));
            let listener = Objects {
                informer: informers.take(kind),
                readers: readers.cloned().collect(),
            };
            let source = KindSource(Arc::clone(&self.cluster), kind);
            self.watch(source, listener, number, connection);
        }
        let listener = Pods {
            cache: Arc::clone(informers.pods()),
            readers: handlers.clone(),
        };
        let source = PodSource(Arc::clone(&self.cluster));
        self.watch(source, listener, PODS, connection);
        (runners, handlers)
    }

    /// Adds a controller of this project with its workers, timer and event writer.
    fn controller(
        &mut self,
        kind: Kind,
        component: &'static str,
        workers: usize,
        informers: &mut Informers,
        hooks: Option<&Hooks>,
    ) -> Arc<ControllerRunner> {
        let settings = &self.options.controller;
        let options = ControllerOptions {
            kind,
            burst_replicas: settings.burst_replicas as usize,
            gates: Gates {
                pod_deletion_cost: settings.gate("PodDeletionCost"),
                terminating_replicas: settings.gate("DeploymentReplicaSetTerminatingReplicas"),
                stale_controller_consistency: settings.gate("StaleControllerConsistencyReplicaSet"),
            },
            policy: self.options.policy,
        };
        let controller = Controller::new(options, informers);
        self.workload(controller, component, workers, hooks)
    }

    /// Adds a workload with its timers, workers and event writer. `workers` are those of a queue whose
    /// row leaves their number to a flag.
    fn workload<W: Workload>(
        &mut self,
        workload: Arc<W>,
        component: &'static str,
        workers: usize,
        hooks: Option<&Hooks<W>>,
    ) -> Arc<ControllerRunner<W>> {
        let settings = &self.options.controller;
        let limiter = settings
            .kube_api_qps
            // Of single precision, as in client-go.
            .map(|qps| TokenBucket::new((qps as f32).into(), settings.kube_api_burst));
        let client = Arc::new(Client::new(Arc::clone(&self.cluster), limiter));
        let sink = self.executor.reserve();
        let rows: Vec<_> = workload.queues().iter().map(|it| *it.row()).collect();
        let timers: Vec<_> = rows.iter().map(|_| self.executor.reserve()).collect();
        let events = Arc::new(EventQueue::new(Arc::clone(&self.executor), sink));
        let (shared, queue) = (Arc::clone(&client), Arc::clone(&events));
        let runner = ControllerRunner::new(self, workload, shared, queue, &timers, hooks.cloned());
        let runner = Arc::new(runner);
        // Each controller manager of a run has its own random numbers.
        let first = hooks.map_or(0, |hooks| u64::from(hooks.connection.incarnation()) << 32);
        let writer = EventWriter::new(
            component,
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

    /// Adds a workload of the caller to every controller manager that is made from now on. `make`
    /// makes it over the manager's informers, `observer` sees its workers.
    fn add_workload<W: Workload>(
        &mut self,
        component: &'static str,
        workers: usize,
        observer: Arc<dyn Observer<W>>,
        make: impl Fn(&mut Informers) -> Arc<W> + Send + Sync + 'static,
    ) {
        self.added
            .push(Arc::new(move |builder, informers, connection| {
                let hooks = connection.map(|connection| Hooks {
                    connection: Arc::clone(connection),
                    observer: Arc::clone(&observer),
                });
                builder.workload(make(informers), component, workers, hooks.as_ref())
            }));
    }

    /// Adds the controller of Deployments to every controller manager that is made from now on.
    fn add_deployments(&mut self, observer: Arc<dyn Observer<deployment::Controller>>) {
        let settings = &self.options.controller;
        let options = deployment::ControllerOptions {
            terminating_replicas: settings.gate("DeploymentReplicaSetTerminatingReplicas"),
        };
        let workers = settings.concurrent_deployment_syncs;
        let make = move |informers: &mut Informers| {
            Arc::new(deployment::Controller::new(options.clone(), informers))
        };
        self.add_workload("deployment-controller", workers, observer, make);
    }

    /// Adds a task that lists and watches.
    fn watch<L: list_watch::Listener + 'static>(
        &mut self,
        source: L::Source,
        listener: L,
        number: u64,
        connection: Option<&Arc<Connection>>,
    ) {
        let first = connection.map_or(0, |connection| u64::from(connection.incarnation()) << 32);
        let latency = (
            self.options.latency.watch,
            self.seed("watch", first + number),
        );
        let (cluster, started) = (Arc::clone(&self.cluster), Arc::clone(&self.started));
        let delivered = Arc::clone(&self.delivered);
        let connection = connection.cloned();
        let (policy, usual) = (self.options.policy, ReflectorOptions::default());
        let reflector = ReflectorOptions {
            streaming: self.options.controller.gate("WatchListClient"),
            backoff_max_ns: policy.watch_retry_max_ns.unwrap_or(usual.backoff_max_ns),
            ..usual
        };
        let mut informer_waker = None;
        self.add(|_, waker| {
            informer_waker = Some(Arc::clone(&waker));
            let how = (connection, reflector);
            let what = (source, listener);
            ListWatch::new(cluster, what, latency, waker, started, delivered, how)
        });
        self.informer_wakers.extend(informer_waker);
    }
}

/// Which controllers a run needs besides that of ReplicaSets: one that has no objects would only see
/// what does not concern it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Controls {
    /// That of ReplicationControllers.
    pub replication_controllers: bool,
    /// That of Deployments.
    pub deployments: bool,
}

/// Builds all tasks of a run but the one that drives its scenario. Informers wait for `started`.
/// Returns the controllers of ReplicaSets and ReplicationControllers, and all controllers.
pub fn assemble(
    options: SimOptions,
    clock: RealClock,
    controls: Controls,
    hooks: Option<&Hooks>,
    nodes: Option<Arc<NodeControl>>,
    stuck: Option<Arc<StuckPods>>,
) -> (Builder, Vec<Arc<ControllerRunner>>, Runners) {
    let cluster = Cluster::new(server_options(&options));
    assemble_with(
        options,
        cluster,
        clock,
        controls.replication_controllers,
        hooks,
        nodes,
        |builder| {
            builder.stuck = stuck;
            if controls.deployments {
                builder.add_deployments(Arc::new(NoopObserver));
            }
        },
    )
}

/// As [`assemble`]: `add` may add workloads, and all controllers that share the pods are returned
/// too.
fn assemble_with(
    options: SimOptions,
    cluster: Cluster,
    clock: RealClock,
    with_replication_controllers: bool,
    hooks: Option<&Hooks>,
    nodes: Option<Arc<NodeControl>>,
    add: impl FnOnce(&mut Builder),
) -> (Builder, Vec<Arc<ControllerRunner>>, Runners) {
    let mut builder = Builder::new(options, clock, cluster);
    builder.nodes = nodes;
    add(&mut builder);
    let (runners, handlers) = builder.manager(with_replication_controllers, hooks);
    builder.add_cluster_tasks();
    (builder, runners, handlers)
}

/// The API server of a cluster.
fn server_options(options: &SimOptions) -> ClusterOptions {
    ClusterOptions {
        seed: seed_for(options.seed, "cluster", 0),
        keeps_past: options.keeps_past,
        forbids_privileged: options.forbids_privileged,
        ..ClusterOptions::default()
    }
}

#[cfg(test)]
mod queues_tests;
#[cfg(test)]
mod services_tests;
