//! StatefulSets on a served cluster: order, claims, rolling updates and rollbacks.

use super::controllers::serve_virtual;
use super::*;

const STATEFUL: &str = "/apis/apps/v1/namespaces/default/statefulsets";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

/// Returns a StatefulSet `web` whose pods each have a claim `data`.
fn web(replicas: i64) -> Value {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
        "storageClassName": "standard", "resources": {"requests": {"storage": "1Gi"}}}});
    let container =
        json!({"name": "c", "image": "i:1", "volumeMounts": [{"name": "data", "mountPath": "/d"}]});
    json!({"metadata": {"name": "web"}, "spec": {
        "replicas": replicas, "serviceName": "web", "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": [claim]}})
}

async fn names(served: &Served, path: &str) -> Vec<String> {
    texts(&get(served, path).await, "name")
}

async fn patch(served: &Served, spec: Value) {
    let path = format!("{STATEFUL}/web");
    let (code, patched) = send(served, "PATCH", &path, json!({"spec": spec})).await;
    assert_eq!(code, 200, "{patched}");
}

/// Returns a patch of the spec that sets the image of the pod template.
fn with_image(image: &str) -> Value {
    let mut template = web(0)["spec"]["template"].clone();
    template["spec"]["containers"][0]["image"] = image.into();
    json!({"template": template})
}

/// Returns the images of the pods, by ordinal.
async fn images(served: &Served) -> Vec<String> {
    let pods = get(served, PODS).await;
    let pods = pods["items"]
        .as_array()
        .expect("the answer is a list")
        .iter();
    let image = |pod: &Value| {
        pod["spec"]["containers"][0]["image"]
            .as_str()
            .unwrap_or("")
            .to_owned()
    };
    pods.map(image).collect()
}

#[tokio::test]
async fn pods_start_in_order_with_claims_and_stop_in_reverse() {
    let served = serve_virtual(&["*"]);
    create(&served, STATEFUL, web(3)).await;
    advance(&served, STARTUP_S / 2);
    assert_eq!(names(&served, PODS).await, ["web-0"]);
    advance(&served, STARTUP_S);
    assert_eq!(names(&served, PODS).await, ["web-0", "web-1"]);
    advance(&served, 2 * STARTUP_S);
    assert_eq!(names(&served, PODS).await, ["web-0", "web-1", "web-2"]);
    let claims = ["data-web-0", "data-web-1", "data-web-2"];
    assert_eq!(names(&served, CLAIMS).await, claims);
    let set = get(&served, &format!("{STATEFUL}/web")).await;
    let status = &set["status"];
    assert_eq!(status["readyReplicas"], 3, "{set}");
    assert_eq!(status["currentRevision"], status["updateRevision"]);
    let revisions = names(&served, REVISIONS).await;
    assert_eq!(json!(revisions), json!([status["currentRevision"]]));
    let pod = get(&served, &format!("{PODS}/web-1")).await;
    assert_eq!(pod["spec"]["hostname"], "web-1");
    assert_eq!(pod["spec"]["subdomain"], "web");
    assert_eq!(
        pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"],
        "1"
    );

    // A lost pod is recreated with its name and its claim.
    let uid = pod["metadata"]["uid"].clone();
    send(&served, "DELETE", &format!("{PODS}/web-1"), Value::Null).await;
    advance(&served, ENDING_S + 2 * STARTUP_S);
    let again = get(&served, &format!("{PODS}/web-1")).await;
    assert_ne!(again["metadata"]["uid"], uid);
    assert_eq!(again["status"]["phase"], "Running");

    patch(&served, json!({"replicas": 1})).await;
    advance(&served, ENDING_S / 2);
    let leaving = get(&served, &format!("{PODS}/web-2")).await;
    assert!(leaving["metadata"]["deletionTimestamp"].is_string());
    let next = get(&served, &format!("{PODS}/web-1")).await;
    assert!(next["metadata"]["deletionTimestamp"].is_null());
    advance(&served, 3 * ENDING_S);
    assert_eq!(names(&served, PODS).await, ["web-0"]);
    assert_eq!(names(&served, CLAIMS).await, claims, "they stay");
}

#[tokio::test]
async fn claims_follow_the_retention_policy_of_the_set() {
    let served = serve_virtual(&["*"]);
    let mut set = web(2);
    set["spec"]["podManagementPolicy"] = "Parallel".into();
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenScaled": "Delete", "whenDeleted": "Delete"});
    create(&served, STATEFUL, set).await;
    advance(&served, STARTUP_S / 2);
    assert_eq!(names(&served, PODS).await, ["web-0", "web-1"]);
    advance(&served, 2 * STARTUP_S);
    patch(&served, json!({"replicas": 1})).await;
    advance(&served, 3 * ENDING_S);
    assert_eq!(names(&served, CLAIMS).await, ["data-web-0"]);
    send(&served, "DELETE", &format!("{STATEFUL}/web"), Value::Null).await;
    advance(&served, 3 * ENDING_S);
    for path in [PODS, CLAIMS, REVISIONS] {
        assert_eq!(names(&served, path).await, [""; 0], "{path}");
    }
}

#[tokio::test]
async fn updates_reach_the_partition_and_roll_back() {
    let served = serve_virtual(&["*"]);
    create(&served, STATEFUL, web(3)).await;
    advance(&served, 4 * STARTUP_S);
    let revisions = get(&served, REVISIONS).await;
    let first = texts(&revisions, "name").remove(0);

    let mut change = with_image("i:2");
    change["updateStrategy"] = json!({"rollingUpdate": {"partition": 1}});
    patch(&served, change).await;
    advance(&served, 2 * (ENDING_S + 2 * STARTUP_S));
    assert_eq!(images(&served).await, ["i:1", "i:2", "i:2"]);
    // A pod below the partition is recreated from the old revision.
    send(&served, "DELETE", &format!("{PODS}/web-0"), Value::Null).await;
    advance(&served, ENDING_S + 2 * STARTUP_S);
    assert_eq!(images(&served).await, ["i:1", "i:2", "i:2"]);
    let set = get(&served, &format!("{STATEFUL}/web")).await;
    assert_eq!(set["status"]["currentRevision"], *first);
    assert_eq!(set["status"]["updatedReplicas"], 2, "{set}");

    let mut back = with_image("i:1");
    back["updateStrategy"] = json!({"rollingUpdate": {"partition": 0}});
    patch(&served, back).await;
    advance(&served, 3 * (ENDING_S + 2 * STARTUP_S));
    assert_eq!(images(&served).await, ["i:1", "i:1", "i:1"]);
    let set = get(&served, &format!("{STATEFUL}/web")).await;
    assert_eq!(set["status"]["updateRevision"], *first);
    let again = get(&served, &format!("{REVISIONS}/{first}")).await;
    assert_eq!(again["revision"], 3, "it is the newest again");
}
