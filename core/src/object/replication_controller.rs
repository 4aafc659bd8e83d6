//! ReplicationControllers as the API has them, and the adapter that shows them as ReplicaSets.

use std::sync::Arc;

use super::{Labels, ObjectMeta, PodTemplate, ReplicaSetStatus, Rest};

/// A ReplicationController.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicationController {
    /// Name, labels, owners.
    pub metadata: ObjectMeta,
    /// How many pods; the server sets 1 when absent.
    pub replicas: Option<i32>,
    /// How many seconds a pod must stay ready before it is available.
    pub min_ready_seconds: i32,
    /// Labels that pods must carry: absent matches nothing, empty everything.
    pub selector: Labels,
    /// What new pods look like; may be absent in old objects.
    pub template: Option<Arc<PodTemplate>>,
    /// Other members of `spec`.
    pub spec_rest: Rest,
    /// The status; `terminatingReplicas` is never set.
    pub status: ReplicaSetStatus,
}
