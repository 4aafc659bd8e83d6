//! The parts that a workload adds to a run: its users and its watcher.

use std::sync::Arc;

use podstorm_apiserver::CommitObserver;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::Origins;

use super::Simulation;
use crate::invariants::Checker;

/// The users of a run.
pub trait Users: Sized {
    /// The plan of an object that the users create.
    type Planned;
    /// An action of the users.
    type Action;

    /// Returns users who know these planned objects.
    fn new(planned: &[Self::Planned]) -> Self;

    /// Creates the initial objects.
    fn create(&mut self, simulation: &mut Simulation);

    /// Performs an action that is not [on the cluster](crate::action::SubjectAction::on_cluster). A
    /// request that the server rejects has no effect.
    fn act(&mut self, simulation: &mut Simulation, action: &Self::Action);

    /// Called when the faults have ended: replaces specs that can't be satisfied.
    fn put_right(&mut self, _: &mut Simulation) {}

    /// Touches every object once.
    fn touch(&mut self, simulation: &mut Simulation);

    /// Helps if a controller is known to wait for users. Returns whether it helped.
    fn help(&mut self, _: &mut Simulation) -> bool {
        false
    }
}

/// Observes a run: the checker, or a wrapper that checks more.
pub trait Watcher: CommitObserver + 'static {
    /// Returns the checker, which holds the result of the run.
    fn checker(self: Arc<Self>) -> Arc<Checker>;

    /// Returns the receiver for the origins of commits by orphaned requests.
    fn of_orphans(self: Arc<Self>) -> Arc<dyn Origins> {
        self.checker()
    }

    /// Registers observers of the controllers that the watcher knows.
    fn observe(self: Arc<Self>, _: &mut FaultHarness) {}

    /// Returns the first deviation from the required state at rest, if there is any.
    fn missing(&self, simulation: &Simulation) -> Option<String> {
        simulation.missing()
    }

    /// Called after users have acted, so that a model can perform the controllers' reaction.
    fn stepped(&self, _: &Simulation) {}

    /// Called before a step and at the end of the run, so that a model can be compared with the
    /// actual state.
    fn compares(&self, _: &Simulation) {}

    /// Returns the situations that occurred, in addition to those of the checker.
    fn situations(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the [figures](crate::verdict::Verdict::figures) of the workload.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Watcher for Checker {
    fn checker(self: Arc<Self>) -> Arc<Checker> {
        self
    }
}
