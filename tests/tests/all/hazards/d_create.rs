//! D. Creating pods.

use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::object::Kind;
use podstorm::object::{Namespace, Pod, ReplicaSet, Resource};
use podstorm::replicaset::{Outcome, SyncErrorClass};
use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{DeleteOptions, Propagation};
use podstorm_sim::faults::{ApiFault, Armed, Call, Effect, StreamKind};
use podstorm_tests::hazard::{
    Harness, ManualController, NAMESPACE, SyncRecord, View, Write, idle_set, minutes, ms, pod,
    seconds, with,
};
use serde_json::json;

/// Returns a harness with a namespace that may hold this number of pods.
fn with_quota(pods: u64, gate: bool) -> Harness {
    let sim = Harness::gated(gate);
    sim.set_pod_quota(Some(pods));
    sim
}

/// Returns for each written status whether it reports failed creates.
fn failures_written(sim: &Harness) -> Vec<bool> {
    let written = sim.written().into_iter();
    let statuses = written.filter_map(|written| written.object);
    let failed = statuses.map(|object| !object.status.conditions.is_empty());
    let mut failed: Vec<bool> = failed.collect();
    failed.dedup();
    failed
}

/// Batches of 1, 2, 4…; the first batch with a failure is the last. Each failure of that batch
/// causes an Event. The condition is set, and retries come with growing delays.
#[test]
fn hazard_32_quota_is_reached() {
    let mut sim = with_quota(5, true);
    sim.create_set(idle_set("web", 10));
    sim.run(ms(3));
    let first = sim.syncs().remove(0);
    assert_eq!(first.create_batches(), [1, 2, 4]);
    assert_eq!(first.failed_at(), Some(SyncErrorClass::Create));
    let refused = |sync: &SyncRecord| {
        let answers = sync.requests.iter().filter_map(|request| request.answer);
        answers.filter(|answer| *answer == Err(403)).count()
    };
    assert_eq!(refused(&first), 2);
    let events = sim.events("FailedCreate");
    let told: i32 = events.iter().map(|event| event.count).sum();
    let wanted: usize = sim.syncs().iter().map(refused).sum();
    assert_eq!(usize::try_from(told).unwrap(), wanted);
    assert_eq!(sim.active("web").len(), 5);
    sim.run(minutes(1));
    let failure = sim.failure("web").unwrap();
    assert_eq!(&*failure.status, "True");
    assert_eq!(&*failure.reason, "FailedCreate");
    assert!(failure.message.contains("exceeded quota"));
    let mut tries = sim.syncs_of("web");
    tries.retain(|sync| sync.sent(Call::CreatePod) > 0);
    let tries: Vec<i64> = tries.iter().map(|sync| sync.began_ns).collect();
    let waits: Vec<i64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() > 8, "{waits:?}");
    // The last delays double.
    for pair in waits[waits.len() - 4..].windows(2) {
        assert_eq!(pair[1] / ms(1), pair[0] * 2 / ms(1));
    }
    for sync in &sim.syncs_of("web")[1..] {
        assert!(sync.sent(Call::CreatePod) <= 1, "the first batch fails");
    }
    sim.set_pod_quota(None);
    sim.conclude();
}

/// Quota that is freed after a long failure is noticed by the next retry, up to 1,000 s later, or
/// by any event for the key.
#[test]
fn hazard_33_quota_is_freed_late() {
    for event in [false, true] {
        let mut sim = with_quota(0, true);
        sim.create_set(idle_set("web", 3));
        sim.run(minutes(45));
        let tries = sim.sent(Call::CreatePod);
        sim.until("a retry", minutes(20), |view| {
            view.sent(Call::CreatePod) > tries
        });
        sim.set_pod_quota(None);
        let since_ns = sim.now().mono_ns;
        if event {
            sim.run(minutes(1));
            assert!(sim.pods().is_empty());
            sim.touch("web");
        }
        sim.until("three pods", minutes(20), |view| view.pods().len() == 3);
        let waited_s = (sim.now().mono_ns - since_ns) / seconds(1);
        assert_eq!(waited_s, if event { 60 } else { 1_000 });
        sim.run(seconds(1));
        assert!(sim.failure("web").is_none());
        assert_eq!(sim.failures("web"), 0);
        sim.conclude();
    }
}

/// The condition is set with the failure, cleared by the retry that may not scale yet, and set
/// again. The gate refuses that retry, so the condition stays.
#[test]
fn hazard_34_condition_comes_and_goes() {
    for gate in [false, true] {
        let mut sim = with_quota(1, gate);
        sim.hold(StreamKind::from_kind(Kind::POD), seconds(2));
        sim.create_set(idle_set("web", 3));
        sim.run(seconds(1));
        assert_eq!(sim.expected("web"), Some((1, 0)));
        assert_eq!(sim.failure("web").is_some(), gate);
        sim.run(minutes(1));
        assert!(sim.failure("web").is_some());
        let wanted: &[bool] = if gate { &[true] } else { &[true, false, true] };
        assert_eq!(failures_written(&sim), wanted);
        sim.set_pod_quota(None);
        sim.conclude();
    }
}

/// The condition keeps the message of the first failure while it lasts.
#[test]
fn hazard_35_condition_keeps_its_first_message() {
    let mut sim = Harness::new();
    sim.refuse(Call::CreatePod, ApiFault::Forbidden, 3);
    sim.refuse(Call::CreatePod, ApiFault::InternalError, 100);
    sim.create_set(idle_set("web", 1));
    sim.run(ms(2));
    let first = sim.failure("web").unwrap();
    assert_eq!(&*first.message, &*ApiFault::Forbidden.error().message);
    sim.run(seconds(10));
    assert!(sim.last_sync("web").error().contains("Internal error"));
    assert_eq!(sim.failure("web").unwrap(), first);
    sim.heal_requests();
    sim.touch("web");
    sim.run(seconds(1));
    assert!(sim.failure("web").is_none());
    sim.conclude();
}

/// Refusals by a terminating namespace count as created pods: no Event, no condition. The
/// ReplicaSet is idle until it is deleted too.
#[test]
fn hazard_36_namespace_terminates_during_a_burst() {
    let mut sim = Harness::new();
    for batch in [2, 3] {
        let terminating = Effect::Refuse(ApiFault::NamespaceTerminating);
        sim.arm(Armed {
            batch: Some(batch),
            ..Armed::new(&[Call::CreatePod], terminating, 4)
        });
    }
    sim.create_set(idle_set("web", 10));
    sim.run(seconds(10));
    let first = sim.syncs().remove(0);
    assert_eq!(first.create_batches(), [1, 2, 4, 3]);
    assert_eq!(first.failed_at(), None);
    assert_eq!(sim.active("web").len(), 3);
    assert_eq!(sim.expected("web"), Some((7, 0)));
    assert!(sim.events("FailedCreate").is_empty() && sim.failure("web").is_none());
    let syncs = sim.syncs().len();
    sim.run(minutes(20));
    assert_eq!(sim.syncs().len(), syncs);
    sim.delete_set("web", Propagation::Background);
    sim.run(seconds(1));
    assert_eq!(sim.expected("web"), None);
    assert!(sim.pods().is_empty());
    sim.conclude();

    // The same with a real deletion while the third batch is in transit. A pod keeps the namespace.
    let mut sim = Harness::new();
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    sim.create_pod(with(pod("kept", "other"), kept));
    let slow = Effect::Slow { by_ms: 1_000 };
    sim.arm(Armed {
        batch: Some(2),
        ..Armed::new(&[Call::CreatePod], slow, 4)
    });
    sim.create_set(idle_set("web", 10));
    sim.run(ms(500));
    assert_eq!(sim.under_way(Call::CreatePod), 4);
    let options = DeleteOptions::default();
    let cluster = sim.cluster().clone();
    let deleted = cluster.delete::<Namespace>("", NAMESPACE, &options, sim.now());
    deleted.unwrap();
    sim.run(seconds(5));
    let first = sim.syncs().remove(0);
    assert_eq!(first.create_batches(), [1, 2, 4, 3]);
    assert_eq!(first.failed_at(), None);
    let answers = first
        .requests
        .iter()
        .filter(|request| request.call == Call::CreatePod);
    let mut answers: Vec<_> = answers.map(|request| request.answer.unwrap()).collect();
    answers.sort();
    assert_eq!(answers, [[Ok(()); 3].as_slice(), &[Err(403); 7]].concat());
    assert_eq!(sim.active("web").len(), 0);
    assert_eq!(sim.expected("web"), Some((7, 0)));
    sim.run(minutes(20));
    let sent = sim.sent(Call::CreatePod);
    assert_eq!(sent, 10, "no syncs, although no pod is left");
    assert!(sim.events("FailedCreate").is_empty());
    assert!(!failures_written(&sim).contains(&true));
    sim.patch_pod("kept", json!({"metadata": {"finalizers": null}}));
    sim.run(seconds(5));
    assert!(sim.find("web").is_none());
    assert_eq!((sim.sent(Call::CreatePod), sim.expected("web")), (10, None));
    sim.conclude();
}

/// A create that is executed but times out counts as failed. The retry creates one pod too many if
/// the cache does not show the first one yet, even with the gate.
#[test]
fn hazard_37_create_commits_and_its_answer_is_lost() {
    for (seen_late, gate) in [(true, true), (true, false), (false, true), (false, false)] {
        for lost in [ApiFault::GatewayTimeout, ApiFault::ConnectionCut] {
            let mut sim = Harness::gated(gate);
            if seen_late {
                sim.hold(StreamKind::from_kind(Kind::POD), seconds(1));
            }
            sim.fail(Call::CreatePod, Effect::LoseAnswer(lost), 1);
            sim.create_set(idle_set("web", 1));
            let ended = |view: &View| {
                view.syncs()
                    .first()
                    .is_some_and(|sync| sync.ended.is_some())
            };
            sim.until("the end of the first sync", ms(3), ended);
            assert_eq!(sim.syncs()[0].failed_at(), Some(SyncErrorClass::Create));
            let counts = sim.expected("web").unwrap();
            assert!(counts.0 <= 0, "lowered: {counts:?}");
            sim.run(seconds(10));
            assert_eq!(sim.most_active("web"), if seen_late { 2 } else { 1 });
            assert_eq!(sim.active("web").len(), 1);
            sim.conclude();
        }
    }
}

/// Overload with `Retry-After` is retried within the call, ten times, while the worker waits and
/// the expectations stay.
#[test]
fn hazard_38_retry_after() {
    for overload in [ApiFault::TooManyRequestsRetry, ApiFault::UnavailableRetry] {
        let mut sim = Harness::new();
        sim.refuse(Call::CreatePod, overload, 10);
        sim.create_set(idle_set("web", 1));
        sim.run(ms(9_500));
        assert_eq!(sim.syncs().len(), 1);
        assert_eq!(sim.under_way(Call::CreatePod), 1);
        assert_eq!(sim.expected("web"), Some((1, 0)));
        sim.run(seconds(1));
        assert_eq!(sim.syncs()[0].failed_at(), None);
        assert!(sim.events("FailedCreate").is_empty());
        assert_eq!(sim.active("web").len(), 1);
        sim.refuse(Call::CreatePod, overload, 11);
        sim.scale("web", 2);
        sim.run(ms(10_002));
        assert_eq!(sim.struck(), 21);
        let mut syncs = sim.syncs().into_iter();
        let failed = syncs.find(|sync| sync.failed_at().is_some()).unwrap();
        let took_ns = failed.ended.as_ref().unwrap().0 - failed.began_ns;
        assert_eq!(took_ns, seconds(10));
        assert_eq!(sim.events("FailedCreate").len(), 1);
        sim.conclude();
    }
}

/// The server tries eight names. If all are taken, the create fails like any other. Another test
/// covers the number of tries.
#[test]
fn hazard_39_generated_names_collide() {
    let mut sim = Harness::new();
    sim.refuse(Call::CreatePod, ApiFault::AlreadyExists, 1);
    sim.create_set(idle_set("web", 2));
    sim.run(seconds(1));
    assert_eq!(sim.syncs()[0].failed_at(), Some(SyncErrorClass::Create));
    assert_eq!(sim.events("FailedCreate").len(), 1);
    assert_eq!(sim.active("web").len(), 2);
    sim.conclude();
}

/// Ten minutes without admission: retries with growing delays, no lasting expectations, and
/// recovery without help.
#[test]
fn hazard_40_admission_is_down() {
    for down in [ApiFault::InternalError, ApiFault::Timeout] {
        let mut sim = Harness::new();
        sim.arm(Armed {
            until_ns: sim.now().mono_ns + minutes(10),
            ..Armed::new(&[Call::CreatePod], Effect::Refuse(down), u32::MAX)
        });
        sim.create_set(idle_set("web", 3));
        for _ in 0..9 {
            sim.run(minutes(1));
            let (add, del) = sim.expected("web").unwrap();
            assert!(add <= 0 && del == 0);
        }
        let tries = sim.sent(Call::CreatePod);
        assert!((14..20).contains(&tries), "{tries}");
        assert!(sim.failure("web").is_some());
        sim.until("recovery", minutes(20), |view| view.pods().len() == 3);
        sim.run(seconds(1));
        assert!(sim.failure("web").is_none());
        sim.assert_converged();
        sim.conclude();
    }
}

/// Pods that fail immediately are replaced endlessly, without an additional delay, and kept.
#[test]
fn hazard_41_pods_fail_immediately() {
    let mut sim = Harness::new();
    sim.create_set(idle_set("web", 2));
    sim.run(ms(1));
    for round in 1..=50 {
        let active = sim.active("web");
        assert_eq!(active.len(), 2);
        for name in active {
            sim.patch_pod_status(&name, json!({"phase": "Failed", "reason": "Evicted"}));
        }
        sim.run(ms(1));
        let owned = sim.owned("web").len();
        assert_eq!(owned, 2 * (round + 1), "failed pods are kept");
        assert_eq!(sim.failures("web"), 0);
    }
    assert_eq!(sim.count(Write::Create), 102);
    assert_eq!(sim.count(Write::Delete), 0);
    assert_eq!(sim.status("web").replicas, 2);
    sim.conclude();
}

/// 500, 500, 200: each round starts after the previous one was seen.
#[test]
fn hazard_42_replicas_1200() {
    let mut sim = Harness::with(|setup| {
        setup.latency.watch = Latency::Constant(seconds(1));
    });
    sim.create_set(idle_set("web", 1_200));
    sim.run(seconds(20));
    let rounds: Vec<(i64, usize)> = sim
        .syncs_of("web")
        .iter()
        .map(|sync| (sync.began_ns, sync.sent(Call::CreatePod)))
        .filter(|(_, sent)| *sent > 0)
        .collect();
    let sizes: Vec<usize> = rounds.iter().map(|(_, size)| *size).collect();
    assert_eq!(sizes, [500, 500, 200]);
    let mut pairs = rounds.windows(2);
    assert!(pairs.all(|pair| pair[1].0 - pair[0].0 >= seconds(1)));
    let first = &sim.syncs_of("web")[0];
    assert_eq!(first.create_batches(), [1, 2, 4, 8, 16, 32, 64, 128, 245]);
    assert_eq!(sim.most_active("web"), 1_200);
    sim.conclude();
}

/// A template without labels, which every server rejects, is an error of the controller: no
/// request, no Event, and the condition.
#[test]
fn hazard_43_template_without_labels() {
    let manual = ManualController::new();
    let bare = json!({
        "metadata": {"uid": "u-1", "generation": 1, "resourceVersion": "1"},
        "spec": {"template": {"metadata": {"labels": null}}},
    });
    let set = ReplicaSet::from_json(with(idle_set("web", 2), bare)).unwrap();
    manual
        .owners
        .replace(vec![Arc::new(set)], &1.into(), manual.now);
    let mut written = None;
    let done = manual.sync_next(|request| {
        let Request::PutStatus { object } = request else {
            panic!("{request:?}")
        };
        written = Some(object.clone());
        Some(Answer::Object(object.clone()))
    });
    let done = done.unwrap();
    assert_eq!(done.calls, [Call::PutStatus]);
    assert!(done.events.is_empty());
    let Outcome::Failed(error) = done.outcome else {
        panic!("the sync failed")
    };
    assert_eq!(error.class, SyncErrorClass::Create);
    assert_eq!(error.message, "unable to create pods, no labels");
    let written = written.unwrap();
    let conditions = &written
        .downcast_ref::<ReplicaSet>()
        .unwrap()
        .status
        .conditions;
    assert_eq!(&*conditions[0].kind, "ReplicaFailure");
    assert_eq!(&*conditions[0].reason, "FailedCreate");
    assert_eq!(manual.expected("web"), Some((0, 0)));
    assert_eq!(manual.cluster.count::<Pod>(), 0);
}

/// Names of 58 characters and more are truncated, without a dash. Two ReplicaSets with a common
/// prefix share generated names but no pods.
#[test]
fn hazard_44_long_names() {
    let mut sim = Harness::new();
    let stem = "x".repeat(58);
    let names = [format!("{stem}-one"), format!("{stem}-two")];
    for name in &names {
        sim.create_set(idle_set(name, 3));
    }
    sim.run(seconds(5));
    for name in &names {
        let active = sim.active(name);
        assert_eq!(active.len(), 3);
        for pod in active {
            assert_eq!((pod.len(), &pod[..58]), (63, &*stem));
            let alphabet = "bcdfghjklmnpqrstvwxz2456789";
            assert!(pod[58..].chars().all(|c| alphabet.contains(c)), "{pod}");
        }
    }
    sim.scale(&names[0], 1);
    sim.run(seconds(5));
    assert_eq!(sim.active(&names[0]).len(), 1);
    assert_eq!(sim.active(&names[1]).len(), 3);
    sim.conclude();
}
