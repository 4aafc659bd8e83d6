//! The disruption controller over a cluster: what wakes it, and what it writes.

use std::sync::atomic::AtomicU32;

use podstorm_objects::{ConditionStatus, ConditionType};
use serde_json::{Value, json};

use super::*;
use crate::testing::{at, cluster, pod, refused};
use crate::{DeleteOptions, Patch};

/// Turns the controller on; the number counts its wake-ups.
fn turn_on(cluster: &Cluster) -> Arc<AtomicU32> {
    let calls = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&calls);
    cluster.set_disruption_waker(Some(Arc::new(move || {
        counter.fetch_add(1, Ordering::Relaxed);
    })));
    calls
}

fn create_budget(cluster: &Cluster, name: &str, spec: Value) {
    let object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    let object = DynamicObject::from_json(builtin::BUDGET, object).unwrap();
    let api = cluster.api(builtin::BUDGET);
    api.create(Arc::new(object), at(0)).unwrap();
}

fn web(limit: Value) -> Value {
    let mut spec = limit;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    spec
}

fn ready_pod(cluster: &Cluster, name: &str) -> Arc<Pod> {
    let mut pod = Pod::clone(&cluster.create(pod(name, json!({})), at(0)).unwrap());
    pod.status.phase = podstorm_objects::PodPhase::Running;
    let conditions = &mut pod.status.conditions;
    conditions.set(ConditionType::Ready, ConditionStatus::True, at(0).wall());
    cluster.update_status(pod, at(0)).unwrap()
}

fn sync(cluster: &Cluster, seconds: i64) -> Vec<&'static str> {
    let syncs = cluster.sync_disruptions(100, at(seconds));
    syncs.events.iter().map(|event| event.reason).collect()
}

fn allowed(cluster: &Cluster, name: &str) -> i64 {
    let budget = cluster.budget("default", name).unwrap();
    budget.status.disruptions_allowed
}

fn evict(cluster: &Cluster, name: &str, seconds: i64) -> Result<crate::Eviction, ApiError> {
    let options = DeleteOptions::default();
    cluster.evict("default", name, &options, false, at(seconds))
}

#[test]
fn budgets_and_their_pods_wake_the_controller_and_nothing_else_does() {
    let cluster = cluster();
    let calls = turn_on(&cluster);
    ready_pod(&cluster, "p0");
    let woken = || calls.swap(0, Ordering::Relaxed) > 0;
    assert!(!woken(), "there is no budget");
    create_budget(&cluster, "b", web(json!({"minAvailable": 0})));
    assert!(woken());
    let syncs = cluster.sync_disruptions(100, at(0));
    assert_eq!(syncs.done, 2, "its own write queues the budget once more");
    assert_eq!(syncs.next_due_ns, None, "and needs no other");
    assert_eq!(allowed(&cluster, "b"), 1);
    woken();
    let other = json!({"metadata": {"labels": {"app": "other"}}});
    cluster.create(pod("q", other), at(0)).unwrap();
    assert!(!woken(), "no budget selects it");
    ready_pod(&cluster, "p1");
    assert!(woken());
    sync(&cluster, 0);
    assert_eq!(allowed(&cluster, "b"), 2);
    cluster.set_disruption_waker(None);
    ready_pod(&cluster, "p2");
    assert_eq!(cluster.sync_disruptions(100, at(0)).done, 0, "it is off");
    turn_on(&cluster);
    sync(&cluster, 0);
    assert_eq!(allowed(&cluster, "b"), 3, "what was there is looked at");
}

#[test]
fn a_pod_of_two_budgets_wakes_the_first_and_is_warned() {
    let cluster = cluster();
    turn_on(&cluster);
    for name in ["b1", "b0"] {
        create_budget(&cluster, name, web(json!({"minAvailable": 0})));
    }
    assert_eq!(sync(&cluster, 0), ["NoPods"; 4], "each sync says so");
    cluster.create(pod("p", json!({})), at(0)).unwrap();
    let syncs = cluster.sync_disruptions(100, at(0));
    assert_eq!(syncs.done, 2);
    assert_eq!(
        syncs.events[0].message,
        "Pod \"default\"/\"p\" matches multiple PodDisruptionBudgets.  Chose \"b0\" arbitrarily."
    );
    ready_pod(&cluster, "q");
    sync(&cluster, 0);
    let crate::Eviction::Refused(why) = evict(&cluster, "q", 0).unwrap() else {
        panic!("two budgets select it");
    };
    assert_eq!(why.code, 500);
    // A budget that is gone or selects others no longer counts.
    let api = cluster.api(builtin::BUDGET);
    let patch = json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}});
    let patch = Patch::Merge(patch.as_object().unwrap().clone());
    api.patch("default", "b0", &patch, at(0)).unwrap();
    sync(&cluster, 0);
    ready_pod(&cluster, "r");
    sync(&cluster, 0);
    assert_eq!(allowed(&cluster, "b1"), 2);
}

#[test]
fn evictions_take_from_the_budget_until_the_controller_counts_again() {
    let cluster = cluster();
    turn_on(&cluster);
    create_budget(&cluster, "b", web(json!({"minAvailable": 1})));
    let early = ready_pod(&cluster, "p0");
    assert_eq!(refused(evict(&cluster, "p0", 0)), "429 TooManyRequests");
    assert_eq!(
        evict(&cluster, "p0", 0).unwrap_err().retry_after_seconds(),
        Some(10),
        "the budget was not looked at yet"
    );
    let stored = cluster.get::<Pod>("default", "p0").unwrap();
    assert_eq!(stored, early, "a refusal leaves no mark");
    ready_pod(&cluster, "p1");
    sync(&cluster, 0);
    let tried = cluster.evict("default", "p0", &DeleteOptions::default(), true, at(0));
    tried.unwrap();
    assert_eq!(allowed(&cluster, "b"), 1, "a dry run takes nothing");
    evict(&cluster, "p0", 0).unwrap();
    assert!(cluster.get::<Pod>("default", "p0").is_err());
    let budget = cluster.budget("default", "b").unwrap();
    assert_eq!(budget.status.disrupted_pods["p0"], at(0).wall());
    assert_eq!(allowed(&cluster, "b"), 0);
    assert_eq!(refused(evict(&cluster, "p1", 0)), "429 TooManyRequests");
    assert_eq!(refused(evict(&cluster, "p0", 0)), "404 NotFound");
    sync(&cluster, 0);
    let budget = cluster.budget("default", "b").unwrap();
    assert!(budget.status.disrupted_pods.is_empty());
}

#[test]
fn pods_that_serve_nobody_need_no_budget() {
    let cluster = cluster();
    turn_on(&cluster);
    create_budget(&cluster, "b", web(json!({"maxUnavailable": 0})));
    cluster.create(pod("pending", json!({})), at(0)).unwrap();
    sync(&cluster, 0);
    evict(&cluster, "pending", 0).unwrap();
    assert!(cluster.get::<Pod>("default", "pending").is_err());
    assert_eq!(refused(evict(&cluster, "missing", 0)), "404 NotFound");
    let options = DeleteOptions::default();
    let elsewhere = cluster.evict("nowhere", "p", &options, false, at(0));
    let message = elsewhere.unwrap_err().message;
    assert_eq!(message, "namespaces \"nowhere\" not found");
}

#[test]
fn an_evicted_pod_that_stays_is_spared_in_the_end() {
    let cluster = cluster();
    turn_on(&cluster);
    let held = json!({"metadata": {"finalizers": ["a.b/c"]}});
    cluster.create(pod("held", held), at(0)).unwrap();
    ready_pod(&cluster, "p");
    // The deletion is refused after the pod was marked.
    let options = DeleteOptions {
        propagation: Some(crate::Propagation::Background),
        orphan_dependents: Some(true),
        ..DeleteOptions::default()
    };
    let failed = cluster.evict("default", "p", &options, false, at(0));
    assert_eq!(refused(failed), "422 Invalid");
    evict(&cluster, "held", 0).unwrap();
    let marked = |name: &str| {
        let pod = cluster.get::<Pod>("default", name).unwrap();
        stale_from_ns(&pod).is_some()
    };
    assert!(marked("p"));
    assert!(!marked("held"), "its deletion has begun");
    create_budget(&cluster, "b", web(json!({"minAvailable": 0})));
    // A controller that starts later finds it too.
    turn_on(&cluster);
    let due_ns = cluster.sync_disruptions(100, at(119)).next_due_ns;
    assert_eq!(due_ns, Some(at(120).mono_ns));
    assert!(marked("p"));
    sync(&cluster, 120);
    assert!(!marked("p"));
    assert_eq!(cluster.sync_disruptions(100, at(500)).next_due_ns, None);
}

/// The other rules of a budget are in the recordings of requests.
#[test]
fn a_limit_is_a_number_of_pods_or_a_plain_percentage() {
    let cluster = cluster();
    let of = |spec: Value| {
        let object = json!({"metadata": {"name": "b", "namespace": "default"}, "spec": spec});
        DynamicObject::from_json(builtin::BUDGET, object)
    };
    for limit in ["101%", "99999999999%", "+5%"] {
        let object = of(json!({"maxUnavailable": limit})).unwrap();
        let created = cluster.api(builtin::BUDGET).create(Arc::new(object), at(0));
        let error = created.unwrap_err();
        assert_eq!(error.causes()[0].field, "spec.maxUnavailable", "{limit}");
    }
    assert!(of(json!({"minAvailable": true})).is_err());
    assert!(of(json!({"minAvailable": 3_000_000_000_i64})).is_err());
}
