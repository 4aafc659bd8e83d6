//! Combines the counters of the tasks into the result of a run.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use hdrhistogram::Histogram;
use podstorm_apiserver::PodTotals;
use podstorm_objects::Now;
use podstorm_sim::engine::CallWaits;
use podstorm_sim::engine::by_phase::{ByPhase, Recorded};
use podstorm_sim::engine::client::ApiCalls;
use podstorm_sim::executor::virtual_time::RunEnd;

use super::buckets;
use super::phases::Report;
use super::{Engine, host};
use crate::input::{InputCounts, InputObject, InputPods};
use crate::manifest::size::pods_as_they_came;
use crate::result::{
    Build, EventWriterCounts, Histograms, Outcome, Phase, PodCounts, Quantiles, RunResult,
    SCHEMA_VERSION, Series, Waits, WastedWork,
};
use crate::scenario::answer;
use crate::settings::Settings;

/// Converts the server's pod counts for the result.
pub(super) fn pod_counts(pods: &PodTotals) -> PodCounts {
    PodCounts {
        created: pods.created,
        bound: pods.bound,
        ready: pods.ready,
        deleted: pods.deleted,
        adopted: pods.adopted,
        released: pods.released,
        peak: pods.peak,
    }
}

/// Counts the objects that came from files, by kind, and their pods, by state.
pub(super) fn count_input(objects: &[InputObject]) -> InputCounts {
    let mut counts = InputCounts::default();
    for object in objects {
        let kind = object.kind().name().to_owned();
        *counts.taken.entry(kind).or_default() += 1;
    }
    counts.pods = pods_as_they_came(objects);
    counts
}

impl Engine {
    /// Builds the result of a run with these settings. The other arguments are how and when the run
    /// ended, the real time that it took, its input and its time series.
    pub(super) fn harvest(
        &self,
        settings: &Settings,
        end: RunEnd,
        now: Now,
        wall_seconds: f64,
        input: InputCounts,
        series: Series,
    ) -> RunResult {
        let cluster = &self.metrics.sources.cluster;
        cluster.set_gc_waker(None);
        cluster.set_termination_hook(None);
        let driver = self.driver.lock();
        let report = driver.expect("a panic in a task ends the run").report(now);
        let writes = cluster.write_counts();
        let pods = pod_counts(&writes.pods);
        let work = self.work();
        let recorded = self.recorded();
        let phases = by_phase(&report, &recorded);
        let measured = |durations: &ByPhase| {
            let counts = |phase: usize| phases.get(phase).is_some_and(|phase| !phase.set_up);
            durations.merged(counts)
        };
        let convergence = measured(&report.convergence);
        let pod_ready = measured(&report.pod_ready);
        let queued = measured(&recorded.queued);
        let worked = measured(&recorded.worked);
        let wasted_work = wasted_work(&work, report.surplus);
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
            outcome: outcome(settings, end, &report),
            alternatives: Vec::new(),
            host: Some(host::of_run(wall_seconds, &pods, &self.before)),
            pods,
            excess_pods_created: report.excess,
            wasted_work,
            finished: report.finished,
            waits: self.waits(&recorded, now),
            api_calls: work.calls,
            writes: writes.writes,
            syncs: work.syncs,
            convergence_seconds: seconds(&convergence),
            pod_ready_seconds: seconds(&pod_ready),
            rollout_seconds: seconds(&measured(&report.rollouts)),
            finish_seconds: seconds(&measured(&report.finishes)),
            queue_duration_seconds: seconds(&queued),
            work_duration_seconds: seconds(&worked),
            histograms: Histograms {
                convergence_seconds: buckets::of_histogram(&convergence),
                pod_ready_seconds: buckets::of_histogram(&pod_ready),
                queue_duration_seconds: buckets::of_histogram(&queued),
                work_duration_seconds: buckets::of_histogram(&worked),
            },
            slowest_workloads: report.slowest,
            events: self.events(),
            event_writer: self.event_writer(),
            // Relaxed: the threads that counted have ended.
            watch_events: self.delivered.load(Ordering::Relaxed),
            resource_version: cluster.resource_version(),
            elapsed_seconds: now.mono_ns as f64 / 1e9,
            phases,
            thresholds: Vec::new(),
            series,
            input: InputCounts {
                pods: InputPods {
                    still_not_ready: report.still_not_ready,
                    ..input.pods
                },
                ..input
            },
            incomplete_rollouts: report.incomplete_rollouts,
            settings: settings.clone(),
        };
        // A run that missed its condition has no answer, because it has measured something else.
        let template = settings.scenario.answer.as_ref();
        result.answer = template
            .filter(|_| result.outcome.converged)
            .map(|template| {
                answer::fill(template, &result)
                    .unwrap_or_else(|problem| format!("the answer's template fails: {problem}"))
            });
        result
    }

    fn work(&self) -> Work {
        let mut work = Work {
            calls: BTreeMap::new(),
            syncs: BTreeMap::new(),
            syncs_without_requests: 0,
        };
        for worker in &self.metrics.workers {
            let worker = worker.lock().expect("a panic in a task ends the run");
            let counters = worker.counters();
            worker.calls().add_to(&mut work.calls);
            for (outcome, count) in &counters.syncs {
                *work.syncs.entry((*outcome).to_owned()).or_default() += count;
            }
            work.syncs_without_requests += counters.syncs_without_requests;
        }
        for writer in &self.metrics.writers {
            let writer = writer.lock().expect("a panic in a task ends the run");
            ApiCalls::add_to(&writer.calls, &mut work.calls);
        }
        work
    }

    /// Returns what the workers have recorded for each phase.
    fn recorded(&self) -> Recorded {
        for worker in &self.metrics.workers {
            let mut worker = worker.lock().expect("a panic in a task ends the run");
            worker.hand_over();
        }
        let recorded = self
            .recorded
            .lock()
            .expect("a panic in a task ends the run");
        recorded.clone()
    }

    fn events(&self) -> BTreeMap<String, u64> {
        let mut table = BTreeMap::new();
        for runner in &self.metrics.sources.runners {
            runner.events().add_to(&mut table);
        }
        table
    }

    fn event_writer(&self) -> EventWriterCounts {
        let mut counts = EventWriterCounts::default();
        for runner in &self.metrics.sources.runners {
            counts.dropped += runner.events().dropped();
        }
        for writer in &self.metrics.writers {
            let writer = writer.lock().expect("a panic in a task ends the run");
            counts.written += writer.written;
            counts.dropped += writer.dropped();
        }
        counts
    }

    /// Returns the total waits until `now`.
    fn waits(&self, recorded: &Recorded, now: Now) -> Waits {
        let mut calls = CallWaits::default();
        for worker in &self.metrics.workers {
            let worker = worker.lock().expect("a panic in a task ends the run");
            calls.merge(worker.waits());
        }
        let scheduler = self.scheduler.as_ref().map(|scheduler| {
            let scheduler = scheduler.lock();
            scheduler
                .expect("a panic in a task ends the run")
                .place_waits(now)
        });
        let places = scheduler.unwrap_or_default();
        // The histograms have three significant digits, which is enough for a sum.
        let all = |durations: &ByPhase| {
            let all = durations.merged(|_| true);
            let sum = if all.is_empty() {
                0.0
            } else {
                all.mean() * all.len() as f64
            };
            (all.len(), sum / 1e9)
        };
        let (worker_keys, worker_seconds) = all(&recorded.queued);
        let (_, sync_seconds) = all(&recorded.worked);
        let seconds = |ns: u64| ns as f64 / 1e9;
        Waits {
            place_pods: places.pods,
            place_seconds: seconds(places.total_ns),
            place_pods_peak: places.most,
            places: places.places,
            calls: calls.requests,
            client_limit_seconds: seconds(calls.limit_ns),
            api_seconds: seconds(calls.api_ns),
            worker_keys,
            worker_seconds,
            sync_seconds,
            sync_limited_seconds: seconds(calls.limited_ns),
            sync_waiting_seconds: seconds(calls.waiting_ns),
        }
    }
}

fn outcome(settings: &Settings, end: RunEnd, report: &Report) -> Outcome {
    let limit = settings.time_limit_ns as f64 / 1e9;
    let ended = match end {
        RunEnd::Stopped => None,
        RunEnd::Cancelled => Some("interrupted".to_owned()),
        RunEnd::TimeLimit => Some(format!("the time limit of {limit} s was reached")),
        RunEnd::Quiet => Some("nothing was left to happen".to_owned()),
    };
    let exit_code = match end {
        RunEnd::Cancelled => 130,
        _ if !report.violations.is_empty() => 3,
        RunEnd::Stopped if report.converged => 0,
        _ => 1,
    };
    let reasons: Vec<String> = ended
        .into_iter()
        .chain(report.failures.iter().cloned())
        .collect();
    Outcome {
        converged: report.converged && end == RunEnd::Stopped,
        exit_code,
        reason: reasons.join("; "),
        violations: report.violations.clone(),
    }
}

fn wasted_work(work: &Work, pods_never_ready: u64) -> WastedWork {
    let calls = |verb: &str, outcome: &str| {
        let of = |key: &str| key.starts_with(verb) && key.ends_with(outcome);
        let counts = work.calls.iter().filter(|(key, _)| of(key));
        counts.map(|(_, count)| count).sum()
    };
    WastedWork {
        syncs_without_requests: work.syncs_without_requests,
        stale_sync_skips: work.syncs.get("stale cache").copied().unwrap_or(0),
        deletes_not_found: calls("delete pods", " 404"),
        status_conflicts: calls("update ", "/status 409"),
        pods_never_ready,
    }
}

struct Work {
    calls: BTreeMap<String, u64>,
    syncs: BTreeMap<String, u64>,
    syncs_without_requests: u64,
}

/// Returns the phases, each with the latencies of what began in it.
fn by_phase(report: &Report, recorded: &Recorded) -> Vec<Phase> {
    let mut phases = report.phases.clone();
    for (number, phase) in phases.iter_mut().enumerate() {
        let of = |durations: &ByPhase| {
            durations
                .get(number)
                .map_or_else(Quantiles::default, seconds)
        };
        phase.convergence_seconds = of(&report.convergence);
        phase.pod_ready_seconds = of(&report.pod_ready);
        phase.rollout_seconds = of(&report.rollouts);
        phase.queue_duration_seconds = of(&recorded.queued);
        phase.work_duration_seconds = of(&recorded.worked);
        phase.syncs_without_requests = recorded.idle_syncs.get(number).copied().unwrap_or(0);
    }
    phases
}

/// Returns the serialized name of a unit variant.
fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// Returns the quantiles, in seconds, of a histogram in nanoseconds.
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
