//! `gate --wall` from outside, in a repository of one commit with programs that take the time they are told:
//! what it concludes, what it refuses, and that it takes its own things away.
#![expect(
    clippy::unwrap_used,
    reason = "a command that can't be run is a failed test"
)]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{expect, program, said};
use tempfile::TempDir;

/// A repository, and a cargo that "builds" the programs lying in it: `base-NAME` for the base, `NAME` for
/// the working tree.
struct Repository(TempDir);

impl Repository {
    fn new() -> Repository {
        let repository = Repository(TempDir::new().unwrap());
        repository.git(&["init", "--quiet"]);
        repository.commit_staged();
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
        program(&self.path(name), script);
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

    fn commit(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.git(&["add", name]);
        self.commit_staged();
    }

    fn commit_staged(&self) {
        let author = ["-c", "user.name=a", "-c", "user.email=a@b"];
        let commit = ["commit", "--quiet", "--allow-empty", "--message", "one"];
        self.git(&[&author[..], &commit[..]].concat());
    }

    fn gate(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gate"));
        command
            .current_dir(self.0.path())
            .env("CARGO", self.path("cargo"))
            .env_remove("CARGO_TARGET_DIR");
        command
    }

    fn wall(&self, arguments: &[&str]) -> Output {
        self.wall_of("HEAD", arguments)
    }

    fn wall_of(&self, base: &str, arguments: &[&str]) -> Output {
        let mut command = self.gate();
        command.args(["--wall", base]).args(arguments);
        command.output().unwrap()
    }

    /// Nothing of the base is left: neither its sources nor its build nor git's memory of them.
    fn is_clean(&self) -> bool {
        self.git_knows_nothing() && !self.path("target/gate/wall").exists()
    }

    /// The repository is as if nothing had been compared, and as it always is in between.
    fn git_knows_nothing(&self) -> bool {
        let worktrees = self.git(&["worktree", "list"]).lines().count();
        worktrees == 1 && !self.path(".git/index.lock").exists()
    }
}

#[test]
fn a_slower_bench_is_called_slower_and_blocks_nothing() {
    let repository = Repository::new();
    repository.bench("base-ranking", 100.0);
    repository.bench("ranking", 125.0);
    let output = repository.wall(&["--bench", "ranking", "--pairs", "6"]);
    let words = [
        "ranking/choose-500/1000",
        "100 ns",
        "125 ns",
        "1.250",
        "6 of 6 pairs",
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
    let output = repository.wall(&["--run", "--pods 1k", "--pairs", "6"]);
    expect(&output, 0, &["loadgen run --pods 1k", "| slower"]);
    assert!(repository.is_clean());
}

#[test]
fn sources_and_build_of_the_base_stay_when_asked_and_become_those_of_another() {
    let repository = Repository::new();
    repository.commit("core.rs", "one");
    repository.commit("core.rs", "two");
    repository.bench("base-ranking", 100.0);
    repository.bench("ranking", 100.0);
    let keep = ["--bench", "ranking", "--pairs", "6", "--keep"];
    let source = repository.path("target/gate/wall/base/core.rs");
    expect(
        &repository.wall_of("HEAD", &keep),
        0,
        &["no difference seen"],
    );
    assert_eq!(fs::read_to_string(&source).unwrap(), "two");
    assert!(repository.path("target/gate/wall/build").exists());

    // The same sources keep their age, by which cargo knows that nothing is to be built again; an
    // interruption leaves the same, and at worst a lock and half of the files.
    let age = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
    let before = age(&source);
    repository.wall_of("HEAD", &keep);
    assert_eq!(age(&source), before);
    fs::write(repository.path("target/gate/wall/index.lock"), "").unwrap();
    fs::remove_file(&source).unwrap();
    expect(&repository.wall_of("HEAD", &keep), 0, &[]);
    assert_eq!(fs::read_to_string(&source).unwrap(), "two");
    repository.wall_of("HEAD~1", &keep);
    assert_eq!(fs::read_to_string(&source).unwrap(), "one");
    assert!(repository.git_knows_nothing());
    repository.wall_of("HEAD", &keep[..4]);
    assert!(repository.is_clean());
}

#[test]
fn both_are_named_and_a_tree_without_changes_is_told_from_one_with() {
    let repository = Repository::new();
    repository.commit(".gitignore", "/target\n*ranking\ncargo\n");
    repository.bench("base-ranking", 100.0);
    repository.bench("ranking", 100.0);
    let arguments = ["--bench", "ranking,ranking", "--pairs", "6"];
    let head = repository.git(&["rev-parse", "--short=12", "HEAD"]);
    let named = format!("base: HEAD ({0}). Working tree: {0}.", head.trim());
    expect(
        &repository.wall(&arguments),
        0,
        &[&named, "the two are the same"],
    );
    fs::write(repository.path("new"), "").unwrap();
    let output = repository.wall(&arguments);
    expect(&output, 0, &["with changes."]);
    assert!(!said(&output).contains("the two are the same"));
}

#[test]
fn without_git_or_a_repository_the_reason_is_said() {
    let repository = Repository::new();
    let mut command = repository.gate();
    command.env("PATH", repository.path("nowhere"));
    let output = command.args(["--wall", "HEAD"]).output().unwrap();
    expect(
        &output,
        2,
        &["--wall compares with a revision", "cannot start `git"],
    );
    fs::remove_dir_all(repository.path(".git")).unwrap();
    expect(&repository.wall(&[]), 2, &["not a git repository"]);
    assert!(!repository.path("target").exists());
}

#[test]
fn a_revision_or_a_bench_that_is_none_is_named_before_anything_is_built() {
    let repository = Repository::new();
    for revision in ["no-such", "", "HEAD^{tree}", "HEAD~9"] {
        let words = [
            &*format!("--wall {revision}: no such revision here"),
            "git log",
        ];
        expect(&repository.wall_of(revision, &[]), 2, &words);
    }
    let words = ["--bench scaling: not a bench of criterion's", "workqueue"];
    expect(&repository.wall(&["--bench", "scaling"]), 2, &words);
    for (pairs, word) in [
        ("0", "fewer"),
        ("5", "fewer"),
        ("1001", "more"),
        ("x", "invalid"),
    ] {
        expect(&repository.wall(&["--pairs", pairs]), 2, &[word]);
    }
    assert!(!repository.path("target").exists());
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
    let words = ["the base, HEAD", "no bench cache"];
    expect(&repository.wall(&["--bench", "cache"]), 2, &words);
    assert!(repository.is_clean());
}
