//! A cluster whose controllers can be disturbed, killed and started again: on virtual time, moved
//! on by its owner, one seed one run.
//!
//! The parts are those of every run. What is different: each controller manager has a line
//! ([`Line`]) that its requests and watches pass, a probe hears of its work, and what a dead
//! manager had on its way to the server arrives without it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use podstorm::cache::PodCache;
use podstorm::driver::Workload;
use podstorm::ranking::RankFields;
use podstorm::replicaset::Controller;
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::Now;

use super::pool::{Pool, Wire};
use super::probe::Probe;
use super::strays::{Lines, Strays};
use super::{Builder, Handlers};
use crate::clock::RealClock;
use crate::executor::virtual_time::{self, Step, WALL_START_NS};
use crate::executor::{PartId, Waker};
use crate::faults::{Line, Network};
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
    line: Arc<Line>,
    pools: Vec<Arc<Pool>>,
    handlers: Handlers,
    parts: Vec<PartId>,
    /// Its workers, by their place in the builder's list.
    workers: std::ops::Range<usize>,
    buried: bool,
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
    /// Parts wake each other for ever, and no time passes.
    Livelock,
}

/// A cluster that is moved on by its owner.
pub struct Site {
    builder: Builder,
    now: Now,
    managers: Vec<Manager>,
    network: Arc<Network>,
    probe: Arc<dyn Probe>,
    lines: Lines,
    strays: Arc<Mutex<Strays>>,
    strays_waker: Waker,
    /// A line has something to be looked after.
    told: Arc<AtomicBool>,
    has_replication_controllers: bool,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site")
            .field("now", &self.now)
            .field("managers", &self.managers.len())
            .finish_non_exhaustive()
    }
}

impl Site {
    /// A cluster with scheduler, kubelets and garbage collector, and no controller yet.
    ///
    /// # Panics
    /// When the settings ask for the threads engine.
    pub fn new(options: &SimOptions, mut server: ClusterOptions, probe: Arc<dyn Probe>) -> Site {
        assert_eq!(
            options.engine,
            EngineKind::Virtual,
            "a disturbed run needs virtual time"
        );
        // Servers that lag are a fault that any of its watches may meet.
        server.keeps_past = true;
        let mut builder = Builder::new(options.clone(), RealClock::start(), server);
        builder.nodes = Some(Arc::new(NodeControl::new(NODE_TIMES)));
        // Release: parts see the site as it was built.
        builder.started.store(true, Ordering::Release);
        builder.surroundings();
        let lines: Lines = Arc::default();
        let cluster = Arc::clone(&builder.cluster);
        let mut strays_waker = None;
        let strays = builder.add(|_, waker| {
            strays_waker = Some(waker);
            Strays::new(&cluster, Arc::clone(&lines), Arc::clone(&probe))
        });
        builder.parts.wake_all(&builder.switchboard);
        Site {
            builder,
            now: Now {
                mono_ns: 0,
                wall_ns: WALL_START_NS,
            },
            managers: Vec::new(),
            network: Arc::default(),
            probe,
            lines,
            strays,
            strays_waker: strays_waker.expect("the part was added"),
            told: Arc::default(),
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
            .expect("a site's nodes may fail")
    }

    /// What is armed against the requests of all controllers.
    pub fn network(&self) -> &Arc<Network> {
        &self.network
    }

    /// Starts a controller manager; answers its number.
    pub fn start_manager(&mut self) -> u32 {
        let incarnation = u32::try_from(self.managers.len()).expect("there are few controllers");
        let (flag, strays) = (Arc::clone(&self.told), Arc::clone(&self.strays_waker));
        let told: Waker = Arc::new(move || {
            // Relaxed: all of this happens on one thread.
            flag.store(true, Ordering::Relaxed);
            strays();
        });
        let line = Arc::new(Line::new(Arc::clone(&self.network), incarnation, told));
        self.lines
            .lock()
            .expect("no thread panics while it holds this lock")
            .push(Arc::clone(&line));
        let wire = Wire {
            line: Arc::clone(&line),
            probe: Arc::clone(&self.probe),
        };
        let builder = &mut self.builder;
        let parts = builder.installed.len();
        let workers = builder.abandoned.len();
        let (pools, handlers) = builder.manager(self.has_replication_controllers, Some(&wire));
        let parts = builder.installed[parts..].to_vec();
        for part in &parts {
            builder.switchboard.wake(*part);
        }
        self.managers.push(Manager {
            line,
            pools,
            handlers,
            parts,
            workers: workers..builder.abandoned.len(),
            buried: false,
        });
        incarnation
    }

    /// The lines of the controllers that are alive, oldest first.
    pub fn alive(&self) -> Vec<Arc<Line>> {
        let alive = self
            .managers
            .iter()
            .filter(|manager| !manager.line.is_dead());
        alive.map(|manager| Arc::clone(&manager.line)).collect()
    }

    /// The controllers that are alive, oldest first.
    pub fn controllers(&self) -> impl Iterator<Item = &Arc<Controller>> {
        let alive = self
            .managers
            .iter()
            .filter(|manager| !manager.line.is_dead());
        alive.flat_map(|manager| manager.pools.iter().map(|pool| &pool.controller))
    }

    /// How many controllers were started so far.
    pub fn started(&self) -> usize {
        self.managers.len()
    }

    /// Lets every part of the controllers look at what their lines say now: to be called after a line
    /// was changed.
    pub fn wake_controllers(&self) {
        for manager in &self.managers {
            if !manager.buried {
                for part in &manager.parts {
                    self.builder.switchboard.wake(*part);
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
            .filter(|manager| !manager.line.is_dead());
        let strays = self
            .strays
            .lock()
            .expect("a part that panicked ends the run");
        strays.waiting() == 0
            && alive
                .flat_map(|manager| &manager.handlers)
                .all(|handler| handler.rests())
    }

    /// Moves on to `end_ns` of virtual time, doing all that is due on the way; stops earlier when a
    /// controller has died, or when `stop` holds, which is asked after every step.
    pub fn advance(&mut self, end_ns: i64, mut stop: impl FnMut() -> bool) -> Stopped {
        let mut runs = 0;
        loop {
            let board = Arc::clone(&self.builder.switchboard);
            match virtual_time::step(&self.builder.parts, &board, self.now) {
                Step::Ran => {
                    runs += 1;
                    // Relaxed: all of this happens on one thread.
                    if self.told.swap(false, Ordering::Relaxed) && self.bury() {
                        return Stopped::Died;
                    }
                    if stop() {
                        return Stopped::Asked;
                    }
                    if runs > RUNS_PER_MOMENT {
                        return Stopped::Livelock;
                    }
                }
                Step::Due(due_ns) if due_ns <= end_ns => {
                    virtual_time::jump(&board, &mut self.now, due_ns);
                    runs = 0;
                }
                Step::Due(_) | Step::AtRest => {
                    self.now = self.now.plus_ns((end_ns - self.now.mono_ns).max(0));
                    return Stopped::AtEnd;
                }
            }
        }
    }

    /// Takes the parts of dead managers away. What they had on its way goes on alone.
    /// Whether there was one.
    fn bury(&mut self) -> bool {
        let mut found = false;
        for manager in &mut self.managers {
            if manager.buried || !manager.line.is_dead() {
                continue;
            }
            found = true;
            manager.buried = true;
            for worker in &self.builder.abandoned[manager.workers.clone()] {
                worker
                    .lock()
                    .expect("a part that panicked ends the run")
                    .abandon();
            }
            for part in &manager.parts {
                self.builder.parts.remove(*part);
            }
        }
        found
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.builder.switchboard.stop();
        self.builder.cluster.set_gc_waker(None);
    }
}
