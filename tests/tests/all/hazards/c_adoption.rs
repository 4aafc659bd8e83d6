//! C. Adoption and release.

use podstorm::object::Kind;
use podstorm::replicaset::SyncErrorClass;
use podstorm_apiserver::Propagation;
use podstorm_apiserver::latency::Latency;
use podstorm_sim::faults::{ApiFault, Armed, Call, Effect, StreamKind};
use podstorm_tests::hazard::{Harness, Write, idle_set, minutes, ms, pod, seconds, with};
use serde_json::{Value, json};

/// Returns a ReplicaSet of idle pods labeled `app: web`, whatever its name.
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

fn orphans(sim: &Harness, count: usize) -> Vec<String> {
    let names: Vec<String> = (1..=count).map(|n| format!("orphan-{n}")).collect();
    for name in &names {
        sim.create_pod(pod(name, "web"));
    }
    names
}

/// The live GET prevents the adoption of pods that the deletion orphans. Nothing is scaled and no
/// status is written in that round.
#[test]
fn hazard_21_orphaning_deletion_is_not_seen_yet() {
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    let mut sim = Harness::new().holding(with(idle_set("web", 2), kept));
    let (before, syncs) = (sim.written().len(), sim.syncs().len());
    sim.hold(StreamKind::from_kind(Kind::REPLICA_SET), seconds(20));
    sim.delete_set("web", Propagation::Orphan);
    sim.run(seconds(10));
    assert!(sim.set("web").metadata.is_deleting());
    let mut pods = sim.pods().into_iter();
    assert!(pods.all(|pod| pod.metadata.controller().is_none()));
    let during = sim.syncs().split_off(syncs);
    assert!(!during.is_empty());
    for sync in &during {
        assert_eq!(sync.failed_at(), Some(SyncErrorClass::Claim));
        assert_eq!((sync.sent(Call::GetOwner), sync.requests.len()), (1, 1));
    }
    assert_eq!(sim.written().len(), before);
    sim.run(seconds(20));
    sim.patch_set("web", json!({"metadata": {"finalizers": null}}));
    sim.run(seconds(10));
    assert!(sim.find("web").is_none());
    assert_eq!((sim.pods().len(), sim.count(Write::Create)), (2, 2));
    assert_eq!(sim.count(Write::Adopt), 0);
    sim.conclude();
}

/// A deletion between the live GET and the PATCH is not noticed: the pod is adopted by a deleted
/// owner, and collected.
#[test]
fn hazard_22_deletion_between_live_get_and_patch() {
    let mut sim = Harness::new().holding(idle_set("web", 0));
    sim.fail(Call::PatchPod, Effect::Slow { by_ms: 1_000 }, 1);
    orphans(&sim, 1);
    sim.run(ms(500));
    assert_eq!(sim.under_way(Call::PatchPod), 1);
    sim.delete_set("web", Propagation::Background);
    sim.run(ms(200));
    assert!(sim.pod("orphan-1").is_some());
    sim.run(seconds(5));
    assert_eq!(sim.count(Write::Adopt), 1);
    assert!(sim.pods().is_empty());
    sim.conclude();
}

/// Any problem with the live ReplicaSet fails all adoptions of the sync, with a single GET.
#[test]
fn hazard_23_live_get_fails_or_shows_another() {
    for case in ["500", "404", "other uid"] {
        let mut sim = Harness::new().holding(idle_set("web", 3));
        sim.hold(StreamKind::from_kind(Kind::REPLICA_SET), seconds(2));
        match case {
            "500" => sim.refuse(Call::GetOwner, ApiFault::InternalError, 1),
            _ => sim.delete_set("web", Propagation::Background),
        }
        if case == "other uid" {
            sim.create_set(idle_set("web", 3));
        }
        let syncs = sim.syncs().len();
        orphans(&sim, 3);
        sim.run(ms(1));
        let sync = sim.syncs().swap_remove(syncs);
        assert_eq!(sync.failed_at(), Some(SyncErrorClass::Claim), "{case}");
        let sent = (sync.sent(Call::GetOwner), sync.requests.len());
        assert_eq!(sent, (1, 1), "{case}");
        assert_eq!(sim.count(Write::Adopt), 0, "{case}");
        sim.run(seconds(10));
        let adopted = if case == "404" { 0 } else { 3 };
        assert_eq!(sim.count(Write::Adopt), adopted, "{case}");
        sim.conclude();
    }
}

/// Two ReplicaSets want one orphan. The second PATCH is refused; its sync fails once and then
/// ignores the pod.
#[test]
fn hazard_24_two_replicasets_match_one_orphan() {
    let mut sim = Harness::new();
    orphans(&sim, 1);
    sim.fail(Call::PatchPod, Effect::Slow { by_ms: 100 }, 2);
    sim.create_set(sharing("one", 1));
    sim.create_set(sharing("two", 1));
    sim.run(seconds(10));
    let syncs = sim.syncs();
    let patches = syncs.iter().flat_map(|sync| &sync.requests);
    let answers: Vec<_> = patches
        .filter(|request| request.call == Call::PatchPod)
        .map(|request| request.answer.unwrap())
        .collect();
    assert_eq!(answers, [Ok(()), Err(422)]);
    let failed = syncs.iter().filter_map(|sync| sync.failed_at());
    let refused = failed.filter(|class| *class == SyncErrorClass::Claim);
    assert_eq!(refused.count(), 1);
    assert_eq!((sim.count(Write::Adopt), sim.count(Write::Create)), (1, 1));
    assert_eq!((sim.active("one").len(), sim.active("two").len()), (1, 1));
    sim.conclude();
}

/// A 404 is neither an error nor a claim. A pod with another UID under the name is an error for an
/// adoption, but not for a release.
#[test]
fn hazard_25_pod_is_deleted_or_replaced_before_the_patch() {
    for recreated in [false, true] {
        let mut sim = Harness::new();
        sim.fail(Call::PatchPod, Effect::Slow { by_ms: 1_000 }, 1);
        orphans(&sim, 1);
        sim.create_set(idle_set("web", 1));
        sim.run(ms(500));
        sim.kill_pod("orphan-1");
        if recreated {
            orphans(&sim, 1);
        }
        sim.run(ms(1_600));
        let sync = sim.syncs().remove(0);
        let answer = sync.requests[1].answer.unwrap();
        if recreated {
            assert_eq!(answer, Err(422));
            assert_eq!(sync.failed_at(), Some(SyncErrorClass::Claim));
            assert_eq!(sync.sent(Call::CreatePod), 0);
            sim.run(seconds(1));
            assert_eq!((sim.count(Write::Adopt), sim.count(Write::Create)), (1, 0));
        } else {
            assert_eq!((answer, sync.failed_at()), (Err(404), None));
            assert_eq!(sync.sent(Call::CreatePod), 1, "not claimed");
        }
        sim.conclude();
    }
    // The same for a release.
    let mut sim = Harness::new().holding(idle_set("web", 1));
    let name = sim.active("web").remove(0);
    sim.fail(Call::PatchPod, Effect::Slow { by_ms: 1_000 }, 1);
    sim.patch_pod(&name, json!({"metadata": {"labels": {"app": "other"}}}));
    sim.run(ms(500));
    sim.kill_pod(&name);
    sim.create_pod(pod(&name, "other"));
    let syncs = sim.syncs().len();
    sim.run(ms(1_600));
    let sync = sim.syncs().swap_remove(syncs - 1);
    assert_eq!(sync.requests[0].answer, Some(Err(422)));
    assert_eq!(sync.failed_at(), None);
    assert_eq!(sync.sent(Call::CreatePod), 1);
    assert!(sim.pod(&name).unwrap().metadata.controller().is_none());
    sim.conclude();
}

/// A terminating pod is never adopted.
#[test]
fn hazard_26_terminating_orphan() {
    let mut sim = Harness::new();
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    sim.create_pod(with(pod("orphan", "web"), kept));
    sim.delete_pod("orphan");
    sim.create_set(idle_set("web", 2));
    sim.run(seconds(10));
    assert!(sim.pod("orphan").unwrap().is_terminating());
    assert_eq!((sim.sent(Call::GetOwner), sim.sent(Call::PatchPod)), (0, 0));
    assert_eq!(sim.count(Write::Create), 2);
    sim.patch_pod("orphan", json!({"metadata": {"finalizers": null}}));
    sim.conclude();
}

/// A relabeled pod is released and replaced in one sync. Labeled back, it is adopted, and there is
/// one pod too many.
#[test]
fn hazard_27_relabelled_pod_is_isolated() {
    for gate in [true, false] {
        let mut sim = Harness::gated(gate).holding(idle_set("web", 3));
        let name = sim.active("web").remove(0);
        let syncs = sim.syncs().len();
        sim.patch_pod(&name, json!({"metadata": {"labels": {"app": "debug"}}}));
        sim.run(seconds(1));
        let sync = sim.syncs().swap_remove(syncs);
        assert_eq!(sync.sent(Call::PatchPod), 1);
        assert_eq!(sync.sent(Call::CreatePod), 1);
        assert_eq!((sim.count(Write::Release), sim.active("web").len()), (1, 3));
        assert!(sim.pod(&name).unwrap().metadata.controller().is_none());
        sim.patch_pod(&name, json!({"metadata": {"labels": {"app": "web"}}}));
        sim.run(seconds(1));
        assert_eq!((sim.count(Write::Adopt), sim.count(Write::Delete)), (1, 1));
        assert_eq!(sim.active("web").len(), 3);
        sim.conclude();
    }
}

/// A release without effect succeeds without an event, and is not repeated.
#[test]
fn hazard_28_released_by_another_client() {
    let mut sim = Harness::with(|setup| {
        setup.latency.watch = Latency::Constant(seconds(1));
    });
    sim.create_set(idle_set("web", 2));
    sim.run(seconds(10));
    let name = sim.active("web").remove(0);
    sim.patch_pod(&name, json!({"metadata": {"labels": {"app": "debug"}}}));
    sim.run(ms(500));
    sim.patch_pod(&name, json!({"metadata": {"ownerReferences": null}}));
    let version = sim.pod(&name).unwrap().metadata.resource_version.clone();
    sim.run(seconds(30));
    assert_eq!(sim.sent(Call::PatchPod), 1);
    assert_eq!(sim.count(Write::Release), 0);
    assert_eq!(sim.pod(&name).unwrap().metadata.resource_version, version);
    assert_eq!(sim.active("web").len(), 2);
    sim.conclude();
}

/// One of three PATCHes fails: the others are adopted, and the sync fails without scaling. If it
/// always fails, nothing is scaled and no status is written.
#[test]
fn hazard_29_one_of_three_patches_fails() {
    let mut sim = Harness::new();
    orphans(&sim, 3);
    let refused = Effect::Refuse(ApiFault::InternalError);
    sim.arm(Armed {
        batch: Some(2),
        ..Armed::new(&[Call::PatchPod], refused, 1)
    });
    sim.create_set(idle_set("web", 5));
    sim.run(seconds(5));
    let syncs = sim.syncs_of("web");
    assert_eq!(syncs[0].failed_at(), Some(SyncErrorClass::Claim));
    assert_eq!(syncs[0].sent(Call::PatchPod), 3);
    assert_eq!(syncs[0].sent(Call::GetOwner), 1);
    assert_eq!(syncs[0].sent(Call::CreatePod), 0);
    assert_eq!(syncs[0].sent(Call::PutStatus), 0);
    assert_eq!((sim.count(Write::Adopt), sim.count(Write::Create)), (3, 2));
    sim.conclude();

    let mut sim = Harness::new();
    orphans(&sim, 1);
    sim.refuse(Call::PatchPod, ApiFault::InternalError, u32::MAX);
    sim.create_set(idle_set("web", 5));
    sim.run(minutes(3));
    assert!(sim.written().is_empty());
    assert!(sim.failures("web") > 10);
    sim.heal_requests();
    sim.touch("web");
    sim.run(seconds(5));
    assert_eq!((sim.count(Write::Adopt), sim.count(Write::Create)), (1, 4));
    sim.assert_converged();
    sim.conclude();
}

/// The survivor of two ReplicaSets with one selector adopts the other's pods, then deletes the
/// surplus.
#[test]
fn hazard_30_one_of_a_pair_is_deleted_with_orphans() {
    let mut sim = Harness::new();
    sim.create_set(sharing("one", 2));
    sim.create_set(sharing("two", 2));
    sim.run(seconds(1));
    sim.delete_set("one", Propagation::Orphan);
    sim.run(seconds(10));
    assert!(sim.find("one").is_none());
    assert_eq!((sim.count(Write::Adopt), sim.count(Write::Delete)), (2, 2));
    assert_eq!((sim.most_active("two"), sim.active("two").len()), (4, 2));
    assert_eq!(sim.pods().len(), 2);
    sim.conclude();
}

/// Two ReplicaSets with one selector leave each other's pods alone.
#[test]
fn hazard_31_overlapping_replicasets() {
    let mut sim = Harness::new();
    sim.create_set(sharing("one", 2));
    sim.create_set(sharing("two", 3));
    sim.run(seconds(10));
    sim.scale("one", 4);
    sim.scale("two", 1);
    sim.run(seconds(10));
    assert_eq!((sim.active("one").len(), sim.active("two").len()), (4, 1));
    assert_eq!(sim.sent(Call::PatchPod), 0);
    assert_eq!((sim.count(Write::Create), sim.count(Write::Delete)), (7, 2));
    sim.conclude();
}
