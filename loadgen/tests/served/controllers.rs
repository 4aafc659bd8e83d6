//! Disabled controllers of a served cluster, and the requests that another controller manager makes
//! in their place.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus, Pod};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;

use super::*;

fn serve(controllers: &[&str]) -> (Served, Client) {
    let mut options = ServeOptions::default();
    options.sim.services.controllers =
        Controllers::from_words(Rows::installed(), controllers).expect("the controllers exist");
    let served = Served::start(options).expect("without files nothing can be refused");
    let client = Client::new(served.api().clone(), "default");
    (served, client)
}

fn owned(name: &str, owner: &ReplicaSet) -> Pod {
    read(
        json!({"metadata": {"name": name, "ownerReferences": [{"apiVersion": "apps/v1",
            "kind": "ReplicaSet", "name": "web", "uid": owner.uid(),
            "blockOwnerDeletion": true}]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}}),
    )
}

#[tokio::test]
async fn an_external_garbage_collector_can_orphan_dependents() {
    let (_served, client) = serve(&["*", "-garbagecollector", "-replicaset"]);
    let sets: Api<ReplicaSet> = Api::default_namespaced(client.clone());
    let pods: Api<Pod> = Api::default_namespaced(client);
    let (post, params) = (PostParams::default(), PatchParams::default());
    let set = sets.create(&post, &read(set("web", 0))).await;
    let set = set.expect("the request is valid");
    for name in ["a", "b", "c"] {
        let made = pods.create(&post, &owned(name, &set)).await;
        made.expect("the request is valid");
    }
    let orphan = DeleteParams::orphan();
    let _going = sets.delete("web", &orphan).await.expect("it exists");
    let held = sets.get("web").await.expect("the finalizer keeps it");
    assert_eq!(held.finalizers(), ["orphan"]);

    // The collector's patch has the dependent's UID as a precondition.
    let uid = |name: &'static str| {
        let pods = pods.clone();
        async move { pods.get(name).await.expect("it exists").uid() }
    };
    let strip = |uid: Option<String>| {
        Patch::Strategic(json!({"metadata": {"uid": uid,
            "ownerReferences": [{"$patch": "delete", "uid": set.uid()}]}}))
    };
    let refused = pods.patch("a", &params, &strip(uid("b").await)).await;
    let kube::Error::Api(refused) = refused.expect_err("the UID is another's") else {
        panic!("it is answered");
    };
    assert!([409, 422].contains(&refused.code), "{refused:?}");
    let freed = pods.patch("a", &params, &strip(uid("a").await)).await;
    assert!(freed.expect("it exists").owner_references().is_empty());
    // Where strategic patches are not supported, it sends merge patches, and retries if the kubelet
    // was faster.
    let freed = loop {
        let version = pods.get("b").await.expect("it exists").resource_version();
        let merge = json!({"metadata": {"resourceVersion": version, "ownerReferences": null}});
        match pods.patch("b", &params, &Patch::Merge(merge)).await {
            Err(kube::Error::Api(refused)) if refused.code == 409 => {}
            freed => break freed,
        }
    };
    assert!(freed.expect("it exists").owner_references().is_empty());
    let json = json!([{"op": "remove", "path": "/metadata/ownerReferences"}]);
    let json = Patch::<()>::Json(read(json));
    let freed = pods.patch("c", &params, &json).await;
    assert!(freed.expect("it exists").owner_references().is_empty());

    let stale = json!({"metadata": {"resourceVersion": "1", "finalizers": null}});
    let refused = sets.patch("web", &params, &Patch::Merge(stale)).await;
    assert!(refused.is_err(), "the version is another");
    let version = held.resource_version();
    let done = json!({"metadata": {"resourceVersion": version, "finalizers": null}});
    let _last = sets.patch("web", &params, &Patch::Merge(done)).await;
    assert!(
        sets.get_opt("web")
            .await
            .expect("the server answers")
            .is_none()
    );
    let left = pods.list(&ListParams::default()).await;
    assert_eq!(left.expect("the server answers").items.len(), 3);
}

#[tokio::test]
async fn an_external_namespace_controller_finalizes() {
    let (_served, client) = serve(&["*", "-namespace"]);
    let namespaces: Api<Namespace> = Api::all(client);
    let (post, name) = (PostParams::default(), "shop");
    let shop = read(json!({"metadata": {"name": name}}));
    namespaces
        .create(&post, &shop)
        .await
        .expect("the request is valid");
    let going = namespaces.delete(name, &DeleteParams::default()).await;
    let going = going.expect("it exists").left().expect("it stays for now");
    let phase = going.status.and_then(|status| status.phase);
    assert_eq!(phase.as_deref(), Some("Terminating"));
    let mut status = namespaces.get(name).await.expect("it exists");
    let condition = json!({"type": "NamespaceContentRemaining", "status": "False",
        "reason": "ContentRemoved", "message": "All content successfully removed",
        "lastTransitionTime": "2026-06-01T12:00:00Z"});
    let ending = json!({"phase": "Terminating", "conditions": [condition]});
    status.status = Some(read(ending));
    let written = namespaces.replace_status(name, &post, &status).await;
    let mut written = written.expect("the phase fits");
    let conditions = |it: &NamespaceStatus| it.conditions.as_ref().map(Vec::len);
    assert_eq!(written.status.as_ref().and_then(conditions), Some(1));
    written.spec = Some(read(json!({"finalizers": []})));
    let last: Result<Namespace, _> = namespaces
        .replace_subresource("finalize", name, &post, &written)
        .await;
    last.expect("it is finalized");
    let left = namespaces.get_opt(name).await;
    assert!(left.expect("the server answers").is_none());
}

#[tokio::test]
async fn the_initial_namespaces_cannot_be_deleted() {
    let (_served, client) = serve(&["*"]);
    let namespaces: Api<Namespace> = Api::all(client);
    for name in ["default", "kube-system", "kube-public"] {
        let refused = namespaces.delete(name, &DeleteParams::default()).await;
        let kube::Error::Api(refused) = refused.expect_err("it may not go") else {
            panic!("it is answered");
        };
        assert_eq!(refused.code, 403);
        let message =
            format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!(refused.message, message);
    }
}

#[tokio::test]
async fn metrics_of_every_running_controller_are_served() {
    let mut options = options();
    let controllers = ["*", "-replicationcontroller"];
    options.sim.services.controllers =
        Controllers::from_words(Rows::installed(), &controllers).expect("the controllers exist");
    let served = Served::start(options).expect("without files nothing can be refused");
    create(&served, SETS, set("web", 3)).await;
    let (code, text) = send_for_text(&served, "GET", "/metrics", Value::Null).await;
    assert_eq!(code, 200);
    let text = String::from_utf8(text.into()).expect("the text is UTF-8");
    let number = |series: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(series));
        let line = line.unwrap_or_else(|| panic!("no {series}: {text}"));
        line.trim().parse::<f64>().expect("the value is a number")
    };
    let queues = ["replicaset", "deployment", "namespace", "disruption"];
    for queue in queues {
        number(&format!("workqueue_depth{{name=\"{queue}\"}}"));
    }
    assert!(number("workqueue_adds_total{name=\"replicaset\"}") > 0.0);
    assert!(
        !text.contains("name=\"replicationmanager\""),
        "it does not run"
    );
    number("ttl_after_finished_controller_job_deletion_duration_seconds_count");
    // After the server's own metrics, each name once.
    number("apiserver_storage_objects{resource=\"replicasets.apps\"}");
    let mut helps: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("# HELP"))
        .collect();
    let all = helps.len();
    helps.sort_unstable();
    helps.dedup_by_key(|line| line.split(' ').nth(2));
    assert_eq!(helps.len(), all);
}

#[test]
fn an_unknown_feature_gate_is_refused() {
    let mut options = options();
    let gates = &mut options.sim.controller.feature_gates;
    gates.insert("PodDeletionCosts".to_owned(), false);
    let refused = Served::start(options).expect_err("there is no such gate");
    let problem = refused.to_string();
    let known = "\"PodDeletionCosts\"; known gates: ";
    assert!(
        problem.contains(known) && problem.contains("PodDeletionCost,"),
        "{problem}"
    );
}

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// Returns a pod `p` with a generic ephemeral volume `scratch`.
fn with_scratch() -> Value {
    let template = json!({"metadata": {"labels": {"for": "scratch"}}, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "standard",
        "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "scratch", "mountPath": "/s"}]}],
        "volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]}})
}

/// Starts a cluster on virtual time with these controllers. Scheduler and kubelets write no Events:
/// while time stands still these would have the same names as the controllers' Events about the
/// same pod.
pub(super) fn serve_virtual(controllers: &[&str]) -> Served {
    let mut options = options();
    options.rules.pod_events = false;
    options.sim.services.controllers =
        Controllers::from_words(Rows::installed(), controllers).expect("the controllers exist");
    Served::start(options).expect("without files nothing can be refused")
}

#[tokio::test]
async fn a_generic_ephemeral_volume_has_a_claim_while_its_pod_lives() {
    let served = serve_virtual(&["*"]);
    create(&served, PODS, with_scratch()).await;
    advance(&served, 2 * STARTUP_S);
    let pod = get(&served, &format!("{PODS}/p")).await;
    assert_eq!(pod["status"]["phase"], "Running", "{pod}");
    let claim = get(&served, &format!("{CLAIMS}/p-scratch")).await;
    assert_eq!(claim["status"]["phase"], "Bound", "{claim}");
    assert_eq!(claim["metadata"]["labels"], json!({"for": "scratch"}));
    assert_eq!(
        claim["metadata"]["ownerReferences"][0]["uid"],
        pod["metadata"]["uid"]
    );
    assert_eq!(
        send(
            &served,
            "DELETE",
            &format!("{CLAIMS}/p-scratch"),
            Value::Null
        )
        .await
        .0,
        200
    );
    let claim = get(&served, &format!("{CLAIMS}/p-scratch")).await;
    assert!(
        claim["metadata"]["deletionTimestamp"].is_string(),
        "its pod uses it: {claim}"
    );
    send(&served, "DELETE", &format!("{PODS}/p"), Value::Null).await;
    advance(&served, 2 * ENDING_S);
    assert_eq!(
        send(&served, "GET", &format!("{CLAIMS}/p-scratch"), Value::Null)
            .await
            .0,
        404
    );
}

#[tokio::test]
async fn a_pod_waits_for_the_claim_of_its_ephemeral_volume() {
    let reason = async |served: &Served| {
        let pod = get(served, &format!("{PODS}/p")).await;
        let conditions = pod["status"]["conditions"].as_array().cloned();
        let scheduled = conditions.into_iter().flatten();
        let mut scheduled = scheduled.filter(|it| it["type"] == "PodScheduled");
        scheduled.next().expect("it was looked at")["message"].to_string()
    };
    let served = serve_virtual(&["*", "-ephemeral-volume"]);
    create(&served, PODS, with_scratch()).await;
    let waits = "waiting for ephemeral volume controller to create the persistentvolumeclaim";
    let why = reason(&served).await;
    assert!(why.contains(waits) && why.contains("p-scratch"), "{why}");

    // A claim of this name that a client has created is not the pod's.
    let served = serve_virtual(&["*"]);
    let claim = json!({"metadata": {"name": "p-scratch"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}}});
    create(&served, CLAIMS, claim).await;
    create(&served, PODS, with_scratch()).await;
    let why = reason(&served).await;
    let problem = "PVC default/p-scratch was not created for pod default/p (pod is not owner)";
    assert!(why.contains(problem), "{why}");
    advance(&served, 1);
    let events = get(&served, "/api/v1/namespaces/default/events").await;
    let events = events["items"].as_array().expect("a list").clone();
    let event = events.iter().find(|it| it["reason"] == "FailedBinding");
    let event = event.unwrap_or_else(|| panic!("{events:?}"));
    assert_eq!(
        event["message"],
        format!("ephemeral volume scratch: {problem}")
    );
    assert_eq!(event["source"]["component"], "ephemeral_volume");
    // Once it is deleted, the pod gets its own at the next retry.
    assert_eq!(
        send(
            &served,
            "DELETE",
            &format!("{CLAIMS}/p-scratch"),
            Value::Null
        )
        .await
        .0,
        200
    );
    advance(&served, 2 * STARTUP_S);
    let pod = get(&served, &format!("{PODS}/p")).await;
    assert_eq!(pod["status"]["phase"], "Running", "{pod}");
}
