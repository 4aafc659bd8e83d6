//! The requirements after the end of faults, computed only from the server's state, without caches,
//! expectations or the order of events. Independent of the controller's code.

use std::sync::Arc;

use podstorm_apiserver::Cluster;
use podstorm_objects::{
    ConditionStatus, ConditionType, LabelSelector, Now, Pod, PodPhase, ReplicaSet, ReplicaSetStatus,
};

use super::kinds;
use crate::simulation::is_idle;

/// Returns the first deviation from the required state at rest, or `None` if there is none.
///
/// At rest, every existing ReplicaSet or ReplicationController has the wanted number of available
/// pods and an exact status, all of its pods have the labels of its selector, and no orphan remains
/// that it could adopt. A pod that requests its own scheduler counts without being ready.
pub(super) fn difference(cluster: &Cluster, now: Now) -> Option<String> {
    let sets = kinds::all(cluster);
    let (pods, _) = cluster.list::<Pod>(None);
    sets.iter().find_map(|set| difference_of(set, &pods, now))
}

fn difference_of(set: &ReplicaSet, pods: &[Arc<Pod>], now: Now) -> Option<String> {
    let name = &set.metadata.name;
    if set.metadata.is_deleting() {
        return Some(format!("{name} is still being deleted"));
    }
    let here = || {
        let pods = pods.iter().map(|pod| &**pod);
        pods.filter(|pod| pod.metadata.namespace == set.metadata.namespace)
    };
    for pod in here().filter(|pod| is_active(pod)) {
        let mut owners = pod.metadata.owner_references.iter();
        let is_orphan = !owners.any(|owner| owner.controller == Some(true));
        let matches = selects(set, pod);
        if is_orphan && matches {
            return Some(format!("{name} has not adopted {}", pod.metadata.name));
        }
        if owns(set, pod) && !matches {
            return Some(format!("{name} has not released {}", pod.metadata.name));
        }
    }
    let wanted = set.spec.replicas.unwrap_or(1);
    let expected = counts(set, here(), |_| false, now.wall_ns);
    let [replicas, .., available, _] = expected;
    if replicas != wanted {
        return Some(format!("{name} wants {wanted} but has {replicas}"));
    }
    // Pods that are starting, terminating or not available yet will still change the status.
    let idle =
        here().filter(|pod| owns(set, pod) && is_active(pod) && is_idle(pod) && !pod.is_ready());
    if available + idle.count() as i32 != wanted {
        return Some(format!(
            "{name} wants {wanted} pods, but {available} are available"
        ));
    }
    let status = &set.status;
    let said = said(status);
    if said != expected {
        return Some(format!(
            "the status of {name} has {said:?} (replicas, fully labeled, ready, available, \
             terminating) instead of {expected:?}"
        ));
    }
    if status.observed_generation != set.metadata.generation {
        return Some(format!(
            "the status of {name} has generation {} instead of {}",
            status.observed_generation, set.metadata.generation
        ));
    }
    let mut conditions = status.conditions.iter();
    let failure = conditions.find(|it| *it.kind == *"ReplicaFailure");
    failure.map(|condition| {
        format!(
            "{name} still has a failure condition: {}",
            condition.message
        )
    })
}

/// Returns the counts in a status: replicas, fully labeled, ready, available and terminating.
pub(super) fn said(status: &ReplicaSetStatus) -> [i32; 5] {
    [
        status.replicas,
        status.fully_labeled_replicas,
        status.ready_replicas,
        status.available_replicas,
        status.terminating_replicas.unwrap_or(0),
    ]
}

/// Returns the correct counts for these pods, of which the `adopted` ones count as owned and
/// selected.
pub(crate) fn counts<'a>(
    set: &ReplicaSet,
    pods: impl Iterator<Item = &'a Pod>,
    adopted: impl Fn(&Pod) -> bool,
    wall_ns: i64,
) -> [i32; 5] {
    let mut counts = [0; 5];
    for pod in pods {
        let own = owns(set, pod) && selects(set, pod);
        let ended = matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed);
        counts[4] += i32::from(own && pod.metadata.is_deleting() && !ended);
        if !is_active(pod) || !(own || adopted(pod)) {
            continue;
        }
        counts[0] += 1;
        let template = &set.spec.template.metadata.labels;
        counts[1] += i32::from(pod.metadata.labels.contains_all(template));
        let mut conditions = pod.status.conditions.iter();
        let ready = conditions.find(|condition| condition.kind == ConditionType::Ready);
        if let Some(ready) = ready.filter(|ready| ready.status == ConditionStatus::True) {
            counts[2] += 1;
            let since = ready.last_transition_time.get().unix_nanos();
            let enough = i64::from(set.spec.min_ready_seconds) * 1_000_000_000;
            let available = enough == 0 || since.is_some_and(|since| since + enough <= wall_ns);
            counts[3] += i32::from(available);
        }
    }
    counts
}

/// Reports whether the pod has neither ended nor started terminating.
pub(super) fn is_active(pod: &Pod) -> bool {
    !pod.metadata.is_deleting()
        && !matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed)
}

/// Reports whether an object is a pod's controller.
pub(super) fn owns(set: &ReplicaSet, pod: &Pod) -> bool {
    let mut owners = pod.metadata.owner_references.iter();
    owners.any(|owner| owner.controller == Some(true) && owner.uid == set.metadata.uid)
}

/// Reports whether a ReplicaSet's selector matches a pod. Selectors of a simulation only compare
/// labels.
pub(super) fn selects(set: &ReplicaSet, pod: &Pod) -> bool {
    let selector: Option<&LabelSelector> = set.spec.selector.as_deref();
    selector.is_some_and(|selector| {
        assert!(
            selector.match_expressions.is_empty(),
            "the model does not support expressions"
        );
        pod.metadata.labels.contains_all(&selector.match_labels)
    })
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{Kind, Namespace, Resource};
    use serde_json::{Value, json};

    use super::super::kinds::replica_set;
    use super::*;
    use crate::objects::{NAMESPACE, controlled_by, named, pod, with};
    use podstorm_apiserver::ClusterOptions;

    const NOW: Now = Now {
        mono_ns: 0,
        wall_ns: 1_700_000_000_000_000_000,
    };

    /// Returns the deviation of a ReplicaSet with this status in a namespace with these pods. Each
    /// pod is given by whether the ReplicaSet owns it and by the value of its label.
    fn difference_with(status: Value, pods: &[(bool, &str)]) -> Option<String> {
        let cluster = Cluster::new(ClusterOptions::default());
        let namespace = Namespace {
            metadata: named(NAMESPACE),
            ..Namespace::default()
        };
        cluster.create(namespace, NOW).unwrap();
        let set = replica_set("web", "web", 1);
        let set = ReplicaSet::from_json(set).unwrap();
        let set = cluster.create(set, NOW).unwrap();
        for (number, (owned, label)) in pods.iter().enumerate() {
            let object = pod(&format!("p{number}"), label);
            let owner = controlled_by(Kind::REPLICA_SET, "web", &set.metadata.uid.to_string());
            let object = with(object, if *owned { owner } else { json!({}) });
            let mut pod = Pod::clone(
                &cluster
                    .create(Pod::from_json(object).unwrap(), NOW)
                    .unwrap(),
            );
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
    fn the_wanted_pods_and_an_exact_status_are_no_deviation() {
        assert_eq!(difference_with(exact(), &[(true, "web")]), None);
    }

    #[test]
    fn every_deviation_is_reported() {
        let says = |status, pods: &[(bool, &str)], text: &str| {
            let found = difference_with(status, pods).unwrap_or_default();
            assert!(found.contains(text), "{found} does not contain {text}");
        };
        let (own, orphan, stray) = ((true, "web"), (false, "web"), (true, "other"));
        says(exact(), &[], "wants 1 but has 0");
        says(exact(), &[own, own], "wants 1 but has 2");
        says(exact(), &[own, orphan], "has not adopted");
        says(exact(), &[own, stray], "has not released");
        let mut wrong = exact();
        wrong["readyReplicas"] = json!(0);
        wrong["availableReplicas"] = json!(0);
        says(wrong, &[own], "fully labeled");
        let mut old = exact();
        old["observedGeneration"] = json!(0);
        says(old, &[own], "generation");
    }
}
