//! Builds a copy of the workspace with every mutant in it, and hunts them one by one.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::Duration;

use podstorm_sim::clock::RealClock;
use serde_json::Value;

use super::plant::{SWITCH, SWITCH_CRATE, VARIABLE, plant};
use super::{Kill, Mutant};

/// What of the workspace is copied.
const COPIED: [&str; 6] = [
    "Cargo.toml",
    "Cargo.lock",
    "core",
    "bench",
    "loadgen",
    "tests",
];

/// The packages whose tests are built, in one build so that all agree on features.
const PACKAGES: [&str; 8] = [
    "podstorm-objects",
    "podstorm-runtime",
    "podstorm",
    "podstorm-apiserver",
    "podstorm-sim",
    "podstorm-faultsim",
    "podstorm-loadgen",
    "podstorm-tests",
];

/// So many seeds are played between two looks at the time.
const SEEDS_AT_ONCE: u64 = 20;

/// So long, ns, may as many seeds take, or a test: without a mutant they take a few seconds.
const LIMIT_NS: i64 = 120_000_000_000;

/// How a hunt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The mutant was noticed.
    Killed {
        /// By what.
        by: String,
        /// After how many seeds, where it was by seeds.
        seeds: Option<u64>,
    },
    /// It was not, in so many seeds; absent for tests.
    Survived(Option<u64>),
}

/// Where the copy is and what was built of it.
#[derive(Debug)]
pub struct Ground {
    tree: PathBuf,
    loadgen: PathBuf,
    /// Test programs by package and target.
    tests: BTreeMap<(String, String), PathBuf>,
}

impl Ground {
    /// Copies the workspace at `root` to `target/mutants/tree`, with every mutant planted, and builds
    /// it in `target/mutants/build`. The workspace itself is only read.
    ///
    /// # Errors
    /// What can't be copied, or does not compile.
    pub fn prepare(root: &Path, mutants: &[Mutant]) -> Result<Ground, String> {
        let place = root.join("target/mutants");
        let tree = place.join("tree");
        let planted = plant(root, mutants)?;
        let mut copied = BTreeSet::new();
        for name in COPIED {
            copy(root, &tree, Path::new(name), &planted, &mut copied)
                .map_err(|error| format!("can't copy {name}: {error}"))?;
        }
        let library = Path::new(SWITCH_CRATE).join("lib.rs");
        let text = fs::read_to_string(root.join(&library)).map_err(text_of)?;
        let text = format!("{text}\n#[doc(hidden)]\npub mod mutation;\n");
        put(&tree.join(&library), text.as_bytes()).map_err(text_of)?;
        let switch = Path::new(SWITCH_CRATE).join("mutation.rs");
        put(&tree.join(&switch), SWITCH.as_bytes()).map_err(text_of)?;
        copied.insert(switch);
        forget_others(&tree, Path::new(""), &copied).map_err(text_of)?;
        build(&place, tree, mutants)
    }

    /// Hunts one mutant; `None` for none of them, with what would be used to hunt `kill`.
    ///
    /// # Errors
    /// When a program can't be run, or has no such test.
    pub fn hunt(&self, number: Option<usize>, kill: &Kill) -> Result<Outcome, String> {
        match kill {
            Kill::Fuzz {
                behaviour,
                seeds,
                faults,
            } => self.fuzz(number, behaviour, *seeds, faults),
            Kill::Test {
                package,
                target,
                filter,
            } => {
                let key = (package.clone(), target.clone());
                let program = self.tests.get(&key);
                let program = program.ok_or_else(|| format!("no tests {package} {target}"))?;
                self.test(number, program, package, filter)
            }
        }
    }

    fn fuzz(
        &self,
        number: Option<usize>,
        behaviour: &str,
        seeds: u64,
        faults: &str,
    ) -> Result<Outcome, String> {
        let json = self.tree.join("../summary.json");
        let mut played = 0;
        while played < seeds {
            let count = SEEDS_AT_ONCE.min(seeds - played);
            let mut command = Command::new(&self.loadgen);
            command.arg("fuzz").arg("--quiet");
            command.args(["--first", &(played + 1).to_string()]);
            command.args(["--seeds", &count.to_string()]);
            command.args([
                "--behaviour",
                behaviour,
                "--threads",
                "1",
                "--failures",
                "1",
            ]);
            command.arg("--json").arg(&json);
            if !faults.is_empty() {
                command.args(["--fault", faults]);
            }
            let _ = fs::remove_file(&json);
            let (status, said) = run(command, number)?;
            let killed = |by: String, seeds| Ok(Outcome::Killed { by, seeds });
            match status.and_then(|status| status.code()) {
                Some(0) => played += count,
                Some(3) => {
                    let text = fs::read_to_string(&json).map_err(text_of)?;
                    let summary: Value = serde_json::from_str(&text).map_err(text_of)?;
                    let count = summary["seeds"].as_u64().unwrap_or(0);
                    let failure = &summary["failures"][0];
                    let by = failure["invariant"].as_str().unwrap_or("?").to_owned();
                    let panicked = failure["text"].as_str().unwrap_or("");
                    let by = match panicked.starts_with("panicked") {
                        true => format!("{by} (panic)"),
                        false => by,
                    };
                    return killed(by, Some(played + count));
                }
                None if status.is_none() => return killed("no progress".to_owned(), None),
                None => return killed("crash".to_owned(), None),
                Some(other) => return Err(format!("loadgen fuzz exits with {other}: {said}")),
            }
        }
        Ok(Outcome::Survived(Some(seeds)))
    }

    fn test(
        &self,
        number: Option<usize>,
        program: &Path,
        package: &str,
        filter: &str,
    ) -> Result<Outcome, String> {
        let folder = match package {
            "podstorm" => "core",
            "podstorm-loadgen" => "loadgen",
            _ => "tests",
        };
        let mut command = Command::new(program);
        command.args(filter.split(' '));
        command.args(["--test-threads", "1"]);
        command.current_dir(self.tree.join(folder));
        let (status, said) = run(command, number)?;
        if said.contains("running 0 tests") {
            return Err(format!("{package} has no test {filter}"));
        }
        let by = match status {
            Some(status) if status.success() => return Ok(Outcome::Survived(None)),
            None => "no progress".to_owned(),
            Some(_) => {
                let failed = said.lines().find(|line| line.ends_with("... FAILED"));
                let name = failed.and_then(|line| line.strip_prefix("test ")?.split(' ').next());
                name.unwrap_or("crash").to_owned()
            }
        };
        Ok(Outcome::Killed { by, seeds: None })
    }
}

/// Copies a file or a folder, with the planted texts in place of the files' own. What is the same
/// already is left alone, so that it is not built again.
fn copy(
    root: &Path,
    tree: &Path,
    path: &Path,
    planted: &BTreeMap<String, String>,
    copied: &mut BTreeSet<PathBuf>,
) -> io::Result<()> {
    let from = root.join(path);
    if from.is_dir() {
        for entry in fs::read_dir(&from)? {
            let name = entry?.file_name();
            if name != "target" {
                copy(root, tree, &path.join(name), planted, copied)?;
            }
        }
        return Ok(());
    }
    copied.insert(path.to_owned());
    // It gets one more line, see `prepare`.
    if path == Path::new(SWITCH_CRATE).join("lib.rs") {
        return Ok(());
    }
    let shown = path.to_string_lossy().replace('\\', "/");
    match planted.get(&shown) {
        Some(text) => put(&tree.join(path), text.as_bytes()),
        None => put(&tree.join(path), &fs::read(from)?),
    }
}

fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path, bytes)
}

/// Removes from the copy what the workspace no longer has.
fn forget_others(tree: &Path, path: &Path, copied: &BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(tree.join(path))? {
        let entry = entry?;
        let path = path.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            forget_others(tree, &path, copied)?;
        } else if !copied.contains(&path) {
            fs::remove_file(tree.join(path))?;
        }
    }
    Ok(())
}

fn build(place: &Path, tree: PathBuf, mutants: &[Mutant]) -> Result<Ground, String> {
    let mut targets: BTreeSet<String> = BTreeSet::new();
    for mutant in mutants {
        if let Kill::Test { target, .. } = &mutant.kill {
            targets.insert(target.clone());
        }
    }
    let mut tests = vec!["test".to_owned(), "--no-run".to_owned()];
    for target in targets {
        match &*target {
            "lib" => tests.push("--lib".to_owned()),
            _ => tests.extend(["--test".to_owned(), target]),
        }
    }
    let program = ["build", "--bin", "loadgen"].map(str::to_owned);
    let mut ground = Ground {
        tree,
        loadgen: PathBuf::new(),
        tests: BTreeMap::new(),
    };
    for arguments in [&program[..], &tests[..]] {
        cargo(place, arguments, &mut ground)?;
    }
    match ground.loadgen.as_os_str().is_empty() {
        true => Err("loadgen was not built".to_owned()),
        false => Ok(ground),
    }
}

/// Runs cargo in the copy and notes the programs that it tells of.
fn cargo(place: &Path, arguments: &[String], ground: &mut Ground) -> Result<(), String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .current_dir(&ground.tree)
        .args(arguments)
        .args(PACKAGES.iter().flat_map(|package| ["-p", package]))
        .args(["--locked", "--message-format=json"])
        .env("CARGO_TARGET_DIR", place.join("build"))
        .arg("--quiet")
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("can't run cargo: {error}"))?;
    let mut errors = String::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else {
            continue;
        };
        // Choices that leave something without a use are no news.
        if message["message"]["level"] == "error" {
            errors += message["message"]["rendered"].as_str().unwrap_or_default();
        }
        let Some(program) = message["executable"].as_str() else {
            continue;
        };
        let (target, is_test) = (&message["target"], &message["profile"]["test"]);
        if is_test.as_bool() != Some(true) {
            if target["name"] == "loadgen" {
                ground.loadgen = PathBuf::from(program);
            }
            continue;
        }
        let package = package_of(message["package_id"].as_str().unwrap_or_default());
        let name = match target["kind"][0].as_str() {
            Some("lib") => "lib",
            _ => target["name"].as_str().unwrap_or_default(),
        };
        let key = (package.to_owned(), name.to_owned());
        ground.tests.insert(key, PathBuf::from(program));
    }
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("it does not compile with the mutants:\n{errors}")),
    }
}

/// The name in a package's id, `path+file://FOLDER#NAME@VERSION` or, where the folder is called as the
/// package is, `path+file://FOLDER#VERSION`.
fn package_of(id: &str) -> &str {
    let (folder, name) = id.rsplit_once('#').unwrap_or(("", id));
    match name.split_once('@') {
        Some((name, _)) => name,
        None => folder.rsplit('/').next().unwrap_or_default(),
    }
}

/// Runs a program with that mutant awake; its status, absent when it had to be ended because it
/// took too long, and what it said.
fn run(
    mut command: Command,
    number: Option<usize>,
) -> Result<(Option<ExitStatus>, String), String> {
    let mut said = tempfile::tempfile().map_err(text_of)?;
    let output = |file: &fs::File| file.try_clone().map(Stdio::from).map_err(text_of);
    command.stdout(output(&said)?).stderr(output(&said)?);
    command.stdin(Stdio::null());
    command.env_remove(VARIABLE);
    if let Some(number) = number {
        command.env(VARIABLE, number.to_string());
    }
    let mut child = command.spawn().map_err(text_of)?;
    let clock = RealClock::start();
    let status = loop {
        if let Some(status) = child.try_wait().map_err(text_of)? {
            break Some(status);
        }
        if clock.now().mono_ns > LIMIT_NS {
            child.kill().map_err(text_of)?;
            child.wait().map_err(text_of)?;
            break None;
        }
        sleep(Duration::from_millis(20));
    };
    let mut bytes = Vec::new();
    said.rewind().map_err(text_of)?;
    said.read_to_end(&mut bytes).map_err(text_of)?;
    Ok((status, String::from_utf8_lossy(&bytes).into_owned()))
}

fn text_of(error: impl std::fmt::Display) -> String {
    error.to_string()
}
