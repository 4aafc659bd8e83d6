//! Event handlers: they turn a cache change into observations for the expectations and keys for the
//! queue. They do nothing else and make no API call. A list of pods is handled in runs, so a start
//! with a million pods adds only a few thousand keys.

use podstorm_objects::{Now, ObjectMeta, Uid};
use podstorm_runtime::informer::Handler;
use podstorm_runtime::intern::KeyId;
use podstorm_runtime::owned::{OwnedHandlers, OwnedPod};
use podstorm_runtime::store::Keyed;

use super::Controller;
use super::owners::{Owner, OwnerChange};
use crate::cache::{Listed, OwnedPods, PodChange, PodRun};

const NS_PER_SECOND: i64 = 1_000_000_000;

impl Handler<Owner> for Controller {
    /// Adds the owner's key. If the owner was deleted, or replaced by another with the same name,
    /// first clears the expectations and records of the key.
    fn handle(&self, change: &OwnerChange, now: Now) {
        let gone = match (&change.last, &change.old, &change.new) {
            (Some(last), _, _) => Some(last),
            (None, Some(old), Some(new)) => {
                let is_replaced = old.object.metadata.uid != new.object.metadata.uid;
                is_replaced.then_some(&old.object)
            }
            _ => None,
        };
        if let Some(gone) = gone {
            self.forget_written(change.key, &gone.metadata.uid);
            self.expectations.delete(change.key);
        }
        self.queue.add(change.key, now.mono_ns);
    }

    fn keyed(&self) -> Option<&dyn Keyed> {
        Some(self)
    }
}

impl Keyed for Controller {
    fn is_idle(&self, key: KeyId) -> bool {
        self.queue.is_idle(key)
    }

    fn forget(&self, key: KeyId) {
        self.queue.forget(key);
        self.expectations.delete(key);
        self.guard.records.clear(&key, None);
        self.forget_unknown(key);
    }
}

impl Controller {
    fn forget_written(&self, key: KeyId, uid: &Uid) {
        if self.guard.rules.keeps_records {
            self.guard.records.clear(&key, Some(uid));
        }
        self.forget_unknown(key);
    }

    /// Handles a change that the caller has applied to the pod cache.
    #[inline]
    pub fn pod_changed(&self, change: &PodChange, now: Now) {
        let (old, new) = OwnedPod::states(change);
        self.dependent_changed(old, new, change.deleted, now);
    }

    /// Handles the changes from a list that the caller has put into the pod cache with
    /// [`crate::cache::PodCache::replace`]. The result equals that of handling the pods one by one
    /// in list order.
    pub fn pods_listed(&self, listed: &Listed, now: Now) {
        for change in &listed.changes {
            self.pod_changed(change, now);
        }
        for run in &listed.runs {
            self.handle_run(run, now);
        }
    }

    /// Handles the pods of one run: one observation per pod, but only one key for all of them.
    fn handle_run(&self, run: &PodRun, now: Now) {
        for pod in &run.others {
            let owned_pods = Some(&*run.owned_pods);
            self.dependent_added(OwnedPod { pod, owned_pods }, now);
        }
        if run.not_deleting > 0
            && let Some(key) = self.resolve(Some(&run.owned_pods))
        {
            for _ in 0..run.not_deleting {
                self.expectations.creation_observed(key);
            }
            self.queue.add(key, now.mono_ns);
        }
    }

    /// Adds the owner's key with a delay of `minReadySeconds` after one of its pods became ready.
    /// The pod becomes available after this delay, perhaps without an event.
    fn check_availability_later(&self, key: KeyId, now: Now) {
        let owner = self.owners.get(key);
        let seconds = owner.map_or(0, |owner| owner.object.spec.min_ready_seconds);
        if seconds > 0 {
            self.queue
                .add_after(key, i64::from(seconds) * NS_PER_SECOND, now.mono_ns);
        }
    }

    /// Returns the key of the cached owner to which the pods in `owned_pods` refer; `None` if the
    /// owner has another kind than this controller's, or is not in the cache.
    #[inline]
    pub(super) fn resolve(&self, owned_pods: Option<&OwnedPods>) -> Option<KeyId> {
        owned_pods
            .filter(|owned_pods| owned_pods.owner_kind() == Some(self.options.kind.name()))?
            .owner_key()
    }
}

impl OwnedHandlers for Controller {
    type Dependent<'a> = OwnedPod<'a>;

    const ENDS_GRACEFULLY: bool = true;

    #[inline]
    fn owner(&self, pod: OwnedPod<'_>) -> Option<KeyId> {
        self.resolve(pod.owned_pods)
    }

    fn wake_matching(&self, pod: &ObjectMeta, now: Now) {
        for (key, _) in self.owners.matching(&pod.namespace, &pod.labels) {
            self.queue.add(key, now.mono_ns);
        }
    }

    #[inline]
    fn wake(&self, owner: KeyId, now: Now) {
        self.queue.add(owner, now.mono_ns);
    }

    #[inline]
    fn creation_observed(&self, owner: KeyId) {
        self.expectations.creation_observed(owner);
    }

    #[inline]
    fn deletion_observed(&self, owner: KeyId, pod: &ObjectMeta) {
        self.expectations.deletion_observed(owner, &pod.name);
    }

    #[inline]
    fn updated(&self, owner: KeyId, old: OwnedPod<'_>, new: OwnedPod<'_>, now: Now) {
        if !old.pod.is_ready() && new.pod.is_ready() {
            self.check_availability_later(owner, now);
        }
    }

    #[inline]
    fn adopted(&self, orphan: &ObjectMeta, now: Now) {
        self.wake_other_matches(orphan, now);
    }

    #[inline]
    fn ended(&self, old: OwnedPod<'_>, last: OwnedPod<'_>, now: Now) {
        self.wake_previous_owners(old, last, now);
    }
}
