//! Watches a run from the outside: shows progress, takes samples, and checks for cancellation.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use podstorm_objects::Now;
use podstorm_sim::clock::RealClock;
use podstorm_sim::executor::TaskId;
use podstorm_sim::executor::virtual_time::RunObserver;

use super::sampler::Sampler;
use super::{Engine, Observer, Progress};
use crate::result::Series;
use crate::units::NS_PER_SECOND;

/// The time between two calls of the observer, in seconds of real time.
const PROGRESS_EVERY_SECONDS: f64 = 0.2;

/// The engine time without a write after which a cluster from files counts as being at rest, even
/// though controllers still sync objects now and then: the Deployment controller syncs a complete
/// rollout that lost a pod ten times a second. Failed requests are retried sooner, seven times.
const STILL_NS: i64 = NS_PER_SECOND;

/// The real time without a write after which a run reports what it waits for, in seconds.
const WAITS_AFTER_SECONDS: f64 = 5.0;

/// How many tasks of a virtual run are run between two checks of the outside world.
const STEPS_PER_LOOK: u64 = 1024;

/// The watcher of one run.
pub(super) struct Watcher<'a> {
    observer: &'a dyn Observer,
    cancel: &'a AtomicBool,
    clock: RealClock,
    engine: &'a Engine,
    /// The sampler. The scenario's driver shares it, to report the beginning of phases. The fields
    /// below say what is due, so the lock is taken only for samples.
    sampler: Arc<Mutex<Sampler>>,
    /// Set when a phase has begun, which changes when samples are due.
    phase_began: Arc<AtomicBool>,
    due_ns: u64,
    shown_at: f64,
    /// For a virtual run: the number of tasks that were run, the number at which a sample or a
    /// check is due, and the number at which the outside world must be checked.
    steps: u64,
    next_step: u64,
    next_look: u64,
    /// How long the cluster has not changed; `None` unless the cluster comes from files.
    stillness: Option<Stillness>,
    /// The last seen version of the cluster; since when it is the last, in seconds of real time;
    /// and whether the stall was reported.
    stalled: (u64, f64, bool),
}

/// For how long a cluster has not changed.
struct Stillness {
    /// The tasks that queue the delayed keys of the controllers.
    timers: Vec<TaskId>,
    version: u64,
    since_ns: i64,
    /// Whether the cluster was at rest at this version, but the scenario did not continue.
    judged: bool,
}

impl Stillness {
    /// Reports whether the time without a write until `until_ns` is so long that no write will
    /// follow.
    fn holds(&mut self, engine: &Engine, now_ns: i64, until_ns: i64) -> bool {
        let version = engine.metrics.sources.cluster.resource_version();
        if version != self.version {
            (self.version, self.since_ns, self.judged) = (version, now_ns, false);
        }
        !self.judged
            && until_ns - self.since_ns >= STILL_NS
            && engine.executor.is_at_rest_but_for(&self.timers)
    }
}

impl<'a> Watcher<'a> {
    /// Creates the watcher of a run that begins now.
    pub(super) fn new(
        observer: &'a dyn Observer,
        cancel: &'a AtomicBool,
        clock: RealClock,
        engine: &'a Engine,
    ) -> Watcher<'a> {
        let sampler = Sampler::new(engine.metrics.sources.clone());
        Watcher {
            observer,
            cancel,
            clock,
            engine,
            next_step: sampler.due_steps(),
            due_ns: sampler.due_ns(),
            sampler: Arc::new(Mutex::new(sampler)),
            phase_began: Arc::default(),
            shown_at: f64::NEG_INFINITY,
            steps: 0,
            next_look: STEPS_PER_LOOK,
            stillness: engine.has_files.then(|| Stillness {
                timers: engine.timers(),
                version: 0,
                since_ns: 0,
                judged: false,
            }),
            stalled: (0, 0.0, false),
        }
    }

    /// Reports whether the scenario continues now because nothing else will happen until
    /// `until_ns`. Its task was then woken.
    fn goes_on(&mut self, now: Now, until_ns: i64) -> bool {
        let Some(stillness) = &mut self.stillness else {
            return false;
        };
        if !stillness.holds(self.engine, now.mono_ns, until_ns) {
            return false;
        }
        let goes_on = self.engine.at_rest(now);
        stillness.judged = !goes_on;
        goes_on
    }

    /// Tells the observer what the run waits for if nothing was written for a while.
    fn tell_stall(&mut self, seconds: f64) {
        let version = self.engine.metrics.sources.cluster.resource_version();
        let (seen, since, said) = &mut self.stalled;
        if version != *seen {
            self.stalled = (version, seconds, false);
        } else if !*said && seconds - *since >= WAITS_AFTER_SECONDS {
            *said = true;
            let driver = self.engine.driver.lock();
            let driver = driver.expect("a panic in a task ends the run");
            if let Some(what) = driver.what_is_missing() {
                drop(driver);
                self.observer.waits(&what);
            }
        }
    }

    /// Called repeatedly by the executor of a run in real time. Returns false when the run must be
    /// cancelled.
    pub(super) fn look(&mut self, now: Now) -> bool {
        // On several threads, work is measured in writes, so that a short ramp is not lost among
        // hours in which little happens.
        let work = self.engine.metrics.sources.cluster.resource_version();
        self.sampler().look(now.mono_ns, now.mono_ns, work);
        self.goes_on(now, now.mono_ns);
        self.look_outside(now)
    }

    /// Returns the function to call when a phase begins.
    pub(super) fn phase_begins(&self) -> impl Fn(Now) + Send + use<> {
        let (sampler, flag) = (Arc::clone(&self.sampler), Arc::clone(&self.phase_began));
        move |now| {
            locked(&sampler).phase_begins(now.mono_ns);
            // Relaxed: on virtual time the flag is read on the same thread, otherwise it is not
            // read.
            flag.store(true, Ordering::Relaxed);
        }
    }

    fn sampler(&self) -> MutexGuard<'_, Sampler> {
        locked(&self.sampler)
    }

    /// Takes a sample if one is due, and determines when the next one is.
    fn sample(&mut self, at_ns: i64, until_ns: i64) {
        let mut sampler = locked(&self.sampler);
        sampler.look(at_ns, until_ns, self.steps);
        self.due_ns = sampler.due_ns();
        self.next_step = sampler.due_steps().min(self.next_look);
    }

    /// Shows the final progress and returns the time series.
    pub(super) fn finish(self, now: Now) -> Series {
        self.show(now);
        self.sampler().finish(now.mono_ns, self.engine.phases.len())
    }

    /// Shows progress if it is due. Returns false when the run must be cancelled.
    fn look_outside(&mut self, now: Now) -> bool {
        self.note_time(now.mono_ns);
        let seconds = self.clock.seconds();
        if seconds - self.shown_at >= PROGRESS_EVERY_SECONDS {
            self.shown_at = seconds;
            self.show(now);
            self.tell_stall(seconds);
        }
        // Relaxed: no other data depends on the flag.
        !self.cancel.load(Ordering::Relaxed)
    }

    #[cold]
    fn due_at_step(&mut self, now: Now) -> bool {
        // Relaxed: see the store.
        self.phase_began.store(false, Ordering::Relaxed);
        let looks = self.steps >= self.next_look;
        if looks {
            self.next_look = self.steps + STEPS_PER_LOOK;
        }
        self.sample(now.mono_ns, now.mono_ns);
        !looks || self.look_outside(now)
    }

    /// Stores the time for readers of the metrics.
    fn note_time(&self, now_ns: i64) {
        // Relaxed: no other data depends on the number.
        self.engine.metrics.now_ns.store(now_ns, Ordering::Relaxed);
    }

    fn show(&self, now: Now) {
        let (sources, phases) = (&self.engine.metrics.sources, &self.engine.phases);
        let position = &sources.position;
        // Relaxed: no other data depends on the numbers.
        let phase_index = position
            .phase
            .load(Ordering::Relaxed)
            .min(phases.len().saturating_sub(1));
        let queues = sources.runners.iter().flat_map(|runner| runner.queues());
        let calls = sources.calls.iter();
        let totals = sources.cluster.pod_totals();
        self.observer.progress(&Progress {
            phase: phases.get(phase_index).map_or("", String::as_str),
            phase_index,
            phase_count: phases.len(),
            done: position.done.load(Ordering::Relaxed),
            total: position.total.load(Ordering::Relaxed),
            pods: position.pods.load(Ordering::Relaxed),
            ready: position.ready.load(Ordering::Relaxed),
            desired: position.desired.load(Ordering::Relaxed),
            created: totals.created,
            deleted: totals.deleted,
            api_calls: calls.map(|total| total.value()).sum(),
            queue_depth: queues.map(|queue| queue.len()).sum(),
            engine_seconds: now.mono_ns as f64 / 1e9,
        });
    }
}

fn locked(sampler: &Mutex<Sampler>) -> MutexGuard<'_, Sampler> {
    sampler
        .lock()
        .expect("no thread panics while it holds this lock")
}

impl RunObserver for Watcher<'_> {
    #[inline]
    fn step(&mut self, now: Now) -> bool {
        self.steps += 1;
        // Relaxed: see the store.
        let is_due = self.steps >= self.next_step || self.phase_began.load(Ordering::Relaxed);
        !is_due || self.due_at_step(now)
    }

    #[inline]
    fn jump(&mut self, now: Now, due_ns: i64) -> bool {
        if self.stillness.is_some() && self.goes_on(now, due_ns) {
            return false;
        }
        if u64::try_from(due_ns).is_ok_and(|due_ns| due_ns >= self.due_ns) {
            self.note_time(due_ns);
            self.sample(now.mono_ns, due_ns);
        }
        true
    }

    fn at_rest(&mut self, now: Now) -> bool {
        self.engine.at_rest(now)
    }
}
