//! Open watches and delayed answers, and the faults that hold them.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Sleep;

use super::fault::Asked;

/// The interval at which a hold checks a clock that advances by itself, possibly faster than the
/// computer's.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The effect of a fault on an open watch.
#[derive(Clone, Debug)]
pub(crate) enum WatchFault {
    /// Nothing is sent until the hold is over.
    Held(Arc<Hold>),
    /// The watch ends.
    End,
    /// The connection closes.
    Cut,
    /// The watch ends with a 410.
    Expire,
}

/// A watch or a delayed answer: the waker of the task that sends it, and the fault that struck it.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// The properties of the watch request; `None` for a delayed answer.
    pub(super) asked: Option<Asked>,
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    waker: Option<Waker>,
    /// The fault that struck the watch, if any.
    met: Option<WatchFault>,
}

impl Waiting {
    /// Returns the state of a new watch.
    pub(crate) fn watch(asked: Option<Asked>) -> Waiting {
        Waiting {
            asked,
            slot: Mutex::default(),
        }
    }

    /// Stores the waker of the task, and returns the fault that struck the watch, if any. Takes one
    /// short lock.
    pub(crate) fn wait(&self, waker: &Waker) -> Option<WatchFault> {
        let mut slot = self.lock();
        let known = slot.waker.as_ref();
        if !known.is_some_and(|known| known.will_wake(waker)) {
            slot.waker = Some(waker.clone());
        }
        slot.met.clone()
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = self.lock().waker.take() {
            waker.wake();
        }
    }

    /// Strikes the watch with a fault. Returns false if the fault has no effect, because the watch
    /// is about to end or is already held.
    pub(super) fn meet(&self, fault: WatchFault, now_ns: i64) -> bool {
        let mut slot = self.lock();
        let is_free = match &slot.met {
            None => true,
            Some(WatchFault::Held(hold)) => {
                !matches!(fault, WatchFault::Held(_)) || hold.is_over(now_ns)
            }
            Some(_) => false,
        };
        if is_free {
            slot.met = Some(fault);
            if let Some(waker) = slot.waker.take() {
                waker.wake();
            }
        }
        is_free
    }

    fn lock(&self) -> MutexGuard<'_, Slot> {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The current time, by which holds end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HoldTime {
    /// The cluster's monotonic time.
    pub(crate) now_ns: i64,
    /// Whether the clock stands still until it is advanced.
    pub(crate) is_virtual: bool,
}

/// A period during which a fault holds a watch or an answer.
#[derive(Debug)]
pub(crate) struct Hold {
    /// The end in ns on the cluster's monotonic clock; `i64::MAX` if only a release ends the hold.
    pub(super) due_ns: i64,
    is_released: AtomicBool,
}

impl Hold {
    /// Starts a hold that lasts for `time` or, if `None`, until it is released.
    pub(super) fn new(now_ns: i64, time: Option<Duration>) -> Arc<Hold> {
        let time_ns = time.map_or(i64::MAX, |time| {
            i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
        });
        Arc::new(Hold {
            due_ns: now_ns.saturating_add(time_ns),
            is_released: AtomicBool::new(false),
        })
    }

    pub(super) fn release(&self) {
        // Relaxed: the lock of the `Waiting` that is woken next orders this store.
        self.is_released.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self, now_ns: i64) -> bool {
        // Relaxed: see `release`.
        self.is_released.load(Ordering::Relaxed) || self.due_ns <= now_ns
    }

    /// Ready when the hold is over. The caller has already stored its waker in a [`Waiting`];
    /// `look` is the timer for a clock that advances by itself.
    pub(crate) fn poll_over(
        &self,
        time: HoldTime,
        look: &mut Option<Pin<Box<Sleep>>>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_over(time.now_ns) {
            *look = None;
            return Poll::Ready(());
        }
        // Advancing virtual time and releasing the hold both wake the task, so no timer is needed.
        if time.is_virtual || self.due_ns == i64::MAX {
            return Poll::Pending;
        }
        let sleep = look.get_or_insert_with(|| Box::pin(tokio::time::sleep(LOOK_EVERY)));
        if sleep.as_mut().poll(context).is_ready() {
            *look = None;
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}

/// A watch or an answer that a fault holds.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) hold: Arc<Hold>,
    pub(super) waiting: Weak<Waiting>,
}

impl Held {
    pub(super) fn wake(&self) {
        if let Some(waiting) = self.waiting.upgrade() {
            waiting.wake();
        }
    }
}

/// The open watches and delayed answers. Entries of ended ones are removed later.
#[derive(Debug, Default)]
pub(crate) struct Watches(Mutex<Vec<Weak<Waiting>>>);

impl Watches {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Vec<Weak<Waiting>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
