//! `mutants`: plants every mutant of `tests/mutants` into a copy of the workspace, builds it once,
//! and hunts them one after the other. Writes `tests/mutants/RESULTS.md` when all were hunted.
//!
//! Exit status: 0 when every mutant was killed, 1 when one survived or the hunt failed, 2 for wrong
//! usage.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, ExitCode};

use podstorm_sim::clock::RealClock;
use podstorm_tests::mutants::hunt::{Ground, Outcome};
use podstorm_tests::mutants::{Kill, Mutant, load};

const USAGE: &str = "usage: mutants [--only ID,...] [--seeds N] [--trust]

  --only ID,...  hunt only these, and leave RESULTS.md as it is
  --seeds N      play at most N seeds for each, whatever it asks for
  --trust        don't show first that nothing is noticed without a mutant";

/// What the command was asked for.
#[derive(Default)]
struct Wish {
    only: Vec<String>,
    seeds: Option<u64>,
    trust: bool,
}

struct Row<'a> {
    mutant: &'a Mutant,
    outcome: Outcome,
    seconds: f64,
}

fn main() -> ExitCode {
    let Some(wish) = wish() else {
        say(USAGE);
        return ExitCode::from(2);
    };
    match hunt(&wish) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("mutants: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn wish() -> Option<Wish> {
    let mut wish = Wish::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match &*argument {
            "--only" => wish.only = arguments.next()?.split(',').map(str::to_owned).collect(),
            "--seeds" => wish.seeds = Some(arguments.next()?.parse().ok()?),
            "--trust" => wish.trust = true,
            _ => return None,
        }
    }
    Some(wish)
}

fn hunt(wish: &Wish) -> Result<bool, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let root = root.canonicalize().map_err(|error| error.to_string())?;
    let mut mutants = load(&root.join("tests/mutants"))?;
    if let Some(most) = wish.seeds {
        for mutant in &mut mutants {
            if let Kill::Fuzz { seeds, .. } = &mut mutant.kill {
                *seeds = most.min(*seeds);
            }
        }
    }
    let known = |id: &&String| !mutants.iter().any(|mutant| mutant.id == **id);
    if let Some(unknown) = wish.only.iter().find(known) {
        return Err(format!("there is no mutant {unknown}"));
    }
    let ground = Ground::prepare(&root, &mutants)?;
    let chosen = |mutant: &Mutant| wish.only.is_empty() || wish.only.contains(&mutant.id);
    let hunted: Vec<(usize, &Mutant)> = (1..).zip(&mutants).filter(|it| chosen(it.1)).collect();
    if !wish.trust {
        nothing_is_noticed(&ground, &hunted)?;
    }
    let mut rows = Vec::new();
    for (number, mutant) in hunted {
        let clock = RealClock::start();
        let outcome = ground
            .hunt(Some(number), &mutant.kill)
            .unwrap_or_else(|error| {
                say(&format!("{}: {error}", mutant.id));
                Outcome::Survived(None)
            });
        let row = Row {
            mutant,
            outcome,
            seconds: clock.seconds(),
        };
        say(&format!(
            "{:<34} {:<28} {:<44} {:.1} s",
            mutant.id,
            mutant.kill.to_string(),
            killed_by(&row.outcome),
            row.seconds
        ));
        rows.push(row);
    }
    let survived = |row: &&Row<'_>| matches!(row.outcome, Outcome::Survived(_));
    let survivors = rows.iter().filter(survived).count();
    say(&format!("{} hunted, {survivors} survived", rows.len()));
    if wish.only.is_empty() {
        let path = root.join("tests/mutants/RESULTS.md");
        std::fs::write(&path, results(&root, &rows)).map_err(|error| error.to_string())?;
    }
    Ok(survivors == 0)
}

/// Without a mutant everything must pass: else a kill would mean nothing.
fn nothing_is_noticed(ground: &Ground, hunted: &[(usize, &Mutant)]) -> Result<(), String> {
    let mut kills: Vec<Kill> = Vec::new();
    for (_, mutant) in hunted {
        let same = |known: &&mut Kill| match (&**known, &mutant.kill) {
            (
                Kill::Fuzz {
                    behaviour, faults, ..
                },
                Kill::Fuzz {
                    behaviour: other,
                    faults: others,
                    ..
                },
            ) => behaviour == other && faults == others,
            (known, other) => known == other,
        };
        match (kills.iter_mut().find(same), &mutant.kill) {
            (Some(Kill::Fuzz { seeds, .. }), Kill::Fuzz { seeds: more, .. }) => {
                *seeds = (*seeds).max(*more);
            }
            (Some(_), _) => {}
            (None, kill) => kills.push(kill.clone()),
        }
    }
    for kill in kills {
        if let Outcome::Killed { by, seeds } = ground.hunt(None, &kill)? {
            let seeds = seeds.map_or_else(String::new, |seeds| format!(", seed {seeds}"));
            return Err(format!("{kill} fails without any mutant: {by}{seeds}"));
        }
    }
    say("without a mutant nothing is noticed");
    Ok(())
}

fn killed_by(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Killed { by, seeds: None } => by.clone(),
        Outcome::Killed {
            by,
            seeds: Some(seeds),
        } => format!("{by} after {seeds} seeds"),
        Outcome::Survived(None) => "SURVIVED".to_owned(),
        Outcome::Survived(Some(seeds)) => format!("SURVIVED {seeds} seeds"),
    }
}

/// The table for people.
fn results(root: &Path, rows: &[Row<'_>]) -> String {
    let said = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .current_dir(root)
            .output();
        let output = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        output.unwrap_or_default().trim().to_owned()
    };
    let date = said("date", &["-u", "+%Y-%m-%d"]);
    let commit = said("git", &["log", "-1", "--format=%h"]);
    let of_list = |product: bool| {
        let rows = || {
            rows.iter()
                .filter(move |row| row.mutant.of_product == product)
        };
        let killed = |row: &&Row<'_>| matches!(row.outcome, Outcome::Killed { .. });
        (rows().filter(killed).count(), rows().count())
    };
    let ((product, products), (checker, checkers)) = (of_list(true), of_list(false));
    let mut text = format!(
        "# Mutants\n\nWritten by `cargo run -p podstorm-tests --bin mutants` on {date}, on top of commit \
         {commit}. Killed: {product} of {products} of the product, {checker} of {checkers} of the \
         checkers.\n\nSeeds are those of `loadgen fuzz` from 1 on, one behaviour, all classes of faults \
         unless some are named; \"after\" counts the one that failed. A mutant under which a run comes to \
         no end is killed by \"no progress\".\n"
    );
    for (title, product) in [("The product", true), ("The checkers", false)] {
        text += &format!(
            "\n## {title}\n\n| mutant | belongs to | what is wrong | hunted by | killed by | seconds |\n\
             |---|---|---|---|---|---|\n"
        );
        for row in rows.iter().filter(|row| row.mutant.of_product == product) {
            let mutant = row.mutant;
            writeln!(
                text,
                "| {} | {} | {} | {} | {} | {:.1} |",
                mutant.id,
                mutant.of.join(", "),
                mutant.what,
                mutant.kill,
                killed_by(&row.outcome),
                row.seconds
            )
            .expect("a text takes all");
        }
    }
    text
}

fn say(text: &str) {
    // Nothing is left to do when the stream is closed.
    let _ = writeln!(io::stdout(), "{text}");
}
