//! One controller as its workers share it: queue, connection, who is idle, and the timer that adds
//! its delayed keys.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use podstorm::driver::Workload;
use podstorm::intern::KeyId;
use podstorm::replicaset::Controller;
use podstorm::workqueue::Take;
use podstorm_objects::Now;

use super::by_phase::{PhaseTimes, Recorded};
use super::client::Client;
use super::event_sink::EventQueue;
use super::observer::Observer;
use crate::clock::RealClock;
use crate::executor::{Executor, Next, Task, TaskId};
use crate::faults::{Connection, CrashPoint};

/// The informers of a controller: its parents' and the pods'.
const INFORMERS: usize = 2;

/// One controller with its queue, its idle workers and its timer.
#[derive(Debug)]
pub struct ControllerRunner<W: Workload = Controller> {
    /// The controller.
    pub controller: Arc<W>,
    /// Its connection to the server.
    pub client: Arc<Client>,
    /// What it says in Events.
    pub events: Arc<EventQueue>,
    executor: Arc<Executor>,
    timer: TaskId,
    /// Reads real time, where time is real.
    clock: Option<RealClock>,
    /// Informers whose caches are not filled yet: no sync begins before they are.
    unsynced: AtomicUsize,
    /// Syncs begun.
    pub begun: AtomicU64,
    /// Syncs finished.
    pub finished: AtomicU64,
    /// Workers that found no key. A worker lists itself and then looks at the queue once more, so
    /// no key is left lying between the two.
    idle: Mutex<Vec<TaskId>>,
    /// In a run that is disturbed or watched over.
    pub hooks: Option<Hooks<W>>,
    /// When the phases began.
    pub times: Arc<PhaseTimes>,
    /// What the workers of all controllers have recorded.
    pub recorded: Arc<Mutex<Recorded>>,
}

/// What the requests of a disturbed controller pass, and who listens.
#[derive(Debug)]
pub struct Hooks<W: Workload = Controller> {
    /// What requests and watches pass.
    pub connection: Arc<Connection>,
    /// Who listens.
    pub observer: Arc<dyn Observer<W>>,
}

impl<W: Workload> Clone for Hooks<W> {
    fn clone(&self) -> Self {
        Hooks {
            connection: Arc::clone(&self.connection),
            observer: Arc::clone(&self.observer),
        }
    }
}

impl<W: Workload> ControllerRunner<W> {
    pub(crate) fn new(
        controller: Arc<W>,
        client: Arc<Client>,
        events: Arc<EventQueue>,
        executor: Arc<Executor>,
        timer: TaskId,
        clock: Option<RealClock>,
        hooks: Option<Hooks<W>>,
    ) -> ControllerRunner<W> {
        ControllerRunner {
            hooks,
            times: Arc::new(PhaseTimes::new(1)),
            recorded: Arc::default(),
            controller,
            client,
            events,
            executor,
            timer,
            clock,
            unsynced: AtomicUsize::new(INFORMERS),
            begun: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            idle: Mutex::default(),
        }
    }

    /// Has its workers record by these phases, and there.
    pub(crate) fn recording(
        self,
        times: &Arc<PhaseTimes>,
        to: &Arc<Mutex<Recorded>>,
    ) -> ControllerRunner<W> {
        ControllerRunner {
            times: Arc::clone(times),
            recorded: Arc::clone(to),
            ..self
        }
    }

    /// Until when no part of the controller may run, if it is dead or paused.
    #[inline]
    pub(crate) fn stopped_until(&self, now: Now) -> Option<i64> {
        self.hooks.as_ref()?.connection.stopped_until(now)
    }

    /// Whether the controller dies at this point of its work.
    #[inline]
    pub(crate) fn dies_at(&self, point: CrashPoint) -> bool {
        self.hooks
            .as_ref()
            .is_some_and(|hooks| hooks.connection.passes(point))
    }

    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.hooks
            .as_ref()
            .is_some_and(|hooks| hooks.connection.is_dead())
    }

    /// The connection, in a run that is disturbed or watched over.
    pub(crate) fn connection(&self) -> Option<&Arc<Connection>> {
        self.hooks.as_ref().map(|hooks| &hooks.connection)
    }

    /// Whether at least `syncs` syncs were finished, none is under way and no key waits.
    pub fn rests_after(&self, syncs: u64) -> bool {
        // Acquire, with the releases below: a sync counted as begun has left the queue, so what
        // is read in this order can't miss one that is between queue and worker for ever; the
        // caller asks again.
        let finished = self.finished.load(Ordering::Acquire);
        let waiting = self.controller.queue().len();
        let begun = self.begun.load(Ordering::Acquire);
        finished >= syncs && waiting == 0 && begun == finished
    }

    /// The present, more exactly than at the beginning of the part's run.
    #[inline]
    pub(crate) fn present(&self, now: Now) -> Now {
        self.clock.as_ref().map_or(now, RealClock::now)
    }

    /// The present as the controller's own clock has it.
    #[inline]
    pub(crate) fn own_clock(&self, now: Now) -> Now {
        self.hooks
            .as_ref()
            .map_or(now, |hooks| hooks.connection.clock(now))
    }

    /// To be called after keys may have been added: wakes workers for them, and the timer for
    /// delayed ones.
    pub(crate) fn keys_added(&self, now: Now) {
        if !self.is_synced() {
            return;
        }
        let queue = self.controller.queue();
        let count = queue.len();
        if count > 0 {
            let mut idle = self
                .idle
                .lock()
                .expect("no thread panics while it holds this lock");
            for _ in 0..count {
                let Some(worker) = idle.pop() else { break };
                self.executor.wake(worker);
            }
        }
        if let Some(due_ns) = queue.next_due() {
            self.executor.wake_at(self.timer, due_ns, now);
        }
    }

    /// The key that has waited longest, and for how long, ns.
    #[inline]
    pub(crate) fn take(&self, now: Now) -> Option<(KeyId, u64)> {
        if !self.is_synced() {
            return None;
        }
        match self.controller.queue().try_take_with_wait(now.mono_ns) {
            Take::Key(taken) => Some(taken),
            Take::Empty | Take::ShutDown => None,
        }
    }

    /// One of the informers has filled its cache for the first time. The caller says
    /// [`ControllerRunner::keys_added`] afterwards.
    pub(crate) fn informer_synced(&self) {
        // Release, with the load below: whoever sees zero sees full caches.
        self.unsynced.fetch_sub(1, Ordering::Release);
    }

    /// Whether both informers have filled their caches.
    pub fn is_synced(&self) -> bool {
        // Acquire: see `informer_synced`.
        self.unsynced.load(Ordering::Acquire) == 0
    }

    #[inline]
    pub(crate) fn list_idle(&self, worker: TaskId) {
        let mut idle = self
            .idle
            .lock()
            .expect("no thread panics while it holds this lock");
        if !idle.contains(&worker) {
            idle.push(worker);
        }
    }
}

/// Adds the delayed keys of a controller when they are due.
#[derive(Debug)]
pub struct Timer<W: Workload> {
    runner: Arc<ControllerRunner<W>>,
}

impl<W: Workload> Timer<W> {
    pub(crate) fn new(runner: Arc<ControllerRunner<W>>) -> Timer<W> {
        Timer { runner }
    }
}

impl<W: Workload> Task for Timer<W> {
    fn run(&mut self, now: Now) -> Next {
        if let Some(until_ns) = self.runner.stopped_until(now) {
            return Next::not_before(until_ns);
        }
        self.runner.controller.queue().fire_due(now.mono_ns);
        self.runner.keys_added(now);
        Next::Idle
    }
}
