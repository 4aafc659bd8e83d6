//! Tests that the checker detects invalid histories and accepts valid ones.

use std::sync::Arc;

use podstorm::client::{Answer, ApiError, Reason, Request};
use podstorm::limits::EXPECTATIONS_TIMEOUT_NS;
use podstorm::policy::Behaviour;
use podstorm::replicaset::ReplicaSets;
use podstorm_apiserver::Change;
use podstorm_objects::{AnyObject, Kind, Now, Object, ReplicaSet, Resource};
use podstorm_sim::engine::observer::SyncId;
use serde_json::{Value, json};

use super::harness::{CheckerHarness, NOW, create, delete, look, origin};
use crate::draw::draw;
use crate::objects::with;
use crate::verdict::Conditions;

fn ready(is_ready: bool) -> Value {
    let status = if is_ready { "True" } else { "False" };
    json!({
        "spec": {"nodeName": "n"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]},
    })
}

#[test]
fn a_correct_sync_passes() {
    for behaviour in Behaviour::ALL {
        let (mut harness, sync) = CheckerHarness::syncing(behaviour, 3, &[]);
        for (batch, name) in [(0, "a"), (1, "b"), (1, "c")] {
            harness.sends(sync, &create(), batch);
            let pod = harness.created(name, Some("web-uid"), Some(sync));
            harness.answered(sync, &create(), &Answer::Pod(pod));
        }
        harness.ended(sync);
        assert_eq!(harness.verdict(), None);
    }
}

#[test]
fn a_create_beyond_the_demand_is_detected() {
    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    harness.seen_set(1);
    // The cache does not show the pod.
    harness.created("a", Some("web-uid"), None);
    let sync = harness.sync();
    harness.sends(sync, &create(), 0);
    assert_eq!(harness.verdict(), None);
    harness.created("b", Some("web-uid"), Some(sync));
    assert_eq!(harness.verdict(), Some("S1"));
    assert_eq!(harness.checker.verdict().0.excess_pods_created, 1);
}

#[test]
fn a_resent_create_is_not_a_violation() {
    for behaviour in Behaviour::ALL {
        let (mut harness, sync) = CheckerHarness::syncing(behaviour, 1, &[]);
        harness.sends(sync, &create(), 0);
        harness.created("a", Some("web-uid"), Some(sync));
        let name = if behaviour == Behaviour::Hardened {
            "a"
        } else {
            "b"
        };
        harness.created(name, Some("web-uid"), Some(sync));
        assert_eq!(harness.verdict(), None);
        let verdict = harness.checker.verdict().0;
        assert_eq!(
            (verdict.excess_pods_created, verdict.conditions),
            (1, Conditions::Broken)
        );
        harness.ended(sync);
        // The resent create explains only one excess pod.
        harness.created("c", Some("web-uid"), None);
        let next = harness.sync();
        harness.sends(next, &create(), 0);
        harness.created("d", Some("web-uid"), Some(next));
        assert_eq!(harness.verdict(), Some("S1"));
    }
}

#[test]
fn adoptions_of_a_concurrent_controller_are_no_excess() {
    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    harness.seen_set(2);
    let orphan = harness.created("a", None, None);
    let sync = harness.sync();
    harness.sends(sync, &create(), 0);
    harness.sends(sync, &create(), 1);
    let adopted = harness.pod("a", Some("web-uid"), json!({}));
    let mut beside = sync;
    beside.incarnation += 1;
    harness.changed(&orphan, &adopted, beside);
    harness.created("b", Some("web-uid"), Some(sync));
    harness.created("c", Some("web-uid"), Some(sync));
    assert_eq!(harness.verdict(), None);
    assert_eq!(harness.checker.verdict().0.excess_pods_created, 0);

    harness.ended(sync);
    // The adoption explains only one excess pod.
    let next = harness.sync();
    harness.sends(next, &create(), 0);
    harness.created("d", Some("web-uid"), Some(next));
    assert_eq!(harness.verdict(), Some("S1"));
}

#[test]
fn pods_left_by_a_larger_demand_are_no_excess() {
    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    harness.seen_set(3);
    for name in ["a", "b", "c"] {
        harness.known(name, json!({}));
    }
    let smaller = harness.set("web-uid", 1, json!({}));
    harness.see_set(&smaller);
    let sync = harness.sync();
    // The sync sent no create, so a lower layer must have resent one. The resend explains one
    // excess pod.
    harness.created("d", Some("web-uid"), Some(sync));
    assert_eq!(harness.verdict(), None);
    assert_eq!(harness.checker.verdict().0.excess_pods_created, 1);
}

#[test]
fn without_a_gate_upstream_does_not_know_its_own_adoptions() {
    for (gate, expected) in [(false, None), (true, Some("S1"))] {
        let mut harness = CheckerHarness::gated(Behaviour::Upstream, gate);
        let set = harness.seen_set(1);
        let orphan = harness.created("a", None, None);
        let first = harness.sync();
        let adopted = harness.pod("a", Some("web-uid"), json!({}));
        let get = look();
        harness.sends(first, &get, 0);
        harness.answered(first, &get, &Answer::Object(set));
        harness.changed(&orphan, &adopted, first);
        harness.ended(first);
        // The cache does not show the adoption yet.
        let next = harness.sync();
        harness.sends(next, &create(), 0);
        harness.created("b", Some("web-uid"), Some(next));
        assert_eq!(harness.verdict(), expected);
    }
}

#[test]
fn the_demand_counts_since_the_version_read() {
    for (reads_the_last, expected) in [(false, None), (true, Some("S1"))] {
        let mut harness = CheckerHarness::new(Behaviour::Hardened);
        harness.seen_set(2);
        let last = harness.set("web-uid", 1, json!({}));
        if reads_the_last {
            harness.see_set(&last);
        }
        harness.created("a", Some("web-uid"), None);
        let sync = harness.sync();
        harness.sends(sync, &create(), 0);
        harness.created("b", Some("web-uid"), Some(sync));
        assert_eq!(harness.verdict(), expected);
    }
}

#[test]
fn a_delete_below_the_demand_is_detected_without_other_losses() {
    for (cache_knows, expected) in [(false, None), (true, Some("S2"))] {
        let mut harness = CheckerHarness::new(Behaviour::Upstream);
        harness.seen_set(2);
        let names = ["a", "b", "c"];
        let pods = names.map(|name| harness.known(name, json!({})));
        harness.removed(&pods[2], None);
        if cache_knows {
            // The cache has reached the version of the removal, but still contains the pod.
            let version = harness.version.into();
            harness.controller.pods().bookmark(&version);
        }
        let sync = harness.sync();
        harness.sends(sync, &delete("b", None), 0);
        harness.removed(&pods[1], Some(sync));
        assert_eq!(harness.verdict(), expected);
    }
}

#[test]
fn excess_creates_and_deletes_against_the_cache_are_detected() {
    let (harness, sync) = CheckerHarness::syncing(Behaviour::Upstream, 2, &["a"]);
    harness.sends(sync, &create(), 0);
    assert_eq!(harness.verdict(), None);
    harness.sends(sync, &create(), 1);
    assert_eq!(harness.verdict(), Some("I2"));

    let (harness, sync) = CheckerHarness::syncing(Behaviour::Upstream, 1, &["a", "b"]);
    harness.sends(sync, &delete("a", None), 0);
    assert_eq!(harness.verdict(), None);
    harness.sends(sync, &delete("b", None), 0);
    assert_eq!(harness.verdict(), Some("I2"));
}

#[test]
fn wrong_batch_sizes_and_batches_after_failures_are_detected() {
    let (harness, sync) = CheckerHarness::syncing(Behaviour::Upstream, 9, &[]);
    harness.sends(sync, &create(), 0);
    assert_eq!(harness.verdict(), None);
    harness.sends(sync, &create(), 0);
    assert_eq!(harness.verdict(), Some("S6"));

    let (harness, sync) = CheckerHarness::syncing(Behaviour::Upstream, 9, &[]);
    harness.sends(sync, &create(), 0);
    let refused = ApiError::status(403, Reason::Forbidden, "no");
    harness.answered(sync, &create(), &Answer::Failed(refused));
    harness.sends(sync, &create(), 1);
    assert_eq!(harness.verdict(), Some("S6"));
}

#[test]
fn two_concurrent_syncs_of_one_key_are_detected() {
    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    harness.seen_set(1);
    let first = harness.sync();
    harness.ended(first);
    harness.sync();
    assert_eq!(harness.verdict(), None);
    harness.sync();
    assert_eq!(harness.verdict(), Some("S14"));
}

#[test]
fn repeated_deletes_and_deletes_without_uid_are_detected() {
    for (uid, expected) in [
        (Some("a-uid"), None),
        (None, Some("S3")),
        (Some("b-uid"), Some("S3")),
    ] {
        let (harness, sync) = CheckerHarness::syncing(Behaviour::Hardened, 0, &["a"]);
        harness.sends(sync, &delete("a", uid), 0);
        assert_eq!(harness.verdict(), expected);
    }
    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    harness.seen_set(0);
    harness.known("a", json!({}));
    let request = delete("a", Some("a-uid"));
    for expected in [None, Some("S3")] {
        let sync = harness.sync();
        harness.sends(sync, &request, 0);
        harness.answered(sync, &request, &Answer::Deleted(None));
        harness.ended(sync);
        assert_eq!(harness.verdict(), expected);
    }
}

#[test]
fn the_deletion_of_an_unclaimed_pod_is_detected() {
    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    harness.seen_set(1);
    harness.known("a", json!({}));
    harness.known("b", json!({}));
    let labels = json!({"metadata": {"labels": {"app": "other"}}});
    harness.known("elsewhere", labels);
    let sync = harness.sync();
    harness.sends(sync, &delete("elsewhere", None), 0);
    assert_eq!(harness.verdict(), Some("I4"));
}

#[test]
fn deletions_in_a_wrong_order_are_detected() {
    for (victim, expected) in [("waiting", None), ("ready", Some("S12"))] {
        let mut harness = CheckerHarness::new(Behaviour::Upstream);
        harness.seen_set(1);
        harness.known("ready", ready(true));
        harness.known("waiting", ready(false));
        let sync = harness.sync();
        harness.sends(sync, &delete(victim, None), 0);
        harness.ended(sync);
        assert_eq!(harness.verdict(), expected);
    }
}

#[test]
fn a_pod_for_another_owner_is_detected() {
    let (mut harness, sync) = CheckerHarness::syncing(Behaviour::Upstream, 1, &[]);
    harness.created("a", Some("another-uid"), Some(sync));
    assert_eq!(harness.verdict(), Some("S4"));
}

#[test]
fn another_form_of_delete_is_detected() {
    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    let set = harness.set("web-uid", 1, json!({}));
    harness.see_set(&set);
    let sync = harness.sync();
    let delete = Request::Delete {
        kind: Kind::POD,
        namespace: "default".into(),
        name: "web-1".into(),
        options: None,
    };
    harness.sends(sync, &delete, 0);
    assert_eq!(harness.verdict(), Some("I2"));
}

#[test]
fn pods_written_for_deleted_objects_are_detected() {
    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    let deleting = json!({"metadata": {
        "deletionTimestamp": "2023-11-14T22:13:20Z", "finalizers": ["orphan"],
    }});
    let set = harness.set("web-uid", 1, deleting);
    harness.see_set(&set);
    let sync = harness.sync();
    harness.sends(sync, &create(), 0);
    assert_eq!(harness.verdict(), Some("I3"));

    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    let sync = harness.sync();
    harness.sends(sync, &create(), 0);
    assert_eq!(harness.verdict(), Some("S8"));
}

#[test]
fn a_write_with_open_expectations_is_detected() {
    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    harness.seen_set(1);
    let expectations = harness.controller.expectations();
    expectations.expect_creations(harness.key(), 1, NOW.mono_ns);
    let sync = harness.sync();
    harness.sends(sync, &create(), 0);
    assert_eq!(harness.verdict(), Some("I6"));
}

#[test]
fn impossible_and_unchanged_statuses_are_detected() {
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
        let mut harness = CheckerHarness::new(Behaviour::Hardened);
        let set = harness.seen_set(2);
        let sync = harness.sync();
        let more = json!({"status": status, "metadata": {"resourceVersion": "2"}});
        harness.version += 1;
        let value = with(set.to_json(), more);
        let written = Arc::new(ReplicaSet::from_json(value).unwrap());
        let old = Some(set.clone() as AnyObject);
        let new = written.clone();
        harness.commit(Change::Modified, old, new, Some(origin(sync)));
        assert_eq!(harness.verdict(), expected);
    }
    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    let set = harness.seen_set(2);
    let sync = harness.sync();
    harness.sends(sync, &Request::PutStatus { object: set }, 0);
    let violation = harness.checker.verdict().0.violation.unwrap();
    assert_eq!(violation.invariant, "S7");
    assert!(violation.text.ends_with("without a change"), "{violation}");
}

#[test]
fn a_status_for_unseen_pods_is_detected() {
    let right = json!({
        "replicas": 2, "fullyLabeledReplicas": 2, "readyReplicas": 1, "availableReplicas": 1,
        "terminatingReplicas": 0, "observedGeneration": 1,
    });
    let failure = json!({"conditions": [{"type": "ReplicaFailure", "status": "True"}]});
    for (attempt, change, expected) in [
        (1, json!({}), None),
        (1, json!({"replicas": 3}), Some("S7")),
        (1, json!({"readyReplicas": 2}), Some("S7")),
        (1, json!({"availableReplicas": 0}), Some("S7")),
        (1, json!({"terminatingReplicas": 1}), Some("S7")),
        (1, failure, Some("S7")),
        (2, json!({}), None),
        (2, json!({"readyReplicas": 0}), Some("S7")),
    ] {
        let mut harness = CheckerHarness::new(Behaviour::Upstream);
        let set = harness.seen_set(2);
        harness.known("a", ready(true));
        harness.known("b", ready(false));
        let sync = harness.sync();
        let value = with(set.to_json(), json!({"status": right}));
        if attempt == 2 {
            let object = Arc::new(ReplicaSet::from_json(value.clone()).unwrap());
            harness.sends(sync, &Request::PutStatus { object }, 0);
        }
        let value = with(value, json!({"status": change}));
        let object = Arc::new(ReplicaSet::from_json(value).unwrap());
        harness.sends(sync, &Request::PutStatus { object }, 0);
        assert_eq!(harness.verdict(), expected, "{change}");
    }
}

#[test]
fn replication_controllers_report_no_terminating_pods() {
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
        let mut harness = CheckerHarness::for_kind(kind, Behaviour::Hardened);
        let set = harness.seen_set(1);
        harness.known("a", json!({}));
        let sync = harness.sync();
        let value = with(set.to_json(), status(terminating));
        let object = Arc::new(ReplicaSet::from_json(value).unwrap());
        harness.sends(sync, &Request::PutStatus { object }, 0);
        assert_eq!(harness.verdict(), expected, "{kind:?}");
    }
}

#[test]
fn a_long_stall_explains_creates_only_without_a_gate() {
    for (kind, stalled, gate, expected) in [
        (Kind::REPLICA_SET, true, true, Some("S1")),
        (Kind::REPLICA_SET, true, false, None),
        (Kind::REPLICATION_CONTROLLER, true, true, None),
        (Kind::REPLICATION_CONTROLLER, false, true, Some("S1")),
    ] {
        let mut schedule = draw::<ReplicaSets>(0, &[]);
        schedule.cluster.stale_controller_consistency = gate;
        let mut oracle = super::oracle::OracleState::new(&schedule.cluster, Behaviour::Upstream);
        let mut harness = CheckerHarness::for_kind(kind, Behaviour::Upstream);
        let set = harness.seen_set(1);
        oracle.version = 1;
        oracle.record_set(&set, kind, false);
        let sync = SyncId {
            incarnation: 0,
            kind,
            number: 1,
        };
        let key = harness.key();
        let mut since_ns = NOW.mono_ns;
        if stalled {
            since_ns -= EXPECTATIONS_TIMEOUT_NS + 1;
        }
        let expectations = harness.controller.expectations();
        expectations.expect_creations(key, 1, since_ns);
        let opened = oracle.open_sync(sync, &harness.controller, key, NOW);
        opened.creates_sent = 2;
        let mut created = Ok(());
        for name in ["a", "b"] {
            let owner = json!([{
                "apiVersion": "v1", "kind": kind.name(), "name": "web", "uid": "web-uid",
                "controller": true,
            }]);
            let pod = harness.pod(name, None, json!({"metadata": {"ownerReferences": owner}}));
            created = oracle.pod_committed(Change::Added, None, &pod, Some(origin(sync)));
        }
        let broken = created.err().map(|(invariant, _)| invariant);
        assert_eq!(broken, expected, "{kind:?} {stalled} {gate}");
        assert_eq!(oracle.excess, 1);
    }
}

#[test]
fn the_quiet_phase_permits_no_commit_and_few_syncs() {
    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    for _ in 0..10 {
        let sync = harness.sync();
        harness.ended(sync);
    }
    let began = NOW.mono_ns - 100_000_000_000;
    harness
        .checker
        .phase("quiet", Now::default().plus_ns(began));
    assert_eq!(harness.checker.restless(NOW.mono_ns - 1), None);
    harness.seen_set(1);
    let sync = harness.sync();
    let text = harness.checker.restless(NOW.mono_ns - 1).unwrap();
    assert!(text.starts_with("an object was written"), "{text}");
    assert_eq!(harness.checker.restless(NOW.mono_ns), None);
    harness.sends(sync, &create(), 0);
    harness.ended(sync);
    for _ in 0..10 {
        let sync = harness.sync();
        harness.ended(sync);
    }
    let text = harness.checker.restless(NOW.mono_ns).unwrap();
    assert!(text.contains("synced 11 times"), "{text}");

    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    let sync = harness.sync();
    harness.sends(sync, &delete("a", None), 0);
    let text = harness.checker.restless(NOW.mono_ns - 1).unwrap();
    assert!(text.starts_with("a write was requested"), "{text}");
}
