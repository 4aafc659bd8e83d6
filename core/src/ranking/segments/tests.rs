//! Tests that compare segments with the number of all correct choices.

use super::*;
use crate::ranking::admissible::is_strict_weak_order;
use crate::ranking::{RankFields, Ranker, before, check_admissible};
use podstorm_objects::{ConditionStatus, ConditionType, Pod, PodPhase, Uid};

const NOW_NS: i64 = 1_772_921_233_000_000_000;

fn pod(draw: &mut impl FnMut(u32) -> u32, uid: u32, ready: bool) -> RankFields {
    let seconds = NOW_NS / 1_000_000_000;
    let mut pod = Pod {
        node_name: Some("a".into()),
        ..Pod::default()
    };
    pod.status.phase = PodPhase::Running;
    pod.metadata.uid = Uid::from_u128(u128::from(uid));
    pod.metadata.creation_timestamp =
        Time::from_unix_seconds(seconds - 20_000 - i64::from(draw(3)));
    pod.status
        .container_statuses
        .extend([podstorm_objects::ContainerStatus {
            name: "c".into(),
            restart_count: i32::from(draw(8) == 0),
            ready,
            details: None,
        }]);
    if ready {
        let since = Time::from_unix_seconds(seconds - 19_000 - i64::from(draw(3)));
        let conditions = &mut pod.status.conditions;
        conditions.set(ConditionType::Ready, ConditionStatus::True, since);
    }
    RankFields::from_pod(&pod, 1)
}

/// Builds pods on one node that are either all ready or all not ready.
fn pods(draw: &mut impl FnMut(u32) -> u32, count: u32, ready: bool) -> Vec<RankFields> {
    (0..count)
        .map(|at| {
            let uid = draw(1_000) * 10 + at;
            pod(draw, uid, ready)
        })
        .collect()
}

/// Returns the candidates in the ranker's order.
fn ordered<'a>(fields: &'a [RankFields], order: &[u32]) -> Vec<Candidate<'a>> {
    let numbers = order.iter().map(|at| &fields[*at as usize]);
    numbers
        .map(|fields| Candidate { fields, rank: 1 })
        .collect()
}

/// Returns a generator of small numbers from a seed.
fn drawing(seed: u64) -> impl FnMut(u32) -> u32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % below
    }
}

#[test]
fn segments_end_where_the_correct_choice_is_unique() {
    let options = RankOptions::at(NOW_NS);
    let mut seen = [0; 3];
    for seed in 1..4_000 {
        let mut draw = drawing(seed);
        let count = 2 + draw(5);
        let ready = draw(3) > 0;
        let fields = pods(&mut draw, count, ready);
        let mut ranker = Ranker::new();
        let k = draw(count) as usize;
        let numbered = (0u32..).zip(&fields);
        let order = ranker.order(numbered, |_| 1, &options, k, true);
        let order = ordered(&fields, order);
        let found = order_segments(&order, &options);
        let ends: Vec<usize> = found.iter().map(|segment| segment.range.end).collect();
        assert_eq!(ends.last(), Some(&order.len()));
        for segment in &found {
            seen[segment.kind as usize] += 1;
        }
        for cut in 1..order.len() {
            let correct = correct_choices(&order, cut, &options);
            assert!(correct > 0);
            assert_eq!(correct == 1, ends.contains(&cut), "seed {seed} cut {cut}");
        }
    }
    assert!(seen.iter().all(|count| *count > 100), "{seen:?}");
}

/// Returns the number of admissible sets of `size` pods.
fn correct_choices(order: &[Candidate<'_>], size: usize, options: &RankOptions) -> usize {
    (0u32..1 << order.len())
        .filter(|set| set.count_ones() as usize == size)
        .filter(|set| {
            let chosen: Vec<bool> = (0..order.len()).map(|at| set >> at & 1 == 1).collect();
            check_admissible(order, &chosen, options).is_ok()
        })
        .count()
}

#[test]
fn the_fast_order_test_agrees_with_the_slow_one() {
    let options = RankOptions::at(NOW_NS);
    let mut orders = 0;
    for seed in 1..20_000 {
        let mut draw = drawing(seed);
        let count = 2 + draw(6);
        let ready = draw(4) > 0;
        let fields = pods(&mut draw, count, ready);
        let pods: Vec<Candidate<'_>> = fields
            .iter()
            .map(|fields| Candidate { fields, rank: 1 })
            .collect();
        let same_key = pods
            .iter()
            .all(|pod| first_key(pod, &options) == first_key(&pods[0], &options));
        if !same_key {
            continue;
        }
        let all: Vec<usize> = (0..pods.len()).collect();
        let slow = is_strict_weak_order(&all, |a, b| before(pods[a], pods[b], &options));
        assert_eq!(is_order(&pods, &options), slow, "seed {seed}");
        orders += usize::from(slow);
    }
    assert!(orders > 500, "{orders}");
}

#[test]
fn without_the_logarithm_there_are_no_contradictions() {
    let options = RankOptions {
        logarithmic_scale_down: false,
        ..RankOptions::at(NOW_NS)
    };
    let mut draw = drawing(7);
    let fields: Vec<RankFields> = (0..50).map(|uid| pod(&mut draw, uid, true)).collect();
    let mut ranker = Ranker::new();
    let order = ranker.order((0u32..).zip(&fields), |_| 1, &options, 9, true);
    let order = ordered(&fields, order);
    let found = order_segments(&order, &options);
    assert!(found.iter().any(|one| one.kind == SegmentKind::Tied));
    let mut kinds = found.iter().map(|one| one.kind);
    assert!(kinds.all(|kind| kind != SegmentKind::Contradictory));
}
