//! Kinds that are stored without a controller, and subresources, as clients see them.

use super::*;

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn post(server: &ApiServer, path: &str, body: Value) -> Value {
    json(send(server, "POST", path, &body).await).await
}

/// Returns an object with one member.
fn named(name: &str, member: &str, value: Value) -> Value {
    json!({"metadata": {"name": name}, member: value})
}

fn causes(status: &Value) -> Vec<String> {
    let all = status["details"]["causes"].as_array();
    let texts = all.into_iter().flatten().map(|cause| {
        let text = |member: &str| cause[member].as_str().unwrap_or("").to_owned();
        format!("{}: {}", text("field"), text("message"))
    });
    texts.collect()
}

/// Returns the cells of the only row of a table.
async fn cells(server: &ApiServer, path: &str) -> Value {
    let request =
        Request::get(path).header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let table = json(ask(server, request).await).await;
    let columns = table["columnDefinitions"].as_array().map_or(0, Vec::len);
    let cells = table["rows"][0]["cells"].clone();
    assert_eq!(cells.as_array().map(Vec::len), Some(columns), "{table}");
    cells
}

#[tokio::test]
async fn an_ingress_needs_backends_and_shows_its_hosts() {
    let server = with_namespace(builder(), "default").await;
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let refused = post(&server, path, named("i", "spec", json!({}))).await;
    let wanted = "spec: Invalid value: {}: either `defaultBackend` or `rules` must be specified";
    assert_eq!(causes(&refused), [wanted]);
    let with_path = async |at: &str, service: Value| {
        let at = json!({"path": at, "pathType": "Prefix", "backend": {"service": service}});
        let rule = json!({"host": "a.example.com", "http": {"paths": [at]}});
        post(&server, path, named("i", "spec", json!({"rules": [rule]}))).await
    };
    let refused = with_path("x", json!({"name": "s"})).await;
    assert_eq!(
        causes(&refused),
        [
            "spec.rules[0].http.paths[0].path: Invalid value: \"x\": must be an absolute path",
            "spec.rules[0].http.paths[0].backend: Required value: port name or number is required",
        ]
    );
    let made = with_path("/", json!({"name": "s", "port": {"number": 80}})).await;
    assert_eq!(made["metadata"]["generation"], 1, "{made}");
    assert_eq!(made["status"], json!({"loadBalancer": {}}));
    let shown = cells(&server, path).await;
    let wanted = ["i", "<none>", "a.example.com", "", "80"];
    assert_eq!(shown.as_array().expect("cells")[..5], wanted);
}

#[tokio::test]
async fn policies_webhooks_and_levels_get_their_defaults() {
    let server = with_namespace(builder(), "default").await;
    let policies = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
    let egress = json!({"egress": [{"ports": [{"port": 53}]}]});
    let policy = post(&server, policies, named("p", "spec", egress)).await;
    assert_eq!(
        policy["spec"],
        json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"],
        "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}]})
    );
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let hook = json!({"name": "a.b.c", "clientConfig": {"service": {"name": "s", "namespace": "n"}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["*"]}]});
    let refused = post(&server, hooks, named("h", "webhooks", json!([hook]))).await;
    assert_eq!(
        causes(&refused),
        [
            "webhooks[0].admissionReviewVersions: Required value",
            "webhooks[0].sideEffects: Required value",
        ]
    );
    let mut sound = hook;
    sound["sideEffects"] = "None".into();
    sound["admissionReviewVersions"] = json!(["v1"]);
    let sound = named("h", "webhooks", json!([sound]));
    let made = send(&server, "POST", hooks, &sound).await;
    let warning = made.headers()["warning"].to_str().expect("a string");
    assert!(warning.contains("webhooks are stored"), "{warning}");
    let made = json(made).await;
    let hook = &made["webhooks"][0];
    assert_eq!(hook["failurePolicy"], "Fail", "{made}");
    assert_eq!(hook["timeoutSeconds"], 10);
    assert_eq!(hook["clientConfig"]["service"]["port"], 443);
    assert_eq!(hook["rules"][0]["scope"], "*");
    let levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    let limited = json!({"limitResponse": {"type": "Queue", "queuing": {}}});
    let spec = json!({"type": "Limited", "limited": limited});
    let level = post(&server, levels, named("l", "spec", spec)).await;
    let limited = &level["spec"]["limited"];
    assert_eq!(limited["nominalConcurrencyShares"], 30, "{level}");
    assert_eq!(
        limited["limitResponse"]["queuing"],
        json!({"handSize": 8, "queueLengthLimit": 50, "queues": 64})
    );
    assert_eq!(cells(&server, levels).await[3], "64");
}

#[tokio::test]
async fn immutable_fields_cannot_change() {
    let server = with_namespace(builder(), "default").await;
    let path = "/apis/node.k8s.io/v1/runtimeclasses";
    let mut changed = post(&server, path, named("c", "handler", "runc".into())).await;
    assert_eq!(cells(&server, path).await[1], "runc");
    changed["handler"] = "other".into();
    let refused = json(send(&server, "PUT", &format!("{path}/c"), &changed).await).await;
    assert_eq!(
        causes(&refused),
        ["handler: Invalid value: \"other\": field is immutable"]
    );
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let spec =
        json!({"group": "a.b", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1});
    let refused = post(&server, services, named("x", "spec", spec)).await;
    assert_eq!(refused["code"], 422);
    assert!(
        causes(&refused)[0].starts_with("metadata.name: Invalid value: \"x\""),
        "{refused}"
    );
}

#[tokio::test]
async fn a_certificate_request_is_approved_but_cannot_change() {
    let server = with_namespace(builder(), "default").await;
    let path = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let spec = json!({"request": "eA==", "usages": ["client auth"], "signerName": "a.b/c"});
    let mut request = post(&server, path, named("r", "spec", spec.clone())).await;
    assert_eq!(cells(&server, path).await[5], "Pending");
    request["spec"]["signerName"] = "d.e/f".into();
    request["status"] = json!({"conditions": [{"type": "Approved", "status": "True"}]});
    let approved = send(&server, "PUT", &format!("{path}/r/approval"), &request).await;
    let approved = json(approved).await;
    assert_eq!(approved["spec"], spec, "{approved}");
    assert_eq!(cells(&server, path).await[5], "Approved");
}

fn pod() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}})
}

#[tokio::test]
async fn ephemeral_containers_are_added_and_nothing_else_changes() {
    let server = with_namespace(builder(), "default").await;
    let mut made = post(&server, PODS, pod()).await;
    let at = format!("{PODS}/p/ephemeralcontainers");
    made["spec"]["containers"][0]["image"] = "other".into();
    made["metadata"]["labels"] = json!({"a": "b"});
    made["spec"]["ephemeralContainers"] =
        json!([{"name": "e", "image": "sh", "targetContainerName": "c"}]);
    let added = json(send(&server, "PUT", &at, &made).await).await;
    let spec = &added["spec"];
    assert_eq!(spec["containers"][0]["image"], "i", "{added}");
    assert_eq!(added["metadata"]["labels"], Value::Null);
    assert_eq!(spec["ephemeralContainers"][0]["imagePullPolicy"], "Always");
    assert_eq!(added["metadata"]["generation"], 2);
    let body = json!({"spec": {"ephemeralContainers": [{"name": "c", "image": "sh",
        "ports": [{"containerPort": 1}], "targetContainerName": "x"}]}});
    let refused = json(send(&server, "PATCH", &at, &body).await).await;
    let found = causes(&refused);
    for wanted in [
        "spec.ephemeralContainers[0].name: Duplicate value: \"c\"",
        "spec.ephemeralContainers[0].targetContainerName: Not found: \"x\"",
        "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
        "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"e\" may not be removed\n",
    ] {
        assert!(
            found.iter().any(|found| found == wanted),
            "{wanted}: {found:?}"
        );
    }
}

#[tokio::test]
async fn a_resize_changes_only_cpu_and_memory() {
    let server = with_namespace(builder(), "default").await;
    post(&server, PODS, pod()).await;
    let at = format!("{PODS}/p/resize");
    let resize = |resources: Value| {
        let container = json!({"name": "c", "image": "other", "resources": resources});
        json!({"spec": {"containers": [container]}})
    };
    let wanted = json!({"requests": {"cpu": "2", "memory": "1Gi"}});
    let resized = json(send(&server, "PATCH", &at, &resize(wanted.clone())).await).await;
    let container = &resized["spec"]["containers"][0];
    assert_eq!(container["resources"], wanted, "{resized}");
    assert_eq!(container["image"], "i");
    for (resources, why) in [
        (
            json!({"requests": {"cpu": "2"}}),
            "resource requests cannot be removed",
        ),
        (
            json!({"requests": {"cpu": "2", "memory": "1Gi", "a.b/c": "1"}, "limits": {"a.b/c": "1"}}),
            "only cpu and memory resources are mutable",
        ),
        (
            json!({"requests": {"cpu": "2", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "1Gi"}}),
            "Pod QOS Class may not change as a result of resizing",
        ),
    ] {
        let refused = json(send(&server, "PATCH", &at, &resize(resources)).await).await;
        assert!(
            refused["message"].as_str().unwrap_or("").contains(why),
            "{why}: {refused}"
        );
    }
    // An apply to the subresource changes only that part too.
    let mut config = resize(json!({"requests": {"cpu": "3", "memory": "1Gi"}}));
    config["apiVersion"] = "v1".into();
    config["kind"] = "Pod".into();
    let request = Request::patch(format!("{at}?fieldManager=m&force=true"))
        .header("content-type", "application/apply-patch+yaml")
        .body(Full::new(Bytes::from(config.to_string())));
    let applied = server.answer(request.expect("a request")).await;
    let applied = json(applied.expect("no fault is armed")).await;
    let container = &applied["spec"]["containers"][0];
    assert_eq!(container["resources"]["requests"]["cpu"], "3", "{applied}");
    assert_eq!(container["image"], "i");
    // The pod itself cannot be changed in this way.
    let more = resize(json!({"requests": {"cpu": "9"}}));
    let refused = send(&server, "PATCH", &format!("{PODS}/p"), &more).await;
    assert_eq!(refused.status(), 422);
}

#[tokio::test]
async fn component_statuses_are_read_only() {
    let server = with_namespace(builder(), "default").await;
    let path = "/api/v1/componentstatuses";
    assert_eq!(
        cells(&server, path).await,
        json!(["etcd-0", "Healthy", "ok", ""])
    );
    let named = send(&server, "GET", &format!("{path}/x"), &Value::Null).await;
    assert_eq!(named.status(), 404);
    let made = send(&server, "POST", path, &json!({"metadata": {"name": "x"}})).await;
    assert_eq!(made.status(), 405);
}

#[tokio::test]
async fn every_document_of_the_index_exists_and_is_cacheable() {
    let server = with_namespace(builder(), "default").await;
    let index = json(send(&server, "GET", "/openapi/v3", &Value::Null).await).await;
    let paths = index["paths"].as_object().expect("paths");
    assert!(paths.len() > 40);
    for (path, at) in paths {
        let at = at["serverRelativeURL"].as_str().expect("an address");
        let document = send(&server, "GET", at, &Value::Null).await;
        assert_eq!(document.status(), 200, "{path}");
        let tag = document.headers()["etag"].clone();
        let request = Request::get(at).header("if-none-match", tag);
        assert_eq!(ask(&server, request).await.status(), 304, "{path}");
        let document = json(document).await;
        // Every reference resolves.
        let text = document.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().expect("a name");
            let schema = &document["components"]["schemas"][name];
            assert!(schema.is_object(), "{path}: {name}");
        }
    }
}

#[tokio::test]
async fn errors_about_immutable_members_have_their_paths() {
    let server = with_namespace(builder(), "default").await;
    let attachments = "/apis/storage.k8s.io/v1/volumeattachments";
    let spec = json!({"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}});
    let mut made = post(&server, attachments, named("x", "spec", spec)).await;
    made["spec"]["nodeName"] = "m".into();
    made["spec"]["source"]["persistentVolumeName"] = "w".into();
    let refused = json(send(&server, "PUT", &format!("{attachments}/x"), &made).await).await;
    assert_eq!(
        causes(&refused),
        [
            "spec.nodeName: Invalid value: \"m\": field is immutable",
            "spec.source: Invalid value: {\"persistentVolumeName\":\"w\"}: field is immutable",
        ]
    );
    let ranges = "/apis/networking.k8s.io/v1/servicecidrs";
    let range = |cidr: &str| named("r", "spec", json!({"cidrs": [cidr]}));
    post(&server, ranges, range("10.0.0.0/8")).await;
    let other = range("10.1.0.0/16");
    let refused = send(&server, "PUT", &format!("{ranges}/r"), &other).await;
    let wanted = "spec.cidrs: Invalid value: [\"10.1.0.0/16\"]: field is immutable";
    assert_eq!(causes(&json(refused).await), [wanted]);
}

#[tokio::test]
async fn cluster_scoped_objects_never_have_a_namespace() {
    let server = with_namespace(builder(), "default").await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "shelves.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster",
            "names": {"plural": "shelves", "kind": "Shelf"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(
        post(&server, definitions, definition).await["status"]["code"],
        Value::Null
    );
    let elsewhere = json!({"metadata": {"namespace": "team"}});
    for (path, kind, rest) in [
        (
            "/apis/rbac.authorization.k8s.io/v1/clusterroles",
            "ClusterRole",
            json!({"rules": []}),
        ),
        ("/api/v1/nodes", "Node", json!({})),
        ("/api/v1/namespaces", "Namespace", json!({})),
        ("/apis/example.com/v1/shelves", "Shelf", json!({})),
    ] {
        let (_, version) = path.split_once("api").expect("a path of the API");
        let version = version
            .trim_start_matches(['s', '/'])
            .rsplit_once('/')
            .expect("a version")
            .0;
        let mut object = rest;
        object["apiVersion"] = version.into();
        object["kind"] = kind.into();
        object["metadata"] = json!({"name": "reader", "namespace": "team"});
        let at = format!("{path}/reader");
        for (method, path, patch, code) in [
            ("POST", path, None, 201),
            ("PUT", &at, None, 200),
            ("PATCH", &at, Some(&elsewhere), 200),
        ] {
            let body = patch.unwrap_or(&object);
            let answer = send(&server, method, path, body).await;
            assert_eq!(answer.status(), code, "{method} {path}");
            let found = json(answer).await;
            assert_eq!(found["metadata"].get("namespace"), None, "{found}");
            object["metadata"]["resourceVersion"] = found["metadata"]["resourceVersion"].clone();
        }
        let apply = Request::patch(format!("{at}?fieldManager=m&force=true"))
            .header("content-type", "application/apply-patch+yaml")
            .body(Full::<Bytes>::from(object.to_string()));
        let applied = server
            .answer(apply.expect("a request"))
            .await
            .expect("an answer");
        assert_eq!(applied.status(), 200, "{path}");
        assert_eq!(json(applied).await["metadata"].get("namespace"), None);
    }
    let maps = "/api/v1/namespaces/default/configmaps";
    post(&server, maps, json!({"metadata": {"name": "m"}})).await;
    let refused = json(send(&server, "PATCH", &format!("{maps}/m"), &elsewhere).await).await;
    let wanted =
        "the namespace of the object (team) does not match the namespace on the request (default)";
    assert_eq!(refused["message"], wanted);
    assert_eq!(refused["code"], 400);
}

#[tokio::test]
async fn a_new_event_with_a_taken_name_is_refused() {
    let server = with_namespace(builder(), "default").await;
    let event = json!({"metadata": {"name": "a"}, "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a.b/c", "reportingInstance": "i", "action": "Look",
        "reason": "Seen", "type": "Normal"});
    let path = "/apis/events.k8s.io/v1/namespaces/default/events";
    assert_eq!(post(&server, path, event.clone()).await["reason"], "Seen");
    let mut other = event;
    other["reason"] = "Lost".into();
    let refused = post(&server, path, other).await;
    assert_eq!(refused["reason"], "AlreadyExists", "{refused}");
}

#[tokio::test]
async fn applied_fields_must_have_their_types() {
    let server = with_namespace(builder(), "default").await;
    let apply = async |path: &str, body: Value| {
        let path = format!("{path}?fieldManager=m");
        let kind = "application/apply-patch+yaml";
        hostile::ask_as(&server, "PATCH", &path, kind, body.to_string()).await
    };
    let path = "/apis/storage.k8s.io/v1/volumeattachments/a";
    let attachment = |name: Value| {
        json!({"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
            "metadata": {"name": "a"}, "spec": {"attacher": "a.b", "nodeName": "n",
                "source": {"persistentVolumeName": name}}})
    };
    let (code, message) = apply(path, attachment(json!(-1))).await;
    let wanted = ".spec.source.persistentVolumeName: expected string, got &value.valueUnstructured{Value:-1}";
    assert_eq!(code, 500);
    assert!(message.ends_with(wanted), "{message}");
    let path = "/api/v1/namespaces/default/secrets/a";
    let secret = |data: &str| {
        json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "a"}, "data": {"a": data}})
    };
    let refused = async || {
        let (code, message) = apply(path, secret("not base64")).await;
        assert_eq!(code, 500);
        assert!(
            message.starts_with(
                "failed to convert new object (/a; /v1, Kind=Secret) to proper version: "
            ),
            "{message}"
        );
    };
    // The name defaults to the path's, whether it is null or empty.
    for name in [json!(null), json!("")] {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name, "generateName": "g-"}});
        let path = "/api/v1/namespaces/default/configmaps/a";
        assert_eq!(apply(path, map).await.0, 201);
        let gone = send(&server, "DELETE", path, &Value::Null).await;
        assert_eq!(gone.status(), 200);
    }
    // For a new object and for an existing one.
    refused().await;
    assert_eq!(apply(path, secret("YQ==")).await.0, 201);
    refused().await;
}
