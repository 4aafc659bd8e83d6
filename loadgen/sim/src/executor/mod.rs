//! The executor: decides which task runs next. Every active part of a run is a task.
//!
//! Tasks are the informers, workers, scheduler, kubelets and the scenario. Each task has a number
//! ([`TaskId`]). The run queue (`run_queue.rs`) holds the numbers of woken tasks without
//! duplicates: a task that is woken ten times runs once, a task that is woken while it runs runs
//! again, and no task runs twice at the same time. A driver ([`virtual_time`], [`threads`]) takes
//! numbers from the run queue and runs the tasks.
//!
//! Low-priority tasks run only when no other task is queued. The controllers' workers are
//! low-priority tasks: they create work for all other tasks, and wait until that work is done. This
//! limits how far watches fall behind, and so the size of the watch log.
//!
//! Locks: the run queue is under one lock, held for a few instructions; a task's run takes much
//! longer. Each task is in a mutex that only the thread that took its number locks, so the mutex is
//! never contended. The sleep lock protects only the decision to go to sleep.

mod run_queue;
pub mod seed;
pub mod stream;
pub mod threads;
pub mod virtual_time;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use podstorm_objects::Now;

use crate::lock;
use run_queue::RunQueue;

/// The number of a task. The lowest bit marks a low-priority task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u32);

/// When a task runs again. Each run of a task returns this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When the task is woken.
    Idle,
    /// After the other queued tasks.
    Again,
    /// At the given monotonic time, ns, or earlier if the task is woken.
    At(i64),
}

impl Next {
    /// Returns `At(at_ns)`, or `Idle` for `i64::MAX`.
    #[must_use]
    pub fn not_before(at_ns: i64) -> Next {
        match at_ns {
            i64::MAX => Next::Idle,
            at_ns => Next::At(at_ns),
        }
    }

    /// Returns the earlier of `self` and `other`.
    #[must_use]
    pub fn or(self, other: Next) -> Next {
        match (self, other) {
            (Next::Again, _) | (_, Next::Again) => Next::Again,
            (Next::At(a), Next::At(b)) => Next::At(a.min(b)),
            (Next::At(at), Next::Idle) | (Next::Idle, Next::At(at)) => Next::At(at),
            (Next::Idle, Next::Idle) => Next::Idle,
        }
    }
}

/// An active part of a run. One run of a task is short (a batch of events, a few syncs); a task
/// with more work asks to run again.
pub trait Task: Send {
    /// Does the work that is possible now. May be called when there is no work.
    fn run(&mut self, now: Now) -> Next;
}

/// A closure that wakes one task.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

impl TaskId {
    const LOW_PRIORITY: u32 = 1;

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    fn from_index(index: usize) -> TaskId {
        TaskId(u32::try_from(index).expect("the number of tasks fits in 32 bits"))
    }

    /// Reports whether the task runs only when no other task is queued.
    pub(super) fn is_low_priority(self) -> bool {
        self.0 & TaskId::LOW_PRIORITY != 0
    }
}

/// The value of `next_due_ns` while no task is delayed.
const NEVER: i64 = i64::MAX;

/// Decides which task runs next. Shared by the driver and everything that wakes tasks.
pub struct Executor {
    run_queue: Mutex<RunQueue>,
    /// The number of queued tasks. This field and `next_due_ns`, the time of the earliest delayed
    /// task, are written under the lock of the run queue. A thread that finds no work here doesn't
    /// take the lock.
    queued: AtomicUsize,
    next_due_ns: AtomicI64,
    /// Whether several threads take tasks; a single thread never sleeps.
    threaded: AtomicBool,
    next_id: AtomicU32,
    stopped: AtomicBool,
    /// The number of threads that are asleep or about to sleep.
    sleepers: AtomicUsize,
    sleep_lock: Mutex<()>,
    work_queued: Condvar,
    /// Notified once, when the run ends.
    ended: Condvar,
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor")
            .field("queued", &self.queued())
            .field("stopped", &self.is_stopped())
            .finish_non_exhaustive()
    }
}

impl Default for Executor {
    fn default() -> Self {
        Executor::new()
    }
}

impl Executor {
    /// Returns an executor without tasks.
    pub fn new() -> Executor {
        Executor {
            run_queue: Mutex::new(RunQueue::default()),
            queued: AtomicUsize::new(0),
            next_due_ns: AtomicI64::new(NEVER),
            threaded: AtomicBool::new(false),
            next_id: AtomicU32::new(0),
            stopped: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            sleep_lock: Mutex::new(()),
            work_queued: Condvar::new(),
            ended: Condvar::new(),
        }
    }

    /// Reserves a number for a future task, so that its wakers can be created before the task.
    pub fn reserve(&self) -> TaskId {
        // Relaxed: only the numbers must be unique; nothing is ordered by them.
        TaskId(self.next_id.fetch_add(1, Ordering::Relaxed) << 1)
    }

    /// Reserves a number for a task that runs only when no other task is queued.
    pub fn reserve_low_priority(&self) -> TaskId {
        TaskId(self.reserve().0 | TaskId::LOW_PRIORITY)
    }

    /// Enables sleeping. Must be called before the first of several threads takes a task.
    pub(super) fn expect_threads(&self) {
        // Relaxed: the threads that take tasks start later, and see the store.
        self.threaded.store(true, Ordering::Relaxed);
    }

    fn run_queue(&self) -> MutexGuard<'_, RunQueue> {
        lock(&self.run_queue)
    }

    /// Publishes the number of queued tasks. Called under the lock of the run queue.
    fn publish_queued(&self, run_queue: &RunQueue) {
        // Relaxed: a hint; a thread reads the number again after a fence before it goes to sleep,
        // see `sleep`.
        self.queued.store(run_queue.queued(), Ordering::Relaxed);
    }

    /// Publishes the time of the next delayed task. Called under the lock of the run queue.
    fn publish_due(&self, run_queue: &RunQueue) {
        // Relaxed: a hint, see `next_due`.
        self.next_due_ns
            .store(run_queue.next_due_ns().unwrap_or(NEVER), Ordering::Relaxed);
    }

    fn queued(&self) -> usize {
        // Relaxed: a hint, see `publish_queued`.
        self.queued.load(Ordering::Relaxed)
    }

    /// Wakes a task. However often it is woken before it runs, it then runs once.
    pub fn wake(&self, task: TaskId) {
        let mut run_queue = self.run_queue();
        run_queue.add(task);
        self.publish_queued(&run_queue);
        drop(run_queue);
        self.wake_sleeper();
    }

    /// Wakes a task at `at_ns` of monotonic time; an earlier pending wake-up stays.
    pub fn wake_at(&self, task: TaskId, at_ns: i64, now: Now) {
        let mut run_queue = self.run_queue();
        if at_ns <= now.mono_ns {
            run_queue.add(task);
            self.publish_queued(&run_queue);
        } else if run_queue.add_at(task, at_ns) {
            self.publish_due(&run_queue);
        } else {
            return;
        }
        drop(run_queue);
        // A sleeping thread may have to wake up earlier than it planned.
        self.wake_sleeper();
    }

    /// Returns a closure that wakes a task.
    pub fn waker(self: &Arc<Self>, task: TaskId) -> Waker {
        let executor = Arc::clone(self);
        Arc::new(move || executor.wake(task))
    }

    /// Ends the run: drivers return as soon as the running tasks have finished their runs.
    pub fn stop(&self) {
        // SeqCst with the fence in `wake_sleeper`: a thread about to sleep sees the flag or is
        // notified.
        self.stopped.store(true, Ordering::SeqCst);
        let _guard = lock(&self.sleep_lock);
        self.work_queued.notify_all();
        self.ended.notify_all();
    }

    /// Reports whether the run has ended.
    pub fn is_stopped(&self) -> bool {
        // Acquire: pairs with the store in `stop`. A thread that sees the stop sees all writes
        // before it.
        self.stopped.load(Ordering::Acquire)
    }

    /// Reports whether nothing can happen: no task is running, queued or delayed.
    pub(super) fn is_at_rest(&self) -> bool {
        // The first two tests find a busy run without the lock.
        self.queued() == 0 && self.next_due().is_none() && self.run_queue().are_at_rest()
    }

    /// Reports whether only these tasks can cause further work: no other task is delayed, and no
    /// task is running or queued.
    pub fn is_at_rest_but_for(&self, timers: &[TaskId]) -> bool {
        self.queued() == 0 && self.run_queue().are_at_rest_but_for(timers)
    }

    /// Takes the next queued task; `None` if no task is queued.
    pub fn try_take(&self) -> Option<TaskId> {
        if self.queued() == 0 {
            return None;
        }
        let mut run_queue = self.run_queue();
        let task = run_queue.take();
        self.publish_queued(&run_queue);
        task
    }

    /// Queues the delayed tasks that are due.
    pub fn fire_due(&self, now: Now) {
        let mut run_queue = self.run_queue();
        run_queue.fire_due(now.mono_ns);
        self.publish_queued(&run_queue);
        self.publish_due(&run_queue);
    }

    /// Returns the monotonic time of the earliest delayed task, ns; `None` if no task is delayed.
    pub fn next_due(&self) -> Option<i64> {
        // Relaxed: a hint; a thread that sets an earlier time wakes a sleeper.
        let due_ns = self.next_due_ns.load(Ordering::Relaxed);
        (due_ns != NEVER).then_some(due_ns)
    }

    /// Records that a task has run, and the time of its next run.
    pub(super) fn finish(&self, task: TaskId, next: Next, now: Now) {
        let mut run_queue = self.run_queue();
        match next {
            Next::Idle => {}
            Next::At(at_ns) if at_ns > now.mono_ns => {
                if run_queue.add_at(task, at_ns) {
                    self.publish_due(&run_queue);
                }
            }
            Next::Again | Next::At(_) => run_queue.add(task),
        }
        run_queue.done(task);
        self.publish_queued(&run_queue);
        drop(run_queue);
        // Either more work is queued than this thread takes next, or a sleeper may have to wake up
        // earlier than it planned.
        if self.queued() > 1 || matches!(next, Next::At(_)) {
            self.wake_sleeper();
        }
    }

    /// Sleeps until a task is woken or `timeout` has passed. Returns immediately if a task is
    /// queued or the run is over, and may return spuriously.
    pub(super) fn sleep(&self, timeout: Duration) {
        let guard = lock(&self.sleep_lock);
        // SeqCst: pairs with the fence in `wake_sleeper`. Either the waking thread sees this
        // sleeper and takes the lock to notify it, or this thread sees the queued task.
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.queued() == 0 && !self.is_stopped() {
            let _woken = self
                .work_queued
                .wait_timeout(guard, timeout)
                .expect("no thread panics while it holds this lock");
        }
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Sleeps until the run ends or `timeout` has passed. For the thread that supervises the run.
    pub(super) fn wait_stopped(&self, timeout: Duration) {
        let guard = lock(&self.sleep_lock);
        if !self.is_stopped() {
            let _woken = self
                .ended
                .wait_timeout(guard, timeout)
                .expect("no thread panics while it holds this lock");
        }
    }

    /// Wakes one sleeping thread, if there is one.
    fn wake_sleeper(&self) {
        // Relaxed: see `expect_threads`.
        if !self.threaded.load(Ordering::Relaxed) {
            return;
        }
        // SeqCst: orders the queued task before the load of `sleepers`; see `sleep`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = lock(&self.sleep_lock);
            self.work_queued.notify_one();
        }
    }
}

/// The tasks of a run, indexed by number.
#[derive(Default)]
pub struct Tasks {
    tasks: Vec<Option<Arc<Mutex<dyn Task>>>>,
}

impl fmt::Debug for Tasks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("count", &self.tasks.len())
            .finish()
    }
}

impl Tasks {
    /// Adds a task under its number.
    ///
    /// # Panics
    /// Panics if the number is already in use.
    pub fn install(&mut self, id: TaskId, task: Arc<Mutex<dyn Task>>) {
        if self.tasks.len() <= id.index() {
            self.tasks.resize_with(id.index() + 1, || None);
        }
        let slot = &mut self.tasks[id.index()];
        assert!(slot.is_none(), "each task is installed once");
        *slot = Some(task);
    }

    /// Removes a task. Its pending wake-ups have no effect.
    pub(super) fn remove(&mut self, id: TaskId) {
        self.tasks[id.index()] = None;
    }

    /// Wakes every task in number order. Starts a run.
    pub fn wake_all(&self, executor: &Executor) {
        for (index, task) in self.tasks.iter().enumerate() {
            if task.is_some() {
                executor.wake(TaskId::from_index(index));
            }
        }
    }

    /// Runs a task taken from the executor, and records that it has run.
    pub fn run(&self, id: TaskId, executor: &Executor, now: Now) {
        let next = match &self.tasks[id.index()] {
            Some(task) => task
                .lock()
                .expect("a task that panicked ends the run")
                .run(now),
            // The task was removed after it was woken.
            None => Next::Idle,
        };
        executor.finish(id, next, now);
    }
}
