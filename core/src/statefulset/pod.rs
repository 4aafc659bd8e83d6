//! The pods and claims of a StatefulSet, as the controller creates and updates them.

use std::sync::Arc;

use podstorm_objects::{DynamicObject, Labels, Map, ObjectMeta, OwnerReference, Pod, PodTemplate};
use serde_json::{Value, json};

use super::identity::{
    POD_INDEX_LABEL, POD_NAME_LABEL, REVISION_LABEL, claim_name, ordinal_of, pod_name,
};
use super::spec::{ClaimTemplate, SetSpec};
use crate::replicaset::reconcile::pod_of;

/// A StatefulSet in the form that one of its revisions restores.
#[derive(Clone, Debug)]
pub struct Form {
    /// The spec of the set.
    pub spec: SetSpec,
    /// The pod from the template, without what differs between pods.
    pod: Pod,
}

impl Form {
    /// Creates the form of a set with the spec `spec`. O(bytes).
    ///
    /// # Errors
    /// Fails if the template can't be read.
    pub fn new(
        set: &ObjectMeta,
        controller_ref: &Arc<OwnerReference>,
        spec: &Map,
    ) -> Result<Form, String> {
        let read = SetSpec::read(spec);
        let mut template = spec.get("template").cloned().unwrap_or_default();
        if let Some(members) = template.get_mut("spec").and_then(Value::as_object_mut) {
            members.remove("hostname");
            match &*read.service {
                "" => drop(members.remove("subdomain")),
                service => drop(members.insert("subdomain".to_owned(), service.into())),
            }
        }
        let template = PodTemplate::from_json(template);
        let template = template.map_err(|error| format!("spec.template: {error}"))?;
        Ok(Form {
            pod: pod_of(&set.name, &template, controller_ref),
            spec: read,
        })
    }

    /// Builds the pod with this ordinal. `revision` is the name of the form's revision.
    ///
    /// # Errors
    /// Fails if the spec can't be read.
    pub fn pod(&self, set: &ObjectMeta, ordinal: i64, revision: &str) -> Result<Pod, String> {
        let mut pod = self.pod.clone();
        set_identity(&mut pod.metadata, set, ordinal);
        let labels = &mut pod.metadata.labels;
        *labels = labels.with(REVISION_LABEL, revision);
        set_storage(&mut pod, set, &self.spec)?;
        let name = pod.metadata.name.clone();
        pod.set_hostname(&name).map_err(|error| error.to_string())?;
        Ok(pod)
    }
}

/// Sets the name, namespace and labels of a pod to those for an ordinal.
pub(super) fn set_identity(pod: &mut ObjectMeta, set: &ObjectMeta, ordinal: i64) {
    let name = pod_name(&set.name, ordinal);
    let labels = pod.labels.with(POD_NAME_LABEL, &name);
    pod.labels = labels.with(POD_INDEX_LABEL, &ordinal.to_string());
    pod.name = name.into();
    pod.namespace = set.namespace.clone();
}

/// Adds the volumes for a pod's claims before its other volumes. Replaces volumes with the same
/// names.
///
/// # Errors
/// Fails if the spec can't be read.
pub(super) fn set_storage(pod: &mut Pod, set: &ObjectMeta, spec: &SetSpec) -> Result<(), String> {
    if spec.claim_templates.is_empty() {
        return Ok(());
    }
    let ordinal = ordinal_of(&pod.metadata);
    let mut members = pod.spec.to_map(None);
    let claims = spec.claim_templates.iter().map(|template| {
        let claim = claim_name(template.name(), &set.name, ordinal);
        json!({"name": template.name(), "persistentVolumeClaim": {"claimName": claim}})
    });
    let mut volumes: Vec<Value> = claims.collect();
    if let Some(Value::Array(others)) = members.remove("volumes") {
        let is_replaced = |it: &Value| {
            spec.claim_templates
                .iter()
                .any(|of| it["name"] == *of.name())
        };
        volumes.extend(others.into_iter().filter(|it| !is_replaced(it)));
    }
    members.insert("volumes".to_owned(), volumes.into());
    let changed = pod.spec.with_members(members);
    pod.spec = Arc::new(changed.map_err(|error| error.to_string())?);
    Ok(())
}

impl ClaimTemplate {
    /// Builds the claim from this template for the pod with this ordinal.
    pub fn claim(&self, set: &ObjectMeta, ordinal: i64, match_labels: &Labels) -> DynamicObject {
        let mut claim = self.0.clone();
        let meta = &mut claim.metadata;
        meta.name = claim_name(&meta.name, &set.name, ordinal).into();
        meta.namespace = set.namespace.clone();
        for (key, value) in match_labels.pairs() {
            meta.labels = meta.labels.with(key, value);
        }
        claim
    }
}
