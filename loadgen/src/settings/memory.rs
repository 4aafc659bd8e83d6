//! Checks whether a cluster of a given size fits in the machine: estimates the memory that the run
//! needs, and reads the available memory.

use super::ClusterSize;
use crate::units::{bytes_for_people, counted};

/// Bytes that every run needs: program, histograms, queues.
const BASE_BYTES: u64 = 24 << 20;

/// Bytes per pod: the server's copy, the controllers' index entries and ranking fields, the
/// kubelet's record, and a share of the watch log for creation and deletion. Whole runs of
/// `up-down` with a node for every 20 pods and a ReplicaSet for every 50 peaked at 1,160 to 1,250
/// bytes per pod.
const BYTES_PER_POD: u64 = 1_300;

/// Bytes per workload: object, template, totals, expectations, queue slot.
const BYTES_PER_WORKLOAD: u64 = 6_000;

/// Bytes per node.
const BYTES_PER_NODE: u64 = 1_500;

/// Bytes per namespace: the object and the index tables.
const BYTES_PER_NAMESPACE: u64 = 1_000;

/// Estimates the peak memory of a run with a cluster of this size, in bytes; saturates.
pub fn estimate_bytes(size: &ClusterSize) -> u64 {
    [
        (size.pods, BYTES_PER_POD),
        (size.workloads(), BYTES_PER_WORKLOAD),
        (size.nodes, BYTES_PER_NODE),
        (size.namespaces, BYTES_PER_NAMESPACE),
    ]
    .into_iter()
    .fold(BASE_BYTES, |sum, (count, bytes)| {
        sum.saturating_add(count.saturating_mul(bytes))
    })
}

/// Returns the memory available to this process, in bytes: that of the machine or, if it is less,
/// that of the process's control group. `None` if the system does not report it.
pub fn memory_of_machine() -> Option<u64> {
    let limits = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ];
    let limits = limits.iter().filter_map(|path| {
        std::fs::read_to_string(path)
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    });
    limits.chain(memory_total()).min()
}

fn memory_total() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Explains why a cluster of this size does not fit in this memory; `None` if it fits.
pub fn shortage(size: &ClusterSize, memory_bytes: u64) -> Option<String> {
    let needed = estimate_bytes(size);
    (needed > memory_bytes).then(|| {
        let fitting = memory_bytes.saturating_sub(BASE_BYTES) / (BYTES_PER_POD + 200);
        format!(
            "{} would take about {} of memory and this machine has {}; about {} fit",
            counted(size.pods, "pod"),
            bytes_for_people(needed),
            bytes_for_people(memory_bytes),
            counted(fitting / 1000 * 1000, "pod"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use podstorm_objects::Kind;

    use crate::workloads::{SizedKind, WorkloadCount, WorkloadCounts};

    fn size(pods: u64) -> ClusterSize {
        ClusterSize {
            pods,
            counts: WorkloadCounts(vec![WorkloadCount {
                kind: Kind::REPLICA_SET,
                sizes: SizedKind::of(Kind::REPLICA_SET).sizes,
                count: pods / 50,
            }]),
            nodes: pods / 20,
            zones: None,
            node_cpu: None,
            node_memory: None,
            namespaces: 100,
            pods_per_node: 110,
            groups: Vec::new(),
            pods_asked: None,
        }
    }

    #[test]
    fn a_size_beyond_memory_is_refused_with_both_numbers() {
        assert_eq!(shortage(&size(100_000), 8_000_000_000), None);
        let text = shortage(&size(1_000_000_000), 8_000_000_000).unwrap();
        assert!(text.contains("1,000,000,000 pods"), "{text}");
        assert!(text.contains("8 GB"), "{text}");
        assert!(estimate_bytes(&size(u64::MAX / 2)) == u64::MAX);
    }
}
