//! The `loadgen` command line: parses flags to settings, reads objects, runs, reports, and returns
//! an exit code.
//!
//! Exit codes: 0 success; 1 not done in time, or a threshold failed; 2 wrong usage, or an invalid
//! input or output path; 3 an invariant was broken; 130 interrupted. If standard output is closed,
//! the command ends silently.

mod access;
mod address;
mod baseline;
#[cfg(feature = "faultsim")]
mod bugs;
mod compare;
mod dry_run;
mod effective;
mod explain;
mod flags;
#[cfg(feature = "faultsim")]
mod fuzz;
mod interrupt;
mod kubeconfig;
mod live;
mod metrics;
#[cfg(any(test, not(feature = "faultsim")))]
mod no_faultsim;
mod numbers;
mod outputs;
mod profile;
mod progress;
mod repeated;
#[cfg(feature = "faultsim")]
mod replay;
mod run;
mod runtime_folder;
mod scenarios;
mod schema;
mod serve;
mod shell;
mod snapshots;
mod sweep;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};
use podstorm_sim::faults::FaultClass;
use serde::Serialize;

#[cfg(not(feature = "faultsim"))]
use self::no_faultsim::{self as bugs, self as fuzz, self as replay};
use crate::text::json;
use crate::units::counted;

/// The maximum number of warnings about the files of `-f` to print.
const WARNINGS_MAX: usize = 20;

/// Writes warnings about likely mistakes in files to standard error.
fn warn(warnings: &[String]) {
    let mut errors = io::stderr().lock();
    for warning in warnings.iter().take(WARNINGS_MAX) {
        let _ = writeln!(errors, "warning: {warning}");
    }
    if let more @ 1.. = warnings.len().saturating_sub(WARNINGS_MAX) {
        let more = counted(more as u64, "more unknown field");
        let _ = writeln!(errors, "warning: {more}");
    }
}

/// Lists the parts of the files of `-f` that are not simulated, on standard error.
fn tell_left_out(lines: &[String]) {
    let mut errors = io::stderr().lock();
    for line in lines {
        let _ = writeln!(errors, "warning: {line}");
    }
}

/// The exit code for wrong usage, and for an invalid input or output path.
const EXIT_USAGE: u8 = 2;

/// Kubernetes workload controllers under load and faults, in a simulated cluster inside this
/// process.
#[derive(Debug, Parser)]
#[command(
    name = "loadgen",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  loadgen run                                 2,000 ReplicaSets scale to 100,000 pods at once
  loadgen run --pods 10k --scenario burst     a sudden +/- 500 on 10,000 pods
  loadgen run -f loadgen/examples/frontend.yaml   simulate the objects of a file
  loadgen run --scenario stale-watch          a stale cache creates pods twice (kubernetes#129795)
  loadgen serve                               a cluster for kubectl and any other client
  loadgen explain -f dump.json --replicaset shop/web --replicas 8   which pods go, and why
  loadgen sweep --pods 1k --vary burst-replicas=100,500 --vary kube-api-qps=20,50
  loadgen compare base.json new.json          what got better and what got worse
  loadgen scenarios                           the built-in scenarios
  loadgen bugs                                known bugs of upstream (--features faultsim)"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a scenario and report: live progress, then one screen, then --json
    Run(Box<flags::RunFlags>),
    /// Run a cluster with an API server for kubectl and other clients
    Serve(Box<serve::ServeFlags>),
    /// Explain which pods a scale-down deletes, and how to make others go first
    Explain(Box<explain::ExplainFlags>),
    /// Run a scenario over a grid of settings; outputs a table, CSV and a page with heat maps
    Sweep(Box<sweep::SweepFlags>),
    /// Compare two results, or two sets with several seeds; exit code 1 on a regression
    Compare(Box<compare::CompareFlags>),
    /// List the built-in scenarios with their questions, or print one to edit
    Scenarios(scenarios::ScenariosFlags),
    /// Print the JSON Schema of a file format
    Schema(schema::SchemaFlags),
    /// List the metrics of a result, for thresholds and comparisons
    Metrics,
    /// Print shell completions
    Completions(shell::CompletionsFlags),
    /// Print the man page, or write the man pages of all commands
    Man(shell::ManFlags),
    /// Play many seeds of the fault simulator and summarize them (`--features faultsim`)
    Fuzz(Box<fuzz::FuzzFlags>),
    /// Play one seed or schedule of the fault simulator step by step (`--features faultsim`)
    Replay(replay::ReplayFlags),
    /// List the fault classes
    Faults,
    /// List known bugs of upstream, or show the effect of one (`--features faultsim`)
    Bugs(bugs::BugsFlags),
}

/// Runs the command line of this process and returns its exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let error = proposing(error);
            // Help and version go to standard output, errors to standard error. Either may be
            // closed.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    match execute(&cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // Print the whole chain on one line: the operation, then its cause.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// Adds the most similar names to an error for which clap suggests none: clap misses short words
/// with two swapped letters, such as `rnu` for `run`.
fn proposing(mut error: clap::Error) -> clap::Error {
    let string = |error: &clap::Error, kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        _ => None,
    };
    let near = |word: &str, known: Vec<String>| {
        let slips = |name: &String| strsim::osa_distance(word.trim_start_matches('-'), name);
        let mut known: Vec<String> = known
            .into_iter()
            .filter(|name| slips(name) * 3 <= name.len())
            .collect();
        known.sort_by_key(slips);
        known
    };
    let command = Cli::command();
    if let Some(word) = string(&error, ContextKind::InvalidSubcommand)
        && error.get(ContextKind::SuggestedSubcommand).is_none()
    {
        let names = command
            .get_subcommands()
            .map(|one| one.get_name().to_owned());
        let near = near(&word, names.collect());
        if !near.is_empty() {
            error.insert(
                ContextKind::SuggestedSubcommand,
                ContextValue::Strings(near),
            );
        }
    } else if let Some(word) = string(&error, ContextKind::InvalidArg)
        && error.kind() == ErrorKind::UnknownArgument
        && error.get(ContextKind::SuggestedArg).is_none()
    {
        let subcommand = std::env::args().nth(1).unwrap_or_default();
        let flags = command.find_subcommand(&subcommand).into_iter();
        let flags = flags.flat_map(|one| one.get_arguments());
        let longs = flags.filter_map(|one| one.get_long().map(str::to_owned));
        if let Some(first) = near(&word, longs.collect()).into_iter().next() {
            let flag = ContextValue::String(format!("--{first}"));
            error.insert(ContextKind::SuggestedArg, flag);
        }
    } else if let Some(word) = string(&error, ContextKind::InvalidValue)
        && error.get(ContextKind::SuggestedValue).is_none()
        && let Some(ContextValue::Strings(known)) = error.get(ContextKind::ValidValue)
        && let Some(first) = near(&word, known.clone()).into_iter().next()
    {
        error.insert(ContextKind::SuggestedValue, ContextValue::String(first));
    }
    error
}

/// Executes the command and returns the exit code.
fn execute(command: &Command) -> anyhow::Result<u8> {
    match command {
        Command::Run(flags) => run::run(flags),
        Command::Serve(flags) => serve::run(flags),
        Command::Explain(flags) => explain::run(flags),
        Command::Sweep(flags) => sweep::run(flags),
        Command::Compare(flags) => compare::run(flags),
        Command::Scenarios(flags) => scenarios::run(flags),
        Command::Schema(flags) => schema::run(flags),
        Command::Metrics => print(&metrics::list()).map(|()| 0),
        Command::Completions(flags) => shell::completions(flags),
        Command::Man(flags) => shell::man(flags),
        Command::Fuzz(flags) => fuzz::run(flags),
        Command::Replay(flags) => replay::run(flags),
        Command::Faults => print(&faults()).map(|()| 0),
        Command::Bugs(flags) => bugs::run(flags),
    }
}

fn faults() -> String {
    let mut text = String::new();
    for class in FaultClass::ALL {
        let (number, name, what) = (class.number(), class.name(), class.description());
        text.push_str(&format!("F{number:<3} {name:<22} {what}\n"));
    }
    text
}

/// Writes to standard output. A closed pipe is not an error.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("standard output can't be written"))
        }
        _ => Ok(()),
    }
}

/// Like `print`, but writes to standard error if standard output is used for a file given as `-`.
fn print_beside(uses_stdout: bool, text: &str) -> anyhow::Result<()> {
    match uses_stdout {
        true => {
            let _ = io::stderr().lock().write_all(text.as_bytes());
            Ok(())
        }
        false => print(text),
    }
}

/// Writes a JSON document to standard output.
fn print_json(document: &impl Serialize) -> anyhow::Result<()> {
    let mut bytes = Vec::new();
    json::write(&mut bytes, document)?;
    print(&String::from_utf8_lossy(&bytes))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use clap::Arg;

    use super::*;
    use crate::scenario::Scenario;

    /// The arguments that name input files, by command and id.
    const READ: [(&str, &str); 15] = [
        ("run", "files"),
        ("run", "scenario"),
        ("run", "baseline"),
        ("sweep", "files"),
        ("sweep", "scenario"),
        ("serve", "files"),
        ("serve", "token_auth_file"),
        ("explain", "files"),
        ("compare", "files"),
        ("compare", "base"),
        ("compare", "new"),
        ("replay", "schedule"),
        ("scenarios", "check"),
        ("serve", "service_account_signing_key_file"),
        ("serve", "service_account_key_files"),
    ];

    /// The arguments that name output files, by command and id.
    const WRITTEN: [(&str, &str); 16] = [
        ("run", "json"),
        ("run", "report"),
        ("run", "csv"),
        ("run", "junit"),
        ("run", "perf_dash"),
        ("run", "flamegraph"),
        ("run", "pprof"),
        ("run", "folded"),
        ("run", "save_baseline"),
        ("sweep", "csv"),
        ("sweep", "json"),
        ("sweep", "report"),
        ("compare", "report"),
        ("serve", "kubeconfig"),
        ("serve", "snapshot"),
        ("fuzz", "json"),
    ];

    /// The arguments that name folders, by command and id.
    const FOLDERS: [(&str, &str); 3] = [
        ("run", "baseline_dir"),
        ("fuzz", "keep"),
        ("man", "out_dir"),
    ];

    /// Returns the words of an argument on the command line. Its file is `main.json` in `folder`.
    fn written(argument: &Arg, folder: &Path) -> Vec<String> {
        let file = folder.join("main.json").display().to_string();
        let folder = folder.display().to_string();
        match (argument.get_id().as_str(), argument.get_long()) {
            ("baseline", _) => ["--baseline", "main", "--baseline-dir", &folder]
                .map(str::to_owned)
                .to_vec(),
            ("save_baseline", _) => vec!["--save-baseline".to_owned(), "main".to_owned()],
            (_, Some(long)) => vec![format!("--{long}"), file],
            (_, None) => vec![file],
        }
    }

    #[test]
    fn every_file_argument_is_listed_as_read_or_written() {
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments() {
                let kind = argument.get_value_parser().type_id();
                let names_file = kind == std::any::TypeId::of::<PathBuf>()
                    || kind == std::any::TypeId::of::<Arc<Scenario>>();
                let this = (command.get_name(), argument.get_id().as_str());
                let mut known = READ.iter().chain(&WRITTEN).chain(&FOLDERS);
                assert!(!names_file || known.any(|known| *known == this), "{this:?}");
            }
        }
    }

    #[test]
    fn no_output_of_any_command_overwrites_an_input() {
        let folder = std::env::temp_dir().join(format!("loadgen-kept-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        let file = folder.join("main.json");
        // Omit files whose content the flag itself does not parse.
        let content = Scenario::text("up-down").unwrap();
        fs::write(&file, content).unwrap();
        let cli = Cli::command();
        let argument = |command: &str, id: &str| {
            let command = cli.find_subcommand(command).unwrap();
            let mut all = command.get_arguments();
            all.find(|one| one.get_id() == id).unwrap().clone()
        };
        let mut pairs = 0;
        for (command, read) in READ {
            for (_, output) in WRITTEN.iter().filter(|(other, _)| *other == command) {
                let mut words = vec!["loadgen".to_owned(), command.to_owned()];
                if command == "sweep" {
                    words.extend(["--vary", "burst-replicas=1,2"].map(str::to_owned));
                }
                words.extend(written(&argument(command, read), &folder));
                words.extend(written(&argument(command, output), &folder));
                if *output == "save_baseline" && read != "baseline" {
                    words.extend(["--baseline-dir".to_owned(), folder.display().to_string()]);
                }
                let cli = Cli::try_parse_from(&words);
                let cli = cli.unwrap_or_else(|error| panic!("{words:?}: {error}"));
                let problem = execute(&cli.command).unwrap_err().to_string();
                let is_refused = problem.contains("would overwrite the file that")
                    || problem.contains("would replace the baseline");
                assert!(is_refused, "{words:?}: {problem}");
                assert_eq!(fs::read_to_string(&file).unwrap(), content, "{words:?}");
                assert_eq!(fs::read_dir(&folder).unwrap().count(), 1, "{words:?}");
                pairs += 1;
            }
        }
        assert_eq!(pairs, 3 * 9 + 2 * 3 + 4 * 2 + 3);
        // Different cells of a sweep may have different files.
        let name = file.display();
        for vary in [
            format!("filename=x.yaml,{name}"),
            format!("scenario=churn,{name}"),
        ] {
            let output = file.display().to_string();
            let words = ["loadgen", "sweep", "--vary", &vary, "--csv", &output];
            let cli = Cli::try_parse_from(words).unwrap();
            let problem = execute(&cli.command).unwrap_err().to_string();
            assert!(
                problem.contains("would overwrite the file that"),
                "{problem}"
            );
        }
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
