//! Finished Jobs in a served cluster on virtual time, end to end.

use std::sync::Arc;

use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{DeleteOptions, Propagation};
use podstorm_objects::{AnyObject, DynamicObject, Kind, Pod, Resource, Time};
use serde_json::{Value, json};

use super::Harness;
use super::services_tests::furnished;
use crate::options::{EngineKind, SimOptions};
use crate::rows::Rows;
use crate::services::Controllers;

const MS: i64 = 1_000_000;
const SECOND: i64 = 1_000 * MS;

fn options() -> SimOptions {
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    // The tests write the status that the Job controller would write.
    let controllers =
        Controllers::from_words(Rows::installed(), &["*", "-podgc", "-job-controller"]);
    options.services.controllers = controllers.unwrap();
    options
}

/// Creates a Job with a TTL of `ttl_seconds` after its end.
fn create(harness: &Harness, ttl_seconds: i64) -> AnyObject {
    let job = json!({"metadata": {"name": "j", "namespace": "shop"}, "spec": {
        "ttlSecondsAfterFinished": ttl_seconds,
        "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}}});
    let job = DynamicObject::from_json(Kind::JOB, job).unwrap();
    let api = harness.cluster().api(Kind::JOB);
    api.create(Arc::new(job), harness.now()).unwrap()
}

fn job(harness: &Harness) -> Option<DynamicObject> {
    let job = harness.cluster().api(Kind::JOB).get("shop", "j").ok()?;
    Some(job.downcast_ref::<DynamicObject>().unwrap().clone())
}

/// Updates the Job with these members in `part`.
fn change(harness: &Harness, part: &str, members: Value) {
    let mut changed = job(harness).expect("the Job exists");
    let of_part = changed.fields.entry(part).or_insert_with(|| json!({}));
    for (name, value) in members.as_object().unwrap() {
        of_part[name] = value.clone();
    }
    let (api, now) = (harness.cluster().api(Kind::JOB), harness.now());
    let changed = Arc::new(changed);
    let written = match part {
        "status" => api.update_status(changed, now),
        _ => api.update(changed, now),
    };
    written.unwrap();
}

/// Marks the Job as complete, as its controller does.
fn complete(harness: &Harness) {
    let now = Time::from_unix_nanos(harness.now().wall_ns).to_string();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": now});
    let conditions = ["SuccessCriteriaMet", "Complete"].map(condition);
    let status = json!({"startTime": now, "completionTime": now, "succeeded": 1,
        "conditions": conditions});
    change(harness, "status", status);
}

/// Creates a pod; the Job owns it if `owner` is given.
fn create_pod(harness: &Harness, name: &str, owner: Option<&AnyObject>) {
    let pod = json!({"metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut pod = Pod::from_json(pod).unwrap();
    if let Some(owner) = owner {
        let reference = Kind::JOB.controller_reference(owner.metadata());
        pod.metadata.owner_references.push(Arc::new(reference));
    }
    harness.cluster().create(pod, harness.now()).unwrap();
}

fn pods(harness: &Harness) -> Vec<String> {
    let (pods, _) = harness.cluster().list::<Pod>(Some("shop"));
    pods.iter()
        .map(|pod| pod.metadata.name.to_string())
        .collect()
}

/// Reports whether the Job exists and is not being deleted.
fn stays(harness: &Harness) -> bool {
    job(harness).is_some_and(|job| !job.metadata.is_deleting())
}

#[test]
fn a_job_is_deleted_with_its_pods_when_its_ttl_ends() {
    let mut options = options();
    options.latency.pod_termination = Latency::Constant(SECOND);
    let harness = furnished(&options);
    let owner = create(&harness, 30);
    create_pod(&harness, "of-the-job", Some(&owner));
    create_pod(&harness, "unowned", None);
    harness.advance(7 * SECOND);
    complete(&harness);
    harness.advance(30 * SECOND - 1);
    assert!(stays(&harness));
    harness.advance(1);
    // The deletion is in the foreground: the pods are deleted first, then the Job.
    let waits = job(&harness).expect("the Job waits for its pod");
    assert!(waits.metadata.is_deleting());
    assert_eq!(*waits.metadata.finalizers()[0], *"foregroundDeletion");
    assert_eq!(pods(&harness), ["of-the-job", "unowned"]);
    harness.advance(SECOND);
    assert!(job(&harness).is_none());
    assert_eq!(pods(&harness), ["unowned"]);
    let calls = harness.api_calls();
    assert_eq!(calls.get("get jobs 200"), Some(&1));
    assert_eq!(calls.get("delete jobs 200"), Some(&1));
}

#[test]
fn a_raised_ttl_counts_even_if_the_cache_is_stale() {
    // At 10 s, the cache has seen the longer TTL when the shorter one ends; at 28 s, it has not.
    for (raised_s, reads) in [(10, 1), (28, 2)] {
        let mut options = options();
        options.latency.watch = Latency::Constant(5 * SECOND);
        let harness = furnished(&options);
        create(&harness, 30);
        complete(&harness);
        harness.advance(raised_s * SECOND);
        change(&harness, "spec", json!({"ttlSecondsAfterFinished": 60}));
        harness.advance((60 - raised_s) * SECOND - 1);
        assert!(stays(&harness), "{raised_s}");
        harness.advance(1);
        assert!(job(&harness).is_none(), "{raised_s}");
        let calls = harness.api_calls();
        assert_eq!(calls.get("get jobs 200"), Some(&reads), "{raised_s}");
    }
}

#[test]
fn unfinished_jobs_and_jobs_without_a_ttl_are_kept() {
    let harness = furnished(&options());
    create(&harness, 0);
    harness.advance(86_400 * SECOND);
    assert!(stays(&harness));
    change(&harness, "spec", json!({"ttlSecondsAfterFinished": null}));
    complete(&harness);
    harness.advance(86_400 * SECOND);
    assert!(stays(&harness));
    assert_eq!(harness.api_calls().get("get jobs 200"), None);
    // The TTL ended before it was set.
    change(&harness, "spec", json!({"ttlSecondsAfterFinished": 60}));
    harness.advance(0);
    assert!(job(&harness).is_none());
}

#[test]
fn a_job_recreated_between_read_and_deletion_is_kept() {
    let mut options = options();
    options.latency.api = Latency::Constant(100 * MS);
    let harness = furnished(&options);
    let first = create(&harness, 0);
    complete(&harness);
    let is_read = |harness: &Harness| harness.api_calls().contains_key("get jobs 200");
    for _ in 0..1_000 {
        if is_read(&harness) {
            break;
        }
        harness.advance(MS);
    }
    assert!(
        is_read(&harness) && stays(&harness),
        "the Job was read but not deleted"
    );
    let background = DeleteOptions {
        propagation: Some(Propagation::Background),
        ..DeleteOptions::default()
    };
    let api = harness.cluster().api(Kind::JOB);
    api.delete("shop", "j", &background, harness.now()).unwrap();
    let second = create(&harness, 0);
    assert_ne!(first.metadata().uid, second.metadata().uid);
    harness.advance(3_600 * SECOND);
    assert!(stays(&harness));
    let calls = harness.api_calls();
    assert_eq!(calls.get("delete jobs 409"), Some(&1));
    assert_eq!(calls.get("delete jobs 200"), None);
}

#[test]
fn without_the_controller_a_finished_job_is_kept() {
    let mut options = options();
    let words = ["*", "-podgc", "-ttl-after-finished"];
    options.services.controllers = Controllers::from_words(Rows::installed(), &words).unwrap();
    let harness = furnished(&options);
    create(&harness, 0);
    complete(&harness);
    harness.advance(3_600 * SECOND);
    assert!(stays(&harness));
}
