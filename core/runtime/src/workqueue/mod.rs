//! The rate-limited, delaying, de-duplicating work queue.
//!
//! Keys enter by [`add`](RateLimitingQueue::add) (at once),
//! [`add_after`](RateLimitingQueue::add_after) and
//! [`add_rate_limited`](RateLimitingQueue::add_rate_limited) (later). They leave by
//! [`try_take`](RateLimitingQueue::try_take) or [`take`](RateLimitingQueue::take) and must be
//! given back by [`finish`](RateLimitingQueue::finish), which says how the work ended, or by a bare
//! [`done`](RateLimitingQueue::done). A [`QueueRow`] says what differs between queues. The queue has no timer: a driver asks
//! [`next_due`](RateLimitingQueue::next_due) and calls [`fire_due`](RateLimitingQueue::fire_due).
//! Times are nanoseconds of one monotonic clock.
//!
//! [`WorkQueue`] is the base without delays and limits. `README.md` in this folder describes how to
//! add, park, grow and drain, and the races in it.
//!
//! Locks: the delays have one. A due key is added while it is held, which may take the locks of the
//! base queue (growth, parking). The base queue takes no lock of the delays. The token bucket's
//! lock is taken alone. Upstream: `k8s.io/client-go/util/workqueue`.

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
