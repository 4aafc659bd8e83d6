//! Tests of the lives of pods as a client's watch sees them: step by step, and identical on both
//! engines.

use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Cluster, DeleteOptions, Watch, WatchFrom, WatchOptions};
use podstorm_objects::{
    Kind, Namespace, Node, Object, Pod, PodPhase, ReplicaSet, Resource, Str, WatchEvent,
};
use serde_json::{Value, json};

use super::Harness;
use super::services_tests::{furnished, web};
use crate::options::{EngineKind, SimOptions};

const SECOND_NS: i64 = 1_000_000_000;

fn options(engine: EngineKind) -> SimOptions {
    let mut options = SimOptions::new(engine, 1);
    options.latency.pod_startup = Latency::Constant(2 * SECOND_NS);
    options.latency.pod_termination = Latency::Constant(SECOND_NS);
    options.time_scale = 50.0;
    options
}

fn pod(name: &str, script: &str, policy: &str) -> Pod {
    let annotations = json!({"podstorm/script": script});
    let spec = json!({"restartPolicy": policy, "containers": [{"name": "c", "image": "i"}]});
    let pod = json!({"metadata": {"name": name, "namespace": "shop", "annotations": annotations},
        "spec": spec});
    Pod::from_json(pod).unwrap()
}

fn watch(cluster: &Cluster) -> Watch<Pod> {
    let options = WatchOptions::default();
    cluster.watch::<Pod>(WatchFrom::Initial, options).unwrap()
}

/// Returns the watch events since the last call, one line each.
fn told(harness: &Harness, watch: &mut Watch<Pod>) -> Vec<String> {
    let mut events = Vec::new();
    while watch.poll(1000, harness.now(), &mut events).more {}
    events.into_iter().filter_map(line).collect()
}

fn line(event: WatchEvent<Pod>) -> Option<String> {
    let (kind, pod) = match event {
        WatchEvent::Added(pod) => ("ADDED", pod),
        WatchEvent::Modified(pod) => ("MODIFIED", pod),
        WatchEvent::Deleted(pod) => ("DELETED", pod),
        WatchEvent::Bookmark { .. } | WatchEvent::Error(_) => return None,
    };
    let value = pod.to_json();
    let status = &value["status"];
    let container = &status["containerStatuses"][0];
    let state = match container["state"]
        .as_object()
        .and_then(|it| it.iter().next())
    {
        None => "-".to_owned(),
        Some((kind, state)) => match state["reason"].as_str() {
            Some(reason) => format!("{reason} {}", state["exitCode"]).replace(" null", ""),
            None => kind.clone(),
        },
    };
    let grace = &value["metadata"]["deletionGracePeriodSeconds"];
    let generation = &status["observedGeneration"];
    let ready = if pod.is_ready() { "ready" } else { "unready" };
    let phase = status["phase"].as_str().unwrap_or("");
    Some(
        format!("{kind} {phase} {ready} {state} seen {generation} grace {grace}")
            .replace(" seen null", "")
            .replace(" grace null", ""),
    )
}

/// Runs the cluster until the pod settles in the given phase; with `None`, until it is deleted.
fn until(harness: &mut Harness, name: &str, phase: Option<PodPhase>) {
    let reached = harness.until(600 * SECOND_NS, |cluster| {
        match cluster.get::<Pod>("shop", name) {
            Ok(pod) => Some(pod.status.phase) == phase,
            Err(_) => phase.is_none(),
        }
    });
    assert!(reached, "{name} {phase:?}");
}

fn delete(harness: &Harness, name: &str) {
    let options = DeleteOptions::default();
    let (cluster, now) = (harness.cluster(), harness.now());
    cluster.delete::<Pod>("shop", name, &options, now).unwrap();
}

/// Returns the watch events of a pod that is deleted while it is running.
fn deleted(engine: EngineKind) -> Vec<String> {
    let mut harness = furnished(&options(engine));
    let mut seen = watch(harness.cluster());
    let made = pod("p", "stop=2s", "Always");
    harness.cluster().create(made, harness.now()).unwrap();
    until(&mut harness, "p", Some(PodPhase::Running));
    delete(&harness, "p");
    until(&mut harness, "p", None);
    told(&harness, &mut seen)
}

#[test]
fn both_engines_show_every_step_of_a_deletion() {
    let expected = [
        "ADDED Pending unready -",
        "MODIFIED Pending unready -",
        "MODIFIED Pending unready ContainerCreating seen 1",
        "MODIFIED Running ready running seen 1",
        "MODIFIED Running ready running seen 1 grace 30",
        "MODIFIED Running ready running seen 2 grace 30",
        "MODIFIED Succeeded unready Completed 0 seen 2 grace 30",
        "MODIFIED Succeeded unready Completed 0 seen 2 grace 0",
        "DELETED Succeeded unready Completed 0 seen 2 grace 0",
    ];
    assert_eq!(deleted(EngineKind::Virtual), expected);
    assert_eq!(deleted(EngineKind::Threads), expected);
}

/// Returns the watch events of a pod that crashes twice and then succeeds.
fn crashes(engine: EngineKind) -> Vec<String> {
    let mut harness = furnished(&options(engine));
    let mut seen = watch(harness.cluster());
    let made = pod("p", "run=3s exit=1,SIGKILL,0", "OnFailure");
    harness.cluster().create(made, harness.now()).unwrap();
    until(&mut harness, "p", Some(PodPhase::Succeeded));
    told(&harness, &mut seen)
}

#[test]
fn a_pod_restarts_and_ends_the_same_on_both_engines() {
    let expected = [
        "MODIFIED Running ready running seen 1",
        "MODIFIED Running unready Error 1 seen 1",
        "MODIFIED Running ready running seen 1",
        "MODIFIED Running unready Error 137 seen 1",
        "MODIFIED Running unready CrashLoopBackOff seen 1",
        "MODIFIED Running ready running seen 1",
        "MODIFIED Succeeded unready Completed 0 seen 1",
    ];
    for engine in [EngineKind::Virtual, EngineKind::Threads] {
        assert_eq!(crashes(engine)[3..], expected, "{engine:?}");
    }
}

/// Removes the finalizers of a pod.
fn release(harness: &Harness, name: &str) {
    let cluster = harness.cluster();
    let mut freed = Pod::clone(&cluster.get::<Pod>("shop", name).unwrap());
    freed.metadata.finalizers = None;
    cluster.update(freed, harness.now()).unwrap();
}

#[test]
fn a_deleted_pod_ends_but_stays_until_its_finalizer_is_removed() {
    let mut harness = furnished(&options(EngineKind::Virtual));
    let mut made = pod("p", "", "Never");
    made.metadata.finalizers = Some(vec![Str::from("example.com/hold")].into());
    harness.cluster().create(made, harness.now()).unwrap();
    until(&mut harness, "p", Some(PodPhase::Running));
    let mut seen = watch(harness.cluster());
    told(&harness, &mut seen);
    delete(&harness, "p");
    until(&mut harness, "p", Some(PodPhase::Failed));
    assert!(!harness.until(600 * SECOND_NS, |_| false));
    assert_eq!(
        told(&harness, &mut seen),
        [
            "MODIFIED Running ready running seen 1 grace 30",
            "MODIFIED Running ready running seen 2 grace 30",
            "MODIFIED Failed unready Error 143 seen 2 grace 30",
            "MODIFIED Failed unready Error 143 seen 2 grace 0",
        ]
    );
    release(&harness, "p");
    until(&mut harness, "p", None);
    assert_eq!(
        told(&harness, &mut seen),
        ["DELETED Failed unready Error 143 seen 2 grace 0"]
    );
}

#[test]
fn a_force_deleted_pod_with_a_finalizer_still_ends() {
    let mut harness = furnished(&options(EngineKind::Virtual));
    let mut made = pod("p", "", "Never");
    made.metadata.finalizers = Some(vec![Str::from("example.com/hold")].into());
    harness.cluster().create(made, harness.now()).unwrap();
    until(&mut harness, "p", Some(PodPhase::Running));
    let mut seen = watch(harness.cluster());
    told(&harness, &mut seen);
    let at_once = DeleteOptions {
        grace_period_seconds: Some(0),
        ..DeleteOptions::default()
    };
    let (cluster, now) = (harness.cluster(), harness.now());
    cluster.delete::<Pod>("shop", "p", &at_once, now).unwrap();
    until(&mut harness, "p", Some(PodPhase::Failed));
    assert!(!harness.until(600 * SECOND_NS, |_| false));
    assert_eq!(
        told(&harness, &mut seen),
        [
            "MODIFIED Running ready running seen 1 grace 0",
            "MODIFIED Running ready running seen 2 grace 0",
            "MODIFIED Failed unready Error 143 seen 2 grace 0",
        ]
    );
}

/// Returns a cluster as in runs, not a served one, with a node and a namespace.
fn of_a_run() -> Harness {
    let harness = Harness::new(&options(EngineKind::Virtual));
    let (cluster, now) = (harness.cluster(), harness.now());
    let named = |name: &str| json!({"metadata": {"name": name}});
    let namespace = Namespace::from_json(named("shop")).unwrap();
    cluster.create(namespace, now).unwrap();
    let node = json!({"metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "3"}}});
    cluster.import(Node::from_json(node).unwrap(), now).unwrap();
    harness
}

#[test]
fn a_finalizer_also_keeps_an_ended_pod_in_a_run() {
    let mut harness = of_a_run();
    let mut made = pod("p", "", "Always");
    made.metadata.annotations = Default::default();
    made.metadata.finalizers = Some(vec![Str::from("example.com/hold")].into());
    harness.cluster().create(made, harness.now()).unwrap();
    until(&mut harness, "p", Some(PodPhase::Running));
    delete(&harness, "p");
    until(&mut harness, "p", Some(PodPhase::Succeeded));
    let held = harness.cluster().get::<Pod>("shop", "p").unwrap();
    assert!(held.metadata.is_deleting() && !held.is_ready());
    let container = &held.to_json()["status"]["containerStatuses"][0];
    assert_eq!(container["state"]["terminated"]["exitCode"], 0);
    assert!(harness.settle(600 * SECOND_NS));
    release(&harness, "p");
    until(&mut harness, "p", None);
}

#[test]
fn replica_set_pods_in_a_run_restart_in_place_by_script() {
    let mut harness = of_a_run();
    let mut value = web().to_json();
    let annotations = json!({"podstorm/script": "run=5s,never exit=1"});
    value["spec"]["template"]["metadata"]["annotations"] = annotations;
    let set = ReplicaSet::from_json(value).unwrap();
    harness.cluster().create(set, harness.now()).unwrap();
    assert!(harness.settle(600 * SECOND_NS));
    let (pods, _) = harness.cluster().list::<Pod>(Some("shop"));
    let restarts = |pod: &Pod| pod.status.container_statuses[0].restart_count;
    let found: Vec<_> = pods
        .iter()
        .map(|it| (it.is_ready(), restarts(it)))
        .collect();
    assert_eq!(found, [(true, 1), (true, 1)], "exactly two pods");
    assert_eq!(pods[0].status.phase, PodPhase::Running);
}

#[test]
fn pods_that_finish_make_room_for_others() {
    let mut harness = of_a_run();
    for number in 0..9 {
        let made = pod(&format!("p{number}"), "run=4s", "Never");
        harness.cluster().create(made, harness.now()).unwrap();
    }
    assert!(harness.settle(600 * SECOND_NS));
    let (pods, _) = harness.cluster().list::<Pod>(Some("shop"));
    assert_eq!(pods.len(), 9);
    assert!(
        pods.iter()
            .all(|pod| pod.status.phase == PodPhase::Succeeded)
    );
    let now_ns = harness.now().mono_ns;
    assert_eq!(
        now_ns,
        18 * SECOND_NS,
        "three at a time take six seconds each"
    );
}

#[test]
fn a_script_takes_effect_when_it_is_added() {
    let mut harness = furnished(&options(EngineKind::Virtual));
    harness.cluster().create(web(), harness.now()).unwrap();
    let ready = |cluster: &Cluster| {
        let (pods, _) = cluster.list::<Pod>(Some("shop"));
        pods.iter().filter(|pod| pod.is_ready()).count()
    };
    assert!(harness.until(60 * SECOND_NS, |cluster| ready(cluster) == 2));
    let (cluster, now) = (harness.cluster().clone(), harness.now());
    let mut changed = Pod::clone(&cluster.list::<Pod>(Some("shop")).0[0]);
    let script: Value = json!({"podstorm/script": "ready=never"});
    changed.metadata.annotations = podstorm_objects::Labels::from_json(script).unwrap();
    let name = changed.metadata.name.clone();
    cluster.update(changed, now).unwrap();
    assert!(harness.until(5 * SECOND_NS, |cluster| ready(cluster) == 1));
    // Without the script, the pod behaves like any other.
    let mut changed = Pod::clone(&cluster.get::<Pod>("shop", &name).unwrap());
    changed.metadata.annotations = Default::default();
    cluster.update(changed, harness.now()).unwrap();
    assert!(harness.until(15 * SECOND_NS, |cluster| ready(cluster) == 2));
}

#[test]
fn a_job_with_a_missing_image_is_active_until_its_deadline() {
    let harness = furnished(&options(EngineKind::Virtual)).started();
    let api = harness.cluster().api(Kind::JOB);
    let job = json!({"metadata": {"name": "render", "namespace": "shop"},
        "spec": {"backoffLimit": 0, "activeDeadlineSeconds": 600,
            "template": {"metadata": {"annotations": {"podstorm/script": "pull=fail"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:typo"}]}}}});
    api.create(api.read(job).unwrap().unwrap(), harness.now())
        .unwrap();
    let status = || api.get("shop", "render").unwrap().to_json()["status"].clone();
    let mut reasons = Vec::new();
    for _ in 0..59 {
        harness.advance(10 * SECOND_NS);
        let (pods, _) = harness.cluster().list::<Pod>(Some("shop"));
        assert_eq!(pods.len(), 1);
        let pod = pods[0].to_json()["status"].clone();
        assert_eq!(pod["phase"], "Pending");
        let reason = &pod["containerStatuses"][0]["state"]["waiting"]["reason"];
        reasons.push(reason.as_str().unwrap().to_owned());
        assert_eq!(
            (&status()["active"], &status()["failed"]),
            (&json!(1), &Value::Null)
        );
    }
    let is_of_pull = |it: &String| ["ErrImagePull", "ImagePullBackOff"].contains(&it.as_str());
    assert!(reasons.iter().all(is_of_pull), "{reasons:?}");
    assert!(
        reasons.iter().any(|it| it == "ImagePullBackOff"),
        "{reasons:?}"
    );
    harness.advance(60 * SECOND_NS);
    let conditions = status()["conditions"].clone();
    let failed = conditions.as_array().unwrap().iter();
    let mut failed = failed.filter(|it| it["type"] == "Failed");
    assert_eq!(failed.next().unwrap()["reason"], "DeadlineExceeded");
}
