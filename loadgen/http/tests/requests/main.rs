//! Requests to a server in process or over a connection, and their answers: one module per subject.

mod access;
mod admission;
mod connections;
#[cfg(target_os = "linux")]
mod custom;
mod decoding;
mod eviction;
mod faults;
mod fuzzed;
mod groups;
mod heavy;
mod hostile;
mod merged;
mod old_ways;
mod pages;
mod protobuf;
mod refusals;
mod tokens;
mod workloads;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_http::tls::Tls;
use podstorm_http::{ApiServer, Body, Builder, ConnectionLost, VirtualTime, listen};
use podstorm_objects::Now;
use serde_json::{Value, json};
use tokio::net::TcpListener;

fn builder() -> Builder {
    let options = ClusterOptions {
        keeps_past: true,
        ..ClusterOptions::default()
    };
    ApiServer::builder(Arc::new(Cluster::new(options)))
}

/// Virtual time that a test advances. Counts its rests.
#[derive(Default)]
struct Time {
    ns: AtomicI64,
    rests: AtomicI64,
}

impl Time {
    fn now(&self) -> Now {
        let ns = self.ns.load(Ordering::SeqCst);
        Now {
            mono_ns: ns,
            wall_ns: ns,
        }
    }
}

impl VirtualTime for Time {
    fn advance(&self, by_ns: i64) -> Now {
        self.ns.fetch_add(by_ns, Ordering::SeqCst);
        self.now()
    }

    fn rest(&self) {
        self.rests.fetch_add(1, Ordering::SeqCst);
    }
}

/// Builds a server with a namespace.
async fn with_namespace(builder: Builder, name: &str) -> ApiServer {
    let server = builder.build();
    let namespace = json!({"metadata": {"name": name}});
    let made = send(&server, "POST", "/api/v1/namespaces", &namespace).await;
    assert_eq!(made.status(), 201);
    server
}

/// Serves a server on a socket and returns its address.
async fn on_socket(server: ApiServer, tls: Option<Tls>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("the listener is bound");
    let forever = std::future::pending();
    tokio::spawn(listen::serve_with(server, listener, tls, forever));
    address
}

/// Sends a request that a fault may strike.
async fn try_send(
    server: &ApiServer,
    method: &str,
    path: &str,
    body: &Value,
) -> Result<Response<Body>, ConnectionLost> {
    let request = Request::builder().method(method).uri(path);
    let request = match method {
        "PATCH" => request.header("content-type", "application/merge-patch+json"),
        _ => request.header("content-type", "application/json"),
    };
    let body = match body {
        Value::Null => Bytes::new(),
        body => body.to_string().into(),
    };
    let request = request.body(Full::new(body)).expect("a request");
    server.answer(request).await
}

async fn send(server: &ApiServer, method: &str, path: &str, body: &Value) -> Response<Body> {
    let answer = try_send(server, method, path, body).await;
    answer.expect("an answer")
}

/// Sends a request without a body.
async fn ask(server: &ApiServer, request: http::request::Builder) -> Response<Body> {
    let request = request.body(Full::<Bytes>::default()).expect("a request");
    server.answer(request).await.expect("an answer")
}

async fn text(response: Response<Body>) -> String {
    let body = response.into_body().collect().await;
    let body = body.expect("a complete body").to_bytes();
    String::from_utf8(body.to_vec()).expect("text")
}

async fn json(response: Response<Body>) -> Value {
    serde_json::from_str(&text(response).await).expect("an answer in JSON")
}
