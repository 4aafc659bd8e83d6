//! Syncs of Jobs with nothing to do: each examines every pod.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, Request};
use podstorm::driver::{AsyncSync, Driver, Progress, SyncState};
use podstorm::informer::Informers;
use podstorm::job::{Controller, ControllerOptions, JOBS};
use podstorm::object::{AnyObject, DynamicObject, Kind, Now, Pod, Resource, Time};
use serde_json::{Value, json};

use crate::clusters::NOW;

/// A sync with nothing to do, of an indexed Job whose `parallelism` pods all run.
pub fn idle(parallelism: usize) -> impl FnMut() -> u64 {
    let mut informers = Informers::new(Arc::default());
    let controller = Controller::new(ControllerOptions::default(), &mut informers);
    for index in 0..parallelism {
        let pod = Arc::new(Pod::from_json(pod(index)).expect("a readable pod"));
        informers.pods().apply(Delta::Applied(pod));
    }
    let job = DynamicObject::from_json(Kind::JOB, job(parallelism)).expect("a readable Job");
    let job: AnyObject = Arc::new(job);
    informers.take(Kind::JOB).apply(Delta::Applied(job), NOW);
    let key = controller.key("shop", "array");
    let mut driver = Driver::<AsyncSync>::default();
    let mut no_api = |request: &Request, _: Now| -> Answer {
        panic!("there is nothing to do, and yet it asks for {request:?}")
    };
    move || {
        let progress = driver.begin(&controller, JOBS, black_box(key), &mut no_api, NOW);
        assert!(progress == Progress::Finished);
        assert_eq!(driver.sync.outcome_label(), "ok");
        driver.sync.requests().len() as u64
    }
}

fn started() -> String {
    Time::from_unix_nanos(NOW.wall_ns).to_string()
}

fn job(parallelism: usize) -> Value {
    let labels = json!({"batch.kubernetes.io/controller-uid": "j"});
    json!({
        "metadata": {"name": "array", "namespace": "shop", "uid": "j", "generation": 1},
        "spec": {"parallelism": parallelism, "completions": 2 * parallelism, "backoffLimit": 6,
            "completionMode": "Indexed", "suspend": false, "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "work:1"}]}}},
        "status": {"startTime": started(), "active": parallelism, "ready": parallelism,
            "terminating": 0, "uncountedTerminatedPods": {}},
    })
}

fn pod(index: usize) -> Value {
    json!({
        "metadata": {"name": format!("array-{index}-x"), "namespace": "shop", "uid": format!("p{index}"),
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
