//! A workload of the campaign as a row, and its schedules behind one face.

use std::fmt::Debug;

use podstorm::policy::Behaviour;
use podstorm_objects::Kind;
use podstorm_sim::faults::FaultClass;

use super::bug::Bug;
use super::draw::draw;
use super::minimise::{Minimised, minimise};
use super::plan::How;
use super::play::{Played, caught, play};
use super::subject::{Schedule, ScheduleError, Subject};
use super::verdict::Verdict;

/// A workload of the campaign, by its name.
#[derive(Clone, Copy, Debug)]
pub struct SubjectRow {
    /// Its name: the alias of its controller.
    pub name: &'static str,
    /// The schedule of a seed; of these classes of faults only, if any are named.
    pub draw: fn(seed: u64, classes: &[FaultClass]) -> Box<dyn AnySchedule>,
    /// The bugs that upstream is known for.
    pub bugs: &'static [Bug],
    pub(crate) read: fn(text: &str) -> Result<Box<dyn AnySchedule>, ScheduleError>,
}

impl SubjectRow {
    /// The row of a workload.
    pub(crate) fn of<S: Subject>() -> SubjectRow {
        SubjectRow {
            name: S::ROW.alias,
            draw: |seed, classes| Box::new(draw::<S>(seed, classes)),
            bugs: S::BUGS,
            read: |text| Ok(Box::new(Schedule::<S>::read(text)?)),
        }
    }
}

/// A schedule of any workload.
pub trait AnySchedule: Debug {
    /// The schedule as YAML.
    fn to_yaml(&self) -> String;
    /// The seed of everything that its cluster draws.
    fn seed(&self) -> u64;
    /// How many steps it has.
    fn steps(&self) -> usize;
    /// The kinds whose controllers run.
    fn kinds(&self) -> Vec<Kind>;
    /// Plays it; answers what came of it, and the log for a person.
    fn play(&self, how: How) -> Played;
    /// Plays it; a panic of the product is a violation (I10).
    fn play_caught(&self, behaviour: Behaviour) -> Verdict;
    /// See [`minimise`].
    fn minimise(
        &self,
        behaviour: Behaviour,
        invariant: &str,
        enough: &dyn Fn(u32) -> bool,
    ) -> Minimised<Box<dyn AnySchedule>>;
}

impl<S: Subject> AnySchedule for Schedule<S> {
    fn to_yaml(&self) -> String {
        Schedule::to_yaml(self)
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn steps(&self) -> usize {
        self.steps.len()
    }

    fn kinds(&self) -> Vec<Kind> {
        S::kinds(self)
    }

    fn play(&self, how: How) -> Played {
        play(self, how)
    }

    fn play_caught(&self, behaviour: Behaviour) -> Verdict {
        caught(self, behaviour)
    }

    fn minimise(
        &self,
        behaviour: Behaviour,
        invariant: &str,
        enough: &dyn Fn(u32) -> bool,
    ) -> Minimised<Box<dyn AnySchedule>> {
        let found = minimise(self, behaviour, invariant, enough);
        Minimised {
            schedule: Box::new(found.schedule),
            steps_before: found.steps_before,
            plays: found.plays,
            cut_short: found.cut_short,
        }
    }
}
