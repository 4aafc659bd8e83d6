//! The columns in which `kubectl get` prints objects.
//!
//! Source: `pkg/printers/internalversion/printers.go` of Kubernetes 1.36; descriptions as its server
//! sends them.

mod pod;

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Now, Time};

/// A column of a Table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading.
    pub name: &'static str,
    /// What it shows, in a sentence.
    pub description: &'static str,
    /// 0 for what is always printed, 1 for what `-o wide` adds.
    pub priority: i32,
    /// What an object has in it.
    pub cell: Cell,
}

/// What an object has in a column.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// Its name.
    Name,
    /// How long it has existed.
    Age,
    /// The text at a JSON pointer; `<none>` where there is none.
    Text(&'static str),
    /// The whole number at a JSON pointer; 0 where there is none.
    Number(&'static str),
    /// What this function makes of the object's JSON.
    Of(fn(&Value, Now) -> Value),
}

impl Column {
    /// The names of objects.
    pub const NAME: Column = Column {
        name: "Name",
        description: "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
        priority: 0,
        cell: Cell::Name,
    };

    /// How long objects have existed.
    pub const AGE: Column = Column {
        name: "Age",
        description: "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        priority: 0,
        cell: Cell::Age,
    };

    /// The columns of kinds that have none of their own.
    pub const USUAL: &'static [Column] = &[Column::NAME, CREATED];

    const fn new(name: &'static str, description: &'static str, cell: Cell) -> Column {
        Column {
            name,
            description,
            priority: 0,
            cell,
        }
    }

    /// As [`new`](Column::new), printed by `-o wide` alone.
    const fn wide(name: &'static str, description: &'static str, cell: Cell) -> Column {
        Column {
            priority: 1,
            ..Column::new(name, description, cell)
        }
    }

    /// `type` of the column's definition.
    pub const fn kind(&self) -> &'static str {
        match self.cell {
            Cell::Number(_) => "integer",
            _ => "string",
        }
    }

    /// `format` of the column's definition.
    pub const fn format(&self) -> &'static str {
        match self.cell {
            Cell::Name => "name",
            _ => "",
        }
    }
}

const CREATED: Column = Column {
    name: "Created At",
    cell: Cell::Text("/metadata/creationTimestamp"),
    ..Column::AGE
};

impl Cell {
    /// What the object of this JSON has in the column.
    pub fn of(&self, object: &Value, now: Now) -> Value {
        match self {
            Cell::Name => object["metadata"]["name"].clone(),
            Cell::Age => since(&object["metadata"]["creationTimestamp"], now).into(),
            Cell::Text(pointer) => or_none(object.pointer(pointer)),
            Cell::Number(pointer) => number(object, pointer).into(),
            Cell::Of(cell) => cell(object, now),
        }
    }
}

/// A text, or `<none>`.
fn or_none(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) if !text.is_empty() => text.clone().into(),
        _ => "<none>".into(),
    }
}

fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn items<'v>(object: &'v Value, pointer: &str) -> impl DoubleEndedIterator<Item = &'v Value> {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.into_iter().flatten()
}

/// The time since a timestamp, in the short form; `<unknown>` without one.
fn since(at: &Value, now: Now) -> String {
    let at = at.as_str().and_then(|text| text.parse::<Time>().ok());
    match at.and_then(|at| at.unix_nanos()) {
        Some(at) => age(now.wall_ns.saturating_sub(at) / 1_000_000_000),
        None => "<unknown>".to_owned(),
    }
}

/// A duration of so many seconds in the short form: `5s`, `3m10s`, `2d4h`, `3y20d`.
///
/// Source: `duration.HumanDuration` of apimachinery.
fn age(seconds: i64) -> String {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    const YEAR: i64 = 365 * DAY;
    // Two units where the smaller one still matters.
    let two = |big: i64, big_unit: char, small: i64, small_unit: char| {
        let (whole, rest) = (seconds / big, seconds % big / small);
        match rest {
            0 => format!("{whole}{big_unit}"),
            rest => format!("{whole}{big_unit}{rest}{small_unit}"),
        }
    };
    match seconds {
        i64::MIN..=-2 => "<invalid>".to_owned(),
        -1 => "0s".to_owned(),
        0..120 => format!("{seconds}s"),
        120..600 => two(MINUTE, 'm', 1, 's'),
        600..10_800 => format!("{}m", seconds / MINUTE),
        10_800..28_800 => two(HOUR, 'h', MINUTE, 'm'),
        28_800..172_800 => format!("{}h", seconds / HOUR),
        172_800..691_200 => two(DAY, 'd', HOUR, 'h'),
        691_200..63_072_000 => format!("{}d", seconds / DAY),
        63_072_000..252_288_000 => two(YEAR, 'y', DAY, 'd'),
        _ => format!("{}y", seconds / YEAR),
    }
}

/// The containers of a pod template by name or image, with commas.
fn containers(object: &Value, member: &str) -> Value {
    let all = items(object, "/spec/template/spec/containers");
    let texts: Vec<&str> = all.filter_map(|one| one[member].as_str()).collect();
    texts.join(",").into()
}

/// A map of labels as `kubectl -l` takes it.
fn pairs(map: &Value) -> Value {
    let pairs = map.as_object().into_iter().flatten();
    let texts: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("")))
        .collect();
    match texts.is_empty() {
        true => "<none>".into(),
        false => texts.join(",").into(),
    }
}

/// A label selector as `kubectl -l` takes it.
fn selector(selector: &Value) -> Value {
    let mut text = String::new();
    if let Value::String(labels) = pairs(&selector["matchLabels"])
        && labels != "<none>"
    {
        text = labels;
    }
    for part in items(selector, "/matchExpressions") {
        let (key, values) = (part["key"].as_str().unwrap_or(""), items(part, "/values"));
        let values: Vec<&str> = values.filter_map(Value::as_str).collect();
        let comma = if text.is_empty() { "" } else { "," };
        let _ = match part["operator"].as_str().unwrap_or("") {
            "In" => write!(text, "{comma}{key} in ({})", values.join(",")),
            "NotIn" => write!(text, "{comma}{key} notin ({})", values.join(",")),
            "Exists" => write!(text, "{comma}{key}"),
            _ => write!(text, "{comma}!{key}"),
        };
    }
    match text.is_empty() {
        true => "<none>".into(),
        false => text.into(),
    }
}

pub(super) const POD: &[Column] = pod::COLUMNS;

pub(super) const NAMESPACE: &[Column] = &[
    Column::NAME,
    Column::new(
        "Status",
        "The status of the namespace",
        Cell::Text("/status/phase"),
    ),
    Column::AGE,
];

pub(super) const REPLICA_SET: &[Column] = &[
    Column::NAME,
    DESIRED,
    CURRENT,
    READY,
    Column::AGE,
    CONTAINERS,
    IMAGES,
    Column::wide(
        "Selector",
        "Selector is a label query over pods that should match the replica count. Label keys and values that must match in order to be controlled by this replica set. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        Cell::Of(|object, _| selector(&object["spec"]["selector"])),
    ),
];

pub(super) const REPLICATION_CONTROLLER: &[Column] = &[
    Column::NAME,
    DESIRED,
    CURRENT,
    READY,
    Column::AGE,
    CONTAINERS,
    IMAGES,
    Column::wide(
        "Selector",
        "Selector is a label query over pods that should match the Replicas count. If Selector is empty, it is defaulted to the labels present on the Pod template. Label keys and values that must match in order to be controlled by this replication controller, if empty defaulted to labels on Pod template. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
        Cell::Of(|object, _| pairs(&object["spec"]["selector"])),
    ),
];

const DESIRED: Column = Column::new(
    "Desired",
    "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    Cell::Number("/spec/replicas"),
);
const CURRENT: Column = Column::new(
    "Current",
    "Replicas is the most recently observed number of non-terminating pods. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    Cell::Number("/status/replicas"),
);
const READY: Column = Column::new(
    "Ready",
    "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
    Cell::Number("/status/readyReplicas"),
);
const CONTAINERS: Column = Column::wide(
    "Containers",
    "Names of each container in the template.",
    Cell::Of(|object, _| containers(object, "name")),
);
const IMAGES: Column = Column::wide(
    "Images",
    "Images referenced by each container in the template.",
    Cell::Of(|object, _| containers(object, "image")),
);

pub(super) const NODE: &[Column] = &[
    Column::NAME,
    Column::new("Status", "The status of the node", Cell::Of(node_status)),
    Column::new("Roles", "The roles of the node", Cell::Of(node_roles)),
    Column::AGE,
    Column::new(
        "Version",
        "Kubelet Version reported by the node.",
        Cell::Of(|node, _| {
            node["status"]["nodeInfo"]["kubeletVersion"]
                .as_str()
                .unwrap_or("")
                .into()
        }),
    ),
    Column::wide(
        "Internal-IP",
        ADDRESSES,
        Cell::Of(|node, _| node_address(node, "InternalIP")),
    ),
    Column::wide(
        "External-IP",
        ADDRESSES,
        Cell::Of(|node, _| node_address(node, "ExternalIP")),
    ),
    Column::wide(
        "OS-Image",
        "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).",
        Cell::Of(|node, _| or_unknown(&node["status"]["nodeInfo"]["osImage"])),
    ),
    Column::wide(
        "Kernel-Version",
        "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
        Cell::Of(node_kernel),
    ),
    Column::wide(
        "Container-Runtime",
        "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
        Cell::Of(|node, _| or_unknown(&node["status"]["nodeInfo"]["containerRuntimeVersion"])),
    ),
];

const ADDRESSES: &str = "List of addresses reachable to the node. Queried from cloud provider, if available. More info: https://kubernetes.io/docs/reference/node/node-status/#addresses Note: This field is declared as mergeable, but the merge key is not sufficiently unique, which can cause data corruption when it is merged. Callers should instead use a full-replacement patch. See https://pr.k8s.io/79391 for an example. Consumers should assume that addresses can change during the lifetime of a Node. However, there are some exceptions where this may not be possible, such as Pods that inherit a Node's address in its own status or consumers of the downward API (status.hostIP).";

fn node_status(node: &Value, _: Now) -> Value {
    let ready = items(node, "/status/conditions").find(|condition| condition["type"] == "Ready");
    let mut text = match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if node["spec"]["unschedulable"] == true {
        text.push_str(",SchedulingDisabled");
    }
    text.into()
}

fn node_roles(node: &Value, _: Now) -> Value {
    const LABEL: &str = "node-role.kubernetes.io/";
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix(LABEL) {
            Some("") => None,
            None if key == "kubernetes.io/role" => value.as_str().filter(|role| !role.is_empty()),
            role => role,
        })
        .collect();
    roles.sort_unstable();
    match roles.is_empty() {
        true => "<none>".into(),
        false => roles.join(",").into(),
    }
}

fn node_address(node: &Value, kind: &str) -> Value {
    let mut all = items(node, "/status/addresses");
    or_none(
        all.find(|address| address["type"] == kind)
            .map(|address| &address["address"]),
    )
}

fn node_kernel(node: &Value, _: Now) -> Value {
    let info = &node["status"]["nodeInfo"];
    match (
        or_unknown(&info["kernelVersion"]),
        info["architecture"].as_str(),
    ) {
        (Value::String(kernel), Some(architecture)) if !architecture.is_empty() => {
            format!("{kernel} ({architecture})").into()
        }
        (kernel, _) => kernel,
    }
}

fn or_unknown(value: &Value) -> Value {
    match value.as_str().unwrap_or("") {
        "" => "<unknown>".into(),
        text => text.into(),
    }
}

pub(super) const EVENT: &[Column] = &[
    Column::new(
        "Last Seen",
        "The time at which the most recent occurrence of this event was recorded.",
        Cell::Of(|event, now| event_time(event, "lastTimestamp", now)),
    ),
    Column::new(
        "Type",
        "Type of this event (Normal, Warning), new types could be added in the future",
        Cell::Of(|event, _| event["type"].as_str().unwrap_or("").into()),
    ),
    Column::new(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
        Cell::Of(|event, _| event["reason"].as_str().unwrap_or("").into()),
    ),
    Column::new(
        "Object",
        "The object that this event is about.",
        Cell::Of(event_object),
    ),
    Column::wide(
        "Subobject",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
        Cell::Of(|event, _| {
            event["involvedObject"]["fieldPath"]
                .as_str()
                .unwrap_or("")
                .into()
        }),
    ),
    Column::wide(
        "Source",
        "The component reporting this event. Should be a short machine understandable string.",
        Cell::Of(event_source),
    ),
    Column::new(
        "Message",
        "A human-readable description of the status of this operation.",
        Cell::Of(|event, _| event["message"].as_str().unwrap_or("").trim().into()),
    ),
    Column::wide(
        "First Seen",
        "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)",
        Cell::Of(|event, now| event_time(event, "firstTimestamp", now)),
    ),
    Column::wide(
        "Count",
        "The number of times this event has occurred.",
        Cell::Of(event_count),
    ),
    Column {
        priority: 1,
        ..Column::NAME
    },
];

fn event_time(event: &Value, member: &str, now: Now) -> Value {
    let at = [&event[member], &event["eventTime"]];
    let at = at.into_iter().find(|at| at.is_string());
    since(at.unwrap_or(&Value::Null), now).into()
}

fn event_object(event: &Value, _: Now) -> Value {
    let about = &event["involvedObject"];
    let kind = about["kind"].as_str().unwrap_or("").to_lowercase();
    match about["name"].as_str().unwrap_or("") {
        "" => kind.into(),
        name => format!("{kind}/{name}").into(),
    }
}

fn event_source(event: &Value, _: Now) -> Value {
    let source = &event["source"];
    let component = source["component"]
        .as_str()
        .or_else(|| event["reportingComponent"].as_str());
    let host = source["host"]
        .as_str()
        .or_else(|| event["reportingInstance"].as_str());
    match (component.unwrap_or(""), host.unwrap_or("")) {
        (component, "") => component.into(),
        (component, host) => format!("{component}, {host}").into(),
    }
}

fn event_count(event: &Value, _: Now) -> Value {
    match number(event, "/count") {
        0 if event["series"].is_object() => number(event, "/series/count").into(),
        0 => 1.into(),
        count => count.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_one_unit_or_two() {
        const DAY: i64 = 86_400;
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (190, "3m10s"),
            (600, "10m"),
            (3 * 3600 - 1, "179m"),
            (3 * 3600, "3h"),
            (7 * 3600 + 120, "7h2m"),
            (8 * 3600 + 120, "8h"),
            (2 * DAY + 3600, "2d1h"),
            (8 * DAY + 3600, "8d"),
            (2 * 365 * DAY + DAY, "2y1d"),
            (8 * 365 * DAY, "8y"),
        ] {
            assert_eq!(age(seconds), text, "{seconds}");
        }
    }
}
