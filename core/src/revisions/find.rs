//! The requests about a workload's revisions: to adopt orphans, to find or create the revision of
//! the current template, and to delete old revisions.

use std::sync::Arc;

use podstorm_objects::{
    DynamicObject, Kind, Labels, ObjectMeta, OwnerPatch, OwnerReference, Reason,
};
use podstorm_runtime::claim::may_adopt;
use podstorm_runtime::driver::{Calls, SyncFailure};
use serde_json::Value;

use super::history::{Revision, next_number};
use super::{HASH_LABEL, RevisionData, revision_hash, revision_name};

/// The workload that owns the revisions.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// The kind of the workload.
    pub kind: Kind,
    /// The metadata of the workload.
    pub meta: &'a ObjectMeta,
    /// The controller reference that the workload's dependents carry.
    pub reference: &'a Arc<OwnerReference>,
    /// `status.collisionCount`; 0 if absent.
    pub collision_count: i32,
}

/// The current revision and the update revision of a workload.
#[derive(Clone, Debug)]
pub struct Found {
    /// The revision that the status names as current; the update revision if the named one does not
    /// exist.
    pub current: Revision,
    /// The revision of the current template.
    pub update: Revision,
    /// The number of name collisions so far, for the status.
    pub collision_count: i32,
}

impl Owner<'_> {
    /// Adopts the revisions that have no controller, after one live read of the workload.
    ///
    /// # Errors
    /// Fails if the workload must not adopt, or at the first failed request. Later revisions are
    /// then not adopted.
    pub async fn adopt(&self, calls: &Calls, revisions: &[Revision]) -> Result<(), SyncFailure> {
        let is_orphan = |it: &&Revision| it.0.metadata.controller().is_none();
        let mut orphans = revisions.iter().filter(is_orphan).peekable();
        if orphans.peek().is_none() {
            return Ok(());
        }
        let namespace = &self.meta.namespace;
        let live = calls.read(self.kind, namespace, &self.meta.name).await;
        let live = live.as_ref().map(|live| live.metadata());
        may_adopt(namespace, self.reference, live).map_err(|why| {
            let text = format!("can't adopt ControllerRevisions: {why}");
            SyncFailure::new("revisions", text)
        })?;
        for revision in orphans {
            let meta = &revision.0.metadata;
            let adoption = OwnerPatch::Adopt {
                owner: Arc::clone(self.reference),
                uid: meta.uid.clone(),
            };
            let adopted = calls.patch_owners(Kind::CONTROLLER_REVISION, meta, adoption);
            adopted.await.map_err(SyncFailure::at("revisions"))?;
        }
        Ok(())
    }

    /// Finds the revision with this data among the `sorted` ones and makes it the newest. If there
    /// is none, creates it. `is_same` reports whether a revision with other data restores the same
    /// template. `current` is the name of the current revision.
    ///
    /// # Errors
    /// Fails if a request fails.
    pub async fn find(
        &self,
        calls: &Calls,
        sorted: &[Revision],
        data: &RevisionData,
        current: &str,
        is_same: impl FnOnce(&Revision) -> bool,
    ) -> Result<Found, SyncFailure> {
        let next = next_number(sorted);
        let is_equal = |it: &&Revision| it.data() == data.value();
        let (newest, equal) = (sorted.last(), sorted.iter().rfind(is_equal));
        let mut collision_count = self.collision_count;
        let update = match (newest, equal) {
            (Some(newest), Some(_)) if is_equal(&newest) => newest.clone(),
            (_, Some(equal)) => self.renumber(calls, equal, next).await?,
            (Some(newest), None) if is_same(newest) => newest.clone(),
            (_, None) => self.create(calls, data, next, &mut collision_count).await?,
        };
        let current = sorted.iter().find(|it| it.name() == current);
        Ok(Found {
            current: current.unwrap_or(&update).clone(),
            update,
            collision_count,
        })
    }

    /// Gives an older revision the number `number`, which makes it the newest.
    async fn renumber(
        &self,
        calls: &Calls,
        revision: &Revision,
        number: i64,
    ) -> Result<Revision, SyncFailure> {
        let mut renumbered = DynamicObject::clone(&revision.0);
        renumbered
            .fields
            .insert("revision".to_owned(), number.into());
        let stored = calls.put(renumbered).await;
        stored.map(Revision).map_err(|error| {
            // Like upstream, where the failed write has emptied the object that is written again.
            let text = match error.reason {
                Reason::Conflict => "resource name may not be empty".to_owned(),
                _ => error.message,
            };
            SyncFailure::new("revisions", text)
        })
    }

    /// Creates the revision with this data. As long as another revision has the name, increments
    /// the collision count.
    async fn create(
        &self,
        calls: &Calls,
        data: &RevisionData,
        number: i64,
        collision_count: &mut i32,
    ) -> Result<Revision, SyncFailure> {
        let text = data.text();
        let mut revision = self.new_revision(data, &text, number, Some(*collision_count));
        loop {
            let error = match calls.create(revision.clone()).await {
                Ok(created) => {
                    let created = created.downcast().expect("a revision is a dynamic object");
                    return Ok(Revision(created));
                }
                Err(error) => error,
            };
            if error.reason != Reason::AlreadyExists {
                return Err(SyncFailure::new("revisions", error.message));
            }
            let meta = &revision.metadata;
            let kind = Kind::CONTROLLER_REVISION;
            let found = calls.get(kind, &meta.namespace, &meta.name).await;
            let found = Revision(found.map_err(SyncFailure::at("revisions"))?);
            if found.data() == data.value() {
                return Ok(found);
            }
            *collision_count += 1;
            // Like upstream: the label keeps the first hash.
            let hash = revision_hash(&text, Some(*collision_count));
            revision.metadata.name = revision_name(&self.meta.name, &hash).into();
        }
    }

    /// Builds the revision with this data. `text` is the string form of the data.
    ///
    /// Source: `NewControllerRevision` of Kubernetes' `pkg/controller/history`.
    pub fn new_revision(
        &self,
        data: &RevisionData,
        text: &str,
        number: i64,
        collision_count: Option<i32>,
    ) -> DynamicObject {
        let hash = revision_hash(text, collision_count);
        let labels = &data.value()["spec"]["template"]["metadata"]["labels"];
        let labels = Labels::from_json(labels.clone()).unwrap_or_default();
        let mut revision = DynamicObject::new(Kind::CONTROLLER_REVISION);
        revision.metadata = ObjectMeta {
            name: revision_name(&self.meta.name, &hash).into(),
            namespace: self.meta.namespace.clone(),
            labels: labels.with(HASH_LABEL, &hash),
            annotations: self.meta.annotations.clone(),
            owner_references: std::iter::once(Arc::clone(self.reference)).collect(),
            ..ObjectMeta::default()
        };
        let members = [("data", data.value().clone()), ("revision", number.into())];
        let members = members.map(|(name, value): (&str, Value)| (name.to_owned(), value));
        revision.fields = members.into_iter().collect();
        revision
    }
}

/// Deletes revisions one after the other, up to the first failure.
///
/// # Errors
/// Fails if a request fails.
pub async fn delete_all<'r>(
    calls: &Calls,
    revisions: impl Iterator<Item = &'r Revision>,
) -> Result<(), SyncFailure> {
    for revision in revisions {
        let delete = calls.delete(Kind::CONTROLLER_REVISION, &revision.0.metadata, None);
        delete.await.map_err(SyncFailure::at("revisions"))?;
    }
    Ok(())
}
