//! Adoptions and releases before the judge.

use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, PodPatch, Request};
use podstorm::policy::Behaviour;
use podstorm_objects::{Kind, Uid};
use serde_json::json;

use super::super::names::NAMESPACE;
use super::court::Court;

#[test]
fn an_adoption_without_a_look_and_one_from_another_controller_are_noticed() {
    for (looks, owner, expected) in [
        (true, None, None),
        (false, None, Some("S9")),
        (true, Some("another-uid"), Some("I5")),
    ] {
        let mut court = Court::new(Behaviour::Upstream);
        let set = court.seen_set(1);
        let orphan = court.created("a", owner, None);
        let sync = court.sync();
        if looks {
            let request = Request::Get {
                kind: Kind::REPLICA_SET,
                namespace: NAMESPACE.into(),
                name: "web".into(),
            };
            court.sends(sync, &request, 0);
            court.answered(sync, &request, &Answer::Object(set));
        }
        let adopted = court.pod("a", Some("web-uid"), json!({}));
        court.changed(&orphan, &adopted, sync);
        assert_eq!(court.verdict(), expected, "{looks} {owner:?}");
    }
}

#[test]
fn the_release_of_a_pod_that_matches_and_the_adoption_of_one_that_does_not_are_noticed() {
    for (labels, phase, adopts, expected) in [
        ("web", "Running", false, Some("S9")),
        ("other", "Running", false, None),
        ("web", "Running", true, None),
        ("web", "Failed", true, Some("S9")),
        ("other", "Running", true, Some("S9")),
    ] {
        let mut court = Court::new(Behaviour::Upstream);
        court.seen_set(1);
        let members = json!({"metadata": {"labels": {"app": labels}}, "status": {"phase": phase}});
        court.known("a", members);
        let sync = court.sync();
        court.sends(sync, &patch(&court, adopts), 0);
        assert_eq!(court.verdict(), expected, "{labels} {phase} {adopts}");
    }
}

/// What a sync of `web` asks for to adopt or to release the pod `a`.
fn patch(court: &Court, adopts: bool) -> Request {
    let parent = court.controller.owners().get(court.key());
    let owner = Arc::clone(&parent.expect("web is known").controller_ref);
    let pod_uid = Uid::new("a-uid");
    let owner_uid = owner.uid.clone();
    Request::PatchPod {
        namespace: NAMESPACE.into(),
        name: "a".into(),
        patch: if adopts {
            PodPatch::Adopt { owner, pod_uid }
        } else {
            PodPatch::Release { owner_uid, pod_uid }
        },
    }
}

#[test]
fn an_adoption_that_lands_when_the_pod_has_ended_was_right_when_it_was_asked_for() {
    let mut court = Court::new(Behaviour::Hardened);
    let set = court.seen_set(1);
    let orphan = court.created("a", None, None);
    let pods = Arc::clone(court.controller.pods());
    pods.apply(Delta::Applied(Arc::clone(&orphan)));
    let sync = court.sync();
    let look = Request::Get {
        kind: Kind::REPLICA_SET,
        namespace: NAMESPACE.into(),
        name: "web".into(),
    };
    court.sends(sync, &look, 0);
    court.answered(sync, &look, &Answer::Object(set));
    court.sends(sync, &patch(&court, true), 0);
    let failed = json!({"status": {"phase": "Failed"}});
    pods.apply(Delta::Applied(court.pod("a", None, failed.clone())));
    let adopted = court.pod("a", Some("web-uid"), failed);
    court.changed(&orphan, &adopted, sync);
    assert_eq!(court.verdict(), None);
}
