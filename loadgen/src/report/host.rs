//! The machine and what the process spent on it, as far as the system tells without system calls
//! of our own: on Linux from `/proc`, elsewhere zero or empty.

use std::fs;
use std::time::Instant;

use crate::result::{Host, PodCounts};

/// Real time since it was started.
#[derive(Clone, Copy, Debug)]
pub struct WallClock(Instant);

impl WallClock {
    /// Starts now.
    #[expect(
        clippy::disallowed_methods,
        reason = "wall time is the host's figure, not a run's"
    )]
    pub fn start() -> WallClock {
        WallClock(Instant::now())
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// The host's figures at the end of a run that took `wall_seconds`.
pub fn measure(wall_seconds: f64, pods: &PodCounts) -> Host {
    let writes = (pods.created + pods.deleted) as f64;
    Host {
        wall_seconds,
        cpu_seconds: cpu_seconds().unwrap_or(0.0),
        peak_memory_bytes: status_bytes("VmHWM:").unwrap_or(0),
        pods_per_second: if wall_seconds > 0.0 {
            writes / wall_seconds
        } else {
            0.0
        },
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
        cpu_model: cpu_model().unwrap_or_default(),
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        allocator: if cfg!(feature = "mimalloc") {
            "mimalloc"
        } else {
            "system"
        }
        .to_owned(),
    }
}

/// Clock ticks of `/proc/self/stat` in a second: fixed by the Linux ABI on every architecture.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of the process, user and system, seconds.
fn cpu_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field is the program's name in parentheses and may hold blanks.
    let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
    let ticks = |field: usize| fields.get(field)?.parse::<f64>().ok();
    // Fields 14 and 15 of the file, of which the first two are cut off.
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

fn status_bytes(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value
        .trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kibibytes| kibibytes * 1024)
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn linux_tells_time_and_memory() {
        let pods = PodCounts {
            created: 100,
            deleted: 100,
            ..PodCounts::default()
        };
        let host = measure(2.0, &pods);
        assert!(host.peak_memory_bytes > 100_000, "{host:?}");
        assert!(cpu_seconds().is_some());
        assert_eq!(host.pods_per_second, 100.0);
    }
}
