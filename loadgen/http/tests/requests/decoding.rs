//! Bodies become objects by one path, whatever their verb and media type.

use super::hostile::{JSON, MERGE_PATCH, ask_as};
use super::*;

const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";

/// Kinds without namespaces: their paths, and objects of them without a name.
const CLUSTER_SCOPED: [(&str, &str); 5] = [
    (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        r#"{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","rules":[]}"#,
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","provisioner":"example.com/p"}"#,
    ),
    (
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        r#"{"apiVersion":"scheduling.k8s.io/v1","kind":"PriorityClass","value":7}"#,
    ),
    ("/api/v1/nodes", r#"{"apiVersion":"v1","kind":"Node"}"#),
    (
        "/api/v1/namespaces",
        r#"{"apiVersion":"v1","kind":"Namespace"}"#,
    ),
];

fn in_namespace(object: &str, name: &str) -> String {
    let mut object: Value = serde_json::from_str(object).expect("it is JSON");
    object["metadata"] = json!({"name": name, "namespace": "team"});
    object.to_string()
}

#[tokio::test]
async fn objects_of_kinds_without_namespaces_lose_the_one_that_they_name() {
    let server = builder().build();
    for (path, object) in CLUSTER_SCOPED {
        let (named, applied) = (format!("{path}/reader"), format!("{path}/applied"));
        let force = |path: &str| format!("{path}?fieldManager=m&force=true");
        let object = |name| in_namespace(object, name);
        let patch = json!({"metadata": {"namespace": "team", "labels": {"a": "b"}}});
        let operations = json!([{"op": "add", "path": "/metadata/namespace", "value": "team"}]);
        for (method, path, media, body, code) in [
            ("POST", path, JSON, object("reader"), 201),
            ("PUT", &named, JSON, object("reader"), 200),
            ("PATCH", &named, MERGE_PATCH, patch.to_string(), 200),
            ("PATCH", &named, STRATEGIC, patch.to_string(), 200),
            ("PATCH", &named, JSON_PATCH, operations.to_string(), 200),
            ("PATCH", &force(&named), APPLY, object("reader"), 200),
            ("PATCH", &force(&applied), APPLY, object("applied"), 201),
        ] {
            let found = ask_as(&server, method, path, media, body).await;
            assert_eq!(found.0, code, "{method} {path} {media}: {found:?}");
        }
        for path in [&named, &applied] {
            let found = json(send(&server, "GET", path, &Value::Null).await).await;
            assert_eq!(found["metadata"]["namespace"], Value::Null, "{found}");
        }
    }
}

#[tokio::test]
async fn a_new_object_names_no_version_that_could_be_stored() {
    let server = with_namespace(builder(), "default").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    for (number, (version, code)) in [
        ("0", 201),
        ("00", 201),
        ("abc", 201),
        ("-1", 201),
        ("+1", 201),
        ("1.5", 201),
        ("18446744073709551616", 201),
        ("", 201),
        ("1", 500),
        ("007", 500),
        ("18446744073709551615", 500),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("m{number}");
        let map = json!({"metadata": {"name": name, "resourceVersion": version}});
        let found = ask_as(&server, "POST", maps, JSON, map.to_string()).await;
        assert_eq!(found.0, code, "{version:?}: {found:?}");
        if code == 500 {
            let why = "resourceVersion should not be set on objects to be created";
            assert_eq!(found.1, why, "{version:?}");
        }
    }
}
