//! What the judge keeps of a run: ReplicaSets, pods and syncs as the server and the probes told,
//! and how many deviations the disturbances so far can explain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use podstorm::cache::PodCache;
use podstorm::consistency::Record;
use podstorm::controller::Controller;
use podstorm::intern::KeyId;
use podstorm::object::{Kind, Now, Pod, PodPhase, ReplicaSet, ReplicaSetStatus, Uid};
use podstorm::policy::Behaviour;

use super::super::act::NAMESPACE;
use super::super::action::Action;
use super::super::model::is_active;
use super::super::schedule::Schedule;
use super::sets::SetBook;
use crate::engine::probe::SyncId;
use crate::engine::site::Site;
use crate::faults::StreamKind;

/// Pod watches that stand still for longer than this outlast expectations, ms.
const STALL_MS: u32 = 290_000;

/// What became of the pods of a name.
#[derive(Clone, Copy, Debug)]
struct NameBook {
    /// The version at which the last one was made.
    made: u64,
    /// The version at which it went.
    gone: Option<u64>,
}

/// A pod as a controller's cache had it when a sync began.
#[derive(Clone, Debug)]
pub(super) struct Seen(pub(super) Arc<Pod>);

/// A sync.
#[derive(Debug, Default)]
pub(super) struct SyncBook {
    /// Whether it is a ReplicationController's.
    pub(super) of_replication_controller: bool,
    pub(super) key: String,
    pub(super) key_id: KeyId,
    /// Whether it has waited since it was opened, and will look at the caches anew.
    pub(super) waited: bool,
    /// The ReplicaSet as the cache had it.
    pub(super) set: Option<Arc<ReplicaSet>>,
    /// The versions of the ReplicaSet read, and of the pod cache.
    pub(super) set_version: u64,
    pub(super) pod_version: u64,
    /// The pods that the cache had, by name; forgotten at its end.
    pub(super) seen: BTreeMap<String, Seen>,
    /// The cache itself, for what was forgotten above.
    pub(super) cache: Option<Arc<PodCache>>,
    /// Own active pods and orphans that it may count, once they have been counted.
    pub(super) counted: Option<(i64, i64)>,
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
    /// Names and UIDs of the pods it deletes.
    pub(super) victims: Vec<String>,
    /// Sizes of its batches of creates, by the number of the batch.
    pub(super) batches: BTreeMap<u32, u32>,
    /// The batch in which a create failed.
    pub(super) failed_batch: Option<u32>,
    /// When it last looked at the caches, by the site's wall clock, ns.
    pub(super) begun_wall_ns: i64,
    /// Pods that it has adopted.
    pub(super) adopted: BTreeSet<String>,
    /// Whether a create or delete of it has failed so that its status must tell.
    pub(super) manage_failed: bool,
    /// The status that it has asked for.
    pub(super) status: Option<Box<ReplicaSetStatus>>,
    /// Whether it has read its ReplicaSet anew and found it as it should be.
    pub(super) parent_confirmed: bool,
    /// The step it is at.
    pub(super) step: &'static str,
    pub(super) ended: bool,
}

/// Everything the judge keeps.
#[derive(Debug)]
pub(super) struct Books {
    pub(super) behaviour: Behaviour,
    /// Upstream's, which is for ReplicaSets only.
    gate: bool,
    pub(super) burst: i64,
    pub(super) version: u64,
    pub(super) sets: BTreeMap<Uid, SetBook>,
    /// Pods that may count in a cache, by name, and the version at which the server lost them.
    names: BTreeMap<String, NameBook>,
    /// Names of pods that have ended or are gone, and count in no cache that follows along.
    past_names: Vec<String>,
    /// Whether there was ever but one cache, which never went back.
    one_cache: bool,
    pub(super) syncs: BTreeMap<SyncId, SyncBook>,
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
    /// The same of those that no gate protects: their expectations may have run out.
    pub(super) unlimited_without_gate: bool,
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
    dead: BTreeSet<u32>,
    held_ms: u32,
}

impl Books {
    pub(super) fn new(schedule: &Schedule, behaviour: Behaviour) -> Books {
        Books {
            behaviour,
            gate: schedule.world.stale_controller_consistency,
            burst: i64::from(schedule.world.burst_replicas),
            version: 0,
            sets: BTreeMap::new(),
            names: BTreeMap::new(),
            past_names: Vec::new(),
            one_cache: true,
            syncs: BTreeMap::new(),
            busy: BTreeMap::new(),
            deletes: BTreeMap::new(),
            excess: 0,
            ambiguous: 0,
            sometimes: BTreeSet::new(),
            allowed: 0,
            allowed_deletes: 0,
            unlimited_creates: false,
            unlimited_without_gate: false,
            unlimited_deletes: false,
            crashed: false,
            lied_to: false,
            overlapped: false,
            outrun: 0,
            clock_offsets_ns: BTreeSet::from([0]),
            dead: BTreeSet::new(),
            held_ms: 0,
        }
    }

    pub(super) fn is_upstream(&self) -> bool {
        self.behaviour == Behaviour::Upstream
    }

    /// Whether the objects of that kind wait for the cache to show what was written.
    pub(super) fn is_gated(&self, kind: Kind) -> bool {
        self.gate && kind == Kind::ReplicaSet
    }

    /// Whether that controller is dead.
    pub(super) fn is_dead(&self, incarnation: u32) -> bool {
        self.dead.contains(&incarnation)
    }

    /// Books what a step of the schedule may explain.
    pub(super) fn disturbed(&mut self, action: &Action, site: &Site) {
        let upstream = self.is_upstream();
        match action {
            Action::Drop { events, .. } => {
                // The cache lies until the next list. Names that are taken keep the hardened
                // behaviour from creating much of what it can't see.
                let events = i64::from(*events);
                self.allowed_deletes += events;
                self.allowed += events;
                self.remember_names();
                self.lied_to = true;
            }
            Action::Replay { events, .. } => {
                self.allowed_deletes += i64::from(*events);
                self.allowed += i64::from(*events);
                self.remember_names();
                self.lied_to = true;
                // An object of another UID that comes back clears what was expected.
                self.unlimited_creates |= upstream;
                self.unlimited_deletes |= upstream;
            }
            Action::ServeStale {
                stream: StreamKind::Pods,
                for_ms,
                ..
            } => {
                // What has gone may be back in the cache.
                self.remember_names();
                self.held(*for_ms);
            }
            Action::Hold {
                stream: StreamKind::Pods,
                for_ms,
            }
            | Action::Pause { for_ms } => self.held(*for_ms),
            Action::WallClock { offset_s, .. } => {
                let offset_ns = i64::from(*offset_s) * 1_000_000_000;
                self.clock_offsets_ns.insert(offset_ns);
            }
            // Each attempt waits for half a minute at most.
            Action::RefuseWatch { times, .. } => self.held(times.saturating_mul(40_000)),
            Action::Overlap { .. } => {
                self.overlapped = true;
                self.remember_names();
                let alive = site.alive().len() as i64;
                self.allowed += self.burst * alive;
                self.outrun += if upstream { alive } else { 0 };
                self.allowed_deletes += self.burst * alive;
            }
            _ => {}
        }
    }

    pub(super) fn held(&mut self, for_ms: u32) {
        self.held_ms = self.held_ms.saturating_add(for_ms);
        if self.held_ms > STALL_MS && self.is_upstream() {
            // Expectations run out before the events are there. The gate remembers creates that
            // were answered, and no deletes.
            self.unlimited_deletes = true;
            self.unlimited_without_gate = true;
            self.sometimes
                .insert("pod events stay away for longer than expectations last");
        }
    }

    /// Another cache may have what one has left behind.
    fn remember_names(&mut self) {
        self.one_cache = false;
        let past = std::mem::take(&mut self.past_names);
        self.names.extend(past.into_iter().map(|name| {
            (
                name,
                NameBook {
                    made: 0,
                    gone: Some(0),
                },
            )
        }));
    }

    /// A controller was started that lists the past first.
    pub(super) fn stale_start(&mut self) {
        self.sometimes
            .insert("a controller starts over a list from the past");
        self.remember_names();
        if self.is_upstream() {
            self.unlimited_creates = true;
            self.unlimited_deletes = true;
        }
    }

    /// Opens the book of a sync again: it looks at the caches as they are now.
    pub(super) fn reopen_sync(&mut self, id: SyncId, controller: &Controller, now: Now) {
        let Some(before) = self.syncs.remove(&id) else {
            return;
        };
        let book = self.open_sync(id, controller, before.key_id, now);
        book.step = before.step;
    }

    /// A controller has died: what it had under way may still come.
    pub(super) fn died(&mut self, site: &Site) {
        self.crashed = true;
        let alive: BTreeSet<u32> = site.alive().iter().map(|line| line.incarnation()).collect();
        let started = u32::try_from(site.started()).unwrap_or(u32::MAX);
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
                if let Some(book) = set.and_then(|uid| self.sets.get_mut(uid)) {
                    book.allowed += open;
                    book.allowed_deletes += sync.deletes_sent - sync.deletes_settled;
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

    /// Books a pod's coming, going and changing.
    pub(super) fn book_pod(
        &mut self,
        old: Option<&Pod>,
        new: Option<&Pod>,
        name: &str,
        who: Option<SyncId>,
    ) {
        let before = old.and_then(|pod| self.owner_counting(pod));
        let after = new.and_then(|pod| self.owner_counting(pod));
        if old.is_none() {
            let book = NameBook {
                made: self.version,
                gone: None,
            };
            self.names.insert(name.to_owned(), book);
        }
        if new.is_none()
            && let Some(book) = self.names.get_mut(name)
        {
            book.gone = Some(self.version);
        }
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
        if let Some(set) = before.and_then(|uid| self.sets.get_mut(&uid)) {
            set.active -= 1;
            set.losses.push((version, who));
        }
        if let Some(set) = after.and_then(|uid| self.sets.get_mut(&uid)) {
            set.active += 1;
            if old.is_some() || who.is_none() {
                set.gains.push(version);
            }
        }
    }

    /// Books a ReplicaSet's coming, going and changing.
    pub(super) fn book_set(&mut self, set: &ReplicaSet, kind: Kind, removed: bool) {
        let version = self.version;
        let book = self
            .sets
            .entry(set.metadata.uid.clone())
            .or_insert_with(|| SetBook::of(set, kind));
        book.gone = removed;
        let replicas = set.replicas();
        if book
            .demands
            .last()
            .is_none_or(|(_, last)| *last != replicas)
        {
            book.demands.push((version, replicas));
        }
    }

    /// Opens the book of a sync.
    pub(super) fn open_sync(
        &mut self,
        id: SyncId,
        controller: &Controller,
        key: KeyId,
        now: Now,
    ) -> &mut SyncBook {
        let name = controller.parents().name(key);
        let parent = controller.parents().get(key);
        let pods = controller.pods();
        let mut seen = BTreeMap::new();
        // A loop that creates pods which end at once leaves thousands behind.
        let (past, one_cache) = (&mut self.past_names, self.one_cache);
        let cached = pods.version().get().number().unwrap_or(0);
        self.names
            .retain(|name, book| match pods.get(NAMESPACE, name) {
                // Another of that name may be on its way to the cache.
                Some(pod) if one_cache && book.made <= cached && has_ended(&pod) => {
                    past.push(name.clone());
                    false
                }
                Some(pod) => {
                    seen.insert(name.clone(), Seen(pod));
                    true
                }
                // A cache that lags may hear of it yet.
                None if one_cache && book.gone.is_some_and(|gone| gone <= cached) => {
                    past.push(name.clone());
                    false
                }
                None => true,
            });
        let set = parent.map(|parent| Arc::clone(&parent.object));
        let version = |version: &podstorm::object::ResourceVersion| version.number().unwrap_or(0);
        let book = SyncBook {
            of_replication_controller: controller.options().kind == Kind::ReplicationController,
            key: name.name.to_string(),
            key_id: key,
            set_version: set
                .as_ref()
                .map_or(0, |set| version(&set.metadata.resource_version)),
            pod_version: version(&pods.version().get()),
            set,
            seen,
            cache: Some(Arc::clone(pods)),
            begun_wall_ns: now.wall_ns,
            satisfied: controller.expectations().satisfied(key, now.mono_ns),
            ..SyncBook::default()
        };
        self.syncs.insert(id, book);
        self.syncs.get_mut(&id).expect("it was just put there")
    }

    /// Nothing more than necessary is kept when all is at rest.
    pub(super) fn at_rest(&self, site: &Site) -> Result<(), (&'static str, String)> {
        for controller in site.controllers() {
            if !controller.queue().is_empty() {
                return Err(("L2", "keys wait in the queue".to_owned()));
            }
            let live: BTreeSet<&str> = self
                .sets
                .values()
                .filter(|set| !set.gone)
                .map(|set| set.name.as_str())
                .collect();
            let kind = controller.options().kind;
            for set in self.sets.values().filter(|set| set.kind == kind) {
                let key = controller.parents().intern(NAMESPACE, &set.name);
                if let Some(record) = controller.consistency().record(&key) {
                    self.record_at_rest(set, &record, controller)?;
                }
                let counts = controller.expectations().counts(key);
                let Some(counts) = counts else { continue };
                if !live.contains(set.name.as_str()) {
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

    /// A record stays until the next sync looks at it; by then the caches must have come so far.
    fn record_at_rest(
        &self,
        set: &SetBook,
        record: &Record,
        controller: &Controller,
    ) -> Result<(), (&'static str, String)> {
        if set.gone
            && !self
                .sets
                .values()
                .any(|other| !other.gone && other.name == set.name)
        {
            return Err(("L3", format!("the record of {}, which is gone", set.name)));
        }
        let caches = [
            controller.pods().version().get(),
            controller.parents().version().get(),
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
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed)
}
