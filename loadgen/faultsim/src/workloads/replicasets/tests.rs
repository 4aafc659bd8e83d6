//! Tests of drawn ReplicaSets and ReplicationControllers, and of runs with both kinds.

use std::collections::BTreeSet;

use super::draw::{DELETED_MAX, Drawn};
use super::*;
use crate::draw::draw;
use crate::play::caught;

#[test]
fn schedules_have_deletions_named_pods_and_lagging_servers() {
    let mut seen = BTreeSet::new();
    for seed in 0..500 {
        let mut deleted = 0;
        for step in draw::<ReplicaSets>(seed, &[]).steps {
            match step.action {
                Action::DeleteOwner { propagation, .. } => {
                    deleted += 1;
                    seen.insert(format!("{propagation:?}"));
                }
                Action::CreatePod { owner, .. } => {
                    seen.insert(format!("created, matching: {}", owner.is_some()));
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
fn some_seeds_have_replication_controllers_or_both_kinds() {
    let (mut alone, mut both, mut beside) = (0, 0, 0);
    let mut watched = 0;
    for seed in 0..500 {
        let schedule = draw::<ReplicaSets>(seed, &[]);
        let drawn = Drawn::from_objects(&schedule.objects);
        let is_alone = drawn.kinds == [WorkloadKind::ReplicationController];
        alone += u32::from(is_alone);
        both += u32::from(drawn.has_both_kinds());
        let has_controllers = is_alone || drawn.has_both_kinds();
        assert_eq!(ReplicaSets::kinds(&schedule).len() == 2, has_controllers);
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

/// Returns the schedule of a seed without faults, reduced to its first object, which gets this
/// kind.
fn one_of(kind: WorkloadKind) -> Schedule<ReplicaSets> {
    let schedules = (0..).map(|seed| draw::<ReplicaSets>(seed, &[]));
    let mut schedule = schedules
        .filter(|it| it.classes.is_empty() && it.steps.len() > 5)
        .find(|it| it.objects.len() == 1)
        .expect("a seed is simple enough");
    schedule.objects[0].kind = kind;
    schedule.objects[0].replicas = 3;
    schedule.objects[0].min_ready_seconds = 0;
    let scale = |at_ms, replicas| {
        let owner = "web".to_owned();
        let scale = Action::Scale { owner, replicas };
        TimedAction::of_user(at_ms, scale)
    };
    schedule.steps = vec![scale(10_000, 8), scale(20_000, 2)];
    schedule
}

#[test]
fn replication_controllers_are_scaled_like_replica_sets() {
    for behaviour in Behaviour::ALL {
        let of_kinds = WorkloadKind::ALL.map(|kind| caught(&one_of(kind), behaviour));
        for verdict in &of_kinds {
            assert_eq!(verdict.violation, None);
            assert_eq!((verdict.creates, verdict.deletes), (8, 6));
            // The run is compared after the first and the second step, and after the cluster's own
            // work.
            assert_eq!(verdict.compared, [3, 0]);
        }
        assert_ne!(of_kinds[0].trace, of_kinds[1].trace);
    }
}

#[test]
fn a_silent_replication_controller_watch_is_detected() {
    for (kind, expected) in [
        (WorkloadKind::ReplicaSet, None),
        (WorkloadKind::ReplicationController, Some("L1")),
    ] {
        let mut schedule = one_of(kind);
        let broken = TimedAction {
            at_ms: 5_000,
            class: Some(FaultClass::Compaction),
            action: Action::Break {
                stream: StreamKind::from_kind(Kind::REPLICATION_CONTROLLER),
            },
        };
        schedule.steps.insert(0, broken);
        let verdict = caught(&schedule, Behaviour::Hardened);
        let violation = verdict.violation.map(|violation| violation.invariant);
        assert_eq!(violation, expected, "{kind:?}");
    }
}

#[test]
fn both_kinds_with_the_same_labels_share_the_orphans() {
    for behaviour in Behaviour::ALL {
        for kind in WorkloadKind::ALL {
            let mut schedule = one_of(kind);
            let other = WorkloadKind::ALL.into_iter().find(|it| *it != kind);
            let beside = Action::CreateOverlapping {
                kind: other.expect("the schedule has two kinds").in_action(),
                name: "beside".to_owned(),
                like: "web".to_owned(),
                replicas: 2,
            };
            let orphans = Action::CreateOrphans {
                owner: "web".to_owned(),
                pods: 4,
            };
            let steps = [
                TimedAction::of_user(1_000, beside),
                TimedAction::of_user(5_000, orphans),
            ];
            schedule.steps.splice(0..0, steps);
            let verdict = caught(&schedule, behaviour);
            assert_eq!(verdict.violation, None);
            assert!(verdict.sometimes.contains("a pod is adopted"));
        }
    }
}
