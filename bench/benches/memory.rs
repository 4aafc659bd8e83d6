//! Bytes per cached pod, counted exactly by dhat. Alone in its process, because the counter counts
//! every thread.

use podstorm_bench::memory::{Templates, bytes_per_pod, plain_bytes_per_pod};
use podstorm_bench::results::{Unit, is_smoke_test, record};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// What a figure is called, and what the pods have in common.
const FIGURES: [(&str, Templates); 3] = [
    ("pod-shared", Templates::Shared),
    ("pod-distinct", Templates::Distinct),
    ("pod-own-env", Templates::OwnEnv),
];

/// Pods that are counted; under the id of ten times as many, since the figure per pod is the same.
const PODS: usize = 10_000;

fn main() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let pods = if is_smoke_test() { 500 } else { PODS };
    for (name, templates) in FIGURES {
        record(
            &format!("memory/{name}/100000"),
            bytes_per_pod(templates, pods),
            Unit::Bytes,
        );
        record(
            &format!("memory/{name}-plain/100000"),
            plain_bytes_per_pod(templates, pods),
            Unit::Bytes,
        );
    }
}
