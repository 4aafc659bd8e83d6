//! Tests of the checks of a template that depend on the kind.

use std::sync::Arc;

use podstorm_objects::{Cause, DynamicObject};
use serde_json::{Value, json};

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
