//! The thresholds of a scenario, parsed from its file. Those with `abortOnFail` are watched during
//! the run.

use podstorm_objects::Now;
use podstorm_sim::engine::by_phase::ByPhase;
use serde_json::json;

use super::driver::Driver;
use crate::metrics::{MetricValues, Threshold};
use crate::run::gather::{pod_counts, seconds as quantiles_in_seconds};
use crate::scenario::Scenario;
use crate::units::NS_PER_SECOND;

/// The metrics that are known during a run, by their names in the result.
const KNOWN: [&str; 14] = [
    "convergence_seconds",
    "pod_ready_seconds",
    "excess_pods_created",
    "elapsed_seconds",
    "pods.created",
    "pods.bound",
    "pods.ready",
    "pods.deleted",
    "pods.adopted",
    "pods.released",
    "pods.peak",
    "wasted_work.pods_never_ready",
    "writes",
    "resource_version",
];

/// Time between two checks, ns.
const LOOK_NS: i64 = NS_PER_SECOND;

impl Scenario {
    /// Returns the thresholds, each with whether its failure ends the run.
    ///
    /// # Errors
    /// The field and its problem: the metric is unknown, the expression is invalid, or the metric
    /// is known only after the run although the threshold may end the run.
    pub fn read_thresholds(&self) -> Result<Vec<(Threshold, bool)>, (String, String)> {
        let mut all = Vec::new();
        for (metric, entries) in &self.thresholds {
            for (number, entry) in entries.iter().enumerate() {
                let field = || format!("thresholds.{metric}[{number}]");
                let threshold = Threshold::parse(metric, entry.expression())
                    .map_err(|error| (field(), error.to_string()))?;
                if entry.aborts() {
                    check_abort(&threshold).map_err(|problem| (field(), problem))?;
                }
                all.push((threshold, entry.aborts()));
            }
        }
        Ok(all)
    }
}

impl Scenario {
    /// Returns the thresholds, whose syntax was checked when the scenario was read.
    pub fn bounds(&self) -> Vec<Threshold> {
        let all = self.read_thresholds().unwrap_or_default();
        all.into_iter().map(|(threshold, _)| threshold).collect()
    }
}

/// Checks whether a threshold can end a run. If not, the error explains why, and the alternative.
fn check_abort(threshold: &Threshold) -> Result<(), String> {
    let name = threshold.metric().canonical();
    let metric = name.written().split('{').next().unwrap_or_default();
    if !KNOWN.contains(&metric) {
        return Err(format!(
            "abortOnFail: {metric} is known only after the run; remove abortOnFail to check the threshold \
             at the end. Known during the run are: {}",
            KNOWN.join(", ")
        ));
    }
    if !threshold.is_upper_bound() {
        return Err(format!(
            "abortOnFail: \"{}\" may still be met later in the run; write an upper \
             bound, < or <=, or remove abortOnFail to check the threshold when the run is \
             over",
            threshold.expression()
        ));
    }
    Ok(())
}

/// The thresholds whose failure ends the run.
#[derive(Debug)]
pub(super) struct Aborts {
    thresholds: Vec<Threshold>,
    next_ns: i64,
}

impl Aborts {
    pub(super) fn new(scenario: &Scenario) -> Aborts {
        let all = scenario.read_thresholds().unwrap_or_default();
        let ending = all.into_iter().filter(|(_, aborts)| *aborts);
        Aborts {
            thresholds: ending.map(|(threshold, _)| threshold).collect(),
            next_ns: 0,
        }
    }
}

impl Driver {
    /// Returns the reason to end the run if a check is due and a threshold does not hold; otherwise
    /// `None`.
    pub(super) fn broken_threshold(&mut self, now: Now) -> Option<String> {
        if self.aborts.thresholds.is_empty() || now.mono_ns < self.aborts.next_ns {
            return None;
        }
        self.aborts.next_ns = now.mono_ns.saturating_add(LOOK_NS);
        let counts = self.cluster.write_counts();
        let measured =
            |durations: &ByPhase| durations.merged(|phase| self.tracker.is_measured(phase));
        let metrics = MetricValues::from_json(json!({
            "pods": pod_counts(&counts.pods),
            "wasted_work": {"pods_never_ready": self.tracker.surplus},
            "writes": counts.writes,
            "resource_version": self.cluster.resource_version(),
            "convergence_seconds": quantiles_in_seconds(&measured(&self.tracker.convergence)),
            "pod_ready_seconds": quantiles_in_seconds(&measured(&self.tracker.pod_ready)),
            "excess_pods_created": self.tracker.excess,
            "elapsed_seconds": now.mono_ns as f64 / NS_PER_SECOND as f64,
        }));
        let outcomes = self
            .aborts
            .thresholds
            .iter()
            .map(|threshold| threshold.outcome(&metrics));
        // A metric without a value can't fail yet. The outcome names the threshold that failed.
        let mut broken = outcomes.filter(|outcome| outcome.value.is_some() && !outcome.met);
        broken
            .next()
            .map(|_| "the run was ended by a threshold with abortOnFail".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    fn read(metric: &str, expression: &str) -> Result<(), String> {
        let text = format!(
            "name: own\nquestion: Which?\nphases: [{{name: all}}]\nthresholds:\n  \"{metric}\":\n  - \
             {{threshold: \"{expression}\", abortOnFail: true}}\n"
        );
        let read = Scenario::from_yaml(&text, "own.yaml");
        read.map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn every_known_metric_is_in_the_catalogue() {
        for known in KNOWN {
            let name = Metric::by_name(known).map(|metric| metric.name);
            assert_eq!(name, Some(known));
        }
    }

    #[test]
    fn metrics_known_during_a_run_may_end_it() {
        for (metric, expression) in [
            ("convergence", "p99 < 5s"),
            ("pod_ready_latency", "max <= 5s"),
            ("excess", "< 1"),
            ("elapsed", "< 1h"),
            ("pods_created", "<= 100"),
            ("pods_never_ready", "< 1"),
            ("writes", "< 1k"),
            ("writes{create pods}", "< 1k"),
            ("store_resource_version", "< 10k"),
        ] {
            assert_eq!(read(metric, expression), Ok(()), "{metric} {expression}");
        }
    }

    #[test]
    fn metrics_unknown_during_a_run_are_refused() {
        for (metric, expression) in [
            ("api_calls", "< 1k"),
            ("syncs{ok}", "< 1k"),
            ("queue_duration", "p99 < 5s"),
            ("phase{all}.seconds", "< 5s"),
            ("phase{all}.excess_pods_created", "< 5"),
            ("host.wall_seconds", "< 5s"),
            ("events", "< 5"),
        ] {
            let problem = read(metric, expression).expect_err(metric);
            for word in [
                "own.yaml:6:",
                "[0]: abortOnFail",
                "remove abortOnFail",
                "pods.created",
            ] {
                assert!(problem.contains(word), "{metric}: {word}: {problem}");
            }
        }
        for (metric, expression) in [
            ("pods.created", "> 5"),
            ("convergence", "p99 >= 1s"),
            ("excess", "== 0"),
        ] {
            let problem = read(metric, expression).expect_err(metric);
            assert!(problem.contains("upper bound"), "{metric}: {problem}");
            assert!(problem.contains(expression), "{metric}: {problem}");
        }
    }
}
