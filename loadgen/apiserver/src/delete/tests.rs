//! Tests of deletions: grace periods, finalizers, preconditions, policies.

use podstorm_objects::{Pod, PodPhase, ReplicaSet, ReplicationController, Resource};
use serde_json::{Value, json};

use super::*;
use crate::testing::*;

fn grace(seconds: Option<i64>) -> DeleteOptions {
    DeleteOptions {
        grace_period_seconds: seconds,
        ..DeleteOptions::default()
    }
}

/// Deletes pod `a`.
fn delete(cluster: &Cluster, options: &DeleteOptions, seconds: i64) -> Deletion<Pod> {
    let deleted = cluster.delete::<Pod>("default", "a", options, at(seconds));
    deleted.unwrap()
}

/// Removes the finalizers of a pod.
fn let_go(cluster: &Cluster, pod: &Pod, seconds: i64) {
    let mut pod = pod.clone();
    pod.metadata.finalizers = None;
    cluster.update(pod, at(seconds)).unwrap();
}

/// Returns the deadline in seconds since the start, the grace period and the generation.
fn deletion(metadata: &ObjectMeta) -> (Option<i64>, Option<i64>, i64) {
    let deadline = metadata.deletion_timestamp.unix_seconds();
    let grace = metadata.deletion_grace_period_seconds.get();
    (deadline.map(|at| at - EPOCH), grace, metadata.generation)
}

#[test]
fn a_first_deletion_uses_the_first_grace_period_given() {
    struct Case {
        asked: Option<i64>,
        spec: Option<i64>,
        bound: bool,
        phase: PodPhase,
        wanted: i64,
    }
    let case = |asked, spec, wanted| Case {
        asked,
        spec,
        bound: true,
        phase: PodPhase::Running,
        wanted,
    };
    let in_phase = |phase, asked, wanted| Case {
        phase,
        ..case(asked, None, wanted)
    };
    let table = [
        case(Some(5), Some(60), 5),
        case(None, Some(60), 60),
        case(None, None, 30),
        case(None, Some(0), 0),
        case(Some(-7), None, 1),
        case(Some(0), None, 0),
        Case {
            bound: false,
            ..case(Some(5), None, 0)
        },
        in_phase(PodPhase::Succeeded, Some(5), 0),
        in_phase(PodPhase::Failed, None, 0),
        in_phase(PodPhase::Unknown, Some(5), 5),
    ];
    for (number, case) in table.into_iter().enumerate() {
        let cluster = cluster();
        let seconds = case.spec.map_or(Value::Null, Value::from);
        let patch = json!({"spec": {"terminationGracePeriodSeconds": seconds}});
        let pod = match case.bound {
            true => bound_pod(&cluster, "a", patch),
            false => cluster.create(pod("a", patch), at(0)).unwrap(),
        };
        set_phase(&cluster, &pod, case.phase);
        let before = cluster.resource_version();
        let mut watch = watch::<Pod>(&cluster);
        let answer = delete(&cluster, &grace(case.asked), 10);
        let wanted = (Some(10 + case.wanted), Some(case.wanted), 2);
        assert_eq!(deletion(&answer.object.metadata), wanted, "case {number}");
        assert_eq!(answer.removed, case.wanted == 0, "case {number}");
        let mut events = vec![format!("MODIFIED a {}", before + 1)];
        if case.wanted == 0 {
            events.push(format!("DELETED a {}", before + 2));
        }
        assert_eq!(drain(&mut watch), events, "case {number}");
    }
}

#[test]
fn a_repeated_deletion_can_only_shorten_the_grace_period() {
    // First grace period, time of the repeat, requested grace period, then deadline and grace
    // period (`None`: removed).
    type Case = (i64, i64, Option<i64>, Option<(i64, i64)>);
    let table: &[Case] = &[
        (30, 5, Some(30), Some((30, 30))),
        (30, 5, Some(60), Some((30, 30))),
        (30, 5, None, Some((30, 30))),
        (30, 5, Some(10), Some((10, 10))),
        (30, 20, Some(10), Some((20, 1))),
        (30, 20, Some(-3), Some((20, 1))),
        (30, 0, Some(-3), Some((1, 1))),
        (30, 20, Some(0), None),
        (1, 20, Some(1), Some((1, 1))),
    ];
    for &(first, now, asked, wanted) in table {
        let cluster = cluster();
        bound_pod(&cluster, "a", json!({}));
        delete(&cluster, &grace(Some(first)), 0);
        let before = cluster.resource_version();
        let mut watch = watch::<Pod>(&cluster);
        let answer = delete(&cluster, &grace(asked), now);
        assert_eq!(answer.removed, wanted.is_none());
        let events = drain(&mut watch);
        match wanted {
            Some((deadline, seconds)) => {
                let metadata = &answer.object.metadata;
                assert_eq!(deletion(metadata), (Some(deadline), Some(seconds), 2));
                let changed = seconds != first;
                assert_eq!(events.len(), usize::from(changed), "{asked:?} at {now}");
                assert_eq!(cluster.resource_version(), before + u64::from(changed));
            }
            None => {
                let wanted = [
                    format!("MODIFIED a {}", before + 1),
                    format!("DELETED a {}", before + 2),
                ];
                assert_eq!(events, wanted);
                assert_eq!(deletion(&answer.object.metadata), (Some(now), Some(0), 2));
            }
        }
    }
}

#[test]
fn finalizers_hold_a_pod_until_the_last_one_is_removed() {
    let cluster = cluster();
    let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
    bound_pod(&cluster, "a", held);
    let mut watch = watch::<Pod>(&cluster);
    let before = cluster.resource_version();
    let marked = delete(&cluster, &grace(Some(0)), 1);
    assert!(!marked.removed);
    assert_eq!(deletion(&marked.object.metadata), (Some(1), Some(0), 2));
    let again = delete(&cluster, &grace(Some(0)), 2);
    assert!(!again.removed, "nothing new");
    let_go(&cluster, &marked.object, 3);
    let wanted = [
        format!("MODIFIED a {}", before + 1),
        format!("DELETED a {}", before + 2),
    ];
    assert_eq!(drain(&mut watch), wanted);
    assert_eq!(refused(cluster.get::<Pod>("default", "a")), "404 NotFound");
}

#[test]
fn a_pod_past_its_grace_without_finalizers_is_removed() {
    let cluster = cluster();
    let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
    bound_pod(&cluster, "a", held);
    // The finalizer is removed during the grace period: the pod stays.
    let marked = delete(&cluster, &grace(Some(30)), 0);
    let_go(&cluster, &marked.object, 1);
    assert!(cluster.get::<Pod>("default", "a").is_ok());
    assert!(delete(&cluster, &grace(Some(0)), 2).removed);
}

#[test]
fn the_policy_is_the_requests_or_the_finalizers_or_the_kinds() {
    use Propagation::{Background, Foreground, Orphan};
    let none = DeleteOptions::default();
    let asked = |policy| DeleteOptions {
        propagation: Some(policy),
        ..DeleteOptions::default()
    };
    let older = |orphan| DeleteOptions {
        orphan_dependents: Some(orphan),
        ..DeleteOptions::default()
    };
    // Options, finalizers before, finalizers after (`None`: removed immediately), for either kind.
    type Case<'a> = (DeleteOptions, &'a [&'a str], Option<&'a [&'a str]>);
    let orphan: Option<&[&str]> = Some(&["orphan"]);
    let foreground: Option<&[&str]> = Some(&["foregroundDeletion"]);
    let table: [Case<'_>; 9] = [
        (none.clone(), &[], None),
        (asked(Background), &[], None),
        (asked(Foreground), &[], foreground),
        (asked(Orphan), &[], orphan),
        (older(true), &[], orphan),
        (older(false), &[], None),
        (none.clone(), &["foregroundDeletion"], foreground),
        (asked(Background), &["orphan"], None),
        (asked(Orphan), &["a.b/c"], Some(&["a.b/c", "orphan"])),
    ];
    for (number, (options, before, wanted)) in table.iter().enumerate() {
        let cluster = cluster();
        let finalizers = json!({"metadata": {"finalizers": before}});
        let set = cluster
            .create(replica_set("a", finalizers.clone()), at(0))
            .unwrap();
        check_policy(&cluster, &*set, options, *wanted, number);
        let value = merged(workload("a", json!({"app": "web"})), finalizers);
        let controller: ReplicationController = read(value);
        let controller = cluster.create(controller, at(0)).unwrap();
        // The kinds differ only without a requested policy.
        let wanted = if number == 0 { orphan } else { *wanted };
        check_policy(&cluster, &*controller, options, wanted, number);
    }
    let both = DeleteOptions {
        propagation: Some(Orphan),
        ..older(true)
    };
    let cluster = cluster();
    cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let refused = cluster.delete::<ReplicaSet>("default", "a", &both, at(0));
    assert_eq!(fields(refused), ["propagationPolicy"]);
}

fn check_policy<R: ClusterResource>(
    cluster: &Cluster,
    object: &R,
    options: &DeleteOptions,
    wanted: Option<&[&str]>,
    number: usize,
) {
    let name = &object.metadata().name;
    let answer = cluster
        .delete::<R>("default", name, options, at(4))
        .unwrap();
    let what = format!("{} in case {number}", R::KIND.name());
    assert_eq!(answer.removed, wanted.is_none(), "{what}");
    if let Some(wanted) = wanted {
        let metadata = answer.object.metadata();
        let found: Vec<&str> = metadata.finalizers().iter().map(|f| &**f).collect();
        assert_eq!(found, wanted, "{what}");
        assert_eq!(deletion(metadata), (Some(4), Some(0), 2), "{what}");
    }
}

#[test]
fn a_deleted_event_has_the_last_state_and_the_deletions_version() {
    let cluster = cluster();
    cluster.create(replica_set("a", json!({})), at(0)).unwrap();
    let mut watch = watch::<ReplicaSet>(&cluster);
    let options = DeleteOptions::default();
    let answer = cluster.delete::<ReplicaSet>("default", "a", &options, at(0));
    let version = cluster.resource_version();
    assert_eq!(drain(&mut watch), [format!("DELETED a {version}")]);
    let told = answer.unwrap().object.metadata.resource_version.number();
    assert_eq!(told, Some(version));
    assert_eq!(ReplicaSet::KIND, Kind::REPLICA_SET);
}
