//! Slow start: the batches of a burst as a state machine, beside the plain way, which collects the
//! calls of each batch and their results in vectors.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use podstorm_bench::hot::slow_start;

const COUNT: usize = 500;

type Call = Box<dyn FnOnce() -> Result<(), String>>;

fn batches(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slow_start");
    let mut ours = slow_start::batches(COUNT);
    group.bench_function(BenchmarkId::new("batches", COUNT), |bencher| {
        bencher.iter(&mut ours);
    });
    group.bench_function(BenchmarkId::new("batches-plain", COUNT), |bencher| {
        bencher.iter(|| plain(black_box(COUNT)));
    });
    group.finish();
}

/// All batches of calls, then batch after batch until one has a failure.
fn plain(count: usize) -> usize {
    let (mut batches, mut left, mut size): (Vec<Vec<Call>>, _, _) = (Vec::new(), count, 1);
    while left > 0 {
        let batch = (0..size.min(left)).map(|_| Box::new(|| black_box(Ok(()))) as Call);
        batches.push(batch.collect());
        left -= size.min(left);
        size *= 2;
    }
    let mut successes = 0;
    for batch in batches {
        let results: Vec<Result<(), String>> = batch.into_iter().map(|call| call()).collect();
        successes += results.iter().filter(|result| result.is_ok()).count();
        if results.iter().any(Result::is_err) {
            break;
        }
    }
    successes
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = batches
}
criterion_main!(benches);
