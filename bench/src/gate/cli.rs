//! The command line of the gate: which files are read and written, and what the exit status is.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Parser;
use podstorm::object::Time;
use podstorm_loadgen::report::output::{Inputs, Output};
use podstorm_sim::clock::RealClock;
use serde::{Deserialize, Serialize};

use super::bless::{self, Blessed, Chosen};
use super::budgets::Budgets;
use super::collect::{self, Collect};
use super::compare::{self, Judged};
use super::measurement::Measurement;
use super::paired::PAIRS_MIN;
use super::tools::{self, Workspace};
use super::wall::{self, Wall};
use super::{EXIT_PASS, EXIT_UNUSABLE, is_under, show};
use crate::files::write_whole;
use crate::hot;

/// What errors call the files that are written.
const JSON: &str = "--json";
const BUDGETS: &str = "the budgets";
/// Pairs where nothing else is asked for.
const PAIRS: usize = 8;
/// Pairs beyond which a typing error is likelier than patience.
const PAIRS_MAX: usize = 1_000;

/// Counts instructions and allocations of every hot path and of whole small runs, and holds them
/// against the committed budgets.
///
/// Exit status: 0 all within (or below) their budgets; 1 a row regressed, disappeared, has no budget, or
/// allocates though it claims not to; 2 nothing could be decided (usage, budgets file, missing tool, failed
/// build); 3 rows left their tolerance under another toolchain than they were blessed with.
#[derive(Debug, Parser)]
#[command(name = "gate", max_term_width = 100)]
struct Flags {
    /// Only rows whose id is this or lies under it, e.g. `expectations` or `expectations/create/1`
    #[arg(long, value_name = "PREFIX")]
    only: Option<String>,
    /// Writes measurement and verdicts there too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The budgets [default: bench/budgets.toml of the workspace]
    #[arg(long, value_name = "FILE")]
    budgets: Option<PathBuf>,
    /// Rewrites these rows to what is measured now; a row that nothing measures is taken out
    #[arg(long, value_name = "ID", num_args = 1.., requires = "reason", conflicts_with = "bless_all")]
    bless: Vec<String>,
    /// Rewrites every row, within --only, that says something else than is measured now
    #[arg(long, requires = "reason")]
    bless_all: bool,
    /// Why; kept in the rows
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Judges what `--json` wrote there instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with = "planted")]
    measured: Option<PathBuf>,
    /// Builds with slow paths planted on purpose, to see the gate close
    #[arg(long, conflicts_with_all = ["bless", "bless_all"])]
    planted: bool,
    #[command(flatten)]
    wall: WallFlags,
}

/// `--wall` and what belongs to it.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Wall time, as advice")]
struct WallFlags {
    /// Compares wall times of the working tree with those of this git revision; never blocks
    #[arg(long = "wall", value_name = "BASE",
          conflicts_with_all = ["only", "json", "budgets", "bless", "bless_all", "measured", "planted"])]
    base: Option<String>,
    /// Criterion benches to time; repeat or separate by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "base")]
    bench: Vec<String>,
    /// Criterion's filter over ids (regular expression)
    #[arg(long, value_name = "REGEX", requires_all = ["base", "bench"])]
    filter: Option<String>,
    /// Times `loadgen run` with these arguments [default without --bench: "--pods 20k"]
    #[arg(
        long,
        value_name = "ARGUMENTS",
        requires = "base",
        allow_hyphen_values = true
    )]
    run: Option<String>,
    /// How many pairs, 6 to 1000 [default: 8]
    #[arg(long, value_name = "N", requires = "base")]
    pairs: Option<usize>,
    /// Leaves the base's sources and build under target/gate/wall for the next time
    #[arg(long, requires = "base")]
    keep: bool,
}

impl WallFlags {
    fn is_empty(&self) -> bool {
        let texts = [&self.filter, &self.run];
        self.bench.is_empty()
            && texts.iter().all(|text| text.is_none())
            && self.pairs.is_none()
            && !self.keep
    }
}

/// What `--json` writes.
#[derive(Serialize)]
struct Record<'a> {
    exit_code: u8,
    rows: &'a [Judged],
    measurement: &'a Measurement,
}

/// What `--measured` reads of it.
#[derive(Deserialize)]
struct Recorded {
    measurement: Measurement,
}

/// The `gate` command.
pub fn main() -> ExitCode {
    let flags = Flags::parse();
    let code = gate(&flags).unwrap_or_else(|error| {
        let _ = writeln!(io::stderr().lock(), "gate: {error:#}");
        EXIT_UNUSABLE
    });
    code.into()
}

fn say(text: &str) {
    let _ = writeln!(io::stderr().lock(), "gate: {text}");
}

fn gate(flags: &Flags) -> Result<u8> {
    if let Some(base) = &flags.wall.base {
        return advise(base, &flags.wall);
    }
    // clap forgives what is missing when a flag is there that could not stand beside it.
    ensure!(
        flags.wall.is_empty(),
        "--bench, --filter, --run, --pairs and --keep belong to --wall BASE"
    );
    // Only the defaults need a workspace when nothing is to be built.
    let workspace = match (&flags.measured, &flags.budgets) {
        (Some(_), Some(_)) => None,
        _ => Some(tools::workspace()?),
    };
    let (path, name) = budgets_path(flags, workspace.as_ref());
    let chosen = if flags.bless_all {
        Some(Chosen::All)
    } else if flags.bless.is_empty() {
        None
    } else {
        Some(Chosen::Ids(flags.bless.clone()))
    };
    // Before the measurement, which takes long: whatever would make it useless decides already.
    if flags
        .reason
        .as_ref()
        .is_some_and(|reason| reason.trim().is_empty())
    {
        bail!("--reason says nothing");
    }
    let mut budgets = read_budgets(&path, &name, matches!(chosen, Some(Chosen::All)))?;
    if let Some(json) = &flags.json {
        ensure!(
            !is_same_file(json, &path),
            "{JSON} {}: these are the budgets",
            json.display()
        );
        drop(Output::open(JSON, json, &Inputs::default())?);
    }
    if chosen.is_some() {
        drop(Output::open(BUDGETS, &path, &Inputs::default())?);
    }
    let is_asked = |id: &str| flags.only.as_ref().is_none_or(|only| is_under(id, only));
    let measurement = match (&flags.measured, &workspace) {
        (Some(file), _) => read_measurement(file)?,
        (None, Some(workspace)) => {
            check_ids(flags, &budgets)?;
            let what = Collect {
                only: flags.only.clone(),
                planted: flags.planted,
            };
            collect::collect(workspace, &what, &mut say)?
        }
        (None, None) => unreachable!("without --measured there is a workspace"),
    };
    if let Some(only) = &flags.only {
        let known = budgets.row.iter().any(|row| is_asked(&row.id))
            || measurement.counts.iter().any(|count| is_asked(&count.id));
        if !known {
            bail!(
                "--only {only}: {}",
                bless::unknown(only, &budgets, &measurement)
            );
        }
    }
    if let (Some(chosen), Some(reason)) = (&chosen, &flags.reason) {
        let blessed = bless::bless(
            &mut budgets,
            &measurement,
            chosen,
            is_asked,
            reason,
            &today(),
        )
        .map_err(|problem| anyhow!("--bless: {problem}; nothing was written"))?;
        write_whole(BUDGETS, &path, &budgets.render())?;
        tell(&blessed, &name);
    }
    let rows = compare::judge(&budgets, &measurement, is_asked);
    if rows.is_empty() {
        bail!("nothing was judged");
    }
    let exit_code = compare::exit_code(&rows);
    io::stdout()
        .lock()
        .write_all(show::report(&rows).as_bytes())?;
    if let Some(file) = &flags.json {
        let output = Record {
            exit_code,
            rows: &rows,
            measurement: &measurement,
        };
        let text = serde_json::to_string_pretty(&output).context("verdicts become JSON")?;
        write_whole(JSON, file, &(text + "\n"))?;
    }
    Ok(exit_code)
}

/// Holds ids against those that will be counted: counting takes minutes.
fn check_ids(flags: &Flags, budgets: &Budgets) -> Result<()> {
    let paths = hot::paths();
    let budgeted = budgets.row.iter().map(|row| row.id.as_str());
    let known: BTreeSet<&str> = paths.iter().map(|path| path.id).chain(budgeted).collect();
    let refuse =
        |flag: &str, id: &str| anyhow!("{flag} {id}: {}", bless::unknown_among(id, &known));
    if let Some(only) = &flags.only
        && !known.iter().any(|id| is_under(id, only))
    {
        return Err(refuse("--only", only));
    }
    match flags.bless.iter().find(|id| !known.contains(id.as_str())) {
        Some(id) => Err(refuse("--bless", id)),
        None => Ok(()),
    }
}

fn budgets_path(flags: &Flags, workspace: Option<&Workspace>) -> (PathBuf, String) {
    match (&flags.budgets, workspace) {
        (Some(path), _) => (path.clone(), path.display().to_string()),
        (None, workspace) => {
            let name = "bench/budgets.toml";
            let root = workspace.map_or(Path::new("."), |workspace| &workspace.root);
            (root.join(name), name.to_owned())
        }
    }
}

/// Reads the budgets; when all rows are to be written, the file may be missing or unreadable.
fn read_budgets(path: &Path, name: &str, all_are_written: bool) -> Result<Budgets> {
    let read = fs::read_to_string(path)
        .map_err(|error| {
            anyhow!(
                "{name}: cannot be read ({error}). \
                 Take it back from version control, or write it anew: gate --bless-all --reason TEXT"
            )
        })
        .and_then(|text| Budgets::parse(&text, name).map_err(|problem| anyhow!(problem)));
    match read {
        Err(error) if all_are_written => {
            say(&format!("starting from nothing, because: {error}"));
            Ok(Budgets::default())
        }
        read => read,
    }
}

fn read_measurement(path: &Path) -> Result<Measurement> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("{name}: cannot be read"))?;
    let input: Recorded = serde_json::from_str(&text)
        .with_context(|| format!("{name}: not what `gate --json` writes"))?;
    let counts = &input.measurement.counts;
    if let Some(count) = counts
        .iter()
        .find(|count| !count.figure.is_finite() || count.figure < 0.0)
    {
        bail!("{name}: {} is counted as {}", count.id, count.figure);
    }
    Ok(input.measurement)
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let files = fs::canonicalize(one).ok().zip(fs::canonicalize(other).ok());
    one == other || files.is_some_and(|(one, other)| one == other)
}

fn tell(blessed: &Blessed, name: &str) {
    for row in &blessed.written {
        say(&format!("{name}: blessed {row}"));
    }
    for row in &blessed.removed {
        say(&format!("{name}: took out {row}"));
    }
    say(&format!("{name}: {} rows said so already", blessed.left));
}

fn today() -> String {
    let now = Time::from_unix_nanos(RealClock::start().now().wall_ns);
    let text = now.to_string();
    text.get(..10).unwrap_or(&text).to_owned()
}

fn advise(base: &str, flags: &WallFlags) -> Result<u8> {
    let pairs = flags.pairs.unwrap_or(PAIRS);
    ensure!(
        pairs >= PAIRS_MIN,
        "--pairs {pairs}: fewer than {PAIRS_MIN} agree by chance too often to say anything"
    );
    ensure!(
        pairs <= PAIRS_MAX,
        "--pairs {pairs}: more than {PAIRS_MAX} take for ever"
    );
    let run = match (&flags.run, flags.bench.is_empty()) {
        (Some(run), _) => Some(run.as_str()),
        (None, true) => Some("--pods 20k"),
        (None, false) => None,
    };
    let what = Wall {
        base: base.to_owned(),
        benches: flags.bench.iter().cloned().collect(),
        filter: flags.filter.clone(),
        run: run.map(|run| run.split_whitespace().map(str::to_owned).collect()),
        pairs,
        keep: flags.keep,
    };
    let text = wall::wall(&tools::workspace()?, &what, &mut say)?;
    io::stdout().lock().write_all(text.as_bytes())?;
    Ok(EXIT_PASS)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_flags_do_not_contradict_themselves() {
        Flags::command().debug_assert();
    }

    #[test]
    fn today_is_a_date() {
        let today = today();
        assert_eq!(today.len(), 10);
        assert!(today.starts_with("20"), "{today}");
    }

    #[test]
    fn the_working_tree_is_compared_by_default_runs_only_without_benches() {
        let parse = |line: &str| Flags::try_parse_from(line.split(' '));
        assert!(parse("gate --wall HEAD --bench ranking --filter tie").is_ok());
        assert!(parse("gate --wall HEAD --filter tie").is_err());
        assert!(parse("gate --bench ranking").is_err());
        assert!(parse("gate --bless a/b/1").is_err());
        assert!(parse("gate --bless a/b/1 --bless-all --reason x").is_err());
    }
}
