//! Requests to the API server over HTTP, in process: from the request's head and body to the last
//! byte of the answer. A socket would add about 7 µs per exchange over loopback.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{Method, Request};
use http_body::Body as _;
use http_body_util::Full;
use podstorm::object::{Namespace, Now, Pod, Resource};
use podstorm_apiserver::{Cluster, ClusterOptions, History};
use podstorm_http::{ApiServer, Body};
use tokio::runtime::Runtime;

use super::{Work, loading};

/// A server, with the runtime whose timers it needs.
struct Served {
    server: ApiServer,
    runtime: Runtime,
}

impl Served {
    /// Creates a server with namespaces and `pods` pods of 8.3 kB, as `kubectl get -o json` prints
    /// them.
    fn new(pods: usize) -> Served {
        let options = ClusterOptions {
            history: History::SERVED,
            keeps_past: true,
            ..ClusterOptions::default()
        };
        let cluster = Arc::new(Cluster::new(options));
        for name in ["default", "shop"] {
            let namespace = Namespace::from_json(serde_json::json!({"metadata": {"name": name}}));
            let namespace = namespace.expect("a namespace");
            cluster
                .create(namespace, Now::default())
                .expect("the namespace is new");
        }
        for pod in loading::json_pods(pods) {
            let pod = Pod::from_slice(pod.as_bytes()).expect("a pod");
            cluster
                .import(pod, Now::default())
                .expect("the name is unique");
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build();
        Served {
            server: ApiServer::builder(cluster).build(),
            runtime: runtime.expect("a runtime without threads"),
        }
    }

    fn send(&self, method: Method, path: &str, kind: &'static str, body: Bytes) -> Body {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("accept", "application/json")
            .header("content-type", kind)
            .body(Full::new(body));
        let answer = self.server.answer(request.expect("well formed"));
        let answer = self.runtime.block_on(answer).expect("no fault is injected");
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
        answer.into_body()
    }

    fn get(&self, path: &str) -> Body {
        self.send(Method::GET, path, "application/json", Bytes::new())
    }
}

/// Reads the part of an answer that is available now. Returns the number of bytes.
fn bytes(body: &mut Body) -> u64 {
    let mut context = Context::from_waker(Waker::noop());
    let mut bytes = 0;
    while let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut *body).poll_frame(&mut context) {
        bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
    }
    bytes
}

/// Returns the path of the first pod.
fn pod_path() -> String {
    let pod = Pod::from_slice(loading::json_pod().as_bytes()).expect("a pod");
    let metadata = &pod.metadata;
    format!(
        "/api/v1/namespaces/{}/pods/{}",
        metadata.namespace, metadata.name
    )
}

/// Gets a pod.
pub fn get() -> impl FnMut() -> u64 {
    let (served, path) = (Served::new(1), pod_path());
    move || bytes(&mut served.get(&path))
}

/// Lists `pods` pods on one page.
pub fn list(pods: usize) -> impl FnMut() -> u64 {
    let served = Served::new(pods);
    move || bytes(&mut served.get("/api/v1/pods"))
}

/// Adds a condition to the status of a pod by a strategic merge patch, a different one each time.
pub fn patch_status() -> impl FnMut() -> u64 {
    let (served, path) = (Served::new(1), format!("{}/status", pod_path()));
    let mut turn = 0_u64;
    move || {
        turn += 1;
        bytes(&mut patch(&served, &path, turn))
    }
}

fn patch(served: &Served, path: &str, turn: u64) -> Body {
    let status = ["False", "True"][(turn % 2) as usize];
    let body = format!(r#"{{"status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}}}"#);
    let kind = "application/strategic-merge-patch+json";
    served.send(Method::PATCH, path, kind, body.into())
}

/// Returns the same patch, whose event is sent to each of `watchers` watches.
pub fn watch(watchers: usize) -> impl FnMut() -> u64 {
    let (served, path) = (Served::new(1), format!("{}/status", pod_path()));
    let mut watches: Vec<Body> = (0..watchers)
        .map(|_| served.get("/api/v1/pods?watch=true"))
        .collect();
    let mut turn = 0_u64;
    move || {
        turn += 1;
        patch(&served, &path, turn);
        let _timers = served.runtime.enter();
        watches.iter_mut().map(bytes).sum()
    }
}

struct Creates {
    served: Served,
    body: Bytes,
    left: u64,
}

/// The number of pods created on a server before a new server replaces it.
const ROUND: u64 = 10_000;

/// Creates pods of 1.2 kB: up to `ROUND` on one server, which is empty at the start.
pub fn create() -> impl Work {
    let env: Vec<String> = (0..12)
        .map(|number| format!(r#"{{"name":"SETTING_{number}","value":"of the shop {number}"}}"#))
        .collect();
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"generateName":"web-","labels":{{"app":"web","tier":"front"}},
"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"00000000-0000-4000-8000-000000000000",
"controller":true,"blockOwnerDeletion":true}}]}},"spec":{{"containers":[{{"name":"web","image":"shop/web:1",
"ports":[{{"containerPort":8080}}],"env":[{}],"resources":{{"requests":{{"cpu":"100m","memory":"64Mi"}}}}}}]}}}}"#,
        env.join(",")
    );
    Creates {
        served: Served::new(0),
        body: body.into(),
        left: 0,
    }
}

impl Work for Creates {
    fn prepare(&mut self) -> u64 {
        if self.left == 0 {
            self.served = Served::new(0);
            self.left = ROUND;
        }
        self.left
    }

    fn work(&mut self) -> u64 {
        self.left -= 1;
        let (path, kind) = ("/api/v1/namespaces/default/pods", "application/json");
        bytes(
            &mut self
                .served
                .send(Method::POST, path, kind, self.body.clone()),
        )
    }
}
