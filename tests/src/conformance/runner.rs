//! Runs a folder of recorded cases: every `*.jsonl` and `*.jsonl.gz` in it, one case a line.
//!
//! Cases are spread over threads and share nothing, but for those of [`http`], which share a server; the
//! report is in file and line order, so it does not depend on the threads.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::read::MultiGzDecoder;
use serde_json::Value;

use super::{deviations, http, run_case};

/// How many cases a thread takes at a time: enough to make the counter cheap, few enough that the
/// long cases at the end of a file don't all go to one thread.
const CHUNK: usize = 16;

/// What came of one file.
#[derive(Clone, Debug, Default)]
pub struct FileReport {
    /// The file's name without its folder.
    pub name: String,
    /// How many cases it holds, of those that were asked for.
    pub total: usize,
    /// Those that differ from the record and should not, in file order; and those that don't differ
    /// though the list of [deviations] says so.
    pub failures: Vec<Failure>,
    /// Those that differ as the list of deviations says.
    pub deviations: Vec<Failure>,
    /// What runs the cases, where it is not run here: they need a program from outside.
    pub elsewhere: Option<&'static str>,
    /// Where cases are run in several ways: how many pass in each.
    pub ways: Vec<(&'static str, usize)>,
    /// The categories of those cases, by name.
    pub categories: BTreeMap<String, Counts>,
}

/// How many cases there are, and how many of them agree with their record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Those that agree.
    pub passed: usize,
    /// All.
    pub total: usize,
}

/// A case that differs from its record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The case's `id`; `line N` where it has none.
    pub id: String,
    /// What differs.
    pub difference: String,
}

/// Which cases are asked for: those of one subject whose ids begin so.
#[derive(Clone, Debug)]
pub struct Only {
    /// The subject.
    pub subject: String,
    /// How the ids begin.
    pub id: String,
}

/// A case that was run.
struct Ended {
    line: usize,
    id: String,
    outcome: Result<(), String>,
}

impl FileReport {
    /// How many cases agree with their record.
    pub fn passed(&self) -> usize {
        self.total - self.failures.len() - self.deviations.len()
    }
}

/// Runs every case of every file in `folder`, files in the order of their names; with `only` just those.
///
/// # Errors
/// When the folder or a file can't be read or holds nothing; differences are no errors but part of
/// the reports.
pub fn run_folder(folder: &Path, only: Option<&Only>) -> Result<Vec<FileReport>, String> {
    let files = files(folder)?.into_iter();
    let is_asked =
        |path: &PathBuf| only.is_none_or(|only| subject_of(&name_of(path)) == only.subject);
    let asked = files.filter(is_asked);
    asked.map(|file| run_file(&file, only)).collect()
}

/// Runs the cases of one file. Its subject is its name up to the first dot.
fn run_file(path: &Path, only: Option<&Only>) -> Result<FileReport, String> {
    let name = name_of(path);
    if subject_of(&name) == "kubectl" {
        return Ok(FileReport {
            name,
            elsewhere: Some("cargo real"),
            ..FileReport::default()
        });
    }
    let text = read(path).map_err(|error| unreadable(path, &error))?;
    let lines: Vec<(usize, &str)> = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
        .collect();
    if lines.is_empty() {
        return Err(format!("no cases in {}", path.display()));
    }
    Ok(FileReport {
        name: name.clone(),
        ..run_lines(subject_of(&name), &lines, only)
    })
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn subject_of(name: &str) -> &str {
    name.split('.').next().unwrap_or_default()
}

/// The cases of a file, to be used in another way than to be run here.
///
/// # Errors
/// When it can't be read, or a line of it.
pub fn read_cases(path: &Path) -> std::io::Result<Vec<Value>> {
    let text = read(path)?;
    let lines = text.lines().map(serde_json::from_str);
    Ok(lines.collect::<Result<_, _>>()?)
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let unreadable = |error| unreadable(folder, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".jsonl") || name.ends_with(".jsonl.gz") {
            files.push(path);
        }
    }
    files.sort();
    match files.is_empty() {
        true => Err(format!("no *.jsonl or *.jsonl.gz in {}", folder.display())),
        false => Ok(files),
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

/// All but the name of the file.
fn run_lines(subject: &str, lines: &[(usize, &str)], only: Option<&Only>) -> FileReport {
    let mut report = FileReport::default();
    let mut ended = match subject {
        "http" => run_together(lines, only, &mut report),
        _ => run_apart(subject, lines, only),
    };
    ended.sort_by_key(|ended| ended.line);
    report.total = ended.len();
    let mut seen = BTreeSet::new();
    for Ended { id, outcome, .. } in ended {
        let unique = seen.insert(id.clone());
        let outcome = outcome.and_then(|()| match unique {
            true => Ok(()),
            false => Err("the id occurs twice".to_owned()),
        });
        let known = deviations::reason(subject, &id).filter(|_| unique);
        match (outcome, known) {
            (Ok(()), None) => {}
            (Ok(()), Some(_)) => {
                let difference = "it is listed as a deviation and is none".to_owned();
                report.failures.push(Failure { id, difference });
            }
            (Err(difference), None) => report.failures.push(Failure { id, difference }),
            (Err(difference), Some(_)) => report.deviations.push(Failure { id, difference }),
        }
    }
    report
}

/// Runs cases that share nothing, on all cores; they end in any order.
fn run_apart(subject: &str, lines: &[(usize, &str)], only: Option<&Only>) -> Vec<Ended> {
    let next = AtomicUsize::new(0);
    let all: Mutex<Vec<Ended>> = Mutex::default();
    let work = || {
        loop {
            // Relaxed: the counter only hands out chunks; the lines were there before the threads.
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            let Some(rest) = lines.get(start..) else {
                break;
            };
            let mut ended = Vec::new();
            for (line, text) in rest.iter().take(CHUNK) {
                let (id, case) = parse(*line, text);
                if is_asked(only, &id) {
                    let outcome = case.and_then(|case| catching(|| run_case(subject, case)));
                    ended.push(Ended {
                        line: *line,
                        id,
                        outcome,
                    });
                }
            }
            all.lock()
                .expect("no thread panics holding it")
                .extend(ended);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads.min(lines.len().div_ceil(CHUNK)) {
            scope.spawn(work);
        }
    });
    all.into_inner().expect("no thread panics holding it")
}

/// Runs cases that share a server, and counts them in the report by way and category.
fn run_together(
    lines: &[(usize, &str)],
    only: Option<&Only>,
    report: &mut FileReport,
) -> Vec<Ended> {
    let (mut ended, mut cases) = (Vec::new(), Vec::new());
    for (line, text) in lines {
        let (id, case) = parse(*line, text);
        if !is_asked(only, &id) {
            continue;
        }
        let outcome = case.map(|mut case| {
            http::keep_texts(&mut case, text);
            cases.push((ended.len(), case));
        });
        ended.push(Ended {
            line: *line,
            id,
            outcome,
        });
    }
    let (places, cases): (Vec<usize>, Vec<Value>) = cases.into_iter().unzip();
    let (mut in_process, mut over_http) = (0, 0);
    for ((place, case), played) in places.into_iter().zip(&cases).zip(http::play_all(&cases)) {
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

/// The id of the case in a line, or its number, and the case without its id.
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

/// Runs a case; that it panics is a difference too.
pub(super) fn catching(run: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|panic| Err(format!("panicked: {}", panic_text(&*panic))))
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
        run_lines(subject, &numbered, None).failures
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
