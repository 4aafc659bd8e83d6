//! Handles a list of pods in runs, so that a start with a million pods adds only a few thousand
//! keys.

use podstorm_objects::Now;
use podstorm_runtime::owned::{OwnedHandlers, OwnedPod};

use super::Controller;
use crate::cache::{Listed, PodRun};

impl Controller {
    /// Handles the changes of a list that the caller has put into the pod cache with
    /// [`crate::cache::PodCache::replace`]. The result equals handling the pods one by one in list
    /// order.
    pub fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
        for run in &listed.runs {
            self.handle_run(run, now);
        }
    }

    /// Handles the pods of one run: one observation per pod and one key for all of them.
    fn handle_run(&self, run: &PodRun, now: Now) {
        for pod in &run.others {
            let owned_pods = Some(&*run.owned_pods);
            self.dependent_added(OwnedPod { pod, owned_pods }, now);
        }
        if run.not_deleting > 0
            && let Some(key) = self.resolve(Some(&run.owned_pods))
        {
            for _ in 0..run.not_deleting {
                self.expectations.creation_observed(key);
            }
            self.queue.add(key, now.mono_ns);
        }
    }
}
