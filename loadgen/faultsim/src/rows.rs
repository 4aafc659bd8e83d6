//! The workloads that this process can test, the schedules of any workload, and all known bugs.

use std::sync::OnceLock;

use super::bug::Bug;
pub use super::row::{AnySchedule, SubjectRow};
use super::subject::{ScheduleError, Subject, header};
use super::workloads;

/// The workloads that campaigns can test.
#[derive(Clone, Debug)]
pub struct Subjects(Vec<SubjectRow>);

static INSTALLED: OnceLock<Subjects> = OnceLock::new();

impl Subjects {
    /// Returns the workloads of this project.
    pub fn upstream() -> Subjects {
        Subjects(workloads::rows().into())
    }

    /// Appends a workload. Its controller must be in the
    /// [registry](podstorm_sim::engine::registry::Registry) of the process.
    ///
    /// # Panics
    /// Panics if another workload has the same name.
    #[must_use]
    pub fn with<S: Subject>(mut self) -> Subjects {
        let row = SubjectRow::new::<S>();
        let mut rows = self.0.iter();
        assert!(
            rows.all(|known| known.name != row.name),
            "duplicate workload name: {}",
            row.name
        );
        self.0.push(row);
        self
    }

    /// Makes these the workloads of this process, for schedules and the command line. Must be
    /// called before the workloads are read: [reading them](Subjects::installed) installs
    /// [upstream's](Subjects::upstream).
    ///
    /// # Errors
    /// Returns these workloads if the process already has workloads.
    pub fn install(self) -> Result<(), Subjects> {
        INSTALLED.set(self)
    }

    /// Returns the workloads of this process. The first one is the default.
    pub fn installed() -> &'static [SubjectRow] {
        &INSTALLED.get_or_init(Subjects::upstream).0
    }
}

impl SubjectRow {
    /// Returns the workload of this process with the given name.
    ///
    /// # Errors
    /// Fails if there is no such workload. The message lists the known names.
    pub fn by_name(name: &str) -> Result<&'static SubjectRow, String> {
        let rows = Subjects::installed();
        rows.iter().find(|row| row.name == name).ok_or_else(|| {
            let known: Vec<&str> = rows.iter().map(|row| row.name).collect();
            format!("no such workload; expected one of {}", known.join(", "))
        })
    }
}

/// Reads a schedule of any workload from YAML or JSON and checks it.
///
/// # Errors
/// Fails with the first problem, with its line or step.
pub fn read(text: &str) -> Result<Box<dyn AnySchedule>, ScheduleError> {
    let workload = header(text)?;
    let row = SubjectRow::by_name(&workload)
        .map_err(|problem| ScheduleError::new(format!("workload: {workload:?}: {problem}")))?;
    (row.read)(text)
}

/// Returns the known bugs of this process's workloads, in order.
pub fn bugs() -> impl Iterator<Item = &'static Bug> {
    Subjects::installed().iter().flat_map(|row| row.bugs)
}

/// Returns the schedule of a known bug.
///
/// # Panics
/// Panics if the schedule is invalid. A test reads all schedules of this project.
pub fn schedule_of(bug: &Bug) -> Box<dyn AnySchedule> {
    read(bug.text).expect("schedules of known bugs are valid")
}

/// Returns the known bug with this ID, number or name: see [`Bug::is_called`]. `None` if there is
/// none.
pub fn bug(text: &str) -> Option<&'static Bug> {
    bugs().find(|bug| bug.is_called(text))
}
