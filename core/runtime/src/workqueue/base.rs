//! The deduplicating queue: a state machine for each key, and one first-in, first-out order.

use std::fmt;
use std::marker::PhantomData;

use super::fifo::{Fifo, Popped};
use super::slot::{KeyState, Overflow, Slot, Word};
use super::stats::{QueueStats, Reported};
use crate::intern::{AppendTable, DenseKey};
use crate::limits::TABLE_FIRST_CHUNK;
use crate::primitives::{Ordering, back_off, between_seq_cst};

/// The result of taking a key from a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take<K> {
    /// The key to work on. The worker must call [`WorkQueue::done`] afterwards.
    Key(K),
    /// No key is waiting.
    Empty,
    /// No key is waiting, and none will come.
    ShutDown,
}

/// A queue in which each key waits at most once and is processed by at most one worker at a time. A
/// key that is added while a worker processes it waits again once that worker is done.
///
/// All methods may be called from any thread. Adding, taking and finishing cost O(1) and take no
/// lock except to wake a parked worker. They allocate only while the number of keys grows.
/// Upstream: `k8s.io/client-go/util/workqueue/queue.go`.
pub struct WorkQueue<K> {
    slots: AppendTable<Slot>,
    fifo: Fifo,
    overflow: Overflow,
    reported: Reported,
    key: PhantomData<fn(K) -> K>,
}

impl<K: DenseKey> WorkQueue<K> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        WorkQueue::with_capacity(0)
    }

    /// Creates an empty queue with capacity for the keys with indices below `keys`.
    pub fn with_capacity(keys: usize) -> Self {
        let slots = AppendTable::<Slot>::new();
        for index in (0..keys)
            .step_by(TABLE_FIRST_CHUNK)
            .chain(keys.checked_sub(1))
        {
            slots.get_or_grow(index);
        }
        WorkQueue {
            slots,
            fifo: Fifo::new(keys),
            overflow: Overflow::default(),
            reported: Reported::default(),
            key: PhantomData,
        }
    }

    /// Adds a key. Returns whether the add had an effect: `false` if the key already waits, if it
    /// will wait again once it is done, or if the queue is shut down. (An add that races with the
    /// shutdown may have an effect although no worker is left to take the key.)
    ///
    /// All earlier writes of the caller are visible to the worker that takes the key next.
    #[inline]
    pub fn add(&self, key: K, now_ns: i64) -> bool {
        let control = self.fifo.control();
        if control.is_shutting() {
            return false;
        }
        let slot = self.slots.get_or_grow(key.index());
        loop {
            let seen = slot.word();
            let state = seen.state();
            let next = match state {
                KeyState::Idle => Word::new(KeyState::Queued, now_ns),
                KeyState::Running => Word::new(KeyState::Dirty, now_ns),
                KeyState::Queued | KeyState::Dirty => seen,
            };
            if slot.exchange(seen, next) {
                if state == KeyState::Idle {
                    self.fifo.push(control, ring_index(key));
                }
                return next != seen;
            }
            back_off();
        }
    }

    /// Takes the key that has waited longest. Does not block.
    #[inline]
    pub fn try_take(&self, now_ns: i64) -> Take<K> {
        match self.try_take_with_wait(now_ns) {
            Take::Key((key, _)) => Take::Key(key),
            Take::Empty => Take::Empty,
            Take::ShutDown => Take::ShutDown,
        }
    }

    /// Like [`try_take`](Self::try_take), but also returns how long the key has waited, in
    /// nanoseconds. The metric `workqueue_queue_duration_seconds` counts this time in buckets.
    #[inline]
    pub fn try_take_with_wait(&self, now_ns: i64) -> Take<(K, u64)> {
        match self.fifo.pop() {
            Popped::Key(index) => Take::Key(self.taken(index, now_ns)),
            Popped::Nothing(control) if control.is_shutting() => Take::ShutDown,
            Popped::Nothing(_) => Take::Empty,
        }
    }

    /// Takes the key that has waited longest. Parks the thread while no key is waiting. Returns
    /// `None` once the queue is shut down and empty. Reads `clock` once, after a key was found.
    pub fn take(&self, clock: &dyn Fn() -> i64) -> Option<K> {
        let index = self.fifo.pop_or_park()?;
        Some(self.taken(index, clock()).0)
    }

    #[inline]
    fn taken(&self, index: u32, now_ns: i64) -> (K, u64) {
        let key = K::from_index(index as usize);
        let waited_ns = self
            .slots
            .get(key.index())
            .expect("a key in the ring has a slot")
            .take(now_ns, &self.overflow);
        (key, waited_ns)
    }

    /// Ends the work on a taken key. Does nothing for a key that was not taken.
    #[inline]
    pub fn done(&self, key: K, now_ns: i64) {
        let Some(slot) = self.slots.get(key.index()) else {
            return;
        };
        let mut seen = slot.word();
        if matches!(seen.state(), KeyState::Idle | KeyState::Queued) {
            return;
        }
        slot.count_work(now_ns, &self.overflow);
        let again = loop {
            let (next, again) = match seen.state() {
                KeyState::Dirty => (Word::new(KeyState::Queued, seen.added_ns()), true),
                _ => (Word::new(KeyState::Idle, 0), false),
            };
            if slot.exchange(seen, next) {
                break again;
            }
            back_off();
            seen = slot.word();
        };
        between_seq_cst();
        let control = self.fifo.control();
        if again {
            self.fifo.push(control, ring_index(key));
        }
        if control.is_draining() {
            self.fifo.wake_drain();
        }
    }

    /// Reports whether the key is neither waiting nor taken.
    pub fn is_idle(&self, key: K) -> bool {
        let slot = self.slots.get(key.index());
        slot.is_none_or(|slot| slot.word().state() == KeyState::Idle)
    }

    /// Returns the number of waiting keys. Taken keys don't count.
    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    /// Reports whether no key is waiting.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shuts the queue down. It ignores later adds, still returns the waiting keys, and then
    /// returns [`Take::ShutDown`]. Cancels a drain. Wakes all threads.
    pub fn shut_down(&self) {
        self.fifo.shut_down();
    }

    /// Like [`shut_down`](Self::shut_down), then parks the thread until no key is taken or until
    /// `shut_down` is called. Keys may still be waiting then.
    pub fn shut_down_with_drain(&self) {
        self.start_drain();
        self.fifo.wait_for_drain(|| self.drain_complete());
    }

    /// Starts a drain without waiting for its end:
    /// [`shut_down_with_drain`](Self::shut_down_with_drain) without the parking.
    pub fn start_drain(&self) {
        self.fifo.start_drain();
    }

    /// Reports whether [`shut_down_with_drain`](Self::shut_down_with_drain) would return
    /// immediately; `false` if the queue is not shut down. O(keys).
    pub fn drain_complete(&self) -> bool {
        let control = self.fifo.control();
        control.is_shutting() && (!control.is_draining() || self.nothing_is_running())
    }

    /// Reports whether the queue is shut down.
    #[inline]
    pub fn shutting_down(&self) -> bool {
        self.fifo.control().is_shutting()
    }

    /// Reports whether there was a moment at which no key was taken.
    ///
    /// A single pass over the keys could miss a key that is taken after the pass has visited it,
    /// while a key that the pass has not reached yet is finished. This function therefore makes two
    /// passes. If neither found a running key and no key was taken between them, nothing was
    /// running between them.
    fn nothing_is_running(&self) -> bool {
        let running =
            |slot: &Slot| matches!(slot.word().state(), KeyState::Running | KeyState::Dirty);
        loop {
            let (mut before, mut after) = (0u64, 0u64);
            for (_, slot) in self.slots.iter() {
                // Acquire: the word is read after the count here, and before the count below.
                before += u64::from(slot.takes.load(Ordering::Acquire));
                if running(slot) {
                    return false;
                }
            }
            for (_, slot) in self.slots.iter() {
                if running(slot) {
                    return false;
                }
                // Relaxed: the count is stored before the word marks the key as done, and the word
                // was acquired.
                after += u64::from(slot.takes.load(Ordering::Relaxed));
            }
            if before == after {
                return true;
            }
        }
    }

    /// Returns the current metrics. O(keys): for a scrape, not for a hot path.
    pub fn stats(&self, now_ns: i64) -> QueueStats {
        let mut stats = QueueStats::from_overflow(&self.overflow);
        for (_, slot) in self.slots.iter() {
            stats.count(slot, now_ns);
        }
        stats.conclude(&self.reported);
        stats
    }
}

#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "dense keys fit into 32 bits"
)]
fn ring_index<K: DenseKey>(key: K) -> u32 {
    key.index() as u32
}

impl<K: DenseKey> Default for WorkQueue<K> {
    fn default() -> Self {
        WorkQueue::new()
    }
}

impl<K> fmt::Debug for WorkQueue<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkQueue")
            .field("len", &self.fifo.len())
            .finish_non_exhaustive()
    }
}
