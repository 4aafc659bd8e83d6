//! The values that ranking needs for each pod, in one cache line.

use podstorm_objects::{Pod, PodPhase, Time, Uid};

use super::cost::{DELETION_COST_ANNOTATION, deletion_cost};

/// The ranking fields of a pod, computed when the pod enters the cache. They contain everything
/// that the rules read from the pod itself. The number of related pods on the pod's node is looked
/// up by the node's number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankFields {
    /// The values for rules 1 to 4, smaller first; see the constants below. The low 28 bits are
    /// zero.
    pub(super) prefix: u64,
    /// When the pod became ready; unset if it is not ready.
    pub(super) ready_time: Time,
    pub(super) creation_time: Time,
    /// The maximum restart count of the containers in the high half, that of the sidecars in the
    /// low half. Rule 7 deletes the pod with the larger number first.
    pub(super) restarts: u64,
    pub(super) uid: Uid,
    node: u32,
}

/// The position of the bit that marks a pod with a node.
pub(super) const SCHEDULED_SHIFT: u32 = 63;
/// The position of the two bits for the phase: 0 pending or unrecognized, 1 `Unknown`, 2 running.
pub(super) const PHASE_SHIFT: u32 = 61;
/// The position of the bit that marks a ready pod.
pub(super) const READY_SHIFT: u32 = 60;
/// The position of the 32 bits for the deletion cost, which is shifted to compare as unsigned.
pub(super) const COST_SHIFT: u32 = 28;
/// The bits of the deletion cost.
pub(super) const COST_MASK: u64 = (u32::MAX as u64) << COST_SHIFT;

// Go's zero time: the year 1.
const ZERO_TIME: Time = Time::from_unix_seconds(-62_135_596_800);

// A pod's fields are read together, so they must fit into one cache line.
const _: () = assert!(size_of::<RankFields>() <= 64);

impl RankFields {
    /// Computes the fields of a pod. `node` is the dense number that the caller assigns to the
    /// pod's node; 0 if the pod has none. Parses the annotation and walks over the container
    /// statuses once. Allocates nothing.
    #[inline]
    pub fn from_pod(pod: &Pod, node: u32) -> RankFields {
        let annotation = pod.metadata.annotations.get(DELETION_COST_ANNOTATION);
        let cost = deletion_cost(annotation.map(|text| &**text)).unwrap_or(0);
        RankFields::with_cost(pod, node, cost)
    }

    /// Computes the fields of `new`, the next version of the pod `old` that has these fields. Does
    /// not compute values again that can't have changed.
    #[inline]
    pub fn next(&self, old: &Pod, new: &Pod, node: u32) -> RankFields {
        if old.metadata.annotations.is_same(&new.metadata.annotations) {
            RankFields::with_cost(new, node, self.deletion_cost())
        } else {
            RankFields::from_pod(new, node)
        }
    }

    fn with_cost(pod: &Pod, node: u32, cost: i32) -> RankFields {
        let scheduled = pod
            .node_name
            .as_deref()
            .is_some_and(|name| !name.is_empty());
        let ready = pod.is_ready();
        RankFields {
            prefix: u64::from(scheduled) << SCHEDULED_SHIFT
                | phase_ordinal(pod.status.phase) << PHASE_SHIFT
                | u64::from(ready) << READY_SHIFT
                | u64::from(cost as u32 ^ 0x8000_0000) << COST_SHIFT,
            ready_time: normalized(pod.ready_time()),
            creation_time: normalized(pod.metadata.creation_timestamp),
            restarts: container_restarts(pod) << 32 | sidecar_restarts(pod),
            uid: pod.metadata.uid.clone(),
            node,
        }
    }

    /// Returns the number that the caller assigned to the pod's node; 0 if the pod has none.
    #[inline]
    pub fn node(&self) -> u32 {
        self.node
    }

    /// Returns the pod's UID.
    pub fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Reports whether the pod has a node.
    #[inline]
    pub fn is_scheduled(&self) -> bool {
        self.prefix >> SCHEDULED_SHIFT & 1 == 1
    }

    /// Returns 0 for pending pods and unrecognized phases, 1 for `Unknown`, 2 for running pods.
    pub fn phase_ordinal(&self) -> u8 {
        (self.prefix >> PHASE_SHIFT & 3) as u8
    }

    /// Reports whether the pod is ready, whatever its phase is.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.prefix >> READY_SHIFT & 1 == 1
    }

    /// Returns the deletion cost; 0 if it is absent or invalid.
    pub fn deletion_cost(&self) -> i32 {
        ((self.prefix >> COST_SHIFT) as u32 ^ 0x8000_0000) as i32
    }

    /// Returns the time at which the pod became ready; unset if it is not ready or has no such
    /// time.
    pub fn ready_time(&self) -> Time {
        self.ready_time
    }

    /// Returns the creation time of the pod; unset if it has none.
    pub fn creation_time(&self) -> Time {
        self.creation_time
    }

    /// Returns the maximum restart count of the pod's containers.
    #[inline]
    pub fn container_restarts(&self) -> u32 {
        (self.restarts >> 32) as u32
    }

    /// Returns the maximum restart count of the sidecars: init containers that are always
    /// restarted.
    pub fn sidecar_restarts(&self) -> u32 {
        self.restarts as u32
    }
}

fn phase_ordinal(phase: PodPhase) -> u64 {
    match phase {
        PodPhase::Unknown => 1,
        PodPhase::Running => 2,
        PodPhase::Unset
        | PodPhase::Pending
        | PodPhase::Succeeded
        | PodPhase::Failed
        | PodPhase::Other => 0,
    }
}

fn normalized(time: Time) -> Time {
    if time == ZERO_TIME { Time::UNSET } else { time }
}

/// Returns the maximum restart count. Counts all statuses, even those without a container in the
/// spec.
fn container_restarts(pod: &Pod) -> u64 {
    most(
        pod.status
            .container_statuses
            .iter()
            .map(|status| status.restart_count),
    )
}

fn sidecar_restarts(pod: &Pod) -> u64 {
    most(pod.sidecar_statuses().map(|status| status.restart_count))
}

fn most(counts: impl Iterator<Item = i32>) -> u64 {
    counts
        .max()
        .map_or(0, |count| u64::from(count.max(0).unsigned_abs()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use podstorm_objects::{ConditionStatus, ConditionType, ContainerStatus, Labels, PodSpec};

    fn status(name: &str, restart_count: i32) -> ContainerStatus {
        ContainerStatus {
            name: name.into(),
            restart_count,
            ready: true,
            details: None,
        }
    }

    #[test]
    fn fields_return_the_values_of_the_pod() {
        let mut pod = Pod {
            node_name: Some("a".into()),
            ..Pod::default()
        };
        pod.metadata.annotations = Labels::from_pairs([(DELETION_COST_ANNOTATION, "-12")]);
        pod.metadata.uid = "u1".into();
        pod.metadata.creation_timestamp = Time::from_unix_seconds(40);
        let spec = r#"{"initContainers": [{"name": "mesh", "restartPolicy": "Always"}]}"#;
        let spec = serde_json::from_str(spec).expect("an object");
        pod.spec = Arc::new(PodSpec::from_json(spec).expect("a spec"));
        pod.status.phase = PodPhase::Running;
        let since = Time::from_unix_seconds(50);
        let conditions = &mut pod.status.conditions;
        conditions.set(ConditionType::Ready, ConditionStatus::True, since);
        pod.status
            .container_statuses
            .extend([status("a", 2), status("b", 5), status("c", -3)]);
        pod.status.init_container_statuses = Some(Box::new(
            [status("mesh", 4), status("setup", 9)]
                .into_iter()
                .collect(),
        ));

        let fields = RankFields::from_pod(&pod, 3);
        assert_eq!(fields.node(), 3);
        assert_eq!(fields.uid(), &Uid::new("u1"));
        assert!(fields.is_scheduled());
        assert!(fields.is_ready());
        assert_eq!(fields.phase_ordinal(), 2);
        assert_eq!(fields.deletion_cost(), -12);
        assert_eq!(fields.ready_time(), Time::from_unix_seconds(50));
        assert_eq!(fields.creation_time(), Time::from_unix_seconds(40));
        assert_eq!(fields.container_restarts(), 5);
        assert_eq!(fields.sidecar_restarts(), 4);
    }

    #[test]
    fn an_empty_pod_is_pending_unscheduled_and_costs_nothing() {
        let mut pod = Pod {
            node_name: Some("".into()),
            ..Pod::default()
        };
        pod.status.phase = PodPhase::Other;
        pod.metadata.creation_timestamp = ZERO_TIME;
        let fields = RankFields::from_pod(&pod, 0);
        assert!(!fields.is_scheduled());
        assert!(!fields.is_ready());
        assert_eq!((fields.phase_ordinal(), fields.deletion_cost()), (0, 0));
        assert!(fields.creation_time().is_unset());
        assert_eq!(fields.restarts, 0);
    }
}
