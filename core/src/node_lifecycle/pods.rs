//! Marks the pods on a node that is not ready as not ready.
//!
//! Source: `MarkPodsNotReady` of Kubernetes' `pkg/controller/util/node`.

use std::sync::Arc;

use podstorm_objects::{ConditionStatus, ConditionType, Now, Pod};
use podstorm_runtime::client::{Answer, EventType, Request};
use podstorm_runtime::driver::Calls;

/// Marks these pods as not ready, except for those that already are. Returns whether all are marked
/// or deleted.
pub(super) async fn mark(calls: &Calls, pods: &[Arc<Pod>]) -> bool {
    let now = calls.now();
    let marked: Vec<(&Arc<Pod>, Pod)> = pods
        .iter()
        .filter_map(|pod| Some((pod, not_ready(pod, now)?)))
        .collect();
    let requests = marked.iter().map(|(_, new)| Request::PutStatus {
        object: Arc::new(new.clone()),
    });
    let answers = calls.batch(requests.collect::<Vec<_>>()).await;
    let mut all = true;
    for ((pod, _), answer) in marked.iter().zip(answers) {
        match answer {
            Answer::Failed(error) if error.is_not_found() => continue,
            Answer::Failed(_) => all = false,
            _ => {}
        }
        // Like upstream, records the Event even if the pod could not be marked.
        let text = "Node is not ready";
        calls.report(&***pod, EventType::Warning, "NodeNotReady", text);
    }
    all
}

/// Returns the pod with the condition `Ready` set to false as of `now`; `None` if the condition is
/// already false, or absent.
fn not_ready(pod: &Pod, now: Now) -> Option<Pod> {
    let (status, _) = pod.status.conditions.first(ConditionType::Ready)?;
    if status == ConditionStatus::False {
        return None;
    }
    let mut new = pod.clone();
    new.status.conditions.update(|condition| {
        if condition.kind == ConditionType::Ready {
            condition.status = ConditionStatus::False;
            condition.last_transition_time = now.wall().into();
        }
    });
    Some(new)
}
