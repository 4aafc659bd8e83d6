//! What is drawn: that it can be played, and that all there is comes up.

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
fn every_schedule_that_is_drawn_can_be_played_and_stored_and_drawn_again() {
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
fn a_few_hundred_seeds_have_every_class_and_some_have_none() {
    has_every_class_and_sometimes_none::<ReplicaSets>();
    has_every_class_and_sometimes_none::<Deployments>();
    has_every_class_and_sometimes_none::<TtlAfterFinished>();
    has_every_class_and_sometimes_none::<Jobs>();
    has_every_class_and_sometimes_none::<StatefulSets>();
}
