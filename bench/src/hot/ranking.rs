//! Deletion ranking, from the cached ranking fields to the chosen set, and the preceding count of
//! co-located pods.

use std::hint::black_box;

use podstorm::object::Pod;
use podstorm::ranking::{NodeCounts, RankFields, RankOptions, Ranker};

use crate::pods::{Growth, NOW_NS, counts, drawn_pods, fields};

/// The maximum number of pods deleted in one sync.
pub const BURST: usize = 500;

/// The pods of a ReplicaSet, as the ranking needs them.
#[derive(Debug)]
pub struct Input {
    /// The pods of the ReplicaSet.
    pub pods: Vec<Pod>,
    /// The ranking fields of the pods, as the cache stores them.
    pub fields: Vec<RankFields>,
    /// The number of pods on each node.
    pub counts: NodeCounts,
}

/// Returns several ReplicaSets of `count` pods each, so that the branch predictor does not memorize
/// small ones.
pub fn inputs(count: usize, growth: Growth) -> Vec<Input> {
    let sets = (32_000 / count).clamp(1, 16);
    let input = |seed| {
        let pods = drawn_pods(count, growth, seed);
        let fields = fields(&pods);
        let counts = counts(&fields);
        Input {
            pods,
            fields,
            counts,
        }
    };
    (1..=sets as u64).map(input).collect()
}

/// Applies `work` to one input after the other, cyclically.
pub fn in_turn<T>(inputs: Vec<T>, mut work: impl FnMut(&T) -> u64) -> impl FnMut() -> u64 {
    let mut next = 0;
    move || {
        let input = &inputs[next];
        next = (next + 1) % inputs.len();
        work(black_box(input))
    }
}

/// Chooses 500 of `pods` pods that were created over a month.
pub fn choose(pods: usize) -> impl FnMut() -> u64 {
    choose_of(inputs(pods, Growth::Month))
}

/// Chooses 500 of `pods` pods that neither rules 1 to 5 nor the age buckets distinguish.
pub fn tie_group(pods: usize) -> impl FnMut() -> u64 {
    choose_of(inputs(pods, Growth::Burst))
}

fn choose_of(inputs: Vec<Input>) -> impl FnMut() -> u64 {
    let (mut ranker, options) = (Ranker::new(), RankOptions::at(NOW_NS));
    in_turn(inputs, move |input| {
        let candidates = (0u32..).zip(&input.fields);
        let rank_of_node = |node| input.counts.get(node);
        let chosen = ranker.choose(candidates, rank_of_node, &options, BURST);
        chosen.iter().map(|&pod| u64::from(pod)).sum()
    })
}

/// Counts pods by node.
pub fn node_counts(pods: usize) -> impl FnMut() -> u64 {
    let mut counts = NodeCounts::new();
    in_turn(inputs(pods, Growth::Month), move |input| {
        counts.clear();
        input
            .fields
            .iter()
            .for_each(|fields| counts.add(fields.node()));
        counts.get(1).into()
    })
}
