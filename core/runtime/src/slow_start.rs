//! Slow start: many calls in batches that double while all calls succeed.
//!
//! A ReplicaSet whose pods are refused (quota, admission) would otherwise send hundreds of calls
//! that all fail in the same way. Upstream: `slowStartBatch` of
//! `pkg/controller/replicaset/replica_set.go`.

/// The batches of one run. Call [`next_batch`](SlowStart::next_batch), make that many calls, report
/// each by [`on_result`](SlowStart::on_result), and repeat.
///
/// The first batch has the initial size, each further one twice the last, limited by what is left.
/// After a batch with a failure there is no further one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowStart {
    /// Calls in batches that have not started.
    remaining: usize,
    /// Size of the next batch, unless fewer calls remain.
    batch_size: usize,
    /// Calls of the current batch without a result.
    in_flight: usize,
    successes: usize,
    failures: usize,
}

impl SlowStart {
    /// Creates a run of `count` calls. With an initial batch of 0 no call is ever made.
    pub fn new(count: usize, initial_batch: usize) -> Self {
        SlowStart {
            remaining: count,
            batch_size: initial_batch,
            ..SlowStart::default()
        }
    }

    /// Returns the number of calls to make now, all at once; `None` when the run is over.
    ///
    /// # Panics
    /// Results of the last batch are missing.
    #[inline]
    pub fn next_batch(&mut self) -> Option<usize> {
        assert_eq!(
            self.in_flight, 0,
            "a batch starts when the one before has its results"
        );
        if self.failures > 0 {
            return None;
        }
        let size = self.batch_size.min(self.remaining);
        if size == 0 {
            return None;
        }
        self.remaining -= size;
        self.in_flight = size;
        self.batch_size = size.saturating_mul(2);
        Some(size)
    }

    /// Reports the result of one call.
    ///
    /// # Panics
    /// No call is in progress.
    #[inline]
    pub fn on_result(&mut self, succeeded: bool) {
        assert!(self.in_flight > 0, "a result belongs to a call");
        self.in_flight -= 1;
        if succeeded {
            self.successes += 1;
        } else {
            self.failures += 1;
        }
    }

    /// Calls that succeeded.
    pub fn successes(&self) -> usize {
        self.successes
    }

    /// Calls that failed; all are in the last batch.
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// Calls that were not made; final when the run is over.
    pub fn skipped(&self) -> usize {
        self.remaining
    }
}
