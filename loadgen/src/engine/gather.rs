//! Turns what the parts have counted into the result of a run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use hdrhistogram::Histogram;
use podstorm::metrics::HistogramSnapshot;
use podstorm::object::Now;

use super::buckets;
use super::client::ApiCalls;
use super::event_sink::EventWriter;
use super::host;
use super::metrics::sum_histograms;
use super::pool::Pool;
use super::virtual_time::End;
use super::worker::{OUTCOMES, Worker};
use crate::cluster::Cluster;
use crate::input::InputObject;
use crate::manifest::size::pods_as_they_came;
use crate::result::{
    Build, Histograms, InputCounts, InputPods, Outcome, PodCounts, Quantiles, RunResult,
    SCHEMA_VERSION, Series, WastedWork,
};
use crate::scenario::{Report, answer};
use crate::settings::Settings;

/// Everything a result is made from.
pub(super) struct Harvest<'a> {
    pub(super) settings: &'a Settings,
    pub(super) end: End,
    pub(super) now: Now,
    pub(super) wall_seconds: f64,
    pub(super) input: InputCounts,
    pub(super) cluster: &'a Cluster,
    pub(super) pools: &'a [Arc<Pool>],
    pub(super) workers: &'a [Arc<Mutex<Worker>>],
    pub(super) writers: &'a [Arc<Mutex<EventWriter>>],
    pub(super) watch_events: u64,
    pub(super) load_before: Option<[f64; 3]>,
    pub(super) series: Series,
}

/// Counts the objects that came from files.
pub(super) fn count_input(objects: &[InputObject]) -> InputCounts {
    let mut counts = InputCounts::default();
    for object in objects {
        *counts
            .taken
            .entry(object.kind().name().to_owned())
            .or_default() += 1;
    }
    counts.pods = pods_as_they_came(objects);
    counts
}

impl Harvest<'_> {
    pub(super) fn result(self, report: Report) -> RunResult {
        let settings = self.settings;
        let writes = self.cluster.write_counts();
        let pods = PodCounts {
            created: writes.pods.created,
            bound: writes.pods.bound,
            ready: writes.pods.ready,
            deleted: writes.pods.deleted,
            adopted: writes.pods.adopted,
            released: writes.pods.released,
            peak: writes.pods.peak,
        };
        let work = self.work();
        let events = self.events();
        let wasted_work = self.wasted_work(&work, report.surplus);
        let queued = self.queue_duration();
        let mut result = RunResult {
            schema_version: SCHEMA_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: Build::this(),
            scenario: settings.scenario.name.clone(),
            question: settings.scenario.question.clone(),
            answer: None,
            engine: word(&settings.engine),
            behaviour: settings.behaviour.as_str().to_owned(),
            feature_gates: settings.controller.feature_gates.clone(),
            seed: settings.seed,
            outcome: self.outcome(&report),
            host: Some(host::of_run(self.wall_seconds, &pods, self.load_before)),
            pods,
            excess_pods_created: report.excess,
            wasted_work,
            api_calls: work.calls,
            writes: writes.writes,
            syncs: work.syncs,
            convergence_seconds: seconds(&report.convergence),
            pod_ready_seconds: seconds(&report.pod_ready),
            queue_duration_seconds: from_buckets(&queued, self.now.mono_ns as f64 / 1e9),
            work_duration_seconds: seconds(&work.durations),
            histograms: Histograms {
                convergence_seconds: buckets::of_histogram(&report.convergence),
                pod_ready_seconds: buckets::of_histogram(&report.pod_ready),
                queue_duration_seconds: buckets::of_snapshot(&queued),
                work_duration_seconds: buckets::of_histogram(&work.durations),
            },
            slowest_replicasets: report.slowest,
            events,
            watch_events: self.watch_events,
            resource_version: self.cluster.resource_version(),
            elapsed_seconds: self.now.mono_ns as f64 / 1e9,
            phases: report.phases,
            thresholds: Vec::new(),
            series: self.series,
            input: InputCounts {
                pods: InputPods {
                    still_not_ready: report.still_not_ready,
                    ..self.input.pods
                },
                ..self.input
            },
            settings: settings.clone(),
        };
        result.answer = answer(&result)
            .unwrap_or_else(|problem| Some(format!("the answer's template fails: {problem}")));
        result
    }

    fn outcome(&self, report: &Report) -> Outcome {
        let limit = self.settings.time_limit_ns as f64 / 1e9;
        let ended = match self.end {
            End::Stopped => None,
            End::Cancelled => Some("interrupted".to_owned()),
            End::TimeLimit => Some(format!("the time limit of {limit} s was reached")),
            End::Quiet => Some("nothing was left to happen".to_owned()),
        };
        let exit_code = match self.end {
            End::Cancelled => 130,
            _ if !report.violations.is_empty() => 3,
            End::Stopped if report.converged => 0,
            _ => 1,
        };
        let reasons: Vec<String> = ended
            .into_iter()
            .chain(report.failures.iter().cloned())
            .collect();
        Outcome {
            converged: report.converged && self.end == End::Stopped,
            exit_code,
            reason: reasons.join("; "),
            violations: report.violations.clone(),
        }
    }

    fn work(&self) -> Work {
        let mut work = Work {
            calls: BTreeMap::new(),
            syncs: BTreeMap::new(),
            syncs_without_requests: 0,
            durations: Histogram::new(3).expect("three digits are within bounds"),
        };
        for worker in self.workers {
            let worker = worker.lock().expect("a part that panicked ends the run");
            let tally = &worker.tally;
            tally.calls.add_to(&mut work.calls);
            for (outcome, &count) in OUTCOMES.iter().zip(&tally.syncs) {
                if count > 0 {
                    *work.syncs.entry((*outcome).to_owned()).or_default() += count;
                }
            }
            work.syncs_without_requests += tally.syncs_without_requests;
            work.durations += &tally.work_ns;
        }
        for writer in self.writers {
            let writer = writer.lock().expect("a part that panicked ends the run");
            ApiCalls::add_to(&writer.calls, &mut work.calls);
        }
        work
    }

    fn events(&self) -> BTreeMap<String, u64> {
        let mut table = BTreeMap::new();
        for pool in self.pools {
            pool.events.add_to(&mut table);
        }
        for writer in self.writers {
            let writer = writer.lock().expect("a part that panicked ends the run");
            *table.entry("written".to_owned()).or_default() += writer.written;
            *table.entry("dropped".to_owned()).or_default() += writer.dropped();
        }
        table
    }

    fn wasted_work(&self, work: &Work, surplus_pods: u64) -> WastedWork {
        let calls = |key: &str| work.calls.get(key).copied().unwrap_or(0);
        WastedWork {
            syncs_without_requests: work.syncs_without_requests,
            stale_sync_skips: work.syncs.get(OUTCOMES[1]).copied().unwrap_or(0),
            deletes_not_found: calls("delete pods 404"),
            status_conflicts: calls("update replicasets/status 409")
                + calls("update replicationcontrollers/status 409"),
            surplus_pods,
        }
    }

    /// Of all controllers' queues together.
    fn queue_duration(&self) -> HistogramSnapshot {
        let mut total: Option<HistogramSnapshot> = None;
        for pool in self.pools {
            let one = pool
                .controller
                .queue()
                .stats(self.now.mono_ns)
                .queue_duration;
            match &mut total {
                None => total = Some(one),
                Some(total) => sum_histograms(total, &one),
            }
        }
        total.unwrap_or_default()
    }
}

struct Work {
    calls: BTreeMap<String, u64>,
    syncs: BTreeMap<String, u64>,
    syncs_without_requests: u64,
    durations: Histogram<u64>,
}

/// The word that a unit variant is written as.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Quantiles in seconds of a histogram in nanoseconds.
pub(crate) fn seconds(histogram: &Histogram<u64>) -> Quantiles {
    if histogram.is_empty() {
        return Quantiles::default();
    }
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e9;
    Quantiles {
        count: histogram.len(),
        mean: histogram.mean() / 1e9,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: histogram.max() as f64 / 1e9,
    }
}

/// Quantiles of a histogram with few buckets, each a decade wide: interpolated within the bucket
/// on a logarithmic scale, so that they are good to a fraction of a decade. What lies in the first
/// bucket (up to 10 ns) is taken for zero. Nothing lasts longer than `longest`, the run, seconds. Mean
/// and count are exact; the maximum is the upper bound of the last bucket in use, or `longest`.
fn from_buckets(snapshot: &HistogramSnapshot, longest: f64) -> Quantiles {
    let count = snapshot.count();
    if count == 0 {
        return Quantiles::default();
    }
    let bound = |index: usize| {
        let last = snapshot.bounds.last().copied().unwrap_or(0.0);
        snapshot.bounds.get(index).copied().unwrap_or(last * 10.0)
    };
    let at = |quantile: f64| {
        let wanted = quantile * count as f64;
        let mut below = 0.0;
        for (index, &in_bucket) in snapshot.counts.iter().enumerate() {
            let in_bucket = in_bucket as f64;
            if below + in_bucket >= wanted && in_bucket > 0.0 {
                if index == 0 {
                    return 0.0;
                }
                let lower = bound(index - 1);
                let upper = bound(index).min(longest).max(lower);
                return lower * (upper / lower).powf((wanted - below) / in_bucket);
            }
            below += in_bucket;
        }
        0.0
    };
    Quantiles {
        count,
        mean: snapshot.sum / count as f64,
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: at(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_buckets_lie_within_them() {
        let snapshot = HistogramSnapshot {
            bounds: vec![1e-6, 1e-5, 1e-4],
            counts: vec![0, 90, 10, 0],
            sum: 0.001,
        };
        let quantiles = from_buckets(&snapshot, 1.0);
        assert_eq!(quantiles.count, 100);
        assert!((1e-6..1e-5).contains(&quantiles.p50));
        assert!((1e-5..=1e-4).contains(&quantiles.p99));
        assert!((quantiles.max - 1e-4).abs() < 1e-12);
        assert!((quantiles.mean - 1e-5).abs() < 1e-12);
        let short = from_buckets(&snapshot, 5e-5);
        assert!((short.max - 5e-5).abs() < 1e-12, "no wait outlasts the run");
        assert!(short.p99 < quantiles.p99);
    }
}
