//! The garbage collector: deletes what has lost its owners, and carries out the `orphan` and
//! `foregroundDeletion` finalizers.
//!
//! Every commit is [noted](Cluster::note) after its locks are released. What may concern the
//! collector enters a queue; [`Cluster::collect_garbage`] works it off, later, as its own
//! requests. A dependent's owners are looked up live, after the dependent was committed: so either
//! that look-up sees that an owner is gone, or the owner's deletion comes later and finds the
//! dependent in the index.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use ahash::RandomState;
use hashbrown::HashSet;
use podstorm::client::ApiError;
use podstorm::object::{
    Event, Kind, Namespace, Node, Now, ObjectMeta, OwnerReference, OwnerReferences, Pod,
    ReplicaSet, ReplicationController, Str, Uid,
};

use super::counts::{Tally, Verb};
use super::owners::{ObjectKey, same_owners};
use super::write::{Update, prepare_and_validate};
use super::{Cluster, ClusterResource, DeleteOptions, Lock, Propagation, Waker, meta};

/// Something to look at.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Work {
    /// Whether this object still has an owner, or, if it waits for its dependents, still has to.
    Check(ObjectKey),
    /// The dependents of this owner, each of them.
    Dependents(Uid),
    /// The references to this object, which is to leave its dependents alone.
    Orphan(ObjectKey),
}

#[derive(Debug)]
struct Queue {
    /// In order of arrival.
    order: VecDeque<Work>,
    /// What is in `order`.
    queued: HashSet<Work, RandomState>,
}

/// The collector's queue and what it remembers.
pub(super) struct GarbageCollector {
    queue: Lock<Queue>,
    waker: Lock<Option<Waker>>,
    /// Whether the owner index is complete.
    indexed: AtomicBool,
    /// Bits of the kinds that were ever named as owners: others are deleted without a look.
    owner_kinds: AtomicU32,
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

/// What is known of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OwnerState {
    /// There is none of that name and UID.
    Absent,
    /// It waits for its dependents to go.
    Waiting,
    /// It is there, or of a kind that isn't simulated, so nobody knows.
    Solid,
}

impl GarbageCollector {
    pub(super) fn new() -> GarbageCollector {
        let hasher = RandomState::with_seeds(0x6761, 0x7262, 0x6167, 0x6501);
        let queue = Queue {
            order: VecDeque::new(),
            queued: HashSet::with_hasher(hasher),
        };
        GarbageCollector {
            queue: Lock::new(queue),
            waker: Lock::new(None),
            indexed: AtomicBool::new(false),
            owner_kinds: AtomicU32::new(0),
            foreground_seen: AtomicBool::new(false),
        }
    }

    fn push(&self, work: Work) {
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

    fn pop(&self) -> Option<Work> {
        let mut queue = self.queue.lock();
        let work = queue.order.pop_front()?;
        queue.queued.remove(&work);
        Some(work)
    }
}

const fn bit(kind: Kind) -> u32 {
    1 << kind as u32
}

impl Cluster {
    /// Sets what is called when the collector's queue is no longer empty.
    pub fn set_gc_waker(&self, waker: Option<Waker>) {
        *self.garbage.waker.lock() = waker;
    }

    /// The number of things the collector has to look at.
    pub fn garbage_queue_len(&self) -> usize {
        self.garbage.queue.lock().order.len()
    }

    /// Takes note of a committed write. The caller holds no lock.
    pub(super) fn note<R: ClusterResource>(&self, old: Option<&R>, new: Option<&R>) {
        let none = OwnerReferences::new();
        let before = old.map_or(&none, |object| &object.metadata().owner_references);
        let after = new.map_or(&none, |object| &object.metadata().owner_references);
        let moved = !(before.is_empty() && after.is_empty()) && !same_owners(before, after);
        if moved {
            self.note_owners(new, before, after);
        }
        match (old, new) {
            (Some(old), None) => self.note_removed(old),
            (_, Some(new)) if new.metadata().is_deleting() => {
                self.note_deleting(old.map(|old| old.metadata()), new);
            }
            _ => {}
        }
    }

    fn note_owners<R: ClusterResource>(
        &self,
        new: Option<&R>,
        before: &OwnerReferences,
        after: &OwnerReferences,
    ) {
        if let Some(new) = new {
            let namespace = &*new.metadata().namespace;
            let mut check = false;
            for owner in after {
                let Some(kind) = kind_of(owner) else { continue };
                // Before the look-up: an owner deleted after it must find the bit set. The
                // store's locks order the two.
                if self.garbage.owner_kinds.load(Ordering::Relaxed) & bit(kind) == 0 {
                    self.garbage
                        .owner_kinds
                        .fetch_or(bit(kind), Ordering::Relaxed);
                }
                check |= self.owner_state(owner, namespace, R::KIND) != OwnerState::Solid;
            }
            if check {
                self.garbage.push(Work::Check(ObjectKey::of(new)));
            }
        }
        // Owners that waited for this object may be done.
        if self.garbage.foreground_seen.load(Ordering::Relaxed)
            && let Some(metadata) = new.map(|new| new.metadata())
        {
            for owner in before.iter().filter(|owner| !after.contains(owner)) {
                self.check_owner(owner, metadata);
            }
        }
    }

    fn note_removed<R: ClusterResource>(&self, old: &R) {
        let metadata = old.metadata();
        if self.garbage.owner_kinds.load(Ordering::Relaxed) & bit(R::KIND) != 0 {
            self.garbage.push(Work::Dependents(metadata.uid.clone()));
        }
        if self.garbage.foreground_seen.load(Ordering::Relaxed) {
            for owner in &metadata.owner_references {
                self.check_owner(owner, metadata);
            }
        }
    }

    fn note_deleting<R: ClusterResource>(&self, old: Option<&ObjectMeta>, new: &R) {
        let metadata = new.metadata();
        let begins = |finalizer| {
            let held = |object: &ObjectMeta| {
                object.is_deleting() && meta::has_finalizer(object, finalizer)
            };
            held(metadata) && !old.is_some_and(held)
        };
        if begins(meta::ORPHAN) {
            self.garbage.push(Work::Orphan(ObjectKey::of(new)));
        }
        if begins(meta::FOREGROUND) {
            self.garbage.foreground_seen.store(true, Ordering::Relaxed);
            self.garbage.push(Work::Dependents(metadata.uid.clone()));
            self.garbage.push(Work::Check(ObjectKey::of(new)));
        }
    }

    /// Queues the owner of an object for another look.
    fn check_owner(&self, owner: &OwnerReference, dependent: &ObjectMeta) {
        if let Some(kind) = kind_of(owner) {
            let namespace = if kind.is_namespaced() {
                dependent.namespace.clone()
            } else {
                Default::default()
            };
            let key = ObjectKey {
                kind,
                namespace,
                name: owner.name.as_ref().into(),
            };
            self.garbage.push(Work::Check(key));
        }
    }

    /// Works off up to `max` entries of the collector's queue and answers how many there were.
    /// The first one that asks for an owner's dependents indexes all objects once.
    pub fn collect_garbage(&self, max: usize, now: Now) -> usize {
        for done in 0..max {
            let Some(work) = self.garbage.pop() else {
                return done;
            };
            match work {
                Work::Check(key) => self.check(&key, now),
                Work::Dependents(uid) => {
                    for dependent in self.dependents(&uid) {
                        self.garbage.push(Work::Check(dependent));
                    }
                }
                Work::Orphan(key) => self.orphan(&key, now),
            }
        }
        max
    }

    /// The dependents of an owner, sorted.
    fn dependents(&self, owner: &Uid) -> Vec<ObjectKey> {
        if !self.garbage.indexed.load(Ordering::Acquire) {
            self.namespaces.index_owners();
            self.nodes.index_owners();
            self.pods.index_owners();
            self.replica_sets.index_owners();
            self.replication_controllers.index_owners();
            self.events.index_owners();
            // Pairs with the load above: whoever sees it set finds the index complete.
            self.garbage.indexed.store(true, Ordering::Release);
        }
        self.owners.of(owner)
    }

    fn check(&self, key: &ObjectKey, now: Now) {
        match key.kind {
            Kind::Namespace => self.check_object::<Namespace>(key, now),
            Kind::Node => self.check_object::<Node>(key, now),
            Kind::Pod => self.check_object::<Pod>(key, now),
            Kind::ReplicaSet => self.check_object::<ReplicaSet>(key, now),
            Kind::ReplicationController => self.check_object::<ReplicationController>(key, now),
            Kind::Event => self.check_object::<Event>(key, now),
        }
    }

    fn check_object<R: ClusterResource>(&self, key: &ObjectKey, now: Now) {
        let Ok(object) = self.get::<R>(&key.namespace, &key.name) else {
            return;
        };
        let metadata = object.metadata();
        if metadata.is_deleting() {
            if meta::has_finalizer(metadata, meta::FOREGROUND) {
                self.finish_foreground::<R>(key, metadata, now);
            }
            return;
        }
        let mut dangling: Vec<&Uid> = Vec::new();
        let mut waiting: Vec<&Uid> = Vec::new();
        let mut solid = false;
        for owner in &metadata.owner_references {
            match self.owner_state(owner, &metadata.namespace, R::KIND) {
                OwnerState::Absent => dangling.push(&owner.uid),
                OwnerState::Waiting => waiting.push(&owner.uid),
                OwnerState::Solid => solid = true,
            }
        }
        if dangling.is_empty() && waiting.is_empty() {
            return;
        }
        if solid {
            dangling.append(&mut waiting);
            let stripped =
                self.strip_owners::<R>(key, &metadata.uid, now, |uid| dangling.contains(&uid));
            self.retry_on_conflict(key, stripped);
            return;
        }
        let propagation = if !waiting.is_empty() && !self.dependents(&metadata.uid).is_empty() {
            // Its own dependents go before it.
            self.unblock_circle::<R>(key, metadata, now);
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
        let deleted = self.delete::<R>(&key.namespace, &key.name, &options, now);
        self.retry_on_conflict(key, deleted.map(drop));
    }

    /// Another writer was faster: look again.
    fn retry_on_conflict(&self, key: &ObjectKey, result: Result<(), ApiError>) {
        if result.is_err_and(|error| error.code == 409) {
            self.garbage.push(Work::Check(key.clone()));
        }
    }

    /// An object waits for its dependents and so does one of them: the object's own references
    /// stop blocking, or both would wait for ever.
    fn unblock_circle<R: ClusterResource>(&self, key: &ObjectKey, metadata: &ObjectMeta, now: Now) {
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
        let tally = Tally::of(Verb::Patch);
        // Failures are met again: the object is deleted next, with its version as precondition.
        let _ = self.modify::<R>(&key.namespace, &key.name, now, |old| {
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
            Ok(Update::Write(new, tally))
        });
    }

    /// An object waits for its dependents: let it go, or see that those that block it are deleted.
    fn finish_foreground<R: ClusterResource>(
        &self,
        key: &ObjectKey,
        metadata: &ObjectMeta,
        now: Now,
    ) {
        let mut blocked = false;
        for dependent in self.dependents(&metadata.uid) {
            let state = self.metadata_of(&dependent, |other| {
                let blocks = other.owner_references.iter().any(|owner| {
                    owner.uid == metadata.uid && owner.block_owner_deletion == Some(true)
                });
                (blocks, other.is_deleting())
            });
            if let Some((true, deleting)) = state {
                blocked = true;
                if !deleting {
                    self.garbage.push(Work::Check(dependent));
                }
            }
        }
        if !blocked {
            self.remove_finalizer::<R>(key, &metadata.uid, meta::FOREGROUND, now);
        }
    }

    fn orphan(&self, key: &ObjectKey, now: Now) {
        match key.kind {
            Kind::Namespace => self.orphan_dependents::<Namespace>(key, now),
            Kind::Node => self.orphan_dependents::<Node>(key, now),
            Kind::Pod => self.orphan_dependents::<Pod>(key, now),
            Kind::ReplicaSet => self.orphan_dependents::<ReplicaSet>(key, now),
            Kind::ReplicationController => {
                self.orphan_dependents::<ReplicationController>(key, now);
            }
            Kind::Event => self.orphan_dependents::<Event>(key, now),
        }
    }

    fn orphan_dependents<R: ClusterResource>(&self, key: &ObjectKey, now: Now) {
        let Ok(owner) = self.get::<R>(&key.namespace, &key.name) else {
            return;
        };
        let metadata = owner.metadata();
        if !metadata.is_deleting() || !meta::has_finalizer(metadata, meta::ORPHAN) {
            return;
        }
        let uid = &metadata.uid;
        for dependent in self.dependents(uid) {
            let key = &dependent;
            let gone = |probe: &Uid| probe == uid;
            // A missing dependent has no reference; no other failure is possible for a patch
            // that only takes a reference away.
            let _ = match dependent.kind {
                Kind::Namespace => self.strip_owner::<Namespace>(key, now, gone),
                Kind::Node => self.strip_owner::<Node>(key, now, gone),
                Kind::Pod => self.strip_owner::<Pod>(key, now, gone),
                Kind::ReplicaSet => self.strip_owner::<ReplicaSet>(key, now, gone),
                Kind::ReplicationController => {
                    self.strip_owner::<ReplicationController>(key, now, gone)
                }
                Kind::Event => self.strip_owner::<Event>(key, now, gone),
            };
        }
        self.remove_finalizer::<R>(key, uid, meta::ORPHAN, now);
    }

    fn strip_owner<R: ClusterResource>(
        &self,
        key: &ObjectKey,
        now: Now,
        gone: impl Fn(&Uid) -> bool,
    ) -> Result<(), ApiError> {
        let uid = self
            .get::<R>(&key.namespace, &key.name)?
            .metadata()
            .uid
            .clone();
        self.strip_owners::<R>(key, &uid, now, gone)
    }

    /// Takes references away from the object with that UID.
    fn strip_owners<R: ClusterResource>(
        &self,
        key: &ObjectKey,
        uid: &Uid,
        now: Now,
        gone: impl Fn(&Uid) -> bool,
    ) -> Result<(), ApiError> {
        let tally = Tally::of(Verb::Patch);
        let stripped = self.modify::<R>(&key.namespace, &key.name, now, |old| {
            let mut new = R::clone(old);
            let metadata = new.metadata_mut();
            metadata.uid = uid.clone();
            metadata.owner_references.retain(|owner| !gone(&owner.uid));
            prepare_and_validate(&mut new, old, tally.verb)?;
            Ok(Update::Write(new, tally))
        });
        stripped.map(drop)
    }

    fn remove_finalizer<R: ClusterResource>(
        &self,
        key: &ObjectKey,
        uid: &Uid,
        finalizer: &str,
        now: Now,
    ) {
        // The object may be gone or another one by now: then there is nothing to do.
        let _ = self.modify::<R>(&key.namespace, &key.name, now, |old| {
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
            Ok(Update::Write(new, Tally::of(Verb::Patch)))
        });
    }

    /// What is known of the owner that a dependent in `namespace` names.
    fn owner_state(&self, owner: &OwnerReference, namespace: &str, dependent: Kind) -> OwnerState {
        let Some(kind) = kind_of(owner) else {
            return OwnerState::Solid;
        };
        if kind.is_namespaced() && !dependent.is_namespaced() {
            // The owner can't be located: upstream gives up on the dependent.
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
        self.inspect_metadata(kind, namespace, &owner.name, state)
            .unwrap_or(OwnerState::Absent)
    }

    fn metadata_of<T>(&self, key: &ObjectKey, read: impl FnOnce(&ObjectMeta) -> T) -> Option<T> {
        self.inspect_metadata(key.kind, &key.namespace, &key.name, read)
    }

    fn inspect_metadata<T>(
        &self,
        kind: Kind,
        namespace: &str,
        name: &str,
        read: impl FnOnce(&ObjectMeta) -> T,
    ) -> Option<T> {
        fn inspect<R: ClusterResource, T>(
            cluster: &Cluster,
            (namespace, name): (&str, &str),
            read: impl FnOnce(&ObjectMeta) -> T,
        ) -> Option<T> {
            let store = R::store(cluster);
            store.inspect(&store.key(namespace, name), |object| {
                read(object.metadata())
            })
        }
        let at = (namespace, name);
        match kind {
            Kind::Namespace => inspect::<Namespace, T>(self, at, read),
            Kind::Node => inspect::<Node, T>(self, at, read),
            Kind::Pod => inspect::<Pod, T>(self, at, read),
            Kind::ReplicaSet => inspect::<ReplicaSet, T>(self, at, read),
            Kind::ReplicationController => inspect::<ReplicationController, T>(self, at, read),
            Kind::Event => inspect::<Event, T>(self, at, read),
        }
    }
}

/// The simulated kind that an owner reference names; `None` for others.
fn kind_of(owner: &OwnerReference) -> Option<Kind> {
    let group = owner
        .api_version
        .split_once('/')
        .map_or("", |(group, _)| group);
    Kind::ALL
        .into_iter()
        .find(|kind| kind.name() == &*owner.kind && kind.group() == group)
}
