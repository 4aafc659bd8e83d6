//! The state of the samples' cluster as JSON, and the differences between two states.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use podstorm::object::Kind;
use podstorm_apiserver::Cluster;
use serde_json::Value;

use super::config_maps;

/// Returns the objects of the kinds in the samples as JSON, without the status of pods, keyed by
/// kind, namespace and name.
pub fn state(cluster: &Cluster) -> BTreeMap<String, Value> {
    let mut state = BTreeMap::new();
    for kind in [Kind::POD, Kind::NAMESPACE, Kind::DEPLOYMENT, config_maps()] {
        let page = cluster.api(kind).list(&Default::default());
        for object in page.expect("the kind is built in").items {
            let mut json = object.to_json();
            if kind == Kind::POD {
                json["status"].take();
            }
            let meta = object.metadata();
            let key = format!("{} {}/{}", kind.name(), meta.namespace, meta.name);
            state.insert(key, json);
        }
    }
    state
}

/// Returns the differences between two states, sorted: `+` and the key of an added object, `-` and
/// the key of a removed object, or `~` and the key of a changed object, with the path of a member
/// and its new value.
pub fn changes(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<String> {
    // Skip server-managed metadata, and everything in an owner reference except the name.
    let is_passed_over = |path: &str| {
        ["/metadata/generation", "/metadata/resourceVersion"].contains(&path)
            || path.starts_with("/metadata/managedFields")
            || path.starts_with("/metadata/ownerReferences") && !path.ends_with("name")
    };
    let mut changes = Vec::new();
    for (key, old) in before {
        let Some(new) = after.get(key) else {
            changes.push(format!("-{key}"));
            continue;
        };
        let (old, new) = (leaves(old), leaves(new));
        for path in old
            .keys()
            .chain(new.keys().filter(|path| !old.contains_key(*path)))
        {
            if old.get(path) == new.get(path) || is_passed_over(path) {
                continue;
            }
            let mut change = format!("~{key} {path}");
            match new.get(path) {
                Some(value) => write!(change, "={value}"),
                None => write!(change, " removed"),
            }
            .expect("writing to a string does not fail");
            changes.push(change);
        }
    }
    let is_new = |key: &&String| !before.contains_key(*key);
    changes.extend(after.keys().filter(is_new).map(|key| format!("+{key}")));
    changes.sort();
    changes
}

/// Returns the leaves of a document, keyed by path.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    fn walk(value: &Value, path: String, out: &mut BTreeMap<String, Value>) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    walk(value, format!("{path}/{name}"), out);
                }
            }
            Value::Array(items) => {
                for (at, value) in items.iter().enumerate() {
                    walk(value, format!("{path}/{at}"), out);
                }
            }
            leaf => drop(out.insert(path, leaf.clone())),
        }
    }
    let mut out = BTreeMap::new();
    walk(value, String::new(), &mut out);
    out
}
