//! A cluster with everything running, driven from outside: no scenario, but a caller who writes to
//! the cluster and waits for what comes of it.
//!
//! On the virtual engine nothing happens but inside of [`Harness::until`] and [`Harness::settle`], and the
//! clock moves only there; on threads everything goes on by itself.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use podstorm::cache::PodCache;
use podstorm::driver::Workload;
use podstorm::ranking::RankFields;
use podstorm_apiserver::Cluster;
use podstorm_objects::Now;

use super::{Builder, Handlers, assemble_with};
use crate::clock::RealClock;
use crate::executor::virtual_time::StepOutcome;
use crate::executor::{Executor, Tasks};
use crate::executor::{threads, virtual_time};
use crate::options::{EngineKind, SimOptions};

/// Between two looks at a cluster that is driven by threads.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// How many looks in a row must find nothing to do for a cluster on threads to count as settled.
const QUIET_LOOKS: u32 = 25;

/// A running cluster. It runs until it is dropped.
#[derive(Debug)]
pub struct Harness {
    cluster: Arc<Cluster>,
    executor: Arc<Executor>,
    handlers: Handlers,
    engine: EngineState,
}

#[derive(Debug)]
enum EngineState {
    Virtual {
        tasks: Tasks,
        now: Now,
    },
    Threads {
        clock: RealClock,
        thread: Option<JoinHandle<()>>,
    },
}

impl Harness {
    /// Starts an empty cluster with both controllers, a scheduler and kubelets, as the settings
    /// say; their scenario and sizes are left aside.
    pub fn new(options: &SimOptions) -> Harness {
        Harness::with(options, |_| {})
    }

    /// The same with a workload of the caller's beside the two, over the same cache of pods: `make` makes
    /// it over that cache. Its Events say `component`; it gets as many workers as there are for
    /// ReplicaSets.
    pub fn with_workload<W: Workload<Fields = RankFields>>(
        options: &SimOptions,
        component: &'static str,
        make: impl Fn(&Arc<PodCache>) -> W + Send + Sync + 'static,
    ) -> Harness {
        Harness::with(options, |builder| builder.add_workload(component, make))
    }

    fn with(options: &SimOptions, add: impl FnOnce(&mut Builder)) -> Harness {
        let clock = RealClock::start();
        let (builder, _, handlers) = assemble_with(options.clone(), clock, true, None, None, add);
        let (cluster, executor) = (builder.cluster, builder.executor);
        // Release: whoever sees the flag sees the parts as they were built.
        builder
            .started
            .store(true, std::sync::atomic::Ordering::Release);
        let tasks = builder.tasks;
        let engine = match options.engine {
            EngineKind::Virtual => {
                let now = Now {
                    mono_ns: 0,
                    wall_ns: virtual_time::WALL_START_NS,
                };
                tasks.wake_all(&executor);
                EngineState::Virtual { tasks, now }
            }
            EngineKind::Threads => {
                let (executor, count) = (Arc::clone(&executor), options.threads);
                let run = move || {
                    // At rest it waits for what the caller writes.
                    let goes_on = |_| true;
                    threads::drive(&tasks, &executor, count, &clock, i64::MAX, goes_on, goes_on);
                };
                let thread = std::thread::Builder::new()
                    .name("harness".into())
                    .spawn(run)
                    .expect("the system has room for one more thread");
                EngineState::Threads {
                    clock,
                    thread: Some(thread),
                }
            }
        };
        Harness {
            cluster,
            executor,
            handlers,
            engine,
        }
    }

    /// The cluster, to read from and to write to at [`now`](Harness::now).
    pub fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// The present.
    pub fn now(&self) -> Now {
        match &self.engine {
            EngineState::Virtual { now, .. } => *now,
            EngineState::Threads { clock, .. } => clock.now(),
        }
    }

    /// Lets the cluster run until `holds`, for at most `limit_ns` of its time; whether it came to
    /// that. `holds` is asked after every step on the virtual engine, every 2 ms on threads.
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

    /// Lets the cluster run until there is nothing left to do, for at most `limit_ns` of its time;
    /// whether it came to that. On threads this is found out by watching for a while, so that a
    /// very slow machine may be taken for a quiet cluster: state what is expected by
    /// [`until`](Harness::until) first.
    ///
    /// # Panics
    /// When a task has panicked.
    pub fn settle(&mut self, limit_ns: i64) -> bool {
        let end_ns = self.now().mono_ns.saturating_add(limit_ns);
        if let EngineState::Virtual { .. } = self.engine {
            while self.step(end_ns) {}
            return self.executor.next_due().is_none();
        }
        let (mut quiet, mut version) = (0, self.cluster.resource_version());
        while quiet < QUIET_LOOKS {
            if !self.step(end_ns) {
                return false;
            }
            let seen = std::mem::replace(&mut version, self.cluster.resource_version());
            let rests = seen == version
                && self.executor.next_due().is_none()
                && self.handlers.iter().all(|handler| handler.rests());
            quiet = if rests { quiet + 1 } else { 0 };
        }
        true
    }

    /// Goes on a little; false when there is nothing left to do before `end_ns`.
    fn step(&mut self, end_ns: i64) -> bool {
        match &mut self.engine {
            EngineState::Virtual { tasks, now } => {
                match virtual_time::step(tasks, &self.executor, *now) {
                    StepOutcome::Ran => true,
                    StepOutcome::Due(due_ns) if due_ns <= end_ns => {
                        virtual_time::jump(&self.executor, now, due_ns);
                        true
                    }
                    StepOutcome::Due(_) | StepOutcome::AtRest => false,
                }
            }
            EngineState::Threads { clock, .. } => {
                assert!(!self.executor.is_stopped(), "a task has panicked");
                self.executor.wait_stopped(LOOK_EVERY);
                clock.now().mono_ns < end_ns
            }
        }
    }
}

impl Drop for Harness {
    fn drop(&mut self) {
        self.executor.stop();
        self.cluster.set_gc_waker(None);
        if let EngineState::Threads { thread, .. } = &mut self.engine
            && let Some(thread) = thread.take()
        {
            // A part's panic has been told by its own thread.
            let _ = thread.join();
        }
    }
}
