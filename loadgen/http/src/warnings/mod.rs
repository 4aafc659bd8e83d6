//! Warnings to clients: about deprecated kinds, about names, and about written objects.

mod pods;

use bytes::Bytes;
use http::Method;
use podstorm_apiserver::custom;
use podstorm_objects::Object;
use serde_json::{Map, Value};

use crate::query::Query;
use crate::route::Route;

const LABEL_BYTES_MAX: usize = 63;

/// Kinds whose names become the names of pods, and so of hosts.
const NAMED_AS_PODS: [&str; 5] = [
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "Job",
    "CronJob",
];

const ENDPOINTS: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
const JOB: &str = "child pods are preserved by default when jobs are deleted; set \
                   propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                   suppress this warning";

const NOT_ASKED: &str = "stored but not consulted when objects are written";

/// Returns the warnings about a request: the kind is deprecated, or a Job is deleted without a
/// propagation policy for its pods.
pub(crate) fn of_request(
    route: &Route,
    method: &Method,
    query: &Query<'_>,
    body: &Bytes,
) -> Vec<String> {
    let Route::Objects(target) = route else {
        return Vec::new();
    };
    if let Some(custom) = target
        .kind
        .row()
        .custom
        .filter(|it| !it.deprecation.is_empty())
    {
        return vec![custom.deprecation.to_owned()];
    }
    let is_whole = target.subresource.is_empty();
    let warning = match (target.kind.group(), target.kind.resource()) {
        ("", "endpoints") if is_whole => ENDPOINTS,
        ("batch", "jobs") if method == Method::DELETE && is_whole && !says_of_pods(query, body) => {
            JOB
        }
        _ => return Vec::new(),
    };
    vec![warning.to_owned()]
}

/// Returns the warnings about a written object: about itself and about its future pods.
///
/// A template causes warnings only if the spec `is_changed`. Pods are not covered: [`of_new_pod`]
/// reads what the client sent, which costs less.
pub(crate) fn of_written(object: &dyn Object, is_new: bool, is_changed: bool) -> Vec<String> {
    let at = match object.kind().name() {
        "Deployment"
        | "ReplicaSet"
        | "StatefulSet"
        | "DaemonSet"
        | "ReplicationController"
        | "Job" => "spec.template",
        "CronJob" => "spec.jobTemplate.spec.template",
        "PodTemplate" => "template",
        "Service" => {
            let addresses = object.to_json()["spec"]["externalIPs"]
                .as_array()
                .map_or(0, Vec::len);
            let text =
                "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
            return vec![text.to_owned(); addresses.min(1)];
        }
        "PersistentVolumeClaim" => {
            let mut warnings = Vec::new();
            pods::of_claim(&object.to_json()["spec"], "spec", &mut warnings);
            return warnings;
        }
        "CustomResourceDefinition" => {
            let json = object.to_json();
            return json.as_object().map(custom::unenforced).unwrap_or_default();
        }
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            return vec![format!("podstorm: webhooks are {NOT_ASKED}")];
        }
        "MutatingAdmissionPolicyBinding" | "ValidatingAdmissionPolicyBinding" => {
            return vec![format!("podstorm: admission policies are {NOT_ASKED}")];
        }
        "APIService" if !object.to_json()["spec"]["service"].is_null() => {
            return vec!["podstorm: requests are not forwarded to other servers".to_owned()];
        }
        _ => return Vec::new(),
    };
    let mut warnings = Vec::new();
    if is_new && NAMED_AS_PODS.contains(&object.kind().name()) {
        let name = &object.metadata().name;
        of_name(name, "Pod names and hostnames", &mut warnings);
    }
    if !is_changed {
        return warnings;
    }
    let json = object.to_json();
    let template = at.split('.').fold(&json, |value, member| &value[member]);
    warnings.extend(pods::of_pod(&template["metadata"], &template["spec"], at));
    warnings
}

/// Returns the warnings about a pod that a client creates, as it was sent.
pub(crate) fn of_new_pod(pod: &Map<String, Value>) -> Vec<String> {
    let member = |name: &str| pod.get(name).unwrap_or(&Value::Null);
    pods::of_pod(member("metadata"), member("spec"), "")
}

/// Returns the warnings about the name of a new pod.
pub(crate) fn of_pod_name(name: &str) -> Vec<String> {
    let mut warnings = Vec::new();
    of_name(name, "the Pod's hostname", &mut warnings);
    warnings
}

/// Warns of a name that is not a valid DNS label.
fn of_name(name: &str, used_in: &str, warnings: &mut Vec<String>) {
    let mut problems = Vec::new();
    if name.len() > LABEL_BYTES_MAX {
        problems.push(format!("must be no more than {LABEL_BYTES_MAX} characters"));
    }
    if name.contains('.') {
        problems.push("must not contain dots".to_owned());
    }
    if !problems.is_empty() {
        warnings.push(format!(
            "metadata.name: this is used in {used_in}, which can result in surprising behavior; a \
             DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

/// Reports whether a deletion specifies what happens to the dependents.
fn says_of_pods(query: &Query<'_>, body: &Bytes) -> bool {
    let options: Value = serde_json::from_slice(body).unwrap_or_default();
    ["propagationPolicy", "orphanDependents"]
        .into_iter()
        .any(|member| query.has(member) || !options[member].is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_causes_warnings_only_when_it_changes() {
        let json = serde_json::json!({"metadata": {"name": "a.b"}, "spec": {"template": {"spec": {
            "containers": [{"name": "c", "env": [{"name": "A"}, {"name": "A"}]}]}}}});
        let set = <podstorm_objects::ReplicaSet as podstorm_objects::Resource>::from_json(json);
        let set = set.expect("a valid ReplicaSet");
        let told = |is_new, is_changed| of_written(&set, is_new, is_changed).len();
        assert_eq!(
            (told(true, true), told(false, true), told(false, false)),
            (2, 1, 0)
        );
    }

    #[test]
    fn names_that_are_not_dns_labels_cause_warnings() {
        let told = of_pod_name(&format!("a.{}", "x".repeat(LABEL_BYTES_MAX)));
        let wanted = "metadata.name: this is used in the Pod's hostname, which can result in \
                      surprising behavior; a DNS label is recommended: [must be no more than 63 \
                      characters must not contain dots]";
        assert_eq!(told, [wanted]);
        assert!(of_pod_name("web-0").is_empty());
    }
}
