//! Requests that take a long time: others are answered meanwhile, and each ends at its time limit.

use std::time::Duration;

use tokio::time::Instant;

use super::hostile::{JSON, MERGE_PATCH, THINGS, ask_as, define};
use super::*;

/// Returns a server with a kind whose objects are validated against a thousand alternatives per
/// entry of `list`.
async fn with_alternatives(timeout: Duration) -> ApiServer {
    let server = with_namespace(builder().request_timeout(timeout), "default").await;
    let alternatives: Value = (0..1_000)
        .map(|n| json!({"required": [format!("r{n}")]}))
        .collect();
    let entry = json!({"type": "object", "anyOf": alternatives, "x-kubernetes-preserve-unknown-fields": true});
    let schema =
        json!({"type": "object", "properties": {"list": {"type": "array", "items": entry}}});
    define(&server, schema).await;
    server
}

/// Runs a test on a runtime with one worker thread. Heavy requests run on other threads.
fn on_one_thread(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(test);
}

/// Returns a valid object that takes a thousand checks per entry.
fn thing(name: &str, entries: usize) -> String {
    let list = vec![json!({"r999": "x".repeat(100)}); entries];
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": name}, "list": list})
        .to_string()
}

#[test]
fn small_requests_are_answered_during_long_ones() {
    on_one_thread(async {
        let server = with_alternatives(Duration::from_secs(60)).await;
        let began = Instant::now();
        let long = (0..3).map(|number| {
            let server = server.clone();
            let body = thing(&format!("a{number}"), 1_000);
            tokio::spawn(async move { ask_as(&server, "POST", THINGS, JSON, body).await })
        });
        let long: Vec<_> = long.collect();
        // If the worker thread executed these requests, it would be busy for seconds.
        let mut slowest = Duration::ZERO;
        let mut asked = 0;
        while !long.iter().all(tokio::task::JoinHandle::is_finished) {
            let server = server.clone();
            let began = Instant::now();
            let small = tokio::spawn(async move {
                let ready = send(&server, "GET", "/readyz", &Value::Null).await;
                assert_eq!(ready.status(), 200);
                let (code, message) = ask_as(&server, "POST", THINGS, JSON, thing("b", 1)).await;
                assert!([201, 409].contains(&code), "{message}");
            });
            small.await.expect("an answer");
            slowest = slowest.max(began.elapsed());
            asked += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let all = began.elapsed();
        for long in long {
            let (code, message) = long.await.expect("an answer");
            assert_eq!(code, 201, "{message}");
        }
        assert!(asked > 10, "{asked} in {all:?}");
        assert!(slowest < all / 4, "{slowest:?} of {all:?}");
    });
}

#[test]
fn a_large_body_object_or_schema_makes_a_request_heavy() {
    on_one_thread(async {
        let server = with_alternatives(Duration::from_secs(60)).await;
        let (code, message) = ask_as(&server, "POST", THINGS, JSON, thing("large", 2_000)).await;
        assert_eq!(code, 201, "{message}");
        let patch = json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        let large = format!("{THINGS}/large");
        for (what, method, path, media, body) in [
            ("body", "POST", THINGS, JSON, thing("b", 1_000)),
            ("object", "PATCH", &large, MERGE_PATCH, patch),
            ("schema", "POST", THINGS, JSON, thing("s", 200)),
        ] {
            // The worker thread stays free, because another one answers the request.
            let server = server.clone();
            let (path, asks) = (path.to_owned(), what);
            let asked = tokio::spawn(async move {
                let (method, media) = (method.to_owned(), media.to_owned());
                ask_as(&server, &method, &path, &media, body).await
            });
            let began = Instant::now();
            let mut turns = 0;
            while !asked.is_finished() {
                tokio::spawn(async {}).await.expect("a free worker thread");
                turns += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let (code, message) = asked.await.expect("an answer");
            assert!(code < 300, "{asks}: {message}");
            assert!(turns > 3, "{asks}: {turns} turns in {:?}", began.elapsed());
        }
    });
}

#[tokio::test]
async fn a_request_over_its_time_gets_504_and_commits_nothing() {
    let timeout = Duration::from_millis(300);
    let server = with_alternatives(timeout).await;
    let began = Instant::now();
    let (code, message) = ask_as(&server, "POST", THINGS, JSON, thing("a", 25_000)).await;
    let took = began.elapsed();
    assert_eq!(code, 504, "{message}");
    assert_eq!(
        message,
        "Timeout: request did not complete within the allotted timeout"
    );
    // To completion it would take one minute in a debug build.
    assert!(took < 20 * timeout, "{took:?}");
    let list = json(send(&server, "GET", THINGS, &Value::Null).await).await;
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn a_long_list_is_answered_like_a_short_one() {
    let server = with_namespace(builder(), "default").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for number in 0..2_010 {
        let map = json!({"metadata": {"name": format!("m{number}"), "labels": {"n": number.to_string()}}});
        assert_eq!(send(&server, "POST", maps, &map).await.status(), 201);
    }
    let found = json(
        send(
            &server,
            "GET",
            &format!("{maps}?labelSelector=n%3D7"),
            &Value::Null,
        )
        .await,
    )
    .await;
    assert_eq!(found["items"][0]["metadata"]["name"], "m7");
    let gone = send(&server, "DELETE", maps, &Value::Null).await;
    assert_eq!(gone.status(), 200);
    let left = json(send(&server, "GET", maps, &Value::Null).await).await;
    assert_eq!(left["items"], json!([]));
}
