//! The list of all controllers of this crate, for programs that run them.

use crate::controller::ControllerType;
use crate::{
    deployment, disruption, endpoints, job, namespace, node_lifecycle, pod_gc, replicaset,
    role_aggregation, service_account, statefulset, taint_eviction, ttl_after_finished, volumes,
};

/// A collection of controllers: the registry of a program that runs them.
pub trait Registrar {
    /// Adds a controller at the end of the collection.
    fn add<C: ControllerType>(&mut self);
}

/// Adds every controller of this crate.
pub fn upstream(registrar: &mut impl Registrar) {
    registrar.add::<replicaset::ReplicaSets>();
    registrar.add::<replicaset::ReplicationControllers>();
    registrar.add::<deployment::Deployments>();
    registrar.add::<job::Jobs>();
    registrar.add::<statefulset::StatefulSets>();
    registrar.add::<ttl_after_finished::TtlAfterFinished>();
    registrar.add::<namespace::Namespaces>();
    registrar.add::<pod_gc::PodGc>();
    registrar.add::<disruption::Disruption>();
    registrar.add::<endpoints::EndpointSlices>();
    registrar.add::<endpoints::EndpointsOfServices>();
    registrar.add::<endpoints::EndpointSliceMirroring>();
    registrar.add::<volumes::PersistentVolumeBinder>();
    registrar.add::<volumes::PersistentVolumeClaimProtection>();
    registrar.add::<volumes::PersistentVolumeProtection>();
    registrar.add::<volumes::EphemeralVolumes>();
    registrar.add::<service_account::ServiceAccounts>();
    registrar.add::<service_account::ServiceAccountTokens>();
    registrar.add::<service_account::RootCa>();
    registrar.add::<role_aggregation::ClusterRoleAggregation>();
    registrar.add::<node_lifecycle::NodeLifecycle>();
    registrar.add::<taint_eviction::TaintEviction>();
}
