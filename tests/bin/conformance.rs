//! `conformance DIR [--only SUBJECT/ID]`: runs every recorded case in a folder, or those whose ids begin so, and
//! prints `passed/total` per file.
//!
//! Exit status: 0 when every case agrees or is a known deviation, 1 when one does not or something can't be read, 2 for
//! wrong usage.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use podstorm_tests::conformance::deviations::reason;
use podstorm_tests::conformance::runner::{Failure, FileReport, Only, run_folder};

/// How many differing cases are named for each file.
const NAMED: usize = 5;

/// Longest difference printed, in characters; whole pods would fill the screen.
const DIFFERENCE_MAX: usize = 600;

const USAGE: &str = "usage: conformance DIR [--only SUBJECT/ID]

Runs every *.jsonl and *.jsonl.gz in DIR.
--only runs the cases of SUBJECT whose ids begin with ID, and prints all that differs.";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (folder, only) = match args[..] {
        [folder] => (folder, None),
        [folder, "--only", only] | ["--only", only, folder] => (folder, Some(only)),
        _ => {
            complain(USAGE);
            return ExitCode::from(2);
        }
    };
    let only = only.map(|only| {
        let (subject, id) = only.split_once('/').unwrap_or((only, ""));
        Only {
            subject: subject.to_owned(),
            id: id.to_owned(),
        }
    });
    match run(Path::new(folder), only.as_ref()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("conformance: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether every case agrees with its record, and there is one.
fn run(folder: &Path, only: Option<&Only>) -> Result<bool, Box<dyn std::error::Error>> {
    let reports = run_folder(folder, only)?;
    let mut out = io::stdout().lock();
    for report in &reports {
        print(&mut out, report)?;
        match only {
            Some(only) => print_all(&mut out, &only.subject, report)?,
            None => print_some(&mut out, report)?,
        }
    }
    let passed: usize = reports.iter().map(FileReport::passed).sum();
    let total: usize = reports.iter().map(|report| report.total).sum();
    let deviations: usize = reports.iter().map(|report| report.deviations.len()).sum();
    let known = known(deviations);
    writeln!(out, "{:24} {passed}/{total}{known}", "all")?;
    Ok(passed + deviations == total && total > 0)
}

fn print(out: &mut impl Write, report: &FileReport) -> io::Result<()> {
    if let Some(elsewhere) = report.elsewhere {
        return writeln!(out, "{:24} run by {elsewhere} alone", report.name);
    }
    let known = known(report.deviations.len());
    let (passed, total) = (report.passed(), report.total);
    writeln!(out, "{:24} {passed}/{total}{known}", report.name)?;
    for (way, passed) in &report.ways {
        writeln!(out, "    {way:20} {passed}/{total}")?;
    }
    for (category, counts) in &report.categories {
        writeln!(out, "    {category:20} {}/{}", counts.passed, counts.total)?;
    }
    Ok(())
}

fn print_some(out: &mut impl Write, report: &FileReport) -> io::Result<()> {
    for failure in report.failures.iter().take(NAMED) {
        let text: String = failure.difference.chars().take(DIFFERENCE_MAX).collect();
        let cut = if text.len() < failure.difference.len() {
            " ..."
        } else {
            ""
        };
        writeln!(out, "    {}: {text}{cut}", failure.id)?;
    }
    if report.failures.len() > NAMED {
        writeln!(out, "    and {} more", report.failures.len() - NAMED)?;
    }
    Ok(())
}

fn print_all(out: &mut impl Write, subject: &str, report: &FileReport) -> io::Result<()> {
    for Failure { id, difference } in &report.failures {
        writeln!(out, "    {id}: {difference}")?;
    }
    for Failure { id, difference } in &report.deviations {
        let reason = reason(subject, id).unwrap_or_default();
        writeln!(out, "    {id}: known ({reason}): {difference}")?;
    }
    Ok(())
}

/// How many cases differ as `vectors/deviations.json` says, with its reasons.
fn known(deviations: usize) -> String {
    match deviations {
        0 => String::new(),
        number => format!(", known deviations: {number}"),
    }
}

fn complain(text: &str) {
    // Nothing is left to do when the error stream is closed.
    let _ = writeln!(io::stderr(), "{text}");
}
