//! What every engine shares: parts, and the switchboard that decides whose turn it is.
//!
//! Everything that acts in a run (informers, workers, the scheduler, kubelets, the scenario) is a
//! *part* with a number. The switchboard's turns (`turns.rs`) are a de-duplicating queue of part
//! numbers: to wake a part is to add its number, so a part that is woken ten times runs once, a
//! part that is woken while it runs runs again, and no part ever runs twice at once. Drivers
//! ([`virtual_time`], [`threads`]) take numbers from it and run the parts.
//!
//! Some parts run only when no other is queued: the controllers' workers make work for all others,
//! and those who make work wait until what they made is done. This bounds how far watches fall
//! behind, and with it what the watch log holds.
//!
//! Locks: the turns are under one, held for a few instructions; a turn is long beside that. Each
//! part lives in a mutex that only the driver thread which took its number locks while the run
//! lasts, so it is never contended. The bell's mutex guards nothing but going to sleep.

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

use run_queue::RunQueue;

/// The number of a part; the lowest bit says whether it waits for all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(u32);

/// What a part wants after it ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing until somebody wakes it.
    Idle,
    /// To run again after the others that are queued.
    Again,
    /// To run at that moment of the monotonic line, or earlier when woken.
    At(i64),
}

impl Next {
    /// To run again at that moment; never by itself when it is `i64::MAX`.
    #[must_use]
    pub fn not_before(at_ns: i64) -> Next {
        match at_ns {
            i64::MAX => Next::Idle,
            at_ns => Next::At(at_ns),
        }
    }

    /// The earlier of two wishes.
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

/// Something that acts. A run is short (a batch of events, a few syncs): whoever has more to do
/// asks to run again.
pub trait Task: Send {
    /// Does what can be done now. May be called with nothing to do.
    fn run(&mut self, now: Now) -> Next;
}

/// A closure that wakes one part.
pub type Waker = Arc<dyn Fn() + Send + Sync>;

impl TaskId {
    const LOW_PRIORITY: u32 = 1;

    pub(super) fn index(self) -> usize {
        self.0 as usize
    }

    fn from_index(index: usize) -> TaskId {
        TaskId(u32::try_from(index).expect("there are few tasks"))
    }

    /// Whether it runs only when no other is queued.
    pub(super) fn is_low_priority(self) -> bool {
        self.0 & TaskId::LOW_PRIORITY != 0
    }
}

/// `next_due_ns` when nothing is due ever.
const NEVER: i64 = i64::MAX;

/// Whose turn it is. Shared by the driver and by everyone who wakes parts.
pub struct Executor {
    run_queue: Mutex<RunQueue>,
    /// How many parts are queued, and the moment of the earliest delayed one: written under the
    /// lock of the turns, so that whoever looks for work in vain need not take it.
    queued: AtomicUsize,
    next_due_ns: AtomicI64,
    /// Whether several threads take turns; without, nobody ever sleeps.
    threaded: AtomicBool,
    next_id: AtomicU32,
    stopped: AtomicBool,
    /// Threads that are asleep or about to be.
    sleepers: AtomicUsize,
    sleep_lock: Mutex<()>,
    work_queued: Condvar,
    /// Rung once, when the run ends.
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
    /// A switchboard without parts.
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

    /// A number for a part to be, so that wakers can be made before the part is.
    pub fn reserve(&self) -> TaskId {
        // Relaxed: a counter that orders nothing.
        TaskId(self.next_id.fetch_add(1, Ordering::Relaxed) << 1)
    }

    /// A number for a part that runs only when no other is queued.
    pub fn reserve_low_priority(&self) -> TaskId {
        TaskId(self.reserve().0 | TaskId::LOW_PRIORITY)
    }

    /// To be called before the first of several threads takes a turn.
    pub(super) fn expect_threads(&self) {
        // Relaxed: threads that are started later see it.
        self.threaded.store(true, Ordering::Relaxed);
    }

    fn run_queue(&self) -> MutexGuard<'_, RunQueue> {
        self.run_queue
            .lock()
            .expect("no thread panics while it holds this lock")
    }

    /// Lets everyone see how many parts are queued. Under the lock.
    fn publish_queued(&self, run_queue: &RunQueue) {
        // Relaxed: a hint; before going to sleep it is read behind a fence, see `sleep`.
        self.queued.store(run_queue.queued(), Ordering::Relaxed);
    }

    /// Lets everyone see when the next part is due. Under the lock.
    fn publish_due(&self, run_queue: &RunQueue) {
        // Relaxed: as above.
        self.next_due_ns
            .store(run_queue.next_due_ns().unwrap_or(NEVER), Ordering::Relaxed);
    }

    fn queued(&self) -> usize {
        // Relaxed: as above.
        self.queued.load(Ordering::Relaxed)
    }

    /// Wakes a part: it runs soon, once.
    pub fn wake(&self, task: TaskId) {
        let mut run_queue = self.run_queue();
        run_queue.add(task);
        self.publish_queued(&run_queue);
        drop(run_queue);
        self.wake_sleeper();
    }

    /// Wakes a part at `at_ns` of the monotonic line; an earlier wish that is pending stays.
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
        // Whoever sleeps may have to sleep shorter.
        self.wake_sleeper();
    }

    /// A closure that wakes the part.
    pub fn waker(self: &Arc<Self>, task: TaskId) -> Waker {
        let executor = Arc::clone(self);
        Arc::new(move || executor.wake(task))
    }

    /// Ends the run: drivers return after the parts that run now.
    pub fn stop(&self) {
        // SeqCst with the fence in `ring`: a thread about to sleep sees the flag or hears the bell.
        self.stopped.store(true, Ordering::SeqCst);
        let _guard = self
            .sleep_lock
            .lock()
            .expect("no thread panics while it holds this lock");
        self.work_queued.notify_all();
        self.ended.notify_all();
    }

    /// Whether the run has been ended.
    pub fn is_stopped(&self) -> bool {
        // Acquire, with the store in `stop`: what was written before the stop is seen after it.
        self.stopped.load(Ordering::Acquire)
    }

    /// Whether nothing happens any more: no part runs, none is queued, and none will be due.
    pub(super) fn is_at_rest(&self) -> bool {
        // A busy run is told apart without the lock.
        self.queued() == 0 && self.next_due().is_none() && self.run_queue().are_at_rest()
    }

    /// Takes the next part to run, if one is queued.
    pub fn try_take(&self) -> Option<TaskId> {
        if self.queued() == 0 {
            return None;
        }
        let mut run_queue = self.run_queue();
        let task = run_queue.take();
        self.publish_queued(&run_queue);
        task
    }

    /// Queues the parts whose moment has come.
    pub fn fire_due(&self, now: Now) {
        let mut run_queue = self.run_queue();
        run_queue.fire_due(now.mono_ns);
        self.publish_queued(&run_queue);
        self.publish_due(&run_queue);
    }

    /// The moment of the earliest delayed part.
    pub fn next_due(&self) -> Option<i64> {
        // Relaxed: a hint; whoever made it earlier rings.
        let due_ns = self.next_due_ns.load(Ordering::Relaxed);
        (due_ns != NEVER).then_some(due_ns)
    }

    /// Books a part's run as over, with its wish.
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
        // More than this thread will take next, or an earlier moment to sleep until.
        if self.queued() > 1 || matches!(next, Next::At(_)) {
            self.wake_sleeper();
        }
    }

    /// Sleeps until somebody rings or `timeout` has passed; returns at once when a part is queued
    /// or the run is over. May return for no reason.
    pub(super) fn sleep(&self, timeout: Duration) {
        let guard = self
            .sleep_lock
            .lock()
            .expect("no thread panics while it holds this lock");
        // SeqCst: pairs with the fence in `ring`. Either the waker sees this sleeper and takes the
        // lock to notify, or this thread sees what the waker queued.
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

    /// Sleeps until the run is ended or `timeout` has passed: for the thread that watches.
    pub(super) fn wait_stopped(&self, timeout: Duration) {
        let guard = self
            .sleep_lock
            .lock()
            .expect("no thread panics while it holds this lock");
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
        // SeqCst: orders the add before the look at the sleepers; see `sleep`.
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _guard = self
                .sleep_lock
                .lock()
                .expect("no thread panics while it holds this lock");
            self.work_queued.notify_one();
        }
    }
}

/// The parts of a run, by their numbers.
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
    /// Puts a part in the place of its number.
    ///
    /// # Panics
    /// When the place is taken.
    pub fn install(&mut self, id: TaskId, task: Arc<Mutex<dyn Task>>) {
        if self.tasks.len() <= id.index() {
            self.tasks.resize_with(id.index() + 1, || None);
        }
        let place = &mut self.tasks[id.index()];
        assert!(place.is_none(), "a task is installed once");
        *place = Some(task);
    }

    /// Takes a part away: what it still wished for comes to nothing.
    pub(super) fn remove(&mut self, id: TaskId) {
        self.tasks[id.index()] = None;
    }

    /// Wakes every part, in order of their numbers: how a run starts.
    pub fn wake_all(&self, executor: &Executor) {
        for (index, task) in self.tasks.iter().enumerate() {
            if task.is_some() {
                executor.wake(TaskId::from_index(index));
            }
        }
    }

    /// Runs a part that was taken from the switchboard and books it.
    pub fn run(&self, id: TaskId, executor: &Executor, now: Now) {
        let next = match &self.tasks[id.index()] {
            Some(task) => task
                .lock()
                .expect("a task that panicked ends the run")
                .run(now),
            // Taken away since it was woken.
            None => Next::Idle,
        };
        executor.finish(id, next, now);
    }
}
