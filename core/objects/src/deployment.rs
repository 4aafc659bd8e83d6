//! Deployments, as their controller reads and writes them.

use std::sync::Arc;

use super::{AnyObject, IntOrString, LabelSelector, ObjectMeta, PodTemplate, Rest, Str, Time};

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deployment {
    /// The metadata, such as name, labels and owners.
    pub metadata: ObjectMeta,
    /// The desired state.
    pub spec: DeploymentSpec,
    /// The observed state.
    pub status: DeploymentStatus,
}

/// `spec` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeploymentSpec {
    /// The number of pods. The server sets 1 if it is absent.
    pub replicas: Option<i32>,
    /// The selector of the ReplicaSets. An absent selector matches nothing.
    pub selector: Option<Arc<LabelSelector>>,
    /// The template for new pods.
    pub template: Arc<PodTemplate>,
    /// How new pods replace old ones.
    pub strategy: DeploymentStrategy,
    /// The number of seconds that a pod must stay ready before it is available.
    pub min_ready_seconds: i32,
    /// The number of old ReplicaSets to keep; all of them if absent. The server sets 10.
    pub revision_history_limit: Option<i32>,
    /// Whether rollouts are paused: none begins and none continues.
    pub paused: bool,
    /// The number of seconds without progress after which a rollout counts as failed; never if
    /// absent. The server sets 600.
    pub progress_deadline_seconds: Option<i32>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// `spec.strategy`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeploymentStrategy {
    /// `RollingUpdate` or `Recreate`.
    pub kind: Str,
    /// The limits of a rolling update.
    pub rolling_update: Option<RollingUpdate>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// `spec.strategy.rollingUpdate`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RollingUpdate {
    /// The number of pods that may be unavailable, or a percentage of `replicas`.
    pub max_unavailable: Option<IntOrString>,
    /// The number of pods allowed beyond `replicas`, or a percentage of `replicas`.
    pub max_surge: Option<IntOrString>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// `status` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeploymentStatus {
    /// The generation of the spec that this status reflects.
    pub observed_generation: i64,
    /// The number of active pods of all ReplicaSets.
    pub replicas: i32,
    /// The number of active pods of the newest template.
    pub updated_replicas: i32,
    /// The number of ready pods.
    pub ready_replicas: i32,
    /// The number of pods that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// The number of pods that still must become available.
    pub unavailable_replicas: i32,
    /// The number of terminating pods. Absent if the feature is off, which differs from zero.
    pub terminating_replicas: Option<i32>,
    /// The conditions, in order.
    pub conditions: Vec<DeploymentCondition>,
    /// How often the name of a new ReplicaSet was already taken.
    pub collision_count: Option<i32>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// An entry of `status.conditions`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeploymentCondition {
    /// The type: `Available`, `Progressing` or `ReplicaFailure`.
    pub kind: Str,
    /// `True`, `False` or `Unknown`.
    pub status: Str,
    /// When the controller last wrote the condition.
    pub last_update_time: Time,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// One machine-readable word.
    pub reason: Str,
    /// A human-readable sentence.
    pub message: Str,
    /// Members without a typed field.
    pub rest: Rest,
}

impl Deployment {
    /// Returns `spec.replicas`, or the server's default of 1 if it is absent.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Returns an object as a Deployment. The object may have this type or, from a server without a
    /// type for Deployments, no Rust type. `None` for another kind, or if a member has a type that
    /// no server accepts. O(1), or O(bytes) for an object without a Rust type.
    pub fn from_object(object: &AnyObject) -> Option<Arc<Deployment>> {
        match object.clone().downcast() {
            Some(deployment) => Some(deployment),
            None => Deployment::of_untyped(&**object).map(Arc::new),
        }
    }
}
