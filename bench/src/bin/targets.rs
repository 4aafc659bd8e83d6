//! The table of targets with one command: runs every bench, then compares the figures with the
//! targets, with upstream's figures and with those of the plain rivals, on the terminal and in
//! `bench/results/`.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::process::ExitCode;

use anyhow::{Context, ensure};
use clap::Parser;
use podstorm_bench::results::run::{Run, TABLE_ELSEWHERE, now};
use podstorm_bench::results::{document, package_directory, report, targets};
use podstorm_bench::write_whole;

/// Run every bench and print the table of targets: our figure, the plain rival's, upstream's
///
/// Writes bench/results/targets.md and targets.json, unless --only leaves out rows.
#[derive(Debug, Parser)]
#[command(
    after_help = "EXIT CODES\n  0 every row has its figure (met or not)   1 rows without a \
                        figure, unless --partial\n  2 a bench failed, or wrong usage"
)]
struct Arguments {
    /// Measure each bench only roughly (criterion's --quick)
    #[arg(long)]
    quick: bool,

    /// Only the rows of this subject, the first segment of their ids, e.g. ranking; writes nothing
    #[arg(long, value_name = "SUBJECT")]
    only: Option<String>,

    /// Run nothing: print the table of existing figures, and mark those from before the last change
    /// of the sources as stale
    #[arg(long, conflicts_with = "quick")]
    no_run: bool,

    /// Succeed even if rows have no figure
    #[arg(long)]
    partial: bool,

    /// Only write bench/TARGETS.md from bench/targets.toml
    #[arg(long, conflicts_with_all = ["quick", "only", "no_run", "partial"])]
    document: bool,
}

fn main() -> ExitCode {
    run(&Arguments::parse()).unwrap_or_else(|error| {
        let _ = writeln!(io::stderr(), "targets: {error:#}");
        ExitCode::from(2)
    })
}

fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut rows = targets::load_own()?;
    if arguments.document {
        let path = package_directory().join("TARGETS.md");
        write_whole("the document", &path, &document::render(&rows))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(subject) = &arguments.only {
        let subjects: BTreeSet<&str> = rows.iter().map(|row| row.subject()).collect();
        ensure!(
            subjects.contains(&**subject),
            "--only {subject}: there is no such subject; the subjects are {}",
            Vec::from_iter(subjects).join(", ")
        );
        rows.retain(|row| row.subject() == subject);
    }

    let mut run = Run::begin(command());
    let start = (!arguments.no_run).then(now);
    let failed = !arguments.no_run && !bench(arguments)?;
    let (text, complete) = report(rows, &mut run, start, arguments.only.is_none())?;
    write!(io::stdout(), "\n{text}")?;
    ensure!(
        !failed,
        "a bench failed, see above; the table has the figures that were measured"
    );
    Ok(if complete || arguments.partial {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

/// Returns the command that repeats this one.
fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let dashes = if words.is_empty() { "" } else { " -- " };
    let words = words.join(" ");
    format!("cargo run --release -p podstorm-bench --bin targets{dashes}{words}")
}

/// Runs the benches. Returns whether all of them succeeded.
fn bench(arguments: &Arguments) -> anyhow::Result<bool> {
    let mut command = podstorm_bench::cargo();
    command
        .current_dir(package_directory())
        .env(TABLE_ELSEWHERE, "1")
        // A program that fails must not stop the others.
        .args(["bench", "-p", "podstorm-bench", "-p", "podstorm-counts"])
        .args(["--no-fail-fast", "--"]);
    command.args(
        arguments
            .only
            .as_ref()
            .map(|subject| format!("^{subject}/")),
    );
    command.args(arguments.quick.then_some("--quick"));
    let status = command.status().context("cargo bench")?;
    Ok(status.success())
}
