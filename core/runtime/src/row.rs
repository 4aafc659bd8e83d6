//! The row of a controller: all that the programs that run controllers, and their users, need to know
//! of one. Flags, feature gates, settings, metrics and documentation follow from the rows; nothing
//! else lists controllers.

use std::collections::BTreeMap;

use podstorm_objects::Kind;

use crate::cache::PodChange;
use crate::workqueue::QueueRow;

/// What a controller is, beside its code.
#[derive(Debug)]
pub struct ControllerRow {
    /// Its name, e.g. `replicaset-controller`, as `--controllers` takes it.
    pub name: &'static str,
    /// Its older name, which `--controllers` takes too.
    pub alias: &'static str,
    /// The component that its Events name as their source.
    pub component: &'static str,
    /// What it does, in a few words: `ReplicaSets`, `pod garbage collection`.
    pub purpose: &'static str,
    /// The kind whose objects it syncs; absent where these are of no single kind.
    pub kind: Option<Kind>,
    /// The kinds besides pods and its own that it lists and watches.
    pub reads: &'static [Kind],
    /// The pods whose changes it gets.
    pub pods: Pods,
    /// The requests that it may send besides those to list and watch.
    pub writes: &'static [Write],
    /// Its queues; none where it is no workload.
    pub queues: &'static [QueueRow],
    /// The flag that says how many workers its queues have, where their rows leave that to a flag.
    pub workers: Option<WorkersFlag>,
    /// The feature gates that change its behaviour.
    pub gates: &'static [Gate],
    /// The numbers that users may set.
    pub numbers: &'static [NumberFlag],
    /// The program that runs it.
    pub runs_in: RunsIn,
    /// Whether only served clusters run it by default. Other programs (runs, benches, fault campaigns)
    /// run it only if they select it by name.
    pub served_only: bool,
    /// Whether it fills every namespace with objects of its own. Of served clusters only whole ones run it by
    /// default: a server that a test embeds has no objects but those that the test creates.
    pub populates: bool,
}

impl ControllerRow {
    /// A workload without a name yet, with neither flags nor gates, to be changed by `..`.
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

    /// Returns the kinds besides pods that it lists and watches: its own, then those that it reads.
    pub fn watched(&self) -> impl Iterator<Item = Kind> {
        let own = self.kind.filter(|kind| *kind != Kind::POD);
        own.into_iter().chain(self.reads.iter().copied())
    }

    /// Reports whether the row names that request. Kinds that it watches may be listed, too.
    pub fn may_send(&self, verb: &str, kind: Kind, subresource: &str) -> bool {
        let is_list = verb == "list" && subresource.is_empty();
        let named = self.writes.iter().any(|write| {
            write.kind.is_none_or(|known| known == kind)
                && write.subresource == subresource
                && write.verbs.contains(&verb)
        });
        named || is_list && (kind == Kind::POD || self.watched().any(|watched| watched == kind))
    }

    /// Reports whether that is its name or its older name.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == name
    }
}

/// The pods whose changes a controller gets.
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
    /// Reports whether a change is of one of these pods.
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
    /// As [`Manager`](RunsIn::Manager). A simulated cluster has it of its own, beside the controllers that are
    /// tested or measured: a client without latency, limit or faults.
    Cluster,
    /// The simulated API server, whose commits it is a part of.
    Server,
}

/// Requests that a controller sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Of what; `None` is every kind that there is.
    pub kind: Option<Kind>,
    /// The subresource; empty for the object itself.
    pub subresource: &'static str,
    /// The verbs, as roles name them, e.g. `create` and `update`.
    pub verbs: &'static [&'static str],
}

impl Write {
    /// Requests of objects themselves.
    pub const fn of(kind: Kind, verbs: &'static [&'static str]) -> Write {
        Write {
            kind: Some(kind),
            subresource: "",
            verbs,
        }
    }

    /// Requests of objects of every kind, custom ones too.
    pub const fn of_every_kind(verbs: &'static [&'static str]) -> Write {
        Write {
            kind: None,
            subresource: "",
            verbs,
        }
    }

    /// Updates of objects' status.
    pub const fn status(kind: Kind) -> Write {
        Write::update_of(kind, "status")
    }

    /// Updates of a subresource.
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
    /// Its name without hyphens in front: `concurrent-replicaset-syncs`.
    pub flag: &'static str,
    /// How many workers there are where the flag is not given.
    pub default: usize,
}

/// A flag for a number that changes a controller's behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberFlag {
    /// Its name without hyphens in front: `terminated-pod-gc-threshold`.
    pub flag: &'static str,
    /// The number where the flag is not given.
    pub default: i64,
    /// How users write it.
    pub form: NumberForm,
    /// The effect of the number, as help shows it.
    pub help: &'static str,
}

/// How users write a number, and what the number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberForm {
    /// As it is, negative ones too.
    Count,
    /// A time not below 0, `5s`; the number is ns.
    Time,
    /// A decimal number not below 0, `0.1`; the number is millionths.
    Millionths,
}

impl NumberFlag {
    /// Returns the number among numbers that are set by the names of their flags.
    pub fn of(&self, set: &BTreeMap<&'static str, i64>) -> i64 {
        set.get(self.flag).copied().unwrap_or(self.default)
    }
}

/// A feature gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name in Kubernetes.
    pub name: &'static str,
    /// Whether it is on where nothing is said of it.
    pub default: bool,
    /// The version of Kubernetes since which it can't be changed.
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

    /// Reports whether it is on among gates that are set by their names.
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
            Write::of(Kind::POD, &["create"]),
            Write::status(Kind::REPLICA_SET),
            Write::of_every_kind(&["deletecollection"]),
        ],
        ..ControllerRow::DEFAULT
    };

    #[test]
    fn a_row_names_its_requests_and_what_it_watches() {
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
    fn a_number_that_is_not_set_is_as_its_row_says() {
        let number = NumberFlag {
            flag: "most",
            default: 7,
            form: NumberForm::Count,
            help: "",
        };
        assert_eq!(number.of(&BTreeMap::new()), 7);
        assert_eq!(number.of(&BTreeMap::from([("most", 0), ("least", 1)])), 0);
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
    fn a_gate_that_is_not_set_is_as_its_row_says() {
        let set = BTreeMap::from([("A".to_owned(), false), ("B".to_owned(), true)]);
        let gates = [Gate::on("A"), Gate::off("B"), Gate::on("C"), Gate::off("D")];
        assert_eq!(
            gates.map(|gate| gate.is_on(&set)),
            [false, true, true, false]
        );
    }
}
