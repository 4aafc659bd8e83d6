//! Emptying a namespace that is being deleted: its pods first, gracefully; when none is left
//! everything else; then the finalizer `kubernetes` goes, and with it the namespace.
//!
//! The collector looks again when as many objects have gone as it saw last, and when one is created
//! late, by a request that was admitted before the deletion began.

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

/// Most objects deleted at one look.
const PORTION: usize = 500;

/// The namespaces that are being emptied.
#[derive(Debug, Default)]
pub(super) struct NamespaceDeletions {
    /// Whether a namespace was ever deleted: without, nobody looks any further.
    seen: AtomicBool,
    progress: Lock<BTreeMap<Str, Progress>>,
}

/// How far the objects seen at the last look have gone.
#[derive(Debug, Default)]
struct Progress {
    /// Objects removed since that look began.
    removed: u64,
    /// Objects left after it; absent while it is under way.
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
    /// Takes note that the deletion of a namespace has begun.
    pub(super) fn notify_gc_of_termination(&self, metadata: &ObjectMeta) {
        self.garbage
            .namespace_deletions
            .seen
            .store(true, Ordering::Relaxed);
        let name = Str::from(metadata.name.as_str());
        self.garbage.push(empty(&name));
    }

    /// Takes note of an object that was created or removed.
    pub(super) fn notify_gc_of_content(&self, metadata: &ObjectMeta, removed: bool) {
        // Relaxed: set before the finalizer can go, which is what a late object would miss.
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

    /// Deletes what a namespace holds that is being deleted, or the namespace when it holds
    /// nothing.
    pub(super) fn empty_namespace(&self, key: &ObjectKey, now: Now) {
        let name = Str::from(key.name.as_str());
        let kept = match self.get::<Namespace>("", &key.name) {
            Ok(found) if !found.terminating => return,
            Ok(found) => Some(found),
            // Objects that came after it went.
            Err(_) => None,
        };
        let fresh = Progress::default();
        let namespace_deletions = &self.garbage.namespace_deletions;
        namespace_deletions
            .progress
            .lock()
            .insert(name.clone(), fresh);
        let (mut left, mut more) = self.delete_all(&self.pods, &name, now);
        // While a pod is left nothing else is touched.
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
                self.finalize(&namespace, now);
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

    /// Begins to delete the objects of a kind, a portion of them: how many are left that this
    /// cannot remove at once, and whether there are more to begin with.
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
            let deleted = self.delete_in(store, (namespace, &metadata.name), &options, now);
            // A refusal means that it is gone already.
            left += u64::from(deleted.is_ok_and(|deleted| !deleted.removed));
        }
        (left, false)
    }

    /// Lets an empty namespace go.
    fn finalize(&self, namespace: &Namespace, now: Now) {
        let metadata = &namespace.metadata;
        let effects = WriteEffects::of(Verb::Update);
        // Gone already, or another one by now: then there is nothing to do.
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
