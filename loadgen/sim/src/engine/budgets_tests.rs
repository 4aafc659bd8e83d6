//! Disruption budgets in a running cluster, on both engines.

use std::sync::Arc;

use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Cluster, DeleteOptions, Eviction, ListOptions, Patch};
use podstorm_objects::disruption::BudgetStatus;
use podstorm_objects::{ApiError, Event, Kind, Object, Pod};
use serde_json::{Value, json};

use super::Harness;
use super::services_tests::{furnished, web};
use crate::options::{EngineKind, SimOptions};
use crate::rows::Rows;
use crate::services::Controllers;

const BUDGET: Kind = Kind::POD_DISRUPTION_BUDGET;
const SECOND: i64 = 1_000_000_000;
/// Longer than any wait, ns. On the threads engine this is real time, which passes only if a test
/// fails.
const LONG: i64 = 30 * SECOND;

/// Returns a cluster with one node. Pods take `startup_ns` to become ready.
fn harness(engine: EngineKind, startup_ns: i64) -> Harness {
    harness_with(&["*", "-podgc", "-nodelifecycle"], engine, startup_ns)
}

fn harness_with(controllers: &[&str], engine: EngineKind, startup_ns: i64) -> Harness {
    let mut options = SimOptions::new(engine, 1);
    options.latency.pod_startup = Latency::Constant(startup_ns);
    options.services.controllers = Controllers::from_words(Rows::installed(), controllers).unwrap();
    furnished(&options)
}

fn create(harness: &Harness, kind: Kind, value: Value) {
    let api = harness.cluster().api(kind);
    let object = api.read(value).unwrap().unwrap();
    api.create(object, harness.now()).unwrap();
}

fn create_set(harness: &Harness, replicas: i32) {
    let mut set = web();
    set.metadata.namespace = "default".into();
    set.spec.replicas = Some(replicas);
    let api = harness.cluster().api(Kind::REPLICA_SET);
    api.create(Arc::new(set), harness.now()).unwrap();
}

/// Returns the selector of the budget's pods.
fn of_web() -> Value {
    json!({"matchLabels": {"app": "web"}})
}

fn create_budget(harness: &Harness, spec: Value) {
    let metadata = json!({"name": "b", "namespace": "default"});
    let budget = json!({"metadata": metadata, "spec": spec});
    create(harness, BUDGET, budget);
}

fn status(cluster: &Cluster) -> BudgetStatus {
    let budget = cluster.api(BUDGET).get("default", "b").unwrap();
    BudgetStatus::from_json(&budget.to_json()["status"])
}

fn pod_names(cluster: &Cluster) -> Vec<String> {
    let options = ListOptions::default();
    let pods = cluster.api(Kind::POD).list(&options).unwrap().items;
    let names = pods.iter().map(|pod| pod.metadata().name.to_string());
    names.collect()
}

fn evict(harness: &Harness, name: &str) -> Result<Eviction, ApiError> {
    let (options, now) = (DeleteOptions::default(), harness.now());
    let cluster = harness.cluster();
    cluster.evict("default", name, &options, false, now)
}

fn events(cluster: &Cluster) -> Vec<String> {
    let events = cluster.list::<Event>(None).0;
    let text = |event: &Arc<Event>| {
        let topic = &event.topic;
        format!(
            "{} {} {} {}",
            topic.component, topic.kind, topic.reason, event.message
        )
    };
    events.iter().map(text).collect()
}

#[test]
fn a_drain_is_as_fast_as_the_budget_allows() {
    for engine in [EngineKind::Virtual, EngineKind::Threads] {
        let mut harness = harness(engine, SECOND / 2);
        create_set(&harness, 3);
        create_budget(&harness, json!({"minAvailable": 2, "selector": of_web()}));
        let one_allowed = |cluster: &Cluster| status(cluster).disruptions_allowed == 1;
        assert!(harness.until(LONG, one_allowed), "{engine:?}");
        let pods = pod_names(harness.cluster());
        assert_eq!(evict(&harness, &pods[0]).unwrap(), Eviction::Evicted);
        let refused = evict(&harness, &pods[1]).unwrap_err();
        assert_eq!((refused.code, refused.retry_after_seconds()), (429, None));
        assert!(refused.has_cause("DisruptionBudget"), "{refused:?}");
        // The pod is removed, and the budget's status reflects the removal; the replacement is not
        // ready yet.
        let seen = |cluster: &Cluster| status(cluster).disrupted_pods.is_empty();
        assert!(harness.until(LONG, seen), "{engine:?}");
        let refused = evict(&harness, &pods[1]).unwrap_err();
        let message = "The disruption budget b needs 2 healthy pods and has 2 currently";
        assert_eq!(refused.causes()[0].message, message);
        assert!(harness.until(LONG, one_allowed), "{engine:?}");
        // Read the status before the next eviction: in real time, the next replacement may be
        // counted already.
        let status = status(harness.cluster());
        assert_eq!((status.expected_pods, status.desired_healthy), (3, 2));
        assert_eq!(evict(&harness, &pods[1]).unwrap(), Eviction::Evicted);
    }
}

#[test]
fn a_percentage_refers_to_the_scale_of_the_pods_controllers() {
    let mut harness = harness(EngineKind::Virtual, 0);
    create_set(&harness, 5);
    create_budget(&harness, json!({"maxUnavailable": "30%", "selector": {}}));
    let counted = |cluster: &Cluster| status(cluster).current_healthy == 5;
    assert!(harness.until(LONG, counted));
    let status = status(harness.cluster());
    assert_eq!((status.desired_healthy, status.disruptions_allowed), (3, 2));
    assert_eq!(status.observed_generation, 1);
    assert_eq!(status.conditions[0].reason, "SufficientPods");
}

#[test]
fn an_evicted_pod_that_stays_is_forgotten_after_two_minutes() {
    let mut harness = harness(EngineKind::Virtual, 0);
    create_set(&harness, 2);
    create_budget(&harness, json!({"minAvailable": 1, "selector": of_web()}));
    assert!(harness.until(LONG, |cluster| status(cluster).disruptions_allowed == 1));
    let pod = pod_names(harness.cluster()).remove(0);
    let at = harness.now().wall().to_string();
    let merge = |value: Value| match value {
        Value::Object(members) => Patch::Merge(members),
        _ => unreachable!("the patch is a JSON object"),
    };
    let cluster = Arc::clone(harness.cluster());
    let awaited = merge(json!({"status": {"disruptedPods": {pod.as_str(): at}}}));
    let api = cluster.api(BUDGET);
    api.patch_status("default", "b", &awaited, harness.now())
        .unwrap();
    let marked = merge(json!({"status": {"conditions": [
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
            "lastTransitionTime": at}]}}));
    let api = cluster.api(Kind::POD);
    api.patch_status("default", &pod, &marked, harness.now())
        .unwrap();
    assert!(harness.until(LONG, |cluster| status(cluster).disruptions_allowed == 0));
    let start_ns = harness.now().mono_ns;
    let given_up = |cluster: &Cluster| status(cluster).disrupted_pods.is_empty();
    assert!(harness.until(200 * SECOND, given_up));
    let after_ns = harness.now().mono_ns - start_ns;
    let two_minutes = 119 * SECOND..121 * SECOND;
    assert!(two_minutes.contains(&after_ns), "{after_ns}");
    assert_eq!(status(&cluster).disruptions_allowed, 1);
    let target = |cluster: &Cluster| {
        let pod = cluster.get::<Pod>("default", &pod).unwrap().to_json();
        let conditions = pod["status"]["conditions"].as_array().unwrap().clone();
        let mut all = conditions.into_iter();
        let target = all.find(|one| one["type"] == "DisruptionTarget").unwrap();
        (target["status"].clone(), target["reason"].clone())
    };
    assert!(harness.until(LONG, |cluster| target(cluster).0 == "False"));
    assert_eq!(target(&cluster), ("False".into(), Value::Null));
    assert!(harness.until(LONG, |cluster| {
        events(cluster).iter().any(|event| {
        event == "controllermanager Warning NotDeleted Pod was expected by PDB default/default to \
                  be deleted but it wasn't"
    })
    }));
}

#[test]
fn a_budget_reports_missing_pods_and_fails_safe_for_jobs() {
    let mut harness = harness(EngineKind::Virtual, 0);
    create_budget(&harness, json!({"maxUnavailable": 1, "selector": of_web()}));
    assert!(harness.until(LONG, |cluster| events(cluster).contains(
        &"controllermanager Normal NoPods No matching pods found".to_owned()
    )));
    let reference = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u",
        "controller": true});
    let pod = json!({"metadata": {"name": "p", "namespace": "default", "labels": {"app": "web"},
        "ownerReferences": [reference]}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    create(&harness, Kind::POD, pod);
    let failed = |cluster: &Cluster| {
        let status = status(cluster);
        let condition = status.conditions.first();
        condition.is_some_and(|condition| {
            condition.message == "jobs.batch does not implement the scale subresource"
        })
    };
    assert!(harness.until(LONG, failed));
    let refused = evict(&harness, "p");
    // The pod is still pending, or has just started.
    assert!(refused.is_ok() || refused.unwrap_err().code == 429);
}

#[test]
fn without_budgets_an_eviction_records_no_disruption() {
    let mut harness = harness(EngineKind::Virtual, 0);
    create_set(&harness, 3);
    let ready = |cluster: &Cluster| {
        let pods = cluster.list::<Pod>(None).0;
        pods.len() == 3 && pods.iter().all(|pod| pod.is_ready())
    };
    assert!(harness.until(LONG, ready));
    let pod = pod_names(harness.cluster()).remove(0);
    assert_eq!(evict(&harness, &pod).unwrap(), Eviction::Evicted);
    let replaced = |cluster: &Cluster| ready(cluster) && !pod_names(cluster).contains(&pod);
    assert!(harness.until(LONG, replaced));
    assert!(
        harness.settle(200 * SECOND),
        "no disrupted pods are recorded"
    );
}

#[test]
fn without_the_controller_no_eviction_is_allowed() {
    let controllers = ["*", "-podgc", "-disruption"];
    let mut harness = harness_with(&controllers, EngineKind::Virtual, 0);
    create_set(&harness, 1);
    create_budget(&harness, json!({"minAvailable": 0, "selector": of_web()}));
    let ready = |cluster: &Cluster| cluster.list::<Pod>(None).0.iter().any(|pod| pod.is_ready());
    assert!(harness.until(LONG, ready));
    assert!(!harness.until(LONG, |cluster| status(cluster).observed_generation > 0));
    let pod = pod_names(harness.cluster()).remove(0);
    let refused = evict(&harness, &pod).unwrap_err();
    assert_eq!(refused.retry_after_seconds(), Some(10));
}
