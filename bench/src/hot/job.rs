//! Jobs: syncs with nothing to do, each of which examines every pod; syncs that create or count
//! pods; handling of pod changes; and a whole Job on the virtual engine.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::{Delta, PodChange};
use podstorm::client::{Answer, Request};
use podstorm::driver::{AsyncSync, Driver, Progress, SyncState, Workload as _};
use podstorm::informer::Informers;
use podstorm::intern::KeyId;
use podstorm::job::{Controller, ControllerOptions, JOBS};
use podstorm::object::{AnyObject, DynamicObject, Kind, Namespace, Node, Now, Pod, Resource, Time};
use podstorm_sim::engine::Harness;
use podstorm_sim::nodes::{ClientRules, Finishing, NodeTimes};
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;
use serde_json::{Value, json};

use crate::clusters::NOW;

/// The version of all objects that the controller reads and writes, so that its caches never lag
/// behind its writes.
const VERSION: u64 = 1;

/// A Job controller over caches without a server.
struct Cached {
    informers: Informers,
    controller: Controller,
    driver: Driver<AsyncSync>,
}

impl Cached {
    fn new(pods: impl Iterator<Item = Value>) -> Cached {
        let mut informers = Informers::new(Arc::default());
        let controller = Controller::new(ControllerOptions::default(), &mut informers);
        for pod in pods {
            let pod = Arc::new(Pod::from_json(pod).expect("a readable pod"));
            informers.pods().apply(Delta::Applied(pod));
        }
        informers.pods().bookmark(&VERSION.into());
        Cached {
            informers,
            controller,
            driver: Driver::default(),
        }
    }

    fn add(&self, job: Value) -> AnyObject {
        let job = DynamicObject::from_json(Kind::JOB, job).expect("a readable Job");
        let job: AnyObject = Arc::new(job);
        let jobs = self.informers.take(Kind::JOB);
        jobs.apply(Delta::Applied(Arc::clone(&job)), NOW);
        job
    }

    fn key(&self) -> KeyId {
        self.controller.key("shop", "array")
    }

    /// Runs a sync whose requests are answered immediately. Returns the number of requests.
    fn sync(&mut self, answer: impl FnMut(&Request, Now) -> Answer) -> u64 {
        let key = black_box(self.key());
        let mut api = answer;
        let progress = self
            .driver
            .begin(&self.controller, JOBS, key, &mut api, NOW);
        assert!(progress == Progress::Finished);
        assert_eq!(self.driver.sync.outcome_label(), "ok");
        self.driver.sync.requests().len() as u64
    }
}

/// Returns `count` running pods of an indexed Job.
pub fn pods(count: usize) -> Vec<Pod> {
    let read = |index| Pod::from_json(pod(index)).expect("a readable pod");
    (0..count).map(read).collect()
}

/// Returns a sync, with nothing to do, of an indexed Job whose `parallelism` pods are all running.
pub fn idle(parallelism: usize) -> impl FnMut() -> u64 {
    let mut cached = Cached::new((0..parallelism).map(pod));
    cached.add(job("array", parallelism));
    move || {
        cached.sync(|request, _| {
            panic!("there is nothing to do, but the sync requests {request:?}");
        })
    }
}

/// Returns a sync that creates the first `count` pods of an indexed Job.
pub fn create(count: usize) -> impl FnMut() -> u64 {
    let mut cached = Cached::new(std::iter::empty());
    let job = cached.add(job("array", count));
    let made = Arc::new(Pod::from_json(pod(0)).expect("a readable pod"));
    let key = cached.key();
    move || {
        cached.controller.expect(key, 0, 0, 0);
        cached.sync(|request, _| match request {
            Request::CreatePod { .. } => Answer::Pod(Arc::clone(&made)),
            Request::PutStatus { .. } => Answer::Object(Arc::clone(&job)),
            other => panic!("unexpected request {other:?}"),
        })
    }
}

/// Returns a sync that counts `count` pods of an indexed Job, all of which have succeeded, and
/// removes their finalizers.
pub fn count(count: usize) -> impl FnMut() -> u64 {
    let ended = |index| {
        let mut pod = pod(index);
        pod["status"]["phase"] = "Succeeded".into();
        pod
    };
    let mut cached = Cached::new((0..count).map(ended));
    let job = cached.add(job("array", count));
    let released = Arc::new(Pod::from_json(pod(0)).expect("a readable pod"));
    let key = cached.key();
    move || {
        // The writes never reach the caches.
        cached
            .controller
            .remember(key, |state| state.released = None);
        cached.controller.expect(key, 1, 0, NOW.mono_ns);
        cached.sync(|request, _| match request {
            Request::Patch { .. } => Answer::Pod(Arc::clone(&released)),
            Request::PutStatus { .. } => Answer::Object(Arc::clone(&job)),
            other => panic!("unexpected request {other:?}"),
        })
    }
}

/// Handles the change of a pod that belongs to one of `jobs` Jobs in a namespace.
pub fn pod_changed(jobs: usize) -> impl FnMut() -> u64 {
    let cached = Cached::new(std::iter::empty());
    cached.add(job("array", 1));
    for number in 1..jobs {
        cached.add(job(&format!("array-{number}"), 1));
    }
    let version = |number: u64| {
        let mut pod = pod(0);
        pod["metadata"]["resourceVersion"] = (VERSION + number).to_string().into();
        Arc::new(Pod::from_json(pod).expect("a readable pod"))
    };
    let versions = [version(0), version(1)];
    let pods = cached.informers.pods();
    pods.apply(Delta::Applied(Arc::clone(&versions[1])));
    let changes: Vec<PodChange> = versions
        .iter()
        .map(|version| pods.apply(Delta::Applied(Arc::clone(version))))
        .collect();
    let mut at = 0;
    move || {
        at = 1 - at;
        cached.controller.pod_changed(black_box(&changes[at]), NOW);
        1
    }
}

/// Runs an indexed Job with this many completions on the virtual engine, from its creation to its
/// end. Each pod ends as soon as it runs.
pub fn complete(completions: usize, parallelism: usize) -> impl FnMut() -> u64 {
    move || {
        let harness = cluster("job-controller");
        let mut job = job("array", parallelism);
        job["spec"]["completions"] = completions.into();
        for member in ["selector", "template"] {
            job["spec"].as_object_mut().map(|spec| spec.remove(member));
        }
        job["spec"]["template"] = json!({"spec": template()});
        job["status"] = Value::Null;
        let job = DynamicObject::from_json(Kind::JOB, job).expect("a readable Job");
        let jobs = harness.cluster().api(Kind::JOB);
        let created = jobs.create(Arc::new(job), harness.now());
        created.expect("a valid Job");
        let is_complete = || {
            let job = jobs.get("shop", "array").expect("the Job exists");
            let job = job
                .downcast_ref::<DynamicObject>()
                .expect("the Job is untyped");
            let conditions = job.fields["status"]["conditions"].as_array();
            conditions.is_some_and(|all| all.iter().any(|it| it["type"] == "Complete"))
        };
        let mut seconds = 0;
        while !is_complete() {
            assert!(seconds < 3_600, "the Job does not end");
            harness.advance(1_000_000_000);
            seconds += 1;
        }
        seconds
    }
}

/// Returns a cluster of 100 large nodes on the virtual engine, with this controller and the
/// namespace `shop`. Pods that can end do so as soon as they run.
pub(super) fn cluster(controller: &str) -> Harness {
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    let controllers = Controllers::from_words(Rows::installed(), &[controller]);
    options.services.controllers = controllers.expect("the controller exists");
    let rules = ClientRules {
        finishing: Some(Finishing {
            run_ns: 0,
            failing_ppm: 0,
            endless_commands: Vec::new(),
        }),
        ..ClientRules::default()
    };
    let harness = Harness::serving(&options, NodeTimes::default(), rules).started();
    let (cluster, now) = (harness.cluster(), harness.now());
    for name in ["default", "shop"] {
        let namespace = Namespace::from_json(json!({"metadata": {"name": name}}));
        let namespace = namespace.expect("a readable namespace");
        cluster.create(namespace, now).expect("a new namespace");
    }
    let conditions = json!([{"type": "Ready", "status": "True"}]);
    let room = json!({"cpu": "1M", "memory": "1Pi", "pods": "1000000"});
    for number in 0..100 {
        let node = Node::from_json(json!({"metadata": {"name": format!("n{number}")},
            "status": {"conditions": conditions, "allocatable": room, "capacity": room}}));
        let node = node.expect("a readable node");
        cluster.import(node, now).expect("a new node");
    }
    harness
}

fn started() -> String {
    Time::from_unix_nanos(NOW.wall_ns).to_string()
}

fn template() -> Value {
    json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "work:1"}]})
}

fn job(name: &str, parallelism: usize) -> Value {
    let labels = json!({"batch.kubernetes.io/controller-uid": "j"});
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": if name == "array" { "j" } else { name },
            "generation": 1, "resourceVersion": VERSION.to_string()},
        "spec": {"parallelism": parallelism, "completions": 2 * parallelism, "backoffLimit": 6,
            "completionMode": "Indexed", "suspend": false, "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": template()}},
        "status": {"startTime": started(), "active": parallelism, "ready": parallelism,
            "terminating": 0, "uncountedTerminatedPods": {}},
    })
}

fn pod(index: usize) -> Value {
    json!({
        "metadata": {"name": format!("array-{index}-x"), "namespace": "shop", "uid": format!("p{index}"),
            "resourceVersion": VERSION.to_string(),
            "labels": {"batch.kubernetes.io/controller-uid": "j"},
            "annotations": {"batch.kubernetes.io/job-completion-index": index.to_string()},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "array", "uid": "j",
                "controller": true, "blockOwnerDeletion": true}]},
        "spec": {"nodeName": "n", "restartPolicy": "Never", "containers": [{"name": "c", "image": "work:1"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True",
            "lastTransitionTime": started()}]},
    })
}
