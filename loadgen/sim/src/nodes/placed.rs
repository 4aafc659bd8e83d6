//! The pods on nodes, individually and in groups. Pods of one namespace with the same labels are
//! equivalent for other pods, so a rule about other pods is checked once for each group, regardless
//! of the group's size. Until such a rule exists, only pods with anti-affinity are grouped: each
//! pod of an indexed Job has its own labels and would form its own group.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use hashbrown::HashMap;
use podstorm_objects::{Labels, Pod, Str, Uid, hash_state};

use super::asks::Ask;
use super::neighbours::Labelled;

/// A pod on a node.
#[derive(Debug)]
pub(super) struct PlacedPod {
    pub(super) pod: Arc<Pod>,
    pub(super) node: Str,
    pub(super) ask: Arc<Ask>,
    /// The number of the pod's group, if it is in a group.
    group: Option<u32>,
}

/// The properties that the pods of a group share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Shared {
    namespace: Str,
    labels: Labels,
    is_deleting: bool,
    /// The memory address of the pods' requirements; 0 without anti-affinity.
    ask: usize,
}

/// A group of pods that are equivalent for other pods.
#[derive(Debug)]
pub(super) struct Group {
    shared: Shared,
    /// The requirements of the group's first pod. If they include anti-affinity, all pods of the
    /// group share them.
    pub(super) ask: Arc<Ask>,
    /// The number of the group's pods on each node that has any.
    pub(super) on_nodes: BTreeMap<Str, u32>,
}

/// The pods on nodes.
#[derive(Debug)]
pub(super) struct Placed {
    pods: HashMap<Uid, PlacedPod, ahash::RandomState>,
    /// Whether all pods are in groups, not only those with anti-affinity.
    groups_all: bool,
    /// The groups by number. Each has at least one pod.
    groups: BTreeMap<u32, Group>,
    /// The number of each group, by the properties that its pods share.
    numbers: HashMap<Shared, u32, ahash::RandomState>,
    /// The numbers of the groups with anti-affinity.
    exclusive: BTreeSet<u32>,
    /// The number of pods with each priority.
    priorities: BTreeMap<i32, usize>,
    /// The number that the next group gets.
    next: u32,
}

impl Default for Placed {
    fn default() -> Placed {
        Placed {
            pods: HashMap::with_hasher(hash_state()),
            groups_all: false,
            groups: BTreeMap::new(),
            numbers: HashMap::with_hasher(hash_state()),
            exclusive: BTreeSet::new(),
            priorities: BTreeMap::new(),
            next: 0,
        }
    }
}

impl Placed {
    pub(super) fn get(&self, uid: &Uid) -> Option<&PlacedPod> {
        self.pods.get(uid)
    }

    /// Removes all pods.
    pub(super) fn clear(&mut self) {
        *self = Placed {
            groups_all: self.groups_all,
            ..Placed::default()
        };
    }

    /// Groups all pods from now on. O(pods) on the first call.
    pub(super) fn group_all(&mut self) {
        if std::mem::replace(&mut self.groups_all, true) {
            return;
        }
        let mut pods = std::mem::replace(&mut self.pods, HashMap::with_hasher(hash_state()));
        for placed in pods.values_mut().filter(|placed| placed.group.is_none()) {
            placed.group = Some(self.enter_group(&placed.pod, &placed.node, &placed.ask));
        }
        self.pods = pods;
    }

    /// Returns all pods, in no particular order.
    pub(super) fn pods(&self) -> impl Iterator<Item = &PlacedPod> {
        self.pods.values()
    }

    /// Reports whether any pod has a priority below `priority`.
    pub(super) fn has_lower(&self, priority: i32) -> bool {
        let lowest = self.priorities.keys().next();
        lowest.is_some_and(|lowest| *lowest < priority)
    }

    /// Returns all groups. [`group_all`](Placed::group_all) must have been called before.
    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        assert!(self.groups_all, "group_all must have been called");
        self.groups.values()
    }

    /// Returns the groups with anti-affinity.
    pub(super) fn exclusive(&self) -> impl Iterator<Item = &Group> {
        let groups = self.exclusive.iter();
        groups.filter_map(|number| self.groups.get(number))
    }

    /// Replaces a known pod by its current state. Returns false if the pod is unknown or its node,
    /// spec, labels or deletion differ.
    pub(super) fn replace(&mut self, pod: &Arc<Pod>, node: &str) -> bool {
        let Some(known) = self.pods.get_mut(&pod.metadata.uid) else {
            return false;
        };
        let (old, new) = (&known.pod.metadata, &pod.metadata);
        let is_same = *known.node == *node
            && Arc::ptr_eq(&known.pod.spec, &pod.spec)
            && old.labels == new.labels
            && old.is_deleting() == new.is_deleting();
        if is_same {
            known.pod = Arc::clone(pod);
        }
        is_same
    }

    /// Adds a pod that is not present.
    pub(super) fn insert(&mut self, pod: Arc<Pod>, node: Str, ask: Arc<Ask>) {
        let is_grouped = self.groups_all || !ask.anti_affinity.is_empty();
        let group = is_grouped.then(|| self.enter_group(&pod, &node, &ask));
        *self.priorities.entry(ask.priority).or_default() += 1;
        let uid = pod.metadata.uid.clone();
        let placed = PlacedPod {
            pod,
            node,
            ask,
            group,
        };
        self.pods.insert(uid, placed);
    }

    /// Counts a pod in its group, and returns the group's number.
    fn enter_group(&mut self, pod: &Pod, node: &Str, ask: &Arc<Ask>) -> u32 {
        let meta = &pod.metadata;
        let is_exclusive = !ask.anti_affinity.is_empty();
        let shared = Shared {
            namespace: meta.namespace.clone(),
            labels: meta.labels.clone(),
            is_deleting: meta.is_deleting(),
            ask: match is_exclusive {
                true => Arc::as_ptr(ask).addr(),
                false => 0,
            },
        };
        let number = match self.numbers.get(&shared) {
            Some(number) => *number,
            None => {
                let number = self.next;
                self.next += 1;
                self.numbers.insert(shared.clone(), number);
                if is_exclusive {
                    self.exclusive.insert(number);
                }
                let group = Group {
                    shared,
                    ask: Arc::clone(ask),
                    on_nodes: BTreeMap::new(),
                };
                self.groups.insert(number, group);
                number
            }
        };
        let group = self
            .groups
            .get_mut(&number)
            .expect("each number has a group");
        *group.on_nodes.entry(node.clone()).or_default() += 1;
        number
    }

    /// Removes a pod, if it is present.
    pub(super) fn remove(&mut self, uid: &Uid) -> Option<PlacedPod> {
        let placed = self.pods.remove(uid)?;
        if let Some(count) = self.priorities.get_mut(&placed.ask.priority) {
            *count -= 1;
            if *count == 0 {
                self.priorities.remove(&placed.ask.priority);
            }
        }
        let Some(number) = placed.group else {
            return Some(placed);
        };
        let group = self
            .groups
            .get_mut(&number)
            .expect("each number has a group");
        if let Some(count) = group.on_nodes.get_mut(&placed.node) {
            *count -= 1;
            if *count == 0 {
                group.on_nodes.remove(&placed.node);
            }
        }
        if group.on_nodes.is_empty()
            && let Some(group) = self.groups.remove(&number)
        {
            self.numbers.remove(&group.shared);
            self.exclusive.remove(&number);
        }
        Some(placed)
    }
}

impl Group {
    pub(super) fn namespace(&self) -> &str {
        &self.shared.namespace
    }

    pub(super) fn labels(&self) -> &Labels {
        &self.shared.labels
    }

    pub(super) fn labelled(&self) -> Labelled<'_> {
        Labelled {
            namespace: self.namespace(),
            labels: self.labels(),
        }
    }

    pub(super) fn is_deleting(&self) -> bool {
        self.shared.is_deleting
    }
}

#[cfg(test)]
mod tests {
    use podstorm_objects::{PodSpec, Resource};
    use serde_json::json;

    use super::*;
    use crate::nodes::neighbours::Term;

    #[test]
    fn equivalent_pods_are_one_group_until_they_are_removed() {
        let mut placed = Placed::default();
        placed.group_all();
        let ask = Arc::new(Ask::from_spec(&PodSpec::default()));
        let pod = |name: &str, app: &str| {
            let meta = json!({"name": name, "namespace": "n", "uid": name, "labels": {"app": app}});
            Arc::new(Pod::from_json(json!({"metadata": meta})).unwrap())
        };
        for (name, app, node) in [("a", "web", "x"), ("b", "web", "x"), ("c", "db", "y")] {
            placed.insert(pod(name, app), node.into(), Arc::clone(&ask));
        }
        let counts = |placed: &Placed| -> Vec<(String, u32)> {
            let groups = placed.groups();
            let app = |group: &Group| group.labels().get("app").unwrap().to_string();
            let counts = groups.map(|group| (app(group), group.on_nodes.values().sum()));
            counts.collect()
        };
        assert_eq!(
            counts(&placed),
            [("web".to_owned(), 2), ("db".to_owned(), 1)]
        );
        assert!(!placed.replace(&pod("a", "db"), "x"), "the labels differ");
        for _ in 0..2 {
            placed.remove(&"a".into());
        }
        assert_eq!(
            counts(&placed),
            [("web".to_owned(), 1), ("db".to_owned(), 1)]
        );
        placed.remove(&"b".into());
        assert_eq!(counts(&placed), [("db".to_owned(), 1)]);
        assert_eq!((placed.numbers.len(), placed.pods.len()), (1, 1));
        placed.clear();
        assert_eq!(counts(&placed), [], "grouping stays enabled");
    }

    #[test]
    fn pods_are_grouped_on_demand() {
        let mut placed = Placed::default();
        let ask = Arc::new(Ask::from_spec(&PodSpec::default()));
        let mut apart = Ask::from_spec(&PodSpec::default());
        apart.anti_affinity.push(Term::from_value(&json!({})));
        let apart = Arc::new(apart);
        let pod = |name: &str| {
            let meta =
                json!({"name": name, "namespace": "n", "uid": name, "labels": {"app": name}});
            Arc::new(Pod::from_json(json!({"metadata": meta})).unwrap())
        };
        for (name, ask) in [("a", &ask), ("b", &ask), ("c", &apart), ("d", &ask)] {
            placed.insert(pod(name), "x".into(), Arc::clone(ask));
        }
        assert_eq!((placed.groups.len(), placed.exclusive().count()), (1, 1));
        placed.remove(&"d".into());
        for _ in 0..2 {
            placed.group_all();
            assert_eq!(
                (placed.groups().count(), placed.exclusive().count()),
                (3, 1)
            );
        }
        for name in ["a", "b", "c"] {
            placed.remove(&name.into());
        }
        assert_eq!(
            (placed.groups().count(), placed.exclusive().count()),
            (0, 0)
        );
    }
}
