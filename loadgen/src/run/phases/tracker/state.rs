//! The known state of an owner of pods and of a pod.

use compact_str::CompactString;
use podstorm_objects::{Kind, ObjectMeta, Str};
use smallvec::SmallVec;

use crate::workloads::{OwnsPods, StatusCounts, Workload, controller};

/// The object whose rollouts replace the pods of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::run::phases) struct Maker<'a> {
    pub(in crate::run::phases) kind: Kind,
    pub(in crate::run::phases) namespace: &'a str,
    pub(in crate::run::phases) name: &'a str,
}

/// The known state of an owner of pods.
#[derive(Debug)]
pub(in crate::run::phases) struct Owner {
    pub(in crate::run::phases) workload: Workload,
    pub(in crate::run::phases) namespace: Str,
    pub(in crate::run::phases) name: CompactString,
    pub(in crate::run::phases) desired: i32,
    /// The number of desired pods when the phase began.
    pub(super) wanted: i32,
    /// The generation of the newest known spec.
    pub(super) generation: i64,
    /// The number of the owner's active pods on the server.
    pub(in crate::run::phases) active: i32,
    /// How many of the active pods aren't ready.
    pub(in crate::run::phases) unready: i32,
    /// How many of the unready pods can't become ready: see `Tracker::stuck`.
    pub(super) stuck: i32,
    pub(super) status: StatusCounts,
    /// Since when the owner differs from the desired state, ns; `None` while it is converged.
    pub(super) since_ns: Option<i64>,
    pub(super) converged: bool,
    /// Whether the owner was deleted.
    pub(in crate::run::phases) gone: bool,
    /// Whether the owner's deletion has begun: controllers no longer work on it.
    pub(super) deleting: bool,
    /// The object whose rollouts replace the owner's pods, as its workload and name: the owner
    /// itself, or its own owner. `None` if there is none.
    pub(in crate::run::phases) maker: Option<(Workload, CompactString)>,
    /// Generations and their replicas, from the newest one on that the controller has reported as
    /// observed. The controller may act on any of them.
    pub(super) demands: SmallVec<[(i64, i32); 2]>,
}

impl Owner {
    /// Creates an owner of which only the metadata is known.
    pub(super) fn new(workload: Workload, meta: &ObjectMeta) -> Owner {
        let maker = match workload.rollouts() {
            Some(_) => Some((workload, meta.name.clone())),
            None => controller(meta).map(|(maker, owner)| (maker, (*owner.name).into())),
        };
        Owner {
            workload,
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            desired: 0,
            wanted: 0,
            generation: 0,
            active: 0,
            unready: 0,
            stuck: 0,
            status: StatusCounts::default(),
            since_ns: None,
            converged: false,
            gone: false,
            deleting: false,
            maker,
            demands: SmallVec::new(),
        }
    }

    /// Returns the operations on the owner's pods.
    pub(in crate::run::phases) fn pods(&self) -> &'static dyn OwnsPods {
        self.workload
            .pods()
            .expect("the workload of an owner owns pods")
    }

    /// Returns the object whose rollouts replace its pods.
    pub(super) fn maker(&self) -> Option<Maker<'_>> {
        let (workload, name) = self.maker.as_ref()?;
        Some(Maker {
            kind: workload.kind(),
            namespace: &self.namespace,
            name,
        })
    }

    /// Returns the kind of the object whose rollouts replace the owner's pods, or else the owner's
    /// own kind.
    pub(in crate::run::phases) fn shown_kind(&self) -> Kind {
        let maker = self.maker.as_ref().map(|(workload, _)| *workload);
        maker.unwrap_or(self.workload).kind()
    }

    /// Returns the number of available pods in the last known status, which may be of an older
    /// spec.
    pub(in crate::run::phases) fn available(&self) -> i32 {
        self.status.available
    }

    /// Reports whether the owner has its pods and an exact status, and all pods are ready except
    /// those that can't become ready.
    pub(super) fn is_exact(&self) -> bool {
        self.is_exact_without(self.stuck)
    }

    /// Like `is_exact`, but `unready` pods aren't ready.
    pub(super) fn is_exact_without(&self, unready: i32) -> bool {
        let StatusCounts {
            replicas,
            ready,
            available,
            observed_generation,
        } = self.status;
        self.gone
            || self.deleting
            || observed_generation == self.generation
                && [replicas, self.active] == [self.desired; 2]
                && [ready, available] == [self.desired - unready; 2]
    }
}

/// The maximum number of pods that were missing or not ready at the same time, among those that
/// were desired when the phase began: pods that the phase adds do not count as down before they
/// exist.
#[derive(Clone, Debug, Default)]
pub(in crate::run::phases) struct DownPeak {
    wanted: u64,
    /// The maximum over all owners together.
    pub(in crate::run::phases) all: u64,
    /// The maximum for a single owner.
    pub(in crate::run::phases) of_one: DownOfOne,
}

/// The maximum number of pods of one workload that were down at the same time, by kind of workload.
#[derive(Clone, Debug, Default)]
pub(in crate::run::phases) struct DownOfOne(SmallVec<[(Kind, u64); 4]>);

impl DownOfOne {
    /// Records that `down` pods of a workload of this kind are down. O(kinds).
    pub(in crate::run::phases) fn saw(&mut self, kind: Kind, down: u64) {
        match self.0.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, most)) => *most = down.max(*most),
            None => self.0.push((kind, down)),
        }
    }

    /// Returns the kinds with their peaks.
    pub(in crate::run::phases) fn by_kind(&self) -> impl Iterator<Item = (Kind, u64)> {
        self.0.iter().copied()
    }

    /// Returns the highest peak of all kinds.
    pub(in crate::run::phases) fn most(&self) -> u64 {
        self.by_kind().map(|(_, most)| most).max().unwrap_or(0)
    }
}

impl DownPeak {
    /// Starts a phase: resets the peaks to the number of pods that are down now. O(owners).
    pub(in crate::run::phases) fn begin(desired: u64, up: u64, owners: &mut [Owner]) -> DownPeak {
        let mut peak = DownPeak {
            wanted: desired,
            all: desired.saturating_sub(up),
            of_one: DownOfOne::default(),
        };
        for owner in owners {
            owner.wanted = owner.desired;
            peak.saw(desired, up, owner);
        }
        peak
    }

    /// Records that the pods of an owner have changed.
    pub(super) fn saw(&mut self, desired: u64, up: u64, owner: &Owner) {
        self.all = self.all.max(desired.min(self.wanted).saturating_sub(up));
        if !owner.gone && !owner.deleting {
            let wanted = owner.desired.min(owner.wanted);
            let down = pods(wanted - (owner.active - owner.unready));
            self.of_one.saw(owner.shown_kind(), down);
        }
    }
}

/// Converts a number of replicas to a number of pods.
pub(super) fn pods(replicas: i32) -> u64 {
    u64::from(replicas.max(0).unsigned_abs())
}

/// The known state of a pod.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PodState {
    pub(super) owner: u32,
    /// The pod's place in the list of pods that can be picked; `NONE` if it is not in the list.
    pub(super) pick: u32,
    pub(super) created_ns: i64,
    pub(super) active: bool,
    /// Whether the pod is being deleted and only its kubelet holds it.
    pub(super) deleting: bool,
    /// Whether the pod is or was ready.
    pub(super) ready: bool,
    pub(super) ready_now: bool,
    /// Whether the pod came from a file.
    pub(super) loaded: bool,
    /// Whether the pod can't become ready: see `Tracker::stuck`.
    pub(super) stuck: bool,
}

impl PodState {
    pub(super) fn is_unready(self) -> bool {
        self.active && !self.ready_now
    }
}

/// The finalizers that the garbage collector removes.
const COLLECTORS: [&str; 2] = ["foregroundDeletion", "orphan"];

/// Reports whether a pod has a finalizer that nothing in the simulation removes, so that the pod
/// stays after it is deleted.
pub(super) fn is_held(meta: &ObjectMeta) -> bool {
    let mut finalizers = meta.finalizers().iter();
    finalizers.any(|name| !COLLECTORS.contains(&&**name))
}
