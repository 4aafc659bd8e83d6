//! C. Adoption and release.

use podstorm::replicaset::SyncErrorClass;
use podstorm_apiserver::Propagation;
use podstorm_loadgen::settings::Latency;
use podstorm_sim::faults::{ApiFault, Armed, Call, Effect, StreamKind};
use podstorm_tests::hazard::objects::{idle_set, pod, with};
use podstorm_tests::hazard::{Did, Scene, fault, minutes, ms, seconds};
use serde_json::{Value, json};

/// A ReplicaSet of idle pods labelled `app: web`, whatever its name.
fn sharing(name: &str, replicas: i32) -> Value {
    let labels = json!({"app": "web"});
    with(
        idle_set(name, replicas),
        json!({"spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}},
        }}),
    )
}

fn orphans(scene: &Scene, count: usize) -> Vec<String> {
    let names: Vec<String> = (1..=count).map(|n| format!("orphan-{n}")).collect();
    for name in &names {
        scene.create_pod(pod(name, "web"));
    }
    names
}

fn refuse(fault: ApiFault) -> Effect {
    Effect::Refuse(fault)
}

/// The live GET vetoes adoption of the pods that the deletion strips; nothing is scaled and no
/// status is written in that round.
#[test]
fn hazard_21_orphaning_deletion_is_not_seen_yet() {
    let mut scene = Scene::new();
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    scene.create_set(with(idle_set("web", 2), kept));
    scene.run(seconds(1));
    let (before, syncs) = (scene.written().len(), scene.syncs().len());
    scene.hold(StreamKind::Parents, seconds(20));
    scene.delete_set("web", Propagation::Orphan);
    scene.run(seconds(10));
    assert!(scene.set("web").metadata.is_deleting());
    assert!(
        scene
            .pods()
            .iter()
            .all(|pod| pod.metadata.controller().is_none())
    );
    let during = scene.syncs().split_off(syncs);
    assert!(!during.is_empty());
    for page in &during {
        assert_eq!(page.failed_at(), Some(SyncErrorClass::Claim));
        assert_eq!((page.sent(Call::GetParent), page.requests.len()), (1, 1));
    }
    assert_eq!(scene.written().len(), before);
    scene.run(seconds(20));
    scene.patch_set("web", json!({"metadata": {"finalizers": null}}));
    scene.run(seconds(10));
    assert!(scene.find("web").is_none());
    assert_eq!((scene.pods().len(), scene.count(Did::Create)), (2, 2));
    assert_eq!(scene.count(Did::Adopt), 0);
    scene.conclude();
}

/// A deletion between the live GET and the PATCH is not noticed: the pod is adopted for an owner
/// that is gone, and collected.
#[test]
fn hazard_22_deletion_between_live_get_and_patch() {
    let mut scene = Scene::new();
    scene.create_set(idle_set("web", 0));
    scene.run(seconds(1));
    scene.fail(Call::PatchPod, Effect::Slow { by_ms: 1_000 }, 1);
    orphans(&scene, 1);
    scene.run(ms(500));
    assert_eq!(scene.under_way(Call::PatchPod), 1);
    scene.delete_set("web", Propagation::Background);
    scene.run(ms(200));
    assert!(scene.pod("orphan-1").is_some());
    scene.run(seconds(5));
    assert_eq!(scene.count(Did::Adopt), 1);
    assert!(scene.pods().is_empty());
    scene.conclude();
}

/// Whatever is wrong with the live ReplicaSet fails all adoptions of the sync, with one GET.
#[test]
fn hazard_23_live_get_fails_or_shows_another() {
    for case in ["500", "404", "other uid"] {
        let mut scene = Scene::new();
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        scene.hold(StreamKind::Parents, seconds(2));
        match case {
            "500" => scene.fail(Call::GetParent, refuse(ApiFault::InternalError), 1),
            _ => scene.delete_set("web", Propagation::Background),
        }
        if case == "other uid" {
            scene.create_set(idle_set("web", 3));
        }
        let syncs = scene.syncs().len();
        orphans(&scene, 3);
        scene.run(ms(1));
        let page = scene.syncs().swap_remove(syncs);
        assert_eq!(page.failed_at(), Some(SyncErrorClass::Claim), "{case}");
        assert_eq!(
            (page.sent(Call::GetParent), page.requests.len()),
            (1, 1),
            "{case}"
        );
        assert_eq!(scene.count(Did::Adopt), 0, "{case}");
        scene.run(seconds(10));
        assert_eq!(
            scene.count(Did::Adopt),
            if case == "404" { 0 } else { 3 },
            "{case}"
        );
        scene.conclude();
    }
}

/// Two want one orphan: the second PATCH is refused, its sync fails once and then leaves the pod
/// alone.
#[test]
fn hazard_24_two_replicasets_match_one_orphan() {
    let mut scene = Scene::new();
    orphans(&scene, 1);
    scene.fail(Call::PatchPod, Effect::Slow { by_ms: 100 }, 2);
    scene.create_set(sharing("one", 1));
    scene.create_set(sharing("two", 1));
    scene.run(seconds(10));
    let syncs = scene.syncs();
    let patches = syncs.iter().flat_map(|page| &page.requests);
    let answers: Vec<_> = patches
        .filter(|asked| asked.call == Call::PatchPod)
        .map(|asked| asked.answer.unwrap())
        .collect();
    assert_eq!(answers, [Ok(()), Err(422)]);
    let failed = syncs.iter().filter_map(|page| page.failed_at());
    assert_eq!(
        failed
            .filter(|class| *class == SyncErrorClass::Claim)
            .count(),
        1
    );
    assert_eq!((scene.count(Did::Adopt), scene.count(Did::Create)), (1, 1));
    assert_eq!(
        (scene.active("one").len(), scene.active("two").len()),
        (1, 1)
    );
    scene.conclude();
}

/// 404 is no error and no claim; a pod of another UID under the name is an error for adoption and
/// none for release.
#[test]
fn hazard_25_pod_is_gone_or_another_before_the_patch() {
    for recreated in [false, true] {
        let mut scene = Scene::new();
        scene.fail(Call::PatchPod, Effect::Slow { by_ms: 1_000 }, 1);
        orphans(&scene, 1);
        scene.create_set(idle_set("web", 1));
        scene.run(ms(500));
        scene.kill_pod("orphan-1");
        if recreated {
            orphans(&scene, 1);
        }
        scene.run(ms(1_600));
        let page = scene.syncs().remove(0);
        let answer = page.requests[1].answer.unwrap();
        if recreated {
            assert_eq!(
                (answer, page.failed_at()),
                (Err(422), Some(SyncErrorClass::Claim))
            );
            assert_eq!(page.sent(Call::CreatePod), 0);
            scene.run(seconds(1));
            assert_eq!((scene.count(Did::Adopt), scene.count(Did::Create)), (1, 0));
        } else {
            assert_eq!((answer, page.failed_at()), (Err(404), None));
            assert_eq!(page.sent(Call::CreatePod), 1, "not claimed");
        }
        scene.conclude();
    }
    // The same with a release.
    let mut scene = Scene::new();
    scene.create_set(idle_set("web", 1));
    scene.run(seconds(1));
    let name = scene.active("web").remove(0);
    scene.fail(Call::PatchPod, Effect::Slow { by_ms: 1_000 }, 1);
    scene.patch_pod(&name, json!({"metadata": {"labels": {"app": "other"}}}));
    scene.run(ms(500));
    scene.kill_pod(&name);
    scene.create_pod(pod(&name, "other"));
    let syncs = scene.syncs().len();
    scene.run(ms(1_600));
    let page = scene.syncs().swap_remove(syncs - 1);
    assert_eq!(
        (page.requests[0].answer, page.failed_at()),
        (Some(Err(422)), None)
    );
    assert_eq!(page.sent(Call::CreatePod), 1);
    assert!(scene.pod(&name).unwrap().metadata.controller().is_none());
    scene.conclude();
}

/// A pod on its way out is never adopted.
#[test]
fn hazard_26_terminating_orphan() {
    let mut scene = Scene::new();
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    scene.create_pod(with(pod("orphan", "web"), kept));
    scene.delete_pod("orphan");
    scene.create_set(idle_set("web", 2));
    scene.run(seconds(10));
    assert!(scene.pod("orphan").unwrap().is_terminating());
    assert_eq!(
        (scene.sent(Call::GetParent), scene.sent(Call::PatchPod)),
        (0, 0)
    );
    assert_eq!(scene.count(Did::Create), 2);
    scene.conclude();
}

/// A pod that is relabelled is released and replaced in one sync; labelled back it is adopted and
/// one is too many.
#[test]
fn hazard_27_relabelled_pod_is_isolated() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        let name = scene.active("web").remove(0);
        let syncs = scene.syncs().len();
        scene.patch_pod(&name, json!({"metadata": {"labels": {"app": "debug"}}}));
        scene.run(seconds(1));
        let page = scene.syncs().swap_remove(syncs);
        assert_eq!(
            (page.sent(Call::PatchPod), page.sent(Call::CreatePod)),
            (1, 1)
        );
        assert_eq!(
            (scene.count(Did::Release), scene.active("web").len()),
            (1, 3)
        );
        assert!(scene.pod(&name).unwrap().metadata.controller().is_none());
        scene.patch_pod(&name, json!({"metadata": {"labels": {"app": "web"}}}));
        scene.run(seconds(1));
        assert_eq!((scene.count(Did::Adopt), scene.count(Did::Delete)), (1, 1));
        assert_eq!(scene.active("web").len(), 3);
        scene.conclude();
    }
}

/// A release that finds nothing to release is a success without an event, and is not repeated.
#[test]
fn hazard_28_released_by_somebody_else() {
    let mut scene = Scene::with(|setup| {
        setup.settings.latency.watch = Latency::Constant(seconds(1));
    });
    scene.create_set(idle_set("web", 2));
    scene.run(seconds(10));
    let name = scene.active("web").remove(0);
    scene.patch_pod(&name, json!({"metadata": {"labels": {"app": "debug"}}}));
    scene.run(ms(500));
    scene.patch_pod(&name, json!({"metadata": {"ownerReferences": null}}));
    let version = scene.pod(&name).unwrap().metadata.resource_version.clone();
    scene.run(seconds(30));
    assert_eq!(
        (scene.sent(Call::PatchPod), scene.count(Did::Release)),
        (1, 0)
    );
    assert_eq!(scene.pod(&name).unwrap().metadata.resource_version, version);
    assert_eq!(scene.active("web").len(), 2);
    scene.conclude();
}

/// One of three PATCHes fails: the others are adopted, the sync fails and scales nothing. Where it
/// always fails, nothing is scaled and no status is written at all.
#[test]
fn hazard_29_one_of_three_patches_fails() {
    let mut scene = Scene::new();
    orphans(&scene, 3);
    scene.arm(Armed {
        batch: Some(2),
        ..fault(&[Call::PatchPod], refuse(ApiFault::InternalError), 1)
    });
    scene.create_set(idle_set("web", 5));
    scene.run(seconds(5));
    let syncs = scene.syncs_of("web");
    assert_eq!(syncs[0].failed_at(), Some(SyncErrorClass::Claim));
    assert_eq!(
        (
            syncs[0].sent(Call::PatchPod),
            syncs[0].sent(Call::GetParent)
        ),
        (3, 1)
    );
    assert_eq!(
        (
            syncs[0].sent(Call::CreatePod),
            syncs[0].sent(Call::PutStatus)
        ),
        (0, 0)
    );
    assert_eq!((scene.count(Did::Adopt), scene.count(Did::Create)), (3, 2));
    scene.conclude();

    let mut scene = Scene::new();
    orphans(&scene, 1);
    scene.fail(Call::PatchPod, refuse(ApiFault::InternalError), u32::MAX);
    scene.create_set(idle_set("web", 5));
    scene.run(minutes(3));
    assert!(scene.written().is_empty());
    assert!(scene.failures("web") > 10);
    scene.heal_requests();
    scene.touch("web");
    scene.run(seconds(5));
    assert_eq!((scene.count(Did::Adopt), scene.count(Did::Create)), (1, 4));
    scene.assert_converged();
    scene.conclude();
}

/// The survivor of two that share a selector adopts what the other leaves, then deletes the
/// surplus.
#[test]
fn hazard_30_one_of_a_pair_is_deleted_with_orphans() {
    let mut scene = Scene::new();
    scene.create_set(sharing("one", 2));
    scene.create_set(sharing("two", 2));
    scene.run(seconds(1));
    scene.delete_set("one", Propagation::Orphan);
    scene.run(seconds(10));
    assert!(scene.find("one").is_none());
    assert_eq!((scene.count(Did::Adopt), scene.count(Did::Delete)), (2, 2));
    assert_eq!(
        (scene.most_active("two"), scene.active("two").len()),
        (4, 2)
    );
    assert_eq!(scene.pods().len(), 2);
    scene.conclude();
}

/// Two with one selector and pods of their own leave each other alone.
#[test]
fn hazard_31_overlapping_replicasets() {
    let mut scene = Scene::new();
    scene.create_set(sharing("one", 2));
    scene.create_set(sharing("two", 3));
    scene.run(seconds(10));
    scene.scale("one", 4);
    scene.scale("two", 1);
    scene.run(seconds(10));
    assert_eq!(
        (scene.active("one").len(), scene.active("two").len()),
        (4, 1)
    );
    assert_eq!(scene.sent(Call::PatchPod), 0);
    assert_eq!((scene.count(Did::Create), scene.count(Did::Delete)), (7, 2));
    scene.conclude();
}
