//! Armed faults as clients see them, in process and over a connection.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http_body::Body as _;
use podstorm_http::faults::{Effect, Fault, Refusal, Verb};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

const MAPS: &str = "/api/v1/namespaces/n/configmaps";

/// Returns a server with a namespace and with virtual or real time.
async fn server(is_virtual: bool) -> ApiServer {
    let mut builder = builder();
    if is_virtual {
        let time = Arc::new(Time::default());
        let clock = Arc::clone(&time);
        builder = builder
            .clock(Arc::new(move || clock.now()))
            .virtual_time(time);
    }
    with_namespace(builder, "n").await
}

async fn status_of(server: &ApiServer, method: &str, path: &str, body: Value) -> u16 {
    send(server, method, path, &body).await.status().as_u16()
}

async fn json_of(server: &ApiServer, method: &str, path: &str, body: Value) -> Value {
    json(send(server, method, path, &body).await).await
}

fn map(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

/// Polls a watch for its lines; `None` at its end.
fn hear(body: &mut Body) -> Poll<Option<Result<String, ConnectionLost>>> {
    let mut context = Context::from_waker(Waker::noop());
    let frame = Pin::new(body).poll_frame(&mut context);
    frame.map(|frame| {
        frame.map(|frame| {
            let data = frame?.into_data().expect("no trailers are sent");
            Ok(String::from_utf8(data.to_vec()).expect("valid JSON"))
        })
    })
}

/// Returns the types of a watch's pending events.
fn types(body: &mut Body) -> Vec<String> {
    let mut types = Vec::new();
    while let Poll::Ready(Some(Ok(lines))) = hear(body) {
        for line in lines.lines() {
            let event: Value = serde_json::from_str(line).expect("valid JSON");
            types.push(event["type"].as_str().expect("an event type").to_owned());
        }
    }
    types
}

async fn watch(server: &ApiServer) -> Body {
    let opened = send(server, "GET", &format!("{MAPS}?watch=1"), &Value::Null).await;
    opened.into_body()
}

fn creates(effect: Effect) -> Fault {
    Fault {
        verbs: vec![Verb::Create],
        resource: "configmaps".to_owned(),
        ..Fault::new(effect)
    }
}

#[tokio::test]
async fn a_fault_refuses_one_request_and_not_the_next() {
    let server = server(false).await;
    let effect = Effect::Refuse(Refusal {
        code: 503,
        retry_after_seconds: Some(3),
    });
    let id = server.faults().arm(creates(effect)).unwrap();
    let refused = send(&server, "POST", MAPS, &map("a")).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "3");
    assert_eq!(server.faults().struck(id), Some(1));
    assert_eq!(status_of(&server, "POST", MAPS, map("a")).await, 201);
    assert_eq!(server.faults().struck(id), Some(1));
}

#[tokio::test]
async fn a_lost_request_changes_nothing_and_a_lost_answer_does() {
    let server = server(false).await;
    server.faults().arm(creates(Effect::LoseRequest)).unwrap();
    let lost = try_send(&server, "POST", MAPS, &map("a")).await;
    assert_eq!(lost.err(), Some(ConnectionLost));
    let a = format!("{MAPS}/a");
    assert_eq!(status_of(&server, "GET", &a, Value::Null).await, 404);

    let lose = creates(Effect::LoseAnswer(None));
    server.faults().arm(lose).unwrap();
    let lost = try_send(&server, "POST", MAPS, &map("a")).await;
    assert_eq!(lost.err(), Some(ConnectionLost));
    assert_eq!(status_of(&server, "GET", &a, Value::Null).await, 200);

    let timeout = Effect::LoseAnswer(Some(Refusal::code(504)));
    server.faults().arm(creates(timeout)).unwrap();
    assert_eq!(status_of(&server, "POST", MAPS, map("b")).await, 504);
    let b = format!("{MAPS}/b");
    assert_eq!(status_of(&server, "GET", &b, Value::Null).await, 200);
}

#[tokio::test]
async fn a_released_watch_gets_all_events() {
    let server = server(false).await;
    let mut before = watch(&server).await;
    let held = Fault {
        resource: "configmaps".to_owned(),
        times: Fault::ALWAYS,
        ..Fault::new(Effect::HoldEvents(None))
    };
    let id = server.faults().arm(held).unwrap();
    assert_eq!(
        server.faults().struck(id),
        Some(1),
        "the fault strikes the open watch"
    );
    let mut after = watch(&server).await;
    assert_eq!(
        server.faults().struck(id),
        Some(2),
        "the fault strikes a new watch"
    );
    assert_eq!(status_of(&server, "POST", MAPS, map("a")).await, 201);
    assert!(types(&mut before).is_empty());
    assert!(types(&mut after).is_empty());
    // Reads are up to date.
    let a = format!("{MAPS}/a");
    assert_eq!(status_of(&server, "GET", &a, Value::Null).await, 200);
    assert_eq!(status_of(&server, "DELETE", &a, Value::Null).await, 200);
    server.faults().disarm(id).unwrap();
    assert_eq!(types(&mut before), ["ADDED", "DELETED"]);
    assert_eq!(types(&mut after), ["ADDED", "DELETED"]);
    assert_eq!(status_of(&server, "POST", MAPS, map("b")).await, 201);
    assert_eq!(types(&mut before), ["ADDED"]);
}

#[tokio::test]
async fn a_watch_is_held_by_the_clusters_clock() {
    let server = server(true).await;
    let mut watch = watch(&server).await;
    let fault = json!({"effect": "hold-events", "seconds": 300});
    let armed = json_of(&server, "POST", "/podstorm/faults", fault).await;
    assert_eq!(armed["struck"], 1, "{armed}");
    assert_eq!(status_of(&server, "POST", MAPS, map("a")).await, 201);
    let waits = tokio::spawn(async move {
        let frame = watch.frame().await.expect("the stream continues");
        frame
            .expect("the watch is not cut")
            .into_data()
            .expect("events")
    });
    let advance = "/podstorm/clock/advance";
    let moved = json!({"seconds": 299.5});
    assert_eq!(status_of(&server, "POST", advance, moved).await, 200);
    tokio::task::yield_now().await;
    assert!(!waits.is_finished());
    let moved = json!({"seconds": 0.5});
    assert_eq!(status_of(&server, "POST", advance, moved).await, 200);
    // Advancing the clock wakes the watch directly: nothing polls.
    let lines = tokio::time::timeout(Duration::from_secs(10), waits).await;
    let lines = lines.expect("the watch is woken").expect("no panic");
    assert!(lines.starts_with(b"{\"type\":\"ADDED\""), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_is_held_by_a_real_clock() {
    let began = tokio::time::Instant::now();
    // The clock runs sixty times as fast as the timer.
    let clock = Arc::new(move || {
        let ns = i64::try_from(began.elapsed().as_nanos() * 60).expect("a short value");
        Now {
            mono_ns: ns,
            wall_ns: ns,
        }
    });
    let server = builder().clock(clock).build();
    let namespace = json!({"metadata": {"name": "n"}});
    let spaces = "/api/v1/namespaces";
    let opened = send(&server, "GET", "/api/v1/namespaces?watch=1", &Value::Null).await;
    let mut watch = opened.into_body();
    let hold = Effect::HoldEvents(Some(Duration::from_secs(60)));
    server.faults().arm(Fault::new(hold)).unwrap();
    assert_eq!(status_of(&server, "POST", spaces, namespace).await, 201);
    watch.frame().await.unwrap().unwrap();
    let took = began.elapsed();
    assert!((1.0..1.1).contains(&took.as_secs_f64()), "{took:?}");
}

#[tokio::test]
async fn watches_end_are_cut_and_expire() {
    let server = server(false).await;
    let fault = |effect| Fault {
        resource: "configmaps".to_owned(),
        ..Fault::new(effect)
    };
    for is_open in [true, false] {
        for effect in [Effect::EndWatch, Effect::CutWatch, Effect::ExpireWatch] {
            let open = match is_open {
                true => Some(watch(&server).await),
                false => None,
            };
            let id = server.faults().arm(fault(effect)).unwrap();
            assert_eq!(server.faults().struck(id), Some(u64::from(is_open)));
            let mut body = match open {
                Some(open) => open,
                None => watch(&server).await,
            };
            assert_eq!(server.faults().struck(id), Some(1), "{effect:?}");
            match (effect, hear(&mut body)) {
                (Effect::EndWatch, Poll::Ready(None)) => continue,
                (Effect::CutWatch, Poll::Ready(Some(Err(ConnectionLost)))) => {}
                (Effect::ExpireWatch, Poll::Ready(Some(Ok(line)))) => {
                    let event: Value = serde_json::from_str(&line).expect("valid JSON");
                    assert_eq!(event["type"], "ERROR");
                    assert_eq!(event["object"]["code"], 410);
                    assert_eq!(event["object"]["reason"], "Expired");
                }
                (_, other) => panic!("{effect:?}: {other:?}"),
            }
            assert!(matches!(hear(&mut body), Poll::Ready(None)));
            // The expired watch was the only one.
            assert!(hear(&mut watch(&server).await).is_pending());
        }
    }
}

#[tokio::test]
async fn a_fault_strikes_its_number_of_watches_oldest_first() {
    let server = server(false).await;
    let mut watches = Vec::new();
    for _ in 0..4 {
        watches.push(watch(&server).await);
    }
    let fault = Fault {
        after: 1,
        times: 2,
        ..Fault::new(Effect::EndWatch)
    };
    server.faults().arm(fault).unwrap();
    let ended = watches
        .iter_mut()
        .map(|watch| matches!(hear(watch), Poll::Ready(None)));
    assert_eq!(ended.collect::<Vec<_>>(), [false, true, true, false]);
}

#[tokio::test]
async fn a_watch_that_is_refused_is_not_struck() {
    let server = server(false).await;
    server.faults().arm(Fault::new(Effect::EndWatch)).unwrap();
    let wrong = format!("{MAPS}?watch=1&timeoutSeconds=soon");
    assert_eq!(status_of(&server, "GET", &wrong, Value::Null).await, 400);
    assert_eq!(server.faults().all()[0].struck, 0);
}

#[tokio::test]
async fn an_answer_is_delayed_by_the_clusters_clock() {
    let server = server(true).await;
    let late = creates(Effect::DelayAnswer(Duration::from_secs(30)));
    server.faults().arm(late.clone()).unwrap();
    let slow = |name: &'static str| {
        let server = server.clone();
        tokio::spawn(async move { status_of(&server, "POST", MAPS, map(name)).await })
    };
    let waits = slow("a");
    let a = format!("{MAPS}/a");
    while status_of(&server, "GET", &a, Value::Null).await != 200 {
        tokio::task::yield_now().await;
    }
    assert!(
        !waits.is_finished(),
        "the request is executed but not answered"
    );
    let moved = json!({"seconds": 30});
    let advance = "/podstorm/clock/advance";
    assert_eq!(status_of(&server, "POST", advance, moved).await, 200);
    assert_eq!(waits.await.unwrap(), 201);

    // Disarming the fault and draining the server release the answer too.
    for number in 0..2 {
        let name = ["b", "c"][number];
        let id = server.faults().arm(late.clone()).unwrap();
        let waits = slow(name);
        let path = format!("{MAPS}/{name}");
        while status_of(&server, "GET", &path, Value::Null).await != 200 {
            tokio::task::yield_now().await;
        }
        match number {
            0 => drop(server.faults().disarm(id)),
            _ => server.drain(),
        }
        assert_eq!(waits.await.unwrap(), 201);
    }
}

#[tokio::test]
async fn faults_are_armed_listed_and_disarmed_over_http() {
    let server = server(false).await;
    let path = "/podstorm/faults";
    let fault = json!({"verbs": ["create"], "resource": "configmaps", "namespace": "n",
        "effect": "refuse", "code": 409, "times": "always", "after": 1});
    let mut wanted = json!({"id": 1, "passed": 0, "struck": 0});
    for (member, value) in fault.as_object().expect("an object") {
        wanted[member] = value.clone();
    }
    let armed = send(&server, "POST", path, &fault).await;
    assert_eq!(armed.status(), 201);
    assert!(!armed.headers().contains_key("warning"));
    assert_eq!(json(armed).await, wanted);
    assert_eq!(status_of(&server, "POST", MAPS, map("a")).await, 201);
    let conflict = json_of(&server, "POST", MAPS, map("b")).await;
    assert_eq!(conflict["reason"], "AlreadyExists");
    (wanted["passed"], wanted["struck"]) = (json!(1), json!(1));
    let one = format!("{path}/1");
    assert_eq!(json_of(&server, "GET", &one, Value::Null).await, wanted);
    let listed = json_of(&server, "GET", path, Value::Null).await;
    assert_eq!(listed, json!({"faults": [wanted]}));
    let metrics = text(send(&server, "GET", "/metrics", &Value::Null).await).await;
    assert!(
        metrics.contains("\npodstorm_faults_struck_total{effect=\"refuse\"} 1\n"),
        "{metrics}"
    );
    assert_eq!(json_of(&server, "DELETE", &one, Value::Null).await, wanted);
    for (method, path, code) in [
        ("DELETE", one.as_str(), 404),
        ("GET", &one, 404),
        ("GET", "/podstorm/faults/first", 404),
        ("PUT", path, 405),
        ("POST", &one, 405),
    ] {
        let found = status_of(&server, method, path, Value::Null).await;
        assert_eq!(found, code, "{method} {path}");
    }
    assert_eq!(status_of(&server, "POST", MAPS, map("b")).await, 201);

    let wrong = json!({"effect": "refuse", "code": 418});
    let refused = json_of(&server, "POST", path, wrong).await;
    assert_eq!(refused["code"], 400);
    assert_eq!(refused["details"]["causes"][0]["field"], "code");

    // A kind that is not served may be served later, so the fault is armed, with a warning.
    let early = json!({"effect": "end-watch", "resource": "pod"});
    let armed = send(&server, "POST", path, &early).await;
    assert_eq!(armed.status(), 201);
    let warning = armed.headers()["warning"].to_str().unwrap().to_owned();
    assert!(warning.contains("no resource"), "{warning}");
    let disarmed = json_of(&server, "DELETE", path, Value::Null).await;
    assert_eq!(disarmed["faults"].as_array().map(Vec::len), Some(1));
    let listed = json_of(&server, "GET", path, Value::Null).await;
    assert_eq!(listed, json!({"faults": []}));
}

/// Sends a request and returns what arrives until the connection closes.
async fn say(address: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address)
        .await
        .expect("the server listens");
    let sent = client.write_all(request.as_bytes()).await;
    sent.expect("the server reads");
    let mut back = Vec::new();
    let read = client.read_to_end(&mut back);
    let _closed = tokio::time::timeout(Duration::from_secs(10), read)
        .await
        .expect("the connection is closed");
    String::from_utf8_lossy(&back).into_owned()
}

#[tokio::test]
async fn a_lost_answer_and_a_cut_watch_close_the_connection() {
    let server = server(false).await;
    let address = on_socket(server.clone(), None).await;
    let lose = creates(Effect::LoseAnswer(None));
    server.faults().arm(lose).unwrap();
    let body = map("a").to_string();
    let length = body.len();
    let create = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    assert_eq!(say(address, &create).await, "");
    let a = format!("{MAPS}/a");
    assert_eq!(status_of(&server, "GET", &a, Value::Null).await, 200);

    let watch = format!("GET {MAPS}?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n");
    for (effect, is_whole) in [(Effect::EndWatch, true), (Effect::CutWatch, false)] {
        server.faults().arm(Fault::new(effect)).unwrap();
        // A complete chunked body ends with a chunk of length 0.
        let request = watch.replace("\r\n\r\n", "\r\nconnection: close\r\n\r\n");
        let back = say(address, &request).await;
        assert_eq!(back.ends_with("0\r\n\r\n"), is_whole, "{effect:?}: {back}");
    }
}
