//! Tests of adoptions and releases, and of the work that a sync may do after them.

use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, ApiError, OwnerPatch, Reason, Request};
use podstorm::policy::Behaviour;
use podstorm::replicaset::{Outcome, ReplicaSets, SyncError, SyncErrorClass};
use podstorm_apiserver::Change;
use podstorm_objects::{Kind, Pod, Uid};
use podstorm_sim::engine::observer::SyncId;
use serde_json::json;

use super::harness::{CheckerHarness, NOW, create, delete, look};
use super::oracle::OracleState;
use crate::draw::draw;
use crate::objects::NAMESPACE;

#[test]
fn adoptions_without_rereading_or_of_owned_pods_are_detected() {
    for (looks, owner, expected) in [
        (true, None, None),
        (false, None, Some("S9")),
        (true, Some("another-uid"), Some("I5")),
    ] {
        let mut harness = CheckerHarness::new(Behaviour::Upstream);
        let set = harness.seen_set(1);
        let orphan = harness.created("a", owner, None);
        let sync = harness.sync();
        if looks {
            let request = look();
            harness.sends(sync, &request, 0);
            harness.answered(sync, &request, &Answer::Object(set));
        }
        let adopted = harness.pod("a", Some("web-uid"), json!({}));
        harness.changed(&orphan, &adopted, sync);
        assert_eq!(harness.verdict(), expected, "{looks} {owner:?}");
    }
}

#[test]
fn releases_and_adoptions_against_the_selector_are_detected() {
    for (labels, phase, adopts, expected) in [
        ("web", "Running", false, Some("S9")),
        ("other", "Running", false, None),
        ("web", "Running", true, None),
        ("web", "Failed", true, Some("S9")),
        ("other", "Running", true, Some("S9")),
    ] {
        let mut harness = CheckerHarness::new(Behaviour::Upstream);
        harness.seen_set(1);
        let members = json!({"metadata": {"labels": {"app": labels}}, "status": {"phase": phase}});
        harness.known("a", members);
        let sync = harness.sync();
        harness.sends(sync, &patch(&harness, adopts), 0);
        assert_eq!(harness.verdict(), expected, "{labels} {phase} {adopts}");
    }
}

/// Returns the request with which a sync of `web` adopts or releases the pod `a`.
fn patch(harness: &CheckerHarness, adopts: bool) -> Request {
    let web = harness.controller.owners().get(harness.key());
    let owner = Arc::clone(&web.expect("`web` is known").controller_ref);
    let uid = Uid::new("a-uid");
    let owner_uid = owner.uid.clone();
    Request::PatchOwners {
        kind: Kind::POD,
        namespace: NAMESPACE.into(),
        name: "a".into(),
        patch: if adopts {
            OwnerPatch::Adopt { owner, uid }
        } else {
            OwnerPatch::Release { owner_uid, uid }
        },
    }
}

/// Returns a sync of `web`, with one replica, that has requested the adoption of the orphan `a`.
fn adopting(harness: &mut CheckerHarness) -> (SyncId, Arc<Pod>) {
    let set = harness.seen_set(1);
    let orphan = harness.created("a", None, None);
    let pods = harness.controller.pods();
    pods.apply(Delta::Applied(Arc::clone(&orphan)));
    let sync = harness.sync();
    harness.sends(sync, &look(), 0);
    harness.answered(sync, &look(), &Answer::Object(set));
    harness.sends(sync, &patch(harness, true), 0);
    (sync, orphan)
}

#[test]
fn an_adoption_may_arrive_after_the_end_of_the_pod() {
    let mut harness = CheckerHarness::new(Behaviour::Hardened);
    let (sync, orphan) = adopting(&mut harness);
    let pods = Arc::clone(harness.controller.pods());
    let failed = json!({"status": {"phase": "Failed"}});
    pods.apply(Delta::Applied(harness.pod("a", None, failed.clone())));
    let adopted = harness.pod("a", Some("web-uid"), failed);
    harness.changed(&orphan, &adopted, sync);
    assert_eq!(harness.verdict(), None);
}

/// The answer was lost, and the request was resent.
#[test]
fn an_adoption_with_answer_404_explains_one_upstream_create() {
    for (behaviour, expected) in [
        (Behaviour::Upstream, None),
        (Behaviour::Hardened, Some("S1")),
    ] {
        let mut harness = CheckerHarness::gated(behaviour, true);
        let (sync, orphan) = adopting(&mut harness);
        let adopted = harness.pod("a", Some("web-uid"), json!({}));
        harness.changed(&orphan, &adopted, sync);
        let gone = ApiError::status(404, Reason::NotFound, "no");
        harness.answered(sync, &patch(&harness, true), &Answer::Failed(gone));
        harness.sends(sync, &create(), 0);
        harness.created("b", Some("web-uid"), Some(sync));
        assert_eq!(harness.verdict(), expected, "{behaviour:?}");
        harness.ended(sync);
        let next = harness.sync();
        harness.sends(next, &create(), 0);
        harness.created("c", Some("web-uid"), Some(next));
        assert_eq!(harness.verdict(), Some("S1"), "{behaviour:?}");
    }
}

#[test]
fn nothing_is_scaled_after_a_failed_claim() {
    for (adopts, code, expected) in [
        (true, 404, None),
        (true, 422, Some("I4")),
        (true, 500, Some("I4")),
        (false, 404, None),
        (false, 422, None),
        (false, 500, Some("I4")),
    ] {
        let mut harness = CheckerHarness::new(Behaviour::Upstream);
        harness.seen_set(2);
        let label = if adopts { "web" } else { "other" };
        harness.known("a", json!({"metadata": {"labels": {"app": label}}}));
        let sync = harness.sync();
        let request = patch(&harness, adopts);
        harness.sends(sync, &request, 0);
        let error = ApiError::status(code, Reason::Forbidden, "no");
        harness.answered(sync, &request, &Answer::Failed(error));
        harness.sends(sync, &create(), 0);
        assert_eq!(harness.verdict(), expected, "{adopts} {code}");
    }
    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    let seen = harness.seen_set(1);
    let other = harness.set("other-uid", 1, json!({}));
    let gone = ApiError::status(404, Reason::NotFound, "no");
    for (answer, expected) in [
        (Answer::Object(seen), None),
        (Answer::Object(other), Some("I4")),
        (Answer::Failed(gone), Some("I4")),
    ] {
        let (harness, sync) = CheckerHarness::syncing(Behaviour::Upstream, 1, &[]);
        harness.sends(sync, &look(), 0);
        harness.answered(sync, &look(), &answer);
        harness.sends(sync, &create(), 0);
        assert_eq!(harness.verdict(), expected);
    }
}

#[test]
fn adopted_pods_count_and_may_be_deleted_unlike_orphans() {
    for (wanted, request, adopts, expected) in [
        (1, create(), false, None),
        (1, create(), true, Some("I2")),
        (0, delete("a", None), true, None),
        (0, delete("a", None), false, Some("I2")),
    ] {
        let mut harness = CheckerHarness::new(Behaviour::Upstream);
        let set = harness.seen_set(wanted);
        let orphan = harness.created("a", None, None);
        let seen = Delta::Applied(Arc::clone(&orphan));
        harness.controller.pods().apply(seen);
        let sync = harness.sync();
        if adopts {
            harness.sends(sync, &look(), 0);
            harness.answered(sync, &look(), &Answer::Object(set));
            let request = patch(&harness, true);
            harness.sends(sync, &request, 0);
            harness.answered(sync, &request, &Answer::Pod(orphan));
        }
        harness.sends(sync, &request, 0);
        assert_eq!(harness.verdict(), expected, "{wanted} {adopts}");
    }
    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    harness.seen_set(1);
    harness.known("b", json!({}));
    harness.known("c", json!({}));
    let orphan = harness.created("a", None, None);
    harness.controller.pods().apply(Delta::Applied(orphan));
    let sync = harness.sync();
    harness.sends(sync, &delete("a", None), 0);
    assert_eq!(harness.verdict(), Some("I4"));
}

#[test]
fn patches_for_deleted_and_second_owners_are_detected() {
    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    let deleting = json!({"metadata": {
        "deletionTimestamp": "2023-11-14T22:13:20Z", "finalizers": ["orphan"],
    }});
    let set = harness.set("web-uid", 1, deleting);
    harness.see_set(&set);
    let sync = harness.sync();
    harness.sends(sync, &patch(&harness, true), 0);
    assert_eq!(harness.verdict(), Some("I3"));

    let mut harness = CheckerHarness::new(Behaviour::Upstream);
    let owner = |uid: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid,
            "controller": true,
        })
    };
    let owners = json!({"metadata": {"ownerReferences": [owner("a"), owner("b")]}});
    let pod = harness.pod("a", None, owners);
    harness.commit(Change::Added, None, pod, None);
    assert_eq!(harness.verdict(), Some("I5"));
}

#[test]
fn requests_of_a_sync_blocked_by_the_gate_are_detected() {
    for (asked, expected) in [(false, None), (true, Some("I6"))] {
        let cluster = draw::<ReplicaSets>(0, &[]).cluster;
        let (harness, sync) = CheckerHarness::syncing(Behaviour::Upstream, 1, &[]);
        let mut oracle = OracleState::new(&cluster, Behaviour::Upstream);
        let opened = oracle.open_sync(sync, &harness.controller, harness.key(), NOW);
        opened.asked = asked;
        let stale = Outcome::Failed(SyncError {
            class: SyncErrorClass::Consistency(Kind::POD),
            message: String::new(),
            details: Vec::new(),
        });
        let ended = oracle.sync_ended(sync, &stale);
        assert_eq!(ended.err().map(|(invariant, _)| invariant), expected);
    }
}
