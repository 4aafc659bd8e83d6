//! The command line of the gate, the files that the gate reads and writes, and its exit status.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Parser;
use podstorm_loadgen::report::output::{Inputs, Output};
use serde::{Deserialize, Serialize};

use super::budgets::Budgets;
use super::compare::{self, Judged};
use super::measurement::Measurement;
use super::{EXIT_UNUSABLE, bless, collect, is_under, say, show};
use crate::hot;
use crate::results::package_directory;
use crate::results::run::{date_text, now};
use crate::write_whole;

/// The name of the output file in error messages.
const JSON: &str = "--json";
const BUDGETS: &str = "the budgets";

/// Counts instructions and allocations of every hot path and of small whole runs, and compares them
/// with the committed budgets.
///
/// Exit status: 0 all rows are within their budgets or below; 1 a row regressed, disappeared, has
/// no budget, or allocates although it claims not to; 2 no decision was possible (usage, budgets
/// file, missing tool, failed build); 3 rows left their tolerance under another toolchain than they
/// were blessed with.
#[derive(Debug, Parser)]
#[command(name = "gate", max_term_width = 100)]
struct Flags {
    /// Only rows whose id is this or lies below it, e.g. `expectations` or `expectations/create/1`
    #[arg(long, value_name = "PREFIX")]
    only: Option<String>,
    /// Also writes measurement and verdicts to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The budgets file [default: bench/budgets.toml]
    #[arg(long, value_name = "FILE")]
    budgets: Option<PathBuf>,
    /// Rewrites these rows to the measured counts; removes a row that nothing measures
    #[arg(long, value_name = "ID", num_args = 1.., requires = "reason", conflicts_with = "bless_all")]
    bless: Vec<String>,
    /// Rewrites every row, within --only, that differs from the measured count
    #[arg(long, requires = "reason")]
    bless_all: bool,
    /// The reason for the change, kept in the rows
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Judges a file that `--json` wrote instead of measuring
    #[arg(long, value_name = "FILE", conflicts_with = "planted")]
    measured: Option<PathBuf>,
    /// Counts slow paths planted on purpose, to see the gate close
    #[arg(long, conflicts_with_all = ["bless", "bless_all"])]
    planted: bool,
}

impl Flags {
    fn is_asked(&self, id: &str) -> bool {
        self.only.as_ref().is_none_or(|only| is_under(id, only))
    }

    fn is_blessed(&self, id: &str) -> bool {
        (self.bless_all && self.is_asked(id)) || self.bless.iter().any(|blessed| blessed == id)
    }

    /// Checks that the ids of `--only` and `--bless` are in the budgets or are otherwise known.
    fn check_ids<'a>(
        &self,
        budgets: &'a Budgets,
        others: impl Iterator<Item = &'a str>,
    ) -> Result<()> {
        let budgeted = budgets.row.iter().map(|row| row.id.as_str());
        let known: Vec<&str> = others.chain(budgeted).collect();
        let refuse = |flag: &str, id: &str| {
            let unknown = bless::unknown(id, known.iter().copied());
            anyhow!("{flag} {id}: {unknown}; nothing was written")
        };
        if let Some(only) = &self.only
            && !known.iter().any(|id| is_under(id, only))
        {
            return Err(refuse("--only", only));
        }
        let is_refused = |id: &&String| !known.contains(&id.as_str()) || !self.is_asked(id);
        match self.bless.iter().find(is_refused) {
            Some(id) => Err(refuse("--bless", id)),
            None => Ok(()),
        }
    }
}

/// The content of a `--json` file.
#[derive(Serialize)]
struct Record<'a> {
    exit_code: u8,
    rows: &'a [Judged],
    measurement: &'a Measurement,
}

/// The part of a `--json` file that `--measured` reads.
#[derive(Deserialize)]
struct Recorded {
    measurement: Measurement,
}

/// Runs the `gate` command.
pub fn main() -> ExitCode {
    let code = gate(&Flags::parse()).unwrap_or_else(|error| {
        say(&format!("{error:#}"));
        EXIT_UNUSABLE
    });
    code.into()
}

fn gate(flags: &Flags) -> Result<u8> {
    let path = flags.budgets.clone();
    let path = path.unwrap_or_else(|| package_directory().join("budgets.toml"));
    let name = path.display();
    // Measuring takes a long time, so first check everything that would make it useless.
    let reason = flags.reason.as_deref().unwrap_or_default();
    ensure!(
        flags.reason.is_none() || !reason.trim().is_empty(),
        "--reason is empty"
    );
    let mut budgets = read_budgets(&path, flags.bless_all)?;
    if let Some(json) = &flags.json {
        let files = fs::canonicalize(json)
            .ok()
            .zip(fs::canonicalize(&path).ok());
        ensure!(
            *json != path && files.is_none_or(|(json, budgets)| json != budgets),
            "{JSON} {}: this is the budgets file",
            json.display()
        );
        drop(Output::open(JSON, json, &Inputs::default())?);
    }
    let blesses = flags.bless_all || !flags.bless.is_empty();
    if blesses {
        drop(Output::open(BUDGETS, &path, &Inputs::default())?);
    }
    let measurement = if let Some(file) = &flags.measured {
        read_measurement(file)?
    } else {
        flags.check_ids(&budgets, hot::paths().iter().map(|path| path.id))?;
        let only = flags.only.as_deref().unwrap_or_default();
        collect::collect(only, flags.planted)?
    };
    let counted = measurement.counts.iter().map(|count| count.id.as_str());
    flags.check_ids(&budgets, counted)?;
    if blesses {
        let is_blessed = |id: &str| flags.is_blessed(id);
        let today = &date_text(now())[..10];
        let blessed = bless::bless(&mut budgets, &measurement, is_blessed, reason, today)
            .map_err(|problem| anyhow!("--bless: {problem}; nothing was written"))?;
        write_whole(BUDGETS, &path, &budgets.render())?;
        for row in &blessed.written {
            say(&format!("{name}: blessed {row}"));
        }
        for row in &blessed.removed {
            say(&format!("{name}: removed {row}"));
        }
        say(&format!("{name}: {} rows were up to date", blessed.left));
    }
    let rows = compare::judge(&budgets, &measurement, |id| flags.is_asked(id));
    ensure!(!rows.is_empty(), "nothing was judged");
    let exit_code = compare::exit_code(&rows);
    let mut output = io::stdout().lock();
    output.write_all(show::report(&rows).as_bytes())?;
    if let Some(file) = &flags.json {
        let record = Record {
            exit_code,
            rows: &rows,
            measurement: &measurement,
        };
        let text =
            serde_json::to_string_pretty(&record).context("cannot write the verdicts as JSON")?;
        write_whole(JSON, file, &(text + "\n"))?;
    }
    Ok(exit_code)
}

/// Reads the budgets. If all rows will be rewritten, the file may be missing or invalid.
fn read_budgets(path: &Path, all_are_written: bool) -> Result<Budgets> {
    let name = &path.display().to_string();
    let read = match fs::read_to_string(path) {
        Ok(text) => Budgets::parse(&text, name),
        Err(error) => Err(format!(
            "{name}: cannot be read ({error}). {}",
            super::budgets::MEND
        )),
    };
    match read {
        Err(error) if all_are_written => {
            say(&format!("starting without budgets: {error}"));
            Ok(Budgets::default())
        }
        read => read.map_err(anyhow::Error::msg),
    }
}

fn read_measurement(path: &Path) -> Result<Measurement> {
    let name = path.display();
    let text = fs::read_to_string(path).with_context(|| format!("{name}: cannot be read"))?;
    let input: Recorded = serde_json::from_str(&text)
        .with_context(|| format!("{name}: not a file written by `gate --json`"))?;
    let mut counts = input.measurement.counts.iter();
    if let Some(count) = counts.find(|count| !count.figure.is_finite() || count.figure < 0.0) {
        bail!("{name}: invalid count of {}: {}", count.id, count.figure);
    }
    Ok(input.measurement)
}
