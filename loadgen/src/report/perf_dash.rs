//! `--perf-dash`: the latencies in the form that Kubernetes' performance dashboard reads.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::json;
use crate::result::{Quantiles, RunResult};

/// The file.
#[derive(Debug, Serialize)]
struct PerfData {
    version: &'static str,
    #[serde(rename = "dataItems")]
    data_items: Vec<DataItem>,
    labels: BTreeMap<&'static str, String>,
}

/// One metric.
#[derive(Debug, Serialize)]
struct DataItem {
    data: BTreeMap<&'static str, f64>,
    unit: &'static str,
    labels: BTreeMap<&'static str, &'static str>,
}

/// Writes the file: percentiles of convergence, pod start-up, queue and work durations in
/// milliseconds, each labelled `Metric`; the run's scenario, engine and the like as labels of all.
///
/// # Errors
/// What the writer's are.
pub fn write(out: &mut dyn Write, result: &RunResult) -> io::Result<()> {
    let item = |metric: &'static str, quantiles: &Quantiles| DataItem {
        data: BTreeMap::from([
            ("Perc50", quantiles.p50 * 1e3),
            ("Perc90", quantiles.p90 * 1e3),
            ("Perc99", quantiles.p99 * 1e3),
        ]),
        unit: "ms",
        labels: BTreeMap::from([("Metric", metric)]),
    };
    let metrics = [
        ("replicaset_convergence", &result.convergence_seconds),
        ("pod_ready", &result.pod_ready_seconds),
        ("workqueue_queue_duration", &result.queue_duration_seconds),
        ("workqueue_work_duration", &result.work_duration_seconds),
    ];
    let data = PerfData {
        version: "v1",
        // A percentile of nothing would be drawn as zero.
        data_items: metrics
            .iter()
            .filter(|(_, quantiles)| quantiles.count > 0)
            .map(|(metric, quantiles)| item(metric, quantiles))
            .collect(),
        labels: BTreeMap::from([
            ("scenario", result.scenario.clone()),
            ("engine", result.engine.clone()),
            ("behaviour", result.behaviour.clone()),
            ("seed", result.seed.to_string()),
            ("version", result.build.version(&result.version)),
            ("exit_code", result.outcome.exit_code.to_string()),
        ]),
    };
    json::write(out, &data)
}
