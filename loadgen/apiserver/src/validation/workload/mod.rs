//! Validation of ReplicaSets and ReplicationControllers.

use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;
use podstorm_objects::{
    Cause, LabelSelector, Labels, ObjectMeta, PodTemplate, ReplicaSet, ReplicaSetSpec,
    ReplicaSetStatus, ReplicationController, Selector,
};
use serde_json::Value;

use super::metadata::{self, check_annotations, check_labels, check_pod_annotations};
use super::{Causes, IMMUTABLE, container, names, pod_spec, selector};

/// Returns the rules that a new ReplicaSet breaks.
pub fn validate_replica_set(replica_set: &ReplicaSet) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(&replica_set.metadata, &mut causes);
    check_replica_set_spec(&replica_set.spec, PodSpecCheck::Full, &mut causes);
    causes.found()
}

/// Returns the rules that a new ReplicaSet breaks, if the spec of its template was validated with
/// another template, on any node.
pub fn validate_replica_set_except_pod_spec(replica_set: &ReplicaSet) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(&replica_set.metadata, &mut causes);
    check_replica_set_spec(&replica_set.spec, PodSpecCheck::Skip, &mut causes);
    causes.found()
}

/// The names of a kind of workload in messages about its template.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// The name in the error about a deadline for the pods.
    pub kind: &'static str,
    /// The name in the error about an empty selector.
    pub of_selector: &'static str,
}

impl Workload {
    /// A ReplicaSet or a Deployment.
    pub const REPLICA_SET: Workload = Workload {
        kind: "ReplicaSet",
        of_selector: "deployment",
    };
    /// A StatefulSet.
    pub const STATEFUL_SET: Workload = Workload {
        kind: "StatefulSet",
        of_selector: "statefulset",
    };
    /// A DaemonSet.
    pub const DAEMON_SET: Workload = Workload {
        kind: "DaemonSet",
        of_selector: "daemonset",
    };
    const CONTROLLER: Workload = Workload {
        kind: "ReplicationController",
        of_selector: "",
    };
}

/// Returns the rules that the spec of a kind without a Rust type breaks, of those that it shares
/// with the spec of a ReplicaSet.
pub fn validate_replica_set_spec(spec: &ReplicaSetSpec, of: Workload) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_spec(spec, PodSpecCheck::Full, of, &mut causes);
    causes.found()
}

/// Returns the rules that the template at `path` breaks, of those that apply to all kinds.
pub fn validate_template(template: &PodTemplate, path: &Path<'_>) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_template(template, None, path, &mut causes);
    let spec_path = path.member("spec");
    template.spec.look(template.token_volume, |spec| {
        check_template_spec(spec, template, &spec_path, &mut causes);
    });
    causes.found()
}

/// Whether to validate the spec of a template.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PodSpecCheck {
    Full,
    Skip,
}

/// Returns the rules that a changed ReplicaSet breaks. A spec that equals the stored one is not
/// validated again.
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
    causes.found()
}

/// Returns the rules that a changed status breaks, and those that the metadata breaks, if given.
pub fn validate_status(metadata: Option<&ObjectMeta>, status: &ReplicaSetStatus) -> Vec<Cause> {
    let mut causes = Causes::default();
    if let Some(metadata) = metadata {
        check_meta(metadata, &mut causes);
    }
    check_status(status, &mut causes);
    causes.found()
}

/// Returns the rules that a new or changed ReplicationController breaks. Its selector may change.
pub fn validate_replication_controller(controller: &ReplicationController) -> Vec<Cause> {
    let mut causes = Causes::default();
    let (path, name) = (Path::ROOT.member("metadata"), names::controller_name);
    metadata::check(&controller.metadata, true, name, &path, &mut causes);
    check_controller_spec(controller, &mut causes);
    causes.found()
}

/// Returns the rules that the number of replicas in a `Scale` breaks.
pub fn validate_replicas(replicas: i32) -> Vec<Cause> {
    let mut causes = Causes::default();
    let spec = Path::ROOT.member("spec");
    causes.not_negative(&spec.member("replicas"), replicas.into());
    causes.found()
}

fn check_meta(meta: &ObjectMeta, causes: &mut Causes) {
    metadata::check(
        meta,
        true,
        names::dns_subdomain,
        &Path::ROOT.member("metadata"),
        causes,
    );
}

fn check_replica_set_spec(spec: &ReplicaSetSpec, of_pods: PodSpecCheck, causes: &mut Causes) {
    check_spec(spec, of_pods, Workload::REPLICA_SET, causes);
}

fn check_spec(spec: &ReplicaSetSpec, of_pods: PodSpecCheck, of: Workload, causes: &mut Causes) {
    let path = Path::ROOT.member("spec");
    check_counts(spec.replicas, spec.min_ready_seconds, &path, causes);
    let selector_path = path.member("selector");
    let before = causes.all.len();
    let compiled = match spec.selector.as_deref() {
        None => {
            causes.required(&selector_path, "");
            // An absent selector matches nothing.
            Selector::compile(None).ok()
        }
        Some(written) if is_empty(written) => {
            let detail = format!("empty selector is invalid for {}", of.of_selector);
            causes.invalid(&selector_path, written.to_json(), detail);
            None
        }
        Some(written) => {
            selector::check(written, &selector_path, causes);
            let compiled = Selector::compile(Some(written));
            if compiled.is_err() || causes.all.len() > before || causes.is_full() {
                let detail = "invalid label selector";
                causes.invalid(&selector_path, written.to_json(), detail);
                return check_rest(spec, of_pods, of, None, &path, causes);
            }
            compiled.ok()
        }
    };
    check_rest(spec, of_pods, of, compiled.as_ref(), &path, causes);
}

fn check_rest(
    spec: &ReplicaSetSpec,
    of_pods: PodSpecCheck,
    of: Workload,
    selector: Option<&Selector>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let template_path = path.member("template");
    check_template(&spec.template, selector, &template_path, causes);
    let (template, replicas) = (&spec.template, spec.replicas);
    check_pod_spec(template, of_pods, of, replicas, &template_path, causes);
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
            let (of, replicas) = (Workload::CONTROLLER, controller.replicas);
            let is = PodSpecCheck::Full;
            check_pod_spec(template, is, of, replicas, &template_path, causes);
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

/// Checks the metadata of a template. `selector` is `None` if it is invalid.
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
        let value = match labels.is_empty() {
            true => Value::Null,
            false => labels.to_json(),
        };
        let detail = "`selector` does not match template `labels`";
        causes.invalid(&labels_path, value, detail);
    }
    // Sic: the path lacks `metadata`.
    check_labels(labels, &path.member("labels"), causes);
    let annotations_path = path.member("annotations");
    check_annotations(&template.metadata.annotations, &annotations_path, causes);
    check_pod_annotations(&template.metadata.annotations, &annotations_path, causes);
}

/// Checks the spec of a template whose pods must have the restart policy `Always`.
fn check_pod_spec(
    template: &PodTemplate,
    is: PodSpecCheck,
    of: Workload,
    replicas: Option<i32>,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    let spec_path = path.member("spec");
    if is == PodSpecCheck::Skip {
        pod_spec::check_node_name(template.node_name.as_deref(), &spec_path, causes);
        return;
    }
    template.spec.look(template.token_volume, |spec| {
        check_template_spec(spec, template, &spec_path, causes);
        if replicas.is_some_and(|replicas| replicas > 1) {
            check_shared_disks(spec, &spec_path, causes);
        }
        let policy = container::text(spec, "restartPolicy");
        if policy != "Always" {
            causes.not_supported(&spec_path.member("restartPolicy"), policy, &["Always"]);
        }
        if spec.get("activeDeadlineSeconds").is_some() {
            let detail = format!("activeDeadlineSeconds in {} is not Supported", of.kind);
            causes.forbidden(&spec_path.member("activeDeadlineSeconds"), detail);
        }
    });
}

/// Checks the spec of any template.
fn check_template_spec(
    spec: JsonValue<'_>,
    template: &PodTemplate,
    path: &Path<'_>,
    causes: &mut Causes,
) {
    pod_spec::check(spec, template.node_name.as_deref(), path, causes);
    if container::items(spec, "ephemeralContainers")
        .next()
        .is_some()
    {
        let detail = "ephemeral containers not allowed in pod template";
        causes.forbidden(&path.member("ephemeralContainers"), detail);
    }
}

/// Checks that several pods do not share a disk that only one machine can write to.
fn check_shared_disks(spec: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    let volumes = path.member("volumes");
    for (index, volume) in container::items(spec, "volumes") {
        let Some(disk) = container::member(volume, "gcePersistentDisk") else {
            continue;
        };
        let is_read_only = disk.get("readOnly").and_then(|it| it.as_bool());
        if is_read_only != Some(true) {
            let path = volumes.item(index);
            let path = path.member("GCEPersistentDisk");
            let detail = "must be true for replicated pods > 1; GCE PD can only be mounted on \
                          multiple machines if it is read-only";
            causes.invalid(&path.member("readOnly"), false, detail);
        }
    }
}

fn check_status(status: &ReplicaSetStatus, causes: &mut Causes) {
    let path = Path::ROOT.member("status");
    let (all, ready) = (
        ("replicas", status.replicas),
        ("readyReplicas", status.ready_replicas),
    );
    let labeled = ("fullyLabeledReplicas", status.fully_labeled_replicas);
    let available = ("availableReplicas", status.available_replicas);
    let terminating = (
        "terminatingReplicas",
        status.terminating_replicas.unwrap_or(0),
    );
    for (name, count) in [all, labeled, ready, available] {
        causes.not_negative(&path.member(name), count.into());
    }
    causes.not_negative(
        &path.member("observedGeneration"),
        status.observed_generation,
    );
    causes.not_negative(&path.member(terminating.0), terminating.1.into());
    for ((name, part), (whole_name, whole)) in [
        (labeled, all),
        (ready, all),
        (available, all),
        (available, ready),
    ] {
        if part > whole {
            // As in upstream, only one of the two paths includes `status`.
            let status = if whole_name == ready.0 { "" } else { "status." };
            let detail = format!("cannot be greater than {status}{whole_name}");
            causes.invalid(&path.member(name), part, detail);
        }
    }
}

#[cfg(test)]
mod tests;
