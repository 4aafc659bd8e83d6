//! What the checker keeps of a run: ReplicaSets, pods and syncs as the server and the workers report them,
//! and how many deviations the disturbances so far can explain.

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

/// A sync.
#[derive(Debug, Default)]
pub(super) struct SyncState {
    /// Whether it is a ReplicationController's.
    pub(super) of_replication_controller: bool,
    pub(super) key: String,
    pub(super) namespace: Str,
    pub(super) key_id: KeyId,
    /// Whether it has waited since it was opened, and so reads the caches again.
    pub(super) waited: bool,
    /// The ReplicaSet as the cache had it.
    pub(super) set: Option<Arc<ReplicaSet>>,
    /// The versions of the ReplicaSet read, and of the pod cache.
    pub(super) set_version: u64,
    pub(super) pod_version: u64,
    /// The pods that the cache had, by name, but for those that have ended: taken when the first request
    /// is sent, for most syncs send none, and forgotten at its end.
    pub(super) seen: BTreeMap<String, Arc<Pod>>,
    /// Whether they have been taken.
    has_looked: bool,
    /// The cache itself, for what was forgotten above.
    pub(super) cache: Option<Arc<PodCache>>,
    /// Own active pods that its selector matches, once they have been counted.
    pub(super) own_active: Option<i64>,
    /// Whether a pod that it was to adopt or to release could not be.
    pub(super) claim_failed: bool,
    /// Whether it has sent a request, but for reading versions.
    pub(super) asked: bool,
    /// Whether its expectations were fulfilled when it began.
    pub(super) satisfied: bool,
    pub(super) creates_sent: i64,
    pub(super) creates_answered: i64,
    pub(super) creates_committed: i64,
    /// Of those committed, the ones whose answer was a success, or is known to be lost.
    pub(super) creates_settled: i64,
    pub(super) deletes_sent: i64,
    pub(super) deletes_committed: i64,
    pub(super) deletes_settled: i64,
    /// Names of the pods it deletes.
    pub(super) to_delete: Vec<String>,
    /// Sizes of its batches of creates, by the number of the batch.
    pub(super) batches: BTreeMap<u32, u32>,
    /// The batch in which a create failed.
    pub(super) failed_batch: Option<u32>,
    /// When it last looked at the caches, by the harness's wall clock, ns.
    pub(super) begun_wall_ns: i64,
    /// Names of the pods that were made for it.
    pub(super) created: BTreeSet<String>,
    /// Pods that it has adopted.
    pub(super) adopted: BTreeSet<String>,
    /// Whether a create or delete of it has failed so that its status must tell.
    pub(super) manage_failed: bool,
    /// The status that it has asked for.
    pub(super) status: Option<Box<ReplicaSetStatus>>,
    /// Whether it has read its ReplicaSet again and found the expected one.
    pub(super) owner_confirmed: bool,
    /// The step it is at.
    pub(super) step: &'static str,
    pub(super) ended: bool,
}

impl SyncState {
    /// Takes what the cache has: to be called at the moment at which the sync counts.
    pub(super) fn look(&mut self) {
        if !std::mem::replace(&mut self.has_looked, true)
            && let Some(cache) = &self.cache
        {
            // A loop that creates pods which end at once leaves thousands behind, and none counts.
            let pods = cache.resync().into_iter().map(|change| change.new);
            let pods =
                pods.filter(|pod| pod.metadata.namespace == self.namespace && !has_ended(pod));
            let by_name = pods.map(|pod| (pod.metadata.name.to_string(), pod));
            self.seen = by_name.collect();
        }
    }
}

/// Everything the checker keeps.
#[derive(Debug, Default)]
pub(super) struct OracleState {
    pub(super) behaviour: Behaviour,
    /// Upstream's, which is for ReplicaSets only.
    gate: bool,
    pub(super) burst: i64,
    pub(super) version: u64,
    pub(super) sets: BTreeMap<Uid, SetState>,
    pub(super) syncs: BTreeMap<SyncId, SyncState>,
    /// Syncs under way, by controller and key.
    pub(super) busy: BTreeMap<(u32, String), SyncId>,
    /// Deletes that were asked for, by controller, ReplicaSet and pod: whether one was accepted.
    /// Another ReplicaSet may have come by the pod meanwhile, and knows nothing of the first.
    pub(super) deletes: BTreeMap<(u32, Uid, Uid), bool>,
    pub(super) excess: u64,
    pub(super) ambiguous: u64,
    pub(super) sometimes: BTreeSet<&'static str>,
    /// As `allowed` of each ReplicaSet, for all of them.
    pub(super) allowed: i64,
    /// As `allowed_deletes`, for all of them.
    pub(super) allowed_deletes: i64,
    /// Whether anything goes: a cache may be so far behind that nothing is known.
    pub(super) unlimited_creates: bool,
    pub(super) unlimited_deletes: bool,
    pub(super) crashed: bool,
    /// Whether a watch has broken its promise: an event was lost, or an old one came again.
    pub(super) lied_to: bool,
    pub(super) overlapped: bool,
    /// Controllers beside others without the gate: the events of one's creates fulfil what another
    /// expects, which then creates again, each as much as is wanted at most.
    pub(super) outrun: i64,
    /// By how much the controllers' wall clocks may be off, ns.
    pub(super) clock_offsets_ns: BTreeSet<i64>,
    /// Whether a layer below has sent a create again whose first try was carried out too.
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

    /// Something was written.
    pub(super) fn committed(&mut self, commit: &Commit, origin: Option<Origin>) -> Checked {
        self.version = commit.version;
        let change = commit.change;
        if let Some((old, new)) = commit.of::<Pod>() {
            self.pod_committed(change, old, new, origin)
        } else if let Some((old, new)) = commit.of::<ReplicaSet>() {
            self.set_committed(Kind::REPLICA_SET, change, old, new, origin)
        } else if let Some((old, new)) = commit.of::<ReplicationController>() {
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

    /// Whether the objects of that kind wait for the cache to show what was written.
    pub(super) fn is_gated(&self, kind: Kind) -> bool {
        self.gate && kind == Kind::REPLICA_SET
    }

    /// Whether that controller is dead.
    pub(super) fn is_dead(&self, incarnation: u32) -> bool {
        self.dead.contains(&incarnation)
    }

    /// Records what a step of the schedule may explain.
    pub(super) fn disturbed(&mut self, action: &Action, harness: &FaultHarness) {
        let upstream = self.is_upstream();
        match action {
            Action::Drop { events, .. } => {
                // The cache lies until the next list. Names that are taken keep the hardened
                // behaviour from creating much of what it can't see.
                let events = i64::from(*events);
                self.allowed_deletes += events;
                self.allowed += events;
                self.lied_to = true;
            }
            Action::Replay { events, .. } => {
                self.allowed_deletes += i64::from(*events);
                self.allowed += i64::from(*events);
                self.lied_to = true;
                // An object of another UID that comes back clears what was expected.
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

    /// A controller was started that lists the past first.
    pub(super) fn stale_start(&mut self) {
        if self.is_upstream() {
            self.unlimited_creates = true;
            self.unlimited_deletes = true;
        }
    }

    /// Opens the state of a sync again: it looks at the caches as they are now.
    pub(super) fn reopen_sync(&mut self, id: SyncId, controller: &Controller, now: Now) {
        let Some(before) = self.syncs.remove(&id) else {
            return;
        };
        self.open_sync(id, controller, before.key_id, now).step = before.step;
    }

    /// A controller has died: what it had under way may still come.
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
                        .insert("a controller dies with creates under way");
                }
            }
        }
    }

    /// Whether a controller has something to do.
    pub(super) fn is_busy(&self) -> bool {
        !self.busy.is_empty()
            || self
                .sets
                .values()
                .any(|set| !set.gone && set.active != set.demand())
    }

    /// What the controllers are at, in a word.
    pub(super) fn step_name(&self) -> &'static str {
        let steps = self.busy.values().filter_map(|id| self.syncs.get(id));
        let step = steps.map(|sync| sync.step).find(|step| !step.is_empty());
        match step {
            Some(step) => step,
            None if self.is_busy() => "waiting",
            None => "idle",
        }
    }

    /// Whether a pod counts for that ReplicaSet: active, owned and selected.
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

    /// Records a pod's coming, going and changing.
    pub(super) fn record_pod(&mut self, old: Option<&Pod>, new: Option<&Pod>, who: Option<SyncId>) {
        let before = old.and_then(|pod| self.owner_counting(pod));
        let after = new.and_then(|pod| self.owner_counting(pod));
        let version = self.version;
        if before == after {
            // Adopted from a cache that does not know yet that it is on its way out.
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

    /// Records a ReplicaSet's coming, going and changing.
    pub(super) fn record_set(&mut self, set: &ReplicaSet, kind: Kind, removed: bool) {
        let version = self.version;
        let state = self
            .sets
            .entry(set.metadata.uid.clone())
            .or_insert_with(|| SetState::of(set, kind));
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

    /// Opens the state of a sync.
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
        self.syncs.get_mut(&id).expect("it was just put there")
    }

    /// Records what a sync of upstream's may do because it expects pods whose events have stayed away for
    /// five minutes: it acts on a cache that lacks them. The gate remembers creates that were
    /// answered, and no deletes.
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
            .insert("pod events stay away for longer than expectations last");
        let unseen = if self.is_gated(kind) { 0 } else { creates };
        if let Some(set) = self.sets.get_mut(&object.metadata.uid) {
            set.allowed += unseen;
            set.allowed_deletes += deletes;
        }
    }

    /// Nothing more than necessary is kept when all is at rest.
    pub(super) fn at_rest(&self, harness: &FaultHarness) -> Checked {
        // A name stands for all objects that had it, one after the other: a loop makes thousands.
        let living = self.sets.values().filter(|set| !set.gone);
        let living: BTreeSet<_> = living.map(|set| (&set.namespace, &set.name)).collect();
        for controller in harness.controllers::<Controller>() {
            if !controller.queue().is_empty() {
                return Err(("L2", "keys wait in the queue".to_owned()));
            }
            let kind = controller.options().kind;
            for set in self.sets.values().filter(|set| set.kind == kind) {
                let key = controller.owners().intern(&set.namespace, &set.name);
                let is_there = living.contains(&(&set.namespace, &set.name));
                if let Some(record) = controller.consistency().record(&key) {
                    if !is_there {
                        return Err(("L3", format!("the record of {}, which is gone", set.name)));
                    }
                    record_at_rest(set, &record, &controller)?;
                }
                let counts = controller.expectations().counts(key);
                let Some(counts) = counts else { continue };
                if !is_there {
                    let text = format!("expectations of {}, which is gone: {counts:?}", set.name);
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

/// A record stays until the next sync looks at it; by then the caches must have come so far.
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
                "{} waits for version {written} and the cache is at {cache}",
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
