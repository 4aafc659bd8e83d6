//! `loadgen fuzz`: many seeds of the fault simulator, and what they add up to.

use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use clap::Args;
use podstorm::policy::Behaviour;
use serde_json::{Value, json};

use super::print;
use crate::clock::RealClock;
use crate::faults::FaultClass;
use crate::simulator::campaign::{self, Campaign, Failure, Outcome, Sum};
use crate::simulator::coverage;
use crate::simulator::draw::{Wanted, draw};
use crate::simulator::minimise::minimise;
use crate::units::{parse_duration_ns, parse_size};

/// Of so many failing seeds the schedules are cut down.
const MINIMISED: usize = 3;

/// So many schedules are played for that at most.
const PLAYS_MAX: u32 = 1_000;

/// What `loadgen fuzz` is asked for.
#[derive(Args, Debug)]
pub(super) struct FuzzFlags {
    /// How many seeds [default: 1000; with --time: as many as it allows]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, allow_hyphen_values = true)]
    seeds: Option<u64>,

    /// The first seed
    #[arg(long, value_name = "NUMBER", default_value = "1")]
    first: u64,

    /// Stop after so much real time
    #[arg(long, value_name = "TIME", value_parser = parse_duration_ns, allow_hyphen_values = true)]
    time: Option<i64>,

    /// upstream, hardened, or both: even seeds are upstream's, odd ones hardened
    #[arg(long, value_name = "NAME", value_parser = behaviour, default_value = "both")]
    behaviour: Wish,

    /// Only these classes of faults, by name or number (see `loadgen faults`)
    #[arg(long, value_name = "NAME", value_parser = class, value_delimiter = ',')]
    fault: Vec<FaultClass>,

    /// Write the schedules of failing seeds to this folder, in full and cut down to what they need
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,

    /// Threads [default: all cores]
    #[arg(long, value_name = "NUMBER", value_parser = parse_size, allow_hyphen_values = true)]
    threads: Option<u64>,

    /// Stop after so many failing seeds
    #[arg(long, value_name = "NUMBER", default_value = "5")]
    failures: usize,

    /// Write what came of it as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// No progress and no summary; the exit code tells
    #[arg(short, long)]
    quiet: bool,
}

/// `--behaviour`: one, or both.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish(pub(super) Option<Behaviour>);

pub(super) fn behaviour(text: &str) -> Result<Wish, String> {
    match (text, Behaviour::from_name(text)) {
        ("both", _) => Ok(Wish(None)),
        (_, Some(known)) => Ok(Wish(Some(known))),
        _ => Err("no such behaviour; there are upstream, hardened and both".to_owned()),
    }
}

pub(super) fn class(text: &str) -> Result<FaultClass, String> {
    FaultClass::by_name(text).ok_or_else(|| {
        let known: Vec<&str> = FaultClass::ALL.iter().map(|class| class.name()).collect();
        format!("no such class of faults; there are {}", known.join(", "))
    })
}

/// Plays seeds, and gives the exit code: 3 when an invariant did not hold.
///
/// # Errors
/// When standard output or the file can't be written.
pub(super) fn run(flags: &FuzzFlags) -> Result<u8> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = flags.threads.map_or(cores, |threads| threads as usize);
    let seeds = match (flags.seeds, flags.time) {
        (None, None) => Some(1_000),
        (seeds, _) => seeds,
    };
    let campaign = Campaign {
        first: flags.first,
        seeds,
        behaviour: flags.behaviour.0,
        wanted: Wanted {
            classes: flags.fault.clone(),
        },
        threads,
        failures_max: flags.failures.max(1),
    };
    let stop = Arc::new(AtomicBool::new(false));
    super::interrupt::watch(&stop, Vec::new(), flags.quiet);
    let begun = RealClock::start();
    let limit = flags.time.map(|ns| ns.unsigned_abs() as f64 / 1e9);
    let shows = !flags.quiet && io::stderr().is_terminal();
    let progress = |done: u64, failed: usize| {
        if limit.is_some_and(|limit| begun.seconds() >= limit) {
            // Relaxed: a flag that orders nothing.
            stop.store(true, Ordering::Relaxed);
        }
        if shows && done.is_multiple_of(20) {
            let of = seeds.map_or_else(String::new, |seeds| format!(" of {seeds}"));
            // Nobody may be looking any more.
            let _ = write!(io::stderr(), "\r{done}{of} seeds, {failed} failed ");
        }
    };
    let outcome = campaign::run(&campaign, &stop, &progress);
    if shows {
        let _ = writeln!(io::stderr(), "\r\x1b[K");
    }
    if let Some(path) = &flags.json {
        let text = format!("{:#}\n", as_json(&outcome, begun.seconds()));
        fs::write(path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    // Nobody is there to read them.
    let minimised_max = match flags.quiet && flags.keep.is_none() {
        true => 0,
        false => MINIMISED,
    };
    let shown: Vec<String> = outcome
        .failures
        .iter()
        .take(minimised_max)
        .map(|failure| minimised(failure, &campaign.wanted, flags.keep.as_deref()))
        .collect::<Result<_>>()?;
    if !flags.quiet {
        print(&summary(&outcome, begun.seconds()))?;
        print(&shown.concat())?;
    }
    Ok(if outcome.failures.is_empty() { 0 } else { 3 })
}

/// What a program wants to know: how many seeds were played, and which failed and why.
fn as_json(outcome: &Outcome, took_seconds: f64) -> Value {
    let of_behaviour = |(behaviour, sum): (Behaviour, &Sum)| {
        json!({
            "behaviour": behaviour.as_str(),
            "seeds": sum.seeds,
            "seeds-with-crashes": sum.crashed,
            "syncs": sum.syncs,
            "pods-created": sum.creates,
            "pods-deleted": sum.deletes,
            "excess-pods-created": sum.excess,
            "ambiguous-writes": sum.ambiguous,
            "converged-p50-ns": sum.converged_quantile(0.5),
            "converged-p99.9-ns": sum.converged_quantile(0.999),
            "converged-max-ns": sum.converged_quantile(1.0),
        })
    };
    let failures = outcome.failures.iter().map(|failure| {
        json!({
            "seed": failure.seed,
            "behaviour": failure.behaviour.as_str(),
            "invariant": failure.violation.invariant,
            "text": failure.violation.text,
        })
    });
    json!({
        "seeds": outcome.sums.iter().map(|sum| sum.seeds).sum::<u64>(),
        "seconds": took_seconds,
        "behaviours": Behaviour::ALL
            .into_iter()
            .zip(&outcome.sums)
            .map(of_behaviour)
            .collect::<Vec<_>>(),
        "failures": failures.collect::<Vec<_>>(),
    })
}

/// The schedule of a failing seed, cut down to what it needs, for a person; both are written to the
/// folder, where there is one.
fn minimised(failure: &Failure, wanted: &Wanted, keep: Option<&Path>) -> Result<String> {
    let (seed, behaviour) = (failure.seed, failure.behaviour);
    let whole = draw(seed, wanted);
    let small = minimise(&whole, behaviour, failure.violation.invariant, PLAYS_MAX);
    if let Some(folder) = keep {
        fs::create_dir_all(folder)
            .with_context(|| format!("{} can't be made", folder.display()))?;
        for (name, schedule) in [("whole", &whole), ("small", &small.schedule)] {
            let path = folder.join(format!("seed-{seed}-{}-{name}.yaml", behaviour.as_str()));
            fs::write(&path, schedule.to_yaml())
                .with_context(|| format!("{} can't be written", path.display()))?;
        }
    }
    Ok(format!(
        "\nseed {seed} ({}) needs {} of its {} steps to break {} (loadgen replay --schedule):\n{}",
        behaviour.as_str(),
        small.schedule.steps.len(),
        small.steps_before,
        failure.violation.invariant,
        small.schedule.to_yaml()
    ))
}

fn summary(outcome: &Outcome, took_seconds: f64) -> String {
    let mut text = String::new();
    let seeds: u64 = outcome.sums.iter().map(|sum| sum.seeds).sum();
    let hours = outcome
        .sums
        .iter()
        .map(|sum| sum.simulated_ns)
        .sum::<u128>() as f64
        / 3.6e12;
    text += &format!(
        "{seeds} seeds, {hours:.0} simulated hours, {:.1} s\n",
        took_seconds
    );
    for (behaviour, sum) in Behaviour::ALL.into_iter().zip(&outcome.sums) {
        if sum.seeds > 0 {
            text += &behaviour_summary(behaviour, sum);
        }
    }
    let mut pairs = outcome.sums[0].pairs.clone();
    pairs.extend(&outcome.sums[1].pairs);
    let mut sometimes = outcome.sums[0].sometimes.clone();
    sometimes.extend(&outcome.sums[1].sometimes);
    let (reachable, missing) = coverage::missing(&pairs);
    text += &format!(
        "\nfaults x steps: {} of {reachable} pairs met; {} situations seen\n",
        reachable - missing.len(),
        sometimes.len()
    );
    if !missing.is_empty() && missing.len() <= 20 {
        text += &format!("  not met: {}\n", missing.join(", "));
    }
    for situation in sometimes {
        text += &format!("  {situation}\n");
    }
    text += "\nclass                   injected  while it mattered\n";
    for class in FaultClass::ALL {
        let sum = |pick: fn(&crate::simulator::verdict::Struck) -> u64| -> u64 {
            let struck = outcome.sums.iter().filter_map(|sum| sum.faults.get(&class));
            struck.map(pick).sum()
        };
        text += &format!(
            "F{:<3}{:<20}{:>8}  {:>8}\n",
            class.number(),
            class.name(),
            sum(|struck| struck.injected),
            sum(|struck| struck.mattered)
        );
    }
    for failure in &outcome.failures {
        text += &format!(
            "\nseed {} ({}): {}\n  replay it: loadgen replay {} --behaviour {}\n",
            failure.seed,
            failure.behaviour.as_str(),
            failure.violation,
            failure.seed,
            failure.behaviour.as_str()
        );
    }
    text
}

fn behaviour_summary(behaviour: Behaviour, sum: &Sum) -> String {
    let seconds = |quantile| {
        let ns = sum.converged_quantile(quantile);
        ns.map_or("-".to_owned(), |ns| format!("{:.1} s", ns as f64 / 1e9))
    };
    format!(
        "\n{}: {} seeds ({} with crashes), {} syncs, {} pods created, {} deleted\n  \
         pods in excess: {} in seeds of one controller that never died and whose watches kept their \
         promise ({} writes of unknown outcome), {} in the others ({})\n  \
         converged after healing: p50 {}, p99.9 {}, max {}\n",
        behaviour.as_str(),
        sum.seeds,
        sum.crashed,
        sum.syncs,
        sum.creates,
        sum.deletes,
        sum.excess[0],
        sum.ambiguous[0],
        sum.excess[1],
        sum.ambiguous[1],
        seconds(0.5),
        seconds(0.999),
        seconds(1.0),
    )
}
