//! Builds the two counting benches in the bench profile, regardless of the gate's own profile, runs
//! them, and reads their counts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::measurement::{Count, Measurement, Unit, per_call};
use super::{is_under, say, tools};
use crate::hot::{self, HotPath};
use crate::results::{package_directory, target_directory};

/// Counts the hot paths under `only`; if `planted`, with the slow paths that are planted on
/// purpose. Reports each step, because counting takes minutes.
///
/// # Errors
/// Fails if a tool is missing, if a build or a run fails, or if a path was not counted.
pub(super) fn collect(only: &str, planted: bool) -> Result<Measurement> {
    // Check the tools first, because a build takes a long time and is useless without them.
    let toolchain = tools::toolchain()?;
    let built = build()?;
    let executable = |name: &str| {
        let found = built.get(name);
        found.with_context(|| format!("cargo did not build the bench {name}"))
    };

    say("counting allocations");
    let mut command = bench(executable("allocations")?, planted);
    command.args(["--json", "--only", only]);
    let text = tools::output_of(&mut command).context("the allocation bench failed")?;
    let blocks: BTreeMap<String, u64> =
        serde_json::from_str(&text).context("unexpected output of the allocation bench")?;

    let all = hot::paths();
    let paths = (0..).zip(&all);
    let paths: Vec<(usize, &HotPath)> = paths
        .filter(|(_, path)| only.is_empty() || is_under(path.id, only))
        .collect();
    say(&format!("counting instructions of {} paths", paths.len()));
    let home = target_directory().join("gate/callgrind");
    // Otherwise, gungraun would compare with the counts of an earlier run.
    let _ = fs::remove_dir_all(&home);
    let executable = executable("instructions")?;
    let mut instructions = BTreeMap::new();
    if only.is_empty() {
        callgrind(bench(executable, planted), &home, None, &mut instructions)?;
    } else {
        for (index, _) in &paths {
            let (bench, filter) = (bench(executable, planted), format!("*::path_{index}"));
            callgrind(bench, &home, Some(&filter), &mut instructions)?;
        }
    }

    let mut counts = Vec::new();
    for (index, path) in paths {
        let total = instructions.get(&index).with_context(|| {
            let home = home.display();
            format!("callgrind counted nothing for {}; see {home}", path.id)
        })?;
        let blocks = blocks.get(path.id);
        let blocks = blocks.with_context(|| format!("dhat counted nothing for {}", path.id))?;
        for (unit, total) in [(Unit::Instructions, total), (Unit::Allocations, blocks)] {
            counts.push(Count {
                id: path.id.to_owned(),
                unit,
                figure: per_call(*total, path.calls),
                allocation_free: path.allocation_free,
            });
        }
    }
    Ok(Measurement { toolchain, counts })
}

/// Builds the counting benches and shows cargo's progress. Returns the executables by the names of
/// their targets.
fn build() -> Result<BTreeMap<String, PathBuf>> {
    #[derive(Deserialize)]
    struct Message {
        target: Option<Target>,
        executable: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }

    say("building the counting benches");
    let mut command = crate::cargo();
    // Use the features of the whole workspace, so that other builds can reuse the results.
    command.args(["bench", "--locked", "--workspace"]);
    command.args(["--no-run", "--quiet"]);
    command.args(["--bench", "instructions", "--bench", "allocations"]);
    command.args(["--message-format", "json-render-diagnostics"]);
    command
        .current_dir(package_directory())
        .stderr(Stdio::inherit());
    let messages = tools::output_of(&mut command)?;
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let executables =
        messages.filter_map(|message: Message| Some((message.target?.name, message.executable?)));
    Ok(executables.collect())
}

/// Returns the command that runs a counting bench, with or without planted slow paths.
fn bench(executable: &Path, planted: bool) -> Command {
    let mut command = Command::new(executable);
    command.env_remove(hot::planted::ASKED);
    command.envs(planted.then_some((hot::planted::ASKED, "yes")));
    command
}

/// Counts with callgrind. Adds the instructions of all calls of a path together, by the path's
/// number in the list of hot paths.
fn callgrind(
    mut command: Command,
    home: &Path,
    filter: Option<&str>,
    found: &mut BTreeMap<usize, u64>,
) -> Result<()> {
    let parallel = std::thread::available_parallelism().map_or(1, usize::from);
    for (name, _) in std::env::vars_os() {
        // A user's settings must not change the counts. The runner may be chosen.
        if name.to_string_lossy().starts_with("GUNGRAUN_") && name != "GUNGRAUN_RUNNER" {
            command.env_remove(name);
        }
    }
    command.args(["--bench", "--output-format=json"]);
    command.arg(format!("--parallel={parallel}"));
    command.arg("--home").arg(home).args(filter);
    let text = tools::output_of(&mut command)?;
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let read: Option<Value> = serde_json::from_str(line).ok();
        let count = read.as_ref().and_then(summary);
        ensure!(count.is_some(), "not a gungraun summary: {line}");
        found.extend(count);
    }
    Ok(())
}

/// Returns a path's number and its instructions from gungraun's summary of a benchmark (version 7);
/// `None` if the summary has another form.
fn summary(summary: &Value) -> Option<(usize, u64)> {
    let index = summary["id"].as_str()?.strip_prefix("path_")?;
    let profiles = summary["profiles"].as_array()?;
    let mut profiles = profiles.iter();
    let callgrind = profiles.find(|profile| profile["tool"] == "Callgrind")?;
    let values = &callgrind["data"]["total"]["metrics"]["Ir"]["values"];
    Some((index.parse().ok()?, values["new"].as_u64()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_summary_gives_a_number_and_instructions() {
        let metrics = json!({"Ir": {"values": {"new": 115_029}}});
        let profile = json!({"tool": "Callgrind", "data": {"total": {"metrics": metrics}}});
        let text = json!({"id": "path_12", "profiles": [profile]});
        assert_eq!(summary(&text), Some((12, 115_029)));
        for text in [json!({}), json!({"id": "path_1", "profiles": []})] {
            assert_eq!(summary(&text), None);
        }
    }
}
