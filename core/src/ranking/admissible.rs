//! A check whether a correct implementation may make a given choice of pods.
//!
//! The rules contradict each other for some pods, so there is not always a single right answer. But
//! every comparison sort respects an extended key. This module spells that key out, independently
//! of the packed keys of the ranker, so the two check each other.

use std::cmp::Reverse;

use podstorm_objects::Time;

use super::age::time_code;
use super::relation::{Candidate, RankOptions, before};

/// A violation of the rules by a choice of pods. Numbers are indices into the list of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inadmissible {
    /// The number of flags differs from the number of candidates.
    #[error("{flags} flags for {candidates} candidates")]
    Length {
        /// The number of flags.
        flags: usize,
        /// The number of candidates.
        candidates: usize,
    },
    /// A pod was chosen, and another pod that every sort puts before it was spared.
    #[error("candidate {chosen} was chosen but {spared}, which goes before it, was spared")]
    Order {
        /// The index of the chosen candidate.
        chosen: usize,
        /// The index of the spared candidate.
        spared: usize,
    },
}

/// The values for rules 1 to 5, smaller first: scheduled, phase, ready, cost, rank.
pub(super) type Key = (bool, u8, bool, i32, Reverse<u32>);

/// The part of the extended key after rules 1 to 5. Pods with equal values for rules 1 to 5 have
/// the same readiness, so the two variants are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extension {
    /// For ready pods: the code of the ready time. If all pods with this key have the same ready
    /// time, also the restarts and the code of the creation time.
    Ready(u8, Option<(Reverse<u64>, u8)>),
    /// For other pods: the restarts and the code of the creation time.
    NotReady(Reverse<u64>, u8),
}

/// Checks a choice among the candidates: `chosen[i]` states whether candidate `i` is deleted. Does
/// not check the number of chosen pods. `options.now_wall_ns` must be that of the choice.
///
/// Of two pods with different extended keys, the one with the smaller key must go first. Among the
/// pods with the key at the cut, no spared pod may go before a chosen one, unless the rules
/// contradict each other for these pods; in that case any choice is correct. O(n log n), and O(m²)
/// in the `m` pods with the key at the cut.
///
/// # Errors
/// Returns the first violation that was found.
pub fn check_admissible(
    candidates: &[Candidate<'_>],
    chosen: &[bool],
    options: &RankOptions,
) -> Result<(), Inadmissible> {
    if candidates.len() != chosen.len() {
        return Err(Inadmissible::Length {
            flags: chosen.len(),
            candidates: candidates.len(),
        });
    }
    let keys = extended_keys(candidates, options);
    let last_chosen = (0..keys.len())
        .filter(|at| chosen[*at])
        .max_by_key(|at| keys[*at]);
    let first_spared = (0..keys.len())
        .filter(|at| !chosen[*at])
        .min_by_key(|at| keys[*at]);
    let (Some(last_chosen), Some(first_spared)) = (last_chosen, first_spared) else {
        return Ok(());
    };
    if keys[first_spared] < keys[last_chosen] {
        return Err(Inadmissible::Order {
            chosen: last_chosen,
            spared: first_spared,
        });
    }
    if keys[first_spared] > keys[last_chosen] {
        return Ok(());
    }
    let group: Vec<usize> = (0..keys.len())
        .filter(|at| keys[*at] == keys[last_chosen])
        .collect();
    let goes_before = |a: usize, b: usize| before(candidates[a], candidates[b], options);
    let wrong = group
        .iter()
        .filter(|at| chosen[**at])
        .flat_map(|chosen| group.iter().map(|spared| (*chosen, *spared)))
        .find(|(at, spared)| !chosen[*spared] && goes_before(*spared, *at));
    match wrong {
        Some((chosen, spared)) if is_strict_weak_order(&group, goes_before) => {
            Err(Inadmissible::Order { chosen, spared })
        }
        _ => Ok(()),
    }
}

/// Returns the part of a pod's extended key that doesn't depend on other pods.
pub(super) fn first_key(candidate: &Candidate<'_>, options: &RankOptions) -> (Key, Extension) {
    let fields = candidate.fields;
    let cost = if options.pod_deletion_cost {
        fields.deletion_cost()
    } else {
        0
    };
    let key = (
        fields.is_scheduled(),
        fields.phase_ordinal(),
        fields.is_ready(),
        cost,
        Reverse(candidate.rank),
    );
    let extension = if fields.is_ready() {
        Extension::Ready(code_of(fields.ready_time, options), None)
    } else {
        let creation_code = code_of(fields.creation_time, options);
        Extension::NotReady(Reverse(fields.restarts), creation_code)
    };
    (key, extension)
}

/// Returns the code of a time. Rules 6 and 8 compare the codes of unequal times before UIDs.
pub(super) fn code_of(time: Time, options: &RankOptions) -> u8 {
    match options.log_now() {
        Some(now_ns) => time_code(now_ns, time),
        None => u8::from(!time.is_unset()),
    }
}

fn extended_keys(candidates: &[Candidate<'_>], options: &RankOptions) -> Vec<(Key, Extension)> {
    let restarts = |at: usize| Reverse(candidates[at].fields.restarts);
    let key = |candidate: &Candidate<'_>| first_key(candidate, options);
    let mut keys: Vec<(Key, Extension)> = candidates.iter().map(key).collect();

    let mut by_key: Vec<usize> = (0..keys.len()).collect();
    by_key.sort_by_key(|at| keys[*at]);
    let groups: Vec<&[usize]> = by_key.chunk_by(|a, b| keys[*a] == keys[*b]).collect();
    for group in groups {
        let ready_time = candidates[group[0]].fields.ready_time;
        if group
            .iter()
            .any(|at| candidates[*at].fields.ready_time != ready_time)
        {
            continue;
        }
        for &at in group {
            let creation_time = candidates[at].fields.creation_time;
            if let (_, Extension::Ready(_, finer)) = &mut keys[at] {
                *finer = Some((restarts(at), code_of(creation_time, options)));
            }
        }
    }
    keys
}

/// Reports whether a relation on a group is a strict weak order: it has no cycles, and
/// incomparability is transitive. This holds exactly if the relation compares the numbers of
/// predecessors.
pub(super) fn is_strict_weak_order(group: &[usize], before: impl Fn(usize, usize) -> bool) -> bool {
    let predecessors = |at: usize| group.iter().filter(|other| before(**other, at)).count();
    let counted: Vec<(usize, usize)> = group.iter().map(|at| (*at, predecessors(*at))).collect();
    counted.iter().all(|&(a, a_predecessors)| {
        counted
            .iter()
            .all(|&(b, b_predecessors)| before(a, b) == (a_predecessors < b_predecessors))
    })
}
