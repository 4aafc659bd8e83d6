//! The delay of a failed key: a constant delay, or an exponential delay per key. In most queues it
//! is the longer of the exponential delay and the delay of a token bucket that all keys share.

use std::fmt;
use std::marker::PhantomData;

use super::row::RetryDelay;
use crate::intern::{AppendTable, DenseKey};
use crate::limits::{BACKOFF_BASE_NS, BACKOFF_MAX_NS, RETRY_BURST, RETRY_QPS};
use crate::primitives::{AtomicU32, CachePadded, Mutex, Ordering, lock};

/// A delay that doubles with each failure of a key, from a first to a maximum delay.
///
/// Stores two counters per key. Counting and forgetting take no lock. They allocate only for the
/// first failure in a new range of keys.
pub struct ExponentialLimiter<K> {
    failures: AppendTable<Failures>,
    base_ns: i64,
    max_ns: i64,
    key: PhantomData<fn(K)>,
}

/// The failures of one key: all that were ever counted minus those that were forgotten. Counting
/// and forgetting therefore write to different words, and a count under a lock need not be an
/// atomic addition.
#[derive(Debug, Default)]
struct Failures {
    counted: AtomicU32,
    forgotten: AtomicU32,
}

impl<K: DenseKey> ExponentialLimiter<K> {
    /// Creates a limiter with this first and this maximum delay.
    pub fn new(base_ns: i64, max_ns: i64) -> Self {
        ExponentialLimiter {
            failures: AppendTable::new(),
            base_ns,
            max_ns,
            key: PhantomData,
        }
    }

    /// Counts a failure. Returns the delay in nanoseconds.
    #[inline]
    pub fn when(&self, key: K) -> i64 {
        let failures = self.failures.get_or_grow(key.index());
        // Relaxed, both: these counts order nothing else.
        let counted = failures.counted.fetch_add(1, Ordering::Relaxed);
        self.delay_ns(counted.wrapping_sub(failures.forgotten.load(Ordering::Relaxed)))
    }

    /// Like [`when`](Self::when), for callers that hold a lock that excludes other counts.
    #[inline]
    fn when_locked(&self, key: K) -> i64 {
        let failures = self.failures.get_or_grow(key.index());
        // Relaxed, all: as in `when`. The lock excludes other counts.
        let counted = failures.counted.load(Ordering::Relaxed);
        failures
            .counted
            .store(counted.wrapping_add(1), Ordering::Relaxed);
        self.delay_ns(counted.wrapping_sub(failures.forgotten.load(Ordering::Relaxed)))
    }

    /// Returns the delay after this number of earlier failures.
    #[inline]
    fn delay_ns(&self, failures: u32) -> i64 {
        // Exact: upstream multiplies doubles, and a power of two only changes the exponent. A
        // result that does not fit into an integer is above the maximum delay.
        let factor = 1i64.checked_shl(failures).filter(|&factor| factor > 0);
        let delay_ns = factor.and_then(|factor| self.base_ns.checked_mul(factor));
        delay_ns.map_or(self.max_ns, |delay_ns| delay_ns.min(self.max_ns))
    }

    /// Resets the failures of a key to 0.
    #[inline]
    pub fn forget(&self, key: K) {
        if let Some(failures) = self.failures.get(key.index()) {
            // Relaxed, all: as in `when`. Most keys have no failures, and a read keeps their cache
            // line shared.
            let counted = failures.counted.load(Ordering::Relaxed);
            if failures.forgotten.load(Ordering::Relaxed) != counted {
                failures.forgotten.store(counted, Ordering::Relaxed);
            }
        }
    }

    /// Returns the number of failures of a key since it was last forgotten.
    #[inline]
    pub fn num_requeues(&self, key: K) -> u32 {
        self.failures.get(key.index()).map_or(0, |failures| {
            // Relaxed, both: as in `when`. `forgotten` is read first because it is the smaller
            // number.
            let forgotten = failures.forgotten.load(Ordering::Relaxed);
            failures
                .counted
                .load(Ordering::Relaxed)
                .wrapping_sub(forgotten)
        })
    }
}

impl<K> fmt::Debug for ExponentialLimiter<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExponentialLimiter")
            .field("base_ns", &self.base_ns)
            .field("max_ns", &self.max_ns)
            .finish_non_exhaustive()
    }
}

/// A token bucket: tokens arrive at a steady rate up to a maximum, and may be owed. It starts full.
///
/// The arithmetic is that of Go's `golang.org/x/time/rate` in doubles, step by step, so the delays
/// are the same to the nanosecond.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    /// The time for which `tokens` is valid; `None` before the first token is taken.
    last_ns: Option<i64>,
}

impl TokenBucket {
    /// Creates a full bucket of `burst` tokens that refills at `per_second` tokens per second.
    /// `per_second` must be above 0.
    pub fn new(per_second: f64, burst: u32) -> Self {
        debug_assert!(per_second > 0.0);
        let burst = f64::from(burst);
        TokenBucket {
            per_second,
            burst,
            tokens: burst,
            last_ns: None,
        }
    }

    /// Like [`reserve`](Self::reserve), but takes no token that would not be available within
    /// `max_ns`. In that case it returns `max_ns`, and the number of owed tokens does not increase.
    pub fn reserve_within(&mut self, max_ns: i64, now_ns: i64) -> i64 {
        let before = self.clone();
        let delay_ns = self.reserve(now_ns);
        if delay_ns <= max_ns {
            return delay_ns;
        }
        *self = before;
        max_ns
    }

    /// Takes one token, which may be owed. Returns the number of nanoseconds until the token is
    /// available. Serves earlier callers first. A time before the last one adds no tokens, and
    /// the bucket continues from that time.
    #[inline]
    pub fn reserve(&mut self, now_ns: i64) -> i64 {
        let last_ns = self.last_ns.unwrap_or(now_ns);
        let elapsed_ns = now_ns.saturating_sub(last_ns).max(0);
        let refilled = self.tokens + seconds(elapsed_ns) * self.per_second;
        self.tokens = refilled.min(self.burst) - 1.0;
        self.last_ns = Some(now_ns);
        if self.tokens >= 0.0 {
            return 0;
        }
        // The cast truncates and saturates, as in upstream.
        (-self.tokens / self.per_second * 1e9) as i64
    }
}

/// Converts whole seconds and the rest separately, which rounds differently from a single division.
#[inline]
fn seconds(ns: i64) -> f64 {
    (ns / 1_000_000_000) as f64 + (ns % 1_000_000_000) as f64 / 1e9
}

/// The limiter of upstream's controllers. The delay is the longer of an exponential delay per key
/// (5 ms to 1000 s) and that of a bucket for all keys (10 per second, burst 100). Both count every
/// failure.
#[derive(Debug)]
pub struct ControllerLimiter<K> {
    /// The exponential delay. Counts failures only under the lock of `bucket`.
    exponential: ExponentialLimiter<K>,
    /// The token bucket of all keys. Its lock is held while one failure is counted.
    bucket: CachePadded<Mutex<TokenBucket>>,
}

impl<K: DenseKey> ControllerLimiter<K> {
    /// Creates a limiter with upstream's values.
    pub fn new() -> Self {
        ControllerLimiter::with(ExponentialLimiter::new(BACKOFF_BASE_NS, BACKOFF_MAX_NS))
    }

    /// Creates a limiter with upstream's bucket and this exponential delay.
    fn with(exponential: ExponentialLimiter<K>) -> Self {
        let bucket = TokenBucket::new(RETRY_QPS, RETRY_BURST);
        ControllerLimiter {
            exponential,
            bucket: CachePadded::new(Mutex::new(bucket)),
        }
    }

    /// Counts a failure. Returns the delay in nanoseconds.
    #[inline]
    pub fn when(&self, key: K, now_ns: i64) -> i64 {
        let mut bucket = lock(&self.bucket);
        let own_ns = self.exponential.when_locked(key);
        own_ns.max(bucket.reserve(now_ns))
    }

    /// Counts a failure of a key. Returns the key's delay in nanoseconds, at most `max_ns`. Takes a
    /// token only if `takes_token` is set.
    pub fn when_within(&self, key: K, max_ns: i64, takes_token: bool, now_ns: i64) -> i64 {
        let mut bucket = lock(&self.bucket);
        let own_ns = self.exponential.when_locked(key).min(max_ns);
        if !takes_token {
            return own_ns;
        }
        own_ns.max(bucket.reserve_within(max_ns, now_ns))
    }

    /// Resets the failures of a key to 0. Does not return tokens.
    #[inline]
    pub fn forget(&self, key: K) {
        self.exponential.forget(key);
    }

    /// Returns the number of failures of a key since it was last forgotten.
    #[inline]
    pub fn num_requeues(&self, key: K) -> u32 {
        self.exponential.num_requeues(key)
    }
}

impl<K: DenseKey> Default for ControllerLimiter<K> {
    fn default() -> Self {
        ControllerLimiter::new()
    }
}

/// The limiter of a queue, chosen by the queue's row.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a queue has one limiter, and most are of the largest variant"
)]
pub enum Limiter<K> {
    /// The limiter of upstream's controllers.
    Controller(ControllerLimiter<K>),
    /// A limiter with only an exponential delay.
    Exponential(ExponentialLimiter<K>),
    /// A constant delay in ns. Does not count failures.
    Fixed(i64),
}

impl<K: DenseKey> Limiter<K> {
    /// Creates a limiter with this delay.
    pub fn new(delay: RetryDelay) -> Self {
        match delay {
            RetryDelay::Exponential {
                base_ns,
                max_ns,
                bucket,
            } => {
                let exponential = ExponentialLimiter::new(base_ns, max_ns);
                match bucket {
                    true => Limiter::Controller(ControllerLimiter::with(exponential)),
                    false => Limiter::Exponential(exponential),
                }
            }
            RetryDelay::Fixed(ns) => Limiter::Fixed(ns),
        }
    }

    /// Counts a failure of a key. Returns the key's delay in nanoseconds.
    pub fn when(&self, key: K, now_ns: i64) -> i64 {
        match self {
            Limiter::Controller(limiter) => limiter.when(key, now_ns),
            Limiter::Exponential(limiter) => limiter.when(key),
            Limiter::Fixed(ns) => *ns,
        }
    }

    /// Counts a failure of a key. Returns the key's delay in nanoseconds, at most `max_ns`. If
    /// there is a bucket, takes a token only if `takes_token` is set.
    pub fn when_within(&self, key: K, max_ns: i64, takes_token: bool, now_ns: i64) -> i64 {
        match self {
            Limiter::Controller(limiter) => limiter.when_within(key, max_ns, takes_token, now_ns),
            _ => self.when(key, now_ns).min(max_ns),
        }
    }

    /// Resets the failures of a key to 0. Does not return tokens.
    #[inline]
    pub fn forget(&self, key: K) {
        if let Some(limiter) = self.exponential() {
            limiter.forget(key);
        }
    }

    /// Returns the number of failures of a key since it was last forgotten.
    #[inline]
    pub fn num_requeues(&self, key: K) -> u32 {
        self.exponential()
            .map_or(0, |limiter| limiter.num_requeues(key))
    }

    /// Returns the part that counts failures; `None` if the delay is constant.
    #[inline]
    fn exponential(&self) -> Option<&ExponentialLimiter<K>> {
        match self {
            Limiter::Controller(limiter) => Some(&limiter.exponential),
            Limiter::Exponential(limiter) => Some(limiter),
            Limiter::Fixed(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::SECOND_NS;

    #[test]
    fn a_bounded_delay_owes_no_more_than_its_bound() {
        let limiter = ControllerLimiter::<u32>::new();
        let delays: Vec<_> = (0..1_000)
            .map(|key| limiter.when_within(key, 2 * SECOND_NS, true, 0))
            .collect();
        // A burst of 100, and 20 tokens that are owed for two seconds. The others wait two seconds
        // too.
        assert_eq!(delays[119], 2 * SECOND_NS);
        assert!(delays.iter().all(|&delay| delay <= 2 * SECOND_NS));
        let later = limiter.when_within(2_000, 2 * SECOND_NS, true, 4 * SECOND_NS);
        assert_eq!(later, BACKOFF_BASE_NS);
        let unbounded = ControllerLimiter::<u32>::new();
        let longest = (0..1_000).map(|key| unbounded.when(key, 0)).max();
        assert_eq!(longest, Some(90 * SECOND_NS));
    }

    #[test]
    fn a_failure_without_a_token_leaves_it_to_other_keys() {
        let limiter = ControllerLimiter::<u32>::new();
        for key in 0..1_000 {
            let delay = limiter.when_within(key, SECOND_NS, false, 0);
            assert_eq!(delay, BACKOFF_BASE_NS);
        }
        assert_eq!(limiter.when(7, 0), 2 * BACKOFF_BASE_NS);
    }
}
