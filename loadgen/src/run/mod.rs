//! Runs one scenario on one simulated cluster: assembles the tasks, lets an executor run them, and
//! gathers the result.
//!
//! ```text
//!  scenario ─writes─▶ cluster ◀─writes─ scheduler, kubelets, garbage collector
//!                     │    ▲
//!               watches    requests
//!                     ▼    │
//!               informers ─keys─▶ workers ─events─▶ event writer
//! ```
//!
//! Both engines run the same tasks: [`podstorm_sim::executor::virtual_time`] on one thread with a
//! clock that jumps, [`podstorm_sim::executor::threads`] on several threads with the real clock.

mod buckets;
mod gather;
mod host;
mod metrics;
mod observer;
mod phases;
mod sampler;
#[cfg(test)]
mod tests;
mod watcher;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex};

use podstorm::row::{ControllerRow, RunsIn};
use podstorm_objects::{Kind, Now, Time};
use podstorm_sim::clock::RealClock;
use podstorm_sim::engine::by_phase::Recorded;
use podstorm_sim::engine::event_sink::EventWriter;
use podstorm_sim::engine::worker::AnyWorker;
use podstorm_sim::engine::{Builder, assemble};
use podstorm_sim::executor::virtual_time;
use podstorm_sim::executor::{Executor, TaskId, Tasks, Waker, threads};
use podstorm_sim::faults::Connection;
use podstorm_sim::nodes::{ClientRules, NodeControl, NodeTimes, Scheduler, StuckPods};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers as Running;

use phases::{Controllers, Driver, UNPULLABLE};
use sampler::Sources;
use watcher::Watcher;

pub use metrics::Metrics;
pub use observer::{Observer, Progress};

use crate::input::InputObject;
use crate::result::RunResult;
use crate::settings::{EngineKind, Settings};
use crate::units::NS_PER_SECOND;
use crate::workloads;

/// Runs a scenario until it ends, the time limit is reached, or `cancel` is set, and returns the
/// result so far. The result's `host` is always set. The command omits it from the output of
/// virtual runs by default, because everything else depends only on settings and input.
///
/// # Panics
/// Panics if code has set a feature gate that is [unknown or locked](Rows::check_gates). Gates from
/// text are checked when they are parsed.
pub fn run(
    settings: &Settings,
    objects: Vec<InputObject>,
    observer: &dyn Observer,
    cancel: &AtomicBool,
) -> RunResult {
    let clock = RealClock::start();
    let input = gather::count_input(&objects);
    let wall_start_ns = wall_start_ns(&objects);
    let serves = observer.serves() && settings.engine == EngineKind::Threads;
    let engine = Engine::build(settings, objects, clock, serves);
    observer.begins(&engine.metrics);
    if serves {
        observer.serve(&engine.metrics.sources.cluster, clock, &engine.metrics);
    }
    let mut watcher = Watcher::new(observer, cancel, clock, &engine);
    engine
        .driver
        .lock()
        .expect("no task runs yet")
        .tell_phases(Box::new(watcher.phase_begins()));
    let limit_ns = settings.time_limit_ns;
    let (end, now) = match settings.engine {
        EngineKind::Virtual => virtual_time::drive(
            &engine.tasks,
            &engine.executor,
            limit_ns,
            wall_start_ns,
            &mut watcher,
        ),
        EngineKind::Threads => threads::drive(
            &engine.tasks,
            &engine.executor,
            settings.threads,
            &clock,
            limit_ns,
            |now| watcher.look(now),
            |now| engine.at_rest(now),
        ),
    };
    let series = watcher.finish(now);
    engine.harvest(settings, end, now, clock.seconds(), input, series)
}

/// 2200-01-01T00:00:00Z. Later times in objects are ignored: they are in the future, and the clock
/// of a run that began then could overflow.
const LATEST_SECONDS: i64 = 7_258_118_400;

/// Returns the wall-clock time at which a virtual run with these objects starts, in ns. It is not
/// before any event in the objects: otherwise, pods would have become ready in the future.
pub(crate) fn wall_start_ns(objects: &[InputObject]) -> i64 {
    let times = objects.iter().flat_map(|object| {
        let meta = object.metadata();
        let ready = match object {
            InputObject::Pod(pod) => pod.ready_time(),
            _ => Time::UNSET,
        };
        // `deletionTimestamp` is the end of the grace period. The deletion itself came before it.
        let grace = meta.deletion_grace_period_seconds.get().unwrap_or(0);
        let deletion = meta.deletion_timestamp.unix_seconds();
        let deleted = deletion.map(|end| end.saturating_sub(grace));
        let known = [meta.creation_timestamp, ready].map(|time| time.unix_seconds());
        known.into_iter().chain([deleted])
    });
    let known = times.flatten();
    let newest = known.filter(|seconds| *seconds < LATEST_SECONDS).max();
    newest
        .map_or(0, |seconds| seconds * NS_PER_SECOND)
        .max(virtual_time::WALL_START_NS)
}

/// The tasks of a run and the state that they share.
struct Engine {
    executor: Arc<Executor>,
    tasks: Tasks,
    /// The metrics, which may be read during the run.
    metrics: Metrics,
    recorded: Arc<Mutex<Recorded>>,
    scheduler: Option<Arc<Mutex<Scheduler>>>,
    driver: Arc<Mutex<Driver>>,
    wake_driver: Option<Waker>,
    /// Whether the cluster comes from files.
    has_files: bool,
    delivered: Arc<AtomicU64>,
    phases: Vec<String>,
    /// The resource usage at the start of the run.
    before: host::Before,
}

impl Engine {
    fn build(
        settings: &Settings,
        objects: Vec<InputObject>,
        clock: RealClock,
        keeps_past: bool,
    ) -> Engine {
        let before = host::Before::now();
        let scenario = &settings.scenario;
        let unpullable = scenario.sets_unpullable_images();
        let finishing = settings.finishing();
        let nodes = match unpullable || finishing.is_some() {
            true => {
                let images = unpullable.then(|| format!("*{UNPULLABLE}"));
                let rules = ClientRules {
                    unpullable_images: images.into_iter().collect(),
                    finishing,
                    ..ClientRules::default()
                };
                Some(NodeControl::for_clients(NodeTimes::default(), rules).brief())
            }
            false => scenario.has_node_faults().then(NodeControl::default),
        };
        let nodes = nodes.map(Arc::new);
        let connection = scenario
            .is_disturbed()
            .then(|| Arc::new(Connection::new(Arc::default(), 0, Arc::new(|| {}))));
        // A controller without objects of its own kind would only see unrelated objects. Claims
        // need all the controllers that handle them in a served cluster.
        let kinds_of_claims = [Kind::PERSISTENT_VOLUME_CLAIM, Kind::PERSISTENT_VOLUME];
        let has_claims = objects.iter().any(|it| {
            it.kind() == kinds_of_claims[0]
                || !workloads::claim_templates(it.as_object()).is_empty()
        });
        let is_budget = |it: &InputObject| it.kind() == Kind::POD_DISRUPTION_BUDGET;
        let has_budgets = scenario.creates_budgets() || objects.iter().any(is_budget);
        let counts_budgets = has_budgets && scenario.evicts_pods();
        let is_needed = |row: &ControllerRow| {
            let is_there = |kind| {
                let workload = workloads::for_kind(kind);
                workload.is_some_and(|workload| settings.generates(workload))
                    || objects.iter().any(|object| object.kind() == kind)
            };
            if row.kind.is_some_and(|kind| kinds_of_claims.contains(&kind)) {
                return has_claims;
            }
            if row.kind == Some(Kind::POD_DISRUPTION_BUDGET) {
                return counts_budgets;
            }
            let is_of_cluster = row.runs_in != RunsIn::Manager;
            !row.served_only && (is_of_cluster || row.kind.is_some_and(is_there))
        };
        let mut options = settings.sim_options();
        options.keeps_past = keeps_past;
        options.services.controllers = Running::that(Rows::installed(), is_needed);
        let pods = objects.iter().filter_map(|object| match object {
            InputObject::Pod(pod) => Some(&**pod),
            _ => None,
        });
        let stuck = match settings.start_stuck_pods {
            true => None,
            false => StuckPods::among(pods).map(Arc::new),
        };
        let has_files = !objects.is_empty();
        let (mut builder, runners) = assemble(
            options,
            clock,
            connection.as_ref(),
            nodes.clone(),
            stuck.clone(),
        );
        let cluster = Arc::clone(&builder.cluster);
        let (quiet, retrying) = (runners.clone(), runners.clone());
        let caches = builder.caches.clone();
        let controllers = Controllers {
            started: Arc::clone(&builder.started),
            wake: builder.informer_wakers.clone(),
            connection,
            nodes,
            times: Arc::clone(&builder.times),
            rests_after: Box::new(move |workloads| {
                // The number includes the workloads of all kinds, so it is useless if there are
                // several controllers.
                let workloads = if quiet.len() == 1 { workloads } else { 0 };
                // The caches must be filled and all listed objects queued first.
                quiet
                    .iter()
                    .all(|runner| runner.is_synced() && runner.rests_after(workloads))
            }),
            retries: Box::new(move || retrying.iter().any(|runner| runner.has_retries())),
            pods_cached: Box::new(move || caches.as_ref().map_or(0, |caches| caches.pods.len())),
            phase_begins: None,
        };
        let executor = Arc::clone(&builder.executor);
        let mut wake_driver = None;
        let driver = builder.add(|_, waker| {
            wake_driver = Some(Arc::clone(&waker));
            let (cluster, executor) = (Arc::clone(&cluster), Arc::clone(&executor));
            Driver::new(
                settings,
                objects,
                cluster,
                executor,
                stuck,
                controllers,
                waker,
            )
        });
        let (phases, position) = {
            let driver = driver.lock().expect("no other thread has a reference yet");
            (driver.phase_names(), driver.position())
        };
        let Builder {
            executor,
            tasks,
            cluster,
            delivered,
            workers,
            writers,
            scheduler,
            recorded,
            caches,
            ..
        } = builder;
        let of_worker = |worker: &Arc<Mutex<dyn AnyWorker>>| {
            let worker = worker.lock().expect("no task runs yet");
            worker.calls().total()
        };
        let of_writer = |writer: &Arc<Mutex<EventWriter>>| {
            let writer = writer.lock().expect("no task runs yet");
            writer.calls.total()
        };
        let calls = workers.iter().map(of_worker);
        let calls = calls.chain(writers.iter().map(of_writer)).collect();
        Engine {
            executor,
            tasks,
            metrics: Metrics {
                sources: Sources {
                    cluster,
                    runners,
                    position,
                    calls,
                },
                caches,
                workers,
                writers,
                now_ns: Arc::new(AtomicI64::new(0)),
            },
            recorded,
            scheduler,
            driver,
            wake_driver,
            has_files,
            delivered,
            phases,
            before,
        }
    }

    /// Returns the tasks that queue the delayed keys of the controllers.
    fn timers(&self) -> Vec<TaskId> {
        let runners = self.metrics.sources.runners.iter();
        runners.flat_map(|runner| runner.timers()).collect()
    }

    /// Called when no task is running, queued or delayed. Returns whether the scenario continues.
    fn at_rest(&self, now: Now) -> bool {
        let driver = self.driver.lock();
        let mut driver = driver.expect("a panic in a task ends the run");
        let goes_on = driver.nothing_left(now);
        drop(driver);
        self.wake_driver.iter().for_each(|wake| wake());
        goes_on
    }
}
