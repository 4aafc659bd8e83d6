//! H. The process, its workers, and its surroundings.

use podstorm::client::{Answer, ApiError, Request};
use podstorm::object::{Namespace, ReplicationController, Uid};
use podstorm_apiserver::{DeleteOptions, Propagation};
use podstorm_faultsim::Action;
use podstorm_faultsim::objects::named;
use podstorm_loadgen::settings::{EngineKind, Latency};
use podstorm_sim::faults::{ApiFault, Armed, Call, CrashPoint, Effect};
use podstorm_tests::harness;
use podstorm_tests::hazard::{
    Harness, ManualController, Write, idle_set, minutes, ms, owners, pod, replica_set, seconds,
    with,
};
use serde_json::json;

/// Two overlapping leaders do not know each other's expectations: one round too many, then the
/// right number.
#[test]
fn hazard_73_two_leaders() {
    for gate in [true, false] {
        let mut sim = Harness::with(|setup| {
            setup.consistency(gate);
            setup.latency.watch = Latency::Constant(seconds(1));
        });
        sim.act(Action::Overlap { for_ms: u32::MAX });
        sim.run(seconds(1));
        sim.create_set(idle_set("web", 3));
        sim.run(seconds(20));
        assert_eq!((sim.count(Write::Create), sim.most_active("web")), (6, 6));
        assert_eq!(sim.active("web").len(), 3);
        sim.scale("web", 5);
        sim.run(ms(1_500));
        // The older leader crashes. No controller has expectations for its creates in progress.
        sim.crash(CrashPoint::Now, 0);
        sim.run(seconds(20));
        assert_eq!(sim.active("web").len(), 5);
        sim.conclude();
    }
}

/// The successor counts the existing pods.
#[test]
fn hazard_74_restart_during_a_burst() {
    for point in [
        CrashPoint::BeforeRequest,
        CrashPoint::AfterRequest,
        CrashPoint::AfterCommit,
        CrashPoint::AfterAnswer,
    ] {
        let mut sim = Harness::new();
        sim.crash(point, 4);
        sim.create_set(idle_set("web", 10));
        sim.run(seconds(1));
        let made = sim.pods().len();
        assert!((3..10).contains(&made), "{made} after {point:?}");
        sim.start();
        sim.run(seconds(1));
        let mut syncs = sim.syncs().into_iter();
        let first = syncs.find(|sync| sync.id.incarnation == 1).unwrap();
        assert_eq!(first.sent(Call::CreatePod), 10 - made);
        assert_eq!((sim.active("web").len(), sim.most_active("web")), (10, 10));
        sim.conclude();
    }
}

/// Keys that wait at a shutdown are still synced, with every request cancelled except those for the
/// status, which report that. The successor clears the condition.
#[test]
fn hazard_75_shutdown_with_queued_keys() {
    let mut sim = Harness::with(|setup| setup.starts = false);
    sim.create_set(idle_set("web", 2));
    sim.create_set(idle_set("api", 1));
    let manual = ManualController::at(sim.cluster().clone(), sim.now());
    manual.list_sets();
    manual.list_pods();
    manual.controller.queue().shut_down();
    let mut cancelled = 0;
    let mut synced = 0;
    loop {
        let done = manual.sync_next(|request| match request {
            Request::PutStatus { .. } | Request::Get { .. } => None,
            _ => {
                cancelled += 1;
                Some(Answer::Failed(ApiError::transport("context canceled")))
            }
        });
        let Some(done) = done else { break };
        assert_eq!(done.sent(Call::CreatePod), 1);
        assert_eq!(done.sent(Call::PutStatus), 1);
        synced += 1;
    }
    assert_eq!((synced, cancelled), (2, 2));
    manual.list_sets();
    assert!(
        manual.sync_next(|_| None).is_none(),
        "no key is added after the shutdown"
    );
    let failure = sim.failure("web").unwrap();
    assert_eq!(&*failure.reason, "FailedCreate");
    assert_eq!(&*failure.message, "context canceled");
    assert!(sim.pods().is_empty());
    sim.start();
    sim.run(seconds(5));
    assert!(sim.failure("web").is_none() && sim.failure("api").is_none());
    sim.assert_converged();
    sim.conclude();
}

/// A worker that waits for its requests holds its own key and no other.
#[test]
fn hazard_76_slow_requests() {
    let mut sim = Harness::new();
    sim.arm(Armed {
        workload: Some("slow".into()),
        ..Armed::new(&[Call::CreatePod], Effect::Slow { by_ms: 5_000 }, u32::MAX)
    });
    sim.create_set(idle_set("slow", 3));
    sim.run(ms(100));
    for number in 0..20 {
        sim.create_set(idle_set(&format!("fast-{number}"), 3));
        sim.touch("slow");
        sim.run(ms(10));
    }
    for number in 0..20 {
        assert_eq!(sim.active(&format!("fast-{number}")).len(), 3);
    }
    assert_eq!(sim.syncs_of("slow").len(), 1, "one sync at a time");
    assert!(sim.active("slow").is_empty());
    sim.run(minutes(1));
    let first = &sim.syncs_of("slow")[0];
    // Batches of one and two, ten seconds each.
    let took_ns = first.ended.as_ref().unwrap().0 - first.began_ns;
    assert_eq!(took_ns, seconds(20));
    assert_eq!(sim.active("slow").len(), 3);
    sim.heal_requests();
    sim.conclude();
}

/// Each Event is tried twelve times at intervals of ten seconds while the others wait. The pods are
/// created regardless.
#[test]
fn hazard_77_event_sink_is_down() {
    let mut sim = Harness::new();
    sim.refuse(Call::WriteEvent, ApiFault::ConnectionCut, 12);
    sim.create_set(idle_set("web", 3));
    sim.run(seconds(95));
    sim.assert_converged();
    assert!(sim.events("SuccessfulCreate").is_empty());
    sim.run(seconds(25));
    assert_eq!(
        sim.events("SuccessfulCreate").len(),
        2,
        "one Event was given up"
    );
    assert_eq!(sim.struck(), 12);
    // An error from the server is final.
    sim.refuse(Call::WriteEvent, ApiFault::InternalError, 1);
    sim.scale("web", 5);
    sim.run(seconds(1));
    assert_eq!(sim.events("SuccessfulCreate").len(), 3);
    sim.conclude();
}

/// A key that always fails is retried with every event, and its failures add up. One success resets
/// them.
#[test]
fn hazard_78_hot_key() {
    let mut sim = Harness::new();
    sim.refuse(Call::CreatePod, ApiFault::InternalError, u32::MAX);
    sim.create_set(idle_set("web", 1));
    sim.run(minutes(2));
    let (tries, failures) = (sim.sent(Call::CreatePod), sim.failures("web"));
    for _ in 0..200 {
        sim.touch("web");
        sim.run(ms(100));
    }
    assert!(sim.sent(Call::CreatePod) - tries >= 200);
    assert!(sim.failures("web") >= failures + 200);
    sim.heal_requests();
    sim.touch("web");
    sim.run(seconds(1));
    assert_eq!((sim.failures("web"), sim.active("web").len()), (0, 1));
    sim.conclude();
}

/// Deleted without options, a ReplicationController orphans its pods.
#[test]
fn hazard_79_replication_controller_without_options() {
    let mut harness = harness::Harness::new(EngineKind::Virtual);
    harness.apply("nginx-rc.yaml");
    harness.until("three pods", |cluster| {
        let found = cluster.get::<ReplicationController>("default", "nginx");
        found.is_ok_and(|found| found.status.available_replicas == 3)
    });
    harness.settle();
    let before = harness.pods();
    let options = DeleteOptions::default();
    let deleted = harness.cluster().delete::<ReplicationController>(
        "default",
        "nginx",
        &options,
        harness.now(),
    );
    deleted.unwrap();
    harness.settle();
    let cluster = harness.cluster();
    let found = cluster.get::<ReplicationController>("default", "nginx");
    assert!(found.is_err());
    let after = harness.pods();
    assert_eq!(after.len(), 3);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(before.metadata.uid, after.metadata.uid);
        assert!(after.metadata.owner_references.is_empty() && after.is_active());
    }
}

/// Pods with an owner in another namespace, or with a former owner, are collected. A ReplicaSet
/// replaces only its own.
#[test]
fn hazard_80_wrong_owner_references() {
    let mut sim = Harness::new();
    let namespace = Namespace {
        metadata: named("elsewhere"),
        ..Namespace::default()
    };
    sim.cluster().create(namespace, sim.now()).unwrap();
    let elsewhere = json!({"metadata": {"namespace": "elsewhere"}});
    let foreign = sim
        .create_set(with(idle_set("web", 1), elsewhere))
        .metadata
        .uid
        .clone();
    sim.create_set(idle_set("web", 2));
    sim.run(seconds(1));
    assert_eq!(sim.count(Write::Create), 3);
    let mut expected = 3;
    // A pod with an owner in another namespace is collected and not replaced.
    sim.create_pod(with(pod("stranger", "other"), owners("web", &foreign)));
    sim.run(seconds(1));
    assert!(sim.pod("stranger").is_none());
    assert_eq!(sim.count(Write::Create), expected);
    // Own pods that get a wrong owner are collected and replaced.
    for uid in [foreign, Uid::new("of-before")] {
        let name = sim.active("web").remove(0);
        sim.patch_pod(&name, owners("web", &uid));
        sim.run(seconds(1));
        expected += 1;
        assert!(sim.pod(&name).is_none());
        assert_eq!(sim.count(Write::Create), expected);
        assert_eq!(sim.active("web").len(), 2);
    }
    assert_eq!(sim.count(Write::Delete), 0);
    sim.conclude();
}

/// Pods that block the deletion are deleted first. The controller reports how many are left and
/// creates none. The ReplicaSet is deleted with the last pod.
#[test]
fn hazard_81_foreground_deletion() {
    let mut sim = Harness::with(|setup| {
        setup.latency.pod_termination = Latency::Constant(minutes(10));
    })
    .holding(replica_set("web", 3));
    let before = sim.written().len();
    sim.delete_set("web", Propagation::Foreground);
    sim.run(seconds(1));
    for pod in sim.owned("web") {
        assert!(pod.is_terminating() && sim.find("web").is_some());
        sim.kill_pod(&pod.metadata.name);
        sim.run(seconds(1));
    }
    assert!(sim.find("web").is_none() && sim.pods().is_empty());
    let written = sim.written().split_off(before);
    let mut left: Vec<_> = written
        .iter()
        .filter_map(|written| written.object.as_ref())
        .map(|object| &object.status)
        .map(|status| (status.replicas, status.terminating_replicas.unwrap()))
        .collect();
    left.dedup();
    // As they are marked one by one, then as they end.
    assert_eq!(left[left.len() - 3..], [(0, 3), (0, 2), (0, 1)]);
    assert!(left.is_sorted_by_key(|(replicas, _)| -replicas));
    assert_eq!((sim.count(Write::Create), sim.count(Write::Delete)), (3, 0));
    sim.conclude();
}

/// Of two delayed adds of one key, only the earlier one remains.
#[test]
fn hazard_82_delayed_adds_merge() {
    // A retry is due in many minutes when a pod becomes ready. The sync five seconds later replaces
    // it.
    let slow = json!({"spec": {"minReadySeconds": 5}});
    let mut sim = Harness::new().holding(with(idle_set("web", 1), slow));
    let name = sim.active("web").remove(0);
    let refused = Effect::Refuse(ApiFault::InternalError);
    sim.fail(Call::CreatePod, refused, u32::MAX);
    sim.scale("web", 2);
    sim.run(minutes(45));
    let tries = sim.sent(Call::CreatePod);
    sim.until("a retry", minutes(20), |view| {
        view.sent(Call::CreatePod) > tries
    });
    sim.run(seconds(31) - sim.now().mono_ns % seconds(1));
    assert_eq!(
        sim.sent(Call::CreatePod),
        tries + 1,
        "the next retry is not due for long"
    );
    sim.heal_requests();
    sim.make_ready(&name);
    sim.run(ms(4_999));
    assert_eq!((sim.active("web").len(), sim.failures("web")), (2, 0));
    assert_eq!(sim.status("web").available_replicas, 0);
    let syncs = sim.syncs().len();
    sim.run(ms(2));
    assert_eq!(sim.status("web").available_replicas, 1);
    let syncs = sim.syncs().split_off(syncs);
    let due_ns = syncs[0].began_ns;
    assert_eq!(due_ns % seconds(1), 0);
    sim.run(minutes(40));
    let last_ns = sim.last_sync("web").began_ns;
    assert_eq!(last_ns, due_ns, "no retry remains");
    sim.conclude();
}
