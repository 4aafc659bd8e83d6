//! Cases of `slow_start`: the batches of a series of calls, some of which fail.

use podstorm::slow_start::SlowStart;
use serde_json::json;

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let count = size(case.int("count")?)?;
    let mut run = SlowStart::new(count, size(case.int("initialBatchSize")?)?);
    let failing = case.all("failingCalls", |call| {
        call.as_u64()
            .ok_or_else(|| format!("expected the number of a call: {call}"))
    })?;
    let (mut batches, mut calls) = (Vec::new(), 0);
    // The failing calls of the last batch. Upstream may report the error of any of them.
    let mut failed = Vec::new();
    while let Some(batch) = run.next_batch() {
        batches.push(batch);
        for call in calls..calls + batch {
            let fails = failing.contains(&(call as u64));
            run.on_result(!fails);
            failed.extend(fails.then_some(call));
        }
        calls += batch;
    }
    expect_eq("skipped", &run.skipped(), &(count - calls))?;
    case.is(
        json!({"batches": batches, "calls": calls, "successes": run.successes(),
        "error": run.failures() > 0, "errorOneOf": failed}),
    )
}

fn size(number: i64) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| format!("expected a size, found {number}"))
}
