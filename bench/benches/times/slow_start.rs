//! Slow start: the batches of a burst as a state machine, compared with the plain way, which
//! collects the calls and results of each batch in vectors.

use std::hint::black_box;

use super::Timed;

type Call = Box<dyn FnOnce() -> Result<(), String>>;

pub(crate) fn timed() -> Vec<Timed> {
    vec![Timed::new("slow_start/batches-plain/500", || {
        || plain(black_box(500)) as u64
    })]
}

/// Builds the batches of all calls, then runs one batch after the other until one contains a
/// failure.
fn plain(count: usize) -> usize {
    let (mut batches, mut left, mut size): (Vec<Vec<Call>>, _, _) = (Vec::new(), count, 1);
    while left > 0 {
        let batch = (0..size.min(left)).map(|_| Box::new(|| black_box(Ok(()))) as Call);
        batches.push(batch.collect());
        left -= size.min(left);
        size *= 2;
    }
    let mut successes = 0;
    for batch in batches {
        let results: Vec<Result<(), String>> = batch.into_iter().map(|call| call()).collect();
        successes += results.iter().filter(|result| result.is_ok()).count();
        if results.iter().any(Result::is_err) {
            break;
        }
    }
    successes
}
