//! Whole runs of the `loadgen` command as child processes, and what each of them spent.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use podstorm_sim::clock::RealClock;
use serde_json::Value;

use crate::results::{package_directory, target_directory};

/// What one run spent and said.
#[derive(Debug)]
pub struct Spent {
    /// From the start of the process to its end, seconds: what the result's own figure leaves out,
    /// such as freeing a million pods, included.
    pub wall_seconds: f64,
    /// CPU time of the whole process, user and system, seconds.
    pub cpu_seconds: f64,
    /// Most memory resident, bytes; 0 where the result doesn't tell.
    pub peak_memory_bytes: f64,
    /// The result.
    pub result: Value,
    /// The result as it was written.
    pub text: Vec<u8>,
}

impl Spent {
    /// Returns a number of the result, by its path (`/pods/created`).
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn number(&self, path: &str) -> anyhow::Result<f64> {
        let value = self.result.pointer(path).and_then(Value::as_f64);
        value.with_context(|| format!("the result has no number {path}"))
    }

    /// Returns a member of a phase of the result, by the phase's name.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn phase(&self, name: &str, member: &str) -> anyhow::Result<f64> {
        let phases = self.result["phases"].as_array();
        let mut phases = phases.into_iter().flatten();
        let value = phases
            .find(|phase| phase["name"] == name)
            .and_then(|phase| phase[member].as_f64());
        value.with_context(|| format!("the result has no phase {name:?} with {member}"))
    }
}

/// With the features of the whole workspace, and by an example with those of tests: what benches and tests were built
/// of serves the program too, and only that is linked.
const AS_BENCHES: &[&str] = &["--workspace", "--example", "replica_set_name"];

/// Builds the release binary of `loadgen` when it is not up to date; where it is.
///
/// # Errors
///
/// Where it can't be built.
pub fn loadgen() -> anyhow::Result<PathBuf> {
    build(&["--release"])
}

/// As [`loadgen`] with further flags of cargo, to the same place.
///
/// # Errors
///
/// Where it can't be built.
pub fn loadgen_with(flags: &[&str]) -> anyhow::Result<PathBuf> {
    build(&[&["--release"], flags].concat())
}

/// As [`loadgen`], in the profile that this program was built in: under `cargo test` that of its tests, for
/// which it is there already.
///
/// # Errors
///
/// Where it can't be built.
pub fn loadgen_as_built() -> anyhow::Result<PathBuf> {
    if cfg!(debug_assertions) {
        build(&[])
    } else {
        loadgen()
    }
}

fn build(flags: &[&str]) -> anyhow::Result<PathBuf> {
    let target = target_directory();
    let status = crate::cargo()
        .current_dir(package_directory().join(".."))
        .args(["build", "--quiet", "--bin", "loadgen", "--target-dir"])
        .arg(&target)
        .args(AS_BENCHES)
        .args(flags)
        .status()
        .context("cargo build")?;
    ensure!(status.success(), "loadgen could not be built");
    let folder = if flags.contains(&"--release") {
        "release"
    } else {
        "debug"
    };
    Ok(target
        .join(folder)
        .join(format!("loadgen{}", std::env::consts::EXE_SUFFIX)))
}

/// One run: `loadgen run` with these arguments, separated by spaces, quietly.
///
/// # Errors
///
/// Where it doesn't start, or doesn't meet its condition.
pub fn run(binary: &Path, arguments: &str) -> anyhow::Result<Spent> {
    call(binary, &format!("run {arguments}"))
}

/// As [`run`], for any subcommand that takes `--quiet` and `--json`.
///
/// # Errors
///
/// Where it doesn't start, or ends with a status other than 0.
pub fn call(binary: &Path, arguments: &str) -> anyhow::Result<Spent> {
    let (clock, cpu_before) = (RealClock::start(), children_cpu_seconds()?);
    let output = Command::new(binary)
        .args(arguments.split_whitespace())
        .args(["--quiet", "--json", "-"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| binary.display().to_string())?;
    let wall_seconds = clock.seconds();
    let cpu_seconds = children_cpu_seconds()? - cpu_before;
    ensure!(
        output.status.success(),
        "loadgen {arguments} ended with {}",
        output.status
    );
    let result: Value = serde_json::from_slice(&output.stdout).context("the result of a run")?;
    let peak = result.pointer("/host/peak_memory_bytes");
    Ok(Spent {
        wall_seconds,
        cpu_seconds,
        peak_memory_bytes: peak.and_then(Value::as_f64).unwrap_or(0.0),
        result,
        text: output.stdout,
    })
}

/// CPU time of the child processes that have ended and were waited for, seconds.
fn children_cpu_seconds() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("the CPU time of children")?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_is_counted_when_they_have_ended() {
        let before = children_cpu_seconds().unwrap();
        let status = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();
        assert!(status.success());
        assert!(children_cpu_seconds().unwrap() > before);
    }
}
