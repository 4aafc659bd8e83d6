//! A test harness with fault injection: a cluster whose controller managers can be disturbed,
//! killed and restarted. It runs on virtual time, which the caller advances; one seed gives one
//! run.
//!
//! The tasks are those of every run. In addition, each controller manager has a [`Connection`] that
//! carries its requests and watches, observers receive the work of the controllers, and requests
//! sent by a dead manager still reach the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use podstorm::driver::Workload;
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::Now;

use super::observer::{Observer, Origins};
use super::orphaned::{Connections, OrphanedRequests};
use super::registry::Registry;
use super::runner::of_type;
use super::{Builder, Runners};
use crate::clock::RealClock;
use crate::executor::virtual_time::{self, StepOutcome, WALL_START_NS};
use crate::executor::{TaskId, Waker};
use crate::faults::{Connection, Network};
use crate::lock;
use crate::nodes::{NodeControl, NodeTimes};
use crate::options::{EngineKind, SimOptions};

/// The times of node failures. They are shorter than upstream's, so that a run of a few minutes
/// includes all of them.
const NODE_TIMES: NodeTimes = NodeTimes {
    grace_ns: 10_000_000_000,
    toleration_ns: 30_000_000_000,
    quarantine_ns: 60_000_000_000,
};

/// The maximum number of task runs at one virtual time; more are a livelock.
const RUNS_PER_MOMENT: u32 = 200_000;

/// A controller manager of the run.
#[derive(Debug)]
struct Manager {
    connection: Arc<Connection>,
    handlers: Runners,
    tasks: Vec<TaskId>,
    /// The manager's workers, as a range of the builder's list.
    workers: std::ops::Range<usize>,
    /// Whether the manager is dead and its tasks have been removed.
    removed: bool,
}

/// The reason why [`FaultHarness::advance`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The end time was reached.
    AtEnd,
    /// A controller manager died.
    Died,
    /// The argument `stop` of [`FaultHarness::advance`] returned true.
    Asked,
    /// Tasks wake each other endlessly without any time passing.
    Livelock,
}

/// A cluster with fault injection, advanced by the caller.
pub struct FaultHarness {
    builder: Builder,
    now: Now,
    managers: Vec<Manager>,
    network: Arc<Network>,
    connections: Connections,
    orphaned: Arc<Mutex<OrphanedRequests>>,
    orphaned_waker: Waker,
    /// Set by a connection when its controller manager dies or a request is orphaned.
    needs_attention: Arc<AtomicBool>,
}

impl std::fmt::Debug for FaultHarness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FaultHarness")
            .field("now", &self.now)
            .field("managers", &self.managers.len())
            .finish_non_exhaustive()
    }
}

impl FaultHarness {
    /// Returns a cluster with the cluster's own tasks (scheduler, kubelets, controllers inside the
    /// server), but without a controller manager that faults can hit. `origins` receives the origin
    /// of commits by orphaned requests.
    ///
    /// # Panics
    /// Panics if the options select the threads engine.
    pub fn new(
        options: &SimOptions,
        mut server: ClusterOptions,
        origins: Arc<dyn Origins>,
    ) -> FaultHarness {
        assert_eq!(
            options.engine,
            EngineKind::Virtual,
            "fault injection needs virtual time"
        );
        // A lagging server answers lists and watches from an older state, which must be kept.
        server.keeps_past = true;
        let mut builder = Builder::new(options.clone(), RealClock::start(), Cluster::new(server));
        builder.nodes = Some(Arc::new(NodeControl::new(NODE_TIMES)));
        // All tasks run on one thread, so any ordering would do.
        builder.started.store(true, Ordering::Release);
        builder.add_cluster_tasks();
        let connections: Connections = Arc::default();
        let cluster = Arc::clone(&builder.cluster);
        let mut orphaned_waker = None;
        let orphaned = builder.add(|_, waker| {
            orphaned_waker = Some(waker);
            OrphanedRequests::new(&cluster, Arc::clone(&connections), origins)
        });
        builder.tasks.wake_all(&builder.executor);
        FaultHarness {
            builder,
            now: Now {
                mono_ns: 0,
                wall_ns: WALL_START_NS,
            },
            managers: Vec::new(),
            network: Arc::default(),
            connections,
            orphaned,
            orphaned_waker: orphaned_waker.expect("the builder added the task"),
            needs_attention: Arc::default(),
        }
    }

    /// Sets the controllers of managers that start from now on. The options still decide [which of
    /// them run](crate::services::Services::controllers).
    pub fn set_registry(&mut self, registry: &Registry) {
        self.builder.registry = registry.clone();
    }

    /// Sets the observer of all controllers of this type, in managers that start from now on.
    pub fn observe<W: Workload>(&mut self, observer: Arc<dyn Observer<W>>) {
        self.builder.observers.set(observer);
    }

    /// Returns the API server.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.builder.cluster
    }

    /// Returns the current time of the cluster.
    pub fn now(&self) -> Now {
        self.now
    }

    /// Returns the control over the nodes, which makes them fail.
    pub fn nodes(&self) -> &Arc<NodeControl> {
        self.builder
            .nodes
            .as_ref()
            .expect("this harness has node control")
    }

    /// Returns the network, which holds the faults armed against the requests of all controllers.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Starts a controller manager and returns its number, counted from 0.
    ///
    /// # Panics
    /// Panics if a feature gate of the options [is unknown or
    /// locked](crate::rows::Rows::check_gates).
    pub fn start_manager(&mut self) -> u32 {
        let incarnation =
            u32::try_from(self.managers.len()).expect("the number of managers fits in 32 bits");
        let (flag, orphaned) = (
            Arc::clone(&self.needs_attention),
            Arc::clone(&self.orphaned_waker),
        );
        let needs_attention: Waker = Arc::new(move || {
            // Relaxed: all tasks run on one thread.
            flag.store(true, Ordering::Relaxed);
            orphaned();
        });
        let connection = Arc::new(Connection::new(
            Arc::clone(&self.network),
            incarnation,
            needs_attention,
        ));
        lock(&self.connections).push(Arc::clone(&connection));
        let builder = &mut self.builder;
        let tasks = builder.installed.len();
        let workers = builder.workers.len();
        let handlers = builder.manager(Some(&connection));
        let tasks = builder.installed[tasks..].to_vec();
        for task in &tasks {
            builder.executor.wake(*task);
        }
        self.managers.push(Manager {
            connection,
            handlers,
            tasks,
            workers: workers..builder.workers.len(),
            removed: false,
        });
        incarnation
    }

    fn alive_managers(&self) -> impl Iterator<Item = &Manager> {
        let managers = self.managers.iter();
        managers.filter(|manager| !manager.connection.is_dead())
    }

    /// Returns the connections of live controller managers, oldest first.
    pub fn alive(&self) -> Vec<Arc<Connection>> {
        let alive = self.alive_managers();
        alive
            .map(|manager| Arc::clone(&manager.connection))
            .collect()
    }

    /// Returns the live controllers of this type, oldest first.
    pub fn controllers<W: Workload>(&self) -> impl Iterator<Item = Arc<W>> {
        let runners = self.alive_managers();
        let runners = runners.flat_map(|manager| of_type::<W>(&manager.handlers));
        runners.map(|runner| Arc::clone(&runner.controller))
    }

    /// Returns the number of controller managers started so far.
    pub fn started(&self) -> usize {
        self.managers.len()
    }

    /// Wakes all tasks of the controller managers. Must be called after a change to a connection.
    pub fn wake_controllers(&self) {
        for manager in &self.managers {
            if !manager.removed {
                for task in &manager.tasks {
                    self.builder.executor.wake(*task);
                }
            }
        }
    }

    /// Reports whether no key is queued, no sync is in progress and no orphaned request is in
    /// flight. Delayed keys do not count.
    pub fn rests(&self) -> bool {
        lock(&self.orphaned).waiting() == 0
            && self
                .alive_managers()
                .flat_map(|manager| &manager.handlers)
                .all(|handler| handler.rests_after(0))
    }

    /// Reports whether, in any live controller, the last sync of a key failed, so that a retry is
    /// pending.
    pub fn has_retries(&self) -> bool {
        let mut handlers = self.alive_managers().flat_map(|manager| &manager.handlers);
        handlers.any(|handler| handler.has_retries())
    }

    /// Advances virtual time to `end_ns` and runs all tasks until then. Stops earlier if a
    /// controller manager dies, or if `stop`, called after every task, returns true.
    pub fn advance(&mut self, end_ns: i64, mut stop: impl FnMut() -> bool) -> Stopped {
        let mut runs = 0;
        loop {
            let executor = Arc::clone(&self.builder.executor);
            match virtual_time::step(&self.builder.tasks, &executor, self.now) {
                StepOutcome::Ran => {
                    runs += 1;
                    // Relaxed: all tasks run on one thread.
                    if self.needs_attention.swap(false, Ordering::Relaxed) && self.remove_dead() {
                        return Stopped::Died;
                    }
                    if stop() {
                        return Stopped::Asked;
                    }
                    if runs > RUNS_PER_MOMENT {
                        return Stopped::Livelock;
                    }
                }
                StepOutcome::Due(due_ns) if due_ns <= end_ns => {
                    virtual_time::jump(&executor, &mut self.now, due_ns);
                    runs = 0;
                }
                StepOutcome::Due(_) | StepOutcome::AtRest => {
                    self.now = self.now.plus_ns((end_ns - self.now.mono_ns).max(0));
                    return Stopped::AtEnd;
                }
            }
        }
    }

    /// Removes the tasks of dead managers, and orphans the requests of theirs that are in flight to
    /// the server. Returns whether a manager was removed.
    fn remove_dead(&mut self) -> bool {
        let mut found = false;
        for manager in &mut self.managers {
            if manager.removed || !manager.connection.is_dead() {
                continue;
            }
            found = true;
            manager.removed = true;
            for worker in &self.builder.workers[manager.workers.clone()] {
                lock(worker).abandon();
            }
            for task in &manager.tasks {
                self.builder.tasks.remove(*task);
            }
        }
        found
    }
}

impl Drop for FaultHarness {
    fn drop(&mut self) {
        self.builder.executor.stop();
        self.builder.cluster.set_gc_waker(None);
        self.builder.cluster.set_termination_hook(None);
    }
}
