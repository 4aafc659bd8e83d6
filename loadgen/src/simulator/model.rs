//! What must be true when nothing goes wrong any more, from the server's state alone: no cache, no
//! expectations, no order of events. Independent of the controller's code.

use std::sync::Arc;

use podstorm::object::{
    ConditionStatus, ConditionType, LabelSelector, Now, Pod, PodPhase, ReplicaSet, ReplicaSetStatus,
};

use crate::cluster::Cluster;

/// The first thing that is not as it must be at rest; nothing when all is well.
///
/// At rest every ReplicaSet that is there has as many available pods as it wants, no pod without a
/// controller is left that it could adopt, none of its pods lacks the labels it selects by, and its
/// status says exactly what is so.
pub fn difference(cluster: &Cluster, namespace: &str, now: Now) -> Option<String> {
    let (sets, _) = cluster.list::<ReplicaSet>(Some(namespace));
    let (pods, _) = cluster.list::<Pod>(Some(namespace));
    if let Some(pod) = pods.iter().find(|pod| pod.metadata.is_deleting()) {
        return Some(format!("{} is still terminating", pod.metadata.name));
    }
    if let Some(pod) = pods.iter().find(|pod| is_active(pod) && !pod.is_ready()) {
        return Some(format!("{} is not ready yet", pod.metadata.name));
    }
    sets.iter().find_map(|set| difference_of(set, &pods, now))
}

fn difference_of(set: &ReplicaSet, pods: &[Arc<Pod>], now: Now) -> Option<String> {
    let name = &set.metadata.name;
    if set.metadata.is_deleting() {
        return Some(format!("{name} is still being deleted"));
    }
    let active = |pod: &&Arc<Pod>| is_active(pod);
    for pod in pods.iter().filter(active) {
        let owner = pod.metadata.owner_references.iter();
        let owner = owner
            .into_iter()
            .find(|owner| owner.controller == Some(true));
        let matches = selects(set, pod);
        match owner {
            None if matches => {
                return Some(format!("{name} has not adopted {}", pod.metadata.name));
            }
            Some(owner) if owner.uid == set.metadata.uid && !matches => {
                return Some(format!("{name} has not released {}", pod.metadata.name));
            }
            _ => {}
        }
    }
    let wanted = set.spec.replicas.unwrap_or(1);
    let expected = status(set, pods, now);
    if expected.replicas != wanted {
        return Some(format!(
            "{name} wants {wanted} and has {}",
            expected.replicas
        ));
    }
    // What is on its way to come or to go, or waits for its time, will change the status yet.
    if expected.available_replicas != wanted {
        let available = expected.available_replicas;
        return Some(format!(
            "{name} wants {wanted} pods, and {available} are available"
        ));
    }
    let told = &set.status;
    let counts = |status: &ReplicaSetStatus| {
        [
            status.replicas,
            status.fully_labeled_replicas,
            status.ready_replicas,
            status.available_replicas,
            status.terminating_replicas.unwrap_or(0),
        ]
    };
    if counts(told) != counts(&expected) {
        return Some(format!(
            "{name}'s status says {:?} (replicas, fully labelled, ready, available, terminating), \
             and it is {:?}",
            counts(told),
            counts(&expected)
        ));
    }
    if told.observed_generation != set.metadata.generation {
        return Some(format!(
            "{name}'s status is of generation {}, and it is {}",
            told.observed_generation, set.metadata.generation
        ));
    }
    let failure = told
        .conditions
        .iter()
        .find(|c| *c.kind == *"ReplicaFailure");
    failure.map(|condition| format!("{name} still says that it fails: {}", condition.message))
}

/// What the status of a ReplicaSet must say of these pods.
fn status(set: &ReplicaSet, pods: &[Arc<Pod>], now: Now) -> ReplicaSetStatus {
    let mut status = ReplicaSetStatus::default();
    let mut terminating = 0;
    for pod in pods {
        let own = pod
            .metadata
            .owner_references
            .iter()
            .any(|owner| owner.controller == Some(true) && owner.uid == set.metadata.uid);
        if !own || !selects(set, pod) {
            continue;
        }
        let ended = matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed);
        if pod.metadata.is_deleting() && !ended {
            terminating += 1;
        }
        if !is_active(pod) {
            continue;
        }
        status.replicas += 1;
        let template = &set.spec.template.metadata.labels;
        let labelled = pod.metadata.labels.contains_all(template);
        status.fully_labeled_replicas += i32::from(labelled);
        let mut conditions = pod.status.conditions.iter();
        let ready = conditions.find(|condition| condition.kind == ConditionType::Ready);
        if let Some(ready) = ready.filter(|ready| ready.status == ConditionStatus::True) {
            status.ready_replicas += 1;
            let since = ready.last_transition_time.get().unix_nanos();
            let enough = i64::from(set.spec.min_ready_seconds) * 1_000_000_000;
            let available = enough == 0 || since.is_some_and(|since| since + enough <= now.wall_ns);
            status.available_replicas += i32::from(available);
        }
    }
    status.terminating_replicas = Some(terminating);
    status
}

/// Neither ended nor on its way out.
pub(super) fn is_active(pod: &Pod) -> bool {
    !pod.metadata.is_deleting()
        && !matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed)
}

/// Whether a ReplicaSet's selector matches a pod. Selectors of a simulation have labels to be equal
/// and nothing else.
pub(super) fn selects(set: &ReplicaSet, pod: &Pod) -> bool {
    let selector: Option<&LabelSelector> = set.spec.selector.as_deref();
    selector.is_some_and(|selector| {
        assert!(
            selector.match_expressions.is_empty(),
            "the model knows no expressions"
        );
        pod.metadata.labels.contains_all(&selector.match_labels)
    })
}
