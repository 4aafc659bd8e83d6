//! CustomResourceDefinitions with arbitrary schemas, and an object of the defined kind.

use podstorm_apiserver::limits;
use serde_json::{Value, json};

use super::Target;
use super::requests::{ask, runtime, with_default_namespace};

pub(super) const DEFINITIONS: Target = Target {
    name: "definition",
    claim: "a schema is refused with a Status, or the objects of its kind are stored or refused with a Status; a stored \
            object is within the limits and writing it back changes nothing; OpenAPI describes the definition",
    run: define,
    runs: 150,
};

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

/// Runs an input `{"schema": {...}, "object": {...}}`. Returns whether the schema was accepted.
fn define(data: &[u8]) -> bool {
    let Ok(Value::Object(mut input)) = serde_json::from_slice(data) else {
        return false;
    };
    let (Some(schema), Some(Value::Object(mut object))) =
        (input.remove("schema"), input.remove("object"))
    else {
        return false;
    };
    let definition = json!({"metadata": {"name": "things.example.com"}, "spec": {
        "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}});
    object.insert("apiVersion".into(), "example.com/v1".into());
    object.insert("kind".into(), "Thing".into());
    object.insert("metadata".into(), json!({"name": "a"}));
    runtime().block_on(async {
        let server = with_default_namespace().await;
        let (code, answer) = ask(&server, "POST", PATH, &definition).await;
        if code != 201 {
            assert_refused(code, &answer);
            return false;
        }
        let (code, document) = ask(
            &server,
            "GET",
            "/openapi/v3/apis/example.com/v1",
            &Value::Null,
        )
        .await;
        assert_eq!(
            (code, document["openapi"].is_string()),
            (200, true),
            "{document}"
        );
        let (code, made) = ask(&server, "POST", THINGS, &object.into()).await;
        if code != 201 {
            assert_refused(code, &made);
            return true;
        }
        assert_eq!(limits::check(&made), Ok(()));
        let path = format!("{THINGS}/a");
        let (code, got) = ask(&server, "GET", &path, &Value::Null).await;
        assert_eq!((code, &got), (200, &made));
        let (code, put) = ask(&server, "PUT", &path, &got).await;
        assert_eq!((code, &put), (200, &got), "written back");
        true
    })
}

fn assert_refused(code: u16, answer: &Value) {
    assert!((400..500).contains(&code), "{answer}");
    assert_eq!(
        (&answer["kind"], &answer["code"]),
        (&json!("Status"), &json!(code)),
        "{answer}"
    );
    assert!(
        answer["message"].as_str().is_some_and(|it| !it.is_empty()),
        "{answer}"
    );
}
