//! Changes of a pod's status: the pod is unschedulable, its images can't be pulled, its containers
//! restart, it ends, its node becomes unreachable.

use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm_apiserver::Cluster;
use podstorm_objects::{
    ConditionStatus, ConditionType, ContainerDetails, ContainerStatus, Now, PackedTime, Pod,
    PodCondition, PodPhase, PodStatus, Rest, Time,
};
use serde_json::{Value, json};

use super::pod_life::back_off_pulling;

/// The maximum number of attempts at a status write. After a conflict, another client has written
/// the pod since it was read.
pub(super) const STATUS_ATTEMPTS: usize = 5;

/// Changes the status of a pod. `change` receives the stored pod with the same UID and returns the
/// new status, or `None` to keep the stored one. It is called again after a conflict. Returns
/// whether the status was written.
pub(super) fn change_status(
    cluster: &Cluster,
    pod: &Pod,
    now: Now,
    mut change: impl FnMut(&Pod) -> Option<PodStatus>,
) -> bool {
    let meta = &pod.metadata;
    for _ in 0..STATUS_ATTEMPTS {
        let live: Result<Arc<Pod>, ApiError> = cluster.get(&meta.namespace, &meta.name);
        let Some(live) = live.ok().filter(|live| live.metadata.uid == meta.uid) else {
            return false;
        };
        let Some(status) = change(&live) else {
            return false;
        };
        let mut new = Pod::clone(&live);
        new.status = status;
        match cluster.update_status(new, now) {
            Err(error) if error.code == 409 => {}
            written => return written.is_ok(),
        }
    }
    false
}

/// Returns the status of a pod on an unreachable node: not ready, with the previous reason.
pub(super) fn unreachable(status: &PodStatus, now: Time) -> PodStatus {
    let mut status = status.clone();
    status.conditions.update(|condition| {
        if condition.kind == ConditionType::Ready && condition.status != ConditionStatus::False {
            condition.status = ConditionStatus::False;
            condition.last_transition_time = PackedTime::new(now);
        }
    });
    status
}

/// Returns the status with the pod and all its containers ready.
pub(super) fn recovered(status: &PodStatus, now: Time) -> PodStatus {
    let mut status = status.clone();
    for container in &mut status.container_statuses {
        container.ready = true;
    }
    for kind in [ConditionType::Ready, ConditionType::ContainersReady] {
        status.conditions.set(kind, ConditionStatus::True, now);
    }
    status
}

/// Returns the status with the container of this index restarted and not ready yet; `None` if there
/// is no such container.
pub(super) fn restarted(status: &PodStatus, container: usize, now: Time) -> Option<PodStatus> {
    let mut status = status.clone();
    let restarted = status.container_statuses.get_mut(container)?;
    restarted.restart_count = restarted.restart_count.saturating_add(1);
    restarted.ready = false;
    if let Some(details) = &restarted.details {
        let details = ContainerDetails {
            running_since: PackedTime::new(now),
            ..ContainerDetails::clone(details)
        };
        restarted.details = Some(Arc::new(details));
    }
    for kind in [ConditionType::Ready, ConditionType::ContainersReady] {
        status.conditions.set(kind, ConditionStatus::False, now);
    }
    Some(status)
}

/// Returns the status of a pod that has ended in the given phase.
pub(super) fn ended(status: &PodStatus, phase: PodPhase, now: Time) -> PodStatus {
    let mut status = status.clone();
    status.phase = phase;
    for container in &mut status.container_statuses {
        container.ready = false;
    }
    for kind in [ConditionType::Ready, ConditionType::ContainersReady] {
        // A pod that never started has neither condition.
        if status.conditions.iter().any(|found| found.kind == kind) {
            status.conditions.set(kind, ConditionStatus::False, now);
        }
    }
    status
}

/// The reason for which a full node rejects a pod.
pub(super) const OUT_OF_PODS: &str = "OutOfpods";

/// Returns the message with which a node without room for another pod rejects one.
pub(super) fn no_place(places: u32) -> String {
    format!(
        "Node didn't have enough resource: pods, requested: 1, used: {places}, capacity: {places}"
    )
}

/// Returns the status of a pod that its node rejects. Of the stored status, only conditions that
/// the kubelet does not own are kept.
pub(super) fn rejected(live: &Pod, reason: &str, message: &str, now: Time) -> PodStatus {
    let rest = live.status.rest.with("reason", reason);
    let message = format!("Pod was rejected: {message}");
    let rest = rest.with("message", message);
    let rest = rest.with("startTime", now.to_string());
    let rest = match live.metadata.generation {
        0 => rest,
        generation => rest.with("observedGeneration", generation),
    };
    let conditions = live.status.conditions.iter();
    let foreign = conditions.filter(|it| it.kind == ConditionType::Other);
    PodStatus {
        phase: PodPhase::Failed,
        conditions: foreign.collect(),
        rest,
        ..PodStatus::default()
    }
}

/// Returns the status of an unschedulable pod; `None` if the pod is bound or a condition already
/// has this message.
pub(super) fn unschedulable(live: &Pod, message: &str, now: Time) -> Option<PodStatus> {
    let told = |condition: PodCondition| condition.rest.get("message") == Some(json!(message));
    if live.node_name.is_some() || live.status.conditions.iter().any(told) {
        return None;
    }
    let mut status = live.status.clone();
    let kind = ConditionType::PodScheduled;
    put(
        &mut status,
        condition(kind, false, "Unschedulable", message, now),
    );
    Some(status)
}

/// Returns the status of a pod that is nominated to a node, or to no node if the name is empty.
/// `told` is the status after another change, if there is one. Returns `None` if nothing changes.
pub(super) fn nominated(live: &Pod, told: Option<PodStatus>, node: &str) -> Option<PodStatus> {
    let known = live.status.rest.get(NOMINATED);
    let known = known.as_ref().and_then(Value::as_str).unwrap_or("");
    if known == node || live.node_name.is_some() {
        return told;
    }
    let mut status = told.unwrap_or_else(|| live.status.clone());
    status.rest = match node {
        "" => status.rest.without(NOMINATED),
        node => status.rest.with(NOMINATED, node),
    };
    Some(status)
}

/// The status member with the node to which a pod is nominated after preemption.
pub(super) const NOMINATED: &str = "nominatedNodeName";

/// Returns the status of a pod that waits for images that `unpullable` selects; `None` if all its
/// images can be pulled or the status already shows the failure.
pub(super) fn not_pulled(
    live: &Pod,
    unpullable: impl Fn(&str) -> bool,
    now: Time,
) -> Option<PodStatus> {
    let containers = &live.spec.containers;
    let mut status = live.status.clone();
    let waiting = containers.iter().map(|container| {
        let image = &container.image;
        let state = match unpullable(image) {
            true => json!({"waiting": {"reason": "ImagePullBackOff", "message":
                back_off_pulling(image)}}),
            false => json!({"waiting": {"reason": "ContainerCreating"}}),
        };
        let rest = json!({"image": &**image, "imageID": "", "lastState": {}, "started": false,
            "state": state});
        let rest = rest
            .as_object()
            .expect("the status is a JSON object")
            .clone();
        ContainerStatus {
            name: container.name.clone(),
            restart_count: 0,
            ready: false,
            details: Some(Arc::new(ContainerDetails {
                id: None,
                running_since: PackedTime::new(Time::UNSET),
                rest: rest.into(),
            })),
        }
    });
    status.container_statuses = waiting.collect();
    let failing = containers.iter().any(|it| unpullable(&it.image));
    if !failing || status.container_statuses == live.status.container_statuses {
        return None;
    }
    let names: Vec<&str> = containers.iter().map(|it| &*it.name).collect();
    let message = format!("containers with unready status: [{}]", names.join(" "));
    for kind in [ConditionType::Ready, ConditionType::ContainersReady] {
        put(
            &mut status,
            condition(kind, false, "ContainersNotReady", &message, now),
        );
    }
    Some(status)
}

/// Returns the `terminated` state of a container; `None` if it has not ended.
fn termination(container: &ContainerStatus) -> Option<Value> {
    let details = container.details.as_ref()?;
    if !details.running_since.get().is_unset() {
        return None;
    }
    let state = details.rest.get("state")?;
    state.get("terminated").filter(|it| it.is_object()).cloned()
}

/// Reports whether the pod's status shows a regular container that has ended.
pub(super) fn has_ended_container(pod: &Pod) -> bool {
    let mut containers = pod.status.container_statuses.iter();
    containers.any(|container| termination(container).is_some())
}

/// Returns the status with the condition `DisruptionTarget`, for a pod that is about to be deleted
/// because of its node.
pub(super) fn disrupted(status: &PodStatus, reason: &str, message: &str, now: Time) -> PodStatus {
    let mut status = status.clone();
    let mut condition = condition(ConditionType::Other, true, reason, message, now);
    condition.rest = condition.rest.with("type", "DisruptionTarget");
    status.conditions.push(condition);
    status
}

fn condition(
    kind: ConditionType,
    holds: bool,
    reason: &str,
    message: &str,
    now: Time,
) -> PodCondition {
    PodCondition {
        kind,
        status: match holds {
            true => ConditionStatus::True,
            false => ConditionStatus::False,
        },
        last_transition_time: PackedTime::new(now),
        rest: Rest::NONE.with("reason", reason).with("message", message),
    }
}

/// Sets a condition, and replaces the existing one of the same type. The transition time stays the
/// same if the condition's status does.
fn put(status: &mut PodStatus, condition: PodCondition) {
    let mut new = Some(condition);
    status.conditions.update(|found| {
        if let Some(mut new) = new.take_if(|new| new.kind == found.kind) {
            if new.status == found.status && !found.last_transition_time.get().is_unset() {
                new.last_transition_time = found.last_transition_time;
            }
            *found = new;
        }
    });
    if let Some(new) = new {
        status.conditions.push(new);
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{Object, Resource};
    use serde_json::{Value, json};

    use super::*;

    fn running() -> PodStatus {
        let since = "2026-01-01T00:00:00Z";
        let condition =
            |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": since});
        let container = |name: &str| {
            json!({"name": name, "image": "x", "imageID": "", "ready": true, "restartCount": 2,
                   "state": {"running": {"startedAt": since}}})
        };
        let value: Value = json!({
            "metadata": {"name": "p", "namespace": "n"},
            "status": {"phase": "Running", "qosClass": "BestEffort",
                "conditions": [condition("Ready"), condition("ContainersReady")],
                "containerStatuses": [container("a"), container("b")]},
        });
        Pod::from_json(value).unwrap().status
    }

    fn ready(status: &PodStatus) -> (ConditionStatus, i64) {
        let mut all = status.conditions.iter();
        let found = all.find(|found| found.kind == ConditionType::Ready);
        let found = found.unwrap();
        let since = found.last_transition_time.get().unix_seconds();
        (found.status, since.unwrap())
    }

    const LATER: i64 = 1_800_000_000;

    #[test]
    fn a_restarted_container_is_not_ready_until_it_recovers() {
        let now = Time::from_unix_seconds(LATER);
        let status = restarted(&running(), 1, now).unwrap();
        let counts = |status: &PodStatus| -> Vec<(i32, bool)> {
            let all = status.container_statuses.iter();
            all.map(|one| (one.restart_count, one.ready)).collect()
        };
        assert_eq!(counts(&status), [(2, true), (3, false)]);
        assert_eq!(ready(&status), (ConditionStatus::False, LATER));
        let details = status.container_statuses[1].details.as_ref().unwrap();
        assert_eq!(details.running_since, PackedTime::new(now));
        let status = recovered(&status, Time::from_unix_seconds(LATER + 5));
        assert_eq!(counts(&status), [(2, true), (3, true)]);
        assert_eq!(ready(&status), (ConditionStatus::True, LATER + 5));
        assert_eq!(restarted(&status, 2, now), None);
    }

    #[test]
    fn unchanged_conditions_keep_their_time() {
        let status = running();
        let again = recovered(&status, Time::from_unix_seconds(LATER));
        assert_eq!(again, status);
    }

    #[test]
    fn a_waiting_pod_keeps_its_time_and_updates_its_reason() {
        let at = |seconds: i64| Time::from_unix_seconds(LATER + seconds);
        let mut pod = Pod::default();
        pod.status = unschedulable(&pod, "full", at(0)).unwrap();
        assert_eq!(unschedulable(&pod, "full", at(5)), None);
        pod.status = unschedulable(&pod, "cordoned", at(9)).unwrap();
        let condition = pod.to_json()["status"]["conditions"][0].clone();
        assert_eq!(condition["message"], "cordoned");
        assert_eq!(condition["lastTransitionTime"], at(0).to_string());
    }

    #[test]
    fn an_ended_pod_is_not_ready() {
        let now = Time::from_unix_seconds(LATER);
        let status = ended(&running(), PodPhase::Failed, now);
        assert_eq!(status.phase, PodPhase::Failed);
        assert_eq!(ready(&status), (ConditionStatus::False, LATER));
        assert_eq!(status.rest.to_map()["qosClass"], "BestEffort");
        let never_up = ended(&PodStatus::default(), PodPhase::Succeeded, now);
        assert!(never_up.conditions.is_empty() && never_up.rest.is_empty());
    }
}
