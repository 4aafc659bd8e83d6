//! The `loadgen` command as users see it, one module per subject. Only these tests run the program
//! itself.

mod claims;
mod compare;
#[cfg(target_os = "linux")]
mod connections;
mod deployments;
mod drains;
mod explain;
mod explain_deployment;
mod faults;
mod flags;
mod jobs;
mod repeat;
mod repeated;
mod report;
mod run;
mod scenarios;
mod serve;
mod serve_blocked;
mod serve_files;
mod slips;
mod stateful_sets;
mod stories;
mod sweep;

use std::fs;
use std::path::Path;
use std::process::Output;

use podstorm_tests::command;
use serde_json::Value;
use tempfile::TempDir;

/// A valid ReplicaSet, which tests modify.
const REPLICA_SET: &str = "\
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web
  labels: {app: web}
spec:
  replicas: 3
  selector:
    matchLabels: {app: web}
  template:
    metadata:
      labels: {app: web}
    spec:
      containers:
      - {name: c, image: registry.example/web}
";

/// The folder of the examples.
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../loadgen/examples");

/// The example that `explain` is asked about.
const EXAMPLE: &str = "billing.yaml";

/// The time of the explanation.
const NOW: &str = "2026-03-01T12:00:00Z";

/// Explains the example with these flags.
fn explain(more: &str) -> Output {
    command::run(&format!(
        "explain -f {EXAMPLES}/{EXAMPLE} --now {NOW} {more}"
    ))
}

/// Command lines that must be refused; the file describes its format.
const REFUSED: &str = include_str!("refused.txt");

/// Returns the cases of a section of [`REFUSED`]: the parts of each line, with `\n` and `\t`
/// unescaped.
#[track_caller]
fn refused<const PARTS: usize>(section: &str) -> Vec<[String; PARTS]> {
    let (_, after) = REFUSED
        .split_once(&format!("\n== {section}\n"))
        .expect("the section exists");
    let text = after.split("\n== ").next().unwrap_or(after);
    let unescaped = |part: &str| part.replace("\\n", "\n").replace("\\t", "\t");
    let cases = command::cases(text).into_iter();
    cases.map(|case| case.map(unescaped)).collect()
}

/// Asserts that every command of a section is refused in the folder and leaves it unchanged.
#[track_caller]
fn assert_section_refused(section: &str, folder: impl AsRef<Path>) {
    let folder = folder.as_ref();
    let before = names_in(folder);
    let mut wrong = Vec::new();
    for [line, words] in refused(section) {
        let refusal = command::refusal(&command::run_in(folder, &line), &words);
        wrong.extend(refusal.err().map(|it| format!("loadgen {line}: {it}")));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(names_in(folder), before, "no output remains");
}

fn folder() -> TempDir {
    TempDir::new().expect("a temporary folder")
}

/// Returns a folder with these files.
fn folder_of(files: &[(&str, &str)]) -> TempDir {
    let folder = folder();
    for (name, text) in files {
        write(&folder, name, text);
    }
    folder
}

fn write(folder: impl AsRef<Path>, name: &str, text: impl AsRef<[u8]>) {
    fs::write(folder.as_ref().join(name), text).expect("the folder can be written");
}

/// Returns the text of a file.
#[track_caller]
fn read(folder: impl AsRef<Path>, name: &str) -> String {
    fs::read_to_string(folder.as_ref().join(name)).expect("the file exists")
}

/// Returns the JSON in a file.
#[track_caller]
fn json_in(folder: impl AsRef<Path>, name: &str) -> Value {
    json(&read(folder, name))
}

#[track_caller]
fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("only JSON")
}

/// Returns the names in a folder, sorted.
fn names_in(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is readable");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry.expect("an entry")))
        .collect();
    names.sort();
    names
}
