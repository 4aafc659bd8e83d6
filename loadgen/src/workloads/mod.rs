//! The laboratory's knowledge of each kind of workload: a folder for each, which defines how its
//! objects are generated and changed, and when they are converged; and a line in [`ALL`].
//!
//! A workload owns pods ([`OwnsPods`]), has rollouts that its status reports ([`RollsOut`]), or
//! finishes once its pods have finished ([`Finishes`]). StatefulSets own pods and have rollouts.
//!
//! `run::phases` plays scenarios for every workload of the list and names none: it counts the pods
//! of owners by their demand, and follows rollouts and workloads that finish. It finds a workload
//! whose pods belong to others through their controller references. `scenario`, `settings`, `size`
//! and `result`, which are above this module, iterate over the list too. A workload therefore gets
//! its flags, its step `create<Kind>s`, its members of results and its flag of `explain` only from
//! its folder.

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

/// A kind of workload in the laboratory.
pub(crate) type Workload = &'static dyn LaboratoryWorkload;

/// All workloads of the laboratory. Objects of files are loaded, watched and checked in this order.
pub(crate) static ALL: [Workload; 5] = [
    &replicaset::ReplicaSets,
    &replicaset::ReplicationControllers,
    &deployment::Deployments,
    &job::Jobs,
    &statefulset::StatefulSets,
];

/// The owner of pods that a generated cluster has before their owners exist.
pub(crate) static OWNER: &dyn OwnsPods = &replicaset::ReplicaSets;

/// Operations of the laboratory on the objects of one kind.
pub(crate) trait LaboratoryWorkload: Debug + Sync {
    /// Returns the kind.
    fn kind(&self) -> Kind;

    /// Reports whether every run has such objects, even with files, because controllers of other
    /// workloads create them.
    fn is_in_every_run(&self) -> bool {
        false
    }

    /// Returns how its objects of files are decoded, if the kind has its own type.
    fn typed(&self) -> Option<ReadTyped> {
        None
    }

    /// Reports whether its objects can be generated; otherwise they come only from files.
    fn is_generated(&self) -> bool {
        true
    }

    /// Returns the flags for its generated objects.
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

    /// Returns the kind of the objects that its controller creates, and the switch that creates it
    /// in their place.
    fn makes(&self) -> Option<Makes> {
        None
    }

    /// Checks the values of its flags together with the `minReadySeconds` of generated objects.
    ///
    /// # Errors
    /// No object can have these values; the error includes the fix.
    fn check_flags(&self, _values: &FlagValues, _min_ready_seconds: i32) -> Result<(), String> {
        Ok(())
    }

    /// Generates an object; `None` for a kind that comes only from files.
    fn make(&self, part: Part, objects: &Objects) -> Option<AnyObject>;

    /// Returns the member of a spec that [`scale`](LaboratoryWorkload::scale) sets.
    fn pods_member(&self) -> &'static str {
        "replicas"
    }

    /// Sets the number of pods of an object and returns its metadata afterwards.
    ///
    /// # Errors
    /// Those of the server.
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

    /// Describes what its controller will write once to objects of files from an older Kubernetes.
    fn older(&self, _objects: &[InputObject], _gates: &Gates) -> Option<String> {
        None
    }

    /// Returns the flag with which `loadgen explain` names an object.
    fn name_flag(&self) -> NameFlag;

    /// Explains the object of this name.
    ///
    /// # Errors
    /// No object or several have this name, or the files lack something.
    fn explain(&self, name: &str, asked: Asked) -> anyhow::Result<Box<dyn Explanation>>;

    /// Returns the operations on the pods of its objects, if pods have them as their controllers.
    fn pods(&self) -> Option<&dyn OwnsPods> {
        None
    }

    /// Returns the operations on its rollouts, if it has any.
    fn rollouts(&self) -> Option<&dyn RollsOut> {
        None
    }

    /// Returns the operations on objects that finish, if they do.
    fn finishes(&self) -> Option<&dyn Finishes> {
        None
    }
}

/// Operations on objects that are controllers of pods. Each method takes an object of the
/// workload's kind and returns `None` for any other.
pub(crate) trait OwnsPods: Sync {
    /// Returns what an object requests, and what its status reports.
    fn demand(&self, object: &dyn Object) -> Option<Demand>;

    /// Returns the labels by which an object selects its pods.
    fn selected_labels(&self, object: &dyn Object) -> Option<Labels>;

    /// Returns a pod as object `number` of a generated cluster creates it, with this owner if there
    /// is one. `None` for a kind that comes only from files.
    fn pod(&self, number: u64, owner: Option<&ObjectMeta>, objects: &Objects) -> Option<Pod>;

    /// Returns a new object in place of a deleted one.
    fn recreated(&self, object: &dyn Object) -> Option<AnyObject>;

    /// Returns the object with the status that its controller leaves behind after convergence.
    fn settled(&self, object: &dyn Object, gates: &Gates) -> Option<AnyObject>;

    /// Returns the templates of the claims that its controller creates for the pods of an object.
    fn claim_templates(&self, _object: &dyn Object) -> Vec<DynamicObject> {
        Vec::new()
    }

    /// Reports whether a status describes individual pods, not only their number: see
    /// [`audit`](OwnsPods::audit).
    fn audits_pods(&self) -> bool {
        false
    }

    /// Compares an object with its pods when no work is left.
    ///
    /// # Errors
    /// Returns the contradiction.
    fn audit(&self, _object: &dyn Object, _pods: &[Arc<Pod>]) -> Result<(), String> {
        Ok(())
    }

    /// Reports whether its objects can be replaced by successors without a controller.
    fn has_successors(&self) -> bool {
        false
    }

    /// Returns the next revision of an object, without pods so far. `None` for a kind without
    /// successors.
    fn successor(&self, _object: &dyn Object, _revision: u32) -> Option<AnyObject> {
        None
    }
}

/// Operations on objects whose changes their own controller rolls out.
pub(crate) trait RollsOut: Sync {
    /// Returns the progress of the rollout of an object's newest spec; `None` for an object of
    /// another kind.
    fn progress(&self, object: &dyn Object) -> Option<Progress>;

    /// Writes the limits of rolling updates into a spec.
    fn set_limits(&self, spec: &mut Value, limits: Limits);

    /// Adds deviations of the objects of files, whose pods are counted by owner.
    fn examine(&self, objects: &[InputObject], owned: &PodsByOwner<'_>, found: &mut Findings);
}

/// Operations on objects that finish once enough of their pods have finished.
pub(crate) trait Finishes: Sync {
    /// Returns the progress of an object; `None` for an object of another kind.
    fn course(&self, object: &dyn Object) -> Option<Course>;

    /// Compares a finished object with its pods.
    ///
    /// # Errors
    /// Returns the contradiction.
    fn audit(&self, object: &dyn Object, pods: &[Arc<Pod>]) -> Result<(), String>;

    /// Describes problems that involve several objects of files.
    fn warnings(&self, objects: &[InputObject]) -> Vec<String>;
}

/// Feature gates by name, and whether each is on.
pub(crate) type Gates = BTreeMap<String, bool>;

/// The names of the flags for the size of a generated cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    /// The number of objects.
    pub(crate) count: &'static str,
    /// The pods of each object.
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

/// A flag that names an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameFlag {
    /// The name without leading hyphens.
    pub(crate) name: &'static str,
    /// The questions about an object of the kind, for help.
    pub(crate) help: &'static str,
}

/// The objects that a workload's controller creates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Makes {
    /// Their kind.
    pub(crate) kind: Kind,
    /// The switch that creates the workload's own objects where a scenario creates these objects as
    /// parts of them.
    pub(crate) switch: &'static Flag,
}

/// The limits of a rolling update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// How many pods above the desired number may exist.
    pub(crate) max_surge: Limit,
    /// How many pods may be unavailable.
    pub(crate) max_unavailable: Limit,
}

/// Deviations from the desired state in objects of files, before the run, in words.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Objects whose status differs from their pods.
    pub(crate) stale: Vec<String>,
    /// Incomplete rollouts, judged by the pods instead of the status.
    pub(crate) rollouts: Vec<String>,
}

/// An object of a generated cluster to create.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    /// The number of the object.
    pub(crate) number: u64,
    /// The desired pods of the object.
    pub(crate) replicas: i32,
    /// How many revisions precede it.
    pub(crate) revision: u32,
    /// Whether the object belongs to an object of a workload that creates such objects.
    pub(crate) is_owned: bool,
}

/// What an owner of pods requests, and what its status reports.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    pub(crate) replicas: i32,
    pub(crate) status: StatusCounts,
}

/// The counts of a status that must be exact.
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
    /// The desired pods of the spec.
    pub(crate) replicas: i32,
    /// Whether `kubectl rollout status` would succeed.
    pub(crate) is_complete: bool,
    /// Whether it would return.
    pub(crate) is_over: bool,
    /// Whether the status is of the newest spec.
    pub(crate) is_observed: bool,
    /// Whether the rollout is paused.
    pub(crate) is_paused: bool,
}

/// Returns the workloads whose objects are controllers of pods.
pub(crate) fn owners() -> impl Iterator<Item = Workload> {
    let all = ALL.into_iter();
    all.filter(|workload| workload.pods().is_some())
}

/// Returns the names of the kinds, sorted.
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

/// Describes problems that involve several objects of files.
pub(crate) fn warnings(objects: &[InputObject]) -> Vec<String> {
    let finishing = ALL.into_iter().filter_map(|workload| workload.finishes());
    finishing.flat_map(|it| it.warnings(objects)).collect()
}

/// Formats the number of controllers of pods by kind, without zeros:
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

/// Returns the workload of a kind.
pub(crate) fn for_kind(kind: Kind) -> Option<Workload> {
    ALL.into_iter().find(|workload| workload.kind() == kind)
}

/// Returns the workload that an object belongs to by its controller reference, with this reference.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<(Workload, &Arc<OwnerReference>)> {
    let owner = meta.controller()?;
    let is_of = |workload: &Workload| *owner.kind == *workload.kind().name();
    ALL.into_iter()
        .find(is_of)
        .map(|workload| (workload, owner))
}

/// Returns the workload whose controller creates objects of this kind.
pub(crate) fn maker_of(kind: Kind) -> Option<Workload> {
    let makes = |workload: &Workload| workload.makes().is_some_and(|makes| makes.kind == kind);
    ALL.into_iter().find(makes)
}

/// Formats the kinds of matching workloads: `ReplicaSets or Deployments`.
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
