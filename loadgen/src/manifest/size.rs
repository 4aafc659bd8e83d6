//! What the objects of files mean for the size of the cluster.

use podstorm_objects::{Deployment, Pod};
use std::collections::{BTreeMap, BTreeSet};

use crate::input::InputObject;
use crate::result::InputPods;
use crate::size::InputSize;

/// Counts pods to come, owners, nodes and the places on them. O(n log n).
pub(super) fn of_input(objects: &[InputObject]) -> InputSize {
    let mut size = InputSize::default();
    let mut namespaces = BTreeSet::new();
    let mut owner_namespaces = BTreeSet::new();
    let mut schedulable = BTreeSet::new();
    // What each Deployment asks for, and what its ReplicaSets do.
    let mut deployments: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    for object in objects {
        let namespace = &*object.metadata().namespace;
        match object {
            InputObject::Namespace(object) => {
                namespaces.insert(object.metadata.name.as_str());
            }
            InputObject::Node(node) => {
                size.nodes += 1;
                if !node.unschedulable {
                    schedulable.insert(node.metadata.name.as_str());
                    match node.pods_allocatable {
                        Some(pods) => size.places += u64::from(pods),
                        None => size.nodes_without_capacity += 1,
                    }
                }
            }
            InputObject::Pod(_) => {}
            InputObject::Dynamic(object) => {
                if let Some(deployment) = Deployment::of_untyped(&**object) {
                    size.deployments += 1;
                    let wanted = u64::try_from(deployment.replicas()).unwrap_or(0);
                    let key = (namespace, object.metadata.name.as_str());
                    deployments.entry(key).or_default().0 = wanted;
                }
            }
            InputObject::ReplicaSet(object) => {
                size.owners += 1;
                if let Some(owner) = object.metadata.controller() {
                    let has = u64::try_from(object.replicas()).unwrap_or(0);
                    deployments.entry((namespace, &*owner.name)).or_default().1 += has;
                }
                size.pods += u64::try_from(object.replicas()).unwrap_or(0);
                owner_namespaces.insert(namespace);
            }
            InputObject::ReplicationController(object) => {
                size.owners += 1;
                size.replication_controllers += 1;
                size.pods += u64::try_from(object.replicas.unwrap_or(1)).unwrap_or(0);
                owner_namespaces.insert(namespace);
            }
        }
        if !namespace.is_empty() {
            namespaces.insert(namespace);
        }
    }
    for object in objects {
        let InputObject::Pod(pod) = object else {
            continue;
        };
        if !pod.is_active() {
            continue;
        }
        // Pods bound elsewhere need no place on a schedulable node: they bring their own.
        if pod
            .node_name
            .as_ref()
            .is_some_and(|node| !schedulable.contains(&**node))
        {
            size.places += 1;
        }
        if is_counted_by_itself(pod, &owner_namespaces) {
            size.pods += 1;
        }
    }
    let missing = deployments
        .values()
        .map(|(wanted, has)| wanted.saturating_sub(*has));
    size.pods += missing.sum::<u64>();
    size.namespaces = namespaces.len() as u64;
    size
}

/// Counts the pods by how they are.
pub(crate) fn pods_as_they_came(objects: &[InputObject]) -> InputPods {
    let mut counts = InputPods::default();
    for object in objects {
        let InputObject::Pod(pod) = object else {
            continue;
        };
        let count = match pod.metadata.is_deleting() {
            _ if pod.status.phase.is_terminal() => &mut counts.ended,
            true => &mut counts.terminating,
            false if pod.is_ready() => &mut counts.ready,
            false => &mut counts.not_ready,
        };
        *count += 1;
    }
    counts
}

/// Whether a pod is none of those that its ReplicaSet asks for. An orphan beside owners may be
/// adopted, so it is not counted on top of what they ask for.
fn is_counted_by_itself(pod: &Pod, owner_namespaces: &BTreeSet<&str>) -> bool {
    match pod.metadata.controller() {
        Some(owner) => !matches!(&*owner.kind, "ReplicaSet" | "ReplicationController"),
        None => !owner_namespaces.contains(&*pod.metadata.namespace),
    }
}
