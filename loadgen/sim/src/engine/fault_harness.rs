//! A cluster whose controllers can be disturbed, killed and started again: on virtual time, moved
//! on by its owner, one seed one run.
//!
//! The parts are those of every run. What is different: each controller manager has a line
//! ([`Connection`]) that its requests and watches pass, a probe hears of its work, and what a dead
//! manager had on its way to the server arrives without it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use podstorm::cache::PodCache;
use podstorm::driver::Workload;
use podstorm::ranking::RankFields;
use podstorm::replicaset::Controller;
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::Now;

use super::observer::Observer;
use super::orphaned::{Connections, OrphanedRequests};
use super::runner::{ControllerRunner, Hooks};
use super::{Builder, Handlers};
use crate::clock::RealClock;
use crate::executor::virtual_time::{self, StepOutcome, WALL_START_NS};
use crate::executor::{TaskId, Waker};
use crate::faults::{Connection, Network};
use crate::nodes::{NodeControl, NodeTimes};
use crate::options::{EngineKind, SimOptions};

/// Shorter than upstream's, so that a run of some minutes sees all of it.
const NODE_TIMES: NodeTimes = NodeTimes {
    grace_ns: 10_000_000_000,
    toleration_ns: 30_000_000_000,
    quarantine_ns: 60_000_000_000,
};

/// More runs of parts at one moment of virtual time than any that ends needs.
const RUNS_PER_MOMENT: u32 = 200_000;

/// One run's controller manager.
#[derive(Debug)]
struct Manager {
    connection: Arc<Connection>,
    runners: Vec<Arc<ControllerRunner>>,
    handlers: Handlers,
    tasks: Vec<TaskId>,
    /// Its workers, by their place in the builder's list.
    workers: std::ops::Range<usize>,
    removed: bool,
}

/// Why a site stopped moving on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// It has come to the end it was given.
    AtEnd,
    /// A controller has died.
    Died,
    /// Its owner asked.
    Asked,
    /// Tasks wake each other for ever, and no time passes.
    Livelock,
}

/// A cluster that is moved on by its owner.
pub struct FaultHarness {
    builder: Builder,
    now: Now,
    managers: Vec<Manager>,
    network: Arc<Network>,
    observer: Arc<dyn Observer>,
    connections: Connections,
    orphaned: Arc<Mutex<OrphanedRequests>>,
    orphaned_waker: Waker,
    /// A line has something to be looked after.
    needs_attention: Arc<AtomicBool>,
    has_replication_controllers: bool,
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
    /// A cluster with scheduler, kubelets and garbage collector, and no controller yet.
    ///
    /// # Panics
    /// When the settings ask for the threads engine.
    pub fn new(
        options: &SimOptions,
        mut server: ClusterOptions,
        observer: Arc<dyn Observer>,
    ) -> FaultHarness {
        assert_eq!(
            options.engine,
            EngineKind::Virtual,
            "fault injection needs virtual time"
        );
        // Servers that lag are a fault that any of its watches may meet.
        server.keeps_past = true;
        let mut builder = Builder::new(options.clone(), RealClock::start(), server);
        builder.nodes = Some(Arc::new(NodeControl::new(NODE_TIMES)));
        // Release: parts see the site as it was built.
        builder.started.store(true, Ordering::Release);
        builder.surroundings();
        let connections: Connections = Arc::default();
        let cluster = Arc::clone(&builder.cluster);
        let mut orphaned_waker = None;
        let orphaned = builder.add(|_, waker| {
            orphaned_waker = Some(waker);
            OrphanedRequests::new(&cluster, Arc::clone(&connections), Arc::clone(&observer))
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
            observer,
            connections,
            orphaned,
            orphaned_waker: orphaned_waker.expect("the task was added"),
            needs_attention: Arc::default(),
            has_replication_controllers: false,
        }
    }

    /// Controller managers that are started from now on look after ReplicationControllers as well.
    pub fn add_replication_controllers(&mut self) {
        self.has_replication_controllers = true;
    }

    /// Has a workload of the caller's run in the controller managers that are started from now on, over
    /// the cache of pods that they share: `make` makes it over that cache. Its Events say `component`.
    /// It gets as many workers as there are for ReplicaSets, and no probe.
    pub fn add_workload<W: Workload<Fields = RankFields>>(
        &mut self,
        component: &'static str,
        make: impl Fn(&Arc<PodCache>) -> W + Send + Sync + 'static,
    ) {
        self.builder.add_workload(component, make);
    }

    /// The API server.
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.builder.cluster
    }

    /// The present.
    pub fn now(&self) -> Now {
        self.now
    }

    /// What goes wrong with the nodes.
    pub fn nodes(&self) -> &Arc<NodeControl> {
        self.builder
            .nodes
            .as_ref()
            .expect("the nodes of this harness may fail")
    }

    /// What is armed against the requests of all controllers.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Starts a controller manager; answers its number.
    pub fn start_manager(&mut self) -> u32 {
        let incarnation = u32::try_from(self.managers.len()).expect("there are few controllers");
        let (flag, orphaned) = (
            Arc::clone(&self.needs_attention),
            Arc::clone(&self.orphaned_waker),
        );
        let needs_attention: Waker = Arc::new(move || {
            // Relaxed: all of this happens on one thread.
            flag.store(true, Ordering::Relaxed);
            orphaned();
        });
        let connection = Arc::new(Connection::new(
            Arc::clone(&self.network),
            incarnation,
            needs_attention,
        ));
        self.connections
            .lock()
            .expect("no thread panics while it holds this lock")
            .push(Arc::clone(&connection));
        let hooks = Hooks {
            connection: Arc::clone(&connection),
            observer: Arc::clone(&self.observer),
        };
        let builder = &mut self.builder;
        let tasks = builder.installed.len();
        let workers = builder.all_workers.len();
        let (runners, handlers) = builder.manager(self.has_replication_controllers, Some(&hooks));
        let tasks = builder.installed[tasks..].to_vec();
        for task in &tasks {
            builder.executor.wake(*task);
        }
        self.managers.push(Manager {
            connection,
            runners,
            handlers,
            tasks,
            workers: workers..builder.all_workers.len(),
            removed: false,
        });
        incarnation
    }

    /// The lines of the controllers that are alive, oldest first.
    pub fn alive(&self) -> Vec<Arc<Connection>> {
        let alive = self
            .managers
            .iter()
            .filter(|manager| !manager.connection.is_dead());
        alive
            .map(|manager| Arc::clone(&manager.connection))
            .collect()
    }

    /// The controllers that are alive, oldest first.
    pub fn controllers(&self) -> impl Iterator<Item = &Arc<Controller>> {
        let alive = self
            .managers
            .iter()
            .filter(|manager| !manager.connection.is_dead());
        alive.flat_map(|manager| manager.runners.iter().map(|runner| &runner.controller))
    }

    /// How many controllers were started so far.
    pub fn started(&self) -> usize {
        self.managers.len()
    }

    /// Lets every part of the controllers look at what their lines say now: to be called after a line
    /// was changed.
    pub fn wake_controllers(&self) {
        for manager in &self.managers {
            if !manager.removed {
                for task in &manager.tasks {
                    self.builder.executor.wake(*task);
                }
            }
        }
    }

    /// Whether no key waits, no sync is under way and no request goes on alone. Delayed keys don't
    /// count.
    pub fn rests(&self) -> bool {
        let alive = self
            .managers
            .iter()
            .filter(|manager| !manager.connection.is_dead());
        let orphaned = self
            .orphaned
            .lock()
            .expect("a task that panicked ends the run");
        orphaned.waiting() == 0
            && alive
                .flat_map(|manager| &manager.handlers)
                .all(|handler| handler.rests())
    }

    /// Moves on to `end_ns` of virtual time, doing all that is due on the way; stops earlier when a
    /// controller has died, or when `stop` holds, which is asked after every step.
    pub fn advance(&mut self, end_ns: i64, mut stop: impl FnMut() -> bool) -> Stopped {
        let mut runs = 0;
        loop {
            let executor = Arc::clone(&self.builder.executor);
            match virtual_time::step(&self.builder.tasks, &executor, self.now) {
                StepOutcome::Ran => {
                    runs += 1;
                    // Relaxed: all of this happens on one thread.
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

    /// Takes the parts of dead managers away. What they had on its way goes on alone.
    /// Whether there was one.
    fn remove_dead(&mut self) -> bool {
        let mut found = false;
        for manager in &mut self.managers {
            if manager.removed || !manager.connection.is_dead() {
                continue;
            }
            found = true;
            manager.removed = true;
            for worker in &self.builder.all_workers[manager.workers.clone()] {
                worker
                    .lock()
                    .expect("a task that panicked ends the run")
                    .abandon();
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
    }
}
