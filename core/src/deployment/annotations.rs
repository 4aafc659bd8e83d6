//! The annotations that Deployments and their ReplicaSets use.

/// The revision of the template, a number. The highest one is the newest.
pub const REVISION: &str = "deployment.kubernetes.io/revision";

/// The earlier revisions of a ReplicaSet's template, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";

/// The Deployment's `replicas` when the ReplicaSet was last sized.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";

/// The Deployment's maximum number of pods when the ReplicaSet was last sized.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";

/// The revision to roll back to, set by old clients.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// The configuration that `kubectl apply` last applied.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The human-readable reason for a revision. Copied like other annotations.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// Reports whether the annotation is copied between a Deployment and its ReplicaSets.
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
