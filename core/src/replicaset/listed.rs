//! A list of pods, handled in runs: what a start hears of a million pods is a few thousand keys.

use podstorm_objects::Now;

use super::{Controller, Effects};
use crate::cache::{Listed, PodRun};

impl Controller {
    /// Handles what a list did to the pod cache, which the caller has filled by
    /// [`crate::cache::PodCache::replace`]. The effects are those of the pods one by one, in the
    /// order of the list.
    pub fn pods_listed(&self, listed: &Listed, now: Now) {
        let live = self.live(now);
        for change in &listed.changes {
            self.handle_pod(change, &live);
        }
        for run in &listed.runs {
            self.handle_run(run, &live);
        }
    }

    /// Handles pods that came together: one observation for each, and one key for all.
    fn handle_run(&self, run: &PodRun, effects: &impl Effects) {
        for pod in &run.others {
            self.handle_new_pod(pod, Some(&run.group), effects);
        }
        if run.living > 0
            && let Some(key) = self.resolve(Some(&run.group))
        {
            for _ in 0..run.living {
                self.expectations.creation_observed(key);
            }
            effects.add(key);
        }
    }
}
