//! Custom resources over HTTP: warnings, discovery, OpenAPI, watches.

use super::*;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

fn warnings(response: &Response<Body>) -> Vec<String> {
    let all = response.headers().get_all("warning").iter();
    all.map(|text| text.to_str().expect("a string").to_owned())
        .collect()
}

async fn with_widgets() -> ApiServer {
    let server = with_namespace(builder(), "default").await;
    let schema = json!({"type": "object", "description": "A widget.", "properties": {
        "spec": {"type": "object",
            "x-kubernetes-validations": [{"rule": "self.size > 0"}],
            "properties": {"size": {"type": "integer"}}}}});
    let definition = json!({"metadata": {"name": "widgets.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}}]}});
    let made = send(&server, "POST", DEFINITIONS, &definition).await;
    let warned = warnings(&made);
    assert_eq!(made.status(), 201, "{}", json(made).await);
    assert_eq!(warned.len(), 1, "one warning about unenforced rules");
    assert!(
        warned[0].contains("x-kubernetes-validations are not enforced by this server: spec"),
        "{warned:?}"
    );
    server
}

#[tokio::test]
async fn unknown_fields_cause_warnings_or_are_refused() {
    let server = with_widgets().await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a", "bogus": 1}, "spec": {"size": 1, "colour": "red"}});
    let made = send(&server, "POST", WIDGETS, &widget).await;
    let warned = warnings(&made);
    assert_eq!(
        warned,
        [
            "299 - \"unknown field \\\"spec.colour\\\"\"",
            "299 - \"unknown field \\\"metadata.bogus\\\"\""
        ]
    );
    assert_eq!(json(made).await["spec"], json!({"size": 1}));
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let refused = send(&server, "POST", &strict, &widget).await;
    assert_eq!(refused.status(), 400);
    for (member, problem) in [
        ("kind", "Object 'Kind' is missing in"),
        ("apiVersion", "Object 'apiVersion' is missing in"),
    ] {
        let mut nameless = widget.clone();
        nameless.as_object_mut().expect("an object").remove(member);
        let refused = json(send(&server, "POST", WIDGETS, &nameless).await).await;
        let message = refused["message"].as_str().expect("a message");
        assert!(message.starts_with(problem), "{message}");
    }
}

#[tokio::test]
async fn clients_can_discover_and_explain_custom_kinds() {
    let server = with_widgets().await;
    let groups = json(send(&server, "GET", "/apis", &Value::Null).await).await;
    let groups = groups["groups"].as_array().expect("groups").clone();
    assert!(groups.iter().any(|group| group["name"] == "example.com"));
    let before = json(send(&server, "GET", "/openapi/v3", &Value::Null).await).await;
    let address = |index: &Value| {
        let path = &index["paths"]["apis/example.com/v1"]["serverRelativeURL"];
        path.as_str().expect("an address").to_owned()
    };
    let document = json(send(&server, "GET", &address(&before), &Value::Null).await).await;
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["description"], "A widget.");
    assert_eq!(
        schema["x-kubernetes-group-version-kind"][0]["kind"],
        "Widget"
    );
    let metadata = schema["properties"]["metadata"]["allOf"][0]["$ref"]
        .as_str()
        .and_then(|name| name.rsplit('/').next())
        .expect("a reference");
    assert!(document["components"]["schemas"][metadata].is_object());
    // Another schema has another URL.
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let found = json(send(&server, "GET", &path, &Value::Null).await).await;
    let mut versions = found["spec"]["versions"].clone();
    versions[0]["schema"]["openAPIV3Schema"]["description"] = "A better widget.".into();
    let patch = json!({"spec": {"versions": versions}});
    assert_eq!(send(&server, "PATCH", &path, &patch).await.status(), 200);
    let after = json(send(&server, "GET", "/openapi/v3", &Value::Null).await).await;
    assert_ne!(address(&before), address(&after));
}

#[tokio::test]
async fn the_tag_of_a_document_depends_on_all_of_it() {
    const DOCUMENT: &str = "/openapi/v3/apis/example.com/v1";
    let server = with_namespace(builder(), "default").await;
    let tag = async |known: Option<&str>| {
        let request = Request::get(DOCUMENT).header("if-none-match", known.unwrap_or(""));
        let answer = ask(&server, request).await;
        let tag = answer.headers().get("etag").and_then(|it| it.to_str().ok());
        (answer.status().as_u16(), tag.unwrap_or("").to_owned())
    };
    let older = async || {
        let answer = send(&server, "GET", "/openapi/v2", &Value::Null).await;
        answer.headers()["etag"].clone()
    };
    // Two kinds with equal schemas, and others that differ only in their names.
    let mut tags = vec![tag(None).await];
    assert_eq!(tags[0], (404, String::new()));
    for [plural, kind] in [["foos", "Foo"], ["bars", "Bar"], ["bazes", "Baz"]] {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object"}}});
        let definition = json!({"apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition", "metadata": {"name": format!("{plural}.example.com")},
            "spec": {"group": "example.com", "scope": "Namespaced",
                "names": {"plural": plural, "kind": kind},
                "versions": [{"name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": schema}}]}});
        let made = send(&server, "POST", DEFINITIONS, &definition).await;
        assert_eq!(made.status(), 201);
        tags.push(tag(None).await);
    }
    let before = older().await;
    let path = format!("{DEFINITIONS}/foos.example.com");
    let found = json(send(&server, "GET", &path, &Value::Null).await).await;
    let mut versions = found["spec"]["versions"].clone();
    versions[0]["subresources"]["scale"] =
        json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let patch = json!({"spec": {"versions": versions}});
    assert_eq!(send(&server, "PATCH", &path, &patch).await.status(), 200);
    let last = tag(None).await;
    assert_ne!(older().await, before);
    tags.push(last.clone());
    for (number, tag) in tags.iter().enumerate() {
        assert!(!tags[..number].contains(tag), "{tags:?}");
    }
    // A change to another definition does not affect this document.
    let elsewhere = format!("{DEFINITIONS}/foos.example.com");
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(
        send(&server, "PATCH", &elsewhere, &labels).await.status(),
        200
    );
    let index = json(send(&server, "GET", "/openapi/v3", &Value::Null).await).await;
    let address = index["paths"]["apis/example.com/v1"]["serverRelativeURL"].clone();
    assert_eq!(
        address,
        format!("{DOCUMENT}?hash={}", last.1.trim_matches('"'))
    );
    assert_eq!(tag(Some(&last.1)).await, (304, last.1.clone()));
    assert_eq!(tag(Some(&tags[1].1)).await.0, 200);
}

#[tokio::test]
async fn a_watch_ends_with_the_definition_of_its_kind() {
    let server = with_widgets().await;
    let watch = format!("{WIDGETS}?watch=true");
    let events = send(&server, "GET", &watch, &Value::Null).await;
    let widget = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "a"}, "spec": {}});
    assert_eq!(send(&server, "POST", WIDGETS, &widget).await.status(), 201);
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let gone = send(&server, "DELETE", &path, &Value::Null).await;
    assert_eq!(gone.status(), 200);
    assert_eq!(
        send(&server, "GET", WIDGETS, &Value::Null).await.status(),
        404
    );
    let told = text(events).await;
    let kinds: Vec<String> = told
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("an event")["type"].to_string())
        .collect();
    assert_eq!(kinds, ["\"ADDED\"", "\"DELETED\""]);
}
