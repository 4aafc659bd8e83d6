//! The base queue, extended with delays and a rate limiter.

use podstorm_objects::Str;

use super::base::{Take, WorkQueue};
use super::delay::DelayHeap;
use super::rate_limit::Limiter;
use super::row::{End, QueueRow};
use super::stats::QueueStats;
use crate::intern::DenseKey;
use crate::limits::HARDENED_STALE_RETRY_MAX_NS;
use crate::metrics::Family;
use crate::primitives::{AtomicI64, CachePadded, Mutex, MutexGuard, Ordering, lock};

/// The value of `next_due_ns` if no key is delayed.
const NEVER: i64 = i64::MAX;

/// A [`WorkQueue`] whose keys can also be added later, after a given delay or after a delay that
/// grows with the key's failures. Each key has at most one delayed add, the earliest. A delayed add
/// stays until it is due.
///
/// The memory layout follows the order of the fields: the base queue is at the beginning and is
/// reached without an addition.
#[derive(Debug)]
#[repr(C)]
pub struct RateLimitingQueue<K> {
    queue: WorkQueue<K>,
    delays: CachePadded<Mutex<Delays>>,
    /// The earliest due time in the heap. Written under the lock of `delays`. All accesses are
    /// Relaxed: a thread that finds a due time checks again under that lock.
    next_due_ns: CachePadded<AtomicI64>,
    limiter: Limiter<K>,
    row: QueueRow,
}

#[derive(Debug, Default)]
struct Delays {
    heap: DelayHeap,
    /// The number of accepted delayed adds, including those with a delay of 0.
    retries: u64,
    /// For each key, when its last bounded retry is due, until it is canceled; `i64::MIN` if there
    /// is none.
    bounded: Vec<i64>,
}

impl Delays {
    /// Returns when the key will be added; `None` if that is after its last bounded retry.
    fn pending_retry(&self, key: usize) -> Option<i64> {
        let retry_ns = *self.bounded.get(key)?;
        let due_ns = self.heap.due_ns(u32::try_from(key).ok()?)?;
        (due_ns <= retry_ns).then_some(due_ns)
    }

    fn note_retry(&mut self, key: usize, due_ns: i64) {
        if key >= self.bounded.len() {
            let len = (key + 1).next_power_of_two();
            self.bounded.resize(len, i64::MIN);
        }
        self.bounded[key] = due_ns;
    }
}

impl<K: DenseKey> RateLimitingQueue<K> {
    /// Creates an empty queue without a name, with the settings of most upstream queues; see
    /// [`QueueRow::new`].
    pub fn new() -> Self {
        RateLimitingQueue::with_capacity(0)
    }

    /// Like [`new`](Self::new), with capacity for the keys with indices below `keys`.
    pub fn with_capacity(keys: usize) -> Self {
        RateLimitingQueue::build(QueueRow::new(""), keys)
    }

    /// Creates an empty queue with the settings in `row`.
    pub fn from_row(row: QueueRow) -> Self {
        RateLimitingQueue::build(row, 0)
    }

    fn build(row: QueueRow, keys: usize) -> Self {
        RateLimitingQueue {
            row,
            queue: WorkQueue::with_capacity(keys),
            limiter: Limiter::new(row.delay),
            delays: CachePadded::default(),
            next_due_ns: CachePadded::new(AtomicI64::new(NEVER)),
        }
    }

    /// Returns the queue's row.
    pub fn row(&self) -> &QueueRow {
        &self.row
    }

    /// Adds a key immediately; see [`WorkQueue::add`].
    #[inline]
    pub fn add(&self, key: K, now_ns: i64) -> bool {
        self.queue.add(key, now_ns)
    }

    /// Takes the key that has waited longest, without blocking; see [`WorkQueue::try_take`].
    #[inline]
    pub fn try_take(&self, now_ns: i64) -> Take<K> {
        self.queue.try_take(now_ns)
    }

    /// Like [`try_take`](Self::try_take), but also returns how long the key has waited; see
    /// [`WorkQueue::try_take_with_wait`].
    #[inline]
    pub fn try_take_with_wait(&self, now_ns: i64) -> Take<(K, u64)> {
        self.queue.try_take_with_wait(now_ns)
    }

    /// Takes the key that has waited longest. Parks while there is none; see
    /// [`WorkQueue::take`].
    pub fn take(&self, clock: &dyn Fn() -> i64) -> Option<K> {
        self.queue.take(clock)
    }

    /// Ends the work on a taken key; see [`WorkQueue::done`].
    #[inline]
    pub fn done(&self, key: K, now_ns: i64) {
        self.queue.done(key, now_ns);
    }

    /// Adds a key after a delay, or immediately if the delay is 0 or less. Keeps only the earlier
    /// of two delayed adds of a key. Does nothing once the queue is shut down.
    ///
    /// Returns whether [`next_due`](Self::next_due) is now earlier, so that a timer must be reset.
    /// Takes the lock of the delays. O(log n), and O(1) on average.
    pub fn add_after(&self, key: K, delay_ns: i64, now_ns: i64) -> bool {
        if self.queue.shutting_down() {
            return false;
        }
        let mut delays = lock(&self.delays);
        delays.retries += 1;
        if delay_ns <= 0 {
            drop(delays);
            self.queue.add(key, now_ns);
            return false;
        }
        let due_ns = now_ns.saturating_add(delay_ns);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "dense keys fit into 32 bits"
        )]
        delays.heap.insert(key.index() as u32, due_ns);
        let is_earlier = due_ns < self.next_due_ns.load(Ordering::Relaxed);
        if is_earlier {
            self.next_due_ns.store(due_ns, Ordering::Relaxed);
        }
        is_earlier
    }

    /// Returns when the next delayed add is due; `None` if no key is delayed, or if the queue is
    /// shut down.
    #[inline]
    pub fn next_due(&self) -> Option<i64> {
        let due_ns = self.next_due_ns.load(Ordering::Relaxed);
        (due_ns != NEVER && !self.queue.shutting_down()).then_some(due_ns)
    }

    /// Adds all due keys in the order of their due times; keys with equal times, in the order of
    /// their insertion. Returns the number of keys. Takes no lock if none is due.
    pub fn fire_due(&self, now_ns: i64) -> usize {
        if self.next_due_ns.load(Ordering::Relaxed) > now_ns {
            return 0;
        }
        let mut delays: MutexGuard<'_, Delays> = lock(&self.delays);
        let mut count = 0;
        if self.queue.shutting_down() {
            delays.heap.clear();
        }
        while let Some(index) = delays.heap.pop_due(now_ns) {
            self.queue.add(K::from_index(index as usize), now_ns);
            count += 1;
        }
        let next_ns = delays.heap.next_due_ns().unwrap_or(NEVER);
        self.next_due_ns.store(next_ns, Ordering::Relaxed);
        count
    }

    /// Counts a failure of a key and adds the key after the limiter's delay. Returns the delay in
    /// nanoseconds. The failure counts even if the queue is shut down.
    pub fn add_rate_limited(&self, key: K, now_ns: i64) -> i64 {
        let delay_ns = self.limiter.when(key, now_ns);
        self.add_after(key, delay_ns, now_ns);
        delay_ns
    }

    /// Like [`add_rate_limited`](Self::add_rate_limited), but with a delay of at most `max_ns`.
    /// While an earlier retry of the key is pending, a failure neither moves that retry nor counts.
    /// If `takes_token` is false, as for a failure without a request, other keys keep the token.
    /// Returns the number of nanoseconds until the key is added.
    ///
    /// The failures and retries of one key must not race. They don't, because a key is never taken
    /// twice at the same time. Takes the locks of the delays and of the limiter, one after the
    /// other.
    pub fn retry_within(&self, key: K, max_ns: i64, takes_token: bool, now_ns: i64) -> i64 {
        if let Some(due_ns) = lock(&self.delays).pending_retry(key.index()) {
            return due_ns.saturating_sub(now_ns);
        }
        let delay_ns = self.limiter.when_within(key, max_ns, takes_token, now_ns);
        // Recorded first: an earlier add serves as the retry, a later one does not.
        lock(&self.delays).note_retry(key.index(), now_ns.saturating_add(delay_ns));
        self.add_after(key, delay_ns, now_ns);
        delay_ns
    }

    /// Gives back a taken key and handles the end of its sync; see [`End`]. O(1) on average.
    #[inline]
    pub fn finish(&self, key: K, end: End, now_ns: i64) {
        match end {
            End::Leave => {}
            End::Forget => self.forget(key),
            End::After(delay_ns) => {
                self.forget(key);
                self.add_after(key, delay_ns, now_ns);
            }
            End::Retry | End::RetryAfterProgress | End::Postpone => self.retry(key, end, now_ns),
        }
        self.done(key, now_ns);
    }

    #[inline(never)]
    fn retry(&self, key: K, end: End, now_ns: i64) {
        let spent = |max| self.num_requeues(key) >= max;
        if self.row.retries_max.is_some_and(spent) {
            return self.forget(key);
        }
        let Some(max_ns) = self.row.retry_max_ns else {
            self.add_rate_limited(key, now_ns);
            return;
        };
        if end == End::RetryAfterProgress {
            self.forget(key);
        }
        let (asked, max_ns) = match end {
            End::Postpone => (false, max_ns.min(HARDENED_STALE_RETRY_MAX_NS)),
            _ => (true, max_ns),
        };
        self.retry_within(key, max_ns, asked, now_ns);
    }

    /// Resets the number of failures of a key to 0. A delayed add stays, but where retries are
    /// bounded, the next failure does not wait for it. Takes no lock for a key without failures.
    #[inline]
    pub fn forget(&self, key: K) {
        if self.row.retry_max_ns.is_none() {
            self.limiter.forget(key);
        } else if self.limiter.num_requeues(key) > 0 {
            self.limiter.forget(key);
            lock(&self.delays).note_retry(key.index(), i64::MIN);
        }
    }

    /// Returns the number of failures of a key since [`forget`](Self::forget) was last called for
    /// it.
    #[inline]
    pub fn num_requeues(&self, key: K) -> u32 {
        self.limiter.num_requeues(key)
    }

    /// Reports whether the key is neither waiting nor taken. It may be delayed.
    pub fn is_idle(&self, key: K) -> bool {
        self.queue.is_idle(key)
    }

    /// Returns the number of waiting keys.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Reports whether no key is waiting.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Returns the number of keys with a delayed add. Takes a lock briefly if there are any.
    pub fn delayed(&self) -> usize {
        match self.next_due_ns.load(Ordering::Relaxed) {
            NEVER => 0,
            _ => lock(&self.delays).heap.len(),
        }
    }

    /// Shuts down the queue; see [`WorkQueue::shut_down`]. Drops delayed adds.
    pub fn shut_down(&self) {
        self.queue.shut_down();
    }

    /// Shuts down the queue and waits; see [`WorkQueue::shut_down_with_drain`].
    pub fn shut_down_with_drain(&self) {
        self.queue.shut_down_with_drain();
    }

    /// Shuts down the queue with a drain, without waiting; see [`WorkQueue::start_drain`].
    pub fn start_drain(&self) {
        self.queue.start_drain();
    }

    /// Reports whether the drain is over; see [`WorkQueue::drain_complete`].
    pub fn drain_complete(&self) -> bool {
        self.queue.drain_complete()
    }

    /// Reports whether the queue is shut down.
    #[inline]
    pub fn shutting_down(&self) -> bool {
        self.queue.shutting_down()
    }

    /// Returns the current metrics. O(keys): for a scrape, not for a hot path.
    pub fn stats(&self, now_ns: i64) -> QueueStats {
        let mut stats = self.queue.stats(now_ns);
        stats.retries_total = lock(&self.delays).retries;
        stats
    }

    /// Returns the current metrics under their upstream names, labelled with the queue's name.
    /// O(keys).
    pub fn families(&self, now_ns: i64) -> Vec<Family> {
        self.stats(now_ns).families(&Str::from(self.row.name))
    }
}

impl<K: DenseKey> Default for RateLimitingQueue<K> {
    fn default() -> Self {
        RateLimitingQueue::new()
    }
}
