//! Deletion ranking: from the cached ranking fields to the chosen set, beside a plain sort of the
//! pods whose comparison reads whatever it needs from the objects, as upstream's does.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use podstorm::object::{Pod, PodPhase, Time};
use podstorm::ranking::{
    DELETION_COST_ANNOTATION, NodeCounts, RankFields, RankOptions, Ranker, age_bucket,
    deletion_cost,
};
use podstorm_bench::pods::{Growth, NOW_NS, counts, drawn_pods, fields};

/// How many are deleted at most in one sync.
const BURST: usize = 500;

/// One ReplicaSet.
struct Input {
    pods: Vec<Pod>,
    /// What the cache keeps of them.
    fields: Vec<RankFields>,
    counts: NodeCounts,
    /// The rank of every pod.
    ranks: Vec<u32>,
}

/// Several ReplicaSets, so that small ones are not learnt by heart by the branch predictor.
fn inputs(count: usize, growth: Growth) -> Vec<Input> {
    let sets = (32_000 / count).clamp(1, 16);
    let input = |seed| {
        let pods = drawn_pods(count, growth, seed);
        let fields = fields(&pods);
        let counts = counts(&fields);
        let ranks = fields
            .iter()
            .map(|fields| counts.get(fields.node()))
            .collect();
        Input {
            pods,
            fields,
            counts,
            ranks,
        }
    };
    (1..=sets as u64).map(input).collect()
}

fn choose_500(c: &mut Criterion) {
    let mut group = c.benchmark_group("choose-500-of");
    for count in [1_000, 10_000, 100_000] {
        compare(&mut group, count, &inputs(count, Growth::Month));
    }
    group.finish();
}

fn one_tie_group(c: &mut Criterion) {
    let mut group = c.benchmark_group("one-tie-group");
    compare(&mut group, 1_000, &inputs(1_000, Growth::Burst));
    group.finish();
}

type Group<'a> = criterion::BenchmarkGroup<'a, criterion::measurement::WallTime>;

fn compare(group: &mut Group<'_>, count: usize, inputs: &[Input]) {
    let options = RankOptions::at(NOW_NS);
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function(BenchmarkId::new("ranker", count), |b| {
        let mut ranker = Ranker::new();
        let mut turns = inputs.iter().cycle();
        b.iter(|| {
            let input = turns.next().expect("a cycle has no end");
            let candidates = (0u32..).zip(black_box(&input.fields));
            let rank_of_node = |node| input.counts.get(node);
            black_box(
                ranker
                    .choose(candidates, rank_of_node, &options, BURST)
                    .len(),
            )
        });
    });
    if count > 10_000 {
        group.sample_size(10);
    }
    group.bench_function(BenchmarkId::new("plain-sort", count), |b| {
        let mut turns = inputs.iter().cycle();
        b.iter(|| {
            let input = turns.next().expect("a cycle has no end");
            black_box(plain_sort(&input.pods, &input.ranks, BURST).len())
        });
    });
}

/// The first `k` by a comparison sort of the pods. Its order is one of per-pod values alone, so
/// that std's sort bears it; it is not always admissible.
fn plain_sort(pods: &[Pod], ranks: &[u32], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..pods.len()).collect();
    order.sort_unstable_by(|a, b| {
        compare_pods(&pods[*a], &pods[*b], ranks[*a], ranks[*b]).then_with(|| a.cmp(b))
    });
    order.truncate(k);
    order
}

fn compare_pods(a: &Pod, b: &Pod, a_rank: u32, b_rank: u32) -> Ordering {
    let phase = |pod: &Pod| match pod.status.phase {
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
        _ => 0,
    };
    let cost = |pod: &Pod| {
        let annotation = pod.metadata.annotations.get(DELETION_COST_ANNOTATION);
        deletion_cost(annotation.map(|text| &**text)).unwrap_or(0)
    };
    let restarts = |pod: &Pod| {
        let counts = pod
            .status
            .container_statuses
            .iter()
            .map(|status| status.restart_count);
        Reverse(counts.max().unwrap_or(0))
    };
    let age = |time: Time| {
        time.unix_nanos()
            .map(|time_ns| age_bucket(NOW_NS - time_ns))
    };
    (a.node_name.is_some().cmp(&b.node_name.is_some()))
        .then_with(|| phase(a).cmp(&phase(b)))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| cost(a).cmp(&cost(b)))
        .then_with(|| b_rank.cmp(&a_rank))
        .then_with(|| age(a.ready_time()).cmp(&age(b.ready_time())))
        .then_with(|| restarts(a).cmp(&restarts(b)))
        .then_with(|| {
            let (a, b) = (a.metadata.creation_timestamp, b.metadata.creation_timestamp);
            age(a).cmp(&age(b))
        })
        .then_with(|| a.metadata.uid.cmp(&b.metadata.uid))
}

fn node_counts(c: &mut Criterion) {
    let count = 10_000;
    let inputs = inputs(count, Growth::Month);
    let mut group = c.benchmark_group("node-counts");
    group.throughput(Throughput::Elements(count as u64));
    group.bench_function(BenchmarkId::new("dense", count), |b| {
        let mut counts = NodeCounts::new();
        let mut turns = inputs.iter().cycle();
        b.iter(|| {
            let input = turns.next().expect("a cycle has no end");
            counts.clear();
            input
                .fields
                .iter()
                .for_each(|fields| counts.add(fields.node()));
            black_box(counts.get(1))
        });
    });
    group.bench_function(BenchmarkId::new("map-by-name", count), |b| {
        let mut turns = inputs.iter().cycle();
        b.iter(|| {
            let input = turns.next().expect("a cycle has no end");
            let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
            for pod in &input.pods {
                *counts
                    .entry(pod.node_name.as_deref().unwrap_or(""))
                    .or_default() += 1;
            }
            black_box(counts.len())
        });
    });
    group.finish();
}

criterion_group! {
    name = benches;
    config = podstorm_bench::profiler::criterion();
    targets = choose_500, one_tie_group, node_counts
}
criterion_main!(benches);
