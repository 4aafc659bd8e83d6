//! The sizes of a scenario's groups, and its pod template with defaults.

use std::sync::Arc;

use podstorm_apiserver::defaulting::default_template;
use podstorm_objects::{Map, PodTemplate};
use serde_json::Value;

use super::definition::Group;

/// Returns, for each group, the number of ReplicaSets and the number of pods in each, for a cluster
/// with `pods` pods in total. The numbers are rounded; every group has at least one ReplicaSet.
pub fn group_sizes(groups: &[Group], pods: u64) -> Vec<(u64, i32)> {
    let sizes = groups.iter().map(|group| {
        let each = group.pods_each.0.max(1);
        let sets = (group.share.share(pods) + each / 2) / each;
        (sets.max(1), i32::try_from(each).unwrap_or(i32::MAX))
    });
    sizes.collect()
}

/// Returns a scenario's pod template with the API server's defaults.
///
/// # Errors
/// The invalid field, and the reason.
pub(crate) fn pod_template(template: &Map) -> Result<Arc<PodTemplate>, String> {
    let decoded = PodTemplate::from_json(Value::Object(template.clone()));
    let template = decoded.map_err(|error| format!("podTemplate.{error}"))?;
    let mut template = Arc::new(template);
    default_template(&mut template);
    if template.spec.containers.is_empty() {
        return Err("podTemplate.spec.containers: a pod needs at least one container".to_owned());
    }
    Ok(template)
}
