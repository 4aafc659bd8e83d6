//! How a bench was started: to measure, by `cargo bench`, or to show that it runs, by `cargo test` and by
//! `cargo bench -- --test`.

use std::env;
use std::process::{Command, exit};

/// What a bench that isn't criterion's is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Measure, and record what it measured.
    Measure,
    /// Show that it runs, by the smallest of what it does.
    Smoke,
    /// Nothing: other tests or benches are asked for, or a list of them.
    Nothing,
}

impl Task {
    /// That of the bench of this name.
    pub fn of(bench: &str) -> Task {
        let arguments: Vec<String> = env::args().skip(1).collect();
        task(&arguments, is_smoke_test(), bench)
    }
}

fn task(arguments: &[String], is_smoke_test: bool, bench: &str) -> Task {
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let mut filters = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'));
    if ["--list", "--ignored", "--profile-time"]
        .into_iter()
        .any(has)
    {
        Task::Nothing
    } else if !is_smoke_test {
        Task::Measure
    } else if filters.all(|filter| bench.contains(&**filter) || filter.starts_with(bench)) {
        Task::Smoke
    } else {
        Task::Nothing
    }
}

/// Whether this program was started as `cargo bench -- --test` starts benches, or is a bench that
/// `cargo test` started: without `--bench`. A program of its own (`cargo run`) never is.
pub fn is_smoke_test() -> bool {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let program = env::current_exe().unwrap_or_default();
    // Cargo puts benches and tests there, and programs one folder above.
    let is_bench = program
        .parent()
        .is_some_and(|folder| folder.ends_with("deps"));
    has("--test") || (is_bench && !has("--bench"))
}

/// What `cargo test -- …` may pass to every test program, and criterion refuses: flags, and those of them
/// that a value follows.
const OF_LIBTEST: [&str; 5] = [
    "--no-capture",
    "--report-time",
    "--ensure-time",
    "--shuffle",
    "--exclude-should-panic",
];
const OF_LIBTEST_WITH_VALUE: [&str; 5] = [
    "--test-threads",
    "--skip",
    "--logfile",
    "--shuffle-seed",
    "-Z",
];

/// Goes on without the flags of `cargo test` that criterion doesn't know, which would end the whole of it with
/// a complaint about usage: as a process of its own, because criterion reads the command line itself.
pub(crate) fn without_flags_of_libtest() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let known = known_to_criterion(&arguments);
    if !is_smoke_test() || known.len() == arguments.len() {
        return;
    }
    let program = env::current_exe().expect("the program that runs has a path");
    let status = Command::new(program).args(known).status();
    let status = status.expect("the program that runs can be started");
    exit(status.code().unwrap_or(1));
}

fn known_to_criterion(arguments: &[String]) -> Vec<&String> {
    let mut known = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let flag = argument
            .split_once('=')
            .map_or(&**argument, |(flag, _)| flag);
        if OF_LIBTEST_WITH_VALUE.contains(&flag) {
            if flag.len() == argument.len() {
                rest.next();
            }
        } else if !OF_LIBTEST.contains(&flag) {
            known.push(argument);
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_bench_does_what_is_asked_of_it_and_no_more() {
        for (arguments, expected) in [
            ("", Task::Smoke),
            ("--test", Task::Smoke),
            ("whole", Task::Smoke),
            ("whole_runs/churn", Task::Smoke),
            ("--nocapture", Task::Smoke),
            ("a_test_of_another_name", Task::Nothing),
            ("--list --format terse", Task::Nothing),
            ("--ignored", Task::Nothing),
        ] {
            assert_eq!(
                task(&words(arguments), true, "whole_runs"),
                expected,
                "{arguments}"
            );
        }
        for (arguments, expected) in [
            ("--bench", Task::Measure),
            ("--bench --quick cold-start", Task::Measure),
            ("--bench --list", Task::Nothing),
            ("--bench --profile-time 5", Task::Nothing),
        ] {
            assert_eq!(
                task(&words(arguments), false, "whole_runs"),
                expected,
                "{arguments}"
            );
        }
    }

    #[test]
    fn flags_of_libtest_do_not_reach_criterion() {
        for (passed, left) in [
            ("--test-threads 1 ranking", "ranking"),
            ("--test-threads=1 --nocapture", "--nocapture"),
            ("--skip a --skip=b --shuffle --exact c", "--exact c"),
            ("--test ranking", "--test ranking"),
        ] {
            assert_eq!(
                known_to_criterion(&words(passed)),
                words(left).iter().collect::<Vec<_>>()
            );
        }
    }
}
