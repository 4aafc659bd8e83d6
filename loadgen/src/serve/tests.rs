//! Virtual time, and what a kubeconfig holds.

use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use podstorm_apiserver::latency::Latency;
use podstorm_objects::Pod;
use serde_json::Value;

use super::*;
use crate::manifest::load_served;

/// How long pods take to be ready here, s.
const STARTUP: i64 = 300;

fn start() -> Served {
    let mut sim = SimOptions::new(EngineKind::Virtual, 1);
    sim.latency.pod_startup = Latency::Constant(STARTUP * 1_000_000_000);
    let options = ServeOptions {
        sim,
        ..ServeOptions::default()
    };
    Served::start(options).expect("nothing is loaded")
}

async fn send(served: &Served, method: &str, path: &str, body: &Value) -> Value {
    let request = Request::builder().method(method).uri(path);
    let body = Full::new(Bytes::from(body.to_string()));
    let response = served
        .api()
        .answer(request.body(body).unwrap())
        .await
        .expect("no fault is armed");
    let body = response
        .into_body()
        .collect()
        .await
        .expect("no fault is armed");
    serde_json::from_slice(&body.to_bytes()).unwrap()
}

fn ready(pods: &Value) -> usize {
    let is_ready = |pod: &&Value| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let mut ready = conditions.filter(|one| one["type"] == "Ready");
        ready.any(|one| one["status"] == "True")
    };
    pods["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(is_ready)
        .count()
}

const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

/// A ReplicaSet of two pods.
fn set() -> Value {
    json!({"metadata": {"name": "web"}, "spec": {"replicas": 2,
        "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}})
}

/// The states that a test sees which waits five minutes of the cluster's time.
async fn play() -> Vec<String> {
    let served = start();
    let pods = "/api/v1/pods";
    let created = send(&served, "POST", SETS, &set()).await;
    assert_eq!(created["metadata"]["name"], "web", "{created}");
    // The answer has come: all that is due at once has happened.
    let before = send(&served, "GET", pods, &Value::Null).await;
    assert_eq!(before["items"].as_array().unwrap().len(), 2);
    assert_eq!(ready(&before), 0);
    let moved = json!({"seconds": STARTUP - 1});
    let clock = send(&served, "POST", "/podstorm/clock/advance", &moved).await;
    assert_eq!(clock["seconds"], 299.0);
    let nearly = send(&served, "GET", pods, &Value::Null).await;
    assert_eq!(ready(&nearly), 0);
    let now = served.advance(Duration::from_secs(2)).unwrap();
    assert_eq!(now.mono_ns, 301_000_000_000);
    let after = send(&served, "GET", pods, &Value::Null).await;
    assert_eq!(ready(&after), 2);
    let set = send(&served, "GET", &format!("{SETS}/web"), &Value::Null).await;
    assert_eq!(set["status"]["readyReplicas"], 2, "{set}");
    vec![before.to_string(), after.to_string(), set.to_string()]
}

#[tokio::test]
async fn five_minutes_pass_when_they_are_asked_to_and_the_same_every_time() {
    assert_eq!(play().await, play().await);
}

#[tokio::test]
async fn real_time_is_not_moved() {
    let served = Served::start(ServeOptions::default()).unwrap();
    assert_eq!(served.advance(Duration::from_secs(1)), None);
}

#[tokio::test]
async fn samples_come_while_the_time_of_the_cluster_stands_still() {
    let served = start();
    let open = Request::get("/podstorm/live").body(Full::new(Bytes::new()));
    let mut stream = served
        .api()
        .answer(open.unwrap())
        .await
        .unwrap()
        .into_body();
    let mut states = Vec::new();
    for step in 0..3 {
        match step {
            0 => {}
            1 => drop(send(&served, "POST", SETS, &set()).await),
            _ => drop(served.advance(Duration::from_secs(301))),
        }
        let frame = stream.frame().await.expect("it goes on").unwrap();
        let event = String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap();
        let sample = event.split_once("data: ").expect("it is an event").1;
        let sample: Value = serde_json::from_str(sample).unwrap();
        assert_eq!(sample["virtual"], true);
        let of = |name: &str| sample["pods"][name].as_u64().unwrap();
        let pods = [of("desired"), of("existing"), of("ready")];
        states.push((sample["seconds"].as_f64().unwrap(), pods));
    }
    assert_eq!(
        states,
        [(0.0, [0, 0, 0]), (0.0, [2, 2, 0]), (301.0, [2, 2, 2])]
    );
}

/// The names of all pods of a cluster, sorted.
fn names(served: &Served) -> Vec<String> {
    let mut names = Vec::new();
    served
        .cluster()
        .for_each::<Pod>(|pod| names.push(pod.metadata.name.to_string()));
    names.sort_unstable();
    names
}

#[test]
fn what_is_loaded_is_there_before_the_controllers_are() {
    const PODS: usize = 500;
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web"},
        "spec": {"replicas": PODS, "selector": {"matchLabels": {"app": "web"}}, "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let start = |file: &[u8]| {
        let loaded = load_served(&["-".into()], file).expect("it is a manifest");
        let options = ServeOptions {
            objects: loaded.objects,
            pods_per_node: 1000,
            ..ServeOptions::default()
        };
        Served::start(options).expect("all of it is valid")
    };
    let first = start(set.to_string().as_bytes());
    while ready_pods(&first) < PODS {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut snapshot = Vec::new();
    write_snapshot(first.cluster(), &mut snapshot).expect("memory takes everything");
    // The ReplicaSet may come before its pods.
    let mut list: Value = serde_json::from_slice(&snapshot).expect("it is JSON");
    list["items"].as_array_mut().expect("a list").reverse();
    let again = start(list.to_string().as_bytes());
    // Long enough for the controllers to look at everything.
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(names(&again), names(&first));
}

#[tokio::test]
async fn a_snapshot_holds_custom_objects_and_what_defines_them() {
    let start = |file: &[u8]| {
        let loaded = load_served(&["-".into()], file).expect("it is a manifest");
        assert!(loaded.counts.ignored.is_empty(), "{:?}", loaded.counts);
        let objects = loaded.objects;
        let options = ServeOptions {
            objects,
            ..ServeOptions::default()
        };
        Served::start(options).expect("all of it is valid")
    };
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object",
        "properties": {"size": {"type": "integer", "default": 3}}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}});
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w"}, "spec": {}});
    // The definition may come after its objects.
    let first = start(format!("{widget}\n{definition}").as_bytes());
    let path = "/apis/example.com/v1/namespaces/default/widgets/w";
    let found = send(&first, "GET", path, &Value::Null).await;
    assert_eq!(found["spec"]["size"], 3, "{found}");
    let mut snapshot = Vec::new();
    write_snapshot(first.cluster(), &mut snapshot).expect("memory takes everything");
    let again = start(&snapshot);
    let restored = send(&again, "GET", path, &Value::Null).await;
    assert_eq!(restored["metadata"]["uid"], found["metadata"]["uid"]);
}

fn ready_pods(served: &Served) -> usize {
    let mut ready = 0;
    served
        .cluster()
        .for_each::<Pod>(|pod| ready += usize::from(pod.is_ready()));
    ready
}

#[test]
fn a_kubeconfig_holds_what_lets_a_client_in() {
    let address: SocketAddr = "0.0.0.0:8443".parse().unwrap();
    let read = |access: &Access| -> Value {
        serde_saphyr::from_str(&kubeconfig(address, &access.login)).unwrap()
    };
    let open = Access::new(address.ip(), None, Vec::new()).unwrap();
    let config = read(&open);
    // Clients can't connect to "any address".
    assert_eq!(
        config["clusters"][0]["cluster"],
        json!({"server": "http://127.0.0.1:8443"})
    );
    assert_eq!(config["users"][0]["user"], json!({}));

    let user = podstorm_http::User::default();
    let tokens = vec![("t".to_owned(), user)];
    let config = read(&Access::new(address.ip(), None, tokens).unwrap());
    assert_eq!(
        config["users"][0]["user"]["token"].as_str().map(str::len),
        Some(64)
    );
    assert_eq!(config["users"].as_array().map(Vec::len), Some(1));

    let names = ["cluster.example".to_owned()];
    let secure = Access::new(address.ip(), Some(&names), Vec::new()).unwrap();
    assert!(secure.tls.is_some());
    let config = read(&secure);
    let cluster = &config["clusters"][0]["cluster"];
    assert_eq!(cluster["server"], "https://127.0.0.1:8443");
    assert!(cluster["certificate-authority-data"].is_string());
    let names: Vec<&Value> = config["users"]
        .as_array()
        .unwrap()
        .iter()
        .map(|user| &user["name"])
        .collect();
    assert_eq!(names, ["podstorm", "podstorm-certificate"]);
    assert!(config["users"][1]["user"]["client-key-data"].is_string());
    assert_eq!(config["contexts"][0]["context"]["user"], "podstorm");
    let bad = ["\u{f6}".to_owned()];
    assert!(Access::new(address.ip(), Some(&bad), Vec::new()).is_err());
}
