//! Requests crafted to crash, fill or stall the server. Each gets an answer that names the limit,
//! and afterwards the stored objects can be read, written back and listed.

use podstorm_apiserver::limits::{BYTES_MAX, DEPTH_MAX};

use super::*;

pub(super) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(super) const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";
const THING: &str = "/apis/example.com/v1/namespaces/default/things/a";

pub(super) const JSON: &str = "application/json";
const YAML: &str = "application/yaml";
const JSON_PATCH: &str = "application/json-patch+json";
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";

/// Returns a server with a kind that accepts anything in `spec`, and in `list` entries with the
/// default value `default`.
async fn with_things(default: Value) -> ApiServer {
    let server = with_namespace(builder(), "default").await;
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "list": {"type": "array", "items": {"type": "object", "properties": {
            "a": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "default": default}}}}}});
    define(&server, schema).await;
    server
}

/// Defines the kind of [`THINGS`] with a schema. Returns the definition.
pub(super) async fn define(server: &ApiServer, schema: Value) -> Value {
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    let made = send(server, "POST", DEFINITIONS, &definition).await;
    assert_eq!(made.status(), 201, "{}", json(made).await);
    definition
}

fn thing(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": spec})
}

/// Returns nested objects, the innermost one empty.
fn nested(levels: usize) -> Value {
    (1..levels).fold(json!({}), |inner, _| json!({"a": inner}))
}

/// Returns the code and the message of an answer. A `Status` must have the answer's code.
pub(super) async fn ask_as(
    server: &ApiServer,
    method: &str,
    path: &str,
    kind: &str,
    body: String,
) -> (u16, String) {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", kind);
    let request = request
        .body(Full::new(Bytes::from(body)))
        .expect("a request");
    let answer = server.answer(request).await.expect("an answer");
    let code = answer.status().as_u16();
    let answer = json(answer).await;
    let message = answer["message"].as_str().unwrap_or("").to_owned();
    if code >= 400 {
        assert_eq!(
            (&answer["kind"], &answer["code"]),
            (&json!("Status"), &json!(code))
        );
    }
    (code, message)
}

/// Asserts that the stored objects can be read, written back and listed.
async fn assert_readable(server: &ApiServer) {
    let got = send(server, "GET", THING, &Value::Null).await;
    assert_eq!(got.status(), 200);
    let got = text(got).await;
    assert!(got.len() <= 2 * BYTES_MAX, "{} bytes", got.len());
    let object: Value = serde_json::from_str(&got).expect("valid JSON");
    // Its field owners may make it larger than a body may be.
    let written = match got.len() <= BYTES_MAX {
        true => send(server, "PUT", THING, &object).await,
        false => {
            let patch = json!({"metadata": {"labels": {"a": "b"}}});
            send(server, "PATCH", &format!("{THING}?fieldManager=m0"), &patch).await
        }
    };
    assert_eq!(written.status(), 200, "{}", text(written).await);
    let list = text(send(server, "GET", THINGS, &Value::Null).await).await;
    let list: Value = serde_json::from_str(&list).expect("valid JSON");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
}

fn op(op: &str, from: &str, path: &str) -> Value {
    json!({"op": op, "from": from, "path": path})
}

#[tokio::test]
async fn no_request_creates_an_object_too_deep_to_read() {
    let too_deep = format!("nested too deep: at most {DEPTH_MAX} lists");
    let server = with_things(nested(5)).await;
    let list = |value: &Value| json!([{"op": "add", "path": "/spec", "value": value}]);
    let create = [("POST", JSON), ("POST", YAML)].map(|(method, kind)| (method, THINGS, kind));
    let change = [
        ("PUT", JSON),
        ("PUT", YAML),
        ("PATCH", MERGE_PATCH),
        ("PATCH", JSON_PATCH),
        ("PATCH", APPLY_PATCH),
    ]
    .map(|(method, kind)| (method, THING, kind));
    for (method, path, kind) in create.into_iter().chain(change) {
        let query = match kind {
            APPLY_PATCH => "?fieldManager=b&force=true",
            _ => "",
        };
        let path = format!("{path}{query}");
        let version = match method {
            "PUT" => json(send(&server, "GET", THING, &Value::Null).await).await["metadata"]["resourceVersion"].take(),
            _ => Value::Null,
        };
        let body = |spec: &Value| match kind {
            JSON_PATCH => list(spec).to_string(),
            _ => {
                let mut object = thing(spec.clone());
                if !version.is_null() {
                    object["metadata"]["resourceVersion"] = version.clone();
                }
                object.to_string()
            }
        };
        // `spec` is itself one level deep.
        let (deepest, deeper) = (nested(DEPTH_MAX - 1), nested(DEPTH_MAX));
        let (code, message) = ask_as(&server, method, &path, kind, body(&deeper)).await;
        assert_eq!(code, 400, "{method} {kind}: {message}");
        assert!(message.contains(&too_deep), "{method} {kind}: {message}");
        let (code, message) = ask_as(&server, method, &path, kind, body(&deepest)).await;
        assert!(code < 300, "{method} {kind}: {message}");
        assert_readable(&server).await;
        if method == "POST" {
            let gone = send(&server, "DELETE", THING, &Value::Null).await;
            assert_eq!(gone.status(), 200);
            if kind == YAML {
                let made = send(&server, "POST", THINGS, &thing(json!({}))).await;
                assert_eq!(made.status(), 201);
            }
        }
    }
}

#[tokio::test]
async fn no_patch_operation_creates_a_document_too_deep() {
    let server = with_things(json!({})).await;
    let made = send(
        &server,
        "POST",
        THINGS,
        &thing(json!({"list": [], "b": nested(100)})),
    )
    .await;
    assert_eq!(made.status(), 201);
    let add = json!({"op": "add", "path": "/spec/a", "value": {"a": {}}});
    let below = |times: usize| format!("/spec/a{}", "/a".repeat(times));
    // Each copy doubles the depth.
    let copies =
        |count: u32| (1..=count).map(|number| op("copy", "/spec/a", &below(2usize.pow(number))));
    let doubled = |count| {
        std::iter::once(add.clone())
            .chain(copies(count))
            .collect::<Vec<_>>()
    };
    // Each move lengthens the path to the moved value.
    let moved = vec![
        json!({"op": "add", "path": "/spec/c", "value": nested(50)}),
        op("move", "/spec/b", &format!("/spec/c{}/b", "/a".repeat(49))),
    ];
    let added = vec![
        json!({"op": "add", "path": below(0), "value": nested(100)}),
        json!({"op": "add", "path": below(100), "value": nested(100)}),
        op("remove", "", "/spec/a"),
    ];
    let replaced = vec![
        json!({"op": "add", "path": below(0), "value": nested(100)}),
        json!({"op": "replace", "path": below(99), "value": nested(100)}),
        op("remove", "", "/spec/a"),
    ];
    for operations in [doubled(7), doubled(14), moved, added, replaced] {
        let patch = Value::from(operations).to_string();
        let (code, message) = ask_as(&server, "PATCH", THING, JSON_PATCH, patch).await;
        assert_eq!(code, 400, "{message}");
        assert!(message.contains("nested too deep"), "{message}");
        assert_readable(&server).await;
    }
    let fits = Value::from(doubled(5)).to_string();
    let (code, message) = ask_as(&server, "PATCH", THING, JSON_PATCH, fits).await;
    assert_eq!(code, 200, "{message}");
    assert_readable(&server).await;
}

#[tokio::test]
async fn no_annotation_makes_an_object_too_deep() {
    let server = with_namespace(builder(), "default").await;
    let autoscalers = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers";
    let with = async |name: &str, levels: usize| {
        let pods =
            json!({"metricName": "m", "targetAverageValue": "1", "selector": nested(levels)});
        let metrics = json!([{"type": "Pods", "pods": pods}]).to_string();
        let autoscaler = json!({"metadata": {"name": name, "annotations":
            {"autoscaling.alpha.kubernetes.io/metrics": metrics}},
            "spec": {"maxReplicas": 1,
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}});
        json(send(&server, "POST", autoscalers, &autoscaler).await).await
    };
    let refused = with("a", DEPTH_MAX).await;
    assert_eq!(refused["code"], 400, "{refused}");
    let message = refused["message"].as_str().expect("a message");
    assert!(message.contains("nested too deep"), "{message}");
    let made = with("b", 5).await;
    assert_eq!(made["kind"], "HorizontalPodAutoscaler", "{made}");
}

#[tokio::test]
async fn the_copies_of_a_patch_are_limited_in_total() {
    let server = with_things(json!({})).await;
    let made = send(
        &server,
        "POST",
        THINGS,
        &thing(json!({"a": "x".repeat(100)})),
    )
    .await;
    assert_eq!(made.status(), 201);
    for count in [20, 30, 60] {
        let copies = (0..count).map(|number| op("copy", "/spec", &format!("/spec/c{number}")));
        let patch = Value::from(copies.collect::<Vec<_>>()).to_string();
        let (code, message) = ask_as(&server, "PATCH", THING, JSON_PATCH, patch).await;
        assert_eq!(code, 422, "{message}");
        assert!(
            message.contains(&format!("exceeding the limit {BYTES_MAX}")),
            "{message}"
        );
        assert_readable(&server).await;
    }
    // Many operations that move the entries of a list.
    let mut patch = vec![json!({"op": "add", "path": "/spec/l", "value": vec![1; 1_000_000]})];
    patch.extend((0..5_000).map(|_| op("move", "/spec/l/0", "/spec/l/0")));
    let (code, message) = ask_as(
        &server,
        "PATCH",
        THING,
        JSON_PATCH,
        Value::from(patch).to_string(),
    )
    .await;
    assert_eq!(code, 422, "{message}");
    assert!(message.contains("move values of more than"), "{message}");
}

#[tokio::test]
async fn successive_patches_keep_objects_within_the_limit() {
    let server = with_things(json!({})).await;
    let made = send(&server, "POST", THINGS, &thing(json!({}))).await;
    assert_eq!(made.status(), 201);
    let large = "x".repeat(BYTES_MAX / 5);
    for (kind, query) in [
        (MERGE_PATCH, ""),
        (JSON_PATCH, ""),
        (APPLY_PATCH, "?force=true&fieldManager="),
    ] {
        let mut refused = None;
        for number in 0..8 {
            let name = format!("{}{number}", &kind[12..14]);
            let patch = match kind {
                JSON_PATCH => {
                    json!([{"op": "add", "path": format!("/spec/{name}"), "value": large}])
                }
                _ => thing(json!({&name: large})),
            };
            let manager = if query.is_empty() { "" } else { &name };
            let path = format!("{THING}{query}{manager}");
            let (code, message) = ask_as(&server, "PATCH", &path, kind, patch.to_string()).await;
            if code != 200 {
                refused = Some((code, message));
            }
        }
        let (code, message) = refused.expect("a refused patch");
        assert_eq!(code, 413, "{message}");
        assert!(
            message.contains(&format!("limit is {BYTES_MAX}")),
            "{message}"
        );
        assert_readable(&server).await;
    }
}

#[tokio::test]
async fn field_owners_keep_objects_within_the_limit() {
    let server = with_things(json!({})).await;
    let names = (0..1_000).map(|number| (format!("{number:0>400}"), json!(1)));
    let body = thing(Value::Object(names.collect())).to_string();
    let mut codes = Vec::new();
    for number in 0..10 {
        let path = format!("{THING}?fieldManager=m{number}");
        let (code, message) = ask_as(&server, "PATCH", &path, APPLY_PATCH, body.clone()).await;
        assert!(
            code < 300 || message.contains(&BYTES_MAX.to_string()),
            "{message}"
        );
        codes.push(code);
    }
    assert_eq!((codes[0], codes[9]), (201, 413), "{codes:?}");
    assert_readable(&server).await;
}

#[tokio::test]
async fn defaults_keep_objects_within_the_limit() {
    let server = with_things(json!({"x": "x".repeat(100_000)})).await;
    let list = |items: usize| {
        let mut object = thing(json!({}));
        object["list"] = vec![json!({}); items].into();
        object
    };
    let refused = json(send(&server, "POST", THINGS, &list(30_000)).await).await;
    assert_eq!(refused["code"], 422, "{refused}");
    let message = refused["message"].as_str().expect("a message");
    assert!(
        message.contains(&format!("may not be more than {BYTES_MAX} bytes")),
        "{message}"
    );
    let made = send(&server, "POST", THINGS, &list(20)).await;
    assert_eq!(made.status(), 201);
    assert_readable(&server).await;

    // The defaults of built-in kinds: those of a container take some hundred bytes.
    let containers = (0..30_000).map(|number| json!({"name": format!("c{number}"), "image": "i"}));
    let template = json!({"metadata": {"labels": {"a": "b"}},
        "spec": {"containers": containers.collect::<Vec<_>>()}});
    let deployment = json!({"metadata": {"name": "a"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}});
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let refused = json(send(&server, "POST", deployments, &deployment).await).await;
    let message = refused["message"].as_str().unwrap_or("");
    assert!(
        message.contains(&format!(
            "<nil>: Too long: may not be more than {BYTES_MAX} bytes"
        )),
        "{message}"
    );
    // Three bytes each, and a hundred after defaulting.
    let empty = json!({"containers": vec![json!({}); 60_000]});
    let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": empty});
    let of_set = json!({"selector": {"matchLabels": {"a": "b"}}, "template": template});
    let of_controller = json!({"selector": {"a": "b"}, "template": template});
    for (path, spec) in [
        ("/api/v1/namespaces/default/pods", &empty),
        ("/apis/apps/v1/namespaces/default/replicasets", &of_set),
        (
            "/api/v1/namespaces/default/replicationcontrollers",
            &of_controller,
        ),
    ] {
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let refused = json(send(&server, "POST", path, &object).await).await;
        let message = refused["message"].as_str().unwrap_or("");
        let wanted = format!("is invalid: <nil>: Too long: may not be more than {BYTES_MAX} bytes");
        assert!(message.ends_with(&wanted), "{path}: {message:.300}");
    }
    for kind in [MERGE_PATCH, JSON_PATCH] {
        let patch = match kind {
            JSON_PATCH => json!([{"op": "add", "path": "/list", "value": vec![json!({}); 30_000]}]),
            _ => list(30_000),
        };
        let (code, message) = ask_as(&server, "PATCH", THING, kind, patch.to_string()).await;
        assert_eq!(code, 422, "{message}");
        assert_readable(&server).await;
    }
}

#[tokio::test]
async fn the_size_of_error_answers_is_limited() {
    let server = with_namespace(builder(), "default").await;
    let maps = "/api/v1/namespaces/default/configmaps";
    // Each error quotes all owners.
    let owner = |number| json!({"apiVersion": "v1", "kind": "ConfigMap", "name": format!("o{number}"), "uid": "u", "controller": true});
    let owners: Vec<Value> = (0..3_000).map(owner).collect();
    let map = json!({"metadata": {"name": "a", "ownerReferences": owners}});
    let refused = send(&server, "POST", maps, &map).await;
    assert_eq!(refused.status(), 422);
    let refused = text(refused).await;
    assert!(refused.len() < 5 * BYTES_MAX, "{} bytes", refused.len());
    assert!(refused.contains("; there may be more problems"));

    let mut map = json!({"metadata": {"name": "a"}});
    for number in 0..40_000 {
        map[format!("unknown{number}")] = json!(1);
    }
    let made = send(&server, "POST", maps, &map).await;
    assert_eq!(made.status(), 201);
    let warnings = made.headers().get_all("warning").iter();
    let characters: usize = warnings.map(|warning| warning.len()).sum();
    assert!((3_000..8_000).contains(&characters), "{characters}");
}

/// 20,000 members below a name of 1 MB have paths of 1 MB each: 20 GB in total.
#[tokio::test]
async fn long_names_do_not_blow_up_answers() {
    let long = "n".repeat(1 << 20);
    let members = |value: Value| {
        let members = (0..20_000).map(|number| (format!("m{number}"), value.clone()));
        Value::Object(members.collect())
    };
    let server = with_namespace(builder(), "default").await;
    let of_map = json!({"type": "object", "additionalProperties": {"type": "integer"}});
    let closed = json!({"type": "object", "properties": {"a": {"type": "object"}}});
    let listed = json!({"type": "array", "items": {"type": "object", "required": ["a", "b"]}});
    let maps = |of: Value| json!({"type": "object", "additionalProperties": of});
    let schema = json!({"type": "object", "properties": {
        "numbers": maps(of_map), "closed": maps(closed), "lists": maps(listed)}});
    let definition = define(&server, schema).await;
    let with = |list: &str, of: Value| {
        let mut object =
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
        object[list] = json!({ &long: of });
        object.to_string()
    };
    let apply = |manager: &str| format!("{THING}?fieldManager={manager}");
    let strict = format!("{THINGS}?fieldValidation=Strict&dryRun=All");
    let dry = format!("{THINGS}?dryRun=All");
    let properties = json!({ &long: members(json!(1)) });
    let mut unknown = definition.clone();
    unknown["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = json!({"type": "object", "properties": {&long: {"type": "object", "properties": properties}}});
    let lists = Value::Array(vec![json!({}); 20_000]);
    for (what, method, path, kind, body, wanted) in [
        (
            "unknown",
            "POST",
            &dry,
            JSON,
            with("closed", members(json!(1))),
            201,
        ),
        (
            "strict",
            "POST",
            &strict,
            JSON,
            with("closed", members(json!(1))),
            400,
        ),
        (
            "wrong types",
            "POST",
            &dry,
            JSON,
            with("numbers", members(json!("a"))),
            422,
        ),
        (
            "right types",
            "POST",
            &dry,
            JSON,
            with("numbers", members(json!(1))),
            201,
        ),
        ("required", "POST", &dry, JSON, with("lists", lists), 422),
        (
            "unknown, applied",
            "PATCH",
            &apply("m"),
            APPLY_PATCH,
            with("closed", members(json!(1))),
            500,
        ),
        (
            "wrong types, applied",
            "PATCH",
            &apply("m"),
            APPLY_PATCH,
            with("numbers", members(json!("a"))),
            500,
        ),
        (
            "first",
            "PATCH",
            &apply("m"),
            APPLY_PATCH,
            with("numbers", members(json!(1))),
            201,
        ),
        (
            "conflicts",
            "PATCH",
            &apply("n"),
            APPLY_PATCH,
            with("numbers", members(json!(2))),
            409,
        ),
        (
            "conflicts of kubectl",
            "PATCH",
            &apply("kubectl"),
            APPLY_PATCH,
            with("numbers", members(json!(3))),
            409,
        ),
        (
            "schema",
            "POST",
            &DEFINITIONS.to_owned(),
            JSON,
            unknown.to_string(),
            422,
        ),
    ] {
        // YAML requires a question mark before a long name.
        let body = match kind {
            APPLY_PATCH => body.replace(&format!("{long:?}:"), &format!("? {long:?} : ")),
            _ => body,
        };
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", kind)
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        let answer = server.answer(request).await.expect("an answer");
        let code = answer.status();
        let text = text(answer).await;
        let shown: String = text.chars().take(300).collect();
        assert_eq!(code, wanted, "{what}: {shown}");
        assert!(text.len() < 8 * BYTES_MAX, "{what}: {} bytes", text.len());
    }
}

#[tokio::test]
async fn expanded_aliases_are_limited_to_the_size_of_a_body() {
    let server = with_things(json!({})).await;
    let head = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: a}\nspec:\n";
    let laughs = (1..9).map(|number| {
        let before = format!("*l{}, ", number - 1);
        format!(
            "  l{number}: &l{number} [{}]\n",
            before.repeat(9).trim_end_matches(", ")
        )
    });
    let laughs = format!("{head}  l0: &l0 [lol, lol]\n{}", laughs.collect::<String>());
    let large = format!(
        "{head}  a: &a {}\n  b: [{}]\n",
        "x".repeat(1 << 20),
        ["*a"; 10].join(", ")
    );
    let deep = (1..200).map(|number| format!("  d{number}: &d{number} [*d{}]\n", number - 1));
    let deep = format!("{head}  d0: &d0 []\n{}", deep.collect::<String>());
    for body in [laughs, large, deep] {
        for (method, path, kind) in [
            ("POST", THINGS.to_owned(), YAML),
            ("PATCH", format!("{THING}?fieldManager=m"), APPLY_PATCH),
        ] {
            let (code, message) = ask_as(&server, method, &path, kind, body.clone()).await;
            assert_eq!(code, 400, "{message}");
        }
    }
    let few = format!("{head}  a: &a {}\n  b: [*a, *a]\n", "x".repeat(100_000));
    let (code, message) = ask_as(&server, "POST", THINGS, YAML, few).await;
    assert_eq!(code, 201, "{message}");
    assert_readable(&server).await;
}
