//! Shares the equal parts of objects that were read separately: pod specs, label maps, strings,
//! owner references and unread members.
//!
//! Objects that this program creates already share their parts. Objects read from a dump or a list
//! don't: a thousand pods of one template hold a thousand specs. Pass each object through a
//! [`Sharer`] immediately after reading it, and only one spec is left.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::conditions::ConditionRests;
use super::{
    LabelSelector, Labels, ObjectMeta, OwnerReference, Pod, PodSpec, PodTemplate, ReplicaSet, Rest,
    Str, hash_state,
};

/// Remembers each content and replaces equal content with the first. A sharer keeps everything that
/// it has seen alive, so drop it after reading, or call [`Sharer::shrink`] from time to time.
#[derive(Debug)]
pub struct Sharer {
    hasher: RandomState,
    specs: HashTable<Arc<PodSpec>>,
    templates: HashTable<Arc<PodTemplate>>,
    selectors: HashTable<Arc<LabelSelector>>,
    labels: HashTable<Labels>,
    texts: HashTable<Str>,
    owners: HashTable<Arc<OwnerReference>>,
    condition_rests: HashTable<Arc<ConditionRests>>,
    rests: HashTable<Rest>,
}

impl Default for Sharer {
    fn default() -> Sharer {
        Sharer {
            hasher: hash_state(),
            specs: HashTable::new(),
            templates: HashTable::new(),
            selectors: HashTable::new(),
            labels: HashTable::new(),
            texts: HashTable::new(),
            owners: HashTable::new(),
            condition_rests: HashTable::new(),
            rests: HashTable::new(),
        }
    }
}

impl Sharer {
    /// Shares the parts of a pod. O(size of the pod's JSON) for hashing.
    pub fn share_pod(&mut self, pod: &mut Pod) {
        self.share_meta(&mut pod.metadata);
        self.share_spec(&mut pod.spec);
        self.share_place(pod);
        match pod.status.conditions.rests_mut() {
            Some(rests) => self.share_condition_rests(rests),
            None => {
                let conditions = &mut pod.status.conditions;
                conditions.update(|condition| self.share_rest(&mut condition.rest));
            }
        }
        let init = pod.status.init_container_statuses.iter_mut();
        let init = init.flat_map(|statuses| statuses.iter_mut());
        for status in pod.status.container_statuses.iter_mut().chain(init) {
            self.share_text(&mut status.name);
            // Details that are shared already are not copied just to share a part of them.
            if let Some(details) = status.details.as_mut().and_then(Arc::get_mut) {
                self.share_rest(&mut details.rest);
            }
        }
        self.share_rest(&mut pod.status.rest);
    }

    /// Shares the node name and the host's address of a pod. Enough for a pod that was created from
    /// one whose other parts are shared. O(length of the names).
    pub fn share_place(&mut self, pod: &mut Pod) {
        if let Some(node_name) = &mut pod.node_name {
            self.share_text(node_name);
        }
        if let Some(started) = pod.status.started.as_mut().and_then(Arc::get_mut)
            && let Some(text) = started.host_ip.text_mut()
        {
            // Many pods run on one host, but the pod's own address is unique.
            self.share_text(text);
        }
    }

    /// Shares the parts of a ReplicaSet. The spec of its template and the equal specs of its pods
    /// become one.
    pub fn share_replica_set(&mut self, replica_set: &mut ReplicaSet) {
        self.share_meta(&mut replica_set.metadata);
        if let Some(selector) = &mut replica_set.spec.selector {
            self.share_selector(selector);
        }
        self.share_template(&mut replica_set.spec.template);
        for condition in &mut replica_set.status.conditions {
            self.share_text(&mut condition.kind);
            self.share_text(&mut condition.status);
            self.share_text(&mut condition.reason);
            self.share_text(&mut condition.message);
        }
    }

    /// Shares the namespace, labels, annotations and owner references.
    pub fn share_meta(&mut self, meta: &mut ObjectMeta) {
        self.share_text(&mut meta.namespace);
        if let Some(prefix) = &mut meta.generate_name {
            self.share_text(prefix);
        }
        self.share_labels(&mut meta.labels);
        self.share_labels(&mut meta.annotations);
        for owner in &mut meta.owner_references {
            self.share_owner(owner);
        }
    }

    /// Shares a pod spec and its container names.
    pub fn share_spec(&mut self, spec: &mut Arc<PodSpec>) {
        let hasher = self.hasher.clone();
        let hash = |spec: &Arc<PodSpec>| hasher.hash_one(&spec.members);
        share(&mut self.specs, spec, hash, |a, b| a == b);
    }

    /// Shares a label map. If the map is new, shares its strings.
    pub fn share_labels(&mut self, labels: &mut Labels) {
        if labels.is_empty() {
            return;
        }
        let hash = self.hasher.hash_one(labels.pairs());
        if let Some(known) = self.labels.find(hash, |known| known == labels) {
            *labels = known.clone();
            return;
        }
        let mut pairs = labels.pairs().to_vec();
        for (key, value) in &mut pairs {
            self.share_text(key);
            self.share_text(value);
        }
        *labels = Labels::from_sorted(pairs);
        self.labels.insert_unique(hash, labels.clone(), |known| {
            self.hasher.hash_one(known.pairs())
        });
    }

    /// Shares an owner reference. If the reference is new, shares its strings.
    pub fn share_owner(&mut self, owner: &mut Arc<OwnerReference>) {
        let hash = self.hasher.hash_one(&**owner);
        if let Some(known) = self.owners.find(hash, |known| known == owner) {
            *owner = known.clone();
            return;
        }
        let fresh = Arc::make_mut(owner);
        self.share_text(&mut fresh.api_version);
        self.share_text(&mut fresh.kind);
        self.share_text(&mut fresh.name);
        self.owners
            .insert_unique(hash, owner.clone(), |known| self.hasher.hash_one(&**known));
    }

    /// Shares a string.
    pub fn share_text(&mut self, text: &mut Str) {
        // The empty string has no memory to share.
        if !text.is_empty() {
            let hasher = self.hasher.clone();
            let hash = |text: &Str| hasher.hash_one(text);
            share(&mut self.texts, text, hash, |a, b| a == b);
        }
    }

    /// Shares a selector.
    pub fn share_selector(&mut self, selector: &mut Arc<LabelSelector>) {
        if !selector.match_labels.is_empty() {
            self.share_labels(&mut Arc::make_mut(selector).match_labels);
        }
        let hasher = self.hasher.clone();
        let hash = |selector: &Arc<LabelSelector>| {
            let expressions = selector.match_expressions.iter();
            let keys: Vec<&str> = expressions.map(|requirement| &*requirement.key).collect();
            hasher.hash_one((selector.match_labels.pairs(), keys))
        };
        share(&mut self.selectors, selector, hash, |a, b| a == b);
    }

    /// Shares a pod template, its spec and its labels.
    pub fn share_template(&mut self, template: &mut Arc<PodTemplate>) {
        let fresh = Arc::make_mut(template);
        self.share_spec(&mut fresh.spec);
        self.share_meta(&mut fresh.metadata);
        if let Some(node_name) = &mut fresh.node_name {
            self.share_text(node_name);
        }
        // The spec is shared now, so its address identifies its content.
        let hasher = self.hasher.clone();
        let hash = |template: &Arc<PodTemplate>| {
            let spec = Arc::as_ptr(&template.spec).addr();
            hasher.hash_one((spec, template.metadata.labels.pairs()))
        };
        share(&mut self.templates, template, hash, |a, b| a == b);
    }

    /// Forgets everything that nothing else holds.
    pub fn shrink(&mut self) {
        // Templates and selectors hold specs and labels, and all of them hold texts.
        self.templates.retain(|known| Arc::strong_count(known) > 1);
        self.selectors.retain(|known| Arc::strong_count(known) > 1);
        self.specs.retain(|known| Arc::strong_count(known) > 1);
        self.labels.retain(|known| known.is_shared());
        self.owners.retain(|known| Arc::strong_count(known) > 1);
        self.condition_rests
            .retain(|known| Arc::strong_count(known) > 1);
        self.rests.retain(|known| known.is_shared());
        self.texts
            .retain(|known| Str::strong_count(known) > Some(1));
    }

    /// Shares the other members of the conditions. If they are new, shares their texts.
    fn share_condition_rests(&mut self, rests: &mut Arc<ConditionRests>) {
        let hash = self.hasher.hash_one(&**rests);
        if let Some(known) = self.condition_rests.find(hash, |known| known == rests) {
            *rests = known.clone();
            return;
        }
        for rest in Arc::make_mut(rests) {
            self.share_rest(rest);
        }
        self.condition_rests
            .insert_unique(hash, rests.clone(), |known| self.hasher.hash_one(&**known));
    }

    fn share_rest(&mut self, rest: &mut Rest) {
        if !rest.is_empty() {
            let hasher = self.hasher.clone();
            let hash = |rest: &Rest| hasher.hash_one(rest);
            share(&mut self.rests, rest, hash, |a, b| a == b);
        }
    }
}

/// Replaces `value` by the equal value in the table, or inserts it.
fn share<T: Clone>(
    table: &mut HashTable<T>,
    value: &mut T,
    hash: impl Fn(&T) -> u64,
    is_equal: impl Fn(&T, &T) -> bool,
) {
    match table.entry(hash(value), |known| is_equal(known, value), &hash) {
        Entry::Occupied(known) => *value = known.get().clone(),
        Entry::Vacant(place) => {
            place.insert(value.clone());
        }
    }
}

#[cfg(test)]
mod tests;
