//! Sets states and queue items directly, for checkers that compare the collector with another
//! implementation.

use std::sync::Arc;

use podstorm_objects::{ApiError, Kind, Now, Str, Uid};

use super::WorkItem;
use crate::store::CommitOutcome;
use crate::store::counts::{Verb, WriteEffects};
use crate::store::owners::ObjectKey;
use crate::{Cluster, ClusterResource, errors};

/// An item of the collector's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GarbageItem {
    /// Check whether this object still has an owner or still waits for its dependents.
    Object(Kind, Str, Str),
    /// Check every dependent of the owner with this UID.
    DependentsOf(Uid),
    /// Orphan the dependents of this object.
    Orphan(Kind, Str, Str),
}

impl Cluster {
    /// Adds an item to the collector's queue.
    pub fn queue_garbage(&self, item: GarbageItem) {
        let key = |kind, namespace, name: Str| ObjectKey {
            kind,
            namespace,
            name: name.as_str().into(),
        };
        self.garbage.push(match item {
            GarbageItem::Object(kind, namespace, name) => {
                WorkItem::Check(key(kind, namespace, name))
            }
            GarbageItem::DependentsOf(uid) => WorkItem::Dependents(uid),
            GarbageItem::Orphan(kind, namespace, name) => {
                WorkItem::Orphan(key(kind, namespace, name))
            }
        });
    }

    /// Empties the collector's queue. Returns the number of discarded items.
    pub fn discard_garbage(&self) -> usize {
        let mut dropped = 0;
        while self.garbage.pop().is_some() {
            dropped += 1;
        }
        dropped
    }

    /// Replaces an object with this state without checking anything. The commit is an ordinary one.
    ///
    /// # Errors
    /// 404 if there is no such object; 409 if another writer was faster.
    pub fn replay<R: ClusterResource>(&self, object: R, now: Now) -> Result<Arc<R>, ApiError> {
        let store = R::store(self);
        let metadata = object.metadata();
        let old = store.get(&metadata.namespace, &metadata.name)?;
        let key = store.key(&metadata.namespace, &metadata.name).hash;
        let effects = WriteEffects::for_verb(Verb::Update);
        match store.replace(key, &old, Arc::new(object), &effects, now) {
            CommitOutcome::Done(new) => {
                self.notify_gc(store, Some(&*old), Some(&*new), now);
                Ok(new)
            }
            CommitOutcome::Conflict => Err(errors::stale(R::KIND, &old.metadata().name)),
        }
    }

    /// Removes an object without checking anything.
    ///
    /// # Errors
    /// The same as [`replay`](Cluster::replay).
    pub fn replay_removal<R: ClusterResource>(
        &self,
        namespace: &str,
        name: &str,
        now: Now,
    ) -> Result<(), ApiError> {
        let store = R::store(self);
        let old = store.get(namespace, name)?;
        let key = store.key(namespace, name).hash;
        let effects = WriteEffects::for_verb(Verb::Delete);
        let last = Arc::new(R::clone(&old));
        match store.remove(key, &old, None, last, &effects, now) {
            CommitOutcome::Done(_) => {
                self.notify_gc(store, Some(&*old), None, now);
                Ok(())
            }
            CommitOutcome::Conflict => Err(errors::stale(R::KIND, name)),
        }
    }
}
