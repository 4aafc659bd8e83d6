//! What is known of the controllers that a cluster can run: a [row](ControllerRow) each.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use podstorm::controller::ControllerType;
use podstorm::reflector::WATCH_LIST;
use podstorm::registry::{Registrar, upstream};
use podstorm::row::{ControllerRow, Gate, NumberFlag, NumberForm, RunsIn, WorkersFlag};

use crate::load_balancers::ServiceLoadBalancers;
use crate::provisioner::VolumeProvisioner;

/// The garbage collector. Where it does not run, the cluster leaves its garbage.
pub const GARBAGE_COLLECTOR: ControllerRow = ControllerRow {
    name: "garbage-collector-controller",
    alias: "garbagecollector",
    purpose: "garbage collection of dependents",
    runs_in: RunsIn::Server,
    ..ControllerRow::DEFAULT
};

/// What counts the usage of quotas. Where it does not run, the cluster leaves that to others.
pub const RESOURCE_QUOTA: ControllerRow = ControllerRow {
    name: "resourcequota-controller",
    alias: "resourcequota",
    purpose: "usage of quotas",
    runs_in: RunsIn::Server,
    ..ControllerRow::DEFAULT
};

/// The rows of controllers, in the order in which these hear of changes.
#[derive(Clone, Debug)]
pub struct Rows(Vec<&'static ControllerRow>);

/// A feature gate that can't be set as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No controller has it.
    #[error("unknown feature gate {name:?}; known are {known}")]
    Unknown {
        /// The name.
        name: String,
        /// The names that there are.
        known: String,
    },
    /// It can't be changed any more.
    #[error("{name} is locked to {to} since Kubernetes {since}")]
    Locked {
        /// The name.
        name: &'static str,
        /// Whether it is on.
        to: bool,
        /// The version since which it is locked.
        since: &'static str,
    },
}

static INSTALLED: OnceLock<Rows> = OnceLock::new();

impl Rows {
    /// Those of every controller of this project.
    pub fn upstream() -> Rows {
        let mut rows = Rows(Vec::new());
        upstream(&mut rows);
        rows.add::<VolumeProvisioner>();
        rows.add::<ServiceLoadBalancers>();
        rows.0.extend([&GARBAGE_COLLECTOR, &RESOURCE_QUOTA]);
        rows
    }

    /// Makes them the rows of this process, from which its flags, settings and results follow. Call it
    /// first: reading the [installed](Rows::installed) rows installs [upstream's](Rows::upstream).
    ///
    /// # Errors
    /// There are some.
    pub(crate) fn install(self) -> Result<(), Rows> {
        INSTALLED.set(self)
    }

    /// The rows of this process.
    pub fn installed() -> &'static Rows {
        INSTALLED.get_or_init(Rows::upstream)
    }

    /// The rows.
    pub fn iter(&self) -> impl Iterator<Item = &'static ControllerRow> {
        self.0.iter().copied()
    }

    /// The row of the controller of that name, or of that older name.
    pub fn find(&self, name: &str) -> Option<&'static ControllerRow> {
        self.iter().find(|row| row.is_called(name))
    }

    /// The flags for the numbers of workers, with the rows that have them.
    pub fn worker_flags(&self) -> impl Iterator<Item = (&'static ControllerRow, WorkersFlag)> {
        self.iter().filter_map(|row| Some((row, row.workers?)))
    }

    /// The flags for other numbers.
    pub fn number_flags(&self) -> impl Iterator<Item = NumberFlag> {
        self.iter().flat_map(|row| row.numbers.iter().copied())
    }

    /// The flags for times among them, of controllers that runs have.
    pub fn run_times(&self) -> impl Iterator<Item = NumberFlag> {
        let rows = self.iter().filter(|row| !row.served_only);
        let numbers = rows.flat_map(|row| row.numbers.iter().copied());
        numbers.filter(|number| number.form == NumberForm::Time)
    }

    /// Every feature gate by its name: those of the rows, and those of all controllers.
    pub fn gates(&self) -> BTreeMap<&'static str, Gate> {
        let gates = self.iter().flat_map(|row| row.gates);
        let gates = gates.chain([&WATCH_LIST]);
        gates.map(|gate| (gate.name, *gate)).collect()
    }

    /// Whether each of these gates exists and may be set so.
    ///
    /// # Errors
    /// The first one that is unknown, or locked to the other value.
    pub fn check_gates(&self, set: &BTreeMap<String, bool>) -> Result<(), GateError> {
        let known = self.gates();
        for (name, on) in set {
            let Some(gate) = known.get(name.as_str()) else {
                let names: Vec<&str> = known.into_keys().collect();
                return Err(GateError::Unknown {
                    name: name.clone(),
                    known: names.join(", "),
                });
            };
            if let Some(since) = gate.locked_since
                && *on != gate.default
            {
                let (name, to) = (gate.name, gate.default);
                return Err(GateError::Locked { name, to, since });
            }
        }
        Ok(())
    }
}

impl FromIterator<&'static ControllerRow> for Rows {
    fn from_iter<T: IntoIterator<Item = &'static ControllerRow>>(rows: T) -> Rows {
        Rows(rows.into_iter().collect())
    }
}

impl Registrar for Rows {
    fn add<C: ControllerType>(&mut self) {
        self.0.push(C::ROW);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_that_is_unknown_or_locked_is_refused() {
        let rows = Rows::upstream();
        let check = |name: &str, on: bool| {
            let checked = rows.check_gates(&BTreeMap::from([(name.to_owned(), on)]));
            checked.map_err(|error| error.to_string())
        };
        for (gate, on) in [("PodDeletionCost", false), ("LogarithmicScaleDown", true)] {
            assert_eq!(check(gate, on), Ok(()), "{gate}");
        }
        for (gate, words) in [
            ("PodDeletionCosts", "\"PodDeletionCosts\"; known are "),
            ("PodDeletionCosts", "PodDeletionCost, "),
            (
                "LogarithmicScaleDown",
                "locked to true since Kubernetes 1.31",
            ),
        ] {
            let error = check(gate, false).expect_err(gate);
            assert!(error.contains(words), "{error}");
        }
    }
}
