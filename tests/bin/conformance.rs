//! `conformance DIR`: runs every recorded case in a folder and prints `passed/total` per file.
//!
//! Exit status: 0 when every case agrees or is a known deviation, 1 when one does not or something can't be read, 2 for
//! wrong usage.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use podstorm_tests::conformance::runner::{FileReport, run_folder};

/// How many differing cases are named for each file.
const NAMED: usize = 5;

/// Longest difference printed, in characters; whole pods would fill the screen.
const DIFFERENCE_MAX: usize = 600;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let (Some(folder), None) = (args.next().map(PathBuf::from), args.next()) else {
        complain("usage: conformance DIR\n\nRuns every *.jsonl and *.jsonl.gz in DIR.");
        return ExitCode::from(2);
    };
    match run(&folder) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("conformance: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Whether every case agrees with its record.
fn run(folder: &Path) -> Result<bool, Box<dyn std::error::Error>> {
    let reports = run_folder(folder)?;
    let mut out = io::stdout().lock();
    for report in &reports {
        print(&mut out, report)?;
    }
    let passed: usize = reports.iter().map(FileReport::passed).sum();
    let total: usize = reports.iter().map(|report| report.total).sum();
    let deviations: usize = reports.iter().map(|report| report.deviations).sum();
    let known = known(deviations);
    writeln!(out, "{:24} {passed}/{total}{known}", "all")?;
    Ok(passed + deviations == total)
}

fn print(out: &mut impl Write, report: &FileReport) -> io::Result<()> {
    writeln!(
        out,
        "{:24} {}/{}{}",
        report.name,
        report.passed(),
        report.total,
        known(report.deviations)
    )?;
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
