//! Checks results against thresholds, and thresholds against the metrics that a run will have.

use anyhow::{Result, bail};

use super::RunResult;
use crate::metrics::{MetricValues, Threshold, ThresholdOutcome, name, values};
use crate::settings::Settings;

/// Checks a result against every threshold and adds the outcomes to it. A threshold that is not met
/// makes an otherwise successful run exit with 1.
pub fn apply(result: &mut RunResult, thresholds: &[Threshold]) {
    if thresholds.is_empty() {
        return;
    }
    let metrics = MetricValues::from_result(result);
    let outcomes = thresholds
        .iter()
        .map(|threshold| threshold.outcome(&metrics));
    result.thresholds = outcomes.collect();
    let failed = result.thresholds.iter().filter(|outcome| !outcome.met);
    let reasons: Vec<String> = failed.map(ThresholdOutcome::reason).collect();
    for reason in reasons {
        result.outcome.fail(&reason);
    }
}

/// Refuses a threshold on a phase that a run with these settings won't have, because the threshold
/// could never be met.
///
/// # Errors
/// The first such threshold; the error lists the existing phases.
pub fn refuse_absent_phases(thresholds: &[Threshold], settings: &Settings) -> Result<()> {
    let scenario = &settings.scenario;
    let names = scenario.phases.iter();
    let names: Vec<String> = names
        .map(|phase| phase.shown_name(settings.burst_pods))
        .collect();
    let names = values::told_apart(names.iter().map(String::as_str));
    let absent = |threshold: &&Threshold| {
        let phase = threshold.metric().phase();
        phase.is_some_and(|phase| !names.iter().any(|name| name == phase))
    };
    let Some(threshold) = thresholds.iter().find(absent) else {
        return Ok(());
    };
    let phase = threshold.metric().phase().unwrap_or_default();
    let place = match scenario.bounds().contains(threshold) {
        true => "threshold",
        false => "--threshold",
    };
    bail!(
        "{place} '{threshold}': the scenario {} has no phase {phase:?}{}; there are {}",
        scenario.name,
        name::proposal(phase, names.iter().map(String::as_str)),
        names.join(", ")
    )
}
