//! Validation of pod templates in workloads.

use http::header::CONTENT_TYPE;

use super::*;

const SETS: &str = "/apis/apps/v1/namespaces/n/statefulsets";

/// Returns a StatefulSet whose container mounts the volume `mounts`, and whose pods get a claim
/// named `disk`.
fn stateful(mounts: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "store"},
        "spec": {
            "serviceName": "store", "selector": {"matchLabels": {"app": "store"}},
            "template": {
                "metadata": {"labels": {"app": "store"}},
                "spec": {
                    "containers": [{"name": "main", "image": "i",
                        "volumeMounts": [{"name": mounts, "mountPath": "/disk"}]}],
                    "volumes": [{"name": "disk", "emptyDir": {}}, {"name": "tmp", "emptyDir": {}}],
                },
            },
            "volumeClaimTemplates": [{"metadata": {"name": "disk"}, "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        },
    })
}

#[tokio::test]
async fn pods_of_a_stateful_set_can_mount_its_claims() {
    let server = with_namespace(builder(), "n").await;
    let named = format!("{SETS}/store");
    let made = send(&server, "POST", SETS, &stateful("disk")).await;
    assert_eq!(made.status(), 201);
    let template =
        |mounts: &str| json!({"spec": {"template": stateful(mounts)["spec"]["template"]}});
    for (mounts, status) in [("tmp", 200), ("disk", 200), ("other", 422)] {
        let replaced = send(&server, "PUT", &named, &stateful(mounts)).await;
        assert_eq!(replaced.status(), status, "{mounts}");
        let patched = send(&server, "PATCH", &named, &template(mounts)).await;
        assert_eq!(patched.status(), status, "{mounts}");
        let request = Request::builder()
            .method("PATCH")
            .uri(format!("{named}?fieldManager=m&force=true"))
            .header(CONTENT_TYPE, "application/apply-patch+yaml");
        let request = request.body(Full::new(Bytes::from(stateful(mounts).to_string())));
        let applied = server.answer(request.expect("a request")).await;
        let applied = applied.expect("an answer");
        assert_eq!(applied.status(), status, "{mounts}");
        if status == 422 {
            let cause = &json(applied).await["details"]["causes"][0];
            let field = "spec.template.spec.containers[0].volumeMounts[0].name";
            assert_eq!(cause["field"], field);
        }
    }
}
