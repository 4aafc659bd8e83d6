//! `loadgen sweep`: runs one scenario over a grid of settings.

mod cells;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Result, bail};
use clap::Args;

use super::flags::note_inputs;
use super::interrupt::{self, EXIT_INTERRUPTED};
use super::outputs::Outputs;
use super::progress::Teller;
use super::{effective, print_beside};
use crate::metrics::{MetricName, Threshold};
use crate::report::output::Inputs;
use crate::settings::EngineKind;
use crate::settings::resolve::SettingsRequest;
use crate::sweep::{self, Grid, Sweep};
use crate::text::json;
use crate::units::{counted, parse_size};

/// The metrics that the table shows by default.
const METRICS_SHOWN: [&str; 5] = [
    "convergence p99",
    "pod_ready p99",
    "elapsed",
    "api_calls",
    "excess",
];

/// The metrics that the table shows by default if every cell has workloads that finish.
const OF_FINISHING: [&str; 5] = [
    "finish_seconds p99",
    "elapsed",
    "api_calls",
    "finished.pods_created",
    "finished.pods_wasted",
];

/// The maximum number of runs in a sweep, counting every seed.
const RUNS_MAX: usize = 100_000;

/// Flags of `loadgen sweep`.
#[derive(Args, Debug)]
#[command(after_long_help = "\
EXAMPLES
  loadgen sweep --pods 10k --vary burst-replicas=50,100,500 --vary kube-api-qps=20,50,100
      nine runs of 10,000 pods, as a table
  loadgen sweep --pods 1k --vary 'api-latency=5ms;p50=20ms,p99=90ms' \\
      --vary concurrent-replicaset-syncs=1,2,5,10 --seeds 5 \\
      --threshold 'convergence p99 < 30s' --report sweep.html
      how many workers are enough at two latencies: medians of five seeds, and a page
  loadgen sweep --scenario stale-watch --vary behaviour=upstream,hardened --vary seed=1,2,3 \\
      --figure elapsed --figure excess --csv out.csv
      two behaviours side by side

VALUES
  --vary accepts any flag of `loadgen run` that shapes a run, by its name without dashes. Values are
  separated by commas, or by semicolons if there are any; commas are then part of the values. A
  repeated name adds values. Flags without a value accept true and false.

CHEAPEST
  With --threshold, every run of a cell must meet every threshold, including those of the scenario
  file unless --vary changes the scenario. The cheapest such cell is the first one in the order of
  the grid: write the cheapest value of each --vary first, and first the --vary whose cost matters
  most.

EXIT CODES
  0 done   1 no cell meets the thresholds, or no run was done   2 wrong usage, input or output path
  3 an invariant was broken   130 interrupted, after the report on what ran")]
pub(super) struct SweepFlags {
    #[command(flatten)]
    shape: SettingsRequest,

    /// Vary a flag: burst-replicas=100,250,500; repeatable, every combination is a cell
    #[arg(long, value_name = "NAME=V1,V2,...", help_heading = "Sweep")]
    vary: Vec<String>,

    /// Run each cell with this number of seeds, starting at --seed, and show the median [default:
    /// 1]
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Sweep")]
    seeds: Option<u64>,

    /// A bound on a metric, as for `loadgen run`; marks the cells that meet all bounds and names
    /// the cheapest; repeatable
    #[arg(long = "threshold", value_name = "TEXT", help_heading = "Sweep")]
    thresholds: Vec<Threshold>,

    /// Parallel runs [default: all cores; 1 on the threads engine]
    #[arg(long = "jobs", value_name = "NUMBER", value_parser = parse_size, allow_hyphen_values = true,
          help_heading = "Sweep")]
    at_once: Option<u64>,

    /// Show this metric, such as pod_ready.p99 (`loadgen metrics` lists them) [default: convergence.p99,
    /// pod_ready.p99, elapsed, api_calls, excess]; repeatable
    #[arg(long = "figure", value_name = "NAME[.STATISTIC]", value_parser = MetricName::parse,
          help_heading = "Output")]
    metrics: Vec<MetricName>,

    /// Write one CSV record per cell; `-` is standard output
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    csv: Option<PathBuf>,

    /// Write everything as JSON, including the result of each run
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,

    /// Write a self-contained web page with heat maps and line plots
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    report: Option<PathBuf>,

    /// Print neither progress nor table; only write the files and set the exit code
    #[arg(short, long, help_heading = "Output")]
    quiet: bool,
}

/// Runs the sweep and returns the exit code.
///
/// # Errors
/// The usage, an input or an output path is invalid; nothing has run.
pub(super) fn run(flags: &SweepFlags) -> Result<u8> {
    let grid = cells::grid(flags)?;
    let seeds = seeds(flags, &grid)?;
    let shapes = cells::shapes(flags, &grid)?;
    cells::check_settings(&grid, &shapes, flags)?;
    let mut inputs = Inputs::default();
    for shape in &shapes {
        note_inputs(shape, &mut inputs)?;
    }
    let mut outputs = Outputs::default();
    outputs.open("--csv", flags.csv.as_ref(), &inputs)?;
    outputs.open("--json", flags.json.as_ref(), &inputs)?;
    outputs.open("--report", flags.report.as_ref(), &inputs)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let interrupter = interrupt::watch(&cancel, outputs.temporary(), flags.quiet);
    let plans = cells::plans(&grid, &shapes, &seeds)?;
    let ends = |plan: &sweep::RunPlan| {
        let mut sized = plan.settings.size.sized();
        sized.all(|it| it.finishes().is_some())
    };
    let metrics = metrics(flags, plans.iter().all(ends));

    // If all cells have the same scenario, its thresholds apply to every cell; otherwise, no
    // scenario's thresholds apply.
    let mut scenarios = plans.iter().map(|plan| &plan.settings.scenario);
    let mut thresholds = match scenarios.next() {
        Some(first) if scenarios.all(|other| other == first) => first.bounds(),
        _ => Vec::new(),
    };
    thresholds.extend(flags.thresholds.iter().cloned());

    for plan in &plans {
        crate::result::thresholds::refuse_absent_phases(&thresholds, &plan.settings)?;
    }

    let on_threads = plans
        .iter()
        .any(|plan| plan.settings.engine == EngineKind::Threads);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match (flags.at_once, on_threads) {
        (Some(threads), _) => usize::try_from(threads).unwrap_or(usize::MAX),
        (None, true) => 1,
        (None, false) => cores,
    };
    interrupter.begin();
    let total = plans.len();
    let first = format!(
        "sweep: {}, {} at a time",
        counted(total as u64, "run"),
        threads.min(total)
    );
    let template = "sweep [{bar:30}] {human_pos}/{human_len} runs  {per_sec}  ETA {eta}";
    let teller = Teller::new(flags.quiet, template, Some(total as u64), &first, 5.0);
    let results = sweep::run(&plans, threads, &cancel, &|done| {
        teller.tell(
            done as u64,
            format!("sweep: {done} of {}", counted(total as u64, "run")),
        );
    });
    teller.finish();
    let sweep = Sweep::new(grid, seeds, metrics, thresholds, results);

    let command = |cell: &sweep::Cell| {
        let plan = &plans[cell.number * sweep.seeds.len()];
        let files = &shapes[cell.number].files;
        effective::command(&plan.settings, files) + &effective::thresholds(&flags.thresholds)
    };
    if !flags.quiet {
        let table = sweep::output::table(&sweep, &command);
        print_beside(outputs.use_stdout(), &table)?;
    }
    let common = cells::base_text(&flags.shape, &plans);
    let page = |out: &mut dyn Write| {
        let page = sweep::report::page(&sweep, &common, &command);
        out.write_all(page.as_bytes())
    };
    let (_, problem) = outputs.write(&[
        ("--csv", &|out| sweep::output::csv(&sweep, out)),
        ("--json", &|out| {
            json::write(out, &sweep::output::json(&sweep))
        }),
        ("--report", &page),
    ]);
    problem?;
    // Relaxed: the flag guards no other data.
    Ok(exit_code(&sweep, cancel.load(Ordering::Relaxed)))
}

fn exit_code(sweep: &Sweep, is_cancelled: bool) -> u8 {
    let is_broken = sweep.cells.iter().any(|cell| cell.violations > 0);
    let is_wanted = match sweep.thresholds.is_empty() {
        true => sweep.cells.iter().any(|cell| cell.is_done),
        false => sweep.cheapest().is_some(),
    };
    match (is_cancelled && !sweep.is_complete(), is_broken, is_wanted) {
        (true, ..) => EXIT_INTERRUPTED,
        (_, true, _) => 3,
        (.., true) => 0,
        _ => 1,
    }
}

fn metrics(flags: &SweepFlags, all_end: bool) -> Vec<MetricName> {
    let mut metrics = flags.metrics.clone();
    if metrics.is_empty() {
        let known =
            |name: &str| MetricName::parse(name).expect("the catalogue contains the metric");
        let shown = if all_end { OF_FINISHING } else { METRICS_SHOWN };
        metrics = shown.iter().map(|name| known(name)).collect();
    }
    let mut seen = BTreeSet::new();
    metrics.retain(|name| seen.insert(name.canonical().to_string()));
    metrics
}

fn seeds(flags: &SweepFlags, grid: &Grid) -> Result<Vec<u64>> {
    let count = flags.seeds.unwrap_or(1);
    if grid
        .dimensions
        .iter()
        .any(|dimension| dimension.name == "seed")
    {
        if flags.seeds.is_some() {
            bail!(
                "--seeds runs each cell with several seeds, and --vary seed makes a cell for each: \
                   use only one of them"
            );
        }
        // A placeholder: each cell sets its own seed.
        return Ok(vec![flags.shape.settings.seed.unwrap_or(1)]);
    }
    let runs = usize::try_from(count)
        .ok()
        .and_then(|count| count.checked_mul(grid.cells()));
    if runs.is_none_or(|runs| runs > RUNS_MAX) {
        bail!(
            "--seeds {count} of {} is more than {RUNS_MAX} runs: use fewer seeds or cells",
            counted(grid.cells() as u64, "cell")
        );
    }
    let first = flags.shape.settings.seed.unwrap_or(1);
    let Some(end) = first.checked_add(count) else {
        bail!("--seed {first} leaves no room for --seeds {count}");
    };
    Ok((first..end).collect())
}
