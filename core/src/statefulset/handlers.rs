//! The events that wake a StatefulSet: its own changes and those of its pods. Changes of claims and
//! revisions wake nothing.
//!
//! Source: the event handlers in Kubernetes' `pkg/controller/statefulset`.

use podstorm_objects::{Kind, Now, ObjectMeta, Pod};
use podstorm_runtime::cache::{PodChange, PodRun};
use podstorm_runtime::informer::Handler;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::store::{Change, Keyed};

use super::Shared;
use super::cache::CachedSet;

const SECOND_NS: i64 = 1_000_000_000;

impl Handler<CachedSet> for Shared {
    fn handle(&self, change: &Change<CachedSet>, now: Now) {
        self.add(change.key, now);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

impl Keyed for Shared {
    fn is_idle(&self, key: KeyId) -> bool {
        self.queue[0].is_idle(key)
    }

    fn forget(&self, key: KeyId) {
        self.queue[0].forget(key);
        self.written.clear(&key, None);
        self.gauges.forget(key);
    }
}

impl Shared {
    /// Handles a change of a pod.
    pub(super) fn pod_changed(&self, change: &PodChange, now: Now) {
        match &change.old {
            _ if change.deleted => self.wake_owner(&change.new.metadata, now),
            None => self.pod_added(&change.new, now),
            Some(old) => self.pod_updated(old, &change.new, now),
        }
    }

    /// Handles a run from a list into an empty cache, with the same result as adding its pods one
    /// by one.
    pub(super) fn pods_added(&self, run: &PodRun, now: Now) {
        for pod in &run.others {
            self.pod_added(pod, now);
        }
        if run.not_deleting > 0
            && run.owned_pods.owner_kind() == Some(Kind::STATEFUL_SET.name())
            && let Some(pod) = run.any_pod()
        {
            self.wake_owner(&pod.metadata, now);
        }
    }

    fn pod_added(&self, pod: &Pod, now: Now) {
        let meta = &pod.metadata;
        if meta.is_deleting() || meta.controller().is_some() {
            self.wake_owner(meta, now);
        } else {
            self.add_matching(meta, now);
        }
    }

    fn pod_updated(&self, old: &Pod, pod: &Pod, now: Now) {
        let (was, is) = (&old.metadata, &pod.metadata);
        if was.resource_version == is.resource_version {
            return;
        }
        let is_moved = was.controller() != is.controller();
        if is_moved {
            self.wake_owner(was, now);
        }
        if is.controller().is_some() {
            let Some((key, set)) = self.resolve(is) else {
                return;
            };
            self.add(key, now);
            let seconds = i64::from(set.spec.read.min_ready_seconds);
            if seconds > 0 && !old.is_ready() && pod.is_ready() {
                self.queue[0].add_after(key, seconds * SECOND_NS, now.mono_ns);
            }
        } else if is_moved || was.labels != is.labels {
            self.add_matching(is, now);
        }
    }

    /// Adds the key of the set that controls a deleted pod.
    fn wake_owner(&self, pod: &ObjectMeta, now: Now) {
        if let Some((key, _)) = self.resolve(pod) {
            self.add(key, now);
        }
    }

    /// Adds the keys of the sets that could adopt an orphan.
    fn add_matching(&self, orphan: &ObjectMeta, now: Now) {
        for (key, _) in self.sets.matching(&orphan.namespace, &orphan.labels) {
            self.add(key, now);
        }
    }

    fn add(&self, key: KeyId, now: Now) {
        self.queue[0].add(key, now.mono_ns);
    }
}
