//! `run --runs`: repeats a run with several seeds and summarizes the results. Only one run is in
//! progress at a time, so that each has the machine to itself.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};

use super::flags::RunFlags;
use super::interrupt::{EXIT_INTERRUPTED, Interrupter};
use super::outputs::Outputs;
use super::progress::Teller;
use super::{print_beside, run::repeating};
use crate::metrics::Threshold;
use crate::report::{engine_text, terminal};
use crate::result::{RunResult, thresholds};
use crate::settings::{EngineKind, Settings};
use crate::sweep::{self, RunPlan, repeated};
use crate::text::json;
use crate::units::{counted, wrapped};

/// The maximum number of failed runs to list; `--json` contains all of them.
const FAILED_SHOWN: usize = 5;

/// Refuses flags that apply only to a single run.
///
/// # Errors
/// `--runs` is combined with an output, a view or a baseline for a single run, or the seeds would
/// overflow.
pub(super) fn check(flags: &RunFlags) -> Result<()> {
    let Some(runs) = flags.runs else {
        return Ok(());
    };
    let of_one = [
        ("--report", flags.report.is_some()),
        ("--csv", flags.csv.is_some()),
        ("--junit", flags.junit.is_some()),
        ("--perf-dash", flags.perf_dash.is_some()),
        ("--metrics-addr", flags.metrics_addr.is_some()),
        ("--serve", flags.serve.is_some()),
        ("--flamegraph", flags.flamegraph.is_some()),
        ("--pprof", flags.pprof.is_some()),
        ("--folded", flags.folded.is_some()),
        ("--tui", flags.tui),
        ("--print-scenario", flags.print_scenario.is_some()),
        ("--dry-run", flags.dry_run),
        ("--baseline", flags.baselines.compares()),
        ("--save-baseline", flags.baselines.saves()),
    ];
    if let Some((flag, _)) = of_one.iter().find(|(_, is_given)| *is_given) {
        bail!(
            "{flag} is about one run, and --runs {runs} makes several: leave one of them out; \
             --json FILE has every run's result, and `loadgen compare` reads it"
        );
    }
    let first = flags.shape.settings.seed.unwrap_or(1);
    if first.checked_add(runs.into()).is_none() {
        bail!("--seed {first} leaves no room for --runs {runs}");
    }
    Ok(())
}

/// Runs once per seed, starting with the seed of the plan, and returns the exit code.
///
/// # Errors
/// An output can't be written.
pub(super) fn run(
    flags: &RunFlags,
    runs: u16,
    plan: &RunPlan,
    thresholds: &[Threshold],
    mut outputs: Outputs,
    cancel: &AtomicBool,
    interrupter: &Interrupter,
) -> Result<u8> {
    let first = plan.settings.seed;
    let of_seed = |seed| RunPlan {
        settings: Settings {
            seed,
            ..plan.settings.clone()
        },
        ..plan.clone()
    };
    let plans: Vec<RunPlan> = (first..first + u64::from(runs)).map(of_seed).collect();
    interrupter.begin();
    let begin = format!("run: {runs} runs, one at a time");
    let template = "run [{bar:30}] {human_pos}/{human_len} runs  ETA {eta}";
    let teller = Teller::new(flags.quiet, template, Some(runs.into()), &begin, 5.0);
    let results = sweep::run(&plans, 1, cancel, &|done| {
        teller.tell(done as u64, format!("run: {done} of {runs} runs"));
    });
    teller.finish();
    let mut results: Vec<RunResult> = results.into_iter().flatten().collect();
    for result in &mut results {
        thresholds::apply(result, thresholds);
    }
    let is_complete = results.len() == plans.len();
    if !flags.quiet {
        if let Some(text) = repeated::crowded(&results) {
            let _ = writeln!(io::stderr(), "warning: {text}");
        }
        let text = text(flags, &results, &plans);
        print_beside(outputs.use_stdout(), &text)?;
    }
    if plan.settings.engine == EngineKind::Virtual && !flags.host_metrics {
        // The JSON of a virtual run must not differ between machines.
        results.iter_mut().for_each(|result| result.host = None);
    }
    let document = |out: &mut dyn Write| json::write(out, &repeated::json(&results, plans.len()));
    outputs.write(&[("--json", &document)]).1?;
    // Relaxed: the flag guards no other data.
    Ok(match cancel.load(Ordering::Relaxed) && !is_complete {
        true => EXIT_INTERRUPTED,
        false => repeated::exit_code(&results),
    })
}

/// Formats the summary of all runs.
fn text(flags: &RunFlags, results: &[RunResult], plans: &[RunPlan]) -> String {
    let (ran, wanted) = (results.len(), plans.len());
    let settings = &plans[0].settings;
    let failed: Vec<&RunResult> = results
        .iter()
        .filter(|result| result.outcome.exit_code != 0)
        .collect();
    let all = counted(wanted as u64, "run");
    let runs = match (failed.len(), ran == wanted) {
        (0, true) => format!("{all} done"),
        (0, false) => format!("INTERRUPTED: {ran} of {all} done"),
        (failed, true) => format!("FAILED: {failed} of {all}"),
        (failed, false) => format!("INTERRUPTED after {ran} of {all}, {failed} FAILED"),
    };
    let seeds = match (settings.seed, plans[wanted - 1].settings.seed) {
        (first, last) if first == last => format!("seed {first}"),
        (first, last) => format!("seeds {first} to {last}"),
    };
    let mut lines = vec![
        format!("{}: {runs}", settings.scenario.name),
        format!("{}, {seeds}", engine_text(settings)),
    ];
    for result in failed.iter().take(FAILED_SHOWN) {
        lines.push(format!("seed {}: {}", result.seed, result.outcome.reason));
    }
    if let more @ 1.. = failed.len().saturating_sub(FAILED_SHOWN) {
        lines.push(format!("and {more} more"));
    }
    let Some(median) = repeated::median_run(results) else {
        return lines.join("\n") + "\n";
    };
    if let Some(answer) = &median.answer {
        let answer = format!("the median run, seed {}: {answer}", median.seed);
        lines.extend(wrapped(&answer, terminal::COLUMNS));
    }
    format!(
        "{}\n\n{}\nthe median run alone:\n    {}\n",
        lines.join("\n"),
        repeated::table(&repeated::rows(results)),
        repeating(flags, &median.settings)
    )
}

#[cfg(test)]
mod tests {
    use clap::{Args, Command, FromArgMatches};

    use super::*;

    /// The flags that also apply to several runs. The folder of the baselines is one of them,
    /// because the flags that use it are refused.
    const OF_SEVERAL: [&str; 6] = [
        "runs",
        "json",
        "threshold",
        "host-metrics",
        "quiet",
        "baseline-dir",
    ];

    #[test]
    fn every_output_flag_is_refused_or_applies_to_several_runs() {
        let command = || RunFlags::augment_args(Command::new("run").no_binary_name(true));
        let headings = [Some("Output"), Some("Baselines")];
        let mut refused = 0;
        for argument in command().get_arguments() {
            let name = argument.get_long().unwrap_or_default();
            let is_about = headings.contains(&argument.get_help_heading());
            if !is_about || OF_SEVERAL.contains(&name) {
                continue;
            }
            let mut words = vec!["--runs".to_owned(), "2".to_owned(), format!("--{name}")];
            if argument.get_action().takes_values() && name != "print-scenario" {
                let value = match name {
                    "serve" | "metrics-addr" => "127.0.0.1:0",
                    "tolerance" => "5%",
                    "profile-hertz" => "99",
                    _ => "x",
                };
                words.push(value.to_owned());
            }
            match name {
                "dry-run" => words.extend(["-f", "x"].map(str::to_owned)),
                "keep-serving" => words.extend(["--serve", "127.0.0.1:0"].map(str::to_owned)),
                "tolerance" => words.extend(["--baseline", "x"].map(str::to_owned)),
                "profile-hertz" => words.extend(["--folded", "x"].map(str::to_owned)),
                _ => {}
            }
            let matches = command().try_get_matches_from(&words);
            let flags = RunFlags::from_arg_matches(&matches.unwrap()).unwrap();
            let problem = check(&flags).expect_err(name).to_string();
            assert!(problem.contains("is about one run"), "{problem}");
            refused += 1;
        }
        assert!(refused >= 14, "{refused}");
    }
}
