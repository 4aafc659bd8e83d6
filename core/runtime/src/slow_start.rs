//! Slow start: many calls in batches that double in size while all calls succeed.
//!
//! Without it, a ReplicaSet whose pods are refused (by quota or admission) would send hundreds of
//! calls that all fail for the same reason. Upstream: `slowStartBatch` in
//! `pkg/controller/replicaset/replica_set.go`.

/// The batches of one run. Callers call [`next_batch`](SlowStart::next_batch), make that many
/// calls, report each result with [`on_result`](SlowStart::on_result), and repeat.
///
/// The first batch has the initial size. Each further batch is twice as large, but at most as large
/// as the number of remaining calls. The run ends after a batch with a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlowStart {
    /// The number of calls in batches that have not started.
    remaining: usize,
    /// The size of the next batch, unless fewer calls remain.
    batch_size: usize,
    /// The number of calls in the current batch that have no result yet.
    in_flight: usize,
    successes: usize,
    failures: usize,
}

impl SlowStart {
    /// Creates a run of `count` calls. If `initial_batch` is 0, the run makes no calls.
    pub fn new(count: usize, initial_batch: usize) -> Self {
        SlowStart {
            remaining: count,
            batch_size: initial_batch,
            ..SlowStart::default()
        }
    }

    /// Returns the number of calls to make now, concurrently; `None` when the run has ended.
    ///
    /// # Panics
    /// Panics if results of the previous batch are missing.
    #[inline]
    pub fn next_batch(&mut self) -> Option<usize> {
        assert_eq!(
            self.in_flight, 0,
            "a batch starts after all results of the previous one"
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
    /// Panics if no call is in progress.
    #[inline]
    pub fn on_result(&mut self, succeeded: bool) {
        assert!(self.in_flight > 0, "a result belongs to a call in progress");
        self.in_flight -= 1;
        if succeeded {
            self.successes += 1;
        } else {
            self.failures += 1;
        }
    }

    /// Returns the number of calls that succeeded.
    pub fn successes(&self) -> usize {
        self.successes
    }

    /// Returns the number of calls that failed. All of them are in the last batch.
    pub fn failures(&self) -> usize {
        self.failures
    }

    /// Returns the number of calls that were not made. The number is final once the run has ended.
    pub fn skipped(&self) -> usize {
        self.remaining
    }
}
