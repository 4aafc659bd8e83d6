//! The objects of a simulation: their names, lookups, and JSON to modify before their creation.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::{DynamicObject, Kind, Map, ObjectMeta, Pod};
use serde_json::{Value, json};

/// The namespace of all objects that schedules name.
pub const NAMESPACE: &str = "sim";

/// The finalizer with which actions keep a pod from being removed.
pub(crate) const STUCK: &str = "podstorm.example/stuck";

/// Returns the name of the node with this index.
pub(crate) fn node_name(number: u32) -> String {
    format!("node-{number}")
}

/// Returns metadata with only a name.
pub fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: name.into(),
        ..ObjectMeta::default()
    }
}

/// Returns a pod with the label `app: <app>`.
pub fn pod(name: &str, app: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": app}},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    })
}

/// Returns the part of an object's JSON that names its controller.
pub fn controlled_by(kind: Kind, name: &str, uid: &str) -> Value {
    json!({"metadata": {"ownerReferences": [{
        "apiVersion": kind.api_version(), "kind": kind.name(), "name": name, "uid": uid,
        "controller": true, "blockOwnerDeletion": true,
    }]}})
}

/// Returns `object` with `change` merged into it, like a merge patch.
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
    let members = target.as_object_mut().expect("the value is a JSON object");
    for (name, value) in change {
        match value {
            Value::Null => drop(members.remove(&name)),
            value => merge(members.entry(name).or_insert(Value::Null), value),
        }
    }
}

/// Returns the patch that changes an annotation of an object to this count.
pub(crate) fn touched(count: u64) -> Value {
    let touched = json!({"podstorm.example/touched": count.to_string()});
    json!({"metadata": {"annotations": touched}})
}

/// Returns every object of a kind without its own type, in name order.
pub(crate) fn listed(cluster: &Cluster, kind: Kind) -> Vec<Arc<DynamicObject>> {
    let page = cluster.api(kind).list(&Default::default());
    let items = page.expect("every cluster serves the kind").items;
    let items = items.into_iter();
    items
        .filter_map(|it| it.downcast::<DynamicObject>())
        .collect()
}

/// Returns the pods that the named object owns, in name order.
pub(crate) fn pods_of(cluster: &Cluster, kind: Kind, name: &str) -> Vec<Arc<Pod>> {
    let (mut pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
    pods.retain(|pod| {
        let owner = pod.metadata.controller();
        owner.is_some_and(|owner| *owner.kind == *kind.name() && *owner.name == *name)
    });
    pods
}

/// Returns the pod with this index among those that the named object owns; the index wraps around.
pub(crate) fn nth_pod(cluster: &Cluster, kind: Kind, name: &str, nth: u32) -> Option<Arc<Pod>> {
    let pods = pods_of(cluster, kind, name);
    pods.get(nth as usize % pods.len().max(1)).cloned()
}

/// Returns the members of a patch.
///
/// # Panics
/// Panics if the patch is not a JSON object.
pub(crate) fn members(patch: Value) -> Map {
    match patch {
        Value::Object(members) => members,
        other => panic!("expected a JSON object as patch, not {other}"),
    }
}
