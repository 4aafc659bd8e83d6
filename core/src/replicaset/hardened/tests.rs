//! The smaller rows of the hardened behaviour, each beside what upstream does.

use podstorm_objects::{Kind, Labels, Pod, Time, Uid};
use podstorm_runtime::client::{ApiError, Cause, Reason, Request};
use podstorm_runtime::driver::Progress;
use podstorm_runtime::limits::{BACKOFF_BASE_NS, HARDENED_RETRY_MAX_NS};

use super::super::rig::{Fault, LOST, Rig};
use super::super::{Outcome, SyncErrorClass};
use crate::policy::Behaviour::{Hardened, Upstream};

/// A rig whose parent has so many pods, all known to the caches.
fn settled(behaviour: crate::policy::Behaviour, pods: i32) -> Rig {
    let mut rig = Rig::new(behaviour, pods);
    for _ in 0..3 {
        assert_eq!(rig.sync(), Outcome::Ok);
        rig.deliver();
    }
    assert_eq!(rig.server.pods.len(), usize::try_from(pods).unwrap());
    rig
}

/// Syncs the key until nothing wakes it any more.
fn finish_all(rig: &mut Rig) {
    while rig.take() {
        assert_eq!(rig.sync(), Outcome::Ok);
        rig.controller.finish(&mut rig.driver.sync, rig.now);
    }
}

#[test]
fn a_delete_spares_another_pod_of_the_same_name() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = settled(behaviour, 1);
        rig.server.set_replicas(0);
        rig.deliver();
        let name = rig.server.pods.keys().next().unwrap().clone();
        rig.server.remove_pod(&name);
        let mut bare = Pod::default();
        bare.metadata.name = name.as_str().into();
        rig.server.put_pod(bare);
        let spared = rig.sync() != Outcome::Ok;
        assert_eq!(spared, behaviour == Hardened);
        assert_eq!(rig.server.pods.len(), usize::from(spared), "{behaviour:?}");
        assert_eq!(rig.driver.sync.take_events().count(), usize::from(!spared));
        rig.deliver();
        assert_eq!(rig.sync(), Outcome::Ok);
        assert!(rig.server.parent.status.conditions.is_empty());
        assert_eq!(rig.server.pods.len(), usize::from(spared));
    }
}

#[test]
fn a_pod_that_is_there_although_the_server_knew_of_none_is_deleted_again() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = settled(behaviour, 1);
        rig.server.set_replicas(0);
        rig.deliver();
        rig.server.fault(
            "delete",
            0,
            Fault::Refuse(ApiError::status(404, Reason::NotFound, "not found")),
        );
        let again = rig.sync() != Outcome::Ok;
        assert_eq!(again, behaviour == Hardened);
        // It is no failure: nobody is told.
        assert!(rig.server.parent.status.conditions.is_empty());
        assert_eq!(rig.driver.sync.take_events().count(), 0);
        if again {
            rig.deliver();
            assert_eq!(rig.sync(), Outcome::Ok);
        }
        assert_eq!(rig.server.pods.len(), usize::from(!again), "{behaviour:?}");
    }
}

#[test]
fn deletes_carry_the_uid_of_the_pod_that_was_chosen() {
    // All of them, some by rank, and some after a claim.
    for (left, orphans) in [(0, 0), (1, 0), (0, 1), (2, 1)] {
        let mut rig = settled(Hardened, 4);
        for number in 0..orphans {
            let mut orphan = Pod::default();
            orphan.metadata.name = format!("orphan-{number}").into();
            orphan.metadata.labels = rig.server.parent.spec.template.metadata.labels.clone();
            rig.server.put_pod(orphan);
        }
        rig.server.set_replicas(left);
        rig.deliver();
        let mut progress = rig.begin();
        let mut deletes = 0;
        while progress == Progress::Waiting {
            for request in rig.driver.sync.requests() {
                if let Request::DeletePod { name, uid, .. } = request {
                    assert_eq!(
                        *uid,
                        Some(rig.server.pods[name.as_str()].metadata.uid.clone())
                    );
                    deletes += 1;
                }
            }
            progress = rig.go_on();
        }
        assert_eq!(deletes, 4 + orphans - left);
    }
}

#[test]
fn a_create_that_a_terminating_namespace_refuses_is_retried() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::new(behaviour, 1);
        let mut error = ApiError::status(403, Reason::Forbidden, "it is being terminated");
        error.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            ..Cause::default()
        });
        rig.server.fault("create", 0, Fault::Refuse(error));
        let outcome = rig.sync();
        let failed = matches!(&outcome,
            Outcome::Failed(error) if error.class == SyncErrorClass::Create);
        assert_eq!(failed, behaviour == Hardened);
        assert_eq!(rig.driver.sync.take_events().count(), 0);
        assert!(rig.server.parent.status.conditions.is_empty());
        let waits = |rig: &Rig| {
            let counts = rig.controller.expectations().counts(rig.key);
            counts.is_some_and(|counts| counts.add > 0)
        };
        // Upstream waits for a pod that nobody makes.
        assert_eq!(waits(&rig), behaviour == Upstream);
        rig.deliver();
        rig.sync();
        assert_eq!(rig.server.pods.len(), usize::from(behaviour == Hardened));
    }
}

#[test]
fn a_burst_ends_with_its_object() {
    for behaviour in [Upstream, Hardened] {
        for replaced in [false, true] {
            let mut rig = Rig::new(behaviour, 7);
            assert_eq!(rig.begin(), Progress::Waiting);
            assert_eq!(rig.go_on(), Progress::Waiting);
            // 1 is made, 2 are on their way, 4 would follow.
            rig.answer();
            rig.server.change_parent(|parent| {
                if replaced {
                    parent.metadata.uid = Uid::from_u128(0xb);
                } else {
                    parent.metadata.deletion_timestamp = Time::from_unix_seconds(1_700_000_000);
                }
            });
            rig.deliver();
            rig.run_on();
            let made = if behaviour == Hardened { 3 } else { 7 };
            assert_eq!(rig.server.calls("create"), made, "{behaviour:?}");
            rig.deliver();
            let counts = rig.controller.expectations().counts(rig.key);
            assert!(counts.is_none_or(|counts| counts.add <= 0));
        }
    }
}

#[test]
fn own_pods_on_a_node_count_without_an_owner() {
    for kind in [Kind::REPLICA_SET, Kind::REPLICATION_CONTROLLER] {
        for behaviour in [Upstream, Hardened] {
            let mut rig = Rig::unstarted(kind, behaviour, 0);
            // Two share a node; the third, alone on its own, would go first by its UID.
            for (name, node) in [("c", "n2"), ("b", "n1"), ("a", "n1")] {
                let mut pod = rig.own_pod(name);
                pod.node_name = Some(node.into());
                rig.server.put_pod(pod);
            }
            rig.server.set_replicas(2);
            rig.deliver();
            rig.sync();
            let gone = ["a", "b", "c"]
                .into_iter()
                .find(|name| !rig.server.pods.contains_key(*name));
            let expected = if behaviour == Hardened { "b" } else { "c" };
            assert_eq!(gone, Some(expected), "{kind:?} {behaviour:?}");
        }
    }
}

#[test]
fn an_owner_that_loses_a_pod_as_its_deletion_begins_is_woken() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = settled(behaviour, 1);
        finish_all(&mut rig);
        let mut pod = Pod::clone(rig.server.pods.values().next().unwrap());
        pod.metadata.owner_references.clear();
        pod.metadata.deletion_timestamp = Time::from_unix_seconds(1_700_000_000);
        rig.server.put_pod(pod);
        rig.deliver();
        assert_eq!(rig.take(), behaviour == Hardened);
    }
}

/// Seed 9027647 of the fault simulator: the events that told of the tampering were lost.
#[test]
fn an_owner_whose_pod_was_taken_over_and_removed_unseen_is_woken() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = settled(behaviour, 1);
        finish_all(&mut rig);
        let mut pod = Pod::clone(rig.server.pods.values().next().unwrap());
        std::sync::Arc::make_mut(&mut pod.metadata.owner_references[0]).uid =
            Uid::from_u128(0xdead);
        let name = pod.metadata.name.to_string();
        rig.server.put_pod(pod);
        rig.server.forget_pod_events();
        rig.server.remove_pod(&name);
        rig.deliver();
        assert_eq!(rig.take(), behaviour == Hardened);
    }
}

/// Seed 1300107631 of the fault simulator: one that was refused over an orphan waited for 30 s more.
#[test]
fn those_that_match_an_orphan_are_woken_when_another_adopts_it() {
    use super::super::{Controller, ControllerOptions};
    use crate::cache::{Delta, PodCache};
    use podstorm_objects::{Kind, Now, ReplicaSet, Resource};
    use serde_json::json;
    use std::sync::Arc;

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
        let controller = Controller::new(options, pods.clone());
        let now = Now::default();
        for name in ["api", "web"] {
            let set = json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
                "spec": {"selector": {"matchLabels": {"app": "x"}}}});
            let set = Arc::new(ReplicaSet::from_json(set).unwrap());
            controller.parent_delta(Delta::Applied(set), now);
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

fn finish_keys(controller: &super::Controller) {
    use podstorm_runtime::workqueue::Take;

    while let Take::Key(key) = controller.queue().try_take(0) {
        controller.queue().done(key, 0);
    }
}

#[test]
fn a_pod_of_the_other_kind_s_owner_wakes_nobody_here() {
    use super::super::{Controller, ControllerOptions};
    use crate::cache::{Delta, PodCache};
    use podstorm_objects::{Kind, Now, Pod, ReplicaSet, Resource};
    use serde_json::json;

    let pods = std::sync::Arc::new(PodCache::new());
    let controllers = [Kind::REPLICATION_CONTROLLER, Kind::REPLICA_SET]
        .map(|kind| Controller::new(ControllerOptions::new(kind), pods.clone()));
    let now = Now::default();
    let owner = json!({"metadata": {"name": "web", "namespace": "ns", "uid": "u"}});
    let owner = std::sync::Arc::new(ReplicaSet::from_json(owner).unwrap());
    controllers[0].parent_delta(Delta::Applied(owner), now);
    let pod = json!({"metadata": {
        "name": "p", "namespace": "ns", "uid": "p",
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "ReplicationController", "name": "web", "uid": "u",
            "controller": true,
        }],
    }});
    let pod = Pod::from_json(pod).unwrap();
    let change = pods.apply(Delta::Applied(std::sync::Arc::new(pod)));
    for controller in &controllers {
        controller.pod_changed(&change, now);
    }
    let woken = controllers.map(|controller| controller.queue().len());
    assert_eq!(woken, [1, 0]);
}

#[test]
fn a_failure_after_progress_is_a_first_one() {
    for (behaviour, failures) in [(Upstream, 3), (Hardened, 1)] {
        let mut rig = Rig::new(behaviour, 10);
        // One create of each sync goes well, and one of the next two fails.
        for create in [1, 4, 7] {
            let refused = ApiError::status(500, Reason::InternalError, "refused");
            rig.server.fault("create", create, Fault::Refuse(refused));
        }
        for _ in 0..3 {
            rig.pass(HARDENED_RETRY_MAX_NS);
            let outcome = rig.turn();
            assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
            rig.deliver();
        }
        let queue = rig.controller.queue();
        assert_eq!(queue.num_requeues(rig.key), failures, "{behaviour:?}");
        // And one that gets nowhere counts on.
        let refused = ApiError::status(500, Reason::InternalError, "refused");
        rig.server.fault("create", 9, Fault::Refuse(refused));
        rig.pass(HARDENED_RETRY_MAX_NS);
        rig.turn();
        let queue = rig.controller.queue();
        assert_eq!(queue.num_requeues(rig.key), failures + 1, "{behaviour:?}");
    }
}

/// Seed 30014505 of the fault simulator: after minutes in which the fence could not be read the cache
/// was some milliseconds behind, and the key waited for half a minute more.
#[test]
fn a_fence_that_can_be_read_again_ends_the_failures_before_it() {
    let mut rig = Rig::new(Hardened, 1);
    rig.server.fault("create", 0, LOST);
    for read in 0..12 {
        let refused = ApiError::status(500, Reason::InternalError, "refused");
        rig.server.fault("read", read, Fault::Refuse(refused));
    }
    for _ in 0..12 {
        rig.turn();
        rig.deliver_parents();
        rig.pass(HARDENED_RETRY_MAX_NS);
    }
    assert_eq!(rig.controller.queue().num_requeues(rig.key), 12);
    // The version is read, and the cache does not show the pod of that version yet.
    let outcome = rig.turn();
    let class = match &outcome {
        Outcome::Failed(error) => error.class,
        Outcome::Ok => panic!("the cache lags"),
    };
    assert_eq!(class, SyncErrorClass::Consistency(Kind::POD));
    assert_eq!(rig.controller.queue().num_requeues(rig.key), 1);
    rig.pass(BACKOFF_BASE_NS);
    assert!(rig.take(), "it looks again at once");
}

#[test]
fn a_release_that_is_refused_as_invalid_is_tried_again() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = settled(behaviour, 1);
        let mut other = Pod::clone(rig.server.pods.values().next().unwrap());
        other.metadata.labels = Labels::from_pairs([("app", "another")]);
        rig.server.put_pod(other);
        rig.deliver();
        let policy = ApiError::status(422, Reason::Invalid, "refused by a policy");
        rig.server.fault("patch", 0, Fault::Refuse(policy.clone()));
        rig.server.fault("patch", 1, Fault::Refuse(policy));
        finish_all(&mut rig);
        let tried = rig.server.calls("patch");
        assert!((1..=2).contains(&tried), "{behaviour:?}: {tried}");
        rig.pass(HARDENED_RETRY_MAX_NS);
        assert_eq!(rig.take(), behaviour == Hardened);
        if behaviour == Hardened {
            // Past the pod that was made in the meantime.
            rig.catch_up();
            assert_eq!(rig.server.calls("patch"), tried + 1);
        }
    }
}

/// Seed 1400253375 of the fault simulator: an adoption was sent again by a layer below, and then answered
/// that there is no such pod, although the first try had been carried out.
#[test]
fn no_pod_is_made_beside_one_whose_adoption_finds_nothing() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = Rig::new(behaviour, 1);
        let mut orphan = rig.own_pod("orphan");
        orphan.metadata.owner_references.clear();
        rig.server.put_pod(orphan);
        rig.deliver();
        let nothing = ApiError::status(404, Reason::NotFound, "not found");
        rig.server.fault("patch", 0, Fault::Refuse(nothing));
        let adopted = rig.own_pod("orphan");
        assert_eq!(rig.begin(), Progress::Waiting);
        rig.server.put_pod(adopted);
        rig.answer();
        rig.run_on();
        let made = usize::from(behaviour == Upstream);
        assert_eq!(rig.server.calls("create"), made, "{behaviour:?}");
        rig.catch_up();
        assert_eq!(rig.server.pods.len(), 1);
        assert_eq!(
            (rig.server.calls("create"), rig.server.calls("delete")),
            (made, made)
        );
    }
}

/// Seed 300009169 of the fault simulator: the event of an adoption was lost, and the pod was an orphan
/// again when the next list came, so no change showed.
#[test]
fn an_adoption_whose_event_is_lost_is_looked_at_again() {
    for behaviour in [Upstream, Hardened] {
        let mut rig = settled(behaviour, 1);
        let mut orphan = Pod::clone(rig.server.pods.values().next().unwrap());
        orphan.metadata.owner_references.clear();
        rig.server.put_pod(orphan.clone());
        rig.deliver();
        finish_all(&mut rig);
        assert_eq!(rig.server.calls("patch"), 1, "{behaviour:?}");
        rig.server.forget_pod_events();
        rig.server.put_pod(orphan);
        rig.deliver();
        assert!(
            !rig.take(),
            "an orphan has changed, and its owners have not"
        );
        rig.pass(HARDENED_RETRY_MAX_NS);
        assert_eq!(rig.take(), behaviour == Hardened);
    }
}
