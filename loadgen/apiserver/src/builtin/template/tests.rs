//! Tests of the checks of a template that depend on the kind, and of its warnings.

use std::sync::Arc;

use podstorm_objects::{Cause, DynamicObject, Object as _, ReplicaSet, Resource, Written};
use serde_json::{Value, json};

use super::{WARNINGS_WITH_NAME, name_warnings};
use crate::kind_named;
use crate::testing::{assert_starts, at, cases, cluster, merged};

/// Returns a valid object of a kind with a template.
fn sound(kind: &str) -> Value {
    let pods = json!({"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"app": "web"}});
    let ending = json!({"spec": {"containers": [{"name": "c", "image": "i"}],
        "restartPolicy": "Never"}});
    match kind {
        "PodTemplate" => json!({"template": pods}),
        "Job" => json!({"spec": {"template": ending}}),
        "CronJob" => {
            json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": ending}}}})
        }
        _ => json!({"spec": {"selector": selector, "template": pods}}),
    }
}

/// Returns the problems with an object of the kind with these members.
fn wrong(patch: &Value) -> Vec<String> {
    let name = patch["kind"].as_str().expect("each case names a kind");
    let kind = kind_named(name).expect("the kind is built in");
    let mut value = merged(sound(name), patch.clone());
    value["metadata"] = json!({"name": "web", "namespace": "default"});
    let object = Arc::new(DynamicObject::from_json(kind, value).expect("the object is readable"));
    let text = |cause: &Cause| format!("{}: {}", cause.field, cause.message);
    match cluster().api(kind).create(object, at(0)) {
        Ok(_) => Vec::new(),
        Err(error) => error.causes().iter().map(text).collect(),
    }
}

#[test]
fn templates_are_checked_as_their_kind_requires() {
    for (patch, wanted) in cases(include_str!("cases.txt")) {
        assert_starts(&wrong(&patch), &wanted, &patch);
    }
}

#[test]
fn a_template_causes_warnings_only_when_it_changes() {
    let json = json!({"metadata": {"name": "a.b"}, "spec": {"template": {"spec": {
        "containers": [{"name": "c", "env": [{"name": "A"}, {"name": "A"}]}]}}}});
    let set = ReplicaSet::from_json(json).expect("a valid ReplicaSet");
    let told = |is_new, is_changed| {
        let json = || set.to_json();
        let written = Written {
            name: &set.metadata.name,
            json: &json,
            is_new,
            is_changed,
        };
        (WARNINGS_WITH_NAME.written)(&written).len()
    };
    assert_eq!(
        (told(true, true), told(false, true), told(false, false)),
        (2, 1, 0)
    );
}

#[test]
fn names_that_are_not_dns_labels_cause_warnings() {
    let told = name_warnings(&format!("a.{}", "x".repeat(63)), "the Pod's hostname");
    let wanted = "metadata.name: this is used in the Pod's hostname, which can result in \
                  surprising behavior; a DNS label is recommended: [must be no more than 63 \
                  characters must not contain dots]";
    assert_eq!(told, [wanted]);
    assert!(name_warnings("web-0", "").is_empty());
}
