//! A. Caches that lag, and expectations.

use podstorm_loadgen::settings::Latency;
use podstorm_sim::faults::{Call, StreamEnd, StreamKind};
use podstorm_tests::hazard::objects::{idle_set, replica_set};
use podstorm_tests::hazard::{Did, Hand, Scene, minutes, ms, seconds};
use serde_json::json;

/// Everybody hears of a write a second later: what happens in between is told apart by it.
fn heard_late(gate: bool) -> Scene {
    Scene::with(|setup| {
        setup.consistency(gate);
        setup.settings.latency.watch = Latency::Constant(seconds(1));
    })
}

/// Pods that take their grace of 30 s to end.
fn slow_to_end(gate: bool) -> Scene {
    Scene::with(|setup| {
        setup.consistency(gate);
        setup.settings.latency.pod_termination = Latency::Constant(minutes(10));
    })
}

/// No second round of creates. Gate off: status is written all the while; gate on: syncs are
/// refused before they read anything, the key backs off and recovers with the events.
#[test]
fn hazard_01_slow_pod_watch_after_creates() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.hold(StreamKind::Pods, seconds(30));
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        assert_eq!(scene.count(Did::Create), 3);
        let (syncs, skips) = (scene.syncs().len(), scene.stale_skips().0);
        for wrong in 11..16 {
            scene.patch_set_status("web", json!({"replicas": wrong}));
            scene.run(seconds(2));
            assert_eq!(scene.status("web").replicas, if gate { wrong } else { 0 });
        }
        assert_eq!(scene.count(Did::Create), 3);
        let during = scene.syncs().split_off(syncs);
        assert!(during.len() >= 5);
        assert!(during.iter().all(|page| page.failed_at().is_some() == gate));
        assert_eq!(scene.stale_skips().0 - skips >= 5, gate);
        assert_eq!(scene.failures("web") > 0, gate);
        scene.run(seconds(20));
        assert_eq!(scene.status("web").replicas, 3);
        assert_eq!(scene.failures("web"), 0);
        assert_eq!(scene.count(Did::Create), 3);
        scene.conclude();
    }
}

/// Gate off: the next event after five minutes creates all once more, and the surplus goes when
/// the events come. Gate on: no surplus.
#[test]
fn hazard_02_pod_watch_late_by_more_than_five_minutes() {
    for (gate, most) in [(false, 6), (true, 3)] {
        let mut scene = Scene::gated(gate);
        scene.hold(StreamKind::Pods, minutes(8));
        scene.create_set(idle_set("web", 3));
        scene.run(minutes(5));
        scene.touch("web");
        scene.run(0);
        assert_eq!(
            scene.active("web").len(),
            3,
            "exactly five minutes is not over"
        );
        scene.run(seconds(30));
        assert_eq!(scene.active("web").len(), 3, "no timer wakes the key");
        scene.touch("web");
        scene.run(seconds(30));
        assert_eq!(scene.active("web").len(), most);
        scene.run(minutes(3));
        assert_eq!(scene.active("web").len(), 3);
        assert_eq!(scene.most_active("web"), most);
        scene.conclude();
    }
}

/// Nothing happens, at five minutes neither; the next event after that makes one pod too many. A
/// new list shows the pod and nothing is left to wait for.
#[test]
fn hazard_03_creation_event_lost() {
    for gate in [true, false] {
        for relist in [true, false] {
            let mut scene = Scene::gated(gate);
            scene.line().drop_events(StreamKind::Pods, 1);
            scene.create_set(idle_set("web", 3));
            scene.run(seconds(2));
            assert_eq!(scene.expected("web"), Some((1, 0)));
            let syncs = scene.syncs().len();
            scene.run(minutes(20));
            assert_eq!(scene.syncs().len(), syncs, "no timer wakes the key");
            assert_eq!(scene.status("web").replicas, 2);
            if relist {
                scene.end(StreamKind::Pods, StreamEnd::Expired);
                scene.run(seconds(2));
                assert_eq!(scene.expected("web"), Some((0, 0)));
                assert_eq!(scene.status("web").replicas, 3);
                assert_eq!(scene.most_active("web"), 3);
            } else {
                scene.touch("web");
                scene.run(seconds(2));
                assert_eq!(scene.active("web").len(), 4);
            }
            scene.conclude();
        }
    }
}

/// No further deletes while the events stay away, with five left and never fewer; the gate takes
/// no notice of deletes.
#[test]
fn hazard_04_deletions_seen_late() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.create_set(idle_set("web", 10));
        scene.run(seconds(1));
        scene.reset_extremes();
        scene.hold(StreamKind::Pods, minutes(4));
        scene.scale("web", 5);
        scene.run(seconds(1));
        let syncs = scene.syncs().len();
        for _ in 0..5 {
            scene.touch("web");
            scene.run(seconds(10));
        }
        let during = scene.syncs().split_off(syncs);
        assert!(during.len() >= 5 && during.iter().all(|page| page.failed_at().is_none()));
        assert_eq!(scene.count(Did::Delete), 5);
        scene.run(minutes(4));
        assert_eq!(
            (scene.active("web").len(), scene.fewest_active("web")),
            (5, 5)
        );
        assert_eq!(scene.count(Did::Delete), 5);
        scene.conclude();
    }
}

/// A victim that is marked, changed and removed is counted once.
#[test]
fn hazard_05_graceful_deletion_is_told_twice() {
    let mut scene = slow_to_end(true);
    scene.create_set(replica_set("web", 5));
    scene.run(seconds(1));
    scene.line().duplicate_events(StreamKind::Pods, 2);
    scene.scale("web", 3);
    scene.run(seconds(1));
    assert_eq!(scene.expected("web"), Some((0, 0)));
    let terminating = |scene: &Scene| -> Vec<String> {
        let pods = scene.pods().into_iter().filter(|pod| pod.is_terminating());
        pods.map(|pod| pod.metadata.name.to_string()).collect()
    };
    let victims = terminating(&scene);
    assert_eq!(victims.len(), 2);
    let syncs = scene.syncs().len();
    for name in &victims {
        scene.patch_pod(
            name,
            json!({"metadata": {"annotations": {"seen": "again"}}}),
        );
        scene.run(seconds(1));
    }
    // Each later update of a terminating pod wakes its owner, and counts for nothing.
    assert!(scene.syncs().len() >= syncs + 2);
    assert_eq!(scene.expected("web"), Some((0, 0)));
    scene.run(minutes(1));
    assert!(terminating(&scene).is_empty());
    assert_eq!(scene.expected("web"), Some((0, 0)));
    assert_eq!(scene.count(Did::Delete), 2);
    scene.conclude();
}

/// A foreign pod that names the ReplicaSet counts for the one awaited. Gate off: one surplus pod,
/// deleted later; gate on: none.
#[test]
fn hazard_06_foreign_pod_satisfies_creation() {
    for (gate, most) in [(true, 1), (false, 2)] {
        let mut scene = heard_late(gate);
        scene.create_set(idle_set("web", 0));
        scene.run(seconds(5));
        scene.scale("web", 1);
        scene.run(ms(500));
        scene.forge_pod("foreign", "web");
        scene.run(ms(200));
        scene.kill_pod("foreign");
        scene.run(ms(400));
        assert_eq!(scene.expected("web"), Some((1, 0)));
        scene.run(ms(450));
        assert_eq!(
            scene.expected("web"),
            Some((0, 0)),
            "satisfied by the foreign pod"
        );
        scene.run(ms(300));
        assert_eq!(scene.active("web").len(), most);
        scene.run(seconds(10));
        assert_eq!(
            (scene.active("web").len(), scene.most_active("web")),
            (1, most)
        );
        scene.conclude();
    }
}

/// Pods that were there before lower the expectations of a create round after a restart: a round
/// too early, and the right number in the end.
#[test]
fn hazard_07_initial_adds_are_handled_late() {
    let mut hand = Hand::new();
    let set = hand.create_set(idle_set("web", 5));
    for name in ["old-1", "old-2"] {
        let pod = podstorm_tests::hazard::objects::pod_of(name, "web", &set.metadata.uid);
        hand.create_pod(pod);
    }
    hand.list_sets();
    // The store is full, the handlers have heard of nothing, workers begin.
    let initial = hand.list_pods();
    let first = hand.sync();
    assert_eq!(first.sent(Call::CreatePod), 3);
    assert_eq!(hand.expected("web"), Some((3, 0)));
    hand.controller.pods_listed(&initial, hand.now);
    assert_eq!(
        hand.expected("web"),
        Some((1, 0)),
        "lowered by pods of before"
    );
    // The gate waits for what was created, then the count is right although it went below zero.
    hand.pass(seconds(1));
    hand.list_sets();
    assert_eq!(hand.sync().sent(Call::CreatePod), 0);
    let created = hand.list_pods();
    hand.controller.pods_listed(&created, hand.now);
    assert_eq!(hand.expected("web"), Some((-2, 0)));
    hand.pass(seconds(1));
    let last = hand.sync();
    assert_eq!(
        (last.sent(Call::CreatePod), last.sent(Call::DeletePod)),
        (0, 0)
    );
    assert_eq!(hand.cluster.count::<podstorm::object::Pod>(), 5);
}

/// Its creation is never counted: nothing replaces it before expiry and an event.
#[test]
fn hazard_08_created_pod_is_first_seen_terminating() {
    for gate in [true, false] {
        let mut scene = slow_to_end(gate);
        scene.hold(StreamKind::Pods, seconds(5));
        scene.create_set(replica_set("web", 1));
        scene.run(seconds(1));
        let name = scene.active("web").remove(0);
        scene.delete_pod(&name);
        scene.end(StreamKind::Pods, StreamEnd::Expired);
        scene.run(seconds(10));
        assert_eq!(scene.expected("web"), Some((1, 0)));
        scene.run(minutes(6));
        assert!(scene.pod(&name).is_none());
        assert_eq!(scene.count(Did::Create), 1, "nothing wakes the key");
        scene.touch("web");
        scene.run(seconds(1));
        assert_eq!(scene.active("web").len(), 1);
        scene.conclude();
    }
}

/// The deletion of a victim that changed hands before is not counted: no action until expiry and
/// an event, then the right one.
#[test]
fn hazard_09_victim_is_orphaned_before_its_deletion() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.create_set(idle_set("web", 2));
        scene.run(seconds(1));
        let (victim, other) = (scene.active("web").remove(0), scene.active("web").remove(1));
        let cheap = json!({"controller.kubernetes.io/pod-deletion-cost": "-10"});
        scene.patch_pod(&victim, json!({"metadata": {"annotations": cheap}}));
        scene.run(seconds(1));
        scene.hold(StreamKind::Pods, seconds(10));
        let stolen = json!({"metadata": {"ownerReferences": null, "labels": {"app": "other"}}});
        scene.patch_pod(&victim, stolen);
        scene.scale("web", 1);
        scene.run(seconds(20));
        assert!(scene.pod(&victim).is_none());
        assert_eq!(scene.expected("web"), Some((0, 1)));
        scene.kill_pod(&other);
        scene.run(minutes(6));
        assert_eq!(
            scene.active("web").len(),
            0,
            "del is pending, then nothing wakes the key"
        );
        scene.touch("web");
        scene.run(seconds(1));
        assert_eq!(scene.active("web").len(), 1);
        scene.conclude();
    }
}

/// A reference that goes in the same step as the pod begins to end wakes nobody and counts for
/// nothing.
#[test]
fn hazard_10_reference_dropped_and_deletion_in_one_step() {
    for gate in [true, false] {
        let mut scene = slow_to_end(gate);
        scene.create_set(replica_set("web", 2));
        scene.run(seconds(1));
        scene.hold(StreamKind::Pods, seconds(10));
        scene.scale("web", 1);
        scene.run(seconds(1));
        let pods = scene.owned("web");
        let victim = pods.iter().find(|pod| pod.is_terminating()).unwrap();
        let name = victim.metadata.name.to_string();
        scene.patch_pod(&name, json!({"metadata": {"ownerReferences": null}}));
        scene.end(StreamKind::Pods, StreamEnd::Expired);
        let syncs = scene.syncs().len();
        scene.run(seconds(20));
        assert!(
            scene
                .controller()
                .pods()
                .get("default", &name)
                .unwrap()
                .is_terminating()
        );
        assert_eq!(scene.syncs().len(), syncs, "the old owner is not woken");
        assert_eq!(scene.expected("web"), Some((0, 1)));
        scene.run(minutes(5));
        let left = scene.active("web").remove(0);
        scene.kill_pod(&left);
        scene.run(seconds(1));
        assert_eq!(
            scene.active("web").len(),
            1,
            "expired, and an event has come"
        );
        scene.conclude();
    }
}

/// Deleted and made again under its name while the watch was broken: an update, by which the
/// deletion that is awaited is not counted.
#[test]
fn hazard_11_same_name_new_uid_in_one_update() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.create_set(idle_set("web", 1));
        scene.run(seconds(1));
        let name = scene.active("web").remove(0);
        scene.hold(StreamKind::Pods, seconds(5));
        scene.scale("web", 0);
        scene.run(seconds(1));
        assert!(scene.pod(&name).is_none());
        scene.forge_pod(&name, "web");
        scene.end(StreamKind::Pods, StreamEnd::Expired);
        scene.run(seconds(10));
        assert_eq!(scene.expected("web"), Some((0, 1)));
        assert_eq!(scene.status("web").replicas, 1);
        scene.run(minutes(5));
        assert_eq!(scene.active("web").len(), 1, "nothing wakes the key");
        scene.touch("web");
        scene.run(seconds(1));
        assert!(scene.active("web").is_empty());
        scene.conclude();
    }
}

/// A pod that others delete does not count for one that is created; it is replaced when the round
/// is complete.
#[test]
fn hazard_12_external_deletion_during_a_create_round() {
    for gate in [true, false] {
        let mut scene = heard_late(gate);
        scene.create_set(idle_set("web", 2));
        scene.run(seconds(10));
        let victim = scene.active("web").remove(0);
        scene.scale("web", 5);
        scene.run(ms(500));
        scene.kill_pod(&victim);
        scene.run(ms(1_300));
        assert!(scene.controller().pods().get("default", &victim).is_none());
        assert_eq!(scene.expected("web"), Some((3, 0)));
        assert_eq!(scene.count(Did::Create), 5);
        scene.run(ms(300));
        assert_eq!(scene.count(Did::Create), 6, "replaced after the round");
        scene.run(seconds(5));
        assert_eq!(scene.active("web").len(), 5);
        scene.conclude();
    }
}

/// What is left of an expired delete round neither blocks nor satisfies the creates that follow.
#[test]
fn hazard_13_expired_deletes_then_creates() {
    for gate in [true, false] {
        let mut scene = heard_late(gate);
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(10));
        scene.hold(StreamKind::Pods, minutes(60));
        scene.scale("web", 2);
        scene.run(minutes(6));
        assert_eq!(scene.active("web").len(), 2);
        assert_eq!(scene.expected("web"), Some((0, 1)));
        scene.scale("web", 5);
        scene.run(ms(1_500));
        assert_eq!(scene.expected("web"), Some((2, 0)), "the cache shows three");
        scene.release(StreamKind::Pods);
        scene.run(ms(200));
        assert_eq!(
            scene.expected("web"),
            Some((2, -1)),
            "the late deletion is counted"
        );
        assert_eq!(scene.count(Did::Create), 5, "and satisfies nothing");
        scene.run(seconds(5));
        assert_eq!(scene.active("web").len(), 5);
        assert_eq!(scene.expected("web"), Some((0, 0)));
        scene.conclude();
    }
}
