//! The checks are checked: each invariant notices when it is broken.

use std::sync::Arc;

use podstorm::object::{Kind, Now, Pod, Resource};
use podstorm::replicaset::{Controller, ControllerOptions, Outcome};
use podstorm_apiserver::{Change, Commit, CommitObserver};
use podstorm_sim::engine::observer::{Observer, SyncId};
use podstorm_sim::faults::{BatchPosition, Call};
use serde_json::json;

use super::objects::{idle_set, pod, with};
use super::{Asked, Diary, Scene, Seen, SyncPage, rules};

fn page(own: &[&str], replicas: i64) -> SyncPage {
    SyncPage {
        id: SyncId {
            incarnation: 0,
            kind: Kind::REPLICA_SET,
            number: 1,
        },
        parent: "web".into(),
        began_ns: 0,
        seen: Some(Seen {
            uid: "u-1".into(),
            generation: 3,
            replicas,
            deleting: false,
            own: own.iter().map(ToString::to_string).collect(),
            expecting: false,
            burst: 500,
        }),
        requests: Vec::new(),
        ended: Some((0, Outcome::Ok)),
    }
}

fn asked(call: Call, name: &str) -> Asked {
    Asked {
        at_ns: 0,
        call,
        place: BatchPosition::default(),
        name: name.into(),
        adopts: call == Call::PatchPod,
        observed_generation: None,
        answer: Some(Ok(())),
    }
}

/// The number of the invariant that a sync with these requests breaks first; empty when none.
fn broken(mut page: SyncPage, requests: Vec<Asked>) -> String {
    let mut found = Vec::new();
    for asked in requests {
        found.extend(rules::at_request(&page, &asked));
        page.requests.push(asked);
    }
    found.extend(rules::at_end(&page));
    found
        .first()
        .map_or_else(String::new, |text| text[..2].to_owned())
}

#[test]
fn a_sync_within_its_bounds_breaks_nothing() {
    let create = || asked(Call::CreatePod, "");
    assert_eq!(broken(page(&["a"], 3), vec![create(), create()]), "");
    let delete = asked(Call::DeletePod, "b");
    assert_eq!(broken(page(&["a", "b"], 1), vec![delete]), "");
    // An adopted pod counts, and may be deleted at once.
    let (adopt, delete) = (asked(Call::PatchPod, "c"), asked(Call::DeletePod, "c"));
    assert_eq!(broken(page(&["a"], 1), vec![adopt, delete]), "");
}

#[test]
fn every_broken_bound_is_named() {
    let (create, delete) = (asked(Call::CreatePod, ""), asked(Call::DeletePod, "a"));
    let twice = vec![create.clone(), create.clone()];
    assert_eq!(broken(page(&["a"], 2), twice), "I2");
    let adopted = vec![asked(Call::PatchPod, "b"), create.clone()];
    assert_eq!(broken(page(&["a"], 2), adopted), "I2");
    assert_eq!(broken(page(&["a"], 1), vec![delete.clone()]), "I2");
    assert_eq!(
        broken(page(&["a", "b"], 1), vec![asked(Call::DeletePod, "c")]),
        "I4"
    );
    let mut refused = asked(Call::PatchPod, "b");
    refused.answer = Some(Err(500));
    assert_eq!(broken(page(&["a"], 2), vec![refused, create.clone()]), "I4");
    let mut unchecked = asked(Call::GetParent, "");
    unchecked.answer = Some(Err(404));
    assert_eq!(
        broken(page(&["a"], 2), vec![unchecked, create.clone()]),
        "I4"
    );

    let mut deleting = page(&["a"], 2);
    deleting.seen.as_mut().expect("it is there").deleting = true;
    for call in [Call::CreatePod, Call::DeletePod, Call::PatchPod] {
        assert_eq!(broken(deleting.clone(), vec![asked(call, "a")]), "I3");
    }
    let mut expecting = page(&["a"], 2);
    expecting.seen.as_mut().expect("it is there").expecting = true;
    assert_eq!(broken(expecting.clone(), vec![create]), "I6");
    assert_eq!(broken(expecting, vec![delete]), "I6");
    let mut status = asked(Call::PutStatus, "web");
    status.observed_generation = Some(4);
    assert_eq!(broken(page(&[], 0), vec![status]), "I7");
}

#[test]
fn two_syncs_of_one_key_and_two_controllers_of_one_pod_are_noticed() {
    let diary = Diary::default();
    let options = ControllerOptions::new(Kind::REPLICA_SET);
    let controller = Controller::new(options, Arc::default());
    let key = controller.owners().intern("default", "web");
    for number in 1..=2 {
        let sync = SyncId {
            incarnation: 0,
            kind: Kind::REPLICA_SET,
            number,
        };
        diary.sync_begins(sync, &controller, key, Now::default());
    }
    let owner = |name: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": true,
        })
    };
    let two = json!({"metadata": {"ownerReferences": [owner("a"), owner("b")]}});
    let torn = Pod::from_json(with(pod("torn", "web"), two)).expect("a pod");
    diary.committed(&Commit {
        version: 1,
        change: Change::Added,
        old: None,
        new: Arc::new(torn),
        now: Now::default(),
    });
    let broken = diary.state().broken.clone();
    assert_eq!(broken.len(), 2);
    assert!(
        broken[0].starts_with("I1") && broken[1].starts_with("I5"),
        "{broken:?}"
    );
}

#[test]
#[should_panic(expected = "I8")]
fn writes_after_the_end_are_noticed() {
    let scene = Scene::new();
    scene.create_set(idle_set("web", 1));
    scene.conclude_quiet();
}

#[test]
#[should_panic(expected = "not converged")]
fn what_never_converges_is_noticed() {
    let scene = Scene::new();
    scene.cluster().set_pod_quota("default", Some(1));
    scene.create_set(idle_set("web", 2));
    scene.conclude();
}

#[test]
#[should_panic(expected = "every scenario ends with its rules checked")]
fn a_scenario_without_an_end_is_noticed() {
    let _scene = Scene::new();
}
