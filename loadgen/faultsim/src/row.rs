//! The row of a workload that campaigns can test, and a common interface to the schedules of all
//! workloads.

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

/// A workload that campaigns can test.
#[derive(Clone, Copy, Debug)]
pub struct SubjectRow {
    /// The name of the workload: the alias of its controller.
    pub name: &'static str,
    /// Draws the schedule of a seed, limited to these classes of faults if any are given.
    pub draw: fn(seed: u64, classes: &[FaultClass]) -> Box<dyn AnySchedule>,
    /// The known bugs of upstream's controller.
    pub bugs: &'static [Bug],
    pub(crate) read: fn(text: &str) -> Result<Box<dyn AnySchedule>, ScheduleError>,
}

impl SubjectRow {
    /// Returns the row of a workload.
    pub(crate) fn new<S: Subject>() -> SubjectRow {
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
    /// Returns the schedule as YAML.
    fn to_yaml(&self) -> String;
    /// Returns the seed of the cluster's randomness.
    fn seed(&self) -> u64;
    /// Returns the number of steps.
    fn steps(&self) -> usize;
    /// Returns the kinds whose controllers run in the schedule.
    fn kinds(&self) -> Vec<Kind>;
    /// Plays the schedule, and returns the verdict and the log.
    fn play(&self, how: How) -> Played;
    /// Plays the schedule. A panic of the code under test is a violation of I10.
    fn play_caught(&self, behaviour: Behaviour) -> Verdict;
    /// Minimises the schedule: see [`minimise`].
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
