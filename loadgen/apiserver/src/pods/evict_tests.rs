//! Tests of evictions in a cluster. The tests write the status of budgets, as their controller
//! would.

use podstorm_objects::disruption::stale_from_ns;
use podstorm_objects::{ConditionStatus, ConditionType};
use serde_json::{Value, json};

use super::*;
use crate::Patch;
use crate::testing::{at, cluster, pod, refused};

fn create_budget(cluster: &Cluster, name: &str, limit: Value) {
    let mut spec = limit;
    spec["selector"] = json!({"matchLabels": {"app": "web"}});
    let object = json!({"metadata": {"name": name, "namespace": "default"}, "spec": spec});
    let object = DynamicObject::from_json(BUDGET, object).unwrap();
    cluster.api(BUDGET).create(Arc::new(object), at(0)).unwrap();
}

/// Writes a status as the disruption controller would.
fn count(cluster: &Cluster, name: &str, allowed: i64) {
    let status = json!({"status": {"observedGeneration": 1, "disruptionsAllowed": allowed,
        "currentHealthy": 2, "desiredHealthy": 2 - allowed, "expectedPods": 2,
        "disruptedPods": null}});
    let patch = Patch::Merge(status.as_object().unwrap().clone());
    let api = cluster.api(BUDGET);
    api.patch_status("default", name, &patch, at(0)).unwrap();
}

fn ready_pod(cluster: &Cluster, name: &str) -> Arc<Pod> {
    let mut pod = Pod::clone(&cluster.create(pod(name, json!({})), at(0)).unwrap());
    pod.status.phase = PodPhase::Running;
    let conditions = &mut pod.status.conditions;
    conditions.set(ConditionType::Ready, ConditionStatus::True, at(0).wall());
    cluster.update_status(pod, at(0)).unwrap()
}

fn budget(cluster: &Cluster, name: &str) -> Budget {
    let stored = cluster.api(BUDGET).get("default", name).unwrap();
    Budget::from_object(stored.downcast_ref().unwrap())
}

fn evict(cluster: &Cluster, name: &str) -> Result<Eviction, ApiError> {
    let options = DeleteOptions::default();
    cluster.evict("default", name, &options, false, at(0))
}

#[test]
fn evictions_use_up_the_budget_until_it_is_counted_again() {
    let cluster = cluster();
    create_budget(&cluster, "b", json!({"minAvailable": 1}));
    let early = ready_pod(&cluster, "p0");
    ready_pod(&cluster, "p1");
    let uncounted = evict(&cluster, "p0").unwrap_err();
    assert_eq!(uncounted.retry_after_seconds(), Some(10));
    assert_eq!(refused(Err::<(), _>(uncounted)), "429 TooManyRequests");
    let stored = cluster.get::<Pod>("default", "p0").unwrap();
    assert_eq!(stored, early, "a refused eviction does not mark the pod");
    count(&cluster, "b", 1);
    let tried = cluster.evict("default", "p0", &DeleteOptions::default(), true, at(0));
    tried.unwrap();
    let status = budget(&cluster, "b").status;
    assert_eq!(
        status.disruptions_allowed, 1,
        "a dry run uses no disruption"
    );
    evict(&cluster, "p0").unwrap();
    assert!(cluster.get::<Pod>("default", "p0").is_err());
    let status = budget(&cluster, "b").status;
    assert_eq!(status.disrupted_pods["p0"], at(0).wall());
    assert_eq!(status.disruptions_allowed, 0);
    assert_eq!(refused(evict(&cluster, "p1")), "429 TooManyRequests");
    assert_eq!(refused(evict(&cluster, "p0")), "404 NotFound");
}

#[test]
fn a_pod_with_two_budgets_is_not_evicted() {
    let cluster = cluster();
    for name in ["b0", "b1"] {
        create_budget(&cluster, name, json!({"minAvailable": 0}));
        count(&cluster, name, 1);
    }
    ready_pod(&cluster, "p");
    let Eviction::Refused(why) = evict(&cluster, "p").unwrap() else {
        panic!("two budgets select the pod");
    };
    assert_eq!(why.code, 500);
}

#[test]
fn pods_that_serve_no_traffic_need_no_budget() {
    let cluster = cluster();
    create_budget(&cluster, "b", json!({"maxUnavailable": 0}));
    cluster.create(pod("pending", json!({})), at(0)).unwrap();
    evict(&cluster, "pending").unwrap();
    assert!(cluster.get::<Pod>("default", "pending").is_err());
    assert_eq!(refused(evict(&cluster, "missing")), "404 NotFound");
    let options = DeleteOptions::default();
    let elsewhere = cluster.evict("nowhere", "p", &options, false, at(0));
    let message = elsewhere.unwrap_err().message;
    assert_eq!(message, "namespaces \"nowhere\" not found");
}

#[test]
fn a_pod_is_marked_before_its_deletion_unless_it_has_begun() {
    let cluster = cluster();
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
    evict(&cluster, "held").unwrap();
    let marked = |name: &str| {
        let pod = cluster.get::<Pod>("default", name).unwrap();
        stale_from_ns(&pod).is_some()
    };
    assert!(marked("p"));
    assert!(!marked("held"), "the pod's deletion has begun");
}

/// The recorded requests cover the other rules of a budget.
#[test]
fn a_limit_of_a_budget_is_a_number_or_a_plain_percentage() {
    let cluster = cluster();
    let of = |spec: Value| {
        let object = json!({"metadata": {"name": "b", "namespace": "default"}, "spec": spec});
        // The server's row of the kind contains the types of the fields.
        let kind = crate::kind_named("PodDisruptionBudget").unwrap();
        cluster.api(kind).read(object).unwrap()
    };
    for limit in ["101%", "99999999999%", "+5%"] {
        let object = of(json!({"maxUnavailable": limit})).unwrap();
        let created = cluster.api(BUDGET).create(object, at(0));
        let error = created.unwrap_err();
        assert_eq!(error.causes()[0].field, "spec.maxUnavailable", "{limit}");
    }
    assert!(of(json!({"minAvailable": true})).is_err());
    assert!(of(json!({"minAvailable": 3_000_000_000_i64})).is_err());
}
