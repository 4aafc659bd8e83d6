//! The programs that the gate needs: whether they are there and which they are. Every error says how to
//! mend it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::measurement::Toolchain;

/// Where the workspace lies and where cargo builds it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(super) root: PathBuf,
    #[serde(rename = "target_directory")]
    pub(super) target: PathBuf,
    packages: Vec<Package>,
}

#[derive(Clone, Debug, Deserialize)]
struct Package {
    name: String,
}

/// Cargo: the one that runs us, or the one in `PATH`.
pub(super) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The workspace around the current directory.
///
/// # Errors
/// No cargo, no workspace there, or another one.
pub(super) fn workspace() -> Result<Workspace> {
    let mut command = cargo();
    command.args(["metadata", "--no-deps", "--format-version", "1"]);
    let text =
        output_of(&mut command).context("run this where cargo and podstorm's sources are")?;
    let workspace: Workspace =
        serde_json::from_str(&text).context("cargo metadata speaks another language")?;
    if !workspace
        .packages
        .iter()
        .any(|package| package.name == "podstorm-bench")
    {
        bail!(
            "{} is not podstorm's workspace; run the gate inside it",
            workspace.root.display()
        );
    }
    Ok(workspace)
}

/// Standard output of a program that must succeed.
///
/// # Errors
/// It can't be started or fails; its standard error is in the message.
pub(super) fn output_of(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command
        .output()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = match said.trim_end() {
            "" => String::new(),
            said => format!(":\n{said}"),
        };
        bail!("`{shown}` failed ({}){said}", output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Program and arguments as one would type them.
pub(super) fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name();
    let program = program.unwrap_or(command.get_program());
    let words = std::iter::once(program).chain(command.get_args());
    let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
    words.join(" ")
}

/// Finds valgrind and the runner of gungraun's version, and fills in what the machine adds to a toolchain.
///
/// # Errors
/// One of them is not there or of a wrong version.
pub(super) fn machine(workspace: &Workspace, mut toolchain: Toolchain) -> Result<Toolchain> {
    let valgrind = output_of(Command::new("valgrind").arg("--version")).context(
        "instructions are counted by valgrind, which doesn't run here; \
         install it (Debian: apt-get install valgrind)",
    )?;
    toolchain.valgrind = valgrind.trim().trim_start_matches("valgrind-").to_owned();
    check_runner(workspace)?;
    toolchain.cpu = processor()?;
    toolchain.libc = output_of(Command::new("getconf").arg("GNU_LIBC_VERSION"))
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned());
    Ok(toolchain)
}

fn check_runner(workspace: &Workspace) -> Result<()> {
    let wanted = locked_version(&workspace.root, "gungraun")?;
    let install = format!("cargo install --locked gungraun-runner --version ={wanted}");
    let program = std::env::var_os("GUNGRAUN_RUNNER");
    let program: OsString = program.unwrap_or_else(|| "gungraun-runner".into());
    let said = output_of(Command::new(program).arg("--version")).with_context(|| {
        format!(
            "valgrind is driven by gungraun-runner, which doesn't run here; install it: {install}"
        )
    })?;
    let version = said.split_whitespace().last().unwrap_or("nothing");
    if version != wanted {
        bail!(
            "gungraun-runner is of version {version}, and Cargo.lock holds gungraun {wanted}; \
             install the one that fits: {install}"
        );
    }
    Ok(())
}

#[derive(Deserialize)]
struct Lock {
    package: Vec<Locked>,
}

#[derive(Deserialize)]
struct Locked {
    name: String,
    version: String,
}

fn locked_version(root: &Path, name: &str) -> Result<String> {
    let path = root.join("Cargo.lock");
    let text = fs::read_to_string(&path).with_context(|| format!("{}", path.display()))?;
    let lock: Lock = toml::from_str(&text).with_context(|| format!("{}", path.display()))?;
    let found = lock.package.into_iter().find(|locked| locked.name == name);
    found
        .map(|locked| locked.version)
        .with_context(|| format!("{} holds no {name}", path.display()))
}

/// The processor's abilities as valgrind shows them to the program it runs.
fn processor() -> Result<String> {
    const MARK: &str = "Arch and hwcaps: ";
    let mut command = Command::new("valgrind");
    command.args(["-v", "-v", "--tool=none", "true"]);
    let output = command.output().context("cannot start valgrind")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().find_map(|line| line.split_once(MARK));
    Ok(line
        .map_or("unknown", |(_, abilities)| abilities.trim())
        .to_owned())
}
