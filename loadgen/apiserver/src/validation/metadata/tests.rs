//! Broken rules of metadata.

use serde_json::json;

use super::super::testing::{assert_starts, texts};
use super::*;

fn problems(value: Value) -> Vec<String> {
    let mut causes = Causes::default();
    let meta = ObjectMeta::from_json(value).expect("metadata");
    let path = Path::ROOT.member("metadata");
    check(&meta, true, names::dns_subdomain, &path, &mut causes);
    texts(&causes.0)
}

#[test]
fn good_metadata_breaks_no_rule() {
    let owner = |controller: bool| {
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a", "uid": "u",
            "controller": controller})
    };
    for value in [
        json!({"name": "a.b-c", "namespace": "n"}),
        json!({"generateName": "web-", "namespace": "n", "labels": {"a.b/c": "", "x": "Y"},
            "annotations": {"Example.com/a": "any text\n"},
            "ownerReferences": [owner(true), owner(false)],
            "finalizers": ["orphan", "example.com/x"]}),
    ] {
        assert_eq!(problems(value), [""; 0]);
    }
}

#[test]
fn each_broken_rule_is_named() {
    let owner = json!({"apiVersion": "apps/v1", "kind": "RS", "name": "a", "uid": "u",
        "controller": true});
    let cases = [
        (
            json!({}),
            vec![
                "metadata.name: Required value",
                "metadata.namespace: Required",
            ],
        ),
        (
            json!({"name": "A", "namespace": "n"}),
            vec!["metadata.name: Invalid value: \"A\""],
        ),
        (
            json!({"generateName": "A-", "namespace": "a.b"}),
            vec![
                "metadata.generateName: Invalid",
                "metadata.namespace: Invalid",
            ],
        ),
        (
            json!({"labels": {"-a": "b"}}),
            vec!["metadata.labels: Invalid value: \"-a\""],
        ),
        (
            json!({"labels": {"a": "-b"}}),
            vec!["metadata.labels: Invalid value: \"-b\""],
        ),
        (
            json!({"annotations": {"a b": ""}}),
            vec!["metadata.annotations: Invalid"],
        ),
        (
            json!({"annotations": {"a": "x".repeat(256 * 1024)}}),
            vec!["metadata.annotations: Too long: may not be more than 262144 bytes"],
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "a/b/c"}]}),
            vec![
                "metadata.ownerReferences.apiVersion: Invalid value: \"a/b/c\"",
                "metadata.ownerReferences.kind: Invalid",
                "metadata.ownerReferences.name: Invalid",
                "metadata.ownerReferences.uid: Invalid",
            ],
        ),
        (
            json!({"ownerReferences": [owner, owner]}),
            vec!["metadata.ownerReferences: Invalid value: [{"],
        ),
        (
            json!({"ownerReferences": [{"apiVersion": "v1", "kind": "Event", "name": "e",
                "uid": "u"}]}),
            vec!["metadata.ownerReferences: Invalid"],
        ),
        (
            json!({"finalizers": ["mine"]}),
            vec!["metadata.finalizers[0]: Invalid"],
        ),
        (
            json!({"finalizers": ["a/b/c"]}),
            vec!["metadata.finalizers: Invalid"],
        ),
        (
            json!({"finalizers": ["orphan", "foregroundDeletion"]}),
            vec!["metadata.finalizers: Invalid value: [\"orphan\",\"foregroundDeletion\"]"],
        ),
        (
            json!({"generation": -1}),
            vec!["metadata.generation: Invalid value: -1: must be"],
        ),
    ];
    for (mut value, expected) in cases {
        if !value.as_object().is_some_and(|map| map.is_empty())
            && value.get("generateName").is_none()
            && value.get("name").is_none()
        {
            value["name"] = "a".into();
            value["namespace"] = "n".into();
        }
        let found = problems(value.clone());
        assert_starts(&found, &expected, &value);
    }
}

#[test]
fn deletion_costs_are_plain_numbers_of_32_bits() {
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
