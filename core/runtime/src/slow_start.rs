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
#[derive(Clone, Debug, PartialEq, Eq)]
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
    /// A run of `count` calls. With an initial batch of 0 no call is ever made.
    pub fn new(count: usize, initial_batch: usize) -> Self {
        SlowStart {
            remaining: count,
            batch_size: initial_batch,
            in_flight: 0,
            successes: 0,
            failures: 0,
        }
    }

    /// The number of calls to make now, all at once; `None` when the run is over.
    ///
    /// # Panics
    /// Results of the last batch are missing.
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

    /// Reports the result of one call. Returns whether it was the last of its batch.
    ///
    /// # Panics
    /// No call is in progress.
    pub fn on_result(&mut self, succeeded: bool) -> bool {
        assert!(self.in_flight > 0, "a result belongs to a call");
        self.in_flight -= 1;
        if succeeded {
            self.successes += 1;
        } else {
            self.failures += 1;
        }
        self.in_flight == 0
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

    /// Calls of the current batch that have no result yet.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The batches if the call with this number fails.
    fn batches(count: usize, initial: usize, failing: Option<usize>) -> (Vec<usize>, SlowStart) {
        let (mut run, mut batches, mut call) = (SlowStart::new(count, initial), Vec::new(), 0);
        while let Some(size) = run.next_batch() {
            batches.push(size);
            for left in (0..size).rev() {
                assert_eq!(run.on_result(Some(call) != failing), left == 0);
                call += 1;
            }
        }
        (batches, run)
    }

    #[test]
    fn batches_double_and_end_with_what_is_left() {
        let (sizes, run) = batches(500, 1, None);
        assert_eq!(sizes, [1, 2, 4, 8, 16, 32, 64, 128, 245]);
        assert_eq!((run.successes(), run.skipped()), (500, 0));
        assert_eq!(batches(3, 500, None).0, [3]);
        assert!(batches(0, 1, None).0.is_empty());
        assert!(batches(5, 0, None).0.is_empty());
    }

    #[test]
    fn a_failure_ends_the_run_with_its_batch() {
        let (sizes, run) = batches(10, 1, Some(2));
        assert_eq!(sizes, [1, 2]);
        assert_eq!((run.successes(), run.failures(), run.skipped()), (2, 1, 7));
        assert_eq!(run.in_flight(), 0);
    }
}
