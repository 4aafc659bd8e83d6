//! Tests of the rules of metadata.

use serde_json::json;

use super::super::testing::{assert_starts, cases, texts};
use super::*;

fn problems(value: Value) -> Vec<String> {
    let mut causes = Causes::default();
    let meta = ObjectMeta::from_json(value).expect("metadata");
    let path = Path::ROOT.member("metadata");
    check(&meta, true, names::dns_subdomain, &path, &mut causes);
    texts(&causes.found())
}

#[test]
fn valid_metadata_breaks_no_rule_and_broken_rules_are_reported() {
    let table = r#"
{"name": "a.b-c", "namespace": "n"}

{"generateName": "web-", "namespace": "n", "labels": {"a.b/c": "", "x": "Y"},
    "annotations": {"Example.com/a": "any text\n"}, "ownerReferences": [{"apiVersion": "apps/v1",
    "kind": "ReplicaSet", "name": "a", "uid": "u", "controller": true}, {"apiVersion": "apps/v1",
    "kind": "ReplicaSet", "name": "a", "uid": "u", "controller": false}], "finalizers": ["orphan",
    "example.com/x"]}

{}
> metadata.name: Required value
> metadata.namespace: Required

{"name": "A", "namespace": "n"}
> metadata.name: Invalid value: "A"

{"generateName": "A-", "namespace": "a.b"}
> metadata.generateName: Invalid
> metadata.namespace: Invalid

{"name": "a", "namespace": "n", "labels": {"-a": "b"}}
> metadata.labels: Invalid value: "-a"

{"name": "a", "namespace": "n", "labels": {"a": "-b"}}
> metadata.labels: Invalid value: "-b"

{"name": "a", "namespace": "n", "annotations": {"a b": ""}}
> metadata.annotations: Invalid

{"name": "a", "namespace": "n", "ownerReferences": [{"apiVersion": "a/b/c"}]}
> metadata.ownerReferences.apiVersion: Invalid value: "a/b/c"
> metadata.ownerReferences.kind: Invalid
> metadata.ownerReferences.name: Invalid
> metadata.ownerReferences.uid: Invalid

{"name": "a", "namespace": "n", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "RS", "name": "a",
    "uid": "u", "controller": true}, {"apiVersion": "apps/v1", "kind": "RS", "name": "a", "uid": "u",
    "controller": true}]}
> metadata.ownerReferences: Invalid value: [{

{"name": "a", "namespace": "n", "ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e",
    "uid": "u"}]}
> metadata.ownerReferences: Invalid

{"name": "a", "namespace": "n", "finalizers": ["mine"]}
> metadata.finalizers[0]: Invalid

{"name": "a", "namespace": "n", "finalizers": ["a/b/c"]}
> metadata.finalizers: Invalid

{"name": "a", "namespace": "n", "finalizers": ["orphan", "foregroundDeletion"]}
> metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]

{"name": "a", "namespace": "n", "generation": -1}
> metadata.generation: Invalid value: -1: must be
"#;
    for (value, starts) in cases(table) {
        assert_starts(&problems(value.clone()), &starts, &value);
    }
    let long = json!({"name": "a", "namespace": "n", "annotations": {"a": "x".repeat(256 * 1024)}});
    let too_long = "metadata.annotations: Too long: may not be more than 262144 bytes";
    assert_starts(&problems(long), &[too_long], &Value::Null);
}

#[test]
fn deletion_costs_are_plain_32_bit_numbers() {
    for text in ["0", "-0", "7", "-2147483648", "2147483647", "-05"] {
        assert!(is_deletion_cost(text), "{text}");
    }
    for text in [
        "",
        "+1",
        "007",
        "00",
        "-",
        "--1",
        "2147483648",
        "1.0",
        " 1",
        "1e3",
    ] {
        assert!(!is_deletion_cost(text), "{text}");
    }
}
