//! Deletion ranking, from the cached ranking fields to the chosen set, compared with a plain sort
//! of the pods whose comparison reads everything from the objects, like upstream's.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use podstorm::object::{Pod, PodPhase, Time};
use podstorm::ranking::{DELETION_COST_ANNOTATION, RankFields, age_bucket, deletion_cost};
use podstorm_bench::hot::ranking::{self, BURST, Input};
use podstorm_bench::pods::{Growth, NOW_NS};

use super::Timed;

pub(crate) fn timed() -> Vec<Timed> {
    vec![
        Timed::new("ranking/choose-500-plain/1000", || {
            plain(1_000, Growth::Month)
        }),
        Timed::new("ranking/choose-500-plain/10000", || {
            plain(10_000, Growth::Month)
        }),
        Timed::slow("ranking/choose-500-plain/100000", || {
            plain(100_000, Growth::Month)
        }),
        Timed::new("ranking/tie-group-plain/1000", || {
            plain(1_000, Growth::Burst)
        }),
        Timed::new("ranking/node-counts-plain/10000", || node_counts(10_000)),
    ]
}

/// Chooses by a plain sort. The ranks are known.
fn plain(count: usize, growth: Growth) -> impl FnMut() -> u64 {
    let with_ranks = |input: Input| {
        let rank = |fields: &RankFields| input.counts.get(fields.node());
        let ranks: Vec<u32> = input.fields.iter().map(rank).collect();
        (input, ranks)
    };
    let inputs = ranking::inputs(count, growth);
    let inputs: Vec<_> = inputs.into_iter().map(with_ranks).collect();
    ranking::in_turn(inputs, |(input, ranks)| {
        plain_sort(&input.pods, ranks, BURST).len() as u64
    })
}

/// Returns the first `k` by a comparison sort of the pods. The order depends only on values of each
/// pod, so that std's sort accepts it; it is not always an admissible order.
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

fn node_counts(pods: usize) -> impl FnMut() -> u64 {
    ranking::in_turn(ranking::inputs(pods, Growth::Month), |input| {
        let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
        for pod in &input.pods {
            let node = pod.node_name.as_deref().unwrap_or("");
            *counts.entry(node).or_default() += 1;
        }
        counts.len() as u64
    })
}
