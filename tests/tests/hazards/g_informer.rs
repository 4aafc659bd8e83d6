//! G. Informers and their transport.

use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::ApiError;
use podstorm::object::{Pod, ReplicaSet, ResourceVersion};
use podstorm::reflector::{Action, Reflector, ReflectorOptions};
use podstorm::replicaset::{Outcome, SyncErrorClass};
use podstorm_apiserver::{Propagation, errors};
use podstorm_loadgen::settings::Latency;
use podstorm_sim::faults::{ApiFault, Call, CrashPoint, StreamEnd, StreamKind};
use podstorm_tests::hazard::objects::{idle_set, pod, pod_of, replica_set};
use podstorm_tests::hazard::{Did, Hand, Scene, seconds};
use serde_json::json;

fn listing(streaming: bool) -> Scene {
    Scene::with(|setup| setup.streaming(streaming))
}

/// A new list: what is missing is a deletion, and nothing is created twice.
#[test]
fn hazard_65_watch_expired() {
    for streaming in [true, false] {
        for end in [StreamEnd::Expired, StreamEnd::ClosedAndExpired] {
            let mut scene = listing(streaming);
            scene.create_set(idle_set("web", 3));
            scene.create_set(idle_set("gone", 2));
            scene.run(seconds(1));
            let name = scene.active("web").remove(0);
            // The ReplicaSets are heard of first: for one that is gone the controller would make
            // pods as fast as the garbage collector removes them.
            for (stream, held) in [(StreamKind::Pods, 15), (StreamKind::Parents, 5)] {
                scene.hold(stream, seconds(held));
                scene.end(stream, end);
            }
            scene.kill_pod(&name);
            scene.delete_set("gone", Propagation::Background);
            scene.run(seconds(4));
            assert_eq!(scene.count(Did::Create), 5);
            scene.cluster().compact::<Pod>();
            scene.cluster().compact::<ReplicaSet>();
            scene.run(seconds(20));
            assert!(scene.controller().pods().get("default", &name).is_none());
            assert_eq!(scene.count(Did::Create), 6);
            assert_eq!(scene.expected("gone"), None);
            assert_eq!((scene.pods().len(), scene.most_active("web")), (3, 3));
            scene.conclude();
        }
    }
}

/// A version that the server has not come to: the newest state is asked for, once at once in list
/// mode, and else after a delay.
#[test]
fn hazard_66_version_too_large() {
    for streaming in [true, false] {
        let mut scene = listing(streaming);
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        let name = scene.active("web").remove(0);
        scene.hold(StreamKind::Pods, seconds(1));
        scene.line().lag(StreamKind::Pods, 4);
        scene.end(StreamKind::Pods, StreamEnd::Expired);
        scene.kill_pod(&name);
        scene.run(seconds(10));
        assert_eq!(
            (scene.count(Did::Create), scene.active("web").len()),
            (4, 3)
        );
        scene.conclude();
    }

    let too_large = errors::version_too_large(9, 5);
    let listing = ReflectorOptions {
        streaming: false,
        ..ReflectorOptions::default()
    };
    let mut reflector: Reflector<Pod> = Reflector::new(listing);
    let now = podstorm::object::Now::default();
    let asked = |action: Action| match action {
        Action::List { version, .. } => version,
        other => panic!("{other:?}"),
    };
    assert_eq!(asked(reflector.next(now, 0.0)), ResourceVersion::new("0"));
    reflector.on_list(Err(&too_large), now);
    assert!(
        asked(reflector.next(now, 0.0)).is_unset(),
        "at once, the newest"
    );
    reflector.on_list(Err(&too_large), now);
    for _ in 0..5 {
        let Action::Wait { until_ns } = reflector.next(now, 0.0) else {
            panic!("it asks again at once")
        };
        assert!(until_ns >= 800_000_000);
    }
}

/// A stale list at the start: list mode acts on the past, the streaming mode does not.
#[test]
fn hazard_67_stale_list_at_the_start() {
    for (streaming, most) in [(false, 6), (true, 3)] {
        // What happened in the last minute is in lists only.
        let mut scene = Scene::with(|setup| {
            setup.streaming(streaming);
            setup.settings.latency.watch = Latency::Constant(seconds(60));
        });
        scene.create_set(idle_set("web", 3));
        let before = scene.cluster().resource_version();
        scene.until("three pods", seconds(90), |view| view.pods().len() == 3);
        scene.run(seconds(1));
        scene.crash(CrashPoint::Now);
        scene.start();
        let lag = scene.cluster().resource_version() - before;
        scene.line().lag(StreamKind::Pods, lag);
        scene.run(seconds(5));
        assert_eq!(scene.active("web").len(), most);
        scene.run(seconds(300));
        assert_eq!(
            (scene.active("web").len(), scene.most_active("web")),
            (3, most)
        );
        scene.conclude();
    }
}

/// What comes again counts once; an equal version wakes nobody, and an ADDED of a known pod is an
/// update.
#[test]
fn hazard_68_events_come_again() {
    let mut scene = Scene::new();
    scene.line().duplicate_events(StreamKind::Pods, 3);
    scene.create_set(idle_set("web", 3));
    scene.run(seconds(1));
    assert_eq!(scene.expected("web"), Some((0, 0)));
    assert_eq!(scene.line().altered_events().1, 3);
    let syncs = scene.syncs().len();
    scene.line().replay_events(StreamKind::Pods, 1);
    scene.release(StreamKind::Pods);
    scene.run(seconds(1));
    assert_eq!(scene.line().altered_events().1, 4);
    assert_eq!(
        (scene.syncs().len(), scene.expected("web")),
        (syncs, Some((0, 0)))
    );
    // Older ones too: the cache goes back and comes forward again, and nothing is counted.
    scene.patch_pod(
        &scene.active("web")[0],
        json!({"metadata": {"annotations": {"a": "b"}}}),
    );
    scene.run(seconds(1));
    scene.line().replay_events(StreamKind::Pods, 4);
    scene.release(StreamKind::Pods);
    scene.run(seconds(1));
    assert_eq!(scene.line().altered_events().1, 8);
    assert_eq!(scene.expected("web"), Some((0, 0)));
    assert_eq!((scene.count(Did::Create), scene.count(Did::Delete)), (3, 0));
    scene.conclude();
}

/// A bookmark moves the store's version on, which is enough for the gate, and wakes nobody.
#[test]
fn hazard_69_nothing_but_bookmarks() {
    let mut hand = Hand::new();
    hand.create_set(idle_set("web", 1));
    hand.list_sets();
    hand.list_pods();
    assert_eq!(hand.sync().sent(Call::CreatePod), 1);
    hand.pass(seconds(1));
    let key = hand.controller.owners().intern("default", "web");
    hand.list_sets();
    let refused = hand.sync();
    let Outcome::Failed(error) = refused.outcome else {
        panic!("the gate lets it pass")
    };
    assert!(matches!(error.class, SyncErrorClass::Consistency(_)));
    let version = ResourceVersion::from(hand.cluster.resource_version());
    hand.controller.pods().bookmark(&version);
    hand.controller.owner_bookmark(&version);
    assert_eq!(hand.controller.queue().len(), 0);
    assert_eq!(hand.expected("web"), Some((1, 0)));
    hand.controller.queue().add(key, hand.now.mono_ns);
    let passed = hand.sync();
    assert_eq!(passed.outcome, Outcome::Ok);
    assert_eq!(passed.sent(Call::CreatePod), 0, "the pod is awaited yet");
    let record = hand.controller.consistency().record(&key).unwrap();
    assert!(record.written[0].is_none());
}

/// A tombstone with nothing in it, or with somebody else's pod, changes no count.
#[test]
fn hazard_70_tombstones() {
    let hand = Hand::new();
    let set = hand.create_set(idle_set("web", 2));
    hand.list_sets();
    hand.list_pods();
    hand.sync();
    let initial = hand.list_pods();
    hand.controller.pods_listed(&initial, hand.now);
    hand.list_sets();
    while hand.sync_next(|_| None).is_some() {}
    let names: Vec<String> = podstorm_tests::harness::pods(&hand.cluster)
        .iter()
        .map(|pod| pod.metadata.name.to_string())
        .collect();
    assert_eq!(names.len(), 2);
    // No object: the pod leaves the store, and no handler hears of it.
    let pods = hand.controller.pods();
    assert!(pods.apply_tombstone("default", &names[0], None).is_none());
    assert!(pods.get("default", &names[0]).is_none());
    assert_eq!(hand.controller.queue().len(), 0);
    // A foreign one: a pod of an owner that is not known, or of none.
    let strangers = [
        pod_of("x", "web", &podstorm::object::Uid::new("other")),
        pod("y", "web"),
    ];
    for stranger in strangers {
        let stranger = Arc::new(hand.create_pod(stranger).as_ref().clone());
        let name = stranger.metadata.name.to_string();
        let change = pods
            .apply_tombstone("default", &name, Some(stranger))
            .unwrap();
        hand.controller.pod_changed(&change, hand.now);
        assert_eq!(hand.controller.queue().len(), 0);
    }
    // And a parent's without its object.
    let parents = hand.controller.owners();
    assert!(parents.apply_tombstone("default", "web", None).is_none());
    let key = parents.intern("default", "web");
    assert!(parents.get(key).is_none());
    assert_eq!(hand.controller.queue().len(), 0);
    // With it, what is waited for is forgotten and the key is woken.
    hand.controller.expectations().expect_creations(key, 5, 0);
    let change = parents
        .apply_tombstone("default", "web", Some(&set))
        .unwrap();
    hand.controller.owner_changed(&change, hand.now);
    assert_eq!(hand.expected("web"), None);
    assert_eq!(hand.controller.queue().len(), 1);
}

/// 100,000 events that the store has and the handlers have not: the expectations make the
/// controller wait, and nothing else.
#[test]
fn hazard_71_handlers_lag_behind_the_store() {
    let mut hand = Hand::new();
    hand.create_set(idle_set("web", 2));
    let noisy = hand.create_pod(pod("noisy", "other"));
    hand.list_sets();
    let initial = hand.list_pods();
    hand.controller.pods_listed(&initial, hand.now);
    assert_eq!(hand.sync().sent(Call::CreatePod), 2);
    let pods = hand.controller.pods();
    let mut backlog = Vec::new();
    for number in 1..=100_000_u64 {
        let mut next = Pod::clone(&noisy);
        next.metadata.resource_version = ResourceVersion::from(number + 1_000);
        backlog.push(pods.apply(Delta::Applied(Arc::new(next))));
    }
    for pod in podstorm_tests::harness::pods(&hand.cluster) {
        if *pod.metadata.name != *"noisy" {
            backlog.push(pods.apply(Delta::Applied(pod)));
        }
    }
    pods.bookmark(&ResourceVersion::from(200_000));
    let scaled = json!({"replicas": 5});
    let scaled =
        podstorm_apiserver::Patch::Merge(json!({ "spec": scaled }).as_object().unwrap().clone());
    hand.cluster
        .patch::<ReplicaSet>("default", "web", &scaled, hand.now)
        .unwrap();
    hand.list_sets();
    hand.pass(seconds(200));
    let waiting = hand.sync();
    assert_eq!(
        (waiting.sent(Call::CreatePod), hand.expected("web")),
        (0, Some((2, 0)))
    );
    for change in &backlog {
        hand.controller.pod_changed(change, hand.now);
    }
    assert_eq!(hand.expected("web"), Some((0, 0)));
    hand.list_sets();
    assert_eq!(hand.sync().sent(Call::CreatePod), 3);
}

/// The periodic resync syncs every key; that of the pods wakes nobody; nothing is written.
#[test]
fn hazard_72_resync() {
    let mut scene = Scene::new();
    for name in ["one", "two", "three"] {
        scene.create_set(replica_set(name, 2));
    }
    scene.run(seconds(10));
    let (syncs, writes) = (scene.syncs().len(), scene.written().len());
    let controller = scene.controller();
    for change in controller.pods().resync() {
        controller.pod_changed(&change, scene.now());
    }
    assert_eq!(controller.queue().len(), 0);
    controller.owner_resync(scene.now());
    assert_eq!(controller.queue().len(), 3);
    scene.release(StreamKind::Pods);
    scene.run(seconds(1));
    assert_eq!(
        (scene.syncs().len(), scene.written().len()),
        (syncs + 3, writes)
    );
    assert!(
        scene.syncs()[syncs..]
            .iter()
            .all(|page| page.requests.is_empty())
    );
    scene.conclude();
}

/// The errors of the faults are those of the server.
#[test]
fn faults_are_told_by_the_server_s_own_errors() {
    let code_and_reason = |error: ApiError| (error.code, error.reason);
    let expired = code_and_reason(errors::expired(1, 5));
    assert_eq!(code_and_reason(ApiFault::Gone.error()), expired);
    assert_eq!(errors::version_too_large(9, 5).code, 504);
}
