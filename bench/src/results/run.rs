//! The run to which a table belongs: when and how its figures were measured, and the time from
//! which figures count as measured with these sources.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use podstorm::object::Time;
use podstorm_loadgen::result::Build;
use serde::Serialize;

use super::machine::{Commit, Machine, load_average};
use super::package_directory;

/// The environment variable (with any value) that tells benches that their caller prints the table.
pub const TABLE_ELSEWHERE: &str = "PODSTORM_TABLE_ELSEWHERE";

/// The circumstances of a run.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The command that repeats the run.
    pub command: String,
    /// The end of the run in UTC.
    pub date: String,
    /// The commit that was checked out.
    pub commit: Commit,
    /// The version of the compiler.
    pub rustc: String,
    /// The machine.
    pub machine: Machine,
    /// The load average before the run, if known. It does not include the run's own threads.
    pub load_before: Option<[f64; 3]>,
    /// The load average after the run, if known.
    pub load_after: Option<[f64; 3]>,
    /// The time from which a figure counts as part of this run, in words.
    pub fresh_since: String,
}

impl Run {
    /// Returns a run that begins now. Its end is not known yet.
    pub fn begin(command: String) -> Run {
        Run {
            command,
            date: String::new(),
            commit: Commit::here(),
            rustc: Build::this().rustc,
            machine: Machine::here(),
            load_before: load_average(),
            load_after: None,
            fresh_since: String::new(),
        }
    }

    /// Completes the data of a run that has ended.
    pub fn end(&mut self, now: SystemTime) {
        self.date = date_text(now);
        self.load_after = load_average();
    }
}

/// Formats a time in UTC.
pub fn date_text(moment: SystemTime) -> String {
    let seconds = unix_seconds(moment);
    Time::from_unix_seconds(i64::try_from(seconds).unwrap_or(i64::MAX)).to_string()
}

/// Converts a time to seconds since the Unix epoch; 0 if it is earlier.
pub fn unix_seconds(moment: SystemTime) -> u64 {
    moment
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or(Duration::ZERO)
        .as_secs()
}

/// Returns the current time, for dates and the age of files.
pub fn now() -> SystemTime {
    let wall_ns = podstorm_sim::clock::RealClock::start().now().wall_ns;
    SystemTime::UNIX_EPOCH + Duration::from_nanos(u64::try_from(wall_ns).unwrap_or(0))
}

/// The sources on which the figures depend, relative to this package.
const SOURCES: [&str; 5] = [
    "../core/src",
    "../loadgen/src",
    "src/hot",
    "benches",
    "../Cargo.lock",
];

/// Returns the time at which the sources of the figures last changed. Figures from before were
/// measured with another program.
pub fn sources_changed() -> SystemTime {
    let newest = SOURCES
        .iter()
        .filter_map(|source| newest(&package_directory().join(source)));
    newest.max().unwrap_or(SystemTime::UNIX_EPOCH)
}

fn newest(path: &Path) -> Option<SystemTime> {
    let metadata = fs::metadata(path).ok()?;
    if !metadata.is_dir() {
        return metadata.modified().ok();
    }
    let entries = fs::read_dir(path).ok()?.flatten();
    entries.filter_map(|entry| newest(&entry.path())).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sources_changed_in_the_past() {
        let changed = sources_changed();
        assert!(changed > SystemTime::UNIX_EPOCH);
        assert!(changed <= now() + Duration::from_secs(60));
    }

    #[test]
    fn dates_are_utc() {
        let moment = SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_921_233);
        assert_eq!(date_text(moment), "2026-03-07T22:07:13Z");
    }
}
