//! What clients are warned of because of the kind alone, whatever the answer is.

use bytes::Bytes;
use http::Method;
use podstorm_apiserver::custom;
use podstorm_objects::Object;
use serde_json::Value;

use crate::query::Query;
use crate::route::Route;

const LABEL_BYTES_MAX: usize = 63;

/// Labels of nodes that have other names now, and since when.
const DEPRECATED_LABELS: &[(&str, &str, &str)] = &[
    ("beta.kubernetes.io/arch", "kubernetes.io/arch", "v1.14"),
    ("beta.kubernetes.io/os", "kubernetes.io/os", "v1.14"),
    (
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "v1.17",
    ),
    (
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/region",
        "v1.17",
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        "topology.kubernetes.io/zone",
        "v1.17",
    ),
];

const ENDPOINTS: &str =
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
const JOB: &str = "child pods are preserved by default when jobs are deleted; set \
                   propagationPolicy=Background to remove them or set propagationPolicy=Orphan to \
                   suppress this warning";

/// The warnings of a request for objects: of a deprecated kind, and of a Job that is deleted without a word
/// on its pods.
pub(crate) fn of(route: &Route, method: &Method, query: &Query<'_>, body: &Bytes) -> Vec<String> {
    let Route::Objects(target) = route else {
        return Vec::new();
    };
    if let Some(custom) = target
        .kind
        .row()
        .custom
        .filter(|it| !it.deprecation.is_empty())
    {
        return vec![custom.deprecation.clone()];
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

/// The warnings of an object with a template of pods that was written: of what its pods will have.
///
/// Source: `GetWarningsForPodTemplate` of Kubernetes.
pub(crate) fn of_written(object: &dyn Object) -> Vec<String> {
    if object.kind().name() == "Service" {
        let addresses = object.to_json()["spec"]["externalIPs"]
            .as_array()
            .map_or(0, Vec::len);
        let text =
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters";
        return vec![text.to_owned(); addresses.min(1)];
    }
    let at = match object.kind().name() {
        "Deployment"
        | "ReplicaSet"
        | "StatefulSet"
        | "DaemonSet"
        | "ReplicationController"
        | "Job" => "spec.template",
        "CronJob" => "spec.jobTemplate.spec.template",
        "PodTemplate" => "template",
        "CustomResourceDefinition" => {
            let json = object.to_json();
            return json.as_object().map(custom::unenforced).unwrap_or_default();
        }
        _ => return Vec::new(),
    };
    let json = object.to_json();
    let spec = &json[&at.split('.').next().unwrap_or("")];
    let template = at
        .split('.')
        .skip(1)
        .fold(spec, |value, member| &value[member]);
    let mut warnings = Vec::new();
    let name = object.metadata().name.as_str();
    if matches!(object.kind().name(), "Deployment" | "ReplicaSet") && name.len() > LABEL_BYTES_MAX {
        warnings.push(format!(
            "metadata.name: this is used in Pod names and hostnames, which can result in surprising \
             behavior; a DNS label is recommended: [must be no more than {LABEL_BYTES_MAX} \
             characters]"
        ));
    }
    of_pods(&template["spec"], &format!("{at}.spec"), &mut warnings);
    warnings
}

fn of_pods(spec: &Value, at: &str, warnings: &mut Vec<String>) {
    for (old, new, since) in DEPRECATED_LABELS {
        if !spec["nodeSelector"][*old].is_null() {
            warnings.push(format!(
                "{at}.nodeSelector[{old}]: deprecated since {since}; use \"{new}\" instead"
            ));
        }
    }
    let list =
        |object: &Value, member: &str| object[member].as_array().cloned().unwrap_or_default();
    for (index, constraint) in list(spec, "topologySpreadConstraints").iter().enumerate() {
        if constraint["labelSelector"].is_null() {
            warnings.push(format!(
                "{at}.topologySpreadConstraints[{index}].labelSelector: a null labelSelector \
                 results in matching no pod"
            ));
        }
    }
    for kind in ["initContainers", "containers"] {
        for (index, container) in list(spec, kind).iter().enumerate() {
            of_container(container, &format!("{at}.{kind}[{index}]"), warnings);
        }
    }
}

fn of_container(container: &Value, at: &str, warnings: &mut Vec<String>) {
    let list = |member: &str| container[member].as_array().cloned().unwrap_or_default();
    let variables = list("env");
    for (index, variable) in variables.iter().enumerate() {
        let name = &variable["name"];
        if variables[..index]
            .iter()
            .any(|other| other["name"] == *name)
        {
            warnings.push(format!(
                "{at}.env[{index}]: hides previous definition of {name}, which may be dropped when \
                 using apply"
            ));
        }
    }
    let ports = list("ports");
    for (index, port) in ports.iter().enumerate() {
        let is_same = |other: &Value| {
            let members = ["containerPort", "protocol", "hostPort", "hostIP"];
            members.iter().all(|member| other[*member] == port[*member])
        };
        if let Some(first) = ports[..index].iter().position(is_same) {
            warnings.push(format!(
                "{at}.ports[{index}]: duplicate port definition with {at}.ports[{first}]"
            ));
        }
    }
}

/// Whether a deletion says what becomes of the dependents.
fn says_of_pods(query: &Query<'_>, body: &Bytes) -> bool {
    let options: Value = serde_json::from_slice(body).unwrap_or_default();
    ["propagationPolicy", "orphanDependents"]
        .into_iter()
        .any(|member| query.has(member) || !options[member].is_null())
}
