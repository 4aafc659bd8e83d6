//! The rules of Kubernetes' types that go beyond the types of their fields. Tables add the rules to
//! the schemas, one row per field:
//!
//! * `merge-rules.tsv`: how strategic merge patches and server-side apply merge lists and maps;
//! * `defaults.tsv`: the default values, including the zeros of fields that Go always writes;
//! * `values.txt`: the allowed values.
//!
//! The first two are from the OpenAPI v3 documents of Kubernetes 1.36, including schemas that the
//! server does not serve.

use serde_json::{Map, Value, json};

/// The extensions in the columns of `merge-rules.tsv` that follow the schema and the member.
const MERGE: [&str; 5] = [
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
    "x-kubernetes-list-type",
    LIST_KEYS,
    "x-kubernetes-map-type",
];
const LIST_KEYS: &str = "x-kubernetes-list-map-keys";

/// The text about allowed values that upstream adds to the description of a field.
const DESCRIBED: &str = "\n\nPossible enum values:\n - `\"Recreate\"` Kill all existing pods before creating new ones.\n - `\"RollingUpdate\"` Replace the old ReplicaSets by new one using rolling update i.e gradually scale down the old ReplicaSets and scale up the new one.";

/// Structs whose `name` defaults to the empty string and is then not written: the sources state
/// this default (`+default=""`). The types that the schemas are generated from always require a
/// name.
const WITHOUT_NAME: [&str; 8] = [
    "ConfigMapEnvSource",
    "ConfigMapKeySelector",
    "ConfigMapProjection",
    "ConfigMapVolumeSource",
    "LocalObjectReference",
    "SecretEnvSource",
    "SecretKeySelector",
    "SecretProjection",
];

/// Further fields whose default is a zero according to the sources: Go omits these fields if they
/// are zero.
const STATED: [(&str, &str); 5] = [
    ("AzureDiskVolumeSource", "readOnly"),
    ("FileKeySelector", "optional"),
    ("GRPCAction", "service"),
    ("ReplicationControllerSpec", "minReadySeconds"),
    ("ScaleSpec", "replicas"),
];

/// Optional fields without a default that Go writes as null: lists without `omitempty`, and times,
/// which it can't omit.
const NULLS: [(&str, &[&str]); 14] = [
    ("ClusterRole", &["rules"]),
    ("ContainerStateRunning", &["startedAt"]),
    ("ContainerStateTerminated", &["startedAt", "finishedAt"]),
    (
        "CustomResourceDefinitionStatus",
        &["conditions", "storedVersions"],
    ),
    ("DaemonSetSpec", &["selector"]),
    ("DeploymentSpec", &["selector"]),
    ("EndpointSlice", &["endpoints", "ports"]),
    (
        "Event",
        &[
            "deprecatedFirstTimestamp",
            "deprecatedLastTimestamp",
            "eventTime",
            "firstTimestamp",
            "lastTimestamp",
        ],
    ),
    ("HorizontalPodAutoscalerStatus", &["currentMetrics"]),
    ("ReplicaSetSpec", &["selector"]),
    ("Role", &["rules"]),
    ("StatefulSetSpec", &["selector"]),
    ("TokenRequestStatus", &["expirationTimestamp"]),
    ("VolumeError", &["time"]),
];

/// Times of conditions, which Go never omits.
const CONDITION_TIMES: [&str; 4] = [
    "lastHeartbeatTime",
    "lastProbeTime",
    "lastTransitionTime",
    "lastUpdateTime",
];

/// Returns the last part of a schema's name: the name of the Go struct.
pub(super) fn struct_name(schema: &str) -> &str {
    schema.rsplit('.').next().unwrap_or("")
}

fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('\t').collect())
}

/// Returns the rows of `merge-rules.tsv`: schema, member (empty for the schema itself), and the
/// five extensions.
pub(super) fn merge_rules() -> impl Iterator<Item = Vec<&'static str>> {
    rows(include_str!("merge-rules.tsv"))
}

/// Returns the rows of `defaults.tsv`: schema, member, and the default as JSON.
pub(super) fn defaults() -> impl Iterator<Item = Vec<&'static str>> {
    rows(include_str!("defaults.tsv"))
}

/// Adds all rules to the schemas.
pub(super) fn add(schemas: &mut Map<String, Value>) {
    for row in merge_rules() {
        let Some(field) = field(schemas, row[0], row[1]) else {
            continue;
        };
        for (extension, text) in MERGE.into_iter().zip(&row[2..]) {
            match *text {
                "" => {}
                keys if extension == LIST_KEYS => {
                    field[extension] = keys.split(',').collect::<Vec<_>>().into();
                }
                text => field[extension] = text.into(),
            }
        }
    }
    for row in defaults() {
        if let Some(field) = field(schemas, row[0], row[1]) {
            field["default"] = serde_json::from_str(row[2]).expect("the table contains JSON");
        }
    }
    for (full_name, schema) in schemas.iter_mut() {
        let_members_be_absent(struct_name(full_name), schema);
    }
    add_values(schemas);
}

/// Returns a schema, or one of its members; `None` if the schema is not served.
fn field<'s>(
    schemas: &'s mut Map<String, Value>,
    schema: &str,
    member: &str,
) -> Option<&'s mut Value> {
    let schema = schemas.get_mut(schema)?;
    match member {
        "" => Some(schema),
        member => schema.get_mut("properties")?.get_mut(member),
    }
}

fn add_values(schemas: &mut Map<String, Value>) {
    let lines = include_str!("values.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (of, member) = words
            .next()
            .and_then(|name| name.split_once('.'))
            .unwrap_or_default();
        let values: Value = words.map(|value| value.trim_matches('"')).collect();
        for (full_name, schema) in schemas.iter_mut() {
            let properties = schema.get_mut("properties");
            if struct_name(full_name) == of
                && let Some(property) = properties.and_then(|all| all.get_mut(member))
            {
                let property = match property["type"] == "array" {
                    true => &mut property["items"],
                    false => property,
                };
                property["enum"] = values.clone();
            }
        }
    }
    let described = "/io.k8s.api.apps.v1.DeploymentStrategy/properties/type/description";
    let mut all = Value::Object(std::mem::take(schemas));
    if let Some(Value::String(description)) = all.pointer_mut(described) {
        description.push_str(DESCRIBED);
    }
    if let Value::Object(all) = all {
        *schemas = all;
    }
}

/// Makes the metadata and some names optional. The types that the schemas are generated from always
/// have these members, even where upstream's documents do not require them.
fn let_members_be_absent(name: &str, schema: &mut Value) {
    let Some(Value::Array(required)) = schema.get_mut("required") else {
        return;
    };
    let may_lack_name = WITHOUT_NAME.contains(&name);
    required.retain(|member| member != "metadata" && !(may_lack_name && member == "name"));
    if let (true, Value::Object(members)) = (required.is_empty(), schema) {
        members.remove("required");
    }
}

/// Returns the fields of a struct that Go writes even if they are empty, and their empty values.
pub(super) fn written<'s>(full_name: &str, schema: &'s Value) -> Vec<(&'s str, Value)> {
    let name = struct_name(full_name);
    let required = |member: &str| {
        let required = schema["required"].as_array();
        required.is_some_and(|all| all.iter().any(|it| it == member))
    };
    let nulls = NULLS.iter().find(|(of, _)| *of == name);
    let is_null = |member: &str| {
        nulls.is_some_and(|(_, members)| members.contains(&member))
            || name.ends_with("Condition") && CONDITION_TIMES.contains(&member)
    };
    let is_stated = |member: &str| {
        STATED.contains(&(name, member)) || member == "name" && WITHOUT_NAME.contains(&name)
    };
    let empty = |(member, property): (&'s String, &'s Value)| {
        let default = property.get("default");
        let zero = default.filter(|value| {
            let is_zero = **value == json!({}) || **value == "" || **value == 0;
            (is_zero || **value == false) && !is_stated(member)
        });
        let is_list = property["type"] == "array" || property.get("additionalProperties").is_some();
        match zero {
            Some(zero) => Some((member.as_str(), zero.clone())),
            None if is_null(member) || default.is_none() && is_list && required(member) => {
                Some((member.as_str(), Value::Null))
            }
            None => None,
        }
    };
    super::properties(schema).filter_map(empty).collect()
}
