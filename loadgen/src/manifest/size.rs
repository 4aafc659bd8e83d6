//! Derives the facts about the objects of files that determine the size of the cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm_apiserver::pod_requests;
use podstorm_objects::{Pod, PodSpec};

use crate::input::{InputObject, InputPods, InputSize, PodsOfSpec, Requests};
use crate::workloads::{self, objects};

/// Counts the expected pods, the owners, the nodes and the capacity for pods. O(n log n).
pub(super) fn of_input(objects: &[InputObject]) -> InputSize {
    let mut size = InputSize::default();
    let mut namespaces = BTreeSet::new();
    let mut owner_namespaces = BTreeSet::new();
    let mut schedulable = BTreeSet::new();
    // By kind, namespace and name: the pods that a workload with children requests, and the pods
    // that its children request.
    let mut made: BTreeMap<(&str, &str, &str), Made<'_>> = BTreeMap::new();
    let mut specs = Specs::default();
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
                let workload = workloads::for_kind(other.kind());
                size.workloads
                    .extend(workload.map(|workload| workload.kind()));
                let pods = workload.and_then(|workload| workload.pods());
                size.owners += u64::from(pods.is_some());
                let rollouts = workload.and_then(|workload| workload.rollouts());
                let finishes = workload.and_then(|workload| workload.finishes());
                if let Some(course) = finishes.and_then(|it| it.course(object)) {
                    let wanted = if course.is_over() { 0 } else { course.wanted() };
                    let wanted = u64::try_from(wanted).unwrap_or(0);
                    size.pods += wanted;
                    specs.add(other, wanted);
                    size.owners += 1;
                }
                if let Some(demand) = pods.and_then(|it| it.demand(object)) {
                    let has = u64::try_from(demand.replicas).unwrap_or(0);
                    if let Some((maker, owner)) = workloads::controller(meta) {
                        let key = (maker.kind().name(), namespace, &*owner.name);
                        made.entry(key).or_default().has += has;
                    }
                    size.pods += has;
                    specs.add(other, has);
                    owner_namespaces.insert(namespace);
                } else if let Some(it) = rollouts.and_then(|it| it.progress(object)) {
                    let key = (other.kind().name(), namespace, meta.name.as_str());
                    let made = made.entry(key).or_default();
                    made.wanted = u64::try_from(it.replicas).unwrap_or(0);
                    made.maker = Some(other);
                }
            }
        }
        if !namespace.is_empty() {
            namespaces.insert(namespace);
        }
    }
    for made in made.into_values() {
        let missing = made.wanted.saturating_sub(made.has);
        size.pods += missing;
        if let Some(maker) = made.maker {
            specs.add(maker, missing);
        }
    }
    for object in objects {
        let InputObject::Pod(pod) = object else {
            continue;
        };
        if !pod.is_active() {
            continue;
        }
        // Count a pod on any other node as additional capacity: it needs no schedulable node.
        if pod
            .node_name
            .as_ref()
            .is_some_and(|node| !schedulable.contains(&**node))
        {
            size.places += 1;
            specs.entry(&pod.spec).placed += 1;
        }
        if is_counted_by_itself(pod, &owner_namespaces) {
            size.pods += 1;
            specs.entry(&pod.spec).pods += 1;
        }
    }
    size.specs = specs.by_address.into_values().collect();
    size.requests = specs.untyped;
    size.namespaces = namespaces.len() as u64;
    size
}

/// The pods that a workload with children requests, and the pods that its children request.
#[derive(Default)]
struct Made<'o> {
    wanted: u64,
    has: u64,
    maker: Option<&'o InputObject>,
}

/// The pods by spec. All pods from one template share a spec.
#[derive(Default)]
struct Specs {
    by_address: BTreeMap<*const PodSpec, PodsOfSpec>,
    untyped: BTreeMap<Requests, u64>,
}

impl Specs {
    /// Counts the pods that an object requests, by their spec.
    fn add(&mut self, object: &InputObject, pods: u64) {
        match object {
            InputObject::Owner(owner) => {
                if let Some(template) = owner.template() {
                    self.entry(&template.spec).pods += pods;
                }
            }
            InputObject::Dynamic(object) => {
                let spec = object.fields.get("spec");
                let spec = spec.and_then(|spec| spec.pointer("/template/spec"));
                let requests = spec.map(pod_requests).unwrap_or_default();
                *self.untyped.entry(requests).or_default() += pods;
            }
            InputObject::Pod(_) | InputObject::Namespace(_) | InputObject::Node(_) => {}
        }
    }

    fn entry(&mut self, spec: &Arc<PodSpec>) -> &mut PodsOfSpec {
        let known = self.by_address.entry(Arc::as_ptr(spec));
        known.or_insert_with(|| PodsOfSpec {
            spec: Arc::clone(spec),
            pods: 0,
            placed: 0,
        })
    }
}

impl InputSize {
    /// Returns how many of the unscheduled pods request which amounts of CPU and memory; omits pods
    /// that request neither. O(specs).
    pub(crate) fn requests(&self) -> BTreeMap<Requests, u64> {
        let (mut waiting, mut placed) = (BTreeMap::new(), BTreeMap::new());
        let counted = |mut requests: Requests| {
            requests
                .retain(|name, amount| ["cpu", "memory"].contains(&&**name) && !amount.is_zero());
            requests
        };
        for (requests, pods) in &self.requests {
            *waiting.entry(counted(requests.clone())).or_default() += pods;
        }
        for of_spec in &self.specs {
            let requests = counted(objects::requests_of(&of_spec.spec));
            *placed.entry(requests.clone()).or_default() += of_spec.placed;
            *waiting.entry(requests).or_default() += of_spec.pods;
        }
        waiting.retain(|requests, pods: &mut u64| {
            let placed: u64 = placed.get(requests).copied().unwrap_or(0);
            *pods = pods.saturating_sub(placed);
            !requests.is_empty() && *pods > 0
        });
        waiting
    }
}

/// Counts the pods in the files by state.
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

/// Reports whether a pod counts in addition to the pods that owners request. An orphan does not if
/// its namespace has owners, because one of them may adopt it.
fn is_counted_by_itself(pod: &Pod, owner_namespaces: &BTreeSet<&str>) -> bool {
    match pod.metadata.controller() {
        Some(_) => workloads::controller(&pod.metadata)
            .is_none_or(|(it, _)| it.pods().is_none() && it.finishes().is_none()),
        None => !owner_namespaces.contains(&*pod.metadata.namespace),
    }
}
