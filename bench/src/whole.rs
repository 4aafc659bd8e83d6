//! Whole runs of the `loadgen` command as child processes, and the resources that each run used.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use podstorm_sim::clock::RealClock;
use serde_json::Value;

use crate::results::{package_directory, target_directory};

/// The result of a run, and the resources that the run used.
#[derive(Debug)]
pub struct Spent {
    /// The time from the start to the end of the process, in seconds. Includes work that the
    /// result's own duration does not, such as freeing a million pods.
    pub wall_seconds: f64,
    /// The CPU time of the whole process, user and system, in seconds.
    pub cpu_seconds: f64,
    /// The maximum resident memory in bytes; 0 if the result does not contain it.
    pub peak_memory_bytes: f64,
    /// The result, as parsed JSON.
    pub result: Value,
    /// The result, as the text that the process wrote.
    pub text: Vec<u8>,
}

impl Spent {
    /// Returns a number in the result by its path, e.g. `/pods/created`.
    ///
    /// # Errors
    /// Fails if there is no such number.
    pub fn number(&self, path: &str) -> anyhow::Result<f64> {
        let value = self.result.pointer(path).and_then(Value::as_f64);
        value.with_context(|| format!("the result has no number {path}"))
    }

    /// Returns a number in a phase of the result, by the names of the phase and the member.
    ///
    /// # Errors
    /// Fails if there is no such number.
    pub fn phase(&self, name: &str, member: &str) -> anyhow::Result<f64> {
        let phases = self.result["phases"].as_array();
        let mut phases = phases.into_iter().flatten();
        let value = phases
            .find(|phase| phase["name"] == name)
            .and_then(|phase| phase[member].as_f64());
        value.with_context(|| format!("the result has no phase {name:?} with {member}"))
    }
}

/// Flags for cargo: the features of the whole workspace and, through an example, those of tests.
/// With them, the program reuses the builds of benches and tests, and only needs to be linked.
const AS_BENCHES: &[&str] = &["--workspace", "--example", "replica_set_name"];

/// Builds the release binary of `loadgen` if it is out of date. Returns the path of the binary.
///
/// # Errors
/// Fails if the build fails.
pub fn loadgen() -> anyhow::Result<PathBuf> {
    build(&["--release"])
}

/// Like [`loadgen`], with further flags for cargo. The path is the same.
///
/// # Errors
/// Fails if the build fails.
pub fn loadgen_with(flags: &[&str]) -> anyhow::Result<PathBuf> {
    build(&[&["--release"], flags].concat())
}

/// Like [`loadgen`], in the profile of this program. Under `cargo test`, this is the profile of the
/// tests, for which `loadgen` has already been built.
///
/// # Errors
/// Fails if the build fails.
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

/// Runs `loadgen run` with these arguments, which are separated by spaces, and without output.
///
/// # Errors
/// Fails if the process doesn't start or if the run doesn't meet its condition.
pub fn run(binary: &Path, arguments: &str) -> anyhow::Result<Spent> {
    call(binary, &format!("run {arguments}"))
}

/// Like [`run`], for any subcommand that accepts `--quiet` and `--json`.
///
/// # Errors
/// Fails if the process doesn't start, or ends with a status other than 0.
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
        "loadgen {arguments} failed: {}",
        output.status
    );
    let result: Value =
        serde_json::from_slice(&output.stdout).context("cannot read the result of the run")?;
    let peak = result.pointer("/host/peak_memory_bytes");
    Ok(Spent {
        wall_seconds,
        cpu_seconds,
        peak_memory_bytes: peak.and_then(Value::as_f64).unwrap_or(0.0),
        result,
        text: output.stdout,
    })
}

/// Returns the total CPU time, in seconds, of the child processes that have ended and were waited
/// for.
fn children_cpu_seconds() -> anyhow::Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)
        .context("cannot read the CPU time of child processes")?;
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_children_counts_once_they_have_ended() {
        let before = children_cpu_seconds().unwrap();
        let status = Command::new("sh")
            .args(["-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
            .status()
            .unwrap();
        assert!(status.success());
        assert!(children_cpu_seconds().unwrap() > before);
    }
}
