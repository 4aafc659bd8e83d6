//! The row of a queue, which holds its differences from other queues, and the ways in which a sync
//! can end.

use crate::limits::{BACKOFF_BASE_NS, BACKOFF_MAX_NS};

/// The row of a queue: its name, the delays after failures, and its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// The value of the label `name` in the queue's metrics.
    pub name: &'static str,
    /// The delay of a key after a failure.
    pub delay: RetryDelay,
    /// How many times in a row a failed key is retried. After one more failure the key waits for
    /// the next event, and its failures are forgotten. `None` means no limit.
    pub retries_max: Option<u32>,
    /// The maximum delay after a failure, in ns. With this bound, a failure neither changes the
    /// time of a pending retry nor counts while it is pending, and [`End::RetryAfterProgress`] and
    /// [`End::Postpone`] have separate effects. `None` is upstream's behaviour: no bound, and both
    /// are the same as [`End::Retry`].
    pub retry_max_ns: Option<i64>,
    /// The number of the queue's keys that are synced concurrently.
    pub workers: Workers,
}

impl QueueRow {
    /// Returns the row of most upstream queues: [`RetryDelay::CONTROLLER`], no bounds, and the
    /// number of workers that the controller's flag sets.
    pub const fn new(name: &'static str) -> QueueRow {
        QueueRow {
            name,
            delay: RetryDelay::CONTROLLER,
            retries_max: None,
            retry_max_ns: None,
            workers: Workers::Flag,
        }
    }
}

/// The rule for the delay of a key after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDelay {
    /// A delay that doubles with each failure of the key.
    Exponential {
        /// The delay after the first failure, in ns.
        base_ns: i64,
        /// The maximum delay, in ns.
        max_ns: i64,
        /// Whether all keys share a token bucket of 10 failures per second with a burst of 100.
        bucket: bool,
    },
    /// A constant delay in ns. Failures are not counted.
    Fixed(i64),
}

impl RetryDelay {
    /// The delay of upstream's controllers: 5 ms to 1000 s, with the bucket.
    ///
    /// Source: `DefaultTypedControllerRateLimiter` in Kubernetes' `client-go/util/workqueue`.
    pub const CONTROLLER: RetryDelay = RetryDelay::Exponential {
        base_ns: BACKOFF_BASE_NS,
        max_ns: BACKOFF_MAX_NS,
        bucket: true,
    };
}

/// The number of workers of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// The number in the controller's flag `--concurrent-…-syncs`.
    Flag,
    /// A fixed number, at least 1.
    Number(usize),
}

/// How a sync ended, and what happens to its key. Upstream's worker calls its queue accordingly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The failures of the key are forgotten, and the key is not added again. Upstream: `Forget`.
    #[default]
    Forget,
    /// The sync failed. The key is retried after the delay of its queue. Upstream:
    /// `AddRateLimited`.
    Retry,
    /// The sync failed but has changed something. Where retries are bounded, this failure counts as
    /// the first one.
    RetryAfterProgress,
    /// The sync waits for its caches and has sent no request. Where retries are bounded, the key
    /// takes no token from the bucket and is retried after at most
    /// [`HARDENED_STALE_RETRY_MAX_NS`](crate::limits::HARDENED_STALE_RETRY_MAX_NS).
    Postpone,
    /// The key is not added again and keeps its failures. Upstream: only `Done`, for example after
    /// the sync of a CronJob without a next run.
    Leave,
    /// The failures of the key are forgotten, and the key is added again after this number of ns;
    /// immediately if the number is 0 or less. Upstream: `Forget` and `AddAfter`.
    After(i64),
}
