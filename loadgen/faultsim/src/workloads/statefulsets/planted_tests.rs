//! Planted faults: a StatefulSet controller whose requests are replaced, which the checker must
//! detect. A fault is planted for one thread, because a schedule is played on one thread.

use std::cell::Cell;
use std::sync::Arc;

use podstorm::client::Request;
use podstorm::intern::KeyId;
use podstorm::policy::Behaviour;
use podstorm::statefulset::StatefulSets;
use podstorm::workqueue::RateLimitingQueue;
use podstorm_objects::{DynamicObject, Kind, Now, Pod};
use serde_json::{Value, json};

use super::read::{POD_INDEX, POD_NAME, REVISION};
use crate::draw::draw;
use crate::objects::NAMESPACE;
use crate::play::caught;

type Replace = fn(&Request) -> Option<Vec<Request>>;

/// A function that corrupts the queue when the sync of a key begins.
type Spoil = fn(&RateLimitingQueue<KeyId>, KeyId, Now);

thread_local! {
    static PLANTED: Cell<Option<Replace>> = const { Cell::new(None) };
    static SPOIL: Cell<Option<Spoil>> = const { Cell::new(None) };
    /// The request that created a pod last.
    static CREATED: Cell<Option<Request>> = const { Cell::new(None) };
}

pub(super) fn requests(request: &Request) -> Option<Vec<Request>> {
    PLANTED.get().and_then(|replace| replace(request))
}

pub(super) fn sync_begins(queue: &RateLimitingQueue<KeyId>, key: KeyId, now: Now) {
    if let Some(spoil) = SPOIL.get() {
        spoil(queue, key, now);
    }
}

/// The maximum number of seeds to play for a fault.
const SEEDS: u64 = 200;

/// Plays seeds with the fault until the first violation in one is that of the expected invariant,
/// with `words` in the message. Without the fault, this seed must pass.
#[track_caller]
fn noticed(replace: Replace, expected: &str, words: &str) {
    PLANTED.set(Some(replace));
    find(expected, words);
}

/// Plays seeds like `noticed`, with a fault in the queue.
#[track_caller]
fn noticed_of_queue(spoil: Spoil, expected: &str, words: &str) {
    SPOIL.set(Some(spoil));
    find(expected, words);
}

#[track_caller]
fn find(expected: &str, words: &str) {
    let mut seeds = (1..=SEEDS).map(|seed| draw::<StatefulSets>(seed, &[]));
    let found = seeds.find(|schedule| {
        let violation = caught(schedule, Behaviour::Hardened).violation;
        violation.is_some_and(|it| it.invariant == expected && it.text.contains(words))
    });
    PLANTED.set(None);
    SPOIL.set(None);
    let schedule = found.unwrap_or_else(|| panic!("no violation of {expected} in {SEEDS} seeds"));
    let healthy = caught(&schedule, Behaviour::Hardened).violation;
    assert_eq!(healthy, None, "seed {}", schedule.seed);
}

/// Returns the write of an object of this kind, changed by `change`, which returns whether it
/// changed anything. `None` for any other request, and without a change.
fn put(kind: Kind, request: &Request, change: fn(&mut Value) -> bool) -> Option<Vec<Request>> {
    let (Request::PutStatus { object } | Request::Put { object } | Request::Create { object }) =
        request
    else {
        return None;
    };
    let mut value = object.to_json();
    if object.kind() != kind || !change(&mut value) {
        return None;
    }
    let object = DynamicObject::from_json(kind, value).expect("the object is valid for its kind");
    let object = Arc::new(object);
    Some(vec![match request {
        Request::PutStatus { .. } => Request::PutStatus { object },
        Request::Put { .. } => Request::Put { object },
        _ => Request::Create { object },
    }])
}

fn status(request: &Request, change: fn(&mut Value) -> bool) -> Option<Vec<Request>> {
    put(Kind::STATEFUL_SET, request, change)
}

/// Returns the creation of a pod, changed by `change`; `None` for any other request.
fn creation(request: &Request, change: fn(&mut Pod)) -> Option<Request> {
    let Request::CreatePod { namespace, pod, .. } = request else {
        return None;
    };
    let mut pod = Pod::clone(pod);
    change(&mut pod);
    Some(Request::CreatePod {
        namespace: namespace.clone(),
        name: Some(pod.metadata.name.clone()),
        pod: Arc::new(pod),
    })
}

/// Moves a pod to another ordinal.
fn move_pod(pod: &mut Pod, by: i64) {
    let meta = &mut pod.metadata;
    let moved = moved(&meta.name, by).expect("the pod has an ordinal");
    let (_, ordinal) = moved.rsplit_once('-').expect("the pod has an ordinal");
    meta.labels = meta.labels.with(POD_INDEX, ordinal);
    meta.labels = meta.labels.with(POD_NAME, &moved);
    meta.name = moved.as_str().into();
}

/// Returns the name of a pod with its ordinal changed by `by`.
fn moved(name: &str, by: i64) -> Option<String> {
    let (set, ordinal) = name.rsplit_once('-')?;
    let ordinal: i64 = ordinal.parse().ok()?;
    (ordinal + by >= 0).then(|| format!("{set}-{}", ordinal + by))
}

fn deletion(name: &str) -> Request {
    Request::DeletePod {
        namespace: NAMESPACE.into(),
        name: name.into(),
        uid: None,
    }
}

fn read(kind: Kind, name: &str) -> Request {
    Request::Get {
        kind,
        namespace: NAMESPACE.into(),
        name: name.into(),
    }
}

/// Replaces the deletion of a pod by the deletion of the pod with the previous ordinal.
fn deletes_the_one_before(request: &Request) -> Option<Vec<Request>> {
    let Request::DeletePod { name, .. } = request else {
        return None;
    };
    Some(vec![deletion(&moved(name, -1)?)])
}

#[test]
fn pods_with_wrong_names_or_labels_are_detected() {
    let far: Replace = |request| Some(vec![creation(request, |pod| move_pod(pod, 20))?]);
    noticed(far, "N1", "was created, but the wanted ordinals are");
    let unlabelled: Replace = |request| {
        let unlabelled = creation(request, |pod| {
            pod.metadata.labels = pod.metadata.labels.with(POD_NAME, "another");
        });
        Some(vec![unlabelled?])
    };
    noticed(unlabelled, "N1", "without its labels or owner");
}

#[test]
fn a_pod_created_before_the_one_below_is_ready_is_detected() {
    let next: Replace = |request| {
        let next = creation(request, |pod| move_pod(pod, 1))?;
        Some(vec![request.clone(), next])
    };
    noticed(next, "N2", "is not ready");
}

#[test]
fn two_pods_in_one_sync_are_detected() {
    let two: Replace = |request| {
        let deletions = deletes_the_one_before(request)?;
        Some(std::iter::once(request.clone()).chain(deletions).collect())
    };
    noticed(two, "N2", "in one sync");
}

#[test]
fn pods_deleted_in_the_wrong_order_are_detected() {
    noticed(deletes_the_one_before, "N3", "was deleted before");
    noticed(deletes_the_one_before, "N4", "is not updated");
    noticed(deletes_the_one_before, "N5", "below the partition");
}

#[test]
fn a_pod_deleted_without_a_reason_is_detected() {
    let first: Replace = |request| {
        let Request::PutStatus { object } = request else {
            return None;
        };
        let set = object.to_json();
        let start = set["spec"]["ordinals"]["start"].as_i64().unwrap_or(0);
        let pod = format!("{}-{start}", object.metadata().name);
        Some(vec![deletion(&pod), request.clone()])
    };
    noticed(first, "N4", "is up to date");
    noticed(first, "N4", "which only users may do");
}

#[test]
fn a_pod_with_a_wrong_revision_is_detected() {
    let wrong: Replace = |request| {
        let wrong = creation(request, |pod| {
            pod.metadata.labels = pod.metadata.labels.with(REVISION, "another");
        });
        Some(vec![wrong?])
    };
    noticed(wrong, "N5", "was created from another");
}

#[test]
fn claims_with_wrong_names_and_owners_are_detected() {
    let named: Replace = |request| {
        put(Kind::PERSISTENT_VOLUME_CLAIM, request, |claim| {
            claim["metadata"]["name"] = "mine".into();
            claim["metadata"]["resourceVersion"].is_null()
        })
    };
    noticed(named, "N6", "is not a claim of the set");
    let owned: Replace = |request| {
        put(Kind::PERSISTENT_VOLUME_CLAIM, request, |claim| {
            let owners = &mut claim["metadata"]["ownerReferences"];
            *owners =
                json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "keeper", "uid": "gone"}]);
            !claim["metadata"]["resourceVersion"].is_null()
        })
    };
    noticed(owned, "N6", "was written with the owners");
}

#[test]
fn wrong_numbers_and_deletions_of_revisions_are_detected() {
    let first: Replace = |request| {
        put(Kind::CONTROLLER_REVISION, request, |revision| {
            let number = revision["revision"].take();
            revision["revision"] = json!(1);
            number != 1
        })
    };
    noticed(first, "N7", "got the number 1");
    let needed: Replace = |request| {
        let Request::PutStatus { object } = request else {
            return None;
        };
        let update = object.to_json()["status"]["updateRevision"].clone();
        let delete = Request::Delete {
            kind: Kind::CONTROLLER_REVISION,
            namespace: NAMESPACE.into(),
            name: update.as_str()?.into(),
            options: None,
        };
        Some(vec![delete, request.clone()])
    };
    noticed(needed, "N7", "is in use");
}

#[test]
fn wrong_statuses_are_detected() {
    let fewer: Replace = |request| {
        status(request, |set| {
            let ready = set["status"]["readyReplicas"].as_i64().unwrap_or(0);
            set["status"]["readyReplicas"] = json!(ready - 1);
            set["status"]["availableReplicas"] = json!(0);
            ready > 0
        })
    };
    noticed(fewer, "N7", "readyReplicas");
    let early: Replace = |request| {
        status(request, |set| {
            let update = set["status"]["updateRevision"].clone();
            let current = std::mem::replace(&mut set["status"]["currentRevision"], update);
            current != set["status"]["updateRevision"]
        })
    };
    noticed(early, "N7", "has current revision");
    let old: Replace = |request| {
        status(request, |set| {
            let current = set["status"]["currentRevision"].clone();
            let update = std::mem::replace(&mut set["status"]["updateRevision"], current);
            update != set["status"]["updateRevision"]
        })
    };
    noticed(old, "N7", "with a different template");
    let generation: Replace = |request| {
        status(request, |set| {
            let observed = set["status"]["observedGeneration"].as_i64().unwrap_or(0);
            set["status"]["observedGeneration"] = json!(observed - 1);
            observed > 1
        })
    };
    noticed(generation, "N7", "observed generation");
}

#[test]
fn a_pod_of_a_terminating_set_is_detected() {
    let late: Replace = |request| match request {
        Request::CreatePod { .. } => {
            CREATED.set(Some(request.clone()));
            None
        }
        Request::PutStatus { object } if object.metadata().is_deleting() => {
            Some(vec![CREATED.take()?, request.clone()])
        }
        _ => None,
    };
    noticed(late, "N8", "was terminating");
}

#[test]
fn pods_that_stay_and_missing_status_writes_are_detected() {
    let stays: Replace = |request| match request {
        Request::DeletePod { name, .. } => Some(vec![read(Kind::POD, name)]),
        _ => None,
    };
    noticed(stays, "L1", "");
    let unwritten: Replace = |request| match request {
        Request::PutStatus { object } => {
            Some(vec![read(Kind::STATEFUL_SET, &object.metadata().name)])
        }
        _ => None,
    };
    noticed(unwritten, "L1", "");
}

#[test]
fn a_set_that_is_synced_forever_is_detected() {
    noticed_of_queue(
        |queue, key, now| {
            queue.add_after(key, 1_000_000_000, now.mono_ns);
        },
        "L2",
        "times in the quiet phase",
    );
}

#[test]
fn retries_without_a_back_off_are_detected() {
    noticed_of_queue(
        |queue, key, _| queue.forget(key),
        "L6",
        "with the same answer",
    );
}
