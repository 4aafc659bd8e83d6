//! Cases of the Deployment controller, and of kubectl's rollout commands.

pub(super) mod annotations;
pub(super) mod fenceposts;
pub(super) mod find_new_rs;
pub(super) mod handlers;
mod harness;
pub(super) mod kubectl_history_undo;
pub(super) mod kubectl_rollout_status;
pub(super) mod new_rs_replicas;
pub(super) mod pod_template_hash;
pub(super) mod proportions;
pub(super) mod rollouts;
pub(super) mod sync;
pub(super) mod template_equal;

use podstorm::object::{Deployment, PodTemplate, Resource};
use podstorm::template::TemplateForm;
use serde_json::Value;

/// Decodes a Deployment.
fn deployment(value: Value) -> Result<Deployment, String> {
    Deployment::from_json(value).map_err(|error| format!("deployment: {error}"))
}

/// Decodes a pod template. Also returns its form.
fn template(value: Value) -> Result<(PodTemplate, TemplateForm), String> {
    let template = PodTemplate::from_json(value).map_err(|error| format!("template: {error}"))?;
    let form = TemplateForm::from_template(&template);
    Ok((template, form))
}
