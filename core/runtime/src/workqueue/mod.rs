//! The rate-limited, delaying, deduplicating work queue.
//!
//! [`add`](RateLimitingQueue::add) adds a key immediately;
//! [`add_after`](RateLimitingQueue::add_after) and
//! [`add_rate_limited`](RateLimitingQueue::add_rate_limited) add it later.
//! [`try_take`](RateLimitingQueue::try_take) and [`take`](RateLimitingQueue::take) return a key.
//! The worker must give the key back with [`finish`](RateLimitingQueue::finish), which states how
//! the work ended, or with a bare [`done`](RateLimitingQueue::done). A [`QueueRow`] holds the
//! differences between queues. The queue has no timer: a driver calls
//! [`next_due`](RateLimitingQueue::next_due) to learn when to call
//! [`fire_due`](RateLimitingQueue::fire_due). Times are nanoseconds of one monotonic clock.
//!
//! [`WorkQueue`] is the base, without delays and limits. `README.md` in this folder describes its
//! protocol: adding, parking, growing and draining, and the races between them.
//!
//! Locks: the delays have one. A due key is added while that lock is held, which may take the locks
//! of the base queue (growth, parking). The base queue never takes the lock of the delays. The lock
//! of the token bucket is never held together with another lock. Upstream:
//! `k8s.io/client-go/util/workqueue`.

mod base;
mod delay;
mod fifo;
mod rate_limit;
mod rate_limiting;
mod ring;
mod row;
mod slot;
mod stats;
#[cfg(test)]
mod tests;

pub use base::{Take, WorkQueue};
pub use rate_limit::{ControllerLimiter, ExponentialLimiter, Limiter, TokenBucket};
pub use rate_limiting::RateLimitingQueue;
pub use row::{End, QueueRow, RetryDelay, Workers};
pub use stats::QueueStats;
