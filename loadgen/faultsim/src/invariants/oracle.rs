//! The checker's interface to one workload, in addition to the invariants of all workloads.

use std::fmt::Debug;

use podstorm_apiserver::Commit;
use podstorm_objects::AnyObject;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::Origin;

use super::Checked;
use crate::action::Action;
use crate::verdict::Verdict;

/// The rules and the state of one workload's syncs. The [`Checker`](super::Checker) calls the
/// oracle at each event; the workload's observer passes the workload's requests to the oracle.
/// Every method is optional.
pub(crate) trait Oracle: Debug + Send {
    /// Checks a commit of any object; `origin` is the sync of the workload that requested it, if
    /// there is one. Adds counts to the verdict.
    ///
    /// # Errors
    /// Fails with the invariant that the commit violates.
    fn committed(&mut self, _: &Commit, _: Option<Origin>, _: &mut Verdict) -> Checked {
        Ok(())
    }

    /// Called before a step of the schedule changes the cluster.
    fn disturbed(&mut self, _: &Action, _: &FaultHarness) {}

    /// Records that a controller manager started with stale lists.
    fn stale_start(&mut self) {}

    /// Records that a controller manager died.
    fn died(&mut self, _: &FaultHarness) {}

    /// Reports whether a sync is in progress.
    fn is_syncing(&self) -> bool {
        false
    }

    /// Reports whether a controller has work to do.
    fn is_busy(&self) -> bool {
        false
    }

    /// Returns the current step of the controllers' work, one of [`STEPS`](crate::coverage::STEPS).
    fn step_name(&self) -> &'static str {
        "idle"
    }

    /// Checks that the controllers' state is as small as it should be once the run has converged
    /// and is quiet.
    ///
    /// # Errors
    /// Fails with the violated invariant.
    fn at_rest(&self, _: &FaultHarness) -> Checked {
        Ok(())
    }

    /// Returns the words that the log adds to the name of a written object. They begin with a
    /// space.
    fn object_words(&self, _: &AnyObject) -> Option<String> {
        None
    }

    /// Returns the words that the log adds to the name of an object whose status a sync writes.
    fn status_words(&self, _: &AnyObject) -> Option<String> {
        None
    }

    /// Adds the results up to `now_ns` to the verdict.
    fn add_to(&self, _: &mut Verdict, _now_ns: i64) {}
}

/// An oracle without rules, for a workload whose invariants are checked elsewhere or that has none.
#[derive(Debug)]
struct NoOracle;

impl Oracle for NoOracle {}

impl Default for Box<dyn Oracle> {
    fn default() -> Self {
        Box::new(NoOracle)
    }
}
