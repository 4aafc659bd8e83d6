//! The instructions of every hot path, counted by callgrind through gungraun. The set-up and the
//! rounds before the steady state are not counted. The gate runs this program, which needs valgrind
//! and the `gungraun-runner` of the same version as gungraun.
//!
//! Each path is set up and called in a thread of its own, whose stack and heap begin at addresses
//! that do not depend on the length of the command line or on earlier allocations. This matters
//! because libc compares a string differently depending on its distance from the end of its page,
//! which changed the counts of small paths by 5 %.
#![expect(missing_docs, reason = "gungraun's macros emit undocumented items")]

use std::hint::black_box;
use std::thread;

use gungraun::prelude::*;
use gungraun::{Callgrind, EntryPoint};
use podstorm_bench::hot::{self, HotPath, Operation};

/// The stack size in bytes, sufficient for the deepest path.
const STACK_BYTES: usize = 64 << 20;

/// The counted part. Callgrind finds it by the name of this function.
#[inline(never)]
fn counted_calls(operation: &mut Operation, calls: u32) -> u64 {
    let mut sum = 0_u64;
    for _ in 0..calls {
        sum = sum.wrapping_add(operation.call());
    }
    sum
}

// The gate finds path number N of `hot::paths()` under the id `path_N`.
#[library_benchmark(
    config = LibraryBenchmarkConfig::default()
        .tool(
            Callgrind::with_args(["--cache-sim=no", "--branch-sim=no"])
                .entry_point(EntryPoint::Custom("*::counted_calls".to_owned()))
        )
        .pass_through_env(hot::planted::ASKED)
)]
#[benches::path(iter = hot::paths())]
fn count(path: HotPath) -> u64 {
    hot::on_one_core();
    let thread = thread::Builder::new().stack_size(STACK_BYTES);
    let counting = thread.spawn(move || {
        let mut operation = path.steady();
        counted_calls(black_box(&mut operation), black_box(path.calls))
    });
    let sum = counting.expect("a thread can be started").join();
    sum.expect("a hot path doesn't panic")
}

library_benchmark_group!(name = paths, benchmarks = count);
main!(library_benchmark_groups = paths);
