//! ConfigMaps and Leases: validation and updates.

use std::sync::Arc;

use podstorm_objects::AnyObject;
use serde_json::{Value, json};

use super::*;
use crate::testing::{at, cluster, refused};

#[test]
fn every_row_is_sound() {
    for row in &ROWS {
        assert!(row.is_sound(), "{}", row.kind);
        let same = |kind: &Kind| *kind == Kind::of(row);
        let all = || Kind::TYPED.into_iter().chain(kinds());
        assert_eq!(all().filter(same).count(), 1, "{}", row.kind);
    }
}

fn kind(name: &str) -> Kind {
    kind_named(name).expect("a kind of the table")
}

fn object(kind: Kind, mut value: Value) -> AnyObject {
    value["metadata"] = json!({"name": "a", "namespace": "default"});
    Arc::new(DynamicObject::from_json(kind, value).unwrap())
}

/// The causes of refusing to create an object with these members.
fn causes(kind: Kind, value: Value) -> Vec<String> {
    let created = cluster().api(kind).create(object(kind, value), at(0));
    let text = |cause: Cause| format!("{}: {}", cause.field, cause.message);
    created
        .map_or_else(|error| error.causes().to_vec(), |_| Vec::new())
        .into_iter()
        .map(text)
        .collect()
}

#[test]
fn keys_of_a_config_map_are_file_names() {
    let kind = kind("ConfigMap");
    let sound = json!({"data": {"a.txt": "", "B_c-1": "x"}, "binaryData": {"d": "AAAA"}});
    assert_eq!(causes(kind, sound), [""; 0]);
    for (key, what) in [
        (
            "a b",
            "data[a b]: Invalid value: \"a b\": a valid config key must",
        ),
        (".", "data[.]: Invalid value: \".\": must not be '.'"),
        ("..a", "data[..a]: Invalid value: \"..a\": must not be '.'"),
    ] {
        let found = causes(kind, json!({"data": {key: "x"}}));
        assert!(found.len() == 1 && found[0].starts_with(what), "{found:?}");
    }
    let long = "k".repeat(254);
    assert_eq!(causes(kind, json!({"data": {long: "x"}})).len(), 1);
    let both = json!({"data": {"a": "x"}, "binaryData": {"a": "AAAA"}});
    assert_eq!(
        causes(kind, both),
        ["binaryData[a]: Invalid value: \"a\": duplicate of key present in data"]
    );
}

#[test]
fn a_config_map_holds_a_mebibyte() {
    let kind = kind("ConfigMap");
    let of = |bytes: usize| json!({"data": {"a": "x".repeat(bytes)}});
    assert_eq!(causes(kind, of(1 << 20)), [""; 0]);
    assert_eq!(
        causes(kind, of((1 << 20) + 1)),
        [": Too long: may not be more than 1048576 bytes"]
    );
    let wrong = DynamicObject::from_json(kind, json!({"data": {"a": 1}}));
    assert_eq!(
        wrong.unwrap_err().to_string(),
        "data[a]: expected a string, found the number 1"
    );
}

#[test]
fn an_immutable_config_map_keeps_its_data_and_takes_labels() {
    let (kind, cluster) = (kind("ConfigMap"), cluster());
    let api = cluster.api(kind);
    let of = |data: &str, immutable: Option<bool>| {
        object(kind, json!({"data": {"a": data}, "immutable": immutable}))
    };
    api.create(of("1", None), at(0)).unwrap();
    api.update(of("2", Some(true)), at(0)).unwrap();
    for other in [of("3", Some(true)), of("2", Some(false)), of("2", None)] {
        assert_eq!(refused(api.update(other, at(0))), "422 Invalid");
    }
    let mut labelled = DynamicObject::new(kind);
    labelled.metadata.clone_from(of("2", None).metadata());
    labelled.metadata.labels = labelled.metadata.labels.with("a", "b");
    let fields = json!({"data": {"a": "2"}, "immutable": true});
    labelled.fields = fields.as_object().unwrap().clone();
    api.update(Arc::new(labelled), at(0)).unwrap();
}

#[test]
fn a_lease_lasts_and_is_taken_over_no_less_than_never() {
    let kind = kind("Lease");
    let held = json!({"spec": {
        "holderIdentity": "a", "leaseDurationSeconds": 15, "leaseTransitions": 0,
        "acquireTime": "2026-01-02T03:04:05.678901Z", "renewTime": "2026-01-02T03:04:05.678901Z",
    }});
    assert_eq!(causes(kind, held.clone()), [""; 0]);
    let api = cluster();
    let stored = api
        .api(kind)
        .create(object(kind, held.clone()), at(0))
        .unwrap();
    assert_eq!(stored.to_json()["spec"], held["spec"], "to the microsecond");
    let never = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
    assert_eq!(
        causes(kind, never),
        [
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
            "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
        ]
    );
    let preferred = json!({"spec": {"preferredHolder": "b"}});
    assert_eq!(
        causes(kind, preferred),
        ["spec.preferredHolder: Forbidden: may only be specified if `strategy` is defined"]
    );
    let wrong = DynamicObject::from_json(kind, json!({"spec": {"renewTime": "soon"}}));
    assert!(
        wrong
            .unwrap_err()
            .to_string()
            .starts_with("spec.renewTime: ")
    );
}
