//! Waiting claims and free volumes by class, and reserved volumes by claim.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use podstorm_objects::{DynamicObject, Quantity};
use podstorm_runtime::intern::KeyId;
use serde_json::Value;

use super::matching::capacity;
use super::{class_of, text};
use crate::volumes::at;

#[derive(Debug, Default)]
pub(super) struct Classes {
    waiting: Grouped<KeyId>,
    free: Grouped<Free>,
    /// The reserved volumes, by the namespace and name of the claim.
    reserved: Grouped<KeyId>,
}

/// A free volume, ordered by size, then by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Free {
    pub(super) capacity: Quantity,
    name: String,
    pub(super) key: KeyId,
}

/// Entries in groups by class or another string, and the group and entry of each key.
#[derive(Debug)]
struct Grouped<E> {
    by_class: BTreeMap<String, BTreeSet<E>>,
    known: BTreeMap<KeyId, (String, E)>,
}

impl<E> Default for Grouped<E> {
    fn default() -> Self {
        Grouped {
            by_class: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }
}

impl<E: Ord + Clone> Grouped<E> {
    fn set(&mut self, key: KeyId, new: Option<(&str, E)>) {
        let new = new.map(|(class, entry)| (class.to_owned(), entry));
        if self.known.get(&key) == new.as_ref() {
            return;
        }
        if let Some((class, entry)) = self.known.remove(&key)
            && let Some(entries) = self.by_class.get_mut(&class)
        {
            entries.remove(&entry);
            if entries.is_empty() {
                self.by_class.remove(&class);
            }
        }
        if let Some((class, entry)) = new {
            let entries = self.by_class.entry(class.clone()).or_default();
            entries.insert(entry.clone());
            self.known.insert(key, (class, entry));
        }
    }

    fn class(&self, class: &str) -> Vec<E> {
        let entries = self.by_class.get(class).into_iter().flatten();
        entries.cloned().collect()
    }
}

impl Classes {
    /// Handles a claim that was added, changed or deleted.
    pub(super) fn claim(&mut self, key: KeyId, claim: Option<&DynamicObject>) {
        let claim = claim.filter(|it| text(it, "/spec/volumeName").is_empty());
        self.waiting.set(key, claim.map(|it| (class_of(it), key)));
    }

    /// Handles a volume that was added, changed or deleted. Returns the claims that it may suit.
    pub(super) fn volume(&mut self, key: KeyId, volume: Option<&DynamicObject>) -> Vec<KeyId> {
        let is_free = |it: &&DynamicObject| {
            text(it, "/status/phase") == "Available" && at(it, "/spec/claimRef").is_null()
        };
        let claim = volume
            .map(|it| at(it, "/spec/claimRef"))
            .filter(|it| it.is_object());
        let claim = claim.map(|it| reservation(member(it, "namespace"), member(it, "name")));
        self.reserved.set(key, claim.as_deref().map(|it| (it, key)));
        let free = volume.filter(is_free).map(|it| {
            let free = Free {
                capacity: capacity(it),
                name: it.metadata.name.to_string(),
                key,
            };
            (class_of(it), free)
        });
        let class = free.as_ref().map(|(class, _)| *class);
        self.free.set(key, free);
        class
            .map(|class| self.waiting.class(class))
            .unwrap_or_default()
    }

    /// Returns the claims that wait for a volume of a class.
    pub(super) fn waiting(&self, class: &str) -> Vec<KeyId> {
        self.waiting.class(class)
    }

    /// Returns the volumes that are reserved for a claim.
    pub(super) fn reserved(&self, claim: &DynamicObject) -> Vec<KeyId> {
        let meta = &claim.metadata;
        self.reserved
            .class(&reservation(&meta.namespace, &meta.name))
    }

    /// Returns the next free volume of a class: the first one after `after` or, if that is `None`,
    /// the first one of at least this size. `None` if there is none. O(log volumes).
    pub(super) fn next_free(
        &self,
        class: &str,
        size: Quantity,
        after: Option<&Free>,
    ) -> Option<Free> {
        let smallest = Free {
            capacity: size,
            name: String::new(),
            key: KeyId(0),
        };
        let from = match after {
            Some(last) => Bound::Excluded(last),
            None => Bound::Included(&smallest),
        };
        let free = self.free.by_class.get(class)?;
        free.range((from, Bound::Unbounded)).next().cloned()
    }
}

fn reservation(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

fn member<'v>(reference: &'v Value, member: &str) -> &'v str {
    reference[member].as_str().unwrap_or("")
}
