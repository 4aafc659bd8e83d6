//! Steps that drain nodes, and that create the budgets that delay a drain.

use std::collections::BTreeMap;
use std::sync::Arc;

use compact_str::format_compact;
use podstorm_apiserver::{DeleteOptions, Eviction, ListOptions, Patch};
use podstorm_objects::disruption::Budget;
use podstorm_objects::{DynamicObject, Kind, Labels, Map, Node, Now, ObjectMeta, Pod, Str};
use serde_json::json;

use super::driver::Driver;
use super::tasks::Action;
use crate::drain::why_it_stays;
use crate::scenario::SomeNodes;
use crate::values::Limit;
use crate::workloads::objects::members;

/// The time after which `kubectl drain` retries a refused eviction, ns.
const RETRY_NS: i64 = 5_000_000_000;

/// The time without an evicted pod after which a node is skipped, ns.
const PATIENCE_NS: i64 = 600_000_000_000;

/// The progress of a drain.
#[derive(Clone, Debug, Default)]
pub(super) struct Drain {
    /// The number of pods left on the current node, and since when this number is unchanged, ns.
    left: usize,
    since_ns: i64,
    /// The number of nodes that were skipped because they could not be emptied.
    pub(super) nodes_held: u64,
    /// The number of evicted pods, by the kind of their workload.
    pub(super) evicted: BTreeMap<&'static str, u64>,
}

impl Driver {
    /// Cordons all nodes first, so that no pod moves to a node that is drained next. Then empties
    /// one node after the other.
    pub(super) fn drain_nodes(&mut self, some: SomeNodes, now: Now) -> Action {
        if self.at.names.is_none() {
            let mut nodes = self.some_nodes(some);
            nodes.reverse();
            self.at.names = Some(nodes);
        }
        let names = self.at.names.as_deref().unwrap_or_default();
        if let Some(node) = names.get(self.at.cursor as usize).cloned() {
            self.at.cursor += 1;
            return self.cordon(&node, now);
        }
        let Some(node) = names.last().cloned() else {
            self.at.names = None;
            return Action::Done;
        };
        let left = self.evict_from(&node, now);
        let drain = &mut self.at.drain;
        if drain.left != left {
            (drain.left, drain.since_ns) = (left, now.mono_ns);
        }
        if left > 0 {
            if now.mono_ns - drain.since_ns < PATIENCE_NS {
                return Action::Wait(now.mono_ns + RETRY_NS);
            }
            drain.nodes_held += 1;
        }
        drain.left = 0;
        self.at.names.as_mut().map(Vec::pop);
        Action::Wrote
    }

    /// Marks a node as unschedulable.
    fn cordon(&mut self, node: &str, now: Now) -> Action {
        let found = self.cluster.get::<Node>("", node);
        if found.is_ok_and(|node| node.unschedulable) {
            return Action::Skipped;
        }
        let patch = Patch::Merge(members(json!({"spec": {"unschedulable": true}})));
        let patched = self.cluster.api(Kind::NODE).patch("", node, &patch, now);
        self.note("cordoning", Kind::NODE, patched);
        Action::Wrote
    }

    /// Tries to evict the pods on a node, except terminating ones. Returns how many pods the node
    /// still has, except those that a drain ignores.
    fn evict_from(&mut self, node: &Str, now: Now) -> usize {
        let (pods, _) = self.cluster.list::<Pod>(None);
        let is_on =
            |pod: &&Arc<Pod>| pod.node_name.as_ref() == Some(node) && why_it_stays(pod).is_none();
        let pods: Vec<&Arc<Pod>> = pods.iter().filter(is_on).collect();
        for pod in pods.iter().filter(|pod| !pod.metadata.is_deleting()) {
            let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
            let options = DeleteOptions::default();
            let evicted = self.cluster.evict(namespace, name, &options, false, now);
            match evicted {
                // Either a budget allows no more disruptions for now, or the pod no longer exists.
                Err(error) if error.code == 429 || error.is_not_found() => {}
                Ok(Eviction::Refused(error)) | Err(error) => {
                    self.note::<(), _>("evicting", Kind::POD, Err(error));
                }
                Ok(Eviction::Evicted) => {
                    if let Some(kind) = self.tracker.kind_of(pod) {
                        *self.at.drain.evicted.entry(kind.name()).or_default() += 1;
                    }
                }
            }
        }
        pods.len()
    }

    /// Creates a budget for a workload, unless a budget already selects its pods.
    pub(super) fn create_budget(&mut self, number: u64, most: Limit, now: Now) -> Action {
        let Some(owner) = self.tracker.owners.get(number as usize) else {
            return Action::Skipped;
        };
        let (kind, namespace, name) = (owner.workload.kind(), &owner.namespace, &owner.name);
        let pods = owner.pods();
        let found = self.cluster.api(kind).get(namespace, name);
        let labels = found.ok().and_then(|found| pods.selected_labels(&*found));
        let Some(labels) = labels.filter(|labels| !self.has_budget(namespace, labels)) else {
            return Action::Skipped;
        };
        let mut budget = DynamicObject::new(Kind::POD_DISRUPTION_BUDGET);
        budget.metadata = ObjectMeta {
            name: format_compact!("{}-{name}", kind.name().to_lowercase()),
            namespace: namespace.clone(),
            ..ObjectMeta::default()
        };
        let selector: Map = labels
            .pairs()
            .iter()
            .map(|(key, value)| (key.to_string(), value.as_str().into()))
            .collect();
        budget.fields = members(json!({"spec": {
            "maxUnavailable": most.to_json(),
            "selector": {"matchLabels": selector},
        }}));
        let budgets = self.cluster.api(Kind::POD_DISRUPTION_BUDGET);
        let created = budgets.create(Arc::new(budget), now);
        self.note("creating", Kind::POD_DISRUPTION_BUDGET, created);
        Action::Wrote
    }

    /// Reports whether a budget in the namespace selects pods with these labels.
    fn has_budget(&self, namespace: &str, labels: &Labels) -> bool {
        let options = ListOptions {
            namespace: Some(namespace),
            ..ListOptions::default()
        };
        let listed = self.cluster.api(Kind::POD_DISRUPTION_BUDGET).list(&options);
        let items = listed.map(|listed| listed.items).unwrap_or_default();
        items.iter().any(|item| {
            let budget = item
                .downcast_ref::<DynamicObject>()
                .map(Budget::from_object);
            let selector = budget.and_then(|budget| budget.compiled().ok());
            selector.is_some_and(|selector| selector.matches(labels))
        })
    }
}
