//! Runs the recorded cases in a folder: in every `*.jsonl` and `*.jsonl.gz` file, at any depth,
//! with one case per line.
//!
//! Cases are distributed among threads and are independent, except those of [`http`], which share a
//! server. The report is in the order of files and lines, so it does not depend on the threads.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::differences::Differences;
use super::files::{CaseFile, find, read};
use super::limit::run_all;
use super::{Run, deviations, http, run_case, runner_of};

pub use super::files::read_cases;

/// The time limit for a case on each transport. Even on a busy machine, no case takes a tenth of
/// it.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Restricts the run to some cases of one subject; `None` runs all cases.
    pub only: Option<Only>,
    /// The time limit for a case on each transport.
    pub limit: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            only: None,
            limit: LIMIT,
        }
    }
}

/// The result of one file.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// The path of the file, relative to the folder.
    pub name: String,
    /// The subject of the file's cases.
    pub subject: String,
    /// The number of selected cases in the file.
    pub total: usize,
    /// The unexpected outcomes, in the order of the file: cases that differ from their recording,
    /// and listed [deviations] that do not differ.
    pub failures: Vec<Failure>,
    /// The cases that differ as listed in the deviations.
    pub deviations: Vec<Failure>,
    /// The reason why the file's cases are not run here; `None` if they are.
    pub left_out: Option<LeftOut>,
    /// The number of passed cases by transport, if there are several transports.
    pub ways: Vec<(&'static str, usize)>,
    /// The counts of the file's cases by category.
    pub categories: BTreeMap<String, CaseCounts>,
}

/// The reason why the cases of a file are not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The cases need an external program; this command runs them.
    RunBy(&'static str),
    /// The subject is unknown.
    Unknown,
}

/// A number of cases, and the number of those that agree with their recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaseCounts {
    /// The number of cases that agree.
    pub passed: usize,
    /// The number of all cases.
    pub total: usize,
}

/// A case that differs from its recording, or a listed deviation that does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The `id` of the case, or `line N` if the case has none.
    pub id: String,
    /// The differences, in the order in which they were found.
    pub differences: Differences,
}

/// A selection of cases: those of one subject whose ids have a prefix.
#[derive(Clone, Debug)]
pub struct Only {
    /// The subject.
    pub subject: String,
    /// The prefix of the ids.
    pub id: String,
}

/// A case that has run.
struct Ended {
    id: String,
    outcome: Result<(), Differences>,
}

/// The lines of a file that contain cases, with their numbers.
type Lines = Arc<Vec<(usize, String)>>;

impl FileReport {
    /// Returns the number of cases that agree with their recording.
    pub fn passed(&self) -> usize {
        self.total - self.failures.len() - self.deviations.len()
    }
}

/// Runs the cases in all files in `folder`, at any depth, or only the selected ones.
///
/// # Errors
/// Fails if the folder or a file is unreadable or empty, or if no case is selected. Differences are
/// not errors; the reports contain them.
pub fn run_folder(folder: &Path, options: &Options) -> Result<Vec<FileReport>, String> {
    let mut files = find(folder)?;
    if let Some(Only { subject, .. }) = &options.only {
        let subjects: BTreeSet<String> = files.iter().map(|it| it.subject.clone()).collect();
        files.retain(|file| file.subject == *subject);
        if files.is_empty() {
            let (folder, there) = (folder.display(), Vec::from_iter(subjects).join(", "));
            return Err(format!(
                "no subject {subject:?} in {folder}; it has {there}"
            ));
        }
    }
    let reports = files.iter().map(|file| run_file(file, options));
    let reports = reports.collect::<Result<Vec<_>, _>>()?;
    let is_empty = |report: &FileReport| report.total == 0 && report.left_out.is_none();
    match &options.only {
        Some(Only { subject, id }) if reports.iter().all(is_empty) => {
            Err(format!("no id of {subject} begins with {id:?}"))
        }
        _ => Ok(reports),
    }
}

fn run_file(file: &CaseFile, options: &Options) -> Result<FileReport, String> {
    let left_out = match &*file.subject {
        "kubectl" => Some(LeftOut::RunBy("cargo real")),
        "http" => None,
        subject => runner_of(subject).is_none().then_some(LeftOut::Unknown),
    };
    let report = match left_out {
        Some(_) => FileReport {
            left_out,
            ..FileReport::default()
        },
        None => {
            let text = read(&file.path)?;
            let lines = (1..).zip(text.lines().map(str::to_owned));
            let lines: Vec<_> = lines.filter(|(_, text)| !text.trim().is_empty()).collect();
            if lines.is_empty() {
                return Err(format!("no cases in {}", file.path.display()));
            }
            run_lines(&file.subject, &Arc::new(lines), options)
        }
    };
    Ok(FileReport {
        name: file.name.clone(),
        subject: file.subject.clone(),
        ..report
    })
}

/// Runs the cases of a file. The name in the report is still missing.
fn run_lines(subject: &str, lines: &Lines, options: &Options) -> FileReport {
    let mut report = FileReport::default();
    let ended = match runner_of(subject) {
        Some(run) => run_apart(run, lines, options),
        None => run_together(lines, options, &mut report),
    };
    report.total = ended.len();
    let mut seen = BTreeSet::new();
    for Ended { id, outcome } in ended {
        let unique = seen.insert(id.clone());
        let outcome = outcome.and_then(|()| match unique {
            true => Ok(()),
            false => Err("the id occurs twice".to_owned().into()),
        });
        let known = deviations::reason(subject, &id).filter(|_| unique);
        match (outcome, known) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => {
                let differences = "the case agrees although it is listed as a deviation"
                    .to_owned()
                    .into();
                report.failures.push(Failure { id, differences });
            }
            (Err(differences), None) => report.failures.push(Failure { id, differences }),
            (Err(differences), Some(_)) => report.deviations.push(Failure { id, differences }),
        }
    }
    report
}

/// Runs independent cases on all cores.
fn run_apart(run: Run, lines: &Lines, options: &Options) -> Vec<Ended> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let (shared, only) = (Arc::clone(lines), options.only.clone());
    let outcomes = run_all(lines.len(), threads, options.limit, move || {
        let (lines, only) = (Arc::clone(&shared), only.clone());
        move |at, _: &_| {
            let (line, text) = &lines[at];
            let (id, case) = parse(*line, text);
            let run = || Ok(run_case(run, case?)?);
            is_asked(only.as_ref(), &id).then(|| Ended {
                id,
                outcome: catching(run),
            })
        }
    });
    let ended = outcomes.into_iter().zip(&**lines);
    let ended = ended.filter_map(|(outcome, (line, text))| match outcome {
        Ok(ended) => ended,
        Err(hung) => Some(Ended {
            id: parse(*line, text).0,
            outcome: Err(hung.into()),
        }),
    });
    ended.collect()
}

/// Runs cases that share a server. Adds counts by transport and category to the report.
fn run_together(lines: &Lines, options: &Options, report: &mut FileReport) -> Vec<Ended> {
    let (mut ended, mut places, mut cases) = (Vec::new(), Vec::new(), Vec::new());
    for (line, text) in &**lines {
        let (id, case) = parse(*line, text);
        if !is_asked(options.only.as_ref(), &id) {
            continue;
        }
        let outcome = case.map(|mut case| {
            http::keep_texts(&mut case, text);
            places.push(ended.len());
            cases.push(case);
        });
        let outcome = outcome.map_err(Differences::from);
        ended.push(Ended { id, outcome });
    }
    let cases = Arc::new(cases);
    let all_played = http::play_all(&cases, options.limit);
    let (mut in_process, mut over_http) = (0, 0);
    for ((place, case), played) in places.into_iter().zip(&*cases).zip(all_played) {
        in_process += usize::from(played.in_process.is_ok());
        over_http += usize::from(played.over_http.is_ok());
        let outcome = played.outcome();
        let category = case["category"].as_str().unwrap_or("none").to_owned();
        let counts = report.categories.entry(category).or_default();
        counts.total += 1;
        counts.passed += usize::from(outcome.is_ok());
        ended[place].outcome = outcome;
    }
    report.ways = vec![("in process", in_process), ("over HTTP", over_http)];
    ended
}

fn is_asked(only: Option<&Only>, id: &str) -> bool {
    only.is_none_or(|only| id.starts_with(&only.id))
}

/// Returns the id of the case in a line (or the number of the line), and the case without its id.
fn parse(line: usize, text: &str) -> (String, Result<Value, String>) {
    let number = format!("line {line}");
    let mut case: Value = match serde_json::from_str(text) {
        Ok(case) => case,
        Err(error) => return (number, Err(format!("not JSON: {error}"))),
    };
    let id = case
        .as_object_mut()
        .and_then(|members| members.remove("id"));
    match id {
        Some(Value::String(id)) => (id, Ok(case)),
        _ => (number, Err("the case has no id".to_owned())),
    }
}

/// Runs a case. A panic counts as a difference.
pub(super) fn catching(run: impl FnOnce() -> Result<(), Differences>) -> Result<(), Differences> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(&*panic)).into()))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without a text")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"id":"a","ops":[{"op":"EnsureReady","owner":"x","ready":true}]}"#;

    fn run(subject: &str, lines: &[&str]) -> Vec<Failure> {
        let numbered = (1..).zip(lines.iter().map(|line| (*line).to_owned()));
        let lines = Arc::new(numbered.collect());
        run_lines(subject, &lines, &Options::default()).failures
    }

    #[test]
    fn a_case_that_agrees_with_its_recording_passes() {
        assert_eq!(run("consistency", &[GOOD]), []);
    }

    #[test]
    fn every_mistake_in_a_case_is_a_failure() {
        let wrong = GOOD.replace("true", "false");
        let unknown = GOOD.replace("\"ops\"", "\"extra\":1,\"ops\"");
        let inner = GOOD.replace("\"owner\"", "\"extra\":1,\"owner\"");
        for (line, part) in [
            (wrong.as_str(), "recorded false"),
            (&unknown, "unknown field \"extra\""),
            (&inner, "unknown field \"extra\""),
            ("{", "not JSON"),
            ("{}", "no id"),
            ("[]", "no id"),
        ] {
            let failures = run("consistency", &[line]);
            assert!(
                failures[0].differences.first().contains(part),
                "{line}: {failures:?}"
            );
        }
        assert_eq!(
            run("consistency", &[GOOD, GOOD])[0].differences.first(),
            "the id occurs twice"
        );
    }

    #[test]
    fn failures_keep_the_order_of_the_lines() {
        let lines: Vec<String> = (0..200)
            .map(|n| format!("{{\"id\":\"{n:03}\",\"extra\":1}}"))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let failures = run("consistency", &lines);
        assert_eq!(failures.len(), 200);
        assert!(failures.is_sorted_by_key(|failure| failure.id.clone()));
    }
}
