//! ReplicaSets and their pod templates.

use std::sync::Arc;

use super::{LabelSelector, ObjectMeta, PodSpec, Rest, Str, Time, TokenVolume};

/// A ReplicaSet, or a ReplicationController converted to a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSet {
    /// The metadata, such as name, labels and owners.
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: ReplicaSetSpec,
    /// The observed state.
    pub status: ReplicaSetStatus,
}

/// `spec` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSetSpec {
    /// The number of pods. The server sets 1 if it is absent.
    pub replicas: Option<i32>,
    /// The number of seconds that a pod must stay ready before it is available.
    pub min_ready_seconds: i32,
    /// The selector of the pods. An absent selector matches nothing.
    pub selector: Option<Arc<LabelSelector>>,
    /// The template for new pods.
    pub template: Arc<PodTemplate>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// `spec.template`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTemplate {
    /// The metadata. Labels, annotations and finalizers are copied to the pods; the rest is
    /// ignored.
    pub metadata: ObjectMeta,
    /// The spec that every pod created from the template shares. As in a pod, it lacks the members
    /// that belong to a single pod.
    pub spec: Arc<PodSpec>,
    /// `spec.nodeName` of the template, which places all pods on one node; usually absent.
    pub node_name: Option<Str>,
    /// The name of a service-account volume in the template's spec, which all pods then share.
    pub token_volume: Option<TokenVolume>,
}

/// `status` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSetStatus {
    /// The number of active pods.
    pub replicas: i32,
    /// The number of pods that have every label of the template.
    pub fully_labeled_replicas: i32,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// The number of pods that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// The number of terminating pods. Absent if the feature is off, which differs from zero.
    pub terminating_replicas: Option<i32>,
    /// The generation of the spec that this status reflects.
    pub observed_generation: i64,
    /// The conditions, in order. The controller owns only `ReplicaFailure`.
    pub conditions: Vec<ReplicaSetCondition>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// An entry of `status.conditions`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaSetCondition {
    /// The type, e.g. `ReplicaFailure`.
    pub kind: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// One machine-readable word.
    pub reason: Str,
    /// A human-readable sentence.
    pub message: Str,
    /// Members without a typed field.
    pub rest: Rest,
}

impl ReplicaSet {
    /// Returns `spec.replicas`, or the server's default of 1 if it is absent.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }
}
