//! Server-side applies by several managers, one after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use http::Request;
use http_body_util::BodyExt as _;
use podstorm::object::Now;
use podstorm_apiserver::{Cluster, ClusterOptions, limits};
use podstorm_http::{ApiServer, Clock};
use serde_json::Value;

use super::requests::runtime;
use super::{Target, requests};

pub(super) const APPLIES: Target = Target {
    name: "apply",
    claim: "an apply is refused with a Status and without a change, or its manager owns the applied fields \
            afterwards; repeating the apply changes nothing",
    run: applies,
    runs: 1_000,
};

/// The maximum number of applies in one input.
const APPLIES_MAX: usize = 8;

/// Applies each line `MANAGER CONFIGURATION` to one Deployment. `MANAGER!` forces conflicts.
/// Returns whether all applies were accepted.
fn applies(data: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(data) else {
        return false;
    };
    let cluster = Arc::new(Cluster::new(ClusterOptions::default()));
    // Each request is one second later than the previous one, because times in objects are whole
    // seconds.
    let seconds = AtomicI64::new(0);
    let clock: Clock = Arc::new(move || {
        let ns = seconds.fetch_add(1, Ordering::Relaxed) * 1_000_000_000;
        Now {
            mono_ns: ns,
            wall_ns: ns,
        }
    });
    let server = ApiServer::builder(cluster).clock(clock).build();
    runtime().block_on(async {
        let namespace = r#"{"metadata": {"name": "default"}}"#;
        let request = Request::post("/api/v1/namespaces");
        let made = requests::send(&server, request, namespace).await;
        assert_eq!(made.status(), 201);
        let mut all = true;
        for line in text.lines().take(APPLIES_MAX) {
            let Some((manager, config)) = line.split_once(' ') else {
                return false;
            };
            all &= apply(&server, manager, config).await;
        }
        all
    })
}

async fn apply(server: &ApiServer, manager: &str, config: &str) -> bool {
    let (manager, force) = match manager.strip_suffix('!') {
        Some(manager) => (manager, true),
        None => (manager, false),
    };
    if manager.is_empty() || !manager.bytes().all(|it| it.is_ascii_alphanumeric()) {
        return false;
    }
    let before = send(server, "GET", "", "").await;
    let query = format!("?fieldManager={manager}&force={force}");
    let (code, applied) = send(server, "PATCH", &query, config).await;
    let after = send(server, "GET", "", "").await;
    if code >= 400 {
        assert_eq!(applied["kind"], "Status", "{applied}");
        let message = applied["message"].as_str().unwrap_or("");
        let known = [
            "failed to create typed patch object",
            "failed to convert new object",
            "strconv.ParseUint: ",
        ];
        let is_known = known.iter().any(|known| message.starts_with(known));
        assert!(code < 500 || is_known, "{applied}");
        assert_eq!(before, after, "refused: {applied}");
        return false;
    }
    assert_eq!(limits::check(&applied), Ok(()));
    let owners = applied["metadata"]["managedFields"].as_array();
    for owner in owners.into_iter().flatten() {
        let fields = &owner["fieldsV1"];
        if owner["manager"] == manager && owner["operation"] == "Apply" {
            assert_present(fields, &applied, owner);
        }
    }
    let (code, again) = send(server, "PATCH", &query, config).await;
    assert!(code < 300, "{again}");
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    assert_eq!(version(&again), version(&applied), "{config}");
    true
}

/// Asserts that the keys of owned fields exist in the object. A member may be missing if it was
/// null.
fn assert_present(fields: &Value, object: &Value, owner: &Value) {
    for (step, below) in fields.as_object().into_iter().flatten() {
        let found = match step.split_at_checked(2) {
            Some(("f:", name)) => object.get(name),
            Some(("k:", keys)) => {
                let keys: Value = serde_json::from_str(keys).expect("the keys are JSON");
                let keys = keys.as_object().expect("the keys are an object");
                let has = |item: &&Value| keys.iter().all(|(key, value)| item[key] == *value);
                let found = object.as_array().and_then(|items| items.iter().find(has));
                assert!(found.is_some(), "{step} in {object}: {owner}");
                found
            }
            Some(("v:", value)) => {
                let value: Value = serde_json::from_str(value).expect("the value is JSON");
                let found = object
                    .as_array()
                    .and_then(|items| items.iter().find(|it| **it == value));
                assert!(found.is_some(), "{step} in {object}: {owner}");
                found
            }
            _ => None,
        };
        if let Some(found) = found {
            assert_present(below, found, owner);
        }
    }
}

async fn send(server: &ApiServer, method: &str, query: &str, body: &str) -> (u16, Value) {
    let path = format!("/apis/apps/v1/namespaces/default/deployments/web{query}");
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", "application/apply-patch+yaml");
    let answer = requests::send(server, request, body).await;
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await;
    let body = body.expect("no fault is armed").to_bytes();
    (code, serde_json::from_slice(&body).unwrap_or_default())
}
