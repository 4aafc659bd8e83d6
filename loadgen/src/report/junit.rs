//! `--junit`: the run as a test report, with a test case for each phase and each threshold.

use std::io::{self, Write};
use std::time::Duration;

use quick_junit::{NonSuccessKind, Report, TestCase, TestCaseStatus, TestSuite};

use crate::result::RunResult;

/// Writes the report: one suite with a test case for each phase (with its engine time), one for the
/// invariants, one for each threshold, and one for the outcome if the run failed for another
/// reason. The text of a failure is the reason of the run's outcome.
///
/// # Errors
/// Writing to `out` fails.
pub fn write(out: &mut dyn Write, result: &RunResult, command: &str) -> io::Result<()> {
    let class = format!("loadgen.{}", result.scenario);
    let outcome = &result.outcome;
    let mut suite = TestSuite::new(format!("loadgen {}", result.scenario));
    suite.set_time(seconds(result.elapsed_seconds));
    for (name, value) in [
        ("command", command.to_owned()),
        ("engine", result.engine.clone()),
        ("behaviour", result.behaviour.clone()),
        ("seed", result.seed.to_string()),
        ("version", result.build.version(&result.version)),
    ] {
        suite.add_property((name, value.as_str()));
    }
    let mut add = |name: &str, took: f64, problem: Option<&str>| {
        let status = match problem {
            None => TestCaseStatus::success(),
            Some(problem) => {
                let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
                status.set_message(problem.lines().next().unwrap_or_default());
                status.set_description(format!("{problem}\nto run it again: {command}"));
                status
            }
        };
        let mut case = TestCase::new(name, status);
        case.set_classname(class.as_str()).set_time(seconds(took));
        suite.add_test_case(case);
    };
    let reason = match outcome.reason.as_str() {
        "" => "its condition was not met",
        reason => reason,
    };
    for (number, phase) in (1..).zip(&result.phases) {
        let name = format!("phase {number}: {}", phase.name);
        add(&name, phase.seconds, (!phase.converged).then_some(reason));
    }
    let violations = outcome.violations.join("\n");
    add(
        "invariants",
        0.0,
        (!violations.is_empty()).then_some(violations.as_str()),
    );
    for threshold in &result.thresholds {
        let name = format!("threshold: {}", threshold.threshold);
        let problem = (!threshold.met).then(|| threshold.reason());
        add(&name, 0.0, problem.as_deref());
    }
    let broken = result.thresholds.iter().any(|threshold| !threshold.met);
    let told =
        broken || result.phases.iter().any(|phase| !phase.converged) || !violations.is_empty();
    if outcome.exit_code != 0 && !told {
        add("outcome", 0.0, Some(reason));
    }
    let mut report = Report::new("loadgen");
    report.set_time(seconds(result.elapsed_seconds));
    report.add_test_suite(suite);
    let text = report.to_string().map_err(io::Error::other)?;
    out.write_all(text.as_bytes())
}

fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or_default()
}
