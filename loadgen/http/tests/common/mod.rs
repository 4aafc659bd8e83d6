//! A server, and requests to it as clients send them.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_http::{ApiServer, Body};
use serde_json::Value;

pub(crate) fn server() -> ApiServer {
    let options = ClusterOptions {
        keeps_past: true,
        ..ClusterOptions::default()
    };
    ApiServer::builder(Arc::new(Cluster::new(options))).build()
}

pub(crate) async fn send(
    server: &ApiServer,
    method: &str,
    path: &str,
    body: &Value,
) -> Response<Body> {
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
    server.answer(request).await.expect("no fault is armed")
}

pub(crate) async fn json(response: Response<Body>) -> Value {
    let body = response
        .into_body()
        .collect()
        .await
        .expect("no fault is armed");
    serde_json::from_slice(&body.to_bytes()).expect("an answer in JSON")
}
