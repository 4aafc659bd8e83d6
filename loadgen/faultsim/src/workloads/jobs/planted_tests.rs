//! Planted faults: a Job controller whose requests are replaced, which the checker must detect. A
//! fault is planted for one thread, because a schedule is played on one thread.

use std::cell::Cell;
use std::sync::Arc;

use podstorm::client::{Patch, Request};
use podstorm::job::Jobs;
use podstorm::job::pod::{COMPLETION_INDEX, completion_index};
use podstorm::policy::Behaviour;
use podstorm_objects::{DynamicObject, Kind, Pod};
use serde_json::{Value, json};

use super::status::owner_of;
use crate::draw::draw;
use crate::play::caught;

type Replace = fn(&Request) -> Option<Vec<Request>>;

thread_local! {
    static PLANTED: Cell<Option<Replace>> = const { Cell::new(None) };
    /// The request that created a pod last.
    static CREATED: Cell<Option<Request>> = const { Cell::new(None) };
}

pub(super) fn requests(request: &Request) -> Option<Vec<Request>> {
    PLANTED.get().and_then(|replace| replace(request))
}

/// The maximum number of seeds to play for a fault.
const SEEDS: u64 = 200;

/// Plays seeds with the fault until the first violation in one is that of the expected invariant,
/// with `words` in the message. Without the fault, this seed must pass.
#[track_caller]
fn noticed(replace: Replace, expected: &str, words: &str) {
    PLANTED.set(Some(replace));
    let mut seeds = (1..=SEEDS).map(|seed| draw::<Jobs>(seed, &[]));
    let found = seeds.find(|schedule| {
        let violation = caught(schedule, Behaviour::Hardened).violation;
        violation.is_some_and(|it| it.invariant == expected && it.text.contains(words))
    });
    PLANTED.set(None);
    let schedule = found.unwrap_or_else(|| panic!("no violation of {expected} in {SEEDS} seeds"));
    let healthy = caught(&schedule, Behaviour::Hardened).violation;
    assert_eq!(healthy, None, "seed {}", schedule.seed);
}

/// Returns the write of a status, changed by `change`, which returns whether it changed anything.
/// `None` for any other request, and without a change.
fn status(request: &Request, change: fn(&mut Value) -> bool) -> Option<Vec<Request>> {
    let Request::PutStatus { object } = request else {
        return None;
    };
    let mut job = object.to_json();
    if !change(&mut job) {
        return None;
    }
    let job = DynamicObject::from_json(Kind::JOB, job).expect("a Job");
    let object = Arc::new(job);
    Some(vec![Request::PutStatus { object }])
}

/// Returns the name of the pod whose finalizer a request removes; `None` for any other request.
fn released(request: &Request) -> Option<&str> {
    match request {
        Request::Patch { kind, name, .. } if *kind == Kind::POD => Some(name),
        _ => None,
    }
}

fn uncounted<'a>(job: &'a mut Value, list: &str) -> Option<&'a mut Vec<Value>> {
    job["status"]["uncountedTerminatedPods"][list].as_array_mut()
}

#[test]
fn decreasing_counters_and_lost_indexes_are_detected() {
    let lose: Replace = |request| {
        status(request, |job| {
            // For an elastic Job, the server permits a lower number.
            let is_elastic = job["spec"]["completions"] == job["spec"]["parallelism"];
            let has_indexes = job["status"]["completedIndexes"].is_string();
            job["status"]["completedIndexes"] = json!("");
            job["status"]["succeeded"] = json!(0);
            is_elastic && has_indexes && job["status"]["conditions"].is_null()
        })
    };
    noticed(lose, "B1", "lost a completed index");
}

#[test]
fn pods_counted_twice_or_not_at_all_are_detected() {
    let twice: Replace = |request| {
        status(request, |job| {
            let failed = job["status"]["failed"].as_i64().unwrap_or(0);
            job["status"]["failed"] = json!(failed + 1);
            failed > 0
        })
    };
    noticed(twice, "B2", "does not grow by");
    let unwritten: Replace = |request| {
        status(request, |job| {
            let lists = ["failed", "succeeded"];
            lists.iter().any(|list| {
                let is_listed = uncounted(job, list).is_some_and(|list| !list.is_empty());
                is_listed || job["status"][list].as_i64() > Some(0)
            })
        })?;
        let Request::PutStatus { object } = request else {
            return None;
        };
        Some(vec![Request::Get {
            kind: Kind::JOB,
            namespace: object.metadata().namespace.clone(),
            name: object.metadata().name.clone(),
        }])
    };
    noticed(unwritten, "B4", "is not counted");
}

#[test]
fn a_pod_counted_before_its_finalizer_is_removed_is_detected() {
    let early: Replace = |request| {
        let name = released(request)?;
        Some(vec![Request::Get {
            kind: Kind::POD,
            namespace: crate::objects::NAMESPACE.into(),
            name: name.into(),
        }])
    };
    noticed(early, "B2", "still tracked");
}

#[test]
fn counting_running_pods_is_detected() {
    let wrong: Replace = |request| {
        status(request, |job| {
            let failed = uncounted(job, "failed").map(std::mem::take);
            let failed = failed.unwrap_or_default();
            let is_wrong = !failed.is_empty() && job["spec"]["completionMode"] == "NonIndexed";
            job["status"]["uncountedTerminatedPods"] = json!({"succeeded": failed});
            is_wrong
        })
    };
    noticed(wrong, "B3", "as succeeded");
}

#[test]
fn writes_of_finished_jobs_are_detected() {
    let after: Replace = |request| {
        let ended = status(request, |job| !job["status"]["completionTime"].is_null())?;
        let Request::PutStatus { object } = request else {
            return None;
        };
        let again = json!({"status": {"ready": null}});
        Some(
            ended
                .into_iter()
                .chain([Request::Patch {
                    kind: Kind::JOB,
                    namespace: object.metadata().namespace.clone(),
                    name: object.metadata().name.clone(),
                    patch: Box::new(Patch::Merge(again.as_object()?.clone())),
                    of_status: true,
                }])
                .collect(),
        )
    };
    noticed(after, "B5", "after its end");
}

#[test]
fn a_job_that_ends_too_early_is_detected() {
    let early: Replace = |request| {
        status(request, |job| {
            let is_new = job["status"]["conditions"].is_null();
            job["status"]["conditions"] = json!([{"type": "SuccessCriteriaMet", "status": "True",
                "reason": "CompletionsReached"}]);
            is_new
        })
    };
    noticed(early, "B6", "CompletionsReached");
}

#[test]
fn excess_pods_are_detected() {
    let more: Replace = |request| match request {
        Request::CreatePod { .. } => Some(vec![request.clone(), request.clone()]),
        _ => None,
    };
    noticed(more, "B8", "");
}

#[test]
fn a_pod_beyond_the_completions_is_detected() {
    let beyond: Replace = |request| match request {
        Request::CreatePod {
            namespace,
            pod,
            name,
        } if completion_index(&pod.metadata.annotations) >= 0 => {
            let mut pod = Pod::clone(pod);
            pod.metadata.annotations = pod.metadata.annotations.with(COMPLETION_INDEX, "99");
            Some(vec![Request::CreatePod {
                namespace: namespace.clone(),
                pod: Arc::new(pod),
                name: name.clone(),
            }])
        }
        _ => None,
    };
    noticed(beyond, "B8", "index 99");
}

#[test]
fn a_pod_of_a_suspended_job_is_detected() {
    let late: Replace = |request| match request {
        Request::CreatePod { .. } => {
            CREATED.set(Some(request.clone()));
            None
        }
        Request::PutStatus { object } => {
            let created = CREATED.take()?;
            let Request::CreatePod { pod, .. } = &created else {
                return None;
            };
            let is_own = owner_of(pod) == Some(&object.metadata().uid);
            let is_suspended = object.to_json()["spec"]["suspend"] == true;
            (is_own && is_suspended).then(|| vec![request.clone(), created])
        }
        _ => None,
    };
    noticed(late, "B7", "was created for");
}

#[test]
fn pods_that_stay_and_missing_status_writes_are_detected() {
    let stays: Replace = |request| {
        let Request::DeletePod {
            namespace, name, ..
        } = request
        else {
            return None;
        };
        Some(vec![Request::Get {
            kind: Kind::POD,
            namespace: namespace.clone(),
            name: name.clone(),
        }])
    };
    noticed(stays, "L1", "active pods");
    let wrong: Replace = |request| {
        status(request, |job| {
            let ready = job["status"]["ready"].as_i64().unwrap_or(0);
            job["status"]["ready"] = json!(ready - 1);
            ready > 1
        })
    };
    noticed(wrong, "L1", "ready");
}
