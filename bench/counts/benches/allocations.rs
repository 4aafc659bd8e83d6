//! Exact counts by dhat: the blocks that each hot path allocates in its steady state, and the bytes
//! of a cached pod. They are counted in a separate process, because dhat counts the allocations of
//! every thread.
//!
//! `--json` prints the blocks for the gate, either of all paths or of those under `--only PREFIX`.
//! `cargo bench` records the bytes.

use std::collections::BTreeMap;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::process::ExitCode;

use podstorm_bench::asked::Asked;
use podstorm_bench::clusters::Sharing;
use podstorm_bench::gate::is_under;
use podstorm_bench::hot::{self, HotPath};
use podstorm_bench::memory::{bytes_per_pod, plain_bytes_per_pod};
use podstorm_bench::results::{Unit, after_run, record};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// The number of pods whose bytes are counted. The id names ten times as many pods, because the
/// figure per pod is the same.
const PODS: usize = 10_000;
/// The name of each figure, and the parts that the pods share in it.
const FIGURES: [(&str, Sharing); 3] = [
    ("pod-shared", Sharing::Template),
    ("pod-distinct", Sharing::Admitted),
    ("pod-own-env", Sharing::Nothing),
];

fn main() -> ExitCode {
    let _profiler = dhat::Profiler::builder().testing().build();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--json") {
        let mut rest = arguments
            .iter()
            .skip_while(|argument| *argument != "--only");
        return for_the_gate(rest.nth(1).map_or("", |only| only));
    }
    let asked = Asked::here();
    if asked.lists_only() {
        return ExitCode::SUCCESS;
    }
    let pods = if asked.is_smoke_test { 500 } else { PODS };
    for (name, sharing) in FIGURES {
        let id = |plain| format!("memory/{name}{plain}/100000");
        if asked.wants(&id("")) {
            record(&id(""), bytes_per_pod(sharing, pods), Unit::Bytes);
            record(
                &id("-plain"),
                plain_bytes_per_pod(sharing, pods),
                Unit::Bytes,
            );
        }
    }
    // A `cargo bench` of everything ends with this program.
    if let Err(error) = after_run::print(&asked) {
        let _ = writeln!(io::stderr(), "table: {error:#}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Prints the number of blocks of each path, as JSON.
fn for_the_gate(only: &str) -> ExitCode {
    hot::on_one_core();
    let paths = hot::paths().into_iter();
    let asked = paths.filter(|path| only.is_empty() || is_under(path.id, only));
    let blocks: BTreeMap<&str, u64> = asked.map(|path| (path.id, blocks(&path))).collect();
    let text = serde_json::to_string(&blocks).expect("strings and numbers can be written as JSON");
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Returns the number of blocks that a path allocates in its counted calls.
fn blocks(path: &HotPath) -> u64 {
    let mut operation = path.steady();
    let before = dhat::HeapStats::get().total_blocks;
    for _ in 0..path.calls {
        black_box(operation.call());
    }
    dhat::HeapStats::get().total_blocks - before
}
