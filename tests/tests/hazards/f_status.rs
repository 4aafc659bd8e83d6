//! F. Status and availability.

use podstorm::object::Time;
use podstorm::replicaset::SyncErrorClass;
use podstorm::replicaset::reconcile::is_available;
use podstorm_sim::faults::{ApiFault, Call, Effect, StreamKind};
use podstorm_tests::hazard::objects::{idle_set, with};
use podstorm_tests::hazard::{Did, Scene, ms, seconds};
use serde_json::json;

/// A ReplicaSet of idle pods that must be ready for so long, and the names of its pods.
fn maturing(pods: i32, min_ready_seconds: i32) -> (Scene, Vec<String>) {
    let mut scene = Scene::new();
    let slow = json!({"spec": {"minReadySeconds": min_ready_seconds}});
    scene.create_set(with(idle_set("web", pods), slow));
    scene.run(seconds(1));
    let names = scene.active("web");
    (scene, names)
}

fn available(scene: &Scene) -> i32 {
    scene.status("web").available_replicas
}

/// A conflict is met by one GET and one PUT; a second one is the sync's error.
#[test]
fn hazard_56_conflicts_of_the_status() {
    for conflicts in [1, 2] {
        let mut scene = Scene::new();
        scene.create_set(idle_set("web", 1));
        scene.run(seconds(1));
        let syncs = scene.syncs().len();
        scene.fail(
            Call::PutStatus,
            Effect::Refuse(ApiFault::Conflict),
            conflicts,
        );
        scene.scale("web", 2);
        scene.run(ms(1));
        let page = &scene.syncs()[syncs];
        assert_eq!(
            (page.sent(Call::PutStatus), page.sent(Call::GetParent)),
            (2, 1)
        );
        assert_eq!(
            page.failed_at(),
            (conflicts == 2).then_some(SyncErrorClass::Status)
        );
        scene.run(seconds(1));
        scene.assert_converged();
        scene.conclude();
    }
}

/// What others write is written over at the next difference; conditions of other types stay.
#[test]
fn hazard_57_somebody_else_writes_the_status() {
    let mut scene = Scene::new();
    scene.create_set(idle_set("web", 2));
    scene.run(seconds(1));
    let custom = json!({"type": "Custom", "status": "True", "reason": "Theirs", "message": "m"});
    let failure =
        json!({"type": "ReplicaFailure", "status": "True", "reason": "Old", "message": "m"});
    scene.patch_set_status(
        "web",
        json!({"replicas": 9, "conditions": [failure, custom]}),
    );
    scene.run(seconds(1));
    let status = scene.status("web");
    assert_eq!(status.replicas, 2);
    let kinds: Vec<_> = status
        .conditions
        .iter()
        .map(|condition| &*condition.kind)
        .collect();
    assert_eq!(kinds, ["Custom"]);
    scene.scale("web", 3);
    scene.run(seconds(1));
    assert_eq!(scene.status("web").conditions, status.conditions);
    scene.conclude();
}

/// A spec that changes before the PUT: the retry says the old generation, the next sync the new.
#[test]
fn hazard_58_spec_changes_before_the_put() {
    let mut scene = Scene::new();
    scene.create_set(idle_set("web", 1));
    scene.run(seconds(1));
    scene.fail(Call::PutStatus, Effect::Slow { by_ms: 1_000 }, 1);
    scene.scale("web", 2);
    scene.run(ms(500));
    assert_eq!(scene.under_way(Call::PutStatus), 1);
    scene.scale("web", 3);
    let before = scene.written().len();
    scene.run(seconds(5));
    let first = scene.written().split_off(before).remove(0).object.unwrap();
    assert_eq!(
        (first.status.observed_generation, first.metadata.generation),
        (2, 3)
    );
    assert_eq!(first.status.replicas, 1);
    let status = scene.status("web");
    assert_eq!((status.observed_generation, status.replicas), (3, 3));
    scene.conclude();
}

/// Each pod becomes available at its own time, to the second.
#[test]
fn hazard_59_pods_mature_one_by_one() {
    let (mut scene, names) = maturing(3, 30);
    for name in &names {
        scene.make_ready(name);
        scene.run(seconds(10));
    }
    // The first has been ready for 30 s.
    assert_eq!(available(&scene), 1);
    scene.run(ms(9_900));
    assert_eq!(available(&scene), 1);
    scene.run(ms(200));
    assert_eq!(available(&scene), 2);
    scene.run(ms(9_700));
    assert_eq!(available(&scene), 2);
    scene.run(ms(200));
    assert_eq!(available(&scene), 3);
    scene.conclude();
}

/// Ready, not, and ready again: the time begins anew, and nothing sticks.
#[test]
fn hazard_60_readiness_flaps() {
    let (mut scene, names) = maturing(1, 30);
    scene.make_ready(&names[0]);
    scene.run(seconds(20));
    let now = scene.now().wall().to_string();
    scene.ready_since(&names[0], false, Some(&now));
    scene.run(seconds(5));
    assert_eq!(scene.status("web").ready_replicas, 0);
    scene.make_ready(&names[0]);
    scene.run(ms(29_900));
    assert_eq!(available(&scene), 0);
    scene.run(ms(200));
    assert_eq!(available(&scene), 1);
    let now = scene.now().wall().to_string();
    scene.ready_since(&names[0], false, Some(&now));
    scene.run(seconds(1));
    assert_eq!(available(&scene), 0);
    scene.make_ready(&names[0]);
    scene.run(seconds(31));
    assert_eq!(available(&scene), 1);
    scene.conclude();
}

/// Ready since nobody knows when: never available, looked at every `minReadySeconds`.
#[test]
fn hazard_61_ready_without_a_time() {
    let (mut scene, names) = maturing(1, 5);
    scene.ready_since(&names[0], true, None);
    scene.run(seconds(11));
    let syncs = scene.syncs().len();
    scene.run(seconds(60));
    assert_eq!(scene.syncs().len() - syncs, 12);
    assert_eq!(
        (scene.status("web").ready_replicas, available(&scene)),
        (1, 0)
    );
    scene.conclude();
}

/// The moment itself counts.
#[test]
fn hazard_62_exactly_min_ready_seconds() {
    let since = Time::from_unix_seconds(1_000);
    let at = |s: i64, ns: i64| is_available(since, 30, s * 1_000_000_000 + ns);
    assert!(at(1_030, 0) && !at(1_030, -1));

    let (mut scene, names) = maturing(1, 30);
    assert_eq!(scene.now().mono_ns % seconds(1), 0);
    scene.make_ready(&names[0]);
    scene.run(seconds(30) - 1);
    assert_eq!(available(&scene), 0);
    scene.run(1);
    assert_eq!(available(&scene), 1);
    scene.conclude();
}

/// With `minReadySeconds` at 0 all that are ready are available, by the sync of that change.
#[test]
fn hazard_63_min_ready_seconds_is_lowered() {
    let (mut scene, names) = maturing(3, 3_600);
    names.iter().for_each(|name| scene.make_ready(name));
    scene.run(seconds(60));
    assert_eq!(
        (scene.status("web").ready_replicas, available(&scene)),
        (3, 0)
    );
    let (syncs, writes) = (scene.syncs().len(), scene.count(Did::Status));
    scene.patch_set("web", json!({"spec": {"minReadySeconds": 0}}));
    scene.run(ms(1));
    assert_eq!(available(&scene), 3);
    assert_eq!(scene.syncs()[syncs].sent(Call::PutStatus), 1);
    assert_eq!(scene.count(Did::Status) - writes, 1);
    scene.conclude();
}

/// Equal statuses are not written; an absent number of terminating pods is not zero.
#[test]
fn hazard_64_statuses_that_change_nothing() {
    let mut scene = Scene::new();
    scene.create_set(idle_set("web", 2));
    scene.run(seconds(1));
    let writes = scene.sent(Call::PutStatus);
    let syncs = scene.syncs().len();
    for _ in 0..10 {
        scene.line().replay_events(StreamKind::Parents, 1);
        scene.touch("web");
        scene.run(seconds(1));
    }
    assert!(scene.syncs().len() - syncs >= 10);
    assert_eq!(scene.sent(Call::PutStatus), writes);
    scene.patch_set_status("web", json!({"terminatingReplicas": null}));
    assert_eq!(scene.status("web").terminating_replicas, None);
    scene.run(seconds(1));
    assert_eq!(scene.status("web").terminating_replicas, Some(0));
    assert_eq!(scene.sent(Call::PutStatus), writes + 1);
    scene.conclude();
}
