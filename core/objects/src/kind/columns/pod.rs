//! The columns of pods.

use serde_json::Value;

use super::cells::{items, number, or_none, since};
use super::{Cell, Column};
use crate::{Now, Time};

pub(super) const COLUMNS: &[Column] = &[
    Column::NAME,
    Column::new(
        "Ready",
        "The aggregate readiness state of this pod for accepting traffic.",
        Cell::Of(|pod, _| Summary::from_pod(pod).ready_text().into()),
    ),
    Column::new(
        "Status",
        "The aggregate status of the containers in this pod.",
        Cell::Of(|pod, _| Summary::from_pod(pod).reason.into()),
    ),
    Column::new(
        "Restarts",
        "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
        Cell::Of(|pod, now| Summary::from_pod(pod).restarts_text(now).into()),
    ),
    Column::AGE,
    Column::wide(
        "IP",
        "podIP address allocated to the pod. Routable at least within the cluster. Empty if not yet allocated.",
        Cell::Of(|pod, _| {
            let first = items(pod, "/status/podIPs")
                .next()
                .map(|address| &address["ip"]);
            or_none(first.or_else(|| pod.pointer("/status/podIP")))
        }),
    ),
    Column::wide(
        "Node",
        "NodeName indicates in which node this pod is scheduled. If empty, this pod is a candidate for scheduling by the scheduler defined in schedulerName. Once this field is set, the kubelet for this node becomes responsible for the lifecycle of this pod. This field should not be used to express a desire for the pod to be scheduled on a specific node. https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodename",
        Cell::Text("/spec/nodeName"),
    ),
    Column::wide(
        "Nominated Node",
        "nominatedNodeName is set only when this pod preempts other pods on the node, but it cannot be scheduled right away as preemption victims receive their graceful termination periods. This field does not guarantee that the pod will be scheduled on this node. Scheduler may decide to place the pod elsewhere if other nodes become available sooner. Scheduler may also decide to give the resources on this node to a higher priority pod that is created after preemption. As a result, this field may be different than PodSpec.nodeName when the pod is scheduled.",
        Cell::Text("/status/nominatedNodeName"),
    ),
    Column::wide(
        "Readiness Gates",
        "If specified, all readiness gates will be evaluated for pod readiness. A pod is ready when all its containers are ready AND all conditions specified in the readiness gates have status equal to \"True\" More info: https://git.k8s.io/enhancements/keps/sig-network/580-pod-readiness-gates",
        Cell::Of(gates),
    ),
];

/// The summary of a pod's containers.
///
/// Source: `printPod` in Kubernetes.
struct Summary {
    ready: usize,
    /// The number of containers that run as long as the pod does, including sidecars.
    total: usize,
    restarts: i64,
    /// When a container last ended before it was restarted.
    restarted: Option<Value>,
    reason: String,
}

impl Summary {
    fn from_pod(pod: &Value) -> Summary {
        let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
        let phase = text(&pod["status"]["phase"]);
        let mut summary = Summary {
            ready: 0,
            total: items(pod, "/spec/containers").count(),
            restarts: 0,
            restarted: None,
            reason: match text(&pod["status"]["reason"]) {
                reason if reason.is_empty() => phase.clone(),
                reason => reason,
            },
        };
        let gated = items(pod, "/status/conditions")
            .any(|it| it["type"] == "PodScheduled" && it["reason"] == "SchedulingGated");
        if gated {
            summary.reason = "SchedulingGated".into();
        }
        let initializing = summary.add_init(pod);
        if !initializing || is_true(pod, "Initialized") {
            summary.add_containers(pod);
        }
        if pod["metadata"]["deletionTimestamp"].is_string() {
            let lost = pod["status"]["reason"] == "NodeLost";
            if lost {
                summary.reason = "Unknown".into();
            } else if !["Failed", "Succeeded"].contains(&&*phase) {
                summary.reason = "Terminating".into();
            }
        }
        summary
    }

    /// Adds the init containers. Returns whether one of them has not ended yet.
    fn add_init(&mut self, pod: &Value) -> bool {
        let specs: Vec<&Value> = items(pod, "/spec/initContainers").collect();
        let is_sidecar = |name: &Value| {
            specs
                .iter()
                .any(|spec| spec["name"] == *name && spec["restartPolicy"] == "Always")
        };
        self.total += specs
            .iter()
            .filter(|spec| is_sidecar(&spec["name"]))
            .count();
        let mut restarts = 0;
        for (number_of, container) in items(pod, "/status/initContainerStatuses").enumerate() {
            let (state, sidecar) = (&container["state"], is_sidecar(&container["name"]));
            restarts += number(container, "/restartCount");
            self.note_restart(container);
            if sidecar {
                self.restarts += number(container, "/restartCount");
            }
            let ended = &state["terminated"];
            if ended.is_object() && number(ended, "/exitCode") == 0 {
                continue;
            }
            if sidecar && container["started"] == true {
                self.ready += usize::from(container["ready"] == true);
                continue;
            }
            let waiting = state["waiting"]["reason"].as_str().unwrap_or("");
            self.reason = match ended.is_object() {
                true => format!("Init:{}", ending(ended)),
                false if !waiting.is_empty() && waiting != "PodInitializing" => {
                    format!("Init:{waiting}")
                }
                false => format!("Init:{number_of}/{}", specs.len()),
            };
            self.restarts = restarts;
            return true;
        }
        false
    }

    fn add_containers(&mut self, pod: &Value) {
        let mut running = false;
        for container in items(pod, "/status/containerStatuses").rev() {
            let state = &container["state"];
            self.restarts += number(container, "/restartCount");
            self.note_restart(container);
            let waiting = state["waiting"]["reason"].as_str().unwrap_or("");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if state["terminated"].is_object() {
                self.reason = ending(&state["terminated"]);
            } else if container["ready"] == true && state["running"].is_object() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && running {
            self.reason = match is_true(pod, "Ready") {
                true => "Running".into(),
                false => "NotReady".into(),
            };
        }
    }

    fn note_restart(&mut self, container: &Value) {
        let at = &container["lastState"]["terminated"]["finishedAt"];
        let time = |value: &Value| {
            let text = value.as_str()?;
            text.parse::<Time>().ok()?.unix_nanos()
        };
        if time(at) > self.restarted.as_ref().and_then(time) {
            self.restarted = Some(at.clone());
        }
    }

    fn ready_text(&self) -> String {
        format!("{}/{}", self.ready, self.total)
    }

    fn restarts_text(&self, now: Now) -> String {
        match &self.restarted {
            Some(at) if self.restarts > 0 => {
                format!("{} ({} ago)", self.restarts, since(at, now))
            }
            _ => self.restarts.to_string(),
        }
    }
}

/// Returns one word for how a container ended.
fn ending(terminated: &Value) -> String {
    let reason = terminated["reason"].as_str().unwrap_or("");
    match number(terminated, "/signal") {
        _ if !reason.is_empty() => reason.to_owned(),
        0 => format!("ExitCode:{}", number(terminated, "/exitCode")),
        signal => format!("Signal:{signal}"),
    }
}

fn is_true(pod: &Value, condition: &str) -> bool {
    items(pod, "/status/conditions").any(|it| it["type"] == condition && it["status"] == "True")
}

fn gates(pod: &Value, _: Now) -> Value {
    let all: Vec<&Value> = items(pod, "/spec/readinessGates").collect();
    if all.is_empty() {
        return "<none>".into();
    }
    let holds = |gate: &&&Value| is_true(pod, gate["conditionType"].as_str().unwrap_or(""));
    format!("{}/{}", all.iter().filter(holds).count(), all.len()).into()
}
