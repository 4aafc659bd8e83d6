//! Syncs of Deployments with nothing to do: every decision is repeated, from the templates to the
//! status.

use std::hint::black_box;
use std::sync::Arc;

use podstorm::cache::Delta;
use podstorm::client::{Answer, Request};
use podstorm::deployment::{Controller, ControllerOptions};
use podstorm::driver::{AsyncSync, Driver, Progress, SyncState};
use podstorm::informer::Informers;
use podstorm::object::{
    AnyObject, Deployment, Kind, Now, PodTemplate, ReplicaSet, Resource, Time, Uid,
};
use podstorm::template::{pod_template_hash, with_hash_label};
use serde_json::json;

use crate::clusters::NOW;

/// The number of pods of each Deployment.
const REPLICAS: i32 = 3;

/// Returns a sync, with nothing to do, of a Deployment whose rollouts have left `revisions`
/// ReplicaSets. The newest one has all the pods.
pub fn idle(revisions: usize) -> impl FnMut() -> u64 {
    let mut informers = Informers::new(Arc::default());
    let controller = Controller::new(ControllerOptions::default(), &mut informers);
    let deployment = Arc::new(settled(revisions));
    let templates = (1..=revisions).map(template);
    let sets = templates.enumerate().map(|(at, template)| {
        let set = replica_set(&deployment, template, at + 1 == revisions, at + 1);
        Arc::new(set) as AnyObject
    });
    let informer = |kind| informers.take(kind);
    informer(Kind::REPLICA_SET).replace(sets.collect(), &1.into(), NOW);
    informer(Kind::DEPLOYMENT).apply(Delta::Applied(deployment), NOW);
    let key = controller.key("shop", "web");
    let mut driver = Driver::<AsyncSync>::default();
    let mut no_api = |request: &Request, _: Now| -> Answer {
        panic!("there is nothing to do, but the sync requests {request:?}")
    };
    move || {
        let progress = driver.begin(&controller, 0, black_box(key), &mut no_api, NOW);
        assert!(progress == Progress::Finished);
        assert_eq!(driver.sync.outcome_label(), "ok");
        driver.sync.requests().len() as u64
    }
}

/// Returns the pod template of a revision: three containers, like those of an ordinary service.
pub fn template(revision: usize) -> PodTemplate {
    let container = |name: &str| {
        json!({"name": name, "image": format!("registry.example/shop/{name}:1.{revision}"),
            "env": [{"name": "LOG_LEVEL", "value": "info"}, {"name": "PORT", "value": "8080"}],
            "ports": [{"containerPort": 8080, "protocol": "TCP"}],
            "resources": {"requests": {"cpu": "250m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}},
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "imagePullPolicy": "IfNotPresent"})
    };
    let template = json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [container("web"), container("proxy"), container("log")],
            "restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
            "securityContext": {}, "schedulerName": "default-scheduler"},
    });
    PodTemplate::from_json(template).expect("a readable template")
}

/// Returns a Deployment whose last rollout has completed.
fn settled(revisions: usize) -> Deployment {
    let condition = |kind: &str, reason: &str, message: &str| {
        json!({"type": kind, "status": "True", "reason": reason, "message": message,
            "lastUpdateTime": Time::from_unix_nanos(NOW.wall_ns).to_string(),
            "lastTransitionTime": Time::from_unix_nanos(NOW.wall_ns).to_string()})
    };
    let minimum = "Deployment has minimum availability.";
    let progressed = "ReplicaSet has successfully progressed.";
    let mut deployment = Deployment::from_json(json!({
        "metadata": {"name": "web", "namespace": "shop", "uid": "d", "generation": 1,
            "annotations": {"deployment.kubernetes.io/revision": revisions.to_string()}},
        "spec": {"replicas": REPLICAS, "progressDeadlineSeconds": 600, "revisionHistoryLimit": revisions,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}},
        "status": {"observedGeneration": 1, "replicas": REPLICAS, "updatedReplicas": REPLICAS,
            "readyReplicas": REPLICAS, "availableReplicas": REPLICAS, "terminatingReplicas": 0,
            "conditions": [condition("Available", "MinimumReplicasAvailable", minimum),
                condition("Progressing", "NewReplicaSetAvailable", progressed)]},
    }))
    .expect("a readable Deployment");
    deployment.spec.template = Arc::new(template(revisions));
    deployment
}

/// Returns the ReplicaSet of a revision. It has all pods if it is the newest, otherwise none.
fn replica_set(
    deployment: &Deployment,
    template: PodTemplate,
    newest: bool,
    revision: usize,
) -> ReplicaSet {
    let hash = pod_template_hash(&template, None);
    let replicas = if newest { REPLICAS } else { 0 };
    let mut set = ReplicaSet::from_json(json!({
        "metadata": {"name": format!("web-{hash}"), "namespace": "shop", "generation": 1,
            "labels": {"app": "web", "pod-template-hash": hash.as_str()},
            "annotations": {"deployment.kubernetes.io/revision": revision.to_string(),
                "deployment.kubernetes.io/desired-replicas": REPLICAS.to_string(),
                "deployment.kubernetes.io/max-replicas": (REPLICAS + 1).to_string()}},
        "spec": {"replicas": replicas,
            "selector": {"matchLabels": {"app": "web", "pod-template-hash": hash.as_str()}}},
        "status": {"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas,
            "availableReplicas": replicas, "terminatingReplicas": 0},
    }))
    .expect("a readable ReplicaSet");
    set.metadata.uid = Uid::from_u128(revision as u128);
    set.metadata.creation_timestamp = Time::from_unix_seconds(1_700_000_000 + revision as i64);
    let owner = Kind::DEPLOYMENT.controller_reference(&deployment.metadata);
    set.metadata.owner_references.push(Arc::new(owner));
    set.spec.template = Arc::new(with_hash_label(&template, &hash));
    set
}
