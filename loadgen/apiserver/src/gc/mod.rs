//! The garbage collector: deletes objects that have lost their owners, and handles the finalizers
//! `orphan` and `foregroundDeletion`.
//!
//! Every commit [notifies](Cluster::notify_gc) the collector after its locks are released. A
//! relevant commit adds an item to a queue. Later, [`Cluster::collect_garbage`] handles the items,
//! with requests of its own. The owners of a dependent are looked up after the commit of the
//! dependent. Therefore, either the lookup sees that an owner is missing, or the owner is deleted
//! later and its deletion finds the dependent in the index.
//!
//! If the collector is [turned off](crate::ClusterOptions::leaves_garbage), commits add no items.

mod collect;
mod misplaced;
mod replay;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ahash::RandomState;
use hashbrown::HashSet;
use podstorm_objects::{Kind, Now, ObjectMeta, OwnerReference, OwnerReferences, Uid, hash_state};

use crate::Places;
use crate::store::lock::Lock;
use crate::store::owners::{ObjectKey, same_owners};
use crate::store::{KindStore, Strategy};
use crate::{Cluster, Waker, meta};

pub use replay::GarbageItem;

/// An item of the collector's queue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum WorkItem {
    /// Check whether this object still has an owner or, if it waits for its dependents, still has
    /// dependents.
    Check(ObjectKey),
    /// Write an Event about this object for each owner with one of these UIDs that is in another
    /// namespace.
    Report(ObjectKey, Vec<Uid>),
    /// Check every dependent of the owner with this UID.
    Dependents(Uid),
    /// Remove the references to this object, which orphans its dependents.
    Orphan(ObjectKey),
    /// Count the usage of this quota.
    Count(ObjectKey),
}

#[derive(Debug)]
struct Queue {
    /// The items in order of arrival.
    order: VecDeque<WorkItem>,
    /// The items of `order` as a set, so that each is queued once.
    queued: HashSet<WorkItem, RandomState>,
}

/// The collector's queue and state.
pub(super) struct GarbageCollector {
    /// Whether the collector is turned off.
    is_left: bool,
    queue: Lock<Queue>,
    waker: Lock<Option<Waker>>,
    /// Whether the owner index is complete.
    indexed: AtomicBool,
    /// Whether any object was ever deleted in the foreground.
    foreground_seen: AtomicBool,
}

impl std::fmt::Debug for GarbageCollector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GarbageCollector")
            .field("queue", &self.queue)
            .finish_non_exhaustive()
    }
}

/// The state of an owner, in upstream's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// No object has this name and UID.
    Absent,
    /// The owner waits for its dependents to be deleted.
    Waiting,
    /// The owner exists, or is of a kind that the server does not know.
    Solid,
}

impl GarbageCollector {
    pub(super) fn new(is_left: bool) -> GarbageCollector {
        let queue = Queue {
            order: VecDeque::new(),
            queued: HashSet::with_hasher(hash_state()),
        };
        GarbageCollector {
            is_left,
            queue: Lock::new(queue),
            waker: Lock::new(None),
            indexed: AtomicBool::new(false),
            foreground_seen: AtomicBool::new(false),
        }
    }

    fn push(&self, work: WorkItem) {
        let mut queue = self.queue.lock();
        if queue.queued.insert(work.clone()) {
            queue.order.push_back(work);
            let was_empty = queue.order.len() == 1;
            drop(queue);
            if was_empty && let Some(waker) = self.waker.lock().clone() {
                waker();
            }
        }
    }

    fn pop(&self) -> Option<WorkItem> {
        let mut queue = self.queue.lock();
        let work = queue.order.pop_front()?;
        queue.queued.remove(&work);
        Some(work)
    }
}

impl Cluster {
    /// Sets the waker, which is called when the collector's queue stops being empty.
    pub fn set_gc_waker(&self, waker: Option<Waker>) {
        *self.garbage.waker.lock() = waker;
    }

    /// Reports whether the collector has a waker.
    pub fn has_gc_waker(&self) -> bool {
        self.garbage.waker.lock().is_some()
    }

    /// Returns the length of the collector's queue.
    pub fn garbage_queue_len(&self) -> usize {
        self.garbage.queue.lock().order.len()
    }

    /// Tells the collector and the services of the kind about a commit. The caller holds no lock.
    pub(super) fn notify_gc<R: Strategy>(
        &self,
        store: &KindStore<R>,
        old: Option<&R>,
        new: Option<&R>,
        now: Now,
    ) {
        R::committed(self, new);
        if self.seen.has_quotas() && !self.options.leaves_quotas {
            self.notify_quotas(old, new, now);
        }
        if let (Some(old), None) = (old, new) {
            self.report_removal(old.metadata(), now);
        }
        let none = OwnerReferences::new();
        let before = old.map_or(&none, |object| &object.metadata().owner_references);
        let after = new.map_or(&none, |object| &object.metadata().owner_references);
        let unowned = before.is_empty() && after.is_empty();
        let moved = !unowned && !same_owners(before, after);
        if moved && !self.garbage.is_left {
            self.notify_gc_of_owners(new, before, after);
        }
        match (old, new) {
            _ if self.garbage.is_left => {}
            (Some(old), None) => self.notify_gc_of_removal(store, old),
            (_, Some(new)) if new.metadata().is_deleting() => {
                self.notify_gc_of_deletion(old.map(|old| old.metadata()), new);
            }
            _ => {}
        }
    }

    /// Queues a count of a quota's usage, which is processed in order with the collector's items.
    pub(super) fn notify_gc_of_quota<R: Strategy>(&self, quota: &R) {
        self.garbage
            .push(WorkItem::Count(ObjectKey::from_object(quota)));
    }

    fn notify_gc_of_owners<R: Strategy>(
        &self,
        new: Option<&R>,
        before: &OwnerReferences,
        after: &OwnerReferences,
    ) {
        if let Some(new) = new {
            let namespace = &*new.metadata().namespace;
            let mut check = false;
            let mut absent = Vec::new();
            let reports = self.options.records_gc_events;
            let known = before.iter().filter(|_| reports).map(|known| &known.uid);
            let known: Places<&Uid> = known.collect();
            for owner in after {
                let state = self.owner_state(owner, namespace, new.kind());
                check |= state != OwnerState::Solid;
                if state == OwnerState::Absent && reports && !known.contains(&&owner.uid) {
                    absent.push(owner.uid.clone());
                }
            }
            if !absent.is_empty() {
                let report = WorkItem::Report(ObjectKey::from_object(new), absent);
                self.garbage.push(report);
            }
            if check {
                self.garbage
                    .push(WorkItem::Check(ObjectKey::from_object(new)));
            }
        }
        // Owners that waited for the deletion of this object may now be deletable.
        if self.garbage.foreground_seen.load(Ordering::Relaxed)
            && let Some(metadata) = new.map(|new| new.metadata())
        {
            let after: Places<&Arc<OwnerReference>> = after.iter().collect();
            for owner in before.iter().filter(|owner| !after.contains(owner)) {
                self.check_owner(owner, metadata);
            }
        }
    }

    fn notify_gc_of_removal<R: Strategy>(&self, store: &KindStore<R>, old: &R) {
        let metadata = old.metadata();
        if store.has_owners() {
            self.garbage
                .push(WorkItem::Dependents(metadata.uid.clone()));
        }
        if self.garbage.foreground_seen.load(Ordering::Relaxed) {
            for owner in &metadata.owner_references {
                self.check_owner(owner, metadata);
            }
        }
    }

    fn notify_gc_of_deletion<R: Strategy>(&self, old: Option<&ObjectMeta>, new: &R) {
        let metadata = new.metadata();
        let begins = |finalizer| {
            let held = |object: &ObjectMeta| {
                object.is_deleting() && meta::has_finalizer(object, finalizer)
            };
            held(metadata) && !old.is_some_and(held)
        };
        if begins(meta::ORPHAN) {
            self.garbage
                .push(WorkItem::Orphan(ObjectKey::from_object(new)));
        }
        if begins(meta::FOREGROUND) {
            self.garbage.foreground_seen.store(true, Ordering::Relaxed);
            self.garbage
                .push(WorkItem::Dependents(metadata.uid.clone()));
            self.garbage
                .push(WorkItem::Check(ObjectKey::from_object(new)));
        }
    }

    /// Queues another check of an object's owner.
    fn check_owner(&self, owner: &OwnerReference, dependent: &ObjectMeta) {
        if let Some(kind) = self.kind_of(owner) {
            let namespace = if kind.is_namespaced() {
                dependent.namespace.clone()
            } else {
                Default::default()
            };
            let key = ObjectKey {
                kind,
                namespace,
                name: owner.name.as_str().into(),
            };
            self.garbage.push(WorkItem::Check(key));
        }
    }

    /// Returns the state of an owner whose dependent is in `namespace` and has the kind
    /// `dependent`.
    fn owner_state(&self, owner: &OwnerReference, namespace: &str, dependent: Kind) -> OwnerState {
        let Some(kind) = self.kind_of(owner) else {
            return OwnerState::Solid;
        };
        if kind.is_namespaced() && !dependent.is_namespaced() {
            // A namespaced owner of a cluster-scoped object can't be located. Upstream ignores it,
            // too.
            return OwnerState::Solid;
        }
        let namespace = if kind.is_namespaced() { namespace } else { "" };
        let state = |metadata: &ObjectMeta| {
            if metadata.uid != owner.uid {
                OwnerState::Absent
            } else if metadata.is_deleting() && meta::has_finalizer(metadata, meta::FOREGROUND) {
                OwnerState::Waiting
            } else {
                OwnerState::Solid
            }
        };
        let mut found = OwnerState::Absent;
        let looked = self.with_store(kind, |store| {
            // Set before the lookup: if the owner is deleted after the lookup, its deletion must
            // see the flag.
            store.set_has_owners();
            store.inspect_metadata(namespace, &owner.name, &mut |metadata| {
                found = state(metadata);
            });
        });
        looked.map_or(OwnerState::Solid, |()| found)
    }

    fn metadata_of<T>(&self, key: &ObjectKey, read: impl Fn(&ObjectMeta) -> T) -> Option<T> {
        let mut found = None;
        let looked = self.with_store(key.kind, |store| {
            store.inspect_metadata(&key.namespace, &key.name, &mut |metadata| {
                found = Some(read(metadata));
            });
        });
        looked.ok().and(found)
    }
}

#[cfg(test)]
mod tests;
