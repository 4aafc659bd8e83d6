//! What upstream's admission plugins fill into new objects before they are stored: into pods what the cluster
//! says, and the taint of new nodes (TaintNodesByCondition). What they do when a pod changes is the cluster's, which
//! has the old one at hand. And how long a new pod waits for the account of its namespace.

use std::time::Duration;

use podstorm_apiserver::{Annotations, Cluster, NewPod, Plugin, add_by_key};
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value, json};

/// From one look for an account that is missing to the next.
pub(crate) const ACCOUNT_EVERY: Duration = Duration::from_millis(10);

/// How often one is looked for: upstream's ten times with 100 to 200 ms between, together as long.
pub(crate) const ACCOUNT_LOOKS: u32 = 135;

/// Marks an answer that may be another one in a moment: the account of the namespace is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AwaitsAccount;

/// Fills in what is missing in the document of a new object in that namespace; returns the fields that it added,
/// which no field manager owns, by their paths as `managedFields` write them.
///
/// # Errors
/// 403 for a pod of a class of priority or an account that does not exist.
pub(crate) fn admit(
    cluster: &Cluster,
    (kind, namespace): (Kind, &str),
    document: &mut Map<String, Value>,
) -> Result<Vec<Vec<String>>, ApiError> {
    if kind == Kind::POD {
        // No name is drawn yet.
        let metadata = document.get("metadata");
        let named = |member: &str| {
            let name = metadata?.get(member)?.as_str()?;
            (!name.is_empty()).then(|| name.to_owned())
        };
        let name = named("name").or_else(|| named("generateName"));
        let name = name.unwrap_or_default();
        let annotations = metadata.and_then(|it| it.get("annotations")?.as_object());
        let annotations = annotations.cloned();
        if let Some(Value::Object(spec)) = document.get_mut("spec") {
            let before = compared(cluster, spec);
            let pod = NewPod {
                namespace,
                name: &name,
                annotations: Annotations::Document(annotations.as_ref()),
            };
            cluster.admit_pod(&pod, spec)?;
            return Ok(added(cluster, &before, spec));
        }
    } else if kind == Kind::NODE {
        let spec = document.entry("spec").or_insert_with(|| json!({}));
        if let Value::Object(spec) = spec {
            let before = compared(cluster, spec);
            let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            add_by_key(spec, "taints", taint);
            return Ok(added(cluster, &before, spec));
        }
    }
    Ok(Vec::new())
}

/// The lists to which admission adds entries, with their keys.
const LISTS: [(&str, &str); 4] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// What is compared of a spec as it was sent: its members, and what is in them only where admission may add
/// entries to their lists.
fn compared(cluster: &Cluster, spec: &Spec) -> Spec {
    match cluster.has_plugin(Plugin::ServiceAccount) {
        true => spec.clone(),
        false => spec
            .keys()
            .map(|name| (name.clone(), Value::Null))
            .collect(),
    }
}

/// The fields that a spec has and had not before.
fn added(cluster: &Cluster, before: &Spec, after: &Spec) -> Vec<Vec<Step>> {
    let mut found = Vec::new();
    let mut path = vec![member("spec")];
    let is_deep = cluster.has_plugin(Plugin::ServiceAccount);
    compare(before, after, &mut path, is_deep, &mut found);
    let account = [member("spec"), member("serviceAccountName")];
    if found.iter().any(|path| **path == account) {
        // Its older name, which defaults give it.
        found.push(vec![member("spec"), member("serviceAccount")]);
    }
    found
}

type Spec = Map<String, Value>;

/// A step of the path to a field, as `managedFields` write it.
type Step = String;

fn member(name: &str) -> Step {
    format!("f:{name}")
}

fn entry(keys: Map<String, Value>) -> Step {
    format!("k:{}", Value::Object(keys))
}

fn compare(
    before: &Spec,
    after: &Spec,
    path: &mut Vec<Step>,
    is_deep: bool,
    found: &mut Vec<Vec<Step>>,
) {
    for (name, new) in after {
        path.push(member(name));
        match before.get(name) {
            None => found.push(path.clone()),
            Some(old) if is_deep => {
                let key = LISTS.iter().find(|(list, _)| list == name);
                if let (Some((_, key)), Value::Array(old), Value::Array(new)) = (key, old, new) {
                    compare_lists(old, new, key, path, found);
                }
            }
            Some(_) => {}
        }
        path.pop();
    }
}

/// Compares lists of which the newer one may have more entries at its end.
fn compare_lists(
    before: &[Value],
    after: &[Value],
    key: &str,
    path: &mut Vec<Step>,
    found: &mut Vec<Vec<Step>>,
) {
    for (at, new) in after.iter().enumerate() {
        let mut keys = Map::new();
        keys.insert(key.to_owned(), new[key].clone());
        path.push(entry(keys));
        match (before.get(at), new) {
            (None, _) => found.push(path.clone()),
            (Some(Value::Object(old)), Value::Object(new)) => compare(old, new, path, true, found),
            _ => {}
        }
        path.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_in_lists_too() {
        let before = json!({"hostname": "h", "volumes": [{"name": "data"}],
            "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"mountPath": "/data"}]}]});
        let mut after = before.clone();
        let (volume, mount) = (json!({"name": "token"}), json!({"mountPath": "/token"}));
        after["volumes"].as_array_mut().unwrap().push(volume);
        after["containers"][0]["volumeMounts"] = json!([mount]);
        let mounts = &mut after["containers"][1]["volumeMounts"];
        mounts.as_array_mut().unwrap().push(mount);
        after["priority"] = 0.into();
        let (Value::Object(before), Value::Object(after)) = (before, after) else {
            panic!("both are objects");
        };
        let mut found = Vec::new();
        compare(&before, &after, &mut vec![member("spec")], true, &mut found);
        let found: Vec<String> = found.iter().map(|path| path.join(" ")).collect();
        let expected = [
            r#"f:spec f:containers k:{"name":"a"} f:volumeMounts"#,
            r#"f:spec f:containers k:{"name":"b"} f:volumeMounts k:{"mountPath":"/token"}"#,
            "f:spec f:priority",
            r#"f:spec f:volumes k:{"name":"token"}"#,
        ];
        assert_eq!(found, expected);
    }
}
