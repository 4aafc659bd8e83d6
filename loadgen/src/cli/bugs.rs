//! `loadgen bugs`: known bugs of the upstream controllers, and how each behaviour handles them.

use anyhow::Result;
use clap::Args;
use podstorm::policy::Behaviour;
use podstorm_faultsim::bug::Bug;
use podstorm_faultsim::{How, Verdict, rows};

use super::print;
use crate::units::wrapped;

/// Flags of `loadgen bugs`.
#[derive(Args, Debug)]
#[command(after_help = "\
Each bug is a schedule of the fault simulator (loadgen/faultsim/bugs/). Examples:
  loadgen bugs                                  the list
  loadgen bugs m10                              play one bug with both behaviours
  loadgen replay --bug m10                      play it step by step
  loadgen replay --bug m10 --behaviour hardened
  loadgen replay --bug m10 --print-schedule     as a file to edit, for --schedule")]
pub(super) struct BugsFlags {
    /// A bug by its number (m01) or its name (stale-watch)
    #[arg(value_name = "NAME", value_parser = bug)]
    name: Option<&'static Bug>,
}

/// Returns the bug with this number or name.
pub(super) fn bug(text: &str) -> Result<&'static Bug, String> {
    rows::bug(text).ok_or_else(|| {
        let known: Vec<String> = rows::bugs().map(Bug::full_name).collect();
        format!("no such bug; known bugs are {}", known.join(", "))
    })
}

/// Lists the bugs, or plays one bug with both behaviours. Returns exit code 3 if an invariant did
/// not hold.
///
/// # Errors
/// Standard output can't be written.
pub(super) fn run(flags: &BugsFlags) -> Result<u8> {
    let Some(bug) = flags.name else {
        print(&list())?;
        return Ok(0);
    };
    let mut text = format!("{}: {}\n", bug.full_name(), bug.title);
    paragraph(&mut text, "thread", bug.thread);
    paragraph(&mut text, "done", bug.done);
    let mut good = true;
    for behaviour in Behaviour::ALL {
        let how = How {
            behaviour,
            told: false,
        };
        let (verdict, _) = rows::schedule_of(bug).play(how);
        good &= verdict.is_good();
        text.push('\n');
        text += &told(bug, behaviour, &verdict);
    }
    text += &format!("\nStep by step: loadgen replay --bug {}\n", bug.id);
    print(&text)?;
    Ok(if good { 0 } else { 3 })
}

fn list() -> String {
    let mut text = String::new();
    for bug in rows::bugs() {
        text += &format!("{:26} {}\n", bug.full_name(), bug.title);
        text += &format!("{:26} {}\n", "", bug.thread);
    }
    text += "\nPlay one with both behaviours: loadgen bugs NAME\n";
    text += "Step by step:                   loadgen replay --bug NAME [--behaviour hardened]\n";
    text
}

/// Describes the outcome of a bug under one behaviour: its documented effect and the measured
/// numbers.
pub(super) fn told(bug: &Bug, behaviour: Behaviour, verdict: &Verdict) -> String {
    let mut text = String::new();
    let words = match behaviour {
        Behaviour::Upstream => bug.upstream,
        Behaviour::Hardened => bug.hardened,
    };
    paragraph(&mut text, behaviour.as_str(), words);
    let of_workload = verdict.figures.iter();
    let of_workload: Vec<_> = of_workload
        .map(|(what, it)| (*what, it.to_string()))
        .collect();
    let figures = match of_workload.is_empty() {
        true => figures(verdict).to_vec(),
        false => of_workload,
    };
    for (what, figure) in figures {
        text += &format!("{:10} {figure:>10}  {what}\n", "");
    }
    if let Some(violation) = &verdict.violation {
        text += &format!("VIOLATION {violation}\n");
    }
    text
}

fn figures(verdict: &Verdict) -> [(&'static str, String); 6] {
    [
        (
            "pods created in excess (excess_pods_created)",
            verdict.excess_pods_created.to_string(),
        ),
        (
            "longest time that a ReplicaSet lacked pods and no controller acted",
            format!("{:.3} s", verdict.longest_idle_ns as f64 / 1e9),
        ),
        (
            "most pods created within a minute",
            verdict.most_creates_per_minute.to_string(),
        ),
        (
            "most pods at once, including failed ones",
            verdict.peak_pods.to_string(),
        ),
        (
            "deletes that hit a pod other than the chosen one",
            verdict.wrong_pods_deleted.to_string(),
        ),
        (
            "deletes that left too few pods",
            verdict.deletes_below_wanted.to_string(),
        ),
    ]
}

fn paragraph(text: &mut String, label: &str, words: &str) {
    for (number, line) in wrapped(words, 88).into_iter().enumerate() {
        let label = if number == 0 { label } else { "" };
        *text += &format!("{label:10} {line}\n");
    }
}
