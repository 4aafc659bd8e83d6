//! The row of a controller: all facts about it that users, and the programs that run controllers,
//! need. Flags, feature gates, settings, metrics and documentation are derived from the rows. There
//! is no other list of controllers.

use std::collections::BTreeMap;

use podstorm_objects::Kind;

use crate::cache::PodChange;
use crate::workqueue::QueueRow;

/// The description of a controller, apart from its code.
#[derive(Debug)]
pub struct ControllerRow {
    /// The name, e.g. `replicaset-controller`, as `--controllers` accepts it.
    pub name: &'static str,
    /// The older name, which `--controllers` accepts, too.
    pub alias: &'static str,
    /// The component that the controller's Events name as their source.
    pub component: &'static str,
    /// What the controller manages, in a few words, e.g. `ReplicaSets` or `pod garbage collection`.
    pub purpose: &'static str,
    /// The kind whose objects the controller syncs; `None` if it has no single kind.
    pub kind: Option<Kind>,
    /// The kinds that the controller lists and watches besides pods and its own kind.
    pub reads: &'static [Kind],
    /// The pods whose changes the controller receives.
    pub pods: Pods,
    /// The requests that the controller may send besides lists and watches.
    pub writes: &'static [Write],
    /// The work queues; empty if the controller is not a workload.
    pub queues: &'static [QueueRow],
    /// The flag for the number of workers of the queues whose rows do not fix that number, if any.
    pub workers: Option<WorkersFlag>,
    /// The feature gates that change the controller's behaviour.
    pub gates: &'static [Gate],
    /// The flags for numbers that change the controller's behaviour.
    pub numbers: &'static [NumberFlag],
    /// The program that runs the controller.
    pub runs_in: RunsIn,
    /// Whether only served clusters run the controller by default. Other programs (runs, benches,
    /// fault campaigns) run it only if a user selects it by name.
    pub served_only: bool,
    /// Whether the controller creates its own objects in every namespace. If so, it runs by default
    /// only in complete served clusters: a server embedded in a test must have only the objects
    /// that the test creates.
    pub populates: bool,
}

impl ControllerRow {
    /// A row without a name, flags or gates, for use with the `..` syntax.
    pub const DEFAULT: ControllerRow = ControllerRow {
        name: "",
        alias: "",
        component: "",
        purpose: "",
        kind: None,
        reads: &[],
        pods: Pods::None,
        writes: &[],
        queues: &[],
        workers: None,
        gates: &[],
        numbers: &[],
        runs_in: RunsIn::Manager,
        served_only: false,
        populates: false,
    };

    /// Returns the kinds besides pods that the controller lists and watches: its own kind, then
    /// those in `reads`.
    pub fn watched(&self) -> impl Iterator<Item = Kind> {
        let own = self.kind.filter(|kind| *kind != Kind::POD);
        own.into_iter().chain(self.reads.iter().copied())
    }

    /// Reports whether the row allows this request. Lists of watched kinds are allowed, too.
    pub fn may_send(&self, verb: &str, kind: Kind, subresource: &str) -> bool {
        let is_list = verb == "list" && subresource.is_empty();
        let named = self.writes.iter().any(|write| {
            write.kind.is_none_or(|known| known == kind)
                && write.subresource == subresource
                && write.verbs.contains(&verb)
        });
        named || is_list && (kind == Kind::POD || self.watched().any(|watched| watched == kind))
    }

    /// Reports whether `name` is the controller's name or its older name.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == name
    }
}

/// The pods whose changes a controller receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pods {
    /// No pods.
    None,
    /// The pods whose controller is of this kind, and orphans, which such a controller can adopt.
    OwnedBy(Kind),
    /// All pods.
    All,
}

impl Pods {
    /// Reports whether a change concerns any of these pods.
    #[inline]
    pub fn include(self, change: &PodChange) -> bool {
        match self {
            Pods::None => false,
            Pods::OwnedBy(kind) => change.concerns(kind),
            Pods::All => true,
        }
    }
}

/// The program that runs a controller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunsIn {
    /// A controller manager, as a client of the API.
    Manager,
    /// Like [`Manager`](RunsIn::Manager). In a simulated cluster it runs separately, next to the
    /// controllers that are tested or measured: as a client without latency, limits or faults.
    Cluster,
    /// The simulated API server, which runs it as part of its commits.
    Server,
}

/// The requests that a controller may send for one kind or subresource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// The kind of the objects; `None` means every kind.
    pub kind: Option<Kind>,
    /// The subresource; empty for the object itself.
    pub subresource: &'static str,
    /// The verbs, as roles name them, e.g. `create` and `update`.
    pub verbs: &'static [&'static str],
}

impl Write {
    /// Returns writes of the objects themselves.
    pub const fn new(kind: Kind, verbs: &'static [&'static str]) -> Write {
        Write {
            kind: Some(kind),
            subresource: "",
            verbs,
        }
    }

    /// Returns writes of objects of every kind, including custom kinds.
    pub const fn of_every_kind(verbs: &'static [&'static str]) -> Write {
        Write {
            kind: None,
            subresource: "",
            verbs,
        }
    }

    /// Returns updates of the status of objects.
    pub const fn status(kind: Kind) -> Write {
        Write::update_of(kind, "status")
    }

    /// Returns updates of a subresource of objects.
    pub const fn update_of(kind: Kind, subresource: &'static str) -> Write {
        Write {
            kind: Some(kind),
            subresource,
            verbs: &["update"],
        }
    }
}

/// A flag for the number of a controller's workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkersFlag {
    /// The name without leading hyphens, e.g. `concurrent-replicaset-syncs`.
    pub flag: &'static str,
    /// The number of workers if the flag is not set.
    pub default: usize,
}

/// A flag for a number that changes a controller's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberFlag {
    /// The name without leading hyphens, e.g. `terminated-pod-gc-threshold`.
    pub flag: &'static str,
    /// The number if the flag is not set.
    pub default: i64,
    /// The form in which users write the number.
    pub form: NumberForm,
    /// The effect of the number, as the help text shows it.
    pub help: &'static str,
}

/// The form in which users write a number, and its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberForm {
    /// A plain number, which may be negative.
    Count,
    /// A non-negative duration such as `5s`; the number is in ns.
    Time,
    /// A non-negative decimal number such as `0.1`; the number is in millionths.
    Millionths,
}

impl NumberFlag {
    /// Returns the number that `set`, keyed by flag name, has for this flag, or the default.
    pub fn value(&self, set: &BTreeMap<&'static str, i64>) -> i64 {
        set.get(self.flag).copied().unwrap_or(self.default)
    }
}

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The gate's name in Kubernetes.
    pub name: &'static str,
    /// Whether the gate is on by default.
    pub default: bool,
    /// The Kubernetes version since which the gate can't be changed.
    pub locked_since: Option<&'static str>,
}

impl Gate {
    /// Returns a gate that is on by default.
    pub const fn on(name: &'static str) -> Gate {
        Gate {
            name,
            default: true,
            locked_since: None,
        }
    }

    /// Returns a gate that is off by default.
    pub const fn off(name: &'static str) -> Gate {
        Gate {
            default: false,
            ..Gate::on(name)
        }
    }

    /// Reports whether the gate is on: the value in `set`, keyed by name, or else the default.
    pub fn is_on(&self, set: &BTreeMap<String, bool>) -> bool {
        set.get(self.name).copied().unwrap_or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use podstorm_objects::{ObjectMeta, Pod};

    use super::*;
    use crate::cache::{Delta, PodCache};

    const ROW: ControllerRow = ControllerRow {
        name: "set-controller",
        alias: "set",
        kind: Some(Kind::REPLICA_SET),
        reads: &[Kind::DEPLOYMENT],
        writes: &[
            Write::new(Kind::POD, &["create"]),
            Write::status(Kind::REPLICA_SET),
            Write::of_every_kind(&["deletecollection"]),
        ],
        ..ControllerRow::DEFAULT
    };

    #[test]
    fn a_row_names_its_requests_and_the_kinds_it_watches() {
        assert!(ROW.may_send("create", Kind::POD, ""));
        assert!(ROW.may_send("update", Kind::REPLICA_SET, "status"));
        assert!(ROW.may_send("list", Kind::DEPLOYMENT, ""));
        assert!(ROW.may_send("deletecollection", Kind::NODE, ""));
        for (verb, kind, subresource) in [
            ("delete", Kind::POD, ""),
            ("create", Kind::POD, "status"),
            ("update", Kind::REPLICA_SET, ""),
            ("list", Kind::NODE, ""),
            ("deletecollection", Kind::NODE, "status"),
        ] {
            assert!(!ROW.may_send(verb, kind, subresource), "{verb}");
        }
        let watched: Vec<Kind> = ROW.watched().collect();
        assert_eq!(watched, [Kind::REPLICA_SET, Kind::DEPLOYMENT]);
        assert!(ROW.is_called("set") && ROW.is_called("set-controller"));
        assert!(!ROW.is_called("controller"));
    }

    #[test]
    fn a_number_that_is_not_set_has_the_default_of_its_row() {
        let number = NumberFlag {
            flag: "most",
            default: 7,
            form: NumberForm::Count,
            help: "",
        };
        assert_eq!(number.value(&BTreeMap::new()), 7);
        assert_eq!(
            number.value(&BTreeMap::from([("most", 0), ("least", 1)])),
            0
        );
    }

    #[test]
    fn a_row_gets_the_pods_that_it_names() {
        let cache = PodCache::new();
        let owned_by = |kind: Kind, name: &str| {
            let mut pod = Pod::default();
            pod.metadata.name = name.into();
            let owner = Arc::new(kind.controller_reference(&ObjectMeta::default()));
            pod.metadata.owner_references.push(owner);
            cache.apply(Delta::Applied(Arc::new(pod)))
        };
        let of_set = owned_by(Kind::REPLICA_SET, "a");
        let of_job = owned_by(Kind::JOB, "b");
        let of_sets = Pods::OwnedBy(Kind::REPLICA_SET);
        for (pods, set, job) in [
            (Pods::None, false, false),
            (of_sets, true, false),
            (Pods::All, true, true),
        ] {
            let included = (pods.include(&of_set), pods.include(&of_job));
            assert_eq!(included, (set, job), "{pods:?}");
        }
    }

    #[test]
    fn a_gate_that_is_not_set_has_the_default_of_its_row() {
        let set = BTreeMap::from([("A".to_owned(), false), ("B".to_owned(), true)]);
        let gates = [Gate::on("A"), Gate::off("B"), Gate::on("C"), Gate::off("D")];
        assert_eq!(
            gates.map(|gate| gate.is_on(&set)),
            [false, true, true, false]
        );
    }
}
