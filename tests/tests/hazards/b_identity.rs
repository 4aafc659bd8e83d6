//! B. ReplicaSets that go, and come again under their name.

use podstorm::replicaset::SyncErrorClass;
use podstorm_apiserver::Propagation;
use podstorm_sim::faults::{Call, Effect, StreamEnd, StreamKind};
use podstorm_tests::hazard::objects::idle_set;
use podstorm_tests::hazard::{Did, Scene, minutes, ms, seconds};

/// What the old one waited for is forgotten; the new one creates at once.
#[test]
fn hazard_14_deleted_and_created_again_before_a_sync() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.hold(StreamKind::Pods, minutes(2));
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        assert_eq!(scene.expected("web"), Some((3, 0)));
        scene.delete_set("web", Propagation::Background);
        scene.create_set(idle_set("web", 4));
        scene.run(seconds(1));
        assert_eq!(scene.count(Did::Create), 7);
        assert_eq!(scene.active("web").len(), 4);
        scene.run(minutes(3));
        assert_eq!((scene.pods().len(), scene.most_active("web")), (4, 4));
        scene.conclude();
    }
}

/// The list shows one update from the old UID to the new: expectations and records of the old one
/// are cleared.
#[test]
fn hazard_15_created_again_while_the_watch_was_broken() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.hold(StreamKind::Pods, minutes(2));
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        scene.hold(StreamKind::Parents, seconds(5));
        scene.delete_set("web", Propagation::Background);
        scene.create_set(idle_set("web", 4));
        scene.run(seconds(1));
        assert_eq!(scene.count(Did::Create), 3);
        scene.end(StreamKind::Parents, StreamEnd::Expired);
        scene.run(seconds(10));
        assert_eq!(scene.count(Did::Create), 7);
        assert_eq!(scene.expected("web"), Some((4, 0)));
        scene.run(minutes(3));
        assert_eq!((scene.pods().len(), scene.most_active("web")), (4, 4));
        scene.conclude();
    }
}

/// A status on its way when its ReplicaSet is made anew is written onto the successor, which
/// corrects it by its own sync.
#[test]
fn hazard_16_old_status_written_onto_the_successor() {
    let mut scene = Scene::new();
    scene.create_set(idle_set("web", 1));
    scene.run(seconds(1));
    scene.scale("web", 3);
    scene.run(seconds(1));
    let old = scene.owned("web");
    scene.fail(Call::PutStatus, Effect::Slow { by_ms: 1_000 }, 1);
    scene.scale("web", 2);
    scene.run(ms(500));
    assert_eq!(scene.under_way(Call::PutStatus), 1);
    scene.delete_set("web", Propagation::Background);
    let new = scene.create_set(idle_set("web", 2)).metadata.clone();
    scene.run(seconds(10));
    let written: Vec<_> = scene
        .written()
        .into_iter()
        .filter_map(|written| written.object)
        .filter(|object| object.metadata.uid == new.uid)
        .collect();
    let first = &written[0].status;
    assert_eq!(
        (first.replicas, first.observed_generation),
        (3, 3),
        "of the old one"
    );
    let last = &written[written.len() - 1].status;
    assert_eq!((last.replicas, last.observed_generation), (2, 1));
    for pod in old {
        assert!(scene.pod(&pod.metadata.name).is_none(), "collected");
    }
    scene.conclude();
}

/// The old number is kept up until the new one is seen; the status says of which generation.
#[test]
fn hazard_17_stale_replicas() {
    for gate in [true, false] {
        let mut scene = Scene::gated(gate);
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        scene.hold(StreamKind::Parents, seconds(20));
        scene.scale("web", 0);
        let name = scene.active("web").remove(0);
        scene.kill_pod(&name);
        scene.run(seconds(10));
        assert_eq!(scene.active("web").len(), 3, "refilled");
        let set = scene.set("web");
        assert_eq!(
            (set.status.observed_generation, set.metadata.generation),
            (1, 2)
        );
        scene.run(seconds(20));
        assert!(scene.active("web").is_empty());
        assert_eq!(scene.status("web").observed_generation, 2);
        scene.conclude();
    }
}

/// A pod that is heard of before its ReplicaSet wakes nobody; the ReplicaSet's own event is enough.
#[test]
fn hazard_18_pod_event_before_the_replicaset_s() {
    let mut scene = Scene::new();
    scene.hold(StreamKind::Parents, seconds(5));
    scene.create_set(idle_set("web", 2));
    scene.forge_pod("early", "web");
    scene.run(seconds(2));
    assert!(scene.controller().pods().get("default", "early").is_some());
    assert!(scene.syncs().is_empty());
    scene.run(seconds(5));
    assert_eq!(scene.count(Did::Create), 1);
    assert_eq!(
        (scene.active("web").len(), scene.most_active("web")),
        (2, 2)
    );
    scene.assert_converged();
    scene.conclude();
}

/// Creates under way are finished, no status is written, nothing is awaited any more, and the
/// pods are collected.
#[test]
fn hazard_19_deleted_while_creating() {
    let mut scene = Scene::new();
    scene.fail(Call::CreatePod, Effect::Slow { by_ms: 1_000 }, 1);
    scene.create_set(idle_set("web", 4));
    scene.run(ms(500));
    assert_eq!(scene.under_way(Call::CreatePod), 1);
    scene.delete_set("web", Propagation::Background);
    scene.run(seconds(10));
    assert_eq!((scene.count(Did::Create), scene.count(Did::Status)), (4, 0));
    assert!(scene.pods().is_empty());
    assert_eq!(scene.expected("web"), None);
    let controller = scene.controller();
    let key = controller.owners().intern("default", "web");
    assert!(controller.consistency().record(&key).is_none());
    assert_eq!(scene.last_sync("web").failed_at(), None);
    scene.conclude();
}

/// The GET's 404 is the sync's error; one retry, which finds nothing to do.
#[test]
fn hazard_20_status_of_one_that_is_gone() {
    let mut scene = Scene::new();
    scene.create_set(idle_set("web", 1));
    scene.run(seconds(1));
    scene.fail(Call::PutStatus, Effect::Slow { by_ms: 1_000 }, 1);
    scene.scale("web", 2);
    scene.run(ms(500));
    scene.delete_set("web", Propagation::Background);
    let syncs = scene.syncs().len();
    scene.run(seconds(10));
    let after = scene.syncs_of("web").split_off(syncs - 1);
    assert_eq!(after[0].failed_at(), Some(SyncErrorClass::Status));
    assert_eq!(
        (
            after[0].sent(Call::PutStatus),
            after[0].sent(Call::GetParent)
        ),
        (1, 1)
    );
    assert!(
        after[0].error().contains("not found"),
        "{}",
        after[0].error()
    );
    assert!(after.len() >= 2);
    for page in &after[1..] {
        assert!(page.failed_at().is_none() && page.requests.is_empty());
    }
    assert_eq!(scene.failures("web"), 0);
    scene.conclude();
}
