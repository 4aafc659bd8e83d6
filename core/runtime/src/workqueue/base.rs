//! The de-duplicating queue: a state machine per key over one first-in-first-out order.

use std::fmt;
use std::marker::PhantomData;

use super::fifo::{Fifo, Popped};
use super::slot::{KeyState, Overflow, Slot, Word};
use super::stats::{QueueStats, Reported};
use crate::intern::{AppendTable, DenseKey};
use crate::limits::TABLE_FIRST_CHUNK;
use crate::primitives::{Ordering, back_off, between_seq_cst};

/// What [`WorkQueue::try_take`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take<K> {
    /// A key to work on. Call [`WorkQueue::done`] afterwards.
    Key(K),
    /// No key is waiting.
    Empty,
    /// No key is waiting and none will come.
    ShutDown,
}

/// A queue in which each key waits at most once and is worked on by at most one worker at a time. A
/// key that is added while it is worked on waits again once it is done.
///
/// All methods may be called by any thread. Adding, taking and finishing cost O(1), take no lock
/// except to wake a parked worker, and allocate nothing once there have been as many keys as are in
/// use. Upstream: `k8s.io/client-go/util/workqueue/queue.go`.
pub struct WorkQueue<K> {
    slots: AppendTable<Slot>,
    fifo: Fifo,
    overflow: Overflow,
    reported: Reported,
    key: PhantomData<fn(K) -> K>,
}

impl<K: DenseKey> WorkQueue<K> {
    /// An empty queue.
    pub fn new() -> Self {
        WorkQueue::with_capacity(0)
    }

    /// An empty queue with capacity for the keys with indices below `keys`.
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

    /// Adds a key. Returns whether this had an effect: false if the key waits already, if it will
    /// wait again once it is done, or if the queue is shut down. (An add that races with the
    /// shut-down may have an effect although no worker is left to see it.)
    ///
    /// Everything that the caller did before is visible to the worker that takes the key next.
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

    /// Takes the key that has waited longest, if any.
    #[inline]
    pub fn try_take(&self, now_ns: i64) -> Take<K> {
        match self.try_take_with_wait(now_ns) {
            Take::Key((key, _)) => Take::Key(key),
            Take::Empty => Take::Empty,
            Take::ShutDown => Take::ShutDown,
        }
    }

    /// As [`try_take`](Self::try_take), also returns for how long the key has waited, in
    /// nanoseconds: the value that `workqueue_queue_duration_seconds` counts, without its buckets.
    #[inline]
    pub fn try_take_with_wait(&self, now_ns: i64) -> Take<(K, u64)> {
        match self.fifo.pop() {
            Popped::Key(index) => Take::Key(self.taken(index, now_ns)),
            Popped::Nothing(control) if control.is_shutting() => Take::ShutDown,
            Popped::Nothing(_) => Take::Empty,
        }
    }

    /// Takes the key that has waited longest. Parks the thread while none is waiting. `None` when
    /// the queue is shut down and empty. `clock` is read once, when there is a key.
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

    /// Ends the work on a key that was taken. Does nothing for a key that was not taken.
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

    /// Whether the key neither waits nor is worked on now.
    pub fn is_idle(&self, key: K) -> bool {
        let slot = self.slots.get(key.index());
        slot.is_none_or(|slot| slot.word().state() == KeyState::Idle)
    }

    /// The number of keys that can be taken now, without those being worked on.
    pub fn len(&self) -> usize {
        self.fifo.len()
    }

    /// Whether no key can be taken now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Shuts the queue down: adds are ignored from now on, waiting keys are still returned, and
    /// then [`Take::ShutDown`] is. Cancels a drain. Wakes all threads.
    pub fn shut_down(&self) {
        self.fifo.shut_down();
    }

    /// As [`shut_down`](Self::shut_down), then parks the thread until no key is being worked on, or
    /// until `shut_down` is called. Keys may still be waiting then.
    pub fn shut_down_with_drain(&self) {
        self.start_drain();
        self.fifo.wait_for_drain(|| self.drain_complete());
    }

    /// The first half of [`shut_down_with_drain`](Self::shut_down_with_drain), which does not park.
    pub fn start_drain(&self) {
        self.fifo.start_drain();
    }

    /// Whether [`shut_down_with_drain`](Self::shut_down_with_drain) would return now; false if the
    /// queue is not shut down. O(keys).
    pub fn drain_complete(&self) -> bool {
        let control = self.fifo.control();
        control.is_shutting() && (!control.is_draining() || self.nothing_is_running())
    }

    /// Whether the queue is shut down.
    #[inline]
    pub fn shutting_down(&self) -> bool {
        self.fifo.control().is_shutting()
    }

    /// Whether at one moment no key was being worked on.
    ///
    /// One pass over the keys could miss a key that is taken behind the pass while another is
    /// finished before it. So this makes two passes: if no key was taken between them and none was
    /// running in either, none was running in between.
    fn nothing_is_running(&self) -> bool {
        let running =
            |slot: &Slot| matches!(slot.word().state(), KeyState::Running | KeyState::Dirty);
        loop {
            let (mut before, mut after) = (0u64, 0u64);
            for (_, slot) in self.slots.iter() {
                // Acquire: the word is read after the count here, and before it below.
                before += u64::from(slot.takes.load(Ordering::Acquire));
                if running(slot) {
                    return false;
                }
            }
            for (_, slot) in self.slots.iter() {
                if running(slot) {
                    return false;
                }
                // Relaxed: the count is stored before the word says that the key is done, and the
                // word was acquired.
                after += u64::from(slot.takes.load(Ordering::Relaxed));
            }
            if before == after {
                return true;
            }
        }
    }

    /// The metrics now. O(keys); for a scrape, not for a hot path.
    pub fn stats(&self, now_ns: i64) -> QueueStats {
        let mut stats = QueueStats::of(&self.overflow);
        for (_, slot) in self.slots.iter() {
            stats.count(slot, now_ns);
        }
        stats.conclude(&self.reported);
        stats
    }
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "dense keys fit in 32 bits")]
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
