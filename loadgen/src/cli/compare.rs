//! `loadgen compare`: compares two results, or two sets of results from several seeds.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

use super::print;
use crate::compare::identity::problem_within;
use crate::compare::page;
use crate::compare::render::{self, Sides};
use crate::compare::{self, Loaded, Tolerance, Tolerances, Weight};
use crate::metrics::MetricName;
use crate::report::output::{Inputs, Output};

/// The exit code if a metric is worse than its tolerance allows.
const EXIT_REGRESSION: u8 = 1;

/// Flags of `loadgen compare`.
#[derive(Args, Debug)]
#[command(
    override_usage = "loadgen compare [OPTIONS] BASE NEW\n       \
                      loadgen compare [OPTIONS] --base FILE... --new FILE...",
    after_long_help = "\
WHAT IS COMPARED
  Every metric of the results (`loadgen metrics` lists them). Each row shows the value on both sides
  (the median if there are several results), the new value divided by the base value, and a verdict.
  A metric is a REGRESSION if the new value is worse, in the direction of the metric, by more than
  its tolerance. With four or more results on each side the difference must also be significant
  (p < 0.05 in the two-sided Mann-Whitney U test, exact up to 60 results in all); if not, it is noise.
  Results of one seed on the virtual engine are exact: only a change of code or settings makes a
  difference. Results that differ in scenario, engine, number of pods, input or schema are refused
  unless --force is set. Other settings, behaviour, seeds, version and machine may differ; the
  comparison lists these differences.

TOLERANCES
  5%                     for every metric without a more specific tolerance
  p99=10%                for this statistic of every distribution
  pod_ready_latency=5%   for all statistics of this metric
  convergence.p99=20%    for one statistic of one metric
  excess=10, queue_wait=1ms   an absolute amount instead of a share

EXAMPLES
  loadgen run --pods 10k --json base.json
  loadgen run --pods 10k --behaviour hardened --json new.json
  loadgen compare base.json new.json --tolerance p99=10%
  loadgen compare base.json new.json -o markdown --all > comment.md
  loadgen compare base.json new.json --report comparison.html
  loadgen run --pods 10k --runs 10 --json base.json   ten results in one file
  loadgen compare --base old/*.json --new new/*.json --figure elapsed --figure pod_ready.p99

EXIT CODES
  0 no regression   1 a regression   2 wrong usage, or results that can't be compared"
)]
pub(super) struct CompareFlags {
    /// The base and the new results: two files from `loadgen run --json`. A file holds one result,
    /// an array of results, or several results one after the other; `-` is standard input
    #[arg(value_name = "BASE NEW", num_args = 0..=2)]
    files: Vec<PathBuf>,

    /// Files of the base, with several seeds
    #[arg(long, value_name = "FILE", num_args = 1..)]
    base: Vec<PathBuf>,

    /// Files of the new results
    #[arg(long, value_name = "FILE", num_args = 1..)]
    new: Vec<PathBuf>,

    /// How much worse a metric may be: 5%, p99=10%, pod_ready_latency=5%, excess=10 [default: 5%];
    /// repeatable
    #[arg(
        long = "tolerance",
        value_name = "[NAME=]LIMIT",
        allow_hyphen_values = true
    )]
    tolerances: Vec<Tolerance>,

    /// Compare only this metric, such as convergence.p99 or elapsed; repeatable
    #[arg(long = "figure", value_name = "NAME[.STATISTIC]", value_parser = MetricName::parse)]
    metrics: Vec<MetricName>,

    /// Also show metrics that did not change
    #[arg(long)]
    all: bool,

    /// Compare even if scenario, engine, number of pods, input or schema differ, between or within
    /// the sides
    #[arg(long)]
    force: bool,

    /// Output format
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table"
    )]
    output: Format,

    /// Also write the comparison to this file, as one self-contained web page; - is standard output
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Print nothing; only set the exit code
    #[arg(short, long)]
    quiet: bool,
}

/// Values of `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Markdown,
    Json,
}

/// Runs the comparison and returns the exit code.
///
/// # Errors
/// A file can't be read or contains no results, or the results can't be compared.
pub(super) fn run(flags: &CompareFlags) -> Result<u8> {
    let mut inputs = Inputs::default();
    for (flag, paths) in [
        ("the comparison", &flags.files),
        ("--base", &flags.base),
        ("--new", &flags.new),
    ] {
        paths.iter().for_each(|path| inputs.add(flag, path));
    }
    let report = flags.report.as_ref();
    let report = report
        .map(|path| Output::open("--report", path, &inputs))
        .transpose()?;
    let (base_files, new_files) = sides(flags)?;
    let (base, new) = (read(&base_files)?, read(&new_files)?);
    if !flags.force {
        refuse_unlike(&base, &new)?;
    }
    let tolerances = Tolerances::new(flags.tolerances.clone());
    let comparison = compare::compare(&base, &new, &tolerances, &flags.metrics);
    if let Some(absent) = comparison
        .metrics
        .iter()
        .find(|row| row.base.or(row.new).is_none())
    {
        bail!("--figure {}: none of the results has it", absent.metric);
    }
    let sides = Sides {
        base: shown(&base_files),
        new: shown(&new_files),
    };
    let uses_stdout = report.as_ref().is_some_and(Output::is_stdout);
    if let Some(report) = report {
        let page = page::page(&comparison, &sides);
        report.write(|out| out.write_all(page.as_bytes()))?;
    }
    // Otherwise, the page occupies standard output.
    if !flags.quiet && !uses_stdout {
        print(&match flags.output {
            Format::Table => render::table(&comparison, &sides, flags.all),
            Format::Markdown => render::markdown(&comparison, &sides, flags.all),
            Format::Json => render::json(&comparison, &sides),
        })?;
    }
    Ok(match comparison.regressions {
        0 => 0,
        _ => EXIT_REGRESSION,
    })
}

fn sides(flags: &CompareFlags) -> Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let (base, new) = match (
        &flags.files[..],
        flags.base.is_empty(),
        flags.new.is_empty(),
    ) {
        ([base, new], true, true) => (vec![base.clone()], vec![new.clone()]),
        ([], false, false) => (flags.base.clone(), flags.new.clone()),
        ([], true, true) => bail!(
            "nothing to compare: use loadgen compare BASE NEW, or --base FILE... --new FILE..."
        ),
        ([_], true, true) => bail!("expected two files: loadgen compare BASE NEW"),
        ([], true, false) => bail!("--new needs --base FILE..."),
        ([], false, true) => bail!("--base needs --new FILE..."),
        _ => bail!("use either BASE NEW or --base FILE... --new FILE..., not both"),
    };
    let is_stdin = |file: &&PathBuf| file.as_os_str() == "-";
    if base.iter().chain(&new).filter(is_stdin).count() > 1 {
        bail!("standard input (-) can be read only once");
    }
    Ok((base, new))
}

fn read(files: &[PathBuf]) -> Result<Vec<Loaded>> {
    let mut results = Vec::new();
    for file in files {
        results.extend(compare::read(file)?);
    }
    Ok(results)
}

/// Refuses results that can't be compared. The error lists the differences and the flag that
/// compares anyway.
fn refuse_unlike(base: &[Loaded], new: &[Loaded]) -> Result<()> {
    for (side, results) in [("the base", base), ("the new side", new)] {
        if let Some(problem) = problem_within(side, results) {
            bail!("{problem} (use --force to compare anyway)");
        }
    }
    let differences = compare::identity::differences(&base[0].metrics, &new[0].metrics);
    let incomparable: Vec<String> = differences
        .iter()
        .filter(|one| one.weight == Weight::Incomparable)
        .map(|one| {
            format!(
                "{} is {} in {} and {} in {}",
                one.what, one.base, base[0].place, one.new, new[0].place
            )
        })
        .collect();
    if !incomparable.is_empty() {
        bail!(
            "the results are not comparable: {} (use --force to compare anyway)",
            incomparable.join("; ")
        );
    }
    Ok(())
}

fn shown(files: &[PathBuf]) -> String {
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    match names.len() {
        0..=3 => names.join(" "),
        many => format!("{} … {} ({many} files)", names[0], names[many - 1]),
    }
}
