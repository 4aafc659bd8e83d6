//! Runs one controller: what its workers share, which are its client and its queues, each with a list
//! of idle workers and a timer of delayed keys.

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
    /// What it is.
    pub row: &'static ControllerRow,
    /// Its API client.
    pub client: Arc<Client>,
    /// Its Events.
    pub events: Arc<EventQueue>,
    executor: Arc<Executor>,
    /// What runs its queues, in their order.
    queues: Box<[QueueRunner]>,
    /// Reads real time, where time is real.
    clock: Option<RealClock>,
    /// Informers whose caches are not filled yet. No sync begins before all are filled.
    unsynced: AtomicUsize,
    /// Workers that are taking a key or have one: a key that leaves its queue is counted here before.
    under_way: AtomicUsize,
    /// Syncs begun.
    pub begun: AtomicU64,
    /// Syncs finished.
    pub finished: AtomicU64,
    /// Present in a run with fault injection or an observer.
    pub hooks: Option<Hooks<W>>,
    /// The beginnings of the phases.
    pub times: Arc<PhaseTimes>,
    /// The durations recorded by the workers of all controllers.
    pub recorded: Arc<Mutex<Recorded>>,
}

/// What runs one queue of a controller.
#[derive(Debug)]
struct QueueRunner {
    timer: TaskId,
    /// Keys whose last sync failed, and how many they are; the number is written under the lock.
    failing: Mutex<HashSet<KeyId, RandomState>>,
    failing_count: AtomicUsize,
    /// Workers that found no key. A worker adds itself and then looks at the queue once more, so
    /// that no key is missed between the two.
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
    /// The connection that requests and watches pass.
    pub connection: Arc<Connection>,
    /// Observes the workers.
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
        (controller, row): (Arc<W>, &'static ControllerRow),
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
            // Those of its kinds, and that of pods.
            unsynced: AtomicUsize::new(row.watched().count() + 1),
            row,
            under_way: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            finished: AtomicU64::new(0),
        }
    }

    /// Until when no task of the controller may run, ns, if the controller is dead or paused.
    #[inline]
    pub(crate) fn stopped_until(&self, now: Now) -> Option<i64> {
        self.connection()?.stopped_until(now)
    }

    /// Whether the controller is dead at this point of its work, or dies there.
    #[inline]
    pub(crate) fn dies_at(&self, point: CrashPoint) -> bool {
        self.connection().is_some_and(|it| it.passes(point))
    }

    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.connection().is_some_and(|it| it.is_dead())
    }

    /// Whether the row names this request. A row that names none, as of a test's workload, is not asked.
    pub(crate) fn is_named(&self, request: &Request) -> bool {
        let RequestInfo {
            verb,
            kind,
            subresource,
        } = RequestInfo::of(request);
        self.row.writes.is_empty()
            || kind.is_none_or(|kind| self.row.may_send(verb, kind, subresource))
    }

    /// The kind whose objects it syncs.
    pub(crate) fn kind(&self) -> Kind {
        self.row.kind.expect("a workload syncs objects of one kind")
    }

    /// The connection, in a run with fault injection or an observer.
    #[inline]
    pub(crate) fn connection(&self) -> Option<&Arc<Connection>> {
        self.hooks.as_ref().map(|hooks| &hooks.connection)
    }

    /// Notes whether the key of a sync that has just finished is to be retried. Takes a lock only where a key is
    /// or was.
    pub(crate) fn note_retries(&self, queue: usize, key: KeyId) {
        let fails = self.controller.queues()[queue].num_requeues(key) > 0;
        let runner = &self.queues[queue];
        // Relaxed: a key's own syncs follow one another, and no other key matters here.
        if !fails && runner.failing_count.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut failing = lock(&runner.failing);
        match fails {
            true => failing.insert(key),
            false => failing.remove(&key),
        };
        // Relaxed: its readers order it by `finished`.
        runner.failing_count.store(failing.len(), Ordering::Relaxed);
    }

    /// The current time; on the threads engine more exact than `now`, the beginning of the task's
    /// run.
    #[inline]
    pub(crate) fn present(&self, now: Now) -> Now {
        self.clock.as_ref().map_or(now, RealClock::now)
    }

    /// The current time on the controller's own clock.
    #[inline]
    pub(crate) fn own_clock(&self, now: Now) -> Now {
        self.connection().map_or(now, |it| it.clock(now))
    }

    /// Takes the key that has been in that queue longest; also returns for how long, ns.
    #[inline]
    pub(crate) fn take(&self, queue: usize, now: Now) -> Option<(KeyId, u64)> {
        if !self.is_synced() {
            return None;
        }
        // Relaxed, with the fence: see `rests_after`.
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

    /// The sync of a key that was [taken](Self::take) has ended: what it wrote is on the server, and a key that it
    /// queued again is in the queue.
    #[inline]
    pub(crate) fn sync_ended(&self) {
        // Release, both: see `rests_after`.
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

/// A controller of any workload, as those see it that pass changes to it and those that wait for it.
pub trait AnyRunner: Any + Send + Sync + std::fmt::Debug {
    /// A pod changed.
    fn pod_changed(&self, change: &PodChange, now: Now);

    /// The pods were listed.
    fn pods_listed(&self, listed: &Listed, now: Now);

    /// Records that an informer has filled its cache for the first time. The caller then calls
    /// [`keys_added`](AnyRunner::keys_added).
    fn informer_synced(&self);

    /// To be called after keys may have been added: wakes idle workers for them, and the timer for
    /// delayed keys.
    fn keys_added(&self, now: Now);

    /// Whether all informers have filled their caches.
    fn is_synced(&self) -> bool;

    /// Whether at least `syncs` syncs have finished, none is under way and no key is queued.
    fn rests_after(&self, syncs: u64) -> bool;

    /// Whether the last sync of a key failed, so that it will be retried.
    fn has_retries(&self) -> bool;

    /// What it is.
    fn row(&self) -> &'static ControllerRow;

    /// Its work queues.
    fn queues(&self) -> &[RateLimitingQueue<KeyId>];

    /// The tasks that queue the delayed keys of its queues.
    fn timers(&self) -> Vec<TaskId>;

    /// Its metrics as they are now, but for those of its queues and its client.
    fn families(&self) -> Vec<Family>;

    /// Its API client.
    fn client(&self) -> &Arc<Client>;

    /// Its Events.
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
        // Release, with the load below: a thread that sees zero sees full caches.
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
        // Every queue is empty at some moment of the second line. The fence pairs with that of `take`: a key
        // that has left its queue by then is counted in the line after. Unless its sync has ended since: then
        // the last line sees more syncs finished than the first, by the Release and Acquire of both counts.
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

/// The metrics of these controllers at this monotonic time: of their queues, of their clients' limits, and their own.
/// Names may come more than once: [`merged`](podstorm::metrics::merged). O(keys of the queues).
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

/// Those of the controllers that are workloads of this type, in their order.
pub fn of_type<W: Workload>(runners: &[Arc<dyn AnyRunner>]) -> Vec<Arc<ControllerRunner<W>>> {
    let any = |runner: &Arc<dyn AnyRunner>| Arc::clone(runner) as Arc<dyn Any + Send + Sync>;
    let typed = runners.iter().map(|runner| any(runner).downcast());
    typed.filter_map(Result::ok).collect()
}

/// Queues the delayed keys of one queue of a controller when they are due.
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
