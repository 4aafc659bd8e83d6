//! Finds deviations from the desired state in the StatefulSets of files, before the run.

use podstorm::statefulset::course::Course;

use super::super::Findings;
use crate::input::InputObject;
use crate::owned_pods::{OwnedPods, PodsByOwner};

/// Adds the deviations of StatefulSets to `found`. O(objects).
pub(super) fn examine(objects: &[InputObject], owned: &PodsByOwner<'_>, found: &mut Findings) {
    for object in objects {
        let (meta, course) = (object.metadata(), Course::from_object(object.as_object()));
        let Some(course) = course else {
            continue;
        };
        let name = format!("StatefulSet {}/{}", meta.namespace, meta.name);
        if !course.is_observed() {
            found
                .stale
                .push(format!("{name} has a status of an older spec"));
        }
        let Some(status) = course.rollout_status().ok().filter(|status| !status.done) else {
            continue;
        };
        let why = owned
            .get(&meta.uid)
            .and_then(|pods: &OwnedPods| pods.problem(None));
        let why = why.unwrap_or(status.message);
        found
            .rollouts
            .push(format!("{name} is not complete: {why}"));
    }
}
