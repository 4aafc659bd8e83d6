//! ReplicaSets and ReplicationControllers as the owners of pods for other workloads.

use podstorm::replicaset::{Controller, OwnerStore};
use podstorm_apiserver::Cluster;
use podstorm_objects::{AnyObject, Kind, Pod};
use podstorm_sim::engine::fault_harness::FaultHarness;

use super::kinds::WorkloadKind;
use super::model;
use crate::simulation::{OwnerPlan, PodOwners};

/// ReplicaSets and ReplicationControllers, as the owners of pods.
#[derive(Clone, Copy, Debug)]
pub struct SetOwners;

impl PodOwners for SetOwners {
    fn kinds(&self) -> &'static [Kind] {
        &[Kind::REPLICA_SET, Kind::REPLICATION_CONTROLLER]
    }

    fn object(&self, name: &str, plan: &OwnerPlan) -> AnyObject {
        let kind = WorkloadKind::from_kind(plan.kind);
        let kind = kind.expect("the kinds of a schedule are valid");
        kind.object(name, &plan.like, plan.replicas, plan.min_ready_seconds)
    }

    fn missing(&self, harness: &FaultHarness) -> Option<String> {
        model::difference(harness.cluster(), harness.now()).or_else(|| behind(harness))
    }

    fn expect(&self, harness: &FaultHarness) -> bool {
        let now_ns = harness.now().mono_ns;
        harness.controllers::<Controller>().any(|controller| {
            let expectations = controller.expectations();
            let owners = controller.owners().all();
            let mut keys = owners.iter().map(|(key, _)| *key);
            keys.any(|key| !expectations.satisfied(key, now_ns))
        })
    }

    fn have_delayed(&self, harness: &FaultHarness) -> bool {
        let mut controllers = harness.controllers::<Controller>();
        controllers.any(|controller| controller.queue().delayed() > 0)
    }
}

/// Returns the first difference between a live controller's caches and the server, if there is any.
/// While there is one, pending events may cause more work.
fn behind(harness: &FaultHarness) -> Option<String> {
    harness.controllers::<Controller>().find_map(|controller| {
        let kind = WorkloadKind::from_kind(controller.options().kind)?;
        behind_in(controller.owners(), kind, harness.cluster())
    })
}

fn behind_in(owners: &OwnerStore, kind: WorkloadKind, cluster: &Cluster) -> Option<String> {
    let sets = kind.list(cluster);
    let known = owners.all();
    let stale = sets.iter().find(|set| {
        let same = |version| version == &set.metadata.resource_version;
        let of_name = known.iter().find(|(_, owner)| {
            let known = &owner.object.metadata;
            known.name == set.metadata.name && known.namespace == set.metadata.namespace
        });
        !of_name.is_some_and(|(_, owner)| same(&owner.object.metadata.resource_version))
    });
    if let Some(set) = stale {
        return Some(format!("a cache is stale: {}", set.metadata.name));
    }
    if known.len() > sets.len() {
        return Some(format!("a cache has a deleted {}", kind.kind().name()));
    }
    let (pods, _) = cluster.list::<Pod>(None);
    let cached = &owners.context().pods;
    let stale = pods.iter().find(|pod| {
        let known = cached.get(&pod.metadata.namespace, &pod.metadata.name);
        !known.is_some_and(|known| known.metadata.resource_version == pod.metadata.resource_version)
    });
    match stale {
        Some(pod) => Some(format!("a cache is stale: {}", pod.metadata.name)),
        None if cached.len() > pods.len() => Some("a cache has a deleted pod".to_owned()),
        None => None,
    }
}
