//! Deployments, as their controller reads and writes them.

use std::sync::Arc;

use super::{AnyObject, IntOrString, LabelSelector, ObjectMeta, PodTemplate, Rest, Str, Time};

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Deployment {
    /// Name, labels, owners.
    pub metadata: ObjectMeta,
    /// The wanted state.
    pub spec: DeploymentSpec,
    /// The observed state.
    pub status: DeploymentStatus,
}

/// `spec` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeploymentSpec {
    /// The number of pods. The server sets 1 when it is absent.
    pub replicas: Option<i32>,
    /// Which ReplicaSets. An absent selector matches nothing.
    pub selector: Option<Arc<LabelSelector>>,
    /// What new pods look like.
    pub template: Arc<PodTemplate>,
    /// How old pods are replaced by new ones.
    pub strategy: DeploymentStrategy,
    /// How many seconds a pod must stay ready before it is available.
    pub min_ready_seconds: i32,
    /// How many old ReplicaSets are kept; all of them when absent. The server sets 10.
    pub revision_history_limit: Option<i32>,
    /// Whether no rollout begins and none goes on.
    pub paused: bool,
    /// After how many seconds without progress a rollout counts as failed; never when absent. The
    /// server sets 600.
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
    /// How many pods may be missing, as a number or a share of `replicas`.
    pub max_unavailable: Option<IntOrString>,
    /// How many pods there may be beyond `replicas`, as a number or a share of them.
    pub max_surge: Option<IntOrString>,
    /// Members without a typed field.
    pub rest: Rest,
}

/// `status` of a Deployment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DeploymentStatus {
    /// The generation of the spec that this status answers.
    pub observed_generation: i64,
    /// Active pods of all ReplicaSets.
    pub replicas: i32,
    /// Those of the newest template.
    pub updated_replicas: i32,
    /// Those that are ready.
    pub ready_replicas: i32,
    /// Those that have been ready for `minReadySeconds`.
    pub available_replicas: i32,
    /// How many more must become available.
    pub unavailable_replicas: i32,
    /// Terminating pods. Absent if the feature is off, which differs from zero.
    pub terminating_replicas: Option<i32>,
    /// In order.
    pub conditions: Vec<DeploymentCondition>,
    /// How often the name of a new ReplicaSet was taken.
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
    /// When the controller last set it.
    pub last_update_time: Time,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// A word for programs.
    pub reason: Str,
    /// A sentence for people.
    pub message: Str,
    /// Members without a typed field.
    pub rest: Rest,
}

impl Deployment {
    /// `spec.replicas`, 1 when absent as the server defaults it.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Returns the Deployment that an object is: of this type, or of none, as a server without a
    /// type for it gives it. `None` for another kind, or one whose members have types that no
    /// server lets through. O(1), or O(bytes) for an object without a type.
    pub fn of(object: &AnyObject) -> Option<Arc<Deployment>> {
        match object.clone().downcast() {
            Some(deployment) => Some(deployment),
            None => Deployment::of_untyped(&**object).map(Arc::new),
        }
    }
}
