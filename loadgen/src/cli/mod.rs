//! The `loadgen` command line: flags to settings, files to objects, a run, a report, an exit code.
//!
//! Exit codes: 0 all is well; 1 not met in time or a threshold failed; 2 wrong usage, input or
//! output path; 3 an invariant was broken; 130 interrupted. Output that nobody reads any more
//! ends quietly.

mod baseline;
mod bugs;
mod compare;
mod dry_run;
mod effective;
mod explain;
mod figures;
mod flags;
mod fuzz;
mod interrupt;
mod live;
mod outputs;
mod profile;
mod replay;
mod run;
mod scenarios;
mod schema;
mod shell;
mod sweep;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::faults::FaultClass;

/// Most warnings about the files of `-f` that are told.
const WARNINGS_MAX: usize = 20;

/// Tells on standard error what is no mistake for certain and probably one.
fn warn(warnings: &[String]) {
    let mut errors = io::stderr().lock();
    for warning in warnings.iter().take(WARNINGS_MAX) {
        let _ = writeln!(errors, "warning: {warning}");
    }
    if let more @ 1.. = warnings.len().saturating_sub(WARNINGS_MAX) {
        let _ = writeln!(errors, "warning: {more} more unknown fields");
    }
}

/// Wrong usage, input or output path.
const EXIT_USAGE: u8 = 2;

/// A Kubernetes ReplicaSet controller under load, on a cluster inside this process.
#[derive(Debug, Parser)]
#[command(
    name = "loadgen",
    version,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  loadgen run                                 100,000 pods up, half down, all down
  loadgen run --pods 10k --scenario burst     a sudden +/- 500 on 10,000 pods
  loadgen run -f loadgen/examples/frontend.yaml   what becomes of a file's objects
  loadgen run --scenario stale-watch          pods created twice (kubernetes#129795)
  loadgen explain -f dump.json --replicaset shop/web --replicas 8   which pods go, and why
  loadgen sweep --pods 1k --vary burst-replicas=100,500 --vary kube-api-qps=20,50
  loadgen compare base.json new.json          what is better, what is worse
  loadgen scenarios                           what can be run
  loadgen bugs                                what upstream is known for, to be replayed"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run one scenario and report: live progress, then one screen, then --json
    Run(Box<flags::RunFlags>),
    /// Say which pods a scale-down deletes, and why; and what makes others go first
    Explain(Box<explain::ExplainFlags>),
    /// Run a scenario over a grid of settings: a table, CSV, and a page with heat maps
    Sweep(Box<sweep::SweepCommand>),
    /// Compare two results, or two sets of several seeds; exit code 1 on a regression
    Compare(Box<compare::CompareFlags>),
    /// List the built-in scenarios, each with the question it answers, or print one to edit
    Scenarios(scenarios::ScenariosFlags),
    /// Print the JSON Schema of a file format
    Schema(schema::SchemaFlags),
    /// List the figures of a result, which thresholds and comparisons go by
    Figures,
    /// Print completions for a shell
    Completions(shell::CompletionsFlags),
    /// Print the man page, or write one for every command
    Man(shell::ManFlags),
    /// Play many seeds of the fault simulator, and sum up what they show
    Fuzz(Box<fuzz::FuzzFlags>),
    /// Play one seed or schedule of the fault simulator, step by step
    Replay(replay::ReplayFlags),
    /// List the classes of faults
    Faults,
    /// List upstream's known bugs, or show what one does with either behaviour
    Bugs(bugs::BugsFlags),
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version go to standard output, mistakes to standard error; either may be
            // closed, and then nobody is waiting for the text.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { EXIT_USAGE } else { 0 });
        }
    };
    let code = match cli.command {
        Command::Run(flags) => run::run(&flags),
        Command::Explain(flags) => explain::run(&flags),
        Command::Sweep(command) => sweep::run(&command),
        Command::Compare(flags) => compare::run(&flags),
        Command::Scenarios(flags) => scenarios::run(&flags),
        Command::Schema(flags) => schema::run(&flags),
        Command::Figures => print(&figures::list()).map(|()| 0),
        Command::Completions(flags) => shell::completions(&flags),
        Command::Man(flags) => shell::man(&flags),
        Command::Fuzz(flags) => fuzz::run(&flags),
        Command::Replay(flags) => replay::run(&flags),
        Command::Faults => print(&faults()).map(|()| 0),
        Command::Bugs(flags) => bugs::run(&flags),
    };
    match code {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // The whole chain on one line: what was being done, then what went wrong.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::from(EXIT_USAGE)
        }
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

/// Writes to standard output; a closed pipe is as good as a reader.
fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(anyhow::Error::new(error).context("standard output can't be written"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
