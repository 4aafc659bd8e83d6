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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use serde_json::{Value, json};

    use super::super::testing::*;
    use super::*;

    fn collect(cluster: &Cluster) -> usize {
        cluster.collect_garbage(1000, at(0))
    }

    fn pods(cluster: &Cluster) -> Vec<String> {
        cluster
            .list::<Pod>(None)
            .0
            .iter()
            .map(|pod| pod.metadata.name.to_string())
            .collect()
    }

    fn owners_of(cluster: &Cluster, name: &str) -> usize {
        cluster
            .get::<Pod>("default", name)
            .unwrap()
            .metadata
            .owner_references
            .len()
    }

    fn delete_set(cluster: &Cluster, propagation: Option<Propagation>) {
        let options = DeleteOptions {
            propagation,
            ..DeleteOptions::default()
        };
        cluster
            .delete::<ReplicaSet>("default", "a", &options, at(0))
            .unwrap();
    }

    /// A cluster with ReplicaSet `a`, its pods `p0` and `p1`, and a pod of nobody.
    fn owned() -> (Cluster, Arc<ReplicaSet>) {
        let cluster = cluster();
        let set = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        for name in ["p0", "p1"] {
            let owners = json!([owned_by(&*set, true, true)]);
            cluster.create(owned_pod(name, owners), at(0)).unwrap();
        }
        cluster.create(pod("free", json!({})), at(0)).unwrap();
        assert_eq!(collect(&cluster), 0, "nobody has lost an owner");
        (cluster, set)
    }

    #[test]
    fn dependents_of_a_deleted_owner_are_deleted() {
        let (cluster, set) = owned();
        delete_set(&cluster, None);
        assert_eq!(pods(&cluster), ["free", "p0", "p1"], "not at once");
        collect(&cluster);
        assert_eq!(pods(&cluster), ["free"]);
        // A sync that was under way creates one more.
        let late = owned_pod("late", json!([owned_by(&*set, true, true)]));
        cluster.create(late, at(0)).unwrap();
        collect(&cluster);
        assert_eq!(pods(&cluster), ["free"]);
        assert_eq!(cluster.garbage_queue_len(), 0);
    }

    #[test]
    fn owners_of_another_uid_or_namespace_are_absent_and_unknown_kinds_are_not() {
        let cluster = cluster();
        let set = cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        let live = owned_by(&*set, true, true);
        let other_uid = merged(live.clone(), json!({"uid": "gone"}));
        let unknown = merged(
            live.clone(),
            json!({"apiVersion": "apps/v1", "kind": "Deployment"}),
        );
        let other_group = merged(live.clone(), json!({"apiVersion": "v1"}));
        let table = [
            ("live", json!([live]), true),
            ("uid", json!([other_uid]), false),
            ("unknown", json!([unknown]), true),
            ("group", json!([other_group]), true),
        ];
        for (name, owners, _) in &table {
            cluster
                .create(owned_pod(name, owners.clone()), at(0))
                .unwrap();
        }
        let mut elsewhere = owned_pod("elsewhere", json!([live]));
        elsewhere.metadata.namespace = "other".into();
        cluster.create(elsewhere, at(0)).unwrap();
        collect(&cluster);
        let mut kept: Vec<&str> = table
            .iter()
            .filter(|(_, _, kept)| *kept)
            .map(|(name, _, _)| *name)
            .collect();
        kept.sort_unstable();
        assert_eq!(pods(&cluster), kept);
    }

    #[test]
    fn a_dependent_with_another_live_owner_only_loses_the_reference() {
        for policy in [Propagation::Background, Propagation::Foreground] {
            let (cluster, set) = owned();
            let second = cluster.create(replica_set("b", json!({})), at(0)).unwrap();
            let owners = json!([owned_by(&*set, true, true), owned_by(&*second, false, true)]);
            cluster.create(owned_pod("both", owners), at(0)).unwrap();
            delete_set(&cluster, Some(policy));
            collect(&cluster);
            assert_eq!(pods(&cluster), ["both", "free"], "{policy:?}");
            assert_eq!(owners_of(&cluster, "both"), 1);
            assert!(cluster.get::<ReplicaSet>("default", "a").is_err());
        }
    }

    #[test]
    fn orphaning_strips_the_references_and_then_removes_the_owner() {
        let (cluster, _) = owned();
        let mut sets = watch::<ReplicaSet>(&cluster);
        delete_set(&cluster, Some(Propagation::Orphan));
        let version = cluster.resource_version();
        assert_eq!(owners_of(&cluster, "p0"), 1, "not at once");
        collect(&cluster);
        assert_eq!(pods(&cluster), ["free", "p0", "p1"]);
        assert_eq!(
            (owners_of(&cluster, "p0"), owners_of(&cluster, "p1")),
            (0, 0)
        );
        let wanted = [
            format!("MODIFIED a {version}"),
            format!("DELETED a {}", version + 3),
        ];
        assert_eq!(drain(&mut sets), wanted);
        assert_eq!(cluster.write_counts().pods.released, 2);
    }

    #[test]
    fn a_replication_controller_leaves_its_pods_by_default() {
        let cluster = cluster();
        let value = workload("a", json!({"app": "web"}));
        let owner = cluster
            .create(read::<ReplicationController>(value), at(0))
            .unwrap();
        let owners = json!([owned_by(&*owner, true, true)]);
        cluster.create(owned_pod("p", owners), at(0)).unwrap();
        let options = DeleteOptions::default();
        cluster
            .delete::<ReplicationController>("default", "a", &options, at(0))
            .unwrap();
        collect(&cluster);
        assert!(
            cluster
                .get::<ReplicationController>("default", "a")
                .is_err()
        );
        assert_eq!(owners_of(&cluster, "p"), 0);
    }

    #[test]
    fn foreground_deletion_waits_for_the_dependents_that_block() {
        let (cluster, set) = owned();
        let held = json!([owned_by(&*set, false, true)]);
        let held = json!({"metadata": {"ownerReferences": held, "finalizers": ["a.b/c"]}});
        let held = cluster.create(pod("held", held), at(0)).unwrap();
        let loose = json!([owned_by(&*set, false, false)]);
        let loose = json!({"metadata": {"ownerReferences": loose, "finalizers": ["a.b/c"]}});
        cluster.create(pod("loose", loose), at(0)).unwrap();
        delete_set(&cluster, Some(Propagation::Foreground));
        collect(&cluster);
        assert_eq!(pods(&cluster), ["free", "held", "loose"]);
        let waiting = cluster.get::<ReplicaSet>("default", "a").unwrap();
        assert!(waiting.metadata.is_deleting());
        let mut held = Pod::clone(&cluster.get("default", &held.metadata.name).unwrap());
        held.metadata.finalizers = None;
        cluster.update(held, at(0)).unwrap();
        collect(&cluster);
        assert!(cluster.get::<ReplicaSet>("default", "a").is_err());
        assert_eq!(
            pods(&cluster),
            ["free", "loose"],
            "what does not block may go later"
        );
    }

    #[test]
    fn a_blocking_dependent_that_is_released_unblocks() {
        let (cluster, set) = owned();
        let held = json!([owned_by(&*set, true, true)]);
        let held = json!({"metadata": {"ownerReferences": held, "finalizers": ["a.b/c"]}});
        cluster.create(pod("held", held), at(0)).unwrap();
        delete_set(&cluster, Some(Propagation::Foreground));
        collect(&cluster);
        assert!(cluster.get::<ReplicaSet>("default", "a").is_ok());
        let mut held = Pod::clone(&cluster.get("default", "held").unwrap());
        held.metadata.owner_references.clear();
        cluster.update(held, at(0)).unwrap();
        collect(&cluster);
        assert!(cluster.get::<ReplicaSet>("default", "a").is_err());
    }

    #[test]
    fn foreground_deletion_of_an_owner_without_dependents_ends_at_once() {
        let cluster = cluster();
        cluster.create(replica_set("a", json!({})), at(0)).unwrap();
        delete_set(&cluster, Some(Propagation::Foreground));
        collect(&cluster);
        assert!(cluster.get::<ReplicaSet>("default", "a").is_err());
    }

    #[test]
    fn bound_pods_are_collected_gracefully() {
        let (cluster, _) = owned();
        cluster.bind("default", "p0", &"n1".into(), at(0)).unwrap();
        let pod = cluster.get::<Pod>("default", "p0").unwrap();
        let mut long = Pod::clone(&pod);
        let mut spec = podstorm::object::PodSpec::clone(&long.spec);
        spec.termination_grace_period_seconds = Some(30);
        spec.fields
            .insert("terminationGracePeriodSeconds".into(), Value::from(30));
        long.spec = spec.into();
        assert_eq!(long.grace_period_seconds(None), Some(30));
        delete_set(&cluster, None);
        collect(&cluster);
        let left = cluster.get::<Pod>("default", "p0");
        assert!(left.is_err() || left.unwrap().metadata.is_deleting());
    }

    #[test]
    fn the_waker_is_called_when_the_queue_fills() {
        let (cluster, _) = owned();
        let calls = Arc::new(AtomicU32::new(0));
        let counter = calls.clone();
        cluster.set_gc_waker(Some(Arc::new(move || {
            counter.fetch_add(1, Ordering::Relaxed);
        })));
        delete_set(&cluster, None);
        assert_eq!(calls.load(Ordering::Relaxed), 1);
        assert_eq!(cluster.collect_garbage(1, at(0)), 1, "one step at a time");
        assert!(cluster.garbage_queue_len() > 0);
        collect(&cluster);
        assert_eq!(cluster.garbage_queue_len(), 0);
    }

    #[test]
    fn collection_is_in_order_of_names() {
        let (cluster, _) = owned();
        let mut watch = watch::<Pod>(&cluster);
        delete_set(&cluster, None);
        collect(&cluster);
        let deleted: Vec<String> = drain(&mut watch)
            .into_iter()
            .filter(|event| event.starts_with("DELETED"))
            .collect();
        assert!(deleted[0].starts_with("DELETED p0 ") && deleted[1].starts_with("DELETED p1 "));
    }

    #[test]
    fn work_in_the_queue_is_there_once() {
        let collector = GarbageCollector::new();
        collector.push(Work::Dependents("u".into()));
        collector.push(Work::Dependents("u".into()));
        assert!(collector.pop().is_some());
        assert!(collector.pop().is_none());
    }
}
