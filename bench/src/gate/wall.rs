//! `gate --wall BASE`: how long the working tree takes against a revision, as advice.
//!
//! Both are built; then they run in turn, A B B A, so that whatever slows the machine down for a
//! while slows both. What counts is the ratio within each pair.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;
use podstorm_loadgen::clock::RealClock;
use serde_json::Value;

use super::collect::build;
use super::paired::{Conclusion, Estimate};
use super::tools::{self, Workspace};

/// What to time.
#[derive(Clone, Debug)]
pub(super) struct Wall {
    /// The revision to compare with.
    pub(super) base: String,
    /// Criterion benches.
    pub(super) benches: Vec<String>,
    /// Criterion's filter over ids.
    pub(super) filter: Option<String>,
    /// Arguments of `loadgen run`; absent when only benches are asked for.
    pub(super) run: Option<Vec<String>>,
    /// Pairs.
    pub(super) pairs: usize,
    /// Leave the base's build for the next time.
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
/// No such revision, a build or a run that fails, nothing to compare.
pub(super) fn wall(
    workspace: &Workspace,
    what: &Wall,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    let revision = format!("{}^{{commit}}", what.base);
    let mut command = git(&workspace.root);
    let commit = tools::output_of(command.args(["rev-parse", "--verify", "--quiet", &revision]));
    let commit = commit.with_context(|| format!("--wall {}: no such revision", what.base))?;
    let commit = commit.trim();

    let folder = workspace.target.join("gate").join("wall");
    let checkout = Checkout::new(&workspace.root, &folder, commit, what.keep)?;
    say(&format!(
        "building {} ({})",
        what.base,
        &commit[..12.min(commit.len())]
    ));
    let base = side(
        &checkout.tree,
        Some(&checkout.build),
        &folder.join("criterion-base"),
        what,
    )?;
    say("building the working tree");
    let work = side(&workspace.root, None, &folder.join("criterion-work"), what)?;

    let mut pairs: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for pair in 0..what.pairs {
        say(&format!("pair {} of {}", pair + 1, what.pairs));
        let (old, new) = if pair % 2 == 0 {
            let old = base.time(what)?;
            (old, work.time(what)?)
        } else {
            let new = work.time(what)?;
            (base.time(what)?, new)
        };
        for (name, old) in old {
            if let Some(new) = new.get(&name) {
                pairs.entry(name).or_default().push((old, *new));
            }
        }
    }
    if pairs.is_empty() {
        bail!("the two have no bench in common that --filter admits");
    }
    Ok(report(&pairs, &what.base))
}

/// The base's sources and build, taken away when dropped.
struct Checkout {
    root: PathBuf,
    tree: PathBuf,
    build: PathBuf,
    keep: bool,
}

impl Checkout {
    fn new(root: &Path, folder: &Path, commit: &str, keep: bool) -> Result<Checkout> {
        fs::create_dir_all(folder).with_context(|| format!("{}", folder.display()))?;
        let checkout = Checkout {
            root: root.to_owned(),
            tree: folder.join("base"),
            build: folder.join("build"),
            keep,
        };
        // One that was interrupted may have left its own.
        checkout.remove_tree();
        let mut command = git(root);
        command.args(["worktree", "add", "--detach", "--force"]);
        tools::output_of(command.arg(&checkout.tree).arg(commit))?;
        Ok(checkout)
    }

    fn remove_tree(&self) {
        let mut command = git(&self.root);
        command
            .args(["worktree", "remove", "--force"])
            .arg(&self.tree);
        // Nothing to remove is no failure, and nothing depends on its going.
        let _ = tools::output_of(&mut command);
        let _ = fs::remove_dir_all(&self.tree);
        let _ = tools::output_of(git(&self.root).args(["worktree", "prune"]));
    }
}

impl Drop for Checkout {
    fn drop(&mut self) {
        self.remove_tree();
        if !self.keep {
            let _ = fs::remove_dir_all(&self.build);
        }
    }
}

fn git(root: &Path) -> Command {
    let mut command = Command::new("git");
    command.arg("-C").arg(root);
    command
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
        command.args([
            "build",
            "--locked",
            "--release",
            "--package",
            "podstorm-loadgen",
        ]);
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
            // Estimates of an earlier pair must not pass for this one's.
            if self.criterion.exists() {
                fs::remove_dir_all(&self.criterion)
                    .with_context(|| format!("{}", self.criterion.display()))?;
            }
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
    let Ok(entries) = fs::read_dir(folder) else {
        return Ok(());
    };
    for entry in entries {
        let path = entry
            .with_context(|| format!("{}", folder.display()))?
            .path();
        if path.file_name().is_some_and(|name| name == "new") {
            let read = |name: &str| -> Result<Value> {
                let path = path.join(name);
                let text = fs::read_to_string(&path);
                let text = text.with_context(|| format!("{}", path.display()))?;
                serde_json::from_str(&text).with_context(|| format!("{}", path.display()))
            };
            let id = read("benchmark.json")?["full_id"]
                .as_str()
                .map(str::to_owned);
            let median = read("estimates.json")?["median"]["point_estimate"].as_f64();
            let found = id.zip(median);
            let (id, median) =
                found.with_context(|| format!("{}: not criterion's estimates", path.display()))?;
            times.insert(id, median);
        } else if path.is_dir() {
            read_estimates(&path, times)?;
        }
    }
    Ok(())
}

fn report(pairs: &BTreeMap<String, Vec<(f64, f64)>>, base: &str) -> String {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    let header = ["bench", "time / base", "95 % interval", "slower in", "says"];
    table.set_header(header);
    for (name, pairs) in pairs {
        let Some(estimate) = Estimate::of(pairs) else {
            table.add_row([name, "-", "-", "-", "too few pairs"]);
            continue;
        };
        table.add_row([
            name.clone(),
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
    format!(
        "{table}\n\nThe working tree's time over that of {base}: median of the pairs' ratios and its bootstrap \
         interval.\nA difference is called one when the interval excludes 1 and every pair agrees. \
         This is advice: it decides nothing.\n"
    )
}
