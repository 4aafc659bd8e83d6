//! Describes what an unfinished phase waits for.

use super::driver::Driver;
use crate::units::counted;

impl Driver {
    /// Describes what the current phase waits for; `None` after the last phase.
    pub(crate) fn what_is_missing(&self) -> Option<String> {
        let name = &self.plan.get(self.at.phase)?.name;
        let mut text = format!("phase \"{name}\" was not over");
        if let Some(owner) = self.tracker.first_unconverged() {
            text += &format!(
                ": {} of {} not converged, among them {}/{} with {} of {}",
                self.tracker.unconverged,
                counted(self.tracker.owners.len() as u64, "workload"),
                owner.namespace,
                owner.name,
                owner.active,
                counted(u64::try_from(owner.desired).unwrap_or(0), "pod"),
            );
            if owner.unready > 0 {
                text += &format!(", {} of them not ready", owner.unready);
            }
        } else if self.tracker.deleting > 0 {
            text += &format!(
                ": {} still being deleted",
                counted(self.tracker.deleting, "pod")
            );
        }
        if let Some(open) = self.finishing.first_open() {
            text += &format!(": {open}");
        }
        if let Some((first, count)) = self.rollouts.first_unfinished() {
            let failed = self.rollouts.failed();
            text += &format!(
                ": {count} of {} not complete, {failed} of them past the progress deadline, \
                 among them that of {first}",
                counted(self.rollouts.count() as u64, "rollout"),
            );
        }
        Some(text)
    }
}
