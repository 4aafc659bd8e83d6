//! The defaults of ReplicaSets, ReplicationControllers and pods, as Kubernetes 1.36 sets them.
//!
//! All functions are pure. A complete pod spec keeps its allocation, so pods and templates continue
//! to share it.

mod fill;

use std::sync::Arc;

use crate::json::JsonValue;
use crate::{Map, Pod, PodSpec, PodTemplate, Quantity, ReplicaSet, ReplicationController};

use self::fill::MissingMembers;
pub use self::fill::{Fill, Within};

/// The mode of files in volumes created from API objects: 0644.
const FILE_MODE: i64 = 0o644;
/// The number of seconds until a projected service-account token expires.
const TOKEN_SECONDS: i64 = 3600;

/// Sets the defaults of a ReplicaSet: one replica, and the defaults of its pod template.
pub fn default_replica_set(replica_set: &mut ReplicaSet) {
    default_replicas(replica_set);
    default_template(&mut replica_set.spec.template);
}

/// Sets the defaults of a ReplicaSet except those of its pod template.
pub fn default_replicas(replica_set: &mut ReplicaSet) {
    replica_set.spec.replicas.get_or_insert(1);
}

/// Sets the defaults of a ReplicationController: one replica, the template's labels as its selector
/// and labels if these are empty, and the defaults of its pod template.
pub fn default_replication_controller(controller: &mut ReplicationController) {
    controller.replicas.get_or_insert(1);
    let Some(template) = &mut controller.template else {
        return;
    };
    let labels = &template.metadata.labels;
    if !labels.is_empty() {
        if controller.selector.is_empty() {
            controller.selector = labels.clone();
        }
        if controller.metadata.labels.is_empty() {
            controller.metadata.labels = labels.clone();
        }
    }
    default_template(template);
}

/// Sets the defaults of a pod: those of any pod spec, and those that only pods have, which are
/// requests that equal limits, service links, and the host ports of pods in the host network.
pub fn default_pod(pod: &mut Pod) {
    default_spec(&mut pod.spec, true);
}

/// Sets the defaults of a pod template.
pub fn default_template(template: &mut Arc<PodTemplate>) {
    let mut spec = template.spec.clone();
    default_spec(&mut spec, false);
    if !Arc::ptr_eq(&spec, &template.spec) {
        Arc::make_mut(template).spec = spec;
    }
}

/// Returns the quality-of-service class of a pod with this spec: `Guaranteed`, `Burstable` or
/// `BestEffort`.
pub fn qos_class(spec: &PodSpec) -> &'static str {
    spec.look(None, class_of)
}

fn class_of(spec: JsonValue<'_>) -> &'static str {
    // Requests and limits of the whole pod, if set, replace those of its containers.
    let of_pod = spec
        .get("resources")
        .filter(|resources| has_amounts(Some(*resources)));
    let lists = ["containers", "initContainers"]
        .into_iter()
        .filter_map(|list| spec.get(list));
    let containers = lists.flat_map(|list| list.items());
    let all: Vec<Option<JsonValue<'_>>> = match of_pod {
        Some(resources) => vec![Some(resources)],
        None => containers
            .map(|container| container.get("resources"))
            .collect(),
    };
    if !all.iter().any(|resources| has_amounts(*resources)) {
        "BestEffort"
    } else if all.iter().all(|resources| is_guaranteed(*resources)) {
        "Guaranteed"
    } else {
        "Burstable"
    }
}

/// Returns the amount of a resource in `list`; `None` if it is absent, unreadable or zero.
fn amount(resources: Option<JsonValue<'_>>, list: &str, resource: &str) -> Option<Quantity> {
    let value = resources?.get(list)?.get(resource)?;
    Quantity::read(value)
        .ok()
        .filter(|amount| !amount.is_zero())
}

fn has_amounts(resources: Option<JsonValue<'_>>) -> bool {
    ["requests", "limits"].into_iter().any(|list| {
        ["cpu", "memory"]
            .into_iter()
            .any(|name| amount(resources, list, name).is_some())
    })
}

fn is_guaranteed(resources: Option<JsonValue<'_>>) -> bool {
    ["cpu", "memory"].into_iter().all(|name| {
        let limit = amount(resources, "limits", name);
        // An absent request equals the limit.
        let request = amount(resources, "requests", name).or(limit);
        limit.is_some() && request == limit
    })
}

fn default_spec(spec: &mut Arc<PodSpec>, is_pod: bool) {
    fn fill<T: Fill>(spec: &mut T, is_pod: bool) {
        fill_spec(spec);
        if is_pod {
            fill_pod_only(spec);
        }
    }
    // Most specs that come from a server are complete.
    let is_complete = spec.look(None, |members| {
        let mut look = MissingMembers::at(members);
        fill(&mut look, is_pod);
        !look.lacks
    });
    if is_complete {
        return;
    }
    let mut members = spec.to_map(None);
    fill(&mut members, is_pod);
    // Defaults keep every member readable. If one is not, validation reports it.
    if let Ok(filled) = spec.with_members(members) {
        *spec = filled.into();
    }
}

/// Sets the defaults of the pod spec of a template.
pub fn fill_spec(spec: &mut impl Fill) {
    spec.set("restartPolicy", "Always");
    spec.set("dnsPolicy", "ClusterFirst");
    spec.set("schedulerName", "default-scheduler");
    spec.set_absent("terminationGracePeriodSeconds", 30);
    spec.set_absent("securityContext", Map::new());
    // `serviceAccount` is the old name of `serviceAccountName`.
    spec.unite("serviceAccountName", "serviceAccount");
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        spec.each(list, fill_container);
    }
    spec.each("volumes", fill_volume);
}

/// Returns the default pull policy of an image. The tag `latest` is pulled at every start.
fn pull_policy(image: &str) -> &'static str {
    match tag(image) {
        Some("latest") => "Always",
        _ => "IfNotPresent",
    }
}

fn fill_container<T: Fill>(container: &mut T) {
    let policy = pull_policy(container.text("image"));
    container.set("imagePullPolicy", policy);
    let message = "/dev/termination-log";
    container.set("terminationMessagePath", message);
    container.set("terminationMessagePolicy", "File");
    // A struct and not a pointer in Go, so it is never absent.
    container.set_absent("resources", Map::new());
    container.each("ports", |port| port.set("protocol", "TCP"));
    container.each("env", |variable| {
        variable.with("valueFrom", |source| {
            fill_field_reference(source);
            source.with("fileKeyRef", |key| key.set_absent("optional", false));
        });
    });
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        container.with(probe, |probe| {
            probe.set("timeoutSeconds", 1);
            probe.set("periodSeconds", 10);
            probe.set("successThreshold", 1);
            probe.set("failureThreshold", 3);
            probe.with("httpGet", fill_http_get);
            probe.with("grpc", |action| action.set_absent("service", ""));
        });
    }
    container.with("lifecycle", |lifecycle| {
        for moment in ["postStart", "preStop"] {
            lifecycle.with(moment, |handler| handler.with("httpGet", fill_http_get));
        }
    });
}

fn fill_http_get(action: &mut impl Fill) {
    action.set("path", "/");
    action.set("scheme", "HTTP");
}

fn fill_field_reference<T: Fill>(holder: &mut T) {
    holder.with("fieldRef", |reference| {
        reference.set("apiVersion", "v1");
    });
}

fn fill_volume<T: Fill>(volume: &mut T) {
    if !volume.has_others("name") {
        volume.set_absent("emptyDir", Map::new());
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        volume.with(source, |source| source.set_absent("defaultMode", FILE_MODE));
    }
    volume.with("hostPath", |source| source.set_absent("type", ""));
    volume.with("iscsi", |source| source.set("iscsiInterface", "default"));
    volume.with("rbd", |source| {
        source.set("pool", "rbd");
        source.set("user", "admin");
        source.set("keyring", "/etc/ceph/keyring");
    });
    volume.with("azureDisk", |source| {
        source.set_absent("cachingMode", "ReadWrite");
        source.set_absent("kind", "Shared");
        source.set_absent("fsType", "ext4");
        source.set_absent("readOnly", false);
    });
    volume.with("scaleIO", |source| {
        source.set("storageMode", "ThinProvisioned");
        source.set("fsType", "xfs");
    });
    volume.with("image", |source| {
        let policy = pull_policy(source.text("reference"));
        source.set("pullPolicy", policy);
    });
    volume.with("ephemeral", |source| {
        source.with("volumeClaimTemplate", |claim| {
            claim.with("spec", |spec| spec.set_absent("volumeMode", "Filesystem"));
        });
    });
    volume.with("downwardAPI", |source| {
        source.each("items", fill_field_reference)
    });
    volume.with("projected", |projected| {
        projected.each("sources", |source| {
            source.with("serviceAccountToken", |token| {
                token.set_absent("expirationSeconds", TOKEN_SECONDS);
            });
            source.with("downwardAPI", |source| {
                source.each("items", fill_field_reference)
            });
        });
    });
}

fn fill_pod_only(spec: &mut impl Fill) {
    spec.set_absent("enableServiceLinks", true);
    spec.no_negative("terminationGracePeriodSeconds");
    let in_host_network = spec.is_true("hostNetwork");
    for list in ["containers", "initContainers"] {
        spec.each(list, |container| {
            // A limit without a request also sets the request.
            container.with("resources", |resources| {
                resources.copy_members("limits", "requests");
            });
            if in_host_network {
                container.each("ports", |port| {
                    port.copy_number("containerPort", "hostPort")
                });
            }
        });
    }
}

/// Returns the tag of an image; `latest` if it has neither tag nor digest, `None` if it has only a
/// digest.
fn tag(image: &str) -> Option<&str> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    // A colon before the last slash belongs to the port of the registry.
    let last = name.rsplit('/').next().unwrap_or(name);
    match (last.split_once(':'), digest) {
        (Some((_, tag)), _) => Some(tag),
        (None, Some(_)) => None,
        (None, None) => Some("latest"),
    }
}

#[cfg(test)]
mod tests;
