//! ReplicaSets under faults, together with ReplicationControllers. All actions are actions on the
//! cluster.
//!
//! The [`checker`] checks every commit and every step of their controllers, also in runs of another
//! workload that builds on them. The `model` defines the requirements at rest, which depend only on
//! the server's state. The `reference` model computes the required operations of a run without
//! faults, one by one.

mod bugs;
pub mod checker;
mod draw;
mod kinds;
mod model;
mod owners;
#[cfg(test)]
mod planted_tests;
#[cfg(test)]
mod progress_tests;
mod reference;

use std::sync::Arc;

use podstorm::policy::Behaviour;
use podstorm::replicaset::ReplicaSets;
use podstorm_objects::Kind;
use podstorm_sim::faults::{Call, FaultClass, StreamKind};

use crate::action::{Action, OwnerKind};
use crate::bug::Bug;
use crate::dice::{Dice, Odds};
use crate::plan::{How, TimedAction};
use crate::simulation::{Ending, PodOwners, Simulation, Users};
use crate::subject::{Schedule, Subject};
pub use checker::SetChecker;
pub use kinds::{PlannedReplicaSet, WorkloadKind, replica_set};
pub(crate) use model::counts as pod_counts;
pub use owners::SetOwners;

const SECOND: i64 = 1_000_000_000;

impl Subject for ReplicaSets {
    type Planned = PlannedReplicaSet;
    type Action = Action;
    type Drawing = draw::Drawn;
    type Users = SetUsers;
    type Watcher = SetChecker;

    const OWNERS: &'static dyn PodOwners = &SetOwners;

    const BUGS: &'static [Bug] = &bugs::BUGS;

    const ODDS: Odds = Odds {
        stream: "schedule",
        without_faults: 10,
        of_one_class: 10,
        classes: 6,
        steps_max: 60,
        calls: &[
            Call::CreatePod,
            Call::CreatePod,
            Call::DeletePod,
            Call::PatchPod,
            Call::GetOwner,
            Call::PutStatus,
            Call::ReadVersion,
        ],
        writes: &[
            Call::CreatePod,
            Call::CreatePod,
            Call::DeletePod,
            Call::PatchPod,
            Call::PutStatus,
        ],
        resent: &[Call::CreatePod, Call::DeletePod, Call::PatchPod],
    };

    fn name(planned: &PlannedReplicaSet) -> &str {
        &planned.name
    }

    fn draw_objects(dice: &mut Dice) -> Vec<PlannedReplicaSet> {
        dice.replica_sets()
    }

    fn draw_burst(dice: &mut Dice) -> u32 {
        dice.one(&[500, 500, 500, 4])
    }

    fn drawing(objects: &[PlannedReplicaSet]) -> draw::Drawn {
        draw::Drawn::from_objects(objects)
    }

    fn draw_first(
        dice: &mut Dice,
        objects: &[PlannedReplicaSet],
        drawn: &mut draw::Drawn,
    ) -> Vec<TimedAction<Action>> {
        dice.beside(objects, drawn)
    }

    fn draw_user(
        dice: &mut Dice,
        objects: &[PlannedReplicaSet],
        drawn: &mut draw::Drawn,
    ) -> Vec<(u32, Action)> {
        let actions = dice.user_actions(objects, drawn).into_iter();
        actions.map(|action| (0, action)).collect()
    }

    fn draw_own(
        dice: &mut Dice,
        class: FaultClass,
        objects: &[PlannedReplicaSet],
        drawn: &mut draw::Drawn,
    ) -> Option<Vec<(u32, Action)>> {
        let action = dice.own_fault(class, objects, drawn)?;
        Some(vec![(0, action)])
    }

    fn draw_target(dice: &mut Dice, objects: &[PlannedReplicaSet]) -> String {
        dice.target(objects)
    }

    fn draw_stream(dice: &mut Dice, drawn: &draw::Drawn) -> StreamKind {
        match dice.below(3) {
            0 => StreamKind::from_kind(dice.one(&drawn.kinds).kind()),
            _ => StreamKind::from_kind(Kind::POD),
        }
    }

    fn check_object(planned: &PlannedReplicaSet) -> Result<(), String> {
        let (name, replicas) = (&planned.name, planned.replicas);
        match (0..=5_000).contains(&replicas) {
            true => Ok(()),
            false => Err(format!(
                "{name:?} wants {replicas} replicas; expected 0 to 5000"
            )),
        }
    }

    fn check_action(_: &Action) -> Result<(), String> {
        Ok(())
    }

    /// Returns the kinds that occur in the schedule. A controller without objects would only
    /// receive pods that don't concern it.
    fn kinds(schedule: &Schedule<ReplicaSets>) -> Vec<Kind> {
        let kind = WorkloadKind::ReplicationController;
        let has_controllers = schedule.objects.iter().any(|set| set.kind == kind)
            || schedule.steps.iter().any(|step| match &step.action {
                Action::CreateOverlapping { kind: of, .. } => *of == Some(OwnerKind(kind.kind())),
                _ => false,
            });
        match has_controllers {
            true => vec![Kind::REPLICA_SET, Kind::REPLICATION_CONTROLLER],
            false => vec![Kind::REPLICA_SET],
        }
    }

    fn watcher(schedule: &Schedule<ReplicaSets>, how: How) -> Arc<SetChecker> {
        let checker = SetChecker::new(&schedule.cluster, how);
        // A schedule without faults is also compared with the reference model.
        if schedule.classes.is_empty() {
            checker.follow(&schedule.steps, &schedule.cluster, how.behaviour);
        }
        Arc::new(checker)
    }

    fn ending(behaviour: Behaviour) -> Ending {
        match behaviour {
            // The limit covers the longest delay of a retry, and the expiry of two expectations.
            Behaviour::Upstream => Ending {
                converges_within_ns: 1_600 * SECOND,
                touches_ns: &[Ending::EXPECTATIONS_RUN_OUT_NS],
                ..Ending::DEFAULT
            },
            // The limit covers two retries with the longest delay.
            Behaviour::Hardened => Ending {
                converges_within_ns: 60 * SECOND,
                ..Ending::DEFAULT
            },
        }
    }
}

/// The users of ReplicaSets.
#[derive(Debug)]
pub struct SetUsers(Vec<PlannedReplicaSet>);

impl Users for SetUsers {
    type Planned = PlannedReplicaSet;
    type Action = Action;

    fn new(planned: &[PlannedReplicaSet]) -> SetUsers {
        SetUsers(planned.to_vec())
    }

    fn create(&mut self, simulation: &mut Simulation) {
        let plans = self.0.iter().map(|set| (set.name.clone(), set.plan()));
        simulation.create_owners(plans);
    }

    fn act(&mut self, _: &mut Simulation, action: &Action) {
        unreachable!("{action:?} is an action on the cluster")
    }

    fn touch(&mut self, simulation: &mut Simulation) {
        simulation.touch_all();
    }
}

#[cfg(test)]
mod tests;
