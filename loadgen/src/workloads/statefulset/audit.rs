//! Checks that a StatefulSet at rest agrees with its pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::statefulset::course::Course;
use podstorm::statefulset::identity::{REVISION_LABEL, identity_matches, pod_name};
use podstorm_objects::{Object, Pod};

use super::of_kind;

/// Compares a StatefulSet whose pods all exist with these pods: each pod must have the name for an
/// ordinal, and the status must count the pods of each revision correctly. O(pods · log pods).
///
/// # Errors
/// The contradiction between the set and its pods.
pub(super) fn check(object: &dyn Object, pods: &[Arc<Pod>]) -> Result<(), String> {
    let Some((set, course)) = of_kind(object).zip(Course::from_object(object)) else {
        return Ok(());
    };
    let meta = &set.metadata;
    let wrong = |problem: String| {
        let (namespace, name) = (&meta.namespace, &meta.name);
        Err(format!("StatefulSet {namespace}/{name}: {problem}"))
    };
    let there: BTreeSet<&str> = pods.iter().map(|pod| pod.metadata.name.as_str()).collect();
    for ordinal in course.ordinals() {
        let name = pod_name(&meta.name, ordinal);
        if !there.contains(&*name) {
            return wrong(format!("it has no pod {name}"));
        }
    }
    if let Some(other) = pods
        .iter()
        .find(|pod| !identity_matches(meta, &pod.metadata))
    {
        let name = &other.metadata.name;
        return wrong(format!(
            "its pod {name} does not have the identity of an ordinal"
        ));
    }
    let of_revision = |revision: &str| {
        let label = |pod: &Pod| pod.metadata.labels.get(REVISION_LABEL).cloned();
        let is_of = |pod: &&Arc<Pod>| {
            !pod.metadata.is_deleting() && label(pod).is_some_and(|it| *it == *revision)
        };
        i64::try_from(pods.iter().filter(is_of).count()).unwrap_or(i64::MAX)
    };
    for (which, count, revision) in [
        ("current", course.current, &course.current_revision),
        ("updated", course.updated, &course.update_revision),
    ] {
        let there = of_revision(revision);
        if count != there {
            return wrong(format!(
                "its status counts {count} {which} pods, of revision {revision:?}, and there are {there}"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use podstorm::statefulset::identity::POD_NAME_LABEL;
    use podstorm_objects::{DynamicObject, Kind, Resource as _};
    use serde_json::json;

    use super::*;

    fn pod(name: &str, revision: &str) -> Arc<Pod> {
        let labels = json!({POD_NAME_LABEL: name, REVISION_LABEL: revision});
        let pod = json!({"metadata": {"name": name, "namespace": "n", "labels": labels},
            "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running"}});
        Arc::new(Pod::from_json(pod).unwrap())
    }

    #[test]
    fn a_set_at_rest_has_the_pods_and_revisions_of_its_status() {
        let set = |start: i64, current: i64, updated: i64| {
            let set = json!({"metadata": {"name": "web", "namespace": "n"},
                "spec": {"replicas": 2, "ordinals": {"start": start}},
                "status": {"currentReplicas": current, "updatedReplicas": updated, "currentRevision": "old",
                    "updateRevision": "new"}});
            DynamicObject::from_json(Kind::STATEFUL_SET, set).unwrap()
        };
        let both = [pod("web-0", "old"), pod("web-1", "new")];
        assert_eq!(check(&set(0, 1, 1), &both), Ok(()));
        for (set, pods, words) in [
            (set(1, 1, 1), &both[..], "no pod web-2"),
            (set(0, 1, 1), &both[..1], "no pod web-1"),
            (
                set(0, 2, 1),
                &both[..],
                "counts 2 current pods, of revision \"old\", and there are 1",
            ),
            (set(0, 1, 0), &both[..], "counts 0 updated pods"),
        ] {
            let problem = check(&set, pods).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
        let odd = [both[0].clone(), both[1].clone(), pod("web-01", "new")];
        let problem = check(&set(0, 1, 2), &odd).unwrap_err();
        assert!(
            problem.contains("web-01 does not have the identity"),
            "{problem}"
        );
    }
}
