//! The parts of a deletion order that are certain, and those that correct implementations may order
//! differently.
//!
//! The rules contradict each other for some pods and do not distinguish others. An order is
//! therefore a sequence of segments. For every correct implementation, the pods of a segment and
//! the pods of all earlier segments are the same. Within a segment of several pods, upstream's own
//! order depends on chance.

use std::cmp::Reverse;
use std::ops::Range;

use podstorm_objects::Time;

use super::admissible::{Extension, Key, code_of, first_key};
use super::relation::{Candidate, RankOptions};

/// Consecutive pods in a deletion order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderSegment {
    /// The positions of these pods in the order.
    pub range: Range<usize>,
    /// How certain the order inside the segment is.
    pub kind: SegmentKind,
}

/// How certain the order inside a segment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SegmentKind {
    /// A single pod: its position is certain.
    Single,
    /// No rule distinguishes any two of these pods.
    Tied,
    /// The rules contradict each other among these pods, so any order of them is possible.
    Contradictory,
}

/// Reports whether two pods have the same first key: rules 1 to 5, and the first age bucket of the
/// next rule, do not distinguish them. O(1).
pub fn has_same_key(a: Candidate<'_>, b: Candidate<'_>, options: &RankOptions) -> bool {
    first_key(&a, options) == first_key(&b, options)
}

/// Divides an order that [`Ranker::order`](super::Ranker::order) returned for the same candidates
/// and options into segments. If a segment ends at `k`, the first `k` pods are the only correct
/// choice of `k` pods. Otherwise, several choices from the segment around `k` are correct.
///
/// Two pods with the same UID, which no server assigns, make a segment contradictory. O(n log n).
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

/// The restarts, then the code of the creation time: the first comparisons of rules 7 and 8.
type LaterKey = (Reverse<u64>, u8);

fn later_key(pod: &Candidate<'_>, options: &RankOptions) -> LaterKey {
    let fields = pod.fields;
    (
        Reverse(fields.restarts),
        code_of(fields.creation_time, options),
    )
}

/// Divides consecutive pods with equal first keys into segments.
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

/// Divides consecutive pods that only pairwise comparison can order into segments.
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

/// Reports whether rules 6 to 8 form an order with ties (a strict weak order) on pods with equal
/// first keys, if ages are compared on the logarithmic scale. UIDs decide between two pods that
/// differ in the ready time. Pods with the same ready time must therefore be ordered by their own
/// rules in a way that fits the pods whose UIDs lie between theirs. O(n log n).
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
    // By ready time. The sort is stable, so pods with the same ready time stay sorted by UID.
    runs.sort_by_key(|pod| pod.ready_time);
    runs.chunk_by(|a, b| a.ready_time == b.ready_time)
        .all(is_order_in_class)
}

/// A pod in a list sorted by UID.
#[derive(Clone, Copy)]
struct Placed {
    ready_time: Time,
    later: LaterKey,
    creation_time: Time,
    /// The number of the pod's run of consecutive pods with the same ready time.
    run: usize,
}

/// Returns, for each pod, the number of its run of consecutive pods with equal values.
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

/// Reports whether the pods with one ready time, sorted by UID, are in an order that fits the pods
/// with other ready times between them.
fn is_order_in_class(class: &[Placed]) -> bool {
    // Earlier runs must also go before later ones by rules 7 and 8.
    let runs = class.chunk_by(|a, b| a.run == b.run);
    let mut highest: Option<LaterKey> = None;
    for run in runs {
        let least = run.iter().map(|pod| pod.later).min();
        if highest > least && highest.is_some() {
            return false;
        }
        highest = highest.max(run.iter().map(|pod| pod.later).max());
    }
    // Pods that only rule 8 can distinguish are tied if they have the same creation time. A pod
    // whose UID is between those of two tied pods, with the same or another ready time, must not go
    // before one of them and after the other.
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
mod tests;
