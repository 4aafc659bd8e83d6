//! `loadgen replay`: one seed or schedule of the fault simulator, step by step.

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

/// Most bytes of a schedule.
const MAX_BYTES: u64 = 16 << 20;

/// What `loadgen replay` is asked for.
#[derive(Args, Debug)]
pub(super) struct ReplayFlags {
    /// The seed
    #[arg(value_name = "SEED", value_parser = seed, required_unless_present_any = ["schedule", "bug"])]
    seed: Option<u64>,

    /// A schedule from a file instead of a seed; `-` is standard input; of a folder, every *.yaml with
    /// both behaviours, a line each
    #[arg(long, value_name = "FILE|FOLDER", conflicts_with = "seed")]
    schedule: Option<PathBuf>,

    /// A known bug of upstream's instead of a seed: m01, stale-watch (see `loadgen bugs`)
    #[arg(long, value_name = "NAME", value_parser = bug, conflicts_with_all = ["seed", "schedule", "fault"])]
    bug: Option<&'static Bug>,

    /// upstream or hardened [default: as `loadgen fuzz` plays the seed; a bug: upstream]
    #[arg(long, value_name = "NAME", value_parser = behaviour)]
    behaviour: Option<Wish>,

    #[arg(long, value_name = "NAME", help = workload_help("Whose seed it is"), value_parser = SubjectRow::by_name, default_value = Subjects::installed()[0].name,
          conflicts_with_all = ["schedule", "bug"])]
    workload: &'static SubjectRow,

    /// Only these classes of faults, as they were given to `loadgen fuzz`
    #[arg(long, value_name = "NAME", value_parser = class, value_delimiter = ',')]
    fault: Vec<FaultClass>,

    /// Print the seed's schedule and play nothing
    #[arg(long)]
    print_schedule: bool,
}

/// A seed as it is written.
///
/// # Errors
/// It isn't a whole number of 64 bits.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!("a seed is a whole number from 0 to {}; a schedule's file is given as --schedule {text}", u64::MAX)
    })
}

/// The text of a schedule's file, which is no longer than one can be.
fn text_of(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let from: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path)?),
    };
    from.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("it is larger than 16 MiB: no schedule")),
        false => Ok(text),
    }
}

/// Plays one schedule and prints what happens; the exit code is 3 when an invariant did not hold.
///
/// # Errors
/// A schedule that can't be read or played; standard output that can't be written.
pub(super) fn run(flags: &ReplayFlags) -> Result<u8> {
    if let Some(folder) = flags.schedule.as_ref().filter(|path| path.is_dir()) {
        return run_folder(folder, flags);
    }
    let stored: Box<dyn AnySchedule> = match (&flags.schedule, flags.seed, flags.bug) {
        (_, _, Some(bug)) => rows::schedule_of(bug),
        (Some(path), ..) => read(path)?,
        (None, Some(seed), None) => (flags.workload.draw)(seed, &flags.fault),
        (None, None, None) => bail!("a seed, a schedule or a bug is needed"),
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

/// What happened and what came of it.
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

/// Plays every schedule of a folder; the exit code is 3 when an invariant did not hold in one.
fn run_folder(folder: &Path, flags: &ReplayFlags) -> Result<u8> {
    if flags.print_schedule {
        bail!("--print-schedule prints one schedule: name a file instead of a folder");
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
        bail!("{}: there is no schedule (*.yaml) in it", folder.display());
    }
    // All of them before any is played.
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
