//! Tests of wrong histories, which the reference model must reject, and of seeds with which it must
//! agree.

use podstorm::replicaset::ReplicaSets;
use podstorm_objects::{AnyObject, Kind, Resource};
use serde_json::{Value, json};

use super::super::kinds::replica_set;
use super::*;
use crate::draw::draw;
use crate::objects::{self, controlled_by, with};
use crate::play::caught;

/// Returns a ReplicaSet that wants `replicas` pods and whose status has `has` pods.
fn set(replicas: i32, has: i32) -> Arc<ReplicaSet> {
    let more = json!({
        "metadata": {"uid": "web-uid", "generation": 1},
        "status": {
            "replicas": has, "fullyLabeledReplicas": has, "readyReplicas": has,
            "availableReplicas": has, "terminatingReplicas": 0, "observedGeneration": 1,
        },
    });
    let set = with(replica_set("web", "web", replicas), more);
    Arc::new(ReplicaSet::from_json(set).unwrap())
}

fn pod(name: &str, owned: bool, cost: &str, node: &str, deleted_at: Value) -> Arc<Pod> {
    let more = json!({
        "metadata": {
            "annotations": {"controller.kubernetes.io/pod-deletion-cost": cost},
            "deletionTimestamp": deleted_at,
        },
        "spec": {"nodeName": node},
    });
    let mut pod = with(objects::pod(name, "web"), more);
    if owned {
        pod = with(pod, controlled_by(Kind::REPLICA_SET, "web", "web-uid"));
    }
    Arc::new(Pod::from_json(pod).unwrap())
}

fn plain(name: &str, owned: bool) -> Arc<Pod> {
    pod(name, owned, "0", "a", Value::Null)
}

fn lockstep(behaviour: Behaviour) -> Lockstep {
    let mut cluster = draw::<ReplicaSets>(0, &[]).cluster;
    cluster.burst_replicas = 500;
    Lockstep::new(&[], &cluster, behaviour).expect("the schedule has no steps")
}

fn write(model: &mut Lockstep, change: Change, old: Option<&Arc<Pod>>, new: &Arc<Pod>) {
    model.committed(&Commit {
        version: 1,
        change,
        old: old.cloned().map(|old| -> AnyObject { old }),
        new: new.clone(),
        now: podstorm_objects::Now::default(),
    });
}

/// Returns the model's result for a ReplicaSet that is scaled from 1 to 3 and for which `made` pods
/// are created.
fn scaled_up(made: usize) -> Result<(), String> {
    let mut model = lockstep(Behaviour::Upstream);
    let snapshot = |pods: &[Arc<Pod>], has| Snapshot {
        sets: vec![set(3, has)],
        pods: pods.to_vec(),
    };
    let mut pods = vec![plain("a", true)];
    model.stepped(&snapshot(&pods, 1));
    for name in ["b", "c", "d"].into_iter().take(made) {
        let new = plain(name, true);
        write(&mut model, Change::Added, None, &new);
        pods.push(new);
    }
    model.rests(&snapshot(&pods, 3))
}

#[test]
fn creates_must_match_the_model_exactly() {
    assert_eq!(scaled_up(2), Ok(()));
    for wrong in [0, 1, 3] {
        let text = scaled_up(wrong).unwrap_err();
        assert!(text.contains(&format!("created {wrong}")), "{text}");
    }
}

/// Returns the model's result for a ReplicaSet that is scaled from 3 to `left` and of which these
/// pods are deleted.
fn scaled_down(behaviour: Behaviour, left: i32, deleted: &[&str]) -> Result<(), String> {
    let mut model = lockstep(behaviour);
    let all = [
        pod("cheap", true, "-1", "a", Value::Null),
        pod("alone", true, "0", "b", Value::Null),
        pod("beside", true, "0", "a", Value::Null),
    ];
    let snapshot = |pods: &[Arc<Pod>], has| Snapshot {
        sets: vec![set(left, has)],
        pods: pods.to_vec(),
    };
    model.stepped(&snapshot(&all, 3));
    for old in &all {
        if deleted.contains(&&*old.metadata.name) {
            let since = json!("2026-01-01T00:00:00Z");
            let gone = pod(&old.metadata.name, true, "0", "a", since);
            write(&mut model, Change::Modified, Some(old), &gone);
        }
    }
    model.rests(&snapshot(&[], left))
}

#[test]
fn the_first_criteria_select_the_pods_to_delete() {
    for behaviour in Behaviour::ALL {
        assert_eq!(scaled_down(behaviour, 2, &["cheap"]), Ok(()));
        assert_eq!(scaled_down(behaviour, 1, &["cheap", "beside"]), Ok(()));
        for (left, wrong) in [
            (2, vec![]),
            (2, vec!["alone"]),
            (2, vec!["cheap", "alone"]),
            (1, vec!["alone", "beside"]),
        ] {
            assert!(scaled_down(behaviour, left, &wrong).is_err(), "{wrong:?}");
        }
        // Pods of the owner on the same node count only with the hardened behaviour.
        let alone = scaled_down(behaviour, 1, &["cheap", "alone"]);
        assert_eq!(alone.is_ok(), behaviour == Behaviour::Upstream);
    }
}

#[test]
fn orphans_are_adopted_and_nothing_else_happens() {
    for adopted in [true, false] {
        let mut model = lockstep(Behaviour::Hardened);
        let orphan = plain("b", false);
        let snapshot = |pods: &[Arc<Pod>]| Snapshot {
            sets: vec![set(2, 2)],
            pods: pods.to_vec(),
        };
        model.stepped(&snapshot(&[plain("a", true), orphan.clone()]));
        let own = plain("b", true);
        if adopted {
            write(&mut model, Change::Modified, Some(&orphan), &own);
        }
        let both = snapshot(&[plain("a", true), own.clone()]);
        assert_eq!(model.rests(&both).is_ok(), adopted);
        // After the rest, a pod is released anyway.
        assert_eq!(model.rests(&both), Ok(()));
        write(&mut model, Change::Modified, Some(&own), &orphan);
        assert!(model.rests(&both).is_err());
    }
}

#[test]
fn a_wrong_status_and_too_few_pods_are_reported() {
    let mut model = lockstep(Behaviour::Upstream);
    let one = [plain("a", true)];
    let snapshot = |replicas, has| Snapshot {
        sets: vec![set(replicas, has)],
        pods: one.to_vec(),
    };
    model.stepped(&snapshot(1, 1));
    assert!(model.rests(&snapshot(1, 0)).is_err());
    // Users perform two actions before everything is at rest.
    for (replicas, good) in [(1, true), (2, false)] {
        model.stepped(&snapshot(replicas, 1));
        model.goes_on();
        model.stepped(&snapshot(replicas, 1));
        assert_eq!(model.rests(&snapshot(replicas, 1)).is_ok(), good);
    }
    assert_eq!(model.compared(), [1, 2]);
}

#[test]
fn the_model_agrees_with_both_behaviours_without_faults() {
    let schedules = (0..).map(|seed| draw::<ReplicaSets>(seed, &[]));
    let schedules = schedules.filter(|schedule| schedule.classes.is_empty());
    let (mut compared, mut sometimes) = ([0, 0], BTreeSet::new());
    for schedule in schedules.take(40) {
        for behaviour in Behaviour::ALL {
            let verdict = caught(&schedule, behaviour);
            assert_eq!(verdict.violation, None, "seed {}", schedule.seed);
            compared[0] += verdict.compared[0];
            compared[1] += verdict.compared[1];
            sometimes.extend(verdict.sometimes);
        }
    }
    println!(
        "{} exact comparisons, {} of end states",
        compared[0], compared[1]
    );
    let [exact, of_ends] = compared;
    assert!(exact > 600 && exact > of_ends, "{compared:?}");
    let agreed = sometimes
        .iter()
        .filter(|it| it.starts_with("the model agrees"));
    assert_eq!(agreed.count(), 4, "{sometimes:?}");
}
