//! Pods.

pub(super) mod warnings;

use std::sync::Arc;

use podstorm_objects::{
    ApiError, Cause, ConditionStatus, ConditionType, DecodeError, Kind, Map, Pod, PodCondition,
    PodConditions, PodPhase, PodSpec, PodStatus, Resource, Rest, Time, Warnings,
};
use serde_json::{Value, json};

use super::template;
use crate::defaulting::{default_pod, qos_class};
use crate::meta::share;
use crate::{Cluster, PodPart, Strategy, meta, validation};

pub(super) static WARNINGS: Warnings = Warnings {
    name: |name| template::name_warnings(name, "the Pod's hostname"),
    sent: Some(|pod| {
        let member = |name: &str| pod.get(name).unwrap_or(&Value::Null);
        warnings::of_pod(member("metadata"), member("spec"), "")
    }),
    ..Warnings::NONE
};

/// The field of a pod's status that its spec determines permanently.
const QOS_CLASS: &str = "qosClass";

/// Makes a pod's `podIP` and the first of its `podIPs` equal. If they differ, `podIP` wins.
///
/// Source: `pkg/apis/core/v1/conversion.go` of Kubernetes.
fn agree_on_addresses(status: &mut Map) {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or("").to_owned();
    let one = text(status.get("podIP"));
    let first = text(status.get("podIPs").and_then(|all| all.get(0)?.get("ip")));
    if one.is_empty() && !first.is_empty() {
        status.insert("podIP".to_owned(), first.into());
    } else if one != first {
        status.insert("podIPs".to_owned(), json!([{"ip": one}]));
    }
}

impl Strategy for Pod {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        let mut pod = value;
        if let Some(status) = pod.get_mut("status").and_then(Value::as_object_mut) {
            agree_on_addresses(status);
        }
        Self::from_json(pod)
    }

    fn prepare_for_create(&mut self) {
        self.status = pending_status(qos_rest(&self.spec));
    }

    fn admit_change(&mut self, cluster: &Cluster, old: &Self) -> Result<(), ApiError> {
        cluster.admit_changed_pod(self, old)
    }

    fn apply_ranges(&mut self, cluster: &Cluster) {
        cluster.apply_ranges(self);
    }

    fn complete(&mut self, _number: &dyn Fn() -> u64) {
        if self.spec.is_gated {
            self.status.conditions = gated(self.metadata.creation_timestamp);
        }
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.status = old.status.clone();
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        self.take_spec_of(old);
        self.metadata.owner_references = old.metadata.owner_references.clone();
        self.metadata.deletion_timestamp = old.metadata.deletion_timestamp;
        self.metadata.deletion_grace_period_seconds = old.metadata.deletion_grace_period_seconds;
        keep_qos(&mut self.status, &old.status);
    }

    fn prepare_for_part_update(&mut self, old: &Self, part: PodPart) {
        part.keep_the_rest(self, old);
    }

    fn validate_part_update(&self, old: &Self, part: PodPart) -> Vec<Cause> {
        match part {
            PodPart::EphemeralContainers => validation::validate_ephemeral_containers(self, old),
            PodPart::Resources => validation::validate_resize(self, old),
        }
    }

    fn spec_differs(&self, old: &Self) -> bool {
        !self.has_spec_of(old)
    }

    fn obviously_differs(&self, old: &Self) -> bool {
        self.status.phase != old.status.phase || self.node_name != old.node_name
    }

    fn grace_period_seconds(&self, requested: Option<i64>) -> Option<i64> {
        let wanted = requested
            .or(self.spec.termination_grace_period_seconds)
            .unwrap_or(0);
        let now =
            self.node_name.as_deref().unwrap_or("").is_empty() || self.status.phase.is_terminal();
        Some(if now {
            0
        } else if wanted < 0 {
            1
        } else {
            wanted
        })
    }

    #[inline]
    fn is_ready_pod(&self) -> bool {
        self.is_active() && self.is_ready()
    }

    fn counts_for_quota(&self) -> bool {
        !self.status.phase.is_terminal()
    }

    fn share_with(&mut self, old: &Self) {
        share(&mut self.spec, &old.spec);
        share(&mut self.node_name, &old.node_name);
        share(&mut self.status, &old.status);
    }

    fn pod_spec_bytes(&self) -> usize {
        self.spec.bytes()
    }

    fn set_defaults(&mut self, old: Option<&Self>) {
        if old.is_none_or(|old| !Arc::ptr_eq(&old.spec, &self.spec)) {
            default_pod(self);
        }
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_pod(self, false)
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        validation::validate_pod_update(self, old)
    }

    fn validate_status_update(&self, old: &Self) -> Vec<Cause> {
        if meta::is_shared(&self.metadata, &old.metadata)
            && (self.status.rest.is_same(&old.status.rest)
                || qos_of(&self.status) == qos_of(&old.status)
                    && !self.status.rest.as_str().contains("nominatedNodeName"))
        {
            // All validated fields are unchanged and were validated before.
            return Vec::new();
        }
        validation::validate_pod_status_update(self, old)
    }
}

/// Returns the status of a new pod, which is pending.
pub(crate) fn pending_status(rest: Rest) -> PodStatus {
    PodStatus {
        phase: PodPhase::Pending,
        rest,
        ..PodStatus::default()
    }
}

/// Returns the conditions of a new pod with scheduling gates.
fn gated(since: Time) -> PodConditions {
    let rest = Rest::NONE
        .with(
            "message",
            "Scheduling is blocked due to non-empty scheduling gates",
        )
        .with("reason", "SchedulingGated");
    let mut conditions = PodConditions::default();
    conditions.push(PodCondition {
        kind: ConditionType::PodScheduled,
        status: ConditionStatus::False,
        last_transition_time: since.into(),
        rest,
    });
    conditions
}

/// Returns the QoS class of a spec as the untyped rest of a status.
pub(crate) fn qos_rest(spec: &PodSpec) -> Rest {
    Rest::NONE.with(QOS_CLASS, qos_class(spec))
}

/// Returns the QoS class in a status; empty if there is none.
fn qos_of(status: &PodStatus) -> &str {
    let class = status.rest.raw(QOS_CLASS);
    let class = class.and_then(|class| class.strip_prefix('"')?.strip_suffix('"'));
    class.unwrap_or_default()
}

/// Keeps the QoS class if the writer left it out.
fn keep_qos(new: &mut PodStatus, old: &PodStatus) {
    if new.rest.is_same(&old.rest) || !qos_of(new).is_empty() {
        return;
    }
    if let Some(class) = old.rest.get(QOS_CLASS) {
        new.rest = new.rest.with(QOS_CLASS, class);
        share(&mut new.rest, &old.rest);
    }
}
