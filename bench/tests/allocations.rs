//! Hot paths that claim to allocate nothing in the steady state, held to it: one allocation fails.
//!
//! One test alone in its process, because the counter counts every thread.

use podstorm_bench::hot;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Rounds of a path's calls that are watched.
const ROUNDS: u32 = 3;

#[test]
fn hot_paths_that_claim_it_allocate_nothing_in_the_steady_state() {
    let _profiler = dhat::Profiler::builder().testing().build();
    hot::on_one_core();
    let mut claims = 0;
    let mut broken = Vec::new();
    for path in hot::paths().iter().filter(|path| path.allocation_free) {
        let mut operation = path.steady();
        let before = dhat::HeapStats::get().total_blocks;
        for _ in 0..ROUNDS * path.calls {
            std::hint::black_box(operation());
        }
        let blocks = dhat::HeapStats::get().total_blocks - before;
        claims += 1;
        if blocks > 0 {
            broken.push(format!("{}: {blocks} blocks in {ROUNDS} rounds", path.id));
        }
    }
    assert!(claims >= 10, "only {claims} paths claim it");
    assert_eq!(broken, [""; 0]);
}
