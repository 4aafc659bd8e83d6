//! The memory limit of the process: samples its memory ten times a second for the API server, which
//! refuses expensive requests before the system would kill the process.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use podstorm_http::Memory;

use crate::settings::memory::memory_of_machine;

/// The sampling interval. At a gigabyte a second the process grows by 100 MB in this time.
const EVERY: Duration = Duration::from_millis(100);
/// The share of the machine's memory that the process may use, in percent.
const SHARE: u64 = 90;
/// The share of the address space (`ulimit -v`) that the process may use, in percent. Threads and
/// the allocator reserve much of it without using memory: objects of a megabyte filled 30 % of
/// 1 GB, 55 % of 1.5 GB and more than 50 % of 3 GB.
const SHARE_OF_ADDRESSES: u64 = 25;

/// Returns how many bytes of memory the process may use; `None` if the system reports no limit.
fn limit() -> Option<u64> {
    let share = |bytes: u64, percent: u64| bytes / 100 * percent;
    let addresses = getrlimit(Resource::RLIMIT_AS).ok().map(|(soft, _)| soft);
    let of_addresses = addresses.map(|bytes| share(bytes, SHARE_OF_ADDRESSES));
    let of_machine = memory_of_machine().map(|bytes| share(bytes, SHARE));
    of_addresses.into_iter().chain(of_machine).min()
}

/// Samples the process's memory until this future is dropped, and reports it to the server. Returns
/// immediately if the system does not report the memory of a process, as only Linux does.
pub(crate) async fn observe(memory: Arc<Memory>, limit: Option<u64>) {
    if let Some(limit) = limit.or_else(self::limit) {
        while let Some(used) = used() {
            memory.set(used, limit);
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// Returns the resident memory of the process, in bytes; `None` if it can't be read.
fn used() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes << 10)
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn memory_is_measured_and_below_its_limit() {
        let (used, limit) = (used().expect("Linux tells"), limit().expect("Linux tells"));
        assert!((1 << 20..limit).contains(&used), "{used} of {limit}");
    }
}
