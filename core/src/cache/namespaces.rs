//! Which groups of a namespace hold pods of which labels: how a scale-down finds the pods that a
//! sibling's selector matches, whoever owns them, without walking the namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashMap;

use super::group::{Group, LabelSetChange};
use crate::intern::FIXED_STATE;
use crate::object::{Labels, Selector, SharedText};

/// Per namespace, the groups by label set.
#[derive(Debug)]
pub(crate) struct Namespaces {
    by_name: HashMap<SharedText, GroupsByLabels, RandomState>,
}

type GroupsByLabels = HashMap<Labels, Vec<Arc<Group>>, RandomState>;

impl Namespaces {
    pub(crate) fn new() -> Namespaces {
        Namespaces {
            by_name: HashMap::with_hasher(FIXED_STATE),
        }
    }

    /// Notes what a group's change did to its label sets.
    pub(crate) fn note(&mut self, group: &Arc<Group>, change: LabelSetChange) {
        if let Some(labels) = change.came {
            let sets = self
                .by_name
                .entry(group.namespace().clone())
                .or_insert_with(|| HashMap::with_hasher(FIXED_STATE));
            sets.entry(labels).or_default().push(group.clone());
        }
        if let Some(labels) = change.went
            && let Some(sets) = self.by_name.get_mut(group.namespace())
            && let Some(groups) = sets.get_mut(&labels)
        {
            groups.retain(|held| !Arc::ptr_eq(held, group));
            if groups.is_empty() {
                sets.remove(&labels);
            }
        }
    }

    /// The label sets of a namespace that any of the selectors matches, each with the groups that
    /// hold pods of it. O(distinct label sets of the namespace).
    pub(crate) fn matching(
        &self,
        selectors: &BTreeMap<SharedText, Vec<Arc<Selector>>>,
    ) -> Vec<(Labels, Arc<Group>)> {
        let mut found = Vec::new();
        for (namespace, selectors) in selectors {
            let Some(sets) = self.by_name.get(namespace) else {
                continue;
            };
            for (labels, groups) in sets {
                if selectors.iter().any(|selector| selector.matches(labels)) {
                    found.extend(groups.iter().map(|group| (labels.clone(), group.clone())));
                }
            }
        }
        found
    }
}
