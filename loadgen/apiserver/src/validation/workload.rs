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
mod tests {
    use serde_json::json;

    use super::super::super::defaulting::{default_replica_set, default_replication_controller};
    use super::super::testing::{merged, read, texts};
    use super::*;

    fn replica_set(patch: &Value) -> ReplicaSet {
        let base = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web", "tier": "front"}},
                    "spec": {"containers": [{"name": "c", "image": "img"}]}}}
        });
        let mut replica_set = read(merged(base, patch));
        default_replica_set(&mut replica_set);
        replica_set
    }

    fn controller(patch: &Value) -> ReplicationController {
        let base = json!({
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"selector": {"app": "web"},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "img"}]}}}
        });
        let mut controller = read(merged(base, patch));
        default_replication_controller(&mut controller);
        controller
    }

    fn assert_starts(found: &[String], starts: &[&str], case: &Value) {
        assert_eq!(found.len(), starts.len(), "{case}: {found:?}");
        for (found, start) in found.iter().zip(starts) {
            assert!(
                found.starts_with(start),
                "{found} should start with {start}"
            );
        }
    }

    #[test]
    fn a_good_replica_set_breaks_no_rule() {
        for patch in [
            json!({}),
            json!({"spec": {"replicas": 0, "minReadySeconds": 5}}),
            json!({"spec": {"template": {"metadata": {"annotations":
                {"controller.kubernetes.io/pod-deletion-cost": "-7"}}}}}),
            json!({"spec": {"selector": {"matchExpressions":
                [{"key": "tier", "operator": "In", "values": ["front"]}]}}}),
        ] {
            assert_eq!(
                texts(&validate_replica_set(&replica_set(&patch))),
                [""; 0],
                "{patch}"
            );
        }
    }

    #[test]
    fn each_broken_rule_of_a_replica_set_is_named() {
        let template = |patch: Value| json!({"spec": {"template": patch}});
        let cases: Vec<(Value, &[&str])> = vec![
            (
                json!({"spec": {"replicas": -1, "minReadySeconds": -2}}),
                &[
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                    "spec.minReadySeconds: Invalid value: -2: must be greater",
                ],
            ),
            (
                json!({"spec": {"selector": null}}),
                &["spec.selector: Required value"],
            ),
            (
                json!({"spec": {"selector": {"matchLabels": null}}}),
                &["spec.selector: Invalid value: {}"],
            ),
            (
                json!({"spec": {"selector": {"matchExpressions":
                    [{"key": "a", "operator": "Near"}]}}}),
                &["spec.selector.matchExpressions[0].operator: Invalid value: \"Near\""],
            ),
            (
                json!({"spec": {"selector": {"matchLabels": {"app": "db"}}}}),
                &[
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"web\",\"tier\":\
                    \"front\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                template(json!({"metadata": {"labels": {"bad key": "x"}}})),
                &["spec.template.metadata.labels: Invalid value: \"bad key\""],
            ),
            (
                template(json!({"metadata": {"annotations":
                    {"controller.kubernetes.io/pod-deletion-cost": "+1"}}})),
                &[
                    "spec.template.metadata.annotations[controller.kubernetes.io/\
                    pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit integer",
                ],
            ),
            (
                template(json!({"spec": {"restartPolicy": "Never"}})),
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported \
                    values: \"Always\"",
                ],
            ),
            (
                template(json!({"spec": {"activeDeadlineSeconds": 5}})),
                &["spec.template.spec.activeDeadlineSeconds: Forbidden"],
            ),
            (
                template(json!({"spec": {"ephemeralContainers": [{"name": "e"}]}})),
                &["spec.template.spec.ephemeralContainers: Forbidden"],
            ),
            (
                template(json!({"spec": {"containers": []}})),
                &["spec.template.spec.containers: Required value"],
            ),
            (
                json!({"metadata": {"name": "Web"}}),
                &["metadata.name: Invalid value: \"Web\""],
            ),
        ];
        for (patch, starts) in cases {
            let found = texts(&validate_replica_set(&replica_set(&patch)));
            assert_starts(&found, starts, &patch);
        }
    }

    #[test]
    fn a_selector_cannot_change_but_all_else_can() {
        let old = replica_set(&json!({}));
        let update = |patch: &Value| texts(&validate_replica_set_update(&replica_set(patch), &old));
        assert_eq!(update(&json!({})), [""; 0]);
        let all_else = json!({"spec": {"replicas": 9, "minReadySeconds": 1, "template":
            {"spec": {"containers": [{"name": "d", "image": "other"}]}}}});
        assert_eq!(update(&all_else), [""; 0]);
        let other = json!({"spec": {"selector": {"matchLabels": {"app": null, "tier": "front"}}}});
        assert_eq!(
            update(&other),
            [
                "spec.selector: Invalid value: {\"matchLabels\":{\"tier\":\"front\"}}: field is \
              immutable"
            ]
        );
        assert_eq!(
            update(&json!({"spec": {"replicas": -1}})),
            ["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]
        );
    }

    #[test]
    fn status_counts_must_fit_each_other() {
        let check = |status: Value| {
            texts(&validate_replica_set_status(&replica_set(
                &json!({"status": status}),
            )))
        };
        let good = json!({"replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2,
            "availableReplicas": 2, "terminatingReplicas": 9, "observedGeneration": 1});
        assert_eq!(check(good), [""; 0]);
        assert_eq!(
            check(
                json!({"replicas": 1, "fullyLabeledReplicas": 2, "readyReplicas": 3,
                "availableReplicas": 4})
            ),
            [
                "status.fullyLabeledReplicas: Invalid value: 2: cannot be greater than \
                 status.replicas",
                "status.readyReplicas: Invalid value: 3: cannot be greater than status.replicas",
                "status.availableReplicas: Invalid value: 4: cannot be greater than \
                 status.replicas",
                "status.availableReplicas: Invalid value: 4: cannot be greater than \
                 status.readyReplicas",
            ]
        );
        let negative = check(json!({"replicas": -1, "terminatingReplicas": -1,
            "observedGeneration": -1, "readyReplicas": -1, "availableReplicas": -1,
            "fullyLabeledReplicas": -1}));
        assert_eq!(negative.len(), 6);
    }

    #[test]
    fn each_broken_rule_of_a_replication_controller_is_named() {
        let cases: Vec<(Value, &[&str])> = vec![
            (json!({}), &[]),
            (json!({"spec": {"selector": null}}), &[]),
            (
                json!({"spec": {"selector": null, "template": {"metadata": null}}}),
                &["spec.selector: Required value"],
            ),
            (
                json!({"spec": {"template": null}}),
                &["spec.template: Required value"],
            ),
            (
                json!({"spec": {"selector": {"app": "db"}}}),
                &["spec.template.metadata.labels: Invalid value: {\"app\":\"web\"}: `selector`"],
            ),
            (
                json!({"spec": {"replicas": -1}}),
                &["spec.replicas: Invalid value: -1"],
            ),
        ];
        let old = controller(&json!({}));
        for (patch, starts) in cases {
            let new = controller(&patch);
            assert_starts(
                &texts(&validate_replication_controller(&new)),
                starts,
                &patch,
            );
            let found = texts(&validate_replication_controller_update(&new, &old));
            assert_starts(&found, starts, &patch);
        }
        // Unlike a ReplicaSet's, the selector may change.
        let changed = json!({"spec": {"selector": {"app": null, "x": "y"},
            "template": {"metadata": {"labels": {"x": "y"}}}}});
        let found = validate_replication_controller_update(&controller(&changed), &old);
        assert_eq!(texts(&found), [""; 0]);
    }

    #[test]
    fn a_scale_cannot_be_negative() {
        assert_eq!(validate_replicas(0), []);
        assert_eq!(validate_replicas(-1)[0].field, "spec.replicas");
    }
}
