//! The origin of figures: the machine and its load, the commit, and the compiler.

use std::fs;
use std::process::Command;

use serde::Serialize;

use super::package_directory;

/// A machine, as described by Linux. Unknown parts are empty or zero.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name, family, model and stepping.
    pub cpu_model: String,
    /// The number of processors that this process may use.
    pub cores: usize,
    /// The installed memory, in bytes.
    pub memory_bytes: u64,
    /// The operating system and the architecture.
    pub platform: String,
}

impl Machine {
    /// Returns the description of this machine.
    pub fn here() -> Machine {
        // Returns the first value of a member in a file with lines of the form `member : value`.
        let member = |file: &str, name: &str| {
            let text = fs::read_to_string(file).ok()?;
            let mut members = text.lines().filter_map(|line| line.split_once(':'));
            let found = members.find(|(key, _)| key.trim() == name)?;
            Some(found.1.trim().to_owned())
        };
        let processor = || {
            let of = |name| member("/proc/cpuinfo", name);
            // Virtual machines use one name for several generations, so add the numbers.
            let (name, family, model) = (of("model name")?, of("cpu family")?, of("model")?);
            let stepping = of("stepping")?;
            Some(format!(
                "{name} (family {family}, model {model}, stepping {stepping})"
            ))
        };
        let memory = || {
            let text = member("/proc/meminfo", "MemTotal")?;
            let kilobytes: u64 = text.split_ascii_whitespace().next()?.parse().ok()?;
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

/// Returns the average number of runnable threads over the last 1, 5 and 15 minutes; `None` if it
/// can't be read.
pub fn load_average() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut words = text.split_ascii_whitespace();
    let mut next = || words.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

/// The state of the source tree.
#[derive(Clone, Debug, Serialize)]
pub struct Commit {
    /// The hash; `unknown` outside a repository.
    pub hash: String,
    /// Whether files differ from the commit, apart from the results.
    pub dirty: bool,
}

impl Commit {
    /// Returns the commit that is checked out, and whether there are changes.
    pub fn here() -> Commit {
        let status = ["status", "--porcelain", "--", "..", ":!results"];
        Commit {
            hash: git(&["rev-parse", "HEAD"]).unwrap_or_else(|| "unknown".to_owned()),
            dirty: git(&status).is_some_and(|changes| !changes.is_empty()),
        }
    }

    /// Returns the first digits of the hash.
    pub fn short(&self) -> &str {
        self.hash.get(..7).unwrap_or(&self.hash)
    }

    /// Returns the first digits of the hash, and a mark if there are changes.
    pub fn text(&self) -> String {
        let mark = if self.dirty { ", with changes" } else { "" };
        format!("{}{mark}", self.short())
    }
}

/// Returns the last commit in this history before a time, in seconds since the Unix epoch; `None`
/// if git fails.
pub fn commit_before(unix_seconds: u64) -> Option<String> {
    let before = format!("--before=@{unix_seconds}");
    git(&["log", "-1", "--format=%h", &before]).filter(|hash| !hash.is_empty())
}

/// Returns the output of git in this package's folder; `None` if git fails.
fn git(arguments: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    let git = git.args(arguments).current_dir(package_directory());
    let output = git.output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
