//! The pods that one owner controls, or the orphans of one namespace, with running totals by label
//! set. A sync with nothing to do visits no pod.

use std::any::Any;
use std::sync::Arc;

use podstorm_objects::{Labels, OwnerReference, Pod, Str, Time, Uid};
use smallvec::SmallVec;

use super::columns::{Column, NewColumn, PodFields, reserve_one};
use super::label_set::{ByLabels, LabelSet, LabelSetChange, PodState, Totals, ready_since};
use super::ready_times::ReadyTimes;
use crate::intern::{DenseKey, KeyId};
use crate::primitives::{AtomicU32, AtomicUsize, Mutex, MutexGuard, Ordering, lock};

/// The pods with one controller reference, or the orphans of one namespace.
#[derive(Debug)]
pub struct OwnedPods {
    namespace: Str,
    /// The kind, name and UID in the reference; `None` for the orphans of the namespace.
    owner_id: Option<OwnerId>,
    /// The key of the cached owner to which the reference resolves; `NO_OWNER` if there is none.
    /// Written by the owners' informer, read by the pods' handlers.
    owner_key: AtomicU32,
    /// The number of pods, readable without the lock. Written while holding it.
    pod_count: AtomicUsize,
    members: Mutex<Members>,
}

/// The identity of a controller reference: kind, name and UID. The API version is ignored.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OwnerId {
    pub(crate) kind: Str,
    pub(crate) name: Str,
    pub(crate) uid: Uid,
}

impl OwnerId {
    pub(crate) fn from_reference(reference: &OwnerReference) -> OwnerId {
        OwnerId {
            kind: reference.kind.clone(),
            name: reference.name.clone(),
            uid: reference.uid.clone(),
        }
    }

    /// Reports whether both references have the same identity.
    pub(crate) fn is_same(a: &OwnerReference, b: &OwnerReference) -> bool {
        a.uid == b.uid && a.name == b.name && a.kind == b.kind
    }

    pub(crate) fn is(&self, reference: &OwnerReference) -> bool {
        self.uid == reference.uid && self.name == reference.name && self.kind == reference.kind
    }
}

/// The key of a list without a cached owner: the end of the key space, which no key reaches.
const NO_OWNER: u32 = u32::MAX;

/// A locked view of the owned pods.
pub type MembersGuard<'a> = MutexGuard<'a, Members>;

/// One of the owned pods: the values that syncs read, stored densely and apart from the pod.
#[derive(Clone, Debug)]
pub struct Member {
    /// The index into the owner's label sets.
    pub label_set: u32,
    /// The pod's handle: `positions[handle]` is its position.
    handle: u32,
    /// The dense number of the pod's node; 0 if the pod is not bound.
    pub node: u32,
    state: PodState,
}

impl Member {
    /// Reports whether the pod counts as a replica.
    #[inline]
    pub fn is_active(&self) -> bool {
        self.state.active
    }

    /// Reports whether the pod is terminating.
    #[inline]
    pub fn is_terminating(&self) -> bool {
        self.state.terminating
    }

    /// Reports whether the pod's `Ready` condition is true.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.state.ready
    }
}

/// The owned pods. `pods[i]`, `members[i]` and item `i` of the column belong to one pod, and
/// `positions[members[i].handle]` is `i`.
///
/// Other modules refer to a pod by its handle. The handle does not change when other pods come and
/// go, so a pod that moves to another position changes no other structure.
#[derive(Debug)]
pub struct Members {
    pods: Vec<Arc<Pod>>,
    members: Vec<Member>,
    /// The fields that a workload stores for the pods of owners of this kind, if any.
    column: Option<Box<dyn Column>>,
    /// For each handle, the pod's position or, if the handle is free, the next free handle.
    positions: Vec<u32>,
    /// The head of the list of free handles; `NO_HANDLE` if none is free.
    free_handle: u32,
    /// Whether this list was dropped. No pod is added to a closed list.
    is_closed: bool,
    /// The pods by labels; nearly always a single set.
    label_sets: SmallVec<[LabelSet; 1]>,
    /// The label sets by their labels; `Some` once there have been more than [`SEARCHED_SETS`].
    by_labels: Option<Box<ByLabels>>,
    free_label_sets: Vec<u32>,
}

/// Marks the end of the list of free handles.
const NO_HANDLE: u32 = u32::MAX;

/// The maximum number of label sets that are searched one by one.
const SEARCHED_SETS: usize = 8;

impl OwnedPods {
    pub(super) fn new(
        namespace: Str,
        owner_id: Option<OwnerId>,
        new_column: Option<NewColumn>,
    ) -> OwnedPods {
        OwnedPods {
            namespace,
            owner_id,
            owner_key: AtomicU32::new(NO_OWNER),
            pod_count: AtomicUsize::new(0),
            members: Mutex::new(Members::new(new_column)),
        }
    }

    /// Returns the number of pods.
    #[inline]
    pub fn pod_count(&self) -> usize {
        // Acquire: pairs with the Release in `set_pod_count`. A caller sees the pod that woke it.
        self.pod_count.load(Ordering::Acquire)
    }

    /// Publishes the number of pods to readers that don't hold the lock.
    pub(crate) fn set_pod_count(&self, count: usize) {
        // Release: pairs with the Acquire of `pod_count`.
        self.pod_count.store(count, Ordering::Release);
    }

    /// Returns the namespace of the pods.
    #[inline]
    pub fn namespace(&self) -> &Str {
        &self.namespace
    }

    pub(crate) fn owner_id(&self) -> Option<&OwnerId> {
        self.owner_id.as_ref()
    }

    /// Reports whether these are the orphans of a namespace.
    #[inline]
    pub fn is_orphans(&self) -> bool {
        self.owner_id.is_none()
    }

    /// Returns the kind of the owner; `None` for orphans.
    #[inline]
    pub fn owner_kind(&self) -> Option<&str> {
        self.owner_id.as_ref().map(|owner_id| &*owner_id.kind)
    }

    /// Returns the key of the cached owner to which the pods' controller reference resolves; `None`
    /// if the owner is not cached.
    #[inline]
    pub fn owner_key(&self) -> Option<KeyId> {
        // Acquire: pairs with the Release in `set_owner_key`. The owner is stored before.
        match self.owner_key.load(Ordering::Acquire) {
            NO_OWNER => None,
            key => Some(KeyId::from_index(key as usize)),
        }
    }

    pub(crate) fn set_owner_key(&self, owner_key: Option<KeyId>) {
        let key = owner_key.map_or(NO_OWNER, |key| {
            u32::try_from(key.index()).expect("keys are below 2^32")
        });
        // Release: pairs with the Acquire in `owner_key`.
        self.owner_key.store(key, Ordering::Release);
    }

    /// Locks the list of pods.
    #[inline]
    pub fn lock(&self) -> MembersGuard<'_> {
        lock(&self.members)
    }
}

impl Members {
    fn new(new_column: Option<NewColumn>) -> Members {
        Members {
            pods: Vec::new(),
            members: Vec::new(),
            column: new_column.map(|new| new()),
            positions: Vec::new(),
            free_handle: NO_HANDLE,
            is_closed: false,
            label_sets: SmallVec::new(),
            by_labels: None,
            free_label_sets: Vec::new(),
        }
    }

    /// Stores these fields for each pod from now on, including the pods that are already here.
    pub(super) fn keep(&mut self, new_column: NewColumn) {
        let mut column = new_column();
        for (pod, member) in self.iter() {
            column.push(pod, member.node);
        }
        self.column = Some(column);
    }

    /// Returns the number of pods.
    #[inline]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Reports whether there are no pods.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Returns the pod at a position.
    ///
    /// # Panics
    /// Panics if there is no pod at this position.
    #[inline]
    pub fn pod(&self, position: usize) -> &Arc<Pod> {
        &self.pods[position]
    }

    /// Returns the pods and their members, by position.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<Pod>, &Member)> {
        self.pods.iter().zip(&self.members)
    }

    /// Returns the members, by position.
    #[inline]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns a workload's [fields](super::PodCache::keep) for the pods, by position.
    ///
    /// # Panics
    /// Panics if no workload stores these fields for owners of this kind.
    #[inline]
    pub fn fields<F: PodFields>(&self) -> &[F] {
        let column = self.column.as_deref().map(|column| column as &dyn Any);
        let column = column.and_then(|column| column.downcast_ref::<Vec<F>>());
        column.expect("a workload keeps these fields for owners of this kind")
    }

    /// Returns the pods with the fields that a workload stores for them. The workload may modify
    /// the fields. The pod's next version discards the modifications unless [`PodFields::next`]
    /// copies them.
    ///
    /// # Panics
    /// Panics if no workload stores these fields for owners of this kind.
    pub fn iter_fields_mut<F: PodFields>(&mut self) -> impl Iterator<Item = (&Arc<Pod>, &mut F)> {
        let column = self.column.as_deref_mut();
        let column = column.map(|column| column as &mut dyn Any);
        let column = column.and_then(|column| column.downcast_mut::<Vec<F>>());
        let fields = column.expect("a workload keeps these fields for owners of this kind");
        self.pods.iter().zip(fields)
    }

    /// Returns the running totals by labels. Sets without pods can be reused.
    #[inline]
    pub fn label_sets(&self) -> &[LabelSet] {
        &self.label_sets
    }

    /// Closes the list if it has no pods, so that none can be added. Returns whether the list is
    /// now closed.
    pub(crate) fn close_if_empty(&mut self) -> bool {
        self.is_closed |= self.pods.is_empty();
        self.is_closed
    }

    /// Reports whether the list was dropped.
    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Reserves memory for `count` more pods.
    pub(crate) fn reserve(&mut self, count: usize) {
        self.pods.reserve_exact(count);
        self.members.reserve_exact(count);
        if let Some(column) = &mut self.column {
            column.reserve(count);
        }
        self.positions.reserve_exact(count);
    }

    /// Returns the dense number of the node of the pod with this handle.
    pub(crate) fn node_of(&self, handle: u32) -> u32 {
        self.members[self.positions[handle as usize] as usize].node
    }

    /// Appends a pod and returns its handle.
    pub(crate) fn insert(&mut self, pod: Arc<Pod>, node: u32) -> (u32, LabelSetChange) {
        let state = PodState::from_pod(&pod);
        let (label_set, added) = self.enter_label_set(&pod, state);
        let position =
            u32::try_from(self.pods.len()).expect("the number of pods fits into 32 bits");
        let handle = self.take_handle(position);
        reserve_one(&mut self.members);
        self.members.push(Member {
            label_set,
            handle,
            node,
            state,
        });
        if let Some(column) = &mut self.column {
            column.push(&pod, node);
        }
        reserve_one(&mut self.pods);
        self.pods.push(pod);
        (
            handle,
            LabelSetChange {
                added,
                removed: None,
            },
        )
    }

    fn take_handle(&mut self, position: u32) -> u32 {
        let handle = self.free_handle;
        if let Some(free) = self.positions.get_mut(handle as usize) {
            self.free_handle = std::mem::replace(free, position);
            return handle;
        }
        reserve_one(&mut self.positions);
        self.positions.push(position);
        u32::try_from(self.positions.len() - 1).expect("the number of pods fits into 32 bits")
    }

    /// Replaces the pod with this handle by its next version, at the same position.
    pub(crate) fn update(&mut self, handle: u32, pod: Arc<Pod>, node: u32) -> LabelSetChange {
        let position = self.positions[handle as usize] as usize;
        let member = &mut self.members[position];
        let old = member.state;
        let state = PodState::from_pod(&pod);
        if let Some(column) = &mut self.column {
            column.update(position, &self.pods[position], &pod, node);
        }
        member.state = state;
        member.node = node;
        let old_set = member.label_set;
        let set = &mut self.label_sets[old_set as usize];
        let mut change = LabelSetChange::default();
        if set.labels == pod.metadata.labels {
            if old != state || set.ready_times.is_some() {
                set.leave(&self.pods[position], old);
                set.enter(&pod, state);
            }
        } else {
            let last = self.pods[position].clone();
            change.removed = self.leave_label_set(old_set, &last, old);
            let (label_set, added) = self.enter_label_set(&pod, state);
            self.members[position].label_set = label_set;
            change.added = added;
        }
        self.pods[position] = pod;
        change
    }

    /// Removes the pod with this handle. The last pod moves to its position.
    pub(crate) fn remove(&mut self, handle: u32) -> LabelSetChange {
        let position = std::mem::replace(&mut self.positions[handle as usize], self.free_handle);
        self.free_handle = handle;
        let pod = self.pods.swap_remove(position as usize);
        let member = self.members.swap_remove(position as usize);
        if let Some(column) = &mut self.column {
            column.swap_remove(position as usize);
        }
        if let Some(moved) = self.members.get(position as usize) {
            self.positions[moved.handle as usize] = position;
        }
        let removed = self.leave_label_set(member.label_set, &pod, member.state);
        LabelSetChange {
            added: None,
            removed,
        }
    }

    /// Returns the index of the label set with exactly these labels; `None` if no pod has them.
    #[inline]
    pub fn label_set_of(&self, labels: &Labels) -> Option<u32> {
        self.look_up(labels).0
    }

    /// Like [`label_set_of`](Self::label_set_of), but also returns the hash if it was computed.
    #[inline]
    fn look_up(&self, labels: &Labels) -> (Option<u32>, Option<u64>) {
        let first = self.label_sets.first();
        if first.is_some_and(|first| first.pods > 0 && first.labels.is_same(labels)) {
            return (Some(0), None);
        }
        let Some(by_labels) = &self.by_labels else {
            return (self.search_label_set(labels), None);
        };
        let hash = by_labels.hash(labels);
        let is_it = |number: u32| self.label_sets[number as usize].labels == *labels;
        (by_labels.find(hash, is_it), Some(hash))
    }

    fn search_label_set(&self, labels: &Labels) -> Option<u32> {
        let mut sets = (0u32..).zip(&self.label_sets);
        let found = sets.find(|(_, set)| set.pods > 0 && set.labels == *labels);
        found.map(|(index, _)| index)
    }

    /// Adds a new label set to the map by labels, with the hash that the lookup computed. Creates
    /// the map, with all other label sets, once there are many.
    fn index_label_set(&mut self, index: u32, hash: Option<u64>) {
        if let Some((by_labels, hash)) = self.by_labels.as_mut().zip(hash) {
            by_labels.insert(hash, index);
        } else if self.label_sets.len() > SEARCHED_SETS {
            let mut by_labels = Box::<ByLabels>::default();
            for (number, set) in (0u32..).zip(&self.label_sets) {
                if set.pods > 0 || number == index {
                    by_labels.insert(by_labels.hash(&set.labels), number);
                }
            }
            self.by_labels = Some(by_labels);
        }
    }

    fn enter_label_set(&mut self, pod: &Pod, state: PodState) -> (u32, Option<Labels>) {
        let labels = &pod.metadata.labels;
        let (known, hash) = self.look_up(labels);
        let (index, added) = match known {
            Some(index) => (index, None),
            None => {
                let fresh = LabelSet {
                    labels: labels.clone(),
                    pods: 0,
                    totals: Totals::default(),
                    ready_times: None,
                };
                let index = if let Some(free) = self.free_label_sets.pop() {
                    self.label_sets[free as usize] = fresh;
                    free
                } else {
                    self.label_sets.push(fresh);
                    u32::try_from(self.label_sets.len() - 1)
                        .expect("there are no more label sets than pods")
                };
                self.index_label_set(index, hash);
                (index, Some(labels.clone()))
            }
        };
        let set = &mut self.label_sets[index as usize];
        set.pods += 1;
        set.enter(pod, state);
        (index, added)
    }

    fn leave_label_set(&mut self, index: u32, pod: &Pod, state: PodState) -> Option<Labels> {
        let set = &mut self.label_sets[index as usize];
        set.pods -= 1;
        set.leave(pod, state);
        if set.pods > 0 {
            return None;
        }
        let labels = std::mem::take(&mut set.labels);
        if let Some(by_labels) = &mut self.by_labels {
            by_labels.remove(&labels, index);
        }
        self.free_label_sets.push(index);
        Some(labels)
    }

    /// Returns how many active ready pods of a label set became ready at `cutoff` or before.
    /// Appends to `later`, in order, the seconds after `cutoff` in which pods became ready, each
    /// with the number of pods.
    ///
    /// O(pods) for the first call and if the cutoff goes back, otherwise O(seconds after it).
    #[inline]
    pub fn ready_by(&mut self, label_set: u32, cutoff: Time, later: &mut Vec<(Time, u32)>) -> u32 {
        let set = &mut self.label_sets[label_set as usize];
        let is_kept = set
            .ready_times
            .as_mut()
            .is_some_and(|kept| kept.advance(cutoff));
        if !is_kept {
            let times = ready_times(&self.pods, &self.members, label_set);
            set.ready_times = Some(Box::new(ReadyTimes::new(cutoff, times)));
        }
        let ready_times = set
            .ready_times
            .as_ref()
            .expect("the ready times were kept or rebuilt");
        later.extend(ready_times.later());
        ready_times.ready_by_cutoff(set.totals.ready)
    }

    /// Recounts every label set. Returns whether the running totals are right and every handle
    /// leads to its pod. O(pods).
    pub fn totals_are_exact(&self) -> bool {
        let mut handles = (0u32..).zip(self.members.iter().map(|member| member.handle));
        if !handles.all(|(position, handle)| self.positions[handle as usize] == position) {
            return false;
        }
        // Debug builds recount at every sync, and a sync with nothing to do must allocate nothing.
        let mut counted: SmallVec<[(u32, Totals); 4]> =
            smallvec::smallvec![(0, Totals::default()); self.label_sets.len()];
        for (pod, member) in self.iter() {
            let set = &mut counted[member.label_set as usize];
            set.0 += 1;
            set.1.add(PodState::from_pod(pod));
        }
        let mut sets = (0u32..).zip(self.label_sets.iter().zip(counted));
        sets.all(|(index, (set, (pods, totals)))| {
            let times = ready_times(&self.pods, &self.members, index);
            let ready_times = set.ready_times.as_ref();
            set.pods == pods
                && set.totals == totals
                && ready_times.is_none_or(|ready_times| ready_times.is_exact(times))
        })
    }
}

/// Returns when the active ready pods of a label set became ready. O(pods).
fn ready_times(
    pods: &[Arc<Pod>],
    members: &[Member],
    label_set: u32,
) -> impl Iterator<Item = Time> + Clone {
    let all = pods.iter().zip(members);
    let of_set = all.filter(move |(_, member)| member.label_set == label_set);
    of_set.filter_map(|(pod, member)| ready_since(pod, member.state))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(n: u32) -> Labels {
        Labels::from_pairs([("n", n.to_string().as_str())])
    }

    fn labelled(n: u32) -> Arc<Pod> {
        let mut pod = Pod::default();
        pod.metadata.labels = labels(n);
        Arc::new(pod)
    }

    #[test]
    fn label_sets_are_found_whether_few_or_many() {
        let mut members = Members::new(None);
        for n in 0..20 {
            assert!(members.insert(labelled(n), 0).1.added.is_some());
            assert_eq!(members.by_labels.is_some(), n >= 8);
            for known in 0..=n {
                assert_eq!(members.label_set_of(&labels(known)), Some(known));
            }
            assert_eq!(members.label_set_of(&labels(n + 1)), None);
            assert!(members.insert(labelled(n), 0).1.added.is_none());
        }
        (0..40).for_each(|handle| drop(members.remove(handle)));
        assert_eq!(members.len(), 0);
        assert!((0..20).all(|n| members.label_set_of(&labels(n)).is_none()));
        assert_eq!(members.insert(labelled(3), 0).1.added, Some(labels(3)));
        assert_eq!(members.label_sets.len(), 20, "a free label set is reused");
        assert!(members.totals_are_exact());
    }

    #[test]
    fn a_free_handle_is_reused_and_only_empty_lists_close() {
        let mut members = Members::new(None);
        let [a, b] = [1, 2].map(|n| members.insert(labelled(n), 0).0);
        assert!(members.remove(a).removed.is_some());
        assert_eq!(members.insert(labelled(3), 0).0, a);
        assert!(!members.close_if_empty());
        for handle in [a, b] {
            members.remove(handle);
        }
        assert!(members.close_if_empty());
    }
}
