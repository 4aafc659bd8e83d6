//! Tests of seeds of Jobs: no seed violates an invariant, and together they reach many situations.

use std::collections::BTreeSet;

use podstorm::job::Jobs;

use crate::campaign::behaviour_of;
use crate::draw::draw;
use crate::play::caught;

#[test]
fn the_first_seeds_break_no_invariant() {
    let (mut broken, mut seen) = (Vec::new(), BTreeSet::new());
    let mut counted = [0; 3];
    for seed in 1..=150 {
        let schedule = draw::<Jobs>(seed, &[]);
        let verdict = caught(&schedule, behaviour_of(seed, None));
        seen.extend(verdict.sometimes);
        for (sum, count) in
            counted
                .iter_mut()
                .zip([verdict.syncs, verdict.creates, verdict.deletes])
        {
            *sum += count;
        }
        broken.extend(verdict.violation.map(|it| format!("seed {seed}: {it}")));
    }
    assert_eq!(broken, Vec::<String>::new());
    assert!(
        counted.iter().all(|count| *count > 150),
        "syncs, creates, deletes: {counted:?}"
    );
    for situation in [
        "a Job is complete",
        "a Job has failed",
        "a Job is suspended",
    ] {
        assert!(seen.contains(situation), "{seen:?}");
    }
}
