//! The table of targets by one command: runs every bench, then puts the figures beside the targets,
//! upstream's and the plain rivals', on the terminal and in `bench/results/`.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::SystemTime;

use anyhow::{Context, ensure};
use clap::Parser;
use podstorm_bench::files::write_whole;
use podstorm_bench::results::run::{Run, TABLE_ELSEWHERE, now, sources_changed};
use podstorm_bench::results::targets::{self, Target};
use podstorm_bench::results::{document, measurements_directory, package_directory, render, table};

/// Run every bench and print the table of targets: our figure, the plain rival's, upstream's
///
/// Writes bench/results/targets.md and targets.json, unless --only leaves rows out.
#[derive(Debug, Parser)]
#[command(
    after_help = "EXIT CODES\n  0 every row has its figure (met or not)   1 rows without a \
                        figure, unless --partial\n  2 a bench failed, or wrong usage"
)]
struct Arguments {
    /// Measure each bench until it is known roughly (criterion's --quick)
    #[arg(long)]
    quick: bool,

    /// Only the rows of this subject or bench, e.g. ranking; nothing is written
    #[arg(long, value_name = "SUBJECT")]
    only: Option<String>,

    /// Run nothing: the table from the figures that are there; those from before the last change
    /// of the sources are marked as stale
    #[arg(long, conflicts_with = "quick")]
    no_run: bool,

    /// Succeed although rows have no figure
    #[arg(long)]
    partial: bool,

    /// Only write bench/TARGETS.md from bench/targets.toml
    #[arg(long, conflicts_with_all = ["quick", "only", "no_run", "partial"])]
    document: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(code) => code,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a command reports its failure there")]
            {
                eprintln!("targets: {error:#}");
            }
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let mut rows = targets::load_own()?;
    if arguments.document {
        let path = package_directory().join("TARGETS.md");
        write_whole("the document", &path, &document::render(&rows))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(subject) = &arguments.only {
        let all = rows.clone();
        rows.retain(|row| is_of(row, subject));
        let subjects: BTreeSet<&str> = all.iter().map(|row| &*row.bench).collect();
        let subjects: Vec<&str> = subjects.into_iter().collect();
        ensure!(
            !rows.is_empty(),
            "--only {subject}: no target is of that subject; there are {}",
            subjects.join(", ")
        );
    }

    let mut run = Run::begin(command(arguments));
    let mut failed = false;
    let since = if arguments.no_run {
        run.fresh_since = "the last change of the sources".to_owned();
        sources_changed()
    } else {
        run.fresh_since = "the start of the run".to_owned();
        let start = now();
        failed = !bench(arguments, &rows)?;
        start
    };
    run.end(now());
    let complete = report(arguments, rows, &run, since)?;

    ensure!(
        !failed,
        "a bench failed, see above; the table has what was measured"
    );
    Ok(if complete || arguments.partial {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(1)
    })
}

fn is_of(row: &Target, subject: &str) -> bool {
    row.bench == subject || row.id.split('/').next() == Some(subject)
}

/// The command that repeats this one.
fn command(arguments: &Arguments) -> String {
    let mut text = "cargo run --release -p podstorm-bench --bin targets".to_owned();
    let mut words = Vec::new();
    if arguments.quick {
        words.push("--quick".to_owned());
    }
    if let Some(subject) = &arguments.only {
        words.push(format!("--only {subject}"));
    }
    if arguments.no_run {
        words.push("--no-run".to_owned());
    }
    if arguments.partial {
        words.push("--partial".to_owned());
    }
    if !words.is_empty() {
        text = format!("{text} -- {}", words.join(" "));
    }
    text
}

/// Runs the benches of the rows; whether all succeeded.
fn bench(arguments: &Arguments, rows: &[Target]) -> anyhow::Result<bool> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(package_directory())
        .env(TABLE_ELSEWHERE, "1")
        // A failed bench costs its own rows and no others.
        .args(["bench", "-p", "podstorm-bench", "--no-fail-fast"]);
    if arguments.only.is_some() {
        let mut benches: Vec<&str> = rows.iter().map(|row| &*row.bench).collect();
        benches.sort_unstable();
        benches.dedup();
        for bench in benches {
            command.args(["--bench", bench]);
        }
    }
    if arguments.quick {
        command.args(["--", "--quick"]);
    }
    let status = command.status().context("cargo bench")?;
    Ok(status.success())
}

/// Prints the table, writes it when it has every row; whether every row has its figure.
fn report(
    arguments: &Arguments,
    rows: Vec<Target>,
    run: &Run,
    since: SystemTime,
) -> anyhow::Result<bool> {
    let lines = table::lines(rows, &measurements_directory(), since, &run.machine)?;
    let mut text = format!("\n{}", render::terminal(&lines, run));
    if arguments.only.is_none() {
        render::write(&lines, run, &results_directory())?;
        text.push_str("Written: bench/results/targets.md, bench/results/targets.json\n");
    }
    #[expect(clippy::print_stdout, reason = "a command prints its result there")]
    {
        print!("{text}");
    }
    Ok(lines.iter().all(|line| line.verdict.is_complete()))
}

fn results_directory() -> std::path::PathBuf {
    Path::join(package_directory(), "results")
}
