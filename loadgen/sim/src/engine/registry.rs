//! The controllers that a simulated cluster can run: their rows, and the functions that add them to
//! a cluster.

use std::fmt::{self, Debug, Formatter};
use std::sync::{Arc, OnceLock};

use podstorm::controller::{ControllerType, Setup};
use podstorm::driver::Workload;
use podstorm::informer::Informers;
use podstorm::registry::{Registrar, upstream};
use podstorm::row::{ControllerRow, RunsIn};

use super::observer::Observers;
use super::runner::{AnyRunner, Hooks};
use super::{Builder, garbage_collector};
use crate::faults::Connection;
use crate::load_balancers::ServiceLoadBalancers;
use crate::provisioner::VolumeProvisioner;
use crate::rows::{GARBAGE_COLLECTOR, RESOURCE_QUOTA, Rows};

/// A function that adds a controller to the manager that a builder is building.
pub(crate) type Add = Arc<
    dyn Fn(&mut Builder, &mut Informers, Option<&Arc<Connection>>, &Observers) -> Arc<dyn AnyRunner>
        + Send
        + Sync,
>;

/// Controllers, in the order in which they receive changes. A clone shares the functions that build
/// them.
#[derive(Clone)]
pub struct Registry(Vec<Entry>);

#[derive(Clone)]
struct Entry {
    row: &'static ControllerRow,
    part: Part,
}

/// The component that runs a controller, with the function that adds the controller to this
/// component.
#[derive(Clone)]
enum Part {
    /// A controller manager: the cluster's own or another one, as the row states.
    Manager(Add),
    /// The API server.
    Cluster(AddTask),
}

/// A function that adds the task of a controller inside the server.
type AddTask = fn(&mut Builder);

static INSTALLED: OnceLock<Registry> = OnceLock::new();

impl Registry {
    /// Returns a registry of all controllers of this project.
    pub fn upstream() -> Registry {
        let mut registry = Registry(Vec::new());
        upstream(&mut registry);
        registry.add::<VolumeProvisioner>();
        registry.add::<ServiceLoadBalancers>();
        for row in [&GARBAGE_COLLECTOR, &RESOURCE_QUOTA] {
            let part = Part::Cluster(garbage_collector::add);
            registry.0.push(Entry { row, part });
        }
        registry
    }

    /// Appends a controller to the registry.
    ///
    /// # Panics
    /// Panics if another controller has the same name.
    #[must_use]
    pub fn with<C: ControllerType>(self) -> Registry {
        self.with_row(C::ROW, C::make)
    }

    /// Appends a controller that `make` builds, like [`with`](Registry::with).
    ///
    /// # Panics
    /// Panics if another controller has the same name.
    #[must_use]
    pub fn with_row<W: Workload>(
        mut self,
        row: &'static ControllerRow,
        make: impl Fn(&Setup, &mut Informers) -> Arc<W> + Send + Sync + 'static,
    ) -> Registry {
        assert!(
            self.rows().find(row.name).is_none(),
            "duplicate controller name: {}",
            row.name
        );
        let add: Add = Arc::new(move |builder, informers, connection, observers| {
            let hooks = connection.map(|connection| Hooks {
                connection: Arc::clone(connection),
                observer: observers.get::<W>(),
            });
            let workload = make(&builder.options.setup(), informers);
            builder.workload(workload, row, hooks.as_ref())
        });
        let part = Part::Manager(add);
        self.0.push(Entry { row, part });
        self
    }

    /// Removes the controller with the given name or alias, if there is one.
    #[must_use]
    pub fn without(mut self, name: &str) -> Registry {
        self.0.retain(|entry| !entry.row.is_called(name));
        self
    }

    /// Makes this the registry of the process, from whose rows flags, settings and results are
    /// derived. Must be called before the registry is read: reading the
    /// [installed](Registry::installed) registry or [its rows](Rows) installs
    /// [upstream's](Registry::upstream).
    ///
    /// # Errors
    /// Returns this registry if the process already has a registry or [rows](Rows).
    pub fn install(self) -> Result<(), Registry> {
        match self.rows().install() {
            Ok(()) => INSTALLED.set(self),
            Err(_) => Err(self),
        }
    }

    /// Returns the registry of this process; installs [upstream's](Registry::upstream) if it has
    /// none.
    pub fn installed() -> &'static Registry {
        INSTALLED.get_or_init(Registry::upstream)
    }

    /// Returns the rows of the controllers.
    pub fn rows(&self) -> Rows {
        self.0.iter().map(|entry| entry.row).collect()
    }

    /// Returns the functions that add the controllers of managers of this type, with the
    /// controllers' rows.
    pub(crate) fn of_manager(
        &self,
        managers: RunsIn,
    ) -> impl Iterator<Item = (&'static ControllerRow, &Add)> {
        let entries = self.0.iter();
        entries.filter_map(move |entry| match &entry.part {
            Part::Manager(add) if entry.row.runs_in == managers => Some((entry.row, add)),
            _ => None,
        })
    }

    /// Returns the functions that add the tasks of controllers inside the server, with the
    /// controllers' rows.
    pub(crate) fn of_server(&self) -> impl Iterator<Item = (&'static ControllerRow, AddTask)> {
        self.0.iter().filter_map(|entry| match entry.part {
            Part::Cluster(add) => Some((entry.row, add)),
            Part::Manager(_) => None,
        })
    }
}

impl Registrar for Registry {
    fn add<C: ControllerType>(&mut self) {
        *self = std::mem::replace(self, Registry(Vec::new())).with::<C>();
    }
}

impl Debug for Registry {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registry").field(&self.rows()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use super::*;
    use crate::engine::Harness;
    use crate::engine::observer::{NoopObserver, Observer};
    use crate::options::{EngineKind, SimOptions};
    use podstorm::deployment::{self, Deployments};
    use podstorm::replicaset;

    #[test]
    fn a_registry_has_each_row_once() {
        let names = |rows: Rows| rows.iter().map(|row| row.name).collect::<Vec<_>>();
        let registry = Registry::upstream();
        assert_eq!(names(registry.rows()), names(Rows::upstream()));
        let without = registry.clone().without("deployment");
        assert_eq!(
            without.rows().iter().count() + 1,
            registry.rows().iter().count()
        );
        assert!(without.rows().find("deployment-controller").is_none());
        let again = without.with::<Deployments>();
        let last = again.rows().iter().last().map(|row| row.name);
        assert_eq!(last, Some(Deployments::ROW.name));
        let twice = std::panic::catch_unwind(|| Registry::upstream().with::<Deployments>());
        assert!(twice.is_err(), "names of controllers are unique");
    }

    #[test]
    fn the_last_observer_of_a_workload_type_wins() {
        let mut observers = Observers::default();
        let [first, second]: [Arc<dyn Observer<deployment::Controller>>; 2] =
            [Arc::new(NoopObserver), Arc::new(NoopObserver)];
        observers.set(Arc::clone(&first));
        observers.set(Arc::clone(&second));
        let found = observers.get::<deployment::Controller>();
        assert_eq!(
            Arc::strong_count(&second),
            3,
            "references: `second`, `observers` and `found`"
        );
        assert_eq!(Arc::strong_count(&first), 2);
        drop(found);
        let _other = observers.get::<replicaset::Controller>();
        assert_eq!(Arc::strong_count(&second), 2);
    }
    #[test]
    fn a_cluster_has_only_the_gates_of_its_own_controllers() {
        let cluster = |registry: Registry, gate: &str| {
            let mut options = SimOptions::new(EngineKind::Virtual, 1);
            let gates = &mut options.controller.feature_gates;
            gates.insert(gate.to_owned(), false);
            let make = AssertUnwindSafe(|| drop(Harness::with_registry(&options, &registry)));
            std::panic::catch_unwind(make)
        };
        assert!(cluster(Registry::upstream(), "PodDeletionCost").is_ok());
        let less = ["replicaset", "replicationcontroller", "deployment"];
        let less = less
            .into_iter()
            .fold(Registry::upstream(), Registry::without);
        assert!(cluster(less.clone(), "WatchListClient").is_ok());
        for (registry, gate) in [
            (less, "PodDeletionCost"),
            (Registry::upstream(), "PodDeletionCosts"),
            (Registry::upstream(), "LogarithmicScaleDown"),
        ] {
            let refused = cluster(registry, gate).expect_err(gate);
            let problem = refused
                .downcast_ref::<String>()
                .expect("the panic message is a string");
            assert!(problem.contains(gate), "{problem}");
        }
    }
}
