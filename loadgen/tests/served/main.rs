//! A served cluster: on virtual time and real time, loaded from files, forked, with external
//! controllers and with kube-rs as its client.

mod client;
mod controllers;
mod fork;
mod hashing;
mod identities;
mod loading;
mod pods;
mod stateful_sets;
mod time;

use std::time::Duration;

use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use podstorm_apiserver::latency::Latency;
use podstorm_loadgen::manifest::load_served;
use podstorm_loadgen::serve::{ServeOptions, Served, write_snapshot};
use podstorm_sim::options::{EngineKind, SimOptions};
use serde_json::{Value, json};

/// How long pods take to be ready, and to terminate, on virtual time, in seconds.
const STARTUP_S: u64 = 300;
const ENDING_S: u64 = 20;

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// Returns the options of a cluster on virtual time.
fn options() -> ServeOptions {
    let mut sim = SimOptions::new(EngineKind::Virtual, 1);
    let seconds = |seconds: u64| Latency::Constant(seconds as i64 * 1_000_000_000);
    sim.latency.pod_startup = seconds(STARTUP_S);
    sim.latency.pod_termination = seconds(ENDING_S);
    ServeOptions {
        sim,
        ..ServeOptions::default()
    }
}

fn start() -> Served {
    Served::start(options()).expect("without files nothing can be refused")
}

/// Starts a cluster with the objects of a file.
fn load(file: &str, options: ServeOptions) -> Served {
    let loaded = load_served(&["-".into()], file.as_bytes()).expect("the text is a valid manifest");
    let objects = loaded.objects;
    Served::start(ServeOptions { objects, ..options }).expect("all objects are valid")
}

fn advance(served: &Served, seconds: u64) {
    let moved = served.advance(Duration::from_secs(seconds));
    moved.expect("the time is virtual");
}

async fn send(served: &Served, method: &str, path: &str, body: Value) -> (u16, Value) {
    let (code, text) = send_for_text(served, method, path, body).await;
    (
        code,
        serde_json::from_slice(&text).expect("the answer is JSON"),
    )
}

async fn send_for_text(served: &Served, method: &str, path: &str, body: Value) -> (u16, Bytes) {
    let request = Request::builder().method(method).uri(path);
    let request = match method {
        "PATCH" => request.header("content-type", "application/merge-patch+json"),
        _ => request.header("content-type", "application/json"),
    };
    let body = match body {
        Value::Null => Bytes::new(),
        body => Bytes::from(body.to_string()),
    };
    let request = request
        .body(Full::new(body))
        .expect("the request is well formed");
    let answer = served
        .api()
        .answer(request)
        .await
        .expect("the server answers");
    let (head, body) = answer.into_parts();
    let body = body
        .collect()
        .await
        .expect("the answer is complete")
        .to_bytes();
    (head.status.as_u16(), body)
}

async fn get(served: &Served, path: &str) -> Value {
    let (code, found) = send(served, "GET", path, Value::Null).await;
    assert_eq!(code, 200, "{found}");
    found
}

async fn create(served: &Served, path: &str, object: Value) -> Value {
    let (code, made) = send(served, "POST", path, object).await;
    assert_eq!(code, 201, "{made}");
    made
}

fn set(name: &str, replicas: i64) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {"replicas": replicas,
        "selector": {"matchLabels": {"app": name}}, "template": {
            "metadata": {"labels": {"app": name}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

fn text(served: &Served) -> String {
    let mut out = Vec::new();
    write_snapshot(served.cluster(), &mut out).expect("writing to memory does not fail");
    String::from_utf8(out).expect("the answer is JSON")
}

fn texts(pods: &Value, member: &str) -> Vec<String> {
    let items = pods["items"].as_array().expect("the answer is a list");
    let of = |pod: &Value| {
        pod["metadata"][member]
            .as_str()
            .expect("it has one")
            .to_owned()
    };
    items.iter().map(of).collect()
}

async fn ready(served: &Served, name: &str) -> u64 {
    let set = get(served, &format!("{SETS}/{name}")).await;
    set["status"]["readyReplicas"].as_u64().unwrap_or(0)
}

/// Returns the definition of widgets.
fn definition() -> Value {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "integer", "default": 3}}}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}})
}

/// Converts an object to its type.
fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}
