//! What the objects of files mean for the size of the cluster.

use std::collections::{BTreeMap, BTreeSet};

use podstorm_objects::Pod;

use crate::input::{InputObject, InputPods, InputSize};
use crate::workloads;

/// Counts pods to come, owners, nodes and the places on them. O(n log n).
pub(super) fn of_input(objects: &[InputObject]) -> InputSize {
    let mut size = InputSize::default();
    let mut namespaces = BTreeSet::new();
    let mut owner_namespaces = BTreeSet::new();
    let mut schedulable = BTreeSet::new();
    // By kind, namespace and name: what a workload that makes others asks for, and what these do.
    let mut made: BTreeMap<(&str, &str, &str), (u64, u64)> = BTreeMap::new();
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
            other => {
                let (meta, object) = (other.metadata(), other.as_object());
                let workload = workloads::of(other.kind());
                size.workloads
                    .extend(workload.map(|workload| workload.kind()));
                let pods = workload.and_then(|workload| workload.pods());
                size.owners += u64::from(pods.is_some());
                let rollouts = workload.and_then(|workload| workload.rollouts());
                let finishes = workload.and_then(|workload| workload.finishes());
                if let Some(course) = finishes.and_then(|it| it.course(object)) {
                    let wanted = if course.is_over() { 0 } else { course.wanted() };
                    size.pods += u64::try_from(wanted).unwrap_or(0);
                    size.owners += 1;
                }
                if let Some(demand) = pods.and_then(|it| it.demand(object)) {
                    let has = u64::try_from(demand.replicas).unwrap_or(0);
                    if let Some((maker, owner)) = workloads::controller(meta) {
                        let key = (maker.kind().name(), namespace, &*owner.name);
                        made.entry(key).or_default().1 += has;
                    }
                    size.pods += has;
                    owner_namespaces.insert(namespace);
                } else if let Some(it) = rollouts.and_then(|it| it.progress(object)) {
                    let key = (other.kind().name(), namespace, meta.name.as_str());
                    made.entry(key).or_default().0 = u64::try_from(it.replicas).unwrap_or(0);
                }
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
    let missing = made
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

/// Whether a pod is none of those that its owner asks for. An orphan beside owners may be
/// adopted, so it is not counted on top of what they ask for.
fn is_counted_by_itself(pod: &Pod, owner_namespaces: &BTreeSet<&str>) -> bool {
    match pod.metadata.controller() {
        Some(_) => workloads::controller(&pod.metadata)
            .is_none_or(|(it, _)| it.pods().is_none() && it.finishes().is_none()),
        None => !owner_namespaces.contains(&*pod.metadata.namespace),
    }
}
