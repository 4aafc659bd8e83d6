//! Servers that continue from another server's state, in memory and through a file.

use podstorm_http::faults::{Effect, Fault};
use podstorm_loadgen::serve::Snapshot;

use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns a server with work in progress: starting pods, a terminating pod, a terminating custom
/// kind, an object that waits for its finalizer, and a terminating namespace.
async fn busy() -> Served {
    let served = start();
    create(&served, DEFINITIONS, definition()).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "w", "finalizers": ["example.com/kept"]}});
    create(&served, WIDGETS, widget).await;
    send(&served, "DELETE", &format!("{WIDGETS}/w"), Value::Null).await;
    // The definition waits for its object, and the object waits for its finalizer.
    let defined = format!("{DEFINITIONS}/widgets.example.com");
    send(&served, "DELETE", &defined, Value::Null).await;
    create(&served, SETS, set("old", 2)).await;
    advance(&served, STARTUP_S);
    assert_eq!(ready(&served, "old").await, 2);
    create(&served, SETS, set("new", 3)).await;
    let ending = json!({"metadata": {"name": "ending"}});
    create(&served, "/api/v1/namespaces", ending).await;
    let kept = json!({"metadata": {"name": "kept", "finalizers": ["example.com/kept"]}});
    create(&served, "/api/v1/namespaces/ending/configmaps", kept).await;
    send(&served, "DELETE", "/api/v1/namespaces/ending", Value::Null).await;
    advance(&served, 100);
    let pods = get(&served, &format!("{PODS}?labelSelector=app%3Dold")).await;
    let ends = &texts(&pods, "name")[0];
    send(&served, "DELETE", &format!("{PODS}/{ends}"), Value::Null).await;
    advance(&served, 5);
    served
}

#[tokio::test]
async fn a_fork_is_the_same_server() {
    let served = busy().await;
    let fork = served.fork().unwrap();
    assert_eq!(fork.now(), served.now());
    let counts = [&fork, &served].map(|server| {
        let cluster = server.cluster();
        (cluster.resource_version(), cluster.pod_totals().existing)
    });
    assert_eq!(counts[0], counts[1]);
    assert_eq!(text(&fork), text(&served));
    let widget = get(&fork, &format!("{WIDGETS}/w")).await;
    assert_eq!(widget, get(&served, &format!("{WIDGETS}/w")).await);
    let since = &widget["metadata"]["deletionTimestamp"];
    assert!(since.is_string(), "{widget}");
    // The next object gets the same UID on both servers.
    let maps = "/api/v1/namespaces/default/configmaps";
    let named = json!({"metadata": {"generateName": "m-"}});
    let one = create(&served, maps, named.clone()).await;
    assert_eq!(one, create(&fork, maps, named).await);
    // A watch from before the fork must list again; one from the fork's version continues.
    let watch = |version: u64| format!("{maps}?watch=1&timeoutSeconds=1&resourceVersion={version}");
    let version = fork.cluster().resource_version() - 1;
    for (version, what) in [(version, "ADDED"), (version - 1, "ERROR")] {
        let (_, event) = send(&fork, "GET", &watch(version), Value::Null).await;
        assert_eq!(event["type"], what, "{event}");
    }
}

#[tokio::test]
async fn work_in_progress_continues_in_a_fork() {
    let fork = busy().await.fork().unwrap();
    // The pods were bound 105 s before the fork; startup takes 300 s.
    assert_eq!(ready(&fork, "new").await, 0);
    advance(&fork, STARTUP_S - 105 - 2);
    assert_eq!(ready(&fork, "new").await, 0);
    // The deleted pod has ended, and its replacement is still starting.
    let old = get(&fork, &format!("{PODS}?labelSelector=app%3Dold")).await;
    assert_eq!(texts(&old, "name").len(), 2, "{old}");
    advance(&fork, 3);
    assert_eq!(ready(&fork, "new").await, 3);
    // Without their finalizers, the objects are removed, and then their definition and namespace.
    let free = json!({"metadata": {"finalizers": null}});
    let widget = format!("{WIDGETS}/w");
    assert_eq!(send(&fork, "PATCH", &widget, free.clone()).await.0, 200);
    let defined = format!("{DEFINITIONS}/widgets.example.com");
    assert_eq!(send(&fork, "GET", &defined, Value::Null).await.0, 404);
    let kept = "/api/v1/namespaces/ending/configmaps/kept";
    assert_eq!(send(&fork, "PATCH", kept, free).await.0, 200);
    advance(&fork, 60);
    let ending = "/api/v1/namespaces/ending";
    assert_eq!(send(&fork, "GET", ending, Value::Null).await.0, 404);
}

/// Makes the requests of a user over seven minutes.
async fn play(served: &Served, replicas: usize) {
    let scale = json!({"spec": {"replicas": replicas}});
    send(served, "PATCH", &format!("{SETS}/new"), scale).await;
    advance(served, 60);
    create(served, SETS, set("more", 2)).await;
    send(served, "DELETE", &format!("{SETS}/old"), Value::Null).await;
    advance(served, STARTUP_S + 60);
}

#[tokio::test]
async fn forks_with_the_same_requests_stay_identical() {
    let served = busy().await;
    let before = text(&served);
    let forks = [4, 4, 1].map(|replicas| (served.fork().unwrap(), replicas));
    let mut after = Vec::new();
    for (fork, replicas) in &forks {
        play(fork, *replicas).await;
        assert_eq!(ready(fork, "new").await, *replicas as u64);
        after.push(text(fork));
    }
    assert_eq!(after[0], after[1]);
    assert_ne!(after[0], after[2]);
    assert_eq!(text(&served), before, "the original server has not changed");
    // A fork of a fork has the same state, too.
    let again = forks[0].0.fork().unwrap();
    assert_eq!(text(&again), after[0]);
}

#[tokio::test]
async fn a_snapshot_outlives_its_server_and_keeps_no_faults() {
    let served = busy().await;
    let fault = Fault::new(Effect::LoseRequest);
    served.api().faults().arm(fault).unwrap();
    let snapshot: Snapshot = served.snapshot().unwrap();
    let (now, before) = (served.now(), text(&served));
    drop(served);
    assert_eq!(snapshot.now(), now);
    for _ in 0..2 {
        let restored = Served::restore(&snapshot).unwrap();
        assert_eq!(text(&restored), before);
        let version = restored.cluster().resource_version();
        assert_eq!(version, snapshot.resource_version());
        assert!(restored.api().faults().all().is_empty());
        advance(&restored, STARTUP_S + 60);
    }
}

#[tokio::test]
async fn in_real_time_a_fork_continues_from_the_same_time() {
    let mut options = options();
    options.sim.engine = EngineKind::Threads;
    options.sim.latency.pod_startup = Latency::Constant(0);
    options.sim.latency.pod_termination = Latency::Constant(0);
    let served = Served::start(options).unwrap();
    create(&served, SETS, set("web", 20)).await;
    while ready(&served, "web").await < 20 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let before = served.now();
    let fork = served.fork().unwrap();
    let (after, forked) = (served.now(), fork.now());
    assert!(before.mono_ns <= forked.mono_ns && before.wall_ns <= forked.wall_ns);
    let ahead = (forked.wall_ns - after.wall_ns).abs();
    assert!(ahead < 5_000_000_000, "{ahead} ns");
    assert_eq!(ready(&fork, "web").await, 20);
    let uids = texts(&get(&fork, PODS).await, "uid");
    assert_eq!(uids, texts(&get(&served, PODS).await, "uid"));
    let scale = json!({"spec": {"replicas": 3}});
    send(&fork, "PATCH", &format!("{SETS}/web"), scale).await;
    while get(&fork, PODS).await["items"].as_array().map(Vec::len) != Some(3) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(ready(&served, "web").await, 20);
}

#[tokio::test]
async fn a_file_keeps_uids_times_and_deletions_but_not_versions() {
    let served = busy().await;
    let first = text(&served);
    let nodes = 0;
    let again = load(&first, ServeOptions { nodes, ..options() });
    // Versions are new, Events are missing, and the clock starts at the latest time in any object.
    let unversioned = |text: &str| {
        let mut list: Value = serde_json::from_str(text).expect("the answer is JSON");
        let items = list["items"].as_array_mut().expect("the answer is a list");
        items.retain(|item| item["kind"] != "Event");
        for item in items {
            let metadata = item["metadata"].as_object_mut().expect("it has metadata");
            metadata.remove("resourceVersion");
        }
        list
    };
    let (one, other) = (unversioned(&first), unversioned(&text(&again)));
    let pairs = one["items"].as_array().unwrap().iter();
    for (one, other) in pairs.zip(other["items"].as_array().unwrap()) {
        assert_eq!(one, other);
    }
    assert_eq!(one, other);
    let behind = served.now().wall_ns - again.now().wall_ns;
    assert!((0..=5_000_000_000).contains(&behind), "{behind} ns");
    let waits = STARTUP_S - 105;
    advance(&again, waits);
    assert_eq!(ready(&again, "new").await, 0);
    advance(&again, 5);
    assert_eq!(ready(&again, "new").await, 3);
}
