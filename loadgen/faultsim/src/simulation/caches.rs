//! Whether the controllers have heard of all that is so.

use podstorm::replicaset::OwnerStore;
use podstorm_apiserver::Cluster;
use podstorm_objects::Pod;
use podstorm_sim::engine::fault_harness::FaultHarness;

use super::super::workloads::WorkloadKind;

/// The first object of which a live controller's caches have another version than the server, if
/// any: what is still on its way may bring more to do.
pub(super) fn behind(harness: &FaultHarness) -> Option<String> {
    harness.controllers().find_map(|controller| {
        let kinds = WorkloadKind::ALL.into_iter();
        let mut own = kinds.filter(|it| it.kind() == controller.options().kind);
        behind_in(controller.owners(), own.next()?, harness.cluster())
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
        return Some(format!("a cache is behind on {}", set.metadata.name));
    }
    if known.len() > sets.len() {
        return Some(format!("a cache has a {} that is gone", kind.kind().name()));
    }
    let (pods, _) = cluster.list::<Pod>(None);
    let cached = &owners.context().pods;
    let stale = pods.iter().find(|pod| {
        let known = cached.get(&pod.metadata.namespace, &pod.metadata.name);
        !known.is_some_and(|known| known.metadata.resource_version == pod.metadata.resource_version)
    });
    match stale {
        Some(pod) => Some(format!("a cache is behind on {}", pod.metadata.name)),
        None if cached.len() > pods.len() => Some("a cache has a pod that is gone".to_owned()),
        None => None,
    }
}
