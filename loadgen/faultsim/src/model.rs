//! What must be true when nothing goes wrong any more, from the server's state alone: no cache, no
//! expectations, no order of events. Independent of the controller's code.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::{
    ConditionStatus, ConditionType, LabelSelector, Now, Pod, PodPhase, ReplicaSet, ReplicaSetStatus,
};

use super::names::NAMESPACE;
use super::workloads;

/// The first thing that is not as it must be at rest; nothing when all is well.
///
/// At rest every ReplicaSet or ReplicationController that is there has as many available pods as it wants, no pod without a
/// controller is left that it could adopt, none of its pods lacks the labels it selects by, and its
/// status says exactly what is so.
pub fn difference(cluster: &Cluster, now: Now) -> Option<String> {
    let sets = workloads::all(cluster);
    let (pods, _) = cluster.list::<Pod>(Some(NAMESPACE));
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

#[cfg(test)]
mod tests {
    use podstorm_objects::{Namespace, Resource};
    use serde_json::{Value, json};

    use super::*;
    use podstorm_apiserver::ClusterOptions;

    const NOW: Now = Now {
        mono_ns: 0,
        wall_ns: 1_700_000_000_000_000_000,
    };

    /// What differs where a ReplicaSet has this status and the namespace these pods, which are owned
    /// by the ReplicaSet or not and have these labels.
    fn difference_with(status: Value, pods: &[(bool, &str)]) -> Option<String> {
        let cluster = Cluster::new(ClusterOptions::default());
        let mut namespace = Namespace::default();
        namespace.metadata.name = "sim".into();
        cluster.create(namespace, NOW).unwrap();
        let set = json!({
            "metadata": {"name": "web", "namespace": "sim"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "app", "image": "app:1"}]},
                },
            },
        });
        let set = ReplicaSet::from_json(set).unwrap();
        let set = cluster.create(set, NOW).unwrap();
        for (number, (owned, label)) in pods.iter().enumerate() {
            let owner = json!([{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                "uid": set.metadata.uid.to_string(), "controller": true,
            }]);
            let name = format!("p{number}");
            let pod = json!({
                "metadata": {
                    "name": name, "namespace": "sim", "labels": {"app": label},
                    "ownerReferences": if *owned { owner } else { json!([]) },
                },
                "spec": {"containers": [{"name": "app", "image": "app:1"}]},
            });
            let mut pod = Pod::clone(&cluster.create(Pod::from_json(pod).unwrap(), NOW).unwrap());
            let running = json!({"status": {
                "phase": "Running",
                "conditions": [{"type": "Ready", "status": "True"}],
            }});
            pod.status = Pod::from_json(running).unwrap().status;
            cluster.update_status(pod, NOW).unwrap();
        }
        let mut told = ReplicaSet::clone(&set);
        told.status = ReplicaSet::from_json(json!({"status": status}))
            .unwrap()
            .status;
        cluster.update_status(told, NOW).unwrap();
        difference(&cluster, NOW)
    }

    fn exact() -> Value {
        json!({
            "replicas": 1, "fullyLabeledReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
            "terminatingReplicas": 0, "observedGeneration": 1,
        })
    }

    #[test]
    fn as_many_pods_as_wanted_and_an_exact_status_leave_nothing_to_say() {
        assert_eq!(difference_with(exact(), &[(true, "web")]), None);
    }

    #[test]
    fn whatever_is_not_as_it_must_be_is_told() {
        let says = |status, pods: &[(bool, &str)], text: &str| {
            let found = difference_with(status, pods).unwrap_or_default();
            assert!(found.contains(text), "{found} is not {text}");
        };
        says(exact(), &[], "wants 1 and has 0");
        says(
            exact(),
            &[(true, "web"), (true, "web")],
            "wants 1 and has 2",
        );
        says(exact(), &[(true, "web"), (false, "web")], "has not adopted");
        says(
            exact(),
            &[(true, "web"), (true, "other")],
            "has not released",
        );
        let mut wrong = exact();
        wrong["readyReplicas"] = json!(0);
        wrong["availableReplicas"] = json!(0);
        says(wrong, &[(true, "web")], "status says");
        let mut old = exact();
        old["observedGeneration"] = json!(0);
        says(old, &[(true, "web")], "generation");
    }
}
