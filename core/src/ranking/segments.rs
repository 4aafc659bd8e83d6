//! Where an order of deletion is settled, and where a correct implementation may have another one.
//!
//! The rules contradict themselves among some pods and tell others not apart. An order therefore
//! falls into stretches: which pods are in a stretch, and which stretches stand before it, is the
//! same for everyone; within a stretch of several pods upstream's own order depends on chance.

use std::cmp::Reverse;
use std::ops::Range;

use podstorm_objects::Time;

use super::admissible::{Extension, Key, code_of, first_key};
use super::relation::{Candidate, RankOptions};

/// Some neighbours in an order of deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderSegment {
    /// Positions in the order.
    pub range: Range<usize>,
    /// What is known about the order within.
    pub kind: SegmentKind,
}

/// What is known about the order within a stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// A single pod: its place is certain.
    Single,
    /// No rule tells any two of these pods apart.
    Tied,
    /// The rules contradict themselves among these pods, so that any order of them may come.
    Contradictory,
}

/// Whether nothing that every correct order agrees on divides the two pods: rules 1 to 5 leave them
/// alike, and so does the step of the age by which the next rule begins. O(1).
pub fn has_same_key(a: Candidate<'_>, b: Candidate<'_>, options: &RankOptions) -> bool {
    first_key(&a, options) == first_key(&b, options)
}

/// Divides an order that [`Ranker::full_order`](super::Ranker::full_order) gave for the same
/// candidates and options. A choice of the first `k` is the only correct one just where one of the
/// stretches ends at `k`; else the choice among the pods of the stretch around `k` is open.
///
/// Pods with one UID, which no server has, make a stretch contradictory. O(n log n).
pub fn order_segments(order: &[Candidate<'_>], options: &RankOptions) -> Vec<OrderSegment> {
    let keys: Vec<(Key, Extension)> = order.iter().map(|pod| first_key(pod, options)).collect();
    let mut found = Vec::new();
    let mut start = 0;
    for same in keys.chunk_by(|a, b| a == b) {
        let range = start..start + same.len();
        start = range.end;
        divide(order, range, options, &mut found);
    }
    found
}

/// Restarts, then the code of the creation time: what rules 7 and 8 begin with.
type LaterKey = (Reverse<u64>, u8);

fn later_key(pod: &Candidate<'_>, options: &RankOptions) -> LaterKey {
    let fields = pod.fields;
    (
        Reverse(fields.restarts),
        code_of(fields.creation_time, options),
    )
}

/// Divides neighbours with equal first keys.
fn divide(
    order: &[Candidate<'_>],
    range: Range<usize>,
    options: &RankOptions,
    found: &mut Vec<OrderSegment>,
) {
    let pods = &order[range.clone()];
    let ready_time = pods[0].fields.ready_time;
    if pods.iter().any(|pod| pod.fields.ready_time != ready_time) {
        return settle(pods, range.start, options, found);
    }
    let mut start = range.start;
    for same in pods.chunk_by(|a, b| later_key(a, options) == later_key(b, options)) {
        settle(same, start, options, found);
        start += same.len();
    }
}

/// Divides neighbours whose order hangs on pairs.
fn settle(
    pods: &[Candidate<'_>],
    start: usize,
    options: &RankOptions,
    found: &mut Vec<OrderSegment>,
) {
    let range = start..start + pods.len();
    if options.log_now().is_some() && !is_order(pods, options) {
        return found.push(OrderSegment {
            range,
            kind: SegmentKind::Contradictory,
        });
    }
    let exact = |pod: &Candidate<'_>| {
        let fields = pod.fields;
        (fields.ready_time, fields.restarts, fields.creation_time)
    };
    let mut start = range.start;
    for tied in pods.chunk_by(|a, b| exact(a) == exact(b)) {
        found.push(OrderSegment {
            range: start..start + tied.len(),
            kind: if tied.len() == 1 {
                SegmentKind::Single
            } else {
                SegmentKind::Tied
            },
        });
        start += tied.len();
    }
}

/// Whether rules 6 to 8 form an order with ties (a strict weak order) on pods with equal first
/// keys, where ages go by the logarithm. The UIDs say which of two pods goes first that differ in
/// the ready time; so pods of one ready time must stand by their own rules as they stand to the
/// pods whose UIDs lie between theirs. O(n log n).
fn is_order(pods: &[Candidate<'_>], options: &RankOptions) -> bool {
    if pods.len() == 1 {
        return true;
    }
    let mut by_uid: Vec<&Candidate<'_>> = pods.iter().collect();
    by_uid.sort_by(|a, b| a.fields.uid().cmp(b.fields.uid()));
    if by_uid
        .windows(2)
        .any(|pair| pair[0].fields.uid() == pair[1].fields.uid())
    {
        return false;
    }
    let mut runs = by_uid
        .iter()
        .zip(run_numbers(&by_uid, |pod| pod.fields.ready_time))
        .map(|(pod, run)| Placed {
            ready_time: pod.fields.ready_time,
            later: later_key(pod, options),
            creation_time: pod.fields.creation_time,
            run,
        })
        .collect::<Vec<_>>();
    // By class, in it as by UID: the sort is stable.
    runs.sort_by_key(|pod| pod.ready_time);
    runs.chunk_by(|a, b| a.ready_time == b.ready_time)
        .all(is_order_in_class)
}

/// A pod in the order of UIDs.
#[derive(Clone, Copy)]
struct Placed {
    ready_time: Time,
    later: LaterKey,
    creation_time: Time,
    /// The number of the run of neighbours with one ready time.
    run: usize,
}

/// Numbers the runs of neighbours that are alike.
fn run_numbers<'a, T: PartialEq>(
    pods: &'a [&Candidate<'_>],
    of: impl Fn(&Candidate<'_>) -> T + 'a,
) -> impl Iterator<Item = usize> + 'a {
    let mut number = 0;
    pods.iter().enumerate().map(move |(at, pod)| {
        number += usize::from(at > 0 && of(pods[at - 1]) != of(pod));
        number
    })
}

/// Whether the pods of one ready time, in the order of their UIDs, stand in an order that goes with
/// the pods of other ready times between them.
fn is_order_in_class(class: &[Placed]) -> bool {
    // Earlier runs must be before later ones by rules 7 and 8 as well.
    let runs = class.chunk_by(|a, b| a.run == b.run);
    let mut highest: Option<LaterKey> = None;
    for run in runs {
        let least = run.iter().map(|pod| pod.later).min();
        if highest > least && highest.is_some() {
            return false;
        }
        highest = highest.max(run.iter().map(|pod| pod.later).max());
    }
    // Of pods that rule 8 is left with, those of one moment tie: whoever stands between two of
    // them by UID, another pod of the class or of another one, must not be before one and behind
    // the other.
    let mut by_key = class.to_vec();
    by_key.sort_by_key(|pod| pod.later);
    by_key
        .chunk_by(|a, b| a.later == b.later)
        .all(ties_stand_together)
}

fn ties_stand_together(pods: &[Placed]) -> bool {
    let mut moments: Vec<(Time, usize)> = Vec::with_capacity(pods.len());
    let mut number = 0;
    for (at, pod) in pods.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| &pods[at]);
        number += usize::from(before.is_some_and(|before| {
            before.creation_time != pod.creation_time || before.run != pod.run
        }));
        moments.push((pod.creation_time, number));
    }
    moments.sort();
    moments
        .windows(2)
        .all(|pair| pair[0].0 != pair[1].0 || pair[0].1 == pair[1].1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranking::admissible::is_strict_weak_order;
    use crate::ranking::{RankFields, Ranker, before, check_admissible};
    use podstorm_objects::{ConditionStatus, ConditionType, Pod, PodCondition, PodPhase, Uid};

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
            pod.status.conditions.push(PodCondition {
                kind: ConditionType::Ready,
                status: ConditionStatus::True,
                last_transition_time: Time::from_unix_seconds(
                    seconds - 19_000 - i64::from(draw(3)),
                )
                .into(),
                rest: podstorm_objects::Rest::NONE,
            });
        }
        RankFields::of(&pod, 1)
    }

    /// Small numbers from a seed.
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
    fn stretches_end_where_every_correct_choice_is_one() {
        let options = RankOptions::at(NOW_NS);
        let mut seen = [0; 3];
        for seed in 1..4_000 {
            let mut draw = drawing(seed);
            let count = 2 + draw(5);
            let ready = draw(3) > 0;
            let fields: Vec<RankFields> = (0..count)
                .map(|at| {
                    let uid = draw(1_000) * 10 + at;
                    pod(&mut draw, uid, ready)
                })
                .collect();
            let mut ranker = Ranker::new();
            let k = draw(count) as usize;
            let numbered = (0u32..).zip(&fields);
            let order = ranker.full_order(numbered, |_| 1, &options, k).to_vec();
            let order: Vec<Candidate<'_>> = order
                .iter()
                .map(|at| Candidate {
                    fields: &fields[*at as usize],
                    rank: 1,
                })
                .collect();
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

    /// How many sets of `size` pods are admissible.
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
    fn the_quick_test_for_an_order_is_the_slow_one() {
        let options = RankOptions::at(NOW_NS);
        let mut orders = 0;
        for seed in 1..20_000 {
            let mut draw = drawing(seed);
            let count = 2 + draw(6);
            let ready = draw(4) > 0;
            let fields: Vec<RankFields> = (0..count)
                .map(|at| {
                    let uid = draw(1_000) * 10 + at;
                    pod(&mut draw, uid, ready)
                })
                .collect();
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
    fn without_the_logarithm_there_are_ties_and_no_contradictions() {
        let options = RankOptions {
            logarithmic_scale_down: false,
            ..RankOptions::at(NOW_NS)
        };
        let mut draw = drawing(7);
        let fields: Vec<RankFields> = (0..50).map(|uid| pod(&mut draw, uid, true)).collect();
        let mut ranker = Ranker::new();
        let order = ranker.full_order((0u32..).zip(&fields), |_| 1, &options, 9);
        let order: Vec<Candidate<'_>> = order
            .iter()
            .map(|at| Candidate {
                fields: &fields[*at as usize],
                rank: 1,
            })
            .collect();
        let found = order_segments(&order, &options);
        assert!(found.iter().any(|one| one.kind == SegmentKind::Tied));
        assert!(
            found
                .iter()
                .all(|one| one.kind != SegmentKind::Contradictory)
        );
    }
}
