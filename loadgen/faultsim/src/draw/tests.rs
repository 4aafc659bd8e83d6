//! Tests of drawn schedules: all can be played, and together they cover everything.

use std::collections::BTreeSet;

use podstorm::deployment::Deployments;
use podstorm::job::Jobs;
use podstorm::replicaset::ReplicaSets;
use podstorm::statefulset::StatefulSets;
use podstorm::ttl_after_finished::TtlAfterFinished;

use super::*;

fn can_be_played_and_drawn_again<S: Subject>() {
    for seed in 0..300 {
        let schedule = draw::<S>(seed, &[]);
        assert_eq!(schedule.check(), Ok(()), "seed {seed}");
        assert_eq!(schedule, draw(seed, &[]));
        let text = schedule.to_yaml();
        assert_eq!(Schedule::read(&text), Ok(schedule), "{text}");
    }
}

#[test]
fn drawn_schedules_are_valid_storable_and_reproducible() {
    can_be_played_and_drawn_again::<ReplicaSets>();
    can_be_played_and_drawn_again::<Deployments>();
    can_be_played_and_drawn_again::<TtlAfterFinished>();
    can_be_played_and_drawn_again::<Jobs>();
    can_be_played_and_drawn_again::<StatefulSets>();
}

fn has_every_class_and_sometimes_none<S: Subject>() {
    let mut seen = BTreeSet::new();
    let (mut none, mut one) = (0, 0);
    for seed in 0..500 {
        let schedule = draw::<S>(seed, &[]);
        none += u32::from(schedule.classes.is_empty());
        one += u32::from(schedule.classes.len() == 1);
        seen.extend(schedule.steps.iter().filter_map(|step| step.class));
    }
    assert_eq!(seen.len(), FaultClass::ALL.len());
    assert!((25..110).contains(&none), "{none}");
    assert!((20..150).contains(&one), "{one}");
}

#[test]
fn a_few_hundred_seeds_cover_all_classes_and_no_class() {
    has_every_class_and_sometimes_none::<ReplicaSets>();
    has_every_class_and_sometimes_none::<Deployments>();
    has_every_class_and_sometimes_none::<TtlAfterFinished>();
    has_every_class_and_sometimes_none::<Jobs>();
    has_every_class_and_sometimes_none::<StatefulSets>();
}
