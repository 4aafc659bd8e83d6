//! Table tests of decoding.

use podstorm_apiserver::kind_named;
use podstorm_apiserver::limits::BYTES_MAX;
use serde_json::json;

use super::*;

fn form(kind: &str) -> Form {
    Form::Kind(kind_named(kind).expect(kind))
}

/// Returns the rows of a table: a form, a text, and the expected result.
fn rows(table: &str) -> impl Iterator<Item = (Form, &str, &str)> {
    table.trim().lines().map(|line| {
        let (given, wanted) = line.split_once(" =>").expect(line);
        let (kind, text) = given.split_once(' ').expect(line);
        (form(kind), text, wanted.trim())
    })
}

#[test]
fn the_first_member_of_a_wrong_type_is_reported() {
    let table = r#"
Pod {"metadata": {"labels": {"a": null}}, "spec": null} =>
Deployment {"spec": {"replicas": 4000000000}} => number 4000000000 into Go struct field DeploymentSpec.spec.replicas of type int32
Deployment {"spec": {"replicas": 1e2}} => number 1e2 into Go struct field DeploymentSpec.spec.replicas of type int32
Deployment {"spec": {"replicas": 3.0, "paused": 1}} => number 3.0 into Go struct field DeploymentSpec.spec.replicas of type int32
Deployment {"spec": {"replicas": "3", "paused": 1}} => string into Go struct field DeploymentSpec.spec.replicas of type int32
Deployment {"spec": {"paused": 1, "minReadySeconds": "3"}} => number into Go struct field DeploymentSpec.spec.paused of type bool
Deployment {"spec": [], "metadata": 3} => array into Go struct field Deployment.spec of type v1.DeploymentSpec
CronJob {"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a", "args": ["x", 5]}]}}}}}} => number into Go struct field Container.spec.jobTemplate.spec.template.spec.containers.args of type string
Service {"spec": {"ports": [{"targetPort": "web"}], "selector": ["a"]}} => array into Go struct field ServiceSpec.spec.selector of type map[string]string
Service {"spec": {"ports": [{"targetPort": true}]}} => bool into Go struct field ServicePort.spec.ports.targetPort of type int32
Service {"spec": {"ports": [{"targetPort": 1.5}]}} => number 1.5 into Go struct field ServicePort.spec.ports.targetPort of type int32
Service {"spec": {"ports": [{"port": "80"}], "selector": ["a"]}} => string into Go struct field ServicePort.spec.ports.port of type int32
Secret {"data": {"a": "YQ==", "b": "Y"}} => illegal base64
Pod {"metadata": {"name": 5, "creationTimestamp": "soon"}} => parsing time "soon"
Pod {"metadata": {"creationTimestamp": 5}} => number into Go struct field ObjectMeta.metadata.creationTimestamp of type string
Pod {"metadata": {"creationTimestamp": ""}} => cannot parse "" as "2006"
Lease {"spec": {"renewTime": "2026-01-02T03:04:05Z"}} => cannot parse "Z" as ".000000"
PersistentVolumeClaim {"spec": {"resources": {"requests": {"storage": true}}}} => quantities must match
PersistentVolumeClaim {"spec": {"resources": {"requests": {"storage": {}}}}} => quantities must match
Pod {"spec": {"terminationGracePeriodSeconds": 99999999999999999999}} => number 99999999999999999999 into Go struct field PodSpec.spec.terminationGracePeriodSeconds of type int64
"#;
    for (form, text, told) in rows(table) {
        let found = json(text.as_bytes(), form).expect(text).wrong;
        let found = found.unwrap_or_default();
        assert!(found.contains(told), "{text}: {found}");
        assert_eq!(found.is_empty(), told.is_empty(), "{text}: {found}");
    }
}

#[test]
fn syntax_errors_take_precedence_over_type_errors() {
    let text = br#"{"spec": {"replicas": "x"}} x"#;
    let told = json(text, form("Deployment")).expect_err("the text has trailing characters");
    assert_eq!(told, "invalid character 'x' after top-level value");
    let told = json(br#"{"spec": {"replicas": "x", }}"#, form("Deployment"));
    let words = "invalid character '}' looking for beginning of object key string";
    assert_eq!(told.expect_err("a comma"), words);
}

#[test]
fn unknown_and_repeated_members_are_noted_in_text_order() {
    let table = r#"
Pod {"bogus": 1, "metadata": {"name": "a", "colour": "red"}, "spec": {"containers": [{"name": "c", "imaeg": "x"}, {"imaeg": {"deep": 1}}]}} => unknown "bogus", unknown "metadata.colour", unknown "spec.containers[0].imaeg", unknown "spec.containers[1].imaeg"
Deployment {"spec": {"replicas": 1, "bogus": 1, "replicas": 2, "replicas": 3, "bogus": 2}} => unknown "spec.bogus", duplicate "spec.replicas"
Deployment {"kind": "Deployment", "kind": "Deployment"} => duplicate "kind"
Pod {"metadata": {"labels": {"a": "b", "a": "c"}, "finalizers": [], "finalizers": ["x/a"]}} => duplicate "metadata.labels.a", duplicate "metadata.finalizers"
Pod {"spec": {"containers": [{"env": [{"name": "a", "name": "b"}]}]}} => duplicate "spec.containers[0].env[0].name"
ControllerRevision {"data": {"a": 1, "a": 2}} =>
Pod {"metadata": {"a\n\"\u0085": 1}} => unknown "metadata.a\n\"\u0085"
"#;
    for (form, text, told) in rows(table) {
        let found = json(text.as_bytes(), form).expect(text);
        assert_eq!(found.wrong, None, "{text}");
        let found = found.strict.join(", ").replace(" field", "");
        assert_eq!(found, told, "{text}");
    }
    let many: Map<String, Value> = (0..500).map(|at| (at.to_string(), json!(1))).collect();
    let found = tree(many.into(), form("Pod"), By::Json);
    assert_eq!(found.strict.len(), NOTES_MAX);
}

#[test]
fn notes_have_no_more_bytes_than_a_body() {
    let long = "x".repeat(BYTES_MAX / 3);
    let unknown: Map<String, Value> = (0..20).map(|at| (format!("u{at}"), json!(1))).collect();
    let schema = json!({"properties": {long: unknown}});
    let definition = json!({"spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    let found = tree(definition, form("CustomResourceDefinition"), By::Json);
    assert!(
        (3..6).contains(&found.strict.len()),
        "{}",
        found.strict.len()
    );
}

#[test]
fn the_decoded_value_is_what_go_writes() {
    let table = r#"
Deployment {"spec": {"replicas": 1, "replicas": 2}} => {"spec":{"replicas":2}}
Deployment {"spec": {"replicas": 1}, "spec": {"paused": true}} => {"spec":{"paused":true,"replicas":1}}
ConfigMap {"data": {"a": "1", "b": null}} => {"data":{"a":"1","b":""}}
ConfigMap {"data": {}, "immutable": null} => {}
Pod {"spec": {"containers": [null, {"args": ["a", null], "ports": []}]}} => {"spec":{"containers":[{},{"args":["a",""]}]}}
Pod {"spec": {"containers": [{"resources": {"limits": {"cpu": null, "memory": "1024Mi"}}}]}} => {"spec":{"containers":[{"resources":{"limits":{"cpu":"0","memory":"1Gi"}}}]}}
Pod {"spec": {"containers": [{"resources": {"limits": {"cpu": 0.1, "memory": 2000}}}]}} => {"spec":{"containers":[{"resources":{"limits":{"cpu":"100m","memory":"2k"}}}]}}
Pod {"metadata": {"creationTimestamp": null, "deletionTimestamp": "2026-01-02T05:04:05.5+02:00"}} => {"metadata":{"deletionTimestamp":"2026-01-02T03:04:05Z"}}
Pod {"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}} => {"metadata":{}}
Pod {"metadata": {"creationTimestamp": "1600-01-01T00:00:00Z", "deletionTimestamp": "2300-01-01T00:00:00Z"}} => {"metadata":{"creationTimestamp":"1600-01-01T00:00:00Z","deletionTimestamp":"2300-01-01T00:00:00Z"}}
Lease {"spec": {"renewTime": "2026-01-02T05:04:05.000700+02:00"}} => {"spec":{"renewTime":"2026-01-02T03:04:05.000700Z"}}
ControllerRevision {"data": {"a": null, "b": []}} => {"data":{"a":null,"b":[]}}
"#;
    for (form, text, wanted) in rows(table) {
        let found = json(text.as_bytes(), form).expect(text);
        assert_eq!(found.wrong, None, "{text}");
        assert_eq!(found.value.to_string(), wanted, "{text}");
        // Decoding from a tree gives the same value.
        let again = serde_json::from_str(text).expect(text);
        let again = tree(again, form, By::Json).value.to_string();
        let is_merged = text.matches("\"spec\"").count() > 1;
        assert!(is_merged || again == wanted, "{text}: {again}");
    }
}

#[test]
fn a_conversion_accepts_integral_floats_with_its_own_messages() {
    let table = r#"
Deployment {"spec": {"replicas": 400.0}} => {"spec":{"replicas":400}}
Deployment {"spec": {"replicas": 1.5}} => cannot convert float64 to int32
Deployment {"spec": {"replicas": 4000000000}} => cannot convert int64 to int32
Deployment {"spec": {"replicas": 4e9}} => cannot convert float64 to int32
Deployment {"spec": {"replicas": "3"}} => unrecognized type: int32
Deployment {"spec": []} => cannot restore struct from: slice
Deployment {"spec": {"selector": {"matchLabels": "a"}}} => cannot restore map from string
Pod {"spec": {"containers": {}}} => cannot restore slice from map
ConfigMap {"data": {"a": 1}} => cannot convert int64 to string
"#;
    for (form, text, wanted) in rows(table) {
        let value = serde_json::from_str(text).expect(text);
        let found = tree(value, form, By::Conversion);
        let shown = found.wrong.unwrap_or_else(|| found.value.to_string());
        assert_eq!(shown, wanted, "{text}");
    }
}

#[test]
fn repeated_members_in_yaml_are_noted_first() {
    let text = b"spec:\n  bogus: 1\n  replicas: 0o10\n  replicas: 0400\n  paused: yes\n";
    let found = yaml(text, form("Deployment")).expect("valid YAML");
    let told = "yaml: unmarshal errors:\n  line 4: key \"replicas\" already set in map";
    assert_eq!(found.strict, [told, "unknown field \"spec.bogus\""]);
    assert_eq!(
        found.value,
        json!({"spec": {"replicas": 256, "paused": true}})
    );
}
