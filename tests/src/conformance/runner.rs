//! Runs a folder of recorded cases: every `*.jsonl` and `*.jsonl.gz` in it, one case a line.
//!
//! Cases are spread over threads and share nothing; the report is in file and line order, so it
//! does not depend on the threads.

use std::any::Any;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::run_case;

/// How many cases a thread takes at a time: enough to make the counter cheap, few enough that the
/// long cases at the end of a file don't all go to one thread.
const CHUNK: usize = 16;

/// What came of one file.
#[derive(Clone, Debug)]
pub struct FileReport {
    /// The file's name without its folder.
    pub name: String,
    /// How many cases it holds.
    pub total: usize,
    /// Those that differ from the record and should not, in file order; and those that don't differ
    /// though the list of [deviations](super::deviations) says so.
    pub failures: Vec<Failure>,
    /// How many differ as the list of deviations says.
    pub deviations: usize,
}

/// A case that differs from its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The case's `id`; `line N` where it has none.
    pub id: String,
    /// What differs.
    pub difference: String,
}

/// Number of its line, id, and how it ended.
type Ended = (usize, String, Result<(), String>);

/// Why a folder or file can't be run at all.
#[derive(Debug)]
pub enum RunError {
    /// The folder or a file in it can't be read.
    Unreadable(PathBuf, std::io::Error),
    /// The folder holds no `*.jsonl` nor `*.jsonl.gz`.
    NoFiles(PathBuf),
    /// A file without a single case.
    NoCases(PathBuf),
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Unreadable(path, error) => {
                write!(f, "cannot read {}: {error}", path.display())
            }
            RunError::NoFiles(path) => {
                write!(f, "no *.jsonl or *.jsonl.gz in {}", path.display())
            }
            RunError::NoCases(path) => write!(f, "no cases in {}", path.display()),
        }
    }
}

impl std::error::Error for RunError {}

impl FileReport {
    /// How many cases agree with their record.
    pub fn passed(&self) -> usize {
        self.total - self.failures.len() - self.deviations
    }
}

/// Runs every case of every file in `folder`, files in the order of their names.
///
/// # Errors
/// When the folder or a file can't be read or holds nothing; differences are no errors but part of
/// the reports.
pub fn run_folder(folder: &Path) -> Result<Vec<FileReport>, RunError> {
    files(folder)?.iter().map(|file| run_file(file)).collect()
}

/// Runs every case of one file. Its subject is its name up to the first dot.
///
/// # Errors
/// When the file can't be read or holds no case.
pub fn run_file(path: &Path) -> Result<FileReport, RunError> {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let subject = name.split('.').next().unwrap_or_default().to_owned();
    let text = read(path).map_err(|error| RunError::Unreadable(path.to_owned(), error))?;
    let lines: Vec<(usize, &str)> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    if lines.is_empty() {
        return Err(RunError::NoCases(path.to_owned()));
    }
    let (failures, deviations) = run_lines(&subject, &lines);
    Ok(FileReport {
        name,
        total: lines.len(),
        failures,
        deviations,
    })
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    let unreadable = |error| RunError::Unreadable(folder.to_owned(), error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() {
        Err(RunError::NoFiles(folder.to_owned()))
    } else {
        Ok(files)
    }
}

fn read(path: &Path) -> std::io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = String::new();
    if path.extension().is_some_and(|extension| extension == "gz") {
        MultiGzDecoder::new(file).read_to_string(&mut text)?;
    } else {
        file.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// The failures, and how many cases differ as the list of deviations says.
fn run_lines(subject: &str, lines: &[(usize, &str)]) -> (Vec<Failure>, usize) {
    let next = AtomicUsize::new(0);
    // Filled by all threads, in any order.
    let outcomes: Mutex<Vec<Ended>> = Mutex::default();
    let work = || {
        loop {
            // Relaxed: the counter only hands out chunks; the lines were there before the threads.
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            let Some(rest) = lines.get(start..) else {
                break;
            };
            let done = rest.iter().take(CHUNK).map(|(line, text)| {
                let (id, outcome) = run_line(subject, text);
                (*line, id.unwrap_or_else(|| format!("line {line}")), outcome)
            });
            let done: Vec<_> = done.collect();
            outcomes
                .lock()
                .expect("no thread panics holding it")
                .extend(done);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(lines.len().div_ceil(CHUNK)) {
            scope.spawn(work);
        }
    });
    let mut outcomes = outcomes.into_inner().expect("no thread panics holding it");
    outcomes.sort_by_key(|(line, ..)| *line);
    let mut seen = BTreeSet::new();
    let mut failures = Vec::new();
    let mut deviations = 0;
    for (_, id, outcome) in outcomes {
        let unique = seen.insert(id.clone());
        let outcome = outcome.and_then(|()| {
            if unique {
                Ok(())
            } else {
                Err("the id occurs twice".to_owned())
            }
        });
        let known = super::deviations::reason(subject, &id);
        let difference = match outcome {
            Ok(()) if known.is_some() => "it is listed as a deviation and is none".to_owned(),
            Ok(()) => continue,
            Err(_) if known.is_some() && unique => {
                deviations += 1;
                continue;
            }
            Err(difference) => difference,
        };
        failures.push(Failure { id, difference });
    }
    (failures, deviations)
}

/// The case's id, where it has one, and how it ended.
fn run_line(subject: &str, text: &str) -> (Option<String>, Result<(), String>) {
    let mut case: Value = match serde_json::from_str(text) {
        Ok(case) => case,
        Err(error) => return (None, Err(format!("not JSON: {error}"))),
    };
    let id = case
        .as_object_mut()
        .and_then(|members| members.remove("id"));
    let Some(Value::String(id)) = id else {
        return (None, Err("the case has no id".to_owned()));
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| run_case(subject, case)))
        .unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(&*panic))));
    (Some(id), outcome)
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
        let numbered: Vec<_> = (1..).zip(lines.iter().copied()).collect();
        run_lines(subject, &numbered).0
    }

    #[test]
    fn a_case_that_agrees_passes() {
        assert_eq!(run("consistency", &[GOOD]), []);
    }

    #[test]
    fn every_fault_of_a_case_is_a_failure() {
        let wrong = GOOD.replace("true", "false");
        let unknown = GOOD.replace("\"ops\"", "\"extra\":1,\"ops\"");
        let inner = GOOD.replace("\"owner\"", "\"extra\":1,\"owner\"");
        for (line, part) in [
            (wrong.as_str(), "recorded is false"),
            (&unknown, "unknown field \"extra\""),
            (&inner, "unknown field \"extra\""),
            ("{", "not JSON"),
            ("{}", "no id"),
            ("[]", "no id"),
        ] {
            let failures = run("consistency", &[line]);
            assert!(
                failures[0].difference.contains(part),
                "{line}: {failures:?}"
            );
        }
        assert_eq!(
            run("consistency", &[GOOD, GOOD])[0].difference,
            "the id occurs twice"
        );
        assert_eq!(
            run("nothing", &[GOOD])[0].difference,
            "no such subject: nothing"
        );
    }

    #[test]
    fn failures_keep_the_order_of_the_lines() {
        let lines: Vec<String> = (0..200).map(|n| format!("{{\"id\":\"{n:03}\"}}")).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let failures = run("nothing", &lines);
        assert_eq!(failures.len(), 200);
        assert!(failures.is_sorted_by_key(|failure| failure.id.clone()));
    }
}
