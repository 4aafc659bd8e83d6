//! An owner's pods with equal labels, their running totals, and the changes of these sets.

use ahash::RandomState;
use hashbrown::HashTable;
use podstorm_objects::{Labels, Pod, Time, hash_state};

use super::ready_times::ReadyTimes;

/// The part of a pod's state that the totals count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PodState {
    pub(super) active: bool,
    pub(super) terminating: bool,
    pub(super) ready: bool,
}

impl PodState {
    #[inline]
    pub(super) fn from_pod(pod: &Pod) -> PodState {
        PodState {
            active: pod.is_active(),
            terminating: pod.is_terminating(),
            ready: pod.is_ready(),
        }
    }
}

/// Counts of pods by their state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// The number of active pods.
    pub active: u32,
    /// The number of active pods that are ready.
    pub ready: u32,
    /// The number of terminating pods.
    pub terminating: u32,
}

impl Totals {
    pub(super) fn add(&mut self, state: PodState) {
        self.active += u32::from(state.active);
        self.ready += u32::from(state.active && state.ready);
        self.terminating += u32::from(state.terminating);
    }

    pub(super) fn remove(&mut self, state: PodState) {
        self.active -= u32::from(state.active);
        self.ready -= u32::from(state.active && state.ready);
        self.terminating -= u32::from(state.terminating);
    }

    /// Adds `other` to these counts.
    pub fn merge(&mut self, other: Totals) {
        self.active += other.active;
        self.ready += other.ready;
        self.terminating += other.terminating;
    }
}

/// An owner's pods with the same labels.
#[derive(Debug)]
pub struct LabelSet {
    /// The labels of the pods.
    pub labels: Labels,
    /// The number of pods with these labels, in any state. A set without pods can be reused.
    pub pods: u32,
    /// The totals of the pods.
    pub totals: Totals,
    /// The ready times of the active pods; present once they have been requested.
    pub(super) ready_times: Option<Box<ReadyTimes>>,
}

/// Returns when a pod became ready; `None` if it is not active and ready.
pub(super) fn ready_since(pod: &Pod, state: PodState) -> Option<Time> {
    (state.active && state.ready).then(|| pod.ready_time())
}

impl LabelSet {
    #[inline]
    pub(super) fn enter(&mut self, pod: &Pod, state: PodState) {
        self.totals.add(state);
        if let Some(ready_times) = &mut self.ready_times
            && let Some(since) = ready_since(pod, state)
        {
            ready_times.enter(since);
        }
    }

    pub(super) fn leave(&mut self, pod: &Pod, state: PodState) {
        self.totals.remove(state);
        if let Some(ready_times) = &mut self.ready_times
            && let Some(since) = ready_since(pod, state)
        {
            ready_times.leave(since);
        }
    }
}

/// The numbers of label sets by labels. Stores the hash of the labels, because labels are long.
#[derive(Debug)]
pub(super) struct ByLabels {
    numbers: HashTable<(u64, u32)>,
    hasher: RandomState,
}

impl Default for ByLabels {
    fn default() -> Self {
        ByLabels {
            numbers: HashTable::new(),
            hasher: hash_state(),
        }
    }
}

impl ByLabels {
    pub(super) fn hash(&self, labels: &Labels) -> u64 {
        self.hasher.hash_one(labels)
    }

    /// Returns the number that was inserted with this hash and for which `is_it` returns true.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let is_it = |(known, number): &(u64, u32)| *known == hash && is_it(*number);
        self.numbers.find(hash, is_it).map(|(_, number)| *number)
    }

    /// Adds the number of a label set that is not in the map. `hash` is the hash of its labels.
    pub(super) fn insert(&mut self, hash: u64, number: u32) {
        let entry = (hash, number);
        self.numbers.insert_unique(hash, entry, |(hash, _)| *hash);
    }

    pub(super) fn remove(&mut self, labels: &Labels, number: u32) {
        let hash = self.hash(labels);
        let entry = self.numbers.find_entry(hash, |(_, other)| *other == number);
        if let Ok(entry) = entry {
            entry.remove();
        }
    }
}

/// How a change of an owner's pods changed the owner's label sets.
#[derive(Debug, Default)]
pub(crate) struct LabelSetChange {
    /// The labels that no pod of the owner had before, if any.
    pub(crate) added: Option<Labels>,
    /// The labels that no pod of the owner has any longer, if any.
    pub(crate) removed: Option<Labels>,
}

impl LabelSetChange {
    /// Reports whether no label set was added or removed.
    pub(crate) fn is_none(&self) -> bool {
        self.added.is_none() && self.removed.is_none()
    }
}
