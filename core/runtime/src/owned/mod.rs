//! How events of owned objects affect their owners: which events observe a creation or a deletion,
//! and which owners they wake.
//!
//! Source: the handlers of dependents that all workload controllers in Kubernetes' `pkg/controller`
//! have in common: `addPod`, `updatePod`, `deletePod`, and those of ReplicaSets in `deployment`.

mod owners;

use podstorm_objects::{Now, ObjectMeta, Pod};

pub use owners::Owners;

use crate::cache::{OwnedPods, PodChange};
use crate::intern::KeyId;

/// An owned object in one state, with the data that leads to the object's owner.
pub trait Dependent: Copy {
    /// Returns the object's metadata.
    fn metadata(&self) -> &ObjectMeta;
}

impl Dependent for &ObjectMeta {
    fn metadata(&self) -> &ObjectMeta {
        self
    }
}

/// A pod in one state, with the owned pods of its controller or, if it is an orphan, the orphans of
/// its namespace. That list leads to the owner in one load.
#[derive(Clone, Copy, Debug)]
pub struct OwnedPod<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The list that contains the pod; `None` if there is none.
    pub owned_pods: Option<&'a OwnedPods>,
}

impl Dependent for OwnedPod<'_> {
    fn metadata(&self) -> &ObjectMeta {
        &self.pod.metadata
    }
}

impl<'a> OwnedPod<'a> {
    /// Returns the states before and after a change; `None` before it if the pod was not cached.
    #[inline]
    pub fn states(change: &'a PodChange) -> (Option<Self>, Self) {
        let (old, new) = (&change.old_owned_pods, &change.new_owned_pods);
        let old = change.old.as_deref().map(|pod| OwnedPod {
            pod,
            owned_pods: old.as_deref(),
        });
        let new = OwnedPod {
            pod: &change.new,
            owned_pods: new.as_deref(),
        };
        (old, new)
    }
}

/// The handlers for owned objects of one kind. A workload implements the lookup and the waking of
/// owners, and overrides the other methods that it needs.
pub trait OwnedHandlers {
    /// The type of an owned object in one state.
    type Dependent<'a>: Dependent;

    /// Whether an object that is being deleted counts as deleted. True for pods, whose deletion is
    /// graceful.
    const ENDS_GRACEFULLY: bool;

    /// Returns the key of the cached owner to which the object's controller reference resolves;
    /// `None` if there is none.
    fn owner(&self, object: Self::Dependent<'_>) -> Option<KeyId>;

    /// Wakes the owners that could adopt the object.
    fn wake_matching(&self, object: &ObjectMeta, now: Now);

    /// Wakes an owner.
    fn wake(&self, owner: KeyId, now: Now);

    /// Observes a creation, which the owner may await.
    fn creation_observed(&self, owner: KeyId) {
        let _ = owner;
    }

    /// Observes the deletion of `object`, which the owner may await.
    fn deletion_observed(&self, owner: KeyId, object: &ObjectMeta) {
        let _ = (owner, object);
    }

    /// Called after an object of this owner has changed and the owner was woken. Implementations
    /// schedule checks that must happen later.
    fn updated(&self, owner: KeyId, old: Self::Dependent<'_>, new: Self::Dependent<'_>, now: Now) {
        let _ = (owner, old, new, now);
    }

    /// Called when an orphan has gained a controller.
    fn adopted(&self, orphan: &ObjectMeta, now: Now) {
        let _ = (orphan, now);
    }

    /// Called when a known object was deleted, or now counts as deleted.
    fn ended(&self, old: Self::Dependent<'_>, last: Self::Dependent<'_>, now: Now) {
        let _ = (old, last, now);
    }

    /// Handles a change: `old` is the object before, `None` if it was not known; `new` is the
    /// object now or, if it is `gone`, its last state. The caches already have the change.
    #[inline]
    fn dependent_changed(
        &self,
        old: Option<Self::Dependent<'_>>,
        new: Self::Dependent<'_>,
        gone: bool,
        now: Now,
    ) {
        if gone {
            self.deleted(new, now);
            if let Some(old) = old {
                self.ended(old, new, now);
            }
            return;
        }
        match old {
            None => self.dependent_added(new, now),
            Some(old) => self.dependent_updated(old, new, now),
        }
    }

    /// Handles an object that was not known before.
    #[inline]
    fn dependent_added(&self, object: Self::Dependent<'_>, now: Now) {
        let meta = object.metadata();
        if meta.is_deleting() {
            // First seen while terminating, so it never counts as a creation.
            self.deleted(object, now);
        } else if meta.controller().is_none() {
            self.wake_matching(meta, now);
        } else if let Some(owner) = self.owner(object) {
            self.creation_observed(owner);
            self.wake(owner, now);
        }
    }

    /// Handles a change of a known object. If the version is the same, the object has not changed.
    #[inline]
    fn dependent_updated(&self, old: Self::Dependent<'_>, new: Self::Dependent<'_>, now: Now) {
        let (was, is) = (old.metadata(), new.metadata());
        if was.resource_version == is.resource_version {
            return;
        }
        let labels_changed = || was.labels != is.labels;
        if Self::ENDS_GRACEFULLY && is.is_deleting() {
            // A graceful deletion begins with an update. From then on, the object counts as
            // deleted.
            self.deleted(new, now);
            if labels_changed() {
                self.deleted(old, now);
            }
            self.ended(old, new, now);
            return;
        }
        let controller_changed = was.controller() != is.controller();
        if controller_changed && was.controller().is_none() {
            self.adopted(was, now);
        } else if controller_changed && let Some(owner) = self.owner(old) {
            self.wake(owner, now);
        }
        if is.controller().is_none() {
            if controller_changed || labels_changed() {
                self.wake_matching(is, now);
            }
        } else if let Some(owner) = self.owner(new) {
            self.wake(owner, now);
            self.updated(owner, old, new, now);
        }
    }

    /// Observes a deletion. Does nothing for an orphan, because no owner awaits its deletion.
    #[inline]
    fn deleted(&self, object: Self::Dependent<'_>, now: Now) {
        if let Some(owner) = self.owner(object) {
            self.deletion_observed(owner, object.metadata());
            self.wake(owner, now);
        }
    }
}

#[cfg(test)]
mod tests;
