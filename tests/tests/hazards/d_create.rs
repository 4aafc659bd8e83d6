//! D. Creating pods.

use std::sync::Arc;

use podstorm::client::{Answer, Reason, Request};
use podstorm::object::{Namespace, Now, ObjectMeta, Pod, ReplicaSet, Resource};
use podstorm::replicaset::{Outcome, SyncErrorClass};
use podstorm_apiserver::{Cluster, ClusterOptions, DeleteOptions, Propagation};
use podstorm_loadgen::settings::Latency;
use podstorm_sim::faults::{ApiFault, Armed, Call, Effect, StreamKind};
use podstorm_tests::hazard::objects::{idle_set, pod, with};
use podstorm_tests::hazard::{Did, Hand, Scene, SyncPage, View, fault, minutes, ms, seconds};
use serde_json::json;

/// A namespace that holds so many pods and no more.
fn with_quota(pods: u64, gate: bool) -> Scene {
    let scene = Scene::gated(gate);
    scene.cluster().set_pod_quota("default", Some(pods));
    scene
}

fn refuse(fault: ApiFault) -> Effect {
    Effect::Refuse(fault)
}

/// For each status written: whether it says that creating failed.
fn failures_written(scene: &Scene) -> Vec<bool> {
    let written = scene.written().into_iter();
    let statuses = written.filter_map(|written| written.object);
    let failed = statuses.map(|object| !object.status.conditions.is_empty());
    let mut failed: Vec<bool> = failed.collect();
    failed.dedup();
    failed
}

/// Batches of 1, 2, 4…; the first that fails in part is the last; an Event for each failure of
/// that batch; the condition; retries with growing delays.
#[test]
fn hazard_32_quota_is_reached() {
    let mut scene = with_quota(5, true);
    scene.create_set(idle_set("web", 10));
    scene.run(ms(3));
    let first = scene.syncs().remove(0);
    assert_eq!(first.create_batches(), [1, 2, 4]);
    assert_eq!(first.failed_at(), Some(SyncErrorClass::Create));
    let refused = |page: &SyncPage| {
        let answers = page.requests.iter().filter_map(|asked| asked.answer);
        answers.filter(|answer| *answer == Err(403)).count()
    };
    assert_eq!(refused(&first), 2);
    let told: i32 = scene
        .events("FailedCreate")
        .iter()
        .map(|event| event.count)
        .sum();
    let wanted: usize = scene.syncs().iter().map(refused).sum();
    assert_eq!(usize::try_from(told).unwrap(), wanted);
    assert_eq!(scene.active("web").len(), 5);
    scene.run(minutes(1));
    let failure = scene.failure("web").unwrap();
    assert_eq!(
        (&*failure.status, &*failure.reason),
        ("True", "FailedCreate")
    );
    assert!(failure.message.contains("exceeded quota"));
    let tries: Vec<i64> = scene
        .syncs_of("web")
        .iter()
        .filter(|page| page.sent(Call::CreatePod) > 0)
        .map(|page| page.began_ns)
        .collect();
    let waits: Vec<i64> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() > 8, "{waits:?}");
    // The last delays are twice the ones before.
    for pair in waits[waits.len() - 4..].windows(2) {
        assert_eq!(pair[1] / ms(1), pair[0] * 2 / ms(1));
    }
    for page in &scene.syncs_of("web")[1..] {
        assert!(page.sent(Call::CreatePod) <= 1, "the first batch fails");
    }
    scene.cluster().set_pod_quota("default", None);
    scene.conclude();
}

/// Quota that is freed after a long failure is noticed by the next retry, up to 1,000 s later, or
/// by any event for the key.
#[test]
fn hazard_33_quota_is_freed_late() {
    for event in [false, true] {
        let mut scene = with_quota(0, true);
        scene.create_set(idle_set("web", 3));
        scene.run(minutes(45));
        let tries = scene.sent(Call::CreatePod);
        scene.until("a retry", minutes(20), |view| {
            view.sent(Call::CreatePod) > tries
        });
        scene.cluster().set_pod_quota("default", None);
        let since_ns = scene.now().mono_ns;
        if event {
            scene.run(minutes(1));
            assert!(scene.pods().is_empty());
            scene.touch("web");
        }
        scene.until("three pods", minutes(20), |view| view.pods().len() == 3);
        let waited_s = (scene.now().mono_ns - since_ns) / seconds(1);
        assert_eq!(waited_s, if event { 60 } else { 1_000 });
        scene.run(seconds(1));
        assert!(scene.failure("web").is_none());
        assert_eq!(scene.failures("web"), 0);
        scene.conclude();
    }
}

/// The condition comes with the failure, goes with the retry that may not scale yet, and comes
/// again. The gate refuses that retry, and the condition stays.
#[test]
fn hazard_34_condition_comes_and_goes() {
    for gate in [false, true] {
        let mut scene = with_quota(1, gate);
        scene.hold(StreamKind::Pods, seconds(2));
        scene.create_set(idle_set("web", 3));
        scene.run(seconds(1));
        assert_eq!(scene.expected("web"), Some((1, 0)));
        assert_eq!(scene.failure("web").is_some(), gate);
        scene.run(minutes(1));
        assert!(scene.failure("web").is_some());
        let wanted: &[bool] = if gate { &[true] } else { &[true, false, true] };
        assert_eq!(failures_written(&scene), wanted);
        scene.cluster().set_pod_quota("default", None);
        scene.conclude();
    }
}

/// The condition keeps the text of the first failure while it lasts.
#[test]
fn hazard_35_condition_keeps_its_first_message() {
    let mut scene = Scene::new();
    scene.fail(Call::CreatePod, refuse(ApiFault::Forbidden), 3);
    scene.fail(Call::CreatePod, refuse(ApiFault::InternalError), 100);
    scene.create_set(idle_set("web", 1));
    scene.run(ms(2));
    let first = scene.failure("web").unwrap();
    assert_eq!(&*first.message, &*ApiFault::Forbidden.error().message);
    scene.run(seconds(10));
    assert!(scene.last_sync("web").error().contains("Internal error"));
    assert_eq!(scene.failure("web").unwrap(), first);
    scene.heal_requests();
    scene.touch("web");
    scene.run(seconds(1));
    assert!(scene.failure("web").is_none());
    scene.conclude();
}

/// Refused because the namespace goes: counted as created, no Event, no condition; the
/// ReplicaSet is quiet until it goes too.
#[test]
fn hazard_36_namespace_terminates_amid_a_burst() {
    let mut scene = Scene::new();
    for batch in [2, 3] {
        scene.arm(Armed {
            batch: Some(batch),
            ..fault(
                &[Call::CreatePod],
                refuse(ApiFault::NamespaceTerminating),
                4,
            )
        });
    }
    scene.create_set(idle_set("web", 10));
    scene.run(seconds(10));
    let first = scene.syncs().remove(0);
    assert_eq!(first.create_batches(), [1, 2, 4, 3]);
    assert_eq!(first.failed_at(), None);
    assert_eq!(
        (scene.active("web").len(), scene.expected("web")),
        (3, Some((7, 0)))
    );
    assert!(scene.events("FailedCreate").is_empty() && scene.failure("web").is_none());
    let syncs = scene.syncs().len();
    scene.run(minutes(20));
    assert_eq!(scene.syncs().len(), syncs);
    scene.delete_set("web", Propagation::Background);
    scene.run(seconds(1));
    assert_eq!(scene.expected("web"), None);
    assert!(scene.pods().is_empty());
    scene.conclude();

    // The same by a real deletion, while the third batch is on its way. A pod keeps the namespace.
    let mut scene = Scene::new();
    let kept = json!({"metadata": {"finalizers": ["example.com/kept"]}});
    scene.create_pod(with(pod("kept", "other"), kept));
    let slow = Effect::Slow { by_ms: 1_000 };
    scene.arm(Armed {
        batch: Some(2),
        ..fault(&[Call::CreatePod], slow, 4)
    });
    scene.create_set(idle_set("web", 10));
    scene.run(ms(500));
    assert_eq!(scene.under_way(Call::CreatePod), 4);
    let options = DeleteOptions::default();
    let cluster = scene.cluster().clone();
    let deleted = cluster.delete::<Namespace>("", "default", &options, scene.now());
    deleted.unwrap();
    scene.run(seconds(5));
    let first = scene.syncs().remove(0);
    assert_eq!(first.create_batches(), [1, 2, 4, 3]);
    assert_eq!(first.failed_at(), None);
    let answers = first
        .requests
        .iter()
        .filter(|asked| asked.call == Call::CreatePod);
    let mut answers: Vec<_> = answers.map(|asked| asked.answer.unwrap()).collect();
    answers.sort();
    assert_eq!(answers, [[Ok(()); 3].as_slice(), &[Err(403); 7]].concat());
    assert_eq!(
        (scene.active("web").len(), scene.expected("web")),
        (0, Some((7, 0)))
    );
    scene.run(minutes(20));
    assert_eq!(
        scene.sent(Call::CreatePod),
        10,
        "quiet, though no pod is left"
    );
    assert!(scene.events("FailedCreate").is_empty());
    assert!(!failures_written(&scene).contains(&true));
    scene.patch_pod("kept", json!({"metadata": {"finalizers": null}}));
    scene.run(seconds(5));
    assert!(scene.find("web").is_none());
    assert_eq!(
        (scene.sent(Call::CreatePod), scene.expected("web")),
        (10, None)
    );
    scene.conclude();
}

/// A create that is carried out and answered by a time-out counts as failed; the retry makes one
/// pod too many where the cache does not show the first yet, with the gate too.
#[test]
fn hazard_37_create_commits_and_its_answer_is_lost() {
    for (seen_late, gate) in [(true, true), (true, false), (false, true), (false, false)] {
        for lost in [ApiFault::GatewayTimeout, ApiFault::ConnectionCut] {
            let mut scene = Scene::gated(gate);
            if seen_late {
                scene.hold(StreamKind::Pods, seconds(1));
            }
            scene.fail(Call::CreatePod, Effect::LoseAnswer(lost), 1);
            scene.create_set(idle_set("web", 1));
            let ended = |view: &View| {
                view.syncs()
                    .first()
                    .is_some_and(|page| page.ended.is_some())
            };
            scene.until("the end of the first sync", ms(3), ended);
            assert_eq!(scene.syncs()[0].failed_at(), Some(SyncErrorClass::Create));
            let counts = scene.expected("web").unwrap();
            assert!(counts.0 <= 0, "lowered: {counts:?}");
            scene.run(seconds(10));
            assert_eq!(scene.most_active("web"), if seen_late { 2 } else { 1 });
            assert_eq!(scene.active("web").len(), 1);
            scene.conclude();
        }
    }
}

/// Overload with a time to wait is retried within the call, ten times, while the worker waits and
/// the expectations stay.
#[test]
fn hazard_38_retry_after() {
    for overload in [ApiFault::TooManyRequestsRetry, ApiFault::UnavailableRetry] {
        let mut scene = Scene::new();
        scene.fail(Call::CreatePod, refuse(overload), 10);
        scene.create_set(idle_set("web", 1));
        scene.run(ms(9_500));
        assert_eq!(scene.syncs().len(), 1);
        assert_eq!(
            (scene.under_way(Call::CreatePod), scene.expected("web")),
            (1, Some((1, 0)))
        );
        scene.run(seconds(1));
        assert_eq!(scene.syncs()[0].failed_at(), None);
        assert!(scene.events("FailedCreate").is_empty());
        assert_eq!(scene.active("web").len(), 1);
        scene.fail(Call::CreatePod, refuse(overload), 11);
        scene.scale("web", 2);
        scene.run(ms(10_002));
        assert_eq!(scene.struck(), 21);
        let failed = scene
            .syncs()
            .into_iter()
            .find(|page| page.failed_at().is_some());
        let failed = failed.unwrap();
        assert_eq!(
            failed.ended.as_ref().unwrap().0 - failed.began_ns,
            seconds(10)
        );
        assert_eq!(scene.events("FailedCreate").len(), 1);
        scene.conclude();
    }
}

/// The server tries eight names; when all are taken the create fails like any other.
#[test]
fn hazard_39_generated_names_collide() {
    let now = Now::default();
    // The name that the ninth create of a cluster gets, or the error, when these are taken.
    let ninth = |taken: &[String]| {
        let cluster = Cluster::new(ClusterOptions::default());
        let metadata = ObjectMeta {
            name: "default".into(),
            ..ObjectMeta::default()
        };
        let namespace = Namespace {
            metadata,
            ..Namespace::default()
        };
        cluster.create(namespace, now).unwrap();
        let create = |object| cluster.create(Pod::from_json(object).unwrap(), now);
        for number in 0..8 {
            let other = format!("other-{number}");
            create(pod(taken.get(number).unwrap_or(&other), "web")).unwrap();
        }
        let named = json!({"metadata": {"name": null, "generateName": "web-"}});
        create(with(pod("", "web"), named)).map(|pod| pod.metadata.name.to_string())
    };
    let mut taken = Vec::new();
    while taken.len() < 8 {
        let name = ninth(&taken).unwrap();
        assert!(!taken.contains(&name));
        taken.push(name);
    }
    let error = ninth(&taken).unwrap_err();
    assert_eq!((error.code, &error.reason), (409, &Reason::AlreadyExists));

    let mut scene = Scene::new();
    scene.fail(Call::CreatePod, refuse(ApiFault::AlreadyExists), 1);
    scene.create_set(idle_set("web", 2));
    scene.run(seconds(1));
    assert_eq!(scene.syncs()[0].failed_at(), Some(SyncErrorClass::Create));
    assert_eq!(scene.events("FailedCreate").len(), 1);
    assert_eq!(scene.active("web").len(), 2);
    scene.conclude();
}

/// Ten minutes without admission: retries with growing delays, nothing left waiting, and recovery
/// by itself.
#[test]
fn hazard_40_admission_is_down() {
    for down in [ApiFault::InternalError, ApiFault::Timeout] {
        let mut scene = Scene::new();
        scene.arm(Armed {
            until_ns: scene.now().mono_ns + minutes(10),
            ..fault(&[Call::CreatePod], refuse(down), u32::MAX)
        });
        scene.create_set(idle_set("web", 3));
        for _ in 0..9 {
            scene.run(minutes(1));
            let (add, del) = scene.expected("web").unwrap();
            assert!(add <= 0 && del == 0);
        }
        let tries = scene.sent(Call::CreatePod);
        assert!((14..20).contains(&tries), "{tries}");
        assert!(scene.failure("web").is_some());
        scene.until("recovery", minutes(20), |view| view.pods().len() == 3);
        scene.run(seconds(1));
        assert!(scene.failure("web").is_none());
        scene.assert_converged();
        scene.conclude();
    }
}

/// Pods that fail at once are replaced for ever, without a delay of their own, and kept.
#[test]
fn hazard_41_pods_fail_at_once() {
    let mut scene = Scene::new();
    scene.create_set(idle_set("web", 2));
    scene.run(ms(1));
    for round in 1..=50 {
        let active = scene.active("web");
        assert_eq!(active.len(), 2);
        for name in active {
            scene.patch_pod_status(&name, json!({"phase": "Failed", "reason": "Evicted"}));
        }
        scene.run(ms(1));
        assert_eq!(
            scene.owned("web").len(),
            2 * (round + 1),
            "failed pods are kept"
        );
        assert_eq!(scene.failures("web"), 0);
    }
    assert_eq!(
        (scene.count(Did::Create), scene.count(Did::Delete)),
        (102, 0)
    );
    assert_eq!(scene.status("web").replicas, 2);
    scene.conclude();
}

/// 500, 500, 200, each round after the one before was seen.
#[test]
fn hazard_42_replicas_1200() {
    let mut scene = Scene::with(|setup| {
        setup.settings.latency.watch = Latency::Constant(seconds(1));
    });
    scene.create_set(idle_set("web", 1_200));
    scene.run(seconds(20));
    let rounds: Vec<(i64, usize)> = scene
        .syncs_of("web")
        .iter()
        .map(|page| (page.began_ns, page.sent(Call::CreatePod)))
        .filter(|(_, sent)| *sent > 0)
        .collect();
    let sizes: Vec<usize> = rounds.iter().map(|(_, size)| *size).collect();
    assert_eq!(sizes, [500, 500, 200]);
    assert!(
        rounds
            .windows(2)
            .all(|pair| pair[1].0 - pair[0].0 >= seconds(1))
    );
    let first = &scene.syncs_of("web")[0];
    assert_eq!(first.create_batches(), [1, 2, 4, 8, 16, 32, 64, 128, 245]);
    assert_eq!(scene.most_active("web"), 1_200);
    scene.conclude();
}

/// A template without labels, which no server lets through: an error of the controller's own, no
/// request, no Event, and the condition.
#[test]
fn hazard_43_template_without_labels() {
    let hand = Hand::new();
    let bare = json!({
        "metadata": {"uid": "u-1", "generation": 1, "resourceVersion": "1"},
        "spec": {"template": {"metadata": {"labels": null}}},
    });
    let set = ReplicaSet::from_json(with(idle_set("web", 2), bare)).unwrap();
    hand.controller
        .owner_replace(vec![Arc::new(set)], &1.into(), hand.now);
    let mut written = None;
    let done = hand.sync_next(|request| {
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
    assert_eq!(
        (&*conditions[0].kind, &*conditions[0].reason),
        ("ReplicaFailure", "FailedCreate")
    );
    assert_eq!(hand.expected("web"), Some((0, 0)));
    assert_eq!(hand.cluster.count::<Pod>(), 0);
}

/// Names of 58 characters and more are cut, without a dash; two that begin alike share names and
/// not pods.
#[test]
fn hazard_44_long_names() {
    let mut scene = Scene::new();
    let stem = "x".repeat(58);
    let names = [format!("{stem}-one"), format!("{stem}-two")];
    for name in &names {
        scene.create_set(idle_set(name, 3));
    }
    scene.run(seconds(5));
    for name in &names {
        let active = scene.active(name);
        assert_eq!(active.len(), 3);
        for pod in active {
            assert_eq!((pod.len(), &pod[..58]), (63, &*stem));
            let alphabet = "bcdfghjklmnpqrstvwxz2456789";
            assert!(pod[58..].chars().all(|c| alphabet.contains(c)), "{pod}");
        }
    }
    scene.scale(&names[0], 1);
    scene.run(seconds(5));
    assert_eq!(
        (scene.active(&names[0]).len(), scene.active(&names[1]).len()),
        (1, 3)
    );
    scene.conclude();
}
