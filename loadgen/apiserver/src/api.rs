//! Requests for objects of kinds that are known only at run time.

use podstorm_objects::{AnyObject, ApiError, DecodeError, Kind, Now, Object, ResourceVersion};
use serde_json::Value;

use crate::any::AnyStore;
use crate::field_manager::{FieldManager, Manager, Writing};
use crate::store::PodPart;
use crate::store::counts::{Verb, WriteEffects};
use crate::{
    AnyWatch, Cluster, DeleteOptions, Deletion, ListOptions, ListPage, Patch, Select, WatchFrom,
    WatchOptions, custom, limits, time_limit,
};

/// Requests for the objects of one kind. A request gets 404 if the cluster does not serve the kind.
/// Otherwise it behaves, and fails, like the method of [`Cluster`] with the same name.
#[derive(Clone, Copy, Debug)]
pub struct Api<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) kind: Kind,
    dry_run: bool,
    pub(crate) manager: Manager<'a>,
}

impl Cluster {
    /// Returns the requests for objects of a kind.
    pub fn api(&self, kind: Kind) -> Api<'_> {
        Api {
            cluster: self,
            kind,
            dry_run: false,
            manager: None,
        }
    }
}

impl<'a> Api<'a> {
    /// Sets the field manager, which records the owners of created, updated and patched fields.
    #[must_use]
    pub fn managed_by(self, manager: &'a dyn FieldManager) -> Self {
        let manager = Some(manager);
        Self { manager, ..self }
    }
}

impl Api<'_> {
    /// Turns dry run on or off. A dry run commits nothing: a write returns its would-be result,
    /// with an object that has no new version.
    #[must_use]
    pub fn dry_run(self, dry_run: bool) -> Self {
        Self { dry_run, ..self }
    }

    pub(crate) fn effects(&self, verb: Verb) -> WriteEffects {
        WriteEffects {
            dry_run: self.dry_run,
            ..WriteEffects::for_verb(verb)
        }
    }

    pub(crate) fn writing(&self, verb: Verb) -> Writing<'_> {
        Writing {
            effects: self.effects(verb),
            manager: self.manager,
        }
    }

    /// Reads an object from JSON, without storing it. The inner error reports a member of a wrong
    /// type, with its path.
    ///
    /// # Errors
    /// 404 for the kind; the error of a document that exceeds a [limit](limits::Exceeded).
    pub fn read(&self, value: Value) -> Result<Result<AnyObject, DecodeError>, ApiError> {
        limits::check(&value)?;
        self.cluster
            .with_store(self.kind, |store| store.read(self.kind, value))
    }

    /// See [`Cluster::create`].
    ///
    /// # Errors
    /// The same as [`Cluster::create`], and 400 for an object of another kind.
    pub fn create(&self, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        let created = self.create_only(object, now)?;
        self.written(&created, now);
        Ok(created)
    }

    fn create_only(&self, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        let create = |store: &dyn AnyStore| {
            store.create(self.cluster, object, self.writing(Verb::Create), now)
        };
        self.cluster.with_store(self.kind, create)?
    }

    /// Handles the effects of a write on definitions: those that changed, and those whose deletion
    /// can end.
    fn written(&self, written: &AnyObject, now: Now) {
        self.noticed(written, now);
        self.cluster.end_definitions(now);
    }

    fn noticed(&self, written: &AnyObject, now: Now) {
        if custom::is_definition(self.kind.row()) && !self.dry_run {
            let name = &written.metadata().name;
            self.cluster.definition_written(name, self.manager, now);
        }
    }

    /// See [`Cluster::import`]. A definition that is being deleted stays until
    /// [`end_definitions`](Cluster::end_definitions), because its objects may be imported after it.
    ///
    /// # Errors
    /// The same as [`Cluster::import`], and 400 for an object of another kind.
    pub fn import(&self, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        let import = |store: &dyn AnyStore| store.import(self.cluster, object, now);
        let imported = self.cluster.with_store(self.kind, import)??;
        self.noticed(&imported, now);
        Ok(imported)
    }

    /// Loads an object from a file: imports it if it has a UID, otherwise creates it. An object
    /// that is being deleted stays, as [`import`](Api::import) describes.
    ///
    /// # Errors
    /// The same as [`import`](Api::import) and [`create`](Api::create).
    pub fn load(&self, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        if !object.metadata().uid.is_empty() {
            return self.import(object, now);
        }
        let created = self.create_only(object, now)?;
        self.noticed(&created, now);
        Ok(created)
    }

    /// Returns the approximate size of an object in memory, in bytes; `None` if the object or its
    /// kind does not exist. O(size of the fields that clients set); a string counts by its length.
    pub fn bytes(&self, namespace: &str, name: &str) -> Option<usize> {
        let bytes = |store: &dyn AnyStore| store.bytes(namespace, name);
        self.cluster.with_store(self.kind, bytes).ok().flatten()
    }

    /// See [`Cluster::get`].
    ///
    /// # Errors
    /// The same as [`Cluster::get`].
    pub fn get(&self, namespace: &str, name: &str) -> Result<AnyObject, ApiError> {
        self.cluster
            .with_store(self.kind, |store| store.get(namespace, name))?
    }

    /// See [`Cluster::list_page`].
    ///
    /// # Errors
    /// The same as [`Cluster::list_page`].
    pub fn list(&self, options: &ListOptions<'_>) -> Result<ListPage<dyn Object>, ApiError> {
        let list = |store: &dyn AnyStore| store.list(self.cluster, options);
        self.cluster.with_store(self.kind, list)?
    }

    /// See [`Cluster::list_as_of`]; lists all namespaces.
    ///
    /// # Errors
    /// The same as [`Cluster::list_as_of`].
    pub fn list_as_of(&self, version: u64) -> Result<(Vec<AnyObject>, ResourceVersion), ApiError> {
        self.cluster
            .with_store(self.kind, |store| store.list_as_of(version))?
    }

    /// See [`Cluster::count`].
    ///
    /// # Errors
    /// 404 for the kind.
    pub fn count(&self) -> Result<u64, ApiError> {
        self.cluster
            .with_store(self.kind, |store| store.totals().live())
    }

    /// See [`Cluster::compact`].
    ///
    /// # Errors
    /// 404 for the kind.
    pub fn compact(&self) -> Result<(), ApiError> {
        self.cluster.with_store(self.kind, |store| store.compact())
    }

    /// See [`Cluster::last_version`].
    ///
    /// # Errors
    /// 404 for the kind.
    pub fn last_version(&self) -> Result<u64, ApiError> {
        self.cluster
            .with_store(self.kind, |store| store.last_version())
    }

    /// See [`Cluster::watch`].
    ///
    /// # Errors
    /// The same as [`Cluster::watch`].
    pub fn watch(&self, from: WatchFrom, options: WatchOptions) -> Result<AnyWatch, ApiError> {
        let watch = |store: &dyn AnyStore| store.watch(self.cluster, from, options);
        self.cluster.with_store(self.kind, watch)?
    }

    /// See [`Cluster::update`].
    ///
    /// # Errors
    /// The same as [`Cluster::update`], and 400 for an object of another kind.
    pub fn update(&self, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        self.put(object, Verb::Update, now)
    }

    /// See [`Cluster::update_status`].
    ///
    /// # Errors
    /// The same as [`Cluster::update_status`], and 400 for an object of another kind, 404 for a
    /// kind without a status.
    pub fn update_status(&self, object: AnyObject, now: Now) -> Result<AnyObject, ApiError> {
        self.with_status()?;
        self.put(object, Verb::UpdateStatus, now)
    }

    /// Replaces a part of a pod; the rest of `object` is ignored.
    ///
    /// # Errors
    /// The same as [`Cluster::update`], and 400 for an object of another kind, 404 for any kind
    /// except Pod.
    pub fn update_part(
        &self,
        object: AnyObject,
        part: PodPart,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        self.with_parts()?;
        self.put(object, part.verb(), now)
    }

    /// Patches a part of a pod; the patch's other changes are ignored.
    ///
    /// # Errors
    /// The same as [`Cluster::patch`], and 404 for any kind except Pod.
    pub fn patch_part(
        &self,
        namespace: &str,
        name: &str,
        part: PodPart,
        patch: &Patch,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        self.with_parts()?;
        self.apply(namespace, name, patch, part.verb(), now)
    }

    fn put(&self, object: AnyObject, verb: Verb, now: Now) -> Result<AnyObject, ApiError> {
        let writing = self.writing(verb);
        let put = |store: &dyn AnyStore| store.put(self.cluster, object, writing, now);
        let written = self.cluster.with_store(self.kind, put)??;
        self.written(&written, now);
        Ok(written)
    }

    /// See [`Cluster::patch`].
    ///
    /// # Errors
    /// The same as [`Cluster::patch`].
    pub fn patch(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        self.apply(namespace, name, patch, Verb::Patch, now)
    }

    /// See [`Cluster::patch_status`].
    ///
    /// # Errors
    /// The same as [`Cluster::patch_status`], and 404 for a kind without a status.
    pub fn patch_status(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        self.with_status()?;
        self.apply(namespace, name, patch, Verb::PatchStatus, now)
    }

    /// Passes a patched document to the field manager, if there is one.
    ///
    /// # Errors
    /// The same as [`FieldManager::patched`].
    pub fn check_patched(&self, patch: &Patch, document: &mut Value) -> Result<(), ApiError> {
        match self.manager {
            Some(manager) => manager.patched(patch.merged(), document),
            None => Ok(()),
        }
    }

    fn apply(
        &self,
        namespace: &str,
        name: &str,
        patch: &Patch,
        verb: Verb,
        now: Now,
    ) -> Result<AnyObject, ApiError> {
        let writing = self.writing(verb);
        let apply =
            |store: &dyn AnyStore| store.patch(self.cluster, namespace, name, patch, writing, now);
        let written = self.cluster.with_store(self.kind, apply)??;
        self.written(&written, now);
        Ok(written)
    }

    /// See [`Cluster::delete`].
    ///
    /// # Errors
    /// The same as [`Cluster::delete`].
    pub fn delete(
        &self,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
        now: Now,
    ) -> Result<Deletion<dyn Object>, ApiError> {
        let effects = self.effects(Verb::Delete);
        let delete = |store: &dyn AnyStore| {
            store.delete(self.cluster, namespace, name, options, effects, now)
        };
        let deletion = self.cluster.with_store(self.kind, delete)??;
        if !self.dry_run {
            if custom::is_definition(self.kind.row()) && !deletion.removed {
                self.cluster.definition_written(name, self.manager, now);
            }
            self.cluster.end_definitions(now);
        }
        Ok(deletion)
    }

    /// Deletes the objects that `select` accepts, one after another, in one namespace or in all.
    /// Returns them as they were before, as upstream does, sorted by namespace and name. O(n) in
    /// all objects of the kind.
    ///
    /// # Errors
    /// 404 for the kind; the errors of [`delete`](Api::delete), except for objects that disappear
    /// meanwhile; 504 when the [time limit](time_limit) of the request is exceeded. Earlier
    /// deletions are not undone.
    pub fn delete_collection(
        &self,
        namespace: Option<&str>,
        select: &Select<'_>,
        options: &DeleteOptions,
        now: Now,
    ) -> Result<Vec<AnyObject>, ApiError> {
        let page = self.list(&ListOptions {
            namespace,
            select: Some(select),
            ..ListOptions::default()
        })?;
        let mut deleted = Vec::with_capacity(page.items.len());
        for item in page.items {
            time_limit::check()?;
            let (namespace, name) = (&item.metadata().namespace, &item.metadata().name);
            match self.delete(namespace, name, options, now) {
                Ok(_) => deleted.push(item),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(deleted)
    }

    fn with_parts(&self) -> Result<(), ApiError> {
        match self.kind == Kind::POD {
            true => Ok(()),
            false => Err(crate::errors::unknown_resource()),
        }
    }

    fn with_status(&self) -> Result<(), ApiError> {
        if self.kind.row().has_status {
            return Ok(());
        }
        Err(crate::errors::unknown_resource())
    }
}
