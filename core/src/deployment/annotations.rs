//! The annotations that a Deployment and its ReplicaSets have of their own.

/// The number of the template: the greatest is the newest.
pub const REVISION: &str = "deployment.kubernetes.io/revision";

/// The numbers that a ReplicaSet's template had before, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// `replicas` of the Deployment when the ReplicaSet was last sized.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";

/// The most pods that the Deployment could have when the ReplicaSet was last sized.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// The revision to go back to, which clients of long ago set.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// What `kubectl apply` has written.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Why a revision was made, for people. Copied as any other.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// Whether an annotation is copied between a Deployment and its ReplicaSets.
pub fn is_copied(name: &str) -> bool {
    let own = [
        LAST_APPLIED,
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
        ROLLBACK_TO,
    ];
    !own.contains(&name)
}
