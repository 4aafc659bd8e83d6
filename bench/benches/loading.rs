//! Loading dumps, and one pod read and written, beside the least that a plain reader does: the same text
//! parsed into JSON values, neither decoded nor checked nor shared.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use podstorm_bench::hot::{json, loading};

fn dumps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("loading");
    for (name, pods, dump) in [
        ("json-alike", 1_000, loading::json(1_000, 10)),
        ("json-strangers", 100, loading::json(100, 100)),
        ("yaml-alike", 1_000, loading::yaml(1_000, 10)),
    ] {
        group.throughput(Throughput::Bytes(dump.len() as u64));
        if name.starts_with("json") {
            let plain = BenchmarkId::new(format!("{name}-plain"), pods);
            group.bench_function(plain, |bencher| {
                bencher.iter(|| -> serde_json::Value {
                    serde_json::from_str(black_box(&dump)).expect("the dump is JSON")
                });
            });
        }
        let mut ours = loading::load(dump);
        group.bench_function(BenchmarkId::new(name, pods), |bencher| {
            bencher.iter(&mut ours);
        });
    }
    group.finish();
}

fn one_pod(criterion: &mut Criterion) {
    const BYTES: usize = 8_300;
    let mut group = criterion.benchmark_group("json");
    let text = loading::json_pod();
    group.throughput(Throughput::Bytes(text.len() as u64));
    let mut decode = json::decode();
    group.bench_function(BenchmarkId::new("decode-pod", BYTES), |bencher| {
        bencher.iter(&mut decode);
    });
    let read = || -> serde_json::Value {
        serde_json::from_str(black_box(&text)).expect("the pod is JSON")
    };
    group.bench_function(BenchmarkId::new("decode-pod-plain", BYTES), |bencher| {
        bencher.iter(read);
    });
    let mut encode = json::encode();
    group.bench_function(BenchmarkId::new("encode-pod", BYTES), |bencher| {
        bencher.iter(&mut encode);
    });
    let tree = read();
    group.bench_function(BenchmarkId::new("encode-pod-plain", BYTES), |bencher| {
        bencher.iter(|| black_box(&tree).to_string());
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = dumps, one_pod
}
criterion_main!(benches);
