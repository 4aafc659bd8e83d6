//! Tests beyond the recorded cases: lists into an empty cache, as at every start, and several
//! consecutive syncs.

use std::sync::Arc;

use podstorm_objects::{
    AnyObject, ApiError, DynamicObject, Kind, Now, Pod, PodPhase, Reason, Resource, ResourceVersion,
};
use podstorm_runtime::client::{Answer, Request};
use podstorm_runtime::driver::{Driver, Workload, sync_all};
use podstorm_runtime::informer::Informers;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::metrics::text_of;
use podstorm_runtime::workqueue::Take;
use serde_json::{Value, json};

use super::pod::TRACKING_FINALIZER;
use super::{Controller, ControllerOptions, JOBS, ORPHANS, OrphanKey};
use crate::cache::Delta;

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 0,
};

fn pod(name: &str, owner: Option<&str>) -> Arc<Pod> {
    let owners = owner.map(|uid| {
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "pi", "uid": uid,
            "controller": true}])
    });
    let pod = json!({"metadata": {"namespace": "shop", "name": name, "uid": name,
        "resourceVersion": "8", "finalizers": [TRACKING_FINALIZER],
        "ownerReferences": owners.unwrap_or(Value::Null)}});
    Arc::new(Pod::from_json(pod).expect("a pod"))
}

/// Returns the next key of a queue; `None` if no key is due.
fn next(controller: &Controller, queue: usize, now_ns: i64) -> Option<KeyId> {
    let queue = &controller.queues()[queue];
    queue.fire_due(now_ns);
    match queue.try_take(now_ns) {
        Take::Key(key) => {
            queue.done(key, now_ns);
            Some(key)
        }
        _ => None,
    }
}

/// Creates a controller whose cache has the Job `pi`, with empty queues.
fn controller(informers: &mut Informers) -> (Controller, KeyId) {
    with_options(ControllerOptions::default(), informers)
}

fn with_options(options: ControllerOptions, informers: &mut Informers) -> (Controller, KeyId) {
    with_job(options, json!({"backoffLimit": 6}), json!({}), informers)
}

/// Like `controller`, with additional members of the Job's spec, and a status.
fn with_job(
    options: ControllerOptions,
    more: Value,
    status: Value,
    informers: &mut Informers,
) -> (Controller, KeyId) {
    let controller = Controller::new(options, informers);
    let mut spec = json!({"completions": 3, "parallelism": 0,
        "selector": {"matchLabels": {"app": "pi"}}});
    for (name, value) in more.as_object().expect("the spec is an object") {
        spec[name] = value.clone();
    }
    let job = json!({"metadata": {"namespace": "shop", "name": "pi", "uid": "a",
        "resourceVersion": "7"}, "spec": spec, "status": status});
    let job: AnyObject = Arc::new(DynamicObject::from_json(Kind::JOB, job).expect("a Job"));
    informers.take(Kind::JOB).apply(Delta::Applied(job), NOW);
    let key = controller.key("shop", "pi");
    assert_eq!(next(&controller, JOBS, 0), Some(key));
    (controller, key)
}

#[test]
fn pods_listed_into_an_empty_cache_count_as_added() {
    let mut informers = Informers::new(Arc::default());
    let (controller, key) = controller(&mut informers);
    controller.expect(key, 2, 0, 0);
    let pods = vec![
        pod("alone", None),
        pod("pi-1", Some("a")),
        pod("pi-2", Some("a")),
        pod("pi-3", Some("gone")),
    ];
    let listed = informers.pods().replace(pods, &ResourceVersion::new("9"));
    assert!(!listed.runs.is_empty());
    controller.pods_listed(&listed, NOW);
    assert!(
        controller.is_settled(key, 0),
        "both creations must be observed"
    );
    assert_eq!(next(&controller, JOBS, 1_000_000_000), Some(key));
    let orphan = next(&controller, ORPHANS, 0).and_then(|key| controller.orphans_of(key));
    let expected = OrphanKey::Name("shop".into(), "alone".into());
    assert_eq!(orphan, Some(expected));
    assert_eq!(next(&controller, ORPHANS, 0), None);
}

#[test]
fn the_first_list_counts_ended_pods_with_the_finalizer() {
    let mut informers = Informers::new(Arc::default());
    let (controller, _) = controller(&mut informers);
    let ended = |name: &str, owner| {
        let mut pod = Pod::clone(&pod(name, owner));
        pod.status.phase = PodPhase::Succeeded;
        Arc::new(pod)
    };
    let pods = vec![
        ended("alone", None),
        ended("pi-1", Some("a")),
        pod("pi-2", Some("a")),
    ];
    let listed = informers.pods().replace(pods, &ResourceVersion::new("9"));
    controller.pods_listed(&listed, NOW);
    let mut released = Pod::clone(&ended("pi-1", Some("a")));
    released.metadata.remove_finalizer(TRACKING_FINALIZER);
    released.metadata.resource_version = 9.into();
    let change = informers.pods().apply(Delta::Applied(Arc::new(released)));
    controller.pod_changed(&change, NOW);
    let text = text_of(&controller.families());
    for line in [
        "job_controller_terminated_pods_tracking_finalizer_total{event=\"add\"} 2",
        "job_controller_terminated_pods_tracking_finalizer_total{event=\"delete\"} 1",
        "# TYPE job_controller_job_sync_duration_seconds histogram",
        "# TYPE job_controller_job_syncs_total counter",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
}

/// Syncs all keys that are due. The server accepts every status, which then reaches the caches, and
/// refuses patches of pods. Returns the statuses and the number of patches.
fn sync(
    controller: &Controller,
    informers: &mut Informers,
    seconds: i64,
    refusal: &ApiError,
) -> (Vec<Value>, usize) {
    let (mut written, mut patches) = (Vec::new(), 0);
    let mut server = |request: &Request, _: Now| match request {
        Request::PutStatus { object } => {
            written.push(object.clone());
            Answer::Object(object.clone())
        }
        Request::Patch { .. } => {
            patches += 1;
            Answer::Failed(refusal.clone())
        }
        other => panic!("unexpected request: {other:?}"),
    };
    let now = NOW.plus_ns(seconds * 1_000_000_000);
    sync_all(controller, &mut Driver::default(), &mut server, now, |_| {});
    let status = |job: &AnyObject| job.to_json()["status"].clone();
    let statuses = written.iter().map(status).collect();
    for job in written {
        let mut job = job.to_json();
        job["metadata"]["resourceVersion"] = (100 + seconds).to_string().into();
        let job = DynamicObject::from_json(Kind::JOB, job).expect("a Job");
        let job: AnyObject = Arc::new(job);
        informers.take(Kind::JOB).apply(Delta::Applied(job), now);
    }
    (statuses, patches)
}

/// Builds a succeeded, tracked pod.
fn ended(name: &str, owner: &str) -> Arc<Pod> {
    let mut pod = (*pod(name, Some(owner))).clone();
    pod.metadata.labels = pod.metadata.labels.with("app", "pi");
    pod.status.phase = PodPhase::Succeeded;
    Arc::new(pod)
}

fn failure(code: u16, reason: Reason) -> ApiError {
    ApiError::status(code, reason, "pods \"pi-1\"")
}

#[test]
fn a_pod_gone_before_its_finalizer_is_counted_once() {
    for (count_gone_pods_once, counted) in [(true, 1), (false, 2)] {
        let options = ControllerOptions {
            count_gone_pods_once,
            waits_for_caches: false,
            ..ControllerOptions::default()
        };
        let mut informers = Informers::new(Arc::default());
        let (controller, key) = with_options(options, &mut informers);
        informers.pods().apply(Delta::Applied(ended("pi-1", "a")));
        let gone = failure(404, Reason::NotFound);
        let mut last = 0;
        for seconds in [2, 4] {
            controller.queues()[JOBS].add(key, seconds * 1_000_000_000);
            let (statuses, _) = sync(&controller, &mut informers, seconds, &gone);
            let count = |status: &Value| status["succeeded"].as_i64().unwrap_or(0);
            last = statuses.last().map_or(last, count);
        }
        assert_eq!(last, counted, "{count_gone_pods_once}");
    }
}

#[test]
fn an_orphan_with_its_finalizer_left_is_retried() {
    for retry_orphans in [true, false] {
        let options = ControllerOptions {
            retry_orphans,
            ..ControllerOptions::default()
        };
        let mut informers = Informers::new(Arc::default());
        let (controller, _) = with_options(options, &mut informers);
        informers
            .pods()
            .apply(Delta::Applied(ended("pi-1", "gone")));
        let key = controller.orphan_key(OrphanKey::Selector(
            "shop".into(),
            "app=pi".to_owned(),
            None,
        ));
        controller.queues()[ORPHANS].add(key, 0);
        let overload = failure(500, Reason::InternalError);
        let (_, patches) = sync(&controller, &mut informers, 2, &overload);
        assert_eq!(patches, 1);
        let (_, patches) = sync(&controller, &mut informers, 60, &overload);
        assert_eq!(patches, usize::from(retry_orphans));
    }
}

#[test]
fn pods_of_a_job_recreated_unseen_are_released() {
    let of = |app: &str| ("shop".into(), format!("app={app}"));
    for retry_orphans in [true, false] {
        for is_gone in [false, true] {
            let options = ControllerOptions {
                retry_orphans,
                ..ControllerOptions::default()
            };
            let mut informers = Informers::new(Arc::default());
            let (controller, _) = with_options(options, &mut informers);
            let job = json!({"metadata": {"namespace": "shop", "name": "pi", "uid": "b",
                "resourceVersion": "9"}, "spec": {"selector": {"matchLabels": {"app": "other"}}}});
            let job: AnyObject = Arc::new(DynamicObject::from_json(Kind::JOB, job).expect("a Job"));
            let delta = match is_gone {
                true => Delta::Deleted(job),
                false => Delta::Applied(job),
            };
            informers.take(Kind::JOB).apply(delta, NOW);
            let mut found = Vec::new();
            while let Some(key) = next(&controller, ORPHANS, 0) {
                if let Some(OrphanKey::Selector(namespace, text, _)) = controller.orphans_of(key) {
                    found.push((namespace, text));
                }
            }
            let mut expected = Vec::new();
            expected.extend(retry_orphans.then(|| of("pi")));
            expected.extend(is_gone.then(|| of("other")));
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn a_deleted_job_releases_pods_that_its_selector_misses() {
    for (retry_orphans, is_gone) in [(true, false), (true, true), (false, false), (false, true)] {
        let options = ControllerOptions {
            retry_orphans,
            ..ControllerOptions::default()
        };
        let mut informers = Informers::new(Arc::default());
        let (controller, _) = with_options(options, &mut informers);
        let lost = pod("pi-1", Some("a"));
        informers.pods().apply(Delta::Applied(lost));
        let job = json!({"metadata": {"namespace": "shop", "name": "pi", "uid": "a",
            "resourceVersion": "9", "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": ["foregroundDeletion"]},
            "spec": {"parallelism": 0, "selector": {"matchLabels": {"app": "pi"}}}});
        let job: AnyObject = Arc::new(DynamicObject::from_json(Kind::JOB, job).expect("a Job"));
        let delta = match is_gone {
            true => Delta::Deleted(job),
            false => Delta::Applied(job),
        };
        informers.take(Kind::JOB).apply(delta, NOW);
        let gone = failure(404, Reason::NotFound);
        let (_, patches) = sync(&controller, &mut informers, 2, &gone);
        assert_eq!(patches, usize::from(retry_orphans), "gone: {is_gone}");
    }
}

#[test]
fn an_index_keeps_its_first_written_outcome() {
    // Index 0 has pods with both outcomes. Index 1 failed earlier and has a succeeded pod; index 2
    // is the reverse.
    let pods = [
        ("a", 0, PodPhase::Succeeded),
        ("b", 0, PodPhase::Failed),
        ("c", 1, PodPhase::Succeeded),
        ("d", 2, PodPhase::Failed),
    ];
    for keep_first_outcome in [true, false] {
        let options = ControllerOptions {
            keep_first_outcome,
            ..ControllerOptions::default()
        };
        let mut informers = Informers::new(Arc::default());
        let spec =
            json!({"completionMode": "Indexed", "backoffLimitPerIndex": 0, "completions": 9});
        let status = json!({"failedIndexes": "1", "completedIndexes": "2", "succeeded": 1});
        let (controller, key) = with_job(options, spec, status, &mut informers);
        for (name, index, phase) in pods {
            let mut pod = (*ended(name, "a")).clone();
            let annotations = pod.metadata.annotations;
            let member = "batch.kubernetes.io/job-completion-index";
            pod.metadata.annotations = annotations.with(member, &format!("{index}"));
            pod.status.phase = phase;
            informers.pods().apply(Delta::Applied(Arc::new(pod)));
        }
        controller.queues()[JOBS].add(key, 0);
        let refusal = failure(500, Reason::InternalError);
        let (statuses, _) = sync(&controller, &mut informers, 2, &refusal);
        let found = ["completedIndexes", "failedIndexes"].map(|it| statuses[0][it].clone());
        let expected = match keep_first_outcome {
            true => ["0,2", "1"],
            // Like upstream, whose status the server refuses.
            false => ["0-2", "0-2"],
        };
        assert_eq!(found, expected);
    }
}

#[test]
fn a_pod_listed_as_failed_does_not_complete_a_job() {
    for keep_first_outcome in [true, false] {
        let options = ControllerOptions {
            keep_first_outcome,
            ..ControllerOptions::default()
        };
        let mut informers = Informers::new(Arc::default());
        let listed = json!({"uncountedTerminatedPods": {"failed": ["pi-1"]}});
        let spec = json!({"completions": 1});
        let (controller, key) = with_job(options, spec, listed, &mut informers);
        informers.pods().apply(Delta::Applied(ended("pi-1", "a")));
        controller.queues()[JOBS].add(key, 0);
        let refusal = failure(500, Reason::InternalError);
        let (statuses, _) = sync(&controller, &mut informers, 2, &refusal);
        let last = statuses.last().expect("the sync must write a status");
        let ends = last["conditions"]
            .as_array()
            .is_some_and(|it| !it.is_empty());
        assert_eq!(ends, !keep_first_outcome);
        assert_eq!(last["succeeded"], Value::Null, "the success must not count");
    }
}
