//! What the cases of handlers and whole syncs share: objects from JSON, effects that are recorded
//! instead of carried out, and comparison of JSON bodies.

use std::cell::RefCell;
use std::sync::Arc;

use podstorm::intern::KeyId;
use podstorm::object::{
    Kind, Pod, ReplicaSet, ReplicationController, Resource, ResourceVersion, Uid,
};
use podstorm::replicaset::{Controller, Effects};
use serde_json::Value;

/// The kind of a case's parents.
pub(super) fn parent_kind(text: &str) -> Result<Kind, String> {
    match text {
        "ReplicaSet" => Ok(Kind::REPLICA_SET),
        "ReplicationController" => Ok(Kind::REPLICATION_CONTROLLER),
        other => Err(format!("unknown kind {other:?}")),
    }
}

/// A pod from its JSON.
pub(super) fn pod(value: Value) -> Result<Arc<Pod>, String> {
    Pod::from_json(value)
        .map(Arc::new)
        .map_err(|error| format!("pod: {error}"))
}

/// A parent from the JSON of its kind, as the controller sees it.
pub(super) fn parent(kind: Kind, value: Value) -> Result<Arc<ReplicaSet>, String> {
    let parent = if kind == Kind::REPLICATION_CONTROLLER {
        ReplicationController::from_json(value).map(|rc| rc.to_replica_set())
    } else {
        ReplicaSet::from_json(value)
    };
    parent
        .map(Arc::new)
        .map_err(|error| format!("parent: {error}"))
}

/// Effects as they were asked for, by text.
#[derive(Debug)]
pub(super) struct Recorded<'a> {
    controller: &'a Controller,
    pub(super) added: RefCell<Vec<String>>,
    pub(super) added_after: RefCell<Vec<(String, i64)>>,
    /// Owner, UID, resource, version.
    pub(super) written: RefCell<Vec<[String; 4]>>,
    /// `owner=uid`.
    pub(super) cleared: RefCell<Vec<String>>,
}

impl<'a> Recorded<'a> {
    pub(super) fn new(controller: &'a Controller) -> Recorded<'a> {
        Recorded {
            controller,
            added: RefCell::default(),
            added_after: RefCell::default(),
            written: RefCell::default(),
            cleared: RefCell::default(),
        }
    }

    fn name(&self, key: KeyId) -> String {
        self.controller.parents().name(key).to_string()
    }
}

impl Recorded<'_> {
    /// Records name their owner with a slash even where the namespace is empty.
    fn owner(&self, key: KeyId) -> String {
        let key = self.controller.parents().name(key);
        format!("{}/{}", key.namespace, key.name)
    }
}

impl Effects for Recorded<'_> {
    fn add(&self, key: KeyId) {
        self.added.borrow_mut().push(self.name(key));
    }

    fn add_after(&self, key: KeyId, delay_ns: i64) {
        self.added_after
            .borrow_mut()
            .push((self.name(key), delay_ns));
    }

    fn wrote_at(&self, owner: KeyId, uid: &Uid, resource: usize, version: &ResourceVersion) {
        let resource = ["pods", "replicasets.apps"][resource];
        self.written.borrow_mut().push([
            self.owner(owner),
            uid.to_string(),
            resource.to_owned(),
            version.to_string(),
        ]);
    }

    fn clear_written(&self, owner: KeyId, uid: Option<&Uid>) {
        let uid = uid.map(ToString::to_string).unwrap_or_default();
        self.cleared
            .borrow_mut()
            .push(format!("{}={uid}", self.owner(owner)));
    }
}

/// A value without its null and empty members, which JSON writers treat differently.
pub(super) fn pruned(value: Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| (key, pruned(value)))
                .filter(|(_, value)| !is_empty(value))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.into_iter().map(pruned).collect()),
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Bool(flag) => !flag,
    }
}

/// `Ok` when both bodies are the same but for null and empty members.
pub(super) fn expect_same_json(what: &str, ours: Value, recorded: Value) -> Result<(), String> {
    super::expect_eq(what, &pruned(ours), &pruned(recorded))
}

/// The stored expectations of a key, as the cases write them. Pods of the key's own namespace are
/// waited for by name alone.
pub(super) fn expectations_of(controller: &Controller, key: &str, now_ns: i64) -> Value {
    let Ok((namespace, name)) = podstorm::replicaset::parse_key(key) else {
        return serde_json::json!(
            {"exists": false, "add": 0, "del": 0, "keys": null, "satisfied": true}
        );
    };
    let id = controller.parents().intern(namespace, name);
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
    serde_json::json!({
        "exists": counts.is_some(),
        "add": counts.map_or(0, |counts| counts.add),
        "del": counts.map_or(0, |counts| counts.del),
        "keys": keys,
        "satisfied": controller.expectations().satisfied(id, now_ns),
    })
}

/// The name a deletion is waited for under, from a recorded `namespace/name`.
pub(super) fn waited_name(parent_namespace: &str, key: &str) -> String {
    match key.split_once('/') {
        Some((namespace, name)) if namespace == parent_namespace => name.to_owned(),
        _ => key.to_owned(),
    }
}
