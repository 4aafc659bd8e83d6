//! `conformance DIR`: runs the recorded cases in a folder and its subfolders, or a selection of
//! them, and prints `passed/total` for each file.
//!
//! Exit status: 0 if every case agrees with its recording, except known deviations, which must
//! differ; 1 otherwise, including if there are no cases or a file can't be read; 2 for wrong usage.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use podstorm_tests::conformance::deviations::reason;
use podstorm_tests::conformance::runner::{
    Failure, FileReport, LIMIT, LeftOut, Only, Options, run_folder,
};

/// The maximum number of failures printed for each file without `--all`.
const NAMED: usize = 5;

/// The maximum length of a printed difference without `--whole`, in characters. A whole pod would
/// fill the screen.
const DIFFERENCE_MAX: usize = 600;

const USAGE: &str =
    "usage: conformance DIR [--only SUBJECT[/ID]] [--all] [--whole] [--limit SECONDS]

Runs the recorded cases of every *.jsonl and *.jsonl.gz in DIR and in the folders below.
A file's name up to the first dot, without trailing digits, is the subject. In a folder named
after a subject, such as deployment/, the folder's name comes first. Files of unknown subjects
are listed but not run.

  --only SUBJECT[/ID]  run only the cases of SUBJECT, or those whose ids begin with ID; implies
                       --all and --whole
  --all                print every case that differs instead of 5 per file, and all its
                       differences instead of the first; known deviations too
  --whole              print whole differences instead of their first 600 characters
  --limit SECONDS      the time limit of a case on each transport (default 60); a case that
                       exceeds it counts as different, and the others continue
  -h, --help           print this";

/// The command-line arguments.
#[derive(Default)]
struct Args {
    folder: Option<String>,
    options: Options,
    all: bool,
    whole: bool,
    help: bool,
}

fn main() -> ExitCode {
    let args = match read_args(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(problem) => {
            complain(&format!("conformance: {problem}\n\n{USAGE}"));
            return ExitCode::from(2);
        }
    };
    let ended = match &args.folder {
        Some(folder) if !args.help => run(Path::new(folder), &args),
        _ => writeln!(io::stdout(), "{USAGE}")
            .map(|()| true)
            .map_err(Into::into),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("conformance: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line.
///
/// # Errors
/// Describes the first invalid argument.
fn read_args(words: impl Iterator<Item = String>) -> Result<Args, String> {
    let (mut args, mut words) = (Args::default(), words);
    while let Some(word) = words.next() {
        let (name, mut value) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (&*word, None),
        };
        match name {
            "--only" | "--limit" => {
                let value = value.take().or_else(|| words.next());
                let value = value.ok_or_else(|| format!("{name} needs a value"))?;
                match name {
                    "--only" => args.options.only = Some(only(&value)?),
                    _ => args.options.limit = limit(&value)?,
                }
            }
            "--all" => args.all = true,
            "--whole" => args.whole = true,
            "-h" | "--help" => args.help = true,
            name if name.starts_with('-') => return Err(format!("unknown option {name}")),
            folder => match args.folder.replace(folder.to_owned()) {
                Some(first) => return Err(format!("two folders: {first} and {folder}")),
                None => continue,
            },
        }
        if value.is_some() {
            return Err(format!("{name} takes no value"));
        }
    }
    if args.folder.is_none() && !args.help {
        return Err("no folder".to_owned());
    }
    args.all |= args.options.only.is_some();
    args.whole |= args.options.only.is_some();
    Ok(args)
}

fn only(value: &str) -> Result<Only, String> {
    let (subject, id) = value.split_once('/').unwrap_or((value, ""));
    match subject {
        "" => Err(format!("--only {value:?} names no subject")),
        _ => Ok(Only {
            subject: subject.to_owned(),
            id: id.to_owned(),
        }),
    }
}

fn limit(value: &str) -> Result<Duration, String> {
    let seconds = value.parse().ok().filter(|seconds| *seconds > 0.0);
    let limit = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let wrong = || {
        format!(
            "--limit {value:?} is not a number of seconds above 0, like {}",
            LIMIT.as_secs()
        )
    };
    limit.filter(|limit| !limit.is_zero()).ok_or_else(wrong)
}

/// Runs the cases and prints the reports. Returns whether there are any cases and all of them have
/// the expected outcome.
fn run(folder: &Path, args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    let reports = run_folder(folder, &args.options)?;
    let mut out = io::stdout().lock();
    for report in &reports {
        print(&mut out, report)?;
        print_failures(&mut out, report, args)?;
    }
    let passed: usize = reports.iter().map(FileReport::passed).sum();
    let total: usize = reports.iter().map(|report| report.total).sum();
    let deviations: usize = reports.iter().map(|report| report.deviations.len()).sum();
    let is_unknown = |report: &&FileReport| report.left_out == Some(LeftOut::Unknown);
    let unknown = match reports.iter().filter(is_unknown).count() {
        0 => String::new(),
        files => format!(", files of unknown subjects: {files}"),
    };
    let known = known(deviations);
    writeln!(out, "{:36} {passed}/{total}{known}{unknown}", "all")?;
    Ok(passed + deviations == total && total > 0)
}

fn print(out: &mut impl Write, report: &FileReport) -> io::Result<()> {
    match report.left_out {
        Some(LeftOut::RunBy(program)) => {
            return writeln!(out, "{:36} run only by {program}", report.name);
        }
        Some(LeftOut::Unknown) => {
            let (name, subject) = (&report.name, &report.subject);
            return writeln!(out, "{name:36} not run: the subject {subject} is not known");
        }
        None => {}
    }
    let known = known(report.deviations.len());
    let (passed, total) = (report.passed(), report.total);
    writeln!(out, "{:36} {passed}/{total}{known}", report.name)?;
    for (way, passed) in &report.ways {
        writeln!(out, "    {way:32} {passed}/{total}")?;
    }
    for (category, counts) in &report.categories {
        writeln!(out, "    {category:32} {}/{}", counts.passed, counts.total)?;
    }
    Ok(())
}

fn print_failures(out: &mut impl Write, report: &FileReport, args: &Args) -> io::Result<()> {
    let most = if args.all { usize::MAX } else { NAMED };
    for failure in report.failures.iter().take(most) {
        print_case(out, failure, "", args)?;
    }
    if report.failures.len() > most {
        writeln!(out, "    and {} more", report.failures.len() - most)?;
    }
    for failure in report.deviations.iter().filter(|_| args.all) {
        let reason = reason(&report.subject, &failure.id).unwrap_or_default();
        print_case(out, failure, &format!("known ({reason}): "), args)?;
    }
    Ok(())
}

fn print_case(out: &mut impl Write, failure: &Failure, note: &str, args: &Args) -> io::Result<()> {
    let mut before = format!("    {}: {note}", failure.id);
    for difference in failure.differences.all() {
        let end = difference.char_indices().nth(DIFFERENCE_MAX);
        match end.filter(|_| !args.whole) {
            Some((end, _)) => writeln!(out, "{before}{} ...", &difference[..end])?,
            None => writeln!(out, "{before}{difference}")?,
        }
        if !args.all {
            break;
        }
        before = " ".repeat(8);
    }
    Ok(())
}

/// Returns the number of known deviations as text to append to the counts; empty if there are none.
fn known(deviations: usize) -> String {
    match deviations {
        0 => String::new(),
        number => format!(", known deviations: {number}"),
    }
}

fn complain(text: &str) {
    // If standard error is closed, the failure can't be reported anywhere.
    let _ = writeln!(io::stderr(), "{text}");
}
