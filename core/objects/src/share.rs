//! Sharing among objects that were read apart: equal pod specs, label maps, texts, owner
//! references and unread members become one allocation each.
//!
//! Objects made by this program share already. Objects read from a dump or a list don't, and a
//! thousand pods of one template would hold a thousand specs. Passing each through a [`Sharer`]
//! right after it was read leaves one.

use std::sync::Arc;

use ahash::RandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::conditions::ConditionRests;
use super::{
    LabelSelector, Labels, ObjectMeta, OwnerReference, Pod, PodSpec, PodTemplate, ReplicaSet, Rest,
    Str,
};

/// Remembers what it has seen and replaces equal content by the first of its kind. It keeps all
/// it has seen alive, so drop it after reading, or [`Sharer::shrink`] it now and then.
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
    fn default() -> Self {
        Sharer::new()
    }
}

impl Sharer {
    /// An empty one.
    pub fn new() -> Sharer {
        Sharer {
            // Fixed seeds: iteration order is never seen, and runs must be alike.
            hasher: RandomState::with_seeds(1, 2, 3, 4),
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
            // Details that others hold too are not copied to share a part of them.
            if let Some(details) = status.details.as_mut().and_then(Arc::get_mut) {
                self.share_rest(&mut details.rest);
            }
        }
        self.share_rest(&mut pod.status.rest);
    }

    /// Shares what says where a pod runs, the names of its node: for a pod made of one whose other
    /// parts are shared. O(length of the names).
    pub fn share_place(&mut self, pod: &mut Pod) {
        if let Some(node_name) = &mut pod.node_name {
            self.share_text(node_name);
        }
        if let Some(started) = pod.status.started.as_mut().and_then(Arc::get_mut)
            && let Some(text) = started.host_ip.text_mut()
        {
            // Many pods run on a host; a pod's own address is no other's.
            self.share_text(text);
        }
    }

    /// Shares the parts of a ReplicaSet, whose template's spec is then also that of its pods
    /// where they are equal.
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

    /// Shares namespace, labels, annotations and owner references.
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

    /// Shares a pod spec and the container names taken out of it.
    pub fn share_spec(&mut self, spec: &mut Arc<PodSpec>) {
        let hash = |spec: &Arc<PodSpec>| self.hasher.hash_one(&spec.members);
        share(&mut self.specs, spec, hash, |a, b| a == b);
    }

    /// Shares a label map, and the texts of one not seen before.
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
        let hasher = &self.hasher;
        self.labels
            .insert_unique(hash, labels.clone(), |known| hasher.hash_one(known.pairs()));
    }

    /// Shares an owner reference, and the texts of one not seen before.
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
        let hasher = &self.hasher;
        self.owners
            .insert_unique(hash, owner.clone(), |known| hasher.hash_one(&**known));
    }

    /// Shares a text.
    pub fn share_text(&mut self, text: &mut Str) {
        // The empty text has no memory to share.
        if !text.is_empty() {
            let hash = |text: &Str| self.hasher.hash_one(text);
            share(&mut self.texts, text, hash, |a, b| a == b);
        }
    }

    /// Shares a selector.
    pub fn share_selector(&mut self, selector: &mut Arc<LabelSelector>) {
        if !selector.match_labels.is_empty() {
            self.share_labels(&mut Arc::make_mut(selector).match_labels);
        }
        let hash = |selector: &Arc<LabelSelector>| {
            let expressions = selector.match_expressions.iter();
            let keys: Vec<&str> = expressions.map(|requirement| &*requirement.key).collect();
            self.hasher.hash_one((selector.match_labels.pairs(), keys))
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
        // The spec is shared by now, so its address stands for its content.
        let hash = |template: &Arc<PodTemplate>| {
            let spec = Arc::as_ptr(&template.spec).addr();
            self.hasher
                .hash_one((spec, template.metadata.labels.pairs()))
        };
        share(&mut self.templates, template, hash, |a, b| a == b);
    }

    /// Forgets what nothing else uses any more.
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

    /// Shares what conditions say beside their states, and the texts of what was not seen before.
    fn share_condition_rests(&mut self, rests: &mut Arc<ConditionRests>) {
        let hash = self.hasher.hash_one(&**rests);
        if let Some(known) = self.condition_rests.find(hash, |known| known == rests) {
            *rests = known.clone();
            return;
        }
        for rest in Arc::make_mut(rests) {
            self.share_rest(rest);
        }
        let hasher = &self.hasher;
        self.condition_rests
            .insert_unique(hash, rests.clone(), |known| hasher.hash_one(&**known));
    }

    fn share_rest(&mut self, rest: &mut Rest) {
        if !rest.is_empty() {
            let hash = |rest: &Rest| self.hasher.hash_one(rest);
            share(&mut self.rests, rest, hash, |a, b| a == b);
        }
    }
}

/// Replaces `value` by the equal one in the table, or puts it there.
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
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Object, Resource};

    fn pod(name: &str, image: &str) -> Pod {
        Pod::from_json(json!({
            "metadata": {"name": name, "namespace": "shop", "labels": {"app": "web"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web",
                    "uid": "u", "controller": true}]},
            "spec": {"containers": [{"name": "c", "image": image}], "nodeName": "n1"},
            "status": {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}],
                "containerStatuses": [{"name": "c"}]}
        }))
        .unwrap()
    }

    #[test]
    fn equal_parts_of_pods_become_one() {
        let mut sharer = Sharer::new();
        let (mut a, mut b, mut c) = (pod("a", "x"), pod("b", "x"), pod("c", "y"));
        let before = [a.clone(), b.clone(), c.clone()];
        for pod in [&mut a, &mut b, &mut c] {
            sharer.share_pod(pod);
        }
        assert_eq!([a.clone(), b.clone(), c.clone()], before);
        assert!(Arc::ptr_eq(&a.spec, &b.spec));
        assert!(!Arc::ptr_eq(&a.spec, &c.spec));
        assert!(a.metadata.labels.is_same(&c.metadata.labels));
        assert!(Arc::ptr_eq(
            &a.metadata.owner_references[0],
            &c.metadata.owner_references[0]
        ));
        assert!(Str::ptr_eq(&a.metadata.namespace, &c.metadata.namespace));
        assert!(Str::ptr_eq(
            a.node_name.as_ref().unwrap(),
            c.node_name.as_ref().unwrap()
        ));
        let rest = |pod: &Pod| pod.status.conditions.get(0).unwrap().rest;
        assert!(rest(&a).is_same(&rest(&c)));
    }

    #[test]
    fn pods_that_run_apart_share_what_is_not_their_own() {
        let running = |name: &str, last: u8| {
            let address = |net: u8| format!("10.{net}.0.{last}");
            Pod::from_json(json!({
                "metadata": {"name": name},
                "status": {"qosClass": "Burstable",
                    "hostIP": "fd00::1", "hostIPs": [{"ip": "fd00::1"}],
                    "podIP": address(64), "podIPs": [{"ip": address(64)}],
                    "startTime": format!("2026-01-02T03:04:{last}Z"),
                    "containerStatuses": [{"name": "c", "image": "x", "imageID": "sha256:1",
                        "containerID": format!("containerd://{last:064x}"),
                        "state": {"running": {"startedAt": format!("2026-01-02T03:05:{last}Z")}}}]}
            }))
            .unwrap()
        };
        let mut sharer = Sharer::new();
        let (mut a, mut b) = (running("a", 10), running("b", 20));
        let before = [a.to_json(), b.to_json()];
        sharer.share_pod(&mut a);
        sharer.share_pod(&mut b);
        assert_eq!([a.to_json(), b.to_json()], before);
        assert!(a.status.rest.is_same(&b.status.rest));
        let details = |pod: &Pod| pod.status.container_statuses[0].details.clone().unwrap();
        assert!(details(&a).rest.is_same(&details(&b).rest));
        assert_ne!(details(&a), details(&b));
        let host = |pod: &mut Pod| {
            let start = Arc::make_mut(pod.status.started.as_mut().unwrap());
            start.host_ip.text_mut().unwrap().clone()
        };
        assert!(Str::ptr_eq(&host(&mut a), &host(&mut b)));
    }

    #[test]
    fn pods_that_admission_has_told_apart_share_the_spec() {
        let admitted = |volume: &str| {
            let container = json!({"name": "c", "volumeMounts": [{"name": volume}]});
            Pod::from_json(
                json!({"spec": {"volumes": [{"name": volume, "projected": {}}],
                "containers": [container], "initContainers": [container]}}),
            )
            .unwrap()
        };
        let mut sharer = Sharer::new();
        let mut pods = ["kube-api-access-b2c3d", "kube-api-access-x4x4x"].map(admitted);
        let before = pods.each_ref().map(Pod::to_json);
        for pod in &mut pods {
            sharer.share_pod(pod);
        }
        assert_eq!(pods.each_ref().map(Pod::to_json), before);
        let [a, b] = &pods;
        assert!(Arc::ptr_eq(&a.spec, &b.spec));
        assert_ne!(a, b);
    }

    #[test]
    fn a_template_and_its_pods_share_the_spec() {
        let mut sharer = Sharer::new();
        let read = || {
            ReplicaSet::from_json(json!({"metadata": {"name": "web", "uid": "u"}, "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {"metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "x"}]}}}}))
            .unwrap()
        };
        let (mut pod, mut one, mut two) = (pod("a", "x"), read(), read());
        sharer.share_pod(&mut pod);
        sharer.share_replica_set(&mut one);
        sharer.share_replica_set(&mut two);
        assert_eq!(one, read());
        assert!(Arc::ptr_eq(&pod.spec, &one.spec.template.spec));
        assert!(Arc::ptr_eq(&one.spec.template, &two.spec.template));
        assert!(Arc::ptr_eq(
            one.spec.selector.as_ref().unwrap(),
            two.spec.selector.as_ref().unwrap()
        ));
    }

    #[test]
    fn unused_parts_are_forgotten() {
        let mut sharer = Sharer::new();
        let mut kept = pod("a", "x");
        sharer.share_pod(&mut kept);
        sharer.share_pod(&mut pod("b", "y"));
        assert_eq!(sharer.specs.len(), 2);
        sharer.shrink();
        assert_eq!(sharer.specs.len(), 1);
        drop(kept);
        sharer.shrink();
        assert_eq!(
            sharer.specs.len() + sharer.labels.len() + sharer.owners.len(),
            0
        );
        assert_eq!(sharer.texts.len(), 0);
    }
}
