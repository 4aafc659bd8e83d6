//! What a workload brings to a run: its users, and what looks at it.

use std::sync::Arc;

use podstorm_apiserver::CommitObserver;
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::Origins;

use super::Simulation;
use crate::invariants::Checker;

/// The users of a run.
pub trait Users: Sized {
    /// The objects that they create.
    type Planned;
    /// What they do.
    type Action;

    /// Those who know these objects.
    fn new(planned: &[Self::Planned]) -> Self;

    /// Creates what is planned, at first.
    fn create(&mut self, simulation: &mut Simulation);

    /// Carries an action out that is not [on the cluster](crate::action::SubjectAction::on_cluster). What the server refuses
    /// does not happen.
    fn act(&mut self, simulation: &mut Simulation, action: &Self::Action);

    /// When faults have ended: users want nothing any more that can't be had.
    fn put_right(&mut self, _: &mut Simulation) {}

    /// Touches everything once.
    fn touch(&mut self, simulation: &mut Simulation);

    /// Helps where the controller is known to wait for users; whether there was something to help with.
    fn help(&mut self, _: &mut Simulation) -> bool {
        false
    }
}

/// What looks at a run: the checker, and what looks at more.
pub trait Watcher: CommitObserver + 'static {
    /// The checker, which keeps what came of the run.
    fn checker(self: Arc<Self>) -> Arc<Checker>;

    /// What learns where the commits of orphaned requests come from.
    fn of_orphans(self: Arc<Self>) -> Arc<dyn Origins> {
        self.checker()
    }

    /// Observes the controllers that it knows.
    fn observe(self: Arc<Self>, _: &mut FaultHarness) {}

    /// What is not as it must be at rest, if anything.
    fn missing(&self, simulation: &Simulation) -> Option<String> {
        simulation.missing()
    }

    /// Users have just done something: a model does what the controllers must do.
    fn stepped(&self, _: &Simulation) {}

    /// A step is about to be carried out, or the run is over: a model is held against what was done.
    fn compares(&self, _: &Simulation) {}

    /// The situations that have been seen, besides those that the checker knows.
    fn situations(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// The [figures](crate::verdict::Verdict::figures) of the workload.
    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

impl Watcher for Checker {
    fn checker(self: Arc<Self>) -> Arc<Checker> {
        self
    }
}
