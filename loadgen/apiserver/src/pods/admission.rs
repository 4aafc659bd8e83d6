//! What upstream's admission plugins fill into the spec of a new pod.
//!
//! Source: the plugins that kube-apiserver 1.36 has on by default, as far as they concern pods here: Priority,
//! RuntimeClass, DefaultTolerationSeconds.

use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, Pod, PodSpec};
use serde_json::{Map, Value, json};

use crate::{Cluster, errors, kind_named};

/// Keys of the `NoExecute` taints that every new pod tolerates for a while: its node is not ready, or not reachable.
pub const TOLERATED_TAINTS: [&str; 2] = [
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/unreachable",
];

/// Seconds that a pod stays on a node that is not ready or not reachable.
const TOLERATED_SECONDS: i64 = 300;

impl Cluster {
    /// Fills in what is missing in the spec of a new pod: priority, and tolerations of nodes that are not ready
    /// or not reachable.
    ///
    /// # Errors
    /// 403 for a class of priority that does not exist, and for an overhead without a runtime class.
    pub fn admit_pod(&self, name: &str, spec: &mut Map<String, Value>) -> Result<(), ApiError> {
        check_runtime_class(name, spec)?;
        let class = spec.get("priorityClassName").and_then(Value::as_str);
        let (value, policy) = self.priority(name, class.unwrap_or(""))?;
        spec.entry("priority").or_insert(value);
        spec.entry("preemptionPolicy").or_insert(policy);
        for key in TOLERATED_TAINTS {
            let toleration = json!({"key": key, "operator": "Exists", "effect": "NoExecute",
                "tolerationSeconds": TOLERATED_SECONDS});
            add_by_key(spec, "tolerations", toleration);
        }
        Ok(())
    }

    /// The spec of a new pod as admitted, or of a template's pods. It is cached with the template: a PriorityClass
    /// that is deleted and created again with another value is not read again.
    ///
    /// # Errors
    /// Those of [`admit_pod`](Cluster::admit_pod).
    pub fn admitted(&self, template: &Pod) -> Result<Arc<PodSpec>, ApiError> {
        let metadata = &template.metadata;
        let name = match &*metadata.name {
            "" => metadata.generate_name.as_deref().unwrap_or(""),
            name => name,
        };
        let mut members = template.spec.to_map(None);
        self.admit_pod(name, &mut members)?;
        let admitted = template.spec.with_members(members);
        let admitted = admitted.map_err(|error| errors::bad_request(error.to_string()))?;
        Ok(Arc::new(admitted))
    }

    /// The priority of a class, and whether its pods preempt others.
    ///
    /// # Errors
    /// 403 where there is no class of that name.
    fn priority(&self, pod: &str, class: &str) -> Result<(Value, Value), ApiError> {
        const POLICY: &str = "PreemptLowerPriority";
        match class {
            "" => return Ok((0.into(), POLICY.into())),
            "system-cluster-critical" => return Ok((2_000_000_000.into(), POLICY.into())),
            "system-node-critical" => return Ok((2_000_001_000.into(), POLICY.into())),
            _ => {}
        }
        let kind = kind_named("PriorityClass").ok_or_else(errors::unknown_resource)?;
        let Ok(found) = self.api(kind).get("", class) else {
            let why = format!("no PriorityClass with name {class} was found");
            return Err(errors::forbidden(Kind::POD, pod, &why));
        };
        let found = found.to_json();
        Ok((found["value"].clone(), found["preemptionPolicy"].clone()))
    }
}

/// # Errors
/// 403 for a pod with an overhead, which runtime classes alone give. Which classes there are is not known
/// here, so a pod of any is let through.
fn check_runtime_class(pod: &str, spec: &Map<String, Value>) -> Result<(), ApiError> {
    let overhead = spec.get("overhead").and_then(Value::as_object);
    let has_class = spec.get("runtimeClassName").is_some_and(Value::is_string);
    if has_class || overhead.is_none_or(Map::is_empty) {
        return Ok(());
    }
    let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
    Err(errors::forbidden(Kind::POD, pod, why))
}

/// Adds an entry to a list, which may be absent or null, unless it has one of that `key`.
pub fn add_by_key(object: &mut Map<String, Value>, list: &str, entry: Value) {
    let list = object.entry(list).or_insert(Value::Null);
    if list.is_null() {
        *list = json!([]);
    }
    if let Value::Array(entries) = list
        && !entries.iter().any(|present| present["key"] == entry["key"])
    {
        entries.push(entry);
    }
}
