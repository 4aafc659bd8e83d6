//! The owned pods by controller reference, and the orphans by namespace. A hash of the reference's
//! UID or of the namespace selects the shard.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashTable};
use podstorm_objects::{Kind, ObjectMeta, OwnerReference, Str, hash_state};
use smallvec::SmallVec;

use super::columns::NewColumn;
use super::owned_pods::{OwnedPods, OwnerId};
use crate::intern::{FIXED_STATE, KeyId};
use crate::primitives::{CachePadded, Mutex, MutexGuard, lock};

const SHARDS: usize = 64;
/// The tables use the seven highest bits of a hash for tags and the lowest bits for buckets. The
/// shard uses bits between them.
const SHARD_SHIFT: u32 = 40;

/// The owned pods of all owners, and the orphans of all namespaces.
#[derive(Debug)]
pub(super) struct PodsByController(Box<[CachePadded<Mutex<Shard>>]>);

#[derive(Debug)]
struct Shard {
    /// The list of each owner's pods, by the owner's UID. Namespace, kind and name are compared,
    /// too.
    owned: HashTable<Arc<OwnedPods>>,
    orphans: HashMap<Str, Arc<OwnedPods>, RandomState>,
    /// The columns that workloads store for their owners' pods, by the kind of the owner.
    columns: SmallVec<[(Kind, NewColumn); 2]>,
    /// The number of namespaces at which a new one causes the unused ones to be dropped.
    orphans_max: usize,
}

/// The number of namespaces up to which a shard never looks for unused ones.
const ORPHANS_KEPT: usize = 1;

impl Default for PodsByController {
    fn default() -> Self {
        let shard = || Shard {
            owned: HashTable::new(),
            orphans: HashMap::with_hasher(hash_state()),
            columns: SmallVec::new(),
            orphans_max: ORPHANS_KEPT,
        };
        PodsByController(
            (0..SHARDS)
                .map(|_| CachePadded::new(Mutex::new(shard())))
                .collect(),
        )
    }
}

impl PodsByController {
    fn shard(&self, hash: u64) -> MutexGuard<'_, Shard> {
        lock(&self.0[(hash >> SHARD_SHIFT) as usize % SHARDS])
    }

    /// From now on, stores these fields for each pod of an owner of this kind.
    pub(super) fn keep(&self, kind: Kind, new_column: NewColumn) {
        for shard in &self.0 {
            let mut shard = lock(shard);
            shard.columns.retain(|(known, _)| *known != kind);
            shard.columns.push((kind, new_column));
            for owned_pods in &shard.owned {
                if owned_pods.owner_kind() == Some(kind.name()) {
                    owned_pods.lock().keep(new_column);
                }
            }
        }
    }

    /// Returns the pods with the controller reference of an object or, if it has none, the orphans
    /// of its namespace. Creates the list if it does not exist.
    pub(super) fn owned_pods(&self, meta: &ObjectMeta) -> Arc<OwnedPods> {
        match meta.controller() {
            Some(owner) => {
                let hash = hash_of(owner);
                self.shard(hash).owned(hash, &meta.namespace, owner)
            }
            None => self.orphans(&meta.namespace),
        }
    }

    /// Like [`owned_pods`](PodsByController::owned_pods), but returns `None` if the list does not
    /// exist.
    pub(super) fn find(&self, meta: &ObjectMeta) -> Option<Arc<OwnedPods>> {
        match meta.controller() {
            Some(owner) => self.find_owned(&meta.namespace, owner),
            None => self
                .shard(FIXED_STATE.hash_one(&meta.namespace))
                .orphans
                .get(&meta.namespace)
                .cloned(),
        }
    }

    /// Returns the pods with this controller reference; `None` if there is no list of them.
    #[inline]
    pub(super) fn find_owned(
        &self,
        namespace: &Str,
        owner: &OwnerReference,
    ) -> Option<Arc<OwnedPods>> {
        let hash = hash_of(owner);
        self.shard(hash).find_owned(hash, namespace, owner)
    }

    /// Returns the orphans of a namespace; an empty list if there are none.
    pub(super) fn orphans(&self, namespace: &Str) -> Arc<OwnedPods> {
        self.shard(FIXED_STATE.hash_one(namespace))
            .orphans(namespace)
    }

    /// Attaches a cached owner to the list of the pods with its controller reference. Returns the
    /// list.
    pub(super) fn attach(
        &self,
        namespace: &Str,
        owner: &OwnerReference,
        key: KeyId,
    ) -> Arc<OwnedPods> {
        let hash = hash_of(owner);
        let mut shard = self.shard(hash);
        let owned_pods = shard.owned(hash, namespace, owner);
        // Under the shard's lock, so that no other thread drops the list as unused in between.
        owned_pods.set_owner_key(Some(key));
        owned_pods
    }

    /// Drops an owner's list if it has neither pods nor a cached owner. A thread that was about to
    /// add a pod finds the list closed and asks for a new one.
    ///
    /// Called after the last pod has left and after the owner has been detached. The later of the
    /// two calls sees the effect of the other, because both have held the list's lock in between.
    pub(super) fn drop_if_unused(&self, owned_pods: &Arc<OwnedPods>) {
        let Some(owner) = owned_pods.owner_id() else {
            return;
        };
        let hash = FIXED_STATE.hash_one(&owner.uid);
        let mut shard = self.shard(hash);
        if owned_pods.owner_key().is_none()
            && owned_pods.lock().close_if_empty()
            && let Ok(entry) = shard
                .owned
                .find_entry(hash, |held| Arc::ptr_eq(held, owned_pods))
        {
            entry.remove();
        }
    }
}

impl Shard {
    /// Returns the orphans of a namespace. Amortized O(1): namespaces come and go, and unused ones
    /// are dropped whenever there are twice as many namespaces as were in use at the last check.
    fn orphans(&mut self, namespace: &Str) -> Arc<OwnedPods> {
        if let Some(owned_pods) = self.orphans.get(namespace) {
            return owned_pods.clone();
        }
        if self.orphans.len() >= self.orphans_max {
            // Every user got the list from here, under this lock, and each of the list's pods holds
            // a reference, too.
            self.orphans
                .retain(|_, owned_pods| Arc::strong_count(owned_pods) > 1);
            self.orphans_max = (2 * self.orphans.len()).max(ORPHANS_KEPT);
        }
        let owned_pods = Arc::new(OwnedPods::new(namespace.clone(), None, None));
        self.orphans.insert(namespace.clone(), owned_pods.clone());
        owned_pods
    }

    fn owned(&mut self, hash: u64, namespace: &Str, owner: &OwnerReference) -> Arc<OwnedPods> {
        if let Some(owned_pods) = self.find_owned(hash, namespace, owner) {
            return owned_pods;
        }
        let kept = (self.columns.iter()).find(|(kind, _)| kind.name() == &*owner.kind);
        let owned_pods = Arc::new(OwnedPods::new(
            namespace.clone(),
            Some(OwnerId::from_reference(owner)),
            kept.map(|(_, new_column)| *new_column),
        ));
        self.owned
            .insert_unique(hash, owned_pods.clone(), |owned_pods| {
                FIXED_STATE.hash_one(
                    &owned_pods
                        .owner_id()
                        .expect("orphans have their own map")
                        .uid,
                )
            });
        owned_pods
    }

    fn find_owned(
        &self,
        hash: u64,
        namespace: &Str,
        owner: &OwnerReference,
    ) -> Option<Arc<OwnedPods>> {
        let is_it = |owned_pods: &Arc<OwnedPods>| {
            owned_pods.owner_id().is_some_and(|held| held.is(owner))
                && owned_pods.namespace() == namespace
        };
        self.owned.find(hash, is_it).cloned()
    }
}

fn hash_of(owner: &OwnerReference) -> u64 {
    FIXED_STATE.hash_one(&owner.uid)
}
