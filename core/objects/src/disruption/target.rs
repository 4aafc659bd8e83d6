//! The condition `DisruptionTarget` of pods: set when a pod is about to be evicted, and reset if
//! the pod was not deleted.

use crate::{ConditionStatus, ConditionType, Now, Pod, PodCondition, PodConditions, Rest};

/// The time within which the deletion of an evicted pod must begin, in ns.
///
/// Source: `DeletionTimeout` in Kubernetes' `pkg/controller/disruption`.
pub const DELETION_TIMEOUT_NS: i64 = 120 * 1_000_000_000;

/// The type of the condition.
const DISRUPTION_TARGET: &str = "DisruptionTarget";

/// The reason of a condition set by a kubelet, which is never reset.
const BY_KUBELET: &str = "TerminationByKubelet";

fn is_target(condition: &PodCondition) -> bool {
    condition.kind == ConditionType::Other
        && condition
            .rest
            .get("type")
            .is_some_and(|kind| kind == DISRUPTION_TARGET)
}

/// Returns when the condition of a pod becomes stale, in ns since the epoch: the condition
/// announces a disruption, but the deletion has not begun. `None` if the pod has no such condition,
/// is being deleted or has ended.
///
/// Source: `nonTerminatingPodHasStaleDisruptionCondition` in Kubernetes'
/// `pkg/controller/disruption`.
pub fn stale_from_ns(pod: &Pod) -> Option<i64> {
    let conditions = &pod.status.conditions;
    // Checked before any text is read, because few pods have a condition of another type.
    conditions.first(ConditionType::Other)?;
    if !pod.is_active() {
        return None;
    }
    let condition = conditions.iter().find(is_target)?;
    let by_kubelet = |reason: serde_json::Value| reason == BY_KUBELET;
    if condition.status != ConditionStatus::True
        || condition.rest.get("reason").is_some_and(by_kubelet)
    {
        return None;
    }
    let since_ns = condition.last_transition_time.get().unix_nanos();
    Some(
        since_ns
            .unwrap_or(i64::MIN)
            .saturating_add(DELETION_TIMEOUT_NS),
    )
}

/// Returns the pod with the condition that an eviction sets.
pub fn evicted(pod: &Pod, now: Now) -> Pod {
    let members = [
        ("reason", "EvictionByEvictionAPI"),
        ("message", "Eviction API: evicting"),
    ];
    with_condition(pod, ConditionStatus::True, &members, now)
}

/// Returns the pod with the condition that the scheduler sets on a pod that it preempts.
pub fn preempted(pod: &Pod, now: Now) -> Pod {
    let members = [
        ("reason", "PreemptionByScheduler"),
        (
            "message",
            "default-scheduler: preempting to accommodate a higher priority pod",
        ),
    ];
    with_condition(pod, ConditionStatus::True, &members, now)
}

/// Returns the pod with the condition reset, because the pod was not deleted in time.
pub fn spared(pod: &Pod, now: Now) -> Pod {
    with_condition(pod, ConditionStatus::False, &[], now)
}

/// Returns the pod with the condition set. Its transition time changes only with its status.
fn with_condition(pod: &Pod, status: ConditionStatus, members: &[(&str, &str)], now: Now) -> Pod {
    let mut rest = Rest::NONE.with("type", DISRUPTION_TARGET);
    for (name, text) in members {
        rest = rest.with(name, *text);
    }
    let mut condition = PodCondition {
        kind: ConditionType::Other,
        status,
        last_transition_time: now.wall().into(),
        rest,
    };
    let mut conditions: Vec<PodCondition> = pod.status.conditions.iter().collect();
    match conditions.iter_mut().find(|before| is_target(before)) {
        Some(before) => {
            if before.status == status {
                condition.last_transition_time = before.last_transition_time;
            }
            *before = condition;
        }
        None => conditions.push(condition),
    }
    let mut new = pod.clone();
    new.status.conditions = PodConditions::from_iter(conditions);
    new
}
