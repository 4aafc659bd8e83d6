//! `--perf-dash`: the latencies of a run in the format of Kubernetes' performance dashboard.

use std::io::{self, Write};

use serde_json::{Value, json};

use crate::result::{Quantiles, RunResult};
use crate::text::json;

/// Writes the file: percentiles of convergence, pod startup, queue and work durations in
/// milliseconds, distinguished by the label `Metric`. All of them also have labels for the run's
/// scenario, engine and similar facts.
///
/// # Errors
/// Writing to `out` fails.
pub fn write(out: &mut dyn Write, result: &RunResult) -> io::Result<()> {
    let metrics = [
        ("replicaset_convergence", &result.convergence_seconds),
        ("pod_ready", &result.pod_ready_seconds),
        ("workqueue_queue_duration", &result.queue_duration_seconds),
        ("workqueue_work_duration", &result.work_duration_seconds),
    ];
    let item = |(metric, of): &(&str, &Quantiles)| {
        let [p50, p90, p99] = [of.p50, of.p90, of.p99].map(|seconds| seconds * 1e3);
        let data = json!({"Perc50": p50, "Perc90": p90, "Perc99": p99});
        json!({"data": data, "unit": "ms", "labels": {"Metric": metric}})
    };
    // Omit metrics without values: their percentiles would be drawn as zero.
    let measured = metrics.iter().filter(|(_, of)| of.count > 0);
    let data = json!({
        "version": "v1",
        "dataItems": measured.map(item).collect::<Vec<Value>>(),
        "labels": {
            "scenario": result.scenario,
            "engine": result.engine,
            "behaviour": result.behaviour,
            "seed": result.seed.to_string(),
            "version": result.build.version(&result.version),
            "exit_code": result.outcome.exit_code.to_string(),
        },
    });
    json::write(out, &data)
}
