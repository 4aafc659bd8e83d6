//! Instructions of every hot path, counted by callgrind through gungraun: what is set up and the
//! rounds before the steady state are left out. The gate runs it; it needs valgrind and
//! `gungraun-runner` of gungraun's version.
#![expect(missing_docs, reason = "gungraun's macros emit undocumented items")]

use std::hint::black_box;

use gungraun::Callgrind;
use gungraun::prelude::*;
use podstorm_bench::hot::{self, HotPath, Operation};

/// The path in its steady state, and how often it is called.
fn steady(path: HotPath) -> (Operation, u32) {
    hot::on_one_core();
    (path.steady(), path.calls)
}

/// What is taken down is not counted.
fn drop_outside(state: (Operation, u64)) {
    drop(black_box(state));
}

// The gate finds path number N of `hot::paths()` under the id `path_N`.
#[library_benchmark(
    config = LibraryBenchmarkConfig::default()
        .tool(Callgrind::with_args(["--cache-sim=no", "--branch-sim=no"]))
)]
#[benches::path(iter = hot::paths(), setup = steady, teardown = drop_outside)]
fn count((mut operation, calls): (Operation, u32)) -> (Operation, u64) {
    let mut sum = 0_u64;
    for _ in 0..calls {
        sum = sum.wrapping_add(operation());
    }
    (operation, sum)
}

library_benchmark_group!(name = paths, benchmarks = count);
main!(library_benchmark_groups = paths);
