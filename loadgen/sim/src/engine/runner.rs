//! The state of one running controller, which its workers share: the client, and the queues, each
//! with a list of idle workers and a timer for delayed keys.

use std::any::Any;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex};

use ahash::RandomState;
use hashbrown::HashSet;
use podstorm::cache::{Listed, PodChange};
use podstorm::client::Request;
use podstorm::driver::Workload;
use podstorm::intern::KeyId;
use podstorm::metrics::Family;
use podstorm::row::{ControllerRow, Pods};
use podstorm::workqueue::{RateLimitingQueue, Take};
use podstorm_objects::{Kind, Now, hash_state};

use super::Builder;
use super::by_phase::{PhaseTimes, Recorded};
use super::client::{Client, RequestInfo};
use super::event_sink::EventQueue;
use super::observer::Observer;
use crate::clock::RealClock;
use crate::executor::{Executor, Next, Task, TaskId};
use crate::faults::{Connection, CrashPoint};
use crate::lock;

/// One controller with its queues, their idle workers and timers.
#[derive(Debug)]
pub struct ControllerRunner<W: Workload> {
    /// The controller.
    pub controller: Arc<W>,
    /// The controller's row.
    pub row: &'static ControllerRow,
    /// The controller's API client.
    pub client: Arc<Client>,
    /// The queue of the controller's Events.
    pub events: Arc<EventQueue>,
    executor: Arc<Executor>,
    /// The state for each queue of the controller, in the order of the queues.
    queues: Box<[QueueRunner]>,
    /// The source of real time; `None` on the virtual engine.
    clock: Option<RealClock>,
    /// The number of informers whose caches are not filled yet. No sync begins while there are any.
    unsynced: AtomicUsize,
    /// The number of workers that are taking a key or are syncing one. A worker is counted before
    /// its key leaves the queue.
    under_way: AtomicUsize,
    /// The number of syncs that have begun.
    pub begun: AtomicU64,
    /// The number of syncs that have finished.
    pub finished: AtomicU64,
    /// The fault injection and the observer, if the run has them.
    pub hooks: Option<Hooks<W>>,
    /// The times at which the phases began.
    pub times: Arc<PhaseTimes>,
    /// The durations recorded by the workers of all controllers.
    pub recorded: Arc<Mutex<Recorded>>,
}

/// The state for one queue of a controller.
#[derive(Debug)]
struct QueueRunner {
    timer: TaskId,
    /// The keys whose last sync failed. The next field is their number, written under this lock.
    failing: Mutex<HashSet<KeyId, RandomState>>,
    failing_count: AtomicUsize,
    /// The workers that found no key. A worker adds itself and then checks the queue once more, so
    /// that it does not miss a key that was added in between.
    idle: Mutex<Vec<TaskId>>,
}

impl QueueRunner {
    fn new(timer: TaskId) -> QueueRunner {
        QueueRunner {
            timer,
            failing: Mutex::new(HashSet::with_hasher(hash_state())),
            failing_count: AtomicUsize::new(0),
            idle: Mutex::default(),
        }
    }
}

/// The fault injection and the observer of a controller.
#[derive(Debug)]
pub struct Hooks<W: Workload> {
    /// The connection that carries requests and watches.
    pub connection: Arc<Connection>,
    /// The observer of the workers.
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
    pub(super) fn new(
        builder: &Builder,
        controller: Arc<W>,
        row: &'static ControllerRow,
        client: Arc<Client>,
        events: Arc<EventQueue>,
        timers: &[TaskId],
        hooks: Option<Hooks<W>>,
    ) -> ControllerRunner<W> {
        ControllerRunner {
            hooks,
            times: Arc::clone(&builder.times),
            recorded: Arc::clone(&builder.recorded),
            controller,
            client,
            events,
            executor: Arc::clone(&builder.executor),
            queues: timers.iter().copied().map(QueueRunner::new).collect(),
            clock: builder.clock,
            // One informer for each watched kind, and the one for pods.
            unsynced: AtomicUsize::new(row.watched().count() + 1),
            row,
            under_way: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            finished: AtomicU64::new(0),
        }
    }

    /// Returns the time before which no task of the controller may run, ns; `None` if the
    /// controller is neither dead nor paused.
    #[inline]
    pub(crate) fn stopped_until(&self, now: Now) -> Option<i64> {
        self.connection()?.stopped_until(now)
    }

    /// Reports whether the controller has died before this point of its work, or dies here.
    #[inline]
    pub(crate) fn dies_at(&self, point: CrashPoint) -> bool {
        self.connection().is_some_and(|it| it.passes(point))
    }

    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.connection().is_some_and(|it| it.is_dead())
    }

    /// Reports whether the controller's row permits a request. A row without permissions, for
    /// example of a test workload, permits everything.
    pub(crate) fn is_named(&self, request: &Request) -> bool {
        let RequestInfo {
            verb,
            kind,
            subresource,
        } = RequestInfo::from_request(request);
        self.row.writes.is_empty()
            || kind.is_none_or(|kind| self.row.may_send(verb, kind, subresource))
    }

    /// Returns the kind of the objects that the controller syncs.
    pub(crate) fn kind(&self) -> Kind {
        self.row.kind.expect("a workload controller has a kind")
    }

    /// Returns the connection; `None` without fault injection and observer.
    #[inline]
    pub(crate) fn connection(&self) -> Option<&Arc<Connection>> {
        self.hooks.as_ref().map(|hooks| &hooks.connection)
    }

    /// Records whether the key of a finished sync will be retried. Takes a lock only if a key of
    /// the queue fails or was failing.
    pub(crate) fn note_retries(&self, queue: usize, key: KeyId) {
        let fails = self.controller.queues()[queue].num_requeues(key) > 0;
        let runner = &self.queues[queue];
        // Relaxed: syncs of one key are sequential, and other keys are irrelevant here.
        if !fails && runner.failing_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut failing = lock(&runner.failing);
        match fails {
            true => failing.insert(key),
            false => failing.remove(&key),
        };
        // Relaxed: the Release of `finished` in `sync_ended` publishes it.
        runner.failing_count.store(failing.len(), Ordering::Relaxed);
    }

    /// Returns the current time. On the threads engine, it is later than `now`, the start of the
    /// task's run.
    #[inline]
    pub(crate) fn present(&self, now: Now) -> Now {
        self.clock.as_ref().map_or(now, RealClock::now)
    }

    /// Returns the time that the controller's own clock shows at `now`.
    #[inline]
    pub(crate) fn own_clock(&self, now: Now) -> Now {
        self.connection().map_or(now, |it| it.clock(now))
    }

    /// Takes the key that has waited longest in the queue, and returns it with its waiting time,
    /// ns. `None` if the queue is empty or an informer is not synced yet.
    #[inline]
    pub(crate) fn take(&self, queue: usize, now: Now) -> Option<(KeyId, u64)> {
        if !self.is_synced() {
            return None;
        }
        // Relaxed is sufficient with the fence: see `rests_after`.
        self.under_way.fetch_add(1, Ordering::Relaxed);
        fence(Ordering::Release);
        match self.controller.queues()[queue].try_take_with_wait(now.mono_ns) {
            Take::Key(taken) => Some(taken),
            Take::Empty | Take::ShutDown => {
                self.under_way.fetch_sub(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Records the end of the sync of a key that was [taken](Self::take). Must be called after the
    /// sync's writes have reached the server and, if the sync queues the key again, after the key
    /// is in the queue.
    #[inline]
    pub(crate) fn sync_ended(&self) {
        // Both are Release: see `rests_after`.
        self.finished.fetch_add(1, Ordering::Release);
        self.under_way.fetch_sub(1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn list_idle(&self, queue: usize, worker: TaskId) {
        let mut idle = lock(&self.queues[queue].idle);
        if !idle.contains(&worker) {
            idle.push(worker);
        }
    }
}

/// The runner of any workload's controller, for callers that deliver changes or wait for syncs.
pub trait AnyRunner: Any + Send + Sync + std::fmt::Debug {
    /// Handles a change of a pod.
    fn pod_changed(&self, change: &PodChange, now: Now);

    /// Handles a complete list of the pods.
    fn pods_listed(&self, listed: &Listed, now: Now);

    /// Records that an informer has filled its cache for the first time. The caller must then call
    /// [`keys_added`](AnyRunner::keys_added).
    fn informer_synced(&self);

    /// Wakes idle workers for new keys, and sets the timers for delayed keys. Must be called after
    /// keys may have been added.
    fn keys_added(&self, now: Now);

    /// Reports whether all informers of the controller have filled their caches.
    fn is_synced(&self) -> bool;

    /// Reports whether at least `syncs` syncs have finished, none is in progress and no key is
    /// queued.
    fn rests_after(&self, syncs: u64) -> bool;

    /// Reports whether the last sync of any key failed, so that a retry is pending.
    fn has_retries(&self) -> bool;

    /// Returns the controller's row.
    fn row(&self) -> &'static ControllerRow;

    /// Returns the controller's work queues.
    fn queues(&self) -> &[RateLimitingQueue<KeyId>];

    /// Returns the tasks that queue delayed keys, one for each work queue.
    fn timers(&self) -> Vec<TaskId>;

    /// Returns the controller's current metrics, except those of its queues and its client.
    fn families(&self) -> Vec<Family>;

    /// Returns the controller's API client.
    fn client(&self) -> &Arc<Client>;

    /// Returns the queue of the controller's Events.
    fn events(&self) -> &Arc<EventQueue>;
}

impl<W: Workload> AnyRunner for ControllerRunner<W> {
    fn pod_changed(&self, change: &PodChange, now: Now) {
        if self.row.pods.include(change) {
            self.controller.pod_changed(change, now);
        }
    }

    fn pods_listed(&self, listed: &Listed, now: Now) {
        if self.row.pods != Pods::None {
            self.controller.pods_listed(listed, now);
        }
    }

    fn informer_synced(&self) {
        // Release: pairs with the load in `is_synced`. A thread that reads zero sees full caches.
        self.unsynced.fetch_sub(1, Ordering::Release);
    }

    fn keys_added(&self, now: Now) {
        if !self.is_synced() {
            return;
        }
        for (queue, runner) in self.controller.queues().iter().zip(&self.queues) {
            let count = queue.len();
            if count > 0 {
                let mut idle = lock(&runner.idle);
                for _ in 0..count {
                    let Some(worker) = idle.pop() else { break };
                    self.executor.wake(worker);
                }
            }
            if let Some(due_ns) = queue.next_due() {
                self.executor.wake_at(runner.timer, due_ns, now);
            }
        }
    }

    fn is_synced(&self) -> bool {
        // Acquire: see `informer_synced`.
        self.unsynced.load(Ordering::Acquire) == 0
    }

    fn rests_after(&self, syncs: u64) -> bool {
        // If `waits` is false, each queue was empty when it was checked. The fence pairs with that
        // of `take`: a key that left its queue before then is counted in `under_way`, unless its
        // sync has since ended. In that case, the last line reads more finished syncs than the
        // first, by the Release and Acquire of both counts.
        let finished = self.finished.load(Ordering::Acquire);
        let waits = (self.controller.queues().iter()).any(|queue| !queue.is_empty());
        fence(Ordering::Acquire);
        let under_way = self.under_way.load(Ordering::Acquire);
        let same = finished == self.finished.load(Ordering::Acquire);
        finished >= syncs && !waits && under_way == 0 && same
    }

    fn has_retries(&self) -> bool {
        // Relaxed: see `note_retries`.
        let fails = |queue: &QueueRunner| queue.failing_count.load(Ordering::Relaxed) > 0;
        self.queues.iter().any(fails)
    }

    fn row(&self) -> &'static ControllerRow {
        self.row
    }

    fn queues(&self) -> &[RateLimitingQueue<KeyId>] {
        self.controller.queues()
    }

    fn timers(&self) -> Vec<TaskId> {
        self.queues.iter().map(|queue| queue.timer).collect()
    }

    fn families(&self) -> Vec<Family> {
        self.controller.families()
    }

    fn client(&self) -> &Arc<Client> {
        &self.client
    }

    fn events(&self) -> &Arc<EventQueue> {
        &self.events
    }
}

/// Returns the metrics of these controllers at a monotonic time: those of their queues, those of
/// their clients' rate limiters, and their own. Names may repeat: see
/// [`merged`](podstorm::metrics::merged). O(keys of the queues).
pub fn families(
    runners: &[Arc<dyn AnyRunner>],
    now_ns: i64,
) -> impl Iterator<Item = Family> + use<'_> {
    runners.iter().flat_map(move |runner| {
        let queues = runner.queues().iter();
        let queues = queues.flat_map(move |queue| queue.families(now_ns));
        let own = runner.client().limiter_waits().into_iter();
        queues.chain(own).chain(runner.families())
    })
}

/// Returns the controllers of this workload type, in order.
pub fn of_type<W: Workload>(runners: &[Arc<dyn AnyRunner>]) -> Vec<Arc<ControllerRunner<W>>> {
    let any = |runner: &Arc<dyn AnyRunner>| Arc::clone(runner) as Arc<dyn Any + Send + Sync>;
    let typed = runners.iter().map(|runner| any(runner).downcast());
    typed.filter_map(Result::ok).collect()
}

/// Queues the delayed keys of one queue when they are due.
#[derive(Debug)]
pub(super) struct Timer<W: Workload> {
    pub(super) runner: Arc<ControllerRunner<W>>,
    pub(super) queue: usize,
}

impl<W: Workload> Task for Timer<W> {
    fn run(&mut self, now: Now) -> Next {
        let Timer { runner, queue } = self;
        if let Some(until_ns) = runner.stopped_until(now) {
            return Next::not_before(until_ns);
        }
        runner.controller.queues()[*queue].fire_due(now.mono_ns);
        runner.keys_added(now);
        Next::Idle
    }
}
