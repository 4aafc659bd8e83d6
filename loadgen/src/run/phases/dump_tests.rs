//! Tests of runs over dumps of clusters, as `kubectl get deploy,rs,pods,nodes -A -o json` writes
//! them: a run does not change a cluster in its desired state, and neither unhealthy pods nor
//! outdated statuses let a run fail or delay it.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};

use crate::manifest::{self, Loaded};
use crate::result::RunResult;
use crate::run;
use crate::scenario::Scenario;
use crate::settings::EngineKind;
use crate::settings::resolve::{Machine, SettingsRequest, resolve};

/// The state of a pod in a dump that a test generates.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Pod {
    Ready,
    CrashLoops,
    PullsNoImage,
    FitsNowhere,
    Evicted,
    Terminating,
    HeldByFinalizer,
}

impl Pod {
    /// Reports whether the pod is inactive and was replaced long ago.
    fn is_replaced(self) -> bool {
        matches!(self, Pod::Evicted | Pod::Terminating | Pod::HeldByFinalizer)
    }
}

const STARTED: &str = "2026-11-01T08:00:00Z";

fn pod_json(set: usize, number: usize, pod: Pod) -> String {
    let (ready, phase) = match pod {
        Pod::Ready | Pod::Terminating | Pod::HeldByFinalizer => (true, "Running"),
        Pod::CrashLoops => (false, "Running"),
        Pod::PullsNoImage | Pod::FitsNowhere => (false, "Pending"),
        Pod::Evicted => (false, "Failed"),
    };
    let node = match pod {
        Pod::FitsNowhere => String::new(),
        // 100 pods are on each node, which has room for 10 more.
        _ => format!(r#""nodeName":"node-{}","#, (set * 50 + number) / 100),
    };
    let word = if ready { "True" } else { "False" };
    let mut meta = format!(
        r#""name":"web-{set}-{number:05}","namespace":"team-{}","uid":"00000000-0000-4000-8000-{:012x}",
        "creationTimestamp":"{STARTED}","labels":{{"app":"web-{set}"}},"ownerReferences":[{{
        "apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-{set}","controller":true,
        "blockOwnerDeletion":true,"uid":"00000000-0000-4000-9000-{set:012x}"}}]"#,
        set % 20,
        set * 1_000 + number,
    );
    if matches!(pod, Pod::Terminating | Pod::HeldByFinalizer) {
        let _infallible = write!(
            meta,
            r#","deletionTimestamp":"{STARTED}","deletionGracePeriodSeconds":30"#
        );
    }
    if pod == Pod::HeldByFinalizer {
        meta.push_str(r#","finalizers":["example.com/in-use"]"#);
    }
    let condition = |kind: &str, status: &str| {
        format!(r#"{{"type":"{kind}","status":"{status}","lastTransitionTime":"{STARTED}"}}"#)
    };
    let gated = match pod {
        Pod::FitsNowhere => r#""schedulingGates":[{"name":"example.com/wait"}],"#,
        _ => "",
    };
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{{meta}}},"spec":{{{node}{gated}"containers":[
        {{"name":"c","image":"i"}}]}},"status":{{"phase":"{phase}","startTime":"{STARTED}",
        "conditions":[{},{}],"containerStatuses":[{{"name":"c","image":"i","imageID":"","ready":{ready},
        "restartCount":0}}]}}}}"#,
        condition("Ready", word),
        condition("ContainersReady", word),
    )
}

/// Returns a dump with `sets` ReplicaSets that have 50 active pods each, exact statuses, and
/// additional inactive pods.
fn dump(sets: usize, pod_of: impl Fn(usize, usize) -> Pod) -> String {
    const EACH: usize = 50;
    let mut text = String::from(r#"{"apiVersion":"v1","kind":"List","items":["#);
    for set in 0..sets {
        let (mut unready, mut besides) = (0, 0);
        for number in 0..EACH {
            let mut pod = pod_of(set, number);
            if pod.is_replaced() {
                text += &(pod_json(set, EACH + besides, pod) + ",");
                besides += 1;
                pod = Pod::Ready;
            }
            unready += usize::from(pod != Pod::Ready);
            text += &(pod_json(set, number, pod) + ",");
        }
        let ready = EACH - unready;
        // The status of a ReplicaSet also counts its terminating pods.
        let terminating = (0..EACH).filter(|number| {
            let pod = pod_of(set, *number);
            pod.is_replaced() && pod != Pod::Evicted
        });
        let _infallible = write!(
            text,
            r#"{{"apiVersion":"apps/v1","kind":"ReplicaSet","metadata":{{"name":"web-{set}",
            "namespace":"team-{}","uid":"00000000-0000-4000-9000-{set:012x}","generation":3,
            "creationTimestamp":"{STARTED}"}},"spec":{{"replicas":{EACH},"selector":{{"matchLabels":{{
            "app":"web-{set}"}}}},"template":{{"metadata":{{"labels":{{"app":"web-{set}"}}}},"spec":{{
            "containers":[{{"name":"c","image":"i"}}]}}}}}},"status":{{"replicas":{EACH},
            "readyReplicas":{ready},"availableReplicas":{ready},"fullyLabeledReplicas":{EACH},
            "terminatingReplicas":{},"observedGeneration":3}}}},"#,
            set % 20,
            terminating.count(),
        );
    }
    for node in 0..=sets * EACH / 100 {
        let _infallible = write!(
            text,
            r#"{{"apiVersion":"v1","kind":"Node","metadata":{{"name":"node-{node}"}},
            "status":{{"allocatable":{{"pods":"110"}}}}}},"#
        );
    }
    text.pop();
    text.push_str("]}");
    text
}

fn steady(sets: usize) -> Loaded {
    load(&dump(sets, |_, _| Pod::Ready))
}

fn load(text: &str) -> Loaded {
    manifest::load(&[PathBuf::from("-")], text.as_bytes()).expect("the dump is valid")
}

fn run(scenario: &str, engine: EngineKind, loaded: Loaded) -> RunResult {
    let engine = match engine {
        EngineKind::Threads => "--engine threads --threads 2 --time-limit 60s",
        EngineKind::Virtual => "--engine virtual",
    };
    run_with(scenario, engine, loaded)
}

fn run_with(scenario: &str, flags: &str, loaded: Loaded) -> RunResult {
    let scenario_of = Scenario::built_in(scenario).expect("the scenario is built in");
    let duration = match scenario_of.uses_duration() {
        true => "--duration 1s",
        false => "",
    };
    let flags = format!("--scenario {scenario} {flags} {duration}");
    let request = SettingsRequest::read(flags.split_whitespace()).unwrap();
    let request = request.with_input(Some(loaded.size));
    let settings = resolve(&request, Machine::with_cpus(2));
    let settings = settings.unwrap_or_else(|error| panic!("{scenario}: {error}"));
    run::run(&settings, loaded.objects, &(), &AtomicBool::new(false))
}

#[track_caller]
fn assert_green(result: &RunResult) {
    let name = format!("{} on {}", result.scenario, result.engine);
    assert_eq!(result.outcome.exit_code, 0, "{name}: {:?}", result.outcome);
    assert!(result.outcome.converged, "{name}: {:?}", result.outcome);
}

#[track_caller]
fn assert_untouched(result: &RunResult, sets: u64) {
    assert_green(result);
    let pods = &result.pods;
    let counts = [pods.created, pods.deleted, pods.bound, pods.ready];
    assert_eq!(counts, [0; 4], "{}: {pods:?}", result.engine);
    assert_eq!(pods.peak, sets * 50);
    assert_eq!(result.excess_pods_created, 0);
    // The controllers wrote neither pods nor statuses, and made no other requests.
    assert!(result.api_calls.is_empty(), "{:?}", result.api_calls);
    assert_eq!(result.writes["import pods"], sets * 50);
    let others = result.writes.keys().find(|key| !key.starts_with("import "));
    let others = others.filter(|key| !key.contains("namespaces"));
    assert_eq!(others, None, "{:?}", result.writes);
    // The controllers have synced every object.
    let syncs: u64 = result.syncs.values().sum();
    assert!(syncs >= sets, "{syncs}");
    assert_eq!(result.convergence_seconds.count, 0);
    let input = result.input.pods;
    let came = [input.ready, input.not_ready, input.terminating, input.ended];
    assert_eq!(came, [sets * 50, 0, 0, 0]);
}

#[test]
fn a_dump_in_its_desired_state_does_not_change() {
    for (engine, sets) in [
        (EngineKind::Threads, 100),
        (EngineKind::Virtual, 100),
        (EngineKind::Threads, 2_000),
    ] {
        assert_untouched(&run("manifests", engine, steady(sets)), sets as u64);
    }
}

#[test]
fn a_controller_writes_nothing_over_a_converged_dump() {
    for engine in [EngineKind::Threads, EngineKind::Virtual] {
        let result = run("cold-start", engine, steady(20));
        assert_untouched(&result, 20);
        assert_eq!(result.phases.len(), 3);
    }
}

#[test]
fn pods_of_a_dump_became_ready_before_the_run() {
    // The dump is more recent than the default start of virtual time.
    let text = dump(4, |_, _| Pod::Ready);
    let text = text.replace(
        r#""replicas":50,"sel"#,
        r#""minReadySeconds":60,"replicas":50,"sel"#,
    );
    let result = run("manifests", EngineKind::Virtual, load(&text));
    assert_green(&result);
    assert!(result.elapsed_seconds <= 60.0, "{}", result.elapsed_seconds);
    assert_eq!(result.pods.created, 0);
}

#[test]
fn churn_over_a_dump_creates_what_it_deletes() {
    for engine in [EngineKind::Threads, EngineKind::Virtual] {
        let result = run("churn", engine, steady(100));
        assert_green(&result);
        assert_eq!(result.phases[0].pods_created, 0);
        assert_eq!(result.pods.created, 100, "100/s for a second");
        assert_eq!(result.pods.deleted, 100);
        assert_eq!(result.excess_pods_created, 0);
    }
}

/// Returns a dump in which one pod in 25 is unhealthy, with several kinds of problems.
fn sick(sets: usize) -> Loaded {
    load(&dump(sets, |set, number| match (set * 50 + number) % 150 {
        0 | 13 => Pod::CrashLoops,
        25 => Pod::PullsNoImage,
        50 => Pod::FitsNowhere,
        75 => Pod::Evicted,
        100 => Pod::Terminating,
        125 => Pod::HeldByFinalizer,
        _ => Pod::Ready,
    }))
}

/// Returns the scenarios that accept files without Deployments.
fn takes_files() -> impl Iterator<Item = &'static str> {
    let takes = |it: &Scenario| it.loads_input() && !it.sets_images();
    Scenario::names().filter(move |name| Scenario::built_in(name).is_some_and(|it| takes(&it)))
}

#[test]
fn unhealthy_pods_fail_no_scenario_on_virtual_time() {
    assert!(takes_files().count() >= 20);
    for name in takes_files() {
        let result = run(name, EngineKind::Virtual, sick(40));
        assert_green(&result);
        assert_eq!(result.phases[0].pods_created, 0, "{name}");
        // Of 2,000 pods, every 150th has the same problem, beginning with the first, the 14th, the
        // 26th and so on.
        let input = result.input.pods;
        let came = [input.not_ready, input.terminating, input.ended];
        assert_eq!(came, [14 + 14 + 14 + 13, 26, 13], "{name}");
        if name == "manifests" {
            // The kubelet starts the pods that only waited for their image.
            assert_eq!(input.still_not_ready, 14 + 14 + 13);
        }
    }
}

#[test]
fn unhealthy_pods_fail_no_scenario_on_threads() {
    for name in takes_files() {
        let scenario = Scenario::built_in(name).expect("the scenario is built in");
        let waits = ["quota-exhausted", "flapping", "slow-api"].contains(&name);
        let waits = waits || scenario.evicts_pods();
        if waits || scenario.is_disturbed() || scenario.has_node_faults() {
            // These scenarios wait for minutes, which would be real minutes here.
            continue;
        }
        let result = run(name, EngineKind::Threads, sick(20));
        assert_green(&result);
        assert_eq!(result.phases[0].pods_created, 0, "{name}");
    }
}

#[test]
fn every_example_runs_on_every_engine() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut examples = 0;
    for entry in std::fs::read_dir(folder).expect("the folder of examples exists") {
        let path = entry.expect("an entry").path();
        // The folders contain programs of their own.
        if path.is_dir() {
            continue;
        }
        examples += 1;
        for engine in [EngineKind::Threads, EngineKind::Virtual] {
            let loaded = manifest::load(std::slice::from_ref(&path), &b""[..]);
            let loaded = loaded.expect("the example is valid");
            let result = run("manifests", engine, loaded);
            assert_green(&result);
            // The Job's deadline ends it, in simulated time.
            let elapsed = result.elapsed_seconds;
            let limit = if engine == EngineKind::Virtual {
                3_600.0
            } else {
                30.0
            };
            assert!(elapsed < limit, "{}: {elapsed} s", path.display());
        }
    }
    assert!(examples >= 3);
}

#[test]
fn a_blocked_run_on_threads_ends_with_the_reason() {
    // Each ReplicaSet lacks one pod, and no node has room for it.
    let text = dump(2, |_, _| Pod::Ready).replace(r#""pods":"110""#, r#""pods":"0""#);
    let mut loaded = load(&text.replace(r#""replicas":50,"sel"#, r#""replicas":51,"sel"#));
    loaded.size.places = 1_000;
    for engine in [EngineKind::Threads, EngineKind::Virtual] {
        let loaded = Loaded {
            objects: loaded.objects.clone(),
            counts: loaded.counts.clone(),
            size: loaded.size.clone(),
            warnings: Vec::new(),
            left_out: Vec::new(),
            places: Default::default(),
        };
        let result = run("manifests", engine, loaded);
        assert_eq!(result.outcome.exit_code, 1);
        let reason = &result.outcome.reason;
        assert!(reason.starts_with("nothing was left to happen"), "{reason}");
        let unready = "with 51 of 51 pods, 1 of them not ready";
        assert!(reason.contains(unready), "{reason}");
        assert!(result.elapsed_seconds < 30.0, "{}", result.elapsed_seconds);
    }
}

/// The Deployments of a dump with unhealthy pods.
#[derive(Clone, Copy, Debug)]
struct Sick {
    /// Whether a pod (of 4 per Deployment) can't become ready.
    pods: fn(usize, usize) -> bool,
    /// Why it can't become ready: the reason of its waiting container.
    reason: &'static str,
    /// Whether the statuses of the Deployments claim that all pods are ready.
    stale: bool,
    paused: bool,
}

impl Sick {
    /// Returns a dump with this many Deployments. Each has one ReplicaSet with 4 pods.
    fn dump(self, deployments: usize) -> Value {
        const EACH: usize = 4;
        let uid = |class: usize, number: usize| {
            format!("00000000-0000-4000-{:04x}-{number:012x}", 0x9000 + class)
        };
        let owner = |version: &str, kind: &str, name: &str, uid: String| {
            json!([{"apiVersion": version, "kind": kind, "name": name, "uid": uid,
                "controller": true, "blockOwnerDeletion": true}])
        };
        let spec = json!({"containers": [{"name": "c", "image": "registry.example/web:1"}]});
        let mut items = Vec::new();
        for number in 0..deployments {
            let (web, set) = (format!("web-{number}"), format!("web-{number}-5d4f"));
            let labels = json!({"app": web, "pod-template-hash": "5d4f"});
            let template = json!({"metadata": {"labels": {"app": web}}, "spec": spec});
            let mut sick = 0;
            for pod in 0..EACH {
                let is_sick = (self.pods)(number, pod);
                sick += usize::from(is_sick);
                let (ready, state) = match is_sick {
                    true => ("False", json!({"waiting": {"reason": self.reason}})),
                    false => ("True", json!({"running": {"startedAt": STARTED}})),
                };
                let phase = match is_sick && self.reason.contains("Image") {
                    true => "Pending",
                    false => "Running",
                };
                items.push(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {
                    "name": format!("{set}-{pod}"), "namespace": "shop", "labels": labels,
                    "uid": uid(0, number * EACH + pod), "creationTimestamp": STARTED,
                    "ownerReferences": owner("apps/v1", "ReplicaSet", &set, uid(1, number))},
                    "spec": {"containers": spec["containers"], "nodeName": format!("node-{pod}")},
                    "status": {"phase": phase, "startTime": STARTED, "conditions": [
                        {"type": "Ready", "status": ready, "lastTransitionTime": STARTED}],
                        "containerStatuses": [{"name": "c", "image": "registry.example/web:1",
                            "imageID": "", "ready": !is_sick, "restartCount": 0, "state": state}]}}));
            }
            let ready = EACH - sick;
            items.push(
                json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {
                "name": set, "namespace": "shop", "uid": uid(1, number), "generation": 1,
                "labels": labels, "annotations": {"deployment.kubernetes.io/revision": "1"},
                "creationTimestamp": STARTED,
                "ownerReferences": owner("apps/v1", "Deployment", &web, uid(2, number))},
                "spec": {"replicas": EACH, "selector": {"matchLabels": labels},
                    "template": {"metadata": {"labels": labels}, "spec": spec}},
                "status": {"replicas": EACH, "readyReplicas": ready, "availableReplicas": ready,
                    "fullyLabeledReplicas": EACH, "observedGeneration": 1}}),
            );
            let told = if self.stale { EACH } else { ready };
            items.push(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {
                "name": web, "namespace": "shop", "uid": uid(2, number), "generation": 1,
                "creationTimestamp": STARTED},
                "spec": {"replicas": EACH, "paused": self.paused, "selector": {"matchLabels": {"app": web}},
                    "template": template},
                "status": {"replicas": EACH, "updatedReplicas": EACH, "readyReplicas": told,
                    "availableReplicas": told, "observedGeneration": 1, "conditions": [
                    {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable",
                        "message": "m", "lastUpdateTime": STARTED, "lastTransitionTime": STARTED}]}}));
        }
        for node in 0..EACH {
            items.push(json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": format!("node-{node}")},
                "status": {"allocatable": {"pods": "1000"}}}));
        }
        json!({"apiVersion": "v1", "kind": "List", "items": items})
    }
}

const CRASHES: Sick = Sick {
    pods: |number, pod| number % 2 == 0 && pod == 0,
    reason: "CrashLoopBackOff",
    stale: true,
    paused: false,
};

const PULLS_NOTHING: Sick = Sick {
    pods: |number, _| number % 2 == 0,
    reason: "ImagePullBackOff",
    ..CRASHES
};

/// The time, both real and simulated, within which a run over such a dump must end. Detecting that
/// nothing changes takes one second.
const JUDGED_WITHIN_SECONDS: f64 = 5.0;

#[test]
fn rollouts_that_can_not_complete_are_reported_quickly() {
    for (sick, reason) in [
        (CRASHES, "1 pod can't become ready: CrashLoopBackOff"),
        (
            Sick {
                stale: false,
                ..CRASHES
            },
            "1 pod can't become ready: CrashLoopBackOff",
        ),
        (
            PULLS_NOTHING,
            "4 pods can't become ready: ImagePullBackOff of registry.example/web:1",
        ),
        (
            Sick {
                paused: true,
                ..CRASHES
            },
            "paused",
        ),
    ] {
        for engine in [EngineKind::Threads, EngineKind::Virtual] {
            let result = run("manifests", engine, load(&sick.dump(10).to_string()));
            assert_green(&result);
            let seconds = result.elapsed_seconds;
            assert!(seconds < JUDGED_WITHIN_SECONDS, "{sick:?}: {seconds}");
            let rollouts = &result.incomplete_rollouts;
            assert_eq!(rollouts.count, 5, "{sick:?} {rollouts:?}");
            let first = &rollouts.shown[0];
            assert_eq!((&*first.name, &*first.reason), ("web-0", reason));
            assert_eq!(result.pods.created + result.pods.ready, 0);
        }
    }
}

#[test]
fn every_scenario_handles_stale_statuses_and_stuck_pods() {
    let takes = |it: &Scenario| it.loads_input();
    let names = Scenario::names();
    let names = names.filter(|name| Scenario::built_in(name).is_some_and(|it| takes(&it)));
    for name in names {
        for sick in [CRASHES, PULLS_NOTHING] {
            let result = run(name, EngineKind::Virtual, load(&sick.dump(10).to_string()));
            let ended = &result.outcome;
            // These scenarios restore the image of the dump, which can't be pulled either. By
            // upstream's count, no pod with the image in between may be removed.
            let puts_back = ["failed-rollout", "stuck-upgrade"].contains(&name);
            let mends_nothing = puts_back && sick.reason == PULLS_NOTHING.reason;
            let code = u8::from(mends_nothing);
            assert_eq!(ended.exit_code, code, "{name} {sick:?}: {ended:?}");
            assert_eq!(result.phases[0].pods_created, 0, "{name}");
            // Slow calls may take their time.
            let is_slow = !result.settings.latency.api.is_zero();
            let seconds = result.phases[0].seconds;
            assert!(
                is_slow || seconds < JUDGED_WITHIN_SECONDS,
                "{name}: {seconds}"
            );
        }
    }
}

#[test]
fn new_pods_of_a_workload_without_ready_pods_do_not_start() {
    let text = PULLS_NOTHING.dump(2).to_string();
    // Each workload wants one more pod, and only that of the healthy workload becomes ready.
    let text = text.replace(r#""replicas":4,"selector""#, r#""replicas":5,"selector""#);
    for engine in [EngineKind::Threads, EngineKind::Virtual] {
        let result = run("manifests", engine, load(&text));
        assert_green(&result);
        assert_eq!(
            (result.pods.created, result.pods.ready),
            (2, 1),
            "{engine:?}"
        );
    }
    let result = run_with(
        "manifests",
        "--engine virtual --start-stuck-pods",
        load(&text),
    );
    assert_green(&result);
    assert_eq!((result.pods.created, result.pods.ready), (2, 6));
    assert_eq!(result.incomplete_rollouts.count, 0);
}
