//! Explains what draining a node does: which pods go immediately, which ones their budgets protect,
//! and which ones stay. On a copy of the cluster the disruption controller counts the budgets of
//! the files, and the server evicts each pod.

mod table;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use anyhow::{Result, bail};
use podstorm_apiserver::latency::Latency;
use podstorm_apiserver::{Cluster, DeleteOptions, Eviction, ListOptions};
use podstorm_objects::disruption::Budget;
use podstorm_objects::{ApiError, DynamicObject, Kind, Now, Pod};
use podstorm_sim::engine::Harness;
use podstorm_sim::options::{EngineKind, SimOptions};
use podstorm_sim::rows::Rows;
use podstorm_sim::services::Controllers;
use serde::Serialize;

use crate::input::{InputObject, described, missing_namespaces};
use crate::text::json;
use crate::workloads::explain::find::{near_names, some_of};
use crate::workloads::explain::{Asked, Explanation, Layout};

const HOUR_NS: i64 = 3_600_000_000_000;

/// The maximum time for counting the budgets, in ns of the copy's time.
const COUNT_NS: i64 = 10_000_000_000;

/// The annotation of static pods, which a kubelet runs from a file.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// The answer to the question which pods a drain evicts.
#[derive(Clone, Debug, Serialize)]
struct Answer {
    /// The version of these fields: incremented when one changes its meaning.
    schema_version: u32,
    node: String,
    /// Whether the node is marked unschedulable.
    is_cordoned: bool,
    /// The pods on the node, those that can be evicted first.
    pods: Vec<Fate>,
    /// The budgets that select at least one of these pods.
    budgets: Vec<BudgetUse>,
    /// Other remarks, in sentences.
    notes: Vec<String>,
}

/// A pod on the node and the drain's effect on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Fate {
    namespace: String,
    name: String,
    /// The pod's controller, such as `ReplicaSet web`; `None` without a controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    fate: Verdict,
    /// The budgets that select the pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<String>,
    /// The reason for the verdict, in words.
    why: String,
}

/// The drain's effect on a pod, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    /// The eviction is granted.
    Goes,
    /// A budget refuses the eviction for now.
    Waits,
    /// The eviction is refused until an operator intervenes.
    Stuck,
    /// `kubectl drain` doesn't evict it.
    Stays,
}

/// A budget and how the drain uses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct BudgetUse {
    namespace: String,
    name: String,
    expected: i64,
    healthy: i64,
    desired: i64,
    /// The number of evictions that the budget allows before the drain.
    allowed: i64,
    /// The number of the node's pods that go.
    goes: usize,
    /// The number of the node's pods that wait.
    waits: usize,
}

/// Explains the drain of the node with this name.
///
/// # Errors
/// The node does not exist, or the files contain no nodes.
pub(crate) fn explain(node: &str, asked: Asked) -> Result<Box<dyn Explanation>> {
    let node = check_node(node, &asked.objects)?;
    let (harness, refused) = copied(asked.objects, asked.now);
    let mut answer = drain(harness.cluster(), &node, harness.now());
    answer.notes.extend(refused);
    Ok(Box::new(answer))
}

impl Explanation for Answer {
    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        json::write(out, self)
    }

    fn text(&self, layout: Layout) -> String {
        table::render(self, layout)
    }
}

/// Returns the name of the node, after a check that the node is among the objects.
fn check_node(wanted: &str, objects: &[InputObject]) -> Result<String> {
    let nodes = objects.iter().filter_map(|object| match object {
        InputObject::Node(node) => Some(node.metadata.name.to_string()),
        _ => None,
    });
    let names: Vec<String> = nodes.collect();
    if names.is_empty() {
        bail!(
            "the input has no Node; dump nodes with the pods and their budgets: kubectl get \
             nodes,pods,pdb,deploy,rs,sts,rc -A -o json"
        );
    }
    if names.iter().any(|name| name == wanted) {
        return Ok(wanted.to_owned());
    }
    let near = match near_names(wanted, &names) {
        near if near.is_empty() => some_of(&names),
        near => near.join(", "),
    };
    bail!("the input has no Node {wanted:?}; the nearest: {near}")
}

/// Returns a cluster with these objects, in which only the disruption controller runs and has
/// counted the budgets; and a description of each object that the server refused.
fn copied(mut objects: Vec<InputObject>, now: Now) -> (Harness, Vec<String>) {
    let mut options = SimOptions::new(EngineKind::Virtual, 1);
    // Pods must not change while the budgets are counted.
    options.latency.pod_startup = Latency::Constant(HOUR_NS);
    options.latency.pod_termination = Latency::Constant(HOUR_NS);
    let controllers = Controllers::from_words(Rows::installed(), &["disruption"]);
    options.services.controllers = controllers.expect("the disruption controller exists");
    let harness = Harness::new(&options).starting_at(now.wall_ns);
    let mut all: Vec<InputObject> = missing_namespaces(&objects).collect();
    // Owners come before the objects that they own, and pods come last.
    objects.sort_by_key(|object| match object {
        InputObject::Namespace(_) => 0,
        InputObject::Pod(_) => 2,
        _ => 1,
    });
    all.append(&mut objects);
    let mut refused = Vec::new();
    for object in all {
        let name = described(object.as_object());
        let api = harness.cluster().api(object.kind());
        match api.import(object.into_any(), harness.now()) {
            // 409 is expected: some namespaces exist from the start.
            Err(error) if error.code != 409 => refused.push(format!("left out {name}: {error}")),
            _ => {}
        }
    }
    let mut harness = harness.started();
    harness.settle(COUNT_NS);
    (harness, refused)
}

/// Evicts every pod on the node at the same time and returns the outcome.
fn drain(cluster: &Cluster, node: &str, now: Now) -> Answer {
    let before = budgets(cluster);
    let (pods, _) = cluster.list::<Pod>(None);
    let mut pods: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_on(pod, node)).collect();
    pods.sort_by_key(|pod| (pod.metadata.namespace.clone(), pod.metadata.name.clone()));
    let mut fates: Vec<Fate> = pods
        .iter()
        .map(|pod| {
            let selecting: Vec<&Budget> = before.iter().filter(|it| selects(it, pod)).collect();
            let (fate, why) = fate_of(cluster, pod, &selecting, now);
            let meta = &pod.metadata;
            let owner = meta.controller();
            Fate {
                namespace: meta.namespace.to_string(),
                name: meta.name.to_string(),
                owner: owner.map(|owner| format!("{} {}", owner.kind, owner.name)),
                fate,
                budgets: selecting
                    .iter()
                    .map(|it| it.metadata.name.to_string())
                    .collect(),
                why,
            }
        })
        .collect();
    let uses = before.iter().filter_map(|budget| {
        let meta = &budget.metadata;
        let of_budget = |it: &&Fate| {
            *it.namespace == *meta.namespace && it.budgets.iter().any(|name| *name == *meta.name)
        };
        let mut counts = BTreeMap::new();
        for fate in fates.iter().filter(of_budget) {
            *counts.entry(fate.fate).or_insert(0) += 1;
        }
        let count = |of| counts.get(&of).copied().unwrap_or(0);
        (!counts.is_empty()).then(|| BudgetUse {
            namespace: meta.namespace.to_string(),
            name: meta.name.to_string(),
            expected: budget.status.expected_pods,
            healthy: budget.status.current_healthy,
            desired: budget.status.desired_healthy,
            allowed: budget.status.disruptions_allowed,
            goes: count(Verdict::Goes),
            waits: count(Verdict::Waits) + count(Verdict::Stuck),
        })
    });
    let budgets = uses.collect();
    fates.sort_by_key(|fate| fate.fate);
    let stored = cluster.get::<podstorm_objects::Node>("", node);
    Answer {
        schema_version: 1,
        node: node.to_owned(),
        is_cordoned: stored.is_ok_and(|node| node.unschedulable),
        notes: notes(&pods),
        pods: fates,
        budgets,
    }
}

fn is_on(pod: &Pod, node: &str) -> bool {
    pod.node_name.as_ref().is_some_and(|name| *name == *node)
}

fn budgets(cluster: &Cluster) -> Vec<Budget> {
    let listed = cluster
        .api(Kind::POD_DISRUPTION_BUDGET)
        .list(&ListOptions::default());
    let items = listed.map(|listed| listed.items).unwrap_or_default();
    let objects = items
        .iter()
        .filter_map(|it| it.downcast_ref::<DynamicObject>());
    objects.map(Budget::from_object).collect()
}

fn selects(budget: &Budget, pod: &Pod) -> bool {
    budget.metadata.namespace == pod.metadata.namespace
        && budget
            .compiled()
            .is_ok_and(|selector| selector.matches(&pod.metadata.labels))
}

/// Returns why `kubectl drain` leaves a pod on its node; `None` if it evicts the pod.
pub(crate) fn why_it_stays(pod: &Pod) -> Option<&'static str> {
    if pod.metadata.annotations.get(MIRROR).is_some() {
        Some("its kubelet runs it from a file")
    } else if is_of_daemon(pod) && !pod.status.phase.is_terminal() {
        Some("its DaemonSet would recreate it immediately")
    } else {
        None
    }
}

fn is_of_daemon(pod: &Pod) -> bool {
    let owner = pod.metadata.controller();
    owner.is_some_and(|owner| *owner.kind == *"DaemonSet")
}

/// Tries to evict a pod, and returns the verdict with its reason.
fn fate_of(cluster: &Cluster, pod: &Pod, budgets: &[&Budget], now: Now) -> (Verdict, String) {
    let meta = &pod.metadata;
    let leaves = || meta.is_deleting().then_some("it is being deleted already");
    if let Some(why) = why_it_stays(pod).or_else(leaves) {
        return (Verdict::Stays, why.to_owned());
    }
    let options = DeleteOptions::default();
    let answer = cluster.evict(&meta.namespace, &meta.name, &options, false, now);
    match answer {
        Ok(Eviction::Evicted) => (Verdict::Goes, why_it_goes(pod, budgets)),
        Ok(Eviction::Refused(error)) => (Verdict::Stuck, error.message),
        Err(error) => why_it_waits(&error, pod, budgets),
    }
}

fn why_it_goes(pod: &Pod, budgets: &[&Budget]) -> String {
    let [budget] = budgets else {
        return "no budget selects it".to_owned();
    };
    let name = &budget.metadata.name;
    if pod.status.phase.is_terminal() {
        "it has ended".to_owned()
    } else if !pod.is_ready() {
        format!("it is not ready, and the budget {name} does not count it")
    } else {
        format!("the budget {name} allows it")
    }
}

/// Returns whether a pod whose eviction was refused may go later, and the reason.
fn why_it_waits(error: &ApiError, pod: &Pod, budgets: &[&Budget]) -> (Verdict, String) {
    let [budget] = budgets else {
        return (Verdict::Stuck, error.message.clone());
    };
    let (name, status) = (&budget.metadata.name, &budget.status);
    if error.code != 429 {
        return (Verdict::Stuck, format!("budget {name}: {}", error.message));
    }
    let spare = status.expected_pods - status.desired_healthy;
    if spare <= 0 {
        let why = format!(
            "the budget {name} never lets one go: it wants {} of {} pods ready",
            status.desired_healthy, status.expected_pods
        );
        return (Verdict::Stuck, why);
    }
    if pod.metadata.controller().is_none() {
        let why = format!(
            "the budget {name} allows no more, and nothing replaces pods without a controller"
        );
        return (Verdict::Waits, why);
    }
    let unready = (status.expected_pods - status.current_healthy).max(0);
    let why = match status.disruptions_allowed > 0 {
        true => format!("the budget {name} has none left: until a replacement is ready elsewhere"),
        false => format!(
            "the budget {name} allows none: {unready} of its {} pods {} not ready",
            status.expected_pods,
            if unready == 1 { "is" } else { "are" }
        ),
    };
    (Verdict::Waits, why)
}

/// Returns a remark for each flag that `kubectl drain` requires because of these pods.
fn notes(pods: &[&Arc<Pod>]) -> Vec<String> {
    let is_live = |pod: &&&Arc<Pod>| !pod.status.phase.is_terminal();
    let count = |is: &dyn Fn(&Pod) -> bool| {
        let live = pods.iter().filter(is_live);
        live.filter(|pod| is(pod)).count()
    };
    let by_daemons = count(&is_of_daemon);
    let alone = count(&|pod| {
        let meta = &pod.metadata;
        meta.controller().is_none() && meta.annotations.get(MIRROR).is_none()
    });
    let with_files = count(&|pod| {
        let volumes = pod.spec.get("volumes").unwrap_or_default();
        let mut volumes = volumes.as_array().into_iter().flatten();
        volumes.any(|volume| volume.get("emptyDir").is_some())
    });
    let flags = [
        (
            by_daemons,
            "--ignore-daemonsets",
            "of DaemonSets, which stay",
        ),
        (
            alone,
            "--force",
            "without a controller, which nothing creates again",
        ),
        (
            with_files,
            "--delete-emptydir-data",
            "with an emptyDir, whose files go",
        ),
    ];
    let needed = flags.into_iter().filter(|(count, ..)| *count > 0);
    let words = needed.map(|(count, flag, which)| {
        let pods = if count == 1 { "pod" } else { "pods" };
        format!("kubectl drain needs {flag}: the node has {count} {pods} {which}.")
    });
    words.collect()
}
