//! Schedules of either campaign: of ReplicaSets, or of Deployments.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use podstorm::policy::Behaviour;
use podstorm_sim::faults::FaultClass;

use super::deployments;
use super::draw::draw;
use super::play::play;
use super::schedule::{How, Schedule, ScheduleError};
use super::verdict::{Verdict, Violation};

/// Whose seeds are played.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Workload {
    /// ReplicaSets, and ReplicationControllers beside them.
    #[default]
    ReplicaSets,
    /// Deployments.
    Deployments,
}

impl Workload {
    /// The classes of faults that strike it.
    pub fn classes(self) -> &'static [FaultClass] {
        match self {
            Workload::ReplicaSets => &FaultClass::ALL,
            Workload::Deployments => &FaultClass::ON_DEPLOYMENTS,
        }
    }

    /// The schedule of a seed; of these classes of faults only, if any are named.
    pub fn draw(self, seed: u64, classes: &[FaultClass]) -> AnySchedule {
        match self {
            Workload::ReplicaSets => AnySchedule::ReplicaSets(draw(seed, classes)),
            Workload::Deployments => {
                AnySchedule::Deployments(deployments::draw::draw(seed, classes))
            }
        }
    }
}

/// A schedule of either campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnySchedule {
    /// Of ReplicaSets.
    ReplicaSets(Schedule),
    /// Of Deployments.
    Deployments(deployments::Schedule),
}

impl AnySchedule {
    /// Reads a schedule from YAML or JSON and checks it.
    ///
    /// # Errors
    /// What is wrong, by line or by step.
    pub fn read(text: &str) -> Result<AnySchedule, ScheduleError> {
        match deployments::Schedule::is_meant(text) {
            true => deployments::Schedule::read(text).map(AnySchedule::Deployments),
            false => Schedule::read(text).map(AnySchedule::ReplicaSets),
        }
    }

    /// The schedule as YAML.
    pub fn to_yaml(&self) -> String {
        match self {
            AnySchedule::ReplicaSets(schedule) => schedule.to_yaml(),
            AnySchedule::Deployments(schedule) => schedule.to_yaml(),
        }
    }

    /// The seed of everything that its cluster draws.
    pub fn seed(&self) -> u64 {
        match self {
            AnySchedule::ReplicaSets(schedule) => schedule.seed,
            AnySchedule::Deployments(schedule) => schedule.seed,
        }
    }

    /// Whether ReplicationControllers are there at any time of the run.
    pub(super) fn has_replication_controllers(&self) -> bool {
        match self {
            AnySchedule::ReplicaSets(schedule) => schedule.has_replication_controllers(),
            AnySchedule::Deployments(_) => false,
        }
    }

    /// Plays it; answers what came of it, and the log for a person.
    pub fn play(&self, how: How) -> (Verdict, Vec<String>) {
        match self {
            AnySchedule::ReplicaSets(schedule) => play(schedule, how),
            AnySchedule::Deployments(schedule) => deployments::play(schedule, how),
        }
    }

    /// Plays it; a panic of the product is a violation (I10).
    pub fn play_caught(&self, behaviour: Behaviour) -> Verdict {
        caught(|| self.play(How::untold(behaviour)).0)
    }

    /// Whether it can be played.
    pub(super) fn can_be_played(&self) -> bool {
        let checked = match self {
            AnySchedule::ReplicaSets(schedule) => schedule.check(),
            AnySchedule::Deployments(schedule) => schedule.check(),
        };
        checked.is_ok()
    }

    /// How many steps it has, and how many objects there are at first.
    pub fn size(&self) -> (usize, usize) {
        match self {
            AnySchedule::ReplicaSets(it) => (it.steps.len(), it.cluster.replica_sets.len()),
            AnySchedule::Deployments(it) => (it.steps.len(), it.deployments.len()),
        }
    }

    /// The same without these steps and these objects.
    pub(super) fn without(mut self, steps: Range<usize>, objects: Range<usize>) -> AnySchedule {
        match &mut self {
            AnySchedule::ReplicaSets(schedule) => {
                schedule.steps.drain(steps);
                schedule.cluster.replica_sets.drain(objects);
            }
            AnySchedule::Deployments(schedule) => {
                schedule.steps.drain(steps);
                schedule.deployments.drain(objects);
            }
        }
        self
    }

    /// The same without classes of faults that have no step.
    pub(super) fn without_idle_classes(mut self) -> AnySchedule {
        match &mut self {
            AnySchedule::ReplicaSets(schedule) => {
                let steps = &schedule.steps;
                let has_step = |class| steps.iter().any(|step| step.class == Some(class));
                schedule.classes.retain(|class| has_step(*class));
            }
            AnySchedule::Deployments(schedule) => {
                let steps = &schedule.steps;
                let has_step = |class| steps.iter().any(|step| step.what.class() == Some(class));
                schedule.classes.retain(|class| has_step(*class));
            }
        }
        self
    }

    /// The same, ending with its last step.
    pub(super) fn ending_with_last_step(mut self) -> AnySchedule {
        match &mut self {
            AnySchedule::ReplicaSets(schedule) => {
                schedule.disturb_ms = schedule.steps.last().map_or(0, |step| step.at_ms);
            }
            AnySchedule::Deployments(schedule) => {
                schedule.disturb_ms = schedule.steps.last().map_or(0, |step| step.at_ms);
            }
        }
        self
    }
}

/// Plays one seed; a panic of the product is a violation (I10).
pub fn play_seed(schedule: &Schedule, behaviour: Behaviour) -> Verdict {
    caught(|| play(schedule, How::untold(behaviour)).0)
}

/// The same of a schedule of Deployments.
pub fn play_deployments(schedule: &deployments::Schedule, behaviour: Behaviour) -> Verdict {
    caught(|| deployments::play(schedule, How::untold(behaviour)).0)
}

fn caught(play: impl FnOnce() -> Verdict) -> Verdict {
    match catch_unwind(AssertUnwindSafe(play)) {
        Ok(verdict) => verdict,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))
                .unwrap_or_default();
            Verdict {
                violation: Some(Violation {
                    invariant: "I10",
                    text: format!("panicked: {text}"),
                    at_ns: 0,
                    version: 0,
                }),
                ..Verdict::default()
            }
        }
    }
}
