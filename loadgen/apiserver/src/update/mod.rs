//! Get and update requests for any kind: preconditions, immutable fields, writes without a change.

use std::sync::Arc;

use podstorm_objects::{ApiError, Now, ObjectMeta};

use super::create::{check_size, refuse_invalid};
use super::field_manager::{Manager, Writing};
use super::store::PodPart;
use super::store::counts::{Verb, WriteEffects};
use super::store::{CommitOutcome, KeyHash, KindStore};
use super::{Cluster, ClusterResource, Strategy, errors, meta, time_limit, validation};

/// The outcome of preparing an update.
pub(super) enum Update<R> {
    /// Keep the stored object.
    Keep,
    /// Replace the stored object with this one, with these effects. If only the version differs,
    /// the object counts as unchanged.
    Write(R, WriteEffects),
}

impl Cluster {
    /// Returns the stored object.
    ///
    /// # Errors
    /// 404 if there is no such object.
    pub fn get<R: ClusterResource>(&self, namespace: &str, name: &str) -> Result<Arc<R>, ApiError> {
        R::store(self).get(namespace, name)
    }

    /// Replaces an object but keeps its status. A version in the object must match the stored
    /// version. A write without a change is not committed and returns the stored object.
    ///
    /// # Errors
    /// 403 if the object would exceed a ResourceQuota; 404; 409 for a different UID or version; 422
    /// for a broken rule; 504 when the time limit of the request is exceeded.
    pub fn update<R: ClusterResource>(&self, object: R, now: Now) -> Result<Arc<R>, ApiError> {
        let writing = Writing::unmanaged(Verb::Update);
        self.put(R::store(self), object, writing, now)
    }

    /// Replaces an object's status and metadata but keeps its spec. A version in the object must
    /// match the stored version.
    ///
    /// # Errors
    /// The same as [`update`](Cluster::update).
    pub fn update_status<R: ClusterResource>(
        &self,
        object: R,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let writing = Writing::unmanaged(Verb::UpdateStatus);
        self.put(R::store(self), object, writing, now)
    }

    pub(crate) fn put<R: Strategy>(
        &self,
        store: &KindStore<R>,
        object: R,
        Writing { effects, manager }: Writing<'_>,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let unconditional = is_unconditional(&object);
        let mut new = object;
        meta::drop_namespace(store.kind(), new.metadata_mut());
        loop {
            let metadata = new.metadata();
            let key = store.key(&metadata.namespace, &metadata.name);
            let hash = key.hash;
            let Some(old) = store.read(&key) else {
                return Err(errors::not_found(store.kind(), &metadata.name));
            };
            check_put(&new, &*old)?;
            let unprepared = unconditional.then(|| new.clone());
            prepare_and_validate(self, &mut new, &*old, effects.verb, manager)?;
            match (
                self.commit(store, hash, &old, new, effects, now)
                    .map_err(|refused| *refused)?,
                unprepared,
            ) {
                (CommitOutcome::Done(stored), _) => return Ok(stored),
                (CommitOutcome::Conflict, Some(unprepared)) => new = unprepared,
                (CommitOutcome::Conflict, None) => {
                    return Err(errors::stale(store.kind(), &old.metadata().name));
                }
            }
        }
    }

    /// Changes the stored object. `change` gets the stored object, and is called again if another
    /// writer was faster. It must return a prepared object.
    ///
    /// # Errors
    /// 404, the errors of `change`, and those of `commit`.
    pub(super) fn modify<R: Strategy>(
        &self,
        store: &KindStore<R>,
        namespace: &str,
        name: &str,
        now: Now,
        mut change: impl FnMut(&Arc<R>) -> Result<Update<R>, ApiError>,
    ) -> Result<Arc<R>, ApiError> {
        let key = store.key(namespace, name);
        loop {
            let Some(old) = store.read(&key) else {
                return Err(errors::not_found(store.kind(), name));
            };
            let Update::Write(new, effects) = change(&old)? else {
                return Ok(old);
            };
            let outcome = self.commit(store, key.hash, &old, new, effects, now);
            if let CommitOutcome::Done(stored) = outcome.map_err(|refused| *refused)? {
                return Ok(stored);
            }
        }
    }

    /// Replaces the stored object with a prepared one, unless they are equal. If the object is
    /// being deleted and the write removes its last finalizer, removes the object.
    ///
    /// # Errors
    /// 403 if the object would exceed a ResourceQuota; 504 when the [time limit](time_limit) of the
    /// request is exceeded.
    fn commit<R: Strategy>(
        &self,
        store: &KindStore<R>,
        key: KeyHash,
        old: &Arc<R>,
        mut new: R,
        mut effects: WriteEffects,
        now: Now,
    ) -> Result<CommitOutcome<R>, Box<ApiError>> {
        time_limit::check().map_err(|over| Box::new(over.into()))?;
        new.metadata_mut().resource_version = old.metadata().resource_version.clone();
        if !new.obviously_differs(old) && new == **old {
            return Ok(CommitOutcome::Done(old.clone()));
        }
        let is_resized = effects.verb == Verb::UpdateResources && new.counts_for_quota();
        let is_measured =
            self.seen.has_quotas() && (is_resized || Cluster::changes_usage(store.kind()));
        if effects.dry_run {
            if is_measured {
                self.charge_change(&**old, &new, true, now)?;
            }
            return Ok(CommitOutcome::Done(Arc::new(new)));
        }
        let (before, after) = (old.metadata(), new.metadata());
        let kept = !after.finalizers().is_empty() || new.keeps_until_empty();
        let was_kept = !before.finalizers().is_empty() || old.keeps_until_empty();
        let removed = !kept && was_kept && meta::is_past_grace(before);
        let done = if removed {
            // This commit deletes the stored object.
            let last = Arc::new(R::clone(old));
            match store.remove(key, old, None, last, &effects, now) {
                // As in upstream, the writer gets its own object back, with the previous version.
                CommitOutcome::Done(_) => CommitOutcome::Done(Arc::new(new)),
                CommitOutcome::Conflict => CommitOutcome::Conflict,
            }
        } else {
            count_ownership(&mut effects, before, after);
            let charge = match is_measured {
                true => Some(self.charge_change(&**old, &new, false, now)?),
                false => None,
            };
            let done = store.replace(key, old, Arc::new(new), &effects, now);
            if let (CommitOutcome::Conflict, Some(charge)) = (&done, charge) {
                self.give_back_change(&charge, now);
            }
            done
        };
        if let CommitOutcome::Done(stored) = &done {
            self.notify_gc(store, Some(&**old), (!removed).then_some(&**stored), now);
        }
        Ok(done)
    }
}

impl<R: Strategy> KindStore<R> {
    /// Returns the stored object.
    ///
    /// # Errors
    /// 404 if there is no such object.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Result<Arc<R>, ApiError> {
        self.read(&self.key(namespace, name))
            .ok_or_else(|| errors::not_found(self.kind(), name))
    }
}

/// Reports whether the object has no version, so that the write applies to any stored version.
fn is_unconditional<R: Strategy>(object: &R) -> bool {
    matches!(
        meta::named_version(&object.metadata().resource_version),
        Ok(None)
    )
}

/// Checks the preconditions in the object of a `PUT`: the UID, then the version.
pub(super) fn check_put<R: Strategy>(new: &R, old: &R) -> Result<(), ApiError> {
    let kind = old.kind();
    let (new, old) = (new.metadata(), old.metadata());
    if !new.uid.is_empty() && new.uid != old.uid {
        return Err(errors::put_uid_mismatch(kind, old, &new.uid));
    }
    match meta::named_version(&new.resource_version) {
        Ok(None) if kind.row().needs_version => Err(errors::version_needed(kind, &old.name)),
        Ok(None) => Ok(()),
        Ok(Some(version)) if old.resource_version.number() == Some(version) => Ok(()),
        Ok(Some(_)) => Err(errors::stale(kind, &old.name)),
        Err(text) => Err(errors::unreadable_version(&text.to_string())),
    }
}

/// Prepares a changed object for storage and validates it.
///
/// # Errors
/// 422 with every rule that the object breaks.
pub(super) fn prepare_and_validate<R: Strategy>(
    cluster: &Cluster,
    new: &mut R,
    old: &R,
    verb: Verb,
    manager: Manager<'_>,
) -> Result<(), ApiError> {
    let status = matches!(verb, Verb::UpdateStatus | Verb::PatchStatus);
    let part = PodPart::for_verb(verb);
    if !status {
        new.set_defaults(Some(old));
        check_size(new)?;
    }
    match manager {
        Some(manager) => {
            manager.written(Some(old), new);
            // After `written`, so that no field manager owns the fields that admission adds.
            if !status && part.is_none() {
                new.admit_change(cluster, old)?;
            }
        }
        None => meta::keep_managed_fields(new.metadata_mut(), old.metadata()),
    }
    match part {
        _ if status => new.prepare_for_status_update(old),
        Some(part) => new.prepare_for_part_update(old, part),
        None => new.prepare_for_update(old),
    }
    if !status {
        new.apply_gates(cluster, Some(old));
    }
    meta::prepare_for_update(new.metadata_mut(), old.metadata());
    if new.kind().row().has_generation && !status && new.spec_differs(old) {
        new.metadata_mut().generation += 1;
    }
    let mut changes = Vec::new();
    meta::validate_update(new.metadata(), old.metadata(), &mut changes);
    let causes = match part {
        _ if status => new.validate_status_update(old),
        Some(part) => new.validate_part_update(old, part),
        None => new.validate_update(old),
    };
    let kind = manager.and_then(|manager| manager.kind());
    let kind = kind.unwrap_or_else(|| new.kind());
    let causes = validation::repeat_for_update(kind, status, changes, causes);
    refuse_invalid(cluster, old, causes)
}

/// Records in `effects` whether the object gains or loses a controller.
fn count_ownership(effects: &mut WriteEffects, before: &ObjectMeta, after: &ObjectMeta) {
    if super::store::owners::same_owners(&before.owner_references, &after.owner_references) {
        return;
    }
    let uid = |metadata: &ObjectMeta| metadata.controller().map(|owner| owner.uid.clone());
    let (before, after) = (uid(before), uid(after));
    if before != after {
        effects.adopted = after.is_some();
        effects.released = before.is_some();
    }
}

#[cfg(test)]
mod tests;
