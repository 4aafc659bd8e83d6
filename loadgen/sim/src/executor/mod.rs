//! The executor: everything that acts in a run is a task, and the executor decides which task runs
//! next.
//!
//! Tasks are the informers, workers, scheduler, kubelets and the scenario. Each has a number
//! ([`TaskId`]). The run queue (`run_queue.rs`) holds the numbers of woken tasks, without
//! duplicates: a task that is woken ten times runs once, a task that is woken while it runs runs
//! again, and no task runs twice at the same time. A driver ([`virtual_time`], [`threads`]) takes
//! numbers from the queue and runs the tasks.
//!
//! Low-priority tasks run only when no other task is queued. The controllers' workers are such
//! tasks: they make work for all others, and they wait until that work is done. This bounds how far
//! watches fall behind, and with it what the watch log holds.
//!
//! Locks: the run queue is under one lock, held for a few instructions; the run of a task is long
//! beside that. Each task is in a mutex that only the thread which took its number locks, so the
//! mutex is never contended. The sleep lock protects nothing but the decision to go to sleep.

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

/// When a task runs again, as it says at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// When it is woken.
    Idle,
    /// After the other queued tasks.
    Again,
    /// At that moment of monotonic time, ns, or earlier when it is woken.
    At(i64),
}

impl Next {
    /// At that moment; only when it is woken for `i64::MAX`.
    #[must_use]
    pub fn not_before(at_ns: i64) -> Next {
        match at_ns {
            i64::MAX => Next::Idle,
            at_ns => Next::At(at_ns),
        }
    }

    /// The earlier of the two.
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

/// Something that acts. A run of a task is short (a batch of events, a few syncs): a task with more
/// to do asks to run again.
pub trait Task: Send {
    /// Does what can be done now. May be called with nothing to do.
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
        TaskId(u32::try_from(index).expect("there are few tasks"))
    }

    /// Whether the task runs only when no other task is queued.
    pub(super) fn is_low_priority(self) -> bool {
        self.0 & TaskId::LOW_PRIORITY != 0
    }
}

/// `next_due_ns` when no task is delayed.
const NEVER: i64 = i64::MAX;

/// Decides which task runs next. The driver shares it with everything that wakes tasks.
pub struct Executor {
    run_queue: Mutex<RunQueue>,
    /// The number of queued tasks, and the moment of the earliest delayed task. Both are written
    /// under the lock of the run queue; a thread that finds no work here need not take that lock.
    queued: AtomicUsize,
    next_due_ns: AtomicI64,
    /// Whether several threads take tasks; a single thread never sleeps.
    threaded: AtomicBool,
    next_id: AtomicU32,
    stopped: AtomicBool,
    /// Threads that are asleep or about to be.
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
    /// An executor without tasks.
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

    /// A number for a future task, so that its wakers can be made before the task is.
    pub fn reserve(&self) -> TaskId {
        // Relaxed: a counter that orders nothing.
        TaskId(self.next_id.fetch_add(1, Ordering::Relaxed) << 1)
    }

    /// A number for a task that runs only when no other task is queued.
    pub fn reserve_low_priority(&self) -> TaskId {
        TaskId(self.reserve().0 | TaskId::LOW_PRIORITY)
    }

    /// Must be called before the first of several threads takes a task.
    pub(super) fn expect_threads(&self) {
        // Relaxed: threads that are started later see it.
        self.threaded.store(true, Ordering::Relaxed);
    }

    fn run_queue(&self) -> MutexGuard<'_, RunQueue> {
        lock(&self.run_queue)
    }

    /// Publishes the number of queued tasks. Called under the lock.
    fn publish_queued(&self, run_queue: &RunQueue) {
        // Relaxed: a hint; a thread reads it again behind a fence before it goes to sleep, see
        // `sleep`.
        self.queued.store(run_queue.queued(), Ordering::Relaxed);
    }

    /// Publishes the moment at which the next task is due. Called under the lock.
    fn publish_due(&self, run_queue: &RunQueue) {
        // Relaxed: as above.
        self.next_due_ns
            .store(run_queue.next_due_ns().unwrap_or(NEVER), Ordering::Relaxed);
    }

    fn queued(&self) -> usize {
        // Relaxed: as above.
        self.queued.load(Ordering::Relaxed)
    }

    /// Wakes a task: it runs soon, once.
    pub fn wake(&self, task: TaskId) {
        let mut run_queue = self.run_queue();
        run_queue.add(task);
        self.publish_queued(&run_queue);
        drop(run_queue);
        self.wake_sleeper();
    }

    /// Wakes a task at `at_ns` of monotonic time; an earlier wake-up that is pending stays.
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

    /// A closure that wakes the task.
    pub fn waker(self: &Arc<Self>, task: TaskId) -> Waker {
        let executor = Arc::clone(self);
        Arc::new(move || executor.wake(task))
    }

    /// Ends the run: drivers return after the tasks that run now.
    pub fn stop(&self) {
        // SeqCst with the fence in `wake_sleeper`: a thread about to sleep sees the flag or is
        // notified.
        self.stopped.store(true, Ordering::SeqCst);
        let _guard = lock(&self.sleep_lock);
        self.work_queued.notify_all();
        self.ended.notify_all();
    }

    /// Whether the run has been ended.
    pub fn is_stopped(&self) -> bool {
        // Acquire, with the store in `stop`: what was written before the stop is seen after it.
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether nothing will happen: no task runs, is queued or is delayed.
    pub(super) fn is_at_rest(&self) -> bool {
        // The first two tests find a busy run without the lock.
        self.queued() == 0 && self.next_due().is_none() && self.run_queue().are_at_rest()
    }

    /// Whether nothing will happen unless one of these tasks makes it: no other task is delayed, and none runs
    /// or is queued.
    pub fn is_at_rest_but_for(&self, timers: &[TaskId]) -> bool {
        self.queued() == 0 && self.run_queue().are_at_rest_but_for(timers)
    }

    /// Takes the next task to run, if one is queued.
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

    /// The moment of the earliest delayed task.
    pub fn next_due(&self) -> Option<i64> {
        // Relaxed: a hint; a thread that makes the moment earlier wakes a sleeper.
        let due_ns = self.next_due_ns.load(Ordering::Relaxed);
        (due_ns != NEVER).then_some(due_ns)
    }

    /// Records that a task has run, and when it is to run again.
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
        // There is more than this thread takes next, or sleepers have an earlier moment to wake up
        // at.
        if self.queued() > 1 || matches!(next, Next::At(_)) {
            self.wake_sleeper();
        }
    }

    /// Sleeps until a task is woken or `timeout` has passed. Returns at once when a task is queued
    /// or the run is over, and may return for no reason.
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

    /// Sleeps until the run is ended or `timeout` has passed: for the thread that watches the run.
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
        // SeqCst: orders the queued task before the look at the sleepers; see `sleep`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = lock(&self.sleep_lock);
            self.work_queued.notify_one();
        }
    }
}

/// The tasks of a run, by their numbers.
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
    /// When there is a task of that number.
    pub fn install(&mut self, id: TaskId, task: Arc<Mutex<dyn Task>>) {
        if self.tasks.len() <= id.index() {
            self.tasks.resize_with(id.index() + 1, || None);
        }
        let slot = &mut self.tasks[id.index()];
        assert!(slot.is_none(), "a task is installed once");
        *slot = Some(task);
    }

    /// Removes a task; its pending wake-ups have no effect.
    pub(super) fn remove(&mut self, id: TaskId) {
        self.tasks[id.index()] = None;
    }

    /// Wakes every task in order of the numbers: how a run starts.
    pub fn wake_all(&self, executor: &Executor) {
        for (index, task) in self.tasks.iter().enumerate() {
            if task.is_some() {
                executor.wake(TaskId::from_index(index));
            }
        }
    }

    /// Runs a task that was taken from the executor, and records that it has run.
    pub fn run(&self, id: TaskId, executor: &Executor, now: Now) {
        let next = match &self.tasks[id.index()] {
            Some(task) => task
                .lock()
                .expect("a task that panicked ends the run")
                .run(now),
            // Removed since it was woken.
            None => Next::Idle,
        };
        executor.finish(id, next, now);
    }
}
