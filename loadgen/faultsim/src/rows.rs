//! The workloads of the process, schedules of any of them, and the known bugs of all.

use std::sync::OnceLock;

use super::bug::Bug;
pub use super::row::{AnySchedule, SubjectRow};
use super::subject::{ScheduleError, Subject, header};
use super::workloads;

/// The workloads that the campaign can put under faults.
#[derive(Clone, Debug)]
pub struct Subjects(Vec<SubjectRow>);

static INSTALLED: OnceLock<Subjects> = OnceLock::new();

impl Subjects {
    /// The workloads of this project.
    pub fn upstream() -> Subjects {
        Subjects(workloads::rows().into())
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

/// The known bugs of the workloads of this process, in their order.
pub fn bugs() -> impl Iterator<Item = &'static Bug> {
    Subjects::installed().iter().flat_map(|row| row.bugs)
}

/// The schedule of a known bug.
///
/// # Panics
/// It can't be read; a test reads those of this project.
pub fn schedule_of(bug: &Bug) -> Box<dyn AnySchedule> {
    read(bug.text).expect("the schedules of known bugs can be read")
}

/// The known bug of that id, number or name, if there is one: see [`Bug::is_called`].
pub fn bug(text: &str) -> Option<&'static Bug> {
    bugs().find(|bug| bug.is_called(text))
}
