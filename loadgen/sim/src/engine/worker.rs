//! Workers of a controller: each is a task that runs one sync at a time. A worker takes a key and
//! drives its sync over a `WorkerTransport` until the sync ends.
//!
//! A worker without a key adds itself to the idle workers. When keys are added, the same number of
//! idle workers is woken.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use podstorm::driver::{Driver, Progress, SyncState, Workload};
use podstorm::intern::KeyId;
use podstorm_objects::Now;
use smallvec::SmallVec;

use super::by_phase::Recorder;
use super::client::{ApiCalls, CallLatency};
use super::runner::{AnyRunner, ControllerRunner};
use super::worker_transport::{CallWaits, Travel, WorkerTransport};
use crate::executor::{Next, Task, TaskId};
use crate::faults::CrashPoint;

/// The number of syncs after which a run of a worker ends.
const SYNCS_PER_RUN: u32 = 16;

/// The number of requests after which a run of a worker ends as soon as the current sync is over.
const REQUESTS_PER_RUN: u32 = 64;

/// A worker: runs one sync at a time.
#[derive(Debug)]
pub struct Worker<W: Workload> {
    id: TaskId,
    runner: Arc<ControllerRunner<W>>,
    /// The index of the queue from which the worker takes keys.
    queue: usize,
    driver: Driver<W::Sync>,
    transport: WorkerTransport<W>,
    /// Whether a sync is in progress.
    busy: bool,
    begun_at: Now,
    /// The key of the current or last sync.
    key: KeyId,
    /// The counters of the worker's syncs.
    pub counters: SyncCounters,
    /// The durations of the worker's syncs.
    pub recorder: Recorder,
}

/// The counters of a worker's syncs.
#[derive(Debug, Default)]
pub struct SyncCounters {
    /// The number of syncs with each outcome, as [`SyncState::outcome_label`] names it.
    pub syncs: SmallVec<[(&'static str, u64); 8]>,
    /// The number of syncs without a request.
    pub syncs_without_requests: u64,
}

impl SyncCounters {
    fn count(&mut self, outcome: &'static str) {
        match self.syncs.iter_mut().find(|(known, _)| *known == outcome) {
            Some((_, count)) => *count += 1,
            None => self.syncs.push((outcome, 1)),
        }
    }
}

impl<W: Workload> Worker<W> {
    pub(crate) fn new(
        id: TaskId,
        runner: Arc<ControllerRunner<W>>,
        queue: usize,
        call_latency: CallLatency,
    ) -> Worker<W> {
        let recorder = Recorder::new(Arc::clone(&runner.times), Arc::clone(&runner.recorded));
        Worker {
            id,
            recorder,
            transport: WorkerTransport::new(Arc::clone(&runner), queue, call_latency),
            runner,
            queue,
            driver: Driver::default(),
            busy: false,
            begun_at: Now::default(),
            key: KeyId::default(),
            counters: SyncCounters::default(),
        }
    }

    fn begin(&mut self, key: KeyId, now: Now) -> Progress {
        let runner = &self.runner;
        let present = runner.present(now);
        self.busy = true;
        self.key = key;
        self.begun_at = present;
        // Relaxed: the numbers only have to be unique.
        let number = runner.begun.fetch_add(1, Ordering::Relaxed) + 1;
        self.transport.begin(key, number);
        if let (Some(hooks), Some(sync)) = (&runner.hooks, self.transport.sync_id()) {
            let observer = &hooks.observer;
            observer.sync_begins(sync, &runner.controller, self.queue, key, present);
        }
        let own = runner.own_clock(present);
        let sent_at = &mut self.transport.at(now);
        let workload = &*runner.controller;
        self.driver.begin(workload, self.queue, key, sent_at, own)
    }

    fn resume(&mut self, now: Now) -> Progress {
        let own = self.runner.own_clock(now);
        let sent_at = &mut self.transport.at(now);
        self.driver.poll(&*self.runner.controller, sent_at, own)
    }

    /// Advances the requests in flight and passes answers to the sync. Returns the time of their
    /// next step, ns, or `None` if the sync can continue.
    fn travel(&mut self, now: Now) -> Option<i64> {
        loop {
            match self.transport.travel(self.driver.sync.requests(), now) {
                Travel::Over => return None,
                Travel::Until(due_ns) => return Some(due_ns),
                Travel::Answered(index, answer) => {
                    self.driver.answer(index, answer);
                    if self.runner.dies_at(CrashPoint::AfterAnswer) {
                        return None;
                    }
                }
            }
        }
    }

    fn finish(&mut self, now: Now) {
        let now = self.runner.present(now);
        let runner = &*self.runner;
        self.busy = false;
        let events = self.driver.sync.events();
        if !events.is_empty() {
            runner.events.offer(events.drain(..), now);
        }
        self.counters.count(self.driver.sync.outcome_label());
        let asked_nothing = self.transport.asked == 0;
        self.counters.syncs_without_requests += u64::from(asked_nothing);
        let begun_ns = self.begun_at.mono_ns;
        let took_ns = u64::try_from(now.mono_ns - begun_ns).unwrap_or(0);
        self.recorder.worked(begun_ns, took_ns, asked_nothing);
        if let (Some(hooks), Some(sync)) = (&runner.hooks, self.transport.sync_id()) {
            let (workload, state) = (&*runner.controller, &self.driver.sync);
            hooks.observer.sync_ended(sync, workload, state, now);
        }
        self.driver
            .finish(&*runner.controller, runner.own_clock(now));
        runner.note_retries(self.queue, self.key);
        runner.sync_ended();
        runner.keys_added(now);
    }
}

/// A worker of any workload.
pub trait AnyWorker: Send {
    /// Orphans the requests in flight to the server. Called when the controller has died.
    fn abandon(&mut self);

    /// Returns the worker's API calls.
    fn calls(&self) -> &ApiCalls;

    /// Returns the waiting times of the worker's requests.
    fn waits(&self) -> &CallWaits;

    /// Returns the counters of the worker's syncs.
    fn counters(&self) -> &SyncCounters;

    /// Merges the worker's recorded durations into those of all workers.
    fn hand_over(&mut self);
}

impl std::fmt::Debug for dyn AnyWorker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnyWorker")
            .field("counters", self.counters())
            .finish_non_exhaustive()
    }
}

impl<W: Workload> AnyWorker for Worker<W> {
    fn calls(&self) -> &ApiCalls {
        &self.transport.calls
    }

    fn waits(&self) -> &CallWaits {
        &self.transport.waits
    }

    fn counters(&self) -> &SyncCounters {
        &self.counters
    }

    fn hand_over(&mut self) {
        self.recorder.hand_over();
    }

    fn abandon(&mut self) {
        self.transport.abandon(self.driver.sync.requests());
    }
}

impl<W: Workload> Task for Worker<W> {
    fn run(&mut self, now: Now) -> Next {
        let runner = Arc::clone(&self.runner);
        if let Some(until_ns) = runner.stopped_until(now) {
            return Next::not_before(until_ns);
        }
        let (mut syncs, carried_out) = (0, self.transport.carried_out);
        loop {
            let progress = if self.busy {
                if let Some(due_ns) = self.travel(now) {
                    return Next::At(due_ns);
                }
                if runner.is_dead() {
                    return Next::Idle;
                }
                self.resume(now)
            } else {
                let requests = self.transport.carried_out.wrapping_sub(carried_out);
                if syncs >= SYNCS_PER_RUN || requests >= REQUESTS_PER_RUN {
                    return Next::Again;
                }
                let Some((key, waited_ns)) = runner.take(self.queue, now) else {
                    runner.list_idle(self.queue, self.id);
                    runner.keys_added(now);
                    return Next::Idle;
                };
                if runner.dies_at(CrashPoint::AfterTake) {
                    return Next::Idle;
                }
                syncs += 1;
                self.recorder.taken(waited_ns, now.mono_ns);
                self.begin(key, now)
            };
            if progress == Progress::Finished {
                self.finish(now);
            }
            if runner.is_dead() {
                return Next::Idle;
            }
        }
    }
}
