//! `loadgen replay`: plays one seed or schedule of the fault simulator step by step.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::Args;
use podstorm::policy::Behaviour;
use podstorm_faultsim::bug::Bug;
use podstorm_faultsim::campaign::behaviour_of;
use podstorm_faultsim::{AnySchedule, How, SubjectRow, Subjects, Verdict, rows};
use podstorm_sim::faults::FaultClass;

use super::bugs::{self, bug};
use super::fuzz::{Wish, behaviour, class, workload_help};
use super::print;
use crate::units::{counted, without_mark};

/// The maximum size of a schedule file, in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// Flags of `loadgen replay`.
#[derive(Args, Debug)]
pub(super) struct ReplayFlags {
    /// The seed
    #[arg(value_name = "SEED", value_parser = seed, required_unless_present_any = ["schedule", "bug"])]
    seed: Option<u64>,

    /// A schedule file instead of a seed; `-` is standard input; a folder plays every *.yaml with
    /// both behaviours and prints one line each
    #[arg(long, value_name = "FILE|FOLDER", conflicts_with = "seed")]
    schedule: Option<PathBuf>,

    /// A known bug of upstream instead of a seed: m01, stale-watch (see `loadgen bugs`)
    #[arg(long, value_name = "NAME", value_parser = bug, conflicts_with_all = ["seed", "schedule", "fault"])]
    bug: Option<&'static Bug>,

    /// upstream or hardened [default: the behaviour that `loadgen fuzz` uses for the seed; for a
    /// bug: upstream]
    #[arg(long, value_name = "NAME", value_parser = behaviour)]
    behaviour: Option<Wish>,

    #[arg(long, value_name = "NAME", help = workload_help("The controller that the seed is for"), value_parser = SubjectRow::by_name, default_value = Subjects::installed()[0].name,
          conflicts_with_all = ["schedule", "bug"])]
    workload: &'static SubjectRow,

    /// Only these fault classes, as given to `loadgen fuzz`
    #[arg(long, value_name = "NAME", value_parser = class, value_delimiter = ',')]
    fault: Vec<FaultClass>,

    /// Print the schedule of the seed and play nothing
    #[arg(long)]
    print_schedule: bool,
}

/// Parses a seed.
///
/// # Errors
/// The text isn't an unsigned 64-bit integer.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "a seed is a whole number from 0 to {}; for a schedule file use --schedule {text}",
            u64::MAX
        )
    })
}

/// Reads the text of a schedule file, at most [`MAX_BYTES`].
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let from: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path)?),
    };
    from.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other(
            "it is larger than 16 MiB, the largest size of a schedule",
        )),
        false => Ok(text),
    }
}

/// Plays one schedule, or all in a folder, and prints the events. Returns exit code 3 if an
/// invariant did not hold.
///
/// # Errors
/// The schedule can't be read or played, or standard output can't be written.
pub(super) fn run(flags: &ReplayFlags) -> Result<u8> {
    if let Some(folder) = flags.schedule.as_ref().filter(|path| path.is_dir()) {
        return run_folder(folder, flags);
    }
    let stored: Box<dyn AnySchedule> = match (&flags.schedule, flags.seed, flags.bug) {
        (_, _, Some(bug)) => rows::schedule_of(bug),
        (Some(path), ..) => read(path)?,
        (None, Some(seed), None) => (flags.workload.draw)(seed, &flags.fault),
        (None, None, None) => bail!("expected a seed, a schedule or a bug"),
    };
    if flags.print_schedule {
        print(&stored.to_yaml())?;
        return Ok(0);
    }
    let mut wanted: Option<Behaviour> = flags.behaviour.and_then(|wish| wish.0);
    if flags.bug.is_some() {
        wanted.get_or_insert(Behaviour::Upstream);
    }
    let how = How {
        behaviour: behaviour_of(stored.seed(), wanted),
        told: true,
    };
    let (verdict, told) = stored.play(how);
    let mut text = outcome(stored.seed(), how.behaviour, &verdict, &told);
    if let Some(bug) = flags.bug {
        text += &bugs::told(bug, how.behaviour, &verdict);
    }
    if let Some(violation) = &verdict.violation {
        text += &format!("VIOLATION {violation}\n");
    }
    print(&text)?;
    Ok(if verdict.is_good() { 0 } else { 3 })
}

/// Formats the events and the outcome of a schedule.
fn outcome(seed: u64, behaviour: Behaviour, verdict: &Verdict, told: &[String]) -> String {
    let mut text = told.join("\n");
    text.push('\n');
    let converged = verdict.converged_after_ns.map_or_else(
        || "did not converge".to_owned(),
        |ns| format!("converged {:.3} s after healing", ns as f64 / 1e9),
    );
    text += &format!(
        "\nseed {}, {} behaviour: {converged}; {} created by controllers, {} deleted, {} in \
         excess; trace {:032x}\n",
        seed,
        behaviour.as_str(),
        counted(verdict.creates, "pod"),
        verdict.deletes,
        verdict.excess_pods_created,
        verdict.trace
    );
    text
}

fn read(path: &Path) -> Result<Box<dyn AnySchedule>> {
    let text = text_of(path).with_context(|| format!("{} can't be read", path.display()))?;
    rows::read(without_mark(&text)).with_context(|| format!("{}", path.display()))
}

/// Plays every schedule in a folder. Returns exit code 3 if an invariant did not hold in any of
/// them.
fn run_folder(folder: &Path, flags: &ReplayFlags) -> Result<u8> {
    if flags.print_schedule {
        bail!("--print-schedule prints one schedule: use a file instead of a folder");
    }
    let cannot = || format!("{} can't be read", folder.display());
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            paths.push(path);
        }
    }
    paths.sort();
    if paths.is_empty() {
        bail!(
            "{}: the folder contains no schedule (*.yaml)",
            folder.display()
        );
    }
    // Read all schedules before playing any, so that an invalid one is reported first.
    let schedules: Vec<Box<dyn AnySchedule>> =
        paths.iter().map(|path| read(path)).collect::<Result<_>>()?;
    let mut is_good = true;
    for (path, schedule) in paths.iter().zip(&schedules) {
        let asked = flags.behaviour.and_then(|wish| wish.0);
        for behaviour in Behaviour::ALL {
            if asked.is_some_and(|asked| asked != behaviour) {
                continue;
            }
            let verdict = schedule.play_caught(behaviour);
            is_good &= verdict.is_good();
            let (word, what) = match &verdict.violation {
                None => ("ok", String::new()),
                Some(violation) => ("FAILED", format!(": {violation}")),
            };
            let (file, behaviour) = (path.display(), behaviour.as_str());
            print(&format!("{word:<6}  {file}, {behaviour}{what}\n"))?;
        }
    }
    Ok(if is_good { 0 } else { 3 })
}
