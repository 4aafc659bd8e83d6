//! Creates and updates of any kind.

use std::sync::Arc;

use podstorm::client::ApiError;
use podstorm::object::{Kind, Now, ObjectMeta, ResourceVersion, Time};

use super::counts::{Tally, Verb};
use super::name::{Draw, NAME_ATTEMPTS};
use super::store::Commit;
use super::{AdmissionRequest, Cluster, ClusterResource, errors, meta};

/// What an update makes of the stored object.
pub(super) enum Update<R> {
    /// Nothing.
    Keep,
    /// This, by a write that counts so. Its version, if it differs in nothing else, is ignored.
    Write(R, Tally),
}

impl Cluster {
    /// The stored object.
    ///
    /// # Errors
    /// 404 when there is none.
    pub fn get<R: ClusterResource>(&self, namespace: &str, name: &str) -> Result<Arc<R>, ApiError> {
        let store = R::store(self);
        store
            .read(&store.key(namespace, name))
            .ok_or_else(|| errors::not_found(R::KIND, name))
    }

    /// Creates an object, in the namespace that it names. The server sets UID, time stamps,
    /// generation and status, whatever the client sent; a missing name is made from
    /// `generate_name`.
    ///
    /// # Errors
    /// 404 and 403 for a namespace that is missing or terminating, what admission answers, 422
    /// for a broken rule, 409 for a taken name.
    pub fn create<R: ClusterResource>(&self, mut object: R, now: Now) -> Result<Arc<R>, ApiError> {
        self.admit_create(R::KIND, object.metadata())?;
        object.set_defaults();
        object.prepare_for_create();
        let metadata = object.metadata_mut();
        metadata.resource_version = ResourceVersion::Unset;
        metadata.generation = i64::from(R::HAS_GENERATION);
        metadata.deletion_timestamp = Time::UNSET;
        metadata.deletion_grace_period_seconds = None;
        meta::drop_repeated_owners(&mut metadata.owner_references);
        validate_create(&object)?;
        self.store_new(object, now)
    }

    /// Stores an object as it is, status, UID and time stamps included, as if it had been there
    /// all along: how a run takes over an existing cluster. Only the version is new; a missing
    /// UID, creation time or generation is filled in. No rule but those of creation is checked.
    ///
    /// # Errors
    /// As [`create`](Cluster::create).
    pub fn import<R: ClusterResource>(&self, mut object: R, now: Now) -> Result<Arc<R>, ApiError> {
        self.admit_create(R::KIND, object.metadata())?;
        object.set_defaults();
        let metadata = object.metadata_mut();
        metadata.resource_version = ResourceVersion::Unset;
        metadata.generation = metadata.generation.max(i64::from(R::HAS_GENERATION));
        validate_create(&object)?;
        let draw = self.names.draw();
        let metadata = object.metadata_mut();
        if metadata.uid.is_empty() {
            metadata.uid = draw.uid();
        }
        if metadata.creation_timestamp.is_unset() {
            metadata.creation_timestamp = now.wall();
        }
        self.insert(object, draw, now)
    }

    /// Replaces an object. Status is kept; a version that the object carries must be the stored
    /// one. What changes nothing is not written and answered with the stored object.
    ///
    /// # Errors
    /// 404; 409 for another UID or version; 422 for a broken rule.
    pub fn update<R: ClusterResource>(&self, object: R, now: Now) -> Result<Arc<R>, ApiError> {
        self.put(object, Verb::Update, now)
    }

    /// Replaces an object's status (and metadata); its spec is kept. A version that the object
    /// carries must be the stored one.
    ///
    /// # Errors
    /// As [`update`](Cluster::update).
    pub fn update_status<R: ClusterResource>(
        &self,
        object: R,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        self.put(object, Verb::UpdateStatus, now)
    }

    fn put<R: ClusterResource>(&self, object: R, verb: Verb, now: Now) -> Result<Arc<R>, ApiError> {
        let (namespace, name) = {
            let metadata = object.metadata();
            (metadata.namespace.clone(), metadata.name.clone())
        };
        let mut object = Some(object);
        self.modify::<R>(&namespace, &name, now, |old| {
            // Only another writer makes a second attempt necessary.
            let mut new = object.take().expect("an update is prepared once");
            check_put(&new, old)?;
            let unprepared = is_unconditional(&new).then(|| new.clone());
            prepare_and_validate(&mut new, old, verb)?;
            object = unprepared;
            Ok(Update::Write(new, Tally::of(verb)))
        })
    }

    /// Changes the stored object: `change` is given the present state and may be called again
    /// when another writer was faster. The object it returns must have been prepared.
    ///
    /// # Errors
    /// 404 and what `change` answers.
    pub(super) fn modify<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        now: Now,
        mut change: impl FnMut(&Arc<R>) -> Result<Update<R>, ApiError>,
    ) -> Result<Arc<R>, ApiError> {
        let store = R::store(self);
        let key = store.key(namespace, name);
        loop {
            let Some(old) = store.read(&key) else {
                return Err(errors::not_found(R::KIND, name));
            };
            let Update::Write(mut new, mut tally) = change(&old)? else {
                return Ok(old);
            };
            new.metadata_mut().resource_version = old.metadata().resource_version.clone();
            if new == *old {
                return Ok(old);
            }
            let (before, after) = (old.metadata(), new.metadata());
            if meta::is_past_grace(before)
                && after.finalizers().is_empty()
                && !before.finalizers().is_empty()
            {
                // The last finalizer is gone: the write becomes the deletion of the stored state.
                let last = Arc::new(R::clone(&old));
                if let Commit::Done(last) = store.remove(&key, &old, None, last, &tally, now) {
                    self.note(Some(&*old), None);
                    return Ok(last);
                }
                continue;
            }
            count_ownership(&mut tally, before, after);
            tally.ready = !old.is_ready_pod() && new.is_ready_pod();
            if let Commit::Done(new) = store.replace(&key, &old, Arc::new(new), &tally, now) {
                self.note(Some(&*old), Some(&*new));
                return Ok(new);
            }
        }
    }

    /// Admission of a create: its namespace, then the hook.
    pub(super) fn admit_create(&self, kind: Kind, metadata: &ObjectMeta) -> Result<(), ApiError> {
        let (namespace, name) = (&*metadata.namespace, metadata.name.as_str());
        if kind.is_namespaced() {
            self.admit_namespace(kind, namespace, name)?;
        } else if !namespace.is_empty() {
            let why = "namespace may not be set on a cluster-scoped object";
            return Err(errors::bad_request(why));
        }
        match &self.options.admission {
            None => Ok(()),
            Some(admission) => admission(&AdmissionRequest {
                kind,
                namespace,
                name,
            }),
        }
    }

    fn admit_namespace(&self, kind: Kind, namespace: &str, name: &str) -> Result<(), ApiError> {
        if namespace.is_empty() {
            let why = "an empty namespace may not be set during creation";
            return Err(errors::bad_request(why));
        }
        let key = self.namespaces.key("", namespace);
        match self.namespaces.inspect(&key, |found| found.terminating) {
            Some(false) => Ok(()),
            Some(true) => Err(errors::namespace_terminating(kind, name, namespace)),
            None => Err(errors::not_found(Kind::Namespace, namespace)),
        }
    }

    /// Stores a new object that has been prepared and validated.
    pub(super) fn store_new<R: ClusterResource>(
        &self,
        mut object: R,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let draw = self.names.draw();
        let metadata = object.metadata_mut();
        metadata.uid = draw.uid();
        metadata.creation_timestamp = now.wall();
        self.insert(object, draw, now)
    }

    fn insert<R: ClusterResource>(
        &self,
        object: R,
        draw: Draw,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let store = R::store(self);
        let tally = Tally::of(Verb::Create);
        let generated = object.metadata().name.is_empty();
        let mut object = Arc::new(object);
        let mut attempt = 0;
        loop {
            if generated {
                let metadata = Arc::get_mut(&mut object)
                    .expect("not shared yet")
                    .metadata_mut();
                let prefix = metadata.generate_name.as_deref().unwrap_or("");
                metadata.name = draw.name(prefix, attempt);
            }
            let metadata = object.metadata();
            let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
            let key = store.key(&namespace, &name);
            match store.insert(&key, object, &tally, now) {
                Ok(stored) => {
                    self.note(None, Some(&*stored));
                    return Ok(stored);
                }
                Err((refused, holder)) => {
                    attempt += 1;
                    object = refused;
                    if !generated {
                        let terminating = holder.metadata().is_deleting();
                        return Err(errors::already_exists(R::KIND, &name, terminating));
                    }
                    if attempt == NAME_ATTEMPTS {
                        return Err(errors::name_not_generated(R::KIND, &name));
                    }
                }
            }
        }
    }
}

/// Whether the writer named no version, so that its write applies to whatever is stored.
fn is_unconditional<R: ClusterResource>(object: &R) -> bool {
    matches!(
        meta::named_version(&object.metadata().resource_version),
        Ok(None)
    )
}

/// The preconditions that a `PUT` carries in its object: first its UID, then its version.
pub(super) fn check_put<R: ClusterResource>(new: &R, old: &R) -> Result<(), ApiError> {
    let (new, old) = (new.metadata(), old.metadata());
    if !new.uid.is_empty() && new.uid != old.uid {
        let resource = R::KIND.group_resource();
        return Err(errors::uid_mismatch(
            resource, &old.name, &new.uid, &old.uid,
        ));
    }
    match meta::named_version(&new.resource_version) {
        Ok(None) => Ok(()),
        Ok(Some(version)) if old.resource_version.number() == Some(version) => Ok(()),
        Ok(Some(_)) => Err(errors::stale(R::KIND, &old.name)),
        Err(text) => {
            let causes = vec![errors::invalid_value(
                "metadata.resourceVersion",
                &text.to_string().into(),
                "must be an unsigned integer",
            )];
            Err(errors::invalid(R::KIND, &old.name, causes))
        }
    }
}

/// Brings a changed object into the form that would be stored and checks it.
///
/// # Errors
/// 422 with every rule that it breaks.
pub(super) fn prepare_and_validate<R: ClusterResource>(
    new: &mut R,
    old: &R,
    verb: Verb,
) -> Result<(), ApiError> {
    let status = matches!(verb, Verb::UpdateStatus | Verb::PatchStatus);
    if status {
        new.prepare_for_status_update(old);
    } else {
        new.set_defaults();
        new.prepare_for_update(old);
    }
    meta::prepare_for_update(new.metadata_mut(), old.metadata());
    if R::HAS_GENERATION && !status && new.spec_differs(old) {
        new.metadata_mut().generation += 1;
    }
    let mut causes = Vec::new();
    meta::validate_update(new.metadata(), old.metadata(), &mut causes);
    if status {
        new.validate_status_update(old, &mut causes);
    } else {
        new.validate_update(old, &mut causes);
    }
    if causes.is_empty() {
        Ok(())
    } else {
        Err(errors::invalid(R::KIND, &old.metadata().name, causes))
    }
}

/// # Errors
/// 422 with every rule that the new object breaks.
pub(super) fn validate_create<R: ClusterResource>(object: &R) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let metadata = object.metadata();
    if metadata.name.is_empty() && metadata.generate_name.as_deref().unwrap_or("").is_empty() {
        causes.push(errors::required(
            "metadata.name",
            "name or generateName is required",
        ));
    }
    meta::validate_owners(&metadata.owner_references, &mut causes);
    object.validate_create(&mut causes);
    if causes.is_empty() {
        Ok(())
    } else {
        Err(errors::invalid(R::KIND, &metadata.name, causes))
    }
}

/// Counts a controller gained or lost.
fn count_ownership(tally: &mut Tally, before: &ObjectMeta, after: &ObjectMeta) {
    if super::owners::same_owners(&before.owner_references, &after.owner_references) {
        return;
    }
    let uid = |metadata: &ObjectMeta| metadata.controller().map(|owner| owner.uid.clone());
    let (before, after) = (uid(before), uid(after));
    if before != after {
        tally.adopted = after.is_some();
        tally.released = before.is_some();
    }
}
