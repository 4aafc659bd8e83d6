//! Seeds of Deployments: none breaks an invariant, and they reach far.

use std::collections::BTreeSet;

use podstorm::policy::Behaviour;

use super::draw::draw;
use crate::any::play_deployments;
use crate::campaign::behaviour_of;

/// What seeds must come by.
const SITUATIONS: [&str; 9] = [
    "the first ReplicaSet of a Deployment is created",
    "a ReplicaSet is created beside others",
    "a ReplicaSet is created when old pods have ended",
    "an old ReplicaSet is deleted",
    "one ReplicaSet is scaled",
    "several ReplicaSets are scaled",
    "the new one grows",
    "the new one shrinks",
    "an old one shrinks",
];

#[test]
fn no_invariant_is_broken_in_the_first_seeds() {
    let (mut broken, mut seen) = (Vec::new(), BTreeSet::new());
    for seed in 1..=40 {
        let verdict = play_deployments(&draw(seed, &[]), behaviour_of(seed, None));
        seen.extend(verdict.sometimes);
        broken.extend(verdict.violation.map(|it| format!("seed {seed}: {it}")));
    }
    assert_eq!(broken, Vec::<String>::new());
    let missing = SITUATIONS.into_iter().filter(|it| !seen.contains(it));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_seed_leaves_the_same_trace_every_time() {
    for seed in 1..5 {
        let trace = || play_deployments(&draw(seed, &[]), Behaviour::Hardened).trace;
        assert_eq!(trace(), trace(), "seed {seed}");
    }
}

#[test]
fn a_sync_that_is_to_be_retried_is_no_quiet() {
    // A write was refused just before the faults ended; its retry is due a minute later, and slow.
    let verdict = play_deployments(&draw(4_088_111_027_740_049, &[]), Behaviour::Hardened);
    assert_eq!(verdict.violation.map(|it| it.to_string()), None);
}
