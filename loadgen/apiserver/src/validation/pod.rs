//! Validation of new pods and of pod statuses.

use podstorm_objects::decode::Path;
use podstorm_objects::json::JsonValue;
use podstorm_objects::{Cause, ObjectMeta, Pod, PodStatus};

use super::container::{items, member, text};
use super::metadata::{self, check_pod_annotations};
use super::{Causes, IMMUTABLE, names, pod_spec};

/// Returns the rules that a new pod breaks.
///
/// `spec_checked` means that another pod with the same shared spec was validated, so the shared
/// spec and `nodeName` are not validated again. The metadata always is.
pub fn validate_pod(pod: &Pod, spec_checked: bool) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(pod, &mut causes);
    let path = Path::ROOT.member("spec");
    if spec_checked {
        pod_spec::check_own_hostname(pod, &path, &mut causes);
    } else {
        pod.look_at_spec(|spec| {
            pod_spec::check(spec, pod.node_name.as_deref(), &path, &mut causes);
            check_new(spec, &path, &mut causes);
        });
    }
    causes.found()
}

/// Returns the rules that a new pod breaks, given a valid pod with the same spec and the metadata
/// `valid`. The result is that of [`validate_pod`], but what the two pods share is not checked.
pub fn validate_pod_like(pod: &Pod, valid: &ObjectMeta) -> Vec<Cause> {
    if !metadata::is_like(&pod.metadata, valid) {
        return validate_pod(pod, true);
    }
    let mut causes = Causes::default();
    let (meta, spec) = (Path::ROOT.member("metadata"), Path::ROOT.member("spec"));
    metadata::check_name(&pod.metadata, names::dns_subdomain, &meta, &mut causes);
    pod_spec::check_own_hostname(pod, &spec, &mut causes);
    causes.found()
}

/// Returns the rules that a pod on any node breaks, if its spec was validated with another pod.
pub fn validate_pod_except_spec(pod: &Pod) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(pod, &mut causes);
    let (path, node_name) = (Path::ROOT.member("spec"), pod.node_name.as_deref());
    pod_spec::check_node_name(node_name, &path, &mut causes);
    pod_spec::check_own_hostname(pod, &path, &mut causes);
    causes.found()
}

/// Returns the rules that a pod with a changed status and metadata breaks. The server has restored
/// the owner references, the deletion fields and the spec; a different node name is forbidden.
pub fn validate_pod_status_update(new: &Pod, old: &Pod) -> Vec<Cause> {
    let mut causes = Causes::default();
    check_meta(new, &mut causes);
    if new.node_name != old.node_name {
        let spec = Path::ROOT.member("spec");
        causes.forbidden(&spec.member("nodeName"), "may not be changed directly");
    }
    if new.status.rest.is_same(&old.status.rest) {
        return causes.found();
    }
    check_nomination(new, old, &mut causes);
    let class = |status: &PodStatus| {
        let class = status.rest.get("qosClass")?;
        let class = class.as_str().filter(|class| !class.is_empty());
        class.map(str::to_owned)
    };
    if let (Some(new), Some(old)) = (class(&new.status), class(&old.status))
        && new != old
    {
        let status = Path::ROOT.member("status");
        causes.invalid(&status.member("qosClass"), new, IMMUTABLE);
    }
    causes.found()
}

/// Checks a changed nomination: a bound pod needs no other node.
fn check_nomination(new: &Pod, old: &Pod, causes: &mut Causes) {
    // Searches the text first, because parsing costs more and few pods have the field.
    if !new.status.rest.as_str().contains("nominatedNodeName") {
        return;
    }
    let nominated = |pod: &Pod| {
        let name = pod.status.rest.get("nominatedNodeName")?;
        name.as_str().map(str::to_owned)
    };
    let Some(name) = nominated(new).filter(|name| !name.is_empty()) else {
        return;
    };
    if nominated(old).as_ref() == Some(&name) {
        return;
    }
    let status = Path::ROOT.member("status");
    let path = status.member("nominatedNodeName");
    if old.node_name.is_some() {
        let detail = "may not be set on pods that are already bound to a node";
        causes.forbidden(&path, detail);
    }
    causes.text(&path, &name, names::dns_subdomain(&name));
}

/// Checks a pod's metadata, including pod annotations.
pub(super) fn check_meta(pod: &Pod, causes: &mut Causes) {
    let path = Path::ROOT.member("metadata");
    metadata::check(&pod.metadata, true, names::dns_subdomain, &path, causes);
    check_pod_annotations(
        &pod.metadata.annotations,
        &path.member("annotations"),
        causes,
    );
}

/// Checks the rules that apply only to new pods.
fn check_new(spec: JsonValue<'_>, path: &Path<'_>, causes: &mut Causes) {
    if items(spec, "ephemeralContainers").next().is_some() {
        let detail = "cannot be set on create";
        causes.forbidden(&path.member("ephemeralContainers"), detail);
    }
    if !text(spec, "serviceAccountName").is_empty() {
        return;
    }
    let volumes = path.member("volumes");
    for (index, volume) in items(spec, "volumes") {
        let Some(projected) = member(volume, "projected") else {
            continue;
        };
        let path = volumes.item(index);
        let path = path.member("projected");
        let sources = path.member("sources");
        for (index, source) in items(projected, "sources") {
            if member(source, "serviceAccountToken").is_some() {
                let path = sources.item(index);
                let detail = "must not be specified when serviceAccountName is not set";
                causes.forbidden(&path.member("serviceAccountToken"), detail);
            }
        }
    }
}

/// Checks a pod's spec and node name.
pub(super) fn check_spec(pod: &Pod, causes: &mut Causes) {
    let path = Path::ROOT.member("spec");
    pod.look_at_spec(|spec| {
        pod_spec::check(spec, pod.node_name.as_deref(), &path, causes);
    });
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::super::defaulting::default_pod;
    use super::super::testing::{cases, merged, read, texts};
    use super::*;

    fn pod(patch: &Value) -> Pod {
        let base = json!({"metadata": {"name": "p", "namespace": "n"},
            "spec": {"containers": [{"name": "c", "image": "img"}]}});
        let mut pod = read(merged(base, patch));
        default_pod(&mut pod);
        pod
    }

    #[test]
    fn a_new_pod_is_validated_as_a_whole() {
        let check = |patch: &Value| texts(&validate_pod(&pod(patch), false));
        let table = r#"
{}

{"metadata": {"name": null, "generateName": "p-"}}

{"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "a lot"}}}
> metadata.annotations[controller.kubernetes.io/pod-deletion-cost]: Invalid value: "a lot": must be a 32bit integer

{"spec": {"ephemeralContainers": [{"name": "e"}]}}
> spec.ephemeralContainers: Forbidden: cannot be set on create
"#;
        for (patch, wanted) in cases(table) {
            assert_eq!(check(&patch), wanted, "{patch}");
        }
        let both = json!({"metadata": {"name": "-"}, "spec": {"containers": []}});
        assert_eq!(check(&both).len(), 2);
    }

    #[test]
    fn a_spec_that_was_validated_before_is_skipped() {
        let pod = pod(&json!({"metadata": {"name": "-"}, "spec": {"containers": []}}));
        let causes = validate_pod(&pod, true);
        assert_eq!(causes.len(), 1);
        assert_eq!(causes[0].field, "metadata.name");
    }

    #[test]
    fn a_pod_like_a_valid_one_is_validated_by_its_differences() {
        let cost = "controller.kubernetes.io/pod-deletion-cost";
        let meta = json!({"labels": {"a/b": "1", "c": "x"}, "annotations": {"d": "e", cost: "7"},
            "finalizers": ["f.io/g"], "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job",
                "name": "j", "uid": "u"}]});
        let valid = pod(&json!({ "metadata": meta }));
        assert_eq!(validate_pod(&valid, false), []);
        for (patch, is_valid) in [
            (json!({}), true),
            (
                json!({"name": "q", "labels": {"c": ""}, "annotations": {"d": "~"}}),
                true,
            ),
            (json!({"labels": {"h": "1"}}), true),
            (json!({"annotations": {cost: "8"}}), true),
            (json!({"finalizers": [], "annotations": null}), true),
            (json!({"name": "-"}), false),
            (json!({"name": null, "generateName": "-"}), false),
            (json!({"namespace": "N"}), false),
            (json!({"labels": {"c": "~"}}), false),
            (json!({"labels": {"c": null, "~": "x"}}), false),
            (json!({"annotations": {cost: "a lot"}}), false),
            (json!({"annotations": {"d": "e".repeat(1 << 18)}}), false),
            (json!({"annotations": {"d": null, "~": "e"}}), false),
            (json!({"finalizers": ["f.io/~"]}), false),
            (
                json!({"ownerReferences": [{"apiVersion": "v1", "kind": "", "uid": "u"}]}),
                false,
            ),
        ] {
            let new = pod(&merged(
                json!({ "metadata": meta }),
                &json!({ "metadata": patch }),
            ));
            let causes = validate_pod_like(&new, &valid.metadata);
            assert_eq!(causes, validate_pod(&new, false), "{patch}");
            assert_eq!(causes.is_empty(), is_valid, "{patch}");
        }
    }

    #[test]
    fn a_status_update_keeps_the_node_and_the_qos_class() {
        let old = pod(&json!({"spec": {"nodeName": "a"}, "status": {"qosClass": "Burstable"}}));
        let check = |patch: Value| texts(&validate_pod_status_update(&pod(&patch), &old));
        let conditions = json!([{"type": "Ready", "status": "True"},
            {"type": "Ready", "status": "False"}]);
        assert_eq!(
            check(json!({"spec": {"nodeName": "a"}, "status": {"conditions": conditions}})),
            [""; 0]
        );
        assert_eq!(
            check(json!({"spec": {"nodeName": "b"}, "status": {"qosClass": "BestEffort"}})),
            [
                "spec.nodeName: Forbidden: may not be changed directly",
                "status.qosClass: Invalid value: \"BestEffort\": field is immutable",
            ]
        );
    }
}
