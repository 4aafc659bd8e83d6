//! The rules of ReplicaSets and ReplicationControllers.

use podstorm_objects::decode::Path;
use podstorm_objects::{
    Cause, LabelSelector, Labels, PodTemplate, ReplicaSet, ReplicaSetSpec, ReplicaSetStatus,
    ReplicationController, Selector,
};
use serde_json::Value;

use super::metadata::{self, check_annotations, check_labels, check_pod_annotations};
use super::{Causes, IMMUTABLE, container, names, pod_spec, selector};

/// What a new ReplicaSet breaks.
pub fn validate_replica_set(replica_set: &ReplicaSet) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(&replica_set.metadata, &mut causes);
    check_replica_set_spec(&replica_set.spec, PodSpecCheck::Full, &mut causes);
    causes.0
}

/// What a new ReplicaSet breaks whose template's spec, on whatever node, has been judged with another
/// template and breaks no rule.
pub fn validate_replica_set_except_pod_spec(replica_set: &ReplicaSet) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(&replica_set.metadata, &mut causes);
    check_replica_set_spec(&replica_set.spec, PodSpecCheck::Skip, &mut causes);
    causes.0
}

/// Whether the spec of a template is to be judged.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodSpecCheck {
    Full,
    Skip,
}

/// What a changed ReplicaSet breaks. A spec whose template is the stored one is not walked again.
pub fn validate_replica_set_update(new: &ReplicaSet, old: &ReplicaSet) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(&new.metadata, &mut causes);
    if new.spec != old.spec {
        check_replica_set_spec(&new.spec, PodSpecCheck::Full, &mut causes);
    }
    if new.spec.selector != old.spec.selector {
        let spec = Path::ROOT.member("spec");
        let value = new
            .spec
            .selector
            .as_ref()
            .map_or(Value::Null, |it| it.to_json());
        causes.invalid(&spec.member("selector"), value, IMMUTABLE);
    }
    causes.0
}

/// What a ReplicaSet with a changed status (and metadata) breaks.
pub fn validate_replica_set_status(new: &ReplicaSet) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(&new.metadata, &mut causes);
    check_status(&new.status, &mut causes);
    causes.0
}

/// What a changed status breaks, whatever it belongs to.
pub fn validate_status(new: &ReplicaSetStatus) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_status(new, &mut causes);
    causes.0
}

/// What a new ReplicationController breaks.
pub fn validate_replication_controller(controller: &ReplicationController) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(&controller.metadata, &mut causes);
    check_controller_spec(controller, &mut causes);
    causes.0
}

/// What a changed ReplicationController breaks. Its selector may change.
pub fn validate_replication_controller_update(
    new: &ReplicationController,
    _old: &ReplicationController,
) -> Vec<Cause> {
    validate_replication_controller(new)
}

/// What a ReplicationController with a changed status (and metadata) breaks.
pub fn validate_replication_controller_status(new: &ReplicationController) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(&new.metadata, &mut causes);
    check_status(&new.status, &mut causes);
    causes.0
}

/// What a number of replicas asked for through `/scale` breaks.
pub fn validate_replicas(replicas: i32) -> Vec<Cause> {
    let mut causes = Causes::default();
    let spec = Path::ROOT.member("spec");
    causes.not_negative(&spec.member("replicas"), replicas.into());
    causes.0
}

fn check_meta(meta: &podstorm_objects::ObjectMeta, causes: &mut Causes) {
    metadata::check(
        meta,
        true,
        names::dns_subdomain,
        &Path::ROOT.member("metadata"),
        causes,
    );
}

fn check_replica_set_spec(spec: &ReplicaSetSpec, of_pods: PodSpecCheck, causes: &mut Causes) {
    let path = Path::ROOT.member("spec");
    check_counts(spec.replicas, spec.min_ready_seconds, &path, causes);
    let selector_path = path.member("selector");
    let before = causes.0.len();
    let compiled = match spec.selector.as_deref() {
        None => {
            causes.required(&selector_path, "");
            None
        }
        Some(written) if is_empty(written) => {
            causes.invalid(&selector_path, written.to_json(), "must not be empty");
            None
        }
        Some(written) => {
            selector::check(written, &selector_path, causes);
            let compiled = Selector::compile(Some(written));
            if let Err(problem) = &compiled
                && causes.0.len() == before
            {
                causes.invalid(&selector_path, written.to_json(), problem.to_string());
            }
            compiled.ok()
        }
    };
    let template_path = path.member("template");
    check_template(&spec.template, compiled.as_ref(), &template_path, causes);
    check_pod_spec(&spec.template, of_pods, &template_path, causes);
}

fn is_empty(selector: &LabelSelector) -> bool {
    selector.match_labels.is_empty() && selector.match_expressions.is_empty()
}

fn check_controller_spec(controller: &ReplicationController, causes: &mut Causes) {
    let path = Path::ROOT.member("spec");
    check_counts(
        controller.replicas,
        controller.min_ready_seconds,
        &path,
        causes,
    );
    let selector =
        (!controller.selector.is_empty()).then(|| Selector::of_pairs(&controller.selector));
    if selector.is_none() {
        causes.required(&path.member("selector"), "");
    }
    let template_path = path.member("template");
    match &controller.template {
        None => causes.required(&template_path, ""),
        Some(template) => {
            check_template(template, selector.as_ref(), &template_path, causes);
            check_pod_spec(template, PodSpecCheck::Full, &template_path, causes);
        }
    }
}

fn check_counts(replicas: Option<i32>, min_ready: i32, path: &Path<'_>, causes: &mut Causes) {
    let replicas_path = path.member("replicas");
    match replicas {
        None => causes.required(&replicas_path, ""),
        Some(replicas) => causes.not_negative(&replicas_path, replicas.into()),
    }
    causes.not_negative(&path.member("minReadySeconds"), min_ready.into());
}

/// Checks the metadata of a controller's template. `selector` is absent where it can't be compared.
fn check_template(
    template: &PodTemplate,
    selector: Option<&Selector>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let meta_path = path.member("metadata");
    let labels_path = meta_path.member("labels");
    let labels: &Labels = &template.metadata.labels;
    if selector.is_some_and(|selector| !selector.matches(labels)) {
        causes.invalid(
            &labels_path,
            labels.to_json(),
            "`selector` does not match template `labels`",
        );
    }
    check_labels(labels, &labels_path, causes);
    let annotations_path = meta_path.member("annotations");
    check_annotations(&template.metadata.annotations, &annotations_path, causes);
    check_pod_annotations(&template.metadata.annotations, &annotations_path, causes);
}

/// Checks the spec of the template of a controller whose pods must always be restarted.
fn check_pod_spec(template: &PodTemplate, is: PodSpecCheck, path: &Path<'_>, causes: &mut Causes) {
    let spec_path = path.member("spec");
    if is == PodSpecCheck::Skip {
        pod_spec::check_node_name(template.node_name.as_deref(), &spec_path, causes);
        return;
    }
    template.spec.look(template.token_volume, |spec| {
        pod_spec::check(spec, template.node_name.as_deref(), &spec_path, causes);
        if container::items(spec, "ephemeralContainers")
            .next()
            .is_some()
        {
            let detail = "ephemeral containers not allowed in pod template";
            causes.forbidden(&spec_path.member("ephemeralContainers"), detail);
        }
        // A policy that is none at all has been named already.
        let policy = container::text(spec, "restartPolicy");
        if matches!(policy, "OnFailure" | "Never") {
            causes.not_supported(&spec_path.member("restartPolicy"), policy, &["Always"]);
        }
        if spec.get("activeDeadlineSeconds").is_some() {
            let detail = "activeDeadlineSeconds in ReplicaSet is not Supported";
            causes.forbidden(&spec_path.member("activeDeadlineSeconds"), detail);
        }
    });
}

fn check_status(status: &ReplicaSetStatus, causes: &mut Causes) {
    let path = Path::ROOT.member("status");
    let counts: [(&str, i64); 6] = [
        ("replicas", status.replicas.into()),
        ("fullyLabeledReplicas", status.fully_labeled_replicas.into()),
        ("readyReplicas", status.ready_replicas.into()),
        ("availableReplicas", status.available_replicas.into()),
        ("observedGeneration", status.observed_generation),
        (
            "terminatingReplicas",
            status.terminating_replicas.unwrap_or(0).into(),
        ),
    ];
    for (name, count) in counts {
        causes.not_negative(&path.member(name), count);
    }
    let parts: [(&str, i32, &str, i32); 4] = [
        (
            "fullyLabeledReplicas",
            status.fully_labeled_replicas,
            "replicas",
            status.replicas,
        ),
        (
            "readyReplicas",
            status.ready_replicas,
            "replicas",
            status.replicas,
        ),
        (
            "availableReplicas",
            status.available_replicas,
            "replicas",
            status.replicas,
        ),
        (
            "availableReplicas",
            status.available_replicas,
            "readyReplicas",
            status.ready_replicas,
        ),
    ];
    for (name, part, whole_name, whole) in parts {
        if part > whole {
            let detail = format!("cannot be greater than status.{whole_name}");
            causes.invalid(&path.member(name), part, detail);
        }
    }
}

#[cfg(test)]
mod tests;
