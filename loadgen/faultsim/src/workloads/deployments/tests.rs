//! Tests of seeds of Deployments: no seed violates an invariant, and together they reach many
//! situations.

use std::collections::BTreeSet;

use podstorm::deployment::Deployments;
use podstorm::policy::Behaviour;

use crate::campaign::behaviour_of;
use crate::draw::draw;
use crate::play::caught;

/// The situations that the seeds must reach.
const SITUATIONS: [&str; 9] = [
    "the first ReplicaSet of a Deployment is created",
    "a ReplicaSet is created while others exist",
    "a ReplicaSet is created when old pods have ended",
    "an old ReplicaSet is deleted",
    "one ReplicaSet is scaled",
    "several ReplicaSets are scaled",
    "the new one grows",
    "the new one shrinks",
    "an old one shrinks",
];

#[test]
fn the_first_seeds_break_no_invariant() {
    let (mut broken, mut seen) = (Vec::new(), BTreeSet::new());
    for seed in 1..=40 {
        let verdict = caught(&draw::<Deployments>(seed, &[]), behaviour_of(seed, None));
        seen.extend(verdict.sometimes);
        broken.extend(verdict.violation.map(|it| format!("seed {seed}: {it}")));
    }
    assert_eq!(broken, Vec::<String>::new());
    let missing = SITUATIONS.into_iter().filter(|it| !seen.contains(it));
    assert_eq!(missing.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn a_seed_always_has_the_same_trace() {
    for seed in 1..5 {
        let trace = || caught(&draw::<Deployments>(seed, &[]), Behaviour::Hardened).trace;
        assert_eq!(trace(), trace(), "seed {seed}");
    }
}
