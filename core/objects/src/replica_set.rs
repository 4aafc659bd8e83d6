//! ReplicaSets and the pod template within.

use std::sync::Arc;

use super::{LabelSelector, ObjectMeta, PodSpec, Rest, Str, Time, TokenVolume};

/// A ReplicaSet, or a ReplicationController seen through its adapter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSet {
    /// Name, labels, owners.
    pub metadata: ObjectMeta,
    /// The wanted state.
    pub spec: ReplicaSetSpec,
    /// The observed state.
    pub status: ReplicaSetStatus,
}

/// `spec` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSetSpec {
    /// The number of pods. The server sets 1 when it is absent.
    pub replicas: Option<i32>,
    /// How many seconds a pod must stay ready before it is available.
    pub min_ready_seconds: i32,
    /// Which pods. An absent selector matches nothing.
    pub selector: Option<Arc<LabelSelector>>,
    /// What new pods look like.
    pub template: Arc<PodTemplate>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// `spec.template`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodTemplate {
    /// Labels, annotations and finalizers are copied to the pods; the rest is ignored.
    pub metadata: ObjectMeta,
    /// Shared by every pod made from the template. As in a pod, the members that belong to one pod
    /// alone are not in it.
    pub spec: Arc<PodSpec>,
    /// `spec.nodeName` of the template, which pins all pods to one node.
    pub node_name: Option<Str>,
    /// The name of a service-account volume in the template's spec, which all pods get.
    pub token_volume: Option<TokenVolume>,
}

/// `status` of a ReplicaSet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSetStatus {
    /// Active pods.
    pub replicas: i32,
    /// Those that carry every label of the template.
    pub fully_labeled_replicas: i32,
    /// Those that are ready.
    pub ready_replicas: i32,
    /// Those that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// Terminating pods. Absent if the feature is off, which differs from zero.
    pub terminating_replicas: Option<i32>,
    /// The generation of the spec that this status answers.
    pub observed_generation: i64,
    /// In order. The controller owns only `ReplicaFailure`.
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
    /// A word for programs.
    pub reason: Str,
    /// A sentence for people.
    pub message: Str,
    /// Members without a typed field.
    pub rest: Rest,
}

impl ReplicaSet {
    /// `spec.replicas`, 1 when absent as the server defaults it.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }
}
