//! Evictions that a budget refuses: the whole answer with its headers. The recorded cases cover
//! Kubernetes' other answers.

use super::*;

const PODS: &str = "/api/v1/namespaces/shop/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/shop/poddisruptionbudgets";

/// Returns a server with the running and ready pod `p`, and a budget that no controller has
/// processed.
async fn server() -> ApiServer {
    let server = with_namespace(builder(), "shop").await;
    let ready = json!({"status": {"phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}]}});
    for (method, path, body) in [
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
        let answer = send(&server, method, path, &body).await;
        assert!(answer.status().is_success(), "{path}");
    }
    server
}

async fn evict(server: &ApiServer, query: &str, options: Value) -> Response<Body> {
    let body = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"},
        "deleteOptions": options});
    send(server, "POST", &format!("{PODS}/p/eviction{query}"), &body).await
}

async fn set_status(server: &ApiServer, status: Value) {
    let path = format!("{BUDGETS}/b/status");
    let answer = send(server, "PATCH", &path, &json!({"status": status})).await;
    assert_eq!(answer.status(), 200);
}

async fn get(server: &ApiServer, path: &str) -> Value {
    json(send(server, "GET", path, &Value::Null).await).await
}

#[tokio::test]
async fn a_refusal_has_retry_after_only_if_it_is_known() {
    let server = server().await;
    let refused = evict(&server, "", Value::Null).await;
    assert_eq!(refused.status(), 429);
    assert_eq!(refused.headers()["retry-after"], "10");
    let status = json(refused).await;
    let details = json!({"retryAfterSeconds": 10, "causes": [{"reason": "DisruptionBudget",
        "message": "The disruption budget b is still being processed by the server."}]});
    assert_eq!(status["details"], details);
    assert_eq!(
        status["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );

    let counted = json!({"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1});
    set_status(&server, counted).await;
    let refused = evict(&server, "", Value::Null).await;
    assert_eq!(refused.status(), 429);
    assert!(!refused.headers().contains_key("retry-after"));
    let details = json!({"causes": [{"reason": "DisruptionBudget",
        "message": "The disruption budget b needs 1 healthy pods and has 1 currently"}]});
    assert_eq!(json(refused).await["details"], details);

    set_status(&server, json!({"disruptionsAllowed": 1})).await;
    let (pod, budget) = (format!("{PODS}/p"), format!("{BUDGETS}/b"));
    let tried = evict(&server, "?dryRun=All", Value::Null).await;
    assert_eq!(tried.status(), 201);
    assert_eq!(json(tried).await["code"], 201);
    let left = get(&server, &pod).await;
    assert_eq!(left["metadata"]["deletionTimestamp"], Value::Null);
    let evicted = evict(&server, "", Value::Null).await;
    assert_eq!(evicted.status(), 201);
    assert_eq!(json(evicted).await["status"], "Success");
    let going = get(&server, &pod).await;
    let target = &going["status"]["conditions"][1];
    assert_eq!(target["type"], "DisruptionTarget");
    assert_eq!(target["reason"], "EvictionByEvictionAPI");
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    let status = get(&server, &budget).await["status"].take();
    assert!(status["disruptedPods"]["p"].is_string());
    assert_eq!(status["disruptionsAllowed"], 0);
    assert_eq!(status["conditions"][0]["reason"], "InsufficientPods");
}

#[tokio::test]
async fn options_in_query_and_body_must_agree() {
    let server = server().await;
    let refused = evict(&server, "?dryRun=All", json!({"dryRun": ["All", "All"]})).await;
    assert_eq!(refused.status(), 500);
    assert_eq!(
        json(refused).await["message"],
        "Non-matching dry-run options in request and content: [All] and [All All]"
    );
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential";
    for (options, code) in [(json!({option: true}), 422), (json!("All"), 400)] {
        let refused = evict(&server, "", options).await;
        assert_eq!(refused.status(), code);
    }
}
