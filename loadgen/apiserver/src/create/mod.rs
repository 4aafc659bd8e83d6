//! Create and import of objects of any kind: admission, defaulting, validation, names.

use std::sync::Arc;

use compact_str::CompactString;
use podstorm_objects::{
    ApiError, Cause, Kind, Now, ObjectMeta, OptionalSeconds, ResourceVersion, Time, Uid,
};

use super::field_manager::Writing;
use super::limits::BYTES_MAX;
use super::name::{Draw, IdentityGenerator, NAME_ATTEMPTS};
use super::store::counts::{Verb, WriteEffects};
use super::store::{KindStore, Taken};
use super::{
    AdmissionRequest, Cluster, ClusterResource, Strategy, errors, meta, time_limit, validation,
};

impl Cluster {
    /// Creates an object in the namespace that the object names. The server sets UID, timestamps,
    /// generation and status, and ignores the client's values of these. If the name is empty, the
    /// server generates one from `generate_name`.
    ///
    /// # Errors
    /// 400 for an empty namespace; 404 for a missing one; 403 for a terminating one, and for an
    /// object that a ResourceQuota or a LimitRange does not allow; 405 if the definition of the
    /// kind is being deleted; the error of admission; 422 for a broken rule; 409 for a name that is
    /// taken; 504 when the [time limit](time_limit) of the request is exceeded.
    pub fn create<R: ClusterResource>(&self, object: R, now: Now) -> Result<Arc<R>, ApiError> {
        let writing = Writing::unmanaged(Verb::Create);
        self.create_in(R::store(self), object, writing, now)
    }

    pub(crate) fn create_in<R: Strategy>(
        &self,
        store: &KindStore<R>,
        mut object: R,
        Writing { effects, manager }: Writing<'_>,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let kind = object.kind();
        meta::drop_namespace(kind, object.metadata_mut());
        self.admit_create(kind, object.metadata())?;
        object.set_defaults(None);
        object.admit(self);
        check_size(&object)?;
        if let Some(manager) = manager {
            manager.written(None, &mut object);
        }
        object.add_finalizers();
        if self.seen.has_ranges() {
            object.apply_ranges(self);
        }
        object.prepare_for_create();
        object.apply_gates(self, None);
        prepare_metadata(kind, object.metadata_mut());
        let draw = self.names.draw();
        validate_new(self, &object, draw)?;
        if self.seen.has_ranges() {
            self.check_ranges(&object)?;
        }
        time_limit::check()?;
        if effects.dry_run {
            return self.try_new(store, object, draw, now);
        }
        self.store_drawn(store, object, draw, now)
    }

    /// Imports an object from an existing cluster. The object retains its status, UID and
    /// timestamps; only its version is new. The server fills in a missing UID, creation time or
    /// generation, and the fields that a create would generate (a Job's selector, a Service's
    /// addresses). Only the rules of creation are checked. A terminating namespace accepts the
    /// object.
    ///
    /// # Errors
    /// The same as [`create`](Cluster::create), except for its 403, 405 and 504.
    pub fn import<R: ClusterResource>(&self, object: R, now: Now) -> Result<Arc<R>, ApiError> {
        self.import_in(R::store(self), object, now)
    }

    pub(crate) fn import_in<R: Strategy>(
        &self,
        store: &KindStore<R>,
        mut object: R,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let kind = object.kind();
        meta::drop_namespace(kind, object.metadata_mut());
        self.admit(kind, object.metadata(), true)?;
        object.set_defaults(None);
        check_size(&object)?;
        object.add_finalizers();
        let metadata = object.metadata_mut();
        tidy_metadata(metadata);
        metadata.resource_version = ResourceVersion::Unset;
        metadata.generation = metadata
            .generation
            .max(i64::from(kind.row().has_generation));
        let draw = self.names.draw();
        if metadata.uid.is_empty() {
            metadata.uid = draw.uid();
        }
        if let Err(refused) = validate_create(self, &object) {
            // The broken rule may concern a field that a create would generate.
            let identified = identified(&object, &object.metadata().uid, draw);
            object = identified.ok_or(refused)?;
            validate_create(self, &object)?;
        }
        let metadata = object.metadata_mut();
        if metadata.creation_timestamp.is_unset() {
            metadata.creation_timestamp = now.wall();
        }
        object.complete_existing(&|| self.names.number());
        self.insert(store, object, Verb::Import, draw, now)
    }

    /// Admits a create: checks the definition of a custom kind and the namespace, then calls the
    /// hook.
    pub(super) fn admit_create(&self, kind: Kind, metadata: &ObjectMeta) -> Result<(), ApiError> {
        self.admit_custom(kind)?;
        self.admit(kind, metadata, false)
    }

    /// Admits an object. An import is admitted even to a namespace or definition that is being
    /// deleted.
    fn admit(&self, kind: Kind, metadata: &ObjectMeta, is_import: bool) -> Result<(), ApiError> {
        let (namespace, name) = (&*metadata.namespace, metadata.name.as_str());
        if kind.is_namespaced() {
            match self.admit_namespace(kind, namespace, name) {
                Err(terminating) if is_import && terminating.code == 403 => {}
                other => other?,
            }
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

    /// Admits the creation of an object in a namespace.
    ///
    /// # Errors
    /// 400 for an empty namespace, 404 for a missing one, 403 for a terminating one.
    pub(crate) fn admit_namespace(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
    ) -> Result<(), ApiError> {
        if namespace.is_empty() {
            let why = "an empty namespace may not be set during creation";
            return Err(errors::bad_request(why));
        }
        let key = self.namespaces.key("", namespace);
        match self.namespaces.inspect(&key, |found| found.terminating) {
            Some(false) => Ok(()),
            Some(true) => Err(errors::namespace_terminating(kind, name, namespace)),
            None => Err(errors::not_found(Kind::NAMESPACE, namespace)),
        }
    }

    /// Returns a new object as it would be stored. Fails if the name is taken.
    #[cold]
    fn try_new<R: Strategy>(
        &self,
        store: &KindStore<R>,
        mut object: R,
        draw: Draw,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let metadata = object.metadata_mut();
        metadata.uid = draw.uid();
        metadata.creation_timestamp = now.wall();
        if metadata.name.is_empty() {
            metadata.name = draw.name(metadata.generate_name.as_deref().unwrap_or(""), 0);
        }
        object.complete(&|| self.names.number());
        let metadata = object.metadata();
        let key = store.key(&metadata.namespace, &metadata.name);
        match store.inspect(&key, |holder| holder.metadata().is_deleting()) {
            Some(deleting) => {
                let (kind, name) = (object.kind(), &metadata.name);
                Err(errors::already_exists(kind, name, deleting))
            }
            None if self.seen.has_quotas() => {
                self.charge(&object, true, now)?;
                Ok(Arc::new(object))
            }
            None => Ok(Arc::new(object)),
        }
    }

    /// Prepares, validates and stores a new object.
    pub(super) fn store_new<R: Strategy>(
        &self,
        store: &KindStore<R>,
        object: R,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        self.store_drawn(store, object, self.names.draw(), now)
    }

    fn store_drawn<R: Strategy>(
        &self,
        store: &KindStore<R>,
        mut object: R,
        draw: Draw,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let metadata = object.metadata_mut();
        metadata.uid = draw.uid();
        metadata.creation_timestamp = now.wall();
        self.insert(store, object, Verb::Create, draw, now)
    }

    fn insert<R: Strategy>(
        &self,
        store: &KindStore<R>,
        object: R,
        verb: Verb,
        draw: Draw,
        now: Now,
    ) -> Result<Arc<R>, ApiError> {
        let kind = object.kind();
        let effects = WriteEffects::for_verb(verb);
        let generated = object.metadata().name.is_empty();
        let is_charged = verb == Verb::Create && self.seen.has_quotas();
        if is_charged {
            self.charge_named(&object, draw, now)?;
        }
        let mut object = Arc::new(object);
        let mut attempt = 0;
        loop {
            if generated {
                let metadata = Arc::get_mut(&mut object)
                    .expect("the object is not shared yet")
                    .metadata_mut();
                let prefix = metadata.generate_name.as_deref().unwrap_or("");
                metadata.name = draw.name(prefix, attempt);
            }
            if verb == Verb::Create && (generated || attempt == 0) {
                let object = Arc::get_mut(&mut object).expect("the object is not shared yet");
                object.complete(&|| self.names.number());
            }
            match store.insert(object, &effects, now) {
                Ok(stored) => {
                    self.notify_gc(store, None, Some(&*stored), now);
                    return Ok(stored);
                }
                Err(Taken { refused, holder }) => {
                    attempt += 1;
                    let holder = holder.metadata();
                    if is_charged && (!generated || attempt == NAME_ATTEMPTS) {
                        self.give_back(&*refused, now);
                    }
                    if !generated {
                        let terminating = holder.is_deleting();
                        return Err(errors::already_exists(kind, &holder.name, terminating));
                    }
                    if attempt == NAME_ATTEMPTS {
                        return Err(errors::name_not_generated(kind, &holder.name));
                    }
                    object = refused;
                }
            }
        }
    }
}

impl Cluster {
    /// Charges a new object to quotas. Their errors contain the object's name, so it is drawn
    /// before.
    #[cold]
    fn charge_named<R: Strategy>(&self, object: &R, draw: Draw, now: Now) -> Result<(), ApiError> {
        if !object.metadata().name.is_empty() {
            return self.charge(object, false, now);
        }
        let mut named = object.clone();
        let metadata = named.metadata_mut();
        metadata.name = draw.name(metadata.generate_name.as_deref().unwrap_or(""), 0);
        self.charge(&named, false, now)
    }
}

/// Resets the metadata that the server sets to that of a new object.
pub(super) fn prepare_metadata(kind: Kind, metadata: &mut ObjectMeta) {
    metadata.resource_version = ResourceVersion::Unset;
    metadata.generation = i64::from(kind.row().has_generation);
    // Set later. No rule reads the UID that the client sent, which may be that of another object.
    metadata.uid = Uid::default();
    metadata.deletion_timestamp = Time::UNSET;
    metadata.deletion_grace_period_seconds = OptionalSeconds::NONE;
    tidy_metadata(metadata);
}

fn tidy_metadata(metadata: &mut ObjectMeta) {
    meta::drop_self_link(metadata);
    if metadata.generate_name.as_deref() == Some("") {
        metadata.generate_name = None;
    }
    meta::drop_repeated_owners(&mut metadata.owner_references);
}

/// Validates a new object under the name that would be generated for it.
///
/// # Errors
/// 422 with every rule that the new object breaks, including the rules of its generated name.
fn validate_new<R: Strategy>(cluster: &Cluster, object: &R, draw: Draw) -> Result<(), ApiError> {
    if let Some(identified) = identified(object, &draw.uid(), draw) {
        return validate_create(cluster, &identified);
    }
    let valid = validate_create(cluster, object);
    let metadata = object.metadata();
    let name = generated_name(metadata, draw);
    if valid.is_ok() || name.is_empty() || !metadata.name.is_empty() {
        return valid;
    }
    // Errors contain the generated name, because upstream generates the name before validation.
    let mut named = object.clone();
    named.metadata_mut().name = name;
    validate_create(cluster, &named)
}

/// See [`Strategy::identified`].
fn identified<R: Strategy>(object: &R, uid: &Uid, draw: Draw) -> Option<R> {
    object.identified(uid, &|| generated_name(object.metadata(), draw))
}

/// Checks the size of an object after defaulting, before the object is used in any other way: a
/// million empty containers grow to a hundred million bytes.
///
/// # Errors
/// 422 if the object exceeds the maximum size.
pub(super) fn check_size<R: Strategy>(object: &R) -> Result<(), ApiError> {
    if object.pod_spec_bytes() <= BYTES_MAX {
        return Ok(());
    }
    let cause = errors::too_long("<nil>", BYTES_MAX);
    let name = &object.metadata().name;
    Err(errors::invalid(object.kind(), name, vec![cause]))
}

/// Returns the first name to try for an object; empty if the object has no `generateName`.
fn generated_name(metadata: &ObjectMeta, draw: Draw) -> CompactString {
    match metadata.generate_name.as_deref() {
        None | Some("") => CompactString::default(),
        Some(prefix) => draw.name(prefix, 0),
    }
}

/// Returns the rules that an object from a file breaks when it is [loaded](crate::Api::load). The
/// object has its defaults. Fields that a create would generate are added if the object lacks them.
pub fn validate_loaded<R: Strategy>(object: &R) -> Vec<Cause> {
    let causes = object.validate_create();
    if causes.is_empty() {
        return causes;
    }
    let draw = IdentityGenerator::new(0).draw();
    let uid = &object.metadata().uid;
    let uid = if uid.is_empty() { &draw.uid() } else { uid };
    match identified(object, uid, draw) {
        Some(identified) => identified.validate_create(),
        None => causes,
    }
}

/// Validates a new object.
///
/// # Errors
/// 422 with every rule that the new object breaks.
fn validate_create<R: Strategy>(cluster: &Cluster, object: &R) -> Result<(), ApiError> {
    refuse_invalid(cluster, object, object.validate_create())
}

/// Refuses an object that breaks rules.
///
/// # Errors
/// 422 with these causes, if there are any.
pub(super) fn refuse_invalid<R: Strategy>(
    cluster: &Cluster,
    object: &R,
    mut causes: Vec<Cause>,
) -> Result<(), ApiError> {
    if !causes.is_empty() && !cluster.options.forbids_privileged {
        validation::allow_privileged(&mut causes);
    }
    if causes.is_empty() {
        return Ok(());
    }
    Err(errors::invalid(
        object.kind(),
        &object.metadata().name,
        causes,
    ))
}

#[cfg(test)]
mod tests;
