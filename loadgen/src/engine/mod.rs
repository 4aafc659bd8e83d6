//! Runs one scenario on one simulated cluster: puts the parts together, lets a driver run them,
//! and gathers the result.
//!
//! ```text
//!  scenario ─writes─▶ cluster ◀─writes─ scheduler, kubelets, garbage collector
//!                     │    ▲
//!               watches    requests
//!                     ▼    │
//!               informers ─keys─▶ workers ─events─▶ event writer
//! ```
//!
//! Both engines run the same parts: [`virtual_time`] on one thread and a clock that jumps,
//! [`threads`] on several and a real one.

mod buckets;
pub mod by_phase;
mod client;
mod event_sink;
pub mod executor;
mod garbage;
mod gather;
mod host;
mod informer;
mod lab;
mod metrics;
mod observer;
mod pool;
pub mod probe;
mod sampler;
pub mod seed;
pub mod site;
mod strays;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod threads;
mod turns;
pub mod virtual_time;
mod watcher;
mod worker;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use podstorm::cache::PodCache;
use podstorm::client::QpsLimiter;
use podstorm::object::{Kind, Now, Time};
use podstorm::reflector::ReflectorOptions;
use podstorm::replicaset::{Controller, ControllerOptions, Gates};

use by_phase::{PhaseTimes, Recorded};
use client::{Client, Trip};
use event_sink::{EventQueue, EventWriter};
use executor::{Part, PartId, Parts, Switchboard, Waker};
use garbage::Garbage;
use gather::Harvest;
use informer::{Informer, Pods, ReplicaSets, ReplicationControllers};
use pool::{Pool, Timer, Wire};
use probe::Unheard;
use sampler::Figures;
use seed::seed_for;
use virtual_time::End;
use watcher::Watcher;
use worker::Worker;

pub(crate) use gather::seconds as quantiles_in_seconds;
pub use lab::Lab;
pub use metrics::Metrics;
pub use observer::{Observer, Progress};

use crate::clock::RealClock;
use crate::cluster::{Cluster, ClusterOptions};
use crate::faults::Line;
use crate::input::InputObject;
use crate::latency::LatencySampler;
use crate::nodes::{Kubelets, NodeControl, Scheduler};
use crate::result::{InputCounts, RunResult, Series};
use crate::scenario::{Controllers, Driver, Position};
use crate::settings::{EngineKind, Settings};
use crate::units::NS_PER_SECOND;

/// A run that could not be started.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// The settings can't be run, and why.
    #[error("{0}")]
    Settings(String),
}

/// Runs a scenario to its end, to the time limit, or until `cancel` is set, and reports on what
/// ran. The result's `host` is always filled in; whoever writes the result of a virtual run down
/// leaves it out unless it was asked for, since all else depends on settings and input alone.
///
/// # Errors
/// When the settings can't be run. A run that does not reach its condition is a result, not an
/// error.
pub fn run(
    settings: &Settings,
    objects: Vec<InputObject>,
    observer: &dyn Observer,
    cancel: &AtomicBool,
) -> Result<RunResult, RunError> {
    if settings.controller.concurrent_replicaset_syncs == 0 {
        return Err(RunError::Settings(
            "at least one concurrent sync is needed".into(),
        ));
    }
    let clock = RealClock::start();
    let input = gather::count_input(&objects);
    let wall_start_ns = wall_start_ns(&objects);
    let engine = Engine::build(settings, objects, clock);
    let metrics = engine.metrics();
    observer.begins(&metrics);
    let watcher = Watcher::new(observer, cancel, clock, engine.phases.clone(), metrics);
    engine
        .driver
        .lock()
        .expect("nothing runs yet")
        .tell_phases(Box::new(watcher.phase_begins()));
    let mut watcher = Watched {
        watcher,
        engine: &engine,
    };
    let limit_ns = settings.time_limit_ns;
    let (end, now) = match settings.engine {
        EngineKind::Virtual => {
            let times = (limit_ns, wall_start_ns);
            virtual_time::drive(&engine.parts, &engine.switchboard, times, &mut watcher)
        }
        EngineKind::Threads => threads::drive(
            &engine.parts,
            &engine.switchboard,
            settings.threads,
            &clock,
            limit_ns,
            |now| watcher.watcher.look(now),
            |now| engine.at_rest(now),
        ),
    };
    let series = watcher.watcher.finish(now);
    Ok(engine.harvest(settings, end, now, &clock, input, series))
}

/// 2200-01-01T00:00:00Z: what is later is no time at which anything has happened, and the clock of a run
/// that began there would not last.
const LATEST_SECONDS: i64 = 7_258_118_400;

/// Where the wall clock of a virtual run over these objects starts: not before anything in them happened,
/// or pods would have become ready in the future.
fn wall_start_ns(objects: &[InputObject]) -> i64 {
    let times = objects.iter().flat_map(|object| {
        let meta = object.metadata();
        let ready = match object {
            InputObject::Pod(pod) => pod.ready_time(),
            _ => Time::UNSET,
        };
        [meta.creation_timestamp, meta.deletion_timestamp, ready]
    });
    let known = times.filter_map(|time| time.unix_seconds());
    let newest = known.filter(|seconds| *seconds < LATEST_SECONDS).max();
    newest
        .map_or(0, |seconds| seconds * NS_PER_SECOND)
        .max(virtual_time::WALL_START_NS)
}

/// Everything of a run.
struct Engine {
    switchboard: Arc<Switchboard>,
    parts: Parts,
    cluster: Arc<Cluster>,
    pools: Vec<Arc<Pool>>,
    workers: Vec<Arc<Mutex<Worker>>>,
    writers: Vec<Arc<Mutex<EventWriter>>>,
    recorded: Arc<Mutex<Recorded>>,
    driver: Arc<Mutex<Driver>>,
    wake_driver: Option<Waker>,
    delivered: Arc<AtomicU64>,
    phases: Vec<String>,
    position: Arc<Position>,
    /// Of the machine, before the run.
    load_before: Option<[f64; 3]>,
}

/// A virtual run that is watched, and whose scenario hears that nothing is left to happen.
struct Watched<'a> {
    watcher: Watcher<'a>,
    engine: &'a Engine,
}

impl virtual_time::Watch for Watched<'_> {
    #[inline]
    fn step(&mut self, now: Now) -> bool {
        self.watcher.step(now)
    }

    #[inline]
    fn jump(&mut self, now: Now, due_ns: i64) {
        self.watcher.jump(now, due_ns);
    }

    fn at_rest(&mut self, now: Now) -> bool {
        self.engine.at_rest(now)
    }
}

/// Collects the parts of a run, and adds controllers to it.
struct Builder {
    settings: Settings,
    /// Where nodes may fail.
    nodes: Option<Arc<NodeControl>>,
    clock: Option<RealClock>,
    switchboard: Arc<Switchboard>,
    parts: Parts,
    cluster: Arc<Cluster>,
    started: Arc<AtomicBool>,
    delivered: Arc<AtomicU64>,
    informer_wakers: Vec<Waker>,
    workers: Vec<Arc<Mutex<Worker>>>,
    writers: Vec<Arc<Mutex<EventWriter>>>,
    times: Arc<PhaseTimes>,
    recorded: Arc<Mutex<Recorded>>,
    /// The parts installed so far, in that order.
    installed: Vec<PartId>,
}

impl Builder {
    /// An empty cluster in which nothing acts yet.
    fn new(settings: &Settings, clock: RealClock, options: ClusterOptions) -> Builder {
        Builder {
            settings: settings.clone(),
            nodes: None,
            clock: (settings.engine == EngineKind::Threads).then_some(clock),
            switchboard: Arc::default(),
            parts: Parts::default(),
            cluster: Arc::new(Cluster::new(options)),
            started: Arc::default(),
            delivered: Arc::default(),
            informer_wakers: Vec::new(),
            workers: Vec::new(),
            writers: Vec::new(),
            times: Arc::new(PhaseTimes::new(settings.scenario.phases.len())),
            recorded: Arc::default(),
            installed: Vec::new(),
        }
    }

    /// Everything around the controllers: scheduler, kubelets, garbage collector.
    fn surroundings(&mut self) {
        let (settings, cluster) = (self.settings.clone(), Arc::clone(&self.cluster));
        let nodes = self.nodes.clone();
        self.add(|_, waker| {
            let latency = settings.latency.scheduling;
            let scheduler = Scheduler::new(Arc::clone(&cluster), latency, settings.seed, waker);
            match &nodes {
                Some(_) => scheduler.with_node_faults(),
                None => scheduler,
            }
        });
        let shards = match settings.engine {
            EngineKind::Virtual => 1,
            EngineKind::Threads => settings.threads.max(1),
        };
        for shard in 0..shards {
            self.add(|_, waker| {
                let place = (shard, shards);
                let (cluster, latency) = (Arc::clone(&cluster), &settings.latency);
                let again = Arc::clone(&waker);
                let kubelets = Kubelets::new(cluster, latency, settings.seed, place, waker);
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
    fn add<P: Part + 'static>(&mut self, make: impl FnOnce(PartId, Waker) -> P) -> Arc<Mutex<P>> {
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
    fn add_worker(&mut self, pool: Arc<Pool>, trip: Trip) {
        let id = self.switchboard.reserve_late();
        let worker = Arc::new(Mutex::new(Worker::new(id, pool, trip)));
        self.install(id, Arc::clone(&worker) as Arc<Mutex<dyn Part>>);
        self.workers.push(worker);
    }

    fn seed(&self, user: &str, number: u64) -> u64 {
        seed_for(self.settings.seed, user, number)
    }

    fn trip(&self, user: &str, number: u64) -> Trip {
        let latency = LatencySampler::new(self.settings.latency.api, self.seed(user, number));
        let errors_seed = self.seed("errors", self.seed(user, number));
        Trip::new(latency).with_errors(self.settings.api_errors, errors_seed)
    }

    /// A controller manager: its caches, its controllers with their workers, its informers, which
    /// wait for `started`. `wire` is there in a run that is disturbed or watched over.
    fn manager(
        &mut self,
        with_replication_controllers: bool,
        wire: Option<&Wire>,
    ) -> Vec<Arc<Pool>> {
        let cache: Arc<PodCache> = Arc::default();
        let workers = self.settings.controller.concurrent_replicaset_syncs;
        let kind = Kind::ReplicaSet;
        let rs = self.controller(kind, "replicaset-controller", workers, &cache, wire);
        self.informer(ReplicaSets(Arc::clone(&rs)), 0, wire);
        let mut pools = vec![rs];
        // Without a ReplicationController in the run its controller would only hear of pods that
        // are none of its business.
        if with_replication_controllers {
            let workers = self.settings.controller.concurrent_rc_syncs;
            let kind = Kind::ReplicationController;
            let rc = self.controller(kind, "replication-controller", workers, &cache, wire);
            self.informer(ReplicationControllers(Arc::clone(&rc)), 1, wire);
            pools.push(rc);
        }
        let listener = Pods {
            cache,
            pools: pools.clone(),
        };
        self.informer(listener, 2, wire);
        pools
    }

    /// A controller with its workers, its timer and its event writer.
    fn controller(
        &mut self,
        kind: Kind,
        component: &'static str,
        workers: usize,
        cache: &Arc<PodCache>,
        wire: Option<&Wire>,
    ) -> Arc<Pool> {
        let told = &self.settings.controller;
        let options = ControllerOptions {
            kind,
            burst_replicas: told.burst_replicas as usize,
            gates: Gates {
                pod_deletion_cost: told.gate("PodDeletionCost"),
                terminating_replicas: told.gate("DeploymentReplicaSetTerminatingReplicas"),
                stale_controller_consistency: told.gate("StaleControllerConsistencyReplicaSet"),
            },
            behaviour: self.settings.behaviour,
        };
        let limiter = told
            .kube_api_qps
            .map(|qps| QpsLimiter::new(qps as f32, told.kube_api_burst));
        let client = Arc::new(Client::new(Arc::clone(&self.cluster), kind, limiter));
        let sink = self.switchboard.reserve();
        let timer = self.switchboard.reserve();
        let events = Arc::new(EventQueue::new(Arc::clone(&self.switchboard), sink));
        let pool = Pool::new(
            Arc::new(Controller::new(options, Arc::clone(cache))),
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
        for number in 0..workers.max(1) {
            let trip = self.trip(component, first + number as u64);
            self.add_worker(Arc::clone(&pool), trip);
        }
        pool
    }

    fn informer<L: informer::Listener + 'static>(
        &mut self,
        listener: L,
        number: u64,
        wire: Option<&Wire>,
    ) {
        let first = wire.map_or(0, |wire| u64::from(wire.line.incarnation()) << 32);
        let latency = (
            self.settings.latency.watch,
            self.seed("watch", first + number),
        );
        let (cluster, started) = (Arc::clone(&self.cluster), Arc::clone(&self.started));
        let delivered = Arc::clone(&self.delivered);
        let line = wire.map(|wire| Arc::clone(&wire.line));
        let (policy, usual) = (
            self.settings.behaviour.policy(),
            ReflectorOptions::default(),
        );
        let reflector = ReflectorOptions {
            streaming: self.settings.controller.gate("WatchListClient"),
            backoff_max_ns: policy.watch_retry_max_ns.unwrap_or(usual.backoff_max_ns),
            ..usual
        };
        let mut informer_waker = None;
        self.add(|_, waker| {
            informer_waker = Some(Arc::clone(&waker));
            let how = (line, reflector);
            Informer::new(cluster, listener, latency, waker, started, delivered, how)
        });
        self.informer_wakers.extend(informer_waker);
    }
}

/// All parts of a run but the one that drives its scenario. Informers wait for `started`.
fn assemble(
    settings: &Settings,
    clock: RealClock,
    with_replication_controllers: bool,
    wire: Option<&Wire>,
    nodes: Option<Arc<NodeControl>>,
) -> (Builder, Vec<Arc<Pool>>) {
    let options = ClusterOptions {
        seed: seed_for(settings.seed, "cluster", 0),
        ..ClusterOptions::default()
    };
    let mut builder = Builder::new(settings, clock, options);
    builder.nodes = nodes;
    let pools = builder.manager(with_replication_controllers, wire);
    builder.surroundings();
    (builder, pools)
}

impl Engine {
    fn build(settings: &Settings, objects: Vec<InputObject>, clock: RealClock) -> Engine {
        let is_rc = |object: &InputObject| object.kind() == Kind::ReplicationController;
        // Nobody has to be told: no scenario kills its controller.
        let scenario = &settings.scenario;
        let nodes = scenario
            .has_node_faults()
            .then(|| Arc::new(NodeControl::default()));
        let line = scenario
            .is_disturbed()
            .then(|| Arc::new(Line::new(Arc::default(), 0, Arc::new(|| {}))));
        let wire = line.as_ref().map(|line| Wire {
            line: Arc::clone(line),
            probe: Arc::new(Unheard),
        });
        let with_rcs = objects.iter().any(is_rc);
        let (mut builder, pools) =
            assemble(settings, clock, with_rcs, wire.as_ref(), nodes.clone());
        let cluster = Arc::clone(&builder.cluster);
        let quiet = pools.clone();
        let controllers = Controllers {
            started: Arc::clone(&builder.started),
            wake: builder.informer_wakers.clone(),
            line,
            nodes,
            times: Arc::clone(&builder.times),
            rests_after: Box::new(move |parents| {
                // The parents of all kinds together: with two controllers neither has them all.
                let parents = if quiet.len() == 1 { parents } else { 0 };
                // What was listed is queued before the caches count as filled.
                quiet
                    .iter()
                    .all(|pool| pool.is_synced() && pool.rests_after(parents))
            }),
            phase_begins: None,
        };
        let switchboard = Arc::clone(&builder.switchboard);
        let mut wake_driver = None;
        let driver = builder.add(|_, waker| {
            wake_driver = Some(Arc::clone(&waker));
            let (cluster, switchboard) = (Arc::clone(&cluster), Arc::clone(&switchboard));
            Driver::new(settings, objects, cluster, switchboard, controllers, waker)
        });
        let (phases, position) = {
            let driver = driver.lock().expect("nobody else has it yet");
            (driver.phase_names(), driver.position())
        };
        let Builder {
            switchboard,
            parts,
            cluster,
            delivered,
            workers,
            writers,
            recorded,
            ..
        } = builder;
        Engine {
            switchboard,
            parts,
            cluster,
            pools,
            workers,
            writers,
            recorded,
            driver,
            wake_driver,
            delivered,
            phases,
            position,
            load_before: host::load_average(),
        }
    }

    /// Nothing is left to happen by itself: whether the scenario goes on.
    fn at_rest(&self, now: Now) -> bool {
        let driver = self.driver.lock();
        let mut driver = driver.expect("a part that panicked ends the run");
        let goes_on = driver.nothing_left(now);
        drop(driver);
        self.wake_driver.iter().for_each(|wake| wake());
        goes_on
    }

    /// What is read of the run while it goes on.
    fn metrics(&self) -> Metrics {
        let of_worker = |worker: &Arc<Mutex<Worker>>| {
            let worker = worker.lock().expect("nothing runs yet");
            worker.tally.calls.total()
        };
        let of_writer = |writer: &Arc<Mutex<EventWriter>>| {
            let writer = writer.lock().expect("nothing runs yet");
            writer.calls.total()
        };
        let workers = self.workers.iter().map(of_worker);
        let figures = Figures {
            cluster: Arc::clone(&self.cluster),
            pools: self.pools.clone(),
            position: Arc::clone(&self.position),
            calls: workers.chain(self.writers.iter().map(of_writer)).collect(),
        };
        Metrics {
            figures,
            workers: self.workers.clone(),
            writers: self.writers.clone(),
            now_ns: Arc::new(AtomicI64::new(0)),
        }
    }

    fn harvest(
        self,
        settings: &Settings,
        end: End,
        now: Now,
        clock: &RealClock,
        input: InputCounts,
        series: Series,
    ) -> RunResult {
        self.cluster.set_gc_waker(None);
        let harvest = Harvest {
            settings,
            end,
            now,
            wall_seconds: clock.seconds(),
            load_before: self.load_before,
            series,
            input,
            cluster: &self.cluster,
            pools: &self.pools,
            workers: &self.workers,
            writers: &self.writers,
            recorded: &self.recorded,
            // Relaxed: the threads that counted have ended.
            watch_events: self.delivered.load(Ordering::Relaxed),
        };
        let mut driver = self
            .driver
            .lock()
            .expect("a part that panicked ends the run");
        harvest.result(driver.report(now))
    }
}
