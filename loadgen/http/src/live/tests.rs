//! Tests of the sample stream and of the page.

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Empty};
use podstorm_apiserver::{Cluster, ClusterOptions};
use podstorm_objects::{Namespace, Node, Now, Pod, ReplicaSet, Resource};
use serde_json::{Value, json};

use tokio::time::Instant;

use super::*;
use crate::server::Builder;

const NOW: Now = Now {
    mono_ns: 0,
    wall_ns: 0,
};

fn cluster() -> Arc<Cluster> {
    let cluster = Cluster::new(ClusterOptions::default());
    let namespace = Namespace::from_json(json!({"metadata": {"name": "shop"}}));
    cluster.create(namespace.unwrap(), NOW).unwrap();
    Arc::new(cluster)
}

/// Returns a server whose clock is the test's paused clock.
fn server(cluster: &Arc<Cluster>, set_up: impl FnOnce(Builder) -> Builder) -> ApiServer {
    let began = Instant::now();
    let clock = move || NOW.plus_ns(i64::try_from(began.elapsed().as_nanos()).unwrap());
    let builder = ApiServer::builder(Arc::clone(cluster)).clock(Arc::new(clock));
    set_up(builder).build()
}

/// Returns a ReplicaSet with desired, existing and ready pods, as its controller would write it.
fn replica_set(name: &str, [desired, existing, ready]: [i32; 3]) -> ReplicaSet {
    let labels = json!({"app": name});
    let container = json!({"name": "c", "image": "i"});
    let set = ReplicaSet::from_json(json!({
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"replicas": desired, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}},
        "status": {"replicas": existing, "readyReplicas": ready}}));
    set.unwrap()
}

async fn get(server: &ApiServer, path: &str) -> Response<Body> {
    let request = Request::get(path).body(Empty::<Bytes>::new());
    server.answer(request.unwrap()).await.unwrap()
}

async fn next(stream: &mut Body) -> Bytes {
    let frame = stream.frame().await.expect("the stream continues");
    let frame = frame.unwrap();
    frame.into_data().expect("a stream has no trailers")
}

fn sample(event: &Bytes) -> Value {
    let text = std::str::from_utf8(event).unwrap();
    let data = text.strip_prefix("retry: 1000\ndata: ").unwrap();
    let data = data.strip_suffix("\n\n").unwrap();
    assert!(!data.contains('\n'), "the data of an event is one line");
    serde_json::from_str(data).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_stream_sends_a_sample_immediately_and_every_second() {
    let cluster = cluster();
    let server = server(&cluster, |builder| builder);
    let began = Instant::now();
    let response = get(&server, "/podstorm/live").await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.into_body();
    let first = sample(&next(&mut stream).await);
    assert_eq!(began.elapsed(), Duration::ZERO);
    let none = json!({"desired": 0, "existing": 0, "ready": 0});
    assert_eq!(first["pods"], none);
    assert_eq!(first["nodes"], json!({"existing": 0, "ready": 0}));
    assert_eq!(first["objects"], json!({"namespaces": 1}));
    assert_eq!(first["virtual"], false);
    assert_eq!(first["behind"], json!([]));

    cluster.import(replica_set("web", [5, 4, 3]), NOW).unwrap();
    for (name, ready) in [("web-1", "True"), ("web-2", "False")] {
        let pod = Pod::from_json(json!({
            "metadata": {"namespace": "shop", "name": name},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}}));
        cluster.import(pod.unwrap(), NOW).unwrap();
    }
    let condition =
        |kind: &str, status: &str| json!({"conditions": [{"type": kind, "status": status}]});
    for (name, status) in [
        ("ready", condition("Ready", "True")),
        ("lost", condition("Ready", "Unknown")),
        ("silent", condition("DiskPressure", "False")),
    ] {
        let node = Node::from_json(json!({"metadata": {"name": name}, "status": status}));
        cluster.import(node.unwrap(), NOW).unwrap();
    }
    let _watch = get(&server, "/apis/apps/v1/replicasets?watch=1").await;
    let second = sample(&next(&mut stream).await);
    assert_eq!(began.elapsed(), Duration::from_secs(1));
    let pods = json!({"desired": 5, "existing": 2, "ready": 1});
    assert_eq!(
        second["pods"], pods,
        "pods are counted from pods, not from statuses"
    );
    let web = &second["behind"][0];
    assert_eq!(web["statusReplicas"], 4);
    assert_eq!(web["statusReadyReplicas"], 3);
    assert_eq!(second["nodes"], json!({"existing": 3, "ready": 2}));
    assert_eq!(second["objects"]["replicasets.apps"], 1);
    // The answered watch counts, and so does the stream.
    assert_eq!(second["requests"], json!({"GET": 1, "WATCH": 1}));
    assert_eq!(second["writes"]["import replicasets"], 1);
    let watches = json!([{"resource": "replicasets.apps", "open": 1, "events": 0}]);
    assert_eq!(second["watches"], watches);
    assert_eq!(second["now"], "1970-01-01T00:00:01Z");
    assert_eq!(second["seconds"], json!(1.0));
}

#[tokio::test(start_paused = true)]
async fn one_sample_serves_all_streams() {
    let server = server(&cluster(), |builder| builder);
    let mut streams = Vec::new();
    for _ in 0..2 {
        streams.push(get(&server, "/podstorm/live").await.into_body());
    }
    for _ in 0..2 {
        let [a, b] = [next(&mut streams[0]).await, next(&mut streams[1]).await];
        assert_eq!(a.as_ptr(), b.as_ptr());
    }
}

#[tokio::test(start_paused = true)]
async fn lagging_workloads_are_listed_longest_first() {
    let cluster = cluster();
    let server = server(&cluster, |builder| builder);
    let mut stream = get(&server, "/podstorm/live").await.into_body();
    let names = |sample: &Value| -> Vec<(String, f64)> {
        let behind = sample["behind"].as_array().unwrap().iter();
        let pair = |one: &Value| {
            let name = one["name"].as_str().unwrap().to_owned();
            (name, one["forSeconds"].as_f64().unwrap())
        };
        behind.map(pair).collect()
    };
    for (name, pods) in [
        ("fine", [3, 3, 3]),
        ("unready", [3, 3, 2]),
        ("lacking", [3, 0, 0]),
        ("in-excess", [0, 4, 4]),
    ] {
        cluster.import(replica_set(name, pods), NOW).unwrap();
    }
    let first = sample(&next(&mut stream).await);
    let now = |name: &str| (name.to_owned(), 0.0);
    assert_eq!(names(&first), ["in-excess", "lacking", "unready"].map(now));
    assert_eq!(first["behindTotal"], 3);
    for number in 0..20 {
        let set = replica_set(&format!("more-{number:02}"), [9, 0, 0]);
        cluster.import(set, NOW).unwrap();
    }
    let second = sample(&next(&mut stream).await);
    let shown = names(&second);
    assert_eq!(shown.len(), 10);
    assert_eq!(second["behindTotal"], 23);
    assert_eq!(shown[2], ("unready".to_owned(), 1.0));
    assert_eq!(shown[3], ("more-00".to_owned(), 0.0));
    // After a pause without samples the start of the lag is unknown.
    drop(stream);
    tokio::time::sleep(Duration::from_secs(10)).await;
    let mut stream = get(&server, "/podstorm/live").await.into_body();
    let third = sample(&next(&mut stream).await);
    assert!(names(&third).iter().all(|(_, seconds)| *seconds == 0.0));
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_the_server_and_holds_no_place() {
    let server = server(&cluster(), |builder| builder.requests_inflight(1, 1));
    let mut stream = get(&server, "/podstorm/live").await.into_body();
    drop(next(&mut stream).await);
    assert_eq!(get(&server, "/version").await.status(), 200);
    let waiting = tokio::spawn(stream.collect());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    let before = Instant::now();
    server.drain();
    waiting.await.unwrap().unwrap();
    assert_eq!(before.elapsed(), Duration::ZERO);
    let stream = get(&server, "/podstorm/live").await.into_body();
    assert!(stream.collect().await.unwrap().to_bytes().is_empty());
}

#[tokio::test]
async fn only_browsers_get_the_page() {
    let with_page = server(&cluster(), |builder| builder.page("<p>"));
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for (method, accept, is_page) in [
        ("GET", browser, true),
        ("HEAD", browser, true),
        ("GET", "text/html", true),
        ("GET", "application/json;q=0.5,text/html", true),
        ("POST", browser, false),
        ("GET", "", false),
        ("GET", "*/*", false),
        ("GET", "application/json", false),
        ("GET", "application/json,text/html", false),
        ("GET", "text/html;q=0.1,application/json", false),
        ("GET", "text/html;q=0,*/*;q=0", false),
    ] {
        let request = Request::builder().method(method).uri("/");
        let request = request.header("accept", accept);
        let request = request.body(Empty::<Bytes>::new()).unwrap();
        let response = with_page.answer(request).await.unwrap();
        let is_html = response.headers()["content-type"] == "text/html; charset=utf-8";
        assert_eq!(is_html, is_page, "{method} {accept}");
    }
    let without = server(&cluster(), |builder| builder);
    let request = Request::get("/").header("accept", browser);
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let body = without.answer(request).await.unwrap().into_body();
    let body = body.collect().await.unwrap().to_bytes();
    let paths: Value = serde_json::from_slice(&body).unwrap();
    let paths = paths["paths"].as_array().unwrap();
    assert!(paths.contains(&json!("/podstorm/live")));
}

#[tokio::test]
async fn a_stream_allows_only_get() {
    let server = server(&cluster(), |builder| builder);
    let request = Request::post("/podstorm/live").body(Empty::<Bytes>::new());
    assert_eq!(server.answer(request.unwrap()).await.unwrap().status(), 405);
}
