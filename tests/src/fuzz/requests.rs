//! Requests to the API server, as they arrive on a connection, and bodies in protobuf.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body::Body as _;
use http_body_util::Full;
use podstorm_apiserver::{Cluster, ClusterOptions, kind_named};
use podstorm_http::{ApiServer, Body, protobuf};
use serde_json::{Map, Value, json};
use tokio::runtime::{Builder, Runtime};

use super::Target;

pub(super) const REQUESTS: Target = Target {
    name: "request",
    claim: "every request gets a response; an error under /api or /apis is a Status with its code and not a server \
            error; afterwards the stored objects can be listed",
    run: request,
    runs: 3_000,
};

pub(super) const PROTOBUF: Target = Target {
    name: "protobuf",
    claim: "a body is refused with a reason, or is an object with a kind; an unknown field changes nothing; \
            a stored object reads the same as protobuf and as JSON",
    run: body,
    runs: 2_000,
};

/// The maximum number of frames to read from an endless response, such as a watch.
const FRAMES_MAX: usize = 1_000;

/// The objects that are created through the API before the fuzzed request: a namespace and a
/// ConfigMap.
const BEFORE: [(&str, &str); 2] = [
    ("/api/v1/namespaces", r#"{"metadata": {"name": "default"}}"#),
    (
        "/api/v1/namespaces/default/configmaps",
        r#"{"metadata": {"name": "a", "labels": {"app": "web"}}, "data": {"a": "b"}}"#,
    ),
];

/// Runs an input: `METHOD PATH`, header lines, an empty line, and a body. Returns whether the
/// server accepted the request.
fn request(data: &[u8]) -> bool {
    let Some(request) = read(data) else {
        return false;
    };
    let options = ClusterOptions {
        keeps_past: true,
        ..ClusterOptions::default()
    };
    let server = ApiServer::builder(Arc::new(Cluster::new(options))).build();
    let path = request.uri().path().to_owned();
    runtime().block_on(async {
        for (path, body) in BEFORE {
            assert_eq!(send(&server, Request::post(path), body).await.status(), 201);
        }
        let answer = server.answer(request).await.expect("no fault is armed");
        let (head, body) = answer.into_parts();
        let (code, text) = (head.status.as_u16(), all(body));
        if code >= 400 && (path.starts_with("/api/") || path.starts_with("/apis/")) {
            assert_is_status(code, &text);
        }
        for (path, _) in BEFORE {
            let answer = send(&server, Request::get(path), "").await;
            assert_eq!(answer.status(), 200);
            let list: Value =
                serde_json::from_slice(&all(answer.into_body())).expect("every list is JSON");
            assert!(list["items"].is_array(), "{list}");
        }
        code < 400
    })
}

/// Returns a runtime for calls to the server.
pub(super) fn runtime() -> Runtime {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime without its own threads starts")
}

/// Returns a server with the namespace `default`.
pub(super) async fn with_default_namespace() -> ApiServer {
    let server = ApiServer::builder(Cluster::new(ClusterOptions::default()).into()).build();
    let namespace = json!({"metadata": {"name": "default"}});
    let (code, answer) = ask(&server, "POST", "/api/v1/namespaces", &namespace).await;
    assert_eq!(code, 201, "{answer}");
    server
}

/// Sends a request with a body, and returns the response.
pub(super) async fn send(
    server: &ApiServer,
    request: http::request::Builder,
    body: &str,
) -> Response<Body> {
    let request = request.body(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    let answer = server.answer(request.expect("well formed")).await;
    answer.expect("no fault is armed")
}

/// Sends a request with a JSON body or without a body. Returns the status code and the JSON of the
/// response.
pub(super) async fn ask(
    server: &ApiServer,
    method: &str,
    path: &str,
    body: &Value,
) -> (u16, Value) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json");
    let body = match body {
        Value::Null => String::new(),
        body => body.to_string(),
    };
    let answer = send(server, request, &body).await;
    let code = answer.status().as_u16();
    let answer = serde_json::from_slice(&all(answer.into_body()));
    (code, answer.expect("the response is JSON"))
}

/// Parses the request; `None` if a connection could not deliver it.
fn read(data: &[u8]) -> Option<Request<Full<Bytes>>> {
    let end = data.windows(2).position(|bytes| bytes == b"\n\n");
    let (head, body) = data.split_at(end.unwrap_or(data.len()));
    let mut lines = std::str::from_utf8(head).ok()?.lines();
    let (method, path) = lines.next()?.split_once(' ')?;
    let mut request = Request::builder()
        .method(Method::from_bytes(method.as_bytes()).ok()?)
        .uri(path);
    for line in lines {
        let (name, value) = line.split_once(':')?;
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        request = request.header(name, HeaderValue::from_str(value.trim()).ok()?);
    }
    let body = body.strip_prefix(b"\n\n").unwrap_or(body);
    request.body(Full::new(Bytes::copy_from_slice(body))).ok()
}

/// Returns the part of a response that is available now.
fn all(body: Body) -> Vec<u8> {
    let (mut body, mut bytes) = (pin!(body), Vec::new());
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..FRAMES_MAX {
        match body.as_mut().poll_frame(&mut context) {
            Poll::Ready(Some(Ok(frame))) => bytes.extend(frame.into_data().unwrap_or_default()),
            Poll::Ready(_) | Poll::Pending => break,
        }
    }
    bytes
}

/// The prefixes of the messages about client errors for which Kubernetes responds with a 500.
const SERVER_ERRORS: [&str; 16] = [
    "failed to convert new object",
    "resourceVersion should not be set on objects to be created",
    "This pod has more than one PodDisruptionBudget",
    "Non-matching dry-run options in request and content",
    "failed to create typed patch object",
    "strconv.ParseUint: parsing ",
    "map: ",
    "unknown patch type",
    "merging lists cannot yet be",
    "expected a []interface {}, but received a ",
    "expected a map[string]interface {}, but received a ",
    "list element types are not identical: ",
    "no elements in any of the given slices",
    "unable to find api field in struct ",
    "The order in patch list:",
    "cannot merge lists without merge key for ",
];

fn assert_is_status(code: u16, text: &[u8]) {
    // The path of a group that is not served does not belong to the API.
    if code == 404 && text == b"404 page not found\n" {
        return;
    }
    // The client requested YAML.
    let Ok(status) = serde_json::from_slice::<Value>(text) else {
        let text = String::from_utf8_lossy(text);
        assert!(text.contains("kind: Status"), "{code}: {text}");
        return;
    };
    assert_eq!(status["kind"], "Status", "{status}");
    assert_eq!(status["status"], "Failure", "{status}");
    assert_eq!(status["code"], code, "{status}");
    let message = status["message"].as_str().unwrap_or("");
    assert!(!message.is_empty(), "{status}");
    // A 504 is the response to a version in the future.
    let is_known = SERVER_ERRORS.iter().any(|known| message.starts_with(known));
    let is_known = code == 504 || is_known;
    assert!(code < 500 || is_known, "{status}");
}

fn body(data: &[u8]) -> bool {
    let object = match protobuf::decode(data) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
        Ok(object) => object,
    };
    for member in ["apiVersion", "kind"] {
        let text = object.get(member).and_then(Value::as_str);
        assert!(text.is_some_and(|text| !text.is_empty()), "{object:?}");
    }
    // Append the number field 500 to the envelope.
    let longer = [data, &[0xa0, 0x1f, 7]].concat();
    assert_eq!(protobuf::decode(&longer).as_ref(), Ok(&object));
    there_and_back(data, &object);
    true
}

/// Creates an object from its protobuf body. If the server stores the object, its forms in protobuf
/// and JSON must agree.
fn there_and_back(data: &[u8], object: &Map<String, Value>) {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("").to_owned();
    let kind = kind_named(&text(object.get("kind")));
    let api_version = text(object.get("apiVersion"));
    let Some(kind) = kind.filter(|kind| kind.api_version() == api_version) else {
        return;
    };
    let root = if api_version.contains('/') {
        "apis"
    } else {
        "api"
    };
    let namespace = match kind.row().namespaced {
        true => "namespaces/default/",
        false => "",
    };
    let collection = format!("/{root}/{api_version}/{namespace}{}", kind.resource());
    let server = ApiServer::builder(Arc::new(Cluster::new(ClusterOptions::default()))).build();
    runtime().block_on(async {
        let (path, namespace) = BEFORE[0];
        assert_eq!(
            send(&server, Request::post(path), namespace).await.status(),
            201
        );
        let request = Request::post(&collection).header("content-type", PROTOBUF_TYPE);
        let request = request
            .body(Full::new(Bytes::copy_from_slice(data)))
            .expect("well formed");
        let made = server.answer(request).await.expect("no fault is armed");
        let code = made.status().as_u16();
        let made = all(made.into_body());
        if code != 201 {
            assert_is_status(code, &made);
            return;
        }
        let made: Value = serde_json::from_slice(&made).expect("JSON");
        let path = format!("{collection}/{}", text(made["metadata"].get("name")));
        let Ok(request) = Request::get(&path)
            .header("accept", PROTOBUF_TYPE)
            .body(Full::default())
        else {
            return;
        };
        let read = server.answer(request).await.expect("no fault is armed");
        assert_eq!(read.status(), 200, "{path}");
        let read =
            protobuf::decode(&all(read.into_body())).expect("the server writes valid protobuf");
        assert_eq!(said(read.into()), said(made));
    });
}

const PROTOBUF_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Removes empty values from a document, because protobuf does not distinguish them from absent
/// ones.
fn said(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    };
    match value {
        Value::Array(items) => items.into_iter().map(said).collect(),
        Value::Object(members) => {
            let members = members.into_iter().map(|(name, value)| (name, said(value)));
            members.filter(|(_, value)| !is_empty(value)).collect()
        }
        value => value,
    }
}
