//! Pods of a dump that can't become ready: images that can't be pulled, containers that crash, pods
//! that no node can take. A simulated cluster can't resolve the cause, so it leaves these pods
//! unchanged.
//!
//! If no pod of a workload is ready, its new pods probably fail the same way, so they get the same
//! status. If some of its pods are ready, the template works, and new pods start.

use std::sync::Arc;

use ahash::RandomState;
use compact_str::{CompactString, format_compact};
use hashbrown::{HashMap, HashSet};
use podstorm_objects::{
    ConditionStatus, ConditionType, ContainerDetails, ContainerStatus, ContainerStatuses,
    PackedTime, Pod, PodCondition, PodPhase, PodStatus, Str, Time, Uid, hash_state,
};
use serde_json::Value;

/// The maximum length of a reason, in characters.
const REASON_CHARS: usize = 60;

/// The waiting reasons of containers that will start by themselves.
const PASSING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The message of Kubernetes' scheduler for full nodes. Pod capacity is simulated; other resources
/// and rules are not.
const NO_PLACE: &str = "Too many pods";

/// The pods of a dump that can't become ready, and their workloads.
#[derive(Debug)]
pub struct StuckPods {
    pods: HashSet<Uid, RandomState>,
    /// By namespace, then by `KIND/NAME` of the controller: a workload keeps its name when it is
    /// deleted and recreated.
    workloads: HashMap<Str, HashMap<CompactString, Workload, RandomState>, RandomState>,
}

/// A workload with stuck pods.
#[derive(Debug)]
struct Workload {
    reason: CompactString,
    /// The status of the workload's new pods; `None` if some of its pods are ready.
    status: Option<PodStatus>,
}

impl StuckPods {
    /// Returns the stuck pods of a dump, or `None` if there are none. O(pods).
    pub fn among<'a>(pods: impl Iterator<Item = &'a Pod> + Clone) -> Option<StuckPods> {
        let mut stuck = StuckPods {
            pods: HashSet::with_hasher(hash_state()),
            workloads: HashMap::with_hasher(hash_state()),
        };
        for pod in pods.clone() {
            let Some(reason) = problem(pod) else {
                continue;
            };
            stuck.pods.insert(pod.metadata.uid.clone());
            let Some(name) = workload_name(pod) else {
                continue;
            };
            let namespace = pod.metadata.namespace.clone();
            let of_namespace = stuck.workloads.entry(namespace);
            let of_namespace = of_namespace.or_insert_with(|| HashMap::with_hasher(hash_state()));
            of_namespace.entry(name).or_insert_with(|| Workload {
                reason,
                status: Some(pod.status.clone()),
            });
        }
        if stuck.pods.is_empty() {
            return None;
        }
        for pod in pods.filter(|pod| pod.is_active() && pod.is_ready()) {
            if let Some(workload) = stuck.workload_mut(pod) {
                workload.status = None;
            }
        }
        Some(stuck)
    }

    fn workload_mut(&mut self, pod: &Pod) -> Option<&mut Workload> {
        let of_namespace = self.workloads.get_mut(&pod.metadata.namespace)?;
        of_namespace.get_mut(&workload_name(pod)?)
    }

    fn workload(&self, pod: &Pod) -> Option<&Workload> {
        let of_namespace = self.workloads.get(&pod.metadata.namespace)?;
        of_namespace.get(&workload_name(pod)?)
    }

    /// Reports whether the pod was stuck in the dump, or is a new pod of a workload whose pods were
    /// all stuck.
    pub fn holds(&self, pod: &Pod) -> bool {
        self.pods.contains(&pod.metadata.uid) || self.status_of(pod).is_some()
    }

    /// Reports whether the pod is stuck without a node.
    pub(super) fn keeps_from_nodes(&self, pod: &Pod) -> bool {
        self.pods.contains(&pod.metadata.uid)
            || self.status_of(pod).is_some_and(PodStatus::waits_for_node)
    }

    /// Returns the status of the new pods of the pod's workload, if all of its pods are stuck.
    fn status_of(&self, pod: &Pod) -> Option<&PodStatus> {
        self.workload(pod)?.status.as_ref()
    }

    /// Returns the status that the kubelet writes for a bound pod that it can't start; `None` for a
    /// pod that was stuck in the dump or already has this status.
    pub(super) fn written(&self, live: &Pod, now: Time) -> Option<PodStatus> {
        let is_new = !self.pods.contains(&live.metadata.uid)
            && live.status.conditions.first(ConditionType::Ready).is_none();
        let model = self.status_of(live).filter(|_| is_new)?;
        let mut status = live.status.clone();
        status.phase = model.phase;
        status.container_statuses = since(&model.container_statuses, now);
        let init = model.init_container_statuses.as_ref();
        status.init_container_statuses = init.map(|init| Box::new(since(init, now)));
        for condition in model.conditions.iter() {
            // The pod is bound, so it has been scheduled. The kubelet does not own the other
            // conditions.
            if !matches!(
                condition.kind,
                ConditionType::PodScheduled | ConditionType::Other
            ) {
                status.conditions.push(PodCondition {
                    last_transition_time: PackedTime::new(now),
                    ..condition
                });
            }
        }
        // Without this condition, the kubelet has not written anything yet.
        if status.conditions.first(ConditionType::Ready).is_none() {
            status
                .conditions
                .set(ConditionType::Ready, ConditionStatus::False, now);
        }
        Some(status)
    }

    /// Returns the reason why pods of a workload can't become ready, such as `ImagePullBackOff`;
    /// `None` if none of its pods is stuck.
    pub fn reason(&self, namespace: &str, kind: &str, name: &str) -> Option<&str> {
        let of_namespace = self.workloads.get(namespace)?;
        let workload = of_namespace.get(&format_compact!("{kind}/{name}"))?;
        Some(&workload.reason)
    }

    /// Reports whether new pods of the workload can't become ready either.
    pub fn holds_new(&self, namespace: &str, kind: &str, name: &str) -> bool {
        let of_namespace = self.workloads.get(namespace);
        let name = format_compact!("{kind}/{name}");
        let workload = of_namespace.and_then(|of_namespace| of_namespace.get(&name));
        workload.is_some_and(|workload| workload.status.is_some())
    }
}

/// Returns the reason why an active pod can't become ready by itself, with the image if that is the
/// cause: `ImagePullBackOff of web:2`. Returns `None` if the pod is ready, terminating or still
/// starting, according to its status.
pub fn problem(pod: &Pod) -> Option<CompactString> {
    let obstacle = obstacle(pod)?;
    if !obstacle.contains("Image") {
        return Some(obstacle);
    }
    let failing = containers(pod).find(|container| failure(container).is_some());
    let specs = pod.spec.init_containers.iter().chain(&pod.spec.containers);
    let image = failing.and_then(|failing| {
        let mut specs = specs.filter(|spec| spec.name == failing.name);
        specs.next().map(|spec| &*spec.image)
    });
    Some(match image {
        Some(image) => format_compact!("{obstacle} of {image}"),
        None => obstacle,
    })
}

/// Returns the reason why an active pod isn't ready, similar to the STATUS column of `kubectl get
/// pods`.
pub fn why_unready(pod: &Pod) -> CompactString {
    obstacle(pod).unwrap_or_else(|| match &pod.node_name {
        None => "Pending without a node".into(),
        Some(_) => containers(pod)
            .find_map(waits_for)
            .unwrap_or_else(|| "Pending".into()),
    })
}

/// Returns the workload of a pod: `ReplicaSet/web`. `None` without a controller.
fn workload_name(pod: &Pod) -> Option<CompactString> {
    let owner = pod.metadata.controller()?;
    Some(format_compact!("{}/{}", owner.kind, owner.name))
}

/// Returns the statuses as if the containers had entered their states now and had never restarted.
fn since(containers: &ContainerStatuses, now: Time) -> ContainerStatuses {
    let now = PackedTime::new(now);
    let containers = containers.iter().map(|container| ContainerStatus {
        restart_count: 0,
        details: container.details.as_ref().map(|details| {
            let runs = !details.running_since.get().is_unset();
            Arc::new(ContainerDetails {
                running_since: if runs { now } else { details.running_since },
                ..ContainerDetails::clone(details)
            })
        }),
        ..container.clone()
    });
    containers.collect()
}

trait Unbound {
    /// Reports whether this is the status of a pod without a node.
    fn waits_for_node(&self) -> bool;
}

impl Unbound for PodStatus {
    fn waits_for_node(&self) -> bool {
        let scheduled = self.conditions.first(ConditionType::PodScheduled);
        scheduled.is_some_and(|(status, _)| status == ConditionStatus::False)
    }
}

/// Returns the reason why an active pod can't become ready, without the image: `CrashLoopBackOff`,
/// `Unschedulable`.
fn obstacle(pod: &Pod) -> Option<CompactString> {
    let status = &pod.status;
    if !pod.is_active() || pod.is_ready() {
        return None;
    }
    let waits = matches!(status.phase, PodPhase::Pending | PodPhase::Unset);
    if waits && pod.node_name.is_none() {
        if pod.spec.is_gated {
            return Some("SchedulingGated".into());
        }
        if let Some(scheduler) = &pod.spec.scheduler_name {
            return Some(format_compact!("waits for the scheduler {scheduler}"));
        }
        let mut conditions = status.conditions.iter();
        let refused = conditions.find(|condition| {
            condition.kind == ConditionType::PodScheduled
                && condition.status == ConditionStatus::False
        })?;
        let text = |member| refused.rest.get(member);
        let message = text("message").unwrap_or_default();
        let has_no_place = message.as_str().is_some_and(|it| it.contains(NO_PLACE));
        return (!has_no_place).then(|| match text("reason") {
            Some(Value::String(reason)) => shown(&reason),
            _ => "Unschedulable".into(),
        });
    }
    let reason = reason(pod);
    match waits {
        true => reason,
        // The pod is running but has not become ready.
        false => Some(reason.unwrap_or_else(|| "Running".into())),
    }
}

/// Returns the reason in the statuses of the pod's containers, or else in the status of the pod.
fn reason(pod: &Pod) -> Option<CompactString> {
    let own = pod.status.rest.get("reason");
    let own = own.as_ref().and_then(Value::as_str).map(shown);
    own.or_else(|| containers(pod).find_map(failure))
}

/// Returns the statuses of the init containers, then those of the other containers.
fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = &pod.status;
    let init = status.init_container_statuses.iter();
    let init = init.flat_map(|containers| containers.iter());
    init.chain(status.container_statuses.iter())
}

/// Returns the waiting reason in the status of a container; `None` if it does not wait.
fn waits_for(container: &ContainerStatus) -> Option<CompactString> {
    let state = container.details.as_ref()?.rest.get("state")?;
    let reason = state["waiting"]["reason"].as_str()?;
    (!reason.is_empty()).then(|| shown(reason))
}

/// Returns the reason why a container doesn't run: its waiting reason, or its failure.
fn failure(container: &ContainerStatus) -> Option<CompactString> {
    let waiting = waits_for(container).filter(|reason| !PASSING.contains(&reason.as_str()));
    waiting.or_else(|| {
        let state = container.details.as_ref()?.rest.get("state")?;
        let ended = &state["terminated"];
        let has_failed = ended["exitCode"].as_i64().is_some_and(|code| code != 0);
        has_failed.then(|| shown(ended["reason"].as_str().unwrap_or("Error")))
    })
}

fn shown(reason: &str) -> CompactString {
    reason.chars().take(REASON_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use podstorm_objects::Resource;
    use serde_json::json;

    use super::*;

    fn pod(name: &str, owner: &str, spec: Value, status: Value) -> Pod {
        let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner,
            "uid": "u", "controller": true}]);
        let mut spec = spec;
        spec["containers"] = json!([{"name": "c", "image": "i"}]);
        Pod::from_json(json!({
            "metadata": {"name": name, "namespace": "n", "uid": name, "ownerReferences": owner},
            "spec": spec,
            "status": status,
        }))
        .unwrap()
    }

    fn waiting(phase: &str, reason: &str) -> Value {
        json!({"phase": phase, "conditions": [{"type": "Ready", "status": "False"}],
            "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false,
                "restartCount": 7, "state": {"waiting": {"reason": reason}}}]})
    }

    fn refused(message: &str) -> Value {
        json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": message}]})
    }

    fn ready() -> Value {
        json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})
    }

    #[test]
    fn a_pod_is_stuck_by_the_reason_in_its_status() {
        let bound = json!({"nodeName": "node-1"});
        let free = json!({});
        let init = |reason: &str| json!({"phase": "Pending", "initContainerStatuses": waiting("", reason)["containerStatuses"]});
        let ended = json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "i",
            "imageID": "", "ready": false, "restartCount": 1,
            "state": {"terminated": {"exitCode": 2, "reason": "OOMKilled"}}}]});
        for (spec, status, expected) in [
            (
                &bound,
                waiting("Running", "CrashLoopBackOff"),
                "CrashLoopBackOff",
            ),
            (
                &bound,
                waiting("Pending", "ImagePullBackOff"),
                "ImagePullBackOff",
            ),
            (&bound, waiting("Pending", "ContainerCreating"), ""),
            (&bound, init("CrashLoopBackOff"), "CrashLoopBackOff"),
            (&bound, init("PodInitializing"), ""),
            (&bound, ended, "OOMKilled"),
            (&bound, json!({"phase": "Running"}), "Running"),
            (&bound, json!({"phase": "Pending"}), ""),
            (&bound, json!({"phase": "Failed", "reason": "Evicted"}), ""),
            (&bound, ready(), ""),
            (
                &free,
                refused("0/3 nodes are available: 3 Insufficient cpu."),
                "Unschedulable",
            ),
            (
                &free,
                refused("0/3 nodes are available: 3 Too many pods."),
                "",
            ),
            (&free, json!({"phase": "Pending"}), ""),
            (
                &json!({"schedulingGates": [{"name": "g"}]}),
                json!({"phase": "Pending"}),
                "SchedulingGated",
            ),
        ] {
            let found = obstacle(&pod("a", "web", spec.clone(), status.clone()));
            assert_eq!(found.unwrap_or_default(), expected, "{spec} {status}");
        }
    }

    #[test]
    fn new_pods_of_a_workload_are_stuck_unless_one_is_ready() {
        let bound = || json!({"nodeName": "node-1"});
        let bad = || waiting("Pending", "ErrImagePull");
        let pods = [
            pod("a", "bad", bound(), bad()),
            pod("b", "half", bound(), bad()),
            pod("c", "half", bound(), ready()),
            pod("d", "good", bound(), ready()),
            pod(
                "e",
                "nowhere",
                json!({}),
                refused("0/1: 1 Insufficient memory."),
            ),
        ];
        let stuck = StuckPods::among(pods.iter()).unwrap();
        let holds = |pod: &Pod| (stuck.holds(pod), stuck.keeps_from_nodes(pod));
        assert_eq!(
            pods.each_ref().map(|pod| stuck.holds(pod)),
            [true, true, false, false, true]
        );
        let new = |owner: &str| pod("new", owner, bound(), json!({"phase": "Pending"}));
        assert_eq!(holds(&new("bad")), (true, false));
        assert_eq!(holds(&new("half")), (false, false));
        assert_eq!(holds(&new("good")), (false, false));
        assert_eq!(holds(&new("nowhere")), (true, true));
        assert_eq!(
            stuck.reason("n", "ReplicaSet", "half"),
            Some("ErrImagePull of i")
        );
        assert_eq!(stuck.reason("n", "ReplicationController", "half"), None);
        assert!(stuck.holds_new("n", "ReplicaSet", "bad"));
        assert!(!stuck.holds_new("n", "ReplicaSet", "half"));

        let now = Time::from_unix_seconds(1_800_000_000);
        let written = stuck.written(&new("bad"), now).unwrap();
        let container = &written.container_statuses[0];
        assert_eq!((container.restart_count, container.ready), (0, false));
        assert_eq!(failure(container).as_deref(), Some("ErrImagePull"));
        let live = Pod {
            status: written,
            ..new("bad")
        };
        assert_eq!(
            stuck.written(&live, now),
            None,
            "the status is written once"
        );
        assert_eq!(
            stuck.written(&pods[0], now),
            None,
            "a pod of the dump is unchanged"
        );
        assert!(StuckPods::among(pods[2..4].iter()).is_none());
    }
}
