//! The lifecycle of pods, as a client sees it over HTTP.

use super::*;

/// Returns kind, phase, readiness and state of the watch events of pods since a version.
async fn events(served: &Served, since: &str) -> Vec<String> {
    let path = format!("{PODS}?watch=1&timeoutSeconds=1&resourceVersion={since}");
    let request = Request::get(path).body(Full::new(Bytes::new()));
    let request = request.expect("the request is well formed");
    let answer = served
        .api()
        .answer(request)
        .await
        .expect("the server answers");
    let body = answer
        .into_body()
        .collect()
        .await
        .expect("the answer is complete");
    let body = body.to_bytes();
    let lines = body.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    lines
        .map(|line| {
            told(&read(
                serde_json::from_slice(line).expect("the answer is JSON"),
            ))
        })
        .collect()
}

fn told(event: &Value) -> String {
    let status = &event["object"]["status"];
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut ready = conditions.filter(|condition| condition["type"] == "Ready");
    let ready = ready
        .next()
        .map_or("-", |ready| ready["status"].as_str().unwrap_or("-"));
    let state = status["containerStatuses"][0]["state"].as_object();
    let state = state.and_then(|state| state.keys().next());
    let state = state.map_or("-", String::as_str);
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let grace = &event["object"]["metadata"]["deletionGracePeriodSeconds"];
    let (kind, phase) = (text(&event["type"]), text(&status["phase"]));
    format!("{kind} {phase} {ready} {state} {grace}")
}

/// Returns a pod whose script sets how long it takes to terminate.
fn pod(name: &str, finalizers: &Value) -> Value {
    let annotations = json!({"podstorm/script": "stop=2s"});
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations, "finalizers": finalizers},
        "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

/// Creates a pod, waits until it runs, deletes it, and waits for longer than it takes to terminate.
async fn deleted(finalizers: &Value) -> (Served, Vec<String>) {
    let served = start();
    let made = create(&served, PODS, pod("p", finalizers)).await;
    let version = made["metadata"]["resourceVersion"].as_str();
    let version = version.expect("it has one").to_owned();
    advance(&served, STARTUP_S);
    let (code, _) = send(&served, "DELETE", &format!("{PODS}/p"), Value::Null).await;
    assert_eq!(code, 200);
    advance(&served, 5);
    let seen = events(&served, &version).await;
    (served, seen)
}

const STEPS: [&str; 7] = [
    "MODIFIED Pending - - null",
    "MODIFIED Pending False waiting null",
    "MODIFIED Running True running null",
    "MODIFIED Running True running 30",
    "MODIFIED Running True running 30",
    "MODIFIED Succeeded False terminated 30",
    "MODIFIED Succeeded False terminated 0",
];

#[tokio::test]
async fn a_deleted_pod_is_unready_and_then_removed() {
    let (_, seen) = deleted(&json!([])).await;
    assert_eq!(seen[..7], STEPS);
    assert_eq!(seen[7..], ["DELETED Succeeded False terminated 0"]);
}

#[tokio::test]
async fn a_finalizer_keeps_a_pod_that_has_ended() {
    let (served, seen) = deleted(&json!(["example.com/kept"])).await;
    assert_eq!(seen, STEPS);
    let found = get(&served, &format!("{PODS}/p")).await;
    let version = found["metadata"]["resourceVersion"].as_str();
    let version = version.expect("it has one").to_owned();
    let free = json!({"metadata": {"finalizers": null}});
    assert_eq!(
        send(&served, "PATCH", &format!("{PODS}/p"), free).await.0,
        200
    );
    let seen = events(&served, &version).await;
    assert_eq!(seen, ["DELETED Succeeded False terminated 0"]);
}

#[tokio::test]
async fn a_pod_that_a_client_makes_unready_recovers_in_ten_seconds() {
    let served = start();
    // Pods with a script are checked sooner.
    let mut plain = pod("p", &json!([]));
    plain["metadata"]["annotations"] = Value::Null;
    create(&served, PODS, plain).await;
    advance(&served, STARTUP_S);
    let found = get(&served, &format!("{PODS}/p")).await;
    let mut conditions = found["status"]["conditions"].clone();
    assert_eq!(conditions[2]["type"], "Ready");
    conditions[2]["status"] = "False".into();
    let status = json!({"status": {"conditions": conditions}});
    let (code, _) = send(&served, "PATCH", &format!("{PODS}/p/status"), status).await;
    assert_eq!(code, 200);
    for (seconds, is_ready) in [(9, "False"), (1, "True"), (600, "True")] {
        advance(&served, seconds);
        let found = get(&served, &format!("{PODS}/p")).await;
        assert_eq!(found["status"]["conditions"][2]["status"], is_ready);
    }
}

/// Returns reason, message and reporter of the Events about a pod, in both API versions.
async fn events_about(served: &Served, pod: &str) -> [Vec<String>; 2] {
    let selected = |field: &str| format!("fieldSelector={field}.name%3D{pod}");
    let core = format!("{EVENTS}?{}", selected("involvedObject"));
    let newer = format!("{NEWER_EVENTS}?{}", selected("regarding"));
    let told = |list: Value, message: &str, reporter: &str| -> Vec<String> {
        let items = list["items"].as_array().into_iter().flatten();
        let text = |event: &Value, member: &str| event[member].as_str().unwrap_or("").to_owned();
        let told = items.map(|event| {
            let parts = ["reason", message, reporter].map(|member| text(event, member));
            parts.join(" | ")
        });
        told.collect()
    };
    [
        told(get(served, &core).await, "message", "reportingComponent"),
        told(get(served, &newer).await, "note", "reportingController"),
    ]
}

const EVENTS: &str = "/api/v1/namespaces/default/events";
const NEWER_EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

#[tokio::test]
async fn scheduler_and_kubelets_write_events_until_they_expire() {
    let mut kept = options();
    kept.sim.services.event_ttl_ns = 3600 * 1_000_000_000;
    let served = Served::start(kept).expect("without files nothing can be refused");
    create(&served, PODS, pod("p", &json!([]))).await;
    let mut picky = pod("picky", &json!([]));
    picky["spec"]["nodeSelector"] = json!({"disk": "ssd"});
    create(&served, PODS, picky).await;
    advance(&served, STARTUP_S);
    let found = get(&served, &format!("{PODS}/p")).await;
    let node = found["spec"]["nodeName"]
        .as_str()
        .expect("the pod is bound");
    let [core, newer] = events_about(&served, "p").await;
    assert_eq!(
        core,
        [
            &*format!("Scheduled | Successfully assigned default/p to {node} | default-scheduler"),
            "Pulling | Pulling image \"i\" | kubelet",
            "Pulled | Successfully pulled image \"i\" in 5m0s (5m0s including waiting). \
             Image size: 10485760 bytes. | kubelet",
            "Created | Container created | kubelet",
            "Started | Container started | kubelet",
        ]
    );
    assert_eq!(newer, core);
    let why = "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector. \
        preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.";
    let [core, newer] = events_about(&served, "picky").await;
    let told = format!("FailedScheduling | {why} | default-scheduler");
    assert_eq!(core, [&*told, &told], "once more after five minutes");
    assert_eq!(newer, core);
    let found = get(&served, &format!("{PODS}/picky")).await;
    let condition = &found["status"]["conditions"][0];
    assert_eq!(condition["type"], "PodScheduled");
    assert_eq!(condition["message"], why);
    advance(&served, 3600);
    let [core, _] = events_about(&served, "p").await;
    assert_eq!(core, [""; 0]);

    // With the flag.
    let mut silent = options();
    silent.rules.pod_events = false;
    let served = Served::start(silent).expect("without files nothing can be refused");
    create(&served, PODS, pod("p", &json!([]))).await;
    advance(&served, STARTUP_S);
    assert_eq!(events_about(&served, "p").await, [[""; 0]; 2]);
}
