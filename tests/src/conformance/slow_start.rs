//! Cases of `slow_start`: the batches of one run of calls, some of which fail.

use podstorm::slow_start::SlowStart;
use serde_json::Value;

use super::{Fields, expect_eq};

/// Runs one case.
pub(super) fn run(case: &mut Fields) -> Result<(), String> {
    let count = size(case.int("count")?)?;
    let mut run = SlowStart::new(count, size(case.int("initialBatchSize")?)?);
    let failing = numbers(case.list("failingCalls")?)?;
    let (mut batches, mut calls) = (Vec::new(), 0);
    // The failing calls of the last batch: any of their errors may be the one reported.
    let mut failed = Vec::new();
    while let Some(batch) = run.next_batch() {
        batches.push(batch);
        for call in calls..calls + batch {
            let fails = failing.contains(&call);
            run.on_result(!fails);
            failed.extend(fails.then_some(call));
        }
        calls += batch;
    }
    expect_eq("batches", &batches, &numbers(case.list("batches")?)?)?;
    expect_eq("calls", &calls, &size(case.int("calls")?)?)?;
    expect_eq(
        "successes",
        &run.successes(),
        &size(case.int("successes")?)?,
    )?;
    expect_eq("error", &(run.failures() > 0), &case.flag("error")?)?;
    expect_eq("errorOneOf", &failed, &numbers(case.list("errorOneOf")?)?)?;
    expect_eq("skipped", &run.skipped(), &(count - calls))
}

fn size(number: i64) -> Result<usize, String> {
    usize::try_from(number).map_err(|_| format!("expected a size, found {number}"))
}

fn numbers(values: Vec<Value>) -> Result<Vec<usize>, String> {
    let number = |value: Value| match value.as_i64() {
        Some(number) => size(number),
        None => Err(format!("expected an integer, found {value}")),
    };
    values.into_iter().map(number).collect()
}
