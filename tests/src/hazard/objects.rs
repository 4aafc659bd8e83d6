//! The objects of the scenarios, as JSON to be changed before they are created.

use podstorm::object::Uid;
use serde_json::{Value, json};

/// Merges `change` into `object` as a merge patch does.
pub fn with(mut object: Value, change: Value) -> Value {
    merge(&mut object, change);
    object
}

fn merge(target: &mut Value, change: Value) {
    match (target, change) {
        (Value::Object(target), Value::Object(change)) => {
            for (name, value) in change {
                if value.is_null() {
                    target.remove(&name);
                } else {
                    merge(target.entry(name).or_insert(Value::Null), value);
                }
            }
        }
        (target, change) => *target = change,
    }
}

/// A ReplicaSet whose pods are labelled `app: <name>` and come up at once.
pub fn replica_set(name: &str, replicas: i32) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "i:1"}]},
            },
        },
    })
}

/// A ReplicaSet whose pods nobody schedules: they stay pending, nothing is heard of them, and
/// they are gone as soon as they are deleted.
pub fn idle_set(name: &str, replicas: i32) -> Value {
    let nobody = json!({"spec": {"template": {"spec": {"schedulerName": "nobody"}}}});
    with(replica_set(name, replicas), nobody)
}

/// A pod labelled `app: <app>` that nobody schedules.
pub fn pod(name: &str, app: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}},
        "spec": {
            "schedulerName": "nobody",
            "containers": [{"name": "c", "image": "i:1"}],
        },
    })
}

/// A pod with a ReplicaSet as its controller.
pub fn pod_of(name: &str, app: &str, uid: &Uid) -> Value {
    with(pod(name, app), owners(app, uid))
}

/// The part of an object that makes a ReplicaSet its controller.
pub fn owners(name: &str, uid: &Uid) -> Value {
    json!({"metadata": {"ownerReferences": [{
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": name,
        "uid": uid.to_string(),
        "controller": true,
        "blockOwnerDeletion": true,
    }]}})
}
