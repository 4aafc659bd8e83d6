//! Tests of seeds of StatefulSets: no seed violates an invariant, and together they reach many
//! situations.

use std::collections::BTreeSet;

use podstorm::statefulset::StatefulSets;

use crate::campaign::behaviour_of;
use crate::draw::draw;
use crate::play::caught;

#[test]
fn the_first_seeds_break_no_invariant() {
    let (mut broken, mut seen) = (Vec::new(), BTreeSet::new());
    let mut counted = [0; 3];
    for seed in 1..=150 {
        let schedule = draw::<StatefulSets>(seed, &[]);
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
        "a set is scaled down",
        "a ready pod is replaced",
        "a rolling update is complete",
        "an earlier revision is reused",
        "a claim gets other owners",
        "the history is truncated",
    ] {
        assert!(seen.contains(situation), "{seen:?}");
    }
}
