//! The pods that each budget selects, and their counts, updated with every change of pods and
//! budgets.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;
use compact_str::CompactString;
use hashbrown::HashMap;
use podstorm_objects::{Labels, OwnerReference, Pod, Selector, Str, Time, Uid, hash_state};
use podstorm_runtime::cache::{NamespacedSelector, SelectorIndex};
use podstorm_runtime::intern::KeyId;
use smallvec::SmallVec;

use crate::cache::PodCache;

/// The pods of all budgets.
#[derive(Debug)]
pub(super) struct SelectedPods {
    /// The keys of the budgets, found by their selectors.
    index: SelectorIndex,
    budgets: HashMap<KeyId, BudgetPods, RandomState>,
}

/// A budget with a valid selector, and the pods that it selects.
#[derive(Debug)]
struct BudgetPods {
    namespace: Str,
    selector: Arc<Selector>,
    pods: BTreeMap<CompactString, Arc<Pod>>,
    /// The number of ready pods that are not being deleted. Evicted pods count.
    healthy: usize,
    /// The number of pods without a controller.
    unmanaged: usize,
    /// The controllers of the pods by UID, each with the number of its pods.
    controllers: BTreeMap<Uid, (Arc<OwnerReference>, usize)>,
}

/// The counts of a budget's pods, as the input of a sync.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// The number of selected pods.
    pub(super) pods: i64,
    /// The number of ready pods that are not being deleted, including evicted ones.
    pub(super) healthy: i64,
    /// Whether any selected pod has no controller.
    pub(super) has_unmanaged: bool,
    /// The controllers of the selected pods, in the order of their UIDs.
    pub(super) controllers: Vec<Arc<OwnerReference>>,
    /// The evicted pods whose deletion has not begun, by name, each with the time of its eviction.
    pub(super) evicted: Vec<(Arc<Pod>, Time)>,
}

/// The keys of the budgets that select a pod.
pub(super) type Budgets = SmallVec<[KeyId; 4]>;

impl Default for SelectedPods {
    fn default() -> Self {
        SelectedPods {
            index: SelectorIndex::default(),
            budgets: HashMap::with_hasher(hash_state()),
        }
    }
}

impl SelectedPods {
    /// Reports whether no budget has a valid selector.
    pub(super) fn is_empty(&self) -> bool {
        self.budgets.is_empty()
    }

    /// Handles a budget that was added or changed. `selector` is `None` if the budget was deleted
    /// or its selector is invalid. O(1) if the selector has not changed. Otherwise O(pods of the
    /// owners that have a selected pod), where the orphans of a namespace count as the pods of one
    /// owner.
    pub(super) fn set_budget(
        &mut self,
        key: KeyId,
        selector: Option<(&Str, &Arc<Selector>)>,
        cache: &PodCache,
    ) {
        if let Some(known) = self.budgets.get(&key) {
            let is_same = |(namespace, selector): (&Str, &Arc<Selector>)| {
                known.namespace == *namespace && Arc::ptr_eq(&known.selector, selector)
            };
            if selector.is_some_and(is_same) {
                return;
            }
            self.index.remove(&known.namespace, &known.selector, key);
            self.budgets.remove(&key);
        }
        let Some((namespace, selector)) = selector else {
            return;
        };
        self.index.insert(namespace, selector, key);
        let mut budget = BudgetPods {
            namespace: namespace.clone(),
            selector: Arc::clone(selector),
            pods: BTreeMap::new(),
            healthy: 0,
            unmanaged: 0,
            controllers: BTreeMap::new(),
        };
        let selectors = [NamespacedSelector::new(namespace, selector)];
        cache.for_each_matching(&selectors, &mut Vec::new(), |pod, _| budget.put(pod));
        self.budgets.insert(key, budget);
    }

    /// Applies a change of a pod from `old` to `new`, where `None` means that the pod does not
    /// exist. Returns the budgets that select `new` or, if the pod was deleted, selected `old`.
    /// O(labels + candidates + log n).
    pub(super) fn apply(&mut self, old: Option<&Arc<Pod>>, new: Option<&Arc<Pod>>) -> Budgets {
        let of = |pod: &Pod| self.matching(&pod.metadata.namespace, &pod.metadata.labels);
        let after = new.map(|pod| of(pod)).unwrap_or_default();
        let keeps_labels = |old: &Pod, new: &Pod| old.metadata.labels == new.metadata.labels;
        let before = match (old, new) {
            (Some(old), Some(new)) if keeps_labels(old, new) => Budgets::new(),
            (Some(old), _) => of(old),
            (None, _) => Budgets::new(),
        };
        for key in &before {
            if let (Some(old), Some(budget)) = (old, self.budgets.get_mut(key)) {
                budget.remove(&old.metadata.name);
            }
        }
        for key in &after {
            if let (Some(new), Some(budget)) = (new, self.budgets.get_mut(key)) {
                budget.put(new);
            }
        }
        match new {
            Some(_) => after,
            None => before,
        }
    }

    /// Returns the budgets that select a pod with these labels.
    fn matching(&self, namespace: &Str, labels: &Labels) -> Budgets {
        let mut found = Budgets::new();
        self.index.candidates(namespace, labels, |key| {
            let budget = self.budgets.get(&key);
            if budget.is_some_and(|budget| budget.selector.matches(labels)) {
                found.push(key);
            }
        });
        found
    }

    /// Returns the counts of a budget's pods. `evicted` are the evicted pods in the budget's
    /// status. O(controllers + evicted pods).
    pub(super) fn count(&self, key: KeyId, evicted: &BTreeMap<String, Time>) -> Counted {
        let Some(budget) = self.budgets.get(&key) else {
            return Counted::default();
        };
        let controllers = budget.controllers.values();
        let evicted = evicted.iter().filter_map(|(name, at)| {
            look();
            let pod = budget.pods.get(&**name)?;
            (!pod.metadata.is_deleting()).then(|| (Arc::clone(pod), *at))
        });
        Counted {
            pods: number(budget.pods.len()),
            healthy: number(budget.healthy),
            has_unmanaged: budget.unmanaged > 0,
            controllers: controllers
                .map(|(reference, _)| Arc::clone(reference))
                .collect(),
            evicted: evicted.collect(),
        }
    }

    /// Returns the first pod of a budget, by name, that has one of these controllers; `None` if
    /// there is none. O(pods of the budget).
    pub(super) fn first_pod_of(&self, key: KeyId, controllers: &[&Uid]) -> Option<Arc<Pod>> {
        let mut pods = self.budgets.get(&key)?.pods.values();
        let is_theirs = |pod: &&Arc<Pod>| {
            look();
            let controller = pod.metadata.controller();
            controller.is_some_and(|controller| controllers.contains(&&controller.uid))
        };
        pods.find(is_theirs).cloned()
    }
}

impl BudgetPods {
    /// Counts a pod. Replaces the pod of the same name, if there is one.
    fn put(&mut self, pod: &Arc<Pod>) {
        look();
        match self.pods.get_mut(&pod.metadata.name) {
            Some(known) => {
                let old = std::mem::replace(known, Arc::clone(pod));
                self.uncount(&old);
            }
            None => drop(self.pods.insert(pod.metadata.name.clone(), Arc::clone(pod))),
        }
        self.healthy += usize::from(is_healthy(pod));
        match pod.metadata.controller() {
            None => self.unmanaged += 1,
            Some(controller) => {
                let entry = self.controllers.entry(controller.uid.clone());
                entry.or_insert_with(|| (Arc::clone(controller), 0)).1 += 1;
            }
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            self.uncount(&pod);
        }
    }

    fn uncount(&mut self, pod: &Pod) {
        look();
        self.healthy -= usize::from(is_healthy(pod));
        let Some(controller) = pod.metadata.controller() else {
            self.unmanaged -= 1;
            return;
        };
        if let Some((_, pods)) = self.controllers.get_mut(&controller.uid) {
            *pods -= 1;
            if *pods == 0 {
                self.controllers.remove(&controller.uid);
            }
        }
    }
}

/// Reports whether a pod is healthy, unless it was evicted. Ignores the phase.
fn is_healthy(pod: &Pod) -> bool {
    pod.is_ready() && !pod.metadata.is_deleting()
}

fn number(count: usize) -> i64 {
    i64::try_from(count).expect("the number of objects in memory fits 63 bits")
}

#[cfg(test)]
thread_local! {
    /// The number of times that this thread has read a pod.
    static LOOKS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts that this thread reads a pod. For tests.
#[inline]
fn look() {
    #[cfg(test)]
    LOOKS.set(looks() + 1);
}

/// Returns the number of times that this thread has read a pod.
#[cfg(test)]
pub(super) fn looks() -> usize {
    LOOKS.get()
}
