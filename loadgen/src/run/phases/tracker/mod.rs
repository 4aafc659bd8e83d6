//! The scenario's view of the cluster: counters for each owner of pods, maintained from the
//! scenario's own watches. Whether everything has converged is then one comparison instead of a
//! scan.
//!
//! There are two kinds of watches, of owners and of pods, without an order between them. The
//! tracker restores the server's order by version: an owner's event waits until every earlier pod
//! event has been seen. The number of active pods at the creation of a pod is therefore exact, and
//! a pod counts as excess only if it is one: see [`Tracker::excess`].

use std::collections::VecDeque;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashSet};
use podstorm::intern::FIXED_STATE;
use podstorm_objects::{AnyObject, Now, ObjectMeta, Pod, PodPhase, Uid};

mod makers;
mod pick;
mod state;
mod strays;
#[cfg(test)]
mod tests;

use podstorm_sim::engine::by_phase::{ByPhase, PhaseTimes};
use podstorm_sim::executor::stream::ObjectEvent;
use podstorm_sim::nodes::StuckPods;

use self::state::{PodState, is_held, pods};
use self::strays::Strays;
use super::slowest::{Convergence, Slowest};
use crate::result::{Phase, SlowWorkload};
use crate::workloads::{self, Demand, Workload};

pub(super) use self::state::{DownOfOne, DownPeak, Maker, Owner};

/// The number of a missing owner, and the place of a pod that can't be picked.
const NONE: u32 = u32::MAX;

/// A change of an owner that waits until earlier pod events have been seen.
#[derive(Debug)]
struct OwnerEvent {
    workload: Workload,
    version: u64,
    meta: ObjectMeta,
    demand: Demand,
    gone: bool,
    deleting: bool,
}

/// The counters for all owners and pods.
#[derive(Debug)]
pub(super) struct Tracker {
    pub(super) owners: Vec<Owner>,
    by_uid: HashMap<Uid, u32, RandomState>,
    pods: HashMap<Uid, PodState, RandomState>,
    waiting: VecDeque<OwnerEvent>,
    /// The number of owners that have not converged.
    pub(super) unconverged: usize,
    /// The number of pods that are being deleted.
    pub(super) deleting: u64,
    /// The number of active pods that are ready.
    pub(super) ready: u64,
    /// The number of active ready pods that have an owner.
    pub(super) up: u64,
    /// The number of active pods that aren't ready.
    pub(super) unready: u64,
    /// How many of the `unready` pods can't become ready: they were stuck in the files, or are new
    /// pods of a workload whose pods were all stuck.
    stuck: u64,
    /// The pods from files that can't become ready; `None` if there are none.
    stuck_pods: Option<Arc<StuckPods>>,
    /// The number of active pods from files that have never been ready.
    pub(super) never_ready: u64,
    /// The number of pods that were active and not ready in the files, but can become ready.
    pub(super) came_waiting: u64,
    /// Whether files are being loaded. Events then have no effect on the measurements.
    loading: bool,
    /// The number of pods that all owners together desire.
    pub(super) desired: u64,
    /// The maximum number of pods that were missing or not ready at the same time.
    pub(super) down: DownPeak,
    /// The number of pods that a controller created above the largest desired count since the
    /// version that it had read.
    ///
    /// This version is not visible from outside, but it is no older than the generation that the
    /// last status reports as observed. A pod therefore counts if, including itself, more pods were
    /// active at its creation than any generation since then requested. The number is never too
    /// high.
    pub(super) excess: u64,
    /// The number of owned pods that were removed before they were ever ready.
    pub(super) surplus: u64,
    /// The pods that the scenario removed from their owners, even if they still have owner
    /// references.
    isolated: HashSet<Uid, RandomState>,
    strays: Strays,
    times: Arc<PhaseTimes>,
    /// For each phase, whether it only sets up the cluster.
    set_up: Box<[bool]>,
    slowest: Slowest,
    /// Whether the controllers create new pods, and not the scenario.
    pub(super) controller_runs: bool,
    /// The ready owned pods; `None` unless the scenario picks pods at random.
    pickable: Option<Vec<Arc<Pod>>>,
    pub(super) convergence: ByPhase,
    pub(super) pod_ready: ByPhase,
}

impl Tracker {
    /// Creates an empty tracker. `picks` says whether pods will be picked, which costs memory.
    /// `set_up` says for each phase whether it only sets up the cluster.
    pub(super) fn new(
        picks: bool,
        set_up: Box<[bool]>,
        times: Arc<PhaseTimes>,
        stuck_pods: Option<Arc<StuckPods>>,
    ) -> Tracker {
        Tracker {
            owners: Vec::new(),
            by_uid: HashMap::with_hasher(FIXED_STATE),
            pods: HashMap::with_hasher(FIXED_STATE),
            waiting: VecDeque::new(),
            unconverged: 0,
            deleting: 0,
            ready: 0,
            up: 0,
            unready: 0,
            stuck: 0,
            stuck_pods,
            never_ready: 0,
            came_waiting: 0,
            loading: false,
            desired: 0,
            down: DownPeak::default(),
            excess: 0,
            surplus: 0,
            isolated: HashSet::with_hasher(FIXED_STATE),
            strays: HashMap::with_hasher(FIXED_STATE),
            times,
            set_up,
            slowest: Slowest::default(),
            controller_runs: true,
            pickable: picks.then(Vec::new),
            convergence: ByPhase::default(),
            pod_ready: ByPhase::default(),
        }
    }

    /// Reports whether every owner has its pods and an exact status, and no pod is terminating.
    pub(super) fn is_converged(&self) -> bool {
        self.unconverged == 0 && self.deleting == 0 && self.waiting.is_empty()
    }

    /// Reports whether every owner has its pods, ready or not, and an exact status, and no pod is
    /// terminating (unless `lingering` is set). `is_closing` returns whether a namespace accepts no
    /// new objects; its owners are ignored. O(owners).
    pub(super) fn is_exact_but_for_readiness(
        &self,
        lingering: bool,
        is_closing: impl Fn(&str) -> bool,
    ) -> bool {
        let exact =
            |owner: &Owner| owner.is_exact_without(owner.unready) || is_closing(&owner.namespace);
        (lingering || self.deleting == 0)
            && self.waiting.is_empty()
            && self.owners.iter().all(exact)
    }

    /// Reports whether `pods` pods are ready; pods that can't become ready count as ready.
    pub(super) fn are_ready(&self, pods: u64) -> bool {
        self.ready + self.stuck >= pods
    }

    /// Returns an owner that has not converged, for messages; `None` if all have.
    pub(super) fn first_unconverged(&self) -> Option<&Owner> {
        self.owners.iter().find(|owner| !owner.converged)
    }

    /// Returns the number of active pods that aren't ready but can become ready.
    pub(super) fn waiting_pods(&self) -> u64 {
        self.unready - self.stuck
    }

    /// Returns the number of existing pods.
    pub(super) fn existing(&self) -> u64 {
        self.pods.len() as u64
    }

    /// Returns how many active pods of an owner may be unready: those that can't become ready or,
    /// if `at_rest` is set because nothing changes any more, all unready ones.
    pub(super) fn may_be_unready(&self, uid: &Uid, at_rest: bool) -> i32 {
        let owner = self.by_uid.get(uid).map(|at| &self.owners[*at as usize]);
        owner.map_or(0, |owner| match at_rest {
            true => owner.unready,
            false => owner.stuck,
        })
    }

    /// Marks the start of loading files. Until [`Tracker::begin`], new objects count as existing
    /// before the run.
    pub(super) fn expect_files(&mut self) {
        self.loading = true;
    }

    /// Reports whether files are being loaded.
    pub(super) fn is_loading(&self) -> bool {
        self.loading
    }

    /// Marks the start of the controllers at `now`, after all objects from files were seen. From
    /// now on, the time counts for which owners are unconverged. O(owners).
    pub(super) fn begin(&mut self, now: Now) {
        if !std::mem::replace(&mut self.loading, false) {
            return;
        }
        for owner in &mut self.owners {
            owner.since_ns = (!owner.converged).then_some(now.mono_ns);
        }
    }

    /// Returns the numbers of missing and of surplus pods of all owners. O(owners).
    pub(super) fn missing_and_spare(&self) -> (u64, u64) {
        let live = self.owners.iter();
        let live = live.filter(|owner| !owner.gone && !owner.deleting);
        live.fold((0, 0), |(missing, spare), owner| {
            (
                missing + pods(owner.desired.saturating_sub(owner.active)),
                spare + pods(owner.active.saturating_sub(owner.desired)),
            )
        })
    }

    /// Marks the start of the controllers: only from now on does the time count for which owners
    /// are unconverged. O(owners).
    pub(super) fn controller_starts(&mut self, now: Now) {
        self.controller_runs = true;
        for owner in &mut self.owners {
            if let Some(since_ns) = &mut owner.since_ns {
                *since_ns = now.mono_ns;
            }
        }
    }

    /// Reports whether a phase is measured, and does not only set up the cluster.
    pub(super) fn is_measured(&self, phase: usize) -> bool {
        self.set_up.get(phase).is_some_and(|set_up| !set_up)
    }

    /// Returns the slowest convergences that did not begin during setup, the slowest first.
    /// Includes those that are not over at `now`. O(owners).
    pub(super) fn slowest(&self, phases: &[Phase], now: Now) -> Vec<SlowWorkload> {
        let mut slowest = self.slowest.clone();
        for (at, owner) in self.owners.iter().enumerate() {
            if let Some(since_ns) = owner.since_ns {
                slowest.add(Convergence {
                    took_ns: u64::try_from(now.mono_ns - since_ns).unwrap_or(0),
                    owner: at,
                    phase: self.times.phase_at(now.mono_ns),
                    converged: false,
                });
            }
        }
        let named = |one: &Convergence| {
            let owner = &self.owners[one.owner];
            SlowWorkload {
                namespace: owner.namespace.to_string(),
                name: owner.name.to_string(),
                seconds: one.took_ns as f64 / 1e9,
                phase: phases
                    .get(one.phase)
                    .map_or_else(String::new, |phase| phase.name.clone()),
                converged: one.converged,
            }
        };
        slowest.descending().iter().map(named).collect()
    }

    /// Records that an owner's spec, with this number of desired pods, was written at `now`.
    pub(super) fn asked(
        &mut self,
        workload: Workload,
        meta: &ObjectMeta,
        replicas: i32,
        now: Now,
    ) -> usize {
        let at = self.owner_at(workload, meta, now);
        let owner = &mut self.owners[at];
        if meta.generation > owner.generation {
            owner.generation = meta.generation;
            self.desired = self.desired + pods(replicas) - pods(owner.desired);
            owner.desired = replicas;
            owner.demands.push((meta.generation, replicas));
            owner.since_ns = Some(now.mono_ns);
            self.recheck(at, now);
        }
        at
    }

    /// Records a change of an object. If the object owns pods, the change takes effect once the
    /// earlier pod events have been seen.
    pub(super) fn owner_item(&mut self, workload: Workload, object: &AnyObject, gone: bool) {
        let Some(demand) = workload.pods().and_then(|pods| pods.demand(&**object)) else {
            return;
        };
        let meta = object.metadata();
        self.waiting.push_back(OwnerEvent {
            workload,
            version: meta.resource_version.number().unwrap_or(0),
            meta: ObjectMeta {
                name: meta.name.clone(),
                namespace: meta.namespace.clone(),
                uid: meta.uid.clone(),
                generation: meta.generation,
                owner_references: meta.owner_references.clone(),
                ..ObjectMeta::default()
            },
            demand,
            gone,
            deleting: meta.is_deleting(),
        });
    }

    /// Reports whether an event is about a new pod, created in the run, of a workload that
    /// finishes.
    pub(super) fn is_new_of_finishing(&self, item: &ObjectEvent<Pod>) -> bool {
        let ObjectEvent::Added(pod) = item else {
            return false;
        };
        let owner = workloads::controller(&pod.metadata);
        owner.is_some_and(|(it, _)| it.finishes().is_some())
            && !self.loading
            && !self.pods.contains_key(&pod.metadata.uid)
    }

    /// Records that a pod was added, changed or removed.
    pub(super) fn pod_item(&mut self, item: ObjectEvent<Pod>, now: Now) {
        match item {
            ObjectEvent::Reset => {}
            ObjectEvent::Added(pod) => self.pod_seen(&pod, true, now),
            ObjectEvent::Modified(pod) => self.pod_seen(&pod, false, now),
            ObjectEvent::Deleted(pod) => self.pod_gone(&pod, now),
        }
    }

    /// Called when both streams have been read to their ends, that of the pods last: no earlier pod
    /// event can then be missing for the owner events that wait.
    pub(super) fn all_seen(&mut self, now: Now) {
        self.owners_up_to(u64::MAX, now);
    }

    /// Reports whether every owner has its pods and an exact status. Pods may be terminating.
    pub(super) fn is_replaced(&self) -> bool {
        self.unconverged == 0 && self.waiting.is_empty()
    }

    /// Records that the scenario removed a pod from its owner. The owner's controller must replace
    /// it.
    pub(super) fn isolate(&mut self, uid: &Uid, now: Now) {
        self.isolated.insert(uid.clone());
        let Some(state) = self.pods.get_mut(uid) else {
            return;
        };
        let before = *state;
        state.owner = NONE;
        let after = *state;
        self.move_pod(Some(before), Some(after), now);
    }

    fn owners_before(&mut self, pod: &Pod, now: Now) {
        if !self.waiting.is_empty() {
            self.owners_up_to(pod.metadata.resource_version.number().unwrap_or(0), now);
        }
    }

    fn owners_up_to(&mut self, version: u64, now: Now) {
        while let Some(event) = self.waiting.pop_front_if(|event| event.version < version) {
            self.owner_seen(event, now);
        }
    }

    fn owner_seen(&mut self, event: OwnerEvent, now: Now) {
        let Demand { replicas, status } = event.demand;
        let at = self.asked(event.workload, &event.meta, replicas, now);
        let owner = &mut self.owners[at];
        owner.status = status;
        if event.gone && !owner.gone {
            self.desired -= pods(owner.desired);
        }
        owner.gone = event.gone;
        owner.deleting = event.deleting;
        let observed = status.observed_generation;
        owner
            .demands
            .retain(|&mut (generation, _)| generation >= observed);
        self.recheck(at, now);
    }

    fn owner_at(&mut self, workload: Workload, meta: &ObjectMeta, now: Now) -> usize {
        if let Some(&at) = self.by_uid.get(&meta.uid) {
            return at as usize;
        }
        let owner = Owner {
            since_ns: Some(now.mono_ns),
            ..Owner::new(workload, meta)
        };
        self.add_owner(&meta.uid, owner, now)
    }

    /// Compares the actual and the desired state of an owner after either has changed.
    fn recheck(&mut self, at: usize, now: Now) {
        let owner = &mut self.owners[at];
        let exact = owner.is_exact();
        if exact && let Some(since_ns) = owner.since_ns.take() {
            let took_ns = u64::try_from(now.mono_ns - since_ns).unwrap_or(0);
            let began_in = self.times.phase_at(since_ns);
            // Changes by files, or by the scenario in place of a controller, are not attributed to
            // the controllers.
            let is_its_doing = self.controller_runs && !self.loading;
            if is_its_doing {
                self.convergence.record(began_in, took_ns);
            }
            if is_its_doing && !self.set_up[began_in] {
                self.slowest.add(Convergence {
                    took_ns,
                    owner: at,
                    phase: self.times.phase_at(now.mono_ns),
                    converged: true,
                });
            }
        } else if !exact && owner.since_ns.is_none() {
            owner.since_ns = Some(now.mono_ns);
        }
        if exact != owner.converged {
            owner.converged = exact;
            match exact {
                true => self.unconverged -= 1,
                false => self.unconverged += 1,
            }
        }
    }

    /// Counts a pod that was added, changed or removed, and rechecks the owners that this affects.
    fn move_pod(&mut self, before: Option<PodState>, after: Option<PodState>, now: Now) {
        if before == after {
            return;
        }
        let counted = |state: Option<PodState>| {
            let state = state.filter(|state| state.owner != NONE);
            state.map_or((NONE, 0, 0, 0), |state| {
                (
                    state.owner,
                    i32::from(state.active),
                    i32::from(state.is_unready()),
                    i32::from(state.is_unready() && state.stuck),
                )
            })
        };
        let total = |state: Option<PodState>, counts: fn(PodState) -> bool| {
            u64::from(state.is_some_and(counts))
        };
        let shift = |sum: &mut u64, counts: fn(PodState) -> bool| {
            *sum = *sum + total(after, counts) - total(before, counts);
        };
        shift(&mut self.deleting, |state| state.deleting);
        shift(&mut self.ready, |state| state.ready && state.active);
        shift(&mut self.unready, PodState::is_unready);
        shift(&mut self.stuck, |state| state.is_unready() && state.stuck);
        shift(&mut self.never_ready, |state| {
            state.is_unready() && state.loaded && !state.ready
        });
        let (old, new) = (counted(before), counted(after));
        if old == new {
            return;
        }
        for ((owner, active, unready, stuck), by) in [(old, -1), (new, 1)] {
            if let Some(found) = self.owners.get_mut(owner as usize) {
                self.up = self
                    .up
                    .saturating_add_signed((by * (active - unready)).into());
                found.active += by * active;
                found.unready += by * unready;
                found.stuck += by * stuck;
            }
        }
        for owner in [old.0, new.0] {
            if (owner as usize) < self.owners.len() {
                self.recheck(owner as usize, now);
                self.down
                    .saw(self.desired, self.up, &self.owners[owner as usize]);
            }
        }
    }

    fn pod_seen(&mut self, pod: &Arc<Pod>, added: bool, now: Now) {
        self.owners_before(pod, now);
        self.place(pod, added, now);
    }

    fn place(&mut self, pod: &Arc<Pod>, added: bool, now: Now) {
        let owner = self.owner_of(pod);
        let ready_now = pod.is_ready();
        let fresh = PodState {
            owner,
            pick: NONE,
            created_ns: now.mono_ns,
            active: pod.is_active(),
            deleting: pod.metadata.is_deleting() && !is_held(&pod.metadata),
            ready: ready_now,
            ready_now,
            loaded: self.loading,
            stuck: false,
        };
        let Some(state) = self.pods.get_mut(&pod.metadata.uid) else {
            let fresh = PodState {
                stuck: !ready_now && self.is_stuck(pod),
                ..fresh
            };
            self.pods.insert(pod.metadata.uid.clone(), fresh);
            self.came_waiting += u64::from(fresh.loaded && fresh.is_unready() && !fresh.stuck);
            self.move_pod(None, Some(fresh), now);
            if fresh.active && owner != NONE && added && self.controller_runs {
                self.count_excess(owner);
            }
            self.list(pod, fresh);
            return;
        };
        let old = *state;
        *state = PodState {
            pick: old.pick,
            created_ns: old.created_ns,
            ready: old.ready || ready_now,
            loaded: old.loaded,
            stuck: old.stuck && !ready_now,
            ..fresh
        };
        let new = *state;
        if new.ready && !old.ready && !new.loaded {
            let took_ns = u64::try_from(now.mono_ns - old.created_ns).unwrap_or(0);
            let began_in = self.times.phase_at(old.created_ns);
            self.pod_ready.record(began_in, took_ns);
        }
        self.move_pod(Some(old), Some(new), now);
        if new.pick == NONE {
            self.list(pod, new);
        } else if !new.active || new.owner == NONE {
            self.unlist(new.pick as usize);
            if let Some(state) = self.pods.get_mut(&pod.metadata.uid) {
                state.pick = NONE;
            }
        }
    }

    /// Reports whether an unready pod can't become ready.
    fn is_stuck(&self, pod: &Pod) -> bool {
        match &self.stuck_pods {
            Some(stuck) => stuck.holds(pod),
            // Kubelets start new pods, but repair nothing.
            None => {
                let starts = matches!(pod.status.phase, PodPhase::Pending | PodPhase::Unset);
                self.loading && !starts
            }
        }
    }

    fn pod_gone(&mut self, pod: &Pod, now: Now) {
        self.owners_before(pod, now);
        self.forget_stray(pod);
        let Some(state) = self.pods.remove(&pod.metadata.uid) else {
            return;
        };
        if state.owner != NONE && !state.loaded {
            self.surplus += u64::from(!state.ready);
        }
        self.move_pod(Some(state), None, now);
        if state.pick != NONE {
            self.unlist(state.pick as usize);
        }
    }

    fn count_excess(&mut self, owner: u32) {
        let Some(owner) = self.owners.get(owner as usize) else {
            return;
        };
        let most = owner.demands.iter().map(|&(_, replicas)| replicas).max();
        self.excess += u64::from(owner.active > most.unwrap_or(owner.desired));
    }
}
