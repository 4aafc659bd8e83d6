//! What waits: open watches, which wait for events, and answers that a fault delays.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::Sleep;

use super::fault::Asked;
use crate::ApiServer;

/// How often what is held back looks at a clock that passes by itself, and maybe faster than the computer's.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// What a fault has done to an open watch.
#[derive(Clone, Debug)]
pub(crate) enum WatchFault {
    /// It gets nothing until the hold is over.
    Held(Arc<Hold>),
    /// It ends.
    End,
    /// Its connection closes.
    Cut,
    /// It ends with 410.
    Expire,
}

/// Wakes the task that sends a watch, or a delayed answer.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// What the watch asks for; absent for an answer.
    pub(super) asked: Option<Asked>,
    slot: Mutex<Slot>,
}

#[derive(Debug, Default)]
struct Slot {
    waker: Option<Waker>,
    /// The fault that the watch has met.
    met: Option<WatchFault>,
}

impl Waiting {
    /// An open watch.
    pub(crate) fn watch(asked: Option<Asked>) -> Waiting {
        Waiting {
            asked,
            slot: Mutex::default(),
        }
    }

    /// Is woken by this waker from now on; returns the fault that it has met. Takes one short lock.
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

    /// Meets a fault. False where that changes nothing: it is about to end, or is held already.
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

/// The time for which a fault holds something back.
#[derive(Debug)]
pub(crate) struct Hold {
    /// Monotonic time of the cluster; `i64::MAX`: until it is released.
    pub(super) due_ns: i64,
    is_released: AtomicBool,
}

impl Hold {
    /// From now on for a time, or until it is released.
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
        // Relaxed: the lock of the `Waiting` that is woken next orders it.
        self.is_released.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_over(&self, now_ns: i64) -> bool {
        // Relaxed: as above.
        self.is_released.load(Ordering::Relaxed) || self.due_ns <= now_ns
    }

    /// Ready when it is over. The caller waits already; `look` is for clocks that no task moves.
    pub(crate) fn poll_over(
        &self,
        server: &ApiServer,
        look: &mut Option<Pin<Box<Sleep>>>,
        context: &mut Context<'_>,
    ) -> Poll<()> {
        if self.is_over(server.now().mono_ns) {
            *look = None;
            return Poll::Ready(());
        }
        // Virtual time is moved, and until it is released there is nothing to look at.
        if server.0.virtual_time.is_some() || self.due_ns == i64::MAX {
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

/// What a fault holds back.
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
