//! `loadgen fuzz`: plays many seeds of the fault simulator and summarizes the results.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, bail};
use clap::Args;
use podstorm::policy::Behaviour;
use podstorm_faultsim::campaign::{self, Campaign, Failure, Outcome, Sum};
use podstorm_faultsim::coverage;
use podstorm_faultsim::verdict::Conditions;
use podstorm_faultsim::{AnySchedule, SubjectRow, Subjects};
use podstorm_sim::clock::RealClock;
use podstorm_sim::faults::{FaultClass, StreamKind};
use serde_json::{Value, json};

use super::interrupt::EXIT_INTERRUPTED;
use super::outputs::Outputs;
use super::print_beside;
use super::progress::Teller;
use crate::report::output::Inputs;
use crate::units::{count_for_people as count, counted, parse_duration_ns, parse_size, shell_path};

/// The maximum number of failing seeds whose schedules are minimised.
const MINIMISED: usize = 3;

/// The maximum number of schedules to play while minimising one.
const PLAYS_MAX: u32 = 1_000;

/// The maximum real time spent minimising one schedule, in seconds.
const MINIMISE_SECONDS: f64 = 15.0;

/// The maximum number of pairs of fault and step to list as the rarest.
const LEAST_MET: usize = 8;

/// The maximum number of threads.
const THREADS_MAX: u64 = 4_096;

/// The real time between two progress lines if standard error is not a terminal, in seconds.
const SECONDS_PER_LINE: f64 = 10.0;

/// Flags of `loadgen fuzz`.
#[derive(Args, Debug)]
pub(super) struct FuzzFlags {
    /// Number of seeds [default: 1000; with --time: as many as fit]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    seeds: Option<u64>,

    /// First seed
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    first: u64,

    /// Stop after this much real time; minimising failing seeds comes after that, up to 15 s each
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, allow_hyphen_values = true)]
    time: Option<i64>,

    /// upstream, hardened or both: even seeds play upstream, odd seeds hardened
    #[arg(long, value_name = "NAME", value_parser = behaviour, default_value = "both")]
    behaviour: Wish,

    #[arg(long, value_name = "NAME", help = workload_help("The controller under test; each has its own seeds"),
          value_parser = SubjectRow::by_name, default_value = Subjects::installed()[0].name)]
    workload: &'static SubjectRow,

    /// Only these fault classes, by name or number (see `loadgen faults`)
    #[arg(long, value_name = "NAME", value_parser = class, value_delimiter = ',')]
    fault: Vec<FaultClass>,

    /// Write the schedules of failing seeds to this folder, in full and minimised
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,

    /// Number of threads [default: all cores]
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, allow_hyphen_values = true)]
    threads: Option<u64>,

    /// Stop after this many failing seeds
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, default_value = "5",
          allow_hyphen_values = true)]
    failures: u64,

    /// Write the results as JSON to this file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Print no progress and no summary; only set the exit code
    #[arg(short, long)]
    quiet: bool,
}

/// Values of `--behaviour`: one behaviour, or both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish(pub(super) Option<Behaviour>);

pub(super) fn behaviour(text: &str) -> Result<Wish, String> {
    match (text, Behaviour::from_name(text)) {
        ("both", _) => Ok(Wish(None)),
        (_, Some(known)) => Ok(Wish(Some(known))),
        _ => Err("no such behaviour; expected upstream, hardened or both".to_owned()),
    }
}

pub(super) fn class(text: &str) -> Result<FaultClass, String> {
    FaultClass::by_name(text).ok_or_else(|| {
        let known: Vec<&str> = FaultClass::ALL.iter().map(|class| class.name()).collect();
        format!("no such class of faults; there are {}", known.join(", "))
    })
}

/// Plays seeds and returns the exit code: 3 if an invariant did not hold, 130 if the command was
/// interrupted before it found a failure.
///
/// # Errors
/// Standard output or the output file can't be written.
pub(super) fn run(flags: &FuzzFlags) -> Result<u8> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match flags.threads {
        Some(threads) if threads > THREADS_MAX => {
            bail!("--threads {threads} is too many: at most {THREADS_MAX}")
        }
        Some(threads) => threads as usize,
        None => cores,
    };
    if flags.time == Some(0) {
        bail!("--time 0s leaves no time to play a seed");
    }
    let seeds = match (flags.seeds, flags.time) {
        (None, None) => Some(1_000),
        (seeds, _) => seeds,
    };
    if let Some(count) = seeds
        && flags.first.checked_add(count - 1).is_none()
    {
        bail!("--first {} leaves no room for --seeds {count}", flags.first);
    }
    if let Some(folder) = &flags.keep {
        check_folder(folder)?;
    }
    let mut outputs = Outputs::default();
    outputs.open("--json", flags.json.as_ref(), &Inputs::default())?;
    let uses_stdout = outputs.use_stdout();
    let print = |text: &str| print_beside(uses_stdout, text);
    let campaign = Campaign {
        first: flags.first,
        seeds,
        behaviour: flags.behaviour.0,
        workload: flags.workload,
        classes: flags.fault.clone(),
        threads,
        failures_max: usize::try_from(flags.failures).unwrap_or(usize::MAX),
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    super::interrupt::watch(&interrupted, outputs.temporary(), flags.quiet).begin();
    // Relaxed, here and below: no other data depends on these flags.
    let is_interrupted = || interrupted.load(Ordering::Relaxed);
    let stop = AtomicBool::new(false);
    let begun = RealClock::start();
    let limit = flags.time.map(|ns| ns.unsigned_abs() as f64 / 1e9);
    let shown = seeds.map_or("seeds".to_owned(), |seeds| counted(seeds, "seed"));
    let first = format!("playing {shown} on {}", counted(threads as u64, "thread"));
    let teller = Teller::new(flags.quiet, "{msg}", seeds, &first, SECONDS_PER_LINE);
    let played = |done: u64| match seeds {
        Some(seeds) => format!("{} of {}", count(done), counted(seeds, "seed")),
        None => counted(done, "seed"),
    };
    let progress = |done: u64, failed: usize| {
        if limit.is_some_and(|limit| begun.seconds() >= limit) || is_interrupted() {
            stop.store(true, Ordering::Relaxed);
        }
        teller.tell(done, format!("{}, {failed} failed", played(done)));
    };
    let outcome = campaign::run(&campaign, &stop, &progress);
    let took_seconds = begun.seconds();
    teller.finish();
    let text = || format!("{:#}\n", as_json(&outcome, took_seconds, is_interrupted()));
    let (_, problem) = outputs.write(&[("--json", &|out| out.write_all(text().as_bytes()))]);
    problem?;
    if !flags.quiet {
        print(&summary(&outcome, &campaign, took_seconds))?;
    }
    // With --quiet and without --keep, the minimised schedule would not be shown anywhere.
    if !flags.quiet || flags.keep.is_some() {
        for failure in outcome.failures.iter().take(MINIMISED) {
            let seed = failure.seed;
            teller.say(&format!(
                "minimising seed {seed} (up to {MINIMISE_SECONDS} s) "
            ));
            let schedule = (campaign.workload.draw)(seed, &campaign.classes);
            let text = minimised(&*schedule, failure, flags.keep.as_deref(), &is_interrupted)?;
            teller.say("");
            if !flags.quiet {
                print(&text)?;
            }
        }
    }
    Ok(match (outcome.failures.is_empty(), is_interrupted()) {
        (false, _) => 3,
        (true, true) => EXIT_INTERRUPTED,
        (true, false) => 0,
    })
}

/// Returns the results as JSON: how many seeds were played, which of them failed, and why.
fn as_json(outcome: &Outcome, took_seconds: f64, interrupted: bool) -> Value {
    let of_behaviour = |(behaviour, sum): (Behaviour, &Sum)| {
        let mut members = json!({
            "behaviour": behaviour.as_str(),
            "seeds": sum.seeds,
            "seeds-with-crashes": sum.crashed,
            "syncs": sum.syncs,
            "pods-created": sum.creates,
            "pods-deleted": sum.deletes,
            "excess-pods-created": by_conditions(sum.excess),
            "ambiguous-writes": by_conditions(sum.ambiguous),
            "converged-p50-ns": sum.converged_quantile(0.5),
            "converged-p99.9-ns": sum.converged_quantile(0.999),
            "converged-max-ns": sum.converged_quantile(1.0),
        });
        for (kind, seeds) in &sum.kinds {
            members[format!("seeds-with-{}", StreamKind::from_kind(*kind))] = json!(seeds);
        }
        members
    };
    let seeds = outcome.seeds();
    let faults = FaultClass::ALL.into_iter().map(|class| {
        let struck = outcome.struck(class);
        json!({
            "class": class.name(),
            "injected": struck.injected,
            "noticed": struck.noticed,
            "struck": struck.struck,
            "struck-while-busy": struck.mattered,
        })
    });
    let pairs = coverage::pairs(&outcome.pairs(), seeds);
    let pairs = pairs.iter().map(|pair| {
        json!({
            "class": pair.class.name(),
            "step": pair.step,
            "seeds": pair.seeds,
            "per-million-seeds": pair.per_million,
        })
    });
    let failures = outcome.failures.iter().map(|failure| {
        json!({
            "seed": failure.seed,
            "behaviour": failure.behaviour.as_str(),
            "invariant": failure.violation.invariant,
            "text": failure.violation.text,
        })
    });
    json!({
        "seeds": seeds,
        "seconds": took_seconds,
        "interrupted": interrupted,
        "behaviours": Behaviour::ALL
            .into_iter()
            .zip(&outcome.sums)
            .map(of_behaviour)
            .collect::<Vec<_>>(),
        "faults": faults.collect::<Vec<_>>(),
        "pairs": pairs.collect::<Vec<_>>(),
        "situations": outcome.sometimes(),
        "failures": failures.collect::<Vec<_>>(),
    })
}

/// Formats the number of seeds for each of the [`Conditions`].
fn by_conditions([kept, crashed, broken]: [u64; 3]) -> Value {
    json!({"kept": kept, "crashed": crashed, "broken": broken})
}

/// Minimises the schedule of a failing seed and formats it. If `keep` is a folder, writes both the
/// full and the minimised schedule to it.
fn minimised(
    whole: &dyn AnySchedule,
    failure: &Failure,
    keep: Option<&Path>,
    is_interrupted: &dyn Fn() -> bool,
) -> Result<String> {
    let (seed, behaviour) = (failure.seed, failure.behaviour);
    let begun = RealClock::start();
    let enough =
        |plays| plays >= PLAYS_MAX || begun.seconds() >= MINIMISE_SECONDS || is_interrupted();
    let small = whole.minimise(behaviour, failure.violation.invariant, &enough);
    let mut stored = String::new();
    if let Some(folder) = keep {
        fs::create_dir_all(folder)
            .with_context(|| format!("{} can't be created", folder.display()))?;
        for (name, schedule) in [("whole", whole), ("small", &*small.schedule)] {
            let path = folder.join(format!("seed-{seed}-{}-{name}.yaml", behaviour.as_str()));
            fs::write(&path, schedule.to_yaml())
                .with_context(|| format!("{} can't be written", path.display()))?;
            stored = format!(
                "\nreplay it: loadgen replay --schedule {} --behaviour {}",
                shell_path(&path),
                behaviour.as_str()
            );
        }
    }
    Ok(format!(
        "\nseed {seed} ({}) needs {}{} of its {} to break {} (loadgen replay --schedule){}:{stored}\n{}",
        behaviour.as_str(),
        if small.cut_short { "at most " } else { "" },
        small.schedule.steps(),
        counted(small.steps_before as u64, "step"),
        failure.violation.invariant,
        match small.cut_short {
            true => format!(
                "; the search was stopped after {}",
                counted(small.plays.into(), "play")
            ),
            false => String::new(),
        },
        small.schedule.to_yaml()
    ))
}

fn summary(outcome: &Outcome, campaign: &Campaign, took_seconds: f64) -> String {
    let mut text = String::new();
    let seeds = outcome.seeds();
    let hours = outcome
        .sums
        .iter()
        .map(|sum| sum.simulated_ns)
        .sum::<u128>() as f64
        / 3.6e12;
    text += &format!(
        "{}, {hours:.0} h simulated, {took_seconds:.1} s\n",
        counted(seeds, "seed"),
    );
    for (behaviour, sum) in Behaviour::ALL.into_iter().zip(&outcome.sums) {
        if sum.seeds > 0 {
            text += &behaviour_summary(behaviour, sum);
        }
    }
    let sometimes = outcome.sometimes();
    text += "\n";
    text += &pairs_summary(outcome);
    text += "\n";
    text += &format!(
        "{} seen, in seeds\n",
        counted(sometimes.len() as u64, "situation")
    );
    for (situation, seeds) in sometimes {
        text += &format!("  {seeds:>8}  {situation}\n");
    }
    text += "\nclass                   injected   noticed    struck  while there was work\n";
    for class in FaultClass::ALL {
        let struck = outcome.struck(class);
        text += &format!(
            "F{:<3}{:<20}{:>8}  {:>8}  {:>8}  {:>8}{}\n",
            class.number(),
            class.name(),
            struck.injected,
            struck.noticed,
            struck.struck,
            struck.mattered,
            match struck.injected > 0 && struck.noticed == 0 {
                true => "  never noticed",
                false => "",
            }
        );
    }
    for failure in &outcome.failures {
        text += &format!(
            "\nseed {} ({}): {}\n  replay it: {}\n",
            failure.seed,
            failure.behaviour.as_str(),
            failure.violation,
            replaying(failure, campaign.workload, &campaign.classes)
        );
    }
    text
}

/// Formats the number of pairs of fault and step that occurred, and the rarest pairs.
fn pairs_summary(outcome: &Outcome) -> String {
    let pairs = coverage::pairs(&outcome.pairs(), outcome.seeds());
    let missing = pairs.iter().take_while(|pair| pair.seeds == 0).count();
    let mut text = format!(
        "faults x steps: {} of {} met\n",
        pairs.len() - missing,
        counted(pairs.len() as u64, "pair")
    );
    if missing > LEAST_MET {
        return text;
    }
    text += "  least met, per million seeds:\n";
    for pair in pairs.iter().take(LEAST_MET) {
        text += &format!(
            "  {:>8.0}  {} x {}\n",
            pair.per_million, pair.class, pair.step
        );
    }
    text
}

/// Returns the help text of a flag whose value is the name of a workload.
pub(super) fn workload_help(what: &str) -> String {
    let names = Subjects::installed().iter().map(|row| row.name);
    format!("{what}: {}", names.collect::<Vec<_>>().join(", "))
}

/// Returns the command that replays a failing seed. It includes the fault classes, because the
/// schedule depends on them.
fn replaying(failure: &Failure, workload: &SubjectRow, classes: &[FaultClass]) -> String {
    let (seed, behaviour) = (failure.seed, failure.behaviour.as_str());
    let mut command = format!("loadgen replay {seed} --behaviour {behaviour}");
    if workload.name != Subjects::installed()[0].name {
        command.push_str(&format!(" --workload {}", workload.name));
    }
    if !classes.is_empty() {
        let classes: Vec<&str> = classes.iter().map(|class| class.name()).collect();
        command.push_str(&format!(" --fault {}", classes.join(",")));
    }
    command
}

/// Creates a folder if needed, and checks that files can be written to it.
fn check_folder(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)
        .with_context(|| format!("--keep {}: the folder can't be created", folder.display()))?;
    let trial = folder.join(format!(".loadgen.{}.tmp", std::process::id()));
    fs::write(&trial, "")
        .and_then(|()| fs::remove_file(&trial))
        .with_context(|| format!("--keep {}: nothing can be written there", folder.display()))
}

fn behaviour_summary(behaviour: Behaviour, sum: &Sum) -> String {
    let seconds = |quantile| {
        let ns = sum.converged_quantile(quantile);
        ns.map_or("-".to_owned(), |ns| format!("{:.1} s", ns as f64 / 1e9))
    };
    // Omit kinds that occurred with every seed.
    let some = sum.kinds.iter().filter(|(_, seeds)| **seeds < sum.seeds);
    let kinds = some.map(|(kind, seeds)| format!(", {seeds} with {}s", kind.name()));
    let kinds: Vec<String> = kinds.collect();
    let mut text = format!(
        "\n{}: {} ({} with crashes{}), {}, {} created, {} deleted\n",
        behaviour.as_str(),
        counted(sum.seeds, "seed"),
        sum.crashed,
        kinds.concat(),
        counted(sum.syncs, "sync"),
        counted(sum.creates, "pod"),
        count(sum.deletes),
    );
    for conditions in Conditions::ALL {
        text += &format!(
            "  {} in excess, of {} of unknown outcome, in seeds {}\n",
            counted(sum.excess[conditions as usize], "pod"),
            counted(sum.ambiguous[conditions as usize], "write"),
            conditions.description()
        );
    }
    text + &format!(
        "  converged after healing: p50 {}, p99.9 {}, max {}\n",
        seconds(0.5),
        seconds(0.999),
        seconds(1.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use podstorm_faultsim::verdict::Violation;

    #[test]
    fn a_failing_seed_is_replayed_with_its_fault_classes() {
        let failure = Failure {
            seed: 7,
            behaviour: Behaviour::Hardened,
            violation: Violation {
                invariant: "S1",
                text: String::new(),
                at_ns: 0,
                version: 0,
            },
        };
        let command = "loadgen replay 7 --behaviour hardened";
        assert_eq!(replaying(&failure, &Subjects::installed()[0], &[]), command);
        let classes = &FaultClass::ALL[..2];
        let names = format!(
            "{},{}",
            FaultClass::ALL[0].name(),
            FaultClass::ALL[1].name()
        );
        assert_eq!(
            replaying(&failure, &Subjects::installed()[0], classes),
            format!("{command} --fault {names}")
        );
    }
}
