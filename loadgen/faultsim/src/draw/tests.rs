//! What is drawn: that it can be played, and that all there is comes up.

use std::collections::BTreeSet;

use super::*;

#[test]
fn every_schedule_that_is_drawn_can_be_played_and_drawn_again() {
    for seed in 0..500 {
        let schedule = draw(seed, &[]);
        assert_eq!(schedule.check(), Ok(()), "seed {seed}");
        assert_eq!(schedule, draw(seed, &[]));
    }
}

#[test]
fn users_delete_for_good_and_make_pods_by_name_and_servers_stay_behind() {
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let mut deleted = 0;
        for step in draw(seed, &[]).steps {
            match step.action {
                Action::DeleteReplicaSet { propagation, .. } => {
                    deleted += 1;
                    seen.insert(format!("{propagation:?}"));
                }
                Action::CreatePod { replica_set, .. } => {
                    seen.insert(format!("created, matching: {}", replica_set.is_some()));
                }
                Action::RemovePod { .. } => {
                    seen.insert("removed".to_owned());
                }
                Action::ServeStale { for_ms: 1.., .. } => {
                    seen.insert("a server lags".to_owned());
                }
                Action::Crash {
                    stale_for_ms: 1.., ..
                } => {
                    seen.insert("a server lags after a crash".to_owned());
                }
                _ => {}
            }
        }
        assert!(deleted <= DELETED_MAX, "seed {seed}");
    }
    assert_eq!(seen.len(), 8, "{seen:?}");
}

#[test]
fn a_share_of_the_seeds_has_replication_controllers_alone_and_beside_replica_sets() {
    let (mut alone, mut both, mut beside) = (0, 0, 0);
    let mut watched = 0;
    for seed in 0..500 {
        let schedule = draw(seed, &[]);
        let drawn = Drawn::of(&schedule.cluster);
        let is_alone = drawn.kinds == [WorkloadKind::ReplicationController];
        alone += u32::from(is_alone);
        both += u32::from(drawn.has_both_kinds());
        let has_controllers = is_alone || drawn.has_both_kinds();
        assert_eq!(schedule.has_replication_controllers(), has_controllers);
        for step in &schedule.steps {
            match &step.action {
                Action::CreateOverlapping { name, .. } => {
                    beside += u32::from(name == "beside");
                }
                Action::Hold { stream, .. } if stream.kind() == Kind::REPLICATION_CONTROLLER => {
                    assert!(has_controllers);
                    watched += 1;
                }
                _ => {}
            }
        }
    }
    assert!((50..130).contains(&alone), "{alone}");
    assert!((25..80).contains(&both), "{both}");
    assert!(beside > 5 && watched > 0, "{beside} {watched}");
}

#[test]
fn a_few_hundred_seeds_have_every_class_and_some_have_none() {
    let mut seen = BTreeSet::new();
    let (mut none, mut one) = (0, 0);
    for seed in 0..500 {
        let schedule = draw(seed, &[]);
        none += u32::from(schedule.classes.is_empty());
        one += u32::from(schedule.classes.len() == 1);
        seen.extend(schedule.steps.iter().filter_map(|step| step.class));
    }
    assert_eq!(seen.len(), FaultClass::ALL.len());
    assert!((25..80).contains(&none), "{none}");
    assert!((20..150).contains(&one), "{one}");
}
