//! Slow start: the batches of a burst in which every call succeeds.

use std::hint::black_box;

use podstorm::limits::SLOW_START_INITIAL_BATCH;
use podstorm::slow_start::SlowStart;

/// Iterates over the batches of `count` calls.
pub fn batches(count: usize) -> impl FnMut() -> u64 {
    move || {
        let mut run = SlowStart::new(black_box(count), SLOW_START_INITIAL_BATCH);
        while let Some(size) = run.next_batch() {
            for _ in 0..size {
                run.on_result(black_box(true));
            }
        }
        run.successes() as u64
    }
}
