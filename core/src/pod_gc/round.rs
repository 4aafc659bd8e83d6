//! One round: it finds the pods to delete, and then deletes them reason by reason.
//!
//! Source: `gc` and its steps in Kubernetes' `pkg/controller/podgc`.

use std::sync::Arc;

use podstorm_objects::{Kind, Map, Node, Now, Pod, PodPhase, Str};
use podstorm_runtime::client::{Answer, Request};
use podstorm_runtime::driver::{Calls, SyncFailure};
use podstorm_runtime::workqueue::End;
use serde_json::Value;

use super::removal::{self, Reason};
use super::{QUARANTINE_NS, ROUND_EVERY_NS, Shared, State};
use crate::node::node_of;
use crate::pod_key::PodKey;

/// The key of the taint of a node that an operator has declared dead.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The pods that a round deletes, by reason, as the cache had them at the start of the round.
struct Found {
    terminated: Vec<Arc<Pod>>,
    out_of_service: Vec<Arc<Pod>>,
    unscheduled: Vec<Arc<Pod>>,
    /// The names of the nodes whose quarantine is over and that are not in the cache.
    missing: Vec<Str>,
    /// The pods bound to these nodes.
    on_missing: Vec<Arc<Pod>>,
}

/// Runs one round. Counts failed requests; the next round retries them.
pub(super) async fn run(shared: Arc<Shared>, calls: Calls) -> Result<End, SyncFailure> {
    let found = find(&shared, calls.now());
    shared
        .delete_all(&calls, &found.terminated, Reason::Terminated)
        .await;
    for pod in &found.out_of_service {
        shared.delete(&calls, pod, Reason::OutOfService).await;
    }
    for node in &found.missing {
        if !is_gone(&calls, node).await {
            continue;
        }
        for pod in &found.on_missing {
            if node_of(pod) == Some(node) {
                shared.delete(&calls, pod, Reason::Orphaned).await;
            }
        }
    }
    for pod in &found.unscheduled {
        shared.delete(&calls, pod, Reason::Unscheduled).await;
    }
    Ok(End::After(ROUND_EVERY_NS))
}

/// Finds the pods that a round deletes, and puts missing nodes into quarantine. O(candidates +
/// nodes with pods), or O(pods) in the rare round in which the quarantine of a missing node is
/// over.
fn find(shared: &Shared, now: Now) -> Found {
    let mut state = shared.lock();
    let State {
        candidates,
        quarantine,
        ..
    } = &mut *state;
    let get = |pod: &PodKey| shared.pods.get(&pod.namespace, &pod.name);
    let surplus = usize::try_from(shared.threshold)
        .ok()
        .filter(|threshold| *threshold > 0)
        .map_or(0, |threshold| {
            candidates.terminated.len().saturating_sub(threshold)
        });
    let terminated = match surplus {
        0 => Vec::new(),
        _ => oldest(candidates.terminated.iter().filter_map(get), surplus),
    };
    let (mut out_of_service, mut unscheduled) = (Vec::new(), Vec::new());
    for pod in candidates.deleting.iter().filter_map(get) {
        match node_of(&pod).map(|name| shared.nodes.get_named("", name)) {
            None => unscheduled.push(pod),
            Some(Some(node)) if is_out_of_service(&node) => out_of_service.push(pod),
            Some(_) => {}
        }
    }
    let is_missing = |name: &Str| shared.nodes.get_named("", name).is_none();
    let missing_now: Vec<Str> = (candidates.nodes().filter(|node| is_missing(node)))
        .cloned()
        .collect();
    let mut missing = Vec::new();
    quarantine.retain(|name, end_ns| {
        let is_over = *end_ns <= now.mono_ns;
        if is_over && is_missing(name) {
            missing.push(name.clone());
        }
        !is_over
    });
    let end_ns = now.mono_ns.saturating_add(QUARANTINE_NS);
    for name in missing_now {
        quarantine.entry(name).or_insert(end_ns);
    }
    let has_pods = missing.iter().any(|node| candidates.has_pods_on(node));
    drop(state);
    let mut on_missing = Vec::new();
    if has_pods {
        shared.pods.for_each(|pod| {
            if node_of(pod).is_some_and(|node| missing.binary_search(node).is_ok()) {
                on_missing.push(Arc::clone(pod));
            }
        });
        // Sorted, because the cache is unordered.
        on_missing.sort_unstable_by(|a, b| name_of(a).cmp(&name_of(b)));
    }
    Found {
        terminated,
        out_of_service,
        unscheduled,
        missing,
        on_missing,
    }
}

/// Returns the first `count` of these pods in the order of deletion: evicted pods, then the oldest.
fn oldest(pods: impl Iterator<Item = Arc<Pod>>, count: usize) -> Vec<Arc<Pod>> {
    let mut pods: Vec<Arc<Pod>> = pods.collect();
    pods.sort_by(|a, b| {
        let key = |pod: &Pod| (!is_evicted(pod), pod.metadata.creation_timestamp);
        let by_name = || a.metadata.name.cmp(&b.metadata.name);
        key(a).cmp(&key(b)).then_with(by_name)
    });
    pods.truncate(count);
    pods
}

fn is_evicted(pod: &Pod) -> bool {
    let reason = || pod.status.rest.get("reason");
    pod.status.phase == PodPhase::Failed && reason().is_some_and(|reason| reason == "Evicted")
}

fn is_out_of_service(node: &Node) -> bool {
    let mut conditions = entries(&node.status, "conditions").iter();
    let ready = conditions.find(|condition| condition["type"] == "Ready");
    let is_declared = |taint: &Value| taint["key"] == OUT_OF_SERVICE;
    entries(&node.spec, "taints").iter().any(is_declared)
        && ready.is_none_or(|ready| ready["status"] != "True")
}

fn entries<'a>(of: &'a Map, member: &str) -> &'a [Value] {
    match of.get(member) {
        Some(Value::Array(entries)) => entries,
        _ => &[],
    }
}

fn name_of(pod: &Pod) -> (&str, &str) {
    (&pod.metadata.namespace, &pod.metadata.name)
}

/// Reads a node. Returns whether it does not exist on the server.
async fn is_gone(calls: &Calls, name: &Str) -> bool {
    let read = Request::Get {
        kind: Kind::NODE,
        namespace: Str::default(),
        name: (&**name).into(),
    };
    matches!(calls.request(read).await, Answer::Failed(error) if error.is_not_found())
}

impl Shared {
    /// Deletes a pod.
    async fn delete(&self, calls: &Calls, pod: &Arc<Pod>, reason: Reason) {
        self.delete_all(calls, std::slice::from_ref(pod), reason)
            .await;
    }

    /// Marks pods that have not ended as failed, and then deletes all pods that were marked or had
    /// ended. Sends the marks concurrently, and then the deletions.
    async fn delete_all(&self, calls: &Calls, pods: &[Arc<Pod>], reason: Reason) {
        let now = calls.now().wall();
        let (mut ready, mut marked, mut marks) = (Vec::new(), Vec::new(), Vec::new());
        for pod in pods {
            match removal::mark(pod, reason, now) {
                None => ready.push(pod),
                Some(mark) => {
                    marked.push(pod);
                    marks.push(mark);
                }
            }
        }
        for (pod, answer) in marked.into_iter().zip(calls.batch(marks).await) {
            match answer {
                Answer::Failed(_) => self.count(pod, reason, false),
                _ => ready.push(pod),
            }
        }
        let deletions = ready.iter().map(|pod| removal::delete(pod));
        let answers = calls.batch(deletions).await;
        for (pod, answer) in ready.into_iter().zip(answers) {
            self.count(pod, reason, !matches!(answer, Answer::Failed(_)));
        }
    }
}
