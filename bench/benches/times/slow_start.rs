//! The plain rival of slow start's state machine: it collects the calls and the results of each
//! batch in vectors.

use std::hint::black_box;

use super::Timed;

type Call = Box<dyn FnOnce() -> Result<(), String>>;

pub(crate) fn timed() -> Vec<Timed> {
    vec![Timed::new("slow_start/batches-plain/500", || {
        || plain(black_box(500)) as u64
    })]
}

/// Divides all calls into batches, then runs one batch after another until a call fails in one.
/// Returns the number of successful calls.
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
