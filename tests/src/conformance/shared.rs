//! Code shared by the cases of handlers and of whole syncs: decoding of objects, draining of the
//! queue, and read-your-writes records.

use std::sync::Arc;

use podstorm::client::{Answer, Request};
use podstorm::driver::Transport;
use podstorm::intern::KeyId;
use podstorm::object::{Kind, Now, Pod, ReplicaSet, ReplicationController, Resource};
use podstorm::replicaset::Controller;
use podstorm::workqueue::Take;
use serde_json::{Value, json};

/// The requests that wait for answers.
#[derive(Default)]
pub(super) struct Flight(pub(super) Vec<(usize, Request)>);

impl Transport for Flight {
    fn send(&mut self, index: usize, request: &Request, _: Now) -> Option<Answer> {
        self.0.push((index, request.clone()));
        None
    }
}

/// Returns the kind of the workloads in a case.
pub(super) fn workload_kind(text: &str) -> Result<Kind, String> {
    match text {
        "ReplicaSet" => Ok(Kind::REPLICA_SET),
        "ReplicationController" => Ok(Kind::REPLICATION_CONTROLLER),
        other => Err(format!("unknown kind {other:?}")),
    }
}

/// Decodes a pod.
pub(super) fn pod(value: Value) -> Result<Arc<Pod>, String> {
    Pod::from_json(value)
        .map(Arc::new)
        .map_err(|error| format!("pod: {error}"))
}

/// Decodes a workload and converts it to the controller's form.
pub(super) fn workload(kind: Kind, value: Value) -> Result<Arc<ReplicaSet>, String> {
    let workload = if kind == Kind::REPLICATION_CONTROLLER {
        ReplicationController::from_json(value).map(|rc| rc.to_replica_set())
    } else {
        ReplicaSet::from_json(value)
    };
    workload
        .map(Arc::new)
        .map_err(|error| format!("parent: {error}"))
}

/// Drains the waiting keys of the queue, in order.
pub(super) fn drain(controller: &Controller, now_ns: i64) -> Vec<String> {
    let mut keys = Vec::new();
    while let Take::Key(key) = controller.queue().try_take(now_ns) {
        controller.queue().done(key, now_ns);
        keys.push(controller.owners().name(key).to_string());
    }
    keys
}

/// Drains the keys that are due later, in the order of their delays.
pub(super) fn drain_delayed(controller: &Controller, now_ns: i64) -> Vec<Value> {
    let mut delayed = Vec::new();
    while let Some(due_ns) = controller.queue().next_due() {
        controller.queue().fire_due(due_ns);
        let keys = drain(controller, due_ns).into_iter();
        delayed.extend(keys.map(|key| json!({"key": key, "nanos": due_ns - now_ns})));
    }
    delayed
}

/// Returns the key of an owner. Recordings write it with a slash, even if the namespace is empty.
pub(super) fn owner_key(controller: &Controller, owner: &str) -> KeyId {
    let (namespace, name) = owner.split_once('/').unwrap_or(("", owner));
    controller.owners().intern(namespace, name)
}

/// Returns the stored expectations of a key, in the form of the cases. Expected deletions in the
/// namespace of the key have only a name.
pub(super) fn expectations_of(controller: &Controller, key: &str, now_ns: i64) -> Value {
    let Ok((namespace, name)) = podstorm::replicaset::parse_key(key) else {
        return json!(
            {"exists": false, "add": 0, "del": 0, "keys": null, "satisfied": true}
        );
    };
    let id = controller.owners().intern(namespace, name);
    let counts = controller.expectations().counts(id);
    let keys = controller
        .expectations()
        .pending_deletions(id)
        .map(|names| {
            let mut keys: Vec<String> = names
                .iter()
                .map(|name| match name.contains('/') {
                    true => name.to_string(),
                    false => format!("{namespace}/{name}"),
                })
                .collect();
            keys.sort();
            keys
        });
    json!({
        "exists": counts.is_some(),
        "add": counts.map_or(0, |counts| counts.add),
        "del": counts.map_or(0, |counts| counts.del),
        "keys": keys,
        "satisfied": controller.expectations().satisfied(id, now_ns),
    })
}

/// Converts a recorded `namespace/name` to the name that an expected deletion has.
pub(super) fn waited_name(workload_namespace: &str, key: &str) -> String {
    match key.split_once('/') {
        Some((namespace, name)) if namespace == workload_namespace => name.to_owned(),
        _ => key.to_owned(),
    }
}
