//! The checks of the invariants, under their numbers in the reliability plan.

use std::sync::Arc;

use podstorm::client::{Answer, OwnerPatch, Request};
use podstorm::intern::KeyId;
use podstorm::replicaset::{Controller, Outcome, SyncErrorClass, as_replica_set};
use podstorm_apiserver::Change;
use podstorm_objects::{Kind, Now, Pod, ReplicaSet};
use podstorm_sim::engine::observer::{Origin, SyncId};
use podstorm_sim::faults::{BatchPosition, Call};

use super::super::model::{is_active, owns, selects};
use super::oracle::{OracleState, SyncState};
use super::order::{batch_is_in_order, is_of_a_replica_set, rough_order};
use super::statuses;
use crate::coverage::step_of;
use crate::invariants::{Checked, begins_deletion};

impl OracleState {
    /// Checks a commit of a pod, and records it.
    pub(super) fn pod_committed(
        &mut self,
        change: Change,
        old: Option<&Pod>,
        new: &Pod,
        origin: Option<Origin>,
    ) -> Checked {
        if let Some(origin) = origin {
            match old {
                None => self.pod_created(new, origin)?,
                Some(old) if begins_deletion(Some(old), new, change) => {
                    self.pod_deleted(old, origin)?;
                }
                Some(old) if change == Change::Modified && !old.metadata.is_deleting() => {
                    self.pod_patched(old, new, origin)?;
                }
                Some(_) => {}
            }
        }
        let after = (change != Change::Deleted).then_some(new);
        self.record_pod(old, after, origin.map(|origin| origin.sync));
        Ok(())
    }

    /// Checks S1 and S4 for the creation of a pod.
    fn pod_created(&mut self, pod: &Pod, origin: Origin) -> Checked {
        let upstream = self.is_upstream();
        let dead = self.is_dead(origin.sync.incarnation);
        let Some(sync) = self.syncs.get_mut(&origin.sync) else {
            return Ok(());
        };
        sync.creates_committed += 1;
        // A sync requests each name only once, so if the name repeats, a lower layer has resent the
        // create without the sync's knowledge.
        let again = !sync.created.insert(pod.metadata.name.to_string());
        let resent = again || sync.creates_committed > sync.creates_sent;
        self.resent |= resent;
        let (set_version, pod_version) = (sync.set_version, sync.pod_version);
        let wanted = sync.set.as_ref().map(|set| set.metadata.uid.clone());
        let Some(owner) = pod.metadata.controller() else {
            // A webhook has removed the reference.
            self.sometimes.insert("a pod is created without its owner");
            return Ok(());
        };
        if Some(&owner.uid) != wanted.as_ref() {
            let text = format!(
                "{} was created for another owner, {}",
                pod.metadata.name, owner.name
            );
            return Err(("S4", text));
        }
        if self.owner_counting(pod).is_none() {
            return Ok(());
        }
        let kind = self.sets.get(&owner.uid).map(|set| set.kind);
        let is_gated = kind.is_some_and(|kind| self.is_gated(kind));
        let unlimited = self.unlimited_creates;
        let (allowed, outrun) = (self.allowed, if is_gated { 0 } else { self.outrun });
        let Some(set) = self.sets.get_mut(&owner.uid) else {
            return Ok(());
        };
        if set.gone {
            self.sometimes
                .insert("a pod is created for a deleted ReplicaSet");
            return Ok(());
        }
        // No controller can know of this pod: it received only one answer, and the pod of that
        // answer may already be deleted.
        if origin.orphaned && (upstream || dead) || resent {
            set.allowed += 1;
        }
        let mut most = set.most_since(set_version);
        if origin.orphaned {
            // The pod was wanted at the time of the request. The controller could not know which
            // pods would appear before the request was carried out.
            most += set.gained_since(set_version);
        }
        // The controller also can't know the adoptions of a concurrent controller. Upstream without
        // its gate does not even know its own adoptions, because expectations don't cover them.
        most += if upstream && !is_gated {
            set.gained_since(pod_version)
        } else {
            set.adopted_beside(pod_version, origin.sync.incarnation)
        };
        let allowed = allowed + outrun * set.most_since(set_version);
        let over = set.active + 1 - most;
        if over <= 0 {
            return Ok(());
        }
        set.excess += 1;
        // Pods that remain from a larger demand were not created by mistake.
        let over = over.min(set.excess);
        let (name, active, own) = (set.name.clone(), set.active, set.allowed);
        self.excess += 1;
        self.sometimes.insert("a pod is created in excess");
        if over > own + allowed && !unlimited {
            let text = format!(
                "{} was created for {name}, which has {active} active pods and never wanted \
                 more than {most} since the version read; the disturbances so far explain {} \
                 too many",
                pod.metadata.name,
                own + allowed
            );
            return Err(("S1", text));
        }
        Ok(())
    }

    /// Checks S2, S3 and S4 for the deletion of a pod.
    fn pod_deleted(&mut self, pod: &Pod, origin: Origin) -> Checked {
        let upstream = self.is_upstream();
        let counting = self.owner_counting(pod);
        let Some(sync) = self.syncs.get_mut(&origin.sync) else {
            return Ok(());
        };
        sync.deletes_committed += 1;
        let (set_version, pod_version) = (sync.set_version, sync.pod_version);
        let wanted = sync.set.as_ref().map(|set| set.metadata.uid.clone());
        if let Some(seen) = sync.seen.get(&*pod.metadata.name)
            && seen.metadata.uid != pod.metadata.uid
        {
            self.sometimes
                .insert("another pod of the same name is deleted");
            // A sync that waits for the deletion of the selected pod takes the end of this pod for
            // it.
            self.allowed_deletes += 1;
            if !upstream {
                let text = format!(
                    "{} was deleted, but was already another pod",
                    pod.metadata.name
                );
                return Err(("S4", text));
            }
        }
        let Some(uid) = counting.filter(|uid| Some(uid) == wanted.as_ref()) else {
            return Ok(());
        };
        let (allowed, unlimited) = (self.allowed_deletes, self.unlimited_deletes);
        let Some(set) = self.sets.get_mut(&uid) else {
            return Ok(());
        };
        if origin.orphaned {
            set.allowed_deletes += 1;
        }
        let least = set.least_since(set_version);
        let lost = set.lost_since(pod_version, origin.sync);
        let explained = lost + set.allowed_deletes + allowed;
        let left = set.active - 1;
        if left < least - explained && !unlimited && !set.gone {
            let text = format!(
                "{} of {} was deleted, which leaves {left} of the {least} or more that were \
                 wanted since the version read; {explained} are explained by losses and \
                 disturbances",
                pod.metadata.name, set.name
            );
            return Err(("S2", text));
        }
        Ok(())
    }

    /// Checks S9 and S4 for the patch of a pod.
    fn pod_patched(&mut self, old: &Pod, new: &Pod, origin: Origin) -> Checked {
        let Some(sync) = self.syncs.get(&origin.sync) else {
            return Ok(());
        };
        let Some(set) = &sync.set else {
            let text = format!("{} was patched without an owner", new.metadata.name);
            return Err(("S4", text));
        };
        let name = &new.metadata.name;
        match (owns(set, old), owns(set, new)) {
            (false, true) => {
                if old.metadata.controller().is_some() {
                    let text = format!("{name} was adopted although it has another controller");
                    return Err(("I5", text));
                }
                if !sync.owner_confirmed && !sync.ended {
                    let text = format!("{name} was adopted without rereading {}", sync.key);
                    return Err(("S9", text));
                }
                self.sometimes.insert("a pod is adopted");
            }
            (true, false) => {
                self.sometimes.insert("a pod is released");
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks S7 and I7 for the write of a ReplicaSet or a ReplicationController.
    pub(super) fn set_committed(
        &mut self,
        kind: Kind,
        change: Change,
        old: Option<&ReplicaSet>,
        new: &ReplicaSet,
        origin: Option<Origin>,
    ) -> Checked {
        self.record_set(new, kind, change == Change::Deleted);
        let Some(sync) = origin.and_then(|origin| self.syncs.get(&origin.sync)) else {
            return Ok(());
        };
        let (status, name) = (&new.status, &new.metadata.name);
        let Some(used) = &sync.set else {
            let text = format!("a status was written for {name} without reading it");
            return Err(("S7", text));
        };
        if used.metadata.uid != new.metadata.uid {
            self.sometimes
                .insert("a status is written onto another object of the same name");
            if !self.is_upstream() {
                let text = format!("the status of an earlier {name} was written onto this one");
                return Err(("S7", text));
            }
            return Ok(());
        }
        let ordered = status.available_replicas <= status.ready_replicas
            && status.ready_replicas <= status.replicas
            && status.fully_labeled_replicas <= status.replicas;
        if !ordered || status.observed_generation > new.metadata.generation {
            let text = format!("the status of {name} is impossible: {status:?}");
            return Err(("S7", text));
        }
        if status.observed_generation != used.metadata.generation {
            let text = format!(
                "the status of {name} has generation {}, but the sync had read {}",
                status.observed_generation, used.metadata.generation
            );
            return Err(("I7", text));
        }
        let went_back =
            old.is_some_and(|old| old.status.observed_generation > status.observed_generation);
        if went_back && !self.is_upstream() && !self.overlapped && !self.crashed {
            let text = format!("the generation in the status of {name} decreased");
            return Err(("S7", text));
        }
        Ok(())
    }

    /// Checks I1 at the beginning of a sync.
    pub(super) fn sync_begins(
        &mut self,
        id: SyncId,
        controller: &Controller,
        key: KeyId,
        now: Now,
    ) -> Checked {
        let sync = self.open_sync(id, controller, key, now);
        let place = (id.incarnation, format!("{}/{}", sync.namespace, sync.key));
        if let Some(other) = self.busy.insert(place.clone(), id) {
            let text = format!(
                "{} is synced twice at the same time, {} and {}",
                place.1, other.number, id.number
            );
            return Err(("S14", text));
        }
        Ok(())
    }

    /// Checks I2, I3, I4, I6, S3 and S6 for a request of a sync.
    pub(super) fn sends(
        &mut self,
        id: SyncId,
        controller: &Controller,
        request: &Request,
        place: BatchPosition,
        now: Now,
    ) -> Checked {
        let (upstream, burst) = (self.is_upstream(), self.burst);
        if self.syncs.get(&id).is_some_and(|sync| sync.waited) {
            self.reopen_sync(id, controller, now);
        }
        let lied_to = self.lied_to;
        let Some(sync) = self.syncs.get_mut(&id) else {
            return Ok(());
        };
        sync.look();
        is_of_a_replica_set(request)?;
        let call = Call::from_request(request);
        sync.asked |= call != Call::ReadVersion;
        sync.step = step_of(call, place);
        if let Request::PutStatus { object } = request {
            let Some(object) = as_replica_set(object) else {
                return Err(("S7", format!("a status of another kind for {}", sync.key)));
            };
            statuses::is_honest(sync, &object, now, &self.clock_offsets_ns)?;
        }
        if !matches!(call, Call::CreatePod | Call::DeletePod | Call::PatchPod) {
            return Ok(());
        }
        let Some(set) = sync.set.clone() else {
            let text = format!("a pod is written for {}, which is deleted", sync.key);
            return Err(("S8", text));
        };
        let name = &sync.key;
        if set.metadata.is_deleting() {
            let text = format!("a pod is written for {name}, which is being deleted");
            return Err(("I3", text));
        }
        if let Request::PatchOwners { name, patch, .. } = request {
            return fits_patch(sync, &set, name, patch);
        }
        if upstream && !sync.satisfied {
            let text = format!("a pod is written for {name}, which has expectations");
            return Err(("I6", text));
        }
        if sync.claim_failed {
            let text = format!("{name} is scaled after a pod could not be claimed");
            return Err(("I4", text));
        }
        let fits = |pod: &Pod| is_active(pod) && selects(&set, pod);
        let own_active = *sync.own_active.get_or_insert_with(|| {
            let pods = sync.seen.values().map(|pod| &**pod);
            pods.filter(|pod| fits(pod) && owns(&set, pod)).count() as i64
        });
        let claimed = own_active + sync.adopted.len() as i64;
        let wanted = i64::from(set.replicas());
        if let Request::DeletePod {
            name: pod_name,
            uid,
            ..
        } = request
        {
            sync.deletes_sent += 1;
            let most = burst.min(claimed - wanted);
            if (sync.deletes_sent > most && !lied_to) || sync.creates_sent > 0 {
                let text = format!(
                    "sync {} of {name} deletes {} pods ({} creates before); {claimed} claimed, \
                     {wanted} wanted",
                    id.number, sync.deletes_sent, sync.creates_sent
                );
                return Err(("I2", text));
            }
            if !sync.seen.contains_key(&**pod_name)
                && let Some(pod) = sync
                    .cache
                    .as_ref()
                    .and_then(|it| it.get(&sync.namespace, pod_name))
            {
                sync.seen.insert(pod_name.to_string(), pod);
            }
            let is_claimed = |seen: &&Arc<Pod>| {
                fits(seen) && (owns(&set, seen) || sync.adopted.contains(&**pod_name))
            };
            let Some(seen) = sync.seen.get(&**pod_name).filter(is_claimed) else {
                let text = format!("{pod_name} is deleted, but was not claimed by {name}");
                return Err(("I4", text));
            };
            sync.to_delete.push(pod_name.to_string());
            let pod_uid = seen.metadata.uid.clone();
            if !upstream {
                if uid.as_ref() != Some(&pod_uid) {
                    let text = format!("the delete of {pod_name} has no UID or a wrong one");
                    return Err(("S3", text));
                }
                let place = (id.incarnation, set.metadata.uid.clone(), pod_uid);
                let accepted = self.deletes.entry(place).or_default();
                if *accepted && !lied_to {
                    let text = format!("{pod_name} is deleted again after an accepted delete");
                    return Err(("S3", text));
                }
            }
            return Ok(());
        }
        sync.creates_sent += 1;
        let most = burst.min(wanted - claimed);
        if (sync.creates_sent > most && !lied_to) || sync.deletes_sent > 0 {
            let text = format!(
                "sync {} of {name} creates {} pods ({} deletes before); {claimed} claimed, \
                 {wanted} wanted",
                id.number, sync.creates_sent, sync.deletes_sent
            );
            return Err(("I2", text));
        }
        batch_is_in_order(sync, place)
    }

    /// Records the answer to a request, and checks L6.
    pub(super) fn answered(&mut self, id: SyncId, request: &Request, answer: &Answer) -> Checked {
        let upstream = self.is_upstream();
        let Some(sync) = self.syncs.get_mut(&id) else {
            return Ok(());
        };
        let failed = match answer {
            Answer::Failed(error) => Some(error),
            _ => None,
        };
        let unknown = failed.is_some_and(|error| error.outcome_is_unknown());
        let is_write = Call::from_request(request).is_write();
        self.ambiguous += u64::from(unknown && is_write);
        let uid = sync.set.as_ref().map(|set| set.metadata.uid.clone());
        sync.manage_failed |=
            failed.is_some_and(|error| statuses::is_told(request, error, upstream));
        match (request, answer) {
            (Request::PatchOwners { name, patch, .. }, _) => {
                let adopts = matches!(patch, OwnerPatch::Adopt { .. });
                if adopts && failed.is_none() {
                    sync.adopted.insert(name.to_string());
                }
                // The adoption was carried out earlier, but its answer was lost. The answer is now
                // that the pod does not exist, so another pod is created in its place.
                if adopts
                    && upstream
                    && failed.is_some_and(|error| error.code == 404)
                    && let Some(set) = uid.and_then(|uid| self.sets.get_mut(&uid))
                    && set.adopted.contains(&**name)
                {
                    set.allowed += 1;
                }
                // A deleted pod can't be claimed, and the name of a pod to release may belong to
                // another pod by now.
                let harmless: &[u16] = if adopts { &[404] } else { &[404, 422] };
                sync.claim_failed |= failed.is_some_and(|error| !harmless.contains(&error.code));
            }
            (Request::Get { .. }, _) => {
                sync.owner_confirmed = match answer {
                    Answer::Object(live) => {
                        let live = live.metadata();
                        Some(&live.uid) == uid.as_ref() && !live.is_deleting()
                    }
                    _ => false,
                };
                sync.claim_failed |= !sync.owner_confirmed;
            }
            // This request comes at the start of the sync, which reads the caches only after the
            // answer.
            (Request::ReadVersion { .. }, Answer::Version(_)) => {
                sync.waited = sync.creates_sent + sync.deletes_sent == 0;
            }
            (Request::CreatePod { .. }, _) => {
                sync.creates_answered += 1;
                let committed = sync.creates_committed > sync.creates_settled;
                sync.creates_settled += i64::from(committed);
                match failed {
                    None => {}
                    Some(error) if error.has_cause("NamespaceTerminating") && upstream => {}
                    Some(_) => {
                        let last = sync.batches.keys().next_back().copied();
                        sync.failed_batch = sync.failed_batch.or(last);
                    }
                }
                if failed.is_some() && committed {
                    self.sometimes
                        .insert("a create is committed and its answer lost");
                    if upstream && let Some(set) = uid.and_then(|uid| self.sets.get_mut(&uid)) {
                        set.allowed += 1;
                    }
                }
            }
            (Request::DeletePod { name, .. }, _) => {
                let committed = sync.deletes_committed > sync.deletes_settled;
                sync.deletes_settled += i64::from(committed);
                let pod = sync.seen.get(&**name).map(|seen| seen.metadata.uid.clone());
                if failed.is_none()
                    && let (Some(pod), Some(set)) = (pod, uid.clone())
                {
                    self.deletes.insert((id.incarnation, set, pod), true);
                }
                if failed.is_some() && committed {
                    self.sometimes
                        .insert("a delete is committed and its answer lost");
                    if upstream && let Some(set) = uid.and_then(|uid| self.sets.get_mut(&uid)) {
                        set.allowed_deletes += 1;
                    }
                }
            }
            (Request::PutStatus { .. }, Answer::Failed(error)) if error.code == 409 => {
                self.sometimes.insert("a status write meets a conflict");
            }
            _ => {}
        }
        Ok(())
    }

    /// Checks S12, and records the end of a sync.
    pub(super) fn sync_ended(&mut self, id: SyncId, outcome: &Outcome) -> Checked {
        let Some(sync) = self.syncs.get_mut(&id) else {
            return Ok(());
        };
        let place = (id.incarnation, format!("{}/{}", sync.namespace, sync.key));
        self.busy.remove(&place);
        sync.ended = true;
        sync.step = "";
        let asked = sync.asked;
        let seen = std::mem::take(&mut sync.seen);
        sync.cache = None;
        let set = sync.set.clone();
        let to_delete = std::mem::take(&mut sync.to_delete);
        if let Outcome::Failed(error) = outcome {
            self.sometimes.insert("a sync fails");
            if matches!(error.class, SyncErrorClass::Consistency(_)) && asked {
                let text = "a sync blocked by the gate has sent requests".to_owned();
                return Err(("I6", text));
            }
        }
        let Some(set) = set.filter(|_| !to_delete.is_empty()) else {
            return Ok(());
        };
        let claimed = |pod: &Pod| owns(&set, pod) && is_active(pod) && selects(&set, pod);
        let worst = to_delete
            .iter()
            .filter_map(|name| seen.get(name))
            .map(|seen| rough_order(seen))
            .max();
        let best = seen
            .values()
            .filter(|seen| claimed(seen) && !to_delete.contains(&seen.metadata.name.to_string()))
            .map(|seen| rough_order(seen))
            .min();
        if let (Some(worst), Some(best)) = (worst, best)
            && worst > best
        {
            let text = format!(
                "a pod of {} was kept that should have gone before one that was deleted: {best:?} \
                 before {worst:?}",
                set.metadata.name
            );
            return Err(("S12", text));
        }
        Ok(())
    }
}

/// Checks S9 for a request of a sync, against the pods that the sync has seen.
fn fits_patch(sync: &SyncState, set: &ReplicaSet, name: &str, patch: &OwnerPatch) -> Checked {
    // Pods that have ended are not among the seen pods.
    let cached = || sync.cache.as_ref()?.get(&sync.namespace, name);
    let seen = sync.seen.get(name).map(Arc::clone);
    let Some(pod) = seen.or_else(cached) else {
        return Ok(());
    };
    match patch {
        OwnerPatch::Adopt { .. } if !(is_active(&pod) && selects(set, &pod)) => Err((
            "S9",
            format!("{name} is adopted, but is inactive or not selected"),
        )),
        OwnerPatch::Release { .. } if selects(set, &pod) => Err((
            "S9",
            format!("{name} is released, but the selector matches it"),
        )),
        _ => Ok(()),
    }
}
