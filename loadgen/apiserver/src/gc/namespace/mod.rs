//! Empties a namespace that is being deleted. Its pods are deleted first, gracefully. When none is
//! left, everything else is deleted. Then the finalizer `kubernetes` is removed, and with it the
//! namespace.
//!
//! The collector looks again when as many objects were removed as it saw last, and when one is
//! created late, by a request that was admitted before the deletion began.
//!
//! It is quick and writes no conditions; what users see of a real cluster is in
//! [`namespaces`](crate::namespaces).

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use podstorm_objects::{Kind, Namespace, Now, ObjectMeta, Str};

use super::WorkItem;
use crate::store::counts::{Verb, WriteEffects};
use crate::store::lock::Lock;
use crate::store::owners::ObjectKey;
use crate::store::{KindStore, Strategy};
use crate::update::Update;
use crate::{Cluster, DeleteOptions, Propagation, finalizer};

/// Most objects deleted at one time.
const PORTION: usize = 500;

/// The namespaces that are being deleted.
#[derive(Debug, Default)]
pub(super) struct NamespaceDeletions {
    /// Whether a namespace was ever deleted; otherwise commits cost one test.
    seen: AtomicBool,
    progress: Lock<BTreeMap<Str, Progress>>,
}

/// The progress since the last look at a namespace.
#[derive(Debug, Default)]
struct Progress {
    /// Objects removed since that look began.
    removed: u64,
    /// Objects left after that look; absent during the look.
    awaited: Option<u64>,
}

impl Progress {
    fn is_due(&self) -> bool {
        self.awaited.is_some_and(|awaited| self.removed >= awaited)
    }
}

fn empty(name: &Str) -> WorkItem {
    WorkItem::Empty(ObjectKey {
        kind: Kind::NAMESPACE,
        namespace: Str::default(),
        name: (&**name).into(),
    })
}

impl Cluster {
    /// Notifies the collector that the deletion of a namespace has begun.
    pub(super) fn notify_gc_of_termination(&self, metadata: &ObjectMeta) {
        self.garbage
            .namespace_deletions
            .seen
            .store(true, Ordering::Relaxed);
        let name = Str::from(metadata.name.as_str());
        self.garbage.push(empty(&name));
    }

    /// Notifies the collector of an object that was created or removed.
    pub(super) fn notify_gc_of_content(&self, metadata: &ObjectMeta, removed: bool) {
        // Relaxed: set before the finalizer can be removed, so a late object finds either the flag
        // or the namespace.
        if !self
            .garbage
            .namespace_deletions
            .seen
            .load(Ordering::Relaxed)
            || metadata.namespace.is_empty()
        {
            return;
        }
        let due = if removed {
            let mut progress = self.garbage.namespace_deletions.progress.lock();
            progress.get_mut(&metadata.namespace).is_some_and(|it| {
                it.removed += 1;
                it.is_due()
            })
        } else {
            let key = self.namespaces.key("", &metadata.namespace);
            let terminating = self.namespaces.inspect(&key, |found| found.terminating);
            terminating.unwrap_or(true)
        };
        if due {
            self.garbage.push(empty(&metadata.namespace));
        }
    }

    /// Deletes the objects of a namespace that is being deleted, or the namespace itself when it is
    /// empty.
    pub(super) fn empty_namespace(&self, key: &ObjectKey, now: Now) {
        let name = Str::from(key.name.as_str());
        let kept = match self.get::<Namespace>("", &key.name) {
            Ok(found) if !found.terminating => return,
            Ok(found) => Some(found),
            // The namespace is gone; objects were created late.
            Err(_) => None,
        };
        let fresh = Progress::default();
        let namespace_deletions = &self.garbage.namespace_deletions;
        namespace_deletions
            .progress
            .lock()
            .insert(name.clone(), fresh);
        let (mut left, mut more) = self.delete_all(&self.pods, &name, now);
        // While a pod is left, no other kind is deleted.
        if left == 0 && !more {
            self.for_each_store(|store| {
                if store.kind().is_namespaced() && store.kind() != Kind::POD {
                    let (kept, unfinished) = store.delete_all(self, &name, now);
                    left += kept;
                    more |= unfinished;
                }
            });
        }
        let mut progress = namespace_deletions.progress.lock();
        if left == 0 && !more {
            progress.remove(&name);
            drop(progress);
            if let Some(namespace) = kept {
                self.finalize_empty(&namespace, now);
            }
            return;
        }
        let due = progress.get_mut(&name).is_some_and(|it| {
            it.awaited = Some(left);
            it.is_due()
        });
        drop(progress);
        if due || more {
            self.garbage.push(empty(&name));
        }
    }

    /// Begins to delete the objects of a kind, up to a limit. Returns how many are left that can't
    /// be removed at once, and whether there are more to delete.
    pub(crate) fn delete_all<R: Strategy>(
        &self,
        store: &KindStore<R>,
        namespace: &str,
        now: Now,
    ) -> (u64, bool) {
        let objects = store.snapshot(Some(namespace)).objects;
        let (mut left, mut begun) = (0, 0);
        for object in objects {
            let metadata = object.metadata();
            if metadata.is_deleting() {
                left += 1;
                continue;
            }
            if begun == PORTION {
                return (left, true);
            }
            begun += 1;
            let options = DeleteOptions {
                propagation: Some(Propagation::Background),
                precondition_uid: Some(metadata.uid.clone()),
                ..DeleteOptions::default()
            };
            let deleted = self.delete_in(
                store,
                (namespace, &metadata.name),
                &options,
                WriteEffects::of(Verb::Delete),
                now,
            );
            // A refusal means that the object is gone.
            left += u64::from(deleted.is_ok_and(|deleted| !deleted.removed));
        }
        (left, false)
    }

    /// Removes the finalizer of an empty namespace.
    fn finalize_empty(&self, namespace: &Namespace, now: Now) {
        let metadata = &namespace.metadata;
        let effects = WriteEffects::of(Verb::Update);
        // The namespace may be gone or replaced by another of its name: then there is nothing to
        // do.
        let _ = self.modify(&self.namespaces, "", &metadata.name, now, |old| {
            if old.metadata.uid != metadata.uid {
                return Ok(Update::Keep);
            }
            let mut new = Namespace::clone(old);
            finalizer::remove(&mut new);
            Ok(Update::Write(new, effects))
        });
    }
}

#[cfg(test)]
mod tests;
