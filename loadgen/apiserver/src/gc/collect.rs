//! The collector's work: handlers for the items of its queue.

use std::sync::atomic::Ordering;

use podstorm_objects::{ApiError, Now, ObjectMeta, OwnerReference, Str, Uid};

use super::{OwnerState, WorkItem};
use crate::Places;
use crate::any::AnyStore;
use crate::store::counts::{Verb, WriteEffects};
use crate::store::owners::ObjectKey;
use crate::store::{KindStore, Strategy};
use crate::update::{Update, prepare_and_validate};
use crate::{Cluster, DeleteOptions, Propagation, meta};

impl Cluster {
    /// Handles up to `max` items of the collector's queue. Returns the number of handled items. The
    /// first item that needs an owner's dependents builds the owner index.
    pub fn collect_garbage(&self, max: usize, now: Now) -> usize {
        self.end_definitions(now);
        for done in 0..max {
            let Some(work) = self.garbage.pop() else {
                return done;
            };
            match work {
                WorkItem::Check(key) => {
                    self.on_kind(&key, |store| store.check(self, &key, now));
                }
                WorkItem::Report(key, owner) => self.report_misplaced(&key, &owner, now),
                WorkItem::Dependents(uid) => {
                    for dependent in self.dependents(&uid) {
                        self.garbage.push(WorkItem::Check(dependent));
                    }
                }
                WorkItem::Orphan(key) => {
                    self.on_kind(&key, |store| store.orphan_dependents(self, &key, now));
                }
                WorkItem::Count(key) => self.count_usage(&key.namespace, &key.name, now),
            }
        }
        max
    }

    /// Returns the dependents of an owner, sorted.
    fn dependents(&self, owner: &Uid) -> Vec<ObjectKey> {
        if !self.garbage.indexed.load(Ordering::Acquire) {
            self.for_each_store(|store| store.index_owners());
            // Release, with the load above: a thread that sees the flag set finds the index
            // complete.
            self.garbage.indexed.store(true, Ordering::Release);
        }
        self.owners.dependents(owner)
    }

    /// Calls `act` with the store of an object.
    fn on_kind(&self, key: &ObjectKey, act: impl FnOnce(&dyn AnyStore)) {
        let _ = self.with_store(key.kind, act);
    }

    /// Deletes an object that has lost its owners, or finishes the deletion of an object that
    /// waited for its dependents.
    pub(crate) fn check<R: Strategy>(&self, store: &KindStore<R>, key: &ObjectKey, now: Now) {
        let Ok(object) = store.get(&key.namespace, &key.name) else {
            return;
        };
        let metadata = object.metadata();
        if metadata.is_deleting() {
            if meta::has_finalizer(metadata, meta::FOREGROUND) {
                self.finish_foreground(store, key, metadata, now);
            }
            return;
        }
        let is_misplaced = |owner: &OwnerReference| {
            let kind = self.kind_of(owner);
            kind.is_some_and(|kind| kind.is_namespaced())
        };
        if !object.kind().is_namespaced()
            && metadata.owner_references.iter().any(|it| is_misplaced(it))
        {
            // A cluster-scoped object with a namespaced owner is never collected.
            return;
        }
        let mut dangling: Places<&Uid> = Places::default();
        let mut waiting: Vec<&Uid> = Vec::new();
        let mut solid = false;
        for owner in &metadata.owner_references {
            match self.owner_state(owner, &metadata.namespace, object.kind()) {
                OwnerState::Absent => dangling.push(&owner.uid),
                OwnerState::Waiting => waiting.push(&owner.uid),
                OwnerState::Solid => solid = true,
            }
        }
        if dangling.is_empty() && waiting.is_empty() {
            return;
        }
        if solid {
            waiting.into_iter().for_each(|uid| dangling.push(uid));
            let stripped = self.strip_owners(store, key, &metadata.uid, now, |uid| {
                dangling.contains(&uid)
            });
            self.retry_on_conflict(key, stripped);
            return;
        }
        let propagation = if !waiting.is_empty() && !self.dependents(&metadata.uid).is_empty() {
            // The dependents of the object are deleted first.
            self.unblock_circle(store, key, metadata, now);
            Propagation::Foreground
        } else if meta::has_finalizer(metadata, meta::ORPHAN) {
            Propagation::Orphan
        } else if meta::has_finalizer(metadata, meta::FOREGROUND) {
            Propagation::Foreground
        } else {
            Propagation::Background
        };
        let options = DeleteOptions {
            propagation: Some(propagation),
            precondition_uid: Some(metadata.uid.clone()),
            precondition_rv: Some(metadata.resource_version.clone()),
            ..DeleteOptions::default()
        };
        let deleted = self.delete_in(
            store,
            &key.namespace,
            &key.name,
            &options,
            WriteEffects::for_verb(Verb::Delete),
            now,
        );
        self.retry_on_conflict(key, deleted.map(drop));
    }

    /// Queues another check if the request conflicted with another writer.
    fn retry_on_conflict(&self, key: &ObjectKey, result: Result<(), ApiError>) {
        if result.is_err_and(|error| error.code == 409) {
            self.garbage.push(WorkItem::Check(key.clone()));
        }
    }

    /// Resolves a cycle of objects that wait for each other's deletion: the object's own references
    /// no longer block.
    fn unblock_circle<R: Strategy>(
        &self,
        store: &KindStore<R>,
        key: &ObjectKey,
        metadata: &ObjectMeta,
        now: Now,
    ) {
        let waits = |key: &ObjectKey| {
            self.metadata_of(key, |metadata| {
                metadata.is_deleting() && meta::has_finalizer(metadata, meta::FOREGROUND)
            })
        };
        if !self
            .dependents(&metadata.uid)
            .iter()
            .any(|key| waits(key).unwrap_or(false))
        {
            return;
        }
        let effects = WriteEffects::for_verb(Verb::Patch);
        // Ignore the error: it recurs in the deletion, which has the version as a precondition.
        let _ = self.modify(store, &key.namespace, &key.name, now, |old| {
            let mut new = R::clone(old);
            for owner in &mut new.metadata_mut().owner_references {
                if owner.block_owner_deletion == Some(true) {
                    let unblocked = OwnerReference::clone(owner);
                    *owner = OwnerReference {
                        block_owner_deletion: Some(false),
                        ..unblocked
                    }
                    .into();
                }
            }
            Ok(Update::Write(new, effects))
        });
    }

    /// Finishes the deletion of an object that waits for its dependents, or queues those that block
    /// it.
    fn finish_foreground<R: Strategy>(
        &self,
        store: &KindStore<R>,
        key: &ObjectKey,
        metadata: &ObjectMeta,
        now: Now,
    ) {
        let mut blocked = false;
        for dependent in self.dependents(&metadata.uid) {
            let state = self.metadata_of(&dependent, |other| {
                // An object that owns itself would wait for its own deletion. In upstream it waits
                // forever.
                let is_other = other.uid != metadata.uid;
                let mut owners = other.owner_references.iter();
                let blocks = owners.any(|owner| {
                    owner.uid == metadata.uid && owner.block_owner_deletion == Some(true)
                });
                let blocks = is_other && blocks;
                (blocks, other.is_deleting())
            });
            if let Some((true, deleting)) = state {
                blocked = true;
                if !deleting {
                    self.garbage.push(WorkItem::Check(dependent));
                }
            }
        }
        if !blocked {
            self.remove_finalizer(store, key, &metadata.uid, meta::FOREGROUND, now);
        }
    }

    /// Removes all references to an object from its dependents, then the object's orphan finalizer.
    pub(crate) fn orphan_dependents<R: Strategy>(
        &self,
        store: &KindStore<R>,
        key: &ObjectKey,
        now: Now,
    ) {
        let Ok(owner) = store.get(&key.namespace, &key.name) else {
            return;
        };
        let metadata = owner.metadata();
        if !metadata.is_deleting() || !meta::has_finalizer(metadata, meta::ORPHAN) {
            return;
        }
        let uid = &metadata.uid;
        for dependent in self.dependents(uid) {
            self.on_kind(&dependent, |store| {
                store.strip_owner(self, &dependent, uid, now)
            });
        }
        self.remove_finalizer(store, key, uid, meta::ORPHAN, now);
    }

    /// Removes the references to an owner from an object.
    pub(crate) fn strip_owner<R: Strategy>(
        &self,
        store: &KindStore<R>,
        key: &ObjectKey,
        owner: &Uid,
        now: Now,
    ) {
        let Ok(object) = store.get(&key.namespace, &key.name) else {
            return;
        };
        let uid = &object.metadata().uid;
        // Ignore the error: the object may no longer exist. A patch that only removes a reference
        // does not fail otherwise.
        let _ = self.strip_owners(store, key, uid, now, |other| other == owner);
    }

    /// Removes references from the object with the given UID.
    fn strip_owners<R: Strategy>(
        &self,
        store: &KindStore<R>,
        key: &ObjectKey,
        uid: &Uid,
        now: Now,
        gone: impl Fn(&Uid) -> bool,
    ) -> Result<(), ApiError> {
        let effects = WriteEffects::for_verb(Verb::Patch);
        let stripped = self.modify(store, &key.namespace, &key.name, now, |old| {
            let mut new = R::clone(old);
            let metadata = new.metadata_mut();
            metadata.uid = uid.clone();
            metadata.owner_references.retain(|owner| !gone(&owner.uid));
            prepare_and_validate(self, &mut new, old, effects.verb, None)?;
            Ok(Update::Write(new, effects))
        });
        stripped.map(drop)
    }

    fn remove_finalizer<R: Strategy>(
        &self,
        store: &KindStore<R>,
        key: &ObjectKey,
        uid: &Uid,
        finalizer: &str,
        now: Now,
    ) {
        // Ignore the error: if the object was deleted, or replaced under the same name, nothing is
        // left to do.
        let _ = self.modify(store, &key.namespace, &key.name, now, |old| {
            let metadata = old.metadata();
            if metadata.uid != *uid {
                return Ok(Update::Keep);
            }
            let rest: Vec<Str> = metadata
                .finalizers()
                .iter()
                .filter(|f| &***f != finalizer)
                .cloned()
                .collect();
            let mut new = R::clone(old);
            new.metadata_mut().finalizers = (!rest.is_empty()).then(|| rest.into());
            Ok(Update::Write(new, WriteEffects::for_verb(Verb::Patch)))
        });
    }
}
