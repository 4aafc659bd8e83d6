//! What distinguishes one queue from another, and how a sync gives its key back.

use crate::limits::{BACKOFF_BASE_NS, BACKOFF_MAX_NS};

/// The row of a queue: its name, the delays after failures, and its workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueRow {
    /// The label `name` of its metrics.
    pub name: &'static str,
    /// How long a failed key waits.
    pub delay: RetryDelay,
    /// How often in a row a failed key is retried. After one more failure the key waits for the
    /// next event, and its failures are forgotten. `None`: always.
    pub retries_max: Option<u32>,
    /// The longest delay after a failure, ns. With a bound a failure neither moves nor counts while
    /// a retry is due, and [`End::RetryAfterProgress`] and [`End::Postpone`] have their meanings.
    /// `None` is upstream: no bound, and both are [`End::Retry`].
    pub retry_max_ns: Option<i64>,
    /// How many syncs of its keys run at once.
    pub workers: Workers,
}

impl QueueRow {
    /// The row of most of upstream's queues: [`RetryDelay::CONTROLLER`], no bounds, and as many
    /// workers as the controller's flag says.
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

/// How long a key waits after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryDelay {
    /// A delay that doubles with each failure of the key.
    Exponential {
        /// The delay after the first failure, ns.
        base_ns: i64,
        /// The longest delay, ns.
        max_ns: i64,
        /// Whether all keys share a bucket of 10 failures per second with a burst of 100.
        bucket: bool,
    },
    /// Always so many ns. Failures are not counted.
    Fixed(i64),
}

impl RetryDelay {
    /// 5 ms to 1000 s, with the bucket.
    ///
    /// Source: `DefaultTypedControllerRateLimiter` in Kubernetes' `client-go/util/workqueue`.
    pub const CONTROLLER: RetryDelay = RetryDelay::Exponential {
        base_ns: BACKOFF_BASE_NS,
        max_ns: BACKOFF_MAX_NS,
        bucket: true,
    };
}

/// How many workers a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// As many as the controller's flag `--concurrent-…-syncs` says.
    Flag,
    /// So many, at least 1.
    Number(usize),
}

/// How a sync ends, for its key. Upstream's worker says the same by calls of its queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The failures of the key are forgotten. Upstream: `Forget`.
    #[default]
    Forget,
    /// The sync failed: the key is retried after the delay of its queue. Upstream: `AddRateLimited`.
    Retry,
    /// The sync failed and has changed something, so that this counts as a first failure where
    /// retries are bounded.
    RetryAfterProgress,
    /// The sync waits for its caches and has sent no request. Where retries are bounded it takes no
    /// token from the bucket and is retried after
    /// [`HARDENED_STALE_RETRY_MAX_NS`](crate::limits::HARDENED_STALE_RETRY_MAX_NS) at most.
    Postpone,
    /// Neither: the failures of the key stay. Upstream: only `Done`, as after a CronJob's sync
    /// without a next time.
    Leave,
    /// The failures of the key are forgotten, and the key is added again after so many ns, at once
    /// if 0 or less. Upstream: `Forget` and `AddAfter`.
    After(i64),
}
