//! Evictions that a budget refuses: what a client is told, to the header. What a server of
//! Kubernetes answers otherwise is in the recording.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt as _, Full};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_http::ApiServer;
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/shop/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";

struct Answer {
    code: u16,
    headers: HeaderMap,
    body: Value,
}

async fn send(server: &ApiServer, method: &str, path: &str, body: Value) -> Answer {
    let media = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Full::new(Bytes::from(body.to_string())));
    let (head, body) = server
        .answer(request.expect("a request"))
        .await
        .expect("no fault is armed")
        .into_parts();
    let body = body.collect().await.expect("no fault is armed");
    Answer {
        code: head.status.as_u16(),
        headers: head.headers,
        body: serde_json::from_slice(&body.to_bytes()).expect("an answer in JSON"),
    }
}

/// A server with the running and ready pod `p` and a budget of it that nobody has looked at.
async fn server() -> ApiServer {
    let server = ApiServer::builder(Arc::new(Cluster::new(ClusterOptions::default()))).build();
    let ready = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    for (method, path, body) in [
        (
            "POST",
            "/api/v1/namespaces",
            json!({"metadata": {"name": "shop"}}),
        ),
        (
            "POST",
            PODS,
            json!({"metadata": {"name": "p", "labels": {"app": "web"}},
                "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}),
        ),
        ("PATCH", &format!("{PODS}/p/status"), ready),
        (
            "POST",
            BUDGETS,
            json!({"metadata": {"name": "b"},
                "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}}),
        ),
    ] {
        let answer = send(&server, method, path, body).await;
        assert!(answer.code < 300, "{path}: {}", answer.body);
    }
    server
}

async fn evict(server: &ApiServer, query: &str, options: Value) -> Answer {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
        "deleteOptions": options});
    send(server, "POST", &format!("{PODS}/p/eviction{query}"), body).await
}

async fn set_status(server: &ApiServer, status: Value) {
    let path = format!("{BUDGETS}/b/status");
    let answer = send(server, "PATCH", &path, json!({"status": status})).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
}

#[tokio::test]
async fn a_refusal_says_when_to_come_back_only_where_that_is_known() {
    let server = server().await;
    let answer = evict(&server, "", Value::Null).await;
    assert_eq!(
        (
            answer.code,
            &answer.headers["retry-after"].to_str().unwrap()
        ),
        (429, &"10")
    );
    let details = json!({"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget",
        "message": "The disruption budget b is still being processed by the server."}]});
    assert_eq!(answer.body["details"], details);
    assert_eq!(
        answer.body["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );

    set_status(
        &server,
        json!({"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1}),
    )
    .await;
    let answer = evict(&server, "", Value::Null).await;
    assert_eq!(answer.code, 429);
    assert!(!answer.headers.contains_key("retry-after"));
    let details = json!({"causes": [{"reason": "DisruptionBudget",
        "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}]});
    assert_eq!(answer.body["details"], details);

    set_status(&server, json!({"disruptionsAllowed": 1})).await;
    let answer = evict(&server, "?dryRun=All", Value::Null).await;
    assert_eq!((answer.code, &answer.body["code"]), (201, &json!(201)));
    let pod = send(&server, "GET", &format!("{PODS}/p"), Value::Null)
        .await
        .body;
    assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null);
    let answer = evict(&server, "", Value::Null).await;
    assert_eq!(
        (answer.code, &answer.body["status"]),
        (201, &json!("Success"))
    );
    let pod = send(&server, "GET", &format!("{PODS}/p"), Value::Null)
        .await
        .body;
    let target = &pod["status"]["conditions"][1];
    assert_eq!(target["type"], "DisruptionTarget");
    assert_eq!(target["reason"], "EvictionByEvictionAPI");
    assert!(pod["metadata"]["deletionTimestamp"].is_string());
    let budget = send(&server, "GET", &format!("{BUDGETS}/b"), Value::Null)
        .await
        .body;
    assert!(budget["status"]["disruptedPods"]["p"].is_string());
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
    assert_eq!(
        budget["status"]["conditions"][0]["reason"],
        "InsufficientPods"
    );
}

#[tokio::test]
async fn what_a_request_says_twice_must_agree() {
    let server = server().await;
    let answer = evict(&server, "?dryRun=All", json!({"dryRun": ["All", "All"]})).await;
    assert_eq!(answer.code, 500);
    assert_eq!(
        answer.body["message"],
        "Non-matching dry-run options in request and content: [All] and [All All]"
    );
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    let answer = evict(&server, "", json!({option: true})).await;
    assert_eq!(answer.code, 422, "{}", answer.body);
    let answer = evict(&server, "", json!("All")).await;
    assert_eq!(answer.code, 400, "{}", answer.body);
}
