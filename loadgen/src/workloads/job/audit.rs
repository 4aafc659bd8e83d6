//! Checks that a finished Job agrees with its pods.

use std::collections::BTreeSet;
use std::sync::Arc;

use podstorm::job::course::Course;
use podstorm::job::pod::{TRACKING_FINALIZER, completion_index};
use podstorm_objects::{Object, Pod, PodPhase};

/// Compares a finished Job with its pods in the store. Pods may have been removed after they were
/// counted, so the status may count more pods than exist.
///
/// # Errors
/// The contradiction between the status and the pods.
pub(super) fn check(object: &dyn Object, pods: &[Arc<Pod>]) -> Result<(), String> {
    let Some(course) = Course::from_object(object).filter(Course::is_over) else {
        return Ok(());
    };
    let meta = object.metadata();
    let wrong = |problem: String| {
        Err(format!(
            "Job {}/{} has ended: {problem}",
            meta.namespace, meta.name
        ))
    };
    if course.active != 0 || course.terminating != 0 || course.uncounted != 0 {
        return wrong("its status still has active, terminating or uncounted pods".to_owned());
    }
    let (mut succeeded, mut indexes) = (0, BTreeSet::new());
    for pod in pods {
        let name = &pod.metadata.name;
        if pod.is_active() {
            return wrong(format!("its pod {name} is active"));
        }
        if pod.metadata.has_finalizer(TRACKING_FINALIZER) {
            return wrong(format!("its pod {name} has the tracking finalizer"));
        }
        if pod.status.phase == PodPhase::Succeeded {
            succeeded += 1;
            indexes.insert(completion_index(&pod.metadata.annotations));
        }
    }
    let there = match course.is_indexed {
        true => i64::try_from(indexes.len()).unwrap_or(i64::MAX),
        false => succeeded,
    };
    match there > course.succeeded {
        true => wrong(format!(
            "its status counts {} succeeded pods, and there are {there}",
            course.succeeded
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{DynamicObject, Kind, Resource as _};
    use serde_json::{Value, json};

    use super::*;

    fn pod(phase: &str, finalizers: Value) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": "p", "namespace": "n", "finalizers": finalizers},
            "spec": {"containers": [{"name": "c", "image": "i"}]}, "status": {"phase": phase}});
        Arc::new(Pod::from_json(pod).unwrap())
    }

    #[test]
    fn a_finished_job_has_no_active_held_or_uncounted_pods() {
        let ended = json!([{"type": "Complete", "status": "True"}]);
        let job = |status: Value| {
            let job =
                json!({"metadata": {"name": "j", "namespace": "n"}, "spec": {}, "status": status});
            DynamicObject::from_json(Kind::JOB, job).unwrap()
        };
        let done = job(json!({"conditions": ended, "succeeded": 1}));
        let held = json!([TRACKING_FINALIZER]);
        for (pods, words) in [
            (vec![pod("Succeeded", json!([]))], None),
            (vec![pod("Failed", json!([]))], None),
            (vec![pod("Running", json!([]))], Some("is active")),
            (vec![pod("Failed", held)], Some("tracking finalizer")),
            (
                vec![pod("Succeeded", json!([])); 2],
                Some("counts 1 succeeded pods, and there are 2"),
            ),
        ] {
            match (check(&done, &pods), words) {
                (Ok(()), None) => {}
                (Err(problem), Some(words)) => assert!(problem.contains(words), "{problem}"),
                (found, _) => panic!("{words:?}: {found:?}"),
            }
        }
        assert!(check(&job(json!({"conditions": ended, "active": 1})), &[]).is_err());
        let open = job(json!({"active": 1}));
        assert_eq!(check(&open, &[pod("Running", json!([]))]), Ok(()));
    }
}
