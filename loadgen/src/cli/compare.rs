//! `loadgen compare`: two results, or two sets of several seeds, side by side.

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

/// The exit code where a metric is worse than it may be.
const EXIT_REGRESSION: u8 = 1;

/// What `loadgen compare` is asked for.
#[derive(Args, Debug)]
#[command(
    override_usage = "loadgen compare [OPTIONS] BASE NEW\n       \
                      loadgen compare [OPTIONS] --base FILE... --new FILE...",
    after_long_help = "\
WHAT IS COMPARED
  Every metric of the results (`loadgen metrics` lists them): its value on both sides, or its median
  where there are several results, the new one divided by the base, and a verdict. A metric is a
  REGRESSION where the new one is worse, in the direction of the metric, by more than its tolerance.
  With four or more results on each side the difference must also be significant: p < 0.05 in the
  two-sided Mann-Whitney U test, exact up to 60 results in all; otherwise it is noise.
  Results of one seed on the virtual engine are exact: any difference comes from what differs.
  Results that differ in scenario, engine, number of pods, input or schema are refused (--force goes
  on); other settings, behaviour, seeds, version and machine may differ, and are said.

TOLERANCES
  5%                     of every metric that no other tolerance is for
  p99=10%                of that statistic of every distribution
  pod_ready_latency=5%   of all statistics of that metric
  convergence.p99=20%    of one metric
  excess=10, queue_wait=1ms   an amount instead of a share

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
    /// The base and the new results: two files of `loadgen run --json`, each one result, those of
    /// `--runs`, an array of results or one after the other; `-` is standard input
    #[arg(value_name = "BASE NEW", num_args = 0..=2)]
    files: Vec<PathBuf>,

    /// The base's files, of several seeds
    #[arg(long, value_name = "FILE", num_args = 1..)]
    base: Vec<PathBuf>,

    /// The new files
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

    /// Compare this metric only, such as convergence.p99 or elapsed; repeatable
    #[arg(long = "figure", value_name = "NAME[.STATISTIC]", value_parser = MetricName::parse)]
    metrics: Vec<MetricName>,

    /// Show the metrics that are the same too
    #[arg(long)]
    all: bool,

    /// Compare what differs in scenario, engine, number of pods, input or schema, and whatever a side
    /// mixes
    #[arg(long)]
    force: bool,

    /// How to show it
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table"
    )]
    output: Format,

    /// Write the comparison to this file too, as one page that needs nothing else; - is standard output
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,

    /// Print nothing; the exit code tells
    #[arg(short, long)]
    quiet: bool,
}

/// `--output`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Markdown,
    Json,
}

/// Compares, and gives the exit code.
///
/// # Errors
/// Files that can't be read or hold no results, and results that can't be compared.
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
    // Standard output belongs to the page then.
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
            "what is to be compared? loadgen compare BASE NEW, or --base FILE... --new FILE..."
        ),
        ([_], true, true) => bail!("two files are compared: loadgen compare BASE NEW"),
        ([], true, false) => bail!("--new is given without --base FILE..."),
        ([], false, true) => bail!("--base is given without --new FILE..."),
        _ => bail!("give either BASE NEW or --base FILE... --new FILE..., not both"),
    };
    let is_stdin = |file: &&PathBuf| file.as_os_str() == "-";
    if base.iter().chain(&new).filter(is_stdin).count() > 1 {
        bail!("standard input (-) can be read once only");
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

/// Refuses what can't be compared, with what differs and the way on.
fn refuse_unlike(base: &[Loaded], new: &[Loaded]) -> Result<()> {
    for (side, results) in [("the base", base), ("the new side", new)] {
        if let Some(problem) = problem_within(side, results) {
            bail!("{problem} (--force compares them all the same)");
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
            "the results are of different things: {} (--force compares them all the same)",
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
