//! The objects of a simulation: their names, and JSON to be changed before they are created.

use podstorm_objects::{Kind, Map, ObjectMeta};
use serde_json::{Value, json};

/// The namespace of every object that a schedule names.
pub const NAMESPACE: &str = "sim";

/// The finalizer that keeps a pod.
pub(crate) const STUCK: &str = "podstorm.example/stuck";

/// The name of the node with that number.
pub(crate) fn node_name(number: u32) -> String {
    format!("node-{number}")
}

/// The metadata of an object that has a name and nothing else.
pub fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: name.into(),
        ..ObjectMeta::default()
    }
}

/// A pod with the label `app` of that value.
pub fn pod(name: &str, app: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": app}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    })
}

/// The part of an object that names its controller.
pub fn controlled_by(kind: Kind, name: &str, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{
        "apiVersion": kind.api_version(), "kind": kind.name(), "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }]}})
}

/// Merges `change` into `object` as a merge patch does.
pub fn with(mut object: Value, change: Value) -> Value {
    merge(&mut object, change);
    object
}

fn merge(target: &mut Value, change: Value) {
    let Value::Object(change) = change else {
        *target = change;
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let members = target.as_object_mut().expect("it is an object now");
    for (name, value) in change {
        match value {
            Value::Null => drop(members.remove(&name)),
            value => merge(members.entry(name).or_insert(Value::Null), value),
        }
    }
}

/// The members of a patch.
///
/// # Panics
/// It is not an object.
pub(crate) fn members(patch: Value) -> Map {
    match patch {
        Value::Object(members) => members,
        other => panic!("a patch is an object, not {other}"),
    }
}
