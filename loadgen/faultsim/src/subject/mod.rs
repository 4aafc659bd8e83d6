//! The interface between a campaign and a workload: the drawing of schedules, the actions of users,
//! and the invariants.
//!
//! A workload joins the campaign with one `impl` of [`Subject`] and one line in
//! [`workloads`](crate::workloads). The faults of the cluster, of requests and of watches, the
//! phases of a run, minimization and the sums over many seeds are the same for all workloads. If a
//! workload builds on other objects that own pods, actions name these [owners](Subject::OWNERS),
//! and the owners' checker also checks the run.

mod schedule;

use std::fmt::Debug;
use std::sync::Arc;

use podstorm::controller::ControllerType;
use podstorm::policy::Behaviour;
use podstorm::row::ControllerRow;
use podstorm_objects::Kind;
use podstorm_sim::faults::{FaultClass, StreamKind};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::action::SubjectAction;
use super::bug::Bug;
use super::dice::{Dice, Odds};
use super::plan::{How, TimedAction};
use super::simulation::{Ending, NoOwners, PodOwners, Users, Watcher};
pub use schedule::{SCHEDULE_VERSION, Schedule, ScheduleError};
pub(crate) use schedule::{check_within, header};

/// A workload that campaigns can test.
pub trait Subject: ControllerType + Clone + Debug + PartialEq + Eq + Send + Sync {
    /// The plan of an initial object.
    type Planned: Clone + Debug + PartialEq + Eq + Send + Sync + Serialize + DeserializeOwned;
    /// An action of a schedule.
    type Action: SubjectAction;
    /// The state of a drawing, for example how often a fault has been drawn.
    type Drawing;
    /// The users of a run.
    type Users: Users<Planned = Self::Planned, Action = Self::Action>;
    /// The watcher of a run.
    type Watcher: Watcher;

    /// The probabilities with which schedules are drawn.
    const ODDS: Odds;

    /// The objects that own pods, which actions on the cluster name.
    const OWNERS: &'static dyn PodOwners = &NoOwners;

    /// The controllers that also run, regardless of a schedule's kinds.
    const BESIDE: &'static [&'static ControllerRow] = &[];

    /// The known bugs of upstream's controller, with the schedules that reproduce them.
    const BUGS: &'static [Bug] = &[];

    /// Returns the name of a planned object.
    fn name(planned: &Self::Planned) -> &str;

    /// Draws the initial objects, at least one.
    fn draw_objects(dice: &mut Dice) -> Vec<Self::Planned>;

    /// Draws the maximum number of creates or deletes in one sync.
    fn draw_burst(_: &mut Dice) -> u32 {
        500
    }

    /// Returns the initial state of the drawing.
    fn drawing(objects: &[Self::Planned]) -> Self::Drawing;

    /// Draws the first actions.
    fn draw_first(
        _: &mut Dice,
        _: &[Self::Planned],
        _: &mut Self::Drawing,
    ) -> Vec<TimedAction<Self::Action>> {
        Vec::new()
    }

    /// Draws the user actions at one time, each with its delay, ms.
    fn draw_user(
        dice: &mut Dice,
        objects: &[Self::Planned],
        drawing: &mut Self::Drawing,
    ) -> Vec<(u32, Self::Action)>;

    /// Draws the actions for a fault class that the workload defines, each with its delay, ms.
    fn draw_own(
        dice: &mut Dice,
        class: FaultClass,
        objects: &[Self::Planned],
        drawing: &mut Self::Drawing,
    ) -> Option<Vec<(u32, Self::Action)>>;

    /// Draws the name of an owner of pods, as an [`Action`](super::action::Action) expects it.
    fn draw_target(dice: &mut Dice, objects: &[Self::Planned]) -> String;

    /// Draws a watch of the workload's controllers.
    fn draw_stream(dice: &mut Dice, drawing: &Self::Drawing) -> StreamKind;

    /// Checks that an object can be created.
    ///
    /// # Errors
    /// Fails with the problem of the object.
    fn check_object(planned: &Self::Planned) -> Result<(), String>;

    /// Checks an action that is not [on the cluster](SubjectAction::on_cluster).
    ///
    /// # Errors
    /// Fails with the problem of the action.
    fn check_action(action: &Self::Action) -> Result<(), String>;

    /// Returns the kinds whose controllers run. Of the controllers of the workload's own kind, only
    /// the workload's controller runs.
    fn kinds(schedule: &Schedule<Self>) -> Vec<Kind>;

    /// Returns the watcher of a run of this schedule.
    fn watcher(schedule: &Schedule<Self>, how: How) -> Arc<Self::Watcher>;

    /// Returns the requirements for the end of a run.
    fn ending(behaviour: Behaviour) -> Ending;
}
