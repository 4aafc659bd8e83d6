//! Checks that valgrind and gungraun-runner are installed, and identifies the toolchain. If one of
//! them is missing or has the wrong version, the error states how to install it.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use super::measurement::Toolchain;
use crate::results::package_directory;

/// Returns the standard output of a program. The program must succeed.
///
/// # Errors
/// Fails if the program can't be started or fails. The message contains the program's output.
pub(super) fn output_of(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("`{shown}` failed ({}):\n{text}{errors}", output.status);
    }
    Ok(text.into_owned())
}

/// Formats the program and its arguments as one would type them.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name();
    let program = program.unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Checks that valgrind and the matching version of gungraun-runner are installed. Returns the
/// toolchain that determines the counts.
///
/// # Errors
/// Fails if either is missing, or if gungraun-runner has the wrong version.
pub(super) fn toolchain() -> Result<Toolchain> {
    let valgrind = output_of(Command::new("valgrind").arg("--version")).context(
        "cannot run valgrind, which counts the instructions; \
         install it (Debian: apt-get install valgrind)",
    )?;
    check_runner()?;
    let libc = output_of(Command::new("getconf").arg("GNU_LIBC_VERSION"));
    Ok(Toolchain {
        cpu: processor()?,
        libc: libc.map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned()),
        valgrind: valgrind.trim().trim_start_matches("valgrind-").to_owned(),
        // The same cargo builds the gate and the counting benches.
        ..Toolchain::of_build()
    })
}

fn check_runner() -> Result<()> {
    let lock = package_directory().join("../Cargo.lock");
    let text = std::fs::read_to_string(&lock).with_context(|| lock.display().to_string())?;
    let after = text.split_once("name = \"gungraun\"\nversion = \"");
    let wanted = after.and_then(|(_, after)| Some(after.split_once('"')?.0));
    let wanted = wanted.with_context(|| format!("{} has no gungraun", lock.display()))?;
    let install = format!("cargo install --locked gungraun-runner --version ={wanted}");
    let program = std::env::var_os("GUNGRAUN_RUNNER");
    let program = program.unwrap_or_else(|| "gungraun-runner".into());
    let text = output_of(Command::new(program).arg("--version")).with_context(|| {
        format!("cannot run gungraun-runner, which drives valgrind; install it: {install}")
    })?;
    let version = text.split_whitespace().last().unwrap_or("nothing");
    ensure!(
        version == wanted,
        "gungraun-runner has version {version}, but Cargo.lock needs {wanted}; \
         install it: {install}"
    );
    Ok(())
}

/// Returns the capabilities of the processor, as valgrind presents them to a program.
fn processor() -> Result<String> {
    const MARK: &str = "Arch and hwcaps: ";
    let mut command = Command::new("valgrind");
    command.args(["-v", "-v", "--tool=none", "true"]);
    let output = command.output().context("cannot start valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once(MARK));
    let abilities = line.map_or("unknown", |(_, abilities)| abilities.trim());
    Ok(abilities.to_owned())
}
