//! What a scenario's groups and pod template come to.

use std::sync::Arc;

use podstorm_apiserver::defaulting::default_template;
use podstorm_objects::{Map, PodTemplate, ReplicaSet, Resource};
use serde_json::json;

use super::definition::Group;

/// Per group of a scenario, how many ReplicaSets there are, and pods of each, at that number of pods in all:
/// rounded, and at least one of each group.
pub fn group_sizes(groups: &[Group], pods: u64) -> Vec<(u64, i32)> {
    let sizes = groups.iter().map(|group| {
        let each = group.pods_per_replica_set.0.max(1);
        let sets = (group.share.of(pods) + each / 2) / each;
        (sets.max(1), i32::try_from(each).unwrap_or(i32::MAX))
    });
    sizes.collect()
}

/// A scenario's pod template as the API server would complete it.
///
/// # Errors
/// What is wrong with it, by field.
pub(crate) fn pod_template(template: &Map) -> Result<Arc<PodTemplate>, String> {
    let object = json!({
        "metadata": {"name": "template"},
        "spec": {"selector": {}, "template": template},
    });
    let decoded = ReplicaSet::from_json(object).map_err(|error| {
        let text = error.to_string();
        text.replacen("spec.template", "podTemplate", 1)
    })?;
    let mut template = decoded.spec.template;
    default_template(&mut template);
    if template.spec.containers.is_empty() {
        return Err("podTemplate.spec.containers: a pod has at least one container".to_owned());
    }
    Ok(template)
}
