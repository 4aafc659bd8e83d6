//! Which owners a claim has, by `persistentVolumeClaimRetentionPolicy`: a claim that is to go with its pod or its set is
//! owned by it, and garbage collection does the rest.
//!
//! Source: `stateful_set_utils.go` of Kubernetes' `pkg/controller/statefulset`.

use std::sync::Arc;

use podstorm_objects::{Kind, ObjectMeta, OwnerReference, OwnerReferences};
use serde_json::Value;

use super::identity::ordinal_of;
use super::spec::SetSpec;

/// What becomes of claims when their pod or set goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// They stay.
    #[default]
    Retain,
    /// They go, too.
    Delete,
    /// A text that Kubernetes doesn't define.
    Other,
}

/// `persistentVolumeClaimRetentionPolicy`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// When the set is deleted.
    pub when_deleted: Policy,
    /// When the set is scaled down.
    pub when_scaled: Policy,
}

impl RetentionPolicy {
    /// Reads it; absent, claims stay.
    pub fn read(value: &Value) -> RetentionPolicy {
        let policy = |name: &str| match value[name].as_str() {
            _ if value.is_null() => Policy::Retain,
            Some("Retain") => Policy::Retain,
            Some("Delete") => Policy::Delete,
            _ => Policy::Other,
        };
        RetentionPolicy {
            when_deleted: policy("whenDeleted"),
            when_scaled: policy("whenScaled"),
        }
    }
}

/// Who may own a claim: a set, and the pod of one ordinal.
#[derive(Clone, Debug)]
pub struct Owners {
    policy: RetentionPolicy,
    set: OwnerReference,
    /// Without a UID for a pod that is not created.
    pod: OwnerReference,
    is_out_of_range: bool,
}

impl Owners {
    /// The owners of the claims of a pod.
    pub fn new(set: &ObjectMeta, spec: &SetSpec, pod: &ObjectMeta) -> Owners {
        Owners {
            policy: spec.policy,
            set: Kind::STATEFUL_SET.controller_reference(set),
            pod: Kind::POD.controller_reference(pod),
            is_out_of_range: !spec.has_ordinal(ordinal_of(pod)),
        }
    }

    /// The owner that the policy wants.
    fn wanted(&self) -> Option<&OwnerReference> {
        let RetentionPolicy {
            when_deleted,
            when_scaled,
        } = self.policy;
        match (when_scaled, when_deleted) {
            (Policy::Delete, Policy::Retain | Policy::Delete) if self.is_out_of_range => {
                Some(&self.pod)
            }
            (Policy::Retain | Policy::Delete, Policy::Delete) => Some(&self.set),
            _ => None,
        }
    }

    /// Whether a claim belongs to the pod that had this one's name before.
    pub fn is_of_earlier_pod(&self, refs: &[Arc<OwnerReference>]) -> bool {
        is_stale(refs, &self.pod)
    }

    /// Whether something else controls the claim, or an earlier pod or set owns it. If claims stay anyway, it does not matter.
    pub fn has_unexpected_controller(&self, refs: &[Arc<OwnerReference>]) -> bool {
        let is_unexpected = |owner: &Arc<OwnerReference>| {
            let expected = [&self.set, &self.pod]
                .into_iter()
                .find(|it| is_named(owner, it));
            match expected {
                Some(expected) => owner.uid != expected.uid,
                None => owner.controller == Some(true),
            }
        };
        let stays = RetentionPolicy::default();
        self.policy != stays && refs.iter().any(is_unexpected)
    }

    /// Whether a claim has the owners that the policy wants, or must not be touched.
    pub fn are_up_to_date(&self, refs: &[Arc<OwnerReference>]) -> bool {
        let [has_set, has_pod] = [&self.set, &self.pod].map(|it| has(refs, it));
        if is_stale(refs, &self.set) || is_stale(refs, &self.pod) {
            return true;
        }
        if self.has_unexpected_controller(refs) {
            return !has_set && !has_pod;
        }
        let is_ours = |it: &Arc<OwnerReference>| it.uid == self.set.uid || it.uid == self.pod.uid;
        let has_non_controller = refs
            .iter()
            .any(|it| is_ours(it) && it.controller != Some(true));
        let wanted = self.wanted();
        let is_wanted = |owner: &OwnerReference| wanted.is_some_and(|it| std::ptr::eq(it, owner));
        let is_set_right = has_set == is_wanted(&self.set);
        !has_non_controller && is_set_right && has_pod == is_wanted(&self.pod)
    }

    /// The owners that a claim with these should have.
    pub fn corrected(&self, refs: &OwnerReferences) -> OwnerReferences {
        let mut corrected = refs.clone();
        corrected.retain(|it| !is_named(it, &self.set) && !is_named(it, &self.pod));
        if !self.has_unexpected_controller(refs)
            && let Some(wanted) = self.wanted()
            && !has(&corrected, wanted)
        {
            corrected.push(Arc::new(wanted.clone()));
        }
        corrected
    }
}

/// Whether a reference names an object, which may have another UID.
fn is_named(reference: &OwnerReference, object: &OwnerReference) -> bool {
    let key = |it: &OwnerReference| (it.api_version.clone(), it.kind.clone(), it.name.clone());
    key(reference) == key(object)
}

/// Whether the object of the name that the references have first is gone.
fn is_stale(refs: &[Arc<OwnerReference>], object: &OwnerReference) -> bool {
    let first = refs.iter().find(|it| is_named(it, object));
    first.is_some_and(|it| it.uid != object.uid)
}

fn has(refs: &[Arc<OwnerReference>], object: &OwnerReference) -> bool {
    refs.iter().any(|it| it.uid == object.uid)
}
