//! The state that a kubelet reports about its node: the status, and the labels and annotations of a
//! node that the kubelet registers.
//!
//! Source: Kubernetes' `pkg/kubelet/kubelet_node_status.go` and `pkg/kubelet/nodestatus/setters.go`.

use podstorm_objects::{Map, Node, Time};
use serde_json::{Value, json};

use super::rules::NodeSize;
use super::scheduler::DEFAULT_PODS_PER_NODE;
use super::status::node_address;

/// A node condition in its normal state.
struct Normal {
    of_type: &'static str,
    status: &'static str,
    reason: &'static str,
    message: &'static str,
    /// The reason of the Event that reports the change to this state.
    event: &'static str,
}

/// The conditions that a kubelet reports, in order.
const CONDITIONS: [Normal; 4] = [
    Normal {
        of_type: "MemoryPressure",
        status: "False",
        reason: "KubeletHasSufficientMemory",
        message: "kubelet has sufficient memory available",
        event: "NodeHasSufficientMemory",
    },
    Normal {
        of_type: "DiskPressure",
        status: "False",
        reason: "KubeletHasNoDiskPressure",
        message: "kubelet has no disk pressure",
        event: "NodeHasNoDiskPressure",
    },
    Normal {
        of_type: "PIDPressure",
        status: "False",
        reason: "KubeletHasSufficientPID",
        message: "kubelet has sufficient PID available",
        event: "NodeHasSufficientPID",
    },
    Normal {
        of_type: "Ready",
        status: "True",
        reason: "KubeletReady",
        message: "kubelet is posting ready status",
        event: "NodeReady",
    },
];

/// The annotation of nodes to which a controller attaches volumes.
const ATTACHED: &str = "volumes.kubernetes.io/controller-managed-attach-detach";

/// A node status, as a kubelet computes it.
#[derive(Debug)]
pub(super) struct Computed {
    /// The status, with current heartbeats.
    pub(super) status: Map,
    /// Whether it differs from the node's stored status in more than heartbeats.
    pub(super) is_changed: bool,
    /// The reasons of Events for changed conditions.
    pub(super) events: Vec<&'static str>,
}

/// Computes the status that a node's kubelet reports now. For a node whose kubelet has never
/// reported, missing members are filled in, with `size` as the node's size, and missing and
/// `Unknown` conditions are set to normal. For any other node, only `Unknown` conditions become
/// normal: other clients have changed the rest on purpose.
pub(super) fn compute(node: &Node, size: &NodeSize, now: Time) -> Computed {
    let name = &node.metadata.name;
    let mut status = node.status.clone();
    let mut is_changed = false;
    let is_first = !has_reported(node);
    let mut fill = |member: &str, value: Value| {
        if is_first && status.get(member).is_none_or(Value::is_null) {
            status.insert(member.into(), value);
            is_changed = true;
        }
    };
    let pods = node.pods_allocatable.unwrap_or(DEFAULT_PODS_PER_NODE);
    fill("capacity", capacity(size, pods));
    fill(
        "addresses",
        json!([{"type": "InternalIP", "address": node_address(name)},
            {"type": "Hostname", "address": name.as_str()}]),
    );
    fill(
        "daemonEndpoints",
        json!({"kubeletEndpoint": {"Port": 10250}}),
    );
    fill(
        "nodeInfo",
        json!({"kubeletVersion": "v1.36.2", "operatingSystem": "linux", "architecture": "amd64",
            "osImage": "simulated", "kernelVersion": "", "containerRuntimeVersion": "podstorm://1",
            "kubeProxyVersion": "", "bootID": "", "machineID": "", "systemUUID": ""}),
    );
    let all = status.get("capacity").cloned().unwrap_or_default();
    if is_first && status.get("allocatable").is_none_or(Value::is_null) {
        status.insert("allocatable".into(), all);
        is_changed = true;
    }
    let entry = status.entry("conditions").or_insert_with(|| json!([]));
    if !entry.is_array() {
        *entry = json!([]);
    }
    let conditions = entry.as_array_mut().expect("conditions are a list");
    let at = now.to_string();
    let mut events = Vec::new();
    for normal in CONDITIONS {
        let found = conditions
            .iter_mut()
            .find(|it| it["type"] == normal.of_type);
        if let Some(found) =
            found.filter(|found| found["status"] == "True" || found["status"] == "False")
        {
            found["lastHeartbeatTime"] = at.as_str().into();
            continue;
        }
        let reported = json!({"type": normal.of_type, "status": normal.status,
            "reason": normal.reason, "message": normal.message,
            "lastHeartbeatTime": at, "lastTransitionTime": at});
        let place = conditions
            .iter()
            .position(|it| it["type"] == normal.of_type);
        match place {
            Some(place) => conditions[place] = reported,
            None if is_first => conditions.push(reported),
            None => continue,
        }
        is_changed = true;
        events.push(normal.event);
    }
    Computed {
        status,
        is_changed,
        events,
    }
}

/// Reports whether a node's kubelet has ever reported, which means that the node has the condition
/// `Ready`.
pub(super) fn has_reported(node: &Node) -> bool {
    let conditions = node.status.get("conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == "Ready")
}

/// Returns the time of the last heartbeat in the node's status; unset if there was none.
pub(super) fn reported_at(node: &Node) -> Time {
    let conditions = node.status.get("conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let text = ready.and_then(|ready| ready["lastHeartbeatTime"].as_str());
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn capacity(size: &NodeSize, pods: u32) -> Value {
    let NodeSize { cpu, memory } = size;
    json!({"cpu": cpu, "memory": memory, "ephemeral-storage": "1Ti", "pods": pods.to_string()})
}

/// Adds the missing labels and the missing annotation that a kubelet registers. Returns whether
/// anything was missing.
pub(super) fn label(node: &mut Node) -> bool {
    let name = node.metadata.name.clone();
    let labels = [
        ("kubernetes.io/hostname", name.as_str()),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
    ];
    let meta = &mut node.metadata;
    let mut is_changed = false;
    for (label, value) in labels {
        if meta.labels.get(label).is_none() {
            meta.labels = meta.labels.with(label, value);
            is_changed = true;
        }
    }
    for label in ["os", "arch"] {
        let older = format!("beta.kubernetes.io/{label}");
        let value = meta.labels.get(&format!("kubernetes.io/{label}"));
        if let Some(value) = value.cloned()
            && meta.labels.get(&older).is_none()
        {
            meta.labels = meta.labels.with(&older, &value);
            is_changed = true;
        }
    }
    if meta.annotations.get(ATTACHED).is_none() {
        meta.annotations = meta.annotations.with(ATTACHED, "true");
        is_changed = true;
    }
    is_changed
}

/// Returns a newly registered node with `pods` as its capacity, and the reasons of the Events for
/// its conditions.
pub(super) fn registered(
    name: &str,
    size: &NodeSize,
    pods: u32,
    now: Time,
) -> (Node, Vec<&'static str>) {
    let mut node = Node::default();
    node.metadata.name = name.into();
    label(&mut node);
    node.pods_allocatable = Some(pods);
    let computed = compute(&node, size, now);
    node.status = computed.status;
    (node, computed.events)
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{Object, Resource};

    use super::*;

    const NOW: Time = Time::from_unix_seconds(1_800_000_000);

    #[test]
    fn a_registered_node_has_a_complete_status() {
        let size = NodeSize {
            cpu: "500m".to_owned(),
            memory: "2Gi".to_owned(),
        };
        let (node, events) = registered("node-1", &size, 7, NOW);
        let json = node.to_json();
        assert_eq!(
            json["metadata"]["labels"]["beta.kubernetes.io/arch"],
            "amd64"
        );
        assert_eq!(json["metadata"]["annotations"][ATTACHED], "true");
        let status = &json["status"];
        assert_eq!(status["allocatable"], status["capacity"]);
        let has = json!({"cpu": "500m", "memory": "2Gi", "ephemeral-storage": "1Ti", "pods": "7"});
        assert_eq!(status["allocatable"], has);
        assert_eq!(status["addresses"][0]["address"], "10.0.0.2");
        let conditions = status["conditions"].as_array().unwrap();
        let types: Vec<&Value> = conditions.iter().map(|it| &it["type"]).collect();
        assert_eq!(
            types,
            ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        );
        assert_eq!(conditions[3]["message"], "kubelet is posting ready status");
        let all = [
            "NodeHasSufficientMemory",
            "NodeHasNoDiskPressure",
            "NodeHasSufficientPID",
            "NodeReady",
        ];
        assert_eq!(events, all);
        // Later, the kubelet has only heartbeats to report.
        let later = Time::from_unix_seconds(1_800_000_300);
        let again = compute(&node, &size, later);
        assert!(!again.is_changed && again.events.is_empty());
        let ready = &again.status["conditions"][3];
        assert_eq!(ready["lastHeartbeatTime"], later.to_string());
        assert_eq!(ready["lastTransitionTime"], NOW.to_string());
    }

    #[test]
    fn existing_values_stay_unless_they_are_unknown() {
        let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"},
            "conditions": [{"type": "Ready", "status": "False", "reason": "Broken"},
                {"type": "MemoryPressure", "status": "Unknown", "reason": "NodeStatusUnknown"},
                {"type": "NetworkUnavailable", "status": "Unknown"}]}});
        let node = Node::from_json(node).unwrap();
        let computed = compute(&node, &NodeSize::default(), NOW);
        assert!(computed.is_changed);
        assert_eq!(computed.events, ["NodeHasSufficientMemory"]);
        let conditions = computed.status["conditions"].as_array().unwrap();
        let reasons: Vec<&Value> = conditions.iter().map(|it| &it["reason"]).collect();
        let all = [
            &json!("Broken"),
            &json!("KubeletHasSufficientMemory"),
            &Value::Null,
        ];
        assert_eq!(reasons, all);
        assert_eq!(conditions[2].get("lastHeartbeatTime"), None);
        assert_eq!(computed.status.get("allocatable"), None);
        assert_eq!(reported_at(&node), Time::UNSET);
        assert!(has_reported(&node) && !has_reported(&Node::default()));
        assert!(
            !compute(
                &Node {
                    status: computed.status,
                    ..node
                },
                &NodeSize::default(),
                NOW
            )
            .is_changed
        );
    }

    #[test]
    fn the_first_report_keeps_a_clients_values() {
        let node = json!({"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "1"},
            "conditions": [{"type": "DiskPressure", "status": "True", "reason": "Full"}]}});
        let computed = compute(&Node::from_json(node).unwrap(), &NodeSize::default(), NOW);
        assert_eq!(computed.status["allocatable"], json!({"cpu": "1"}));
        assert_eq!(computed.status["conditions"][0]["reason"], "Full");
        assert_eq!(computed.events.len(), 3);
        assert_eq!(computed.status["addresses"][1]["address"], "n");
    }
}
