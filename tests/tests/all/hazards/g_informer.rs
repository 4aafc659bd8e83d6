//! G. Informers and their transport.

use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::ApiError;
use podstorm::informer::Handler;
use podstorm::object::{Kind, Pod, ReplicaSet, ResourceVersion};
use podstorm::replicaset::{Outcome, SyncErrorClass};
use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Propagation, errors};
use podstorm_faultsim::Action::Replay;
use podstorm_sim::faults::{ApiFault, Call, CrashPoint, StreamEnd, StreamKind};
use podstorm_tests::hazard::{
    Harness, ManualController, NAMESPACE, Write, idle_set, owners, pod, pods, replica_set, seconds,
    with,
};
use serde_json::json;

fn listing(streaming: bool) -> Harness {
    Harness::with(|setup| setup.streaming(streaming))
}

/// After a new list, missing objects count as deleted, and nothing is created twice.
#[test]
fn hazard_65_watch_expired() {
    for streaming in [true, false] {
        for end in [StreamEnd::Expired, StreamEnd::ClosedAndExpired] {
            let mut sim = listing(streaming);
            sim.create_set(idle_set("web", 3));
            sim.create_set(idle_set("gone", 2));
            sim.run(seconds(1));
            let name = sim.active("web").remove(0);
            // The ReplicaSets arrive first. Otherwise the controller would create pods for the
            // deleted one as fast as the garbage collector removes them.
            for (stream, held) in [
                (StreamKind::from_kind(Kind::POD), 15),
                (StreamKind::from_kind(Kind::REPLICA_SET), 5),
            ] {
                sim.hold(stream, seconds(held));
                sim.end(stream, end);
            }
            sim.kill_pod(&name);
            sim.delete_set("gone", Propagation::Background);
            sim.run(seconds(4));
            assert_eq!(sim.count(Write::Create), 5);
            sim.cluster().compact::<Pod>();
            sim.cluster().compact::<ReplicaSet>();
            sim.run(seconds(20));
            assert!(sim.controller().pods().get(NAMESPACE, &name).is_none());
            assert_eq!(sim.count(Write::Create), 6);
            assert_eq!(sim.expected("gone"), None);
            assert_eq!((sim.pods().len(), sim.most_active("web")), (3, 3));
            sim.conclude();
        }
    }
}

/// If the server has not reached the requested version, the reflector immediately asks for the
/// newest state. In list mode, a second refusal delays the next request.
#[test]
fn hazard_66_version_too_large() {
    for streaming in [true, false] {
        let mut sim = listing(streaming).holding(idle_set("web", 3));
        let name = sim.active("web").remove(0);
        sim.hold(StreamKind::from_kind(Kind::POD), seconds(1));
        sim.connection().lag(StreamKind::from_kind(Kind::POD), 4, 0);
        sim.end(StreamKind::from_kind(Kind::POD), StreamEnd::Expired);
        sim.kill_pod(&name);
        sim.run(seconds(10));
        assert_eq!((sim.count(Write::Create), sim.active("web").len()), (4, 3));
        sim.conclude();
    }
}

/// A stale list at the start: list mode acts on the past state, streaming mode does not.
#[test]
fn hazard_67_stale_list_at_the_start() {
    for (streaming, most) in [(false, 6), (true, 3)] {
        // Writes of the last minute are visible only in lists.
        let mut sim = Harness::with(|setup| {
            setup.streaming(streaming);
            setup.latency.watch = Latency::Constant(seconds(60));
        });
        sim.create_set(idle_set("web", 3));
        let before = sim.cluster().resource_version();
        sim.until("three pods", seconds(90), |view| view.pods().len() == 3);
        sim.run(seconds(1));
        sim.crash(CrashPoint::Now, 0);
        sim.start();
        sim.checker().stale_start();
        let lag = sim.cluster().resource_version() - before;
        sim.connection()
            .lag(StreamKind::from_kind(Kind::POD), lag, 0);
        sim.run(seconds(5));
        assert_eq!(sim.active("web").len(), most);
        sim.run(seconds(300));
        assert_eq!((sim.active("web").len(), sim.most_active("web")), (3, most));
        sim.conclude();
    }
}

/// A repeated event counts once. An event with the cached version wakes no key, and an ADDED event
/// of a known pod is an update.
#[test]
fn hazard_68_events_are_repeated() {
    let mut sim = Harness::new();
    sim.connection()
        .duplicate_events(StreamKind::from_kind(Kind::POD), 3);
    sim.create_set(idle_set("web", 3));
    sim.run(seconds(1));
    assert_eq!(sim.expected("web"), Some((0, 0)));
    assert_eq!(sim.connection().altered_events().1, 3);
    let syncs = sim.syncs().len();
    sim.act(Replay {
        stream: StreamKind::from_kind(Kind::POD),
        events: 1,
    });
    sim.release(StreamKind::from_kind(Kind::POD));
    sim.run(seconds(1));
    assert_eq!(sim.connection().altered_events().1, 4);
    assert_eq!(sim.syncs().len(), syncs);
    assert_eq!(sim.expected("web"), Some((0, 0)));
    // Older events are repeated too: the cache goes back and forward again, and nothing is counted.
    sim.patch_pod(
        &sim.active("web")[0],
        json!({"metadata": {"annotations": {"a": "b"}}}),
    );
    sim.run(seconds(1));
    sim.act(Replay {
        stream: StreamKind::from_kind(Kind::POD),
        events: 4,
    });
    sim.release(StreamKind::from_kind(Kind::POD));
    sim.run(seconds(1));
    assert_eq!(sim.connection().altered_events().1, 8);
    assert_eq!(sim.expected("web"), Some((0, 0)));
    assert_eq!((sim.count(Write::Create), sim.count(Write::Delete)), (3, 0));
    sim.conclude();
}

/// A bookmark wakes no key. It advances the store's version, which satisfies the gate.
#[test]
fn hazard_69_only_bookmarks() {
    let mut manual = ManualController::new();
    manual.create_set(idle_set("web", 1));
    manual.list_sets();
    manual.list_pods();
    assert_eq!(manual.sync().sent(Call::CreatePod), 1);
    manual.pass(seconds(1));
    let key = manual.controller.owners().intern(NAMESPACE, "web");
    manual.list_sets();
    let refused = manual.sync();
    let Outcome::Failed(error) = refused.outcome else {
        panic!("the gate lets the sync pass")
    };
    assert!(matches!(error.class, SyncErrorClass::Consistency(_)));
    let version = ResourceVersion::from(manual.cluster.resource_version());
    manual.controller.pods().bookmark(&version);
    manual.owners.bookmark(&version);
    assert_eq!(manual.controller.queue().len(), 0);
    assert_eq!(manual.expected("web"), Some((1, 0)));
    manual.controller.queue().add(key, manual.now.mono_ns);
    let passed = manual.sync();
    assert_eq!(passed.outcome, Outcome::Ok);
    assert_eq!(passed.sent(Call::CreatePod), 0, "the pod is still expected");
    let record = manual.controller.consistency().record(&key).unwrap();
    assert!(record.written[0].is_none());
}

/// A tombstone without an object, or with another owner's pod, changes no expectation.
#[test]
fn hazard_70_tombstones() {
    let manual = ManualController::new();
    let set = manual.create_set(idle_set("web", 2));
    manual.list_sets();
    manual.list_pods();
    manual.sync();
    let initial = manual.list_pods();
    manual.controller.pods_listed(&initial, manual.now);
    manual.list_sets();
    while manual.sync_next(|_| None).is_some() {}
    let names: Vec<String> = pods(&manual.cluster)
        .iter()
        .map(|pod| pod.metadata.name.to_string())
        .collect();
    assert_eq!(names.len(), 2);
    // Without an object, the pod leaves the store and no handler is called.
    let cache = manual.controller.pods();
    assert!(cache.apply_tombstone(NAMESPACE, &names[0], None).is_none());
    assert!(cache.get(NAMESPACE, &names[0]).is_none());
    assert_eq!(manual.controller.queue().len(), 0);
    // Foreign pods: one with an unknown owner, and one without an owner.
    let strangers = [
        with(
            pod("x", "web"),
            owners("web", &podstorm::object::Uid::new("other")),
        ),
        pod("y", "web"),
    ];
    for stranger in strangers {
        let stranger = Arc::new(manual.create_pod(stranger).as_ref().clone());
        let name = stranger.metadata.name.to_string();
        let change = cache
            .apply_tombstone(NAMESPACE, &name, Some(stranger))
            .unwrap();
        manual.controller.pod_changed(&change, manual.now);
        assert_eq!(manual.controller.queue().len(), 0);
    }
    // An owner's tombstone without its object.
    let owners = manual.controller.owners();
    assert!(
        owners
            .apply_tombstone(NAMESPACE, "web", None, manual.now)
            .is_none()
    );
    let key = owners.intern(NAMESPACE, "web");
    assert!(owners.get(key).is_none());
    assert_eq!(manual.controller.queue().len(), 0);
    // With the object, the expectations are dropped and the key is woken.
    manual.controller.expectations().expect_creations(key, 5, 0);
    let change = owners
        .apply_tombstone(NAMESPACE, "web", Some(set.clone()), manual.now)
        .unwrap();
    manual.controller.handle(&change, manual.now);
    assert_eq!(manual.expected("web"), None);
    assert_eq!(manual.controller.queue().len(), 1);
}

/// 100,000 events are in the store but not yet handled: only the expectations make the controller
/// wait.
#[test]
fn hazard_71_handlers_lag_behind_the_store() {
    let mut manual = ManualController::new();
    manual.create_set(idle_set("web", 2));
    let noisy = manual.create_pod(pod("noisy", "other"));
    manual.list_sets();
    let initial = manual.list_pods();
    manual.controller.pods_listed(&initial, manual.now);
    assert_eq!(manual.sync().sent(Call::CreatePod), 2);
    let cache = manual.controller.pods();
    let mut backlog = Vec::new();
    for number in 1..=100_000_u64 {
        let mut next = Pod::clone(&noisy);
        next.metadata.resource_version = ResourceVersion::from(number + 1_000);
        backlog.push(cache.apply(Delta::Applied(Arc::new(next))));
    }
    for pod in pods(&manual.cluster) {
        if *pod.metadata.name != *"noisy" {
            backlog.push(cache.apply(Delta::Applied(pod)));
        }
    }
    cache.bookmark(&ResourceVersion::from(200_000));
    let scaled = json!({"replicas": 5});
    let scaled =
        podstorm_apiserver::Patch::Merge(json!({ "spec": scaled }).as_object().unwrap().clone());
    manual
        .cluster
        .patch::<ReplicaSet>(NAMESPACE, "web", &scaled, manual.now)
        .unwrap();
    manual.list_sets();
    manual.pass(seconds(200));
    let waiting = manual.sync();
    assert_eq!(waiting.sent(Call::CreatePod), 0);
    assert_eq!(manual.expected("web"), Some((2, 0)));
    for change in &backlog {
        manual.controller.pod_changed(change, manual.now);
    }
    assert_eq!(manual.expected("web"), Some((0, 0)));
    manual.list_sets();
    assert_eq!(manual.sync().sent(Call::CreatePod), 3);
}

/// The periodic resync of the owners syncs every key, and that of the pods wakes none. Neither
/// writes anything.
#[test]
fn hazard_72_resync() {
    let mut sim = Harness::new();
    for name in ["one", "two", "three"] {
        sim.create_set(replica_set(name, 2));
    }
    sim.run(seconds(10));
    let (syncs, writes) = (sim.syncs().len(), sim.written().len());
    let controller = sim.controller();
    for change in controller.pods().resync() {
        controller.pod_changed(&change, sim.now());
    }
    assert_eq!(controller.queue().len(), 0);
    for change in controller.owners().resync() {
        controller.handle(&change, sim.now());
    }
    assert_eq!(controller.queue().len(), 3);
    sim.release(StreamKind::from_kind(Kind::POD));
    sim.run(seconds(1));
    assert_eq!(sim.syncs().len(), syncs + 3);
    assert_eq!(sim.written().len(), writes);
    let last = sim.syncs().split_off(syncs);
    assert!(last.iter().all(|sync| sync.requests.is_empty()));
    sim.conclude();
}

/// The faults return the server's own errors.
#[test]
fn faults_have_the_errors_of_the_server() {
    let code_and_reason = |error: ApiError| (error.code, error.reason);
    let expired = code_and_reason(errors::expired(1, 5));
    assert_eq!(code_and_reason(ApiFault::Gone.error()), expired);
    assert_eq!(errors::version_too_large(9, 5).code, 504);
}
