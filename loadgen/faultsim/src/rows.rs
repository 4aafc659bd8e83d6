//! The workloads of the campaign, and schedules of any of them.

use std::fmt::Debug;
use std::sync::OnceLock;

use podstorm::deployment::Deployments;
use podstorm::policy::Behaviour;
use podstorm::replicaset::ReplicaSets;
use podstorm::ttl_after_finished::TtlAfterFinished;
use podstorm_objects::Kind;
use podstorm_sim::faults::FaultClass;

use super::draw::draw;
use super::minimise::{Minimised, minimise};
use super::plan::How;
use super::play::{Played, caught, play};
use super::subject::{Schedule, ScheduleError, Subject, header};
use super::verdict::Verdict;

/// A workload of the campaign, by its name.
#[derive(Clone, Copy, Debug)]
pub struct SubjectRow {
    /// Its name: the alias of its controller.
    pub name: &'static str,
    /// The schedule of a seed; of these classes of faults only, if any are named.
    pub draw: fn(seed: u64, classes: &[FaultClass]) -> Box<dyn AnySchedule>,
    read: fn(text: &str) -> Result<Box<dyn AnySchedule>, ScheduleError>,
}

/// The workloads that the campaign can put under faults.
#[derive(Clone, Debug)]
pub struct Subjects(Vec<SubjectRow>);

static INSTALLED: OnceLock<Subjects> = OnceLock::new();

impl Subjects {
    /// The workloads of this project.
    pub fn upstream() -> Subjects {
        Subjects(Vec::new())
            .with::<ReplicaSets>()
            .with::<Deployments>()
            .with::<TtlAfterFinished>()
    }

    /// The same, with one more workload behind the others. Its controller must be in the
    /// [registry](podstorm_sim::engine::registry::Registry) of the process.
    ///
    /// # Panics
    /// Another one has its name.
    #[must_use]
    pub fn with<S: Subject>(mut self) -> Subjects {
        let row = SubjectRow::of::<S>();
        let mut rows = self.0.iter();
        assert!(
            rows.all(|known| known.name != row.name),
            "there is a workload of that name: {}",
            row.name
        );
        self.0.push(row);
        self
    }

    /// Makes these the workloads of this process, of which schedules and the command line know. Call it first:
    /// [reading them](Subjects::installed) installs [upstream's](Subjects::upstream).
    ///
    /// # Errors
    /// The process has its workloads already.
    pub fn install(self) -> Result<(), Subjects> {
        INSTALLED.set(self)
    }

    /// The workloads of this process. The first one stands in where none is named.
    pub fn installed() -> &'static [SubjectRow] {
        &INSTALLED.get_or_init(Subjects::upstream).0
    }
}

impl SubjectRow {
    fn of<S: Subject>() -> SubjectRow {
        SubjectRow {
            name: S::ROW.alias,
            draw: |seed, classes| Box::new(draw::<S>(seed, classes)),
            read: |text| Ok(Box::new(Schedule::<S>::read(text)?)),
        }
    }

    /// The workload of this process with that name.
    ///
    /// # Errors
    /// There is none; lists the names that there are.
    pub fn by_name(name: &str) -> Result<&'static SubjectRow, String> {
        let rows = Subjects::installed();
        rows.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = rows.iter().map(|row| row.name).collect();
            format!("no such workload; there are {}", known.join(", "))
        })
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

/// Reads a schedule of any workload from YAML or JSON and checks it.
///
/// # Errors
/// What is wrong, by line or by step.
pub fn read(text: &str) -> Result<Box<dyn AnySchedule>, ScheduleError> {
    let workload = header(text)?;
    let row = SubjectRow::by_name(&workload)
        .map_err(|problem| ScheduleError::new(format!("workload: {workload:?}: {problem}")))?;
    (row.read)(text)
}
