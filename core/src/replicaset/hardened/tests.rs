//! Tests of the smaller rows of the hardened behaviour that compare it with upstream's.

use std::sync::Arc;

use podstorm_objects::{Kind, Labels, Now, Pod, ReplicaSet, Resource, Time, Uid};
use podstorm_runtime::client::{ApiError, Cause, Reason, Request};
use podstorm_runtime::driver::Progress;
use podstorm_runtime::limits::{BACKOFF_BASE_NS, HARDENED_RETRY_MAX_NS};
use podstorm_runtime::workqueue::Take;
use serde_json::json;

use super::super::harness::{Fault, Harness, LOST};
use super::super::{Controller, ControllerOptions, Outcome, SyncErrorClass};
use crate::cache::{Delta, PodCache};
use crate::policy::Behaviour::{Hardened, Upstream};

/// Creates a harness whose owner has this number of pods, all of them in the caches.
pub(super) fn settled(behaviour: crate::policy::Behaviour, pods: i32) -> Harness {
    let mut harness = Harness::new(behaviour, pods);
    for _ in 0..3 {
        assert_eq!(harness.sync(), Outcome::Ok);
        harness.deliver();
    }
    assert_eq!(harness.server.pods.len(), usize::try_from(pods).unwrap());
    harness
}

fn refused() -> Fault {
    Fault::Refuse(ApiError::status(500, Reason::InternalError, "refused"))
}

/// Syncs the key until nothing wakes it any longer.
fn finish_all(harness: &mut Harness) {
    while harness.take() {
        assert_eq!(harness.sync(), Outcome::Ok);
        harness.driver.finish(&*harness.controller, harness.now);
    }
}

#[test]
fn a_delete_spares_another_pod_of_the_same_name() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = settled(behaviour, 1);
        harness.server.set_replicas(0);
        harness.deliver();
        let name = harness.server.pods.keys().next().unwrap().clone();
        harness.server.remove_pod(&name);
        let mut bare = Pod::default();
        bare.metadata.name = name.as_str().into();
        harness.server.put_pod(bare);
        let spared = harness.sync() != Outcome::Ok;
        assert_eq!(spared, behaviour == Hardened);
        let pods = harness.server.pods.len();
        assert_eq!(pods, usize::from(spared), "{behaviour:?}");
        let events = harness.driver.sync.take_events().count();
        assert_eq!(events, usize::from(!spared));
        harness.deliver();
        assert_eq!(harness.sync(), Outcome::Ok);
        assert!(harness.server.owner.status.conditions.is_empty());
        assert_eq!(harness.server.pods.len(), usize::from(spared));
    }
}

#[test]
fn a_pod_wrongly_reported_missing_is_deleted_again() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = settled(behaviour, 1);
        harness.server.set_replicas(0);
        harness.deliver();
        let nothing = ApiError::status(404, Reason::NotFound, "not found");
        harness.server.fault("delete", 0, Fault::Refuse(nothing));
        let again = harness.sync() != Outcome::Ok;
        assert_eq!(again, behaviour == Hardened);
        // This is not a failure, so there is no condition and no Event.
        assert!(harness.server.owner.status.conditions.is_empty());
        assert_eq!(harness.driver.sync.take_events().count(), 0);
        if again {
            harness.deliver();
            assert_eq!(harness.sync(), Outcome::Ok);
        }
        let pods = harness.server.pods.len();
        assert_eq!(pods, usize::from(!again), "{behaviour:?}");
    }
}

#[test]
fn deletes_carry_the_uid_of_the_chosen_pod() {
    // Deletes of all pods, of some by rank, and of some after a claim.
    for (left, orphans) in [(0, 0), (1, 0), (0, 1), (2, 1)] {
        let mut harness = settled(Hardened, 4);
        for number in 0..orphans {
            let mut orphan = Pod::default();
            orphan.metadata.name = format!("orphan-{number}").into();
            orphan.metadata.labels = harness.server.owner.spec.template.metadata.labels.clone();
            harness.server.put_pod(orphan);
        }
        harness.server.set_replicas(left);
        harness.deliver();
        let mut progress = harness.begin();
        let mut deletes = 0;
        while progress == Progress::Waiting {
            for request in harness.driver.sync.requests() {
                if let Request::DeletePod { name, uid, .. } = request {
                    let chosen = &harness.server.pods[name.as_str()];
                    assert_eq!(*uid, Some(chosen.metadata.uid.clone()));
                    deletes += 1;
                }
            }
            progress = harness.answer_and_resume();
        }
        assert_eq!(deletes, 4 + orphans - left);
    }
}

#[test]
fn a_create_refused_by_a_terminating_namespace_is_retried() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::new(behaviour, 1);
        let error = ApiError::status(403, Reason::Forbidden, "it is being terminated");
        let error = error.with_cause(Cause {
            reason: "NamespaceTerminating".to_owned(),
            ..Cause::default()
        });
        harness.server.fault("create", 0, Fault::Refuse(error));
        let outcome = harness.sync();
        let failed = matches!(&outcome,
            Outcome::Failed(error) if error.class == SyncErrorClass::Create);
        assert_eq!(failed, behaviour == Hardened);
        assert_eq!(harness.driver.sync.take_events().count(), 0);
        assert!(harness.server.owner.status.conditions.is_empty());
        let waits = |harness: &Harness| {
            let counts = harness.controller.expectations().counts(harness.key);
            counts.is_some_and(|counts| counts.add > 0)
        };
        // Upstream waits for a pod that is never created.
        assert_eq!(waits(&harness), behaviour == Upstream);
        harness.deliver();
        harness.sync();
        let pods = harness.server.pods.len();
        assert_eq!(pods, usize::from(behaviour == Hardened));
    }
}

#[test]
fn a_burst_ends_with_its_object() {
    for behaviour in [Upstream, Hardened] {
        for replaced in [false, true] {
            let mut harness = Harness::new(behaviour, 7);
            assert_eq!(harness.begin(), Progress::Waiting);
            assert_eq!(harness.answer_and_resume(), Progress::Waiting);
            // One pod has been created, two are requested, and four would follow.
            harness.answer();
            harness.server.change_owner(|owner| {
                if replaced {
                    owner.metadata.uid = Uid::from_u128(0xb);
                } else {
                    owner.metadata.deletion_timestamp = Time::from_unix_seconds(1_700_000_000);
                }
            });
            harness.deliver();
            harness.resume_to_end();
            let made = if behaviour == Hardened { 3 } else { 7 };
            assert_eq!(harness.server.calls("create"), made, "{behaviour:?}");
            harness.deliver();
            let counts = harness.controller.expectations().counts(harness.key);
            assert!(counts.is_none_or(|counts| counts.add <= 0));
        }
    }
}

#[test]
fn own_pods_count_per_node_without_an_owner() {
    for kind in [Kind::REPLICA_SET, Kind::REPLICATION_CONTROLLER] {
        for behaviour in [Upstream, Hardened] {
            let mut harness = Harness::before_first_sync(kind, behaviour, 0);
            // Two pods share a node. The third is alone on its node; by its UID, it would be
            // deleted first.
            for (name, node) in [("c", "n2"), ("b", "n1"), ("a", "n1")] {
                let mut pod = harness.own_pod(name);
                pod.node_name = Some(node.into());
                harness.server.put_pod(pod);
            }
            harness.server.set_replicas(2);
            harness.deliver();
            harness.sync();
            let gone = ["a", "b", "c"]
                .into_iter()
                .find(|name| !harness.server.pods.contains_key(*name));
            let expected = if behaviour == Hardened { "b" } else { "c" };
            assert_eq!(gone, Some(expected), "{kind:?} {behaviour:?}");
        }
    }
}

#[test]
fn an_owner_that_loses_a_pod_as_its_deletion_begins_is_woken() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = settled(behaviour, 1);
        finish_all(&mut harness);
        let mut pod = Pod::clone(harness.server.pods.values().next().unwrap());
        pod.metadata.owner_references.clear();
        pod.metadata.deletion_timestamp = Time::from_unix_seconds(1_700_000_000);
        harness.server.put_pod(pod);
        harness.deliver();
        assert_eq!(harness.take(), behaviour == Hardened);
    }
}

/// Seed 9027647 of the fault simulator: the events of changes by another client were lost.
#[test]
fn an_owner_is_woken_if_its_pod_changed_owner_unseen() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = settled(behaviour, 1);
        finish_all(&mut harness);
        let mut pod = Pod::clone(harness.server.pods.values().next().unwrap());
        Arc::make_mut(&mut pod.metadata.owner_references[0]).uid = Uid::from_u128(0xdead);
        let name = pod.metadata.name.to_string();
        harness.server.put_pod(pod);
        harness.server.forget_pod_events();
        harness.server.remove_pod(&name);
        harness.deliver();
        assert_eq!(harness.take(), behaviour == Hardened);
    }
}

/// Seed 1300107631 of the fault simulator: an owner that was refused an orphan waited 30 s longer.
#[test]
fn an_adoption_wakes_the_other_matching_owners() {
    for (behaviour, removed, woken) in [
        (Upstream, false, 1),
        (Hardened, false, 2),
        (Upstream, true, 0),
        (Hardened, true, 2),
    ] {
        let pods = Arc::new(PodCache::new());
        let options = ControllerOptions {
            policy: behaviour.policy(),
            ..ControllerOptions::new(Kind::REPLICA_SET)
        };
        let (controller, owners) = Controller::alone(options, pods.clone());
        let now = Now::default();
        for name in ["api", "web"] {
            let set = json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
                "spec": {"selector": {"matchLabels": {"app": "x"}}}});
            let set = Arc::new(ReplicaSet::from_json(set).unwrap());
            owners.apply(Delta::Applied(set), now);
        }
        let pod = |version: &str, owner: Option<&str>| {
            let owner = owner.map(|name| {
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name,
                    "controller": true})
            });
            let pod = json!({"metadata": {"name": "p", "namespace": "ns", "uid": "p",
                "resourceVersion": version, "labels": {"app": "x"},
                "ownerReferences": owner.as_slice()}});
            Arc::new(Pod::from_json(pod).unwrap())
        };
        let hears = |delta| controller.pod_changed(&pods.apply(delta), now);
        hears(Delta::Applied(pod("1", None)));
        finish_keys(&controller);
        let owner = if removed { "elsewhere" } else { "web" };
        let adopted = pod("2", Some(owner));
        hears(if removed {
            Delta::Deleted(adopted)
        } else {
            Delta::Applied(adopted)
        });
        assert_eq!(controller.queue().len(), woken, "{behaviour:?}, {removed}");
    }
}

fn finish_keys(controller: &Controller) {
    while let Take::Key(key) = controller.queue().try_take(0) {
        controller.queue().done(key, 0);
    }
}

#[test]
fn a_pod_of_the_other_kind_wakes_no_owner() {
    let pods = Arc::new(PodCache::new());
    let controllers = [Kind::REPLICATION_CONTROLLER, Kind::REPLICA_SET]
        .map(|kind| Controller::alone(ControllerOptions::new(kind), pods.clone()));
    let now = Now::default();
    let owner = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "u"}});
    let owner = Arc::new(ReplicaSet::from_json(owner).unwrap());
    controllers[0].1.apply(Delta::Applied(owner), now);
    let pod = json!({"metadata": {
        "name": "p", "namespace": "ns", "uid": "p",
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ReplicationController", "name": "web", "uid": "u",
            "controller": true,
        }],
    }});
    let pod = Pod::from_json(pod).unwrap();
    let change = pods.apply(Delta::Applied(Arc::new(pod)));
    for (controller, _) in &controllers {
        controller.pod_changed(&change, now);
    }
    let woken = controllers.map(|(controller, _)| controller.queue().len());
    assert_eq!(woken, [1, 0]);
}

#[test]
fn a_failure_after_progress_counts_as_the_first() {
    for (behaviour, failures) in [(Upstream, 3), (Hardened, 1)] {
        let mut harness = Harness::new(behaviour, 10);
        // In each sync one create succeeds and one of the next two fails.
        for create in [1, 4, 7] {
            harness.server.fault("create", create, refused());
        }
        for _ in 0..3 {
            harness.advance(HARDENED_RETRY_MAX_NS);
            let outcome = harness.process_next();
            assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
            harness.deliver();
        }
        let queue = harness.controller.queue();
        assert_eq!(queue.num_requeues(harness.key), failures, "{behaviour:?}");
        // A sync without progress continues the count.
        harness.server.fault("create", 9, refused());
        harness.advance(HARDENED_RETRY_MAX_NS);
        harness.process_next();
        let queue = harness.controller.queue();
        let counted = queue.num_requeues(harness.key);
        assert_eq!(counted, failures + 1, "{behaviour:?}");
    }
}

/// Seed 30014505 of the fault simulator: the fence could not be read for minutes. Then the cache
/// lagged by some milliseconds, and the key waited for half a minute longer.
#[test]
fn a_readable_fence_clears_earlier_failures() {
    let mut harness = Harness::new(Hardened, 1);
    harness.server.fault("create", 0, LOST);
    for read in 0..12 {
        harness.server.fault("read", read, refused());
    }
    for _ in 0..12 {
        harness.process_next();
        harness.deliver_owners();
        harness.advance(HARDENED_RETRY_MAX_NS);
    }
    assert_eq!(harness.controller.queue().num_requeues(harness.key), 12);
    // The version has been read, but the cache has not reached it yet.
    let outcome = harness.process_next();
    let class = match &outcome {
        Outcome::Failed(error) => error.class,
        Outcome::Ok => panic!("the cache lags"),
    };
    assert_eq!(class, SyncErrorClass::Consistency(Kind::POD));
    assert_eq!(harness.controller.queue().num_requeues(harness.key), 1);
    harness.advance(BACKOFF_BASE_NS);
    assert!(harness.take(), "the key is retried immediately");
}

#[test]
fn a_release_refused_as_invalid_is_retried() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = settled(behaviour, 1);
        let mut other = Pod::clone(harness.server.pods.values().next().unwrap());
        other.metadata.labels = Labels::from_pairs([("app", "another")]);
        harness.server.put_pod(other);
        harness.deliver();
        let policy = ApiError::status(422, Reason::Invalid, "refused by a policy");
        for patch in [0, 1] {
            let refused = Fault::Refuse(policy.clone());
            harness.server.fault("patch", patch, refused);
        }
        finish_all(&mut harness);
        let tried = harness.server.calls("patch");
        assert!((1..=2).contains(&tried), "{behaviour:?}: {tried}");
        harness.advance(HARDENED_RETRY_MAX_NS);
        assert_eq!(harness.take(), behaviour == Hardened);
        if behaviour == Hardened {
            // The cache now has the event of the pod that was created in the meantime.
            harness.catch_up();
            assert_eq!(harness.server.calls("patch"), tried + 1);
        }
    }
}

/// Seed 1400253375 of the fault simulator: a layer below sent an adoption twice. The answer was
/// that the pod does not exist, although the first attempt had been carried out.
#[test]
fn no_pod_is_created_if_an_adoption_finds_no_pod() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = Harness::new(behaviour, 1);
        let mut orphan = harness.own_pod("orphan");
        orphan.metadata.owner_references.clear();
        harness.server.put_pod(orphan);
        harness.deliver();
        let nothing = ApiError::status(404, Reason::NotFound, "not found");
        harness.server.fault("patch", 0, Fault::Refuse(nothing));
        let adopted = harness.own_pod("orphan");
        assert_eq!(harness.begin(), Progress::Waiting);
        harness.server.put_pod(adopted);
        harness.answer();
        harness.resume_to_end();
        let made = usize::from(behaviour == Upstream);
        assert_eq!(harness.server.calls("create"), made, "{behaviour:?}");
        harness.catch_up();
        assert_eq!(harness.server.pods.len(), 1);
        assert_eq!(harness.server.calls("create"), made);
        assert_eq!(harness.server.calls("delete"), made);
    }
}

/// Seed 300009169 of the fault simulator: the event of an adoption was lost, and the pod was an
/// orphan again in the next list, so no change was visible.
#[test]
fn an_adoption_with_a_lost_event_is_checked_again() {
    for behaviour in [Upstream, Hardened] {
        let mut harness = settled(behaviour, 1);
        let mut orphan = Pod::clone(harness.server.pods.values().next().unwrap());
        orphan.metadata.owner_references.clear();
        harness.server.put_pod(orphan.clone());
        harness.deliver();
        finish_all(&mut harness);
        assert_eq!(harness.server.calls("patch"), 1, "{behaviour:?}");
        harness.server.forget_pod_events();
        harness.server.put_pod(orphan);
        harness.deliver();
        assert!(
            !harness.take(),
            "only the orphan has changed, not its owners"
        );
        harness.advance(HARDENED_RETRY_MAX_NS);
        assert_eq!(harness.take(), behaviour == Hardened);
    }
}
