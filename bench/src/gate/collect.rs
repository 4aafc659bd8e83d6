//! Building and running the two counting benches, in the bench profile whatever the gate itself was built
//! in, and reading what they counted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::is_under;
use super::measurement::{AllocationReport, Count, Measurement, PathReport, Unit, per_call};
use super::tools::{self, Workspace};
use crate::files;

/// What to count.
#[derive(Clone, Debug, Default)]
pub(super) struct Collect {
    /// Only hot paths under this prefix.
    pub(super) only: Option<String>,
    /// With slow paths planted on purpose.
    pub(super) planted: bool,
}

/// Counts. Says what it is about to do through `say`, since it takes a while.
///
/// # Errors
/// A tool that is not there, a build or a run that fails, a path that was not counted.
pub(super) fn collect(
    workspace: &Workspace,
    what: &Collect,
    say: &mut dyn FnMut(&str),
) -> Result<Measurement> {
    // Tools first: a build takes longer than finding out that it was for nothing.
    let machine = tools::machine(workspace, Default::default())?;
    say("building the counting benches");
    let features = if what.planted {
        "instructions,planted"
    } else {
        "instructions"
    };
    let mut command = tools::cargo();
    command.args(["bench", "--locked", "--package", "podstorm-bench"]);
    command.args(["--features", features]);
    command.args(["--bench", "instructions", "--bench", "allocations"]);
    let built = build(&mut command, &workspace.root)?;
    let executable = |name: &str| {
        let found = built.get(name);
        found.with_context(|| format!("cargo built no bench called {name}"))
    };

    say("counting allocations");
    let mut command = Command::new(executable("allocations")?);
    command.arg("--json");
    if let Some(only) = &what.only {
        command.args(["--only", only]);
    }
    let text = tools::output_of(&mut command).context("the allocation bench")?;
    let report: AllocationReport =
        serde_json::from_str(&text).context("the allocation bench speaks another language")?;
    let paths: Vec<(usize, &PathReport)> = (0..)
        .zip(&report.paths)
        .filter(|(_, path)| {
            what.only
                .as_ref()
                .is_none_or(|only| is_under(&path.id, only))
        })
        .collect();

    say(&format!("counting instructions of {} paths", paths.len()));
    let home = workspace.target.join("gate").join("callgrind");
    let instructions = instructions(
        executable("instructions")?,
        &home,
        &paths,
        report.paths.len(),
    )?;

    let mut counts = Vec::new();
    for (index, path) in paths {
        let total = instructions.get(&index).with_context(|| {
            format!(
                "callgrind counted nothing for {}; see {}",
                path.id,
                home.display()
            )
        })?;
        let blocks = path.blocks;
        let blocks = blocks.with_context(|| format!("dhat counted nothing for {}", path.id))?;
        for (unit, total) in [(Unit::Instructions, *total), (Unit::Allocations, blocks)] {
            counts.push(Count {
                id: path.id.clone(),
                unit,
                figure: per_call(total, path.calls),
                allocation_free: path.allocation_free,
            });
        }
    }
    let mut toolchain = machine;
    toolchain.rustc = report.toolchain.rustc;
    toolchain.flags = report.toolchain.flags;
    Ok(Measurement { toolchain, counts })
}

/// Builds by a cargo command, whose progress is shown, and gives the executables by target.
///
/// # Errors
/// It can't be started, or fails.
pub(super) fn build(command: &mut Command, folder: &Path) -> Result<BTreeMap<String, PathBuf>> {
    #[derive(Deserialize)]
    struct Message {
        target: Option<Target>,
        executable: Option<PathBuf>,
    }
    #[derive(Deserialize)]
    struct Target {
        name: String,
    }

    if command.get_args().any(|argument| argument == "bench") {
        command.arg("--no-run");
    }
    command.args(["--quiet", "--message-format", "json-render-diagnostics"]);
    command.current_dir(folder).stderr(Stdio::inherit());
    let shown = tools::shown(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed ({}); what it said is above",
            output.status
        );
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    let executables =
        messages.filter_map(|message: Message| Some((message.target?.name, message.executable?)));
    Ok(executables.collect())
}

/// Instructions of all calls together, by the path's number in the list.
fn instructions(
    executable: &Path,
    home: &Path,
    paths: &[(usize, &PathReport)],
    all: usize,
) -> Result<BTreeMap<usize, u64>> {
    files::clear(home)?;
    if paths.len() == all {
        callgrind(executable, home, None)?;
    } else {
        for (index, _) in paths {
            callgrind(executable, home, Some(&format!("*::path_{index}")))?;
        }
    }
    let mut found = BTreeMap::new();
    for path in files::below(home, "summary.json")? {
        let (index, count) = summary(&files::read_json(&path)?).with_context(|| {
            format!("{}: not a summary of gungraun as expected", path.display())
        })?;
        found.insert(index, count);
    }
    Ok(found)
}

fn callgrind(executable: &Path, home: &Path, filter: Option<&str>) -> Result<()> {
    let parallel = std::thread::available_parallelism().map_or(1, usize::from);
    let mut command = Command::new(executable);
    for (name, _) in std::env::vars_os() {
        // Nobody's preferences may change what is counted. The runner itself may be chosen.
        if name.to_string_lossy().starts_with("GUNGRAUN_") && name != "GUNGRAUN_RUNNER" {
            command.env_remove(name);
        }
    }
    command.env("GUNGRAUN_COLOR", "never");
    command.arg("--bench").arg("--save-summary=json");
    command.arg(format!("--parallel={parallel}"));
    command.arg("--home").arg(home).args(filter);
    let shown = tools::shown(&command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        bail!(
            "`{shown}` failed ({}):\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

/// The path's number and its instructions, from gungraun's summary (version 7) of one benchmark.
fn summary(summary: &Value) -> Option<(usize, u64)> {
    let index = summary["id"]
        .as_str()?
        .strip_prefix("path_")?
        .parse()
        .ok()?;
    let profiles = summary["profiles"].as_array()?;
    let callgrind = profiles
        .iter()
        .find(|profile| profile["tool"] == "Callgrind")?;
    let values = &callgrind["data"]["total"]["metrics"]["Ir"]["values"];
    Some((index, values["new"].as_u64()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_summary_gives_number_and_instructions() {
        let metrics = json!({"Ir": {"values": {"new": 115_029}}});
        let profile = json!({"tool": "Callgrind", "data": {"total": {"metrics": metrics}}});
        let text = json!({"id": "path_12", "profiles": [profile]});
        assert_eq!(summary(&text), Some((12, 115_029)));
    }

    #[test]
    fn anything_else_gives_none() {
        for text in [
            json!([]),
            json!({}),
            json!({"id": "path_1", "profiles": []}),
            json!({"id": "x_1"}),
        ] {
            assert_eq!(summary(&text), None);
        }
    }
}
