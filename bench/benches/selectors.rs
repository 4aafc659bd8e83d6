//! Selectors, beside the plain way: a selector converted to requirements for each question, labels
//! in a tree of strings, and a scan over all parents.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use podstorm::object::LabelSelector;
use podstorm_bench::clusters::Plan;
use podstorm_bench::hot::selectors;
use podstorm_bench::plain::{self, Map, PlainReplicaSet, PlainSelector};

const PARENTS: usize = 2_000;

fn matching(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("selectors");
    for (variant, size, selector) in [
        ("match-labels", 2, selectors::match_labels()),
        ("match-expressions", 4, selectors::match_expressions()),
    ] {
        let mut ours = selectors::matching(selector.clone());
        group.bench_function(BenchmarkId::new(variant, size), |bencher| {
            bencher.iter(&mut ours);
        });
        let mut plain = plain_matching(&selector);
        group.bench_function(
            BenchmarkId::new(format!("{variant}-plain"), size),
            |bencher| {
                bencher.iter(&mut plain);
            },
        );
    }
    let mut ours = selectors::compile();
    group.bench_function(BenchmarkId::new("compile", 4), |bencher| {
        bencher.iter(&mut ours);
    });
    let selector = PlainSelector::of(&selectors::match_expressions());
    group.bench_function(BenchmarkId::new("compile-plain", 4), |bencher| {
        bencher.iter(|| black_box(&selector).convert());
    });
    group.finish();
}

fn plain_matching(selector: &LabelSelector) -> impl FnMut() -> bool {
    let (selector, mut turn) = (PlainSelector::of(selector), 0);
    let labels: Vec<Map> = selectors::labels().iter().map(plain::map).collect();
    move || {
        turn = (turn + 1) % labels.len();
        plain::matches(&selector.convert(), black_box(&labels[turn]))
    }
}

fn parents(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("selectors");
    let mut ours = selectors::parents(PARENTS);
    group.bench_function(BenchmarkId::new("parents", PARENTS), |bencher| {
        bencher.iter(&mut ours);
    });
    let drawn = Plan::new(PARENTS, 0).draw();
    let parents: Vec<PlainReplicaSet> = drawn
        .iter()
        .map(|(parent, _)| PlainReplicaSet::of(parent))
        .collect();
    let mut turn = 0;
    group.sample_size(10);
    group.bench_function(BenchmarkId::new("parents-plain", PARENTS), |bencher| {
        bencher.iter(|| {
            turn = (turn + 7_919) % parents.len();
            let labels = &parents[turn].template_labels;
            let matching = parents
                .iter()
                .filter(|parent| plain::matches(&parent.selector.convert(), black_box(labels)));
            matching.count()
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = matching, parents
}
criterion_main!(benches);
