//! Recorded bodies, each with one member replaced by a value of another type, as a careless client
//! sends them.

use std::path::Path;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use podstorm_http::ApiServer;
use podstorm_tests::conformance::http::{AUTHORIZATION, Server};
use podstorm_tests::conformance::runner::read_cases;
use serde_json::{Value, json};

/// Appends the JSON pointers of all members and items of a value.
fn pointers(value: &Value, at: &str, out: &mut Vec<String>) {
    let mut each = |name: &str, value: &Value| {
        let name = name.replace('~', "~0").replace('/', "~1");
        let at = format!("{at}/{name}");
        pointers(value, &at, out);
        out.push(at);
    };
    match value {
        Value::Object(members) => members.iter().for_each(|(name, value)| each(name, value)),
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                each(&number.to_string(), item);
            }
        }
        _ => {}
    }
}

async fn send(server: &ApiServer, step: &Value, body: String) -> (u16, Value) {
    let method = step["method"].as_str().unwrap_or("POST");
    let path = step["path"].as_str().unwrap_or("/").replace(' ', "%20");
    let kind = step["headers"]["Content-Type"].as_str();
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("Content-Type", kind.unwrap_or("application/json"))
        .header("Authorization", AUTHORIZATION)
        .body(Full::new(Bytes::from(body)))
        .expect("a recorded request");
    let (head, body) = server
        .answer(request)
        .await
        .expect("no fault is armed")
        .into_parts();
    let body = body.collect().await.expect("no fault is armed");
    let json = serde_json::from_slice(&body.to_bytes());
    (head.status.as_u16(), json.unwrap_or_default())
}

/// Sends all bodies. No answer may be an unexpected server error, and the server must keep serving.
async fn send_all(cases: &[Value]) -> usize {
    let others = [
        Value::Null,
        json!(-1),
        json!(1.5),
        json!("x"),
        json!(""),
        json!(true),
        json!([]),
        json!([{}]),
        json!({}),
        json!({"x": [null]}),
    ];
    let server = Server::in_process();
    let server = server.api();
    let mut sent = 0;
    for case in cases {
        if let Some(namespace) = case["namespace"].as_str() {
            let step = json!({"path": "/api/v1/namespaces"});
            let body = json!({"metadata": {"name": namespace}}).to_string();
            let (code, _) = send(server, &step, body).await;
            assert!(matches!(code, 201 | 409), "{namespace}: {code}");
        }
        for step in case["steps"].as_array().into_iter().flatten() {
            let is_write =
                ["POST", "PUT", "PATCH"].contains(&step["method"].as_str().unwrap_or(""));
            if !is_write || !(step["body"].is_object() || step["body"].is_array()) {
                continue;
            }
            // Send the original first, so that updates and patches find an object.
            send(server, step, step["body"].to_string()).await;
            let mut all = Vec::new();
            pointers(&step["body"], "", &mut all);
            for (number, pointer) in all.iter().enumerate() {
                let mut body = step["body"].clone();
                let Some(member) = body.pointer_mut(pointer) else {
                    continue;
                };
                *member = others[(number + sent) % others.len()].clone();
                let (code, answer) = send(server, step, body.to_string()).await;
                sent += 1;
                // Client errors that upstream answers with 500.
                let text = answer["message"].as_str().unwrap_or("");
                let known = [
                    "resourceVersion should not be set",
                    "This pod has more than one PodDisruptionBudget",
                    "Non-matching dry-run options",
                    "failed to create typed patch object",
                    "failed to convert new object",
                    "strconv.ParseUint: parsing ",
                    "map: ",
                    "unknown patch type",
                    "merging lists cannot yet be",
                    "expected a []interface {}, but received a ",
                    "expected a map[string]interface {}, but received a ",
                    "list element types are not identical",
                    "no elements in any of the given slices",
                    "unable to find api field in struct ",
                    "The order in patch list:",
                    "cannot merge lists without merge key for ",
                    "target.kind: Unsupported value",
                    "target.name: Required value",
                    "[target.kind: Unsupported value",
                ];
                let is_known = known.iter().any(|known| text.starts_with(known));
                assert!(code < 500 || is_known, "{}: {body}: {answer}", step["path"]);
            }
        }
    }
    let list = json!({"method": "GET", "path": "/api/v1/pods"});
    let (code, _) = send(server, &list, String::new()).await;
    assert_eq!(code, 200);
    sent
}

#[tokio::test(start_paused = true)]
async fn mangled_bodies_never_break_the_server() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/http.jsonl.gz");
    let cases = read_cases(&path).expect("the recorded cases");
    let sent = send_all(&cases).await;
    assert!(sent > 10_000, "{sent} requests");
}
