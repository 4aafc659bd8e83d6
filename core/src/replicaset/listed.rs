//! A list of pods, handled in runs: what a start hears of a million pods is a few thousand keys.

use podstorm_objects::Now;

use super::Controller;
use crate::cache::{Listed, PodRun};

impl Controller {
    /// Handles what a list did to the pod cache, which the caller has filled by
    /// [`crate::cache::PodCache::replace`]. What comes of it is what comes of the pods one by one, in the
    /// order of the list.
    pub fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
        for run in &listed.runs {
            self.handle_run(run, now);
        }
    }

    /// Handles pods that came together: one observation for each, and one key for all.
    fn handle_run(&self, run: &PodRun, now: Now) {
        for pod in &run.others {
            self.handle_new_pod(pod, Some(&run.owned_pods), now);
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
