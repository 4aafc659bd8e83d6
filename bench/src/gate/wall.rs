//! `gate --wall BASE`: how long the working tree takes against a revision, as advice.
//!
//! Both are built; then they run in turn, A B B A, so that whatever slows the machine down for a
//! while slows both. What counts is the ratio within each pair.
//!
//! The base's sources are read from git into a folder below cargo's target directory, by an index of
//! their own: nothing of the repository changes, so an interruption leaves nothing there to mend.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use comfy_table::presets::ASCII_MARKDOWN;
use comfy_table::{CellAlignment, Table};
use podstorm_sim::clock::RealClock;

use super::collect::build;
use super::paired::{Conclusion, Estimate};
use super::tools::{self, Workspace};
use crate::files;
use crate::results::Unit;

/// The benches that leave criterion's estimates; others can't be compared.
const CRITERION_BENCHES: [&str; 11] = [
    "cache",
    "cold_start",
    "expectations",
    "handlers",
    "loading",
    "packages",
    "ranking",
    "selectors",
    "slow_start",
    "sync",
    "workqueue",
];

/// What to time.
#[derive(Clone, Debug)]
pub(super) struct Wall {
    /// The revision to compare with.
    pub(super) base: String,
    /// Criterion benches.
    pub(super) benches: BTreeSet<String>,
    /// Criterion's filter over ids.
    pub(super) filter: Option<String>,
    /// Arguments of `loadgen run`; absent when only benches are asked for.
    pub(super) run: Option<Vec<String>>,
    /// Pairs.
    pub(super) pairs: usize,
    /// Leave the base's sources and build for the next time.
    pub(super) keep: bool,
}

/// One of the two.
struct Side {
    benches: Vec<PathBuf>,
    loadgen: Option<PathBuf>,
    /// Where criterion leaves its estimates.
    criterion: PathBuf,
}

/// Times by what was timed, in nanoseconds.
type Times = BTreeMap<String, f64>;

/// Builds, runs, and gives the report.
///
/// # Errors
/// A bench that isn't criterion's, no repository, no such revision, a build or a run that fails, nothing to
/// compare.
pub(super) fn wall(
    workspace: &Workspace,
    what: &Wall,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    for bench in &what.benches {
        ensure!(
            CRITERION_BENCHES.contains(&bench.as_str()),
            "--bench {bench}: not a bench of criterion's; those that can be compared are {}",
            CRITERION_BENCHES.join(", ")
        );
    }
    let root = &workspace.root;
    let commit = commit_of(root, &what.base)?;
    let (head, changes) = (
        commit_of(root, "HEAD")?,
        git(root, &["status", "--porcelain"])?,
    );
    let names = format!(
        "base: {} ({}). Working tree: {}{}.",
        what.base,
        short(&commit),
        short(&head),
        if changes.is_empty() {
            ""
        } else {
            " with changes"
        }
    );
    say(&names);
    if commit == head && changes.is_empty() {
        say("the two are the same: what will differ is noise");
    }

    let folder = workspace.target.join("gate").join("wall");
    let base = Base::new(root, &folder, &commit, what.keep)?;
    say("building the base");
    let build = Some(base.build.as_path());
    let old = side(&base.sources, build, &folder.join("criterion-base"), what);
    let old = old.with_context(|| format!("the base, {}", what.base))?;
    say("building the working tree");
    let new = side(root, None, &folder.join("criterion-work"), what);
    let new = new.context("the working tree")?;

    let mut measured = Measured::default();
    let clock = RealClock::start();
    for pair in 0..what.pairs {
        let rest = clock.seconds() / pair as f64 * (what.pairs - pair) as f64;
        let rest = if pair > 0 {
            format!(", some {rest:.0} s to go")
        } else {
            String::new()
        };
        say(&format!("pair {} of {}{rest}", pair + 1, what.pairs));
        let new_first = if pair % 2 == 1 {
            Some(new.time(what)?)
        } else {
            None
        };
        let old = old.time(what)?;
        measured.add(old, new_first.map_or_else(|| new.time(what), Ok)?);
    }
    if measured.pairs.is_empty() {
        bail!("the two have no bench in common that --filter admits");
    }
    Ok(report(&measured, &names))
}

/// The commit that a revision means.
fn commit_of(root: &Path, revision: &str) -> Result<String> {
    git(root, &["rev-parse", "--git-dir"])
        .context("--wall compares with a revision of this repository, which git can't read")?;
    let commit = format!("{revision}^{{commit}}");
    let verify = [
        "rev-parse",
        "--verify",
        "--quiet",
        "--end-of-options",
        &commit,
    ];
    git(root, &verify).map_err(|_| {
        anyhow!(
            "--wall {revision}: no such revision here; `git log` and `git branch --all` show which \
             there are (a shallow clone has few: git fetch --unshallow)"
        )
    })
}

fn short(commit: &str) -> &str {
    commit.get(..12).unwrap_or(commit)
}

fn git_command(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(root);
    command
}

/// What git says, without the end of the line.
fn git(root: &Path, arguments: &[&str]) -> Result<String> {
    let said = tools::output_of(git_command(root).args(arguments))?;
    Ok(said.trim_end().to_owned())
}

/// The base's sources and build, taken away when dropped unless they are to be kept.
struct Base {
    folder: PathBuf,
    sources: PathBuf,
    build: PathBuf,
    keep: bool,
}

impl Base {
    /// Reads the sources. Those that were left, by `--keep` or an interruption, become those of the commit;
    /// files that are the same stay as they are, so that cargo builds no more than it must.
    fn new(root: &Path, folder: &Path, commit: &str, keep: bool) -> Result<Base> {
        let base = Base {
            folder: folder.to_owned(),
            sources: folder.join("base"),
            build: folder.join("build"),
            keep,
        };
        fs::create_dir_all(&base.sources).with_context(|| format!("{}", base.sources.display()))?;
        let index = folder.join("index");
        // An interruption may have left git's lock; nobody else writes this index.
        let _ = fs::remove_file(folder.join("index.lock"));
        let mut command = git_command(root);
        command
            .env("GIT_INDEX_FILE", index)
            .env("GIT_WORK_TREE", &base.sources);
        command.args(["read-tree", "--reset", "-u", commit]);
        tools::output_of(&mut command)?;
        Ok(base)
    }
}

impl Drop for Base {
    fn drop(&mut self) {
        if !self.keep {
            // What stays is in the target directory, and used the next time.
            let _ = fs::remove_dir_all(&self.folder);
        }
    }
}

fn side(sources: &Path, target: Option<&Path>, criterion: &Path, what: &Wall) -> Result<Side> {
    let cargo = || {
        let mut command = tools::cargo();
        if let Some(target) = target {
            command.env("CARGO_TARGET_DIR", target);
        }
        command
    };
    let mut benches = Vec::new();
    if !what.benches.is_empty() {
        let mut command = cargo();
        command.args(["bench", "--locked", "--package", "podstorm-bench"]);
        for bench in &what.benches {
            command.args(["--bench", bench]);
        }
        let mut built = build(&mut command, sources)?;
        for bench in &what.benches {
            let executable = built.remove(bench);
            benches.push(executable.with_context(|| format!("cargo built no bench {bench}"))?);
        }
    }
    let mut loadgen = None;
    if what.run.is_some() {
        let mut command = cargo();
        // With the whole workspace's features, as `cargo build --release` has it.
        command.args(["build", "--locked", "--release", "--workspace"]);
        let mut built = build(command.args(["--bin", "loadgen"]), sources)?;
        loadgen = Some(built.remove("loadgen").context("cargo built no loadgen")?);
    }
    Ok(Side {
        benches,
        loadgen,
        criterion: criterion.to_owned(),
    })
}

impl Side {
    fn time(&self, what: &Wall) -> Result<Times> {
        let mut times = Times::new();
        if !self.benches.is_empty() {
            files::clear(&self.criterion)?;
            for bench in &self.benches {
                let mut command = Command::new(bench);
                command.args(["--bench", "--noplot", "--sample-size", "10"]);
                command.args(["--warm-up-time", "0.5", "--measurement-time", "1"]);
                command
                    .args(&what.filter)
                    .env("CRITERION_HOME", &self.criterion);
                tools::output_of(&mut command)?;
            }
            read_estimates(&self.criterion, &mut times)?;
        }
        if let (Some(loadgen), Some(run)) = (&self.loadgen, &what.run) {
            let mut command = Command::new(loadgen);
            command.arg("run").args(run).arg("--quiet");
            command.stdout(Stdio::null()).stdin(Stdio::null());
            let clock = RealClock::start();
            tools::output_of(&mut command)?;
            let name = format!("loadgen run {}", run.join(" "));
            times.insert(name, clock.seconds() * 1e9);
        }
        Ok(times)
    }
}

/// Criterion's medians, by id, from everything below a folder.
fn read_estimates(folder: &Path, times: &mut Times) -> Result<()> {
    for path in files::below(folder, "estimates.json")? {
        if path.parent().is_none_or(|folder| !folder.ends_with("new")) {
            continue;
        }
        let median = files::read_json(&path)?["median"]["point_estimate"].as_f64();
        let bench = files::read_json(&path.with_file_name("benchmark.json"))?;
        let found = bench["full_id"].as_str().zip(median);
        let (id, median) =
            found.with_context(|| format!("{}: not criterion's estimates", path.display()))?;
        times.insert(id.to_owned(), median);
    }
    Ok(())
}

/// What was timed on both sides, pair by pair, and what on one alone.
#[derive(Default)]
struct Measured {
    pairs: BTreeMap<String, Vec<(f64, f64)>>,
    only_base: BTreeSet<String>,
    only_work: BTreeSet<String>,
}

impl Measured {
    fn add(&mut self, old: Times, mut new: Times) {
        for (name, old) in old {
            match new.remove(&name) {
                Some(new) => self.pairs.entry(name).or_default().push((old, new)),
                None => _ = self.only_base.insert(name),
            }
        }
        self.only_work.extend(new.into_keys());
    }
}

fn report(measured: &Measured, names: &str) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header([
        "what",
        "base",
        "working tree",
        "ratio",
        "95 % interval",
        "slower in",
        "says",
    ]);
    for (name, pairs) in &measured.pairs {
        let Some(estimate) = Estimate::of(pairs) else {
            table.add_row([name, "-", "-", "-", "-", "-", "no times to compare"]);
            continue;
        };
        table.add_row([
            name.clone(),
            Unit::Nanoseconds.text(estimate.old),
            Unit::Nanoseconds.text(estimate.new),
            format!("{:.3}", estimate.ratio),
            format!("{:.3} to {:.3}", estimate.low, estimate.high),
            format!("{} of {} pairs", estimate.slower, estimate.pairs),
            match estimate.conclusion() {
                Conclusion::Slower => "slower",
                Conclusion::Faster => "faster",
                Conclusion::NoDifferenceSeen => "no difference seen",
            }
            .to_owned(),
        ]);
    }
    for column in 1..=3 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{table}\n\n");
    for (side, names) in [
        ("base", &measured.only_base),
        ("working tree", &measured.only_work),
    ] {
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            text += &format!("Only in the {side}: {}\n\n", names.join(", "));
        }
    }
    text + names
        + "\nTimes are medians. The ratio is the working tree's time over the base's, median of the pairs; it \
           lies in\nthe interval with 95 % or more. \"slower\" and \"faster\" are said when the interval excludes \
           1 and every pair\nagrees. This is advice: it decides nothing.\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::package_directory;

    #[test]
    fn the_benches_that_can_be_compared_are_those_of_criterion() {
        let benches = fs::read_dir(package_directory().join("benches")).unwrap();
        let paths = benches.map(|entry| entry.unwrap().path());
        let is_criterions = |path: &PathBuf| {
            let text = fs::read_to_string(path).unwrap();
            text.contains("podstorm_bench::profiler::criterion()")
        };
        let name = |path: PathBuf| path.file_stem().unwrap().to_str().unwrap().to_owned();
        let mut names: Vec<String> = paths.filter(is_criterions).map(name).collect();
        names.sort_unstable();
        assert_eq!(names, CRITERION_BENCHES);
    }

    #[test]
    fn what_one_side_alone_has_is_told_apart() {
        let times = |names: [&str; 2]| Times::from(names.map(|name| (name.to_owned(), 2_000.0)));
        let mut measured = Measured::default();
        for _ in 0..6 {
            measured.add(times(["a/b/1", "a/old/1"]), times(["a/b/1", "a/new/1"]));
        }
        let text = report(&measured, "names");
        for words in [
            "| a/b/1 | 2 µs |         2 µs | 1.000 | 1.000 to 1.000 | 0 of 6 pairs | no difference seen |",
            "Only in the base: a/old/1",
            "Only in the working tree: a/new/1",
        ] {
            assert!(text.contains(words), "{words} is missing in\n{text}");
        }
    }
}
