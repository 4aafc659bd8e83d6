//! Cases of `deployment_proportions`: the new sizes of the ReplicaSets when a Deployment is scaled.

use std::sync::Arc;

use podstorm::deployment::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};
use podstorm::deployment::find_new::by_creation;
use podstorm::deployment::{ScaleMode, scale_plan};
use podstorm::object::{Map, ReplicaSet};
use serde_json::{Value, json};

use crate::conformance::{Fields, expect_eq};

/// Runs one case.
pub(in crate::conformance) fn run(case: &mut Fields) -> Result<(), String> {
    let deployment = super::deployment(json!({
        "spec": {"replicas": case.value("replicas"), "strategy": {"type": "RollingUpdate",
            "rollingUpdate": {"maxSurge": case.value("maxSurge"),
                "maxUnavailable": case.value("maxUnavailable")}}},
        "status": {"replicas": case.value("statusReplicas")},
    }))?;
    let mut new = None;
    let mut old = Vec::new();
    case.each("replicaSets", |given| {
        let is_new = given.flag("new")?;
        let set = Arc::new(replica_set(given)?);
        match is_new {
            true => new = Some(set),
            false => old.push(set),
        }
        Ok(())
    })?;
    old.sort_by(|a, b| by_creation(a, b));
    let plan = scale_plan(&deployment, new.as_ref(), &old);

    let mut recorded = case.object("out")?;
    let mode = match plan.mode {
        ScaleMode::Single => "single",
        ScaleMode::Saturated => "saturated",
        ScaleMode::Proportional => "proportional",
        ScaleMode::Nothing => "nothing",
    };
    let sizes = old.iter().chain(&new).map(|set| {
        let planned = plan.sizes.iter().find(|(other, _)| Arc::ptr_eq(other, set));
        let size = planned.map_or(set.replicas(), |(_, size)| *size);
        (set.metadata.name.to_string(), Value::from(size))
    });
    // Writes that change only annotations don't change the size. The cases of whole syncs cover
    // them.
    let mut changes = recorded.list("writes")?;
    changes.retain(|write| write["annotationsOnly"] != true);
    let writes = plan.sizes.iter();
    let writes = writes.filter(|(set, size)| set.replicas() != *size);
    let writes: Vec<Value> = writes
        .map(|(set, size)| {
            let name = set.metadata.name.as_str();
            json!({"name": name, "replicas": size, "annotationsOnly": false})
        })
        .collect();
    expect_eq("writes", &writes, &changes)?;
    // Ignore intermediate values, which determine the sizes and writes.
    for member in ["replicasToAdd", "firstProportion"] {
        recorded.value(member);
    }
    recorded.is(json!({"mode": mode, "sizes": sizes.collect::<Map>()}))
}

fn replica_set(given: &mut Fields) -> Result<ReplicaSet, String> {
    let mut annotations = Map::new();
    for (member, annotation) in [("desired", DESIRED_REPLICAS), ("max", MAX_REPLICAS)] {
        if let Some(text) = given.take(member) {
            annotations.insert(annotation.to_owned(), text);
        }
    }
    super::sync::replica_set(json!({
        "metadata": {"name": given.value("name"), "annotations": annotations,
            "creationTimestamp": given.value("creationTimestamp")},
        "spec": {"replicas": given.int("replicas")?},
        "status": {"availableReplicas": given.int("availableReplicas")?},
    }))
}
