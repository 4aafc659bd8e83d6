//! `gate --wall` from outside, in a repository of one commit with programs that take the time they are told:
//! what it concludes, what it refuses, and that it takes its own things away.
#![expect(
    clippy::unwrap_used,
    reason = "a command that can't be run is a failed test"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A repository, and a cargo that "builds" the programs lying in it: `base-NAME` for the base, `NAME` for
/// the working tree.
struct Repository(TempDir);

impl Repository {
    fn new() -> Repository {
        let repository = Repository(TempDir::new().unwrap());
        repository.git(&["init", "--quiet"]);
        let commit = ["commit", "--quiet", "--allow-empty", "--message", "one"];
        repository.git(&[&["-c", "user.name=a", "-c", "user.email=a@b"], &commit[..]].concat());
        let root = repository.0.path().display();
        let metadata = format!(
            r#"{{"workspace_root":"{root}","target_directory":"{root}/target","packages":[{{"name":"podstorm-bench"}}]}}"#
        );
        let message = |name: &str| {
            format!(
                r#"echo "{{\"target\":{{\"name\":\"{name}\"}},\"executable\":\"{root}/${{side}}{name}\"}}""#
            )
        };
        let (ranking, loadgen) = (message("ranking"), message("loadgen"));
        repository.program(
            "cargo",
            &format!(
                r#"side=""; [ -z "$CARGO_TARGET_DIR" ] || {{ side=base-; mkdir -p "$CARGO_TARGET_DIR"; }}
case "$*" in
metadata*) echo '{metadata}';;
bench*) {ranking};;
build*) {loadgen};;
esac"#
            ),
        );
        repository
    }

    fn git(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("git");
        let output = command
            .arg("-C")
            .arg(self.0.path())
            .args(arguments)
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, script: &str) {
        let path = self.path(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A bench that says it took so long.
    fn bench(&self, name: &str, median_ns: f64) {
        let script = format!(
            r#"mkdir -p "$CRITERION_HOME/choose/new"; cd "$CRITERION_HOME/choose/new"
echo '{{"full_id":"ranking/choose-500/1000"}}' > benchmark.json
echo '{{"median":{{"point_estimate":{median_ns}}}}}' > estimates.json"#
        );
        self.program(name, &script);
    }

    fn wall(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gate"));
        command
            .current_dir(self.0.path())
            .env("CARGO", self.path("cargo"));
        command.env_remove("CARGO_TARGET_DIR");
        command
            .args(["--wall", "HEAD"])
            .args(arguments)
            .output()
            .unwrap()
    }

    /// Nothing of the base is left: neither its sources nor its build nor git's memory of them.
    fn is_clean(&self) -> bool {
        let worktrees = self.git(&["worktree", "list"]).lines().count();
        worktrees == 1
            && !self.path("target/gate/wall/base").exists()
            && !self.path("target/gate/wall/build").exists()
    }
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8(text).unwrap()
}

#[track_caller]
fn expect(output: &Output, code: i32, words: &[&str]) {
    let text = said(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in\n{text}");
    }
}

#[test]
fn a_slower_bench_is_called_slower_and_blocks_nothing() {
    let repository = Repository::new();
    repository.bench("base-ranking", 100.0);
    repository.bench("ranking", 125.0);
    let output = repository.wall(&["--bench", "ranking", "--pairs", "4"]);
    let words = [
        "ranking/choose-500/1000",
        "1.250",
        "4 of 4 pairs",
        "| slower",
        "decides nothing",
    ];
    expect(&output, 0, &words);
    assert!(repository.is_clean());
}

#[test]
fn a_whole_run_that_takes_longer_is_seen() {
    let repository = Repository::new();
    repository.program("base-loadgen", "exit 0");
    repository.program("loadgen", "sleep 0.2");
    let output = repository.wall(&["--run", "--pods 1k", "--pairs", "3"]);
    expect(&output, 0, &["loadgen run --pods 1k", "| slower"]);
    assert!(repository.is_clean());
}

#[test]
fn the_build_of_the_base_stays_when_asked() {
    let repository = Repository::new();
    repository.bench("base-ranking", 100.0);
    repository.bench("ranking", 100.0);
    let output = repository.wall(&["--bench", "ranking", "--keep"]);
    expect(&output, 0, &["no difference seen"]);
    assert!(repository.path("target/gate/wall/build").exists());
    assert!(!repository.path("target/gate/wall/base").exists());
}

#[test]
fn what_fails_is_said_and_nothing_is_left() {
    let repository = Repository::new();
    repository.program("base-loadgen", "exit 0");
    repository.program("loadgen", "echo 'no such flag' >&2; exit 2");
    expect(
        &repository.wall(&[]),
        2,
        &["loadgen run --pods 20k", "no such flag"],
    );
    assert!(repository.is_clean());
    repository.program("base-ranking", "exit 0");
    repository.program("ranking", "exit 0");
    let output = repository.wall(&["--bench", "ranking"]);
    expect(&output, 2, &["no bench in common"]);
    expect(
        &repository.wall(&["--bench", "elsewhere"]),
        2,
        &["no bench elsewhere"],
    );
    assert!(repository.is_clean());
}
