//! The checker's state of a run: ReplicaSets, pods and syncs as the server and the workers report
//! them, and the number of deviations that the faults so far can explain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::cache::PodCache;
use podstorm::consistency::Record;
use podstorm::intern::KeyId;
use podstorm::policy::Behaviour;
use podstorm::replicaset::Controller;
use podstorm_apiserver::Commit;
use podstorm_objects::{
    Kind, Now, Pod, PodPhase, ReplicaSet, ReplicaSetStatus, ReplicationController, Str, Uid,
};
use podstorm_sim::engine::fault_harness::FaultHarness;
use podstorm_sim::engine::observer::{Origin, SyncId};

use super::super::model::is_active;
use super::sets::SetState;
use crate::action::Action;
use crate::invariants::Checked;
use crate::plan::PlannedCluster;

/// The state of a sync.
#[derive(Debug, Default)]
pub(super) struct SyncState {
    /// Whether the sync is that of a ReplicationController.
    pub(super) of_replication_controller: bool,
    pub(super) key: String,
    pub(super) namespace: Str,
    pub(super) key_id: KeyId,
    /// Whether the sync has waited since it was opened, and therefore reads the caches again.
    pub(super) waited: bool,
    /// The ReplicaSet in the cache, if there is one.
    pub(super) set: Option<Arc<ReplicaSet>>,
    /// The version of the cached ReplicaSet. The next field is the version of the pod cache.
    pub(super) set_version: u64,
    pub(super) pod_version: u64,
    /// The cached pods that have not ended, by name. They are read when the first request is sent,
    /// because most syncs send none, and cleared when the sync ends.
    pub(super) seen: BTreeMap<String, Arc<Pod>>,
    /// Whether `seen` has been read.
    has_looked: bool,
    /// The pod cache, for pods that `seen` does not contain.
    pub(super) cache: Option<Arc<PodCache>>,
    /// The number of active pods that the ReplicaSet owns and selects, once they have been counted.
    pub(super) own_active: Option<i64>,
    /// Whether the adoption or release of a pod failed.
    pub(super) claim_failed: bool,
    /// Whether the sync has sent a request other than the read of a version.
    pub(super) asked: bool,
    /// Whether the expectations were satisfied when the sync began.
    pub(super) satisfied: bool,
    pub(super) creates_sent: i64,
    pub(super) creates_answered: i64,
    pub(super) creates_committed: i64,
    /// The number of committed creates whose answer was a success or is known to be lost.
    pub(super) creates_settled: i64,
    pub(super) deletes_sent: i64,
    pub(super) deletes_committed: i64,
    pub(super) deletes_settled: i64,
    /// The names of the pods that the sync deletes.
    pub(super) to_delete: Vec<String>,
    /// The size of each batch of creates, by batch number.
    pub(super) batches: BTreeMap<u32, u32>,
    /// The number of the batch in which a create failed, if one did.
    pub(super) failed_batch: Option<u32>,
    /// The harness's wall time at which the sync last read the caches, ns.
    pub(super) begun_wall_ns: i64,
    /// The names of the pods that were created for the sync.
    pub(super) created: BTreeSet<String>,
    /// The names of the pods that the sync has adopted.
    pub(super) adopted: BTreeSet<String>,
    /// Whether a create or delete of the sync failed in a way that the status must show.
    pub(super) manage_failed: bool,
    /// The status that the sync requested first, if any.
    pub(super) status: Option<Box<ReplicaSetStatus>>,
    /// Whether the sync has read its ReplicaSet again and found the expected one.
    pub(super) owner_confirmed: bool,
    /// The current step of the sync.
    pub(super) step: &'static str,
    pub(super) ended: bool,
}

impl SyncState {
    /// Reads the pods from the cache, on the first call. Must be called when the sync counts its
    /// pods.
    pub(super) fn look(&mut self) {
        if !std::mem::replace(&mut self.has_looked, true)
            && let Some(cache) = &self.cache
        {
            // Omit the pods that have ended: a loop whose pods end immediately leaves thousands of
            // them, and none counts.
            let pods = cache.resync().into_iter().map(|change| change.new);
            let pods =
                pods.filter(|pod| pod.metadata.namespace == self.namespace && !has_ended(pod));
            let by_name = pods.map(|pod| (pod.metadata.name.to_string(), pod));
            self.seen = by_name.collect();
        }
    }
}

/// The state of the oracle in a run.
#[derive(Debug, Default)]
pub(super) struct OracleState {
    pub(super) behaviour: Behaviour,
    /// Whether upstream's consistency gate is on, which applies only to ReplicaSets.
    gate: bool,
    pub(super) burst: i64,
    pub(super) version: u64,
    pub(super) sets: BTreeMap<Uid, SetState>,
    pub(super) syncs: BTreeMap<SyncId, SyncState>,
    /// The syncs in progress, by controller and key.
    pub(super) busy: BTreeMap<(u32, String), SyncId>,
    /// The requested deletes, by controller, ReplicaSet and pod, each with whether the server
    /// accepted one. The ReplicaSet is part of the key because another one may acquire the pod in
    /// the meantime, without knowledge of the first delete.
    pub(super) deletes: BTreeMap<(u32, Uid, Uid), bool>,
    pub(super) excess: u64,
    pub(super) ambiguous: u64,
    pub(super) sometimes: BTreeSet<&'static str>,
    /// Like [`SetState::allowed`], but for all ReplicaSets together.
    pub(super) allowed: i64,
    /// Like [`SetState::allowed_deletes`], but for all ReplicaSets together.
    pub(super) allowed_deletes: i64,
    /// Whether any number of creates is permitted, because a cache may be arbitrarily stale.
    pub(super) unlimited_creates: bool,
    pub(super) unlimited_deletes: bool,
    pub(super) crashed: bool,
    /// Whether a watch has broken its promise: an event was lost or replayed.
    pub(super) lied_to: bool,
    pub(super) overlapped: bool,
    /// The number of controllers that run concurrently. Without the gate, the events of one
    /// controller's creates satisfy the expectations of another controller, which then creates pods
    /// again. Each may create up to the wanted number.
    pub(super) outrun: i64,
    /// The possible offsets of the controllers' wall clocks, ns.
    pub(super) clock_offsets_ns: BTreeSet<i64>,
    /// Whether a lower layer has resent a create whose first attempt was also carried out.
    pub(super) resent: bool,
    dead: BTreeSet<u32>,
}

impl OracleState {
    pub(super) fn new(cluster: &PlannedCluster, behaviour: Behaviour) -> OracleState {
        OracleState {
            behaviour,
            gate: cluster.stale_controller_consistency,
            burst: i64::from(cluster.burst_replicas),
            clock_offsets_ns: BTreeSet::from([0]),
            ..OracleState::default()
        }
    }

    /// Records a commit, and checks its invariants.
    pub(super) fn committed(&mut self, commit: &Commit, origin: Option<Origin>) -> Checked {
        self.version = commit.version;
        let change = commit.change;
        if let Some((old, new)) = commit.downcast::<Pod>() {
            self.pod_committed(change, old, new, origin)
        } else if let Some((old, new)) = commit.downcast::<ReplicaSet>() {
            self.set_committed(Kind::REPLICA_SET, change, old, new, origin)
        } else if let Some((old, new)) = commit.downcast::<ReplicationController>() {
            let old = old.map(ReplicationController::to_replica_set);
            let (kind, new) = (Kind::REPLICATION_CONTROLLER, new.to_replica_set());
            self.set_committed(kind, change, old.as_ref(), &new, origin)
        } else {
            Ok(())
        }
    }

    pub(super) fn is_upstream(&self) -> bool {
        self.behaviour == Behaviour::Upstream
    }

    /// Reports whether controllers of this kind wait until the cache shows their writes.
    pub(super) fn is_gated(&self, kind: Kind) -> bool {
        self.gate && kind == Kind::REPLICA_SET
    }

    /// Reports whether the controller manager with this number is dead.
    pub(super) fn is_dead(&self, incarnation: u32) -> bool {
        self.dead.contains(&incarnation)
    }

    /// Records the deviations that a step of the schedule may explain.
    pub(super) fn disturbed(&mut self, action: &Action, harness: &FaultHarness) {
        let upstream = self.is_upstream();
        match action {
            Action::Drop { events, .. } => {
                // The cache is wrong until the next list. With the hardened behaviour, the names of
                // existing pods prevent most creates of pods that are missing in the cache.
                let events = i64::from(*events);
                self.allowed_deletes += events;
                self.allowed += events;
                self.lied_to = true;
            }
            Action::Replay { events, .. } => {
                self.allowed_deletes += i64::from(*events);
                self.allowed += i64::from(*events);
                self.lied_to = true;
                // A recreated object, with another UID, clears the expectations.
                self.unlimited_creates |= upstream;
                self.unlimited_deletes |= upstream;
            }
            Action::WallClock { offset_s, .. } => {
                let offset_ns = i64::from(*offset_s) * 1_000_000_000;
                self.clock_offsets_ns.insert(offset_ns);
            }
            Action::Overlap { .. } => {
                self.overlapped = true;
                let alive = harness.alive().len() as i64;
                self.allowed += self.burst * alive;
                self.outrun += if upstream { alive } else { 0 };
                self.allowed_deletes += self.burst * alive;
            }
            _ => {}
        }
    }

    /// Records that a controller manager started with stale lists.
    pub(super) fn stale_start(&mut self) {
        if self.is_upstream() {
            self.unlimited_creates = true;
            self.unlimited_deletes = true;
        }
    }

    /// Reopens the state of a sync that reads the caches again.
    pub(super) fn reopen_sync(&mut self, id: SyncId, controller: &Controller, now: Now) {
        let Some(before) = self.syncs.remove(&id) else {
            return;
        };
        self.open_sync(id, controller, before.key_id, now).step = before.step;
    }

    /// Records that a controller manager died, whose requests in flight may still be carried out.
    pub(super) fn died(&mut self, harness: &FaultHarness) {
        self.crashed = true;
        let alive: BTreeSet<u32> = harness
            .alive()
            .iter()
            .map(|connection| connection.incarnation())
            .collect();
        let started = u32::try_from(harness.started()).unwrap_or(u32::MAX);
        let dead = (0..started).filter(|incarnation| !alive.contains(incarnation));
        let newly: Vec<u32> = dead.filter(|it| !self.dead.contains(it)).collect();
        for incarnation in newly {
            self.dead.insert(incarnation);
            self.busy.retain(|(who, _), _| *who != incarnation);
            for (_, sync) in self
                .syncs
                .iter_mut()
                .filter(|(id, _)| id.incarnation == incarnation)
            {
                if sync.ended {
                    continue;
                }
                sync.ended = true;
                sync.seen.clear();
                let open = sync.creates_sent - sync.creates_answered;
                let set = sync.set.as_ref().map(|set| &set.metadata.uid);
                if let Some(set) = set.and_then(|uid| self.sets.get_mut(uid)) {
                    set.allowed += open;
                    set.allowed_deletes += sync.deletes_sent - sync.deletes_settled;
                }
                if open > 0 {
                    self.sometimes
                        .insert("a controller dies with creates in flight");
                }
            }
        }
    }

    /// Reports whether a controller has work to do.
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
            || self
                .sets
                .values()
                .any(|set| !set.gone && set.active != set.demand())
    }

    /// Returns the current step of the controllers' work.
    pub(super) fn step_name(&self) -> &'static str {
        let steps = self.busy.values().filter_map(|id| self.syncs.get(id));
        let step = steps.map(|sync| sync.step).find(|step| !step.is_empty());
        match step {
            Some(step) => step,
            None if self.is_busy() => "waiting",
            None => "idle",
        }
    }

    /// Returns the UID of the ReplicaSet for which a pod counts, because the ReplicaSet owns and
    /// selects the pod and the pod is active. `None` if it counts for none.
    pub(super) fn owner_counting(&self, pod: &Pod) -> Option<Uid> {
        if !is_active(pod) {
            return None;
        }
        let owner = pod.metadata.controller()?;
        let set = self.sets.get(&owner.uid)?;
        pod.metadata
            .labels
            .contains_all(&set.labels)
            .then(|| owner.uid.clone())
    }

    /// Records the creation, removal or change of a pod.
    pub(super) fn record_pod(&mut self, old: Option<&Pod>, new: Option<&Pod>, who: Option<SyncId>) {
        let before = old.and_then(|pod| self.owner_counting(pod));
        let after = new.and_then(|pod| self.owner_counting(pod));
        let version = self.version;
        if before == after {
            // The pod may be adopted from a cache that does not yet show its termination.
            let owner = |pod: Option<&Pod>| Some(pod?.metadata.controller()?.uid.clone());
            if before.is_none()
                && old.is_some()
                && let (None, Some(owner)) = (owner(old), owner(new))
                && let Some(set) = self.sets.get_mut(&owner)
            {
                set.losses.push((version, None));
            }
            return;
        }
        let name = new.or(old).map_or("", |pod| &*pod.metadata.name);
        if let Some(set) = before.and_then(|uid| self.sets.get_mut(&uid)) {
            set.active -= 1;
            set.losses.push((version, who));
            set.adopted.remove(name);
        }
        if let Some(set) = after.and_then(|uid| self.sets.get_mut(&uid)) {
            set.active += 1;
            if old.is_some() {
                set.adopted.insert(name.to_owned());
            }
            if old.is_some() || who.is_none() {
                set.gains.push((version, who));
            }
        }
    }

    /// Records the creation, removal or change of a ReplicaSet.
    pub(super) fn record_set(&mut self, set: &ReplicaSet, kind: Kind, removed: bool) {
        let version = self.version;
        let state = self
            .sets
            .entry(set.metadata.uid.clone())
            .or_insert_with(|| SetState::from_set(set, kind));
        state.gone = removed;
        let replicas = set.replicas();
        if state
            .demands
            .last()
            .is_none_or(|(_, last)| *last != replicas)
        {
            state.demands.push((version, replicas));
        }
    }

    /// Opens the state of a sync that begins.
    pub(super) fn open_sync(
        &mut self,
        id: SyncId,
        controller: &Controller,
        key: KeyId,
        now: Now,
    ) -> &mut SyncState {
        let name = controller.owners().name(key);
        let owner = controller.owners().get(key);
        let pods = controller.pods();
        let set = owner.map(|owner| Arc::clone(&owner.object));
        let version = |version: &podstorm_objects::ResourceVersion| version.number().unwrap_or(0);
        let sync = SyncState {
            of_replication_controller: controller.options().kind == Kind::REPLICATION_CONTROLLER,
            key: name.name.to_string(),
            namespace: name.namespace,
            key_id: key,
            set_version: set
                .as_ref()
                .map_or(0, |set| version(&set.metadata.resource_version)),
            pod_version: version(&pods.version().get()),
            set,
            cache: Some(Arc::clone(pods)),
            begun_wall_ns: now.wall_ns,
            satisfied: controller.expectations().satisfied(key, now.mono_ns),
            ..SyncState::default()
        };
        self.expectations_ran_out(controller, key, &sync);
        self.syncs.insert(id, sync);
        self.syncs.get_mut(&id).expect("the sync was just inserted")
    }

    /// Records the deviations of an upstream sync whose expectations of pod events have expired
    /// after five minutes. The sync acts on a cache that does not show these events. The gate
    /// remembers answered creates, but not deletes.
    fn expectations_ran_out(&mut self, controller: &Controller, key: KeyId, sync: &SyncState) {
        let kind = controller.options().kind;
        let counts = controller.expectations().counts(key);
        let (Some(counts), Some(object)) = (counts.filter(|_| sync.satisfied), &sync.set) else {
            return;
        };
        let (creates, deletes) = (counts.add.max(0), counts.del.max(0));
        if !self.is_upstream() || creates + deletes == 0 {
            return;
        }
        self.sometimes
            .insert("pod events are delayed until expectations expire");
        let unseen = if self.is_gated(kind) { 0 } else { creates };
        if let Some(set) = self.sets.get_mut(&object.metadata.uid) {
            set.allowed += unseen;
            set.allowed_deletes += deletes;
        }
    }

    /// Checks that controllers keep no more state than necessary at rest.
    pub(super) fn at_rest(&self, harness: &FaultHarness) -> Checked {
        // State is compared by name, not by UID, because a loop creates thousands of objects.
        let living = self.sets.values().filter(|set| !set.gone);
        let living: BTreeSet<_> = living.map(|set| (&set.namespace, &set.name)).collect();
        for controller in harness.controllers::<Controller>() {
            if !controller.queue().is_empty() {
                return Err(("L2", "there are keys in the queue".to_owned()));
            }
            let kind = controller.options().kind;
            for set in self.sets.values().filter(|set| set.kind == kind) {
                let key = controller.owners().intern(&set.namespace, &set.name);
                let is_there = living.contains(&(&set.namespace, &set.name));
                if let Some(record) = controller.consistency().record(&key) {
                    if !is_there {
                        let text = format!("there is a record of {}, which is deleted", set.name);
                        return Err(("L3", text));
                    }
                    record_at_rest(set, &record, &controller)?;
                }
                let counts = controller.expectations().counts(key);
                let Some(counts) = counts else { continue };
                if !is_there {
                    let text = format!(
                        "there are expectations of {}, which is deleted: {counts:?}",
                        set.name
                    );
                    return Err(("L3", text));
                }
                let pending = counts.add > 0 || counts.del > 0;
                if pending && !self.is_upstream() {
                    let text = format!("{} still expects {counts:?}", set.name);
                    return Err(("S5", text));
                }
            }
        }
        Ok(())
    }
}

/// Checks a record of own writes, which stays until the next sync reads it. The caches must have
/// reached the record's version.
fn record_at_rest(set: &SetState, record: &Record, controller: &Controller) -> Checked {
    let caches = [
        controller.pods().version().get(),
        controller.owners().version().get(),
    ];
    for (written, cache) in record.written.iter().zip(caches) {
        if let Some(written) = written
            && written.compare(&cache) == Some(std::cmp::Ordering::Greater)
        {
            let text = format!(
                "{} waits for version {written}, but the cache is at {cache}",
                set.name
            );
            return Err(("S5", text));
        }
    }
    Ok(())
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed)
}
