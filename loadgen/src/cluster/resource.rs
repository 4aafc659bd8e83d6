//! What the server needs to know of each kind: where it is stored, what its writes may change.

use podstorm::client::Cause;
use podstorm::object::{
    Event, Namespace, Node, Pod, PodPhase, PodStatus, ReplicaSet, ReplicaSetStatus,
    ReplicationController, Resource,
};

use super::{Cluster, KindStore};

/// What becomes of the dependents of a deleted object when the request doesn't say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPolicy {
    /// They are collected later.
    Background,
    /// They stay.
    Orphan,
}

/// A kind that the cluster stores. The methods are the server's strategy for it; all change or
/// judge a private copy and take no lock.
pub trait ClusterResource: Resource + PartialEq {
    /// What becomes of its dependents by default.
    const DEFAULT_POLICY: DefaultPolicy = DefaultPolicy::Background;

    /// Whether `metadata.generation` counts its changes.
    const HAS_GENERATION: bool = false;

    /// Where it is stored.
    fn store(cluster: &Cluster) -> &KindStore<Self>;

    /// Fills in defaults.
    fn set_defaults(&mut self) {}

    /// Puts the status into its first state.
    fn prepare_for_create(&mut self) {}

    /// Undoes what a write to the object itself may not change: its status.
    fn prepare_for_update(&mut self, _old: &Self) {}

    /// Undoes what a write to `/status` may not change: everything but status and metadata.
    fn prepare_for_status_update(&mut self, _old: &Self) {}

    /// Whether the spec differs from the stored one: what generation counts.
    fn spec_differs(&self, _old: &Self) -> bool {
        false
    }

    /// The rules a new object breaks.
    fn validate_create(&self, _causes: &mut Vec<Cause>) {}

    /// The rules a changed object breaks.
    fn validate_update(&self, _old: &Self, _causes: &mut Vec<Cause>) {}

    /// The rules a changed status breaks.
    fn validate_status_update(&self, _old: &Self, _causes: &mut Vec<Cause>) {}

    /// The seconds that a first deletion with this request value takes; `None` for kinds that
    /// know no graceful deletion.
    fn grace_period_seconds(&self, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Takes the stored object's shared parts in the place of equal copies.
    fn share_with(&mut self, _old: &Self) {}

    /// Whether the object holds a controller's pod that is ready: what a status write makes of it
    /// is counted.
    fn is_ready_pod(&self) -> bool {
        false
    }
}

impl ClusterResource for Namespace {
    fn store(cluster: &Cluster) -> &KindStore<Self> {
        &cluster.namespaces
    }

    fn prepare_for_create(&mut self) {
        self.terminating = false;
    }
}

impl ClusterResource for Node {
    fn store(cluster: &Cluster) -> &KindStore<Self> {
        &cluster.nodes
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.status = old.status.clone();
        self.pods_allocatable = old.pods_allocatable;
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        self.spec = old.spec.clone();
        self.unschedulable = old.unschedulable;
    }
}

impl ClusterResource for Event {
    fn store(cluster: &Cluster) -> &KindStore<Self> {
        &cluster.events
    }
}

impl ClusterResource for Pod {
    const HAS_GENERATION: bool = true;

    fn store(cluster: &Cluster) -> &KindStore<Self> {
        &cluster.pods
    }

    fn prepare_for_create(&mut self) {
        self.status = PodStatus {
            phase: PodPhase::Pending,
            ..PodStatus::default()
        };
    }

    fn prepare_for_update(&mut self, old: &Self) {
        self.status = old.status.clone();
    }

    fn prepare_for_status_update(&mut self, old: &Self) {
        self.spec = old.spec.clone();
        self.node_name = old.node_name.clone();
        self.metadata.owner_references = old.metadata.owner_references.clone();
        self.metadata.deletion_timestamp = old.metadata.deletion_timestamp;
        self.metadata.deletion_grace_period_seconds = old.metadata.deletion_grace_period_seconds;
    }

    fn spec_differs(&self, old: &Self) -> bool {
        self.spec != old.spec || self.node_name != old.node_name
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

    fn is_ready_pod(&self) -> bool {
        self.is_ready()
    }

    fn share_with(&mut self, old: &Self) {
        share(&mut self.spec, &old.spec);
        share(&mut self.node_name, &old.node_name);
        share(&mut self.status, &old.status);
    }
}

impl ClusterResource for ReplicaSet {
    const HAS_GENERATION: bool = true;

    fn store(cluster: &Cluster) -> &KindStore<Self> {
        &cluster.replica_sets
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

    fn share_with(&mut self, old: &Self) {
        share(&mut self.spec.selector, &old.spec.selector);
        share(&mut self.spec.template, &old.spec.template);
        share(&mut self.status, &old.status);
    }
}

impl ClusterResource for ReplicationController {
    const DEFAULT_POLICY: DefaultPolicy = DefaultPolicy::Orphan;
    const HAS_GENERATION: bool = true;

    fn store(cluster: &Cluster) -> &KindStore<Self> {
        &cluster.replication_controllers
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
}

/// Makes an equal copy the very same.
pub(super) fn share<T: Clone + PartialEq>(new: &mut T, old: &T) {
    if new == old {
        new.clone_from(old);
    }
}
