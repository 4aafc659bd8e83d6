//! The `loadgen` command as its users meet it, subject by subject. Only here is the program itself run.

mod compare;
#[cfg(target_os = "linux")]
mod connections;
mod deployments;
mod explain;
mod explain_deployment;
mod faults;
mod flags;
mod repeat;
mod report;
mod run;
mod scenarios;
mod serve;
mod slips;
mod stories;
mod sweep;

use std::fs;
use std::path::Path;
use std::process::Output;

use podstorm_tests::command;

/// A valid ReplicaSet, which tests break.
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

/// The dump that `explain` is asked about.
const EXAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../loadgen/examples/billing.yaml"
);

/// The time at which it is asked.
const NOW: &str = "2026-03-01T12:00:00Z";

/// Asks about the example.
fn explain(more: &[&str]) -> Output {
    command::run(&[&["explain", "-f", EXAMPLE, "--now", NOW], more].concat())
}

/// The arguments of a command line without quotes.
fn args(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The words of a command line as a shell parts them; quotes are single ones.
fn shell_words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            c => words.last_mut().expect("there is one").push(c),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The text of a file.
#[track_caller]
fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).expect("the file is there")
}

/// What is in a folder, in the order of the names.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("the folder is readable");
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry.expect("an entry")))
        .collect();
    names.sort();
    names
}
