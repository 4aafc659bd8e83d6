//! Which lists and maps are owned and merged part by part, and which as a whole: what server-side apply
//! needs to know besides types. By default lists are wholes and maps are not.
//!
//! Source: the `+listType`, `+listMapKey`, `+mapType` and `+structType` marks in Kubernetes' `k8s.io/api`.

use serde_json::{Map, Value, json};

/// Lists whose entries are told apart by keys: the struct, its member, the keys.
const KEYED: &[(&str, &str, &[&str])] = &[
    ("CSINodeSpec", "drivers", &["name"]),
    ("Container", "env", &["name"]),
    ("Container", "ports", &["containerPort", "protocol"]),
    ("Container", "volumeDevices", &["devicePath"]),
    ("Container", "volumeMounts", &["mountPath"]),
    ("EphemeralContainer", "env", &["name"]),
    (
        "EphemeralContainer",
        "ports",
        &["containerPort", "protocol"],
    ),
    ("EphemeralContainer", "volumeDevices", &["devicePath"]),
    ("EphemeralContainer", "volumeMounts", &["mountPath"]),
    ("NodeStatus", "addresses", &["type"]),
    ("ObjectMeta", "ownerReferences", &["uid"]),
    ("PodSpec", "containers", &["name"]),
    ("PodSpec", "ephemeralContainers", &["name"]),
    ("PodSpec", "hostAliases", &["ip"]),
    ("PodSpec", "imagePullSecrets", &["name"]),
    ("PodSpec", "initContainers", &["name"]),
    ("PodSpec", "resourceClaims", &["name"]),
    ("PodSpec", "schedulingGates", &["name"]),
    (
        "PodSpec",
        "topologySpreadConstraints",
        &["topologyKey", "whenUnsatisfiable"],
    ),
    ("PodSpec", "volumes", &["name"]),
    ("PodStatus", "podIPs", &["ip"]),
    ("PodStatus", "resourceClaimStatuses", &["name"]),
    ("ResourceRequirements", "claims", &["name"]),
    ("ServiceAccount", "secrets", &["name"]),
    ("ServiceSpec", "ports", &["port", "protocol"]),
];

/// Lists of values that are owned one by one.
const SETS: &[(&str, &str)] = &[
    ("Endpoint", "addresses"),
    ("NodeSpec", "podCIDRs"),
    ("ObjectMeta", "finalizers"),
    ("UncountedTerminatedPods", "failed"),
    ("UncountedTerminatedPods", "succeeded"),
];

/// Structs whose conditions are a whole; of all others they are told apart by their type.
const WHOLE_CONDITIONS: &[&str] = &["JobStatus"];

/// Structs that are owned as a whole; the version stands before names that have several.
const WHOLE_STRUCTS: &[&str] = &[
    "ConfigMapKeySelector",
    "EndpointAddress",
    "EndpointPort",
    "LabelSelector",
    "LocalObjectReference",
    "NodeSelector",
    "NodeSelectorTerm",
    "ObjectFieldSelector",
    "ObjectReference",
    "OwnerReference",
    "ResourceFieldSelector",
    "RoleRef",
    "ScopeSelector",
    "SecretKeySelector",
    "SecretReference",
    "ServiceReference",
    "Subject",
    "TopologySelectorTerm",
    "TypedLocalObjectReference",
    "autoscaling.v1.CrossVersionObjectReference",
];

/// Maps that are owned as a whole: the struct, its member.
const WHOLE_MAPS: &[(&str, &str)] = &[
    ("PodSpec", "nodeSelector"),
    ("ReplicationControllerSpec", "selector"),
    ("Scheduling", "nodeSelector"),
    ("ServiceSpec", "selector"),
];

/// Members whose struct is owned part by part here, although it is a whole elsewhere.
const IN_PARTS: &[(&str, &str)] = &[("PersistentVolumeSpec", "claimRef")];

/// Keys that entries may leave out, and what they mean then.
const KEY_DEFAULTS: &[(&str, &str, &str)] = &[
    ("ContainerPort", "protocol", "TCP"),
    ("ServicePort", "protocol", "TCP"),
];

const LIST: &str = "x-kubernetes-list-type";
const MAP: &str = "x-kubernetes-map-type";

/// Marks the lists and maps of all schemas.
pub(super) fn add(schemas: &mut Map<String, Value>) {
    for (full_name, schema) in schemas {
        let name = full_name.rsplit('.').next().unwrap_or("");
        let is_named = |whole: &&str| match full_name.strip_suffix(*whole) {
            Some(before) => before.ends_with('.'),
            None => false,
        };
        if WHOLE_STRUCTS.iter().any(is_named) {
            schema[MAP] = "atomic".into();
        }
        let Some(Value::Object(properties)) = schema.get_mut("properties") else {
            continue;
        };
        for (member, property) in properties {
            let is_list = property.get("items").is_some();
            let at = (name, member.as_str());
            if is_list && member == "conditions" && !WHOLE_CONDITIONS.contains(&name) {
                mark_keyed(property, &["type"]);
            } else if let Some((_, _, keys)) = KEYED.iter().find(|(of, it, _)| (*of, *it) == at) {
                mark_keyed(property, keys);
            } else if SETS.contains(&at) {
                property[LIST] = "set".into();
            } else if is_list {
                property[LIST] = "atomic".into();
            } else if WHOLE_MAPS.contains(&at) {
                property[MAP] = "atomic".into();
            } else if IN_PARTS.contains(&at) {
                property[MAP] = "granular".into();
            } else if let Some((.., value)) =
                KEY_DEFAULTS.iter().find(|(of, it, _)| (*of, *it) == at)
            {
                property["default"] = (*value).into();
            }
        }
    }
}

fn mark_keyed(property: &mut Value, keys: &[&str]) {
    property[LIST] = "map".into();
    property["x-kubernetes-list-map-keys"] = json!(keys);
}
