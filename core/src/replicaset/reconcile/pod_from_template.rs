//! The pod that a controller asks the server to create, built from the owner's template.

use std::sync::Arc;

use podstorm_objects::{
    ObjectMeta, OwnerReference, Pod, PodTemplate, ReplicaSet, is_dns_subdomain,
};

/// The local error for a template without labels. Such a pod is never requested.
pub const NO_LABELS_ERROR: &str = "unable to create pods, no labels";

/// Builds the pod from the owner's template.
pub fn pod_from_template(owner: &ReplicaSet, controller_ref: &Arc<OwnerReference>) -> Pod {
    pod_of(&owner.metadata.name, &owner.spec.template, controller_ref)
}

/// Builds the pod from a template for the owner named `owner`. The pod has the template's labels,
/// annotations, finalizers and spec, a `generateName`, and exactly one owner reference. Other
/// metadata of the template is ignored. Shares the template's data instead of copying it.
pub fn pod_of(owner: &str, template: &PodTemplate, controller_ref: &Arc<OwnerReference>) -> Pod {
    let mut pod = Pod {
        metadata: ObjectMeta {
            generate_name: Some(pod_name_prefix(owner).into()),
            labels: template.metadata.labels.clone(),
            annotations: template.metadata.annotations.clone(),
            finalizers: template.metadata.finalizers.clone(),
            owner_references: std::iter::once(controller_ref.clone()).collect(),
            ..ObjectMeta::default()
        },
        spec: template.spec.clone(),
        node_name: template.node_name.clone(),
        token_volume: template.token_volume,
        ..Pod::default()
    };
    if pod.spec.has_hostname()
        && let Some(hostname) = pod.hostname()
    {
        // The hostname can be set because the template was readable.
        let _ = pod.set_hostname(&hostname);
    }
    pod
}

/// Returns the name prefix of an owner's pods: the owner's name and a dash. Omits the dash if the
/// prefix could not begin a valid pod name. Like upstream, checks the prefix with its last two
/// characters replaced by one `a`.
pub fn pod_name_prefix(parent_name: &str) -> String {
    let mut masked = parent_name.to_owned();
    masked.pop();
    masked.push('a');
    if is_dns_subdomain(&masked) {
        format!("{parent_name}-")
    } else {
        parent_name.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use podstorm_objects::{Kind, Object, Resource};

    #[test]
    fn a_pod_has_the_volumes_of_its_template() {
        let spec = json!({"volumes": [{"name": "kube-api-access-aaaaa"}], "containers": [
            {"name": "c", "volumeMounts": [{"name": "kube-api-access-aaaaa"}]}]});
        let owner = ReplicaSet::from_json(json!({"metadata": {"name": "web"},
            "spec": {"template": {"spec": spec}}}))
        .unwrap();
        let controller_ref = Kind::REPLICA_SET.controller_reference(&owner.metadata);
        let pod = pod_from_template(&owner, &Arc::new(controller_ref));
        assert!(Arc::ptr_eq(&pod.spec, &owner.spec.template.spec));
        assert_eq!(pod.to_json()["spec"], spec);
    }

    #[test]
    fn the_prefix_has_a_dash_if_it_can_begin_a_pod_name() {
        assert_eq!(pod_name_prefix("web"), "web-");
        assert_eq!(pod_name_prefix("Web"), "Web");
        assert_eq!(pod_name_prefix(&"x".repeat(253)).len(), 254);
        assert_eq!(pod_name_prefix(&"x".repeat(254)).len(), 254);
    }
}
