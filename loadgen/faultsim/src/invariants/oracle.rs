//! What the checker asks of one workload, beside what holds for all.

use std::fmt::Debug;

use podstorm_apiserver::Commit;
use podstorm_objects::AnyObject;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::Origin;

use super::Checked;
use crate::action::Action;
use crate::verdict::Verdict;

/// Knows what the syncs of one workload may do, and what they are at. The [`Checker`](super::Checker) asks it at
/// each event; of a workload's requests it hears from the workload's own observer. Every method may be left out.
pub(crate) trait Oracle: Debug + Send {
    /// Looks at a commit of any object; `origin` is that of a sync of the workload, if one asked for it. Adds what
    /// can be counted to the verdict.
    ///
    /// # Errors
    /// The invariant that the commit breaks.
    fn committed(&mut self, _: &Commit, _: Option<Origin>, _: &mut Verdict) -> Checked {
        Ok(())
    }

    /// A step of the schedule is about to do that to the cluster.
    fn disturbed(&mut self, _: &Action, _: &FaultHarness) {}

    /// A controller was started whose first lists are from the past.
    fn stale_start(&mut self) {}

    /// A controller manager has died.
    fn died(&mut self, _: &FaultHarness) {}

    /// Whether a sync is under way.
    fn is_syncing(&self) -> bool {
        false
    }

    /// Whether a controller has something to do.
    fn is_busy(&self) -> bool {
        false
    }

    /// What the controllers are at, one of [`STEPS`](crate::coverage::STEPS).
    fn step_name(&self) -> &'static str {
        "idle"
    }

    /// All is as wanted and quiet: what a controller keeps must be as small as it should be.
    ///
    /// # Errors
    /// The invariant that does not hold.
    fn at_rest(&self, _: &FaultHarness) -> Checked {
        Ok(())
    }

    /// What the log says of an object that was written, beside its name: starts with a space.
    fn object_words(&self, _: &AnyObject) -> Option<String> {
        None
    }

    /// What the log says of a status that a sync writes, beside the object's name.
    fn status_words(&self, _: &AnyObject) -> Option<String> {
        None
    }

    /// Writes down what has come of the run until now, `now_ns`.
    fn add_to(&self, _: &mut Verdict, _now_ns: i64) {}
}

/// Knows of nothing: the workload has its invariants elsewhere, or none.
#[derive(Debug)]
struct NoOracle;

impl Oracle for NoOracle {}

impl Default for Box<dyn Oracle> {
    fn default() -> Self {
        Box::new(NoOracle)
    }
}
