//! Histories that must not be, each of which the judge has to notice, beside ones that may.

use std::sync::Arc;

use podstorm::client::{Answer, ApiError, Reason, Request};
use podstorm::limits::EXPECTATIONS_TIMEOUT_NS;
use podstorm::policy::Behaviour;
use podstorm_apiserver::{Change, Commit};
use podstorm_objects::{AnyObject, Kind, Now, Object, Pod, ReplicaSet, Resource, Uid};
use podstorm_sim::engine::observer::SyncId;
use serde_json::{Value, json};

use super::super::draw::{Wanted, draw};
use super::super::names::NAMESPACE;
use super::super::verdict::Conditions;
use super::court::{Court, NOW, merge, origin};

fn create() -> Request {
    Request::CreatePod {
        namespace: NAMESPACE.into(),
        pod: Arc::new(Pod::default()),
        name: None,
    }
}

fn delete(name: &str, uid: Option<&str>) -> Request {
    Request::DeletePod {
        namespace: NAMESPACE.into(),
        name: name.into(),
        uid: uid.map(Uid::new),
    }
}

fn ready(is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    })
}

#[test]
fn a_sync_that_does_what_it_should_is_left_in_peace() {
    for behaviour in Behaviour::ALL {
        let mut court = Court::new(behaviour);
        court.seen_set(3);
        let sync = court.sync();
        for (batch, name) in [(0, "a"), (1, "b"), (1, "c")] {
            court.sends(sync, &create(), batch);
            let pod = court.created(name, Some("web-uid"), Some(sync));
            court.answered(sync, &create(), &Answer::Pod(pod));
        }
        court.ended(sync);
        assert_eq!(court.verdict(), None);
    }
}

#[test]
fn a_create_beyond_the_demand_is_noticed() {
    let mut court = Court::new(Behaviour::Hardened);
    court.seen_set(1);
    // The cache does not show it.
    court.created("a", Some("web-uid"), None);
    let sync = court.sync();
    court.sends(sync, &create(), 0);
    assert_eq!(court.verdict(), None);
    court.created("b", Some("web-uid"), Some(sync));
    assert_eq!(court.verdict(), Some("S1"));
    assert_eq!(court.judge.verdict().0.excess_pods_created, 1);
}

#[test]
fn a_create_that_a_layer_below_carries_out_twice_is_not_the_controllers() {
    for behaviour in Behaviour::ALL {
        let mut court = Court::new(behaviour);
        court.seen_set(1);
        let sync = court.sync();
        court.sends(sync, &create(), 0);
        court.created("a", Some("web-uid"), Some(sync));
        let name = if behaviour == Behaviour::Hardened {
            "a"
        } else {
            "b"
        };
        court.created(name, Some("web-uid"), Some(sync));
        assert_eq!(court.verdict(), None);
        let verdict = court.judge.verdict().0;
        assert_eq!(
            (verdict.excess_pods_created, verdict.conditions),
            (1, Conditions::Broken)
        );
        court.ended(sync);
        // It explains that one, and no other.
        court.created("c", Some("web-uid"), None);
        let next = court.sync();
        court.sends(next, &create(), 0);
        court.created("d", Some("web-uid"), Some(next));
        assert_eq!(court.verdict(), Some("S1"));
    }
}

#[test]
fn what_a_controller_beside_it_adopts_is_not_this_ones_excess() {
    let mut court = Court::new(Behaviour::Hardened);
    court.seen_set(2);
    let orphan = court.created("a", None, None);
    let sync = court.sync();
    court.sends(sync, &create(), 0);
    court.sends(sync, &create(), 1);
    let adopted = court.pod("a", Some("web-uid"), json!({}));
    let incarnation = sync.incarnation + 1;
    court.changed(
        &orphan,
        &adopted,
        SyncId {
            incarnation,
            ..sync
        },
    );
    court.created("b", Some("web-uid"), Some(sync));
    court.created("c", Some("web-uid"), Some(sync));
    assert_eq!(court.verdict(), None);
    assert_eq!(court.judge.verdict().0.excess_pods_created, 0);

    court.ended(sync);
    // It explains one.
    let next = court.sync();
    court.sends(next, &create(), 0);
    court.created("d", Some("web-uid"), Some(next));
    assert_eq!(court.verdict(), Some("S1"));
}

#[test]
fn pods_that_a_larger_demand_has_left_are_none_that_were_created_in_excess() {
    let mut court = Court::new(Behaviour::Hardened);
    court.seen_set(3);
    for name in ["a", "b", "c"] {
        court.known(name, json!({}));
    }
    let smaller = court.set("web-uid", 1, json!({}));
    court.see_set(&smaller);
    let sync = court.sync();
    // It has sent none, so a layer below has sent one again: that explains one.
    court.created("d", Some("web-uid"), Some(sync));
    assert_eq!(court.verdict(), None);
    assert_eq!(court.judge.verdict().0.excess_pods_created, 1);
}

#[test]
fn without_a_gate_upstream_does_not_know_what_it_has_adopted_itself() {
    for (gate, expected) in [(false, None), (true, Some("S1"))] {
        let mut court = Court::gated(Behaviour::Upstream, gate);
        let set = court.seen_set(1);
        let orphan = court.created("a", None, None);
        let first = court.sync();
        let adopted = court.pod("a", Some("web-uid"), json!({}));
        let get = Request::Get {
            kind: Kind::REPLICA_SET,
            namespace: NAMESPACE.into(),
            name: "web".into(),
        };
        court.sends(first, &get, 0);
        court.answered(first, &get, &Answer::Object(set));
        court.changed(&orphan, &adopted, first);
        court.ended(first);
        // The cache still has the pod with an owner of old.
        let next = court.sync();
        court.sends(next, &create(), 0);
        court.created("b", Some("web-uid"), Some(next));
        assert_eq!(court.verdict(), expected);
    }
}

#[test]
fn the_demand_is_that_since_the_version_that_was_read() {
    for (reads_the_last, expected) in [(false, None), (true, Some("S1"))] {
        let mut court = Court::new(Behaviour::Hardened);
        court.seen_set(2);
        let last = court.set("web-uid", 1, json!({}));
        if reads_the_last {
            court.see_set(&last);
        }
        court.created("a", Some("web-uid"), None);
        let sync = court.sync();
        court.sends(sync, &create(), 0);
        court.created("b", Some("web-uid"), Some(sync));
        assert_eq!(court.verdict(), expected);
    }
}

#[test]
fn a_delete_below_the_demand_is_noticed_unless_others_took_pods_meanwhile() {
    for (cache_knows, expected) in [(false, None), (true, Some("S2"))] {
        let mut court = Court::new(Behaviour::Upstream);
        court.seen_set(2);
        let names = ["a", "b", "c"];
        let pods = names.map(|name| court.known(name, json!({})));
        court.removed(&pods[2], None);
        if cache_knows {
            // It has come so far, and has the pod nevertheless.
            let version = court.version.into();
            court.controller.pods().bookmark(&version);
        }
        let sync = court.sync();
        court.sends(sync, &delete("b", None), 0);
        court.removed(&pods[1], Some(sync));
        assert_eq!(court.verdict(), expected);
    }
}

#[test]
fn more_creates_or_deletes_than_the_cache_asks_for_are_noticed() {
    let mut court = Court::new(Behaviour::Upstream);
    court.seen_set(2);
    court.known("a", json!({}));
    let sync = court.sync();
    court.sends(sync, &create(), 0);
    assert_eq!(court.verdict(), None);
    court.sends(sync, &create(), 1);
    assert_eq!(court.verdict(), Some("I2"));

    let mut court = Court::new(Behaviour::Upstream);
    court.seen_set(1);
    for name in ["a", "b"] {
        court.known(name, json!({}));
    }
    let sync = court.sync();
    court.sends(sync, &delete("a", None), 0);
    assert_eq!(court.verdict(), None);
    court.sends(sync, &delete("b", None), 0);
    assert_eq!(court.verdict(), Some("I2"));
}

#[test]
fn a_batch_of_a_wrong_size_and_one_after_a_failure_are_noticed() {
    let mut court = Court::new(Behaviour::Upstream);
    court.seen_set(9);
    let sync = court.sync();
    court.sends(sync, &create(), 0);
    assert_eq!(court.verdict(), None);
    court.sends(sync, &create(), 0);
    assert_eq!(court.verdict(), Some("S6"));

    let mut court = Court::new(Behaviour::Upstream);
    court.seen_set(9);
    let sync = court.sync();
    court.sends(sync, &create(), 0);
    let refused = ApiError::status(403, Reason::Forbidden, "no");
    court.answered(sync, &create(), &Answer::Failed(refused));
    court.sends(sync, &create(), 1);
    assert_eq!(court.verdict(), Some("S6"));
}

#[test]
fn a_key_that_is_synced_twice_at_once_is_noticed() {
    let mut court = Court::new(Behaviour::Hardened);
    court.seen_set(1);
    let first = court.sync();
    court.ended(first);
    court.sync();
    assert_eq!(court.verdict(), None);
    court.sync();
    assert_eq!(court.verdict(), Some("S14"));
}

#[test]
fn a_delete_without_the_uid_or_after_one_was_accepted_is_noticed() {
    for (uid, expected) in [
        (Some("a-uid"), None),
        (None, Some("S3")),
        (Some("b-uid"), Some("S3")),
    ] {
        let mut court = Court::new(Behaviour::Hardened);
        court.seen_set(0);
        court.known("a", json!({}));
        let sync = court.sync();
        court.sends(sync, &delete("a", uid), 0);
        assert_eq!(court.verdict(), expected);
    }
    let mut court = Court::new(Behaviour::Hardened);
    court.seen_set(0);
    court.known("a", json!({}));
    let request = delete("a", Some("a-uid"));
    for expected in [None, Some("S3")] {
        let sync = court.sync();
        court.sends(sync, &request, 0);
        court.answered(sync, &request, &Answer::Deleted(None));
        court.ended(sync);
        assert_eq!(court.verdict(), expected);
    }
}

#[test]
fn a_victim_that_was_not_claimed_is_noticed() {
    let mut court = Court::new(Behaviour::Upstream);
    court.seen_set(1);
    court.known("a", json!({}));
    court.known("b", json!({}));
    court.known(
        "elsewhere",
        json!({"metadata": {"labels": {"app": "other"}}}),
    );
    let sync = court.sync();
    court.sends(sync, &delete("elsewhere", None), 0);
    assert_eq!(court.verdict(), Some("I4"));
}

#[test]
fn victims_in_a_wrong_order_are_noticed() {
    for (victim, expected) in [("waiting", None), ("ready", Some("S12"))] {
        let mut court = Court::new(Behaviour::Upstream);
        court.seen_set(1);
        court.known("ready", ready(true));
        court.known("waiting", ready(false));
        let sync = court.sync();
        court.sends(sync, &delete(victim, None), 0);
        court.ended(sync);
        assert_eq!(court.verdict(), expected);
    }
}

#[test]
fn a_pod_for_another_owner_is_noticed() {
    let mut court = Court::new(Behaviour::Upstream);
    court.seen_set(1);
    let sync = court.sync();
    court.created("a", Some("another-uid"), Some(sync));
    assert_eq!(court.verdict(), Some("S4"));
}

#[test]
fn pods_written_for_the_deleting_or_the_gone_are_noticed() {
    let mut court = Court::new(Behaviour::Upstream);
    let deleting = json!({"metadata": {
        "deletionTimestamp": "2023-11-14T22:13:20Z", "finalizers": ["orphan"],
    }});
    let set = court.set("web-uid", 1, deleting);
    court.see_set(&set);
    let sync = court.sync();
    court.sends(sync, &create(), 0);
    assert_eq!(court.verdict(), Some("I3"));

    let mut court = Court::new(Behaviour::Upstream);
    let sync = court.sync();
    court.sends(sync, &create(), 0);
    assert_eq!(court.verdict(), Some("S8"));
}

#[test]
fn a_write_behind_open_expectations_is_noticed() {
    let mut court = Court::new(Behaviour::Upstream);
    court.seen_set(1);
    let expectations = court.controller.expectations();
    expectations.expect_creations(court.key(), 1, NOW.mono_ns);
    let sync = court.sync();
    court.sends(sync, &create(), 0);
    assert_eq!(court.verdict(), Some("I6"));
}

#[test]
fn a_status_that_cannot_be_or_is_there_already_is_noticed() {
    let possible = json!({
        "replicas": 2, "readyReplicas": 1, "availableReplicas": 1, "observedGeneration": 1,
    });
    let future = json!({"observedGeneration": 2});
    let impossible = json!({"replicas": 1, "readyReplicas": 2, "observedGeneration": 1});
    for (status, expected) in [
        (possible, None),
        (future, Some("S7")),
        (impossible, Some("S7")),
    ] {
        let mut court = Court::new(Behaviour::Hardened);
        let set = court.seen_set(2);
        let sync = court.sync();
        let more = json!({"status": status, "metadata": {"resourceVersion": "2"}});
        court.version += 1;
        let mut value = set.to_json();
        merge(&mut value, more);
        let written = Arc::new(ReplicaSet::from_json(value).unwrap());
        let old = Some(set.clone() as AnyObject);
        let new = written.clone();
        court.commit(Change::Modified, old, new, Some(origin(sync)));
        assert_eq!(court.verdict(), expected);
    }
    let mut court = Court::new(Behaviour::Hardened);
    let set = court.seen_set(2);
    let sync = court.sync();
    court.sends(sync, &Request::PutStatus { object: set }, 0);
    let violation = court.judge.verdict().0.violation.unwrap();
    assert_eq!(violation.invariant, "S7");
    assert!(violation.text.ends_with("and it is there"), "{violation}");
}

#[test]
fn a_status_of_other_pods_than_those_seen_is_noticed() {
    let right = json!({
        "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1,
    });
    for (attempt, change, expected) in [
        (1, json!({}), None),
        (1, json!({"replicas": 3}), Some("S7")),
        (1, json!({"readyReplicas": 2}), Some("S7")),
        (1, json!({"availableReplicas": 0}), Some("S7")),
        (1, json!({"terminatingReplicas": 1}), Some("S7")),
        (
            1,
            json!({"conditions": [{"type": "ReplicaFailure", "status": "True"}]}),
            Some("S7"),
        ),
        (2, json!({}), None),
        (2, json!({"readyReplicas": 0}), Some("S7")),
    ] {
        let mut court = Court::new(Behaviour::Upstream);
        let set = court.seen_set(2);
        court.known("a", ready(true));
        court.known("b", ready(false));
        let sync = court.sync();
        let mut value = set.to_json();
        merge(&mut value, json!({"status": right}));
        if attempt == 2 {
            let object = Arc::new(ReplicaSet::from_json(value.clone()).unwrap());
            court.sends(sync, &Request::PutStatus { object }, 0);
        }
        merge(&mut value, json!({"status": change}));
        let object = Arc::new(ReplicaSet::from_json(value).unwrap());
        court.sends(sync, &Request::PutStatus { object }, 0);
        assert_eq!(court.verdict(), expected, "{change}");
    }
}

#[test]
fn the_status_of_a_replication_controller_counts_no_terminating_pods() {
    let status = |terminating: Value| {
        json!({"status": {
            "replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 0, "availableReplicas": 0,
            "terminatingReplicas": terminating, "observedGeneration": 1,
        }})
    };
    for (kind, terminating, expected) in [
        (Kind::REPLICA_SET, json!(0), None),
        (Kind::REPLICA_SET, Value::Null, Some("S7")),
        (Kind::REPLICATION_CONTROLLER, json!(0), Some("S7")),
        (Kind::REPLICATION_CONTROLLER, Value::Null, None),
    ] {
        let mut court = Court::of(kind, Behaviour::Hardened);
        let set = court.seen_set(1);
        court.known("a", json!({}));
        let sync = court.sync();
        let mut value = set.to_json();
        merge(&mut value, status(terminating));
        let object = Arc::new(ReplicaSet::from_json(value).unwrap());
        court.sends(sync, &Request::PutStatus { object }, 0);
        assert_eq!(court.verdict(), expected, "{kind:?}");
    }
}

#[test]
fn a_stall_longer_than_expectations_explains_creates_of_those_without_a_gate_only() {
    for (kind, stalled, gate, expected) in [
        (Kind::REPLICA_SET, true, true, Some("S1")),
        (Kind::REPLICA_SET, true, false, None),
        (Kind::REPLICATION_CONTROLLER, true, true, None),
        (Kind::REPLICATION_CONTROLLER, false, true, Some("S1")),
    ] {
        let mut schedule = draw(0, &Wanted::default());
        schedule.world.stale_controller_consistency = gate;
        let mut books = super::books::Books::new(&schedule, Behaviour::Upstream);
        let mut court = Court::of(kind, Behaviour::Upstream);
        let set = court.seen_set(1);
        books.version = 1;
        books.book_set(&set, kind, false);
        let sync = SyncId {
            incarnation: 0,
            kind,
            number: 1,
        };
        let key = court.key();
        let expected_ns = if stalled {
            NOW.mono_ns - EXPECTATIONS_TIMEOUT_NS - 1
        } else {
            NOW.mono_ns
        };
        court
            .controller
            .expectations()
            .expect_creations(key, 1, expected_ns);
        let book = books.open_sync(sync, &court.controller, key, NOW);
        book.creates_sent = 2;
        let mut created = Ok(());
        for name in ["a", "b"] {
            let owner = json!([{
                "apiVersion": "v1", "kind": kind.name(), "name": "web", "uid": "web-uid",
                "controller": true,
            }]);
            let pod = court.pod(name, None, json!({"metadata": {"ownerReferences": owner}}));
            let commit = Commit {
                version: 2,
                change: Change::Added,
                old: None,
                new: pod.clone(),
                now: NOW,
            };
            let by = Some(origin(sync));
            created = books.pod_committed(Change::Added, None, &pod, by, &commit);
        }
        let broken = created.err().map(|(invariant, _)| invariant);
        assert_eq!(broken, expected, "{kind:?} {stalled} {gate}");
        assert_eq!(books.excess, 1);
    }
}

#[test]
fn quiet_is_no_commit_no_request_and_hardly_a_sync() {
    let mut court = Court::new(Behaviour::Hardened);
    for _ in 0..10 {
        let sync = court.sync();
        court.ended(sync);
    }
    let began = NOW.mono_ns - 100_000_000_000;
    court.judge.phase("quiet", Now::default().plus_ns(began));
    assert_eq!(court.judge.restless(NOW.mono_ns - 1), None);
    court.seen_set(1);
    let sync = court.sync();
    let text = court.judge.restless(NOW.mono_ns - 1).unwrap();
    assert!(text.starts_with("something was written"), "{text}");
    assert_eq!(court.judge.restless(NOW.mono_ns), None);
    court.sends(sync, &create(), 0);
    court.ended(sync);
    for _ in 0..10 {
        let sync = court.sync();
        court.ended(sync);
    }
    let text = court.judge.restless(NOW.mono_ns).unwrap();
    assert!(text.contains("synced 11 times"), "{text}");

    let mut court = Court::new(Behaviour::Hardened);
    let sync = court.sync();
    court.sends(sync, &delete("a", None), 0);
    let text = court.judge.restless(NOW.mono_ns - 1).unwrap();
    assert!(text.starts_with("a write was asked for"), "{text}");
}
