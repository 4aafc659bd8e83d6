//! The pod store: names to pods, pods to the group of their controller, and what a delta changed.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::{HashMap, HashTable};

use super::group::{Group, GroupOwner, LabelSetChange};
use super::namespaces::{Namespaces, RelatedSelector};
use super::{Delta, StoreVersion};
use crate::intern::{FIXED_STATE, KeyId, StrTable};
use crate::object::{Labels, ObjectMeta, OwnerReference, Pod, ResourceVersion, SharedText};
use crate::primitives::{Mutex, MutexGuard, lock};

/// The cached pods of all namespaces. One informer applies deltas; workers read groups.
#[derive(Debug)]
pub struct PodCache {
    index: Mutex<Index>,
    /// Groups by owner or, for orphans, by namespace. Apart from the index, so that parents can
    /// find their group while the informer applies.
    groups: Mutex<Groups>,
    namespaces: Mutex<Namespaces>,
    nodes: StrTable,
    version: StoreVersion,
    hasher: RandomState,
}

/// What a delta did.
#[derive(Clone, Debug)]
pub struct PodChange {
    /// The pod as the store had it; `None` when it was not known.
    pub old: Option<Arc<Pod>>,
    /// The pod as it is now or, when `deleted`, in its last state.
    pub new: Arc<Pod>,
    /// Whether the pod is gone.
    pub deleted: bool,
    /// Group of the old pod's controller; `None` when not known.
    pub(crate) old_group: Option<Arc<Group>>,
    /// Group of the new pod's controller; `None` when no such group exists.
    pub(crate) new_group: Option<Arc<Group>>,
}

#[derive(Debug, Default)]
struct Index {
    /// Slots by namespace and name.
    by_name: HashTable<u32>,
    slots: Vec<Option<Slot>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Slot {
    pod: Arc<Pod>,
    group: Arc<Group>,
    /// The pod's position in its group.
    position: u32,
}

#[derive(Debug)]
struct Groups {
    /// By the owner's UID; namespace, kind and name are compared beyond it.
    owned: HashTable<Arc<Group>>,
    orphans: HashMap<SharedText, Arc<Group>, RandomState>,
    hasher: RandomState,
}

impl Groups {
    /// The group of a controller reference, made when it doesn't exist.
    fn owned(&mut self, namespace: &SharedText, owner: &OwnerReference) -> Arc<Group> {
        if let Some(group) = self.find_owned(namespace, owner) {
            return group;
        }
        let group = Arc::new(Group::new(namespace.clone(), Some(GroupOwner::of(owner))));
        let Groups { owned, hasher, .. } = self;
        owned.insert_unique(hasher.hash_one(&owner.uid), group.clone(), |group| {
            hasher.hash_one(&group.owner().expect("only owned groups are here").uid)
        });
        group
    }

    fn find_owned(&self, namespace: &SharedText, owner: &OwnerReference) -> Option<Arc<Group>> {
        let is_it = |group: &Arc<Group>| {
            group.owner().is_some_and(|held| held.is(owner)) && group.namespace() == namespace
        };
        self.owned
            .find(self.hasher.hash_one(&owner.uid), is_it)
            .cloned()
    }

    fn orphans(&mut self, namespace: &SharedText) -> Arc<Group> {
        self.orphans
            .entry(namespace.clone())
            .or_insert_with_key(|namespace| Arc::new(Group::new(namespace.clone(), None)))
            .clone()
    }

    fn remove_owned(&mut self, group: &Arc<Group>) {
        let Some(owner) = group.owner() else { return };
        let hash = self.hasher.hash_one(&owner.uid);
        if let Ok(entry) = self.owned.find_entry(hash, |held| Arc::ptr_eq(held, group)) {
            entry.remove();
        }
    }
}

impl Default for PodCache {
    fn default() -> Self {
        PodCache::new()
    }
}

impl PodCache {
    /// An empty cache.
    pub fn new() -> PodCache {
        let hasher = FIXED_STATE;
        let nodes = StrTable::new();
        let unbound = nodes.intern("");
        assert_eq!(
            unbound, 0,
            "the first number is that of pods without a node"
        );
        PodCache {
            index: Mutex::default(),
            groups: Mutex::new(Groups {
                owned: HashTable::new(),
                orphans: HashMap::with_hasher(hasher.clone()),
                hasher: hasher.clone(),
            }),
            namespaces: Mutex::new(Namespaces::new()),
            nodes,
            version: StoreVersion::default(),
            hasher,
        }
    }

    /// How many pods are cached.
    pub fn len(&self) -> usize {
        self.lock_index().by_name.len()
    }

    /// Whether no pod is cached.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The version that the store has reached.
    pub fn version(&self) -> &StoreVersion {
        &self.version
    }

    /// The pod of that name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let index = self.lock_index();
        let slot = index.find(self.hash(namespace, name), namespace, name)?;
        Some(index.slot(slot).pod.clone())
    }

    /// Applies one event of the watch and says what it changed. O(1) amortised.
    pub fn apply(&self, delta: Delta<Pod>) -> PodChange {
        let mut index = self.lock_index();
        let change = match delta {
            Delta::Applied(pod) => self.put(&mut index, pod),
            Delta::Deleted(pod) => self.take(&mut index, pod),
        };
        self.version.set(&change.new.metadata.resource_version);
        change
    }

    /// Replaces the whole store by a list: pods that are missing from it come first, as deleted
    /// in the state last cached (tombstones), in name order; then the items in list order.
    pub fn replace(&self, items: Vec<Arc<Pod>>, version: &ResourceVersion) -> Vec<PodChange> {
        let mut index = self.lock_index();
        let listed: BTreeMap<(&str, &str), ()> = items
            .iter()
            .map(|pod| ((&*pod.metadata.namespace, &*pod.metadata.name), ()))
            .collect();
        let mut gone: Vec<Arc<Pod>> = index
            .slots
            .iter()
            .flatten()
            .map(|slot| slot.pod.clone())
            .filter(|pod| !listed.contains_key(&(&*pod.metadata.namespace, &*pod.metadata.name)))
            .collect();
        gone.sort_by(|a, b| {
            (&*a.metadata.namespace, &*a.metadata.name)
                .cmp(&(&*b.metadata.namespace, &*b.metadata.name))
        });
        let mut changes: Vec<PodChange> = gone
            .into_iter()
            .map(|pod| self.take(&mut index, pod))
            .collect();
        changes.extend(items.into_iter().map(|pod| self.put(&mut index, pod)));
        self.version.set(version);
        changes
    }

    /// The periodic resync: an update of every pod to itself, which handlers ignore.
    pub fn resync(&self) -> Vec<PodChange> {
        let index = self.lock_index();
        let unchanged = |slot: &Slot| PodChange {
            old: Some(slot.pod.clone()),
            new: slot.pod.clone(),
            deleted: false,
            old_group: Some(slot.group.clone()),
            new_group: Some(slot.group.clone()),
        };
        index.slots.iter().flatten().map(unchanged).collect()
    }

    /// Advances the store's version without a change.
    pub fn bookmark(&self, version: &ResourceVersion) {
        self.version.set(version);
    }

    /// The change that a tombstone with this object stands for: `key` leaves the store, and the
    /// handlers see `last_known`, which may be older than what the store had.
    pub fn apply_tombstone(
        &self,
        namespace: &str,
        name: &str,
        last_known: Option<Arc<Pod>>,
    ) -> Option<PodChange> {
        let mut index = self.lock_index();
        let slot = index.find(self.hash(namespace, name), namespace, name);
        let old = slot.map(|slot| self.remove_slot(&mut index, slot));
        let new = last_known?;
        let new_group = self.find_group_of(&new.metadata);
        let (old, old_group) = old.map_or((None, None), |(pod, group)| (Some(pod), Some(group)));
        Some(PodChange {
            old,
            new,
            deleted: true,
            old_group,
            new_group,
        })
    }

    /// Makes a parent known to the pods that refer to it, and returns their group.
    pub(crate) fn attach_parent(
        &self,
        namespace: &SharedText,
        owner: &OwnerReference,
        key: KeyId,
    ) -> Arc<Group> {
        let mut groups = self.lock_groups();
        let group = groups.owned(namespace, owner);
        // Under the lock, so that the group isn't dropped as unused in between.
        group.set_parent(Some(key));
        group
    }

    /// Takes a parent back; its group stays as long as it has pods.
    pub(crate) fn detach_parent(&self, group: &Arc<Group>) {
        group.set_parent(None);
        // The informer may be about to put a pod into the group: wait for it.
        let _informer = self.lock_index();
        self.drop_group_if_unused(group);
    }

    /// The orphans of a namespace; an empty group where there are none.
    pub(crate) fn orphans(&self, namespace: &SharedText) -> Arc<Group> {
        self.lock_groups().orphans(namespace)
    }

    /// The dense number of a node's name; the empty name has 0.
    pub(crate) fn node_number(&self, node: &str) -> u32 {
        self.nodes.intern(node)
    }

    /// Drops an owner's group when it has neither pods nor a parent. The index is locked.
    fn drop_group_if_unused(&self, group: &Arc<Group>) {
        let mut groups = self.lock_groups();
        if !group.is_orphans() && group.parent().is_none() && group.lock().len() == 0 {
            groups.remove_owned(group);
        }
    }

    /// Fills `found` with the label sets that one of the selectors matches, with their groups.
    pub(crate) fn matching_label_sets(
        &self,
        selectors: &[RelatedSelector],
        found: &mut Vec<(Labels, Arc<Group>)>,
    ) {
        lock(&self.namespaces).matching(selectors, found);
    }

    fn put(&self, index: &mut Index, pod: Arc<Pod>) -> PodChange {
        let (namespace, name) = (&pod.metadata.namespace, &*pod.metadata.name);
        let hash = self.hash(namespace, name);
        let node = pod.node_name.as_deref();
        let Some(slot_number) = index.find(hash, namespace, name) else {
            let group = self.group_of(&pod.metadata);
            let node = node.map_or(0, |node| self.nodes.intern(node));
            let slot_number = index.allocate();
            let position = self.enter(&group, slot_number, pod.clone(), node);
            index.slots[slot_number as usize] = Some(Slot {
                pod: pod.clone(),
                group: group.clone(),
                position,
            });
            let Index { by_name, slots, .. } = index;
            by_name.insert_unique(hash, slot_number, |&slot| {
                let meta = &slots[slot as usize]
                    .as_ref()
                    .expect("indexed slots are taken")
                    .pod;
                self.hash(&meta.metadata.namespace, &meta.metadata.name)
            });
            return PodChange {
                old: None,
                new: pod,
                deleted: false,
                old_group: None,
                new_group: Some(group),
            };
        };
        let slot = index.slot_mut(slot_number);
        let old = std::mem::replace(&mut slot.pod, pod.clone());
        let old_group = slot.group.clone();
        let position = slot.position;
        let new_group = if same_controller(&old.metadata, &pod.metadata) {
            let change = {
                let mut members = old_group.lock();
                let node = match node {
                    None => 0,
                    Some(node) if old.node_name.as_deref() == Some(node) => {
                        members.members()[position as usize].node
                    }
                    Some(node) => self.nodes.intern(node),
                };
                members.update(position, pod.clone(), node)
            };
            self.note(&old_group, change);
            old_group.clone()
        } else {
            let node = node.map_or(0, |node| self.nodes.intern(node));
            self.leave(index, &old_group, position);
            let group = self.group_of(&pod.metadata);
            let position = self.enter(&group, slot_number, pod.clone(), node);
            let slot = index.slot_mut(slot_number);
            slot.group = group.clone();
            slot.position = position;
            group
        };
        PodChange {
            old: Some(old),
            new: pod,
            deleted: false,
            old_group: Some(old_group),
            new_group: Some(new_group),
        }
    }

    fn take(&self, index: &mut Index, last: Arc<Pod>) -> PodChange {
        let (namespace, name) = (&last.metadata.namespace, &*last.metadata.name);
        let slot = index.find(self.hash(namespace, name), namespace, name);
        let Some((old, old_group)) = slot.map(|slot| self.remove_slot(index, slot)) else {
            let new_group = self.find_group_of(&last.metadata);
            return PodChange {
                old: None,
                new: last,
                deleted: true,
                old_group: None,
                new_group,
            };
        };
        let new_group = if same_controller(&old.metadata, &last.metadata) {
            Some(old_group.clone())
        } else {
            self.find_group_of(&last.metadata)
        };
        PodChange {
            old: Some(old),
            new: last,
            deleted: true,
            old_group: Some(old_group),
            new_group,
        }
    }

    fn remove_slot(&self, index: &mut Index, slot_number: u32) -> (Arc<Pod>, Arc<Group>) {
        let slot = index.slots[slot_number as usize]
            .take()
            .expect("found slots are taken");
        let meta = &slot.pod.metadata;
        let hash = self.hash(&meta.namespace, &meta.name);
        index
            .by_name
            .find_entry(hash, |&at| at == slot_number)
            .expect("a taken slot is indexed")
            .remove();
        index.free.push(slot_number);
        self.leave(index, &slot.group, slot.position);
        if slot.group.parent().is_none() {
            self.drop_group_if_unused(&slot.group);
        }
        (slot.pod, slot.group)
    }

    /// Adds a pod to a group and returns its position.
    fn enter(&self, group: &Arc<Group>, slot: u32, pod: Arc<Pod>, node: u32) -> u32 {
        let (position, change) = {
            let mut members = group.lock();
            let change = members.insert(slot, pod, node);
            group.set_pod_count(members.len());
            (members.len() - 1, change)
        };
        self.note(group, change);
        u32::try_from(position).expect("fewer pods than 32 bits count")
    }

    fn leave(&self, index: &mut Index, group: &Arc<Group>, position: u32) {
        let (moved, change) = {
            let mut members = group.lock();
            let removed = members.remove(position);
            group.set_pod_count(members.len());
            removed
        };
        if let Some(moved) = moved {
            index.slot_mut(moved).position = position;
        }
        self.note(group, change);
    }

    fn note(&self, group: &Arc<Group>, change: LabelSetChange) {
        if change.came.is_some() || change.went.is_some() {
            lock(&self.namespaces).note(group, change);
        }
    }

    fn group_of(&self, meta: &ObjectMeta) -> Arc<Group> {
        match meta.controller() {
            Some(owner) => self.lock_groups().owned(&meta.namespace, owner),
            None => self.lock_groups().orphans(&meta.namespace),
        }
    }

    fn find_group_of(&self, meta: &ObjectMeta) -> Option<Arc<Group>> {
        let groups = self.lock_groups();
        match meta.controller() {
            Some(owner) => groups.find_owned(&meta.namespace, owner),
            None => groups.orphans.get(&meta.namespace).cloned(),
        }
    }

    fn hash(&self, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((name, namespace))
    }

    fn lock_index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }

    fn lock_groups(&self) -> MutexGuard<'_, Groups> {
        lock(&self.groups)
    }
}

/// Whether both have the same controller as far as grouping goes.
fn same_controller(a: &ObjectMeta, b: &ObjectMeta) -> bool {
    match (a.controller(), b.controller()) {
        (None, None) => true,
        (Some(a), Some(b)) => Arc::ptr_eq(a, b) || GroupOwner::of(a).is(b),
        _ => false,
    }
}

impl Index {
    fn find(&self, hash: u64, namespace: &str, name: &str) -> Option<u32> {
        let is_it = |&slot: &u32| {
            let meta = &self.slot(slot).pod.metadata;
            *meta.name == *name && *meta.namespace == *namespace
        };
        self.by_name.find(hash, is_it).copied()
    }

    fn allocate(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            u32::try_from(self.slots.len() - 1).expect("fewer pods than 32 bits count")
        })
    }

    fn slot(&self, slot: u32) -> &Slot {
        self.slots[slot as usize]
            .as_ref()
            .expect("indexed slots are taken")
    }

    fn slot_mut(&mut self, slot: u32) -> &mut Slot {
        self.slots[slot as usize]
            .as_mut()
            .expect("indexed slots are taken")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Uid;

    fn owner(uid: &str) -> Arc<OwnerReference> {
        Arc::new(OwnerReference {
            api_version: "apps/v1".into(),
            kind: "ReplicaSet".into(),
            name: "web".into(),
            uid: Uid::new(uid),
            controller: Some(true),
            block_owner_deletion: Some(true),
        })
    }

    fn pod(name: &str, version: u64, owner: Option<&Arc<OwnerReference>>) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.name = name.into();
        pod.metadata.namespace = "ns".into();
        pod.metadata.resource_version = version.into();
        pod.metadata.labels = Labels::from_pairs([("app", "web")]);
        pod.metadata.owner_references.extend(owner.cloned());
        Arc::new(pod)
    }

    #[test]
    fn pods_move_between_groups_with_their_controller() {
        let cache = PodCache::new();
        let owner = owner("u1");
        let added = cache.apply(Delta::Applied(pod("a", 1, None)));
        assert!(added.old.is_none() && added.new_group.as_ref().is_some_and(|g| g.is_orphans()));
        cache.apply(Delta::Applied(pod("b", 2, Some(&owner))));
        let adopted = cache.apply(Delta::Applied(pod("a", 3, Some(&owner))));
        assert!(
            adopted
                .old_group
                .as_ref()
                .is_some_and(|group| group.is_orphans())
        );
        let group = cache.lock_groups().owned(&"ns".into(), &owner);
        assert_eq!(group.lock().len(), 2);
        assert!(group.lock().totals_are_exact());
        assert_eq!(cache.orphans(&"ns".into()).pod_count(), 0);
        let gone = cache.apply(Delta::Deleted(pod("b", 4, Some(&owner))));
        assert!(gone.deleted && gone.old.is_some());
        assert_eq!(cache.len(), 1);
        assert_eq!(cache.version().get(), ResourceVersion::Number(4));
        assert!(cache.get("ns", "a").is_some());
        cache.apply(Delta::Deleted(pod("a", 5, Some(&owner))));
        assert!(
            cache
                .find_group_of(&pod("a", 5, Some(&owner)).metadata)
                .is_none()
        );
    }

    #[test]
    fn a_relist_deletes_what_is_missing_before_it_adds() {
        let cache = PodCache::new();
        for name in ["c", "a", "b"] {
            cache.apply(Delta::Applied(pod(name, 1, None)));
        }
        let changes = cache.replace(vec![pod("d", 9, None), pod("b", 8, None)], &9.into());
        let told: Vec<_> = changes
            .iter()
            .map(|change| {
                (
                    &*change.new.metadata.name,
                    change.deleted,
                    change.old.is_some(),
                )
            })
            .collect();
        assert_eq!(
            told,
            [
                ("a", true, true),
                ("c", true, true),
                ("d", false, false),
                ("b", false, true)
            ]
        );
        assert_eq!(cache.version().get(), ResourceVersion::Number(9));
    }
}
