//! The [rows](ControllerRow) of the controllers that a cluster can run.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use podstorm::controller::ControllerType;
use podstorm::reflector::WATCH_LIST;
use podstorm::registry::{Registrar, upstream};
use podstorm::row::{ControllerRow, Gate, NumberFlag, NumberForm, RunsIn, WorkersFlag};

use crate::load_balancers::ServiceLoadBalancers;
use crate::provisioner::VolumeProvisioner;

/// The garbage collector. If it doesn't run, dependents of deleted owners remain.
pub const GARBAGE_COLLECTOR: ControllerRow = ControllerRow {
    name: "garbage-collector-controller",
    alias: "garbagecollector",
    purpose: "garbage collection of dependents",
    runs_in: RunsIn::Server,
    ..ControllerRow::DEFAULT
};

/// The controller that counts the usage of quotas. If it doesn't run, the cluster leaves the
/// counting to other clients.
pub const RESOURCE_QUOTA: ControllerRow = ControllerRow {
    name: "resourcequota-controller",
    alias: "resourcequota",
    purpose: "usage of quotas",
    runs_in: RunsIn::Server,
    ..ControllerRow::DEFAULT
};

/// Controller rows, in the order in which the controllers receive changes.
#[derive(Clone, Debug)]
pub struct Rows(Vec<&'static ControllerRow>);

/// The error for a feature gate that can't be set to the requested value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// There is no gate of this name.
    #[error("unknown feature gate {name:?}; known gates: {known}")]
    Unknown {
        /// The unknown name.
        name: String,
        /// The names of all gates, separated by commas.
        known: String,
    },
    /// The gate's value is locked.
    #[error("{name} is locked to {to} since Kubernetes {since}")]
    Locked {
        /// The gate's name.
        name: &'static str,
        /// The locked value.
        to: bool,
        /// The Kubernetes version that locked the gate.
        since: &'static str,
    },
}

static INSTALLED: OnceLock<Rows> = OnceLock::new();

impl Rows {
    /// Returns the rows of every controller in this project.
    pub fn upstream() -> Rows {
        let mut rows = Rows(Vec::new());
        upstream(&mut rows);
        rows.add::<VolumeProvisioner>();
        rows.add::<ServiceLoadBalancers>();
        rows.0.extend([&GARBAGE_COLLECTOR, &RESOURCE_QUOTA]);
        rows
    }

    /// Makes these rows the rows of this process, from which flags, settings and results are
    /// derived. Must be called before the rows are read: reading the [installed](Rows::installed)
    /// rows installs [upstream's](Rows::upstream).
    ///
    /// # Errors
    /// Returns the given rows if this process already has rows.
    pub(crate) fn install(self) -> Result<(), Rows> {
        INSTALLED.set(self)
    }

    /// Returns the rows of this process; installs [upstream's](Rows::upstream) if it has none.
    pub fn installed() -> &'static Rows {
        INSTALLED.get_or_init(Rows::upstream)
    }

    /// Returns the rows in order.
    pub fn iter(&self) -> impl Iterator<Item = &'static ControllerRow> {
        self.0.iter().copied()
    }

    /// Returns the row of the controller with the given name or alias; `None` if there is none.
    pub fn find(&self, name: &str) -> Option<&'static ControllerRow> {
        self.iter().find(|row| row.is_called(name))
    }

    /// Returns the flags that set numbers of workers, with their rows.
    pub fn worker_flags(&self) -> impl Iterator<Item = (&'static ControllerRow, WorkersFlag)> {
        self.iter().filter_map(|row| Some((row, row.workers?)))
    }

    /// Returns the flags that set other numbers.
    pub fn number_flags(&self) -> impl Iterator<Item = NumberFlag> {
        self.iter().flat_map(|row| row.numbers.iter().copied())
    }

    /// Returns the flags that set times, of the controllers that also run outside served clusters.
    pub fn run_times(&self) -> impl Iterator<Item = NumberFlag> {
        let rows = self.iter().filter(|row| !row.served_only);
        let numbers = rows.flat_map(|row| row.numbers.iter().copied());
        numbers.filter(|number| number.form == NumberForm::Time)
    }

    /// Returns every feature gate by name: those of the rows, and those that apply to all
    /// controllers.
    pub fn gates(&self) -> BTreeMap<&'static str, Gate> {
        let gates = self.iter().flat_map(|row| row.gates);
        let gates = gates.chain([&WATCH_LIST]);
        gates.map(|gate| (gate.name, *gate)).collect()
    }

    /// Checks that each of these gates exists and may have the given value.
    ///
    /// # Errors
    /// Returns the first gate that is unknown or locked to the other value.
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
    fn unknown_and_locked_gates_are_rejected() {
        let rows = Rows::upstream();
        let check = |name: &str, on: bool| {
            let checked = rows.check_gates(&BTreeMap::from([(name.to_owned(), on)]));
            checked.map_err(|error| error.to_string())
        };
        for (gate, on) in [("PodDeletionCost", false), ("LogarithmicScaleDown", true)] {
            assert_eq!(check(gate, on), Ok(()), "{gate}");
        }
        for (gate, words) in [
            ("PodDeletionCosts", "\"PodDeletionCosts\"; known gates: "),
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
