//! What upstream's admission plugins fill into new objects before they are stored: into pods what the cluster
//! says, and the taint of new nodes (TaintNodesByCondition). What they do when a pod changes is the cluster's, which
//! has the old one at hand.

use std::collections::BTreeSet;

use podstorm_apiserver::{Cluster, add_by_key};
use podstorm_objects::{ApiError, Kind};
use serde_json::{Map, Value, json};

/// Fills in what is missing in the document of a new object; returns the members of its spec that it
/// added, which nobody owns.
///
/// # Errors
/// 403 for a pod of a class of priority that does not exist.
pub(crate) fn admit(
    cluster: &Cluster,
    kind: Kind,
    document: &mut Map<String, Value>,
) -> Result<Vec<String>, ApiError> {
    let names = |document: &Map<String, Value>| {
        let spec = document.get("spec").and_then(Value::as_object);
        spec.map(|spec| spec.keys().cloned().collect::<BTreeSet<_>>())
            .unwrap_or_default()
    };
    let before = names(document);
    if kind == Kind::POD {
        // No name is drawn yet.
        let named = |member: &str| {
            let name = document.get("metadata")?.get(member)?.as_str()?;
            (!name.is_empty()).then(|| name.to_owned())
        };
        let name = named("name").or_else(|| named("generateName"));
        let name = name.unwrap_or_default();
        if let Some(Value::Object(spec)) = document.get_mut("spec") {
            cluster.admit_pod(&name, spec)?;
        }
    } else if kind == Kind::NODE {
        let spec = document.entry("spec").or_insert_with(|| json!({}));
        if let Value::Object(spec) = spec {
            let taint = json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"});
            add_by_key(spec, "taints", taint);
        }
    }
    Ok(names(document).difference(&before).cloned().collect())
}
