//! The machine of a run, and the resources that the process used, as far as they can be read.

use std::fs;

use crate::result::{Host, PodCounts};
use crate::settings::resolve::Machine;

/// The resource usage of the process and the machine at the start of a run.
#[derive(Debug)]
pub(super) struct Before {
    load_average: Option<[f64; 3]>,
    cpu_seconds: f64,
    other_cpu_seconds: Option<f64>,
}

impl Before {
    /// Reads the current resource usage.
    pub(super) fn now() -> Before {
        Before {
            load_average: load_average(),
            cpu_seconds: cpu_seconds().unwrap_or(0.0),
            other_cpu_seconds: other_cpu_seconds(),
        }
    }
}

/// Returns the machine and the resource usage of a run that took `wall_seconds` and created `pods`.
pub(super) fn of_run(wall_seconds: f64, pods: &PodCounts, before: &Before) -> Host {
    let machine = Machine::this();
    let others = before.other_cpu_seconds.zip(other_cpu_seconds());
    Host {
        wall_seconds,
        load_seconds: 0.0,
        cpu_seconds: (cpu_seconds().unwrap_or(0.0) - before.cpu_seconds).max(0.0),
        // Both values are read in ticks and at slightly different times, so the difference may be
        // negative.
        other_cpu_seconds: others.map(|(before, now)| (now - before).max(0.0)),
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
        load_average_before: before.load_average,
        load_average_after: load_average(),
    }
}

/// Returns the load averages of the machine over 1, 5 and 15 minutes; `None` if they can't be read.
fn load_average() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    let mut next = || fields.next()?.ok();
    Some([next()?, next()?, next()?])
}

/// The ticks per second in which Linux reports CPU time.
const TICKS_PER_SECOND: f64 = 100.0;

/// Returns the CPU time of other processes on the machine, plus the time that a hypervisor
/// withheld. `None` if it can't be read, or if the process may use only some of the processors: the
/// load of the others is then irrelevant.
fn other_cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let of_processor = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    if stat.lines().filter(of_processor).count() != Machine::this().cpus {
        return None;
    }
    Some((busy_seconds(&stat)? - cpu_seconds()?).max(0.0))
}

/// Returns the CPU time for which a machine was busy, from the text of its `/proc/stat`; `None` if
/// the text can't be parsed.
fn busy_seconds(stat: &str) -> Option<f64> {
    let all = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Result<Vec<f64>, _> = all.split_ascii_whitespace().map(str::parse).collect();
    // The fields are user, nice, system, idle, iowait, irq, softirq, steal; user and nice include
    // guests.
    match ticks.ok()?[..] {
        [user, nice, system, _, _, irq, softirq, steal, ..] => {
            Some((user + nice + system + irq + softirq + steal) / TICKS_PER_SECOND)
        }
        _ => None,
    }
}

/// Returns the CPU time of the process from `/proc/self/stat`; `None` if it can't be read.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the command may contain spaces, and ends with the last parenthesis. User and
    // system time are fields 14 and 15, in ticks.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS_PER_SECOND)
}

/// Returns a number in kB from `/proc/self/status`; `None` if it can't be read.
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
    fn the_usage_of_the_process_is_known() {
        assert!(cpu_seconds().is_some_and(|seconds| seconds >= 0.0));
        assert!(status_kilobytes("VmHWM:").is_some_and(|kilobytes| kilobytes > 0));
    }

    #[test]
    fn busy_time_excludes_idle_and_iowait() {
        let stat = "cpu  100 200 300 9000 9000 40 50 60 100 200\ncpu0 1 2 3\n";
        assert_eq!(busy_seconds(stat), Some(7.5));
        assert_eq!(busy_seconds("cpu  1 2 3\n"), None);
        assert_eq!(busy_seconds("intr 1\n"), None);
    }

    #[test]
    fn a_run_counts_only_usage_after_its_start() {
        let before = Before {
            load_average: None,
            cpu_seconds: cpu_seconds().unwrap_or(0.0) + 1e6,
            other_cpu_seconds: Some(0.0),
        };
        assert_eq!(of_run(1.0, &PodCounts::default(), &before).cpu_seconds, 0.0);
    }
}
