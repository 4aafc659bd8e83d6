//! A test harness: a running cluster without a scenario. The caller writes to the cluster and waits
//! for the result.
//!
//! On the virtual engine, tasks run and the clock moves only in [`Harness::until`],
//! [`Harness::settle`] and [`Harness::advance`]. On the threads engine, tasks run all the time.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use podstorm::metrics::{Family, merged};
use podstorm_apiserver::{Cluster, ClusterOptions, ClusterState, History};
use podstorm_objects::{ApiError, Now};

use super::event_sink::EventWriter;
use super::registry::Registry;
use super::runner;
use super::worker::AnyWorker;
use super::{Builder, Runners, assemble_with, server_options};
use crate::clock::RealClock;
use crate::executor::virtual_time::StepOutcome;
use crate::executor::{Executor, TaskId, Tasks};
use crate::executor::{threads, virtual_time};
use crate::lock;
use crate::nodes::{ClientRules, NodeControl, NodeTimes};
use crate::options::{EngineKind, SimOptions};
use crate::rows::{GARBAGE_COLLECTOR, RESOURCE_QUOTA};

/// The time between two checks of a cluster on the threads engine.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// The number of consecutive checks without activity after which a cluster on the threads engine
/// counts as settled.
const QUIET_LOOKS: u32 = 25;

/// The flag that sets the time without heartbeats after which a node is unreachable, ns.
const GRACE: &str = "node-monitor-grace-period";

/// A running cluster. It runs until it is dropped.
pub struct Harness {
    cluster: Arc<Cluster>,
    executor: Arc<Executor>,
    pub(super) handlers: Runners,
    /// The controllers of the cluster's own manager.
    cluster_runners: Runners,
    workers: Vec<Arc<Mutex<dyn AnyWorker>>>,
    writers: Vec<Arc<Mutex<EventWriter>>>,
    /// The control over the nodes; `None` if nodes can't fail.
    nodes: Option<Arc<NodeControl>>,
    /// The task that renews node Leases, if there is one.
    heartbeats: Option<TaskId>,
    engine: EngineState,
}

impl fmt::Debug for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harness")
            .field("cluster", &self.cluster)
            .field("engine", &self.engine)
            .finish_non_exhaustive()
    }
}

/// The state of a [serving](Harness::serving) cluster, from which other clusters can
/// [resume](Harness::resuming).
#[derive(Clone, Debug)]
pub struct HarnessState {
    cluster: ClusterState,
    now: Now,
    /// The number of pod addresses assigned so far.
    pod_addresses: u64,
}

impl HarnessState {
    /// Returns the state of the API server: the objects and the state derived from them.
    pub fn cluster(&self) -> &ClusterState {
        &self.cluster
    }

    /// Returns the time at which the state was taken.
    pub fn now(&self) -> Now {
        self.now
    }
}

#[derive(Debug)]
enum EngineState {
    Virtual(VirtualEngine),
    Threads {
        clock: RealClock,
        /// The tasks that will run once the cluster is started, and the number of threads.
        waiting: Option<(Tasks, usize)>,
        running: Option<JoinHandle<()>>,
    },
}

#[derive(Debug)]
struct VirtualEngine {
    /// Locked by the thread that runs tasks and advances the clock.
    tasks: Mutex<Tasks>,
    /// The monotonic time, ns; written under the lock of `tasks`.
    mono_ns: AtomicI64,
    /// The wall time at which the monotonic time is 0, ns.
    wall_start_ns: i64,
}

impl VirtualEngine {
    fn now(&self) -> Now {
        // Acquire: pairs with the store below. A thread that reads a time sees everything that
        // happened before that time.
        let mono_ns = self.mono_ns.load(Ordering::Acquire);
        Now {
            mono_ns,
            wall_ns: self.wall_start_ns.saturating_add(mono_ns),
        }
    }

    fn jump(&self, executor: &Executor, to_ns: i64) {
        let mut now = self.now();
        virtual_time::jump(executor, &mut now, to_ns);
        self.mono_ns.store(now.mono_ns, Ordering::Release);
    }

    /// Runs one task or jumps to the next due time. Returns false if nothing is left to do up to
    /// `end_ns`.
    fn step(&self, tasks: &Tasks, executor: &Executor, end_ns: i64) -> bool {
        match virtual_time::step(tasks, executor, self.now()) {
            StepOutcome::Ran => true,
            StepOutcome::Due(due_ns) if due_ns <= end_ns => {
                self.jump(executor, due_ns);
                true
            }
            StepOutcome::Due(_) | StepOutcome::AtRest => false,
        }
    }
}

impl Harness {
    /// Starts an empty cluster with a scheduler, kubelets and those of the
    /// [installed](Registry::installed) controllers that the options select.
    ///
    /// # Panics
    /// Panics if a feature gate of the options [is unknown or
    /// locked](crate::rows::Rows::check_gates).
    pub fn new(options: &SimOptions) -> Harness {
        let cluster = Cluster::new(server_options(options));
        Harness::with(options, cluster, None, None, |_| {}).started()
    }

    /// Starts a cluster like [`new`](Harness::new), with the controllers of `registry`. The
    /// controllers that [run](crate::services::Services::controllers) must be in the registry.
    ///
    /// # Panics
    /// Panics if a feature gate of the options [is unknown or
    /// locked](crate::rows::Rows::check_gates).
    pub fn with_registry(options: &SimOptions, registry: &Registry) -> Harness {
        let (cluster, registry) = (Cluster::new(server_options(options)), registry.clone());
        let harness = Harness::with(options, cluster, None, None, |builder| {
            builder.registry = registry;
        });
        harness.started()
    }

    /// Returns a cluster like [`new`](Harness::new), with an API server for any client. The server
    /// [keeps older states](ClusterOptions::keeps_past), nodes act on clients' requests, and
    /// controllers behave as in a real cluster. With controllers that check the cluster
    /// periodically (pod garbage collection, node lifecycle), it never [settles](Harness::settle).
    ///
    /// Call [`started`](Harness::started) to run the cluster. Until then it can be filled, so that
    /// no controller sees an incomplete set of objects.
    ///
    /// # Panics
    /// Panics if a feature gate of the options [is unknown or
    /// locked](crate::rows::Rows::check_gates).
    pub fn serving(options: &SimOptions, times: NodeTimes, rules: ClientRules) -> Harness {
        let (options, times) = in_agreement(options, times);
        let nodes = Arc::new(NodeControl::for_clients(times, rules).alive());
        let cluster = Cluster::new(serving_options(&options, times));
        Harness::with(&options, cluster, Some(nodes), None, Builder::add_services)
    }

    /// Returns a cluster like [`serving`](Harness::serving) that resumes from a state: it has the
    /// objects of the state and continues at its time. Controllers and nodes restart; pods that
    /// were starting or terminating have waited as long as their objects show.
    ///
    /// # Errors
    /// See [`Cluster::restored`].
    ///
    /// # Panics
    /// Panics if a feature gate of the options [is unknown or
    /// locked](crate::rows::Rows::check_gates).
    pub fn resuming(
        options: &SimOptions,
        times: NodeTimes,
        rules: ClientRules,
        state: &HarnessState,
    ) -> Result<Harness, ApiError> {
        let (mut options, times) = in_agreement(options, times);
        options.goes_on = true;
        let nodes = NodeControl::for_clients(times, rules).alive();
        let nodes = nodes.with_addresses(state.pod_addresses);
        let cluster = serving_options(&options, times);
        let cluster = Cluster::restored(cluster, &state.cluster, state.now)?;
        Ok(Harness::with(
            &options,
            cluster,
            Some(Arc::new(nodes)),
            Some(state.now),
            Builder::add_services,
        ))
    }

    /// Returns the current state. On the virtual engine, everything that is due has happened, and
    /// no task runs during the call. On the threads engine, tasks continue, and the state does not
    /// include their later work.
    ///
    /// # Errors
    /// See [`Cluster::state`].
    ///
    /// # Panics
    /// Panics if a task has panicked.
    pub fn state(&self) -> Result<HarnessState, ApiError> {
        let rest = match &self.engine {
            EngineState::Virtual(engine) => {
                let tasks = lock(&engine.tasks);
                let now_ns = engine.now().mono_ns;
                while engine.step(&tasks, &self.executor, now_ns) {}
                Some(tasks)
            }
            EngineState::Threads { .. } => None,
        };
        let state = HarnessState {
            now: self.now(),
            cluster: self.cluster.state()?,
            pod_addresses: self.nodes.as_ref().map_or(0, |nodes| nodes.addresses()),
        };
        drop(rest);
        Ok(state)
    }

    fn with(
        options: &SimOptions,
        cluster: Cluster,
        nodes: Option<Arc<NodeControl>>,
        from: Option<Now>,
        add: impl FnOnce(&mut Builder),
    ) -> Harness {
        let clock = RealClock::start().at_scale(options.time_scale);
        let clock = from.map_or(clock, |from| clock.going_on_from(from));
        let from = from.unwrap_or(Now {
            mono_ns: 0,
            wall_ns: virtual_time::WALL_START_NS,
        });
        let (builder, handlers) =
            assemble_with(options.clone(), cluster, clock, None, nodes.clone(), add);
        let (cluster, executor) = (builder.cluster, builder.executor);
        // Release: pairs with the Acquire load in `list_watch`; a thread that sees the flag also
        // sees the completed tasks.
        builder.started.store(true, Ordering::Release);
        let (tasks, workers, writers) = (builder.tasks, builder.workers, builder.writers);
        let engine = match options.engine {
            EngineKind::Virtual => {
                tasks.wake_all(&executor);
                EngineState::Virtual(VirtualEngine {
                    tasks: Mutex::new(tasks),
                    mono_ns: AtomicI64::new(from.mono_ns),
                    wall_start_ns: from.wall_ns.saturating_sub(from.mono_ns),
                })
            }
            EngineKind::Threads => EngineState::Threads {
                clock,
                waiting: Some((tasks, options.threads)),
                running: None,
            },
        };
        Harness {
            cluster,
            executor,
            handlers,
            cluster_runners: builder.cluster_runners,
            workers,
            writers,
            nodes,
            heartbeats: builder.heartbeats,
            engine,
        }
    }

    /// Starts the cluster. On the virtual engine, tasks still run only while the caller waits.
    #[must_use]
    pub fn started(mut self) -> Harness {
        if let EngineState::Threads {
            clock,
            waiting,
            running,
        } = &mut self.engine
            && let Some((tasks, count)) = waiting.take()
        {
            let (executor, clock) = (Arc::clone(&self.executor), *clock);
            let run = move || {
                // A cluster at rest waits for the caller's next write.
                let goes_on = |_| true;
                threads::drive(&tasks, &executor, count, &clock, i64::MAX, goes_on, goes_on);
            };
            let thread = std::thread::Builder::new().name("harness".into());
            let spawned = thread.spawn(run);
            *running = Some(spawned.expect("the system can start a thread"));
        }
        self
    }

    /// Returns the API server. Pass [`now`](Harness::now) as the time of requests.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// Returns the number of requests by workload controllers and their event writers so far. The
    /// keys have the form `verb resource code`: `create pods 201`. Requests by the cluster's own
    /// controllers are not counted.
    ///
    /// # Panics
    /// Panics if a task has panicked.
    pub fn api_calls(&self) -> BTreeMap<String, u64> {
        let mut calls = BTreeMap::new();
        for worker in &self.workers {
            lock(worker).calls().add_to(&mut calls);
        }
        for writer in &self.writers {
            lock(writer).calls.add_to(&mut calls);
        }
        calls
    }

    /// Returns the metrics of all running controllers, their queues and their clients, by name.
    /// O(keys of the queues).
    pub fn families(&self) -> Vec<Family> {
        let now_ns = self.now().mono_ns;
        let of_cluster = runner::families(&self.cluster_runners, now_ns);
        merged(runner::families(&self.handlers, now_ns).chain(of_cluster))
    }

    /// Returns the current time of the cluster.
    pub fn now(&self) -> Now {
        match &self.engine {
            EngineState::Virtual(engine) => engine.now(),
            EngineState::Threads { clock, .. } => clock.now(),
        }
    }

    /// Sets the wall time at which the cluster's virtual time starts, ns since the epoch. Must be
    /// called before any task has run. Has no effect on the threads engine.
    #[must_use]
    pub fn starting_at(mut self, wall_ns: i64) -> Harness {
        if let EngineState::Virtual(engine) = &mut self.engine {
            engine.wall_start_ns = wall_ns;
        }
        self
    }

    /// Advances the time of the virtual engine by `by_ns`, 0 or more, runs everything that is due
    /// until then, and returns the new time. Returns `None` on the threads engine, whose time
    /// passes by itself. Concurrent calls run one after another.
    ///
    /// # Panics
    /// Panics if a task has panicked.
    pub fn advance(&self, by_ns: i64) -> Option<Now> {
        let EngineState::Virtual(engine) = &self.engine else {
            return None;
        };
        let tasks = lock(&engine.tasks);
        let end_ns = engine.now().mono_ns.saturating_add(by_ns);
        while engine.step(&tasks, &self.executor, end_ns) {}
        engine.jump(&self.executor, end_ns);
        Some(engine.now())
    }

    /// Runs the cluster until `holds` returns true, for at most `limit_ns` of the cluster's time.
    /// Returns whether `holds` returned true. `holds` is called after every task on the virtual
    /// engine, and every 2 ms on the threads engine.
    ///
    /// # Panics
    /// Panics if a task has panicked.
    pub fn until(&mut self, limit_ns: i64, mut holds: impl FnMut(&Cluster) -> bool) -> bool {
        let end_ns = self.now().mono_ns.saturating_add(limit_ns);
        loop {
            if holds(&self.cluster) {
                return true;
            }
            if !self.step(end_ns) {
                return false;
            }
        }
    }

    /// Runs the cluster until only renewals of node Leases are left to do, for at most `limit_ns`
    /// of the cluster's time. Returns whether the cluster settled. On the threads engine, the
    /// cluster counts as settled after 50 ms without activity. On a very slow machine that may be
    /// too early: wait for the expected state with [`until`](Harness::until) first.
    ///
    /// # Panics
    /// Panics if a task has panicked.
    pub fn settle(&mut self, limit_ns: i64) -> bool {
        let end_ns = self.now().mono_ns.saturating_add(limit_ns);
        if let EngineState::Virtual(_) = self.engine {
            while !self.rests() && self.step(end_ns) {}
            return self.rests();
        }
        let (mut quiet, mut version) = (0, self.cluster.resource_version());
        while quiet < QUIET_LOOKS {
            if !self.step(end_ns) {
                return false;
            }
            let seen = std::mem::replace(&mut version, self.cluster.resource_version());
            let rests = seen == version
                && self.rests()
                && self.handlers.iter().all(|handler| handler.rests_after(0));
            quiet = if rests { quiet + 1 } else { 0 };
        }
        true
    }

    /// Reports whether no task is running, queued or due, except for the renewals of node Leases.
    fn rests(&self) -> bool {
        self.executor.is_at_rest_but_for(self.heartbeats.as_slice())
    }

    /// Runs one task or jumps to the next due time; on the threads engine, lets 2 ms pass. Returns
    /// false if nothing is left to do up to `end_ns`, or that time has passed.
    fn step(&mut self, end_ns: i64) -> bool {
        match &mut self.engine {
            EngineState::Virtual(engine) => {
                engine.step(&lock(&engine.tasks), &self.executor, end_ns)
            }
            EngineState::Threads { clock, .. } => {
                assert!(!self.executor.is_stopped(), "no task has panicked");
                self.executor.wait_stopped(LOOK_EVERY);
                clock.now().mono_ns < end_ns
            }
        }
    }
}

/// Makes the options and the times of a serving cluster agree on the time after which a silent node
/// is unreachable. The controllers' flag decides if it is set, otherwise `times` does.
fn in_agreement(options: &SimOptions, mut times: NodeTimes) -> (SimOptions, NodeTimes) {
    let mut options = options.clone();
    let numbers = &mut options.services.numbers;
    times.grace_ns = *numbers.entry(GRACE).or_insert(times.grace_ns);
    (options, times)
}

/// Returns the options of an API server that serves any client.
fn serving_options(options: &SimOptions, times: NodeTimes) -> ClusterOptions {
    let controllers = &options.services.controllers;
    ClusterOptions {
        history: History::SERVED,
        keeps_past: true,
        leaves_garbage: !controllers.has(&GARBAGE_COLLECTOR),
        leaves_quotas: !controllers.has(&RESOURCE_QUOTA),
        records_gc_events: true,
        admits_templates: true,
        plugins: options.services.plugins,
        unreachable_toleration_seconds: Some(times.toleration_ns / 1_000_000_000),
        ..server_options(options)
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.executor.stop();
        self.cluster.set_gc_waker(None);
        self.cluster.set_termination_hook(None);
        if let EngineState::Threads { running, .. } = &mut self.engine
            && let Some(thread) = running.take()
        {
            // The thread has already reported the panic of its task.
            let _ = thread.join();
        }
    }
}
