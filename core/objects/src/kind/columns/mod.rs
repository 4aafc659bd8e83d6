//! The columns that `kubectl get` prints.
//!
//! Source: `pkg/printers/internalversion/printers.go` in Kubernetes 1.36. The descriptions are
//! those that kube-apiserver sends.

pub mod cells;
mod json_path;
mod pod;

use serde_json::Value;

use self::cells::{containers, items, number, or_none, pairs, selector, since, text};
use crate::{Now, Time};

pub use json_path::JsonPath;

/// A column of a Table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// The heading of the column.
    pub name: &'static str,
    /// The description.
    pub description: &'static str,
    /// The `type` in its definition, e.g. `string`. The cells may have another type.
    pub kind: &'static str,
    /// The `format` in its definition, e.g. `name`; empty if there is none.
    pub format: &'static str,
    /// 0 for columns that are always printed, 1 for those that `-o wide` adds.
    pub priority: i32,
    /// The source of the cells' content.
    pub cell: Cell,
}

/// The source of a cell's content.
#[derive(Clone, Copy, Debug)]
pub enum Cell {
    /// The object's name.
    Name,
    /// The object's age.
    Age,
    /// The text at a JSON pointer; `<none>` if there is none.
    Text(&'static str),
    /// The text at a JSON pointer; empty if there is none.
    TextOrEmpty(&'static str),
    /// The integer at a JSON pointer; 0 if there is none.
    Number(&'static str),
    /// The result of a function of the object's JSON.
    Of(fn(&Value, Now) -> Value),
    /// The first value at a path, shown as a column of this type. For custom kinds.
    At(&'static JsonPath, &'static str),
}

impl Column {
    /// The column with the names of the objects.
    pub const NAME: Column = Column {
        name: "Name",
        description: "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
        kind: "string",
        format: "name",
        priority: 0,
        cell: Cell::Name,
    };

    /// The column with the ages of the objects.
    pub const AGE: Column = Column {
        name: "Age",
        description: "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        kind: "string",
        format: "",
        priority: 0,
        cell: Cell::Age,
    };

    /// The default columns, for kinds that define none.
    pub const USUAL: &'static [Column] = &[Column::NAME, CREATED];

    /// Creates a column that is always printed.
    pub const fn new(name: &'static str, description: &'static str, cell: Cell) -> Column {
        let kind = match cell {
            Cell::Number(_) => "integer",
            _ => "string",
        };
        Column {
            name,
            description,
            kind,
            format: "",
            priority: 0,
            cell,
        }
    }

    /// Sets the `type`.
    pub const fn of_type(self, kind: &'static str) -> Column {
        Column { kind, ..self }
    }

    /// Creates a column that only `-o wide` prints; see [`new`](Column::new).
    pub const fn wide(name: &'static str, description: &'static str, cell: Cell) -> Column {
        Column {
            priority: 1,
            ..Column::new(name, description, cell)
        }
    }
}

const CREATED: Column = Column {
    name: "Created At",
    kind: "date",
    cell: Cell::Text("/metadata/creationTimestamp"),
    ..Column::AGE
};

impl Cell {
    /// Returns the content of an object's cell.
    pub fn value(&self, object: &Value, now: Now) -> Value {
        match self {
            Cell::Name => object["metadata"]["name"].clone(),
            Cell::Age => since(&object["metadata"]["creationTimestamp"], now).into(),
            Cell::Text(pointer) => or_none(object.pointer(pointer)),
            Cell::TextOrEmpty(pointer) => text(object, pointer).into(),
            Cell::Number(pointer) => number(object, pointer).into(),
            Cell::Of(cell) => cell(object, now),
            Cell::At(path, kind) => {
                let found = path.find(object);
                found
                    .first()
                    .map_or(Value::Null, |it| custom(it, kind, now))
            }
        }
    }
}

/// Converts a value for a column of type `kind`; null if the value has another type.
///
/// Source: `cellForJSONValue` in Kubernetes' `apiextensions-apiserver`.
fn custom(value: &Value, kind: &str, now: Now) -> Value {
    match (kind, value) {
        ("string", Value::String(_)) => value.clone(),
        ("string", Value::Null) => "".into(),
        ("string", other) => other.to_string().into(),
        ("integer", Value::Number(number)) => {
            // Truncates a fraction.
            let whole = number
                .as_i64()
                .or_else(|| number.as_f64().map(|it| it as i64));
            whole.map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => value.clone(),
        ("date", Value::String(text)) => match text.parse::<Time>() {
            Ok(_) => since(value, now).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
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
    Column {
        description: "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
        ..DESIRED
    },
    Column {
        description: "Replicas is the most recently observed number of replicas. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
        ..CURRENT
    },
    Column {
        description: "The number of ready replicas for this replication controller.",
        ..READY
    },
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
        Cell::TextOrEmpty("/status/nodeInfo/kubeletVersion"),
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
        Cell::TextOrEmpty("/type"),
    ),
    Column::new(
        "Reason",
        "This should be a short, machine understandable string that gives the reason for the transition into the object's current status.",
        Cell::TextOrEmpty("/reason"),
    ),
    Column::new(
        "Object",
        "The object that this event is about.",
        Cell::Of(event_object),
    ),
    Column::wide(
        "Subobject",
        "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement, such as desiredState.manifest.containers[2]. For example, if the object reference is to a container within a pod, this would take on a value like: \"spec.containers{name}\" (where \"name\" refers to the name of the container that triggered the event) or if no container name is specified \"spec.containers[2]\" (container with index 2 in this pod). This syntax is chosen only to have some well-defined way of referencing a part of an object.",
        Cell::TextOrEmpty("/involvedObject/fieldPath"),
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
