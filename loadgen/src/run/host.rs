//! The machine a run was made on, and what the process spent of it, as far as it can be read.

use std::fs;

use crate::result::{Host, PodCounts};
use crate::settings::resolve::Machine;

/// The machine and its costs of a run that took `wall_seconds` and made `pods`.
pub(super) fn of_run(
    wall_seconds: f64,
    pods: &PodCounts,
    load_average_before: Option<[f64; 3]>,
) -> Host {
    let machine = Machine::this();
    Host {
        wall_seconds,
        load_seconds: 0.0,
        cpu_seconds: cpu_seconds().unwrap_or(0.0),
        peak_memory_bytes: status_kilobytes("VmHWM:").map_or(0, |kilobytes| kilobytes * 1024),
        pods_per_second: (pods.created + pods.deleted) as f64 / wall_seconds.max(1e-9),
        cpus: machine.cpus,
        cpu_model: cpu_model().unwrap_or_default(),
        platform: format!("{}-{}", std::env::consts::OS, std::env::consts::ARCH),
        allocator: if cfg!(feature = "mimalloc") {
            "mimalloc"
        } else {
            "system"
        }
        .to_owned(),
        memory_bytes: machine.memory_bytes.unwrap_or(0),
        load_average_before,
        load_average_after: load_average(),
    }
}

/// Load averages of the machine over 1, 5 and 15 minutes; `None` where they can't be read.
pub(super) fn load_average() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    let mut next = || fields.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// CPU time of the process from `/proc/self/stat`; `None` where there is none.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The command's name may hold spaces; it ends with the last parenthesis. User and system time
    // are the 14th and 15th fields, in ticks of which Linux shows 100 a second.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / 100.0)
}

/// A number from `/proc/self/status`; `None` where there is none.
fn status_kilobytes(name: &str) -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn cpu_model() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_knows_what_it_spent() {
        assert!(cpu_seconds().is_some_and(|seconds| seconds >= 0.0));
        assert!(status_kilobytes("VmHWM:").is_some_and(|kilobytes| kilobytes > 0));
    }
}
