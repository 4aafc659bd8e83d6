//! Where figures come from: the machine and its load, the commit, the compiler.

use std::fs;
use std::process::Command;

use serde::Serialize;

use super::package_directory;

/// A machine, as far as Linux tells; unknown parts are empty or zero.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Processor: name, family and model.
    pub cpu_model: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Installed memory, bytes.
    pub memory_bytes: u64,
    /// Operating system and architecture.
    pub platform: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        let processor = || {
            let info = fs::read_to_string("/proc/cpuinfo").ok()?;
            let member = |name: &str| {
                let mut members = info.lines().filter_map(|line| line.split_once(':'));
                Some(
                    members
                        .find(|(key, _)| key.trim() == name)?
                        .1
                        .trim()
                        .to_owned(),
                )
            };
            // Virtual machines give one name to several generations.
            let numbers = (member("cpu family")?, member("model")?);
            let name = member("model name")?;
            Some(format!(
                "{name} (family {}, model {})",
                numbers.0, numbers.1
            ))
        };
        let memory = || {
            let info = fs::read_to_string("/proc/meminfo").ok()?;
            let line = info.lines().find(|line| line.starts_with("MemTotal:"))?;
            let kilobytes: u64 = line.split_ascii_whitespace().nth(1)?.parse().ok()?;
            Some(kilobytes * 1024)
        };
        Machine {
            cpu_model: processor().unwrap_or_default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory().unwrap_or_default(),
            platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        }
    }
}

/// Runnable threads on average over the last 1, 5 and 15 minutes; `None` where it can't be read.
pub fn load_average() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut words = text.split_ascii_whitespace();
    let mut next = || words.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

/// The state of the source tree.
#[derive(Clone, Debug, Serialize)]
pub struct Commit {
    /// Its hash; `unknown` outside a repository.
    pub hash: String,
    /// Whether files differ from it, the results themselves aside.
    pub dirty: bool,
}

impl Commit {
    /// What is checked out.
    pub fn here() -> Commit {
        let status = ["status", "--porcelain", "--", "..", ":!results"];
        Commit {
            hash: git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned()),
            dirty: git(&status).is_some_and(|changes| !changes.is_empty()),
        }
    }

    /// The first digits of the hash.
    pub fn short(&self) -> &str {
        self.hash.get(..7).unwrap_or(&self.hash)
    }

    /// The first digits, and a mark when files differ.
    pub fn text(&self) -> String {
        let mark = if self.dirty { ", with changes" } else { "" };
        format!("{}{mark}", self.short())
    }
}

/// The last commit of this history that was made before a moment, in seconds since the Unix epoch.
pub fn commit_before(unix_seconds: u64) -> Option<String> {
    let before = format!("--before=@{unix_seconds}");
    git(&["log", "-1", "--format=%h", &before]).filter(|hash| !hash.is_empty())
}

fn git(arguments: &[&str]) -> Option<String> {
    output(Command::new("git").args(arguments))
}

/// The compiler's name and version.
pub fn rustc_version() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    output(Command::new(rustc).arg("--version")).unwrap_or_else(|| "unknown".to_owned())
}

/// What a command prints, in this package's folder; `None` where it fails.
fn output(command: &mut Command) -> Option<String> {
    let output = command.current_dir(package_directory()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_and_the_compiler_are_known() {
        let machine = Machine::here();
        assert!(machine.cores > 0);
        assert!(rustc_version().starts_with("rustc "));
    }
}
