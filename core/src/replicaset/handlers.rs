//! Event handlers. They turn a change of the cache into observations (for the expectations) and
//! keys (for the queue). They do nothing else and make no API call.

use podstorm_objects::{Now, Pod, Uid};
use podstorm_runtime::intern::KeyId;

use super::Controller;
use super::owners::OwnerChange;
use crate::cache::{OwnedPods, PodChange};

const NS_PER_SECOND: i64 = 1_000_000_000;

impl Controller {
    /// Handles a change of the owners that the caller has applied. Added and updated owners are
    /// enqueued. An owner that is gone, or was replaced by another with the same name, first loses
    /// its expectations and records.
    pub fn owner_changed(&self, change: &OwnerChange, now: Now) {
        if let Some(last) = &change.last {
            self.forget_written(change.key, &last.metadata.uid);
            self.expectations.delete(change.key);
            self.queue.add(change.key, now.mono_ns);
        }
        if let Some(new) = &change.new {
            if let Some(old) = &change.old {
                let old_uid = &old.object.metadata.uid;
                if *old_uid != new.object.metadata.uid {
                    self.forget_written(change.key, old_uid);
                    self.expectations.delete(change.key);
                    self.queue.add(change.key, now.mono_ns);
                }
            }
            self.queue.add(change.key, now.mono_ns);
        }
    }

    fn forget_written(&self, key: KeyId, uid: &Uid) {
        if self.keeps_records {
            self.consistency.clear(&key, Some(uid));
        }
        self.hardened.forget(key);
    }

    /// Handles a change of the pod cache that the caller has applied.
    pub fn pod_changed(&self, change: &PodChange, now: Now) {
        let new = &change.new;
        if change.deleted {
            self.pod_deleted(new, change.new_owned_pods.as_deref(), now);
            self.wake_previous_owners(change, now);
            return;
        }
        match &change.old {
            None => self.handle_new_pod(new, change.new_owned_pods.as_deref(), now),
            Some(old) => self.pod_updated(old, change, now),
        }
    }

    /// Handles a pod that the cache did not know.
    pub(super) fn handle_new_pod(&self, pod: &Pod, owned_pods: Option<&OwnedPods>, now: Now) {
        if pod.metadata.is_deleting() {
            // First seen while it is terminating, so it never counts as a creation.
            self.pod_deleted(pod, owned_pods, now);
        } else {
            self.pod_added(pod, owned_pods, now);
        }
    }

    fn pod_added(&self, pod: &Pod, owned_pods: Option<&OwnedPods>, now: Now) {
        if pod.metadata.controller().is_some() {
            if let Some(key) = self.resolve(owned_pods) {
                self.expectations.creation_observed(key);
                self.queue.add(key, now.mono_ns);
            }
        } else {
            self.enqueue_matching(pod, now);
        }
    }

    fn pod_updated(&self, old: &Pod, change: &PodChange, now: Now) {
        let new = &*change.new;
        if old.metadata.resource_version == new.metadata.resource_version {
            return;
        }
        let (new_owned_pods, old_owned_pods) = (
            change.new_owned_pods.as_deref(),
            change.old_owned_pods.as_deref(),
        );
        let labels_changed = old.metadata.labels != new.metadata.labels;
        if new.metadata.is_deleting() {
            // A graceful deletion begins with an update. For counting, the pod is already gone.
            self.pod_deleted(new, new_owned_pods, now);
            if labels_changed {
                self.pod_deleted(old, old_owned_pods, now);
            }
            self.wake_previous_owners(change, now);
            return;
        }
        let controller_changed = old.metadata.controller() != new.metadata.controller();
        if controller_changed && old.metadata.controller().is_none() {
            self.wake_other_matches(old, now);
        } else if controller_changed && let Some(key) = self.resolve(old_owned_pods) {
            self.queue.add(key, now.mono_ns);
        }
        if new.metadata.controller().is_some() {
            let Some(key) = self.resolve(new_owned_pods) else {
                return;
            };
            self.queue.add(key, now.mono_ns);
            if !old.is_ready() && new.is_ready() {
                self.check_availability_later(key, now);
            }
            return;
        }
        if labels_changed || controller_changed {
            self.enqueue_matching(new, now);
        }
    }

    fn pod_deleted(&self, pod: &Pod, owned_pods: Option<&OwnedPods>, now: Now) {
        // No owner waits for the deletion of an orphan: it resolves to no owner.
        if let Some(key) = self.resolve(owned_pods) {
            self.expectations.deletion_observed(key, &pod.metadata.name);
            self.queue.add(key, now.mono_ns);
        }
    }

    /// A pod that has just become ready is available `minReadySeconds` later. No event may come
    /// then, so the owner's key is added with a delay.
    fn check_availability_later(&self, key: KeyId, now: Now) {
        let owner = self.owners.get(key);
        let seconds = owner.map_or(0, |owner| owner.object.spec.min_ready_seconds);
        if seconds > 0 {
            self.queue
                .add_after(key, i64::from(seconds) * NS_PER_SECOND, now.mono_ns);
        }
    }

    pub(super) fn enqueue_matching(&self, pod: &Pod, now: Now) {
        let meta = &pod.metadata;
        for (key, _) in self.owners.matching(&meta.namespace, &meta.labels) {
            self.queue.add(key, now.mono_ns);
        }
    }

    /// The key of the cached owner of this controller's kind to which a pod's controller reference
    /// resolves.
    pub(super) fn resolve(&self, owned_pods: Option<&OwnedPods>) -> Option<KeyId> {
        owned_pods
            .filter(|owned_pods| owned_pods.owner_kind() == Some(self.options.kind.name()))?
            .owner_key()
    }
}
