//! A test harness: a running cluster without a scenario. The caller writes to the cluster and waits
//! for the result.
//!
//! On the virtual engine tasks run, and the clock moves, only within [`Harness::until`],
//! [`Harness::settle`] and [`Harness::advance`]. On the threads engine tasks run all the time.

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

/// A cluster on the threads engine counts as settled after that many checks in a row that found no
/// activity.
const QUIET_LOOKS: u32 = 25;

/// The flag of the controllers' number that says after which silence a node is unreachable, ns.
const GRACE: &str = "node-monitor-grace-period";

/// A running cluster. It runs until it is dropped.
pub struct Harness {
    cluster: Arc<Cluster>,
    executor: Arc<Executor>,
    pub(super) handlers: Runners,
    /// The controllers of the manager that the cluster has of its own.
    cluster_runners: Runners,
    workers: Vec<Arc<Mutex<dyn AnyWorker>>>,
    writers: Vec<Arc<Mutex<EventWriter>>>,
    /// Present where nodes may fail.
    nodes: Option<Arc<NodeControl>>,
    /// The task that keeps nodes alive, where there is one.
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

/// The state of a [serving](Harness::serving) cluster as a value, from which others [go on](Harness::resuming).
#[derive(Clone, Debug)]
pub struct HarnessState {
    cluster: ClusterState,
    now: Now,
    /// How many addresses pods have got.
    pod_addresses: u64,
}

impl HarnessState {
    /// The objects, and what follows from them.
    pub fn cluster(&self) -> &ClusterState {
        &self.cluster
    }

    /// The time of the cluster.
    pub fn now(&self) -> Now {
        self.now
    }
}

#[derive(Debug)]
enum EngineState {
    Virtual(VirtualEngine),
    Threads {
        clock: RealClock,
        /// What the thread will run, on so many threads.
        waiting: Option<(Tasks, usize)>,
        running: Option<JoinHandle<()>>,
    },
}

#[derive(Debug)]
struct VirtualEngine {
    /// Locked by the thread that runs tasks and moves the clock.
    tasks: Mutex<Tasks>,
    /// Monotonic time; written with the lock held.
    mono_ns: AtomicI64,
    /// Wall time when that was 0.
    wall_start_ns: i64,
}

impl VirtualEngine {
    fn now(&self) -> Now {
        // Acquire, with the store below: who reads a time finds what had happened by then.
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

    /// Runs one task or jumps to the next moment; false when nothing is left to do before `end_ns`.
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
    /// Starts an empty cluster with a scheduler, kubelets and those controllers that every cluster can
    /// have.
    ///
    /// # Panics
    /// A feature gate of the options [is unknown or locked](crate::rows::Rows::check_gates).
    pub fn new(options: &SimOptions) -> Harness {
        let cluster = Cluster::new(server_options(options));
        Harness::with(options, cluster, None, None, |_| {}).started()
    }

    /// As [`new`](Harness::new), where there are these controllers. Those that
    /// [run](crate::services::Services::controllers) are to be of them.
    ///
    /// # Panics
    /// A feature gate of the options [is unknown or locked](crate::rows::Rows::check_gates).
    pub fn of(options: &SimOptions, registry: &Registry) -> Harness {
        let (cluster, registry) = (Cluster::new(server_options(options)), registry.clone());
        let harness = Harness::with(options, cluster, None, None, |builder| {
            builder.registry = registry;
        });
        harness.started()
    }

    /// As [`new`](Harness::new), with an API server for any client: it [keeps older
    /// states](ClusterOptions::keeps_past), its nodes do what clients ask of them, and what its
    /// controllers do is what a user of a real cluster sees. With controllers that look at the cluster from time to time
    /// (pod garbage collection, node lifecycle) it never [settles](Harness::settle). It is to be [`started`](Harness::started): until then it can be
    /// filled, and no controller takes a half of its objects for the whole.
    ///
    /// # Panics
    /// A feature gate of the options [is unknown or locked](crate::rows::Rows::check_gates).
    pub fn serving(options: &SimOptions, times: NodeTimes, rules: ClientRules) -> Harness {
        let (options, times) = in_agreement(options, times);
        let nodes = Arc::new(NodeControl::for_clients(times, rules).alive());
        let cluster = Cluster::new(serving_options(&options, times));
        Harness::with(&options, cluster, Some(nodes), None, Builder::add_services)
    }

    /// As [`serving`](Harness::serving), going on from a state: with its objects and its time. Controllers and nodes
    /// start over, as after a restart; a pod that was starting or ending has waited for as long as its
    /// object says.
    ///
    /// # Errors
    /// As [`Cluster::restored`].
    ///
    /// # Panics
    /// A feature gate of the options [is unknown or locked](crate::rows::Rows::check_gates).
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

    /// The state as of now. On the virtual engine everything that is due has happened; no task runs meanwhile. On the
    /// threads engine tasks go on, and what they do later is not in it.
    ///
    /// # Errors
    /// As [`Cluster::state`].
    ///
    /// # Panics
    /// When a task has panicked.
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
        // Release: a thread that sees the flag sees the tasks as they were built.
        builder
            .started
            .store(true, std::sync::atomic::Ordering::Release);
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

    /// The same cluster, running. On the virtual engine nothing runs before it is waited for anyway.
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
            *running = Some(spawned.expect("the system can start one more thread"));
        }
        self
    }

    /// The API server. The time of its requests is [`now`](Harness::now).
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The requests of the controllers of workloads so far, and of their Events' writers, by `verb resource code`:
    /// `create pods 201`. Those of the cluster's own controllers are not among them.
    ///
    /// # Panics
    /// When a task has panicked.
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

    /// The metrics of every controller that runs, and of its queues, by name. O(keys of the queues).
    pub fn families(&self) -> Vec<Family> {
        let now_ns = self.now().mono_ns;
        let of_cluster = runner::families(&self.cluster_runners, now_ns);
        merged(runner::families(&self.handlers, now_ns).chain(of_cluster))
    }

    /// The current time of the cluster.
    pub fn now(&self) -> Now {
        match &self.engine {
            EngineState::Virtual(engine) => engine.now(),
            EngineState::Threads { clock, .. } => clock.now(),
        }
    }

    /// The same cluster, whose virtual time starts at this wall time, ns since the epoch. To be called
    /// before anything has run; of no effect on the threads engine.
    #[must_use]
    pub fn starting_at(mut self, wall_ns: i64) -> Harness {
        if let EngineState::Virtual(engine) = &mut self.engine {
            engine.wall_start_ns = wall_ns;
        }
        self
    }

    /// Moves the time of the virtual engine by that many ns, 0 or more, and runs everything that is
    /// due until then; returns the new time. `None` on the threads engine, whose time passes by
    /// itself. Threads that call it at once take turns.
    ///
    /// # Panics
    /// When a task has panicked.
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

    /// Runs the cluster until `holds` returns true, for at most `limit_ns` of its time; returns
    /// whether it did. `holds` is called after every task on the virtual engine, every 2 ms on the
    /// threads engine.
    ///
    /// # Panics
    /// When a task has panicked.
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

    /// Runs the cluster until nothing is left to do but to renew the Leases of nodes, for at most `limit_ns` of its time; returns
    /// whether it came to that. On the threads engine the cluster counts as settled when it was
    /// inactive for 50 ms. On a very slow machine that may be too early: wait for the expected
    /// state with [`until`](Harness::until) first.
    ///
    /// # Panics
    /// When a task has panicked.
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

    /// Whether no task runs, is queued or is due, but for the one that keeps nodes alive.
    fn rests(&self) -> bool {
        self.executor.is_at_rest_but_for(self.heartbeats.as_slice())
    }

    /// Runs one task, jumps to the next moment, or lets 2 ms pass; false when nothing is left to do
    /// before `end_ns`.
    fn step(&mut self, end_ns: i64) -> bool {
        match &mut self.engine {
            EngineState::Virtual(engine) => {
                engine.step(&lock(&engine.tasks), &self.executor, end_ns)
            }
            EngineState::Threads { clock, .. } => {
                assert!(!self.executor.is_stopped(), "a task has panicked");
                self.executor.wait_stopped(LOOK_EVERY);
                clock.now().mono_ns < end_ns
            }
        }
    }
}

/// The options and times of a serving cluster in which both say the same of silent nodes: a number of the controllers
/// that is set decides, else the times do.
fn in_agreement(options: &SimOptions, mut times: NodeTimes) -> (SimOptions, NodeTimes) {
    let mut options = options.clone();
    let numbers = &mut options.services.numbers;
    times.grace_ns = *numbers.entry(GRACE).or_insert(times.grace_ns);
    (options, times)
}

/// The API server of a cluster that serves any client.
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
            // The thread of a task that panicked has reported the panic.
            let _ = thread.join();
        }
    }
}
