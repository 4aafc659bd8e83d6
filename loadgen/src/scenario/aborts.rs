//! Thresholds of a scenario: read from its file, and those with `abortOnFail` watched while it runs.

use podstorm::object::Now;
use serde_json::json;

use super::definition::Scenario;
use super::driver::Driver;
use crate::engine::quantiles_in_seconds;
use crate::figures::{Figures, Threshold};
use crate::units::NS_PER_SECOND;

/// What is known while a run goes on, under the names of the result.
const KNOWN: [&str; 4] = [
    "convergence_seconds",
    "pod_ready_seconds",
    "excess_pods_created",
    "elapsed_seconds",
];

/// Between two looks, ns.
const LOOK_NS: i64 = NS_PER_SECOND;

impl Scenario {
    /// Its thresholds, and whether each ends the run.
    ///
    /// # Errors
    /// The field and what is wrong with it: a figure or an expression that is not known, or one that
    /// can't be told before the run is over.
    pub fn read_thresholds(&self) -> Result<Vec<(Threshold, bool)>, (String, String)> {
        let mut all = Vec::new();
        for (metric, entries) in &self.thresholds {
            for (number, entry) in entries.iter().enumerate() {
                let field = || format!("thresholds.{metric}[{number}]");
                let threshold = Threshold::parse(metric, entry.expression())
                    .map_err(|error| (field(), error.to_string()))?;
                let name = threshold.figure().canonical();
                if entry.aborts()
                    && !(threshold.is_upper_bound()
                        && KNOWN.iter().any(|known| name.written().starts_with(known)))
                {
                    let known = KNOWN.join(", ");
                    let problem = format!(
                        "abortOnFail needs an upper bound on a figure that is known while the run \
                         goes on: {known}"
                    );
                    return Err((field(), problem));
                }
                all.push((threshold, entry.aborts()));
            }
        }
        Ok(all)
    }
}

impl Scenario {
    /// Its thresholds: a scenario that was read has no others.
    pub fn bounds(&self) -> Vec<Threshold> {
        let all = self.read_thresholds().unwrap_or_default();
        all.into_iter().map(|(threshold, _)| threshold).collect()
    }
}

/// The thresholds that end a run.
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
    /// Why the run is to end, if it is time to look and a threshold is not kept.
    pub(super) fn broken_threshold(&mut self, now: Now) -> Option<String> {
        if self.aborts.thresholds.is_empty() || now.mono_ns < self.aborts.next_ns {
            return None;
        }
        self.aborts.next_ns = now.mono_ns.saturating_add(LOOK_NS);
        let figures = Figures::from_json(json!({
            "convergence_seconds": quantiles_in_seconds(&self.tracker.convergence),
            "pod_ready_seconds": quantiles_in_seconds(&self.tracker.pod_ready),
            "excess_pods_created": self.tracker.excess(),
            "elapsed_seconds": now.mono_ns as f64 / NS_PER_SECOND as f64,
        }));
        let outcomes = self
            .aborts
            .thresholds
            .iter()
            .map(|threshold| threshold.judge(&figures));
        // What has no value yet can't be broken yet. Which one it was is said with the outcomes.
        let mut broken = outcomes.filter(|outcome| outcome.value.is_some() && !outcome.met);
        broken
            .next()
            .map(|_| "the run was ended by a threshold with abortOnFail".to_owned())
    }
}
