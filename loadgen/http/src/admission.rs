//! Admission of new objects: the defaults of upstream's admission plugins, filled in before the
//! objects are stored. Pods get what the cluster defines, and nodes the not-ready taint
//! (TaintNodesByCondition). Admission of updated pods happens in the cluster, which has the old
//! pod. Also how long a new pod waits for the service account of its namespace.

use std::time::Duration;

use podstorm_apiserver::{Annotations, Cluster, NewPod, Plugin, add_by_key};
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value, json};

use crate::ownership::{PathElement, entry, member};

/// The interval between lookups of a missing service account.
pub(crate) const ACCOUNT_EVERY: Duration = Duration::from_millis(10);

/// The maximum number of lookups. 135 intervals of 10 ms are as long as upstream's ten tries at
/// intervals of 100 to 200 ms.
pub(crate) const ACCOUNT_LOOKS: u32 = 135;

/// Marks an answer that a retry may change: the namespace has no service account yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AwaitsAccount;

/// Admits a new object: fills in missing members of its document. Returns the paths of the added
/// fields as `managedFields` write them; no field manager owns these fields.
///
/// # Errors
/// 403 for a pod whose priority class or service account does not exist.
pub(crate) fn admit(
    cluster: &Cluster,
    kind: Kind,
    namespace: &str,
    document: &mut Map<String, Value>,
) -> Result<Vec<Vec<String>>, ApiError> {
    if kind == Kind::POD {
        // If the name is still to be generated, use its prefix.
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

/// The lists to which admission adds entries, each with the member that identifies an entry.
const LISTS: [(&str, &str); 4] = [
    ("containers", "name"),
    ("initContainers", "name"),
    ("volumeMounts", "mountPath"),
    ("volumes", "name"),
];

/// Returns the part of a spec to compare before and after admission: all of it if admission may add
/// entries to lists, otherwise only the names of the members.
fn compared(cluster: &Cluster, spec: &Spec) -> Spec {
    match cluster.has_plugin(Plugin::ServiceAccount) {
        true => spec.clone(),
        false => spec
            .keys()
            .map(|name| (name.clone(), Value::Null))
            .collect(),
    }
}

/// Returns the fields that `after` has and `before` lacks.
fn added(cluster: &Cluster, before: &Spec, after: &Spec) -> Vec<Vec<PathElement>> {
    let mut found = Vec::new();
    let mut path = vec![member("spec")];
    let is_deep = cluster.has_plugin(Plugin::ServiceAccount);
    compare(before, after, &mut path, is_deep, &mut found);
    let account = [member("spec"), member("serviceAccountName")];
    if found.iter().any(|path| **path == account) {
        // Defaulting also sets the deprecated alias.
        found.push(vec![member("spec"), member("serviceAccount")]);
    }
    found
}

type Spec = Map<String, Value>;

fn compare(
    before: &Spec,
    after: &Spec,
    path: &mut Vec<PathElement>,
    is_deep: bool,
    found: &mut Vec<Vec<PathElement>>,
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

/// Adds the entries that only `after` has, and the fields that its other entries gained. Admission
/// appends entries at the end.
fn compare_lists(
    before: &[Value],
    after: &[Value],
    key: &str,
    path: &mut Vec<PathElement>,
    found: &mut Vec<Vec<PathElement>>,
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
    fn added_fields_are_found_in_lists_too() {
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
