//! What the campaign knows of a workload: how its schedules are drawn, what users do to its objects, and
//! what must hold of a run.
//!
//! A workload joins the campaign by one `impl` of [`Subject`] and one line of [`workloads`](crate::workloads).
//! Faults of the cluster, of requests and of watches, the phases of a run, the search for small schedules and the
//! sums over many seeds are the same for all. Where a workload stands on the pods of others, the
//! [owners](Subject::OWNERS) of these are named by actions, and their checker looks at the run, too.

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
use super::plan::{How, Step};
use super::simulation::{Ending, NoOwners, PodOwners, Users, Watcher};
pub use schedule::{SCHEDULE_VERSION, Schedule, ScheduleError};
pub(crate) use schedule::{check_within, header};

/// A workload that the campaign can put under faults.
pub trait Subject: ControllerType + Clone + Debug + PartialEq + Eq + Send + Sync {
    /// An object that exists at first.
    type Planned: Clone + Debug + PartialEq + Eq + Send + Sync + Serialize + DeserializeOwned;
    /// What is done at one moment.
    type Action: SubjectAction;
    /// What a drawing has to remember, e.g. how much of something the schedule has already.
    type Drawing;
    /// The users of a run.
    type Users: Users<Planned = Self::Planned, Action = Self::Action>;
    /// What looks at a run.
    type Watcher: Watcher;

    /// How schedules are drawn.
    const ODDS: Odds;

    /// The objects that own pods and that actions on the cluster name.
    const OWNERS: &'static dyn PodOwners = &NoOwners;

    /// The controllers that run beside, whatever the kinds of a schedule are.
    const BESIDE: &'static [&'static ControllerRow] = &[];

    /// Bugs that upstream's controller is known for, each as a schedule that shows it.
    const BUGS: &'static [Bug] = &[];

    /// The object's name.
    fn name(planned: &Self::Planned) -> &str;

    /// The objects that exist at first; at least one.
    fn draw_objects(dice: &mut Dice) -> Vec<Self::Planned>;

    /// The most creates or deletes in one sync.
    fn draw_burst(_: &mut Dice) -> u32 {
        500
    }

    /// What the drawing remembers at first.
    fn drawing(objects: &[Self::Planned]) -> Self::Drawing;

    /// What is done before anything else.
    fn draw_first(
        _: &mut Dice,
        _: &[Self::Planned],
        _: &mut Self::Drawing,
    ) -> Vec<Step<Self::Action>> {
        Vec::new()
    }

    /// What users do at one moment, and what of it how much later, ms.
    fn draw_user(
        dice: &mut Dice,
        objects: &[Self::Planned],
        drawing: &mut Self::Drawing,
    ) -> Vec<(u32, Self::Action)>;

    /// What a fault of that class does where it is the workload's own matter, and what of it how much later, ms.
    fn draw_own(
        dice: &mut Dice,
        class: FaultClass,
        objects: &[Self::Planned],
        drawing: &mut Self::Drawing,
    ) -> Option<Vec<(u32, Self::Action)>>;

    /// The name of an owner of pods as an [`Action`](super::action::Action) takes it.
    fn draw_target(dice: &mut Dice, objects: &[Self::Planned]) -> String;

    /// A watch of its controllers.
    fn draw_stream(dice: &mut Dice, drawing: &Self::Drawing) -> StreamKind;

    /// Whether an object can be created.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check_object(planned: &Self::Planned) -> Result<(), String>;

    /// Whether an action that is not [on the cluster](SubjectAction::on_cluster) can be carried out.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check_action(action: &Self::Action) -> Result<(), String>;

    /// The kinds whose controllers run. Of its own kind the workload's controller runs alone.
    fn kinds(schedule: &Schedule<Self>) -> Vec<Kind>;

    /// What looks at a run of that schedule.
    fn watcher(schedule: &Schedule<Self>, how: How) -> Arc<Self::Watcher>;

    /// How a run must end.
    fn ending(behaviour: Behaviour) -> Ending;
}
