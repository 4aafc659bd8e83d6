//! Allocations of every hot path in its steady state, counted exactly by dhat. Alone in its process, because
//! the counter counts every thread.
//!
//! `--json` prints what the gate reads, and counts only under the ids given as `--only PREFIX`.

use std::hint::black_box;
use std::io::{self, Write};
use std::process::ExitCode;

use podstorm_bench::gate::is_under;
use podstorm_bench::gate::measurement::{AllocationReport, PathReport, Toolchain, per_call};
use podstorm_bench::hot::{self, HotPath};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn main() -> ExitCode {
    let _profiler = dhat::Profiler::builder().testing().build();
    hot::on_one_core();
    // Cargo adds `--bench`, and a smoke run `--test`; there is nothing here that could be shorter.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut only = None;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if argument == "--only" {
            only = rest.next();
        }
    }
    let paths = hot::paths().into_iter().map(|path| PathReport {
        id: path.id.to_owned(),
        calls: path.calls,
        allocation_free: path.allocation_free,
        blocks: only
            .is_none_or(|only| is_under(path.id, only))
            .then(|| count(&path)),
    });
    let report = AllocationReport {
        toolchain: Toolchain::of_build(),
        paths: paths.collect(),
    };
    let mut output = io::stdout().lock();
    if arguments.iter().any(|argument| argument == "--json") {
        let text = serde_json::to_string(&report).expect("texts and numbers become JSON");
        return status(writeln!(output, "{text}").is_ok());
    }
    let mut is_kept = true;
    for path in &report.paths {
        let Some(blocks) = path.blocks else { continue };
        let broken = path.allocation_free && blocks > 0;
        is_kept &= !broken;
        let note = if broken {
            "  claims to allocate nothing"
        } else {
            ""
        };
        let figure = per_call(blocks, path.calls);
        is_kept &= writeln!(output, "{:<40} {figure:>14} blocks/call{note}", path.id).is_ok();
    }
    status(is_kept)
}

fn status(is_good: bool) -> ExitCode {
    if is_good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Blocks allocated in `calls` calls.
fn count(path: &HotPath) -> u64 {
    let mut operation = path.steady();
    let before = dhat::HeapStats::get().total_blocks;
    for _ in 0..path.calls {
        black_box(operation());
    }
    dhat::HeapStats::get().total_blocks - before
}
