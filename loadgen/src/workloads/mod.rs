//! What the laboratory knows about each kind of workload: a folder for each kind defines how its
//! objects are generated and changed, and when they are converged. [`ALL`] lists the kinds.
//!
//! A workload owns pods ([`OwnsPods`]), has rollouts that its status reports ([`RollsOut`]), or
//! finishes once its pods have finished ([`Finishes`]). StatefulSets own pods and have rollouts.
//!
//! `run::phases` plays scenarios for every workload in the list without naming any: it counts the
//! pods of owners by their demand, and follows rollouts and workloads that finish. It finds a
//! workload whose pods belong to others through their controller references. `scenario`,
//! `settings`, `size` and `result`, which are above this module, iterate over the list, too. The
//! flags of a workload, its step `create<Kind>s`, its members of results and its flag of `explain`
//! therefore come only from its folder.

mod deployment;
pub mod explain;
pub(crate) mod flags;
mod job;
pub(crate) mod objects;
mod replicaset;
mod size;
mod statefulset;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm_apiserver::Cluster;
use podstorm_objects::{
    AnyObject, DynamicObject, Kind, Labels, Now, Object, ObjectMeta, OwnerReference, Pod,
    ReplicaSetStatus,
};
use serde_json::Value;

use self::explain::{Asked, Explanation};
use self::flags::{Flag, FlagValues, Form};
use self::objects::{Objects, change_spec};
use crate::input::{InputObject, ReadTyped};
use crate::owned_pods::PodsByOwner;
use crate::units::counted;
use crate::values::Limit;

pub(crate) use self::size::WorkloadCount;
pub use self::size::{ClusterSize, WorkloadCounts};
pub(crate) use podstorm::job::course::{Course, Ended};

/// A kind of workload that the laboratory knows.
pub(crate) type Workload = &'static dyn LaboratoryWorkload;

/// All kinds of workloads. The objects of files are loaded, watched and checked in this order.
pub(crate) static ALL: [Workload; 5] = [
    &replicaset::ReplicaSets,
    &replicaset::ReplicationControllers,
    &deployment::Deployments,
    &job::Jobs,
    &statefulset::StatefulSets,
];

/// The kind of owners for pods that are generated before their owners exist.
pub(crate) static OWNER: &dyn OwnsPods = &replicaset::ReplicaSets;

/// The laboratory's operations on the objects of one kind of workload.
pub(crate) trait LaboratoryWorkload: Debug + Sync {
    /// Returns the kind of the objects.
    fn kind(&self) -> Kind;

    /// Reports whether every run has such objects, even a run with files, because controllers of
    /// other workloads create them.
    fn is_in_every_run(&self) -> bool {
        false
    }

    /// Returns the decoder for objects from files; `None` if the kind does not have its own type.
    fn typed(&self) -> Option<ReadTyped> {
        None
    }

    /// Reports whether objects can be generated; otherwise they come only from files.
    fn is_generated(&self) -> bool {
        true
    }

    /// Returns the flags for generated objects of the kind.
    fn flags(&self) -> &'static [Flag] {
        &[]
    }

    /// Returns the flags for the number of objects and for the pods of each: its first two flags of
    /// the form [`Form::Size`].
    fn sizes(&self) -> Option<Sizes> {
        let mut sizes = self.flags().iter().filter(|flag| flag.form == Form::Size);
        Some(Sizes {
            count: sizes.next()?.name,
            each: sizes.next()?.name,
        })
    }

    /// Returns the kind of objects that the workload's controller creates, and the switch that
    /// generates the workload in their place; `None` if its controller creates no workloads.
    fn makes(&self) -> Option<Makes> {
        None
    }

    /// Checks the values of the workload's flags together with the `minReadySeconds` of generated
    /// objects.
    /// # Errors
    /// No object can have these values; the error contains the fix.
    fn check_flags(&self, _values: &FlagValues, _min_ready_seconds: i32) -> Result<(), String> {
        Ok(())
    }

    /// Generates an object; `None` if the objects come only from files.
    fn make(&self, part: Part, objects: &Objects) -> Option<AnyObject>;

    /// Returns the member of a spec that [`scale`](LaboratoryWorkload::scale) sets.
    fn pods_member(&self) -> &'static str {
        "replicas"
    }

    /// Sets the number of pods of an object and returns its metadata afterwards.
    ///
    /// # Errors
    /// The error of the server.
    fn scale(
        &self,
        cluster: &Cluster,
        namespace: &str,
        name: &str,
        replicas: i32,
        now: Now,
    ) -> Result<ObjectMeta, ApiError> {
        let set = |spec: &mut Value| spec[self.pods_member()] = replicas.into();
        change_spec(&cluster.api(self.kind()), namespace, name, set, now)
    }

    /// Describes what the workload's controller will write once to objects that come from an older
    /// version of Kubernetes; `None` if it writes nothing.
    fn older(&self, _objects: &[InputObject], _gates: &Gates) -> Option<String> {
        None
    }

    /// Returns the flag of `loadgen explain` that names an object of the kind.
    fn name_flag(&self) -> NameFlag;

    /// Explains the object with this name.
    ///
    /// # Errors
    /// No object or several have this name, or something is missing in the files.
    fn explain(&self, name: &str, asked: Asked) -> anyhow::Result<Box<dyn Explanation>>;

    /// Returns the operations on the objects' pods; `None` if the objects are not controllers of
    /// pods.
    fn pods(&self) -> Option<&dyn OwnsPods> {
        None
    }

    /// Returns the operations on rollouts; `None` if the kind has none.
    fn rollouts(&self) -> Option<&dyn RollsOut> {
        None
    }

    /// Returns the operations on objects that finish; `None` if they never do.
    fn finishes(&self) -> Option<&dyn Finishes> {
        None
    }
}

/// Operations on objects that are controllers of pods. Each method takes an object of the
/// workload's kind; for objects of other kinds, methods that return an `Option` return `None`.
pub(crate) trait OwnsPods: Sync {
    /// Returns the number of pods that an object requests, and the counts in its status.
    fn demand(&self, object: &dyn Object) -> Option<Demand>;

    /// Returns the labels by which an object selects pods.
    fn selected_labels(&self, object: &dyn Object) -> Option<Labels>;

    /// Returns a pod as the controller of generated object `number` would create it, with this
    /// owner if it is given. `None` if the objects come only from files.
    fn pod(&self, number: u64, owner: Option<&ObjectMeta>, objects: &Objects) -> Option<Pod>;

    /// Returns the object to create in place of a deleted one.
    fn recreated(&self, object: &dyn Object) -> Option<AnyObject>;

    /// Returns the object with the status that its controller leaves behind once it has converged.
    fn settled(&self, object: &dyn Object, gates: &Gates) -> Option<AnyObject>;

    /// Returns the templates of the claims that the object's controller creates for its pods.
    fn claim_templates(&self, _object: &dyn Object) -> Vec<DynamicObject> {
        Vec::new()
    }

    /// Reports whether the status of an object describes individual pods, and not only their
    /// number: see [`audit`](OwnsPods::audit).
    fn audits_pods(&self) -> bool {
        false
    }

    /// Compares an object with its pods. Called when no work is left.
    ///
    /// # Errors
    /// The contradiction between the object and its pods.
    fn audit(&self, _object: &dyn Object, _pods: &[Arc<Pod>]) -> Result<(), String> {
        Ok(())
    }

    /// Reports whether objects can be replaced by successors without a controller.
    fn has_successors(&self) -> bool {
        false
    }

    /// Returns the next revision of an object, which has no pods yet. `None` if the kind has no
    /// successors.
    fn successor(&self, _object: &dyn Object, _revision: u32) -> Option<AnyObject> {
        None
    }
}

/// Operations on objects whose changes their own controller rolls out.
pub(crate) trait RollsOut: Sync {
    /// Returns the progress of the rollout of an object's newest spec; `None` for objects of other
    /// kinds.
    fn progress(&self, object: &dyn Object) -> Option<Progress>;

    /// Sets the limits of rolling updates in a spec.
    fn set_limits(&self, spec: &mut Value, limits: Limits);

    /// Adds to `found` the deviations of objects from files. `owned` contains the pods by owner.
    fn examine(&self, objects: &[InputObject], owned: &PodsByOwner<'_>, found: &mut Findings);
}

/// Operations on objects that finish once enough of their pods have finished.
pub(crate) trait Finishes: Sync {
    /// Returns the progress of an object; `None` for objects of other kinds.
    fn course(&self, object: &dyn Object) -> Option<Course>;

    /// Compares a finished object with its pods in the store.
    ///
    /// # Errors
    /// The contradiction between the object and its pods.
    fn audit(&self, object: &dyn Object, pods: &[Arc<Pod>]) -> Result<(), String>;

    /// Describes problems in files that involve several objects.
    fn warnings(&self, objects: &[InputObject]) -> Vec<String>;
}

/// Feature gates by name, and whether each is on.
pub(crate) type Gates = BTreeMap<String, bool>;

/// The names of the flags for the size of a generated cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// The flag for the number of objects.
    pub(crate) count: &'static str,
    /// The flag for the number of pods of each object.
    pub(crate) each: &'static str,
}

/// A kind of workload, and the flags that size its generated objects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SizedKind {
    pub(crate) kind: Kind,
    pub(crate) sizes: Sizes,
}

impl SizedKind {
    /// Returns a kind with its own flags, or with those of the objects its controller creates.
    pub(crate) fn of(kind: Kind) -> SizedKind {
        let workload = for_kind(kind);
        let made = |it: Workload| it.makes().and_then(|makes| for_kind(makes.kind)?.sizes());
        let own = workload.and_then(|it| it.sizes().or_else(|| made(it)));
        let sizes = own.unwrap_or_else(|| SizedKind::default().sizes);
        SizedKind { kind, sizes }
    }
}

/// The kind of a generated cluster by default.
impl Default for SizedKind {
    fn default() -> SizedKind {
        let mut sized = ALL.into_iter().filter_map(|it| {
            Some(SizedKind {
                kind: it.kind(),
                sizes: it.sizes()?,
            })
        });
        sized
            .next()
            .expect("the owner of generated pods has size flags")
    }
}

/// A flag of `loadgen explain` that names an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameFlag {
    /// The name without leading hyphens.
    pub(crate) name: &'static str,
    /// The questions about objects of the kind, for help.
    pub(crate) help: &'static str,
}

/// The objects that the controller of a workload creates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Makes {
    /// The kind of these objects.
    pub(crate) kind: Kind,
    /// The switch that generates objects of the workload where a scenario would create the objects
    /// of `kind`.
    pub(crate) switch: &'static Flag,
}

/// The limits of a rolling update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// The maximum number of pods above the desired number.
    pub(crate) max_surge: Limit,
    /// The maximum number of unavailable pods.
    pub(crate) max_unavailable: Limit,
}

/// Deviations from the desired state in the objects of files, found before the run, in words.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Objects whose status differs from their pods.
    pub(crate) stale: Vec<String>,
    /// Incomplete rollouts, as judged by the pods and not by the status.
    pub(crate) rollouts: Vec<String>,
}

/// An object of a generated cluster, before its creation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The number of the object among the generated ones.
    pub(crate) number: u64,
    /// The desired pods of the object.
    pub(crate) replicas: i32,
    /// How many revisions precede this one.
    pub(crate) revision: u32,
    /// Whether the object belongs to an object of the workload whose controller creates such
    /// objects.
    pub(crate) is_owned: bool,
}

/// The number of pods that an owner requests, and the counts in its status.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) replicas: i32,
    pub(crate) status: StatusCounts,
}

/// The counts in a status that must be exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StatusCounts {
    pub(crate) replicas: i32,
    pub(crate) ready: i32,
    pub(crate) available: i32,
    pub(crate) observed_generation: i64,
}

impl From<&ReplicaSetStatus> for StatusCounts {
    fn from(status: &ReplicaSetStatus) -> StatusCounts {
        StatusCounts {
            replicas: status.replicas,
            ready: status.ready_replicas,
            available: status.available_replicas,
            observed_generation: status.observed_generation,
        }
    }
}

/// The progress of a rollout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// The number of desired pods in the spec.
    pub(crate) replicas: i32,
    /// Whether `kubectl rollout status` would succeed.
    pub(crate) is_complete: bool,
    /// Whether `kubectl rollout status` would return.
    pub(crate) is_over: bool,
    /// Whether the status describes the newest spec.
    pub(crate) is_observed: bool,
    /// Whether the rollout is paused.
    pub(crate) is_paused: bool,
}

/// Returns the workloads whose objects are controllers of pods.
pub(crate) fn owners() -> impl Iterator<Item = Workload> {
    let all = ALL.into_iter();
    all.filter(|workload| workload.pods().is_some())
}

/// Returns the names of all kinds of workloads, sorted.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = ALL.iter().map(|workload| workload.kind().name()).collect();
    names.sort_unstable();
    names
}

/// Returns the operations on the pods of a kind; `None` if its objects are not controllers of pods.
pub(crate) fn pods_of(kind: Kind) -> Option<&'static dyn OwnsPods> {
    for_kind(kind)?.pods()
}

/// Returns the templates of the claims that controllers create for the pods of an object.
pub(crate) fn claim_templates(object: &dyn Object) -> Vec<DynamicObject> {
    let pods = pods_of(object.kind());
    pods.map_or_else(Vec::new, |pods| pods.claim_templates(object))
}

/// Describes problems in files that involve several objects, for all workloads.
pub(crate) fn warnings(objects: &[InputObject]) -> Vec<String> {
    let finishing = ALL.into_iter().filter_map(|workload| workload.finishes());
    finishing.flat_map(|it| it.warnings(objects)).collect()
}

/// Formats the number of controllers of pods by kind, omitting zeros:
/// `3 ReplicaSets, 1 ReplicationController`.
pub(crate) fn owners_in_words(count: impl Fn(Kind) -> u64) -> String {
    let finishing = ALL.into_iter().filter(|it| it.finishes().is_some());
    let counts = owners().chain(finishing);
    let counts = counts.map(|workload| (workload.kind().name(), count(workload.kind())));
    let (some, none): (Vec<_>, Vec<_>) = counts.partition(|(_, count)| *count > 0);
    let shown = if some.is_empty() { &none[..1] } else { &some };
    let words = shown.iter().map(|(name, count)| counted(*count, name));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the workload with this kind; `None` if the kind is not a workload.
pub(crate) fn for_kind(kind: Kind) -> Option<Workload> {
    ALL.into_iter().find(|workload| workload.kind() == kind)
}

/// Returns the workload that an object's controller reference refers to, with the reference; `None`
/// if there is none.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<(Workload, &Arc<OwnerReference>)> {
    let owner = meta.controller()?;
    let is_of = |workload: &Workload| *owner.kind == *workload.kind().name();
    ALL.into_iter()
        .find(is_of)
        .map(|workload| (workload, owner))
}

/// Returns the workload whose controller creates objects of this kind; `None` if there is none.
pub(crate) fn maker_of(kind: Kind) -> Option<Workload> {
    let makes = |workload: &Workload| workload.makes().is_some_and(|makes| makes.kind == kind);
    ALL.into_iter().find(makes)
}

/// Formats the kinds of the workloads that match: `ReplicaSets or Deployments`.
pub(crate) fn kinds_in_words(is_meant: impl Fn(&Workload) -> bool) -> String {
    let kinds = ALL.into_iter().filter(is_meant);
    let kinds: Vec<String> = kinds.map(|it| format!("{}s", it.kind().name())).collect();
    kinds.join(" or ")
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{Deployment, ReplicaSet, ReplicationController};

    use super::*;

    #[test]
    fn a_workload_accepts_only_objects_of_its_own_kind() {
        let objects: [AnyObject; 6] = [
            Arc::new(ReplicaSet::default()),
            Arc::new(ReplicationController::default()),
            Arc::new(Deployment::default().to_untyped()),
            Arc::new(DynamicObject::new(Kind::JOB)),
            Arc::new(DynamicObject::new(Kind::STATEFUL_SET)),
            Arc::new(Pod::default()),
        ];
        for workload in ALL {
            let taken = |object: &&AnyObject| {
                let demand = workload.pods().and_then(|it| it.demand(&***object));
                let progress = workload.rollouts().and_then(|it| it.progress(&***object));
                let course = workload.finishes().and_then(|it| it.course(&***object));
                demand.is_some() || progress.is_some() || course.is_some()
            };
            let taken: Vec<Kind> = objects.iter().filter(taken).map(|it| it.kind()).collect();
            assert_eq!(taken, [workload.kind()]);
        }
    }

    #[test]
    fn kinds_without_owners_are_not_shown() {
        let words = |sets: u64, rcs: u64| {
            let counts = [
                (Kind::REPLICA_SET, sets),
                (Kind::REPLICATION_CONTROLLER, rcs),
            ];
            owners_in_words(|kind| counts.iter().find(|it| it.0 == kind).map_or(0, |it| it.1))
        };
        assert_eq!(words(0, 0), "0 ReplicaSets");
        assert_eq!(words(1, 0), "1 ReplicaSet");
        assert_eq!(words(0, 2), "2 ReplicationControllers");
        assert_eq!(words(3, 1), "3 ReplicaSets, 1 ReplicationController");
    }
}
