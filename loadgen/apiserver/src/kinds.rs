//! The strategies of the kinds with a Rust type: defaults, validation, and the fields that writes
//! may change.

use std::sync::Arc;

use podstorm_objects::{
    ApiError, Cause, ConditionStatus, ConditionType, DecodeError, Event, Kind, Map, Namespace,
    Node, ObjectMeta, Pod, PodCondition, PodConditions, PodPhase, PodSpec, PodStatus, ReplicaSet,
    ReplicaSetStatus, ReplicationController, Resource, Rest, Time,
};
use serde_json::{Value, json};

use super::store::KindStore;
use super::{ClusterResource, Strategy};
use crate::defaulting::{
    default_pod, default_replica_set, default_replication_controller, qos_class,
};
use crate::store::PodPart;
use crate::{Cluster, finalizer, meta, validation};

/// Returns the verbs of a stored kind, without subresources, in the order of Kubernetes' discovery.
pub fn verbs(kind: Kind) -> &'static [&'static str] {
    // Sic: upstream's order for custom kinds.
    const OF_CUSTOM: &[&str] = &[
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "create",
        "update",
        "watch",
    ];
    if kind.row().custom.is_some() {
        return OF_CUSTOM;
    }
    match kind == Kind::NAMESPACE {
        // The server can't delete all namespaces in one request.
        true => &[
            "create", "delete", "get", "list", "patch", "update", "watch",
        ],
        false => &[
            "create",
            "delete",
            "deletecollection",
            "get",
            "list",
            "patch",
            "update",
            "watch",
        ],
    }
}

/// The label of every namespace with its name.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// The field of a pod's status that its spec determines permanently.
const QOS_CLASS: &str = "qosClass";

impl Strategy for Namespace {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn add_finalizers(&mut self) {
        finalizer::add(self);
    }

    fn set_defaults(&mut self, _old: Option<&Self>) {
        // Namespace selectors use this label to select a namespace by name.
        let name = self.metadata.name.clone();
        if !name.is_empty()
            && self.metadata.labels.get(NAME_LABEL).map(|label| &**label) != Some(name.as_str())
        {
            self.metadata.labels = self.metadata.labels.with(NAME_LABEL, &name);
        }
    }

    fn complete(&mut self, _number: &dyn Fn() -> u64) {
        // The name may have been generated after defaulting.
        self.set_defaults(None);
    }

    fn prepare_for_create(&mut self) {
        self.terminating = false;
        let status = json!({"phase": "Active"});
        self.fields.insert("status".to_owned(), status);
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.terminating = old.terminating;
        for member in ["spec", "status"] {
            match old.fields.get(member) {
                Some(stored) => drop(self.fields.insert(member.to_owned(), stored.clone())),
                None => drop(self.fields.remove(member)),
            }
        }
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        match old.fields.get("spec") {
            Some(stored) => drop(self.fields.insert("spec".to_owned(), stored.clone())),
            None => drop(self.fields.remove("spec")),
        }
        if finalizer::phase(self).is_empty() {
            self.set_phase("Active");
        }
    }

    fn begin_termination(&mut self, _now: Time) -> bool {
        self.terminating = true;
        self.set_phase("Terminating");
        finalizer::is_held(self)
    }

    fn keeps_until_empty(&self) -> bool {
        finalizer::is_held(self)
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_namespace(self, false)
    }

    fn validate_status_update(&self, _old: &Self) -> Vec<Cause> {
        validation::validate_namespace_status(self)
    }

    fn committed(cluster: &Cluster, new: Option<&Self>) {
        if new.is_some_and(|new| new.terminating) {
            cluster.terminations.begun();
        }
    }
}

impl Strategy for Node {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn set_defaults(&mut self, _old: Option<&Self>) {
        // Kubernetes added `podCIDRs` later.
        unite_addresses(&mut self.spec);
        fill_allocatable(&mut self.status);
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.status = old.status.clone();
        self.pods_allocatable = old.pods_allocatable;
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        self.spec = old.spec.clone();
        self.unschedulable = old.unschedulable;
        fill_allocatable(&mut self.status);
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_node(self)
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        validation::validate_node_update(self, old)
    }
}

/// Makes a node's `podCIDR` and the first of its `podCIDRs` equal.
fn unite_addresses(spec: &mut Map) {
    const ONE: &str = "podCIDR";
    const ALL: &str = "podCIDRs";
    let one = spec
        .get(ONE)
        .and_then(Value::as_str)
        .unwrap_or("")
        .to_owned();
    let first = |spec: &Map| Some(spec.get(ALL)?.get(0)?.as_str()?.to_owned());
    match first(spec) {
        None if !one.is_empty() => drop(spec.insert(ALL.to_owned(), vec![one].into())),
        Some(first) if one.is_empty() => drop(spec.insert(ONE.to_owned(), first.into())),
        // The older field wins.
        Some(first) if first != one => drop(spec.insert(ALL.to_owned(), vec![one].into())),
        _ => {}
    }
}

/// Sets the allocatable resources of a node to its capacity, if they are missing.
fn fill_allocatable(status: &mut Map) {
    if status.get("allocatable").is_none_or(Value::is_null)
        && let Some(capacity) = status.get("capacity").filter(|it| !it.is_null()).cloned()
    {
        status.insert("allocatable".to_owned(), capacity);
    }
}

impl Strategy for Event {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_event(self)
    }

    fn share_with(&mut self, old: &Self) {
        share(&mut self.regarding, &old.regarding);
        share(&mut self.topic, &old.topic);
        share(&mut self.rest, &old.rest);
    }
}

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

impl Strategy for ReplicaSet {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn prepare_for_create(&mut self) {
        self.status = ReplicaSetStatus::default();
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.status = old.status.clone();
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        self.spec = old.spec.clone();
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec
    }

    fn obviously_differs(&self, old: &Self) -> bool {
        self.status != old.status
    }

    fn share_with(&mut self, old: &Self) {
        share(&mut self.spec.selector, &old.spec.selector);
        share(&mut self.spec.template, &old.spec.template);
        share(&mut self.status, &old.status);
    }

    fn pod_spec_bytes(&self) -> usize {
        self.spec.template.spec.bytes()
    }

    fn set_defaults(&mut self, old: Option<&Self>) {
        let template = &self.spec.template;
        let shared = old.is_some_and(|old| Arc::ptr_eq(&old.spec.template, template));
        if !shared || self.spec.replicas.is_none() {
            default_replica_set(self);
        }
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_replica_set(self)
    }

    fn validate_update(&self, old: &Self) -> Vec<Cause> {
        validation::validate_replica_set_update(self, old)
    }

    fn validate_status_update(&self, old: &Self) -> Vec<Cause> {
        validate_workload_status(&self.metadata, &old.metadata, &self.status)
    }
}

impl Strategy for ReplicationController {
    fn read(_: Kind, value: Value) -> Result<Self, DecodeError> {
        Self::from_json(value)
    }

    fn prepare_for_create(&mut self) {
        self.status = ReplicaSetStatus::default();
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.status = old.status.clone();
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        self.replicas = old.replicas;
        self.min_ready_seconds = old.min_ready_seconds;
        self.selector = old.selector.clone();
        self.template = old.template.clone();
        self.spec_rest = old.spec_rest.clone();
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.replicas != old.replicas
            || self.min_ready_seconds != old.min_ready_seconds
            || self.selector != old.selector
            || self.template != old.template
            || self.spec_rest != old.spec_rest
    }

    fn share_with(&mut self, old: &Self) {
        share(&mut self.selector, &old.selector);
        share(&mut self.template, &old.template);
        share(&mut self.status, &old.status);
    }

    fn pod_spec_bytes(&self) -> usize {
        let template = self.template.as_deref();
        template.map_or(0, |template| template.spec.bytes())
    }

    fn set_defaults(&mut self, _old: Option<&Self>) {
        default_replication_controller(self);
    }

    fn validate_create(&self) -> Vec<Cause> {
        validation::validate_replication_controller(self)
    }

    fn validate_status_update(&self, old: &Self) -> Vec<Cause> {
        validate_workload_status(&self.metadata, &old.metadata, &self.status)
    }
}

/// Implements `ClusterResource` for the kinds with a Rust type.
macro_rules! stores {
    ($($kind:ty: $field:ident),+) => {
        $(impl ClusterResource for $kind {
            fn store(cluster: &Cluster) -> &KindStore<Self> {
                &cluster.$field
            }
        })+
    };
}

stores! {
    Namespace: namespaces, Node: nodes, Event: events, Pod: pods, ReplicaSet: replica_sets,
    ReplicationController: replication_controllers
}

/// Returns the broken rules of a status, and of the metadata if it has changed.
fn validate_workload_status(
    new: &ObjectMeta,
    old: &ObjectMeta,
    status: &ReplicaSetStatus,
) -> Vec<Cause> {
    let changed = (!meta::is_shared(new, old)).then_some(new);
    validation::validate_status(changed, status)
}

/// Replaces an equal copy with the shared value.
pub(crate) fn share<T: Clone + PartialEq>(new: &mut T, old: &T) {
    if new == old {
        new.clone_from(old);
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
