//! How much memory the process uses, and may: looked at ten times a second for the API server, which refuses what takes
//! more before the system ends the process.

use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit};
use podstorm_http::Memory;

use crate::settings::memory::memory_of_machine;

/// How often the process is looked at. At a gigabyte a second it grows by 100 MB meanwhile.
const EVERY: Duration = Duration::from_millis(100);
/// Of what the system lets the process have, the share that the server fills, percent.
const SHARE: u64 = 90;
/// The same of addresses (`ulimit -v`), of which threads and the allocator keep many that no memory stands behind:
/// objects of a megabyte filled 30 % of 1 GB, 55 % of 1.5 GB and more than 50 % of 3 GB.
const SHARE_OF_ADDRESSES: u64 = 25;

/// What the process may use, bytes. `None`: the system does not say.
fn limit() -> Option<u64> {
    let share = |bytes: u64, percent: u64| bytes / 100 * percent;
    let addresses = getrlimit(Resource::RLIMIT_AS).ok().map(|(soft, _)| soft);
    let of_addresses = addresses.map(|bytes| share(bytes, SHARE_OF_ADDRESSES));
    let of_machine = memory_of_machine().map(|bytes| share(bytes, SHARE));
    of_addresses.into_iter().chain(of_machine).min()
}

/// Looks at the process until this is dropped, and tells the server's memory. Does nothing where the system does not
/// tell what a process uses, as Linux does.
pub(crate) async fn observe(memory: Arc<Memory>, limit: Option<u64>) {
    if let Some(limit) = limit.or_else(self::limit) {
        while let Some(used) = used() {
            memory.set(used, limit);
            tokio::time::sleep(EVERY).await;
        }
    }
}

/// Resident bytes of the process.
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
    fn the_process_is_seen_and_has_a_limit_that_it_does_not_reach() {
        let (used, limit) = (used().expect("Linux tells"), limit().expect("Linux tells"));
        assert!((1 << 20..limit).contains(&used), "{used} of {limit}");
    }
}
