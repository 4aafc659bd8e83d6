//! The pod store: pods by name, each with its list of owned pods, and the changes by deltas.

use std::sync::Arc;

use hashbrown::HashSet;
use podstorm_objects::{
    Kind, Labels, ObjectMeta, OwnerReference, Pod, ResourceVersion, Str, hash_state,
};

use super::by_controller::PodsByController;
use super::index::{Index, NameHash, PodSlot};
use super::label_set::{LabelSet, LabelSetChange};
use super::namespaces::{NamespacedSelector, Namespaces};
use super::owned_pods::{Member, Members, OwnedPods, OwnerId};
use super::{Delta, PodFields, StoreVersion};
use crate::intern::{KeyId, StrTable};
use crate::primitives::{CachePadded, Mutex, lock};

/// The cached pods of all namespaces. Informers apply deltas, those of each pod in order; workers
/// read owned pods.
#[derive(Debug)]
pub struct PodCache {
    pub(super) index: Index,
    pub(super) by_controller: PodsByController,
    pub(super) namespaces: Mutex<Namespaces>,
    pub(super) nodes: StrTable,
    /// The version of the store, in a separate cache line: every sync reads it, and threads that
    /// apply events must not slow each other down through it.
    version: CachePadded<StoreVersion>,
}

/// The change that a delta caused.
#[derive(Clone, Debug)]
pub struct PodChange {
    /// The pod as the store had it; `None` if the store did not have it.
    pub old: Option<Arc<Pod>>,
    /// The pod now or, if `deleted`, its last state.
    pub new: Arc<Pod>,
    /// Whether the pod was deleted.
    pub deleted: bool,
    /// The owned pods of the old pod's controller; `None` if the store did not have the pod.
    pub old_owned_pods: Option<Arc<OwnedPods>>,
    /// The owned pods of the new pod's controller; `None` if no list contains the new pod.
    pub new_owned_pods: Option<Arc<OwnedPods>>,
}

impl PodChange {
    /// Reports whether the change concerns a workload with owners of this kind: the pod belongs or
    /// belonged to such an owner, or it is or was an orphan that can be adopted.
    #[inline]
    pub fn concerns(&self, owners: Kind) -> bool {
        let is_theirs = |owned_pods: &Option<Arc<OwnedPods>>| {
            let owner = |owned_pods: &Arc<OwnedPods>| {
                let kind = owned_pods.owner_kind();
                kind.is_none_or(|kind| kind == owners.name())
            };
            owned_pods.as_ref().is_some_and(owner)
        };
        is_theirs(&self.new_owned_pods)
            || is_theirs(&self.old_owned_pods)
            || self.new.metadata.controller().is_none()
    }
}

impl Default for PodCache {
    fn default() -> Self {
        PodCache::new()
    }
}

impl PodCache {
    /// Creates an empty cache.
    pub fn new() -> PodCache {
        let nodes = StrTable::new();
        let unbound = nodes.intern("");
        assert_eq!(unbound, 0, "the empty name gets number 0");
        PodCache {
            index: Index::default(),
            by_controller: PodsByController::default(),
            namespaces: Mutex::new(Namespaces::new()),
            nodes,
            version: CachePadded::default(),
        }
    }

    /// From now on, stores these fields for each pod of an owner of this kind, in place of the
    /// fields stored so far; see [`Members::fields`]. O(1) before the first pod is cached, then
    /// O(owners) plus O(pods) of the owners of this kind.
    pub fn keep<F: PodFields>(&self, owner_kind: Kind) {
        self.by_controller
            .keep(owner_kind, || Box::new(Vec::<F>::new()));
    }

    /// Returns the number of cached pods. Locks the shards one after the other.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// Reports whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the version that the store has reached.
    #[inline]
    pub fn version(&self) -> &StoreVersion {
        &self.version
    }

    /// Returns the pod with this name; `None` if it is not cached.
    #[inline]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let name_hash = NameHash::new(namespace, name);
        let shard = self.index.lock(name_hash.shard);
        let slot = shard.find(name_hash.hash, namespace, name)?;
        Some(shard.slot(slot).pod.clone())
    }

    /// Reports whether the pod with this name is cached.
    #[inline]
    pub fn contains(&self, namespace: &str, name: &str) -> bool {
        let name_hash = NameHash::new(namespace, name);
        let shard = self.index.lock(name_hash.shard);
        shard.find(name_hash.hash, namespace, name).is_some()
    }

    /// Calls `each` with every cached pod, in no particular order. Locks the shards one after the
    /// other, each while it visits the pods of the shard. O(pods).
    pub fn for_each(&self, mut each: impl FnMut(&Arc<Pod>)) {
        for shard in self.index.iter() {
            shard.slots().for_each(|slot| each(&slot.pod));
        }
    }

    /// Applies a watch event, advances the store's version to that of the event, and returns the
    /// change. Amortized O(1).
    #[inline]
    pub fn apply(&self, delta: Delta<Pod>) -> PodChange {
        let change = self.apply_out_of_order(delta);
        self.version.set(&change.new.metadata.resource_version);
        change
    }

    /// Applies a watch event without advancing the store's version. Several threads may apply the
    /// events of different pods, those of each pod in order. When all events up to a version are
    /// applied, one thread must set that version with [`PodCache::bookmark`].
    ///
    /// Threads that apply events of different controllers' pods share no lock, except by chance.
    #[inline]
    pub fn apply_out_of_order(&self, delta: Delta<Pod>) -> PodChange {
        match delta {
            Delta::Applied(pod) => self.put(pod),
            Delta::Deleted(pod) => self.take(pod),
        }
    }

    /// Returns the pods with this controller reference in a namespace; `None` if there are none.
    #[inline]
    pub fn owned_by(&self, namespace: &Str, owner: &OwnerReference) -> Option<Arc<OwnedPods>> {
        self.by_controller.find_owned(namespace, owner)
    }

    /// Returns the changes of the periodic resync: an update of every pod to itself. The handlers
    /// ignore them.
    pub fn resync(&self) -> Vec<PodChange> {
        let unchanged = |slot: &PodSlot| PodChange {
            old: Some(slot.pod.clone()),
            new: slot.pod.clone(),
            deleted: false,
            old_owned_pods: Some(slot.owned_pods.clone()),
            new_owned_pods: Some(slot.owned_pods.clone()),
        };
        let mut changes = Vec::new();
        for shard in self.index.iter() {
            changes.extend(shard.slots().map(unchanged));
        }
        changes
    }

    /// Advances the store's version without a change.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.version.set(version);
    }

    /// Applies a tombstone: removes the pod with this name. The handlers get `last_known`, which
    /// may be older than the pod in the store.
    pub fn apply_tombstone(
        &self,
        namespace: &str,
        name: &str,
        last_known: Option<Arc<Pod>>,
    ) -> Option<PodChange> {
        let (old, old_owned_pods) = self.remove(namespace, name).unzip();
        let new = last_known?;
        let new_owned_pods = self.by_controller.find(&new.metadata);
        Some(PodChange {
            old,
            new,
            deleted: true,
            old_owned_pods,
            new_owned_pods,
        })
    }

    /// Attaches a cached owner to the list of the pods that refer to it. Returns the list.
    #[inline]
    pub fn attach_owner(
        &self,
        namespace: &Str,
        owner: &OwnerReference,
        key: KeyId,
    ) -> Arc<OwnedPods> {
        self.by_controller.attach(namespace, owner, key)
    }

    /// Detaches an owner from its list of owned pods. Drops the list if it is empty.
    #[inline]
    pub fn detach_owner(&self, owned_pods: &Arc<OwnedPods>) {
        owned_pods.set_owner_key(None);
        self.by_controller.drop_if_unused(owned_pods);
    }

    /// Returns the orphans of a namespace; an empty list if there are none.
    #[inline]
    pub fn orphans(&self, namespace: &Str) -> Arc<OwnedPods> {
        self.by_controller.orphans(namespace)
    }

    /// Returns the dense number of a node's name. The empty name has number 0.
    pub fn node_number(&self, node: &str) -> u32 {
        self.nodes.intern(node)
    }

    /// Fills `found` with the label sets that any of the selectors matches, each with its owned
    /// pods.
    pub fn matching_label_sets(
        &self,
        selectors: &[NamespacedSelector],
        found: &mut Vec<(Labels, Arc<OwnedPods>)>,
    ) {
        lock(&self.namespaces).matching(selectors, found);
    }

    /// Calls `found` for each pod that any of the selectors matches, in no particular order, while
    /// holding the lock of the pod's owner. `label_sets` is scratch memory. O(pods of the owners
    /// with a matching pod), where the orphans of a namespace count as one owner's pods. Reads each
    /// owner once, under one lock. Allocates only if an owner's pods have several label sets, like
    /// those of an indexed Job.
    pub fn for_each_matching(
        &self,
        selectors: &[NamespacedSelector],
        label_sets: &mut Vec<(Labels, Arc<OwnedPods>)>,
        mut found: impl FnMut(&Arc<Pod>, &Member),
    ) {
        self.matching_label_sets(selectors, label_sets);
        // The owners with several label sets that have been read already. Visiting an owner once
        // per label set would be quadratic, and would find a pod twice if its labels change in
        // between.
        let mut seen = HashSet::with_hasher(hash_state());
        for (labels, owned_pods) in label_sets.drain(..) {
            let address = Arc::as_ptr(&owned_pods).addr();
            if !seen.is_empty() && seen.contains(&address) {
                continue;
            }
            let members = owned_pods.lock();
            // The number of label sets never shrinks, so an owner with one set has one entry here.
            if members.label_sets().len() == 1 {
                if members.label_set_of(&labels).is_some() {
                    members.iter().for_each(|(pod, member)| found(pod, member));
                }
                continue;
            }
            seen.insert(address);
            let own = selectors
                .iter()
                .filter(|it| it.namespace == *owned_pods.namespace());
            let matches = |set: &LabelSet| own.clone().any(|it| it.selector.matches(&set.labels));
            let matches: Vec<bool> = members.label_sets().iter().map(matches).collect();
            let all = members.iter();
            let matching = all.filter(|(_, member)| matches[member.label_set as usize]);
            matching.for_each(|(pod, member)| found(pod, member));
        }
    }

    pub(super) fn put(&self, pod: Arc<Pod>) -> PodChange {
        let (namespace, name) = (&pod.metadata.namespace, &*pod.metadata.name);
        let name_hash = NameHash::new(namespace, name);
        let mut shard = self.index.lock(name_hash.shard);
        let Some(slot) = shard.find(name_hash.hash, namespace, name) else {
            let node = self.node_of(&pod);
            let (owned_pods, handle) = self.enter(&pod, node);
            shard.insert(PodSlot {
                pod: pod.clone(),
                owned_pods: owned_pods.clone(),
                handle,
                hash: name_hash.hash,
            });
            return PodChange {
                old: None,
                new: pod,
                deleted: false,
                old_owned_pods: None,
                new_owned_pods: Some(owned_pods),
            };
        };
        let slot = shard.slot_mut(slot);
        let old = std::mem::replace(&mut slot.pod, pod.clone());
        let old_owned_pods = slot.owned_pods.clone();
        let new_owned_pods = if same_controller(&old.metadata, &pod.metadata) {
            let mut members = old_owned_pods.lock();
            let node = if old.node_name == pod.node_name {
                members.node_of(slot.handle)
            } else {
                self.node_of(&pod)
            };
            let change = members.update(slot.handle, pod.clone(), node);
            self.note(&old_owned_pods, change);
            drop(members);
            old_owned_pods.clone()
        } else {
            let node = self.node_of(&pod);
            self.leave(&old_owned_pods, slot.handle);
            let (owned_pods, handle) = self.enter(&pod, node);
            slot.owned_pods = owned_pods.clone();
            slot.handle = handle;
            owned_pods
        };
        PodChange {
            old: Some(old),
            new: pod,
            deleted: false,
            old_owned_pods: Some(old_owned_pods),
            new_owned_pods: Some(new_owned_pods),
        }
    }

    pub(super) fn take(&self, last: Arc<Pod>) -> PodChange {
        let meta = &last.metadata;
        let Some((old, old_owned_pods)) = self.remove(&meta.namespace, &meta.name) else {
            let new_owned_pods = self.by_controller.find(meta);
            return PodChange {
                old: None,
                new: last,
                deleted: true,
                old_owned_pods: None,
                new_owned_pods,
            };
        };
        let new_owned_pods = if same_controller(&old.metadata, meta) {
            Some(old_owned_pods.clone())
        } else {
            self.by_controller.find(meta)
        };
        PodChange {
            old: Some(old),
            new: last,
            deleted: true,
            old_owned_pods: Some(old_owned_pods),
            new_owned_pods,
        }
    }

    /// Removes a pod. Returns it with the list of owned pods that contained it; `None` if it is not
    /// cached.
    fn remove(&self, namespace: &str, name: &str) -> Option<(Arc<Pod>, Arc<OwnedPods>)> {
        let name_hash = NameHash::new(namespace, name);
        let mut shard = self.index.lock(name_hash.shard);
        let slot = shard.find(name_hash.hash, namespace, name)?;
        let PodSlot {
            pod,
            owned_pods,
            handle,
            ..
        } = shard.remove(slot);
        self.leave(&owned_pods, handle);
        Some((pod, owned_pods))
    }

    /// Adds a pod to the owned pods of its controller, or to the orphans of its namespace.
    fn enter(&self, pod: &Arc<Pod>, node: u32) -> (Arc<OwnedPods>, u32) {
        loop {
            let owned_pods = self.by_controller.owned_pods(&pod.metadata);
            let mut members = owned_pods.lock();
            // The list was dropped as unused since the lookup. The next lookup creates a new one.
            if members.is_closed() {
                continue;
            }
            let (handle, change) = members.insert(pod.clone(), node);
            self.settle(&owned_pods, &members, change);
            drop(members);
            return (owned_pods, handle);
        }
    }

    fn leave(&self, owned_pods: &Arc<OwnedPods>, handle: u32) {
        let mut members = owned_pods.lock();
        let change = members.remove(handle);
        self.settle(owned_pods, &members, change);
        drop(members);
        if owned_pods.owner_key().is_none() {
            self.by_controller.drop_if_unused(owned_pods);
        }
    }

    /// Publishes a change of the number of owned pods.
    fn settle(&self, owned_pods: &Arc<OwnedPods>, members: &Members, change: LabelSetChange) {
        owned_pods.set_pod_count(members.len());
        self.note(owned_pods, change);
    }

    /// Records label sets that were added or removed. The caller has locked the owned pods, so
    /// `namespaces` gets an owner's changes in order.
    pub(super) fn note(&self, owned_pods: &Arc<OwnedPods>, change: LabelSetChange) {
        if !change.is_none() {
            lock(&self.namespaces).note(owned_pods, change);
        }
    }

    pub(super) fn node_of(&self, pod: &Pod) -> u32 {
        let node = pod.node_name.as_deref();
        node.map_or(0, |node| self.nodes.intern(node))
    }
}

/// Reports whether both objects have the same controller: the same kind, name and UID.
pub(super) fn same_controller(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    match (a.controller(), b.controller()) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || OwnerId::is_same(a, b),
        _ => false,
    }
}
