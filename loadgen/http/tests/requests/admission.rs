//! Admission of pods when they are created and when they change: what plugins add and refuse.

use http::header::CONTENT_TYPE;

use super::*;

const PODS: &str = "/api/v1/namespaces/n/pods";
const NAMED: &str = "/api/v1/namespaces/n/pods/p";

fn pod(image: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": image}]}});
    for (member, value) in spec.as_object().into_iter().flatten() {
        pod["spec"][member] = value.clone();
    }
    pod
}

/// Returns what plugins have added to a pod's spec.
fn added(pod: &Value) -> Value {
    let spec = &pod["spec"];
    let tolerations = spec["tolerations"].as_array().into_iter().flatten();
    let keys: Vec<&Value> = tolerations.map(|it| &it["key"]).collect();
    json!([spec["priority"], spec["preemptionPolicy"], keys])
}

async fn patch(server: &ApiServer, kind: &str, body: &Value) -> Response<Body> {
    let query = if kind.contains("apply") {
        "?fieldManager=m&force=true"
    } else {
        ""
    };
    let request = Request::builder()
        .method("PATCH")
        .uri(format!("{NAMED}{query}"))
        .header(CONTENT_TYPE, format!("application/{kind}"));
    let request = request.body(Full::new(Bytes::from(body.to_string())));
    let answer = server.answer(request.expect("a request")).await;
    answer.expect("an answer")
}

#[tokio::test]
async fn added_fields_survive_every_kind_of_change() {
    let server = with_namespace(builder(), "n").await;
    let made = send(&server, "POST", PODS, &pod("i:1", Value::Null)).await;
    let wanted = added(&json(made).await);
    let keys = [
        "node.kubernetes.io/not-ready",
        "node.kubernetes.io/unreachable",
    ];
    assert_eq!(wanted, json!([0, "PreemptLowerPriority", keys]));
    let remove = |path: &str| json!([{"op": "remove", "path": path}]);
    let changes = [
        ("", pod("i:2", Value::Null)),
        ("", pod("i:2", Value::Null)),
        (
            "",
            pod(
                "i:3",
                json!({"tolerations": [{"key": keys[1], "operator": "Exists",
            "effect": "NoExecute", "tolerationSeconds": 300}, {"key": keys[0], "operator":
            "Exists", "effect": "NoExecute", "tolerationSeconds": 300}]}),
            ),
        ),
        ("merge-patch+json", json!({"spec": {"tolerations": null}})),
        (
            "merge-patch+json",
            json!({"spec": {"priority": null, "preemptionPolicy": null}}),
        ),
        ("json-patch+json", remove("/spec/priority")),
        ("json-patch+json", remove("/spec/preemptionPolicy")),
        ("json-patch+json", remove("/spec/tolerations/0")),
        (
            "strategic-merge-patch+json",
            json!({"spec": {"priority": null, "tolerations": []}}),
        ),
        ("apply-patch+yaml", pod("i:4", json!({"tolerations": []}))),
    ];
    for (kind, body) in changes {
        let changed = match kind {
            "" => send(&server, "PUT", NAMED, &body).await,
            kind => patch(&server, kind, &body).await,
        };
        assert_eq!(changed.status(), 200, "{kind} {body}");
        let mut found = added(&json(changed).await);
        let keys = found[2].as_array_mut().expect("a list of keys");
        keys.sort_by_key(Value::to_string);
        assert_eq!(found, wanted, "{kind} {body}");
    }
}

#[tokio::test]
async fn fields_that_a_pod_sets_are_kept_or_refused() {
    let server = with_namespace(builder(), "n").await;
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let high = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
    assert_eq!(send(&server, "POST", classes, &high).await.status(), 201);
    let slow = json!({"metadata": {"name": "slow"}, "handler": "h",
        "overhead": {"podFixed": {"cpu": "1"}},
        "scheduling": {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "slow"}]}});
    let runtimes = "/apis/node.k8s.io/v1/runtimeclasses";
    assert_eq!(send(&server, "POST", runtimes, &slow).await.status(), 201);
    let keys = |pod: &Value| added(pod)[2].to_string();
    for (spec, wanted) in [
        (json!({"tolerations": [{"operator": "Exists"}]}), "[null]"),
        (
            json!({"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists",
                "effect": "NoSchedule"}, {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]}),
            r#"["node.kubernetes.io/not-ready","node.kubernetes.io/unreachable","node.kubernetes.io/not-ready"]"#,
        ),
        (
            json!({"runtimeClassName": "slow", "tolerations": [{"operator": "Exists"}]}),
            r#"[null,"slow"]"#,
        ),
    ] {
        let made = send(
            &server,
            "POST",
            &format!("{PODS}?dryRun=All"),
            &pod("i", spec),
        )
        .await;
        assert_eq!(made.status(), 201);
        assert_eq!(keys(&json(made).await), wanted);
    }
    let slow = pod("i", json!({"runtimeClassName": "slow"}));
    let made = json(send(&server, "POST", &format!("{PODS}?dryRun=All"), &slow).await).await;
    assert_eq!(made["spec"]["overhead"], json!({"cpu": "1"}));
    assert_eq!(made["spec"]["nodeSelector"], json!({"disk": "ssd"}));
    let told = "must not be provided in pod spec; priority admission controller computed";
    let class = "from the given PriorityClass name";
    for (spec, why) in [
        (
            json!({"priority": 7}),
            format!("the integer value of priority (7) {told} 0 {class}"),
        ),
        (
            json!({"priorityClassName": "high", "priority": 7}),
            format!("the integer value of priority (7) {told} 1000 {class}"),
        ),
        (
            json!({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}),
            format!("the string value of PreemptionPolicy (PreemptLowerPriority) {told} Never {class}"),
        ),
        (
            json!({"priorityClassName": "none"}),
            "no PriorityClass with name none was found".to_owned(),
        ),
        (
            json!({"runtimeClassName": "none"}),
            "pod rejected: RuntimeClass \"none\" not found".to_owned(),
        ),
        (
            json!({"runtimeClassName": "slow", "overhead": {"cpu": "2"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".to_owned(),
        ),
        (
            json!({"runtimeClassName": "slow", "nodeSelector": {"disk": "hdd"}}),
            "conflict: runtimeClass.Scheduling.NodeSelector[disk] = ssd; pod.Spec.NodeSelector[disk] = hdd".to_owned(),
        ),
    ] {
        let refused = send(&server, "POST", PODS, &pod("i", spec)).await;
        assert_eq!(refused.status(), 403);
        let message = format!("pods \"p\" is forbidden: {why}");
        assert_eq!(json(refused).await["message"], message);
    }
    let wide = json!({"metadata": {"name": "wide"}, "value": 5, "globalDefault": true});
    assert_eq!(send(&server, "POST", classes, &wide).await.status(), 201);
    let made = json(send(&server, "POST", PODS, &pod("i", Value::Null)).await).await;
    assert_eq!(made["spec"]["priorityClassName"], "wide");
    assert_eq!(made["spec"]["priority"], 5);
}
